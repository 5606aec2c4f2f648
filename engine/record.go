package engine

import (
	"reflect"
	"runtime"
	"slices"
	"sync"

	"tokitai/def"
	"tokitai/device"
	"tokitai/tensor"
)

// recordedCall is a call of a recording.
type recordedCall struct {
	definition *def.Definition
	tensors    []*tensor.Tensor
	launch     Launch
	plan       *plan       // nil for a call that is computed elsewhere
	remote     *RemoteCall // nil for one that is computed here
	caller     Caller
	settings   choices
	step       *step

	next      []float64 // parameters that an update gives it
	isFound   bool      // by the update
	isChanged bool
}

// choices are the settings by which two calls on the same tensors may differ.
type choices struct {
	policy    Policy
	rule      def.Accum
	badIndex  BadIndex
	admission Admission
	using     *Lowering
	lowering  string
}

func (s *settings) choices() choices {
	return choices{s.policy, s.rule, s.badIndex, s.admission, s.using, s.lowering}
}

// isSameCaller compares callers, also of types that have no ==, which are never the same.
func isSameCaller(a, b Caller) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// step is a launch of a recording: of one call, or of many together.
type step struct {
	calls  []*recordedCall
	many   []*Launch // of the calls, if they are many
	submit func(to device.Queue) error

	hostChecks, kernelChecks bool // the indices of its one call
	isJoined                 bool // with other steps, where the device's queue can

	isChanged bool
}

// keeps are releases of memory that a recording keeps.
type keeps map[device.Buffer]func()

// add keeps the memory of a tensor, if it can be kept.
func (k keeps) add(t *tensor.Tensor) {
	b, ok := t.Buffer().(device.Keepable)
	if _, isKept := k[b]; !ok || isKept {
		return
	}
	if release, err := b.Keep(); err == nil {
		k[b] = release
	}
}

func (k keeps) release() {
	for b, release := range k {
		release()
		delete(k, b)
	}
}

// recorder takes the calls of a queue: those of a new recording or, in an update of one,
// calls that are in it.
type recorder struct {
	isUpdate bool

	mu     sync.Mutex
	calls  []*recordedCall
	steps  []*step
	keeps  keeps
	next   int // call to look for first, in an update
	isDone bool
}

// Record calls f with a queue on which calls are recorded. They are checked as calls are,
// but nothing runs, and indices are not looked at. The recording has the calls in the order
// in which they were made, with the parameters that they were given.
func (q *Queue) Record(f func(q *Queue) error) (*Recording, error) {
	const op = "engine.Queue.Record"
	if err := q.checkMade(op); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, &device.ArgumentError{Op: op, Operand: "function", Got: "is nil", Want: "one that makes the calls"}
	}
	if err := q.checkNotRecording(op); err != nil {
		return nil, err
	}
	r := &recorder{keeps: keeps{}}
	recording := *q
	recording.recorder = r
	err := f(&recording)
	r.mu.Lock()
	r.isDone = true
	r.mu.Unlock()
	if err != nil {
		r.keeps.release()
		return nil, err
	}
	if len(r.steps) == 0 {
		return nil, &device.ArgumentError{Op: op, Operand: "function", Got: "makes no calls", Want: "calls on the queue that it is given"}
	}
	rec := &Recording{queue: q, calls: r.calls, steps: r.steps, keeps: r.keeps, updates: *q}
	rec.updater.calls, rec.updater.isUpdate, rec.updater.isDone = rec.calls, true, true
	rec.updates.recorder = &rec.updater
	rec.cleanup = runtime.AddCleanup(rec, keeps.release, rec.keeps)
	if err := rec.prepare(); err != nil {
		rec.Close()
		return nil, err
	}
	return rec, nil
}

// IsRecording reports whether calls on the queue are recorded: it is one that Record made.
func (q *Queue) IsRecording() bool { return q != nil && q.recorder != nil }

// checkNotRecording returns an error for what a queue that records cannot do.
func (q *Queue) checkNotRecording(op string) error {
	if q.recorder == nil {
		return nil
	}
	return &device.ArgumentError{Op: op, Operand: "queue", Got: "is recording", Want: "one that runs its calls"}
}

// take takes a checked call. Without a plan it is one for a Caller. kernelChecks says that
// the kernel has to check indices that the host cannot address.
func (r *recorder) take(q *Queue, l *Launch, p *plan, d *def.Definition, tensors []*tensor.Tensor, s *settings, kernelChecks bool) error {
	if len(s.observers) > 0 {
		return bad(d, "observer", "is given", "none in a recording")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isDone {
		return r.done(d)
	}
	if r.isUpdate {
		return r.change(l, p, d, tensors, s)
	}
	one := &step{}
	if s.caller != nil {
		call, err := remote(d, tensors, l.Params, s)
		if err != nil {
			return err
		}
		c := r.add(q, one, l, p, d, tensors, s)
		c.caller, c.remote = s.caller, call
	} else {
		r.add(q, one, l, p, d, tensors, s)
		one.hostChecks, one.kernelChecks = rejectsIndices(d, s) && !kernelChecks, kernelChecks
	}
	r.close(one)
	return nil
}

func (r *recorder) done(d *def.Definition) error {
	return bad(d, "queue", "was for a recording that has been made", "the queue that Record was called on")
}

// takeTogether takes checked calls that do not depend on each other, those of a plan as one
// step.
func (r *recorder) takeTogether(q *Queue, entries []batchEntry, calls []CallSpec, s *settings) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isDone {
		return r.done(calls[0].Definition)
	}
	steps := map[*plan]*step{}
	var order []*step
	for i := range entries {
		e := &entries[i]
		one := steps[e.plan]
		if one == nil {
			one = &step{}
			steps[e.plan], order = one, append(order, one)
		}
		r.add(q, one, &e.launch, e.plan, e.definition, calls[i].Tensors, s)
	}
	for _, one := range order {
		r.close(one)
	}
	return nil
}

// add adds a call to a step.
func (r *recorder) add(q *Queue, to *step, l *Launch, p *plan, d *def.Definition, tensors []*tensor.Tensor, s *settings) *recordedCall {
	c := &recordedCall{definition: d, tensors: slices.Clone(tensors), plan: p, settings: s.choices(), step: to, next: make([]float64, len(l.Params))}
	c.launch = Launch{Call: l.Call, Buffers: slices.Clone(l.Buffers), Context: q.ctx, Device: q.device}
	c.launch.Operands, c.launch.Params = slices.Clone(l.Operands), slices.Clone(l.Params)
	for _, t := range tensors {
		r.keeps.add(t)
	}
	to.calls = append(to.calls, c)
	r.calls = append(r.calls, c)
	return c
}

// close adds a step that has all its calls.
func (r *recorder) close(one *step) {
	if len(one.calls) > 1 {
		for _, c := range one.calls {
			one.many = append(one.many, &c.launch)
		}
	}
	if first := one.calls[0]; first.plan != nil && !one.hostChecks {
		sequenced, ok := first.plan.kernel.(Sequenced)
		one.isJoined = ok && sequenced.SubmitsAll()
	}
	one.submit = one.launchOn
	r.steps = append(r.steps, one)
}

// changeNext is change for a call that has not been checked. It reports whether the call is
// the next one, on the same tensors: then all but its parameters has been checked.
func (r *recorder) changeNext(d *def.Definition, tensors []*tensor.Tensor, params []float64, s *settings) (isNext bool, err error) {
	if !r.isUpdate || s.checkOnly || s.chosen != nil || len(s.observers) > 0 {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isDone || r.next >= len(r.calls) {
		return false, nil
	}
	c := r.calls[r.next]
	if c.isFound || c.definition != d || !slices.Equal(c.tensors, tensors) || c.settings != s.choices() || !isSameCaller(c.caller, s.caller) {
		return false, nil
	}
	for i, t := range tensors {
		if err := tensor.Check(d.Name, d.Operands[i].Name, t); err != nil {
			return true, err
		}
	}
	if err := CheckParams(d, params); err != nil {
		return true, err
	}
	copy(c.next, params)
	c.isFound = true
	r.next++
	return true, nil
}

// change finds a recorded call and keeps its new parameters for the end of the update. It
// looks for it after the last that was found, and then from the beginning.
func (r *recorder) change(l *Launch, p *plan, d *def.Definition, tensors []*tensor.Tensor, s *settings) error {
	for i := range r.calls {
		at := (r.next + i) % len(r.calls)
		c := r.calls[at]
		if !c.isFound && c.definition == d && c.plan == p && isSameCaller(c.caller, s.caller) && slices.EqualFunc(c.tensors, tensors, isSameTensor) {
			copy(c.next, l.Params)
			c.isFound = true
			r.next = at + 1
			return nil
		}
	}
	return bad(d, "call", "is not among the recorded calls", "one that was recorded, with the same tensors and options, and no more often")
}

// isSameTensor reports whether b is what was recorded as a: the same memory or, if that was
// temporary, a tensor like it.
func isSameTensor(a, b *tensor.Tensor) bool {
	if a == b || tensor.Overlap(a, b) == tensor.Identical {
		return true
	}
	return a.Buffer().Closed() && a.DType() == b.DType() && slices.Equal(a.Shape(), b.Shape()) && slices.Equal(a.Strides(), b.Strides())
}
