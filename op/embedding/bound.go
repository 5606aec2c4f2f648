package embedding

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/num"
)

var forwardBounds = []bound.Form{
	{
		Output: "out",
		Text:   []string{"bound = 0, and y is the truth itself: bits are copied"},
		At:     func(*bound.Call) func(r, c int) float64 { return func(int, int) float64 { return 0 } },
	},
}

var backwardBounds = []bound.Form{
	{
		Output: "dweight",
		Text: []string{
			"bound = 0 for dout in f16: the sum is exact",
			"bound = g(min(n,64) + ceil(n/64)) * sum |dout[q,d]| over the n queries with that index otherwise; |dweight| joins the sum when accumulating",
		},
		At: scatterBound,
	},
}

func scatterBound(call *bound.Call) func(r, c int) float64 {
	d := call.Definition
	index, rows, old := call.Matrix(d.Operands[0].Name), call.Matrix(d.Operands[1].Name), call.Matrix(d.Operands[2].Name)
	if call.Operands[1].DType == num.F16 {
		return func(int, int) float64 { return 0 }
	}
	return func(v, c int) float64 {
		sum, n := 0.0, 0
		for q := range index.Rows {
			if int(index.At(q, 0)) == v {
				sum += math.Abs(rows.At(q, c))
				n++
			}
		}
		if d.Accumulates() {
			sum += math.Abs(old.At(v, c))
		}
		return bound.Gamma(min(n, def.ScatterChunk)+(n+def.ScatterChunk-1)/def.ScatterChunk) * sum
	}
}
