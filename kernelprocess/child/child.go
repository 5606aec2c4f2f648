// Package child implements kernel processes: it reads the requests of docs/protocol.md,
// runs them on one device, and answers.
//
// Three goroutines serve a connection. The reader reads frames and acts on CANCEL at once. The
// executor answers requests one after another. The writer sends replies, several at a time.
// The queues between them are bounded: the reader waits while the maximum number of requests
// is waiting, the executor while the client does not read its replies. So a client that
// never reads is not read either, until it reads or closes its end, which is always noticed.
//
// One account counts all memory: bodies of frames from their announcement on, data of replies
// until they are sent, handles, arenas, and what calls need in addition. Reading ahead takes
// at most a quarter of the limit.
//
// Canceling a request ends it before its next call. A call that has begun runs to its end.
//
// Start with FD. Frames are read in reader.go, requests executed in execute.go, call.go and judge.go,
// replies sent in writer.go, and memory counted in account.go.
package child

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
	"tokitai/kernelprocess/protocol"
	"tokitai/kernelprocess/shm"
	"tokitai/kernelprocess/spawn"
	"tokitai/op"
)

// DefaultMaxFrame is the longest accepted body by default.
const DefaultMaxFrame = 1 << 30

// Options configures a server. All fields but Operations have defaults.
type Options struct {
	Operations []*op.Operation // whose definitions can be called
	Device     string          // as Open takes it; "" is auto

	// Open opens a device by name; nil is cpu.Open.
	Open func(name string) (engine.Device, error)

	// Judge answers JUDGE and TRUTH; nil refuses them as unsupported.
	Judge Judge

	MaxFrame    int64        // the longest body that is accepted, in bytes; 0 is DefaultMaxFrame
	MemoryLimit int64        // of tensors, frames and arenas together; 0 is three quarters of the machine's memory
	Build       string       // what the program is, for the client; "" is what the build recorded
	Log         *slog.Logger // nil is the default one

	// OwnsProcess says that the process does nothing else. Then inherited descriptors other
	// than 0 to 2 and the socket are closed, interrupts are left to the parent, and the
	// garbage collector respects the memory limit.
	OwnsProcess bool

	// For tests: called when calls have been checked, to make them fail, and when all memory
	// has been released.
	beforeRun func() error
	wait      func()
}

// Exit codes of a kernel process.
const (
	ExitEnd       = 0  // the other end closed between frames
	ExitRefused   = 2  // no HELLO, no common version, or a stream that cannot be read on
	ExitDevice    = 10 // no device, or it is lost
	ExitTruncated = 21 // the other end closed within a frame
)

// ExitError reports why a server ended, with its exit code.
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

// FD serves on an inherited end of a pair of Unix stream sockets, which it closes. It returns
// as soon as the other end is closed, even while a kernel runs: the caller must then end the
// process, because its memory is still in use. The error is nil if the other end was closed
// between frames, otherwise an *ExitError.
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

// Pipes serves on two streams, without shared memory. At the end of the input it answers the
// requests that it has read, and returns.
func Pipes(in io.Reader, out io.Writer, o Options) error {
	if o.OwnsProcess {
		if err := ownProcess(); err != nil {
			return &ExitError{Code: ExitRefused, Cause: err}
		}
	}
	return run(transport{in: in, out: out}, o)
}

// ownProcess closes inherited descriptors, which differ from those that Go has opened, and
// makes writing to a closed pipe an error.
func ownProcess() error {
	signal.Ignore(syscall.SIGPIPE)
	return spawn.CloseOthers(2)
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

// server serves one connection with one device.
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

// open opens the device. An error is sent to the client.
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

// buildOf returns the build information of the program.
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

// finish ends the server. The first call determines the reason.
func (s *server) finish(code int, cause error) {
	s.ending.Do(func() {
		if code != ExitEnd {
			s.end = &ExitError{Code: code, Cause: cause}
		}
		close(s.ended)
	})
}

// watchGone ends all waiting when the client is gone. The reader then finds the end of the
// stream, and whether it is within a frame.
func (s *server) watchGone() {
	select {
	case <-s.gone:
		close(s.discardOnly)
		s.memory.stop()
	case <-s.ended:
	}
}

// giveBack releases what the client has left.
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

// cancel cancels a request that waits or runs.
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

// cancelAll cancels all requests that wait or run.
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

// begin marks a request as running. It returns false if the request has been canceled. A call or
// a judge that runs can still be canceled, by its context.
func (s *server) begin(r *request) (context.Context, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.isCanceled {
		return nil, false
	}
	switch r.header.Kind {
	case protocol.KindCall, protocol.KindJudge, protocol.KindTruth:
	default:
		return nil, true
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	return ctx, true
}

// remember adds a request that has been read. It returns false if one of the same number has
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
