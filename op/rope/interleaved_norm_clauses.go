package rope

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
)

var interleavedNormForwardClauses = op.ClausesOf(InterleavedNormForwardDefinition,
	op.Interfaces(),
	op.Interfaces(),
	op.Specially(op.OnlyOf(outsideWave, "y")),
	op.Calculates(),
	op.Specially(op.WhereRow(op.IsNaN, "x")),
	op.InfiniteOrNaN(whereOneHead(func(_ *bound.Call, head []float64) bool {
		return !has(head, op.IsNaN) && (has(head, op.IsInfinite) || op.MayOverflow(squares(head)))
	})),
	op.InfiniteOrNaN(whereOneHead(func(c *bound.Call, head []float64) bool {
		// squares below 2^-150 are zeros
		return c.Param("eps") == 0 && !has(head, func(v float64) bool { return !(math.Abs(v) <= 0x1p-74) })
	})),
	op.InfiniteOrNaN(op.OnlyOf(inPair(op.Where(op.IsNoNumber, "gamma")), "y")),
	op.Specially(op.Either(op.OnlyOf(inPair(op.WhereSubnormal("x")), "y"), op.WhereResult(op.IsAtAnEnd, headResult))),
	op.Interfaces(),
)

var interleavedNormBackwardClauses = op.ClausesOf(InterleavedNormBackwardDefinition,
	op.Interfaces(),
	op.Specially(outsideWave),
	op.Calculates(),
	op.Specially(op.OnlyOf(op.WhereRow(op.IsNaN, "dy", "x", "rstd", "gamma"), "dx")),
	op.Specially(op.OnlyOf(func(c *bound.Call) func(operand, row, col int) bool {
		cols := c.Operands[0].Cols
		return func(_, _, col int) bool {
			return op.ColumnHas(c, op.IsNaN, col, "dy", "x", "rstd") || col^1 < cols && op.ColumnHas(c, op.IsNaN, col^1, "dy")
		}
	}, "dgamma")),
	op.InfiniteOrNaN(op.OnlyOf(op.WhereRow(op.IsInfinite, "dy", "x", "rstd"), "dx")),
	op.Specially(op.OnlyOf(op.Where(op.IsZero, "rstd"), "dx")),
	op.Specially(op.Either(op.OnlyOf(inPair(op.WhereSubnormal("dy", "x")), "dx"), op.WhereResult(op.IsAtAnEnd, headGradientResult))),
	op.Interfaces(),
)

// whereOneHead covers the outputs of heads of some kind.
func whereOneHead(is func(c *bound.Call, head []float64) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		x := c.Matrix("x")
		rows := op.ByRow(func(row int) bool { return is(c, x.Row(row)) })
		return func(_, row, _ int) bool { return rows(row) }
	}
}

// headResult returns y or rstd.
func headResult(c *bound.Call) func(operand, row, col int) float64 {
	x, gamma := c.Matrix("x"), c.Matrix("gamma")
	rstd := op.ByRow(func(row int) float64 {
		v, _ := headRstd(x.Row(row), c.Param("eps"))
		return v
	})
	y := neighbours(c, func(r, i int) float64 { return x.At(r, i) * rstd(r) * gamma.At(0, i) }, x.Cols, false)
	return func(operand, row, col int) float64 {
		if c.Definition.Operands[operand].Name == "rstd" {
			return rstd(row)
		}
		return y(row, col).value
	}
}

// headGradientResult returns dx or dgamma; of a sum that may overflow in some order the sum of the magnitudes.
func headGradientResult(c *bound.Call) func(operand, row, col int) float64 {
	at, rstd := headGradients(c), op.InputOf(c, "rstd")
	R, C := c.Operands[0].Rows, c.Operands[0].Cols
	rows := op.ByRow(func(row int) float64 {
		return over(C, func(i int) float64 { e := at(row, i); return e.t * e.xhat }) / float64(C)
	})
	return func(operand, row, col int) float64 {
		if c.Definition.Operands[operand].Name == "dgamma" {
			return over(R, func(r int) float64 { e := at(r, col); return e.g * e.xhat })
		}
		e := at(row, col)
		return (e.t - e.xhat*rows(row)) * rstd(row, 0)
	}
}
