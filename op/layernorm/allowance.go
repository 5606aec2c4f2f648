package layernorm

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
)

// PyTorch computes y = (x*rstd + -mean*rstd)*gamma + beta: the products are rounded before
// they cancel. A constant row is then off by as much, where the definition gives beta.
var forwardAllowances = []op.Allowance{{
	Profile: "torch", Definition: ForwardDefinition, Output: "y",
	Text: "layernorm: absolute error 2*u*(|x| + |mean|)*rstd*|gamma|, of x*rstd - mean*rstd",
	At: func(call *bound.Call) func(r, c int) float64 {
		x, gam := call.Matrix("x"), call.Matrix("gamma")
		return bound.ByRow(func(r int) func(c int) float64 {
			m := momentsOf(x.Row(r), call.Param("eps"))
			return func(c int) float64 {
				return 2 * u * (math.Abs(x.At(r, c)) + math.Abs(m.mean)) * m.rstd * math.Abs(gam.At(0, c))
			}
		})
	},
}}

// PyTorch computes dx = rstd*t + b*x - (b*mean + rstd*sum t/C) with b = (mean*sum t -
// sum t*x)*rstd^3/C, and dgamma from x*rstd - mean*rstd. With X = (|x| + |mean|)*|rstd|, b is
// off by (h+3)*u of rstd^2 * sum |t|*X/C, and by what is lost if rstd^3 underflows; b counts
// x - mean times. The products with b and rstd are rounded before they cancel. h is the height
// of sums in eight lanes.
var backwardAllowances = []op.Allowance{
	{
		Profile: "torch", Definition: BackwardDefinition, Output: "dx",
		Text: "layernorm: absolute error u*|rstd|*((C/8+8)*|xhat|*sum |t|*X/C + 4*X*|sum t*xhat|/C + 3*(|t| + sum |t|/C)) + 2^-149*(|x| + |mean|)*sum |t|*(|x| + |mean|)/C, X = (|x| + |mean|)*|rstd|, of sums of t*x",
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
					sums := (n/8+8)*math.Abs(xhat(r, c))*far*s + 4*size(c)*s*q + 3*(math.Abs(t(c))+all)
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
