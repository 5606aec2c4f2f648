package reference

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/num"
)

// runContraction computes one matrix product for each index of the batch axes, and of
// the groups.
func runContraction(d *def.Definition, operands []num.Array, o *Options) error {
	if err := o.Model.Takes(operands[0].DType); err != nil {
		return fmt.Errorf("%s: %w", d.Name, err)
	}
	x, err := newAxes(d, operands)
	if err != nil {
		return err
	}
	letters := slices.DeleteFunc(slices.Clone(d.Operands[2].BatchDims()), func(l string) bool { return l == d.Group })
	if d.Group != "" {
		letters = append(letters, d.Group)
	}
	return x.each(letters, map[string]int{}, func(at map[string]int) error { return x.product(at, o) })
}

// axes is a contraction with the sizes of its letters.
type axes struct {
	d        *def.Definition
	operands []num.Array
	sizes    map[string]int
}

func newAxes(d *def.Definition, operands []num.Array) (*axes, error) {
	x := &axes{d: d, operands: operands, sizes: map[string]int{}}
	for i := range d.Operands {
		o, a := &d.Operands[i], &operands[i]
		if o.Name == d.Offsets {
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
// those that have a letter count as parts of the first.
func sizesOf(o *def.Operand, a *num.Array) ([]int, error) {
	letters := len(o.BatchDims())
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
	return append(sizes, a.Rows/a.Matrices(), a.Cols), nil
}

// checkOffsets returns an error unless the offsets ascend from 0 to the size that they
// divide.
func (x *axes) checkOffsets() error {
	if x.d.Offsets == "" {
		return nil
	}
	offsets, last := &x.operands[3], 0
	if offsets.Rows != x.sizes[x.d.Group]+1 {
		return fmt.Errorf("%s: sizes do not fit: %d offsets, want %d", x.d.Name, offsets.Rows, x.sizes[x.d.Group]+1)
	}
	for g := range offsets.Rows {
		v := int(offsets.Int(g, 0))
		isEnd := g == offsets.Rows-1
		if g == 0 && v != 0 || v < last || isEnd && v != x.sizes[x.d.Grouped] {
			return fmt.Errorf("%s: %s[%d] is %d, want offsets that ascend from 0 to %d", x.d.Name, x.d.Offsets, g, v, x.sizes[x.d.Grouped])
		}
		last = v
	}
	return nil
}

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
	if letter != x.d.Grouped || letter == "" {
		return 0, x.sizes[letter]
	}
	g := at[x.d.Group]
	return int(x.operands[3].Int(g, 0)), int(x.operands[3].Int(g+1, 0))
}

// product computes one matrix product, each element on its own.
func (x *axes) product(at map[string]int, o *Options) error {
	left, right, result := x.matrix(0, at), x.matrix(1, at), x.matrix(2, at)
	dims := x.d.Operands[2].Dims
	firstRow, endRow := x.part(dims[len(dims)-2], at)
	firstK, endK := x.part(x.d.SummedOver(), at)
	a, b := make([]uint32, endK-firstK), make([]uint32, endK-firstK)
	for r := firstRow; r < endRow; r++ {
		if err := o.err(); err != nil {
			return err
		}
		for k := range a {
			if x.d.TransposeLeft {
				a[k] = left.Bits(firstK+k, r)
			} else {
				a[k] = left.Bits(r, firstK+k)
			}
		}
		for c := range result.Cols {
			for k := range b {
				if x.d.TransposeRight {
					b[k] = right.Bits(c, firstK+k)
				} else {
					b[k] = right.Bits(firstK+k, c)
				}
			}
			var old *float32
			if x.d.Accumulate {
				v := result.At(r, c)
				old = &v
			}
			result.Set(r, c, sum(o.Model, left.DType, a, b, old))
		}
	}
	return nil
}

// sum returns the sum of the products of a and b, patterns of d, and of the old result if
// there is one. Without products it is the old result, or +0.
func sum(m def.Model, d num.DType, a, b []uint32, old *float32) float32 {
	first := float32(0)
	if old != nil {
		first = *old
	}
	if len(a) == 0 {
		return first
	}
	if m.P == 0 {
		return chain(m, d, a, b, first)
	}
	var sums []float32
	depth := m.PanelDepth(len(a))
	for k := 0; k < len(a); k += depth {
		end := min(k+depth, len(a))
		sums = append(sums, chain(m.Inner(), d, a[k:end], b[k:end], 0))
	}
	for len(sums) > 1 {
		var next []float32
		for i := 0; i < len(sums); i += 2 {
			if i+1 < len(sums) {
				next = append(next, sums[i]+sums[i+1])
			} else {
				next = append(next, sums[i]) // its neighbour is empty
			}
		}
		sums = next
	}
	if old != nil {
		sums[0] += *old
	}
	return sums[0]
}

// chain adds the products in ascending order, each step rounded as the model says.
func chain(m def.Model, d num.DType, a, b []uint32, acc float32) float32 {
	if m != def.FMAChain {
		return num.MMA{L: m.L, F: m.F}.Dot(d, a, b, acc)
	}
	for k := range a {
		acc = num.FMA(num.Widen(d, a[k]), num.Widen(d, b[k]), acc)
	}
	return acc
}
