package gpu

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"sync/atomic"

	"tokitai/device"
	"tokitai/device/gpu/driver"
)

// Alignment is the alignment of every buffer, in bytes. Blocks are multiples of it.
const Alignment = 256

// Usage is the account of a device's memory.
type Usage struct {
	LiveBytes   int64 // of buffers that are open
	PeakBytes   int64 // the most that LiveBytes has been
	Blocks      int   // number of buffers that are open
	CachedBytes int64 // held for buffers to come
	HeldBytes   int64 // taken from the driver: live, rounded up, cached, and the queues' scratch memory
	LimitBytes  int64
}

// block is memory of the driver's. It remembers who uses it, also after its buffer is
// closed: the next buffer's work is ordered after that.
type block struct {
	pointer driver.Pointer
	size    int64
	writer  mark
	readers []mark // since writer, one per queue
}

// mark is a place in a queue.
type mark struct {
	queue    *Queue
	sequence uint64
}

// memory hands out blocks and keeps those given back; Device.mu guards it.
type memory struct {
	usage  Usage
	cache  map[int64][]*block // by size
	blocks map[*block]struct{}
}

func (m *memory) init() {
	m.cache = map[int64][]*block{}
	m.blocks = map[*block]struct{}{}
}

// Usage reports the memory in use. A buffer that was dropped without Close counts until
// the collector finds it.
func (d *Device) Usage() Usage {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.memory.usage
	u.LimitBytes = d.limit()
	return u
}

func (d *Device) limit() int64 {
	if d.options.MemoryLimit > 0 {
		return d.options.MemoryLimit
	}
	return d.properties.MemoryBytes
}

// blockSize rounds up so that blocks can be used again: to an eighth of the power of
// two below, and from 64 MiB on to 2 MiB, the driver's own pages.
func blockSize(bytes int64) int64 {
	step := int64(2 << 20)
	if bytes < 64<<20 {
		step = max(Alignment, int64(1)<<max(bits.Len64(uint64(bytes-1))-4, 0))
	}
	return (bytes + step - 1) / step * step
}

// maxBytes keeps roundings from overflowing.
const maxBytes = 1 << 60

// Alloc returns a buffer of zeros.
func (d *Device) Alloc(bytes int64) (device.Buffer, error) {
	if bytes < 1 {
		return nil, &device.ArgumentError{Op: d.name + ": alloc", Got: fmt.Sprintf("%d bytes", bytes), Want: "at least 1"}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var taken *block
	err := d.submit("alloc", func() (err error) {
		if taken, err = d.takeBlock(bytes); err != nil {
			return err
		}
		q := d.transfers.queue
		if err = q.orderAfter(taken, true); err == nil {
			err = d.table.Fill(taken.pointer, 0, bytes, q.stream)
		}
		if err != nil {
			d.memory.put(taken)
			return err
		}
		q.note("zeros of a new buffer")
		q.mark(taken, true)
		return q.settle()
	})
	if oom, ok := errors.AsType[*device.OutOfMemoryError](err); ok {
		return nil, oom
	}
	if err != nil {
		return nil, err
	}
	u := &d.memory.usage
	u.Blocks++
	u.LiveBytes += bytes
	u.PeakBytes = max(u.PeakBytes, u.LiveBytes)
	b := &Buffer{device: d, bytes: bytes, lease: &lease{block: taken, bytes: bytes}}
	b.cleanup = runtime.AddCleanup(b, d.giveBack, b.lease)
	return b, nil
}

// makingRoom makes a driver call that takes so many bytes, or 0 if the driver alone knows.
// When there is no room it waits for all work, gives back what is cached, and tries once
// more.
func (d *Device) makingRoom(bytes int64, f func() error) error {
	err := f()
	if isOutOfMemory(err) {
		if err := d.drain(); err != nil {
			return err
		}
		if err := d.trim(); err != nil {
			return err
		}
		err = f()
	}
	if isOutOfMemory(err) {
		return d.outOfMemory(bytes)
	}
	return err
}

// takeBlock finds or makes a block.
func (d *Device) takeBlock(bytes int64) (*block, error) {
	m := &d.memory
	if bytes > maxBytes {
		return nil, d.outOfMemory(bytes)
	}
	size := blockSize(bytes)
	if kept := m.cache[size]; len(kept) > 0 {
		b := kept[len(kept)-1]
		m.cache[size] = kept[:len(kept)-1]
		m.usage.CachedBytes -= size
		return b, nil
	}
	var b *block
	err := d.makingRoom(bytes, func() (err error) {
		b, err = d.newBlock(size)
		return err
	})
	return b, err
}

func (d *Device) newBlock(size int64) (*block, error) {
	m := &d.memory
	if size > d.limit()-m.usage.HeldBytes {
		return nil, &driver.Error{Class: driver.OutOfMemory}
	}
	pointer, err := d.table.Alloc(size)
	if err != nil {
		return nil, err
	}
	b := &block{pointer: pointer, size: size, readers: make([]mark, 0, 4)}
	m.blocks[b] = struct{}{}
	m.usage.HeldBytes += size
	return b, nil
}

func isOutOfMemory(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && e.Class == driver.OutOfMemory
}

func (d *Device) outOfMemory(asked int64) error {
	free := d.limit() - d.memory.usage.HeldBytes
	if device, _, err := d.table.MemoryInfo(); err == nil {
		free = min(free, device)
	}
	return &device.OutOfMemoryError{Device: d.name, Asked: asked, Free: free}
}

// trim gives the cached blocks back to the driver. No work uses them any more.
func (m *memory) trim(table *driver.Table) error {
	for size, kept := range m.cache {
		for len(kept) > 0 {
			b := kept[len(kept)-1]
			kept = kept[:len(kept)-1]
			m.cache[size] = kept
			m.usage.CachedBytes -= size
			m.usage.HeldBytes -= size
			delete(m.blocks, b)
			if err := table.Free(b.pointer); err != nil {
				return err
			}
		}
		delete(m.cache, size)
	}
	return nil
}

// Trim waits for the device's work and gives the memory that no buffer uses back to
// the driver, for other processes.
func (d *Device) Trim() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.submit("trim", func() error {
		if err := d.drain(); err != nil {
			return err
		}
		return d.trim()
	})
}

// trim gives back what is kept for later, when no work is under way; mu is held.
func (d *Device) trim() error {
	for q := range d.queues {
		q.dropScratch()
	}
	return d.memory.trim(d.table)
}

func (m *memory) put(b *block) {
	m.cache[b.size] = append(m.cache[b.size], b)
	m.usage.CachedBytes += b.size
}

// free gives every block back, whoever holds it.
func (m *memory) free(table *driver.Table) error {
	var first error
	for b := range m.blocks {
		if err := table.Free(b.pointer); err != nil && first == nil {
			first = err
		}
	}
	clear(m.blocks)
	clear(m.cache)
	m.usage = Usage{PeakBytes: m.usage.PeakBytes}
	return first
}

// lease is a buffer's claim on its block, given back once.
type lease struct {
	block    *block
	bytes    int64
	isClosed atomic.Bool // set under Device.mu
}

func (d *Device) giveBack(l *lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.isClosed.Swap(true) || d.isClosed.Load() {
		return
	}
	u := &d.memory.usage
	u.Blocks--
	u.LiveBytes -= l.bytes
	d.memory.put(l.block)
}

// Buffer is a block of the device's memory.
type Buffer struct {
	device  *Device
	bytes   int64
	lease   *lease
	cleanup runtime.Cleanup
}

var _ device.Buffer = (*Buffer)(nil)

// Device is where the buffer lies.
func (b *Buffer) Device() device.Device { return b.device }

// Bytes is the size, also of a closed buffer.
func (b *Buffer) Bytes() int64 { return b.bytes }

// Pointer is the address of the buffer's first byte on the device. It is the buffer's
// until Close; a launch that is given it says so by a Use, which also refuses a buffer
// closed since.
func (b *Buffer) Pointer() uint64 { return uint64(b.lease.block.pointer) }

// Closed reports whether the buffer or its device is closed.
func (b *Buffer) Closed() bool { return b.lease.isClosed.Load() || b.device.isClosed.Load() }

// Close gives the memory back. Work that uses it is finished first: what the memory is
// used for next is ordered after that.
func (b *Buffer) Close() error {
	b.cleanup.Stop()
	b.device.giveBack(b.lease)
	return nil
}

// check refuses a closed buffer, and a part that does not lie in it.
func (b *Buffer) check(what string, offset, bytes int64) error {
	if b.Closed() {
		return fmt.Errorf("%s: %s: buffer %w", b.device.name, what, device.ErrClosed)
	}
	if offset < 0 || bytes < 0 || offset > b.bytes || bytes > b.bytes-offset {
		return &device.ArgumentError{Op: b.device.name + ": " + what, Got: fmt.Sprintf("%d bytes at offset %d", bytes, offset),
			Want: fmt.Sprintf("a part of the buffer's %d", b.bytes)}
	}
	return nil
}
