package gpu

import (
	"bytes"
	"errors"
	"fmt"

	"tokitai/device/gpu/driver"
)

// table is device memory for the tables of calls that begin with one function. It keeps the
// last table, which need not be copied again if the next call has the same.
type table struct {
	memory *block
	copies [tableCopies]tableCopy
	last   int // the copy that the device has; -1 before the first
}

// tableCopies is how many calls may wait for their tables before the host waits for one.
const tableCopies = 4

// tableCopy is pinned memory that a table is copied from.
type tableCopy struct {
	memory   []byte
	bytes    int
	event    driver.Event // recorded after the copy
	queue    *Queue       // that copies; nil before the first copy
	sequence uint64       // of the copy
}

// tableOf returns the memory for a call's table.
func (q *Queue) tableOf(c *Call) (*table, error) {
	d := q.device
	if len(c.Launches) == 0 {
		return nil, d.badLaunch("a table without launches", "at least one launch")
	}
	f, size := c.Launches[0].Function, int64(c.TableBytes)
	t := q.tables[f]
	if t != nil && t.memory.size >= size {
		return t, nil
	}
	memory, err := d.takeBlock(size)
	if err != nil {
		return nil, err
	}
	if err := q.orderAfter(memory, true); err != nil {
		d.memory.put(memory)
		return nil, err
	}
	if t == nil {
		t = &table{}
		if q.tables == nil {
			q.tables = map[*Function]*table{}
		}
		q.tables[f] = t
	} else {
		d.memory.put(t.memory) // later work on it is ordered after the calls that read it
	}
	t.memory, t.last = memory, -1
	return t, nil
}

// sendTable completes a call's table and queues its copy, unless the device has it already;
// mu is held and the context is current.
func (q *Queue) sendTable(t *table, c *Call, p Placer) error {
	placer, ok := p.(TablePlacer)
	if !ok {
		return q.device.badLaunch("a table without a TablePlacer", "one")
	}
	content := placer.PlaceTable(uint64(t.memory.pointer))
	if len(content) != c.TableBytes {
		return q.device.badLaunch(fmt.Sprintf("a table of %d bytes", len(content)), fmt.Sprintf("%d, as the call says", c.TableBytes))
	}
	return q.refreshTable(t, content)
}

// refreshTable queues the copy of a table, unless the device has it already; mu is held and
// the context is current.
func (q *Queue) refreshTable(t *table, content []byte) error {
	if t.last >= 0 && bytes.Equal(t.copies[t.last].memory[:t.copies[t.last].bytes], content) {
		return nil
	}
	return q.copyTable(t, content)
}

// copyTable queues the copy of a table. It waits if the pinned memory is still in use.
func (q *Queue) copyTable(t *table, content []byte) error {
	d := q.device
	next := (t.last + 1) % tableCopies
	c := &t.copies[next]
	if err := c.wait(d); err != nil {
		return err
	}
	if err := c.grow(d, len(content)); err != nil {
		return err
	}
	c.bytes = copy(c.memory, content)
	q.note("copy of a table")
	t.last = -1 // unless all of it succeeds
	if err := d.table.CopyIn(t.memory.pointer, c.memory[:c.bytes], q.stream); err != nil {
		return err
	}
	c.queue, c.sequence = q, q.submitted
	q.mark(t.memory, true)
	if err := d.table.Record(c.event, q.stream); err != nil {
		return err
	}
	t.last = next
	return q.maybeSync()
}

// wait waits until the copy is done, if there is one.
func (c *tableCopy) wait(d *Device) error {
	if c.queue == nil || c.sequence <= c.queue.completed {
		return nil
	}
	if err := d.table.SyncEvent(c.event); err != nil {
		return err
	}
	c.queue.complete(c.sequence)
	return nil
}

// grow makes room for so many bytes. No copy from the memory is pending.
func (c *tableCopy) grow(d *Device, n int) error {
	if len(c.memory) >= n {
		return nil
	}
	memory, err := d.table.AllocHost(int(blockSize(int64(n))))
	if err != nil {
		return err
	}
	old := c.memory
	c.memory = memory
	if old != nil {
		return d.table.FreeHost(old)
	}
	c.event, err = d.takeEvent()
	return err
}

// freeTables releases the tables of a queue whose work is done.
func (q *Queue) freeTables() error {
	var errs []error
	for _, t := range q.tables {
		errs = append(errs, t.free(q.device))
	}
	q.tables = nil
	return errors.Join(errs...)
}

// free releases the table. Its copies are done.
func (t *table) free(d *Device) error {
	d.memory.put(t.memory)
	var errs []error
	for i := range t.copies {
		if c := &t.copies[i]; c.memory != nil {
			errs = append(errs, d.table.FreeHost(c.memory))
			d.putEvent(c.event)
		}
	}
	return errors.Join(errs...)
}
