package router

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
)

func isPlusInfinity(v float64) bool  { return math.IsInf(v, 1) }
func isMinusInfinity(v float64) bool { return math.IsInf(v, -1) }

// columnHas covers all outputs of a call whose bias has a value of some kind.
func biasHas(is func(float64) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		bias := c.Matrix("bias")
		has := false
		for _, v := range bias.Values {
			has = has || is(v)
		}
		return func(int, int, int) bool { return has }
	}
}

var (
	softmaxForwardClauses = op.ClausesOf(SoftmaxForwardDefinition,
		op.Interfaces(), op.Calculates(), op.Specially(biasHas(op.IsNaN)),
		op.Specially(op.Either(op.WhereRow(op.IsNaN, "logits"), op.WhereRow(isPlusInfinity, "logits"), onlyMinusInfinity)),
		op.Specially(op.WhereRow(isMinusInfinity, "logits")),
		op.Specially(smallWeights),
	)
	sigmoidForwardClauses = op.ClausesOf(SigmoidForwardDefinition,
		op.Interfaces(), op.Calculates(), op.Specially(biasHas(op.IsNaN)),
		op.Specially(op.WhereRow(op.IsNaN, "logits")),
		op.Specially(op.WhereRow(func(v float64) bool { return isPlusInfinity(v) || v < -104 }, "logits")),
		op.Specially(smallWeights),
	)
	softmaxBackwardClauses = op.ClausesOf(SoftmaxBackwardDefinition,
		op.Interfaces(), op.Calculates(),
		op.Specially(op.Either(op.WhereRow(op.IsNaN, "logits"), op.WhereRow(isPlusInfinity, "logits"))),
		op.Calculates(), op.Specially(smallGradients), op.Interfaces(),
	)
	sigmoidBackwardClauses = op.ClausesOf(SigmoidBackwardDefinition,
		op.Interfaces(), op.Calculates(), op.Specially(op.WhereRow(op.IsNaN, "logits")),
		op.Calculates(), op.Specially(smallGradients), op.Interfaces(),
	)
)

// onlyMinusInfinity covers rows of -Inf alone.
func onlyMinusInfinity(c *bound.Call) func(operand, row, col int) bool {
	return func(_, row, _ int) bool {
		return !op.RowHas(c, func(v float64) bool { return !isMinusInfinity(v) }, row, "logits")
	}
}

// smallWeights covers weights that may be subnormal or too large.
func smallWeights(c *bound.Call) func(operand, row, col int) bool {
	rows := rowsOf(c)
	return func(_, row, col int) bool {
		if op.RowHas(c, op.IsNoNumber, row, "logits") {
			return false
		}
		t := rows(row)
		for _, e := range t.chosen {
			if w := t.score[e] * t.factor; !(w >= 0x1p-125 && w <= 0x1p127) || t.score[e] < 0x1p-125 {
				return true
			}
		}
		return false
	}
}

// smallGradients covers rows with a gradient that may be subnormal in its format or too large.
func smallGradients(c *bound.Call) func(operand, row, col int) bool {
	rows := rowsOf(c)
	dweight := c.Matrix("dweight")
	format := c.Operands[c.Definition.Operand("dlogits")].DType
	return func(_, row, col int) bool {
		if op.RowHas(c, op.IsNoNumber, row, "logits") {
			return false
		}
		t := rows(row)
		largest := 0.0
		for slot := range dweight.Cols {
			largest = max(largest, math.Abs(dweight.At(row, slot)*t.factor))
		}
		return op.IsAtAnEnd(format, largest*t.slope[col]) || op.IsAtAnEnd(format, largest)
	}
}
