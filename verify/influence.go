package verify

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial"
)

// influence changes inputs along the row or column that an element of a rowwise definition
// depends on, and names those that change the reference's result but not the kernel's.
func (q *questioner) influence() []string {
	d := q.l.target.Definition
	if d.Access() != def.AlongRows {
		return nil
	}
	before, ok := q.ask(func([]num.Array) {})
	if !ok || num.Value(q.l.c.Formats[q.f.Operand], before) == 0 { // a zero may hide any influence
		return nil
	}
	var texts []string
	for i := range d.Operands {
		if o := &d.Operands[i]; !o.IsIn || o.IsIndex {
			continue
		}
		lost := q.withoutInfluence(before, q.lineOf(i))
		if len(lost) == 0 {
			continue
		}
		name := func(p trial.Place) string { return place(&d.Operands[i], q.l.array(i), p.Row, p.Col) }
		inputs := name(lost[0])
		switch n := len(lost); {
		case n == 2:
			inputs += " and " + name(lost[1])
		case n > 2:
			inputs += fmt.Sprintf(" to %s (%d inputs)", name(lost[n-1]), n)
		}
		at := place(&d.Operands[q.f.Operand], q.l.array(q.f.Operand), q.f.Row, q.f.Col)
		texts = append(texts, fmt.Sprintf("changing only %s changes nothing in %s, and should", inputs, at))
	}
	return texts
}

// lineOf returns the elements of an input that the wrong element may depend on: those of its
// row, of its column, or all.
func (q *questioner) lineOf(input int) []trial.Place {
	d := q.l.target.Definition
	a := q.l.array(input)
	rows, cols := indices(a.Rows), indices(a.Cols)
	out, in := d.Operands[q.f.Operand].Extent, d.Operands[input].Extent
	if out != def.PerColumn && out != def.Scalar && a.Rows > 1 && in != def.PerColumn {
		rows = []int{q.f.Row}
	}
	if out == def.PerColumn && a.Cols > 1 {
		cols = []int{q.f.Col}
	}
	var line []trial.Place
	for _, r := range rows {
		for _, c := range cols {
			line = append(line, trial.Place{Operand: input, Row: r, Col: c})
		}
	}
	return line
}

// withoutInfluence returns inputs of a line that do not change the kernel's result: as many as
// possible at its end, or else at its beginning, or else a single one.
func (q *questioner) withoutInfluence(before uint64, line []trial.Place) []trial.Place {
	isLost := func(part []trial.Place) bool { return q.isLost(before, part) }
	n := len(line)
	if isLost(line[n-1:]) {
		from, to := 0, n-1 // line[to:] is lost
		for from < to {
			if middle := (from + to) / 2; isLost(line[middle:]) {
				to = middle
			} else {
				from = middle + 1
			}
		}
		return line[to:]
	}
	if n > 1 && isLost(line[:1]) {
		from, to := 1, n-1 // line[:from] is lost
		for from < to {
			if middle := (from + to + 1) / 2; isLost(line[:middle]) {
				from = middle
			} else {
				to = middle - 1
			}
		}
		return line[:from]
	}
	for _, k := range singles(n) {
		if isLost(line[k : k+1]) {
			return line[k : k+1]
		}
	}
	return nil
}

// singles returns which inputs of a long line are tried alone: those around powers of two,
// then the others.
func singles(n int) []int {
	const most = 64
	var list []int
	for edge := 2; edge < n; edge *= 2 {
		list = append(list, edge-1, edge)
	}
	for k := 1; k < n-1 && len(list) < most; k++ {
		list = append(list, k)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// leastChange is the least distance, in values of the format, that the right result must move for
// a change of the inputs to count: more than rounding can hide.
const leastChange = 4

// isLost reports whether a change of some inputs changes the right result clearly and the
// kernel's not at all.
func (q *questioner) isLost(before uint64, part []trial.Place) bool {
	dtype := q.l.c.Formats[q.f.Operand]
	right, ok := q.answer(func([]num.Array) {})
	if !ok || num.IsNaN(dtype, right) {
		return false
	}
	for _, by := range []func(x float32) float32{
		func(x float32) float32 { return x + 4 }, func(x float32) float32 { return x - 4 }, func(x float32) float32 { return 4*x + 1 },
	} {
		change := func(arrays []num.Array) {
			for _, p := range part {
				a := arrays[p.Operand]
				a.Set(p.Row, p.Col, by(a.At(p.Row, p.Col)))
			}
		}
		want, ok := q.answer(change)
		if !ok || num.IsNaN(dtype, want) || num.Distance(dtype, right, want) < leastChange {
			continue
		}
		got, ok := q.ask(change)
		return ok && got == before
	}
	return false
}

// answer returns the reference's result for changed inputs.
func (q *questioner) answer(change func(arrays []num.Array)) (uint64, bool) {
	l := q.l.as(q.l.c)
	change(l.inputs())
	answer := l.operands.Copies()
	if err := reference.Run(l.target.Definition, answer, reference.Options{Params: l.params, Accum: l.accum()}); err != nil {
		return 0, false
	}
	return answer[q.f.Operand].Bits64(q.f.Row, q.f.Col), true
}
