package truth

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/num/exact"
)

// part is one of the matrix products of a contraction: the one for one index of the batch
// axes and one group.
type part struct {
	left, right num.Array // as they are stored, cut to the group
	first       int       // its first row, of all rows of the result
	rows        int
}

// productTerms has the terms of a contraction.
type productTerms struct{ *def.Product }

func (f productTerms) result() int               { return f.Result }
func (f productTerms) factors(k *call) num.DType { return k.operands[f.Left].DType }
func (productTerms) areUnweighted() bool         { return false }

func (f productTerms) check(k *call) error {
	if err := k.Accum.Takes(f.factors(k)); err != nil {
		return fmt.Errorf("%s: %w", k.d.Name, err)
	}
	return nil
}

func (f productTerms) ownError(k *call, p products, abs float64) float64 {
	return accumError(p, f.factors(k), k.Accum, abs, f.Accumulate)
}

// parts returns the matrix products of a contraction.
func (f productTerms) parts(k *call) ([]part, error) {
	x, err := f.newStack(k)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.d.Name, err)
	}
	dims := k.d.Operands[f.Result].Dims
	n := len(dims) - 2
	m, summed := dims[n], k.d.SummedOver()
	var list []part
	for i := range k.operands[f.Result].Matrices() {
		at := x.indices(dims[:n], i)
		add := func(rows, sums span) {
			list = append(list, part{
				left:  cut(x.matrix(f.Left, at), rows, sums, f.TransposeLeft),
				right: cut(x.matrix(f.Right, at), sums, span{0, x.sizes[dims[n+1]]}, f.TransposeRight),
				first: i*x.sizes[m] + rows.first, rows: rows.end - rows.first,
			})
		}
		all := span{0, x.sizes[m]}
		switch f.Groups.Of {
		case m:
			for g, rows := range x.groups {
				at[f.Groups.Number] = g
				add(rows, span{0, x.sizes[summed]})
			}
		case summed:
			add(all, x.groups[at[f.Groups.Number]])
		default:
			add(all, span{0, x.sizes[summed]})
		}
	}
	return list, nil
}

// span is the indices from first up to end.
type span struct{ first, end int }

// stack holds a contraction's operands and the sizes of their letters.
type stack struct {
	*call
	sizes  map[string]int
	groups []span
}

func (f productTerms) newStack(k *call) (*stack, error) {
	x := &stack{call: k, sizes: map[string]int{}}
	for _, name := range []string{k.d.Scales().Row, k.d.Scales().Col} {
		if i := k.d.Operand(name); i >= 0 {
			rows := []int{k.operands[f.Result].Rows, k.operands[f.Result].Cols}[slices.Index(k.d.Operands[f.Result].Dims, k.d.Operands[i].Dims[0])]
			if got := k.operands[i].Rows * k.operands[i].Cols; got != rows {
				return nil, fmt.Errorf("sizes do not fit: %s has %d values, want %d", name, got, rows)
			}
		}
	}
	for _, i := range []int{f.Left, f.Right, f.Result} {
		o, a := &k.d.Operands[i], &k.operands[i]
		sizes := []int{a.Rows / a.Matrices(), a.Cols}
		inner := len(o.BatchDims()) // the axes that are left for letters, from the last
		for j := a.Batch.Count - 1; j >= 0; j-- {
			if axis := a.Batch.Axes[j].Size; inner > 0 {
				sizes = slices.Insert(sizes, 0, axis)
				inner--
			} else {
				sizes[0] *= axis // further ones belong to the first letter, or to the rows
			}
		}
		if inner > 0 {
			return nil, fmt.Errorf("%s has %d batch axes, want %d", o.Name, a.Batch.Count, len(o.BatchDims()))
		}
		for j, letter := range o.Dims {
			if size, ok := x.sizes[letter]; ok && size != sizes[j] {
				return nil, fmt.Errorf("sizes do not fit: %s is %v, want %s = %d", o.Name, sizes, letter, size)
			}
			x.sizes[letter] = sizes[j]
		}
	}
	if f.Groups.Offsets == "" {
		return x, nil
	}
	offsets, at := &k.operands[k.d.Operand(f.Groups.Offsets)], 0
	for g := 1; g < offsets.Rows; g++ {
		x.groups = append(x.groups, span{at, int(offsets.Int(g, 0))})
		if at = x.groups[g-1].end; at < x.groups[g-1].first {
			break
		}
	}
	if len(x.groups) != x.sizes[f.Groups.Number] || offsets.Int(0, 0) != 0 || at != x.sizes[f.Groups.Of] || slices.ContainsFunc(x.groups, func(s span) bool { return s.end < s.first }) {
		return nil, fmt.Errorf("%s has %d values, want %d that ascend from 0 to %d", f.Groups.Offsets, offsets.Rows, x.sizes[f.Groups.Number]+1, x.sizes[f.Groups.Of])
	}
	return x, nil
}

// indices returns the index of each letter at position i, the last letter fastest.
func (x *stack) indices(letters []string, i int) map[string]int {
	at := map[string]int{}
	for _, l := range slices.Backward(letters) {
		at[l] = i % x.sizes[l]
		i /= x.sizes[l]
	}
	return at
}

func (x *stack) matrix(operand int, at map[string]int) num.Array {
	a := &x.operands[operand]
	letters := x.d.Operands[operand].BatchDims()
	if len(letters) == 0 {
		return *a
	}
	i := 0
	for _, l := range letters {
		i = i*x.sizes[l] + at[l]
	}
	return a.Matrix(i)
}

// cut returns a part of a matrix; if transposed, rows and columns are swapped.
func cut(a num.Array, rows, cols span, transposed bool) num.Array {
	if transposed {
		rows, cols = cols, rows
	}
	if rows.first > 0 || cols.first > 0 {
		a.Data = a.Data[min((rows.first*a.Stride+cols.first)*a.DType.Size(), len(a.Data)):]
	}
	a.Rows, a.Cols = rows.end-rows.first, cols.end-cols.first
	return a
}

func (f productTerms) terms(k *call) (func(r, c int) products, error) {
	parts, err := f.parts(k)
	if err != nil {
		return nil, err
	}
	result := &k.operands[f.Result]
	byRow := make([]int, result.Rows)
	for i, p := range parts {
		for r := range p.rows {
			byRow[p.first+r] = i
		}
	}
	type column struct{ part, c int }
	columns := map[column][]float64{}
	row, a := -1, []float64(nil)
	return func(r, c int) products {
		p := &parts[byRow[r]]
		if r != row {
			row, a = r, line(p.left, r-p.first, !f.TransposeLeft)
		}
		at := column{byRow[r], c}
		if columns[at] == nil {
			columns[at] = line(p.right, c, f.TransposeRight)
		}
		z := products{a: a, b: columns[at]}
		if f.Accumulate {
			z.init = float64(result.At(r, c))
		}
		return z
	}, nil
}

// line returns a row of an array, or a column.
func line(a num.Array, i int, isRow bool) []float64 {
	n := a.Rows
	if isRow {
		n = a.Cols
	}
	values := make([]float64, n)
	for j := range values {
		if isRow {
			values[j] = float64(a.At(i, j))
		} else {
			values[j] = float64(a.At(j, i))
		}
	}
	return values
}

// encloseAll encloses the elements of a contraction in out.
func (f productTerms) encloseAll(k *call, out []ball.Ball) error {
	if f.Ring.IsExact() {
		return f.encloseExact(k, out)
	}
	parts, err := f.parts(k)
	if err != nil {
		return err
	}
	for i := range parts {
		if err := f.enclosePart(k, &parts[i], out); err != nil {
			return err
		}
	}
	return nil
}

// enclosePart encloses the elements of one product. Both operands are widened once, into
// the factors of each row and of each column of the result. Four elements are computed at a
// time, so that each factor that is loaded is used twice.
func (f productTerms) enclosePart(k *call, z *part, out []ball.Ball) error {
	rows := lines(z.left, !f.TransposeLeft)
	cols := lines(z.right, f.TransposeRight)
	result := &k.operands[f.Result]
	for r := 0; r < len(rows); r += 2 {
		if err := k.ended(); err != nil {
			return err
		}
		for c := 0; c < len(cols); c += 2 {
			R, C := [2]int{r, min(r+1, len(rows)-1)}, [2]int{c, min(c+1, len(cols)-1)}
			dot, abs := dots(rows[R[0]], rows[R[1]], cols[C[0]], cols[C[1]])
			for q := range 4 {
				r, c := R[q/2], C[q%2]
				p := products{a: rows[r], b: cols[c]}
				if f.Accumulate {
					p.init = float64(result.At(z.first+r, c))
				}
				i, sum := (z.first+r)*len(cols)+c, bounded(p, dot[q], abs[q])
				if k.keep != nil {
					k.keep(i, p, sum)
					continue
				}
				out[i] = k.encloseScaled(sums{f}.encloseSum(k, p, sum), z.first+r, c)
			}
		}
	}
	return nil
}

// scalesOf returns the values by which the sum of an element is multiplied, in order.
func (k *call) scalesOf(r, c int) []float64 {
	var scales []float64
	if i := k.d.Operand(k.d.Scales().Row); i >= 0 {
		scales = append(scales, float64(k.operands[i].At(r, 0)))
	}
	if i := k.d.Operand(k.d.Scales().Col); i >= 0 {
		scales = append(scales, float64(k.operands[i].At(c, 0)))
	}
	return scales
}

// encloseScaled encloses a sum times its scales; in mode Rounded, each product is a step.
func (k *call) encloseScaled(sum ball.Ball, r, c int) ball.Ball {
	if !k.d.HasScales() {
		return sum
	}
	one := []ball.Ball{sum}
	for _, scale := range k.scalesOf(r, c) {
		one[0] = one[0].Mul(ball.FromFloat64(scale))
		roundingOf(k.Options, ball.Ball{}).step(one, unit, tiny)
	}
	return one[0]
}

// lines returns the rows of an array, or its columns.
func lines(a num.Array, areRows bool) [][]float64 {
	if areRows {
		z := matrix(a.Rows, a.Cols)
		for r := range z {
			widen(z[r], a, r)
		}
		return z
	}
	// Rows are read eight at a time, so that writes to a column fill a cache line.
	const block = 8
	z, rows := matrix(a.Cols, a.Rows), matrix(block, a.Cols)
	for first := 0; first < a.Rows; first += block {
		n := min(block, a.Rows-first)
		for i := range n {
			widen(rows[i], a, first+i)
		}
		for c := range z {
			for i := range n {
				z[c][first+i] = rows[i][c]
			}
		}
	}
	return z
}

func matrix(rows, cols int) [][]float64 {
	values := make([]float64, rows*cols)
	z := make([][]float64, rows)
	for r := range z {
		z[r] = values[r*cols:][:cols]
	}
	return z
}

// widen reads a row: num.Array.At of each element, with the format looked up once.
func widen(to []float64, a num.Array, r int) {
	data := a.Row(r)
	switch a.DType {
	case num.F16:
		for c := range to {
			to[c] = float64(num.F16ToF32(binary.LittleEndian.Uint16(data[2*c:])))
		}
	case num.BF16:
		for c := range to {
			to[c] = float64(num.BF16ToF32(binary.LittleEndian.Uint16(data[2*c:])))
		}
	case num.F32:
		for c := range to {
			to[c] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*c:])))
		}
	case num.E4M3, num.E5M2:
		for c := range to {
			to[c] = float64(num.Widen(a.DType, uint32(data[c])))
		}
	}
}

// dots returns the float64 sums of products of a0·b0, a0·b1, a1·b0 and a1·b1, and of
// their magnitudes. Products of binary32 numbers are exact in float64, so that fusing
// one with an addition changes nothing.
func dots(a0, a1, b0, b1 []float64) (sums, abs [4]float64) {
	var s00, s01, s10, s11, t00, t01, t10, t11 float64
	a1, b0, b1 = a1[:len(a0)], b0[:len(a0)], b1[:len(a0)]
	for k, x := range a0 {
		y, u, v := a1[k], b0[k], b1[k]
		p00, p01, p10, p11 := x*u, x*v, y*u, y*v
		s00, s01, s10, s11 = s00+p00, s01+p01, s10+p10, s11+p11
		t00, t01, t10, t11 = t00+math.Abs(p00), t01+math.Abs(p01), t10+math.Abs(p10), t11+math.Abs(p11)
	}
	return [4]float64{s00, s01, s10, s11}, [4]float64{t00, t01, t10, t11}
}

// bounded adds the old value, and bounds the error as exact.Float64 does: there are K+1
// terms, so the sum is off by K·2^-53·A at most, and the computed A by as much of itself
// (Jeannerod and Rump 2013, any order).
func bounded(p products, sum, abs float64) exact.Product {
	K := float64(len(p.a))
	z := exact.Product{Sum: sum + p.init, Abs: abs + math.Abs(p.init)}
	z.Abs *= 1 + (K+4)*0x1p-52
	z.Err = z.Abs * K * (0x1p-53 * (1 + 0x1p-50))
	if !(z.Abs <= math.MaxFloat64) {
		z.Err, z.Abs = math.Inf(1), math.Inf(1)
	}
	return z
}
