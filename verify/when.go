package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"tokitai/evidence"
	"tokitai/num"
	"tokitai/verify/cases"
)

// A wrong kernel usually fails under a condition that tells its author much: odd K, more than
// 1,024 columns, gaps between rows. when looks for such a condition in the results of all cases of
// a verification, and runs a few more cases around the boundary that it finds.

// example is a case that was run.
type example struct {
	c      *cases.Case
	fails  bool
	params []float64
	values *valueKinds // nil until its inputs were looked at
}

const (
	leastFailing  = 3       // failing cases; fewer are listed
	mostExtra     = 24      // further cases
	mostExtraWork = 1 << 16 // outputs of one of them
	mostLooked    = 1 << 24 // inputs that are generated again to look at
)

// when says what the failing cases have in common that the others do not, or how many there are.
// It returns "" if there is only one case. It runs further cases until the context ends.
func (s *verification) when(ctx context.Context) string {
	if s.shrunk != nil && s.shrunk.state != "" {
		return "" // it depends on earlier calls, which no property of a case shows
	}
	examples := s.examples()
	failing, total := countFailing(examples), len(examples)
	switch {
	case total < 2 || failing == 0:
		return ""
	case failing == total:
		return fmt.Sprintf("always: all %d cases fail", total)
	case failing < leastFailing:
		return s.t.scattered(examples)
	}
	all := examples
	examples = s.withSmallest(examples)
	text, share := s.explain(ctx, true, examples, s.t.caseConditions)
	if share <= mostNoise {
		return text
	}
	looked := s.look(examples)
	if n := countFailing(looked); n < leastFailing || n == len(looked) {
		return cmp.Or(text, s.t.scattered(all))
	}
	withValues := func(list []*example) []*condition {
		return append(s.t.caseConditions(list), s.t.valueConditions(list)...)
	}
	other, otherShare := s.explain(ctx, false, looked, withValues)
	if otherShare <= mostNoise {
		return other
	}
	if two := inTwo(looked, withValues); two != "" {
		return two
	}
	if otherShare < share-worthACondition {
		text = other
	}
	return cmp.Or(text, s.t.scattered(all))
}

// withSmallest adds the smallest failing case, which is printed, to the examples: what is said of
// the failing cases must hold for it too.
func (s *verification) withSmallest(examples []*example) []*example {
	small := s.shrunk
	if small == nil || !small.isAlone || slices.ContainsFunc(examples, func(e *example) bool { return e.c.Name(s.t.Cases()) == small.c.Name(s.t.Cases()) }) {
		return examples
	}
	return append(slices.Clone(examples), &example{c: small.c, fails: true, params: s.t.Cases().Params(small.c)})
}

// scattered says how many cases fail where no condition tells them from the others, and which,
// if they are few.
func (t *Target) scattered(examples []*example) string {
	const most = 4 // that are named
	failing, total := countFailing(examples), len(examples)
	switch {
	case failing <= most:
		var names []string
		for _, e := range examples {
			if e.fails {
				names = append(names, e.c.Name(t.Cases()))
			}
		}
		return fmt.Sprintf("in %d of %d cases: %s", failing, total, strings.Join(names, ", "))
	case 4*failing >= 3*total:
		return fmt.Sprintf("almost always: %d of %d cases fail", failing, total)
	}
	return fmt.Sprintf("in %d of %d cases, which nothing simple tells from the others", failing, total)
}

// mostPassing is the share of passing cases above which a condition is not worth reporting.
const mostPassing = 0.75

// mostNoise is the share of cases under a condition that may still pass, because their values hide
// the fault.
const mostNoise = 0.3

// examples returns the cases that were run. If the first runs of some cases fail, the further runs
// of checks add nothing; otherwise the examples are the cases with checks.
func (s *verification) examples() []*example {
	var plain, checks []*example
	for _, r := range s.done {
		c, err := s.t.Cases().Parse(r.Name)
		if err != nil || r.First != nil && r.First.IsCause {
			continue
		}
		e, k := &example{c: c, params: s.t.Cases().Params(c)}, &example{c: c, params: s.t.Cases().Params(c)}
		for name, tier := range r.Tiers {
			if isFailed := tier.Failed > 0; name == evidence.Relations || name == evidence.Invariance {
				k.fails = k.fails || isFailed
			} else {
				e.fails = e.fails || isFailed
			}
		}
		if plain = append(plain, e); c.Check != "" {
			checks = append(checks, k)
		}
	}
	if countFailing(plain) > 0 {
		return plain
	}
	return checks
}

// explain returns a condition that all failing examples meet and few others, with the share
// of these others; with mayTry, after further cases around its boundary. If there is none, the
// share is 1.
func (s *verification) explain(ctx context.Context, mayTry bool, examples []*example, conditionsOf func([]*example) []*condition) (text string, share float64) {
	extra := 0
	for {
		r := separate(failsOf(examples), conditionsOf(examples))
		passing := len(examples) - countFailing(examples)
		if r == nil || 2*r.passing > passing || r.share() > mostPassing {
			return "", 1
		}
		r.tighten(examples)
		var next []*cases.Case
		if mayTry && s.t.Lowering.Grain <= 1 && r.share() <= mostNoise {
			next = s.t.around(r, examples)
		}
		if len(next) == 0 || extra >= mostExtra {
			text = fmt.Sprintf("only where %s: all %d such cases fail, and none of the %d others", r.text(), r.failing, passing-r.passing)
			if r.passing > 0 {
				text = fmt.Sprintf("only where %s: %d of %d such cases fail, and none of the %d others", r.text(), r.failing, r.failing+r.passing, passing-r.passing)
			}
			if extra > 0 {
				text += fmt.Sprintf("; %d of these cases to find the boundary", extra)
			}
			return text, r.share()
		}
		for _, c := range next[:min(len(next), mostExtra-extra)] {
			failed := s.alone(ctx, c)
			if ctx.Err() != nil || failed != nil && failed.found.IsCause { // it may hang, or refuse the size
				mayTry = false
				break
			}
			examples = append(examples, &example{c: c, fails: failed != nil, params: s.t.Cases().Params(c)})
			extra++
		}
	}
}

// inTwo returns two conditions such that every failing example meets one of them and no other
// example does, or "" if there are none.
func inTwo(examples []*example, conditionsOf func([]*example) []*condition) string {
	one := cover(failsOf(examples), conditionsOf(examples))
	if one == nil || one.failing < leastFailing || one.share() > mostNoise {
		return ""
	}
	one.tighten(examples)
	var rest []*example
	for i, e := range examples {
		if !one.meets(i) {
			rest = append(rest, e)
		}
	}
	other := separate(failsOf(rest), conditionsOf(rest))
	if other == nil || other.share() > mostNoise || other.failing < leastFailing {
		return ""
	}
	other.tighten(rest)
	return fmt.Sprintf("where %s (%d of %d such cases fail) or %s (%d of %d), and in none of the %d others",
		one.text(), one.failing, one.failing+one.passing, other.text(), other.failing, other.failing+other.passing, len(rest)-other.failing-other.passing)
}

func failsOf(examples []*example) []bool {
	fails := make([]bool, len(examples))
	for i, e := range examples {
		fails[i] = e.fails
	}
	return fails
}

func countFailing(examples []*example) int { return count(failsOf(examples)) }

// conditions lists properties of examples.
type conditions struct {
	examples []*example
	list     []*condition
}

// add adds a property of cases, unless it holds for all or for none.
func (l *conditions) add(cost int, holds func(e *example) bool, format string, args ...any) *condition {
	c := &condition{text: fmt.Sprintf(format, args...), cost: cost, holds: make([]bool, len(l.examples))}
	for i, e := range l.examples {
		c.holds[i] = holds(e)
	}
	if c.isTrivial() {
		return nil
	}
	l.list = append(l.list, c)
	return c
}

// both adds a property and its opposite.
func (l *conditions) both(cost int, holds func(e *example) bool, is, isNot string) {
	l.add(cost, holds, "%s", is)
	l.add(cost, func(e *example) bool { return !holds(e) }, "%s", isNot)
}

// bound is a condition on a number: that it is at least the least of the failing examples, or
// at most the greatest.
type bound struct {
	of      func(e *example) float64
	isUpper bool
	at      float64
	nearest float64 // beyond it: of the examples that meet the other conditions and pass
	isOpen  bool    // there are none of these
	text    func(b *bound) string
}

// threshold adds bounds.
func (l *conditions) threshold(cost int, of func(e *example) float64, text func(b *bound) string) {
	lower, upper := &bound{of: of, text: text}, &bound{of: of, text: text, isUpper: true}
	isFirst := true
	for _, e := range l.examples {
		switch x := of(e); {
		case !e.fails:
		case isFirst:
			lower.at, upper.at, isFirst = x, x, false
		default:
			lower.at, upper.at = min(lower.at, x), max(upper.at, x)
		}
	}
	if c := l.add(cost, func(e *example) bool { return of(e) >= lower.at }, ""); c != nil {
		c.bound = lower
	}
	if c := l.add(cost, func(e *example) bool { return of(e) <= upper.at }, ""); c != nil {
		c.bound = upper
	}
}

// tighten finds the nearest passing examples beyond the bounds of a rule.
func (r *rule) tighten(examples []*example) {
	for _, c := range r.conditions {
		b := c.bound
		if b == nil {
			continue
		}
		rest := &rule{conditions: slices.DeleteFunc(slices.Clone(r.conditions), func(d *condition) bool { return d == c })}
		b.isOpen = true
		for i, e := range examples {
			x := b.of(e)
			switch {
			case e.fails || c.holds[i] || !rest.meets(i):
			case b.isOpen:
				b.nearest, b.isOpen = x, false
			case b.isUpper:
				b.nearest = min(b.nearest, x)
			default:
				b.nearest = max(b.nearest, x)
			}
		}
		c.text = b.text(b)
	}
}

// sizeText returns a bound of a size: C > 1024, or C ≥ 1025 (the nearest that passes is 1000).
func sizeText(name string) func(b *bound) string {
	return func(b *bound) string {
		relation, strict, step := "≥", ">", -1.0
		if b.isUpper {
			relation, strict, step = "≤", "<", 1
		}
		switch {
		case b.isOpen:
			return fmt.Sprintf("%s %s %.0f", name, relation, b.at)
		case b.nearest == b.at+step:
			return fmt.Sprintf("%s %s %.0f", name, strict, b.nearest)
		}
		return fmt.Sprintf("%s %s %.0f (the nearest that passes is %.0f)", name, relation, b.at, b.nearest)
	}
}

// numberText returns a bound of a number that is no size: eps ≥ 0.5.
func numberText(name string) func(b *bound) string {
	return func(b *bound) string {
		if b.isUpper {
			return fmt.Sprintf("%s ≤ %.4g", name, b.at)
		}
		return fmt.Sprintf("%s ≥ %.4g", name, b.at)
	}
}

// caseConditions returns the properties of cases that follow from their names.
func (t *Target) caseConditions(examples []*example) []*condition {
	l := &conditions{examples: examples}
	d := t.Definition
	letters := d.Sizes()
	for i, letter := range letters {
		first := len(l.list)
		of := func(e *example) int { n, _ := e.c.Size(letter); return n }
		l.both(2, func(e *example) bool { return of(e)%2 == 1 }, letter+" is odd", letter+" is even")
		for m := 4; m <= 1024; m *= 2 {
			l.both(3, func(e *example) bool { return of(e)%m == 0 }, fmt.Sprintf("%s is a multiple of %d", letter, m), fmt.Sprintf("%s is not a multiple of %d", letter, m))
		}
		l.both(2, func(e *example) bool { return of(e) == 1 }, letter+" = 1", letter+" > 1")
		l.threshold(3, func(e *example) float64 { return float64(of(e)) }, sizeText(letter))
		for _, other := range letters[i+1:] {
			compare := func(e *example) int { n, _ := e.c.Size(other); return cmp.Compare(of(e), n) }
			l.both(4, func(e *example) bool { return compare(e) == 0 }, letter+" = "+other, letter+" ≠ "+other)
			l.both(4, func(e *example) bool { return compare(e) > 0 }, letter+" > "+other, letter+" ≤ "+other)
			l.both(4, func(e *example) bool { return compare(e) < 0 }, letter+" < "+other, letter+" ≥ "+other)
		}
		for _, c := range l.list[first:] {
			c.letter = letter
		}
	}
	if o := &d.Operands[outputOf(d)]; len(o.Dims) > 1 {
		l.threshold(5, func(e *example) float64 {
			rows, cols := o.Matrix(e.c.Lengths())
			return float64(rows) * float64(cols)
		}, sizeText("the number of elements of "+o.Name))
		if len(o.Dims) > 2 {
			l.threshold(5, func(e *example) float64 { rows, _ := o.Matrix(e.c.Lengths()); return float64(rows) }, sizeText("the number of rows of "+o.Name))
		}
	}
	l.layouts(t)
	l.choices(t)
	return l.list
}

// layouts adds properties of layouts.
func (l *conditions) layouts(t *Target) {
	d := t.Definition
	l.both(1, func(e *example) bool { return e.c.Gap > 0 }, "rows have gaps between them", "there are no gaps between rows")
	l.both(1, func(e *example) bool { return e.c.Uneven > 0 }, "every other operand alone has gaps", "the layout is the same for all operands")
	l.both(1, func(e *example) bool { return e.c.Offset > 0 }, "the first element is not at the start of an aligned block", "the first element is at the start of an aligned block")
	for i := range d.Operands {
		o := &d.Operands[i]
		if len(o.Dims) < 2 {
			continue
		}
		for _, bytes := range []int{4, 16} {
			isAligned := func(e *example) bool {
				rows, cols := o.Matrix(e.c.Lengths())
				at, size := e.c.Layout(i), e.c.Formats[i].Size()
				return at.Offset*size%bytes == 0 && (rows == 1 || (cols+at.Gap)*size%bytes == 0)
			}
			l.both(4, isAligned, fmt.Sprintf("every row of %s begins at a multiple of %d bytes", o.Name, bytes), fmt.Sprintf("some row of %s does not begin at a multiple of %d bytes", o.Name, bytes))
		}
		if o.IsIn {
			break // the other operands are mostly laid out alike
		}
	}
}

// choices adds formats, parameters, in-place use, checks and patterns.
func (l *conditions) choices(t *Target) {
	d := t.Definition
	l.both(1, func(e *example) bool { return e.c.InPlace != "" }, "an output is in the place of an input", "no output is in the place of an input")
	for i := range d.Operands {
		for _, f := range append(slices.Clone(num.RealDTypes), num.IntegerDTypes...) {
			l.add(1, func(e *example) bool { return e.c.Formats[i] == f }, "%s is stored in %s", d.Operands[i].Name, f)
		}
	}
	for i, p := range d.Params {
		l.both(2, func(e *example) bool { return e.params[i] == 0 }, p.Name+" = 0", p.Name+" ≠ 0")
		l.both(2, func(e *example) bool { return e.params[i] < 0 }, p.Name+" < 0", p.Name+" ≥ 0")
		l.both(2, func(e *example) bool { return e.params[i] == 1 }, p.Name+" = 1", p.Name+" ≠ 1")
		l.threshold(4, func(e *example) float64 { return e.params[i] }, numberText(p.Name))
	}
	names := map[string]bool{}
	for _, e := range l.examples {
		for _, text := range []string{"in place " + e.c.InPlace, "check " + e.c.Check, "pattern " + e.c.Pattern} {
			names[text] = true
		}
	}
	for _, k := range t.allChecks() {
		if names["check "+k.Name] {
			l.add(2, func(e *example) bool { return e.c.Check == k.Name }, "the check is %s", k.Name)
		}
	}
	for i := range d.Operands {
		for _, partner := range d.InPlacePartners(&d.Operands[i]) {
			if text := d.Operands[i].Name + "=" + partner; names["in place "+text] {
				l.add(2, func(e *example) bool { return e.c.InPlace == text }, "%s is in the place of %s", d.Operands[i].Name, partner)
			}
		}
	}
	for _, p := range t.Cases().Patterns() {
		if names["pattern "+p.Name] {
			l.both(4, func(e *example) bool { return e.c.Pattern == p.Name }, "the values are "+p.Name, "the values are not "+p.Name)
		}
	}
}

// around returns further cases that tell whether a rule about sizes holds: a failing case with
// another size, on both sides of the boundary, unless they were run before.
func (t *Target) around(r *rule, examples []*example) []*cases.Case {
	var base *cases.Case // the smallest that fails
	seen := map[string]bool{}
	for _, e := range examples {
		seen[e.c.Name(t.Cases())] = true
		if e.fails && (base == nil || e.c.Outputs(t.Definition) < base.Outputs(t.Definition)) {
			base = e.c
		}
	}
	var list []*cases.Case
	for _, condition := range r.conditions {
		if condition.letter == "" {
			continue
		}
		n, _ := base.Size(condition.letter)
		sizes := []int{n + 1, n + 2, n + 3}
		if b := condition.bound; b != nil && !b.isOpen {
			sizes = []int{int(b.nearest), int(b.at)}
			if distance := b.at - b.nearest; max(distance, -distance) > 1 {
				sizes = []int{int(b.at+b.nearest) / 2}
			}
		}
		for _, size := range sizes {
			c := base.Clone()
			for i := range c.Sizes {
				if c.Sizes[i].Letter == condition.letter {
					c.Sizes[i].N = size
				}
			}
			if name := c.Name(t.Cases()); size > 0 && !seen[name] && c.Outputs(t.Definition) <= mostExtraWork && t.CheckCase(name) == nil {
				seen[name] = true
				list = append(list, c)
			}
		}
	}
	return list
}

// look generates the inputs of cases again, the smallest first, records their kinds of values, and
// returns the cases that it had room for.
func (s *verification) look(examples []*example) []*example {
	examples = slices.Clone(examples)
	size := func(e *example) int64 {
		n := int64(0)
		for i := range s.t.Definition.Operands {
			rows, cols := s.t.Definition.Operands[i].Matrix(e.c.Lengths())
			n += int64(rows) * int64(cols)
		}
		return n
	}
	slices.SortStableFunc(examples, func(a, b *example) int { return cmp.Compare(size(a), size(b)) })
	left := int64(mostLooked)
	for i, e := range examples {
		if left -= size(e); left < 0 {
			return examples[:i]
		}
		e.values = s.t.load(e.c, s.o.Seed).valueKinds()
	}
	return examples
}
