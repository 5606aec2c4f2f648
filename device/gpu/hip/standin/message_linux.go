package standin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// request and reply are the structs of forward.c.
type request struct {
	Call  [40]byte
	Arg   [12]uint64
	Bytes uint64 // that follow
}

type reply struct {
	Code  int64
	Out   [12]uint64
	Bytes uint64 // that follow
}

// properties is the struct of forward.c.
type properties struct {
	Name, Architecture                                    [64]byte
	Memory, Units, Wave, Shared, Threads, Cache, ClockKHz uint64
}

// maxMessage is the maximum number of bytes that follow a request.
const maxMessage = 1 << 30

// message is a call as it arrived.
type message struct {
	call       string
	arg        [12]uint64
	payload    []byte
	descriptor int // that came with it, or -1
}

// receive reads a message. The error is io.EOF if there is none.
func receive(c *net.UnixConn) (*message, error) {
	var header request
	head := make([]byte, binary.Size(header))
	control := make([]byte, syscall.CmsgSpace(4))
	n, controlBytes, _, _, err := c.ReadMsgUnix(head, control)
	if err != nil || n == 0 {
		return nil, errors.Join(err, io.EOF)
	}
	if _, err := io.ReadFull(c, head[n:]); err != nil {
		return nil, err
	}
	if _, err := binary.Decode(head, binary.NativeEndian, &header); err != nil {
		return nil, err
	}
	m := &message{call: text(header.Call[:]), arg: header.Arg, descriptor: -1}
	if controlBytes > 0 {
		if m.descriptor, err = passed(control[:controlBytes]); err != nil {
			return nil, err
		}
	}
	if header.Bytes > maxMessage {
		return nil, fmt.Errorf("%s: %d bytes follow, want at most %d", m.call, header.Bytes, maxMessage)
	}
	m.payload = make([]byte, header.Bytes)
	_, err = io.ReadFull(c, m.payload)
	return m, err
}

// passed returns the descriptor in a control message.
func passed(control []byte) (int, error) {
	list, err := syscall.ParseSocketControlMessage(control)
	if err != nil || len(list) != 1 {
		return -1, fmt.Errorf("%d control messages, want 1: %w", len(list), err)
	}
	descriptors, err := syscall.ParseUnixRights(&list[0])
	if err != nil || len(descriptors) != 1 {
		return -1, fmt.Errorf("%d descriptors, want 1: %w", len(descriptors), err)
	}
	return descriptors[0], nil
}

// send writes a reply.
func send(c *net.UnixConn, r *reply, payload []byte) error {
	r.Bytes = uint64(len(payload))
	b, err := binary.Append(nil, binary.NativeEndian, r)
	if err != nil {
		return err
	}
	_, err = c.Write(append(b, payload...))
	return err
}

func text(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}

// reader takes numbers and strings from a payload. After the first error everything is zero.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n uint64) []byte {
	if uint64(len(r.rest)) < n {
		if r.err == nil {
			r.err = fmt.Errorf("message ends early: got %d bytes, want %d", len(r.rest), n)
		}
		r.rest = nil
		return nil
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) number() uint64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return binary.NativeEndian.Uint64(b)
}

func (r *reader) string() string { return string(r.take(r.number())) }
