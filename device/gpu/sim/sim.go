// Package sim implements device/gpu's table of driver calls with the host's memory and
// processor. A program is a shared library, compiled by the host's compiler. Launch runs
// a kernel to its end, so streams are always done.
//
// The library exports
//
//	int tokitai_sim_launch(const char* entry, const unsigned grid[3], const unsigned block[3],
//	                       unsigned shared_bytes, const void* params, unsigned long params_bytes,
//	                       unsigned warp, char* message, unsigned long message_bytes);
//	void tokitai_sim_order(unsigned long seed);
//
// The first returns 0, or another code and a message if the kernel is at fault. If the
// library lacks the entry, the message begins with "no kernel". An empty grid runs
// nothing, so a launch of one looks up an entry.
//
// Device memory is allocated by the C library.
//
// Two environment variables add checks to those that are always made. They are read when
// a device is opened.
//
//	TOKITAI_SIM_SEED   an integer: seed of the order in which blocks, warps and lanes run; 0 is ascending
//	TOKITAI_SIM_CHECK  races: unordered accesses of two threads to a word of memory are a fault
package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"tokitai/device"
	"tokitai/device/cpu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
	"tokitai/internal/dl"
	"tokitai/internal/leftover"
)

// Properties of the simulated device. A block of a warp width of 32 has as much shared memory
// as on a Hopper GPU, whose instructions the simulator knows.
const (
	multiprocessors = 4
	threadsPerBlock = 1024
	alignment       = 256
	sharedBytes32   = 227 << 10
	sharedBytes64   = 64 << 10
)

// Width is the default warp width.
const Width = 32

var errWidth = errors.New("the warp width is 32 or 64")

// ParseWidth returns the warp width that the id of a device's name is. An empty id is Width.
func ParseWidth(id string) (int, error) {
	switch id {
	case "":
		return Width, nil
	case "32":
		return 32, nil
	case "64":
		return 64, nil
	}
	return 0, errWidth
}

// Table returns the table for a warp width, 32 or 64, which is also the index of its one
// device. It opens the C library on first use.
func Table(width int) (*driver.Table, error) {
	if width != 32 && width != 64 {
		return nil, &device.NoDeviceError{Name: name(width), Known: []string{"sim", "sim:64"}, Reason: errWidth.Error()}
	}
	checks, err := readChecks()
	if err != nil {
		return nil, &device.NoDeviceError{Name: name(width), Reason: err.Error()}
	}
	s, err := open()
	if err != nil {
		return nil, err
	}
	return s.table(width, checks), nil
}

// checks are the checks that the environment asks for.
type checks struct {
	seed  uint64 // of the order of blocks, warps and lanes
	races bool
}

func readChecks() (c checks, err error) {
	if text := os.Getenv("TOKITAI_SIM_SEED"); text != "" {
		if c.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return c, fmt.Errorf("TOKITAI_SIM_SEED: got %q, want an integer from 0 to %d", text, uint64(math.MaxUint64))
		}
	}
	text := os.Getenv("TOKITAI_SIM_CHECK")
	if c.races = text == "races"; !c.races && text != "" {
		return c, fmt.Errorf("TOKITAI_SIM_CHECK: got %q, want races", text)
	}
	return c, nil
}

var open = sync.OnceValues(func() (*simulator, error) {
	libc, err := dl.Open(dl.Request{What: "the C library", Files: []string{"libc.so.6"}, Hint: "the simulator needs glibc"})
	if err != nil {
		return nil, &device.NoDeviceError{Name: "sim", Reason: err.Error()}
	}
	host, err := cpu.New(cpu.Options{})
	if err != nil {
		return nil, &device.NoDeviceError{Name: "sim", Reason: err.Error()}
	}
	s := &simulator{
		limit:     host.Usage().LimitBytes,
		processor: host.Describe().Name,
		blocks:    map[driver.Pointer]int64{},
		modules:   map[driver.Module]*program{},
		functions: map[driver.Function]*kernel{},
		events:    map[driver.Event]time.Time{},
		frames:    sync.Pool{New: func() any { return new(frame) }},
	}
	host.Close()
	for name, proc := range map[string]*dl.Proc{"aligned_alloc": &s.alignedAlloc, "free": &s.free} {
		if *proc, err = libc.Proc(name); err != nil {
			return nil, &device.NoDeviceError{Name: "sim", Reason: err.Error()}
		}
	}
	return s, nil
})

type simulator struct {
	limit              int64
	processor          string
	alignedAlloc, free dl.Proc
	frames             sync.Pool

	mu        sync.Mutex
	next      uintptr // the last handle
	used      int64
	blocks    map[driver.Pointer]int64
	modules   map[driver.Module]*program
	functions map[driver.Function]*kernel
	events    map[driver.Event]time.Time
}

type program struct {
	library *dl.Library
	file    string // kept if it has line numbers, which reports of races look up; otherwise empty
	forget  func() // tells package leftover that the file is removed
}

type kernel struct {
	module driver.Module
	entry  []byte // ends in 0
	launch dl.Proc
}

// frame is the heap memory of one launch.
type frame struct {
	args        [9]uintptr
	grid, block [3]uint32
	keep        [2]unsafe.Pointer
	message     [1024]byte
}

func name(index int) string {
	if index == 32 {
		return "sim"
	}
	return fmt.Sprintf("sim:%d", index)
}

func (s *simulator) properties(width int) driver.Properties {
	p := driver.Properties{
		Name: "simulator", Architecture: fmt.Sprintf("sim%d", width), MemoryBytes: s.limit, Multiprocessors: multiprocessors,
		WarpWidth: width, ThreadsPerBlock: threadsPerBlock, SharedBytes: sharedBytes32,
	}
	if width == 64 {
		p.SharedBytes = sharedBytes64
	}
	if s.processor != "" {
		p.Name += " on " + s.processor
	}
	return p
}

func (s *simulator) handle() uintptr {
	s.next++
	return s.next
}

// view returns memory of the C library as bytes.
func view(p driver.Pointer, bytes int64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), bytes)
}

func nothing[T any](T) error { return nil }

func (s *simulator) table(width int, c checks) *driver.Table {
	t := &driver.Table{
		Kind:       "sim",
		Name:       name,
		Version:    "simulator",
		Count:      func() (int, error) { return 1, nil },
		Properties: func(int) (driver.Properties, error) { return s.properties(width), nil },

		Retain:     func(int) (driver.Context, error) { return driver.Context(width), nil },
		Release:    nothing[int],
		SetCurrent: nothing[driver.Context],
		Compiler:   func(int) (compile.Compiler, error) { return openCompiler() },
		Compile:    c.build,

		Alloc:      s.alloc,
		Free:       s.freeBlock,
		MemoryInfo: s.memoryInfo,
		AllocHost:  func(bytes int) ([]byte, error) { return make([]byte, bytes), nil },
		FreeHost:   nothing[[]byte],

		CopyIn: func(dst driver.Pointer, src []byte, _ driver.Stream) error {
			copy(view(dst, int64(len(src))), src)
			return nil
		},
		CopyOut: func(dst []byte, src driver.Pointer, _ driver.Stream) error {
			copy(dst, view(src, int64(len(dst))))
			return nil
		},
		Copy: func(dst, src driver.Pointer, bytes int64, _ driver.Stream) error {
			copy(view(dst, bytes), view(src, bytes))
			return nil
		},
		Fill: func(dst driver.Pointer, value byte, bytes int64, _ driver.Stream) error {
			memory := view(dst, bytes)
			if value == 0 {
				clear(memory)
				return nil
			}
			for i := range memory {
				memory[i] = value
			}
			return nil
		},

		NewStream:     s.newStream,
		DestroyStream: nothing[driver.Stream],
		SyncStream:    nothing[driver.Stream],
		StreamDone:    func(driver.Stream) (bool, error) { return true, nil },

		NewEvent:     s.newEvent,
		DestroyEvent: s.destroyEvent,
		Record:       s.record,
		SyncEvent:    nothing[driver.Event],
		EventDone:    func(driver.Event) (bool, error) { return true, nil },
		WaitEvent:    func(driver.Stream, driver.Event) error { return nil },
		Elapsed:      s.elapsed,

		Load:      func(image []byte) (driver.Module, error) { return s.load(image, c) },
		Unload:    s.unload,
		Lookup:    s.lookup,
		SetShared: func(driver.Function, int) error { return nil },
		Launch: func(f driver.Function, grid, block [3]uint32, shared uint32, _ driver.Stream, params []byte) error {
			return s.launch(width, f, grid, block, shared, params)
		},

		EncodeTensorMap: encodeTensorMap,
	}
	driver.ReplayGraphs(t)
	return t
}

// openCompiler returns the host's C++ compiler.
func openCompiler() (compile.Compiler, error) {
	c, err := compile.OpenHost()
	if err != nil {
		return nil, err // not a nil *Host in an interface
	}
	return c, nil
}

func (c checks) build(_ int, source compile.Source) (*compile.Program, error) {
	compiler, err := openCompiler()
	if err != nil {
		return nil, err
	}
	architecture := "sim"
	if c.races {
		architecture = compile.Races
	}
	return compile.Default().Compile(compiler, architecture, source)
}

func (s *simulator) alloc(bytes int64) (driver.Pointer, error) {
	failed := &driver.Error{Call: "aligned_alloc", Text: "out of memory", Class: driver.OutOfMemory}
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes > s.limit-s.used {
		return 0, failed
	}
	size := (bytes + alignment - 1) / alignment * alignment
	p := driver.Pointer(s.alignedAlloc.Call([]uintptr{alignment, uintptr(size)}))
	if p == 0 {
		return 0, failed
	}
	s.blocks[p] = bytes
	s.used += bytes
	return p, nil
}

func (s *simulator) freeBlock(p driver.Pointer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes, ok := s.blocks[p]
	if !ok {
		return &driver.Error{Call: "free", Text: fmt.Sprintf("%#x was not allocated", uint64(p))}
	}
	delete(s.blocks, p)
	s.used -= bytes
	s.free.Call([]uintptr{uintptr(p)})
	return nil
}

func (s *simulator) memoryInfo() (free, total int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit - s.used, s.limit, nil
}

func (s *simulator) newStream() (driver.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return driver.Stream(s.handle()), nil
}

func (s *simulator) newEvent(bool) (driver.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := driver.Event(s.handle())
	s.events[e] = time.Time{}
	return e, nil
}

func (s *simulator) destroyEvent(e driver.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.events, e)
	return nil
}

func (s *simulator) record(e driver.Event, _ driver.Stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[e] = time.Now()
	return nil
}

func (s *simulator) elapsed(start, end driver.Event) (float64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.events[end].Sub(s.events[start])) / float64(time.Millisecond), nil
}

// load opens a program from a file with a new name: the loader takes two files of the
// same name for one library.
func (s *simulator) load(image []byte, c checks) (driver.Module, error) {
	var f *os.File
	forget, err := leftover.Make(func() (func(), error) {
		var err error
		f, err = os.CreateTemp("", "tokitai-sim-*.so")
		return func() { os.Remove(f.Name()) }, err
	})
	if err != nil {
		return 0, fmt.Errorf("load: %w", err)
	}
	p := &program{file: f.Name(), forget: forget}
	_, err = f.Write(image)
	if err = errors.Join(err, f.Close()); err == nil {
		p.library, err = dl.Open(dl.Request{What: "the program", Files: []string{p.file}})
	}
	if err != nil || !bytes.Contains(image, []byte(".debug_line\x00")) {
		os.Remove(p.file)
		forget()
		p.file = ""
	}
	if err != nil {
		return 0, fmt.Errorf("load: %w", err)
	}
	if c.seed != 0 {
		order, err := p.library.Proc("tokitai_sim_order")
		if err != nil {
			return 0, errors.Join(errNoRuntime, p.close())
		}
		order.Call([]uintptr{uintptr(c.seed)})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := driver.Module(s.handle())
	s.modules[m] = p
	return m, nil
}

var errNoRuntime = errors.New("the program lacks the simulator's runtime, tokitai_sim_launch and tokitai_sim_order")

func (p *program) close() error {
	err := p.library.Close()
	if p.file != "" {
		err = errors.Join(err, os.Remove(p.file))
		p.forget()
	}
	return err
}

func (s *simulator) unload(m driver.Module) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.modules[m]
	delete(s.modules, m)
	for f, k := range s.functions {
		if k.module == m {
			delete(s.functions, f)
		}
	}
	return p.close()
}

func (s *simulator) lookup(m driver.Module, entry string) (driver.Function, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	launch, err := s.modules[m].library.Proc("tokitai_sim_launch")
	if err != nil {
		return 0, errNoRuntime
	}
	k := &kernel{module: m, entry: append([]byte(entry), 0), launch: launch}
	if err := s.run(k, 32, [3]uint32{}, [3]uint32{}, 0, nil); err != nil && strings.HasPrefix(err.Message, "no kernel") {
		return 0, &driver.Error{Call: "lookup", Text: fmt.Sprintf("the program has no kernel %q", entry)}
	}
	f := driver.Function(s.handle())
	s.functions[f] = k
	return f, nil
}

// launch runs a kernel to its end.
func (s *simulator) launch(width int, fn driver.Function, grid, block [3]uint32, shared uint32, params []byte) error {
	s.mu.Lock()
	k := s.functions[fn]
	s.mu.Unlock()
	if err := s.run(k, width, grid, block, shared, params); err != nil {
		return err
	}
	return nil
}

func (s *simulator) run(k *kernel, width int, grid, block [3]uint32, shared uint32, params []byte) *driver.LaunchError {
	f := s.frames.Get().(*frame)
	f.grid, f.block = grid, block
	f.message[0] = 0
	f.keep[0] = unsafe.Pointer(&k.entry[0])
	f.keep[1] = unsafe.Pointer(unsafe.SliceData(params))
	f.args = [9]uintptr{uintptr(f.keep[0]), uintptr(unsafe.Pointer(&f.grid)), uintptr(unsafe.Pointer(&f.block)), uintptr(shared),
		uintptr(f.keep[1]), uintptr(len(params)), uintptr(width), uintptr(unsafe.Pointer(&f.message)), uintptr(len(f.message))}
	code := int32(k.launch.Call(f.args[:]))
	var err *driver.LaunchError
	if code != 0 {
		text, _, _ := bytes.Cut(f.message[:], []byte{0})
		err = &driver.LaunchError{Entry: string(k.entry[:len(k.entry)-1]), Message: string(text)}
	}
	f.keep = [2]unsafe.Pointer{}
	s.frames.Put(f)
	return err
}
