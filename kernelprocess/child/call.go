package child

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"tokitai/backend/cpu"
	"tokitai/device"
	host "tokitai/device/cpu"
	"tokitai/engine"
	"tokitai/kernelprocess/failure"
	"tokitai/kernelprocess/protocol"
	"tokitai/tensor"
)

// scratchBytes is the size of the device memory that is kept for operands in frames of small
// calls.
const scratchBytes = 1 << 20

// caller is memory that calls reuse.
type caller struct {
	scratch   device.Buffer
	chosen    *engine.Lowering
	checking  []engine.CallOption // of a call that is only checked
	steps     []step
	slots     []int
	tensors   []*tensor.Tensor
	params    []float64
	lowerings []string
}

func (c *caller) init() {
	c.checking = []engine.CallOption{engine.CheckOnly(), engine.ReportLowering(&c.chosen)}
}

// step is one call of a request.
type step struct {
	*entry
	call    *protocol.Call
	queue   *engine.Queue
	slots   []int            // the definition's operand of each that the call gives
	tensors []*tensor.Tensor // in the order of the definition
	params  []float64        // in the order of the definition
	indices []snapshot
}

// isInline reports whether an operand is in the batch's own memory: its data are in the
// frames, or it is a copy of indices.
func (st *step) isInline(k int) bool {
	place := st.call.Operands[k].Tensor.Place
	return place == protocol.InFrame || place == protocol.InArena && st.Operands[st.slots[k]].IsIndex
}

// snapshot is a copy of indices that another process might change after their check.
type snapshot struct {
	slot int
	from *tensor.Tensor
	to   *tensor.Tensor
}

// batch is one CALL.
type batch struct {
	data       []byte // of the request, as far as it has not been placed
	inline     device.Buffer
	held       int64 // of the account, until the request is answered
	replyBytes int64
	mirrors    []*mirror
	owned      []device.Buffer // to be closed in the end
}

func (s *server) call(ctx context.Context, body []byte) (result reply, err error) {
	calls, data, err := protocol.ParseCalls(body)
	if err != nil {
		return reply{}, err
	}
	b := &batch{data: data}
	defer s.clear(b)
	inlineBytes, err := s.resolve(b, calls)
	if err != nil {
		return reply{}, err
	}
	if inlineBytes > scratchBytes {
		for i := range s.steps {
			if err := s.steps[i].checkShapes(); err != nil {
				return reply{}, s.inCall(i, err)
			}
		}
		defer func() {
			if err != nil { // a block that may be large is garbage now
				s.clear(b)
				debug.FreeOSMemory()
			}
		}()
	}
	if err := s.hold(b, b.replyBytes); err != nil {
		return reply{}, err
	}
	if err := s.place(b, inlineBytes); err != nil {
		return reply{}, err
	}
	if err := s.check(); err != nil {
		return reply{}, err
	}
	nanoseconds, err := s.runSteps(ctx, b)
	if err != nil {
		return reply{}, err
	}
	s.memory.turn(forState, forReply, b.replyBytes)
	b.held -= b.replyBytes
	result.reserved = b.replyBytes
	s.stats.KernelNanoseconds += nanoseconds
	s.start = (&protocol.Results{KernelNanoseconds: nanoseconds, Lowerings: s.lowerings}).Append(s.start)
	if b.replyBytes <= maxCopied {
		size := len(s.start)
		s.start = append(s.start, make([]byte, b.replyBytes)...)
		return result, s.collect(b, s.start[size:])
	}
	result.data = make([]byte, b.replyBytes)
	return result, s.collect(b, result.data)
}

// checkShapes checks the formats and shapes of all operands against the definition, before memory
// is allocated for them.
func (st *step) checkShapes() error {
	tensors := make([]*tensor.Tensor, len(st.Operands))
	for k := range st.call.Operands {
		o := &st.call.Operands[k]
		t, err := tensor.At(outline{bytes: math.MaxInt64}, 0, o.Tensor.DType, lastSize(&o.Tensor), o.Tensor.Shape...)
		if err != nil {
			return named(st, o, err)
		}
		tensors[st.slots[k]] = t
	}
	return engine.CheckShapes(st.Definition, tensors)
}

// clear releases the memory of a request. A second call does nothing.
func (s *server) clear(b *batch) {
	for _, buffer := range b.owned {
		buffer.Close()
	}
	s.memory.giveBack(forState, b.held)
	b.owned, b.inline, b.mirrors, b.held = nil, nil, nil, 0
	clear(s.steps)
	clear(s.tensors)
}

// inCall adds the number of the refused call, if there are several.
func (s *server) inCall(i int, err error) error {
	if err == nil || len(s.steps) <= 1 {
		return err
	}
	return fmt.Errorf("call %d: %w", i, err)
}

// resolve finds the definitions and counts the memory of operands in frames.
func (s *server) resolve(b *batch, calls []protocol.Call) (inlineBytes int64, err error) {
	var ok bool
	if b.replyBytes, ok = protocol.ReplyBytes(calls); !ok {
		return 0, malformed("operands that no frame can hold")
	}
	s.steps, s.slots, s.tensors, s.params = s.steps[:0], s.slots[:0], s.tensors[:0], s.params[:0]
	for i := range calls {
		st := step{call: &calls[i]}
		if err := s.resolveCall(&st); err != nil {
			if len(calls) > 1 {
				err = fmt.Errorf("call %d: %w", i, err)
			}
			return 0, err
		}
		s.steps = append(s.steps, st)
		for k := range st.call.Operands {
			t := &st.call.Operands[k].Tensor
			if !st.isInline(k) {
				continue
			}
			n, ok := t.Bytes()
			if inlineBytes += aligned(n); !ok || n > math.MaxInt64/4 || inlineBytes < 0 || inlineBytes > math.MaxInt64/2 {
				return 0, s.inCall(i, &device.ArgumentError{Op: st.Name, Operand: st.call.Operands[k].Name, Got: fmt.Sprintf("has shape %v", t.Shape), Want: "no size below 0, and no more than memory can hold"})
			}
		}
	}
	return inlineBytes, nil
}

// aligned returns the memory that an operand takes. One without elements has an address too.
func aligned(bytes int64) int64 { return (max(1, bytes) + host.Alignment - 1) &^ (host.Alignment - 1) }

func (s *server) resolveCall(st *step) (err error) {
	c := st.call
	if st.entry, err = s.definitions.find(c.Definition); err != nil {
		return err
	}
	d := st.Definition
	st.queue = s.queues[c.Policy|c.BadIndex<<1|c.Admission<<2]
	if c.Lowering != "" {
		st.queue = st.queue.With(engine.WithLowering(c.Lowering))
	}
	first := len(s.slots)
	seen := uint64(0)
	for k := range c.Operands {
		o := &c.Operands[k]
		slot := d.Operand(o.Name)
		switch {
		case slot < 0:
			return &device.ArgumentError{Op: d.Name, Operand: o.Name, Got: "is no operand", Want: operandNames(st.entry)}
		case seen&(1<<slot) != 0:
			return &device.ArgumentError{Op: d.Name, Operand: o.Name, Got: "is given twice", Want: "each operand once"}
		}
		seen |= 1 << slot
		if want := access(&d.Operands[slot]); o.Tensor.Place == protocol.InFrame && o.Tensor.Carried != want {
			return &device.ArgumentError{Op: d.Name, Operand: o.Name, Got: fmt.Sprintf("has data %d", o.Tensor.Carried),
				Want: fmt.Sprintf("%d, as LIST tells", want)}
		}
		s.slots = append(s.slots, slot)
	}
	for slot := range d.Operands {
		if seen&(1<<slot) == 0 {
			return &device.ArgumentError{Op: d.Name, Operand: d.Operands[slot].Name, Got: "is missing", Want: operandNames(st.entry)}
		}
	}
	st.slots = s.slots[first:]
	return s.resolveParams(st)
}

func operandNames(e *entry) string {
	var names []string
	for i := range e.Operands {
		names = append(names, e.Operands[i].Name)
	}
	return strings.Join(names, ", ")
}

// resolveParams orders the parameters as in the definition.
func (s *server) resolveParams(st *step) error {
	d, given := st.Definition, st.call.Params
	first := len(s.params)
	for range d.Params {
		s.params = append(s.params, 0)
	}
	st.params = s.params[first:]
	seen, unknown := uint64(0), ""
	for _, p := range given {
		i := d.Param(p.Name)
		if i < 0 {
			unknown = p.Name
			continue
		}
		if seen&(1<<i) != 0 {
			return &device.ArgumentError{Op: d.Name, Operand: p.Name, Got: "is given twice", Want: "each parameter once"}
		}
		seen |= 1 << i
		st.params[i] = p.Value
	}
	for i := range d.Params {
		if value := d.Params[i].Default; value != nil && seen&(1<<i) == 0 && st.derive == nil {
			seen |= 1 << i
			st.params[i] = *value
		}
	}
	isComplete := seen == 1<<len(d.Params)-1
	switch {
	case isComplete && unknown == "":
		return engine.CheckParams(d, st.params)
	case st.derive != nil:
		if err := s.deriveParams(st); err != nil {
			return err
		}
		return engine.CheckParams(d, st.params)
	case unknown != "":
		return &device.ArgumentError{Op: d.Name, Operand: unknown, Got: "is no parameter", Want: "those that LIST tells"}
	}
	for i, p := range d.Params {
		switch {
		case seen&(1<<i) != 0:
		case p.Default != nil:
			st.params[i] = *p.Default
		default:
			return &device.ArgumentError{Op: d.Name, Operand: p.Name, Got: "is missing", Want: p.Want()}
		}
	}
	return engine.CheckParams(d, st.params)
}

// deriveParams computes the parameters of the definition. It reuses those of the previous
// call if they are the same.
func (s *server) deriveParams(st *step) error {
	if n := len(s.steps); n > 0 && s.steps[n-1].entry == st.entry && slices.Equal(s.steps[n-1].call.Params, st.call.Params) {
		copy(st.params, s.steps[n-1].params)
		return nil
	}
	named := engine.Params{}
	for _, p := range st.call.Params {
		if _, isTwice := named[p.Name]; isTwice {
			return &device.ArgumentError{Op: st.Name, Operand: p.Name, Got: "is given twice", Want: "each parameter once"}
		}
		named[p.Name] = p.Value
	}
	derived, err := st.derive(st.Definition, named)
	if err != nil {
		return err
	}
	for i, p := range st.Params {
		st.params[i] = derived[p.Name]
	}
	return nil
}

// place creates the tensors of all calls, with the data of the request.
func (s *server) place(b *batch, inlineBytes int64) error {
	if err := s.hold(b, inlineBytes); err != nil {
		return err
	}
	switch {
	case inlineBytes == 0:
	case inlineBytes <= scratchBytes:
		if s.scratch == nil {
			scratch, err := s.device.Alloc(scratchBytes)
			if err != nil {
				return err
			}
			s.scratch = scratch
		}
		b.inline = s.scratch
	default:
		inline, err := s.device.Alloc(inlineBytes)
		if err != nil {
			return err
		}
		b.inline, b.owned = inline, append(b.owned, inline)
	}
	if _, isHost := s.device.(*cpu.Device); !isHost {
		if err := s.mirror(b); err != nil {
			return err
		}
	}
	offset := int64(0)
	for i := range s.steps {
		st := &s.steps[i]
		first := len(s.tensors)
		for range st.Operands {
			s.tensors = append(s.tensors, nil)
		}
		st.tensors = s.tensors[first:]
		for k := range st.call.Operands {
			next, err := s.placeOperand(b, st, k, offset)
			if err != nil {
				return s.inCall(i, err)
			}
			offset = next
		}
	}
	return nil
}

// hold counts memory that is in use until the request is answered.
func (s *server) hold(b *batch, bytes int64) error {
	if err := s.memory.take(forState, bytes); err != nil {
		return err
	}
	b.held += bytes
	return nil
}

// placeOperand creates a tensor. It returns the offset of the next one in the frames.
func (s *server) placeOperand(b *batch, st *step, k int, offset int64) (int64, error) {
	o, slot := &st.call.Operands[k], st.slots[k]
	t := &o.Tensor
	next := offset
	if st.isInline(k) {
		n, _ := t.Bytes()
		next += aligned(n)
	}
	var err error
	switch t.Place {
	case protocol.InFrame:
		n, _ := t.Bytes()
		if st.tensors[slot], err = tensor.At(b.inline, offset, t.DType, lastSize(t), t.Shape...); err != nil {
			return 0, named(st, o, err)
		}
		if t.Carried&protocol.WithRequest != 0 {
			if err := b.inline.CopyIn(offset, b.data[:n]); err != nil {
				return 0, err
			}
			b.data = b.data[n:]
		}
		return next, nil
	case protocol.InHandle:
		buffer, err := s.buffer(t.Handle)
		if err != nil {
			return 0, err
		}
		if st.tensors[slot], err = tensor.At(buffer, t.Offset, t.DType, t.Stride, t.Shape...); err != nil {
			return 0, named(st, o, err)
		}
		return next, nil
	}
	a, err := s.arena(t.Arena)
	if err != nil {
		return 0, err
	}
	if a.buffer == nil {
		st.tensors[slot], err = b.inMirror(t)
		return next, err
	}
	if st.tensors[slot], err = tensor.At(a.buffer, t.Offset, t.DType, t.Stride, t.Shape...); err != nil {
		return 0, named(st, o, err)
	}
	if !st.Operands[slot].IsIndex {
		return next, nil
	}
	copied, err := tensor.At(b.inline, offset, t.DType, lastSize(t), t.Shape...)
	if err != nil {
		return 0, named(st, o, err)
	}
	st.indices = append(st.indices, snapshot{slot: slot, from: st.tensors[slot], to: copied})
	return next, nil
}

func lastSize(t *protocol.Tensor) int {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[len(t.Shape)-1]
}

// named returns err, the refusal of a tensor, with the name of its operand.
func named(st *step, o *protocol.Operand, err error) error {
	bad, ok := errors.AsType[*device.ArgumentError](err)
	if !ok || bad.Operand == "" {
		return err
	}
	return &device.ArgumentError{Op: st.Name, Operand: o.Name, Got: "cannot be placed: " + bad.Operand + " " + bad.Got, Want: bad.Want, Cause: err}
}

// check checks all calls against their definitions, and compiles and admits their kernels.
func (s *server) check() error {
	s.lowerings = s.lowerings[:0]
	for i := range s.steps {
		st := &s.steps[i]
		s.chosen = nil
		if err := engine.Call(st.queue, st.Definition, st.tensors, st.params, s.checking...); err != nil {
			return s.inCall(i, err)
		}
		s.lowerings = append(s.lowerings, s.chosen.Name)
	}
	return nil
}

// runSteps runs the calls and waits for them.
func (s *server) runSteps(ctx context.Context, b *batch) (nanoseconds uint64, err error) {
	if ctx.Err() != nil {
		return 0, errCanceled
	}
	if s.beforeRun != nil {
		if err := s.beforeRun(); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	var last, queue *engine.Queue // the last step's, and the same under ctx
	done := 0
	for ; done < len(s.steps) && err == nil; done++ {
		st := &s.steps[done]
		if st.queue != last {
			last, queue = st.queue, st.queue.WithContext(ctx)
		}
		for _, index := range st.indices {
			if err = index.to.CopyFrom(index.from); err != nil {
				break
			}
			st.tensors[index.slot] = index.to
		}
		if err == nil {
			err = engine.Call(queue, st.Definition, st.tensors, st.params)
		}
	}
	if err != nil {
		failed := done - 1
		if errWait := last.Wait(); errWait == nil && !errors.Is(err, device.ErrLost) {
			s.copyBack(b, failed)
		}
		return 0, atCall(failed, err)
	}
	if err := queue.Wait(); err != nil {
		return 0, err
	}
	nanoseconds = uint64(time.Since(start))
	return nanoseconds, s.copyBack(b, len(s.steps))
}

// atCall adds the number of the call to an error after other calls have run.
func atCall(i int, err error) error {
	f := *failure.Of(err)
	f.Details = append(f.Details[:len(f.Details):len(f.Details)], protocol.Detail{Name: "call", Value: strconv.Itoa(i)})
	return &f
}

// collect copies the outputs that the reply carries to data.
func (s *server) collect(b *batch, data []byte) error {
	offset := int64(0)
	for i := range s.steps {
		st := &s.steps[i]
		for k := range st.call.Operands {
			t := &st.call.Operands[k].Tensor
			if !st.isInline(k) {
				continue
			}
			n, _ := t.Bytes()
			if t.Carried&protocol.WithReply != 0 {
				if err := b.inline.CopyOut(offset, data[:n]); err != nil {
					return err
				}
				data = data[n:]
			}
			offset += aligned(n)
		}
	}
	return nil
}
