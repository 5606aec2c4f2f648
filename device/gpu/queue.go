package gpu

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"tokitai/device"
	"tokitai/device/gpu/driver"
)

// QueueOptions configures a queue. The zero value is the default.
type QueueOptions struct {
	// Sync waits after each call, so that an error names the call that caused it.
	Sync bool
}

// Queue runs work in submission order. Its methods are safe for concurrent use.
type Queue struct {
	device *Device
	stream driver.Stream
	isSync bool // wait after each call

	// Guarded by Device.mu.
	isClosed  bool
	submitted uint64            // sequence of the last work
	completed uint64            // all work up to this sequence is known to be done
	waited    map[*Queue]uint64 // sequences of other queues that this one is ordered after
	scratch   *block            // shared by all calls, which run one after another; nil before the first
	tables    map[*Function]*table
	checks    checks
	trail     trail

	collects *collection // of a queue that takes calls for a sequence, and no other work; else nil
}

var _ device.Queue = (*Queue)(nil)

// NewQueue returns an empty queue.
func (d *Device) NewQueue() (device.Queue, error) {
	q, err := d.newQueue(QueueOptions{})
	if err != nil {
		return nil, err
	}
	return q, nil
}

// NewQueueWith is NewQueue with options.
func (d *Device) NewQueueWith(o QueueOptions) (*Queue, error) { return d.newQueue(o) }

func (d *Device) newQueue(o QueueOptions) (*Queue, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := &Queue{device: d, isSync: o.Sync || d.options.Sync, waited: map[*Queue]uint64{}}
	err := d.submit("new queue", func() error {
		return d.retryAfterTrim(0, func() (err error) {
			q.stream, err = d.table.NewStream()
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	d.queues[q] = struct{}{}
	return q, nil
}

// Device returns the queue's device.
func (q *Queue) Device() device.Device { return q.device.outer }

// Use says how a call uses a buffer.
type Use struct {
	Buffer  *Buffer
	IsWrite bool
}

// Launch is one kernel of a call.
type Launch struct {
	Function    *Function
	Grid, Block [3]uint32
	Shared      uint32 // bytes of dynamic shared memory
	Params      []byte // the kernel's parameter, one struct

	// IsPacked says that the kernel takes the fields of the struct as arguments, one by one.
	IsPacked bool

	// IsEarly lets the kernel start before the launch before it in the call has ended. It
	// waits for that itself, before it writes anything.
	IsEarly bool
}

// Call is a sequence of launches with the memory they use.
type Call struct {
	// Uses lists all buffers that the kernels access.
	Uses     []Use
	Launches []Launch

	// ScratchBytes is the size of the scratch memory that the kernels need. Its contents
	// are undefined when the call begins.
	ScratchBytes int64

	// TableBytes is the size of a table that the kernels read. A call with a table has a
	// [TablePlacer].
	TableBytes int

	// Indices are the buffers that the first launch reads if it does nothing but write the words of Checks
	// by what they hold, and is the same whatever the parameters of the call; otherwise there are none. Of
	// the calls of a sequence that have the same check, the first does it for all.
	Indices []*Buffer

	// Checks are words by which the kernels may refuse the call. Wait then returns an
	// error. Until it has, Run returns the same error once the host has seen it: when an
	// event after the call is found done, or by a poll every 16 calls.
	Checks []Check
}

// Placer completes the parameters of a call's launches with the address of its scratch
// memory, a multiple of Alignment, and the address of its check words, which are
// contiguous.
type Placer interface{ Place(scratch, words uint64) }

// TablePlacer is a Placer for calls with a table.
type TablePlacer interface {
	Placer

	// PlaceTable completes the parameters with the address of the table, a multiple of
	// Alignment, and returns the table. It is called after Place.
	PlaceTable(address uint64) []byte
}

// Run submits a call. The call runs after the work of other queues on its buffers. A
// call without scratch memory and checks needs no Placer; a nil call does nothing. Run
// returns before the work is done, unless the queue has Sync set. It allocates nothing
// once there is enough scratch memory, and keeps no reference to c. If an argument is
// wrong, nothing runs.
func (q *Queue) Run(c *Call, p Placer) error { return q.runWith(c, p, nil) }

// runWith is Run followed by the work of another library, if there is any.
func (q *Queue) runWith(c *Call, p Placer, f Foreign) error {
	d := q.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if c == nil {
		c = &Call{}
	}
	if err := q.takesCalls("launch"); err != nil {
		return err
	}
	switch {
	case q.collects == nil:
	case f != nil:
		return fmt.Errorf("%s: %s cannot be recorded", d.name, f.Name())
	case q.collects.isMade:
		return q.collects.update(c, p)
	}
	if err := d.checkCall(c.Uses, c.Launches); err != nil {
		return err
	}
	if q.collects != nil {
		q.collects.sequence.add(c)
		return nil
	}
	return q.submitRun(func() error { return q.run(c, p, f) })
}

// submitRun submits checked calls, unless earlier ones are known to be refused; mu is held.
func (q *Queue) submitRun(run func() error) error {
	if err := q.checks.refused; err != nil {
		return err
	}
	err := q.device.submit("launch", run)
	if oom, ok := errors.AsType[*device.OutOfMemoryError](err); ok {
		return oom
	}
	if err == nil && q.isSync {
		return q.checks.takeError()
	}
	return err
}

// run is runWith with mu held, on a usable queue; the context is current.
func (q *Queue) run(c *Call, p Placer, f Foreign) error {
	var scratch, words driver.Pointer
	var t *table
	if c.TableBytes > 0 { // first: running out of memory may free scratch memory
		var err error
		if t, err = q.tableOf(c); err != nil {
			return err
		}
	}
	if c.ScratchBytes > 0 {
		if err := q.takeScratch(c.ScratchBytes); err != nil {
			return err
		}
		if err := q.orderAfter(q.scratch, true); err != nil {
			return err
		}
		scratch = q.scratch.pointer
	}
	if len(c.Checks) > 0 {
		var err error
		if words, err = q.allocChecks(c.Checks); err != nil {
			return err
		}
	}
	if p != nil {
		p.Place(uint64(scratch), uint64(words))
	}
	if t != nil {
		if err := q.sendTable(t, c, p); err != nil {
			return err
		}
	}
	for i := range c.Uses {
		if err := q.orderAfter(c.Uses[i].Buffer.lease.block, c.Uses[i].IsWrite); err != nil {
			return err
		}
	}
	err := q.launch(c.Launches)
	if err == nil && f != nil {
		err = q.submitForeign(f, scratch)
	}
	// Kernels launched before an error use the memory too.
	for i := range c.Uses {
		q.mark(c.Uses[i].Buffer.lease.block, c.Uses[i].IsWrite)
	}
	if c.ScratchBytes > 0 {
		q.mark(q.scratch, true)
	}
	if t != nil {
		q.mark(t.memory, true)
	}
	if len(c.Checks) > 0 {
		q.mark(q.checks.words, true)
	}
	if err != nil {
		return err
	}
	return q.followChecks()
}

// takeScratch makes sure that the queue has enough scratch memory.
func (q *Queue) takeScratch(bytes int64) error {
	if q.scratch != nil && q.scratch.size >= bytes {
		return nil
	}
	q.dropScratch() // first, so that its memory can be reused
	b, err := q.device.takeBlock(bytes)
	q.scratch = b
	return err
}

// dropScratch makes the scratch memory available for reuse. Later work on it is ordered
// after the calls that use it now.
func (q *Queue) dropScratch() {
	if q.scratch != nil {
		q.device.memory.put(q.scratch)
		q.scratch = nil
	}
}

// usable returns an error if the queue cannot be used; mu is held.
func (q *Queue) usable(what string) error {
	if q.collects != nil {
		return &device.ArgumentError{Op: q.device.name + ": " + what, Got: "a queue that collects calls for a sequence", Want: "another one: it takes nothing but calls"}
	}
	return q.takesCalls(what)
}

// takesCalls is usable for calls.
func (q *Queue) takesCalls(what string) error {
	if err := q.device.usable(what); err != nil {
		return err
	}
	if q.isClosed {
		return fmt.Errorf("%s: %s: queue %w", q.device.name, what, device.ErrClosed)
	}
	return nil
}

// note numbers and remembers work that is about to be submitted.
func (q *Queue) note(what string) {
	q.device.sequence++
	q.submitted = q.device.sequence
	q.trail.add(q.submitted, what)
}

// complete notes that all work up to a sequence is done.
func (q *Queue) complete(sequence uint64) { q.completed = max(q.completed, sequence) }

// orderAfter orders the queue after the work of other queues on a block: after its last
// writer and, if isWrite, after its readers too.
func (q *Queue) orderAfter(b *block, isWrite bool) error {
	if err := q.orderAfterMark(b.writer); err != nil {
		return err
	}
	if isWrite {
		for _, r := range b.readers {
			if err := q.orderAfterMark(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *Queue) orderAfterMark(m mark) error {
	other := m.queue
	if other == nil || other == q || m.sequence <= other.completed || m.sequence <= q.waited[other] {
		return nil
	}
	d := q.device
	e, err := d.takeEvent()
	if err != nil {
		return err
	}
	defer d.putEvent(e)
	if err := d.table.Record(e, other.stream); err != nil {
		return err
	}
	if err := d.table.WaitEvent(q.stream, e); err != nil {
		return err
	}
	q.waited[other] = other.submitted
	return nil
}

// mark records on a block that the queue's last work uses it.
func (q *Queue) mark(b *block, isWrite bool) {
	now := mark{q, q.submitted}
	if isWrite {
		b.writer = now
		b.readers = b.readers[:0]
		return
	}
	for i := range b.readers {
		if b.readers[i].queue == q {
			b.readers[i] = now
			return
		}
	}
	b.readers = append(b.readers, now)
}

// Fill queues setting a range of a buffer to a byte.
func (q *Queue) Fill(b *Buffer, offset, bytes int64, value byte) error {
	return q.move("fill", []Use{{b, true}}, []int64{offset}, bytes, func() error {
		return q.device.table.Fill(b.lease.block.pointer+driver.Pointer(offset), value, bytes, q.stream)
	})
}

// Copy queues a copy from one buffer to another of the same device.
func (q *Queue) Copy(dst *Buffer, dstOffset int64, src *Buffer, srcOffset, bytes int64) error {
	return q.move("copy", []Use{{dst, true}, {src, false}}, []int64{dstOffset, srcOffset}, bytes, func() error {
		return q.device.table.Copy(dst.lease.block.pointer+driver.Pointer(dstOffset), src.lease.block.pointer+driver.Pointer(srcOffset), bytes, q.stream)
	})
}

func (q *Queue) move(what string, uses []Use, offsets []int64, bytes int64, f func() error) error {
	d := q.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := q.usable("launch"); err != nil {
		return err
	}
	if err := d.checkCall(uses, nil); err != nil {
		return err
	}
	for i, u := range uses {
		if err := u.Buffer.check(what, offsets[i], bytes); err != nil {
			return err
		}
	}
	if bytes == 0 {
		return nil
	}
	return d.submit(what, func() error {
		for _, u := range uses {
			if err := q.orderAfter(u.Buffer.lease.block, u.IsWrite); err != nil {
				return err
			}
		}
		q.note(what)
		if err := f(); err != nil {
			return err
		}
		for _, u := range uses {
			q.mark(u.Buffer.lease.block, u.IsWrite)
		}
		return q.maybeSync()
	})
}

// Wait waits until all work submitted so far is done, or until ctx is. It returns the
// errors of that work. Refused calls are reported once, after which the queue can be
// used again.
func (q *Queue) Wait(ctx context.Context) error {
	d := q.device
	d.mu.Lock()
	if err := q.usable("wait"); err != nil || q.isIdle() {
		if err == nil {
			err = q.checks.takeError()
		}
		d.mu.Unlock()
		return err
	}
	e, err := q.record()
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return e.Wait(ctx)
}

// isIdle reports whether all work is known to be done and its checks are read; mu is
// held.
func (q *Queue) isIdle() bool { return q.completed == q.submitted && !q.checks.hasPending() }

// Record returns an event at the current end of the queue.
func (q *Queue) Record() (device.Event, error) {
	q.device.mu.Lock()
	defer q.device.mu.Unlock()
	if err := q.usable("record"); err != nil {
		return nil, err
	}
	e, err := q.record()
	if err != nil {
		return nil, err
	}
	return e, nil
}

// record is Record with mu held, on a usable queue.
func (q *Queue) record() (*Event, error) {
	d := q.device
	e := &Event{queue: q, sequence: q.submitted, claim: &eventClaim{}}
	if q.isIdle() {
		e.claim.isDone = true
		return e, nil
	}
	err := d.submit("record", func() (err error) {
		if err := q.copyChecks(); err != nil {
			return err
		}
		e.sequence, e.checks = q.submitted, q.checks.next
		if e.claim.event, err = d.takeEvent(); err != nil {
			return err
		}
		if err = d.table.Record(e.claim.event, q.stream); err != nil {
			d.putEvent(e.claim.event)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	e.cleanup = runtime.AddCleanup(e, d.dropEvent, e.claim)
	return e, nil
}

// Close waits for the queue's work and closes the queue. It reports refused calls as
// Wait does.
func (q *Queue) Close() error {
	if q.collects != nil {
		return q.usable("close queue")
	}
	d := q.device
	d.mu.Lock()
	if q.isClosed || d.isClosed.Load() {
		d.mu.Unlock()
		return nil
	}
	err := q.usable("close queue")
	if err == nil {
		err = d.submit("close queue", q.copyChecks)
	}
	q.isClosed = true // from here on no work can be added
	stream := q.stream
	d.mu.Unlock()
	if err == nil {
		err = d.wait("close queue", func() error { return d.table.SyncStream(stream) })
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isClosed.Load() {
		return nil // Device.Close has closed the queue, and returns the errors
	}
	if err == nil {
		q.completed = q.submitted
		q.checks.read(q.checks.next)
	}
	q.dropScratch()
	delete(d.queues, q)
	for other := range d.queues {
		delete(other.waited, q)
	}
	destroyed := d.call(func() error { return errors.Join(d.table.DestroyStream(stream), q.checks.free(d), q.freeTables()) })
	if err == nil && destroyed != nil {
		err = d.failed("close queue", destroyed)
	}
	if err == nil {
		err = q.checks.takeError()
	}
	return err
}
