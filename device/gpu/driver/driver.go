// Package driver is the table of calls through which device/gpu reaches a GPU. The
// packages cuda and sim fill one each; tests fill one with functions of their own.
//
// Handles are numbers that mean something to the driver only. Every call is made with
// the device's context current on a locked thread (device/gpu sees to it); none calls
// back into Go. Those marked "queued" return before their work is done.
package driver

import (
	"fmt"

	"tokitai/device/gpu/compile"
)

// Handles of the driver.
type (
	Context  uintptr
	Stream   uintptr
	Event    uintptr
	Module   uintptr
	Function uintptr
	Pointer  uint64 // an address in the device's memory
)

// Table is a driver. No function is nil. None allocates Go memory when it succeeds
// if device/gpu calls it for each launch: SetCurrent, Launch, the events' and those
// that are queued.
type Table struct {
	Kind    string // "cuda", "sim"
	Name    func(index int) string
	Version string // of the driver: "CUDA 13.0"

	// Count is the number of devices.
	Count func() (int, error)

	// Properties tells what a device is. It needs no context.
	Properties func(index int) (Properties, error)

	Retain     func(index int) (Context, error)
	Release    func(index int) error
	SetCurrent func(Context) error

	// Compiler returns what Compile uses.
	Compiler func() (compile.Compiler, error)

	// Compile makes a program for the device from complete source text.
	Compile func(index int, s compile.Source) (*compile.Program, error)

	Alloc      func(bytes int64) (Pointer, error)
	Free       func(Pointer) error
	MemoryInfo func() (free, total int64, err error)

	// AllocHost returns memory of the host that the device can reach by itself.
	AllocHost func(bytes int) ([]byte, error)
	FreeHost  func([]byte) error

	CopyIn  func(dst Pointer, src []byte, s Stream) error              // queued; src is from AllocHost
	CopyOut func(dst []byte, src Pointer, s Stream) error              // queued; dst is from AllocHost
	Copy    func(dst, src Pointer, bytes int64, s Stream) error        // queued, within the device
	Fill    func(dst Pointer, value byte, bytes int64, s Stream) error // queued

	NewStream     func() (Stream, error)
	DestroyStream func(Stream) error
	SyncStream    func(Stream) error
	StreamDone    func(Stream) (bool, error)

	NewEvent     func(isTimed bool) (Event, error)
	DestroyEvent func(Event) error
	Record       func(Event, Stream) error // queued
	SyncEvent    func(Event) error
	EventDone    func(Event) (bool, error)
	WaitEvent    func(Stream, Event) error // queued: what follows in the stream waits for the event as it is now
	Elapsed      func(start, end Event) (ms float64, err error)

	Load      func(image []byte) (Module, error)
	Unload    func(Module) error
	Lookup    func(m Module, entry string) (Function, error)
	SetShared func(f Function, bytes int) error // permits that much dynamic shared memory

	// Launch queues a kernel that takes one struct, whose bytes are params. The
	// driver has copied them when it returns.
	Launch func(f Function, grid, block [3]uint32, shared uint32, s Stream, params []byte) error
}

// Properties is what a device can do.
type Properties struct {
	Name              string // "NVIDIA H200"
	Architecture      string // as the compiler wants it: "sm_90a"
	MemoryBytes       int64
	Multiprocessors   int
	WarpWidth         int
	SharedBytes       int // per block, the most it may ask for
	ThreadsPerBlock   int
	CacheBytes        int // of the last cache before memory; 0 where unknown
	MemoryBytesPerSec float64
	ClockHz           float64
}

// Class is what an error of the driver means to device/gpu.
type Class uint8

const (
	Failed      Class = iota // this call failed, and nothing else
	OutOfMemory              // try again with less
	Lost                     // the device, or the process's use of it, is gone
)

// Error is a call that the driver refused, or an earlier one whose failure it tells now.
type Error struct {
	Call  string // "cuMemAlloc"
	Code  int
	Name  string // "CUDA_ERROR_OUT_OF_MEMORY"
	Text  string
	Class Class
}

func (e *Error) Error() string {
	text := e.Call + ": "
	if e.Text != "" {
		text += e.Text
	} else {
		text += "failed"
	}
	if e.Name != "" {
		text += fmt.Sprintf(" (%s, code %d)", e.Name, e.Code)
	}
	return text
}

// LaunchError is a kernel that the driver ran and found at fault, while the device
// goes on: the simulator tells so of barriers and shuffles.
type LaunchError struct {
	Entry   string
	Message string
}

func (e *LaunchError) Error() string { return fmt.Sprintf("kernel %s: %s", e.Entry, e.Message) }
