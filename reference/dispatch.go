package reference

import (
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/num"
)

// runDispatch lists the choices of every expert, and numbers them.
func runDispatch(d *def.Definition, f *def.Sort, operands []num.Array) error {
	index, counts, offsets := operands[f.Index], operands[f.Counts], operands[f.Offsets]
	source, slot, place := operands[f.Source], operands[f.Slot], operands[f.Place]
	for _, a := range []num.Array{source, slot, place} {
		if a.Rows != index.Rows || a.Cols != index.Cols {
			return fmt.Errorf("%s: sizes do not fit: %d×%d indices, into %d×%d", d.Name, index.Rows, index.Cols, a.Rows, a.Cols)
		}
	}
	if offsets.Rows != counts.Rows+1 {
		return fmt.Errorf("%s: sizes do not fit: %d offsets of %d experts", d.Name, offsets.Rows, counts.Rows)
	}
	if index.Rows*index.Cols > math.MaxInt32 {
		return fmt.Errorf("%s: %d×%d indices, want at most 2^31-1", d.Name, index.Rows, index.Cols)
	}
	put := func(a num.Array, i, v int) { a.SetBits(i/a.Cols, i%a.Cols, uint32(int32(v))) }
	choices := make([][]int, counts.Rows) // of each expert
	for t := range index.Rows {
		for s := range index.Cols {
			i, e := t*index.Cols+s, int(index.Int(t, s))
			put(place, i, -1)
			put(source, i, -1)
			put(slot, i, -1)
			if e >= 0 && e < counts.Rows {
				choices[e] = append(choices[e], i)
			}
		}
	}
	r := 0
	for e, list := range choices {
		put(counts, e, len(list))
		put(offsets, e, r)
		for _, i := range list {
			put(source, r, i/index.Cols)
			put(slot, r, i)
			put(place, i, r)
			r++
		}
	}
	put(offsets, counts.Rows, r)
	return nil
}
