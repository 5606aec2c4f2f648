// Package amdemu implements device/gpu's table of driver calls with emulated GPUs of AMD: it
// loads the code objects that compilers make for a GPU and executes their instructions, one
// after another, on the host's processor.
//
// What runs are AMD's instructions, as AMD's documents define them, and not AMD's hardware:
// neither its speed, nor its caches, nor a deviation of a GPU from the documents shows. In
// return, every access to memory is checked, an error names the instruction and the line of
// the source, and results that AMD documents only within an error vary with a seed.
//
// A launch runs to its end, so streams are always done. Work groups run on as many goroutines
// as GOMAXPROCS allows. Memory has addresses of its own, with gaps between blocks.
//
// Package codeobject reads code objects, isa decodes instructions and wave executes them.
//
// Two environment variables are read when a device is opened:
//
//	TOKITAI_AMDEMU_SEED    an integer: varies approximations, the order of work groups and of waves, and
//	                       what registers and LDS hold at the start; 0 rounds correctly, in ascending order
//	TOKITAI_AMDEMU_BUDGET  the most instructions that the waves of one launch execute
package amdemu

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tokitai/amdgpu/isa"
	"tokitai/device"
	"tokitai/device/cpu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
)

// Kind is the kind of the devices.
const Kind = "amdemu"

// Default is the architecture of a device whose name has none.
const Default = "gfx1100"

// Architectures lists the architectures that are emulated.
var Architectures = []string{Default, "gfx1101", "gfx1102", "gfx90a", "gfx942"}

// Caveat says what a result from an emulated device means. It is part of the device's
// description, so that no report can be mistaken for one from hardware.
const Caveat = "emulated instructions, not hardware"

// Properties of all emulated devices. Few multiprocessors keep launches small.
const (
	multiprocessors = 4
	threadsPerBlock = 1024
	sharedBytes     = 64 << 10
)

const (
	defaultSeed   = 1
	defaultBudget = 1 << 32
)

// CheckArchitecture returns an error if an architecture is not emulated. An empty one is
// Default.
func CheckArchitecture(architecture string) error {
	if architecture != "" && !slices.Contains(Architectures, architecture) {
		return fmt.Errorf("%q is not an emulated architecture, want one of %s", architecture, strings.Join(Architectures, ", "))
	}
	return nil
}

// Table returns the table of a new device of an architecture. The device's index is 0.
func Table(architecture string) (*driver.Table, error) {
	if architecture == "" {
		architecture = Default
	}
	refuse := func(err error) (*driver.Table, error) {
		return nil, &device.NoDeviceError{Name: name(architecture), Reason: err.Error()}
	}
	if err := CheckArchitecture(architecture); err != nil {
		return refuse(err)
	}
	s, err := readSettings()
	if err != nil {
		return refuse(err)
	}
	set, err := isa.Lookup(architecture)
	if err != nil {
		return refuse(err)
	}
	host, err := cpu.New(cpu.Options{})
	if err != nil {
		return refuse(err)
	}
	defer host.Close()
	e := &emulator{
		set: set, settings: s,
		memory:    memory{limit: host.Usage().LimitBytes},
		modules:   map[driver.Module]*module{},
		functions: map[driver.Function]*kernel{},
		events:    map[driver.Event]time.Time{},
	}
	return e.table(), nil
}

func name(architecture string) string { return Kind + ":" + architecture }

// settings are what the environment asks for.
type settings struct {
	seed   uint64
	budget int64
}

func readSettings() (s settings, err error) {
	s = settings{seed: defaultSeed, budget: defaultBudget}
	if text := os.Getenv("TOKITAI_AMDEMU_SEED"); text != "" {
		if s.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return s, fmt.Errorf("TOKITAI_AMDEMU_SEED: got %q, want an integer from 0 to %d", text, uint64(math.MaxUint64))
		}
	}
	if text := os.Getenv("TOKITAI_AMDEMU_BUDGET"); text != "" {
		if s.budget, err = strconv.ParseInt(text, 10, 64); err != nil || s.budget < 1 {
			return s, fmt.Errorf("TOKITAI_AMDEMU_BUDGET: got %q, want an integer from 1 to %d", text, int64(math.MaxInt64))
		}
	}
	return s, nil
}

// emulator is one emulated device.
type emulator struct {
	set      isa.Architecture
	settings settings
	memory   memory

	mu        sync.Mutex
	next      uintptr // the last handle
	modules   map[driver.Module]*module
	functions map[driver.Function]*kernel
	events    map[driver.Event]time.Time
}

func (e *emulator) handle() uintptr {
	e.next++
	return e.next
}

func (e *emulator) properties() driver.Properties {
	return driver.Properties{
		Name: "emulated " + e.set.Name, Architecture: e.set.Name, MemoryBytes: e.memory.limit, Multiprocessors: multiprocessors,
		WarpWidth: e.set.Family.Lanes(), ThreadsPerBlock: threadsPerBlock, SharedBytes: sharedBytes, Caveat: Caveat,
	}
}

func nothing[T any](T) error { return nil }

func (e *emulator) table() *driver.Table {
	t := &driver.Table{
		Kind:       Kind,
		Name:       func(int) string { return name(e.set.Name) },
		Version:    "AMD emulator: " + Caveat,
		Count:      func() (int, error) { return 1, nil },
		Properties: func(int) (driver.Properties, error) { return e.properties(), nil },

		Retain:     func(int) (driver.Context, error) { return 1, nil },
		Release:    nothing[int],
		SetCurrent: nothing[driver.Context],
		Compiler:   openCompiler,
		Compile:    e.compile,

		Alloc:      e.memory.alloc,
		Free:       e.memory.release,
		MemoryInfo: e.memory.info,
		AllocHost:  func(bytes int) ([]byte, error) { return make([]byte, bytes), nil },
		FreeHost:   nothing[[]byte],

		CopyIn:  func(dst driver.Pointer, src []byte, _ driver.Stream) error { return e.memory.copyIn(dst, src) },
		CopyOut: func(dst []byte, src driver.Pointer, _ driver.Stream) error { return e.memory.copyOut(dst, src) },
		Copy: func(dst, src driver.Pointer, bytes int64, _ driver.Stream) error {
			return e.memory.copy(dst, src, bytes)
		},
		Fill: func(dst driver.Pointer, value byte, bytes int64, _ driver.Stream) error {
			return e.memory.fill(dst, value, bytes)
		},

		NewStream:     e.newStream,
		DestroyStream: nothing[driver.Stream],
		SyncStream:    nothing[driver.Stream],
		StreamDone:    func(driver.Stream) (bool, error) { return true, nil },

		NewEvent:     e.newEvent,
		DestroyEvent: e.destroyEvent,
		Record:       e.record,
		SyncEvent:    nothing[driver.Event],
		EventDone:    func(driver.Event) (bool, error) { return true, nil },
		WaitEvent:    func(driver.Stream, driver.Event) error { return nil },
		Elapsed:      e.elapsed,

		Load:      e.load,
		Unload:    e.unload,
		Lookup:    e.lookup,
		SetShared: func(driver.Function, int) error { return nil },
		Launch: func(f driver.Function, grid, block [3]uint32, shared uint32, _ driver.Stream, params []byte) error {
			return e.launch(f, grid, block, shared, params)
		},
	}
	driver.ReplayGraphs(t)
	return t
}

// openCompiler returns clang, which compiles with tables of source lines.
func openCompiler(int) (compile.Compiler, error) {
	c, err := compile.OpenClang()
	if err != nil {
		return nil, err // not a nil *Clang in an interface
	}
	return c.WithLines(), nil
}

func (e *emulator) compile(_ int, source compile.Source) (*compile.Program, error) {
	compiler, err := openCompiler(0)
	if err != nil {
		return nil, err
	}
	return compile.Default().Compile(compiler, e.set.Name, source)
}

func (e *emulator) newStream() (driver.Stream, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return driver.Stream(e.handle()), nil
}

func (e *emulator) newEvent(bool) (driver.Event, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	event := driver.Event(e.handle())
	e.events[event] = time.Time{}
	return event, nil
}

func (e *emulator) destroyEvent(event driver.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.events, event)
	return nil
}

func (e *emulator) record(event driver.Event, _ driver.Stream) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events[event] = time.Now()
	return nil
}

func (e *emulator) elapsed(start, end driver.Event) (float64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return float64(e.events[end].Sub(e.events[start])) / float64(time.Millisecond), nil
}

// workers returns the number of goroutines that run work groups.
func workers(groups uint64) int { return int(min(uint64(runtime.GOMAXPROCS(0)), groups)) }
