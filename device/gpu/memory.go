package gpu

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"tokitai/device"
	"tokitai/device/gpu/driver"
)

// Alignment is the alignment of every buffer, in bytes. Block sizes are multiples of it.
const Alignment = 256

// Usage is the memory use of a device.
type Usage struct {
	LiveBytes   int64 // of open buffers
	PeakBytes   int64 // maximum of LiveBytes so far
	Blocks      int   // number of open buffers
	CachedBytes int64 // of free blocks, kept for reuse
	HeldBytes   int64 // allocated from the driver: live (rounded up), cached and scratch memory
	LimitBytes  int64
}

// block is memory allocated from the driver. It records which queues use it, also after
// its buffer is closed, so that the next buffer's work is ordered after theirs.
type block struct {
	pointer driver.Pointer
	size    int64
	writer  mark
	readers []mark // since writer, one per queue
}

// mark is a position in a queue.
type mark struct {
	queue    *Queue
	sequence uint64
}

// memory allocates blocks and caches free ones; Device.mu guards it.
type memory struct {
	usage  Usage
	cache  map[int64][]*block // by size
	blocks map[*block]struct{}
}

func (m *memory) init() {
	m.cache = map[int64][]*block{}
	m.blocks = map[*block]struct{}{}
}

// Usage returns the memory in use. A buffer that was dropped without Close counts until
// it is collected.
func (d *Device) Usage() Usage {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.memory.usage
	u.LimitBytes = d.limit()
	return u
}

// Free returns the memory that is free now, in bytes: other programs may take it.
func (d *Device) Free() (bytes int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err = d.submit("memory info", func() (err error) {
		bytes, _, err = d.table.MemoryInfo()
		return err
	})
	return min(bytes, d.limit()), err
}

func (d *Device) limit() int64 {
	if d.options.MemoryLimit > 0 {
		return d.options.MemoryLimit
	}
	return d.properties.MemoryBytes
}

// blockSize rounds a size up, so that blocks can be reused for other sizes: to an eighth
// of the power of two below it, or from 64 MiB on to 2 MiB, the driver's page size.
func blockSize(bytes int64) int64 {
	step := int64(2 << 20)
	if bytes < 64<<20 {
		step = max(Alignment, int64(1)<<max(bits.Len64(uint64(bytes-1))-4, 0))
	}
	return (bytes + step - 1) / step * step
}

// maxBytes is the largest block; rounding it up does not overflow.
const maxBytes = 1 << 60

// Alloc returns a zeroed buffer.
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
		q.note("zeroing a new buffer")
		q.mark(taken, true)
		return q.maybeSync()
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
	b.cleanup = runtime.AddCleanup(b, d.release, b.lease)
	return b, nil
}

// retryAfterTrim calls f, which allocates the given number of bytes (0 if only the driver
// knows). If f runs out of memory, it waits for all work, frees cached memory and calls f
// once more.
func (d *Device) retryAfterTrim(bytes int64, f func() error) error {
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

// takeBlock returns a cached block or allocates one.
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
	err := d.retryAfterTrim(bytes, func() (err error) {
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

// trim frees the cached blocks. No pending work may use them.
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

// Trim waits for the device's work and frees cached memory, so that other processes can
// use it.
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

// trim frees scratch memory and cached blocks; mu is held and no work is pending.
func (d *Device) trim() error {
	for q := range d.queues {
		q.dropScratch()
	}
	return d.memory.trim(d.table)
}

// put adds b to the cache.
func (m *memory) put(b *block) {
	m.cache[b.size] = append(m.cache[b.size], b)
	m.usage.CachedBytes += b.size
}

// free frees every block, including those in use.
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

// lease is a buffer's hold on its block. It is released once.
type lease struct {
	block    *block
	bytes    int64
	isClosed atomic.Bool // set under Device.mu
	keeps    int         // of those who keep the memory; guarded by Device.mu
}

func (d *Device) release(l *lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.isClosed.Swap(true) || d.isClosed.Load() {
		return
	}
	u := &d.memory.usage
	u.Blocks--
	u.LiveBytes -= l.bytes
	if l.keeps == 0 {
		d.memory.put(l.block)
	}
}

// unkeep ends a keep of a buffer's memory.
func (d *Device) unkeep(l *lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.keeps--; l.keeps == 0 && l.isClosed.Load() && !d.isClosed.Load() {
		d.memory.put(l.block)
	}
}

// Buffer is a block of the device's memory.
type Buffer struct {
	device  *Device
	bytes   int64
	lease   *lease
	cleanup runtime.Cleanup
}

var _ device.Keepable = (*Buffer)(nil)

// Device returns the device that owns the buffer.
func (b *Buffer) Device() device.Device { return b.device.outer }

// Bytes returns the size, also of a closed buffer.
func (b *Buffer) Bytes() int64 { return b.bytes }

// Pointer returns the device address of the buffer's first byte, valid until Close. A
// launch that gets it must list the buffer in its call's Uses; Run then refuses a closed
// buffer.
func (b *Buffer) Pointer() uint64 { return uint64(b.lease.block.pointer) }

// Closed reports whether the buffer or its device is closed.
func (b *Buffer) Closed() bool { return b.lease.isClosed.Load() || b.device.isClosed.Load() }

// Close makes the memory available for reuse. It does not wait: work on the next buffer
// that gets the memory is ordered after the work that uses this one.
func (b *Buffer) Close() error {
	b.cleanup.Stop()
	b.device.release(b.lease)
	return nil
}

// Keep keeps the memory, which calls may go on to use.
func (b *Buffer) Keep() (release func(), err error) {
	d := b.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := b.check("keep", 0, 0); err != nil {
		return nil, err
	}
	b.lease.keeps++
	return sync.OnceFunc(func() { d.unkeep(b.lease) }), nil
}

// isGone reports whether the memory may be in use by another buffer; mu is held.
func (b *Buffer) isGone() bool {
	return b.device.isClosed.Load() || b.lease.isClosed.Load() && b.lease.keeps == 0
}

// check returns an error if the buffer is closed or the range is not within it.
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
