package verify

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/trial"
)

// rerun runs the same call again: a hundred times at level quick, a thousand at full, with
// other inputs in between in the same memory.
func rerun(x *trialRun) (int64, *finding, error) { return x.repeat(x.s.o.Level.Reruns() * 3 / 2) }

// surrounded runs the call with other memory around its operands, and other contents of its
// outputs.
func surrounded(x *trialRun) (int64, *finding, error) {
	var sum parts
	for turn := range uint64(2) {
		for _, guards := range []trial.Guards{trial.GuardsOfNaN, trial.GuardsOfBytes, trial.GuardsOfNumbers, trial.HiddenGuards} {
			c := x.c.Clone()
			c.Guards = guards.String()
			l := x.l.target.newLoaded(c, x.l.seed+1+turn) // which draws other contents
			for i, o := range x.l.target.Definition.Operands {
				if o.IsIn {
					trial.Copy(l.array(i), x.l.array(i))
				}
			}
			for poison := range 2 {
				out, err := x.s.bench.run(l, x.s.o.deadline(), poison)
				if err != nil {
					return sum.compared, nil, err
				}
				what := fmt.Sprintf("with other memory around it: guards=%s, outputs filled with pattern %d before", guards, poison)
				if sum.add(compare(l, out, evidence.Invariance, what, x.same())) {
					return sum.compared, sum.f, sum.err
				}
			}
		}
	}
	return sum.compared, sum.f, sum.err
}

// betweenOthers runs the call after others: of other sizes, of NaN, infinities and large
// numbers; and as the first call of a kernel that is compiled afresh.
func betweenOthers(x *trialRun) (int64, *finding, error) {
	var sum parts
	first, err := x.s.t.newBench(x.s.bench.ctx, x.s.o, 0)
	if err != nil {
		return 0, nil, err
	}
	first.launches = x.s.bench.launches
	out, err := first.run(x.l, x.s.o.deadline(), 0)
	first.close()
	if err != nil {
		return 0, nil, err
	}
	if sum.add(compare(x.l, out, evidence.Invariance, "as the first call of a kernel compiled afresh", x.same())) {
		return sum.compared, sum.f, sum.err
	}
	for _, other := range x.others() {
		_, err := x.s.bench.run(other.l, x.s.o.deadline(), 1)
		if _, isUnsuited := errors.AsType[*engine.UnsuitedError](err); isUnsuited {
			continue
		}
		if err != nil {
			return sum.compared, nil, fmt.Errorf("%s: %w", other.what, err)
		}
		if sum.add(x.again(x.l, evidence.Invariance, "after a call "+other.what, x.same())) {
			break
		}
	}
	return sum.compared, sum.f, sum.err
}

// other is a call that is made between two runs of the case.
type other struct {
	what string
	l    *loaded
}

// others returns calls to make between two runs of the case.
func (x *trialRun) others() []other {
	const most = 1 << 18 // elements of an operand
	t := x.l.target
	var list []other
	for i, s := range x.c.Sizes {
		for _, n := range []int{1, (s.N + 1) / 2, s.N + 1, 2*s.N + 3} {
			c := x.c.Clone()
			c.Sizes[i].N = n
			if n == s.N || c.Largest(t.Definition) > most || t.CheckCase(c.Name(t.Cases())) != nil {
				continue
			}
			list = append(list, other{fmt.Sprintf("with %s = %d", s.Letter, n), t.load(c, x.l.seed+2)})
		}
	}
	for _, fill := range []struct {
		what  string
		value float64
	}{{"of NaN", math.NaN()}, {"of infinities", math.Inf(1)}, {"of large numbers", math.MaxFloat32}} {
		l := x.l.as(x.c)
		for i, o := range t.Definition.Operands {
			if a := l.array(i); o.IsIn && !o.IsIndex {
				value := fill.value
				if !math.IsInf(value, 0) && !math.IsNaN(value) {
					value = min(value, num.MaxFinite(a.DType))
				}
				trial.Fill(a, func(int, int) float32 { return float32(value) })
			}
		}
		list = append(list, other{fill.what, l})
	}
	return list
}

// onQueues runs the call on another queue of the device, and then on both at once.
func onQueues(x *trialRun) (int64, *finding, error) {
	own := x.s.bench
	queue, err := engine.NewQueue(own.device)
	if err != nil {
		return 0, nil, err
	}
	defer queue.Close()
	other := &bench{ctx: own.ctx, device: own.device, queue: queue, launches: own.launches}
	if other.trial, err = engine.NewTrial(queue, x.s.t.Definition, x.s.t.Lowering); err != nil {
		return 0, nil, err
	}
	var sum parts
	var mu sync.Mutex
	run := func(b *bench, l *loaded, what string) bool {
		out, err := b.run(l, x.s.o.deadline(), 0)
		if b.isHung.Load() {
			own.isHung.Store(true) // its device
		}
		var n int64
		var f *finding
		if err == nil {
			n, f, err = compare(l, out, evidence.Invariance, what, x.same())
		}
		mu.Lock()
		defer mu.Unlock()
		return sum.f != nil || sum.err != nil || sum.add(n, f, err)
	}
	if run(other, x.l, "on another queue") {
		return sum.compared, sum.f, sum.err
	}
	const rounds = 8
	var group sync.WaitGroup
	for _, b := range []*bench{own, other} {
		l := x.l.as(x.c)
		group.Go(func() {
			for range rounds {
				if run(b, l, "on two queues at once") {
					return
				}
			}
		})
	}
	group.Wait()
	return sum.compared, sum.f, sum.err
}

// asVariants runs the call in the other ways that the caller gave.
func asVariants(x *trialRun) (int64, *finding, error) {
	var sum parts
	for _, v := range x.s.t.Variants {
		own := x.s.t
		t := &Target{Operation: own.Operation, Definition: own.Definition, Lowering: v.Lowering, DType: own.DType, Backend: own.Backend, fixed: own.fixed}
		b, err := t.newBench(x.s.bench.ctx, x.s.o, 0)
		if err != nil {
			return sum.compared, nil, fmt.Errorf("%s: %w", v.Name, err)
		}
		b.launches = x.s.bench.launches
		out, err := b.run(x.l, x.s.o.deadline(), 0)
		b.close()
		if err != nil {
			return sum.compared, nil, fmt.Errorf("%s: %w", v.Name, err)
		}
		if sum.add(compare(x.l, out, evidence.Invariance, v.Name, x.same())) {
			break
		}
	}
	return sum.compared, sum.f, sum.err
}
