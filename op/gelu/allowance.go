package gelu

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
)

// PyTorch computes y = x/2 * (1 + tanh(t/2)). For negative x the sum cancels: the error of the
// hyperbolic tangent, at most an ulp below 1, stays as it is while y becomes small. From
// x = -5.5 on, y is 0. The gradient has that sum, and 1 - tanh² as well.
var (
	forwardAllowances = []op.Allowance{{
		Profile: "torch", Definition: ForwardDefinition, Output: "y",
		Text: "gelu: absolute error u*|x|, of 1 + tanh",
		At: func(call *bound.Call) func(r, c int) float64 {
			x := call.Matrix("x")
			return func(r, c int) float64 { return bound.U * math.Abs(x.At(r, c)) }
		},
	}}
	backwardAllowances = []op.Allowance{{
		Profile: "torch", Definition: BackwardDefinition, Output: "dx",
		Text: "gelu: absolute error u*|dy|*(1 + 2*|x*t'(x)|) where |x| < 6, of 1 + tanh and 1 - tanh^2, and u*|dy| elsewhere",
		At: func(call *bound.Call) func(r, c int) float64 {
			dy, x := call.Matrix("dy"), call.Matrix("x")
			return func(r, c int) float64 {
				a, scale := math.Abs(x.At(r, c)), 1.0
				if a < 6 { // beyond, tanh is 1 or -1
					scale += 2 * a * math.Sqrt(2/math.Pi) * (1 + 3*0.044715*a*a)
				}
				return bound.U * scale * math.Abs(dy.At(r, c))
			}
		},
	}}
)
