package cases

import (
	"fmt"
	"math"

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
			t.fillOffsets(c, p, seed, o, a, key, size)
		case o.IsLengths || o.Lengths != "":
			size := func(letter string) int { n, _ := c.Size(letter); return n }
			trial.FillIndex(t.Definition, i, operands, size, func(row, col, limit int) int {
				g.Place(key, row+rowFrom, col+colFrom)
				return p.offset(o).PageOf(&g, (row+rowFrom)*a.Cols+col+colFrom, limit)
			})
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
	if seed := gen.New(c.Name(t)).Next() ^ gen.Seeded(seed).Next(); seed%2 == 0 {
		spoilUnread(t.Definition, c, operands)
	}
	if p.isSaved != nil {
		t.fillSaved(c, p, seed, operands)
	}
	if p.place != nil {
		p.place(t.Definition, c, operands)
	}
	if c.IsInside {
		t.bringInside(c, operands)
	}
}

// spoilUnread writes NaN to the places of pages that no sequence has: to those behind a sequence's last row,
// and to pages that no table names.
func spoilUnread(d *def.Definition, c *Case, operands []num.Array) {
	size := func(letter string) int { n, _ := c.Size(letter); return n }
	for i := range d.Operands {
		table := &d.Operands[i]
		if table.Each == "" {
			continue
		}
		pages, each := size(table.Bound), size(table.Each)
		isRead := make([]bool, pages*each)
		lengths := operands[d.Operand(table.Lengths)]
		for b := range lengths.Rows {
			for place := range int(lengths.Int(b, 0)) {
				isRead[int(operands[i].Int(b, place/each))*each+place%each] = true
			}
		}
		for k := range d.Operands {
			o, a := &d.Operands[k], operands[k]
			if !o.IsIn || o.IsInt() || len(o.Dims) < 2 || o.Dims[0] != table.Bound || o.Dims[1] != table.Each {
				continue
			}
			rows := a.Rows / len(isRead)
			for r := range a.Rows {
				for col := 0; col < a.Cols && !isRead[r/rows]; col++ {
					a.Set(r, col, float32(math.NaN()))
				}
			}
		}
	}
}

// fillSaved gives inputs that are results of another definition the values that it computes from the
// other inputs of the case. They depend on all of them, and not on the place alone.
func (t *Target) fillSaved(c *Case, p *Pattern, seed uint64, operands []num.Array) {
	d, saved := t.Definition, t.Operation.SavedBy(t.Definition)
	var results []num.Array
	for i := range d.Operands {
		if p.isSaved(d.Operands[i].Name) {
			results = append(results, operands[i])
		}
	}
	n := 0
	for _, a := range results {
		n += a.Rows * a.Cols
	}
	isBuilt := false
	build := func() []float32 {
		isBuilt = true
		if err := saved.Fill(operands, t.Params(c), p.isSaved); err != nil {
			panic("verify/cases: " + err.Error()) // inputs are those that a definition accepts
		}
		all := make([]float32, 0, n)
		for _, a := range results {
			for r := range a.Rows {
				row := make([]float32, a.Cols)
				a.Floats(r, row)
				all = append(all, row...)
			}
		}
		return all
	}
	var all []float32
	if t.Values != nil {
		all = t.Values(fmt.Sprintf("%s/%s/saved/%d/%d/%v", c.Pattern, c.SizesText(), c.Params, seed, c.Formats), n, build)
	}
	switch {
	case all == nil:
		build()
	case !isBuilt:
		for _, a := range results {
			for r := range a.Rows {
				a.SetFloats(r, all[:a.Cols])
				all = all[a.Cols:]
			}
		}
	}
}

// bringInside replaces indices outside of their tables by others inside.
func (t *Target) bringInside(c *Case, operands []num.Array) {
	d := t.Definition
	for i := range d.Operands {
		o, a := &d.Operands[i], operands[i]
		if !o.IsIndex || !o.IsIn || o.IsOffsets || o.IsLengths || o.Lengths != "" {
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

// fillOffsets divides the size of a case into groups, as its pattern says or at random; some may be empty. Axes that are divided into sequences are, in three cases of four, divided in the same
// ratios, so that a sequence has queries and keys.
func (t *Target) fillOffsets(c *Case, p *Pattern, seed uint64, o *def.Operand, a num.Array, key uint64, size int) {
	cut := p.offset(o)
	if cut == nil {
		cut = func(g *gen.Generator, _, bound int) int { return g.Below(bound + 1) }
	}
	if p.offset(o) == nil && t.Definition.HasSequences() {
		if shared := gen.New(c.Pattern+"/"+c.SizesText()).Next() ^ gen.Seeded(seed).Next(); shared%4 != 0 {
			key = shared
			cut = func(g *gen.Generator, _, bound int) int { return int(g.Next() >> 32 * uint64(bound+1) >> 32) }
		}
	}
	trial.FillOffsets(a, size, func(i int) int {
		var g gen.Generator
		g.Place(key, i, 0)
		return max(0, min(cut(&g, i, size), size))
	})
}
