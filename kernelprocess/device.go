package kernelprocess

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tokitai/device"
	"tokitai/engine"
	"tokitai/kernelprocess/protocol"
	"tokitai/kernelprocess/shm"
)

// Device is a device in a kernel process. Queues on it compute there.
type Device struct {
	*core
	isResident bool
}

var (
	_ device.Device = (*Device)(nil)
	_ engine.Caller = (*Device)(nil)
)

// core is shared by a Device and its Resident. It has a process, or none at the moment.
type core struct {
	pool     *Pool
	options  *Options
	device   string // in the process
	group    string
	name     string
	shared   *Device
	resident *Device

	memory memory
	slots  slots
	stats  counters

	mu          sync.Mutex
	child       *child // until its death is counted
	attempt     *attempt
	deaths      []time.Time
	lastDeath   error
	isRefused   bool
	description protocol.Welcome // of the last process

	isClosed atomic.Bool   // set under mu
	closing  chan struct{} // closed with it
	closed   sync.Once
	starts   sync.WaitGroup
	closeErr error
}

func newCore(p *Pool, name, group string) *core {
	k := &core{pool: p, options: &p.options, device: name, group: group, name: "process:" + name, closing: make(chan struct{})}
	k.shared = &Device{core: k}
	k.resident = &Device{core: k, isResident: true}
	k.memory = memory{device: k.name, limit: limit(p.options.MemoryLimit), drop: k.dropArena}
	k.slots.free = p.options.MaxInFlight
	return k
}

// Isolated is an option of a queue or a call: calls run in the process of d. Tensors that are
// not in the process are sent and fetched.
func Isolated(d *Device) engine.Option { return engine.WithCaller(d) }

// Name returns "process:" and the name of the device in the process.
func (d *Device) Name() string { return d.name }

// Kind returns "process".
func (d *Device) Kind() string { return "process" }

// Group returns the group that the device was opened for.
func (d *Device) Group() string { return d.group }

// Describe returns the process's description of its device; before a process has been
// started it has little more than the name.
func (d *Device) Describe() device.Description {
	d.mu.Lock()
	defer d.mu.Unlock()
	return device.Description{Name: d.description.Description, Architecture: runtime.GOARCH, MemoryBytes: d.options.MemoryLimit, Driver: d.description.Build}
}

// Resident returns the same device with all of its memory in the process. Its tensors stay
// there between calls, and are lost when the process dies. Queues on both devices compute
// in the same process, and calls may mix tensors of both.
func (d *Device) Resident() *Device { return d.resident }

// PID returns the process's id, or 0 if there is no process: check before sending a signal.
func (d *Device) PID() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.child == nil {
		return 0
	}
	return d.child.process.PID()
}

// Reset forgets the deaths of processes: after a [RefusedError] the next call starts a process
// again, without delay.
func (d *Device) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaths, d.isRefused = nil, false
	if d.attempt != nil {
		d.attempt.hurry()
	}
}

// Reaches reports that tensors may lie anywhere.
func (d *Device) Reaches(device.Device) bool { return true }

// NewQueue returns a queue. A call on it returns when the process has answered, or when its
// context ends; Wait waits for the answers of such calls.
func (d *Device) NewQueue() (device.Queue, error) {
	if d.isClosed.Load() {
		return nil, d.closedError()
	}
	return &queue{device: d}, nil
}

// Close ends the process, as [Pool.Close] does. The device can be opened again.
func (d *Device) Close() error {
	err := d.close()
	d.pool.forget(d.core)
	return err
}

func (k *core) closedError() error { return fmt.Errorf("%s: device %w", k.name, device.ErrClosed) }

func (k *core) close() error {
	k.closed.Do(func() {
		k.mu.Lock()
		k.isClosed.Store(true)
		close(k.closing)
		c := k.child
		k.mu.Unlock()
		if c != nil {
			k.drain(c)
			c.conn.fail(device.ErrClosed)
			<-c.isBuried
			if status := c.process.Status(); status.Code != 0 && status.Signal == nil {
				k.closeErr = status
			}
		}
		k.starts.Wait()
		k.memory.close()
	})
	return k.closeErr
}

// drain waits for the calls in flight, until the context ends.
func (k *core) drain(c *child) {
	for deadline := time.Now().Add(k.options.CloseGrace); c.conn.inFlight() > 0 && c.conn.cause() == nil && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// hasSharedMemory reports whether this system has shared memory.
var hasSharedMemory = sync.OnceValue(func() bool {
	region, err := shm.Create(1)
	if err == nil {
		region.Close()
	}
	return !errors.Is(err, shm.ErrUnsupported)
})

// sharesMemory reports whether kernels work in shared memory itself.
func (k *core) sharesMemory() (bool, error) {
	if k.options.Inline || !hasSharedMemory() {
		return false, nil
	}
	if k.device != "auto" {
		return k.device == "cpu", nil
	}
	c, err := k.running(context.Background())
	if err != nil {
		return false, err
	}
	return c.welcome.Device == "cpu", nil
}

// Alloc returns a zeroed buffer: in shared memory if the process computes on the CPU, else in
// the process.
func (d *Device) Alloc(bytes int64) (device.Buffer, error) {
	if d.isClosed.Load() {
		return nil, d.closedError()
	}
	if bytes < 1 {
		return nil, &device.ArgumentError{Op: d.name + ": alloc", Got: fmt.Sprintf("%d bytes", bytes), Want: "at least 1"}
	}
	if !d.isResident {
		isShared, err := d.sharesMemory()
		if err != nil {
			return nil, err
		}
		if isShared {
			return d.allocShared(bytes)
		}
	}
	return d.allocResident(bytes)
}

// queue holds only requests that were abandoned.
type queue struct {
	device *Device
	closed atomic.Bool
}

func (q *queue) Device() device.Device { return q.device }

func (q *queue) Wait(ctx context.Context) error {
	e, err := q.Record()
	if err != nil {
		return err
	}
	return e.Wait(ctx)
}

func (q *queue) Record() (device.Event, error) {
	k := q.device.core
	if q.closed.Load() || k.isClosed.Load() {
		return nil, fmt.Errorf("%s: queue %w", k.name, device.ErrClosed)
	}
	k.mu.Lock()
	c := k.child
	k.mu.Unlock()
	if c == nil {
		return event(nil), nil
	}
	return event(c.conn.abandoned()), nil
}

func (q *queue) Close() error {
	q.closed.Store(true)
	return nil
}

// event is done when all of its channels are closed.
type event []<-chan struct{}

func (e event) Wait(ctx context.Context) error {
	for _, gone := range e {
		select {
		case <-gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (e event) Done() bool {
	return !slices.ContainsFunc(e, func(gone <-chan struct{}) bool {
		select {
		case <-gone:
			return false
		default:
			return true
		}
	})
}
