// Package cpu is the host as a device: aligned memory with an account of it,
// the processor's description, and the pool of workers that spreads a call
// over the cores.
//
// It knows nothing of operations or numbers. Work does not go through its
// queues: a call on the CPU runs in its caller, helped by the pool, so whatever
// has been called is done and every event is reached. Start with New, then
// Pool.Run.
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

// Options are what New may be told. The zero value is the default.
type Options struct {
	// Workers is the number of goroutines that share a call's items, the caller
	// included; 0 is GOMAXPROCS. No result depends on it.
	Workers int

	// MemoryLimit is the most bytes that buffers may take together; 0 is the
	// memory of the machine, or of the control group the process runs in.
	MemoryLimit int64
}

// Device is the host. Make it with New.
type Device struct {
	pool   *Pool
	memory account
	closed atomic.Bool
}

var _ device.Device = (*Device)(nil)

// New returns the host as a device. Its workers start when first needed and end
// with Close.
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
	return &Device{pool: newPool(o.Workers), memory: account{limit: o.MemoryLimit}}, nil
}

// Name is "cpu".
func (d *Device) Name() string { return Name }

// Kind is "cpu".
func (d *Device) Kind() string { return Name }

// Pool is the device's workers.
func (d *Device) Pool() *Pool {
	if d == nil {
		return nil
	}
	return d.pool
}

// Describe tells the processor's name and instruction sets.
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

// NewQueue returns a queue whose work is always done: see the package.
func (d *Device) NewQueue() (device.Queue, error) {
	if d.isClosed() {
		return nil, fmt.Errorf("cpu: new queue: device %w", device.ErrClosed)
	}
	return &queue{device: d}, nil
}

// Close ends the workers, each after the item it is busy with, and does not
// wait for them: a Run under way is finished by its caller.
func (d *Device) Close() error {
	if d != nil && !d.closed.Swap(true) {
		d.pool.close()
	}
	return nil
}

func (d *Device) isClosed() bool { return d == nil || d.closed.Load() }

// queue has nothing in it: calls have run by the time they return.
type queue struct {
	device *Device
	closed atomic.Bool
}

func (q *queue) Device() device.Device { return q.device }

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
