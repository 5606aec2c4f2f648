package verify

import (
	"slices"
	"strconv"
	"strings"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/trial"
)

// An operand with batch axes is a stack of matrices whose rows are numbered consecutively, so a row
// number stands for an index of each axis. This file has the conversions. Arrays are those of
// package trial, with one axis for each letter.

// indicesAt returns the index of each letter of an operand at a row and a column.
func indicesAt(o *def.Operand, a num.Array, row, col int) map[string]int {
	at := map[string]int{}
	for k, letter := range o.Dims {
		if isColumn(o, k) {
			at[letter] = col
			continue
		}
		per, n := trial.AxisOf(o, a, k)
		at[letter] = row / per % n
	}
	return at
}

// offsetOf returns the row and the column of an operand at the given index of each letter.
func offsetOf(o *def.Operand, a num.Array, at map[string]int) (row, col int) {
	for k, letter := range o.Dims {
		if isColumn(o, k) {
			col = at[letter]
			continue
		}
		per, _ := trial.AxisOf(o, a, k)
		row += at[letter] * per
	}
	return row, col
}

// moved converts a place in one array of an operand to the place of the same element in another
// array of different sizes, where the first begins at the given index of each letter in the second.
// ok is false if the second does not have the element.
func moved(o *def.Operand, from, to num.Array, begin map[string]int, r, c int) (row, col int, ok bool) {
	for k, letter := range o.Dims {
		if isColumn(o, k) {
			if col = c + begin[letter]; col >= to.Cols {
				return 0, 0, false
			}
			continue
		}
		per, n := trial.AxisOf(o, from, k)
		toPer, toN := trial.AxisOf(o, to, k)
		i := r/per%n + begin[letter]
		if i >= toN {
			return 0, 0, false
		}
		row += i * toPer
	}
	return row, col, true
}

// copyMoved fills an operand from another array of it, as moved finds the places, and with
// zeros where there is none.
func copyMoved(o *def.Operand, to, from num.Array, begin map[string]int) {
	trial.FillBits(to, func(r, c int) uint64 {
		row, col, ok := moved(o, to, from, begin, r, c)
		if !ok {
			return 0
		}
		return from.Bits64(row, col)
	})
}

// transposedPlace returns the place in a stack of the element that has row and column
// exchanged in a stack of transposed matrices.
func transposedPlace(a, b num.Array, r, c int) (row, col int) {
	rows := a.Rows / a.Matrices()
	return r/rows*(b.Rows/b.Matrices()) + c, r % rows
}

// canTranspose reports whether (A·B)ᵀ = Bᵀ·Aᵀ is a call of the same definition. Scales are
// multiplied in another order then.
func canTranspose(d *def.Definition) bool {
	return d.Groups().Offsets == "" && !d.HasScales() && slices.Equal(d.Operands[0].BatchDims(), d.Operands[1].BatchDims())
}

// interleaved returns a layout in which the rows of a stack's matrices alternate, as those of
// attention heads do.
func interleaved(l trial.Layout, o *def.Operand) trial.Layout {
	if n := len(o.BatchDims()); n > 0 {
		l.Order = []int{n}
		for axis := range n {
			l.Order = append(l.Order, axis)
		}
	}
	return l
}

// repeatedMatrices checks that an input whose matrices all share the same memory gives the same
// results as copies of that matrix. A kernel whose order of sums may depend on strides gives right
// ones.
func repeatedMatrices(operand int) func(*trialRun) (int64, *finding, error) {
	return func(x *trialRun) (int64, *finding, error) {
		t := x.l.target
		o := &t.Definition.Operands[operand]
		once := make([]bool, len(o.BatchDims()))
		for i := range once {
			once[i] = true
		}
		layout := func(i int) trial.Layout {
			l := x.l.around.of(x.c.Layout(i), i)
			if i == operand {
				l.IsRepeated = once
			}
			return l
		}
		apart := t.newLoaded(x.c, x.l.seed)
		shared := &loaded{target: t, c: x.c, seed: x.l.seed, around: x.l.around, params: x.l.params, operands: trial.New(t.Definition, x.c.Formats, x.c.Lengths(), layout)}
		for i := range t.Definition.Operands {
			from := x.l.array(i)
			rows := from.Rows / from.Matrices()
			for _, to := range []num.Array{apart.array(i), shared.array(i)} {
				trial.FillBits(to, func(r, c int) uint64 {
					if i == operand {
						r %= rows
					}
					return from.Bits64(r, c)
				})
			}
		}
		what := "with one matrix of " + o.Name + " for all"
		if !t.Lowering.Promise.IsBits() && !t.Lowering.Promise.Order.IsDeclared() {
			out, err := x.s.bench.run(shared, x.s.o.deadline(), 0)
			if err != nil {
				return 0, nil, err
			}
			return x.judged(apart, out, evidence.Relations, what)
		}
		base, err := x.s.bench.run(apart, x.s.o.deadline(), 0)
		if err != nil {
			return 0, nil, err
		}
		return x.again(shared, evidence.Relations, what, outputsOf(base))
	}
}

// indicesAt returns the index of each letter at an element of an output; of a product with
// groups also which group it belongs to, and where its sum begins.
func (l *loaded) indicesAt(operand, row, col int) map[string]int {
	d := l.target.Definition
	at := indicesAt(&d.Operands[operand], l.array(operand), row, col)
	if d.Groups().Offsets == "" {
		return at
	}
	offsets := l.array(d.Operand(d.Groups().Offsets))
	if i, isRow := at[d.Groups().Of]; isRow {
		for g := range offsets.Rows - 1 {
			if int(offsets.Int(g, 0)) <= i {
				at[d.Groups().Number] = g
			}
		}
		return at
	}
	at[d.Groups().Of] = int(offsets.Int(at[d.Groups().Number], 0))
	return at
}

// productsOfStack is products for stacks of matrices.
func (l *loaded) productsOfStack(row, col int, into []float64) []float64 {
	d := l.target.Definition
	at, along := l.indicesAt(2, row, col), d.SummedOver()
	left, right := l.array(0), l.array(1)
	first, length := at[along], left.Cols
	if d.Product().TransposeLeft {
		length = left.Rows / left.Matrices()
	}
	if d.Groups().Of == along {
		offsets := l.array(3)
		length = int(offsets.Int(at[d.Groups().Number]+1, 0)) - first
	}
	for k := range length {
		at[along] = first + k
		i, j := offsetOf(&d.Operands[0], left, at)
		p, q := offsetOf(&d.Operands[1], right, at)
		into = append(into, float64(left.At(i, j))*float64(right.At(p, q)))
	}
	return into
}

// place returns the name of an element, such as dx[3,4095]; of a stack, with the index of
// its matrix before.
func place(o *def.Operand, a num.Array, r, c int) string {
	at := indicesAt(o, a, r, c)
	var list []string
	for _, letter := range o.Dims {
		list = append(list, strconv.Itoa(at[letter]))
	}
	if len(list) == 0 {
		return o.Name
	}
	return o.Name + "[" + strings.Join(list, ",") + "]"
}

// indices returns 0 to n-1.
func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}
