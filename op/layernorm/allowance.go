package layernorm

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
)

// PyTorch computes dx = rstd*t + b*x - (b*mean + rstd*sum t/C) with b = (mean*sum t -
// sum t*x)*rstd^3/C, and dgamma from x*rstd - mean*rstd. The sums have mean times a term of the
// definition's more: b is off by (h+3)*u of 2*rstd^3*|mean| * sum |t|/C, with h the height of
// sums in eight lanes, and by what is lost if rstd^3 underflows; b counts x - mean times. The
// products with b and rstd are rounded before they cancel.
var backwardAllowances = []op.Allowance{
	{
		Profile: "torch", Definition: BackwardDefinition, Output: "dx",
		Text: "layernorm: absolute error u*|rstd|*((C/4+16)*|xhat*mean*rstd|*sum |t|/C + 4*X*|sum t*xhat|/C + 3*(|t| + sum |t|/C)) + 2^-149*(|x| + |mean|)*sum |t|*(|x| + |mean|)/C, X = (|x| + |mean|)*|rstd|, of sums of t*x",
		At: func(call *bound.Call) func(r, c int) float64 {
			dy, gam, x, xhat := call.Matrix("dy"), call.Matrix("gamma"), call.Matrix("x"), xhatOf(call)
			mean, rstd := call.Matrix("mean"), call.Matrix("rstd")
			n := float64(dy.Cols)
			return bound.ByRow(func(r int) func(c int) float64 {
				s := math.Abs(rstd.At(r, 0))
				t := func(c int) float64 { return dy.At(r, c) * gam.At(0, c) }
				size := func(c int) float64 { return math.Abs(x.At(r, c)) + math.Abs(mean.At(r, 0)) }
				all := bound.Sum(dy.Cols, func(c int) float64 { return math.Abs(t(c)) }) / n
				far := bound.Sum(dy.Cols, func(c int) float64 { return math.Abs(t(c)) * size(c) }) / n
				q := math.Abs(bound.Sum(dy.Cols, func(c int) float64 { return t(c) * xhat(r, c) })) / n
				return func(c int) float64 {
					sums := (n/4+16)*math.Abs(xhat(r, c)*mean.At(r, 0))*s*all + 4*size(c)*s*q + 3*(math.Abs(t(c))+all)
					return u*s*sums + 0x1p-149*size(c)*far
				}
			})
		},
	},
	{
		Profile: "torch", Definition: BackwardDefinition, Output: "dgamma",
		Text: "layernorm: absolute error 2*u*sum |dy|*(|x| + |mean|)*|rstd| over the rows, of x*rstd - mean*rstd",
		At: func(call *bound.Call) func(r, c int) float64 {
			dy, x, mean, rstd := call.Matrix("dy"), call.Matrix("x"), call.Matrix("mean"), call.Matrix("rstd")
			return func(_, c int) float64 {
				return 2 * u * bound.Sum(dy.Rows, func(r int) float64 {
					return math.Abs(dy.At(r, c)*rstd.At(r, 0)) * (math.Abs(x.At(r, c)) + math.Abs(mean.At(r, 0)))
				})
			}
		},
	},
}
