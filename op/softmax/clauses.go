package softmax

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
)

var forwardClauses = op.ClausesOf(ForwardDefinition,
	op.Interfaces(),
	op.Specially(op.WhereRow(op.IsNaN, "x")),
	op.Specially(op.WhereRow(func(v float64) bool { return math.IsInf(v, 1) }, "x")),
	op.Specially(op.Where(func(v float64) bool { return math.IsInf(v, -1) }, "x")),
	op.Calculates(),
	op.Avoiding(op.WhereResult(op.IsSmallIn, func(c *bound.Call) func(operand, row, col int) float64 {
		x := c.Matrix("x")
		rows := op.ByRow(func(row int) bound.Probabilities { return bound.ProbabilitiesOf(x.Row(row)) })
		isFinite := op.ByRow(func(row int) bool { return !op.RowHas(c, op.IsNoNumber, row, "x") })
		return func(_, row, col int) float64 {
			if !isFinite(row) {
				return math.NaN()
			}
			return rows(row).At(col)
		}
	}), op.WherePowersOverflow("x")),
	op.Specially(op.Either(op.Where(op.IsNegativeZero, "x"), op.WhereSubnormal("x"))),
	op.Interfaces(),
)

var backwardClauses = op.ClausesOf(BackwardDefinition,
	op.Interfaces(),
	op.Specially(op.WhereRow(op.IsNaN, "dy", "y")),
	op.InfiniteOrNaN(op.Either(op.WhereRow(op.IsInfinite, "dy", "y"), dotOverflows)),
	op.Specially(op.Either(op.Where(op.IsZero, "y"), op.WhereSubnormal("dy", "y"), op.WhereResult(op.IsAtAnEnd, gradientOf))),
	op.Interfaces(),
)

// dots returns the sum of dy*y over a row, and the sum of the magnitudes.
func dots(c *bound.Call) func(row int) [2]float64 {
	dy, y := op.InputOf(c, "dy"), op.InputOf(c, "y")
	n := c.Operands[0].Cols
	return op.ByRow(func(row int) [2]float64 {
		return [2]float64{
			bound.Sum(n, func(col int) float64 { return dy(row, col) * y(row, col) }),
			bound.Sum(n, func(col int) float64 { return math.Abs(dy(row, col) * y(row, col)) }),
		}
	})
}

// dotOverflows covers the rows whose sum may overflow in some order.
func dotOverflows(c *bound.Call) func(operand, row, col int) bool {
	rows := dots(c)
	return func(_, row, _ int) bool { return op.MayOverflow(rows(row)[1]) }
}

func gradientOf(c *bound.Call) func(operand, row, col int) float64 {
	dy, y, rows := op.InputOf(c, "dy"), op.InputOf(c, "y"), dots(c)
	return func(_, row, col int) float64 { return y(row, col) * (dy(row, col) - rows(row)[0]) }
}

// A probability is an exponential over a sum of numbers of at least 0 that contains it, so that
// whatever the exponentials are it exceeds 1 only by the roundings of the sum and of the
// quotient. 2^-20 is for a quotient or reciprocal that is off by 16 units in the last place.
var forwardRanges = []op.Range{{
	Definition: ForwardDefinition, Output: "y", Clause: "C6", Assumes: []string{"div", "recip"},
	Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
		x := c.Matrix("x")
		isFinite := op.ByRow(func(row int) bool { return !op.RowHas(c, op.IsNoNumber, row, "x") })
		most := 1 + 2*bound.Gamma(x.Cols) + 0x1p-20
		return func(r, _ int) (lo, hi float64) {
			if !isFinite(r) {
				return math.Inf(-1), math.Inf(1)
			}
			return 0, most
		}
	},
}}
