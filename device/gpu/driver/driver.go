// Package driver defines the table of calls through which device/gpu reaches a GPU.
// Packages cuda, hip, sim and amdemu each provide a table; so do tests.
//
// Handles are opaque. device/gpu makes every call with the device's context current on a
// locked thread. No call calls back into Go. Those marked "queued" return before their
// work is done.
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
	Graph    uintptr
	Pointer  uint64 // an address in the device's memory
)

// Table is a driver. No function is nil unless it says so. The functions that device/gpu
// calls for each launch (SetCurrent, Launch, SetNode, those of events and those that are
// queued) allocate no Go memory when they succeed.
type Table struct {
	Kind    string // "cuda", "hip", "sim"
	Name    func(index int) string
	Version string // of the driver: "CUDA 13.0"
	Path    string // of the driver's library; "" if it has none

	// Count returns the number of devices.
	Count func() (int, error)

	// Properties returns a device's properties. It needs no context.
	Properties func(index int) (Properties, error)

	// BusID returns a device's address on the PCI bus, by which other libraries find it. It is nil
	// where there is no bus.
	BusID func(index int) (string, error)

	Retain     func(index int) (Context, error)
	Release    func(index int) error
	SetCurrent func(Context) error

	// Compiler returns the compiler that Compile uses for a device.
	Compiler func(index int) (compile.Compiler, error)

	// Compile compiles complete source text for the device.
	Compile func(index int, s compile.Source) (*compile.Program, error)

	Alloc      func(bytes int64) (Pointer, error)
	Free       func(Pointer) error
	MemoryInfo func() (free, total int64, err error)

	// AllocHost returns pinned host memory, which the device can access directly.
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
	WaitEvent    func(Stream, Event) error // queued: later work in the stream waits for the event as it is now
	Elapsed      func(start, end Event) (ms float64, err error)

	Load      func(image []byte) (Module, error)
	Unload    func(Module) error
	Lookup    func(m Module, entry string) (Function, error)
	SetShared func(f Function, bytes int) error // permits that much dynamic shared memory

	// Launch queues a kernel that takes one struct, whose bytes are params. When it
	// returns, the driver has copied params.
	Launch func(f Function, grid, block [3]uint32, shared uint32, s Stream, params []byte) error

	// LaunchPacked is Launch of a kernel that takes any number of arguments, whose bytes are
	// laid out in params as in a struct. It is nil where Launch does that.
	LaunchPacked func(f Function, grid, block [3]uint32, shared uint32, s Stream, params []byte) error

	// LaunchEarly is Launch of a kernel that waits by itself for what the stream's last kernel
	// writes: it may start as soon as all blocks of that one have. It is nil where the driver
	// has no such launch; for devices, Properties.StartsEarly tells.
	LaunchEarly func(f Function, grid, block [3]uint32, shared uint32, s Stream, params []byte) error

	// NewGraph joins launches. It keeps no reference to nodes.
	NewGraph     func(nodes []Node) (Graph, error)
	LaunchGraph  func(Graph, Stream) error // queued
	DestroyGraph func(Graph) error         // what is queued is done all the same

	// SetNode replaces the parameters of a graph's node, by its number. The node is otherwise
	// as it was. What is queued keeps its parameters.
	SetNode func(g Graph, number int, n *Node) error

	// EncodeTensorMap writes the TensorMapBytes with which kernels copy boxes of a tensor to
	// and from shared memory. It allocates no Go memory. It is nil where the driver has no such
	// maps.
	EncodeTensorMap func(to []byte, m *TensorMap) error
}

// TensorMapBytes is the size of an encoded tensor map.
const TensorMapBytes = 128

// TensorMap is a tensor in the device's memory that kernels copy in boxes. The first
// dimension is contiguous, and a box has a line of 128 or 64 bytes of it, which shared memory
// holds swizzled: the 16-byte pieces of line l lie at piece XOR l mod 8, or XOR l/2 mod 4.
type TensorMap struct {
	Address      uint64 // a multiple of 16
	ElementBytes int    // 1, 2 or 4
	Rank         int    // 2 to 5
	Sizes        [5]uint64
	Strides      [4]uint64 // in bytes, of all dimensions but the first; multiples of 16
	Box          [5]uint32 // in elements
}

// LineBytes returns how much of the first dimension a box has.
func (m *TensorMap) LineBytes() int { return int(m.Box[0]) * m.ElementBytes }

// Node is a launch of a graph.
type Node struct {
	After       []int // numbers of the nodes, all before this one, that end before it begins
	Function    Function
	Grid, Block [3]uint32
	Shared      uint32
	Params      []byte
}

// Properties are the capabilities and limits of a device.
type Properties struct {
	Name              string // "NVIDIA H200"
	Architecture      string // as the compiler spells it: "sm_90a"
	MemoryBytes       int64
	Multiprocessors   int
	WarpWidth         int
	SharedBytes       int // maximum per block
	ThreadsPerBlock   int // maximum
	CacheBytes        int // size of the last-level cache; 0 if unknown
	MemoryBytesPerSec float64
	ClockHz           float64
	StartsEarly       bool   // a kernel can start before the one before it has ended
	Caveat            string // of device.Description
}

// Class classifies the driver's errors.
type Class uint8

const (
	Failed      Class = iota // only this call failed
	OutOfMemory              // the device has too little free memory
	Lost                     // this process can no longer use the device
)

// Error is a call that failed, or that reported the failure of earlier work.
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

// LaunchError is a faulty kernel that does not end the use of the device. The simulator
// reports misused barriers and shuffles this way.
type LaunchError struct {
	Entry   string
	Message string
}

func (e *LaunchError) Error() string { return fmt.Sprintf("kernel %s: %s", e.Entry, e.Message) }
