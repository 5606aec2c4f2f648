package engine

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

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
	tensors  []recordedTensor // must be open
	keeps    keeps
	cleanup  runtime.Cleanup // releases them
	isClosed bool

	updating sync.Mutex // one update at a time
	updates  Queue      // that an update makes its calls on
	updater  recorder   // which takes them
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
		for to < len(rec.steps) && isSameCaller(rec.steps[to].calls[0].caller, first.calls[0].caller) && rec.steps[to].isJoined == first.isJoined {
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
// On a GPU, Run returns before the work is done, and two calls may run at the same time if neither
// writes what the other uses.
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
	rec.cleanup.Stop()
	rec.keeps.release()
	return errors.Join(errs...)
}
