// Package explain says what failures have in common: which condition all failing cases meet and the others do
// not, and where the wrong elements of an output lie. It sees results, and runs further cases only
// through the function that it is given.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/num"
	"tokitai/verify/cases"
)

// Example is a case that was run.
type Example struct {
	Case   *cases.Case
	Fails  bool
	Params []float64

	values *valueKinds // nil until its inputs were looked at
}

// Search looks for what failing cases have in common. A wrong kernel usually fails under a condition
// that tells its author much: odd K, more than 1,024 columns, gaps between rows. Such a condition is
// looked for in the results of all cases of a verification, and a few more cases are run around the
// boundary that is found.
type Search struct {
	Target   *cases.Target
	Smallest *cases.Case // failing case, which is printed; nil if there is none

	Try    func(c *cases.Case) (fails, ok bool) // runs a further case; ok is false if no other should be run
	Inputs func(c *cases.Case) []num.Array      // the operands of a case
}

const (
	leastFailing  = 3       // failing cases; fewer are listed
	mostExtra     = 24      // further cases
	mostExtraWork = 1 << 16 // outputs of one of them
	mostLooked    = 1 << 24 // inputs that are generated again to look at
)

// scattered says how many cases fail where no condition tells them from the others, and which,
// if they are few.
func (f *Search) scattered(examples []*Example) string {
	const most = 4 // that are named
	failing, total := countFailing(examples), len(examples)
	switch {
	case failing <= most:
		var names []string
		for _, e := range examples {
			if e.Fails {
				names = append(names, e.Case.Name(f.Target))
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

// firstRules returns the rules that a first kind of failure may have, the one that covers most cases
// first: what meets them fails almost always.
func firstRules(fails []bool, conditions []*condition) []*rule {
	var list []*rule
	add := func(r *rule) {
		if r != nil && r.failing >= leastFailing && r.share() <= mostNoise {
			list = append(list, r)
		}
	}
	add(cover(fails, conditions))
	for _, c := range conditions {
		add(ruleOf(fails, c))
	}
	return list
}

// inTwo returns two conditions such that every failing example meets one of them and no other
// example does, and the share of those that meet one and still pass, or "" if there are none.
func inTwo(examples []*Example, conditionsOf func([]*Example) []*condition) (text string, share float64) {
	fails, conditions := failsOf(examples), conditionsOf(examples)
	var one, other *rule
	var rest []*Example
	passing := func(r, s *rule) int { return r.passing + s.passing }
	for _, first := range firstRules(fails, conditions) {
		var left []*Example
		for i, e := range examples {
			if !first.meets(i) {
				left = append(left, e)
			}
		}
		second := separate(failsOf(left), conditionsOf(left))
		switch {
		case second == nil || second.share() > mostNoise || second.failing < leastFailing:
		case one == nil || passing(first, second) < passing(one, other):
			one, other, rest = first, second, left
		}
	}
	if one == nil {
		return "", 1
	}
	one.tighten(examples)
	other.tighten(rest)
	text = fmt.Sprintf("where %s (%d of %d such cases fail) or %s (%d of %d), and in none of the %d others",
		one.text(), one.failing, one.failing+one.passing, other.text(), other.failing, other.failing+other.passing, len(rest)-other.failing-other.passing)
	passes := passing(one, other)
	return text, float64(passes) / float64(passes+one.failing+other.failing)
}

// When says what the failing cases have in common that the others do not, or how many there are.
// It returns "" if there is only one case.
func (f *Search) When(examples []*Example) string {
	failing, total := countFailing(examples), len(examples)
	switch {
	case total < 2 || failing == 0:
		return ""
	case failing == total:
		return fmt.Sprintf("always: all %d cases fail", total)
	case failing < leastFailing:
		return f.scattered(examples)
	}
	all := examples
	examples = f.withSmallest(examples)
	text, share := f.explain(true, examples, f.caseConditions)
	if share <= mostNoise {
		return text
	}
	looked := f.look(examples)
	if n := countFailing(looked); n < leastFailing || n == len(looked) {
		return cmp.Or(text, f.scattered(all))
	}
	withValues := func(list []*Example) []*condition {
		return append(f.caseConditions(list), f.valueConditions(list)...)
	}
	other, otherShare := f.explain(false, looked, withValues)
	if otherShare <= mostNoise {
		return other
	}
	none := 1 - float64(countFailing(looked))/float64(len(looked))
	if two, twoShare := inTwo(looked, withValues); two != "" && twoShare < min(none, otherShare)-worthACondition {
		return two
	}
	if otherShare < share-worthACondition {
		text = other
	}
	return cmp.Or(text, f.scattered(all))
}

// withSmallest adds the smallest failing case, which is printed, to the examples: what is said of
// the failing cases must hold for it too.
func (f *Search) withSmallest(examples []*Example) []*Example {
	small := f.Smallest
	if small == nil || slices.ContainsFunc(examples, func(e *Example) bool { return e.Case.Name(f.Target) == small.Name(f.Target) }) {
		return examples
	}
	return append(slices.Clone(examples), &Example{Case: small, Fails: true, Params: f.Target.Params(small)})
}

// look generates the inputs of cases again, the smallest first, records their kinds of values, and
// returns the cases that it had room for.
func (f *Search) look(examples []*Example) []*Example {
	examples = slices.Clone(examples)
	size := func(e *Example) int64 {
		return e.Case.Elements(f.Target.Definition)
	}
	slices.SortStableFunc(examples, func(a, b *Example) int { return cmp.Compare(size(a), size(b)) })
	left := int64(mostLooked)
	for i, e := range examples {
		if left -= size(e); left < 0 {
			return examples[:i]
		}
		e.values = f.kindsOf(e.Case)
	}
	return examples
}

// explain returns a condition that all failing examples meet and few others, with the share
// of these others; with mayTry, after further cases around its boundary. If there is none, the
// share is 1.
func (f *Search) explain(mayTry bool, examples []*Example, conditionsOf func([]*Example) []*condition) (text string, share float64) {
	extra := 0
	for {
		r := separate(failsOf(examples), conditionsOf(examples))
		passing := len(examples) - countFailing(examples)
		if r == nil || 2*r.passing > passing || r.share() > mostPassing {
			return "", 1
		}
		r.tighten(examples)
		var next []*cases.Case
		if mayTry && f.Target.Grain <= 1 && r.share() <= mostNoise {
			next = f.around(r, examples)
		}
		if len(next) == 0 || extra >= mostExtra {
			text = fmt.Sprintf("only where %s: all %d such cases fail, and none of the %d others", r.text(), r.failing, passing-r.passing)
			if r.passing > 0 {
				text = fmt.Sprintf("only where %s: %d of %d such cases fail, and none of the %d others", r.text(), r.failing, r.failing+r.passing, passing-r.passing)
			}
			switch extra {
			case 0:
			case 1:
				text += "; 1 of these cases was run to find the boundary"
			default:
				text += fmt.Sprintf("; %d of these cases were run to find the boundary", extra)
			}
			return text, r.share()
		}
		for _, c := range next[:min(len(next), mostExtra-extra)] {
			fails, ok := f.Try(c)
			if !ok {
				mayTry = false
				break
			}
			examples = append(examples, &Example{Case: c, Fails: fails, Params: f.Target.Params(c)})
			extra++
		}
	}
}

func failsOf(examples []*Example) []bool {
	fails := make([]bool, len(examples))
	for i, e := range examples {
		fails[i] = e.Fails
	}
	return fails
}

func countFailing(examples []*Example) int { return count(failsOf(examples)) }

// conditions lists properties of examples.
type conditions struct {
	examples []*Example
	list     []*condition
}

// add adds a property of cases, unless it holds for all or for none.
func (l *conditions) add(cost int, holds func(e *Example) bool, format string, args ...any) *condition {
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
func (l *conditions) both(cost int, holds func(e *Example) bool, is, isNot string) {
	l.add(cost, holds, "%s", is)
	l.add(cost, func(e *Example) bool { return !holds(e) }, "%s", isNot)
}

// bound is a condition on a number: that it is at least the least of the failing examples, or
// at most the greatest.
type bound struct {
	of      func(e *Example) float64
	isUpper bool
	at      float64
	nearest float64 // beyond it: of the examples that meet the other conditions and pass
	isOpen  bool    // there are none of these
	text    func(b *bound) string
}

// threshold adds bounds.
func (l *conditions) threshold(cost int, of func(e *Example) float64, text func(b *bound) string) {
	lower, upper := &bound{of: of, text: text}, &bound{of: of, text: text, isUpper: true}
	isFirst := true
	for _, e := range l.examples {
		switch x := of(e); {
		case !e.Fails:
		case isFirst:
			lower.at, upper.at, isFirst = x, x, false
		default:
			lower.at, upper.at = min(lower.at, x), max(upper.at, x)
		}
	}
	if c := l.add(cost, func(e *Example) bool { return of(e) >= lower.at }, ""); c != nil {
		c.bound = lower
	}
	if c := l.add(cost, func(e *Example) bool { return of(e) <= upper.at }, ""); c != nil {
		c.bound = upper
	}
}

// tighten finds the nearest passing examples beyond the bounds of a rule.
func (r *rule) tighten(examples []*Example) {
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
			case e.Fails || c.holds[i] || !rest.meets(i):
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
func (f *Search) caseConditions(examples []*Example) []*condition {
	l := &conditions{examples: examples}
	d := f.Target.Definition
	letters := d.Sizes()
	for i, letter := range letters {
		first := len(l.list)
		of := func(e *Example) int { n, _ := e.Case.Size(letter); return n }
		l.both(2, func(e *Example) bool { return of(e)%2 == 1 }, letter+" is odd", letter+" is even")
		for m := 4; m <= 1024; m *= 2 {
			l.both(3, func(e *Example) bool { return of(e)%m == 0 }, fmt.Sprintf("%s is a multiple of %d", letter, m), fmt.Sprintf("%s is not a multiple of %d", letter, m))
		}
		l.both(2, func(e *Example) bool { return of(e) == 1 }, letter+" = 1", letter+" > 1")
		l.threshold(3, func(e *Example) float64 { return float64(of(e)) }, sizeText(letter))
		for _, other := range letters[i+1:] {
			compare := func(e *Example) int { n, _ := e.Case.Size(other); return cmp.Compare(of(e), n) }
			l.both(4, func(e *Example) bool { return compare(e) == 0 }, letter+" = "+other, letter+" ≠ "+other)
			l.both(4, func(e *Example) bool { return compare(e) > 0 }, letter+" > "+other, letter+" ≤ "+other)
			l.both(4, func(e *Example) bool { return compare(e) < 0 }, letter+" < "+other, letter+" ≥ "+other)
		}
		for _, c := range l.list[first:] {
			c.letter = letter
		}
	}
	if o := &d.Operands[slices.IndexFunc(d.Operands, func(o def.Operand) bool { return o.IsOut })]; len(o.Dims) > 1 {
		l.threshold(5, func(e *Example) float64 {
			rows, cols := o.Matrix(e.Case.Lengths())
			return float64(rows) * float64(cols)
		}, sizeText("the number of elements of "+o.Name))
		if len(o.Dims) > 2 {
			l.threshold(5, func(e *Example) float64 { rows, _ := o.Matrix(e.Case.Lengths()); return float64(rows) }, sizeText("the number of rows of "+o.Name))
		}
	}
	l.layouts(f)
	l.choices(f)
	return l.list
}

// layouts adds properties of layouts.
func (l *conditions) layouts(f *Search) {
	d := f.Target.Definition
	l.both(1, func(e *Example) bool { return e.Case.Gap > 0 }, "rows have gaps between them", "there are no gaps between rows")
	l.both(1, func(e *Example) bool { return e.Case.Uneven > 0 }, "every other operand alone has gaps", "the layout is the same for all operands")
	l.both(1, func(e *Example) bool { return e.Case.Offset > 0 }, "the first element is not at the start of an aligned block", "the first element is at the start of an aligned block")
	for i := range d.Operands {
		o := &d.Operands[i]
		if len(o.Dims) < 2 {
			continue
		}
		for _, bytes := range []int{4, 16} {
			isAligned := func(e *Example) bool {
				rows, cols := o.Matrix(e.Case.Lengths())
				at, size := e.Case.Layout(i), e.Case.Formats[i].Size()
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
func (l *conditions) choices(f *Search) {
	d := f.Target.Definition
	l.both(1, func(e *Example) bool { return e.Case.InPlace != "" }, "an output is in the place of an input", "no output is in the place of an input")
	for i := range d.Operands {
		for _, dtype := range num.AllDTypes {
			l.add(1, func(e *Example) bool { return e.Case.Formats[i] == dtype }, "%s is stored in %s", d.Operands[i].Name, dtype)
		}
	}
	for i, p := range d.Params {
		l.both(2, func(e *Example) bool { return e.Params[i] == 0 }, p.Name+" = 0", p.Name+" ≠ 0")
		l.both(2, func(e *Example) bool { return e.Params[i] < 0 }, p.Name+" < 0", p.Name+" ≥ 0")
		l.both(2, func(e *Example) bool { return e.Params[i] == 1 }, p.Name+" = 1", p.Name+" ≠ 1")
		l.threshold(4, func(e *Example) float64 { return e.Params[i] }, numberText(p.Name))
	}
	names := map[string]bool{}
	for _, e := range l.examples {
		for _, text := range []string{"in place " + e.Case.InPlace, "check " + e.Case.Check, "pattern " + e.Case.Pattern} {
			names[text] = true
		}
	}
	for _, k := range f.Target.Checks() {
		if names["check "+k.Name] {
			l.add(2, func(e *Example) bool { return e.Case.Check == k.Name }, "the check is %s", k.Name)
		}
	}
	for i := range d.Operands {
		for _, partner := range d.InPlacePartners(&d.Operands[i]) {
			if text := d.Operands[i].Name + "=" + partner; names["in place "+text] {
				l.add(2, func(e *Example) bool { return e.Case.InPlace == text }, "%s is in the place of %s", d.Operands[i].Name, partner)
			}
		}
	}
	for _, p := range f.Target.Patterns() {
		if names["pattern "+p.Name] {
			l.both(4, func(e *Example) bool { return e.Case.Pattern == p.Name }, "the values are "+p.Name, "the values are not "+p.Name)
		}
	}
}

// around returns further cases that tell whether a rule about sizes holds: a failing case with
// another size, on both sides of the boundary, unless they were run before.
func (f *Search) around(r *rule, examples []*Example) []*cases.Case {
	var base *cases.Case // the smallest that fails
	seen := map[string]bool{}
	for _, e := range examples {
		seen[e.Case.Name(f.Target)] = true
		if e.Fails && (base == nil || e.Case.Outputs(f.Target.Definition) < base.Outputs(f.Target.Definition)) {
			base = e.Case
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
			if name := c.Name(f.Target); size > 0 && !seen[name] && c.Outputs(f.Target.Definition) <= mostExtraWork && f.Target.Has(name) {
				seen[name] = true
				list = append(list, c)
			}
		}
	}
	return list
}
