//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package shm

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxWaiting is the maximum number of received descriptors that are not yet taken.
const maxWaiting = 16

// Conn is one end of two connected Unix stream sockets. One goroutine may read while
// others write; writes do not interleave.
//
// A descriptor is sent with the first byte of its frame. It arrives no later than
// that byte, and descriptors arrive in order. So a reader that reads frames in
// order, with or without a buffer, calls [Conn.TakeFD] once for each descriptor
// that a frame announces and gets that frame's descriptors.
type Conn struct {
	socket *net.UnixConn

	reading sync.Mutex
	control []byte // buffer for recvmsg
	failure error  // after it, bytes and descriptors no longer match

	waiting  sync.Mutex
	received []int
	isClosed bool

	writing sync.Mutex
}

// Pair returns two connected ends: the host's, and the child's as a file to
// inherit. The host must close the file once the child has it; otherwise its reads
// do not end when the child dies.
func Pair() (*Conn, *os.File, error) {
	ends, err := socketPair()
	if err != nil {
		return nil, nil, &Error{Op: "pair", Cause: os.NewSyscallError("socketpair", err)}
	}
	host, err := FromFD(ends[0])
	if err != nil {
		unix.Close(ends[1])
		return nil, nil, err
	}
	return host, os.NewFile(uintptr(ends[1]), "kernel socket"), nil
}

// FromFD returns a connection for an inherited descriptor. It always closes fd.
// Programs started later do not inherit the connection.
func FromFD(fd int) (*Conn, error) {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
		return nil, &Error{Op: "connect", Reason: ErrNotSocket, Cause: os.NewSyscallError("fcntl", err)}
	}
	unix.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "kernel socket")
	defer file.Close()
	// FileConn works on a duplicate of its own.
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, &Error{Op: "connect", Reason: ErrNotSocket, Cause: err}
	}
	socket, isUnix := conn.(*net.UnixConn)
	if !isUnix || socket.LocalAddr().Network() != "unix" {
		conn.Close()
		return nil, &Error{Op: "connect", Reason: ErrNotSocket}
	}
	return newConn(socket), nil
}

func newConn(socket *net.UnixConn) *Conn {
	return &Conn{socket: socket, control: make([]byte, unix.CmsgSpace(4*maxWaiting))}
}

// Read reads bytes and keeps descriptors that come with them for [Conn.TakeFD]. If
// too many descriptors are waiting, it fails, and so does every later Read.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.failure != nil {
		return 0, c.failure
	}
	n, controlBytes, flags, _, err := c.socket.ReadMsgUnix(p, c.control)
	if controlBytes > 0 || flags&unix.MSG_CTRUNC != 0 {
		if err := c.receive(c.control[:controlBytes], flags); err != nil {
			c.failure = err
			return 0, err
		}
	}
	if errors.Is(err, io.EOF) {
		err = io.EOF // callers compare with ==
	}
	return max(n, 0), err // n is -1 after a failure
}

// receive queues the descriptors of one message, or closes them if there is an error.
func (c *Conn) receive(control []byte, flags int) error {
	var fds []int
	messages, err := unix.ParseSocketControlMessage(control)
	for i := range messages {
		if got, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	c.waiting.Lock()
	defer c.waiting.Unlock()
	count := len(fds) + len(c.received)
	switch {
	case err != nil:
		err = &Error{Op: "read", Cause: os.NewSyscallError("recvmsg", err)}
	case flags&unix.MSG_CTRUNC != 0:
		// The system has dropped descriptors that did not fit in c.control or in
		// the descriptor table of this process.
		err = &Error{Op: "read", Reason: ErrDescriptors, Got: int64(count + 1), Want: maxWaiting}
	case count > maxWaiting:
		err = &Error{Op: "read", Reason: ErrDescriptors, Got: int64(count), Want: maxWaiting}
	case c.isClosed:
		err = net.ErrClosed
	default:
		c.received = append(c.received, fds...)
		return nil
	}
	closeAll(fds)
	return err
}

// TakeFD returns the oldest received descriptor that has not been taken. The caller
// owns it.
func (c *Conn) TakeFD() (fd int, ok bool) {
	c.waiting.Lock()
	defer c.waiting.Unlock()
	if len(c.received) == 0 {
		return -1, false
	}
	fd = c.received[0]
	c.received = c.received[1:]
	return fd, true
}

// Write writes all of p and sends duplicates of the descriptors with its first byte.
// After an error with n > 0 the peer has received part of p.
func (c *Conn) Write(p []byte, fds ...int) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if len(fds) > 0 {
		if n, err = c.writeFirst(p, fds); err != nil {
			return n, err
		}
	}
	if n == len(p) {
		return n, nil
	}
	rest, err := c.socket.Write(p[n:])
	return n + rest, err
}

// WriteBuffers writes the buffers like one [Conn.Write] of all, without copying them.
// Like [net.Buffers] it consumes the slice, not the bytes.
func (c *Conn) WriteBuffers(buffers net.Buffers, fds ...int) (n int64, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for len(buffers) > 0 && len(buffers[0]) == 0 {
		buffers = buffers[1:]
	}
	if len(fds) > 0 {
		var first []byte
		if len(buffers) > 0 {
			first = buffers[0]
		}
		sent, err := c.writeFirst(first, fds)
		if err != nil {
			return int64(sent), err
		}
		buffers[0] = first[sent:]
		n = int64(sent)
	}
	rest, err := buffers.WriteTo(c.socket)
	return n + rest, err
}

// writeFirst sends the descriptors with the first bytes of p, and returns how many.
func (c *Conn) writeFirst(p []byte, fds []int) (int, error) {
	if len(p) == 0 {
		return 0, &Error{Op: "write", Reason: ErrNoFirstByte}
	}
	if len(fds) > maxWaiting {
		return 0, &Error{Op: "write", Reason: ErrDescriptors, Got: int64(len(fds)), Want: maxWaiting}
	}
	n, _, err := c.socket.WriteMsgUnix(p, unix.UnixRights(fds...), nil)
	return n, err
}

// Close closes the connection and the descriptors that have not been taken. Pending
// reads and writes return [net.ErrClosed]. A second call does nothing.
func (c *Conn) Close() error {
	c.waiting.Lock()
	closeAll(c.received)
	c.received = nil
	c.isClosed = true
	c.waiting.Unlock()
	if err := c.socket.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// CloseWrite closes the writing side: the peer reads the end of its input.
func (c *Conn) CloseWrite() error { return c.socket.CloseWrite() }

// SetDeadline sets the deadline of reads and writes, like that of [net.Conn].
func (c *Conn) SetDeadline(t time.Time) error { return c.socket.SetDeadline(t) }

// SetReadDeadline sets the deadline of reads.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.socket.SetReadDeadline(t) }

// SetWriteDeadline sets the deadline of writes.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.socket.SetWriteDeadline(t) }

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// socketPair returns a pair of sockets that programs started by other goroutines do not
// inherit.
func socketPair() ([2]int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(ends[0])
		unix.CloseOnExec(ends[1])
	}
	return ends, err
}
