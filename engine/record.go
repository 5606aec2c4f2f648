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
	steps    []*step
	parts    []part
	tensors  []recordedTensor // that have to be open
	keeps    keeps
	isClosed bool

	updating sync.Mutex // one update at a time
	updates  Queue      // that an update makes its calls on
	updater  recorder   // which takes them
}

// step is a call of a recording.
type step struct {
	definition *def.Definition
	tensors    []*tensor.Tensor
	launch     Launch
	plan       *plan // nil for a call that is computed elsewhere
	remote     *RemoteCall
	caller     Caller
	submit     func(to device.Queue) error

	hostChecks, kernelChecks bool // the indices
	isJoined                 bool // with others, where the device's queue can

	next      []float64 // parameters that an update gives it
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
	mu     sync.Mutex
	steps  []*step
	keeps  keeps
	next   int // step to look for first, in an update; -1 in a new recording
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
	r := &recorder{next: -1, keeps: keeps{}}
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
	rec := &Recording{queue: q, steps: r.steps, keeps: r.keeps, updates: *q}
	rec.updater.steps, rec.updater.isDone = rec.steps, true
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
	switch {
	case r.isDone:
		return bad(d, "queue", "was for a recording that has been made", "the queue that Record was called on")
	case r.next >= 0:
		return r.change(l, p, d, tensors, s)
	}
	one := &step{definition: d, tensors: slices.Clone(tensors), plan: p, caller: s.caller, next: make([]float64, len(l.Params))}
	if s.caller != nil {
		var err error
		if one.remote, err = remote(d, tensors, l.Params, s); err != nil {
			return err
		}
	} else {
		one.hostChecks, one.kernelChecks = rejectsIndices(d, s) && !kernelChecks, kernelChecks
		if sequenced, ok := p.kernel.(Sequenced); ok && !one.hostChecks {
			one.isJoined = sequenced.SubmitsAll()
		}
	}
	one.launch = Launch{Call: l.Call, Buffers: slices.Clone(l.Buffers), Context: q.ctx, Device: q.device}
	one.launch.Operands, one.launch.Params = slices.Clone(l.Operands), slices.Clone(l.Params)
	one.submit = one.launchOn
	r.steps = append(r.steps, one)
	for _, t := range tensors {
		r.keeps.add(t)
	}
	return nil
}

// change finds the call among the steps, from the one after the last that was found on, and
// keeps its parameters for the end of the update.
func (r *recorder) change(l *Launch, p *plan, d *def.Definition, tensors []*tensor.Tensor, s *settings) error {
	for i := r.next; i < len(r.steps); i++ {
		one := r.steps[i]
		if one.definition == d && one.plan == p && one.caller == s.caller && slices.EqualFunc(one.tensors, tensors, isSameTensor) {
			copy(one.next, l.Params)
			one.isChanged = true
			r.next = i + 1
			return nil
		}
	}
	return bad(d, "call", fmt.Sprintf("is not among the recorded calls from number %d on", r.next), "a call that was recorded, in the order of the recording, with the same tensors and options")
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
	for _, one := range rec.steps {
		for i, t := range one.tensors {
			if _, isKept := rec.keeps[t.Buffer()]; known[t] || isKept && t.Buffer().Closed() {
				continue
			}
			known[t] = true
			rec.tensors = append(rec.tensors, recordedTensor{one.definition.Name, one.definition.Operands[i].Name, t})
		}
	}
	if err := rec.checkOpen(); err != nil {
		return err
	}
	for from := 0; from < len(rec.steps); {
		first, to := rec.steps[from], from+1
		for to < len(rec.steps) && rec.steps[to].caller == first.caller && rec.steps[to].isJoined == first.isJoined {
			to++
		}
		p, steps := part{from: from, to: to, caller: first.caller}, rec.steps[from:to]
		for _, one := range steps {
			if p.caller != nil {
				p.calls = append(p.calls, *one.remote)
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
	one.launch.Queue = to
	if one.kernelChecks {
		return launchError(one.definition, one.plan.kernel.(IndexChecker).LaunchChecked(&one.launch))
	}
	return launchError(one.definition, one.plan.kernel.Launch(&one.launch))
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
		if err := q.ctx.Err(); err != nil {
			return fmt.Errorf("%s: %w", one.definition.Name, err)
		}
		if one.hostChecks {
			if err := checkIndices(one.definition, &one.launch, one.tensors); err != nil {
				return err
			}
		}
		one.launch.Context = q.ctx
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
// for the runs to come. f makes some of the recorded calls, or all, in the order of the
// recording, with the same tensors and options; calls that it leaves out keep their
// parameters. After an error nothing is changed. Update itself allocates nothing.
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
	for _, one := range rec.steps {
		one.isChanged = false
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
	for i, one := range rec.steps {
		if one.isChanged = one.isChanged && !slices.Equal(one.next, one.launch.Params); !one.isChanged {
			continue
		}
		if err := rec.swap(i); err != nil {
			for k := range i + 1 { // those before it, and what it may have changed of its own
				if rec.steps[k].isChanged {
					err = errors.Join(err, rec.swap(k))
				}
			}
			return err
		}
	}
	return nil
}

// swap exchanges the parameters of a step and those that an update keeps; mu is held.
func (rec *Recording) swap(i int) error {
	one := rec.steps[i]
	one.launch.Params, one.next = one.next, one.launch.Params
	at := slices.IndexFunc(rec.parts, func(p part) bool { return i < p.to })
	switch p := &rec.parts[at]; {
	case p.caller != nil:
		copy(p.calls[i-p.from].Params, one.launch.Params)
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
	return len(rec.steps)
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
