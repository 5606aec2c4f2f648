// Package gpu implements a GPU as a device: memory, queues, events, loaded programs and
// launches, over a table of driver calls (device/gpu/driver).
//
// It knows bytes, not operations. A call names the buffers that it reads and writes
// (Use). It is ordered after the work of other queues on these buffers: each block of
// memory records its last writer and its readers. Work is asynchronous. An error that
// the device reports later names the calls that may have caused it (FaultError). Every
// call on a lost device returns the LostError.
//
// One lock per device guards the bookkeeping. It is held while work is submitted to the
// driver, never while waiting for work to finish, except to free memory and to close.
// Every driver call goes through Device.call: lock the thread, set the context, call,
// unlock.
//
// Start with Open, then Queue.Run.
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

// Options configures Open. The zero value is the default.
type Options struct {
	// MemoryLimit limits the memory to allocate, in bytes; 0 means all of the device's.
	MemoryLimit int64

	// Sync waits after each call, on every queue, so that an error names the call
	// that caused it. The environment variable TOKITAI_SYNC=1 sets it too.
	Sync bool
}

// Device is a GPU. Use Open to open one.
type Device struct {
	table      *driver.Table
	index      int
	name       string
	properties driver.Properties
	options    Options
	context    driver.Context
	transfers  transfers
	outer      device.Device // what buffers and queues report as their device
	isClosed   atomic.Bool   // set under mu

	mu        sync.Mutex
	idle      sync.Cond // on mu: waiting has become 0
	waiting   int       // driver calls that are waiting for the device, without mu
	lost      error     // a LostError, once the device is lost
	sequence  uint64    // number of the last work submitted to any queue
	queues    map[*Queue]struct{}
	modules   map[*Module]struct{}
	sequences map[*sequence]struct{}
	events    []driver.Event // untimed events, for reuse
	timed     []driver.Event // timed events, for reuse
	made      []driver.Event // all events, to be destroyed
	onClose   []func() error
	memory    memory
}

var _ device.Device = (*Device)(nil)

// Open opens the driver's device with the given index.
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
		queues: map[*Queue]struct{}{}, modules: map[*Module]struct{}{}, sequences: map[*sequence]struct{}{}}
	d.idle.L = &d.mu
	d.outer = d
	d.memory.init()
	if d.context, err = table.Retain(index); err != nil {
		return refuse(err)
	}
	if d.transfers.queue, err = d.newQueue(QueueOptions{}); err != nil {
		return nil, errors.Join(err, table.Release(index))
	}
	return d, nil
}

// EmbedIn makes buffers and queues report outer, a type that embeds d, as their device.
// Call it before d is used.
func (d *Device) EmbedIn(outer device.Device) { d.outer = outer }

// Name returns the device's name: "cuda:0", "hip:0", "sim", "amdemu:gfx1100".
func (d *Device) Name() string { return d.name }

// Kind returns the driver's kind: "cuda", "hip", "sim", "amdemu".
func (d *Device) Kind() string { return d.table.Kind }

// Index returns the driver's number of the device: its index, or the simulator's warp
// width.
func (d *Device) Index() int { return d.index }

// DriverPath returns the path of the driver's library, "" if it has none.
func (d *Device) DriverPath() string { return d.table.Path }

// Limits returns the device's properties, which limit its launches.
func (d *Device) Limits() driver.Properties { return d.properties }

// Architecture returns the device's architecture as the compiler spells it.
func (d *Device) Architecture() string { return d.properties.Architecture }

// BusID returns the device's address on the PCI bus, "" if it is on none.
func (d *Device) BusID() (string, error) {
	if d.table.BusID == nil {
		return "", nil
	}
	return d.table.BusID(d.index)
}

// Describe returns a description for people and reports.
func (d *Device) Describe() device.Description {
	return device.Description{Name: d.properties.Name, Architecture: d.properties.Architecture, Units: d.properties.Multiprocessors,
		ClockHz: d.properties.ClockHz, MemoryBytes: d.properties.MemoryBytes, Driver: d.table.Version, Caveat: d.properties.Caveat}
}

// call calls f, which makes driver calls, with the device's context current on a locked
// thread.
func (d *Device) call(f func() error) error {
	runtime.LockOSThread()
	err := d.table.SetCurrent(d.context)
	if err == nil {
		err = f()
	}
	runtime.UnlockOSThread()
	return err
}

// submit calls f, whose driver calls do not wait for the device; mu is held.
func (d *Device) submit(what string, f func() error) error {
	if err := d.usable(what); err != nil {
		return err
	}
	if err := d.call(f); err != nil {
		return d.failed(what, err)
	}
	return nil
}

// wait calls f, whose driver call waits for the device; mu is not held.
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

// usable returns an error if the device is lost or closed; mu is held.
func (d *Device) usable(what string) error {
	if d.lost != nil {
		return d.lost
	}
	if d.isClosed.Load() {
		return fmt.Errorf("%s: %s: device %w", d.name, what, device.ErrClosed)
	}
	return nil
}

// failed wraps a driver's error, and marks the device lost if the error says so; mu is
// held.
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

// drain waits for all work; mu is held.
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

// Close waits for the device's work and releases its memory, queues and programs and its
// reference to the context. It returns the LostError if the device is lost.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.isClosed.Swap(true) {
		d.mu.Unlock()
		return nil
	}
	d.mu.Unlock()
	d.transfers.mu.Lock() // wait for a copy that uses the staging memory
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
		for _, f := range d.onClose {
			keep(f())
		}
		for s := range d.sequences {
			keep(s.free())
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
			keep(q.freeTables())
			q.isClosed = true
		}
		keep(d.transfers.free(d.table))
		keep(d.memory.free(d.table))
		return first
	})
	clear(d.sequences)
	clear(d.modules)
	clear(d.queues)
	d.events, d.timed, d.made, d.onClose = nil, nil, nil, nil
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

// putEvent makes e available for reuse. It may be recorded again at once: a stream that
// waits for e waits for it as it was when the wait was queued.
func (d *Device) putEvent(e driver.Event) { d.events = append(d.events, e) }
