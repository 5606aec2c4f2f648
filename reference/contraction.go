package reference

import (
	"fmt"

	"tokitai/def"
	"tokitai/num"
)

// runContraction computes one matrix product for each index of the batch axes, and of
// the groups.
func runContraction(d *def.Definition, f *def.Product, operands []num.Array, o *Options) error {
	if err := o.Accum.Takes(operands[f.Left].DType); err != nil {
		return fmt.Errorf("%s: %w", d.Name, err)
	}
	x, err := newAxes(d, f, operands)
	if err != nil {
		return err
	}
	if f.Ring.IsExact() {
		return x.exactProduct(o)
	}
	var letters []string
	for _, a := range d.Axes() {
		if a.Role == def.Batch || a.Role == def.Group {
			letters = append(letters, a.Letter)
		}
	}
	return x.each(letters, map[string]int{}, func(at map[string]int) error { return x.product(at, o) })
}

// axes is a contraction with the sizes of its letters.
type axes struct {
	d        *def.Definition
	f        *def.Product
	operands []num.Array
	sizes    map[string]int
}

func newAxes(d *def.Definition, f *def.Product, operands []num.Array) (*axes, error) {
	x := &axes{d: d, f: f, operands: operands, sizes: map[string]int{}}
	for i := range d.Operands {
		o, a := &d.Operands[i], &operands[i]
		if o.IsOffsets {
			continue
		}
		sizes, err := sizesOf(o, a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		for k, letter := range o.Dims {
			if known, ok := x.sizes[letter]; ok && known != sizes[k] {
				return nil, fmt.Errorf("%s: sizes do not fit: %s = %d in %s, want %d", d.Name, letter, sizes[k], o.Name, known)
			}
			x.sizes[letter] = sizes[k]
		}
	}
	return x, x.checkOffsets()
}

// sizesOf returns the sizes of an operand, as its letters have them. Batch axes beyond
// those that have a letter count as parts of the first. A stack of no matrices gives 0 rows for each.
func sizesOf(o *def.Operand, a *num.Array) ([]int, error) {
	letters := len(o.BatchDims())
	if len(o.Dims) == 1 {
		return []int{a.Rows * a.Cols}, nil
	}
	if letters == 0 {
		return []int{a.Rows, a.Cols}, nil
	}
	more := a.Batch.Count - letters
	if more < 0 {
		return nil, fmt.Errorf("%s has %d batch axes, want %d", o.Name, a.Batch.Count, letters)
	}
	sizes := []int{1}
	for i, axis := range a.Batch.Axes[:a.Batch.Count] {
		if i <= more {
			sizes[0] *= axis.Size
		} else {
			sizes = append(sizes, axis.Size)
		}
	}
	return append(sizes, a.Rows/max(1, a.Matrices()), a.Cols), nil
}

// checkOffsets returns an error unless the offsets ascend from 0 to the size that they
// divide.
func (x *axes) checkOffsets() error {
	if x.f.Groups.Offsets == "" {
		return nil
	}
	offsets, last := x.offsets(), 0
	if offsets.Rows != x.sizes[x.f.Groups.Number]+1 {
		return fmt.Errorf("%s: sizes do not fit: %d offsets, want %d", x.d.Name, offsets.Rows, x.sizes[x.f.Groups.Number]+1)
	}
	for g := range offsets.Rows {
		v := int(offsets.Int(g, 0))
		isEnd := g == offsets.Rows-1
		if g == 0 && v != 0 || v < last || isEnd && v != x.sizes[x.f.Groups.Of] {
			return fmt.Errorf("%s: %s[%d] is %d, want offsets that ascend from 0 to %d", x.d.Name, x.f.Groups.Offsets, g, v, x.sizes[x.f.Groups.Of])
		}
		last = v
	}
	return nil
}

func (x *axes) offsets() *num.Array { return &x.operands[x.d.Operand(x.f.Groups.Offsets)] }

// each calls do for every index of the letters.
func (x *axes) each(letters []string, at map[string]int, do func(at map[string]int) error) error {
	if len(letters) == 0 {
		return do(at)
	}
	for i := range x.sizes[letters[0]] {
		at[letters[0]] = i
		if err := x.each(letters[1:], at, do); err != nil {
			return err
		}
	}
	return nil
}

// matrix returns an operand's matrix at an index.
func (x *axes) matrix(operand int, at map[string]int) num.Array {
	i := 0
	for _, letter := range x.d.Operands[operand].BatchDims() {
		i = i*x.sizes[letter] + at[letter]
	}
	return x.operands[operand].Matrix(i)
}

// part returns the indices that a size covers in the product at an index: all of them,
// or those of the group.
func (x *axes) part(letter string, at map[string]int) (first, end int) {
	if letter != x.f.Groups.Of || letter == "" {
		return 0, x.sizes[letter]
	}
	g := at[x.f.Groups.Number]
	return int(x.offsets().Int(g, 0)), int(x.offsets().Int(g+1, 0))
}

// product computes one matrix product, row by row.
func (x *axes) product(at map[string]int, o *Options) error {
	left, right, result := x.matrix(x.f.Left, at), x.matrix(x.f.Right, at), x.matrix(x.f.Result, at)
	firstRow, endRow := x.part(x.d.AxisOf(def.Row), at)
	firstK, endK := x.part(x.d.SummedOver(), at)
	p := newProducts(o.Accum, left.DType, endK-firstK, result.Cols)
	line, row := make([]uint32, right.Cols), make([]uint32, x.sizes[x.d.SummedOver()])
	if !x.f.TransposeRight && p.isChain() {
		for k := range p.length {
			right.Floats(firstK+k, p.byK[k*p.cols:][:p.cols])
		}
	} else if x.f.TransposeRight {
		for c := range p.cols {
			right.Patterns(c, line)
			for k := range p.length {
				p.setRight(k, c, line[firstK+k])
			}
		}
	} else {
		for k := range p.length {
			right.Patterns(firstK+k, line)
			for c := range p.cols {
				p.setRight(k, c, line[c])
			}
		}
	}
	sums := make([]float32, result.Cols)
	for r := firstRow; r < endRow; r++ {
		if err := o.err(); err != nil {
			return err
		}
		if !x.f.TransposeLeft {
			left.Patterns(r, row)
		} else {
			for k := firstK; k < endK; k++ {
				row[k] = left.Bits(k, r)
			}
		}
		p.setLeft(row[firstK:endK])
		var old []float32
		if x.f.Accumulate {
			old = make([]float32, result.Cols)
			result.Floats(r, old)
		}
		p.sum(sums, old)
		x.scale(r, sums)
		result.SetFloats(r, sums)
	}
	return nil
}

// scale multiplies the sums of a row by its scale, and then each by that of its column.
func (x *axes) scale(row int, sums []float32) {
	if i := x.d.Operand(x.f.Scales.Row); i >= 0 {
		by := x.operands[i].At(row, 0)
		for c := range sums {
			sums[c] *= by
		}
	}
	if i := x.d.Operand(x.f.Scales.Col); i >= 0 {
		for c := range sums {
			sums[c] *= x.operands[i].At(c, 0)
		}
	}
}

// products are the factors of one row of a result.
type products struct {
	accum  def.Accum
	dtype  num.DType // of the factors
	length int       // of every sum
	cols   int       // number of sums

	// Model fma has values.
	left []float32 // by k
	byK  []float32 // the right factors of k, one for each column

	// Other models have patterns.
	leftRow []uint32   // by k
	columns [][]uint32 // the right factors of a column, by k
}

func newProducts(m def.Accum, d num.DType, length, cols int) *products {
	p := &products{accum: m, dtype: d, length: length, cols: cols}
	if p.isChain() {
		p.left, p.byK = make([]float32, length), make([]float32, length*cols)
		return p
	}
	p.columns = make([][]uint32, cols)
	for c := range p.columns {
		p.columns[c] = make([]uint32, length)
	}
	return p
}

// isChain reports whether every product is added by itself, with one rounding.
func (p *products) isChain() bool { return p.accum.Inner() == def.FMAChain }

// setLeft sets the left factors, which must not change until they have been used.
func (p *products) setLeft(patterns []uint32) {
	if !p.isChain() {
		p.leftRow = patterns
		return
	}
	for k, pattern := range patterns {
		p.left[k] = num.Widen(p.dtype, pattern)
	}
}

func (p *products) setRight(k, c int, pattern uint32) {
	if p.isChain() {
		p.byK[k*p.cols+c] = num.Widen(p.dtype, pattern)
	} else {
		p.columns[c][k] = pattern
	}
}

// sum sets sums to the sum of the products of every column, and of the old result if
// there is one. Without products it is the old result, or +0.
func (p *products) sum(sums, old []float32) {
	clear(sums)
	if p.accum.P == 0 || p.length == 0 {
		copy(sums, old)
		if p.length > 0 {
			p.chain(0, p.length, sums)
		}
		return
	}
	var panels [][]float32
	depth := p.accum.PanelDepth(p.length)
	for k := 0; k < p.length; k += depth {
		panel := make([]float32, p.cols)
		p.chain(k, min(k+depth, p.length), panel)
		panels = append(panels, panel)
	}
	for len(panels) > 1 {
		var next [][]float32
		for i := 0; i < len(panels); i += 2 {
			if i+1 < len(panels) { // else its neighbour is empty
				add(panels[i], panels[i+1])
			}
			next = append(next, panels[i])
		}
		panels = next
	}
	copy(sums, panels[0])
	if old != nil {
		add(sums, old)
	}
}

// add adds y to x.
func add(x, y []float32) {
	for c := range x {
		x[c] += y[c]
	}
}

// chain adds the products from first to end to the sum of every column in ascending order,
// each step rounded as the model says.
func (p *products) chain(first, end int, sums []float32) {
	if p.isChain() {
		for k := first; k < end; k++ {
			left, right := p.left[k], p.byK[k*p.cols:][:p.cols]
			switch {
			case p.dtype == num.F16 || p.dtype.IsFP8(): // their products are binary32: adding them is the only rounding
				for c, y := range right {
					sums[c] += float32(left * y)
				}
			case p.dtype == num.BF16:
				num.AddShortProducts(sums, left, right)
			default:
				num.AddProducts(sums, left, right)
			}
		}
		return
	}
	steps := p.accum.MMA()
	for c, right := range p.columns {
		sums[c] = steps.Dot(p.dtype, p.leftRow[first:end], right[first:end], sums[c])
	}
}
