package adamw

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
)

// stepAllowances: PyTorch divides step_size*m by d, where the definition multiplies m/d by
// step_size. If the product is subnormal, the quotient by a small d shows what it lost.
var stepAllowances = []op.Allowance{{
	Profile: "torch", Definition: InPlaceDefinition, Output: "weight",
	Text: "adamw: absolute error 2^-149/d, of (step_size*m)/d",
	At: func(call *bound.Call) func(r, c int) float64 {
		v, g := call.Matrix("v"), call.Matrix("grad")
		return func(r, c int) float64 {
			grad := g.At(r, c)
			second := call.Param("beta2")*v.At(r, c) + call.Param("one_minus_beta2")*grad*grad
			return 0x1p-149 / (math.Sqrt(second)*call.Param("inverse_sqrt_bc2") + call.Param("eps"))
		}
	},
}}
