package cpu

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"tokitai/device"
)

// Alignment is the alignment of every buffer, in bytes: one cache line and one
// AVX-512 register.
const Alignment = 64

// Usage is the memory use of a device.
type Usage struct {
	LiveBytes  int64 // of open buffers
	PeakBytes  int64 // maximum of LiveBytes so far
	Blocks     int   // number of open buffers
	LimitBytes int64
}

// account counts the bytes of open buffers, which the limit applies to, and the
// bytes not yet collected. The difference is what a collection would free.
type account struct {
	mu    sync.Mutex
	limit int64
	live  int64 // bytes of open buffers
	peak  int64 // maximum of live so far
	held  int64 // bytes allocated and not yet collected
	count int   // open buffers
}

// Usage returns the memory in use. A buffer that was dropped without Close
// counts until it is collected.
func (d *Device) Usage() Usage {
	if d == nil {
		return Usage{}
	}
	a := &d.memory
	a.mu.Lock()
	defer a.mu.Unlock()
	return Usage{LiveBytes: a.live, PeakBytes: a.peak, Blocks: a.count, LimitBytes: a.limit}
}

// Alloc returns a zeroed buffer, aligned to Alignment.
func (d *Device) Alloc(bytes int64) (device.Buffer, error) {
	if d.isClosed() {
		return nil, fmt.Errorf("cpu: alloc: device %w", device.ErrClosed)
	}
	if bytes < 1 {
		return nil, &device.ArgumentError{Op: "cpu: alloc", Got: fmt.Sprintf("%d bytes", bytes), Want: "at least 1"}
	}
	if err := d.memory.take(bytes); err != nil {
		return nil, err
	}
	memory, ok := alignedZeros(bytes)
	if !ok {
		d.memory.giveBack(bytes, bytes)
		return nil, d.memory.exhausted(bytes)
	}
	b := &Buffer{device: d, block: &block{account: &d.memory, bytes: bytes}}
	b.memory.Store(&memory)
	runtime.AddCleanup(&memory[0], (*block).collected, b.block)
	return b, nil
}

// Adopt returns a buffer backed by the caller's memory, which must be aligned to
// Alignment. The memory does not count towards the limit. It must stay valid
// until the buffer is closed and all calls that use it are done.
func (d *Device) Adopt(memory []byte) (device.Buffer, error) {
	if d.isClosed() {
		return nil, fmt.Errorf("cpu: adopt: device %w", device.ErrClosed)
	}
	if len(memory) == 0 || uintptr(unsafe.Pointer(&memory[0]))%Alignment != 0 {
		return nil, &device.ArgumentError{Op: "cpu: adopt", Got: fmt.Sprintf("%d bytes at %p", len(memory), unsafe.SliceData(memory)), Want: fmt.Sprintf("at least 1, aligned to %d", Alignment)}
	}
	b := &Buffer{device: d, block: &block{account: &d.memory, bytes: int64(len(memory))}}
	b.block.closed.Store(true) // so that Close leaves the account alone
	b.memory.Store(&memory)
	return b, nil
}

// take counts an allocation that is about to be made. The memory of closed
// buffers stays allocated until it is collected. If it would take the process
// beyond the limit, take runs a collection first.
func (a *account) take(bytes int64) error {
	a.mu.Lock()
	if bytes > a.limit-a.live {
		a.mu.Unlock()
		return a.exhausted(bytes)
	}
	stale := bytes > a.limit-a.held
	a.live += bytes
	a.held += bytes
	a.count++
	a.peak = max(a.peak, a.live)
	a.mu.Unlock()
	if stale {
		runtime.GC()
	}
	return nil
}

func (a *account) giveBack(live, held int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live -= live
	a.held -= held
	if live > 0 {
		a.count--
	}
}

func (a *account) exhausted(bytes int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &device.OutOfMemoryError{Device: Name, Asked: bytes, Free: a.limit - a.live}
}

// block is the account's record of a buffer's memory. It does not reference the
// memory, so that the memory can be collected.
type block struct {
	account *account
	bytes   int64
	closed  atomic.Bool
}

// close counts the block as no longer live, once.
func (b *block) close() {
	if !b.closed.Swap(true) {
		b.account.giveBack(b.bytes, 0)
	}
}

func (b *block) collected() {
	b.close()
	b.account.giveBack(0, b.bytes)
}

// alignedZeros returns zeroed memory aligned to Alignment, or false if it cannot
// be allocated.
func alignedZeros(bytes int64) (memory []byte, ok bool) {
	if bytes > math.MaxInt-Alignment {
		return nil, false
	}
	defer func() {
		// make panics on a length beyond the address space.
		if recover() != nil {
			memory, ok = nil, false
		}
	}()
	raw := make([]byte, bytes+Alignment-1)
	preferLargePages(raw)
	start := int(-uintptr(unsafe.Pointer(&raw[0])) % Alignment)
	return raw[start : start+int(bytes) : start+int(bytes)], true
}

// Buffer is a block of host memory.
type Buffer struct {
	device *Device
	block  *block
	memory atomic.Pointer[[]byte] // nil once closed
}

var (
	_ device.HostBuffer = (*Buffer)(nil)
	_ device.Keepable   = (*Buffer)(nil)
)

// Device returns the host.
func (b *Buffer) Device() device.Device { return b.device.outer }

// Bytes returns the size, also of a closed buffer.
func (b *Buffer) Bytes() int64 { return b.block.bytes }

// Memory returns the buffer's memory, nil when closed. The slice stays valid
// while it is referenced, so that a call may go on while another goroutine
// closes the buffer.
func (b *Buffer) Memory() []byte {
	if memory := b.memory.Load(); memory != nil && !b.device.isClosed() {
		return *memory
	}
	return nil
}

// Keep does nothing: memory stays allocated while it is referenced. It fails for adopted
// memory, which ends with its owner.
func (b *Buffer) Keep() (release func(), err error) {
	switch {
	case b.Closed():
		return nil, fmt.Errorf("cpu: keep: buffer %w", device.ErrClosed)
	case b.block.closed.Load():
		return nil, &device.ArgumentError{Op: "cpu: keep", Got: "adopted memory", Want: "memory of the device"}
	}
	return func() {}, nil
}

// Closed reports whether the buffer or its device is closed.
func (b *Buffer) Closed() bool { return b.memory.Load() == nil || b.device.isClosed() }

// CopyIn writes src at offset. It writes nothing if src does not fit.
func (b *Buffer) CopyIn(offset int64, src []byte) error {
	part, err := b.part("cpu: copy in", offset, len(src))
	copy(part, src)
	return err
}

// CopyOut fills dst from offset.
func (b *Buffer) CopyOut(offset int64, dst []byte) error {
	part, err := b.part("cpu: copy out", offset, len(dst))
	copy(dst, part)
	return err
}

func (b *Buffer) part(call string, offset int64, n int) ([]byte, error) {
	memory := b.Memory()
	if memory == nil {
		return nil, fmt.Errorf("%s: buffer %w", call, device.ErrClosed)
	}
	if size := int64(len(memory)); offset < 0 || offset > size || int64(n) > size-offset {
		return nil, &device.ArgumentError{Op: call, Got: fmt.Sprintf("%d bytes at offset %d", n, offset),
			Want: fmt.Sprintf("a part of the buffer's %d", size)}
	}
	return memory[offset : offset+int64(n)], nil
}

// Close releases the memory.
func (b *Buffer) Close() error {
	b.memory.Store(nil)
	b.block.close()
	return nil
}
