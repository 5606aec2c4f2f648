package relu2

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
)

var forwardClauses = op.ClausesOf(ForwardDefinition,
	op.Interfaces(),
	op.Specially(op.Where(op.IsNoNumber, "x")),
	op.Specially(op.Where(isNotPositive, "x")),
	op.Specially(op.Either(op.WhereSubnormal("x"), op.WhereResult(op.IsAtAnEnd, squareOf))),
	op.Interfaces(),
)

var backwardClauses = op.ClausesOf(BackwardDefinition,
	op.Interfaces(),
	op.Specially(op.Where(op.IsNaN, "dy", "x")),
	op.Specially(op.Where(func(v float64) bool { return math.IsInf(v, 1) }, "x")),
	op.Specially(op.Where(op.IsInfinite, "dy")),
	op.Specially(op.Where(isNotPositive, "x")),
	op.Specially(op.Either(op.WhereSubnormal("dy", "x"), op.Where(func(v float64) bool { return v >= 0x1p127 && !op.IsInfinite(v) }, "x"), op.WhereResult(op.IsAtAnEnd, gradientOf))),
	op.Interfaces(),
)

func isNotPositive(v float64) bool { return v <= 0 }

func squareOf(c *bound.Call) func(operand, row, col int) float64 {
	x := op.InputOf(c, "x")
	return func(_, row, col int) float64 { return max(x(row, col), 0) * max(x(row, col), 0) }
}

func gradientOf(c *bound.Call) func(operand, row, col int) float64 {
	dy, x := op.InputOf(c, "dy"), op.InputOf(c, "x")
	return func(_, row, col int) float64 { return dy(row, col) * 2 * max(x(row, col), 0) }
}

// A square is not negative, and the gradient has the sign of dy.
var (
	forwardRanges = []op.Range{{
		Definition: ForwardDefinition, Output: "y", Clause: "C3",
		Between: func(*bound.Call) func(r, col int) (lo, hi float64) {
			return func(int, int) (lo, hi float64) { return 0, math.Inf(1) }
		},
	}}
	backwardRanges = []op.Range{{
		Definition: BackwardDefinition, Output: "dx",
		Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
			dy := op.InputOf(c, "dy")
			return func(r, col int) (lo, hi float64) {
				if dy(r, col) > 0 {
					return 0, math.Inf(1)
				}
				return math.Inf(-1), 0
			}
		},
	}}
)
