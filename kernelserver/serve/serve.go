// Package serve implements kernel processes: it reads the requests of docs/protocol.md,
// runs them on one device, and answers.
//
// Three goroutines work for a connection. The reader takes frames off it and acts on
// CANCEL at once. The executor answers requests one after another. The writer sends what
// has been answered, several replies at a time. None of the queues between them grows
// without bound: the reader waits while as many requests wait as may, the executor while
// the client does not read its replies. So a client that never reads stops being read,
// and nothing more happens until it reads or closes its end, which is always noticed.
//
// Memory is counted in one account: bodies of frames from when they are announced, data of
// replies until they are sent, handles, arenas, and what a call needs beside them. Reading
// ahead takes no more than a quarter of the limit.
//
// Canceling a request ends it before its next call. A call that has begun runs to its end.
//
// Start with FD. reader.go has the way in, execute.go and call.go the requests, writer.go
// the way out, account.go the memory.
package serve

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/kernelserver/process"
	"tokitai/kernelserver/protocol"
	"tokitai/kernelserver/shm"
	"tokitai/op"
)

// DefaultMaxFrame is the longest body that is accepted where nothing else is said.
const DefaultMaxFrame = 1 << 30

// Options are what a server may be told. All but Operations have defaults.
type Options struct {
	Operations []*op.Operation // whose definitions can be called
	Device     string          // as Open takes it; "" is auto

	// Open opens a device by name; nil is cpu.Open.
	Open func(name string) (engine.Device, error)

	MaxFrame    int64        // the longest body that is accepted, in bytes; 0 is DefaultMaxFrame
	MemoryLimit int64        // of tensors, frames and arenas together; 0 is three quarters of the machine's memory
	Build       string       // what the program is, for the client; "" is what the build recorded
	Log         *slog.Logger // nil is the default one

	// OwnsProcess says that the process does nothing else. Descriptors that it inherited are
	// then closed, but for 0 to 2 and the socket; interrupts are left to the parent; and the
	// collector keeps garbage within the memory limit.
	OwnsProcess bool

	// In tests: called when calls have been checked, to fail them, and when everything has
	// been given back.
	beforeRun func() error
	wait      func()
}

// The exit codes of a process that serves.
const (
	ExitEnd       = 0  // the other end closed between frames
	ExitRefused   = 2  // no HELLO, no common version, or a stream that cannot be read on
	ExitDevice    = 10 // no device, or it is lost
	ExitTruncated = 21 // the other end closed within a frame
)

// ExitError is why a server ended, with the exit code for it.
type ExitError struct {
	Code  int
	Cause error
}

func (e *ExitError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Cause }

// transport is a connection.
type transport struct {
	in     io.Reader
	out    io.Writer
	socket *shm.Conn       // nil where there is no shared memory
	gone   <-chan struct{} // closed when the other end is; nil where only reading tells
}

// FD serves on an inherited end of a pair of Unix stream sockets, which it takes over. It
// returns when the other end is closed, at once even while a kernel runs: the caller then
// has to end the process, whose memory is still in use. It is an *ExitError unless that
// happened between frames.
func FD(fd int, o Options) error {
	gone, err := watch(fd)
	if err != nil {
		return &ExitError{Code: ExitRefused, Cause: err}
	}
	conn, err := shm.FromFD(fd)
	if err != nil {
		return &ExitError{Code: ExitRefused, Cause: err}
	}
	if o.OwnsProcess {
		if err := ownProcess(); err != nil {
			return &ExitError{Code: ExitRefused, Cause: err}
		}
	}
	return run(transport{in: conn, out: socketWriter{conn}, socket: conn, gone: gone}, o)
}

// Pipes serves on two streams, without shared memory. At the end of the input it first
// answers what it has read.
func Pipes(in io.Reader, out io.Writer, o Options) error {
	if o.OwnsProcess {
		if err := ownProcess(); err != nil {
			return &ExitError{Code: ExitRefused, Cause: err}
		}
	}
	return run(transport{in: in, out: out}, o)
}

// ownProcess closes what was inherited, which what Go has opened never looks like. A pipe
// that nobody reads is an error of writing.
func ownProcess() error {
	signal.Ignore(syscall.SIGPIPE)
	return process.CloseOthers(2)
}

// socketWriter writes without descriptors.
type socketWriter struct{ conn *shm.Conn }

func (w socketWriter) Write(p []byte) (int, error) { return w.conn.Write(p) }

func (w socketWriter) writeBuffers(b net.Buffers) error {
	_, err := w.conn.WriteBuffers(b)
	return err
}

// hasArenas reports whether the connection carries shared memory.
func (t *transport) hasArenas() bool { return t.socket != nil && runtime.GOOS == "linux" }

// server is one connection and the device behind it.
type server struct {
	Options
	transport
	generation  uint64
	definitions *catalog

	device      device.Device
	deviceErr   error
	queues      [8]*engine.Queue // the same one, by policy, bad index and admission
	memory      account
	replies     writer
	waiting     chan *request
	descriptors chan struct{} // has an element for each that waits
	discardOnly chan struct{} // closed when nobody reads replies any more

	mu      sync.Mutex
	pending map[uint64]*request // that have been read and not answered

	ending sync.Once
	ended  chan struct{}
	end    error

	executor
}

const (
	maxWaiting     = 1024 // requests that wait to be executed
	maxDescriptors = 16   // among them, those that came with one
)

func run(t transport, o Options) error {
	s := &server{
		Options: o, transport: t, definitions: newCatalog(o.Operations), pending: map[uint64]*request{},
		waiting: make(chan *request, maxWaiting), descriptors: make(chan struct{}, maxDescriptors), ended: make(chan struct{}), discardOnly: make(chan struct{}),
	}
	if err := s.open(); err != nil {
		return &ExitError{Code: ExitDevice, Cause: err}
	}
	s.replies.init(t.out, &s.memory)
	s.executor.init(s)
	if s.gone != nil {
		go s.watchGone()
	}
	var work sync.WaitGroup
	for _, f := range []func(){s.read, s.execute, s.write} {
		work.Go(f)
	}
	<-s.ended
	s.cancelAll()
	s.replies.stop()
	s.memory.stop()
	if s.socket != nil {
		s.socket.CloseWrite() // closing alone leaves what watch holds
		s.socket.Close()
	}
	go func() { // a kernel may still run in that memory
		work.Wait()
		s.giveBack()
		if s.wait != nil {
			s.wait()
		}
	}()
	return s.end
}

// open opens the device. That there is none is for the client to hear.
func (s *server) open() error {
	var random [8]byte
	rand.Read(random[:])
	s.generation = binary.LittleEndian.Uint64(random[:])
	s.newest = s.generation &^ (1<<32 - 1) // so that handles of another process are none
	if s.Device == "" {
		s.Device = "auto"
	}
	if s.Build == "" {
		s.Build = buildOf()
	}
	if s.Open == nil {
		s.Open = cpu.Open
	}
	if s.MaxFrame == 0 {
		s.MaxFrame = DefaultMaxFrame
	}
	var queue *engine.Queue
	if s.device, s.deviceErr = s.Open(s.Device); s.deviceErr == nil {
		queue, s.deviceErr = engine.NewQueue(s.device, engine.WithLog(s.Log))
	}
	for i := range s.queues {
		s.queues[i] = queue.With(engine.WithPolicy(engine.Policy(i&1)), engine.WithBadIndex(engine.BadIndex(i>>1&1)), engine.WithAdmission(engine.Admission(i>>2)))
	}
	if s.MemoryLimit == 0 {
		host, err := cpu.New(cpu.Options{})
		if err != nil {
			return err
		}
		if s.MemoryLimit = host.Describe().MemoryBytes / 4 * 3; s.MemoryLimit == 0 {
			s.MemoryLimit = math.MaxInt64
		}
		host.Close()
	}
	s.memory.init(s.MemoryLimit)
	if s.OwnsProcess {
		debug.SetMemoryLimit(s.MemoryLimit)
	}
	if s.device != nil {
		s.memory.device = s.device.Name()
	}
	return nil
}

// buildOf is the program as its build recorded it.
func buildOf() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return runtime.Version()
	}
	build := info.Main.Path + " " + info.Main.Version + " " + info.GoVersion
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			build += " revision " + s.Value
		}
	}
	return build
}

// finish ends the server; the first reason counts.
func (s *server) finish(code int, cause error) {
	s.ending.Do(func() {
		if code != ExitEnd {
			s.end = &ExitError{Code: code, Cause: cause}
		}
		close(s.ended)
	})
}

// watchGone lets nobody wait for a client that is gone. The reader then finds the end of
// the stream, and whether it lies within a frame.
func (s *server) watchGone() {
	select {
	case <-s.gone:
		close(s.discardOnly)
		s.memory.stop()
	case <-s.ended:
	}
}

// giveBack closes what the client left behind.
func (s *server) giveBack() {
	for {
		select {
		case r, ok := <-s.waiting:
			if !ok {
				s.closeExecutor()
				return
			}
			r.closeDescriptor()
			continue
		default:
		}
		s.closeExecutor()
		return
	}
}

// cancel ends a request that waits or runs.
func (s *server) cancel(request uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.pending[request]; r != nil {
		r.isCanceled = true
		if r.cancel != nil {
			r.cancel()
		}
	}
}

// cancelAll ends what waits or runs, which nobody wants any more.
func (s *server) cancelAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.pending {
		r.isCanceled = true
		if r.cancel != nil {
			r.cancel()
		}
	}
}

// begin is false for a request that is canceled already. A call can be canceled while it
// runs too, by its context.
func (s *server) begin(r *request) (context.Context, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.isCanceled {
		return nil, false
	}
	if r.header.Kind != protocol.KindCall {
		return nil, true
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	return ctx, true
}

// remember enters a request that has been read; it is false where one of that number has
// not been answered yet.
func (s *server) remember(r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending[r.header.Request] != nil {
		return false
	}
	s.pending[r.header.Request] = r
	return true
}

// forget removes a request that is about to be answered.
func (s *server) forget(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.cancel != nil {
		r.cancel()
	}
	if s.pending[r.header.Request] == r {
		delete(s.pending, r.header.Request)
	}
}

func malformed(format string, args ...any) error {
	return &protocol.Failure{Code: protocol.CodeMalformed, Message: fmt.Sprintf(format, args...)}
}

var errCanceled = &protocol.Failure{Code: protocol.CodeCanceled, Message: "canceled before it began"}

var errEnd = errors.New("the other end was closed within a frame")
