// Package device is the abstraction over a place that holds memory and runs
// work in order: Device, Buffer, Queue, Event, the errors they give, and the
// spelling of device names.
//
// It knows bytes, not numbers: no dtype, no shape, no operation. It does not
// open devices either; whoever may choose one (package engine) does, so that
// this package imports no implementation. device/cpu fills these interfaces
// with the host's memory and a pool of workers.
//
// Start with Device; errors.go lists everything that can go wrong.
package device

import "context"

// Device is one place: it owns memory and the work that runs on it. All methods
// are safe from any goroutine, and none panics on a closed device.
type Device interface {
	// Name is the device's one spelling, as ParseName reads it: "cpu", "cuda:0".
	Name() string

	// Kind is the name without the index: "cpu", "cuda", "hip", "sim".
	Kind() string

	// Describe tells people and reports what the device is.
	Describe() Description

	// Alloc returns a buffer of zeros. It fails with an OutOfMemoryError when
	// the device has not that much left.
	Alloc(bytes int64) (Buffer, error)

	// NewQueue returns an empty queue.
	NewQueue() (Queue, error)

	// Close gives back what the device holds. Buffers and queues made by it
	// count as closed from then on. Closing twice is allowed.
	Close() error
}

// Description is what a device says about itself. A field that could not be
// found out is empty or zero, never guessed.
type Description struct {
	Name         string   // as its maker calls it: "AMD EPYC 9654 96-Core Processor"
	Architecture string   // "amd64", "sm_90"
	Features     []string // instruction sets that matter to kernels, sorted
	Units        int      // what runs side by side: workers, multiprocessors
	MemoryBytes  int64    // memory the device may use in all
	Driver       string   // driver and its version, where there is one
}

// Buffer is a block of a device's memory. Implementations are pointers, so that
// == on two Buffers says whether they are the same block.
//
// Every method is safe on a closed buffer: those that return an error return
// ErrClosed, the others answer as before.
type Buffer interface {
	Device() Device
	Bytes() int64

	// CopyIn writes src at offset, after everything queued on the device so
	// far that uses the buffer; when it returns src may be reused. Nothing is
	// written unless all of src fits.
	CopyIn(offset int64, src []byte) error

	// CopyOut fills dst from offset, after everything queued on the device so
	// far that uses the buffer.
	CopyOut(offset int64, dst []byte) error

	// Closed reports whether the buffer, or its device, has been closed.
	Closed() bool

	// Close gives the memory back once its users are done. Closing twice is
	// allowed.
	Close() error
}

// HostBuffer is a Buffer whose memory the host can address.
type HostBuffer interface {
	Buffer

	// Memory is the buffer itself, not a copy, to be used while the buffer is
	// reachable and open; nil when closed.
	Memory() []byte
}

// AddressedBuffer is a Buffer with an address in its device's own memory, which the host
// cannot use.
type AddressedBuffer interface {
	Buffer

	// Pointer returns the address of the first byte.
	Pointer() uint64
}

// Queue runs work in the order it was given.
type Queue interface {
	Device() Device

	// Wait returns when everything given to the queue so far is done, or when
	// the context is. It reports what went wrong in that work.
	Wait(ctx context.Context) error

	// Record marks the present end of the queue.
	Record() (Event, error)

	// Close waits for the queue's work and ends it. Closing twice is allowed.
	Close() error
}

// Event is a mark in a queue, reached when all work before it is done.
type Event interface {
	// Wait returns when the mark is reached, or when the context is done.
	Wait(ctx context.Context) error

	// Done reports, without waiting, whether the mark is reached.
	Done() bool
}
