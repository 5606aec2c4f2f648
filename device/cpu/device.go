// Package cpu implements the host as a device: aligned memory within a limit,
// the processor's description, and a pool of workers that spreads a call over
// the cores.
//
// It knows nothing of operations or numbers. Work does not go through its
// queues: a call on the CPU runs in the calling goroutine, helped by the pool.
// It is done when it returns, so queues are always empty and events always
// reached.
//
// Start with New, then Pool.Run.
package cpu

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"

	"tokitai/device"
)

// Name is the device's name; there is one host.
const Name = "cpu"

// maxWorkers bounds Options.Workers: beyond any machine, so more is a mistake.
const maxWorkers = 4096

// Options configures New. The zero value is the default.
type Options struct {
	// Workers is the number of goroutines that share a call's items, the caller
	// included; 0 means GOMAXPROCS. No result depends on it.
	Workers int

	// MemoryLimit limits the total size of buffers, in bytes; 0 means the memory
	// of the machine, or of the control group the process runs in.
	MemoryLimit int64
}

// Device is the host. Use New to create one.
type Device struct {
	pool   *Pool
	memory account
	closed atomic.Bool
	outer  device.Device // what buffers and queues report as their device
}

var _ device.Device = (*Device)(nil)

// New returns the host as a device. Its workers start when first needed and
// stop at Close.
func New(o Options) (*Device, error) {
	if o.Workers < 0 || o.Workers > maxWorkers {
		return nil, &device.ArgumentError{Op: "cpu: new", Got: fmt.Sprintf("%d workers", o.Workers),
			Want: fmt.Sprintf("1 to %d, or 0 for one per processor", maxWorkers)}
	}
	if o.MemoryLimit < 0 {
		return nil, &device.ArgumentError{Op: "cpu: new", Got: fmt.Sprintf("a memory limit of %d bytes", o.MemoryLimit),
			Want: "at least 1, or 0 for the machine's memory"}
	}
	if o.Workers == 0 {
		o.Workers = min(runtime.GOMAXPROCS(0), maxWorkers)
	}
	if o.MemoryLimit == 0 {
		o.MemoryLimit = machineMemory()
	}
	if o.MemoryLimit == 0 {
		o.MemoryLimit = math.MaxInt64
	}
	d := &Device{pool: newPool(o.Workers), memory: account{limit: o.MemoryLimit}}
	d.outer = d
	return d, nil
}

// EmbedIn makes buffers and queues report outer, a type that embeds d, as their device.
// Call it before d is used.
func (d *Device) EmbedIn(outer device.Device) { d.outer = outer }

// Name returns "cpu".
func (d *Device) Name() string { return Name }

// Kind returns "cpu".
func (d *Device) Kind() string { return Name }

// Pool returns the device's workers.
func (d *Device) Pool() *Pool {
	if d == nil {
		return nil
	}
	return d.pool
}

// Describe returns the processor's name and instruction sets, the number of
// workers and the memory limit.
func (d *Device) Describe() device.Description {
	description := device.Description{Name: processorName(), Architecture: runtime.GOARCH, Features: slices.Clone(features())}
	if d != nil {
		description.Units = d.pool.Workers()
		if d.memory.limit != math.MaxInt64 {
			description.MemoryBytes = d.memory.limit
		}
	}
	return description
}

// NewQueue returns a queue that is always empty; see the package comment.
func (d *Device) NewQueue() (device.Queue, error) {
	if d.isClosed() {
		return nil, fmt.Errorf("cpu: new queue: device %w", device.ErrClosed)
	}
	return &queue{device: d}, nil
}

// Close stops the workers, each after its current item, without waiting for
// them. The callers of pending Runs finish the remaining items.
func (d *Device) Close() error {
	if d != nil && !d.closed.Swap(true) {
		d.pool.close()
	}
	return nil
}

func (d *Device) isClosed() bool { return d == nil || d.closed.Load() }

// queue is always empty: calls are done when they return.
type queue struct {
	device *Device
	closed atomic.Bool
}

func (q *queue) Device() device.Device { return q.device.outer }

func (q *queue) Wait(context.Context) error { return q.err() }

func (q *queue) Record() (device.Event, error) {
	if err := q.err(); err != nil {
		return nil, err
	}
	return reached{}, nil
}

func (q *queue) Close() error {
	q.closed.Store(true)
	return nil
}

func (q *queue) err() error {
	if q.closed.Load() || q.device.isClosed() {
		return errQueueClosed
	}
	return nil
}

var errQueueClosed = fmt.Errorf("cpu: queue %w", device.ErrClosed)

// reached is an event whose work is done.
type reached struct{}

func (reached) Wait(context.Context) error { return nil }
func (reached) Done() bool                 { return true }
