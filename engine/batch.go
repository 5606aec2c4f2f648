package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/tensor"
)

// Batch makes lists of calls as [CallAll] does, and remembers what it has found out about the
// last list: of calls that are made again and again, on one queue and without options, only
// what has changed is checked again. The zero Batch is ready to use. It retains no tensors,
// and is not safe for concurrent use.
type Batch struct {
	queue   *Queue
	entries []batchEntry
	spans   spans
	group   []*Launch

	isSame  bool // no operand has another place than in the last list
	isApart bool // no call of that list depends on another
}

// batches pools the batches of CallAll.
var batches = sync.Pool{New: func() any { return new(Batch) }}

// batchEntry is a call that has been checked.
type batchEntry struct {
	definition *def.Definition // nil if nothing is known of the call
	views      []view          // of the operands
	launch     Launch
	plan       *plan

	isAgain    bool // check it again when it is made
	isOnHost   bool // the host can address an operand
	isTogether bool // with others
	isLaunched bool
}

// view is what decides, beside its place in memory, whether a tensor can be an operand.
type view struct{ shape, strides []int }

// CallAll makes calls in order; see [CallAll].
func (b *Batch) CallAll(q *Queue, calls []CallSpec, opts ...CallOption) error {
	s := q.with(opts)
	known := 0
	if q != nil && b.queue == q && len(opts) == 0 {
		known = min(len(b.entries), len(calls))
	}
	b.isSame = known == len(calls) && len(b.entries) == len(calls)
	b.entries = slices.Grow(b.entries[:0], len(calls))[:len(calls)]
	defer b.release()
	b.queue = nil
	for i := range calls {
		e := &b.entries[i]
		if i < known {
			if isKnown, hasMoved := e.refresh(q, &calls[i]); isKnown {
				b.isSame = b.isSame && !hasMoved
				continue
			}
		}
		b.isSame = false
		if err := e.prepare(q, &calls[i], s); err != nil {
			return &CallsError{At: i, Cause: err}
		}
	}
	if q == nil || s.checkOnly || len(calls) == 0 {
		return nil
	}
	var done int
	var err error
	if s.caller != nil && q.recorder == nil {
		done, err = q.callAllRemotely(calls, &s)
	} else {
		done, err = b.launchAll(q, calls, &s)
	}
	if err == nil {
		if len(opts) == 0 {
			b.queue = q
		}
		return nil
	}
	if unmade, ok := err.(*CallsError); ok {
		return unmade
	}
	_, isBegun := errors.AsType[*LaunchError](err)
	return &CallsError{At: done, IsBegun: isBegun || done > 0, Cause: err}
}

// release forgets the memory of operands, but not their shapes.
func (b *Batch) release() {
	for i := range b.entries {
		l := &b.entries[i].launch
		clear(l.Buffers)
		clear(l.arrays)
		if b.entries[i].isOnHost {
			for k := range l.Operands {
				l.Operands[k].Data = nil
			}
		}
		l.Context, l.Device, l.Queue = nil, nil, nil
	}
	clear(b.group)
}

// prepare checks a call and finds its plan.
func (e *batchEntry) prepare(q *Queue, c *CallSpec, s settings) error {
	e.definition, e.isOnHost = nil, true // unless all goes well
	if err := checkCall(q, c.Definition, "engine.Call"); err != nil {
		return err
	}
	if s.params != nil {
		return bad(c.Definition, "WithParams", "is given", "the parameters as arguments: names are for Run and Eval")
	}
	isCheckOnly := s.checkOnly
	s.checkOnly = true // indices in memory that the host cannot address are checked now
	var err error
	if e.plan, _, err = q.prepare(&e.launch, c.Definition, c.Tensors, c.Params, &s); err != nil {
		return err
	}
	if s.caller != nil {
		if _, err := remote(c.Definition, c.Tensors, c.Params, &s); err != nil {
			return err
		}
	}
	if isCheckOnly {
		return nil
	}
	e.isAgain = s.caller != nil || q.recorder != nil && q.recorder.isUpdate || len(s.observers) > 0 || slices.ContainsFunc(c.Definition.Operands, func(o def.Operand) bool { return o.IsIndex })
	e.isOnHost = slices.ContainsFunc(e.launch.Operands, func(o lower.Operand) bool { return o.Pointer == 0 })
	e.views = resized(e.views, len(c.Tensors))
	for i, t := range c.Tensors {
		e.views[i] = view{t.Shape(), t.Strides()}
	}
	e.definition = c.Definition
	return nil
}

// refresh prepares a call that differs from the last one in its parameters and in the places
// of its operands alone. If there may be more to check, the call is not known.
func (e *batchEntry) refresh(q *Queue, c *CallSpec) (isKnown, hasMoved bool) {
	d, l := c.Definition, &e.launch
	if d == nil || e.definition != d || e.isAgain || len(c.Tensors) != len(e.views) || len(c.Params) != len(l.Params) || q.closed.Load() || q.ctx == nil || q.ctx.Err() != nil {
		return false, false
	}
	for i, t := range c.Tensors {
		o := &l.Operands[i]
		if tensor.Check(d.Name, "", t) != nil || t.Device() != q.device || t.DType() != o.DType || !e.views[i].isOf(t) {
			return false, false
		}
		if at := t.Pointer(); at != o.Pointer || at == 0 {
			hasMoved = true
			o.Pointer = at
		}
		if o.Pointer == 0 {
			a, _ := t.Array()
			o.Data = a.Data
		}
		l.Buffers[i] = t.Buffer()
	}
	if hasMoved && checkOverlap(d, c.Tensors) != nil {
		return false, false
	}
	for i, v := range c.Params {
		if v != l.Params[i] { // a NaN is looked at again
			if !d.Params[i].Allows(v) {
				return false, false
			}
			l.Params[i] = v
		}
	}
	if hasMoved {
		if p, err := q.plan(d, &q.settings, &l.Call); err != nil || p != e.plan {
			return false, false
		}
	}
	l.Context, l.Device, l.Queue = q.ctx, q.device, q.queue
	return true, hasMoved
}

// isOf reports whether a tensor has the shape and the strides.
func (v *view) isOf(t *tensor.Tensor) bool {
	return isSame(v.shape, t.Shape()) && isSame(v.strides, t.Strides())
}

func isSame(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	return len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b)
}

// launchAll makes checked calls. It returns how many are done if one fails.
func (b *Batch) launchAll(q *Queue, calls []CallSpec, s *settings) (done int, err error) {
	if !b.isSame {
		b.isApart = b.choose(q, s) && b.spans.areApart(b.entries)
	}
	for i := 0; i < len(calls); {
		end := i
		for end < len(calls) && b.entries[end].isTogether {
			end++
		}
		if end-i >= 2 {
			for k := i; k < end; k++ {
				b.entries[k].isLaunched = false
			}
			if done, err := b.launchTogether(q, i, end, calls, s); err != nil {
				return done, err
			}
			i = end
			continue
		}
		if err := b.launchOne(q, i, calls, s); err != nil {
			return i, err
		}
		i++
	}
	return len(calls), nil
}

// choose finds the calls that can be launched with others, and reports whether all can.
func (b *Batch) choose(q *Queue, s *settings) bool {
	candidates := 0
	for i := range b.entries {
		e := &b.entries[i]
		e.isTogether = false
		if e.isAgain {
			continue
		}
		if many, ok := e.plan.kernel.(ManyLauncher); ok && !e.isOnHost && many.Joins(&e.launch.Call) {
			e.isTogether = true
			candidates++
		}
	}
	chosen := 0
	for i := range b.entries {
		e := &b.entries[i]
		e.isTogether = e.isTogether && candidates >= 2 && q.planMany(e.plan, s, &e.launch.Call) != nil
		if e.isTogether {
			chosen++
		}
	}
	return chosen == len(b.entries)
}

// launchOne makes one call.
func (b *Batch) launchOne(q *Queue, i int, calls []CallSpec, s *settings) error {
	e, c := &b.entries[i], &calls[i]
	if e.isAgain || q.recorder != nil {
		return q.call(c.Definition, c.Tensors, c.Params, s)
	}
	if err := q.ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", c.Definition.Name, err)
	}
	return launchError(c.Definition, e.plan.kernel.Launch(&e.launch))
}

// launchTogether makes the calls from one to another, those of a plan in one launch. Where
// calls depend on each other, it makes the first half before the second.
func (b *Batch) launchTogether(q *Queue, from, to int, calls []CallSpec, s *settings) (done int, err error) {
	if to-from > 1 && !b.isApart && !b.spans.areApart(b.entries[from:to]) {
		middle := (from + to) / 2
		if done, err := b.launchTogether(q, from, middle, calls, s); err != nil {
			return done, err
		}
		return b.launchTogether(q, middle, to, calls, s)
	}
	if q.recorder != nil {
		return from, q.recorder.takeTogether(q, b.entries[from:to], calls[from:to], s)
	}
	for i := from; i < to; i++ {
		e := &b.entries[i]
		if e.isLaunched {
			continue
		}
		if err := q.ctx.Err(); err != nil {
			return i, fmt.Errorf("%s: %w", e.definition.Name, err)
		}
		b.group = b.group[:0]
		for k := i; k < to; k++ {
			if other := &b.entries[k]; other.plan == e.plan {
				b.group = append(b.group, &other.launch)
				other.isLaunched = true
			}
		}
		if len(b.group) == 1 {
			err = e.plan.kernel.Launch(&e.launch)
		} else {
			err = e.plan.kernel.(ManyLauncher).LaunchMany(b.group)
		}
		if err != nil {
			return i, launchError(e.definition, err)
		}
	}
	return to, nil
}
