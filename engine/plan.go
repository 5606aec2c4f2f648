package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"tokitai/def"
	"tokitai/device"
	"tokitai/lower"
	"tokitai/num"
)

// planKey is what a compiled and admitted kernel depends on.
type planKey struct {
	definition *def.Definition
	dtypes     uint64 // four bits each
	class      int
	lowering   *Lowering
	admission  Admission
	isMany     bool // of the kernel's LaunchMany; the plan without it has been made
}

// plan is an admitted kernel, or the reason why there is none, once isMade is set.
type plan struct {
	lowering *Lowering
	kernel   Kernel
	err      error

	key  planKey
	many atomic.Pointer[plan] // of the same kernel for many calls, once it is made

	isMade atomic.Bool
	making chan struct{} // a lock, held while the plan is compiled and admitted
}

// planCache holds the plans of one device. Reading is lock-free: the map is replaced,
// never changed.
type planCache struct {
	plans  atomic.Pointer[map[planKey]*plan]
	adding sync.Mutex
}

// planCaches holds the plans of every device, for the life of the process: devices
// and definitions are expected to be few and to stay.
var planCaches sync.Map // device.Device → *planCache

func plansOf(dev device.Device) *planCache {
	c := &planCache{}
	c.plans.Store(&map[planKey]*plan{})
	actual, _ := planCaches.LoadOrStore(dev, c)
	return actual.(*planCache)
}

func packDTypes(operands []lower.Operand) uint64 {
	var packed uint64
	for i := range operands {
		packed |= uint64(operands[i].DType) << (4 * i)
	}
	return packed
}

func dtypesOf(c *lower.Call) []num.DType {
	dtypes := make([]num.DType, len(c.Operands))
	for i := range dtypes {
		dtypes[i] = c.Operands[i].DType
	}
	return dtypes
}

// named returns the lowering that a call demands by name.
func (q *Queue) named(d *def.Definition, s *settings, c *lower.Call) (*Lowering, error) {
	var names []string
	for _, l := range Lowerings(q.backend, d) {
		if l.IsNamed(s.lowering, d) {
			return l, q.checkNamed(s, l, d, c)
		}
		names = append(names, l.Name)
	}
	return nil, bad(d, "lowering", fmt.Sprintf("%q is unknown on %s", s.lowering, q.backend.Kind()), strings.Join(names, " or "))
}

// plan returns a plan that may be launched: that of the demanded lowering, or that of
// the first admitted one among the backend's preferred ones.
func (q *Queue) plan(d *def.Definition, s *settings, c *lower.Call) (*plan, error) {
	if l := s.using; l != nil {
		switch {
		case l.Device != q.device.Kind():
			return nil, bad(d, "lowering", fmt.Sprintf("%s is for %s", l.Name, l.Device), q.device.Kind()+", the queue's device")
		}
		if err := q.checkNamed(s, l, d, c); err != nil {
			return nil, err
		}
		p := q.planFor(d, s, l, c)
		return p, p.err
	}
	if s.lowering != "" {
		l, err := q.named(d, s, c)
		if err != nil {
			return nil, err
		}
		p := q.planFor(d, s, l, c)
		return p, p.err
	}
	candidates := q.candidates(d, s, c)
	var first error
	for i := range candidates {
		l := candidates[i]
		if l.Factors != nil && !slices.Contains(l.Factors, c.Operands[0].DType) || !q.allows(s, l, d, c) || l.Suits != nil && l.Suits(q.device, d, c) != nil || l.Yields != nil && l.Yields(d, c) {
			continue
		}
		p := q.planFor(d, s, l, c)
		if p.err == nil {
			return p, nil
		}
		if first == nil {
			first = p.err
		}
	}
	if first == nil {
		first = &InadmissibleError{Lowering: d.Name, Device: q.device.Name(), Reason: s.leavesNone(d, c)}
	}
	return nil, first
}

// candidates returns the lowerings that a call may choose, best first. What a processor replays is chosen where
// the rule demands it.
func (q *Queue) candidates(d *def.Definition, s *settings, c *lower.Call) []*Lowering {
	if s.ruleOf(d, c) == def.FMAChain {
		return q.backend.Preferred(d)
	}
	return slices.Concat(q.backend.Preferred(d), q.backend.OnDemand(d))
}

// leavesNone says why a call has no lowering.
func (s *settings) leavesNone(d *def.Definition, c *lower.Call) string {
	if r := s.ruleOf(d, c); r != def.FMAChain {
		return fmt.Sprintf("nothing here computes the rule %s", r)
	}
	return fmt.Sprintf("policy %s leaves no lowering", s.policy)
}

func (q *Queue) planFor(d *def.Definition, s *settings, l *Lowering, c *lower.Call) *plan {
	key := planKey{definition: d, dtypes: packDTypes(c.Operands), lowering: l, admission: s.admission}
	if l.Class != nil {
		key.class = l.Class(d, c)
	}
	p, ok := (*q.plans.plans.Load())[key]
	if !ok {
		p = q.plans.add(key)
	}
	if !p.isMade.Load() {
		if err := q.makePlan(p, key, s, c); err != nil {
			if q.ctx.Err() != nil {
				err = fmt.Errorf("%s: %w", d.Name, err)
			}
			return &plan{lowering: l, err: err}
		}
	}
	return p
}

// add adds an empty plan to the cache unless another call has.
func (c *planCache) add(key planKey) *plan {
	c.adding.Lock()
	defer c.adding.Unlock()
	plans := *c.plans.Load()
	if p, ok := plans[key]; ok {
		return p
	}
	plans = maps.Clone(plans)
	plans[key] = &plan{lowering: key.lowering, key: key, making: make(chan struct{}, 1)}
	c.plans.Store(&plans)
	return plans[key]
}

// makePlan compiles and admits a plan once. Calls that need the same plan wait; others
// do not, so that a kernel may itself make calls. When memory runs out it returns an
// error, and the next call tries again.
//
// Neither compilers nor kernels can be stopped. When the queue's context ends, the call
// returns, and the plan is completed in the background for the next call.
func (q *Queue) makePlan(p *plan, key planKey, s *settings, c *lower.Call) error {
	if err := q.ctx.Err(); err != nil {
		return err
	}
	ended := q.ctx.Done()
	select {
	case p.making <- struct{}{}:
	case <-ended:
		return q.ctx.Err()
	}
	if p.isMade.Load() {
		<-p.making
		return nil
	}
	dtypes := dtypesOf(c)
	if ended == nil {
		defer func() { <-p.making }()
		return q.finishPlan(p, key, s, dtypes)
	}
	type outcome struct {
		err   error
		panic any
	}
	done, settings := make(chan outcome, 1), *s
	go func() {
		var o outcome
		defer func() {
			o.panic = recover()
			<-p.making
			done <- o
		}()
		o.err = q.finishPlan(p, key, &settings, dtypes)
	}()
	select {
	case o := <-done:
		if o.panic != nil {
			panic(o.panic)
		}
		return o.err
	case <-ended:
		return q.ctx.Err()
	}
}

// finishPlan compiles and admits a plan.
func (q *Queue) finishPlan(p *plan, key planKey, s *settings, dtypes []num.DType) error {
	var err error
	if p.kernel == nil { // not compiled by a call that then lacked memory
		p.kernel, err = q.kernelFor(key, dtypes)
	}
	switch {
	case err != nil || key.admission != SelfTest:
	case key.isMany:
		err = q.admitMany(p, key.definition, dtypes)
	default:
		err = q.admit(p, key.definition, dtypes, key.class)
	}
	if err != nil {
		message := "lowering not admitted"
		if key.isMany {
			message = "lowering not admitted for many calls in one launch: they are launched one by one"
		}
		s.warn(message, "lowering", key.lowering.ID(key.definition), "device", q.device.Name(), "reason", err.Error())
	}
	if errors.Is(err, device.ErrOutOfMemory) {
		return err
	}
	p.err = err
	p.isMade.Store(true)
	return nil
}

// kernelFor compiles the kernel of a plan. The one for many calls is that for one.
func (q *Queue) kernelFor(key planKey, dtypes []num.DType) (Kernel, error) {
	if !key.isMany {
		return q.compile(key.lowering, key.definition, dtypes, key.class)
	}
	key.isMany = false
	return (*q.plans.plans.Load())[key].kernel, nil
}

// planMany returns the plan for many calls of a kernel that is a ManyLauncher, or nil if it is
// not admitted for that.
func (q *Queue) planMany(p *plan, s *settings, c *lower.Call) *plan {
	m := p.many.Load()
	if m == nil {
		key := p.key
		key.isMany = true
		var ok bool
		if m, ok = (*q.plans.plans.Load())[key]; !ok {
			m = q.plans.add(key)
		}
		if !m.isMade.Load() {
			if err := q.makePlan(m, key, s, c); err != nil {
				return nil // this time
			}
		}
		p.many.Store(m)
	}
	if m.err != nil {
		return nil
	}
	return m
}

// compile returns a kernel, or an InadmissibleError.
func (q *Queue) compile(l *Lowering, d *def.Definition, dtypes []num.DType, class int) (k Kernel, err error) {
	if err := d.CheckUnchanged(); err != nil {
		return nil, bad(d, "definition", err.Error(), "")
	}
	inadmissible := func(cause error, reason string) error {
		return &InadmissibleError{Lowering: l.ID(d), Device: q.device.Name(), Reason: reason, Cause: cause}
	}
	defer func() {
		if r := recover(); r != nil {
			k, err = nil, inadmissible(nil, fmt.Sprintf("its compilation panicked: %v", r))
		}
	}()
	if k, err = l.Compile(q.device, d, dtypes, class); err != nil {
		return nil, inadmissible(err, "it does not compile: "+err.Error())
	}
	if k == nil {
		return nil, inadmissible(nil, "its compilation gave no kernel")
	}
	return k, nil
}

// checkNamed returns an error if a call that names a lowering cannot have it.
func (q *Queue) checkNamed(s *settings, l *Lowering, d *def.Definition, c *lower.Call) error {
	if !q.allows(s, l, d, c) {
		return q.notUnder(s, l, d, c)
	}
	if l.Suits != nil {
		if err := l.Suits(q.device, d, c); err != nil {
			return &UnsuitedError{Lowering: l.ID(d), Cause: err}
		}
	}
	return nil
}

// allows reports whether the policy allows a lowering for a call.
func (q *Queue) allows(s *settings, l *Lowering, d *def.Definition, c *lower.Call) bool {
	return s.policy != Same || l.Promise.IsBits() && q.accumOf(l, d, c) == s.ruleOf(d, c)
}

// ruleOf returns the rule that a call has to follow under policy Same.
func (s *settings) ruleOf(d *def.Definition, c *lower.Call) def.Accum {
	if s.rule == def.FMAChain || !d.Multiplies() {
		return def.FMAChain
	}
	switch dtype := c.Operands[0].DType; {
	case dtype != num.F16 && dtype != num.BF16:
		return def.FMAChain
	case d.Stream() != nil && c.Size(d, "D") > lower.TensorCoreHeads:
		return def.FMAChain
	}
	return s.rule
}

// accumOf returns a lowering's accumulation rule for a call.
func (q *Queue) accumOf(l *Lowering, d *def.Definition, c *lower.Call) def.Accum {
	if l.Promise.AccumFor == nil {
		return l.Promise.Accum // without asking the device
	}
	return l.Promise.AccumOf(q.device.Describe().Architecture, d, dtypesOf(c), func(letter string) int { return c.Size(d, letter) })
}

func (q *Queue) notUnder(s *settings, l *Lowering, d *def.Definition, c *lower.Call) error {
	got := fmt.Sprintf("%s adds by the rule %s", l.Name, q.accumOf(l, d, c))
	if !l.Promise.IsBits() {
		got = l.Name + " does not promise bits"
	}
	return bad(d, "lowering", got, fmt.Sprintf("the rule %s and the reference's bits under policy %s", s.ruleOf(d, c), s.policy))
}
