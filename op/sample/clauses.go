package sample

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
)

var clauses = op.ClausesOf(Definition,
	op.Interfaces(), op.Calculates(), op.Calculates(), op.Calculates(), op.Calculates(),
	op.Specially(op.WhereRow(op.IsNaN, "temperature", "top_p", "min_p")),
	op.Specially(op.WhereRow(isPlusInfinity, "temperature")),
	op.Specially(op.WhereRow(isMinusInfinity, "logits")),
	op.Specially(largestIsNoNumber),
)

func isPlusInfinity(v float64) bool  { return math.IsInf(v, 1) }
func isMinusInfinity(v float64) bool { return math.IsInf(v, -1) }
func isFinite(v float64) bool        { return !op.IsNoNumber(v) }

// largestIsNoNumber covers rows whose largest logit is NaN or infinite.
func largestIsNoNumber(c *bound.Call) func(operand, row, col int) bool {
	rows := op.ByRow(func(row int) bool {
		return op.RowHas(c, op.IsNaN, row, "logits") || op.RowHas(c, isPlusInfinity, row, "logits") || !op.RowHas(c, isFinite, row, "logits")
	})
	return func(_, row, _ int) bool { return rows(row) }
}
