package kernelprocess

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/kernelprocess/protocol"
	"tokitai/tensor"
)

// call is the memory for encoding calls as a frame.
type call struct {
	list   []protocol.Call
	copied []copied // operands that are not the process's own, in their order
}

// copied is an operand that is sent, fetched or both.
type copied struct {
	tensor *tensor.Tensor
	bytes  int64
	isOut  bool
	extent extent // none where it is in the frames
}

func (c *call) clear() {
	for i := range c.list {
		p := &c.list[i]
		clear(p.Params)
		clear(p.Operands)
		p.Params, p.Operands = p.Params[:0], p.Operands[:0]
	}
	clear(c.copied)
	c.list, c.copied = c.list[:0], c.copied[:0]
}

// next adds a call to the list, in the memory of an earlier one if possible.
func (c *call) next() *protocol.Call {
	n := len(c.list)
	if n < cap(c.list) {
		c.list = c.list[:n+1]
	} else {
		c.list = append(c.list, protocol.Call{})
	}
	return &c.list[n]
}

// holdings are the resources that a request keeps.
type holdings struct {
	blocks  []*block
	staged  []extent
	hasSlot bool
}

func (h holdings) emptied() holdings {
	clear(h.blocks)
	clear(h.staged)
	return holdings{blocks: h.blocks[:0], staged: h.staged[:0]}
}

// giveBack releases what a request holds, except its slot.
func (k *core) giveBack(h *holdings) {
	for _, b := range h.blocks {
		b.leave()
	}
	for _, e := range h.staged {
		k.memory.giveBack(e)
	}
	*h = h.emptied()
}

// settled counts a request that has been answered or never will be.
func (k *core) settled(r *request, isAbandoned bool) {
	switch r.kind {
	case protocol.KindCall, protocol.KindNew, protocol.KindRead, protocol.KindWrite:
		k.stats.requests.Add(1)
		if r.err != nil {
			k.stats.errors.Add(1)
		}
	}
	if r.kind == protocol.KindCall {
		kernel := int64(r.results.KernelNanoseconds)
		k.stats.kernelNS.Add(kernel)
		k.stats.wireNS.Add(max(0, r.tookNS-kernel))
	}
	if r.held.hasSlot {
		k.slots.release()
	}
	if isAbandoned {
		k.giveBack(&r.held)
	}
}

// Call implements [engine.Caller]: the calls run in the process. After a canceled call the
// content of its outputs in the process's own memory is unknown, and may still change.
func (d *Device) Call(ctx context.Context, calls []engine.RemoteCall) (done int, err error) {
	for i := range calls {
		c := &calls[i]
		if c.Definition == nil || len(c.Tensors) != len(c.Definition.Operands) || len(c.Params) != len(c.Definition.Params) || slices.Contains(c.Tensors, nil) {
			return 0, &device.ArgumentError{Op: "kernelprocess: call", Got: fmt.Sprintf("a call %d that is not whole", i), Want: "one that an engine.Queue has checked"}
		}
	}
	if d == nil || d.core == nil {
		return 0, &device.ArgumentError{Op: "kernelprocess: call", Got: "a kernel process that is nil", Want: "a Device that Pool.Open returned"}
	}
	for done < len(calls) {
		n := d.together(calls[done:])
		k, err := d.callTogether(ctx, calls[done:done+n])
		done += k
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

const (
	maxTogether       = 1024     // calls in a frame
	maxCopiedTogether = 64 << 20 // bytes of other tensors that are sent with them
)

// together returns how many of the first calls can be sent in one frame. A result that is
// fetched ends a frame: the next call may read it.
func (k *core) together(calls []engine.RemoteCall) int {
	most := min(len(calls), maxTogether)
	if k.options.MaxFrame > 0 {
		const callBytes = 1 << 10 // of a frame, about
		most = int(min(int64(most), max(1, k.options.MaxFrame/callBytes)))
	}
	var bytes int64
	for n := range most {
		c := &calls[n]
		for i, t := range c.Tensors {
			if k.own(t) != nil {
				continue
			}
			bytes += int64(t.Len()) * int64(t.DType().Size())
			if c.Definition.Operands[i].IsOut || bytes > maxCopiedTogether {
				return max(n, 1)
			}
		}
	}
	return most
}

// callTogether makes the calls of one frame. A single call is repeated if that is safe; of
// several, a later one may write what an earlier one reads.
func (k *core) callTogether(ctx context.Context, calls []engine.RemoteCall) (done int, err error) {
	retries := k.options.Retries
	if retries > 0 && (len(calls) > 1 || !isPure(k, &calls[0])) {
		retries = 0
	}
	for {
		done, err := k.call(ctx, calls)
		if err == nil || retries == 0 || !errors.Is(err, ErrDied) || errors.Is(err, ErrRefused) {
			return done, err
		}
		retries--
		k.stats.retries.Add(1)
	}
}

// isPure reports whether a call can be repeated: it does not write what it reads, and uses no
// memory that is lost with a process.
func isPure(k *core, c *engine.RemoteCall) bool {
	for i, t := range c.Tensors {
		if b := k.own(t); b != nil && b.extent.isNone() {
			return false
		}
		if !c.Definition.Operands[i].IsOut {
			continue
		}
		for j, u := range c.Tensors {
			if c.Definition.Operands[j].IsIn && tensor.Overlap(t, u) != tensor.Disjoint {
				return false
			}
		}
	}
	return true
}

// own returns the block of a tensor that is in the process, else nil.
func (k *core) own(t *tensor.Tensor) *block {
	var b *buffer
	switch x := t.Buffer().(type) {
	case *sharedBuffer:
		b = &x.buffer
	case *buffer:
		b = x
	}
	if b == nil || b.device.core != k {
		return nil
	}
	return b.block
}

func (k *core) call(ctx context.Context, calls []engine.RemoteCall) (done int, err error) {
	operation := calls[0].Definition.Name
	began := time.Now()
	if k.isClosed.Load() {
		return 0, inOperation(operation, k.closedError())
	}
	if err := k.slots.acquire(ctx); err != nil {
		return 0, inOperation(operation, err)
	}
	for {
		c, err := k.processFor(ctx, calls)
		if err != nil {
			k.slots.release()
			return 0, inOperation(operation, err)
		}
		k.stats.queueNS.Add(int64(time.Since(began)))
		r := newRequest(protocol.KindCall)
		err = k.prepare(ctx, c, r, calls)
		if err == nil {
			r.held.hasSlot = true
			err = c.conn.send(r, -1)
		}
		if err != nil {
			r.held.hasSlot = false
			k.giveBack(&r.held)
			if errors.Is(err, errNotSent) {
				began = time.Now()
				continue // to the next process, or to find that memory is lost
			}
			k.slots.release()
			return 0, inOperation(operation, err)
		}
		return k.finish(ctx, c, r, calls)
	}
}

// processFor returns the process that has the memory of the calls, or any process if none
// has.
func (k *core) processFor(ctx context.Context, calls []engine.RemoteCall) (*child, error) {
	var c *child
	for i := range calls {
		for _, t := range calls[i].Tensors {
			b := k.own(t)
			if b == nil || b.child == nil {
				continue
			}
			if b.isLost() {
				return nil, b.lost()
			}
			c = b.child // there is one at a time that is not lost
		}
	}
	if c != nil {
		return c, nil
	}
	return k.running(ctx)
}

// finish waits for the answer.
func (k *core) finish(ctx context.Context, c *child, r *request, calls []engine.RemoteCall) (done int, err error) {
	select {
	case <-r.done:
	case <-ctx.Done():
		if c.conn.abandon(r, k.options.HangAfter) {
			return 0, k.halfway(calls, ctx.Err())
		}
		<-r.done
	}
	operation := calls[0].Definition.Name
	switch err = r.err; {
	case err == nil:
		if done, err = len(calls), fetch(r); err != nil {
			done, err = 0, &engine.LaunchError{Op: operation, Cause: err}
		}
	case errors.Is(err, ErrDied) || errors.Is(err, device.ErrClosed):
		err = k.halfway(calls, err)
	default:
		if f, ok := errors.AsType[*protocol.Failure](err); ok {
			done, err = failureOf(f, calls)
		}
	}
	k.giveBack(&r.held)
	c.conn.recycle(r)
	return done, err
}

// failureOf returns the error of calls, one of which may have begun, and how many are done.
func failureOf(f *protocol.Failure, calls []engine.RemoteCall) (done int, err error) {
	done, err = strconv.Atoi(f.Detail("call"))
	if err != nil || done < 0 || done >= len(calls) {
		return 0, f // of the check, before all calls, which may be about any of them
	}
	if f.Code == protocol.CodeBadArgument {
		return done, f
	}
	operation := calls[done].Definition.Name
	begun := *f
	begun.Message = strings.TrimPrefix(f.Message, operation+": ")
	return done, &engine.LaunchError{Op: operation, Cause: &begun}
}

// halfway returns the error of calls that may have begun: an output may be partly written.
func (k *core) halfway(calls []engine.RemoteCall, err error) error {
	for i := range calls {
		c := &calls[i]
		for j, t := range c.Tensors {
			if c.Definition.Operands[j].IsOut && k.own(t) != nil {
				return &engine.LaunchError{Op: c.Definition.Name, Cause: err}
			}
		}
	}
	return inOperation(calls[0].Definition.Name, err)
}

func inOperation(operation string, err error) error {
	if e, ok := errors.AsType[*device.ArgumentError](err); ok && e.Operand != "" {
		return err
	}
	return fmt.Errorf("%s: %w", operation, err)
}

// prepare encodes calls as a frame, and holds what they use.
func (k *core) prepare(ctx context.Context, c *child, r *request, calls []engine.RemoteCall) error {
	var inline, shared int64
	for n := range calls {
		rc, p := &calls[n], r.call.next()
		var err error
		if p.Definition, err = k.define(ctx, c, rc.Definition); err != nil {
			return err
		}
		p.Lowering = rc.Lowering
		p.Policy, p.BadIndex, p.Admission = uint8(rc.Policy), uint8(rc.BadIndex), uint8(rc.Admission)
		for i, v := range rc.Params {
			p.Params = append(p.Params, protocol.Param{Name: rc.Definition.Params[i].Name, Value: v})
		}
		for i, t := range rc.Tensors {
			o := &rc.Definition.Operands[i]
			placed, err := k.place(ctx, c, r, rc.Definition.Name, o, t)
			if err != nil {
				return err
			}
			bytes := int64(t.Len()) * int64(t.DType().Size())
			switch placed.Place {
			case protocol.InFrame:
				inline += bytes
				if o.IsOut {
					r.replyBytes += bytes
				}
			case protocol.InArena:
				shared += bytes
			}
			p.Operands = append(p.Operands, protocol.Operand{Name: o.Name, Tensor: placed})
		}
	}
	r.frame = protocol.AppendCalls(r.frame, r.call.list)
	for n := range calls {
		for i, t := range calls[n].Tensors {
			if r.call.list[n].Operands[i].Tensor.Carried&protocol.WithRequest == 0 {
				continue
			}
			var err error
			if r.frame, err = appendElements(r.frame, t); err != nil {
				return err
			}
		}
	}
	k.stats.inlineBytes.Add(inline)
	k.stats.sharedBytes.Add(shared)
	return k.checkFrame(c, r)
}

// checkFrame returns an error for a frame that one of the two sides would not read.
func (k *core) checkFrame(c *child, r *request) error {
	longest := max(int64(len(r.frame)-protocol.HeaderBytes), r.replyBytes)
	if most := k.maxFrame(c); longest > most {
		return &device.ArgumentError{Op: k.name, Got: fmt.Sprintf("a frame of %d bytes", longest), Want: fmt.Sprintf("at most %d", most)}
	}
	return nil
}

// place chooses where the process finds an operand.
func (k *core) place(ctx context.Context, c *child, r *request, operation string, o *def.Operand, t *tensor.Tensor) (protocol.Tensor, error) {
	placed := protocol.Tensor{DType: t.DType(), Shape: t.Shape()}
	b := k.own(t)
	if b != nil && !t.Folds() { // a message describes strides of rows alone
		if b.extent.isNone() {
			return placed, &device.ArgumentError{Op: operation, Operand: o.Name, Got: fmt.Sprintf("has shape %v with strides %v", t.Shape(), t.Strides()),
				Want: "rows at one distance from each other, as a copy has them, in the memory of a process"}
		}
		b = nil // so that it is copied
	}
	if b != nil {
		if !b.use() {
			return placed, &device.ArgumentError{Op: operation, Operand: o.Name, Got: "is closed", Cause: device.ErrClosed}
		}
		r.held.blocks = append(r.held.blocks, b)
		placed.Offset, placed.Stride = t.Offset(), t.RowStride()
		if b.extent.isNone() {
			placed.Place, placed.Handle = protocol.InHandle, b.handle
			return placed, nil
		}
		if c.welcome.HasArenas {
			placed.Place, placed.Arena = protocol.InArena, b.extent.arena.id
			placed.Offset += b.extent.offset
			return placed, k.announce(ctx, c, b.extent.arena)
		}
		placed.Offset, placed.Stride = 0, 0
	}
	x := copied{tensor: t, bytes: int64(t.Len()) * int64(t.DType().Size()), isOut: o.IsOut}
	if x.bytes > k.inlineLimit(c) && c.welcome.HasArenas {
		if e, err := k.stage(ctx, c, x.bytes); err == nil {
			r.held.staged = append(r.held.staged, e)
			x.extent = e
			placed.Place, placed.Arena, placed.Offset, placed.Stride = protocol.InArena, e.arena.id, e.offset, t.Cols()
			if o.IsIn {
				if _, err := appendElements(e.slice(x.bytes)[:0], t); err != nil {
					return placed, err
				}
			}
		} else if ctx.Err() != nil || errors.Is(err, errNotSent) || errors.Is(err, ErrDied) {
			return placed, err
		}
	}
	if x.extent.isNone() {
		if o.IsIn {
			placed.Carried |= protocol.WithRequest
		}
		if o.IsOut {
			placed.Carried |= protocol.WithReply
		}
	}
	if x.isOut {
		r.call.copied = append(r.call.copied, x)
	}
	return placed, nil
}

// inlineLimit returns the largest tensor that is sent in a frame although there is shared
// memory: a frame must hold all operands of a call.
func (k *core) inlineLimit(c *child) int64 { return min(inlineBytes, k.maxFrame(c)/8) }

// maxFrame returns the longest frame that both sides read.
func (k *core) maxFrame(c *child) int64 {
	if own := k.options.MaxFrame; own > 0 {
		return min(c.welcome.MaxFrame, own)
	}
	return c.welcome.MaxFrame
}

// stage allocates shared memory for a copy. If there is none, the copy goes into a frame.
func (k *core) stage(ctx context.Context, c *child, bytes int64) (extent, error) {
	e, err := k.memory.take(bytes, false)
	if err != nil {
		return extent{}, err
	}
	if err := k.announce(ctx, c, e.arena); err != nil {
		k.memory.giveBack(e)
		return extent{}, err
	}
	return e, nil
}

// appendElements adds a tensor's elements, without gaps.
func appendElements(b []byte, t *tensor.Tensor) ([]byte, error) {
	defer runtime.KeepAlive(t) // with the array's memory
	a, ok := t.Array()
	if !ok {
		raw, err := t.Bytes()
		return append(b, raw...), err
	}
	if t.IsContiguous() {
		return append(b, a.Data[:a.Rows*a.Cols*a.DType.Size()]...), nil
	}
	for row := range a.Rows {
		b = append(b, a.Row(row)...)
	}
	return b, nil
}

// fetch writes the results of a good reply to their tensors.
func fetch(r *request) error {
	data := r.results.Data
	for i := range r.call.copied {
		x := &r.call.copied[i]
		var raw []byte
		if x.extent.isNone() {
			raw, data = data[:x.bytes], data[x.bytes:]
		} else {
			raw = x.extent.slice(x.bytes)
		}
		if err := x.tensor.SetBytes(raw); err != nil {
			return err
		}
	}
	return nil
}
