package standin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"

	"tokitai/amdgpu/codeobject"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
)

// Codes of hipError_t, and of hiprtcResult.
const (
	codeInvalidValue  = 1
	codeOutOfMemory   = 2
	codeNoDevice      = 100
	codeInvalidDevice = 101
	codeInvalidImage  = 200
	codeNoBinary      = 209
	codeInvalidHandle = 400
	codeNotFound      = 500
	codeNotReady      = 600
	codeIllegal       = 700
	codeLaunchFailure = 719
	codeUnknown       = 999

	rtcCompilation = 6
)

// server serves devices to processes that have opened the library.
type server struct {
	devices   []*driver.Table // hip:0 and so on: each is the first device of a driver
	compiler  func() (compile.Compiler, error)
	arguments func(image []byte, architecture, entry string) ([]argument, error)

	mu       sync.Mutex
	sessions map[int32]*session // by the number of the process
}

// version is what hipRuntimeGetVersion returns: 6.4.43484.
const version = 60443484

// argument is an argument of a kernel, the struct of forward.c: where its bytes are in the
// memory of all arguments.
type argument struct{ Offset, Size uint32 }

// session is a process that uses the devices, and what it has created.
type session struct {
	*server
	threads int // connections

	mu     sync.Mutex
	host   map[uint64][]byte         // mapped memory, by its address in the process
	images map[resource][]byte       // code objects
	live   map[resource]func() error // and how it is destroyed
}

// resource is something created, by its device and the call that destroys it.
type resource struct {
	device  int
	destroy string
	handle  uint64
}

// thread is a connection: a thread of a process, and the device that is current there.
type thread struct {
	*session
	device int
	table  *driver.Table
}

// serve answers until the listener is closed.
func (s *server) serve(l *net.UnixListener) error {
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		pid, err := peer(c)
		if err != nil {
			c.Close()
			return err
		}
		t := &thread{session: s.join(pid)}
		go func() {
			defer s.leave(pid)
			defer c.Close()
			t.answer(c)
		}()
	}
}

// peer returns the number of the process at the other end.
func peer(c *net.UnixConn) (int32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *syscall.Ucred
	var failure error
	err = raw.Control(func(fd uintptr) {
		credentials, failure = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, failure); err != nil {
		return 0, err
	}
	return credentials.Pid, nil
}

func (s *server) join(pid int32) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.sessions[pid]
	if at == nil {
		at = &session{server: s, host: map[uint64][]byte{}, images: map[resource][]byte{}, live: map[resource]func() error{}}
		if s.sessions == nil {
			s.sessions = map[int32]*session{}
		}
		s.sessions[pid] = at
	}
	at.threads++
	return at
}

// leave ends a connection. With its last one, a process has ended: what it leaves behind is
// freed.
func (s *server) leave(pid int32) {
	s.mu.Lock()
	at := s.sessions[pid]
	at.threads--
	isLast := at.threads == 0
	if isLast {
		delete(s.sessions, pid)
	}
	s.mu.Unlock()
	if isLast {
		for _, destroy := range at.live {
			destroy()
		}
		for _, memory := range at.host {
			syscall.Munmap(memory)
		}
	}
}

// answer answers the calls of a thread.
func (t *thread) answer(c *net.UnixConn) {
	for {
		m, err := receive(c)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintf(os.Stderr, "stand-in: %v\n", err)
			}
			return
		}
		var r reply
		payload, err := t.handle(m, &r)
		if err != nil {
			r.Code = code(err)
			if _, isKnown := errors.AsType[codeError](err); !isKnown {
				fmt.Fprintf(os.Stderr, "stand-in: %s: %v\n", m.call, err) // the caller gets only a number
			}
		}
		if send(c, &r, payload) != nil {
			return
		}
	}
}

// codeError is an error with a code of HIP's.
type codeError int64

func (e codeError) Error() string { return fmt.Sprintf("code %d", int64(e)) }

func code(err error) int64 {
	if known, ok := errors.AsType[codeError](err); ok {
		return int64(known)
	}
	if _, ok := errors.AsType[*driver.LaunchError](err); ok {
		return codeLaunchFailure
	}
	if e, ok := errors.AsType[*driver.Error](err); ok {
		switch e.Class {
		case driver.OutOfMemory:
			return codeOutOfMemory
		case driver.Lost:
			return codeIllegal
		}
	}
	return codeUnknown
}

// created remembers something that a call made.
func (t *thread) created(destroy string, handle uint64, err error, free func() error, r *reply) error {
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.live[resource{t.device, destroy, handle}] = free
	t.mu.Unlock()
	r.Out[0] = handle
	return nil
}

// destroy destroys what a call has made. A handle that none has made is an error.
func (t *thread) destroy(m *message) error {
	key := resource{t.device, m.call, m.arg[0]}
	t.mu.Lock()
	free := t.live[key]
	delete(t.live, key)
	delete(t.images, key)
	t.mu.Unlock()
	if free == nil {
		return codeError(codeInvalidHandle)
	}
	return free()
}

// hostMemory returns memory of the process that is mapped here.
func (s *session) hostMemory(at, bytes uint64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for start, memory := range s.host {
		if at >= start && at-start <= uint64(len(memory)) && bytes <= uint64(len(memory))-(at-start) {
			return memory[at-start:][:bytes], nil
		}
	}
	return nil, codeError(codeInvalidValue)
}

// setDevice makes a device current on the thread.
func (t *thread) setDevice(number uint64) error {
	if number >= uint64(len(t.devices)) {
		return codeError(codeInvalidDevice)
	}
	t.device, t.table = int(number), t.devices[number]
	return nil
}

func (s *session) properties(number uint64) ([]byte, error) {
	if number >= uint64(len(s.devices)) {
		return nil, codeError(codeInvalidDevice)
	}
	p, err := s.devices[number].Properties(0)
	if err != nil {
		return nil, err
	}
	made := properties{Memory: uint64(p.MemoryBytes), Units: uint64(p.Multiprocessors), Wave: uint64(p.WarpWidth), Shared: uint64(p.SharedBytes),
		Threads: uint64(p.ThreadsPerBlock), Cache: uint64(p.CacheBytes), ClockKHz: uint64(p.ClockHz / 1e3)}
	architecture := p.Architecture
	if strings.HasPrefix(architecture, "gfx9") {
		architecture += ":sramecc+:xnack-" // as AMD's library says it
	}
	copy(made.Name[:63], p.Name)
	copy(made.Architecture[:63], architecture)
	return binary.Append(nil, binary.NativeEndian, &made)
}

// compile compiles a program of hipRTC's. The result is a code object, or what the compiler
// says.
func (s *session) compile(m *message) ([]byte, error) {
	from := &reader{rest: m.payload}
	var architecture string
	for range from.number() {
		name, value, _ := strings.Cut(from.string(), "=")
		if name == "--offload-arch" || name == "--gpu-architecture" {
			architecture = value
		}
	}
	source := compile.Source{Name: from.string(), Text: from.string()}
	for len(from.rest) > 0 {
		source.Headers = append(source.Headers, compile.Header{Name: from.string(), Text: from.string()})
	}
	if from.err != nil {
		return nil, from.err
	}
	compiler, err := s.compiler()
	if err != nil {
		return []byte(err.Error()), codeError(rtcCompilation)
	}
	p, err := compiler.Compile(architecture, source)
	if failed, ok := errors.AsType[*compile.Error](err); ok {
		return []byte(failed.Log), codeError(rtcCompilation)
	}
	if err != nil {
		return []byte(err.Error()), codeError(rtcCompilation)
	}
	return p.Image, nil
}

// load loads a code object, and keeps it for the arguments of its kernels.
func (t *thread) load(m *message, r *reply) error {
	table := t.table
	made, err := table.Load(m.payload)
	if err != nil {
		fmt.Fprintf(os.Stderr, "stand-in: %v\n", err)
		if _, ok := errors.AsType[*codeobject.ArchitectureError](err); ok {
			return codeError(codeNoBinary)
		}
		return codeError(codeInvalidImage)
	}
	const unload = "hipModuleUnload"
	t.mu.Lock()
	t.images[resource{t.device, unload, uint64(made)}] = m.payload
	t.mu.Unlock()
	return t.created(unload, uint64(made), nil, func() error { return table.Unload(made) }, r)
}

func (t *thread) lookup(m *message, r *reply) ([]byte, error) {
	f, err := t.table.Lookup(driver.Module(m.arg[0]), string(m.payload))
	if err != nil {
		return nil, codeError(codeNotFound)
	}
	t.mu.Lock()
	image := t.images[resource{t.device, "hipModuleUnload", m.arg[0]}]
	t.mu.Unlock()
	p, err := t.table.Properties(0)
	if err != nil {
		return nil, err
	}
	list, err := t.arguments(image, p.Architecture, string(m.payload))
	if err != nil {
		return nil, err
	}
	r.Out[0] = uint64(f)
	for _, a := range list {
		r.Out[1] = max(r.Out[1], uint64(a.Offset)+uint64(a.Size))
	}
	return binary.Append(nil, binary.NativeEndian, list)
}

// handle makes one call on the driver.
func (t *thread) handle(m *message, r *reply) (payload []byte, err error) {
	if t.table == nil { // the first device is current on every thread
		if len(t.devices) == 0 {
			return nil, codeError(codeNoDevice)
		}
		t.setDevice(0)
	}
	d, a := t.table, &m.arg
	stream := func(i int) driver.Stream { return driver.Stream(a[i]) }
	event := func(i int) driver.Event { return driver.Event(a[i]) }
	ready := func(done bool, err error) error {
		if err == nil && !done {
			return codeError(codeNotReady)
		}
		return err
	}
	switch m.call {
	case "hipInit":
	case "hipRuntimeGetVersion":
		r.Out[0] = version
	case "hipGetDeviceCount":
		r.Out[0] = uint64(len(t.devices))
	case "hipSetDevice":
		return nil, t.setDevice(a[0])
	case "properties":
		return t.properties(a[0])

	case "hipFree", "hipStreamDestroy", "hipEventDestroy", "hipModuleUnload":
		return nil, t.destroy(m)

	case "hipMalloc":
		p, err := d.Alloc(int64(a[0]))
		return nil, t.created("hipFree", uint64(p), err, func() error { return d.Free(p) }, r)
	case "hipMemGetInfo":
		free, total, err := d.MemoryInfo()
		r.Out[0], r.Out[1] = uint64(free), uint64(total)
		return nil, err
	case "hipHostMalloc":
		memory, err := syscall.Mmap(m.descriptor, 0, int(a[1]), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		syscall.Close(m.descriptor)
		if err != nil {
			return nil, codeError(codeOutOfMemory)
		}
		t.mu.Lock()
		t.host[a[0]] = memory
		t.mu.Unlock()
	case "hipHostFree":
		t.mu.Lock()
		memory := t.host[a[0]]
		delete(t.host, a[0])
		t.mu.Unlock()
		return nil, syscall.Munmap(memory)
	case "hipMemcpyHtoDAsync":
		if a[1] == 0 { // not shared: its bytes follow
			return nil, errors.Join(d.CopyIn(driver.Pointer(a[0]), m.payload, stream(3)), d.SyncStream(stream(3)))
		}
		from, err := t.hostMemory(a[1], a[2])
		if err != nil {
			return nil, err
		}
		return nil, d.CopyIn(driver.Pointer(a[0]), from, stream(3))
	case "hipMemcpyDtoHAsync":
		if a[0] == 0 {
			to := make([]byte, a[2])
			return to, errors.Join(d.CopyOut(to, driver.Pointer(a[1]), stream(3)), d.SyncStream(stream(3)))
		}
		to, err := t.hostMemory(a[0], a[2])
		if err != nil {
			return nil, err
		}
		return nil, d.CopyOut(to, driver.Pointer(a[1]), stream(3))
	case "hipMemcpyDtoDAsync":
		return nil, d.Copy(driver.Pointer(a[0]), driver.Pointer(a[1]), int64(a[2]), stream(3))
	case "hipMemsetD8Async":
		return nil, d.Fill(driver.Pointer(a[0]), byte(a[1]), int64(a[2]), stream(3))

	case "hipStreamCreateWithFlags":
		made, err := d.NewStream()
		return nil, t.created("hipStreamDestroy", uint64(made), err, func() error { return d.DestroyStream(made) }, r)
	case "hipStreamSynchronize":
		return nil, d.SyncStream(stream(0))
	case "hipStreamQuery":
		return nil, ready(d.StreamDone(stream(0)))
	case "hipStreamWaitEvent":
		return nil, d.WaitEvent(stream(0), event(1))
	case "hipEventCreateWithFlags":
		const disableTiming = 2
		made, err := d.NewEvent(a[0]&disableTiming == 0)
		return nil, t.created("hipEventDestroy", uint64(made), err, func() error { return d.DestroyEvent(made) }, r)
	case "hipEventRecord":
		return nil, d.Record(event(0), stream(1))
	case "hipEventSynchronize":
		return nil, d.SyncEvent(event(0))
	case "hipEventQuery":
		return nil, ready(d.EventDone(event(0)))
	case "hipEventElapsedTime":
		ms, err := d.Elapsed(event(0), event(1))
		r.Out[0] = uint64(math.Float32bits(float32(ms)))
		return nil, err

	case "hipModuleLoadData":
		return nil, t.load(m, r)
	case "hipModuleGetFunction":
		return t.lookup(m, r)
	case "hipModuleLaunchKernel":
		size := func(i int) [3]uint32 { return [3]uint32{uint32(a[i]), uint32(a[i+1]), uint32(a[i+2])} }
		f := driver.Function(a[0])
		if a[7] > 0 { // HIP has no such call
			if err := d.SetShared(f, int(a[7])); err != nil {
				return nil, err
			}
		}
		return nil, d.Launch(f, size(1), size(4), uint32(a[7]), stream(8), m.payload)

	case "hiprtcCompileProgram":
		return t.compile(m)
	default:
		return nil, fmt.Errorf("unknown call %q", m.call)
	}
	return nil, nil
}
