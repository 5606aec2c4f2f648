package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"tokitai/def"
	"tokitai/device"
	"tokitai/tensor"
)

// Recording is a sequence of calls that have been checked, and whose lowerings have been
// chosen and admitted, so that running them again costs little: on a GPU one launch of a
// graph. [Queue.Record] makes one. All its methods are safe for concurrent use.
//
// A recording refers to the tensors of its calls, which have to stay open. Those that were
// closed before Record returned are temporary: the recording keeps their memory.
type Recording struct {
	queue *Queue // that it was made on

	mu       sync.Mutex // taken after updating
	calls    []*recordedCall
	steps    []*step
	parts    []part
	tensors  []recordedTensor // that have to be open
	keeps    keeps
	isClosed bool

	updating sync.Mutex // one update at a time
	updates  Queue      // that an update makes its calls on
	updater  recorder   // which takes them
}

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
	badIndex  BadIndex
	admission Admission
	using     *Lowering
	lowering  string
	caller    Caller
}

func (s *settings) choices() choices {
	return choices{s.policy, s.badIndex, s.admission, s.using, s.lowering, s.caller}
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

// part is some steps that are run together: by a sequence of the device, by a Caller, or,
// with neither, one after another.
type part struct {
	from, to int
	sequence device.Sequence
	caller   Caller
	calls    []RemoteCall
}

// recordedTensor is a tensor with the first call that uses it.
type recordedTensor struct {
	op, operand string
	tensor      *tensor.Tensor
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
	c := r.add(q, one, l, p, d, tensors, s)
	if c.caller = s.caller; c.caller != nil {
		var err error
		if c.remote, err = remote(d, tensors, l.Params, s); err != nil {
			return err
		}
	} else {
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
	if c.isFound || c.definition != d || !slices.Equal(c.tensors, tensors) || c.settings != s.choices() {
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
		if !c.isFound && c.definition == d && c.plan == p && c.caller == s.caller && slices.EqualFunc(c.tensors, tensors, isSameTensor) {
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

// prepare divides the steps into parts.
func (rec *Recording) prepare() error {
	known := map[*tensor.Tensor]bool{}
	for _, c := range rec.calls {
		for i, t := range c.tensors {
			if _, isKept := rec.keeps[t.Buffer()]; known[t] || isKept && t.Buffer().Closed() {
				continue
			}
			known[t] = true
			rec.tensors = append(rec.tensors, recordedTensor{c.definition.Name, c.definition.Operands[i].Name, t})
		}
	}
	if err := rec.checkOpen(); err != nil {
		return err
	}
	for from := 0; from < len(rec.steps); {
		first, to := rec.steps[from], from+1
		for to < len(rec.steps) && rec.steps[to].calls[0].caller == first.calls[0].caller && rec.steps[to].isJoined == first.isJoined {
			to++
		}
		p, steps := part{from: from, to: to, caller: first.calls[0].caller}, rec.steps[from:to]
		for _, one := range steps {
			if p.caller != nil {
				p.calls = append(p.calls, *one.calls[0].remote)
			}
		}
		if sequencer, ok := rec.queue.queue.(device.Sequencer); ok && first.isJoined {
			var err error
			p.sequence, err = sequencer.NewSequence(len(steps), func(i int, to device.Queue) error { return steps[i].launchOn(to) })
			if err != nil {
				return err
			}
		}
		rec.parts = append(rec.parts, p)
		from = to
	}
	return nil
}

// launchOn launches the step's kernel on a queue of the device.
func (one *step) launchOn(to device.Queue) error {
	first := one.calls[0]
	kernel := first.plan.kernel
	var err error
	switch {
	case one.many != nil:
		for _, l := range one.many {
			l.Queue = to
		}
		err = kernel.(ManyLauncher).LaunchMany(one.many)
	case one.kernelChecks:
		first.launch.Queue = to
		err = kernel.(IndexChecker).LaunchChecked(&first.launch)
	default:
		first.launch.Queue = to
		err = kernel.Launch(&first.launch)
	}
	return launchError(first.definition, err)
}

// Run runs all calls, in order, on a queue of the device that they were recorded on. The
// results have the bits that the calls would give, and indices are checked as by these. It
// allocates nothing.
//
// On a GPU, Run returns before the work is done, and calls may run at the same time of which
// neither writes what the other uses.
func (rec *Recording) Run(q *Queue) error {
	const op = "engine.Recording.Run"
	if rec == nil || rec.queue == nil {
		return &device.ArgumentError{Op: op, Operand: "recording", Got: "is nil or empty", Want: "one that Queue.Record made"}
	}
	if err := q.checkMade(op); err != nil {
		return err
	}
	if err := q.checkNotRecording(op); err != nil {
		return err
	}
	if q.device != rec.queue.device {
		return &device.ArgumentError{Op: op, Operand: "queue", Got: "is on " + q.device.Name(), Want: "one on the device of the recording, " + rec.queue.device.Name()}
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if err := rec.usable(op); err != nil {
		return err
	}
	if err := rec.checkOpen(); err != nil {
		return err
	}
	for i := range rec.parts {
		if err := rec.runPart(q, &rec.parts[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkOpen returns an error for a tensor that has been closed.
func (rec *Recording) checkOpen() error {
	for i := range rec.tensors {
		t := &rec.tensors[i]
		if err := tensor.Check(t.op, t.operand, t.tensor); err != nil {
			return err
		}
	}
	return nil
}

func (rec *Recording) runPart(q *Queue, p *part) error {
	switch {
	case p.caller != nil:
		done, err := p.caller.Call(q.ctx, p.calls)
		if err != nil {
			return fmt.Errorf("recorded call %d: %w", p.from+done, err)
		}
		return nil
	case p.sequence != nil:
		if err := q.ctx.Err(); err != nil {
			return fmt.Errorf("recording: %w", err)
		}
		err := p.sequence.Run(q.queue)
		if _, isIndex := errors.AsType[*IndexError](err); err == nil || isIndex {
			return err
		}
		return &LaunchError{Op: "recording", Cause: err}
	}
	for _, one := range rec.steps[p.from:p.to] {
		c := one.calls[0] // of many, none has indices
		if err := q.ctx.Err(); err != nil {
			return fmt.Errorf("%s: %w", c.definition.Name, err)
		}
		if one.hostChecks {
			if err := checkIndices(c.definition, &c.launch, c.tensors); err != nil {
				return err
			}
		}
		for _, c := range one.calls {
			c.launch.Context = q.ctx
		}
		if err := one.launchOn(q.queue); err != nil {
			return err
		}
	}
	return nil
}

// usable returns an error for a closed recording; mu is held.
func (rec *Recording) usable(op string) error {
	if rec.isClosed {
		return &device.ArgumentError{Op: op, Operand: "recording", Got: "is closed", Cause: device.ErrClosed}
	}
	return nil
}

// Update calls f with a queue on which calls give new parameters to those of the recording,
// for the runs to come. f makes some of the recorded calls, or all, with the same tensors and
// options; calls that it leaves out keep their parameters. Of recorded calls that are alike,
// the first stands for the first, the second for the second, and so on. After an error
// nothing is changed. Update itself allocates nothing.
func (rec *Recording) Update(f func(q *Queue) error) error {
	const op = "engine.Recording.Update"
	switch {
	case rec == nil || rec.queue == nil:
		return &device.ArgumentError{Op: op, Operand: "recording", Got: "is nil or empty", Want: "one that Queue.Record made"}
	case f == nil:
		return &device.ArgumentError{Op: op, Operand: "function", Got: "is nil", Want: "one that makes recorded calls"}
	}
	rec.updating.Lock()
	defer rec.updating.Unlock()
	for _, c := range rec.calls {
		c.isFound = false
	}
	u := &rec.updater
	u.mu.Lock()
	u.next, u.isDone = 0, false
	u.mu.Unlock()
	err := f(&rec.updates)
	u.mu.Lock()
	u.isDone = true
	u.mu.Unlock()
	if err != nil {
		return err
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if err := rec.usable(op); err != nil {
		return err
	}
	for _, c := range rec.calls {
		c.isChanged = c.isFound && !slices.Equal(c.next, c.launch.Params)
		c.step.isChanged = c.step.isChanged || c.isChanged
	}
	at := 0
	for ; at < len(rec.steps) && err == nil; at++ {
		err = rec.swap(at)
	}
	if err != nil {
		for at--; at >= 0; at-- { // those before it, and what it may have changed of its own
			err = errors.Join(err, rec.swap(at))
		}
	}
	for _, one := range rec.steps {
		one.isChanged = false
	}
	return err
}

// swap exchanges the parameters of a step's changed calls and those that the update keeps; mu
// is held.
func (rec *Recording) swap(i int) error {
	one := rec.steps[i]
	if !one.isChanged {
		return nil
	}
	for _, c := range one.calls {
		if c.isChanged {
			c.launch.Params, c.next = c.next, c.launch.Params
		}
	}
	at := slices.IndexFunc(rec.parts, func(p part) bool { return i < p.to })
	switch p := &rec.parts[at]; {
	case p.caller != nil:
		copy(p.calls[i-p.from].Params, one.calls[0].launch.Params)
	case p.sequence != nil:
		return p.sequence.Update(i-p.from, one.submit)
	}
	return nil
}

// Len returns the number of calls.
func (rec *Recording) Len() int {
	if rec == nil {
		return 0
	}
	return len(rec.calls)
}

// Close releases what the recording holds on the device, once runs that are under way are
// done. Closing twice, or a nil recording, is allowed.
func (rec *Recording) Close() error {
	if rec == nil {
		return nil
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.isClosed = true
	var errs []error
	for i := range rec.parts {
		if s := rec.parts[i].sequence; s != nil {
			errs = append(errs, s.Close())
		}
	}
	rec.parts, rec.tensors = nil, nil
	rec.keeps.release()
	return errors.Join(errs...)
}
