package relu2

import (
	"math"

	"tokitai/bound"
)

// One product is rounded; the maximum is exact.
var forwardBounds = []bound.Form{{
	Output: "y", Text: []string{"bound = u*y + 2^-150"},
	At: func(call *bound.Call) func(r, c int) float64 {
		x := call.Matrix("x")
		return func(r, c int) float64 {
			positive := max(x.At(r, c), 0)
			return bound.U*positive*positive + bound.Tiny
		}
	},
}}

// One product is rounded; the sum of two equal numbers is exact.
var backwardBounds = []bound.Form{{
	Output: "dx", IsTighter: true, Text: []string{"bound = u*|dx| + 2^-150"},
	At: func(call *bound.Call) func(r, c int) float64 {
		dy, x := call.Matrix("dy"), call.Matrix("x")
		return func(r, c int) float64 {
			return bound.U*math.Abs(dy.At(r, c))*2*max(x.At(r, c), 0) + bound.Tiny
		}
	},
}}
