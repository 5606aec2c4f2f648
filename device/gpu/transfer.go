package gpu

import (
	"sync"

	"tokitai/device/gpu/driver"
)

// chunkBytes is the size of a staging buffer: large enough for the bus's full bandwidth,
// small enough that filling the first one adds little delay.
const chunkBytes = 4 << 20

// transfers copies between Go memory and device memory through two pinned staging
// buffers: one is filled while the other is copied.
type transfers struct {
	queue *Queue

	mu     sync.Mutex // one transfer at a time; taken before Device.mu
	chunks [2]chunk
	next   int
}

// chunk is a staging buffer.
type chunk struct {
	memory   []byte
	event    driver.Event
	sequence uint64 // of the copy that the event follows; 0 when the chunk is free
}

// prepare allocates the chunks on first use.
func (t *transfers) prepare(d *Device) error {
	if t.chunks[len(t.chunks)-1].memory != nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.submit("allocate staging memory", func() error {
		for i := range t.chunks {
			c := &t.chunks[i]
			if c.memory != nil {
				continue
			}
			event, err := d.takeEvent()
			if err != nil {
				return err
			}
			memory, err := d.table.AllocHost(chunkBytes)
			if err != nil {
				d.putEvent(event)
				return err
			}
			c.memory, c.event = memory, event
		}
		return nil
	})
}

func (t *transfers) free(table *driver.Table) error {
	var first error
	for i := range t.chunks {
		if t.chunks[i].memory != nil {
			if err := table.FreeHost(t.chunks[i].memory); err != nil && first == nil {
				first = err
			}
		}
		t.chunks[i] = chunk{}
	}
	return first
}

// take returns the next chunk once it is free.
func (t *transfers) take(d *Device) (*chunk, error) {
	c := &t.chunks[t.next]
	t.next = (t.next + 1) % len(t.chunks)
	return c, t.wait(d, c)
}

// wait waits until the copy that uses a chunk is done.
func (t *transfers) wait(d *Device, c *chunk) error {
	if c.sequence == 0 {
		return nil
	}
	if err := d.wait("transfer", func() error { return d.table.SyncEvent(c.event) }); err != nil {
		return err
	}
	d.mu.Lock()
	t.queue.complete(c.sequence)
	d.mu.Unlock()
	c.sequence = 0
	return nil
}

// send queues the copy of one chunk.
func (t *transfers) send(what string, b *Buffer, isWrite bool, c *chunk, copy func(driver.Stream) error) error {
	d := b.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := b.check(what, 0, 0); err != nil {
		return err
	}
	return d.submit(what, func() error {
		if err := t.queue.orderAfter(b.lease.block, isWrite); err != nil {
			return err
		}
		if err := copy(t.queue.stream); err != nil {
			return err
		}
		t.queue.note(what)
		t.queue.mark(b.lease.block, isWrite)
		c.sequence = t.queue.submitted
		if err := d.table.Record(c.event, t.queue.stream); err != nil {
			return err
		}
		return t.queue.maybeSync()
	})
}

// CopyIn writes src at offset, after all work queued so far that uses the buffer. When it
// returns, src may be reused; the copy itself may still be pending, in order.
func (b *Buffer) CopyIn(offset int64, src []byte) error {
	const what = "copy in"
	d := b.device
	if err := b.check(what, offset, int64(len(src))); err != nil {
		return err
	}
	t := &d.transfers
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.prepare(d); err != nil {
		return err
	}
	for len(src) > 0 {
		c, err := t.take(d)
		if err != nil {
			return err
		}
		n := copy(c.memory, src)
		at := b.lease.block.pointer + driver.Pointer(offset)
		err = t.send(what, b, true, c, func(s driver.Stream) error { return d.table.CopyIn(at, c.memory[:n], s) })
		if err != nil {
			return err
		}
		src, offset = src[n:], offset+int64(n)
	}
	return nil
}

// CopyOut fills dst from offset, after all work queued so far that writes the buffer.
func (b *Buffer) CopyOut(offset int64, dst []byte) error {
	const what = "copy out"
	d := b.device
	if err := b.check(what, offset, int64(len(dst))); err != nil {
		return err
	}
	t := &d.transfers
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.prepare(d); err != nil {
		return err
	}
	var before *chunk // the previous chunk, copied while the next one is queued
	var into []byte
	fetch := func() error {
		if before == nil {
			return nil
		}
		if err := t.wait(d, before); err != nil {
			return err
		}
		copy(into, before.memory)
		return nil
	}
	for len(dst) > 0 {
		c, err := t.take(d)
		if err != nil {
			return err
		}
		n := min(len(dst), len(c.memory))
		from := b.lease.block.pointer + driver.Pointer(offset)
		err = t.send(what, b, false, c, func(s driver.Stream) error { return d.table.CopyOut(c.memory[:n], from, s) })
		if err != nil {
			return err
		}
		if err := fetch(); err != nil {
			return err
		}
		before, into = c, dst[:n]
		dst, offset = dst[n:], offset+int64(n)
	}
	return fetch()
}
