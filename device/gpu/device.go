// Package gpu is a GPU as a device: memory with an account of it, queues, events,
// loaded programs and launches, over a table of driver calls (device/gpu/driver).
//
// It knows bytes, not operations. A call names the buffers that it reads and writes
// (Use), and is thereby ordered after whatever other queues do with them: each block of
// memory remembers its last writer and its readers. Work is asynchronous; an error that
// the device reports later names the calls that may have caused it (FaultError), and a
// lost device says so from then on.
//
// One lock per device guards the bookkeeping and is held while work is handed to the
// driver, never while waiting for work to be done (except to make room or to close).
// Every driver call is made by Device.call: lock the thread, set the context, call,
// unlock.
//
// Start with OpenNamed, then Queue.Run.
package gpu

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"tokitai/device"
	"tokitai/device/gpu/driver"
)

// Options are what Open may be told. The zero value is the default.
type Options struct {
	// MemoryLimit is the most bytes to take from the driver; 0 is all there is.
	MemoryLimit int64

	// Sync waits after each call, on every queue, so that an error names the call
	// that caused it. The environment variable TOKITAI_SYNC=1 sets it too.
	Sync bool
}

// Device is a GPU. Make it with OpenNamed or Open.
type Device struct {
	table      *driver.Table
	index      int
	name       string
	properties driver.Properties
	options    Options
	context    driver.Context
	transfers  transfers
	isClosed   atomic.Bool // set under mu

	mu       sync.Mutex
	idle     sync.Cond // on mu: waiting has become 0
	waiting  int       // driver calls under way that wait for the device, outside mu
	lost     error     // a LostError, once the device is lost
	sequence uint64    // of the last work handed to any queue
	queues   map[*Queue]struct{}
	modules  map[*Module]struct{}
	events   []driver.Event // to be used again
	timed    []driver.Event // the same of timers
	made     []driver.Event // all, to be destroyed
	memory   memory
}

var _ device.Device = (*Device)(nil)

// Open opens a driver's device by its index.
func Open(table *driver.Table, index int, o Options) (*Device, error) {
	name := table.Name(index)
	refuse := func(err error) (*Device, error) { return nil, fmt.Errorf("%s: open: %w", name, err) }
	if o.MemoryLimit < 0 {
		return nil, &device.ArgumentError{Op: name + ": open", Got: fmt.Sprintf("a memory limit of %d bytes", o.MemoryLimit),
			Want: "at least 1, or 0 for the device's memory"}
	}
	switch value := os.Getenv("TOKITAI_SYNC"); value {
	case "", "0":
	case "1":
		o.Sync = true
	default:
		return nil, &device.ArgumentError{Op: name + ": open", Got: fmt.Sprintf("TOKITAI_SYNC=%q", value), Want: "0 or 1"}
	}
	properties, err := table.Properties(index)
	if err != nil {
		return nil, err
	}
	d := &Device{table: table, index: index, name: name, properties: properties, options: o,
		queues: map[*Queue]struct{}{}, modules: map[*Module]struct{}{}}
	d.idle.L = &d.mu
	d.memory.init()
	if d.context, err = table.Retain(index); err != nil {
		return refuse(err)
	}
	if d.transfers.queue, err = d.newQueue(QueueOptions{}); err != nil {
		return nil, errors.Join(err, table.Release(index))
	}
	return d, nil
}

// Name is the device's spelling: "cuda:0", "sim", "sim:64".
func (d *Device) Name() string { return d.name }

// Kind is the driver's: "cuda", "sim".
func (d *Device) Kind() string { return d.table.Kind }

// Index is the number in the name: which device, or the warp width of a simulator.
func (d *Device) Index() int { return d.index }

// Limits are what a launch has to keep to.
func (d *Device) Limits() driver.Properties { return d.properties }

// Describe tells what the device is.
func (d *Device) Describe() device.Description {
	return device.Description{Name: d.properties.Name, Architecture: d.properties.Architecture, Units: d.properties.Multiprocessors,
		MemoryBytes: d.properties.MemoryBytes, Driver: d.table.Version}
}

// call makes driver calls. Nothing relies on the thread afterwards.
func (d *Device) call(f func() error) error {
	runtime.LockOSThread()
	err := d.table.SetCurrent(d.context)
	if err == nil {
		err = f()
	}
	runtime.UnlockOSThread()
	return err
}

// submit makes driver calls that do not wait, with mu held.
func (d *Device) submit(what string, f func() error) error {
	if err := d.usable(what); err != nil {
		return err
	}
	if err := d.call(f); err != nil {
		return d.failed(what, err)
	}
	return nil
}

// wait makes a driver call that waits for the device, without mu.
func (d *Device) wait(what string, f func() error) error {
	d.mu.Lock()
	if err := d.usable(what); err != nil {
		d.mu.Unlock()
		return err
	}
	d.waiting++
	d.mu.Unlock()

	err := d.call(f)

	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting--; d.waiting == 0 {
		d.idle.Broadcast()
	}
	if err != nil {
		return d.failed(what, err)
	}
	return nil
}

// usable says why not; mu is held.
func (d *Device) usable(what string) error {
	if d.lost != nil {
		return d.lost
	}
	if d.isClosed.Load() {
		return fmt.Errorf("%s: %s: device %w", d.name, what, device.ErrClosed)
	}
	return nil
}

// failed turns a driver's error into the device's; mu is held.
func (d *Device) failed(what string, err error) error {
	if d.lost != nil {
		return d.lost
	}
	if e, ok := errors.AsType[*driver.Error](err); ok && e.Class == driver.Lost {
		d.lost = &device.LostError{Device: d.name, Cause: d.fault(err)}
		return d.lost
	}
	return fmt.Errorf("%s: %s: %w", d.name, what, err)
}

// drain waits for all work, with mu held.
func (d *Device) drain() error {
	for q := range d.queues {
		if q.completed == q.submitted {
			continue
		}
		if err := d.table.SyncStream(q.stream); err != nil {
			return err
		}
		q.completed = q.submitted
	}
	return nil
}

// Close waits for the device's work and gives back everything it holds: memory, queues,
// programs, and its share of the context. It tells if the device is lost.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.isClosed.Swap(true) {
		d.mu.Unlock()
		return nil
	}
	d.mu.Unlock()
	d.transfers.mu.Lock() // a copy under way uses the staging memory
	defer d.transfers.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.waiting > 0 {
		d.idle.Wait()
	}

	err := d.call(func() error {
		first := d.drain()
		keep := func(err error) {
			if first == nil {
				first = err
			}
		}
		for m := range d.modules {
			keep(d.table.Unload(m.handle))
			m.isClosed = true
		}
		for _, e := range d.made {
			keep(d.table.DestroyEvent(e))
		}
		for q := range d.queues {
			keep(d.table.DestroyStream(q.stream))
			keep(q.checks.free(d))
			q.isClosed = true
		}
		keep(d.transfers.free(d.table))
		keep(d.memory.free(d.table))
		return first
	})
	clear(d.modules)
	clear(d.queues)
	d.events, d.timed, d.made = nil, nil, nil
	if released := d.table.Release(d.index); err == nil {
		err = released
	}
	if err != nil {
		return d.failed("close", err)
	}
	return d.lost
}

// takeEvent returns an untimed event; mu is held and the context is current.
func (d *Device) takeEvent() (driver.Event, error) {
	if n := len(d.events); n > 0 {
		e := d.events[n-1]
		d.events = d.events[:n-1]
		return e, nil
	}
	e, err := d.table.NewEvent(false)
	if err == nil {
		d.made = append(d.made, e)
	}
	return e, err
}

// putEvent takes it back. What was told to wait for it waits for it as it was then, so
// it may be recorded again at once.
func (d *Device) putEvent(e driver.Event) { d.events = append(d.events, e) }
