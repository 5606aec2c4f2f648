package reference

import (
	"fmt"

	"tokitai/def"
	"tokitai/num"
)

// runGather copies rows, bit for bit.
func runGather(d *def.Definition, f *def.Lookup, operands []num.Array) error {
	index, table, out := operands[f.Index], operands[f.Table], operands[f.Out]
	if index.Rows != out.Rows || out.Cols != table.Cols {
		return fmt.Errorf("%s: sizes do not fit: %d indices, rows of %d, into %d×%d", d.Name, index.Rows, table.Cols, out.Rows, out.Cols)
	}
	for q := range out.Rows {
		v := int(index.Int(q, 0))
		for c := range out.Cols {
			bits := uint32(0)
			if v >= 0 && v < table.Rows {
				bits = table.Bits(v, c)
			}
			out.SetBits(q, c, bits)
		}
	}
	return nil
}
