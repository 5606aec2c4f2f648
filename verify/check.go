package verify

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/promise"
	"tokitai/trial"
	"tokitai/verify/cases"
)

// check is a property that takes more than one run of the kernel: a relation between the
// results of different inputs, or an invariance of the result. The first run is judged like
// any other case; further runs are compared with it, bit for bit.
type check struct {
	cases.Check
	run func(x *trialRun) (compared int64, f *finding, err error)
}

// trialRun is a case that has run once.
type trialRun struct {
	s    *verification
	c    *cases.Case
	l    *loaded
	base *outcome
}

// scalesExactly reports whether scaling the inputs of an honest kernel by powers of two scales its
// outputs, bit for bit. Under promise stable, a function of the kernel's own may have another error
// at the scaled argument; the weights of a stream are such a function's.
func (t *Target) scalesExactly() bool {
	return t.Promised() != promise.Stable || t.Definition.Stream() == nil && !slices.ContainsFunc(t.Definition.Math().Nodes, func(n *def.Node) bool {
		return n.Op == def.OpCall || n.Op == def.OpSqrt || n.Op == def.OpDiv
	})
}

// checks lists the checks of the target, in the order in which they run.
func (t *Target) checks() []*check { return t.checkList.get(t.makeChecks) }

func (t *Target) makeChecks() []*check {
	var list []*check
	add := func(tier evidence.TierName, name string, run func(*trialRun) (int64, *finding, error)) {
		list = append(list, &check{cases.Check{Name: name, IsInvariance: tier == evidence.Invariance}, run})
	}
	d := t.Definition
	if t.Operation != nil {
		for _, s := range t.Operation.Scalings {
			if s.Definition == d && t.scalesExactly() && t.fixed.Keeps(d, s) {
				add(evidence.Relations, "scale-"+cases.Slug(s.Name)+"-up", scaled(s, 4))
				add(evidence.Relations, "scale-"+cases.Slug(s.Name)+"-down", scaled(s, -3))
			}
		}
	}
	if t.Lowering.Promise.IsBits() || t.Lowering.Promise.Order.IsDeclared() {
		// The order of sums depends only on their length, so neither a row's place nor the
		// other rows matter.
		for _, letter := range d.Independent() {
			add(evidence.Relations, "reverse-"+letter, reversed(letter))
			add(evidence.Relations, "split-"+letter, split(letter))
		}
		for _, letter := range cases.BatchAxes(d) {
			add(evidence.Relations, "batch-"+letter, batched(letter))
		}
		if d.HasSequences() && d.HasKeyOffsets() {
			add(evidence.Relations, "sequences", inSequences)
			list[len(list)-1].Sizes = sequenceSizes(d)
		}
		if f := d.Stream(); f != nil && f.IsPaged() {
			add(evidence.Relations, "pages", inPages)
			list[len(list)-1].Sizes = pageSizes(d)
		}
		for _, letter := range namedAxes(d) {
			add(evidence.Relations, "unnamed-"+letter, unnamed(letter))
		}
		for _, letter := range summedByIndex(d) {
			if t.Lowering.Promise.IsBits() { // lanes of a declared order may count all elements
				add(evidence.Relations, "pad-"+letter, paddedByIndex(letter))
			}
		}
		if d.Sort() != nil {
			add(evidence.Relations, "order-"+d.BatchAxis(), inOrder)
			list[len(list)-1].Sizes = manyChoices(d)
		}
		if low, high, ok := d.FirstElement(); ok && slices.Contains(cases.BatchAxes(d), d.BatchAxis()) && t.fixed.IsFree(low) && t.fixed.IsFree(high) {
			add(evidence.Relations, "shard-"+d.BatchAxis(), sharded)
		}
		if d.Product() != nil {
			if t.Lowering.Promise.Order.Kind != def.Pairwise && t.Lowering.Promise.AccumFor == nil && t.Lowering.Promise.Accum.P == 0 && d.Groups().Of != d.SummedOver() {
				add(evidence.Relations, "pad-"+d.SummedOver(), padded)
			}
			if canTranspose(d) {
				add(evidence.Relations, "transpose", transposed)
			}
		}
	}
	for i := range cases.Repeatable(d) {
		add(evidence.Relations, "repeat-"+d.Operands[i].Name, repeatedMatrices(i))
	}
	for i := range d.Operands {
		for _, partner := range d.InPlacePartners(&d.Operands[i]) {
			add(evidence.Relations, "in-place-"+d.Operands[i].Name+"-"+partner, inPlace(d.Operands[i].Name, partner))
		}
	}
	for a := range d.Operands {
		for b := range a {
			if sizes, ok := shareable(d, b, a); ok {
				add(evidence.Relations, "share-"+d.Operands[b].Name+"-"+d.Operands[a].Name, sharing(b, a))
				list[len(list)-1].Sizes = sizes
			}
		}
	}
	add(evidence.Invariance, "repeat", repeated)
	add(evidence.Invariance, "late-change", changedLate)
	add(evidence.Invariance, "endure", endured)
	add(evidence.Invariance, "layout", laidOut)
	if t.Lowering.Device == "cpu" && !t.Lowering.Renews { // another process does not use the device's workers
		add(evidence.Invariance, "workers", byWorkers)
	}
	add(evidence.Invariance, "concurrent", concurrent)
	if t.Lowering.Renews {
		add(evidence.Invariance, cases.Fresh, fresh)
	}
	add(evidence.Invariance, "scratch", asScratch)
	add(evidence.Invariance, "cancel", cancelled)
	return list
}

// allChecks lists the checks of every verification, and then those of Options.Invariance.
func (t *Target) allChecks() []*check { return slices.Concat(t.checks(), t.invarianceChecks()) }

func (t *Target) checkNamed(name string) *check {
	for _, k := range t.allChecks() {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// again runs the kernel on other inputs and compares its outputs with those expected from
// the base run.
func (x *trialRun) again(l *loaded, tier evidence.TierName, what string, expect expectation) (int64, *finding, error) {
	out, err := x.s.bench.run(l, x.s.o.deadline(), 0)
	if err != nil {
		return 0, nil, err
	}
	return compare(l, out, tier, what, expect)
}

// expectation is what the outputs of a run should be.
type expectation struct {
	// at returns the pattern of an element; ok is false where nothing is expected.
	at func(operand, r, c int) (pattern uint64, ok bool)

	// row returns a whole row as it is stored, nil if nothing is expected of it; ok is false
	// if its elements have to be asked for one by one. row may be nil.
	row func(operand, r int) (stored []byte, ok bool)
}

// outputsOf expects the outputs of another run.
func outputsOf(out *outcome) expectation {
	return expectation{
		at:  func(i, r, c int) (uint64, bool) { return out.operands[i].Bits64(r, c), true },
		row: func(i, r int) ([]byte, bool) { return out.operands[i].Row(r), true },
	}
}

// compare compares a run's outputs with the expected ones.
func compare(l *loaded, out *outcome, tier evidence.TierName, what string, expect expectation) (int64, *finding, error) {
	if out.breach != nil {
		f := *out.breach
		f.Message = what + ": " + f.Message
		return 0, &f, nil
	}
	d := l.target.Definition
	rule := trial.RuleOf(d)
	var n int64
	for i := range d.Operands {
		if !l.target.isJudged(i) {
			continue
		}
		got := out.operands[i]
		for r := range got.Rows {
			if expect.row != nil {
				want, ok := expect.row(i, r)
				if ok && want == nil {
					continue
				}
				if ok && bytes.Equal(got.Row(r), want) {
					n += int64(got.Cols)
					continue
				}
			}
			for c := range got.Cols {
				want, ok := expect.at(i, r, c)
				if !ok {
					continue
				}
				n++
				if x := got.Bits64(r, c); !rule.Same(got.DType, x, want) {
					f := &finding{Tier: tier, Operand: i, Row: r, Col: c, Got: x, Want: want, WantTo: want, Message: what}
					f.show(d, got, "got", func(c int) uint64 { return got.Bits64(r, c) })
					f.show(d, got, "want", func(c int) uint64 {
						if want, ok := expect.at(i, r, c); ok {
							return want
						}
						return got.Bits64(r, c)
					})
					return n, f.of(l), nil
				}
			}
		}
	}
	return n, nil, nil
}

// same expects the base run's outputs.
func (x *trialRun) same() expectation { return outputsOf(x.base) }

// scaled multiplies inputs by powers of two. An input that would leave the normal
// numbers is 1 instead, before and after; results are compared where they are normal.
func scaled(s op.Scaling, k int) func(*trialRun) (int64, *finding, error) {
	return func(x *trialRun) (int64, *finding, error) {
		t := x.l.target
		d := t.Definition
		plain, l := x.l.as(x.c), x.l.as(x.c)
		l.params = slices.Clone(l.params)
		for i, p := range d.Params {
			l.params[i] *= pow2(s.Params[p.Name] * k)
		}
		for i := range d.Operands {
			o, a, b := &d.Operands[i], plain.array(i), l.array(i)
			if !o.IsIn || o.IsIndex || a.DType.IsInteger() { // integers are not scaled
				continue
			}
			isNegated := slices.Contains(s.Negated, o.Name)
			for r := range a.Rows {
				for c := range a.Cols {
					bits, ok := scaleBits(a, r, c, s.Inputs[o.Name]*k, isNegated)
					if !ok && a.At(r, c) != 0 {
						a.Set(r, c, 1)
						bits, _ = scaleBits(a, r, c, s.Inputs[o.Name]*k, isNegated)
					}
					b.SetBits64(r, c, bits)
				}
			}
		}
		base, err := x.s.bench.run(plain, x.s.o.deadline(), 0)
		if err != nil {
			return 0, nil, err
		}
		what := fmt.Sprintf("with inputs scaled as %s by 2^%d", s.Name, k)
		return x.again(l, evidence.Relations, what, expectation{at: func(i, r, c int) (uint64, bool) {
			name := d.Operands[i].Name
			if d.Operands[i].IsInt() {
				return base.operands[i].Bits64(r, c), s.Outputs[name] == 0 && !slices.Contains(s.Negated, name)
			}
			return scaleBits(base.operands[i], r, c, s.Outputs[name]*k, slices.Contains(s.Negated, name))
		}})
	}
}

func pow2(n int) float64 {
	p := 1.0
	for range max(n, -n) {
		p *= 2
	}
	if n < 0 {
		return 1 / p
	}
	return p
}

// scaleBits multiplies a value by 2^n and reports whether it is a normal number before and
// after, above the smallest, which may have been rounded as subnormals are.
func scaleBits(a num.Array, r, c, n int, isNegated bool) (uint64, bool) {
	v := float64(a.At(r, c))
	if isNegated {
		v = -v
	}
	w := v * pow2(n)
	least := num.ULP(a.DType, 0) / num.ULP(a.DType, 1) // the smallest normal number
	isNormal := func(x float64) bool { return max(x, -x) > least && max(x, -x) <= num.MaxFinite(a.DType) }
	return uint64(num.NarrowF64(a.DType, w)), isNormal(v) && isNormal(w)
}

// reversed reverses a letter's axis in all operands that have it.
func reversed(letter string) func(*trialRun) (int64, *finding, error) {
	return func(x *trialRun) (int64, *finding, error) {
		t := x.l.target
		l := t.newLoaded(x.c, x.l.seed)
		for i, a := range l.inputs() {
			turn(a, x.l.array(i), &t.Definition.Operands[i], letter)
		}
		return x.again(l, evidence.Relations, "with "+letter+" in reverse order", expectation{at: func(i, r, c int) (uint64, bool) {
			r, c = mirror(x.base.operands[i], &t.Definition.Operands[i], letter, r, c)
			return x.base.operands[i].Bits64(r, c), true
		}})
	}
}

func mirror(a num.Array, o *def.Operand, letter string, r, c int) (int, int) {
	for k, l := range o.Dims {
		switch {
		case l != letter:
		case isColumn(o, k):
			c = a.Cols - 1 - c
		default:
			per, n := trial.AxisOf(o, a, k)
			r += (n - 1 - 2*(r/per%n)) * per
		}
	}
	return r, c
}

func turn(dst, src num.Array, o *def.Operand, letter string) {
	trial.FillBits(dst, func(r, c int) uint64 {
		r, c = mirror(src, o, letter, r, c)
		return src.Bits64(r, c)
	})
}

// split computes parts separately: the first index of a letter, and the others.
func split(letter string) func(*trialRun) (int64, *finding, error) {
	return func(x *trialRun) (int64, *finding, error) {
		t := x.l.target
		n, from := x.c.Size(letter)
		if n < 2 {
			return 0, nil, nil
		}
		var compared int64
		for _, part := range [][2]int{{0, 1}, {1, n - 1}} {
			begin := map[string]int{letter: part[0]}
			c := x.c.Clone()
			for i := range c.Sizes {
				if c.Sizes[i].Letter == letter {
					c.Sizes[i] = cases.Size{Letter: letter, N: part[1], From: from + part[0]}
				}
			}
			l := t.newLoaded(c, x.l.seed)
			for i, a := range l.inputs() {
				copyMoved(&t.Definition.Operands[i], a, x.l.array(i), begin)
			}
			what := fmt.Sprintf("with %s %d to %d alone", letter, part[0], part[0]+part[1])
			m, f, err := x.again(l, evidence.Relations, what, expectation{at: func(i, r, c int) (uint64, bool) {
				row, col, ok := moved(&t.Definition.Operands[i], l.array(i), x.base.operands[i], begin, r, c)
				return x.base.operands[i].Bits64(row, col), ok
			}})
			if compared += m; f != nil || err != nil {
				return compared, f, err
			}
		}
		return compared, nil, nil
	}
}

// padded appends zeros along the summed axis. Zeros are not compared, because their sign may
// change.
func padded(x *trialRun) (int64, *finding, error) {
	t := x.l.target
	letter := t.Definition.SummedOver()
	const more = 5
	c := x.c.Clone()
	for i := range c.Sizes {
		if c.Sizes[i].Letter == letter {
			c.Sizes[i].N += more
		}
	}
	l := t.newLoaded(c, x.l.seed)
	for i, a := range l.inputs() {
		copyMoved(&t.Definition.Operands[i], a, x.l.array(i), nil)
	}
	return x.again(l, evidence.Relations, "with "+letter+" padded by zeros", expectation{at: func(i, r, c int) (uint64, bool) {
		return x.base.operands[i].Bits64(r, c), x.base.operands[i].At(r, c) != 0
	}})
}

// transposed computes (A·B)ᵀ as Bᵀ·Aᵀ.
func transposed(x *trialRun) (int64, *finding, error) {
	t := x.l.target
	d := t.Definition
	c := x.c.Clone()
	dims := d.Operands[2].Dims
	rows, cols := dims[len(dims)-2], dims[len(dims)-1]
	for i := range c.Sizes {
		switch s := &c.Sizes[i]; s.Letter {
		case rows:
			s.N, s.From = x.c.Size(cols)
		case cols:
			s.N, s.From = x.c.Size(rows)
		}
	}
	l := t.newLoaded(c, x.l.seed)
	old, now := x.l.inputs(), l.inputs()
	swapped := d.Product().TransposeLeft == d.Product().TransposeRight
	for to, from := range []int{1, 0} {
		copyTransposed(now[to], old[from], swapped)
	}
	if d.Accumulates() {
		copyTransposed(now[2], old[2], true)
	}
	return x.again(l, evidence.Relations, "transposed", expectation{at: func(i, r, c int) (uint64, bool) {
		r, c = transposedPlace(l.array(i), x.base.operands[i], r, c)
		return x.base.operands[i].Bits64(r, c), true
	}})
}

func copyTransposed(dst, src num.Array, isTransposed bool) {
	trial.FillBits(dst, func(r, c int) uint64 {
		if isTransposed {
			r, c = transposedPlace(dst, src, r, c)
		}
		return src.Bits64(r, c)
	})
}

// inPlace puts an output in the place of an input.
func inPlace(out, in string) func(*trialRun) (int64, *finding, error) {
	return func(x *trialRun) (int64, *finding, error) {
		t := x.l.target
		d := t.Definition
		if x.c.Formats[d.Operand(out)] != x.c.Formats[d.Operand(in)] {
			return 0, nil, nil
		}
		c := x.c.Clone()
		c.InPlace = out + "=" + in
		return x.again(x.l.as(c), evidence.Relations, "with "+out+" in the place of "+in, x.same())
	}
}

// repeated runs the same inputs many times in the same memory, with other inputs in
// between: a kernel that caches by address fails.
func repeated(x *trialRun) (int64, *finding, error) {
	compared, f, err := x.repeat(cases.Repeats)
	if f != nil || err != nil {
		return compared, f, err
	}
	more, f, err := x.runOnResults()
	return compared + more, f, err
}

// endured reruns the kernel as often as the level, or a budget, says.
func endured(x *trialRun) (int64, *finding, error) { return x.repeat(x.s.o.request(x.s.t).Endurance()) }

func (x *trialRun) repeat(times int) (int64, *finding, error) {
	other := x.l.other(1)
	expected, err := x.s.bench.run(other, x.s.o.deadline(), 1)
	if err != nil {
		return 0, nil, err
	}
	p, err := x.s.bench.place(x.l)
	if err != nil {
		return 0, nil, err
	}
	defer p.close()
	var compared int64
	for n := 2; n <= times; n++ {
		l, want := x.l, x.base
		if n%3 == 0 {
			l, want = other, expected
		}
		out, err := p.run(l, x.s.o.deadline(), n%2)
		if err != nil {
			return compared, nil, err
		}
		m, f, err := compare(l, out, evidence.Invariance, fmt.Sprintf("run again, time %d", n), outputsOf(want))
		if compared += m; f != nil || err != nil {
			return compared, f, err
		}
	}
	return compared, nil, nil
}

// laidOut runs the kernel with other alignments and row strides of its operands.
func laidOut(x *trialRun) (int64, *finding, error) {
	var compared int64
	for _, at := range [][3]int{{1, 0, 0}, {3, 1, 0}, {8, 16, 0}, {7, 5, 0}, {0, 64, 0}, {3, 5, 1}, {3, 5, 2}} {
		c := x.c.Clone()
		c.Offset, c.Gap, c.Uneven = at[0], at[1], at[2]
		what := fmt.Sprintf("with %d elements before the first and %d between rows", c.Offset, c.Gap)
		if c.Uneven > 0 {
			what += " of every other operand"
		}
		m, f, err := x.again(x.l.as(c), evidence.Invariance, what, x.same())
		if compared += m; f != nil || err != nil {
			return compared, f, err
		}
	}
	return compared, nil, nil
}

// byWorkers runs the kernel with other numbers of workers.
func byWorkers(x *trialRun) (int64, *finding, error) {
	var compared int64
	drawn := gen.Seeded(x.l.around.key)
	for _, workers := range []int{1, 2, 3, 8, 4 + drawn.Below(60)} {
		b, err := x.s.t.newBench(x.s.bench.ctx, x.s.o, workers)
		if err != nil {
			return compared, nil, err
		}
		b.launches = x.s.bench.launches
		out, err := b.run(x.l, x.s.o.deadline(), 0)
		b.close()
		if err != nil {
			return compared, nil, err
		}
		m, f, err := compare(x.l, out, evidence.Invariance, fmt.Sprintf("with %d workers", workers), x.same())
		if compared += m; f != nil || err != nil {
			return compared, f, err
		}
	}
	return compared, nil, nil
}

// concurrent launches the kernel several times at once, each launch with inputs, memory and a queue
// of its own, and compares the results with those of separate launches. No launch of a round begins
// before all of them are ready.
func concurrent(x *trialRun) (int64, *finding, error) {
	const callers = 4
	rounds := 8
	if x.s.o.Level == Smoke { // which is small
		rounds = 2
	}
	var calls [callers]concurrentCall
	defer func() {
		for i := range calls {
			calls[i].close()
		}
	}()
	for i := range calls {
		if err := calls[i].open(x, i); err != nil {
			return 0, nil, err
		}
	}
	var sum parts
	for range rounds {
		var ready, done sync.WaitGroup
		start := make(chan struct{})
		results := make([]parts, callers)
		ready.Add(callers)
		for i := range calls {
			done.Go(func() {
				isReady := sync.OnceFunc(ready.Done)
				defer isReady()
				results[i] = calls[i].run(x, func() {
					isReady()
					<-start
				})
			})
		}
		ready.Wait()
		close(start)
		done.Wait()
		for _, r := range results {
			if sum.add(r.compared, r.f, r.err) {
				return sum.compared, sum.f, sum.err
			}
		}
	}
	return sum.compared, nil, nil
}

// concurrentCall is one of the callers of concurrent.
type concurrentCall struct {
	inputs *loaded
	alone  *outcome
	placed *placed
	queue  *engine.Queue
}

// open makes the inputs of caller i and runs the kernel on them alone.
func (c *concurrentCall) open(x *trialRun, i int) (err error) {
	if c.inputs = x.l.as(x.c); i > 0 {
		c.inputs = x.l.other(i)
	}
	if c.placed, err = x.s.bench.place(c.inputs); err != nil {
		return err
	}
	if c.queue, err = engine.NewQueue(x.s.bench.device); err != nil {
		return err
	}
	c.alone, err = c.placed.run(c.inputs, x.s.o.deadline(), 0)
	return err
}

// run launches the kernel once the other callers are ready, which wait returns after.
func (c *concurrentCall) run(x *trialRun, wait func()) (p parts) {
	out, err := c.placed.runBy(func(k *engine.Prepared) error {
		wait()
		return k.LaunchOn(c.queue)
	}, c.inputs, x.s.o.deadline(), 0)
	if err == nil {
		err = out.err
	}
	if err != nil {
		return parts{err: err}
	}
	p.add(compare(c.inputs, out, evidence.Invariance, "launched several times at once", outputsOf(c.alone)))
	return p
}

func (c *concurrentCall) close() {
	if c.placed != nil {
		c.placed.close()
	}
	if c.queue != nil && !c.placed.bench.isHung.Load() {
		c.queue.Close()
	}
}

// tier returns the tier in which a check counts.
func (k *check) tier() evidence.TierName {
	if k.IsInvariance {
		return evidence.Invariance
	}
	return evidence.Relations
}
