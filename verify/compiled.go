package verify

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/trial"
	"tokitai/verify/cases"
)

// Interpreting a definition takes much longer than a GPU takes to compute it. For devices
// other than the CPU, most answers therefore come from compiled code for the CPU, which was
// verified against the interpreter in the same run, one level below; at least one output in
// share is still interpreted and compared with the compiled answer. If they differ, the
// compiled code is broken: the verification reports that, and interprets everything instead.

// share is the largest number of outputs for each one that is interpreted.
const share = 16

// leastCompiled is the least number of outputs for which compiled code is used: for fewer,
// interpreting is faster. Tests make it small.
var leastCompiled int64 = 1 << 10

// judgesOf returns the lowerings that may compute the answers of a definition, best first;
// tests replace it.
var judgesOf = func(d *def.Definition) []*engine.Lowering { return engine.Lowerings(cpu.Backend, d) }

// compiled computes answers by compiled code.
type compiled struct {
	target *Target // that was accepted
	bench  *bench
	fault  atomic.Pointer[string] // the first of its answers that was found wrong
}

// judges are the compiled code of a verification.
type judges struct {
	mu       sync.Mutex
	made     map[def.Accum]*once[*compiled]
	ready    []*compiled // those of them that were accepted
	faults   []string    // of code that is not used
	isClosed bool
}

// mayCompile reports whether answers may come from compiled code: not for the CPU itself, nor
// for so few that all are interpreted.
func (s *verification) mayCompile() bool {
	return s.t.Lowering.Device != cpu.Kind && !s.o.InterpretAll && s.o.Level > Smoke && s.o.Case == ""
}

// compiledFor returns the code that computes answers under a model, or nil if there is none.
func (s *verification) compiledFor(ctx context.Context, m def.Accum) *compiled {
	s.judges.mu.Lock()
	if s.judges.made == nil {
		s.judges.made = map[def.Accum]*once[*compiled]{}
	}
	made := s.judges.made[m]
	if made == nil {
		made = &once[*compiled]{}
		s.judges.made[m] = made
	}
	s.judges.mu.Unlock()
	return made.get(func() *compiled { return s.newCompiled(ctx, m) })
}

// newCompiled verifies code that computes answers. Code that does not apply to the
// definition is passed over; code that is wrong is reported.
func (s *verification) newCompiled(ctx context.Context, m def.Accum) *compiled {
	t := s.t
	level := min(s.o.Level-1, Quick)
	if s.o.Budget > 0 {
		level = Smoke
	}
	for _, l := range judgesOf(t.Definition) {
		if !l.Promise.IsBits() || l.Device != cpu.Kind || l.Promise.AccumFor != nil || t.Definition.Multiplies() && l.Promise.Accum != m {
			continue
		}
		k := &compiled{target: &Target{Operation: t.Operation, Definition: t.Definition, Lowering: l, DType: t.DType, fixed: t.fixed}}
		r, err := Run(ctx, k.target, Options{Level: level, Seed: s.o.Seed, Deadline: s.o.Deadline})
		if err != nil || ctx.Err() != nil {
			return nil
		}
		if r.Report.Verdict == evidence.Rejected {
			s.judges.mu.Lock()
			s.judges.faults = append(s.judges.faults, fmt.Sprintf("%s is rejected at level %s: %s", k.target.ID(), level, r.Report.Reason))
			s.judges.mu.Unlock()
			continue
		}
		if r.Report.Verdict != evidence.Accepted {
			continue
		}
		if k.bench, err = k.target.newBench(ctx, &Options{}, 0); err == nil {
			return s.judges.add(k)
		}
	}
	return nil
}

// add adds code that was accepted, and returns it, or nil if it comes too late.
func (j *judges) add(k *compiled) *compiled {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.isClosed {
		k.bench.close()
		return nil
	}
	j.ready = append(j.ready, k)
	return k
}

// close closes the devices of all compiled code.
func (j *judges) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, k := range j.ready {
		k.bench.close()
	}
	j.isClosed = true
}

// wrongAnswer returns the first compiled answer that was found wrong, or "".
func (j *judges) wrongAnswer() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, k := range j.ready {
		if fault := k.fault.Load(); fault != nil {
			return *fault
		}
	}
	return ""
}

// plan draws the cases that are interpreted as a whole, for a definition whose outputs cannot be
// interpreted separately: enough of them to have one output in share.
func (s *verification) plan(list []*cases.Case) {
	if !s.mayCompile() || s.t.Definition.Divisible() != "" {
		return
	}
	total, drawn := int64(0), int64(0)
	order := make([]int, len(list))
	g := gen.Seeded(gen.New("interpreted").Next() ^ gen.Seeded(s.o.Seed).Next())
	for i, c := range list {
		total += c.Outputs(s.t.Definition)
		k := g.Below(i + 1)
		order[i], order[k] = order[k], i
	}
	s.whole = map[*cases.Case]bool{}
	for _, i := range order {
		if drawn*share >= total {
			return
		}
		s.whole[list[i]] = true
		drawn += list[i].Outputs(s.t.Definition)
	}
}

// answer returns the answer to a part of a case, and how many of its outputs compiled code
// computed alone. key draws those that are interpreted too.
func (k *compiled) answer(ctx context.Context, l *loaded, operands []num.Array, key uint64) (answer []num.Array, alone int64, err error) {
	t, d := l.target, l.target.Definition
	interpreted := func() ([]num.Array, int64, error) {
		answer, err := t.interpret(ctx, l, operands)
		return answer, 0, err
	}
	outputs := int64(0)
	for i, a := range operands {
		if d.Operands[i].IsOut {
			outputs += int64(a.Rows) * int64(a.Cols)
		}
	}
	if k == nil || outputs < leastCompiled || k.fault.Load() != nil {
		return interpreted()
	}
	if answer, err = k.run(l, operands); err != nil {
		if ctx.Err() != nil {
			return nil, 0, err
		}
		k.refuse(l, "", err.Error())
		return interpreted()
	}
	letter := d.Divisible()
	if letter == "" {
		return answer, outputs, nil // other cases are interpreted as a whole
	}
	lines := drawn(lengthOf(d, operands, letter), key)
	sample, err := t.interpret(ctx, l, picked(d, operands, letter, lines))
	if err != nil {
		return nil, 0, err
	}
	alone = outputs
	for i, a := range picked(d, answer, letter, lines) {
		if !d.Operands[i].IsOut {
			continue
		}
		if f := trial.RuleOf(d).Difference(d.Operands[i].Name, a, sample[i]); f != nil {
			k.refuse(l, d.Operands[i].Name, fmt.Sprintf("a compiled answer is %s, want %s", trial.Pattern(f.DType, f.Got), trial.Pattern(f.DType, f.Want)))
			return interpreted()
		}
		alone -= int64(a.Rows) * int64(a.Cols)
	}
	return answer, alone, nil
}

// check computes the answer to a part of a case that has been interpreted as well.
func (k *compiled) check(l *loaded, operands, want []num.Array) {
	if k == nil || k.fault.Load() != nil {
		return
	}
	answer, err := k.run(l, operands)
	if err != nil {
		k.refuse(l, "", err.Error())
		return
	}
	k.compare(l, answer, want)
}

// compare compares a compiled answer with the interpreted one.
func (k *compiled) compare(l *loaded, answer, want []num.Array) {
	d := l.target.Definition
	for i := range d.Operands {
		if !d.Operands[i].IsOut {
			continue
		}
		if f := trial.RuleOf(d).Difference(d.Operands[i].Name, answer[i], want[i]); f != nil {
			k.refuse(l, d.Operands[i].Name, "a compiled answer: "+f.String())
		}
	}
}

// run computes the operands of a case, or a part of them, by compiled code.
func (k *compiled) run(l *loaded, operands []num.Array) ([]num.Array, error) {
	part := &loaded{target: k.target, c: l.c, params: l.params, operands: trial.CopyOf(l.target.Definition, operands, nil)}
	out, err := k.bench.run(part, (&Options{}).deadline(), 0)
	switch {
	case err != nil:
		return nil, err
	case out.breach != nil:
		return nil, fmt.Errorf("%s", out.breach.Message)
	}
	return out.operands, nil
}

// refuse notes that an answer was found wrong.
func (k *compiled) refuse(l *loaded, operand, reason string) {
	where := l.c.Name(l.target.Cases())
	if operand != "" {
		where += ", " + operand
	}
	text := fmt.Sprintf("%s computes wrong answers: %s: %s", k.target.ID(), where, reason)
	k.fault.CompareAndSwap(nil, &text)
}

// drawKey returns the key that determines which outputs are interpreted. It depends on the outputs,
// so that a kernel cannot know them in advance.
func drawKey(seed uint64, l *loaded, out *outcome) uint64 {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s %s", seed, l.c.Name(l.target.Cases()), out.hash(l.target.Definition))
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// drawn returns one of every share of n indices, ascending.
func drawn(n int, key uint64) []int {
	g := gen.Seeded(key)
	var list []int
	for first := 0; first < n; first += share {
		list = append(list, first+g.Below(min(share, n-first)))
	}
	return list
}

// lengthOf returns the length of a letter's axis.
func lengthOf(d *def.Definition, operands []num.Array, letter string) int {
	for i := range d.Operands {
		o := &d.Operands[i]
		for k, l := range o.Dims {
			switch {
			case l != letter:
			case isColumn(o, k):
				return operands[i].Cols
			default:
				_, n := trial.AxisOf(o, operands[i], k)
				return n
			}
		}
	}
	return 0
}

// picked returns the operands restricted to some indices of a letter, along which the
// definition can be divided. Those without the letter stay as they are.
func picked(d *def.Definition, operands []num.Array, letter string, lines []int) []num.Array {
	list := slices.Clone(operands)
	for i := range d.Operands {
		o, a := &d.Operands[i], operands[i]
		k := slices.Index(o.Dims, letter)
		if k < 0 {
			continue
		}
		if isColumn(o, k) {
			b := a
			b.Cols = len(lines)
			b = b.Like(a.DType)
			trial.FillBits(b, func(r, c int) uint64 { return a.Bits64(r, lines[c]) })
			list[i] = b
			continue
		}
		per, _ := trial.AxisOf(o, a, k)
		b := a
		b.Rows = len(lines) * per
		if a.Batch.Count > 0 {
			b.Batch.Axes[0].Size = len(lines)
		}
		b = b.Like(a.DType)
		for r := range b.Rows {
			copy(b.Row(r), a.Row(lines[r/per]*per+r%per))
		}
		list[i] = b
	}
	return list
}
