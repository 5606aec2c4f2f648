package silu

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
)

var forwardClauses = op.ClausesOf(ForwardDefinition,
	op.Interfaces(),
	op.Specially(op.Where(op.IsNaN, "x")),
	op.Avoiding(op.Where(op.IsInfinite, "x"), op.Where(func(v float64) bool { return math.IsInf(v, -1) }, "x")), // -Inf times the sigmoid of it
	op.Specially(op.Where(op.IsZero, "x")),
	op.Calculates(),
	op.Specially(op.WhereSubnormal("x")),
	op.Interfaces(),
)

var backwardClauses = op.ClausesOf(BackwardDefinition,
	op.Interfaces(),
	op.Specially(op.Where(op.IsNaN, "dy", "x")),
	op.Avoiding(infiniteArgument, infiniteArgument), // the slope of the sigmoid, 0, times an infinity
	op.Specially(op.Where(op.IsInfinite, "dy")),
	op.Specially(op.Where(op.IsZero, "x")),
	op.Calculates(),
	op.Specially(op.Either(op.WhereSubnormal("dy"), op.WhereResult(op.IsAtAnEnd, gradientOf))),
	op.Interfaces(),
)

// infiniteArgument covers an infinite x with a finite dy.
func infiniteArgument(c *bound.Call) func(operand, row, col int) bool {
	dy, x := op.InputOf(c, "dy"), op.InputOf(c, "x")
	return func(_, row, col int) bool { return op.IsInfinite(x(row, col)) && !op.IsNoNumber(dy(row, col)) }
}

func gradientOf(c *bound.Call) func(operand, row, col int) float64 {
	dy, x := op.InputOf(c, "dy"), op.InputOf(c, "x")
	return func(_, row, col int) float64 { return dy(row, col) * At(x(row, col)).Slope() }
}

// The sigmoid is between 0 and 1, so that y lies between 0 and x. A form in which it exceeds 1
// does so by rounding: 2^-20 is 16 roundings.
var forwardRanges = []op.Range{{
	Definition: ForwardDefinition, Output: "y", Clause: "C6", Assumes: []string{"tanh", "sigmoid", "div", "recip"},
	Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
		x := op.InputOf(c, "x")
		return func(r, col int) (lo, hi float64) {
			v := x(r, col)
			if op.IsNoNumber(v) {
				return math.Inf(-1), math.Inf(1)
			}
			most := v * (1 + 0x1p-20)
			return min(0, most), max(0, most)
		}
	},
}}

// The derivative is between -0.0999 and 1.0999. A product that underflows may be larger than it
// should be by half of the least number.
var backwardRanges = []op.Range{{
	Definition: BackwardDefinition, Output: "dx", Clause: "C7", Assumes: []string{"exp", "tanh", "sigmoid", "div", "recip"},
	Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
		dy, x := op.InputOf(c, "dy"), op.InputOf(c, "x")
		return func(r, col int) (lo, hi float64) {
			v := dy(r, col)
			if op.IsNoNumber(v) || op.IsNoNumber(x(r, col)) {
				return math.Inf(-1), math.Inf(1)
			}
			low, high, small := -0.1*v, 1.1*v, (1+math.Abs(v))*0x1p-149
			return min(low, high) - small, max(low, high) + small
		}
	},
}}
