package reference

import (
	"fmt"

	"tokitai/def"
	"tokitai/num"
)

// runRowWrite copies rows into the table one after another, bit for bit.
func runRowWrite(d *def.Definition, f *def.RowWrite, operands []num.Array) error {
	index, rows, table := operands[f.Index], operands[f.Rows], operands[f.Table]
	if index.Rows != rows.Rows || rows.Cols != table.Cols {
		return fmt.Errorf("%s: sizes do not fit: %d indices, %d×%d rows, into %d×%d", d.Name, index.Rows, rows.Rows, rows.Cols, table.Rows, table.Cols)
	}
	for q := range index.Rows {
		v := int(index.Int(q, 0))
		if v < 0 || v >= table.Rows {
			continue
		}
		for c := range rows.Cols {
			table.SetBits(v, c, rows.Bits(q, c))
		}
	}
	return nil
}
