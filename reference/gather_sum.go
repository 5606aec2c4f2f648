package reference

import (
	"fmt"

	"tokitai/def"
	"tokitai/num"
)

// runGatherSum adds the rows that the indices of a query name, one after another.
func runGatherSum(d *def.Definition, f *def.LookupSum, operands []num.Array, o *Options) error {
	index, table, out := operands[f.Index], operands[f.Table], operands[f.Out]
	if index.Rows != out.Rows || out.Cols != table.Cols {
		return fmt.Errorf("%s: sizes do not fit: %d rows of indices, rows of %d, into %d×%d", d.Name, index.Rows, table.Cols, out.Rows, out.Cols)
	}
	if f.IsWeighted() && (operands[f.Weight].Rows != index.Rows || operands[f.Weight].Cols != index.Cols) {
		return fmt.Errorf("%s: sizes do not fit: %d×%d weights for %d×%d indices", d.Name, operands[f.Weight].Rows, operands[f.Weight].Cols, index.Rows, index.Cols)
	}
	for q := range out.Rows {
		if err := o.err(); err != nil {
			return err
		}
		for c := range out.Cols {
			sum := float32(0)
			for s := range index.Cols {
				v := int(index.Int(q, s))
				switch {
				case v < 0 || v >= table.Rows:
				case f.IsWeighted():
					sum = num.FMA(operands[f.Weight].At(q, s), table.At(v, c), sum)
				default:
					sum += table.At(v, c)
				}
			}
			out.Set(q, c, sum)
		}
	}
	return nil
}
