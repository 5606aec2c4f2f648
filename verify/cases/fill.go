package cases

import (
	"fmt"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/trial"
)

// Fill writes the inputs of a case. Each value depends on the seed, the operand's name
// and the place alone, so that a part of a tensor keeps its values.
func (t *Target) Fill(c *Case, seed uint64, operands []num.Array) {
	p := t.Pattern(c.Pattern)
	counted, shift := 0, 0
	for i := range t.Definition.Operands {
		o, a := &t.Definition.Operands[i], operands[i]
		if !o.IsIn {
			continue
		}
		key := gen.New(c.Pattern+"/"+o.Name).Next() ^ gen.Seeded(seed).Next()
		var g gen.Generator
		rowFrom, colFrom := c.origin(o)
		switch {
		case o.IsOffsets:
			size, _ := c.Size(o.Bound)
			fillOffsets(a, key, size)
		case o.IsIndex:
			index := p.index(o)
			bound, _ := c.Size(o.Bound)
			except := t.Params(c)
			trial.FillBits(a, func(r, col int) uint32 {
				g.Place(key, r+rowFrom, col+colFrom)
				if c.Params > 0 && o.Except != "" && (r%3 == 1 || c.Params%16 == 5) { // now and then all of them
					return uint32(int32(except[t.Definition.Param(o.Except)]))
				}
				return uint32(int32(index(&g, r+rowFrom, bound)))
			})
		case counted < p.counts:
			bits := 8 * a.DType.Size()
			trial.FillBits(a, func(r, col int) uint64 {
				count := uint64(r+rowFrom)*uint64(a.Cols) + uint64(col+colFrom)
				return count >> shift & (1<<bits - 1)
			})
			counted, shift = counted+1, shift+bits
		case p.isRaw || p.ints[o.Name] != nil:
			row, integer := uint64(0), p.ints[o.Name]
			trial.FillBits(a, func(r, col int) uint64 {
				if col == 0 {
					row = gen.Row(c.matrixKey(o, a, key, r), a.RowIn(r)+rowFrom)
				}
				g.PlaceIn(row, col+colFrom)
				if integer != nil {
					return uint64(integer(&g, a.RowIn(r)+rowFrom, col+colFrom))
				}
				bits := g.Next()
				if a.DType == num.F32 && g.Below(16) == 0 {
					bits |= 1<<23 - 1
				}
				return bits
			})
		default:
			t.fillFloats(c, seed, o, a, p.value(o), key)
		}
	}
	if p.place != nil {
		p.place(t.Definition, c, operands)
	}
	if c.IsInside {
		t.bringInside(c, operands)
	}
}

// bringInside replaces indices outside of their tables by others inside.
func (t *Target) bringInside(c *Case, operands []num.Array) {
	d := t.Definition
	for i := range d.Operands {
		o, a := &d.Operands[i], operands[i]
		if !o.IsIndex || !o.IsIn || o.IsOffsets {
			continue
		}
		bound, _ := c.Size(o.Bound)
		for r := range a.Rows {
			for col := range a.Cols {
				v := int(a.Int(r, col))
				if o.Except != "" && v == int(t.Params(c)[d.Param(o.Except)]) {
					continue
				}
				a.SetBits64(r, col, uint64((v%bound+bound)%bound))
			}
		}
	}
}

// fillFloats fills an operand with values, each rounded once to its format.
func (t *Target) fillFloats(c *Case, seed uint64, o *def.Operand, a num.Array, value op.Element, key uint64) {
	rowFrom, colFrom := c.origin(o)
	var g gen.Generator
	set := func(r int, values []float32) {
		at := a.RowIn(r) + rowFrom
		row := gen.Row(c.matrixKey(o, a, key, r), at)
		for col := range values {
			g.PlaceIn(row, col+colFrom)
			values[col] = value(&g, at, col+colFrom)
		}
	}
	name := fmt.Sprintf("%s/%s/%s/%d", c.Pattern, c.SizesText(), o.Name, seed)
	build := func() []float32 {
		all := make([]float32, a.Rows*a.Cols)
		for r := range a.Rows {
			set(r, all[r*a.Cols:][:a.Cols])
		}
		return all
	}
	var all []float32
	if t.Values != nil {
		all = t.Values(name, a.Rows*a.Cols, build)
	}
	if row, ok := a.AsRow(); ok && all != nil {
		row.SetFloats(0, all)
		return
	}
	row := make([]float32, a.Cols)
	for r := range a.Rows {
		if all != nil {
			row = all[r*a.Cols:][:a.Cols]
		} else {
			set(r, row)
		}
		a.SetFloats(r, row)
	}
}

// origin is where an operand's first element lies.
func (c *Case) origin(o *def.Operand) (row, col int) {
	switch {
	case len(o.Dims) >= 2: // of a matrix
		_, row = c.Size(o.Dims[len(o.Dims)-2])
		_, col = c.Size(o.Dims[len(o.Dims)-1])
	case len(o.Dims) == 1 && o.Extent == def.PerColumn:
		_, col = c.Size(o.Dims[0])
	case len(o.Dims) == 1:
		_, row = c.Size(o.Dims[0])
	}
	return row, col
}

// matrixKey returns the key of the values of one matrix of a stack, by its place in the
// whole.
func (c *Case) matrixKey(o *def.Operand, a num.Array, key uint64, row int) uint64 {
	for k, letter := range o.BatchDims() {
		per, n := trial.AxisOf(o, a, k)
		_, from := c.Size(letter)
		key = gen.Seeded(key ^ uint64(row/per%n+from+1)<<32).Next()
	}
	return key
}

// fillOffsets divides the size that a case has into groups, of which some may be empty.
func fillOffsets(a num.Array, key uint64, size int) {
	trial.FillOffsets(a, size, func(i int) int {
		var g gen.Generator
		g.Place(key, i, 0)
		return g.Below(size + 1)
	})
}
