package truth

import (
	"fmt"

	"tokitai/def"
	"tokitai/num"
)

// lookupTerms has the terms of a gather: none, or only the copied value.
type lookupTerms struct{ *def.Lookup }

func (f lookupTerms) result() int                             { return f.Out }
func (f lookupTerms) factors(k *call) num.DType               { return k.operands[f.Table].DType }
func (lookupTerms) areUnweighted() bool                       { return true }
func (lookupTerms) check(*call) error                         { return nil }
func (lookupTerms) ownError(*call, products, float64) float64 { return 0 }

func (f lookupTerms) terms(k *call) (func(r, c int) products, error) {
	index, table, out := k.operands[f.Index], k.operands[f.Table], k.operands[f.Out]
	if index.Rows != out.Rows || out.Cols != table.Cols {
		return nil, fmt.Errorf("%s: sizes do not fit: %d indices, rows of %d, into %d×%d", k.d.Name, index.Rows, table.Cols, out.Rows, out.Cols)
	}
	return func(q, c int) products {
		v := int(index.Int(q, 0))
		if v < 0 || v >= table.Rows {
			return products{}
		}
		return products{init: float64(table.At(v, c))}
	}, nil
}
