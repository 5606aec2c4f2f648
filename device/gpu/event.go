package gpu

import (
	"context"
	"runtime"
	"time"

	"tokitai/device"
	"tokitai/device/gpu/driver"
)

// Event is a point in a queue, reached when all work before it is done.
type Event struct {
	queue    *Queue
	sequence uint64
	checks   uint64 // the queue's check words before this one are known when it is reached
	claim    *eventClaim
	cleanup  runtime.Cleanup
}

// eventClaim is an Event's hold on a driver event. It is released once; Device.mu guards
// it.
type eventClaim struct {
	event  driver.Event
	isDone bool
}

var _ device.Event = (*Event)(nil)

// dropEvent releases the claim of an Event that was garbage collected.
func (d *Device) dropEvent(c *eventClaim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !c.isDone && !d.isClosed.Load() {
		c.isDone = true
		d.putEvent(c.event)
	}
}

// poll reports whether the event is reached.
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

// reach notes that the event is reached and releases the driver event; mu is held.
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

// Done reports, without waiting, whether the event is reached. It also returns true once
// the device is lost or closed.
func (e *Event) Done() bool {
	isDone, err := e.poll()
	return isDone || err != nil
}

// Wait waits until the event is reached, or until ctx is done. It reports refused calls
// on the queue, as the queue's Wait does.
func (e *Event) Wait(ctx context.Context) error {
	d := e.queue.device
	for attempt := 0; ; attempt++ {
		if isDone, err := e.poll(); err != nil {
			return err
		} else if isDone {
			d.mu.Lock()
			defer d.mu.Unlock()
			return e.queue.checks.takeError()
		}
		if ctx.Done() == nil {
			break
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
	// The wait cannot be canceled: let the driver wait. If another waiter releases the
	// driver event and it is recorded again, this waits longer than needed, never less.
	event := e.claim.event
	if err := d.wait("wait", func() error { return d.table.SyncEvent(event) }); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e.reach()
	return e.queue.checks.takeError()
}

// pause waits between two polls: not at all at first, as most work is short, then longer
// and longer.
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
