package truth

import (
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/num"
)

// scatterTerms has the terms of a scatter-add: the rows whose index is that of the element.
type scatterTerms struct{ *def.Scatter }

func (f scatterTerms) result() int               { return f.Result }
func (f scatterTerms) factors(k *call) num.DType { return k.operands[f.Rows].DType }
func (scatterTerms) areUnweighted() bool         { return true }
func (scatterTerms) check(*call) error           { return nil }

func (f scatterTerms) ownError(k *call, p products, abs float64) float64 {
	if f.factors(k) == num.F16 {
		return 0 // exact until it is stored
	}
	return scatterError(len(p.a), f.Accumulate, abs)
}

func (f scatterTerms) terms(k *call) (func(r, c int) products, error) {
	index, rows, result := k.operands[f.Index], k.operands[f.Rows], k.operands[f.Result]
	if index.Rows != rows.Rows || rows.Cols != result.Cols {
		return nil, fmt.Errorf("%s: sizes do not fit: %d indices, %d×%d rows, into %d×%d", k.d.Name, index.Rows, rows.Rows, rows.Cols, result.Rows, result.Cols)
	}
	queries := make([][]int, result.Rows)
	longest := 0
	for q := range index.Rows {
		if v := int(index.Int(q, 0)); v >= 0 && v < result.Rows {
			queries[v] = append(queries[v], q)
			longest = max(longest, len(queries[v]))
		}
	}
	values, ones := make([]float64, longest), make([]float64, longest)
	for j := range ones {
		ones[j] = 1
	}
	return func(v, c int) products {
		n := len(queries[v])
		for j, q := range queries[v] {
			values[j] = float64(rows.At(q, c))
		}
		p := products{a: values[:n], b: ones[:n]}
		if f.Accumulate {
			p.init = float64(result.At(v, c))
		}
		return p
	}, nil
}

// scatterError bounds the error of a scatter-add. A term goes through the additions of its chunk
// except the first, which adds to +0, and those of the chunk sums, of which again the first adds
// to +0 unless there is an old value.
func scatterError(n int, accumulates bool, abs float64) float64 {
	if n == 0 {
		return 0
	}
	h := min(n, def.ScatterChunk) - 1 + (n+def.ScatterChunk-1)/def.ScatterChunk - 1
	if accumulates {
		h++
	}
	g := gamma(h)
	if !(abs*(1+g) <= math.MaxFloat32) {
		return math.Inf(1)
	}
	return abs * g
}
