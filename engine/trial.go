package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"tokitai/def"
	"tokitai/tensor"
)

// Trial runs one lowering of one definition, for tests and verification. It does not use
// the engine's plans: every Trial compiles its own kernels, admits nothing, and a panic is
// an error. It is not safe for concurrent use, except for Waited and for Launch of what Prepare
// returned.
type Trial struct {
	queue    *Queue
	d        *def.Definition
	lowering *Lowering
	settings settings
	mu       sync.Mutex // held to change kernels, and by Waited
	kernels  map[trialKey]Kernel
}

type trialKey struct {
	dtypes uint64
	class  int
}

// NewTrial refuses a lowering that a call on the queue would refuse. Indices without
// a row are skipped, not rejected.
func NewTrial(q *Queue, d *def.Definition, l *Lowering) (*Trial, error) {
	if err := checkCall(q, d, "engine.NewTrial"); err != nil {
		return nil, err
	}
	t := &Trial{queue: q, d: d, lowering: l, settings: q.settings, kernels: map[trialKey]Kernel{}}
	apply(&t.settings, []Option{Using(l), WithBadIndex(Skip)})
	if err := t.settings.check(d); err != nil {
		return nil, err
	}
	if l.Device != q.device.Kind() {
		return nil, bad(d, "lowering", fmt.Sprintf("%s is for %s", l.Name, l.Device), q.device.Kind()+", the queue's device")
	}
	return t, nil
}

// Prepare checks a call as every call is checked, and compiles its kernel unless an
// earlier call of the Trial has. Tensors and parameters are in the order of the
// definition.
func (t *Trial) Prepare(tensors []*tensor.Tensor, params []float64) (*Prepared, error) {
	q := t.queue
	l := &Launch{Context: q.ctx, Device: q.device, Queue: q.queue}
	if err := q.check(l, t.d, tensors, params, &t.settings); err != nil {
		return nil, err
	}
	if suits := t.lowering.Suits; suits != nil {
		if err := suits(q.device, t.d, &l.Call); err != nil {
			return nil, &UnsuitedError{Lowering: t.lowering.ID(t.d), Cause: err}
		}
	}
	key := trialKey{dtypes: packDTypes(l.Operands)}
	if t.lowering.Class != nil {
		key.class = t.lowering.Class(t.d, &l.Call)
	}
	k := t.kernels[key]
	if k == nil {
		var err error
		if k, err = q.compile(t.lowering, t.d, dtypesOf(&l.Call), key.class); err != nil {
			return nil, err
		}
		t.mu.Lock()
		t.kernels[key] = k
		t.mu.Unlock()
	}
	return &Prepared{kernel: k, launch: l, wait: q}, nil
}

// Prepared is a checked call of a Trial, bound to its kernel.
type Prepared struct {
	kernel Kernel
	launch *Launch
	wait   *Queue
}

// Launch runs the kernel and waits for it.
func (p *Prepared) Launch() error {
	if err := launchRecovering(p.kernel, p.launch); err != nil {
		return err
	}
	return p.wait.Wait()
}

// Submit is Launch without waiting for what the kernel has queued.
func (p *Prepared) Submit() error { return launchRecovering(p.kernel, p.launch) }

// Timed is a kernel that says itself how long its last launch took.
type Timed interface {
	Kernel
	LastTime() time.Duration
}

// LastTime returns how long the last launch took as the kernel itself says, and false if it says
// nothing.
func (p *Prepared) LastTime() (time.Duration, bool) {
	if k, ok := p.kernel.(Timed); ok {
		return k.LastTime(), true
	}
	return 0, false
}

// LaunchUnder is Launch under another context, which may end before the kernel does. It
// waits for what the kernel has queued in any case.
func (p *Prepared) LaunchUnder(ctx context.Context) error {
	under := *p.launch
	under.Context = ctx
	return errors.Join(launchRecovering(p.kernel, &under), p.wait.Wait())
}

// LaunchOn is Launch on another queue of the same device, beside what other queues run.
func (p *Prepared) LaunchOn(q *Queue) error {
	on := *p.launch
	on.Context, on.Queue, on.arrays = q.ctx, q.queue, nil
	return errors.Join(launchRecovering(p.kernel, &on), q.Wait())
}

// Choice returns the algorithm that the kernel chooses for the call, or nil if it does not
// choose.
func (p *Prepared) Choice() (*Choice, error) {
	k, ok := p.kernel.(Chooser)
	if !ok {
		return nil, nil
	}
	c, err := k.Choice(&p.launch.Call)
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// Waited returns the time that launches of the kernels compiled so far have waited for processes to
// start and to answer their first call.
func (t *Trial) Waited() (d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.kernels {
		if r, ok := k.(Renewer); ok {
			d += r.Waited()
		}
	}
	return d
}

// Renew renews the kernels compiled so far that are Renewers.
func (t *Trial) Renew() {
	for _, k := range t.kernels {
		if r, ok := k.(Renewer); ok {
			r.Renew()
		}
	}
}

// Compiled returns the number of kernels compiled so far.
func (t *Trial) Compiled() int { return len(t.kernels) }

// Listings are the programs of the kernels compiled so far, of those that can print
// themselves, sorted.
func (t *Trial) Listings() []string {
	var list []string
	for _, k := range t.kernels {
		if s, ok := k.(fmt.Stringer); ok {
			list = append(list, s.String())
		}
	}
	slices.Sort(list)
	return list
}

// Artifacts are the SHA-256 of what was compiled at run time for the kernels so far, each
// once, sorted.
func (t *Trial) Artifacts() []string {
	var list []string
	for _, k := range t.kernels {
		list = append(list, artifactsOf(k)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// artifactsOf returns the SHA-256 of a kernel's programs, in hexadecimal; none if it is
// part of this one.
func artifactsOf(k Kernel) []string {
	if c, ok := k.(Compiled); ok {
		return c.Artifacts()
	}
	return nil
}
