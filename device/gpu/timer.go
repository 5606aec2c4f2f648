package gpu

import (
	"context"
	"fmt"
	"time"

	"tokitai/device"
	"tokitai/device/gpu/driver"
)

// Timer measures the time between two points in a queue by the device's own clock. To
// keep the host's launch overhead out of the result, submit work before Start that keeps
// the device busy: a Queue.Fill of a buffer larger than the cache, which also evicts the
// cache.
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

// Close releases the timer. Closing twice is allowed.
func (t *Timer) Close() {
	d := t.queue.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if !t.isClosed && !d.isClosed.Load() {
		d.timed = append(d.timed, t.start, t.end)
	}
	t.isClosed = true
}

// Start marks the first point.
func (t *Timer) Start() error { return t.record(t.start, false) }

// Stop marks the second point.
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

// Elapsed waits for the second point and returns the time between the two.
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
