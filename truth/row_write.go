package truth

import (
	"fmt"

	"tokitai/def"
	"tokitai/num"
)

// writeTerms has the terms of a row write: the value that was written last, or the old one.
type writeTerms struct{ *def.RowWrite }

func (f writeTerms) result() int                             { return f.Table }
func (f writeTerms) factors(k *call) num.DType               { return k.operands[f.Rows].DType }
func (writeTerms) areUnweighted() bool                       { return true }
func (writeTerms) check(*call) error                         { return nil }
func (writeTerms) ownError(*call, products, float64) float64 { return 0 }

func (f writeTerms) terms(k *call) (func(r, c int) products, error) {
	index, rows, table := k.operands[f.Index], k.operands[f.Rows], k.operands[f.Table]
	if index.Rows != rows.Rows || rows.Cols != table.Cols {
		return nil, fmt.Errorf("%s: sizes do not fit: %d indices, %d×%d rows, into %d×%d", k.d.Name, index.Rows, rows.Rows, rows.Cols, table.Rows, table.Cols)
	}
	writer := map[int]int{}
	for q := index.Rows - 1; q >= 0; q-- {
		v := int(index.Int(q, 0))
		if _, isWritten := writer[v]; !isWritten {
			writer[v] = q
		}
	}
	return func(v, c int) products {
		if q, isWritten := writer[v]; isWritten {
			return products{init: float64(rows.At(q, c))}
		}
		return products{init: float64(table.At(v, c))}
	}, nil
}
