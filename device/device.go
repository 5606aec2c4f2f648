// Package device defines the interfaces of a device, which holds memory and
// runs work in order: Device, Buffer, Queue and Event. It also defines their
// errors and the syntax of device names.
//
// It knows bytes, not numbers: no dtype, no shape, no operation. It opens no
// device and imports no implementation. device/cpu implements the interfaces
// with the host's memory and a pool of workers, device/gpu with a GPU's driver.
//
// Start with Device; errors.go lists everything that can go wrong.
package device

import "context"

// Device owns memory and runs work on it. All methods are safe for concurrent
// use, and none panics on a closed device.
type Device interface {
	// Name returns the device's canonical name, which ParseName accepts: "cpu",
	// "cuda:0".
	Name() string

	// Kind returns the name without the id: "cpu", "cuda", "hip", "sim".
	Kind() string

	// Describe returns a description for people and reports.
	Describe() Description

	// Alloc returns a zeroed buffer. It fails with an OutOfMemoryError when the
	// device has too little free memory.
	Alloc(bytes int64) (Buffer, error)

	// NewQueue returns an empty queue.
	NewQueue() (Queue, error)

	// Close releases the device's resources. Its buffers and queues count as
	// closed from then on. Closing twice is allowed.
	Close() error
}

// Description describes a device. An unknown field is empty or zero, never
// guessed.
type Description struct {
	Name         string   // product name: "AMD EPYC 9654 96-Core Processor"
	Architecture string   // "amd64", "sm_90"
	Features     []string // instruction sets that matter to kernels, sorted
	Units        int      // units that run in parallel: workers, multiprocessors
	ClockHz      float64  // highest clock of the units
	MemoryBytes  int64    // total memory the device may use
	Driver       string   // name and version of the driver, if it has one
	Caveat       string   // what a reader of results must know: "emulated instructions, not hardware"
}

// Buffer is a block of a device's memory. Implementations are pointers, so that
// == reports whether two Buffers are the same block.
//
// Every method is safe on a closed buffer: those that return an error return
// ErrClosed, the others still return what they did before.
type Buffer interface {
	Device() Device
	Bytes() int64

	// CopyIn writes src at offset, after all work queued so far that uses the
	// buffer. When it returns, src may be reused. Nothing is written unless all
	// of src fits.
	CopyIn(offset int64, src []byte) error

	// CopyOut fills dst from offset, after all work queued so far that uses the
	// buffer.
	CopyOut(offset int64, dst []byte) error

	// Closed reports whether the buffer, or its device, has been closed.
	Closed() bool

	// Close frees the memory once the work that uses it is done. Closing twice
	// is allowed.
	Close() error
}

// HostBuffer is a Buffer whose memory the host can address.
type HostBuffer interface {
	Buffer

	// Memory returns the buffer's memory, not a copy. It is valid while the
	// buffer is reachable and open; nil when closed.
	Memory() []byte
}

// AddressedBuffer is a Buffer with an address in its device's own memory, which the host
// cannot use.
type AddressedBuffer interface {
	Buffer

	// Pointer returns the address of the first byte.
	Pointer() uint64
}

// Queue runs work in submission order.
type Queue interface {
	Device() Device

	// Wait waits until all work submitted so far is done, or until ctx is. It
	// returns the errors of that work.
	Wait(ctx context.Context) error

	// Record returns an event at the current end of the queue.
	Record() (Event, error)

	// Close waits for the queue's work and closes the queue. Closing twice is
	// allowed.
	Close() error
}

// Event is a point in a queue, reached when all work before it is done.
type Event interface {
	// Wait waits until the event is reached, or until ctx is done.
	Wait(ctx context.Context) error

	// Done reports, without waiting, whether the event is reached.
	Done() bool
}
