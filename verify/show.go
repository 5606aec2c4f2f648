package verify

import (
	"fmt"
	"strconv"
	"strings"

	"tokitai/def"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial"
)

// mostShown is the number of elements of a row that are shown, mostRows the number of rows
// of an operand.
const (
	mostShown = 8
	mostRows  = 4
)

// span returns the part of an axis of n elements that is shown around an index.
func span(at, n int) (from, to int) {
	from = max(0, min(at-mostShown/2, n-mostShown))
	return from, min(from+mostShown, n)
}

// elements returns values in decimal, the one at an index in brackets: 1 -0.5 [2] 3.
func elements(d num.DType, from, to, at int, bits func(i int) uint64) string {
	var list []string
	for i := from; i < to; i++ {
		text := ""
		if d.IsInteger() {
			text = trial.Pattern(d, bits(i))
		} else {
			text = strconv.FormatFloat(float64(num.Value(d, bits(i))), 'g', 6, 32)
		}
		if i == at {
			text = "[" + text + "]"
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// show adds the part of an output's row around the element to the finding.
func (f *finding) show(d *def.Definition, a num.Array, what string, bits func(c int) uint64) {
	if a.Cols == 1 { // got and want say it all
		return
	}
	from, to := span(f.Col, a.Cols)
	f.Near = append(f.Near, fmt.Sprintf("%s = %s, %s", part(&d.Operands[f.Operand], f.Row, f.Row+1, from, to), elements(a.DType, from, to, f.Col, bits), what))
}

// rowsNear shows the row around a finding: the inputs, the output and the answer, which the
// reference computes if the finding does not have it.
func (l *loaded) rowsNear(f *finding) []string {
	const most = 1 << 22 // elements of the output
	list := append(l.inputsNear(f.Operand, f.Row, f.Col), f.Near...)
	d, a := l.target.Definition, l.array(f.Operand)
	if len(f.Near) != 1 || a.Rows > most/a.Cols {
		return list
	}
	answer := l.inputs()
	for i := range d.Operands {
		if d.Operands[i].IsOut {
			answer[i] = answer[i].Clone()
		}
	}
	if err := reference.Run(d, answer, reference.Options{Params: l.params, Accum: l.accum()}); err != nil {
		return list
	}
	want := *f
	want.Near = nil
	want.show(d, answer[f.Operand], "want", func(c int) uint64 { return answer[f.Operand].Bits64(f.Row, c) })
	return append(list, want.Near...)
}

// part returns the name of a part of an operand, such as dx[3,4090:4098] or gamma[0:8].
func part(o *def.Operand, row, toRow, from, to int) string {
	rows := fmt.Sprint(row)
	if toRow-row != 1 {
		rows = fmt.Sprintf("%d:%d", row, toRow)
	}
	switch {
	case len(o.Dims) == 0:
		return o.Name
	case len(o.Dims) >= 2:
		return fmt.Sprintf("%s[%s,%d:%d]", o.Name, rows, from, to)
	case o.Extent == def.PerColumn:
		return fmt.Sprintf("%s[%d:%d]", o.Name, from, to)
	}
	return fmt.Sprintf("%s[%s]", o.Name, rows)
}

// inputsNear shows the parts of the inputs' rows that belong to an output element: around
// its column; of a product, the first terms of its sum.
func (l *loaded) inputsNear(operand, row, col int) []string {
	d := l.target.Definition
	at := l.indicesAt(operand, row, col)
	var list []string
	for i := range d.Operands {
		in, a := &d.Operands[i], l.array(i)
		if !in.IsIn || a.Rows*a.Cols <= 1 {
			continue
		}
		r, c := offsetOf(in, a, at)
		mark := -1
		if len(in.Dims) > 0 {
			if _, ok := at[in.Dims[len(in.Dims)-1]]; ok {
				mark = c
			}
		}
		switch {
		case r >= a.Rows || c >= a.Cols:
		case a.Cols == 1: // a value per row
			list = append(list, fmt.Sprintf("%s = %s", part(in, r, r+1, 0, 1), elements(a.DType, 0, 1, -1, func(int) uint64 { return a.Bits64(r, 0) })))
		case d.Product() != nil && in.Dims[len(in.BatchDims())] == d.SummedOver(): // down a column
			from := r - a.RowIn(r) // of the matrix
			to := from + min(mostShown, a.Rows/a.Matrices())
			list = append(list, fmt.Sprintf("%s[%d:%d,%d] = %s", in.Name, from, to, c, elements(a.DType, from, to, -1, func(r int) uint64 { return a.Bits64(r, c) })))
		default:
			from, to := span(c, a.Cols)
			list = append(list, fmt.Sprintf("%s = %s", part(in, r, r+1, from, to), elements(a.DType, from, to, mark, func(c int) uint64 { return a.Bits64(r, c) })))
		}
	}
	return list
}

// shown lists a case's operands as text: the inputs before the run, the outputs after it,
// of large ones the beginning.
func (l *loaded) shown(out *outcome) []string {
	d := l.target.Definition
	var list []string
	for i, p := range d.Params {
		list = append(list, fmt.Sprintf("%s = %v", p.Name, l.params[i]))
	}
	show := func(i int, what string, a num.Array) {
		list = append(list, fmt.Sprintf("%s, %s, %s, %d×%d", d.Operands[i].Name, what, a.DType, a.Rows, a.Cols))
		to := min(mostShown, a.Cols)
		for r := range min(mostRows, a.Rows) {
			line := fmt.Sprintf("  %d: %s", r, elements(a.DType, 0, to, -1, func(c int) uint64 { return a.Bits64(r, c) }))
			if to < a.Cols {
				line += " …"
			}
			list = append(list, line)
		}
		if a.Rows > mostRows {
			list = append(list, "  …")
		}
	}
	for i := range d.Operands {
		if d.Operands[i].IsIn {
			show(i, "input", l.array(i))
		}
	}
	for i := range d.Operands {
		if d.Operands[i].IsOut {
			show(i, "output", out.operands[i])
		}
	}
	return list
}

// inputsOf shows the terms of the sum at a finding's element, the given ones first.
func (l *loaded) inputsOf(f *finding, first []int) []string {
	d := l.target.Definition
	terms := l.termsAt(f.Operand, f.Row, f.Col)
	list, shown := []string{}, 0
	for _, k := range first {
		if len(list)+len(terms[k]) > mostInputs {
			break
		}
		for _, p := range terms[k] {
			a := l.array(p.Operand)
			list = append(list, fmt.Sprintf("%s = %s", place(&d.Operands[p.Operand], a, p.Row, p.Col), trial.PatternWithValue(a.DType, a.Bits64(p.Row, p.Col))))
		}
		shown++
	}
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsIn && o.IsOut {
			a := l.array(i)
			list = append(list, fmt.Sprintf("%s = %s", place(o, a, f.Row, f.Col), trial.PatternWithValue(a.DType, a.Bits64(f.Row, f.Col))))
		}
	}
	if n := len(terms) - shown; n > 0 {
		list = append(list, fmt.Sprintf("%d more of the %d terms", n, len(terms)))
	}
	return list
}
