package kernelprocess

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"tokitai/device"
	"tokitai/kernelprocess/protocol"
)

const (
	// inlineBytes is the most that is sent in a frame if there is shared memory.
	inlineBytes = 1 << 20

	// stagingBytes is the most that is copied at once between a buffer in the process and
	// this one.
	stagingBytes = 16 << 20
)

// block is the memory of a buffer. It is released when neither the buffer nor a request in
// flight uses it.
type block struct {
	core  *core
	bytes int64

	extent extent // in shared memory, or

	child  *child // of the process that holds it
	handle uint64

	users     atomic.Int32
	isDropped atomic.Bool // by its buffer
}

// use adds a user. It returns false if the block is being released.
func (b *block) use() bool {
	for {
		n := b.users.Load()
		if n == 0 {
			return false
		}
		if b.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (b *block) leave() {
	if b.users.Add(-1) > 0 {
		return
	}
	if !b.extent.isNone() {
		b.core.memory.giveBack(b.extent)
		return
	}
	b.core.memory.unreserve(b.bytes)
	if b.child.conn.cause() == nil {
		r := newRequest(protocol.KindFree)
		r.frame = protocol.Numbers(r.frame, b.handle)
		b.child.conn.post(r)
	}
}

// drop ends the use by the buffer, once.
func (b *block) drop() {
	if !b.isDropped.Swap(true) {
		b.leave()
	}
}

// isLost reports whether the process that held the block has ended.
func (b *block) isLost() bool { return b.extent.isNone() && b.child.conn.cause() != nil }

func (b *block) lost() error {
	<-b.child.isBuried // which is soon: then the cause is known
	return &StateLostError{Device: b.core.name, Cause: b.child.conn.cause()}
}

// buffer is memory in the process.
type buffer struct {
	device *Device
	block  *block
}

// sharedBuffer is memory that both processes see. Unlike that of other host buffers, it may
// belong to another buffer as soon as this one is closed.
type sharedBuffer struct{ buffer }

var (
	_ device.Buffer     = (*buffer)(nil)
	_ device.HostBuffer = (*sharedBuffer)(nil)
)

func (d *Device) allocShared(bytes int64) (device.Buffer, error) {
	e, err := d.memory.take(bytes, true)
	if err != nil {
		return nil, fmt.Errorf("%s: alloc: %w", d.name, err)
	}
	b := &sharedBuffer{buffer{d, &block{core: d.core, bytes: bytes, extent: e}}}
	b.block.users.Store(1)
	runtime.AddCleanup(b, (*block).drop, b.block)
	return b, nil
}

func (d *Device) allocResident(bytes int64) (device.Buffer, error) {
	if err := d.memory.reserve(bytes); err != nil {
		return nil, err
	}
	c, number, err := d.newHandle(bytes)
	if err != nil {
		d.memory.unreserve(bytes)
		return nil, err
	}
	b := &buffer{d, &block{core: d.core, bytes: bytes, child: c, handle: number}}
	b.block.users.Store(1)
	runtime.AddCleanup(b, (*block).drop, b.block)
	return b, nil
}

func (k *core) newHandle(bytes int64) (*child, uint64, error) {
	for {
		c, err := k.running(context.Background())
		if err != nil {
			return nil, 0, err
		}
		r := newRequest(protocol.KindNew)
		r.frame = protocol.Numbers(r.frame, uint64(bytes))
		if k.ask(c, r) != nil {
			continue
		}
		number, err := r.number, r.err
		c.conn.recycle(r)
		return c, number, err
	}
}

// ask sends a request when it has a slot, and waits for the answer.
func (k *core) ask(c *child, r *request) error {
	k.slots.acquire(context.Background())
	r.held.hasSlot = true
	if err := c.conn.send(r, -1); err != nil {
		k.slots.release()
		return err
	}
	<-r.done
	return nil
}

// Device returns the device of the buffer.
func (b *buffer) Device() device.Device { return b.device }

// Bytes returns the size, also of a closed buffer.
func (b *buffer) Bytes() int64 { return b.block.bytes }

// Closed reports whether the buffer or its device is closed.
func (b *buffer) Closed() bool { return b.block.isDropped.Load() || b.device.isClosed.Load() }

// Close releases the memory when no request uses it.
func (b *buffer) Close() error {
	b.block.drop()
	return nil
}

// Memory returns the memory of the buffer, or nil if it is closed. It must not be used after
// Close.
func (b *sharedBuffer) Memory() []byte {
	if b.Closed() {
		return nil
	}
	return b.block.extent.slice(b.block.bytes)
}

// CopyIn writes src at offset, or nothing if it does not fit.
func (b *sharedBuffer) CopyIn(offset int64, src []byte) error {
	leave, err := b.enter("copy in", offset, len(src))
	if err != nil {
		return err
	}
	defer leave()
	copy(b.block.extent.slice(b.block.bytes)[offset:], src)
	return nil
}

// CopyOut fills dst from offset.
func (b *sharedBuffer) CopyOut(offset int64, dst []byte) error {
	leave, err := b.enter("copy out", offset, len(dst))
	if err != nil {
		return err
	}
	defer leave()
	copy(dst, b.block.extent.slice(b.block.bytes)[offset:])
	return nil
}

// CopyIn writes src at offset, or nothing if it does not fit. If the process dies meanwhile,
// the whole buffer is lost.
func (b *buffer) CopyIn(offset int64, src []byte) error {
	return b.transfer("copy in", protocol.KindWrite, offset, src)
}

// CopyOut fills dst from offset.
func (b *buffer) CopyOut(offset int64, dst []byte) error {
	return b.transfer("copy out", protocol.KindRead, offset, dst)
}

// enter checks the bounds of a copy, and holds the memory until leave is called.
func (b *buffer) enter(call string, offset int64, bytes int) (leave func(), err error) {
	if offset < 0 || offset > b.block.bytes || int64(bytes) > b.block.bytes-offset {
		return nil, &device.ArgumentError{Op: b.device.name + ": " + call, Got: fmt.Sprintf("%d bytes at offset %d", bytes, offset),
			Want: fmt.Sprintf("a part of %d bytes", b.block.bytes)}
	}
	if b.Closed() || !b.block.use() {
		return nil, fmt.Errorf("%s: %s: buffer %w", b.device.name, call, device.ErrClosed)
	}
	return b.block.leave, nil
}

// transfer moves bytes to or from the process, in pieces.
func (b *buffer) transfer(call string, kind protocol.Kind, offset int64, data []byte) error {
	leave, err := b.enter(call, offset, len(data))
	if err != nil {
		return err
	}
	defer leave()
	k := b.device.core
	var staging extent
	if inline := b.block.core.inlineLimit(b.block.child); int64(len(data)) > inline && b.block.child.welcome.HasArenas {
		if staging, err = k.memory.take(min(int64(len(data)), stagingBytes), false); err == nil {
			if err := k.announce(context.Background(), b.block.child, staging.arena); err != nil {
				k.memory.giveBack(staging)
				staging = extent{}
			}
		}
	}
	if !staging.isNone() {
		defer func() { k.memory.giveBack(staging) }()
	}
	for len(data) > 0 {
		piece := data[:min(len(data), stagingBytes)]
		if staging.isNone() {
			piece = data[:min(int64(len(data)), b.block.core.inlineLimit(b.block.child))]
		}
		if err := b.movePiece(kind, offset, piece, staging); err != nil {
			return err
		}
		offset += int64(len(piece))
		data = data[len(piece):]
	}
	return nil
}

func (b *buffer) movePiece(kind protocol.Kind, offset int64, piece []byte, staging extent) error {
	c := b.block.child
	k := b.device.core
	m := protocol.Transfer{Handle: b.block.handle, Offset: offset, Bytes: int64(len(piece))}
	isInline := staging.isNone()
	if !isInline {
		m.End = protocol.End{Place: protocol.InArena, Arena: staging.arena.id, Offset: staging.offset}
	}
	r := newRequest(kind)
	r.frame = m.Append(r.frame)
	switch {
	case kind == protocol.KindWrite && isInline:
		r.frame = append(r.frame, piece...)
	case kind == protocol.KindWrite:
		copy(staging.slice(m.Bytes), piece)
	case isInline:
		r.replyBytes = m.Bytes
	}
	if isInline {
		k.stats.inlineBytes.Add(m.Bytes)
	} else {
		k.stats.sharedBytes.Add(m.Bytes)
	}
	if err := k.ask(c, r); err != nil {
		return b.block.lost()
	}
	err := r.err
	if err == nil && kind == protocol.KindRead {
		if isInline {
			copy(piece, r.data)
		} else {
			copy(piece, staging.slice(m.Bytes))
		}
	}
	c.conn.recycle(r)
	if err != nil && b.block.isLost() {
		return b.block.lost()
	}
	return err
}
