package verify

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/trial"
	"tokitai/verify/cases"
)

// Checks of what callers may do with memory and contexts: inputs in one memory, one element
// that changes between calls, inputs that other callers read at the same time, and contexts
// that end.

// judged compares a run with its own answer, as part of a check.
func (x *trialRun) judged(l *loaded, out *outcome, tier evidence.TierName, what string) (int64, *finding, error) {
	if out.breach != nil {
		f := *out.breach
		f.Message = what + ": " + f.Message
		return 0, &f, nil
	}
	j, err := x.s.t.judge(x.s.bench.ctx, l, out, manner{})
	if err != nil {
		return 0, nil, err
	}
	if j.first == nil {
		return j.Elements, nil, nil
	}
	f := *j.first
	f.Tier, f.Message, f.IsJudged = tier, what, true
	return j.Elements, f.of(l), nil
}

// isWrong reports whether the case's first run is wrong, so that no further check is needed.
func (x *trialRun) isWrong() bool {
	_, f, err := x.judged(x.l, x.base, evidence.Structure, "")
	return f != nil || err != nil
}

// parts adds up the outputs that the parts of a check have compared, and keeps the finding or
// error that ended it.
type parts struct {
	compared int64
	f        *finding
	err      error
}

// add adds a part, and reports whether the check is over.
func (p *parts) add(n int64, f *finding, err error) bool {
	p.compared, p.f, p.err = p.compared+n, f, err
	return f != nil || err != nil
}

// shareable reports whether two inputs have the same shape and may have the same format, so
// that they can share memory. If this holds only for some sizes, sizes returns these.
func shareable(d *def.Definition, a, b int) (sizes func(length int) []cases.Size, ok bool) {
	p, q := &d.Operands[a], &d.Operands[b]
	if !p.IsIn || p.IsOut || !q.IsIn || q.IsOut || p.IsInt() != q.IsInt() || p.Extent != q.Extent || len(p.Dims) != len(q.Dims) || len(p.Dims) == 0 ||
		p.IsOffsets || q.IsOffsets || p.IsLengths || q.IsLengths || p.Lengths != "" || q.Lengths != "" {
		return nil, false
	}
	if !slices.ContainsFunc(d.Formats(), func(f []num.DType) bool { return f[a] == f[b] }) {
		return nil, false
	}
	if slices.Equal(p.Dims, q.Dims) {
		return nil, true
	}
	return func(length int) []cases.Size {
		var list []cases.Size
		for i, letter := range d.Sizes() {
			s := cases.Size{Letter: letter, N: 1 + i%3}
			for k := range p.Dims {
				if p.Dims[k] != q.Dims[k] && (letter == p.Dims[k] || letter == q.Dims[k]) {
					s.N = length
				}
			}
			list = append(list, s)
		}
		return list
	}, true
}

// sharing checks that two inputs in the same memory give the same results as copies, and right
// ones: with the same rows, with overlapping rows, and with the same rows again and an output in
// the place of both.
func sharing(a, b int) func(*trialRun) (int64, *finding, error) {
	return func(x *trialRun) (int64, *finding, error) {
		d := x.l.target.Definition
		var sum parts
		if x.isWrong() {
			return 0, nil, nil
		}
		for shift := range 2 {
			shared := x.l.as(x.c)
			if !shared.operands.Share(a, b, shift) {
				continue // in these formats and sizes
			}
			apart := x.l.as(x.c)
			for _, i := range []int{a, b} {
				trial.Copy(apart.array(i), shared.array(i))
			}
			what := fmt.Sprintf("with %s and %s in one memory", d.Operands[a].Name, d.Operands[b].Name)
			if shift > 0 {
				what = fmt.Sprintf("with %s one row behind %s in its memory", d.Operands[b].Name, d.Operands[a].Name)
			}
			out, err := x.s.bench.run(apart, x.s.o.deadline(), 0)
			if err != nil {
				return sum.compared, nil, err
			}
			if sum.add(x.judged(apart, out, evidence.Relations, "with the same values in "+d.Operands[a].Name+" and "+d.Operands[b].Name)) {
				break
			}
			same := outputsOf(out)
			if sum.add(x.again(shared, evidence.Relations, what, same)) {
				break
			}
			for i := range d.Operands {
				if shift > 0 || sum.f != nil || !d.MayReplace(&d.Operands[i], &d.Operands[b]) || !shared.operands.Replace(i, a) {
					continue
				}
				if sum.add(x.again(shared, evidence.Relations, what+", in the place of which is "+d.Operands[i].Name, same)) {
					return sum.compared, sum.f, sum.err
				}
				break
			}
		}
		return sum.compared, sum.f, sum.err
	}
}

// manyElements is more than the elements that a kernel would compare to recognise a call.
const manyElements = 400

// changedLate reruns the kernel in the same memory, each time with one element of one input
// changed: the last, one in the middle, and a random one; then with other parameters. A kernel that
// recognises a call by its addresses and some of its values fails. Of many elements two random ones
// are changed, and nothing runs in between.
func changedLate(x *trialRun) (int64, *finding, error) {
	if x.isWrong() {
		return 0, nil, nil
	}
	d := x.l.target.Definition
	p, err := x.s.bench.place(x.l)
	if err != nil {
		return 0, nil, err
	}
	defer p.close()
	var sum parts
	run := func(l *loaded, what string) bool {
		q := p
		if !slices.Equal(l.params, x.l.params) {
			q, err = p.with(l.params)
		}
		var out *outcome
		if err == nil {
			out, err = q.run(l, x.s.o.deadline(), 0)
		}
		if err != nil {
			return sum.add(0, nil, err)
		}
		if what == "" {
			return sum.add(compare(l, out, evidence.Invariance, "run again after an element had changed", x.same()))
		}
		return sum.add(x.judged(l, out, evidence.Invariance, what))
	}
	drawn := gen.Seeded(x.l.around.key)
	for i := range d.Operands {
		o, a := &d.Operands[i], x.l.array(i)
		if !o.IsIn || o.IsOffsets || o.IsLengths { // a length says what else is read
			continue
		}
		n := a.Rows * a.Cols
		places := []int{n - 1, n / 2, drawn.Below(n)}
		if n >= manyElements { // whose ends a key would have
			places = []int{drawn.Below(n), drawn.Below(n)}
		}
		for _, at := range places {
			l := x.l.as(x.c)
			r, c := at/a.Cols, at%a.Cols
			now := l.array(i)
			now.SetBits64(r, c, x.otherValue(o, a, r, c))
			if now.Bits64(r, c) == a.Bits64(r, c) {
				continue // a table of one row has no other index
			}
			if n < manyElements && run(x.l, "") || run(l, fmt.Sprintf("in the same memory, with another value in %s", place(o, a, r, c))) {
				return sum.compared, sum.f, sum.err
			}
		}
	}
	if x.c.Largest(d) >= manyElements {
		return sum.compared, nil, nil // fewer elements show what parameters do
	}
	for name, params := range x.otherParams() {
		l := x.l.as(x.c)
		l.params = params
		if run(x.l, "") || run(l, "in the same memory, with another "+name) {
			break
		}
	}
	return sum.compared, sum.f, sum.err
}

// otherParams returns parameters that differ from those of the case, each with the name of the one
// that differs. Where parameters depend on each other, the ones that users set are changed.
func (x *trialRun) otherParams() iter.Seq2[string, []float64] {
	t, now := x.l.target, x.l.params
	return func(yield func(string, []float64) bool) {
		seen := map[string]bool{}
		for n := 1; n <= 16; n++ {
			varied := *x.c
			varied.Params = n
			params := t.Cases().Params(&varied)
			if t.Cases().HasSettings() {
				if !seen["setting"] && !slices.Equal(params, now) {
					seen["setting"] = true
					if !yield("setting", params) {
						return
					}
				}
				continue
			}
			for i, p := range t.Definition.Params {
				if seen[p.Name] || params[i] == now[i] {
					continue
				}
				seen[p.Name] = true
				one := slices.Clone(now)
				if one[i] = params[i]; !yield(p.Name, one) {
					return
				}
			}
		}
	}
}

// otherValue returns another bit pattern for an element that changes any sum it is part of: twice
// the largest magnitude of the operand, or another index.
func (x *trialRun) otherValue(o *def.Operand, a num.Array, r, c int) uint64 {
	if o.IsIndex {
		bound, _ := x.c.Size(o.Bound)
		return uint64((max(a.Int(r, c), 0) + 1) % int32(max(bound, 1)))
	}
	if a.DType.IsInteger() {
		return ^a.Bits64(r, c)
	}
	largest := 0.5
	for row := range a.Rows {
		for col := range a.Cols {
			if v := float64(a.At(row, col)); v-v == 0 {
				largest = max(largest, v, -v)
			}
		}
	}
	return uint64(num.NarrowF64(a.DType, min(2*largest, num.MaxFinite(a.DType)/2)))
}

// canWatch says why the inputs on a device cannot be watched; tests replace it.
var canWatch = trial.CanWatch

// asScratch looks for inputs that are written and restored: several callers read the same inputs
// at the same time, each with outputs of its own. Where the system can report writes to memory,
// the inputs are watched too.
func asScratch(x *trialRun) (int64, *finding, error) {
	var sum parts
	if canWatch(x.s.bench.device) == nil && sum.add(x.watched()) {
		return sum.compared, sum.f, sum.err
	}
	const callers, rounds = 4, 6
	first, err := x.s.bench.place(x.l)
	if err != nil {
		return sum.compared, nil, err
	}
	defer first.close()
	var places [callers]*placed
	defer func() {
		for _, p := range places {
			if p != nil {
				p.close()
			}
		}
	}()
	var inputs [callers]*loaded
	for i := range places {
		inputs[i] = x.l.as(x.c)
		if places[i], err = x.s.bench.placeBeside(inputs[i], first); err != nil {
			return sum.compared, nil, err
		}
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	for i, p := range places {
		group.Go(func() {
			for range rounds {
				out, err := p.run(inputs[i], x.s.o.deadline(), 0)
				var n int64
				var f *finding
				if err == nil {
					n, f, err = compare(inputs[i], out, evidence.Invariance, fmt.Sprintf("launched %d at once on the same inputs", callers), x.same())
				}
				mu.Lock()
				isOver := sum.f != nil || sum.err != nil || sum.add(n, f, err)
				mu.Unlock()
				if isOver {
					return
				}
			}
		})
	}
	group.Wait()
	return sum.compared, sum.f, sum.err
}

// watched runs the kernel on inputs in memory in which every write is noticed.
func (x *trialRun) watched() (int64, *finding, error) {
	b := x.s.bench
	memory, err := x.l.operands.Place(b.device)
	if err != nil {
		return 0, nil, err
	}
	if err := memory.Watch(b.device, x.l.operands); err != nil {
		memory.Close()
		return 0, nil, err
	}
	p, err := b.bind(x.l, memory)
	if err != nil {
		return 0, nil, err
	}
	defer p.close()
	out, err := p.run(x.l, x.s.o.deadline(), 0)
	if err != nil {
		return 0, nil, err
	}
	breach, err := memory.Watched()
	if err != nil {
		return 0, nil, err
	}
	if breach != nil && out.breach == nil {
		return 0, &finding{Tier: evidence.Structure, Operand: breach.Operand, Row: -1, Message: breach.String()}, nil
	}
	return compare(x.l, out, evidence.Invariance, "with inputs in memory that is watched", x.same())
}

// placeBeside is place with the inputs of another caller.
func (b *bench) placeBeside(l *loaded, other *placed) (*placed, error) {
	memory, err := other.memory.Beside(b.device)
	if err != nil {
		return nil, err
	}
	return b.bind(l, memory)
}

// ending is a context that ends after it has been queried a number of times.
type ending struct {
	context.Context
	end  context.CancelFunc
	mu   sync.Mutex
	left int
}

// endingAfter returns a context that ends with the n-th query. If n is 0, it has ended already.
func endingAfter(n int) *ending {
	ctx, end := context.WithCancel(context.Background())
	e := &ending{Context: ctx, end: end, left: n + 1}
	e.asked()
	return e
}

func (e *ending) asked() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left--; e.left <= 0 {
		e.end()
	}
}

func (e *ending) Done() <-chan struct{} {
	e.asked()
	return e.Context.Done()
}

func (e *ending) Err() error {
	e.asked()
	return e.Context.Err()
}

// cancelled launches the kernel under contexts that have ended, or end during the launch. The
// kernel must return an error or the right result and write to nothing but its outputs, and the
// next launch, with other inputs in the same memory, must be right.
func cancelled(x *trialRun) (int64, *finding, error) {
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
	var sum parts
	for _, n := range []int{0, 1, 2, 3, 5, 9, -1} {
		launch, what := func(k *engine.Prepared) error { return k.LaunchUnder(endingAfter(n)) }, fmt.Sprintf("under a context that ends when it is asked %d times", n)
		switch n {
		case 0:
			what = "under a context that has ended"
		case -1:
			what = "under a context that ends at some moment"
			launch = func(k *engine.Prepared) error {
				ctx, end := context.WithCancel(context.Background())
				go end()
				return k.LaunchUnder(ctx)
			}
		}
		out, err := p.runBy(launch, x.l, x.s.o.deadline(), 0)
		switch {
		case err != nil:
			return sum.compared, nil, err
		case out.err == nil:
			sum.add(compare(x.l, out, evidence.Invariance, what+", without an error", x.same()))
		case out.breach != nil:
			sum.add(compare(x.l, out, evidence.Invariance, what, x.same()))
		}
		if sum.f != nil {
			break
		}
		if out, err = p.run(other, x.s.o.deadline(), 1); err != nil {
			return sum.compared, nil, fmt.Errorf("after a launch %s: %w", what, err)
		}
		if sum.add(compare(other, out, evidence.Invariance, "after a launch "+what, outputsOf(expected))) {
			break
		}
	}
	return sum.compared, sum.f, sum.err
}
