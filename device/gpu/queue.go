package gpu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"tokitai/device"
	"tokitai/device/gpu/driver"
)

// QueueOptions are what a queue may be told. The zero value is the default.
type QueueOptions struct {
	// Sync waits after each call, so that an error names the call that caused it.
	Sync bool
}

// Queue runs work in the order it was given. Its methods are safe from any goroutine.
// All fields but the first ones are guarded by Device.mu.
type Queue struct {
	device *Device
	stream driver.Stream
	isSync bool

	isClosed  bool
	submitted uint64            // sequence of the last work
	completed uint64            // sequence up to which all is known done
	waited    map[*Queue]uint64 // sequence of other queues that this one is ordered after
	scratch   *block            // of all its calls, which run one after another; nil if there is none yet
	checks    checks
	trail     trail
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
		return d.makingRoom(0, func() (err error) {
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

// Device is where the queue's work runs.
func (q *Queue) Device() device.Device { return q.device }

// Use is what a call does with a buffer.
type Use struct {
	Buffer  *Buffer
	IsWrite bool
}

// Launch is one kernel of a call.
type Launch struct {
	Function    *Function
	Grid, Block [3]uint32
	Shared      uint32 // bytes of dynamic shared memory
	Params      []byte // the kernel's one struct
}

// Call is some kernels, in order, with what they use.
type Call struct {
	// Uses are everything that the kernels touch, scratch memory excepted.
	Uses     []Use
	Launches []Launch

	// ScratchBytes of memory, with anything in it, are the call's until its last kernel
	// is done.
	ScratchBytes int64

	// Checks are words by which the kernels may refuse the call. That is an error of
	// Wait; and of every Run from when it is known until Wait has returned it. It is
	// known when an event after the call is seen to be done, and, as far as the device
	// has come, every 16 calls.
	Checks []Check
}

// Placer completes the parameters of a call's launches with the address of its scratch
// memory, a multiple of Alignment, and of the words of its checks, which are neighbours.
type Placer interface{ Place(scratch, words uint64) }

// Run hands a call to the device, after whatever other queues do with its buffers. A call
// without scratch memory and checks needs no Placer, and a nil one runs nothing. Run returns
// before the work is done (unless the queue waits), allocates nothing once there is enough
// scratch memory, and keeps nothing of the call. On an error of the arguments nothing has
// run.
func (q *Queue) Run(c *Call, p Placer) error {
	d := q.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if c == nil {
		c = &Call{}
	}
	if err := q.checkCall(c.Uses, c.Launches); err != nil {
		return err
	}
	if err := q.checks.refused; err != nil {
		return err
	}
	err := d.submit("launch", func() error { return q.run(c, p) })
	if oom, ok := errors.AsType[*device.OutOfMemoryError](err); ok {
		return oom
	}
	if err == nil && q.isSync {
		return q.checks.take()
	}
	return err
}

// run is Run with mu held, on a usable queue; the context is current.
func (q *Queue) run(c *Call, p Placer) error {
	var scratch, words driver.Pointer
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
		if words, err = q.give(c.Checks); err != nil {
			return err
		}
	}
	if p != nil {
		p.Place(uint64(scratch), uint64(words))
	}
	for i := range c.Uses {
		if err := q.orderAfter(c.Uses[i].Buffer.lease.block, c.Uses[i].IsWrite); err != nil {
			return err
		}
	}
	err := q.launch(c.Launches)
	// What did start uses the memory, also when not everything did.
	for i := range c.Uses {
		q.mark(c.Uses[i].Buffer.lease.block, c.Uses[i].IsWrite)
	}
	if c.ScratchBytes > 0 {
		q.mark(q.scratch, true)
	}
	if len(c.Checks) > 0 {
		q.mark(q.checks.words, true)
	}
	switch {
	case err != nil || !q.checks.isUnknown():
	case q.isSync:
		err = q.learn()
	default:
		err = q.look()
	}
	return err
}

// takeScratch sees to it that the queue has that much scratch memory.
func (q *Queue) takeScratch(bytes int64) error {
	if q.scratch != nil && q.scratch.size >= bytes {
		return nil
	}
	q.dropScratch() // it may make room
	b, err := q.device.takeBlock(bytes)
	q.scratch = b
	return err
}

// dropScratch gives the scratch memory back; what uses it next is ordered after the calls
// that did.
func (q *Queue) dropScratch() {
	if q.scratch != nil {
		q.device.memory.put(q.scratch)
		q.scratch = nil
	}
}

// Launch is Run of one kernel whose memory no other queue uses and that stays open until
// the queue has been waited for.
func (q *Queue) Launch(f *Function, grid, block [3]uint32, shared uint32, params []byte) error {
	launches := [1]Launch{{Function: f, Grid: grid, Block: block, Shared: shared, Params: params}}
	return q.Run(&Call{Launches: launches[:]}, nil)
}

func (q *Queue) launch(launches []Launch) error {
	d := q.device
	for i := range launches {
		l := &launches[i]
		f := l.Function
		if int(l.Shared) > f.shared {
			if err := d.table.SetShared(f.handle, int(l.Shared)); err != nil {
				return err
			}
			f.shared = int(l.Shared)
		}
		q.note(f.entry)
		if err := d.table.Launch(f.handle, l.Grid, l.Block, l.Shared, q.stream, l.Params); err != nil {
			return err
		}
		if err := q.settle(); err != nil {
			return err
		}
	}
	return nil
}

// settle waits for the work just given to a queue that waits after each call.
func (q *Queue) settle() error {
	if !q.isSync {
		return nil
	}
	if err := q.device.table.SyncStream(q.stream); err != nil {
		return err
	}
	q.completed = q.submitted
	return nil
}

// maxParams is what every driver takes.
const maxParams = 4096

// checkCall refuses what no device could run; mu is held.
func (q *Queue) checkCall(uses []Use, launches []Launch) error {
	d := q.device
	if err := q.usable("launch"); err != nil {
		return err
	}
	for i := range uses {
		b := uses[i].Buffer
		switch {
		case b == nil:
			return d.badLaunch("a nil buffer", "one of the device's")
		case b.device != d:
			return d.badLaunch("a buffer of "+b.device.name, "one of the device's own")
		case b.Closed():
			return fmt.Errorf("%s: launch: buffer %w", d.name, device.ErrClosed)
		}
	}
	p := &d.properties
	for i := range launches {
		l := &launches[i]
		f := l.Function
		switch {
		case f == nil:
			return d.badLaunch("a nil function", "one of a loaded module's")
		case f.module.device != d:
			return d.badLaunch("a function of "+f.module.device.name, "one of the device's own")
		case f.module.isClosed:
			return fmt.Errorf("%s: launch %s: module %w", d.name, f.entry, device.ErrClosed)
		case l.Grid[0] == 0 || l.Grid[1] == 0 || l.Grid[2] == 0 || l.Grid[0] > 1<<31-1 || l.Grid[1] > 65535 || l.Grid[2] > 65535:
			return d.badLaunch(fmt.Sprintf("%s with a grid of %v", f.entry, l.Grid), "1 to 2147483647, 65535, 65535 blocks")
		case l.Block[0] == 0 || l.Block[1] == 0 || l.Block[2] == 0 ||
			uint64(l.Block[0])*uint64(l.Block[1])*uint64(l.Block[2]) > uint64(p.ThreadsPerBlock) || l.Block[0]|l.Block[1]|l.Block[2] > 1<<20:
			return d.badLaunch(fmt.Sprintf("%s with blocks of %v", f.entry, l.Block), fmt.Sprintf("1 to %d threads", p.ThreadsPerBlock))
		case int64(l.Shared) > int64(p.SharedBytes):
			return d.badLaunch(fmt.Sprintf("%s with %d bytes of shared memory", f.entry, l.Shared), fmt.Sprintf("at most %d", p.SharedBytes))
		case len(l.Params) > maxParams:
			return d.badLaunch(fmt.Sprintf("%s with %d bytes of parameters", f.entry, len(l.Params)), fmt.Sprintf("at most %d", maxParams))
		}
	}
	return nil
}

func (d *Device) badLaunch(got, want string) error {
	return &device.ArgumentError{Op: d.name + ": launch", Got: got, Want: want}
}

// usable says why not; mu is held.
func (q *Queue) usable(what string) error {
	if err := q.device.usable(what); err != nil {
		return err
	}
	if q.isClosed {
		return fmt.Errorf("%s: %s: queue %w", q.device.name, what, device.ErrClosed)
	}
	return nil
}

// note counts work that is about to be in the queue.
func (q *Queue) note(what string) {
	q.device.sequence++
	q.submitted = q.device.sequence
	q.trail.add(q.submitted, what)
}

// complete learns that all work up to a sequence is done.
func (q *Queue) complete(sequence uint64) { q.completed = max(q.completed, sequence) }

// orderAfter lets the queue wait for what other queues do with a block: for its writer,
// and before writing for its readers too.
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

// mark notes on a block that the queue's last work uses it.
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

// Fill sets a part of a buffer to a byte, in the order of the queue.
func (q *Queue) Fill(b *Buffer, offset, bytes int64, value byte) error {
	return q.move("fill", []Use{{b, true}}, []int64{offset}, bytes, func() error {
		return q.device.table.Fill(b.lease.block.pointer+driver.Pointer(offset), value, bytes, q.stream)
	})
}

// Copy copies bytes from one buffer to another of the same device, in the order of the
// queue.
func (q *Queue) Copy(dst *Buffer, dstOffset int64, src *Buffer, srcOffset, bytes int64) error {
	return q.move("copy", []Use{{dst, true}, {src, false}}, []int64{dstOffset, srcOffset}, bytes, func() error {
		return q.device.table.Copy(dst.lease.block.pointer+driver.Pointer(dstOffset), src.lease.block.pointer+driver.Pointer(srcOffset), bytes, q.stream)
	})
}

func (q *Queue) move(what string, uses []Use, offsets []int64, bytes int64, f func() error) error {
	d := q.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := q.checkCall(uses, nil); err != nil {
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
		return q.settle()
	})
}

// Wait returns when everything given to the queue so far is done, or when the context
// is. It reports what went wrong in that work; calls that were refused it reports once,
// and the queue goes on.
func (q *Queue) Wait(ctx context.Context) error {
	d := q.device
	d.mu.Lock()
	if err := q.usable("wait"); err != nil || q.isIdle() {
		if err == nil {
			err = q.checks.take()
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

// isIdle reports whether all work is known to be done, and what came of it; mu is held.
func (q *Queue) isIdle() bool { return q.completed == q.submitted && !q.checks.isUnknown() }

// Record marks the present end of the queue.
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
		if err := q.sendChecks(); err != nil {
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

// Close waits for the queue's work and ends it. It tells of refused calls as Wait does.
func (q *Queue) Close() error {
	d := q.device
	d.mu.Lock()
	if q.isClosed || d.isClosed.Load() {
		d.mu.Unlock()
		return nil
	}
	err := q.usable("close queue")
	if err == nil {
		err = d.submit("close queue", q.sendChecks)
	}
	q.isClosed = true // no work comes after what is waited for
	stream := q.stream
	d.mu.Unlock()
	if err == nil {
		err = d.wait("close queue", func() error { return d.table.SyncStream(stream) })
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isClosed.Load() {
		return nil // the device has ended it, and tells what went wrong
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
	destroyed := d.call(func() error { return errors.Join(d.table.DestroyStream(stream), q.checks.free(d)) })
	if err == nil && destroyed != nil {
		err = d.failed("close queue", destroyed)
	}
	if err == nil {
		err = q.checks.take()
	}
	return err
}

// Event is a mark in a queue, reached when all work before it is done.
type Event struct {
	queue    *Queue
	sequence uint64
	checks   uint64 // up to which word of the queue's checks
	claim    *eventClaim
	cleanup  runtime.Cleanup
}

// eventClaim is an Event's claim on a driver's event, given back once; Device.mu guards
// it.
type eventClaim struct {
	event  driver.Event
	isDone bool
}

var _ device.Event = (*Event)(nil)

func (d *Device) dropEvent(c *eventClaim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !c.isDone && !d.isClosed.Load() {
		c.isDone = true
		d.putEvent(c.event)
	}
}

// poll asks once whether the mark is reached.
func (e *Event) poll() (bool, error) {
	d := e.queue.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.claim.isDone {
		return true, nil
	}
	isDone := e.sequence <= e.queue.completed
	if !isDone {
		err := d.submit("wait", func() (err error) {
			isDone, err = d.table.EventDone(e.claim.event)
			return err
		})
		if err != nil {
			return false, err
		}
	}
	if isDone {
		e.reach()
	}
	return isDone, nil
}

// reach notes that the mark is reached, and gives the driver's event back; mu is held.
func (e *Event) reach() {
	if e.claim.isDone {
		return
	}
	e.claim.isDone = true
	e.queue.complete(e.sequence)
	e.queue.checks.read(e.checks)
	e.queue.device.putEvent(e.claim.event)
	e.cleanup.Stop()
}

// Done reports, without waiting, whether the mark is reached; also once the device is
// lost or closed, when there is nothing left to wait for.
func (e *Event) Done() bool {
	isDone, err := e.poll()
	return isDone || err != nil
}

// Wait returns when the mark is reached, or when the context is done. It tells of calls
// on the queue that were refused, as the queue's Wait does.
func (e *Event) Wait(ctx context.Context) error {
	d := e.queue.device
	for attempt := 0; ; attempt++ {
		if isDone, err := e.poll(); err != nil {
			return err
		} else if isDone {
			d.mu.Lock()
			defer d.mu.Unlock()
			return e.queue.checks.take()
		}
		if ctx.Done() == nil {
			break
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
	// Nobody will interrupt: let the driver wait. If the driver's event is given back by
	// another waiter and recorded again, this waits for longer, not for less.
	event := e.claim.event
	if err := d.wait("wait", func() error { return d.table.SyncEvent(event) }); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e.reach()
	return e.queue.checks.take()
}

// pause waits between two questions: not at all at first, as most work is short, then
// for longer and longer.
func pause(ctx context.Context, attempt int) error {
	const eager, longest = 64, time.Millisecond
	if attempt < eager {
		runtime.Gosched()
		return ctx.Err()
	}
	timer := time.NewTimer(min(longest, time.Duration(attempt-eager+1)*10*time.Microsecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Timer measures, by the device's own clock, the time between two places in a queue.
// Work handed over before Start that keeps the device busy (Queue.Fill over a buffer
// larger than its cache, which also empties that) hides the time that the host takes
// for the work between Start and Stop.
type Timer struct {
	queue      *Queue
	start, end driver.Event

	hasEnded, isClosed bool // guarded by Device.mu
}

// NewTimer returns a timer for a queue.
func (q *Queue) NewTimer() (*Timer, error) {
	d := q.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := q.usable("new timer"); err != nil {
		return nil, err
	}
	t := &Timer{queue: q}
	err := d.submit("new timer", func() error {
		for len(d.timed) < 2 {
			e, err := d.table.NewEvent(true)
			if err != nil {
				return err
			}
			d.made = append(d.made, e)
			d.timed = append(d.timed, e)
		}
		n := len(d.timed)
		t.start, t.end = d.timed[n-2], d.timed[n-1]
		d.timed = d.timed[:n-2]
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Close gives the timer back. Closing twice is allowed.
func (t *Timer) Close() {
	d := t.queue.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if !t.isClosed && !d.isClosed.Load() {
		d.timed = append(d.timed, t.start, t.end)
	}
	t.isClosed = true
}

// Start marks the first place.
func (t *Timer) Start() error { return t.record(t.start, false) }

// Stop marks the second place.
func (t *Timer) Stop() error { return t.record(t.end, true) }

func (t *Timer) record(e driver.Event, isEnd bool) error {
	q := t.queue
	q.device.mu.Lock()
	defer q.device.mu.Unlock()
	if err := t.usable(); err != nil {
		return err
	}
	t.hasEnded = isEnd
	return q.device.submit("timer", func() error { return q.device.table.Record(e, q.stream) })
}

func (t *Timer) usable() error {
	if t.isClosed {
		return fmt.Errorf("%s: timer %w", t.queue.device.name, device.ErrClosed)
	}
	return t.queue.usable("timer")
}

// Elapsed waits for the second place and returns the time between the two.
func (t *Timer) Elapsed(ctx context.Context) (time.Duration, error) {
	q, d := t.queue, t.queue.device
	d.mu.Lock()
	err := t.usable()
	if err == nil && !t.hasEnded {
		err = &device.ArgumentError{Op: d.name + ": timer", Got: "Elapsed before Stop", Want: "Start, Stop, Elapsed"}
	}
	d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if err := q.Wait(ctx); err != nil {
		return 0, err
	}
	var ms float64
	err = d.wait("timer", func() (err error) {
		if err = d.table.SyncEvent(t.end); err == nil {
			ms, err = d.table.Elapsed(t.start, t.end)
		}
		return err
	})
	return time.Duration(ms * float64(time.Millisecond)), err
}
