package norm

import (
	"math"

	"tokitai/bound"
)

const u = bound.U

var squareSumBounds = []bound.Form{
	{
		Output: "total",
		Text: []string{
			"bound = g(k+1) * total + n*2^-149 for one tensor of n elements, k = h(n) for n <= 65,536, else 20 + h(ceil(n/65,536)) and so on",
			"several tensors: k is the largest of theirs, plus h(number of tensors), and n counts the elements of all",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			limit := squareSumBound(call.Matrix("x").Values)
			return func(int, int) float64 { return limit }
		},
	},
}

var clipBounds = []bound.Form{
	{
		// Here the total is the input, so its bound is none.
		Output: "norm",
		Text: []string{
			"bound = bound(total)/(1.9*norm) + 1.1*u*norm where bound(total) <= total/32, else 1.001*sqrt(bound(total)) + 1.1*u*norm",
			"total and its bound as in norm.square_sum",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			total := call.Matrix("total")
			return func(r, c int) float64 { return normBound(total.At(r, c), 0) }
		},
	},
	{
		Output: "factor",
		Text:   []string{"bound = factor * (bound(total)/(1.9*total) + 2.1*u) + 2^-149 where bound(total) <= total/32, else 1, as for any two factors"},
		At: func(call *bound.Call) func(r, c int) float64 {
			total, limit := call.Matrix("total"), call.Param("max_norm")
			return func(r, c int) float64 { return factorBound(total.At(r, c), 0, limit) }
		},
	},
}

func squareSumBound(x []float64) float64 {
	n := len(x)
	total := bound.Sum(n, func(i int) float64 { return x[i] * x[i] })
	return bound.Gamma(bound.TotalHeight(n)+1)*total + float64(n)*0x1p-149
}

// normBound bounds the error of the norm, where that of the total is at most off. Roots
// differ by the difference of their squares over their sum, which is at least
// √(31/32) + 1 times the true one; or by the root of that difference at most.
func normBound(total, off float64) float64 {
	norm := math.Sqrt(total)
	switch {
	case off == 0:
		return 1.1 * u * norm
	case off <= total/32:
		return off/(1.9*norm) + 1.1*u*norm
	}
	return bound.More*math.Sqrt(off) + 1.1*u*norm
}

// factorBound bounds the error of the factor: reciprocals of roots differ by √(32/31) more
// than the roots.
func factorBound(total, off, limit float64) float64 {
	factor := min(1, limit/math.Sqrt(total))
	switch {
	case off == 0:
		return factor*2.1*u + 0x1p-149
	case off <= total/32:
		return factor*(off/(1.9*total)+2.1*u) + 0x1p-149
	}
	return 1
}
