package truth

import (
	"fmt"

	"tokitai/def"
	"tokitai/num"
)

// lookupSumTerms has the terms of a gather-sum: the rows that the indices of a query name.
type lookupSumTerms struct{ *def.LookupSum }

func (f lookupSumTerms) result() int         { return f.Out }
func (f lookupSumTerms) areUnweighted() bool { return !f.IsWeighted() }
func (lookupSumTerms) check(*call) error     { return nil }

// factors returns binary32 where a factor is stored so: products are not exact then.
func (f lookupSumTerms) factors(k *call) num.DType {
	if f.IsWeighted() && k.operands[f.Weight].DType == num.F32 {
		return num.F32
	}
	return k.operands[f.Table].DType
}

// ownError bounds a chain from +0. Without weights, the first addition is exact whatever the format.
func (f lookupSumTerms) ownError(k *call, p products, abs float64) float64 {
	return chainError(p, !f.IsWeighted() || f.factors(k) != num.F32, abs)
}

func (f lookupSumTerms) terms(k *call) (func(r, c int) products, error) {
	index, table, out := k.operands[f.Index], k.operands[f.Table], k.operands[f.Out]
	if index.Rows != out.Rows || out.Cols != table.Cols {
		return nil, fmt.Errorf("%s: sizes do not fit: %d rows of indices, rows of %d, into %d×%d", k.d.Name, index.Rows, table.Cols, out.Rows, out.Cols)
	}
	weights, rows := make([]float64, 0, index.Cols), make([]int, 0, index.Cols)
	values, row := make([]float64, index.Cols), -1
	return func(q, c int) products {
		if q != row {
			row, weights, rows = q, weights[:0], rows[:0]
			for s := range index.Cols {
				if v := int(index.Int(q, s)); v >= 0 && v < table.Rows {
					w := 1.0
					if f.IsWeighted() {
						w = float64(k.operands[f.Weight].At(q, s))
					}
					rows, weights = append(rows, v), append(weights, w)
				}
			}
		}
		for j, v := range rows {
			values[j] = float64(table.At(v, c))
		}
		return products{a: values[:len(rows)], b: weights}
	}, nil
}
