package rope

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
)

var forwardClauses = op.ClausesOf(ForwardDefinition,
	op.Interfaces(),
	op.Specially(badPosition),
	op.InfiniteOrNaN(noNumberInTables),
	op.Specially(op.Where(op.IsNaN, "x1", "x2")),
	op.InfiniteOrNaN(op.Where(op.IsInfinite, "x1", "x2")),
	op.Calculates(),
	op.Specially(op.Either(op.WhereSubnormal("x1", "x2"), op.WhereResult(op.IsAtAnEnd, turnedResult))),
	op.Interfaces(),
)

var backwardClauses = op.ClausesOf(BackwardDefinition,
	op.Calculates(),
	op.Interfaces(),
	op.Specially(badPosition),
	op.Interfaces(),
)

var normForwardClauses = op.ClausesOf(NormForwardDefinition,
	op.Interfaces(),
	op.Interfaces(),
	op.Specially(op.OnlyOf(badPosition, "y1", "y2")),
	op.Calculates(),
	op.Specially(op.WhereRow(op.IsNaN, "x1", "x2")),
	op.InfiniteOrNaN(whereHead(func(c *bound.Call, head []float64) bool {
		return !has(head, op.IsNaN) && (has(head, op.IsInfinite) || op.MayOverflow(squares(head)))
	})),
	op.InfiniteOrNaN(whereHead(func(c *bound.Call, head []float64) bool {
		// squares below 2^-150 are zeros
		return c.Param("eps") == 0 && !has(head, func(v float64) bool { return !(math.Abs(v) <= 0x1p-74) })
	})),
	op.InfiniteOrNaN(op.OnlyOf(op.Where(op.IsNoNumber, "gamma1", "gamma2"), "y1", "y2")),
	op.Specially(op.Either(op.OnlyOf(op.WhereSubnormal("x1", "x2"), "y1", "y2"), op.WhereResult(op.IsAtAnEnd, normResult))),
	op.Interfaces(),
)

var normBackwardClauses = op.ClausesOf(NormBackwardDefinition,
	op.Interfaces(),
	op.Specially(badPosition),
	op.Specially(op.OnlyOf(op.WhereRow(op.IsNaN, "dy1", "dy2", "x1", "x2", "rstd", "gamma1", "gamma2"), "dx1", "dx2")),
	op.Specially(op.Either(inColumn("dgamma1", "x1"), inColumn("dgamma2", "x2"))),
	op.InfiniteOrNaN(op.OnlyOf(op.WhereRow(op.IsInfinite, "dy1", "dy2", "x1", "x2", "rstd"), "dx1", "dx2")),
	op.Specially(op.OnlyOf(op.Where(op.IsZero, "rstd"), "dx1", "dx2")),
	op.Specially(op.Either(op.OnlyOf(op.WhereSubnormal("dy1", "dy2", "x1", "x2"), "dx1", "dx2"), op.WhereResult(op.IsAtAnEnd, gradientResult))),
	op.Interfaces(),
)

// badPosition covers the rows whose position names no row of the tables, and sums over such rows.
func badPosition(c *bound.Call) func(operand, row, col int) bool {
	position, rows := c.Operands[c.Definition.Operand("position")], c.Operands[c.Definition.Operand("cos")].Rows
	isBad := func(row int) bool {
		p := int(position.Int(row, 0))
		return p < 0 || p >= rows
	}
	return func(operand, row, _ int) bool {
		switch c.Definition.Operands[operand].Name {
		case "dgamma1", "dgamma2":
			for r := range position.Rows {
				if isBad(r) {
					return true
				}
			}
			return false
		}
		return isBad(row)
	}
}

// noNumberInTables covers the elements that are turned by what is no number.
func noNumberInTables(c *bound.Call) func(operand, row, col int) bool {
	angle := angleOf(c)
	return func(_, row, col int) bool {
		cos, sin := angle(row, col)
		return op.IsNoNumber(cos) || op.IsNoNumber(sin)
	}
}

// inColumn covers a gradient of gamma where a gradient, or what is normalized, is NaN in its column.
func inColumn(output, x string) op.Covering {
	return op.OnlyOf(func(c *bound.Call) func(operand, row, col int) bool {
		return func(_, _, col int) bool { return op.ColumnHas(c, op.IsNaN, col, "dy1", "dy2", x, "rstd") }
	}, output)
}

// whereHead covers the outputs of heads of some kind.
func whereHead(is func(c *bound.Call, head []float64) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		x1, x2 := c.Matrix("x1"), c.Matrix("x2")
		rows := op.ByRow(func(row int) bool {
			return is(c, append(append([]float64{}, x1.Row(row)...), x2.Row(row)...))
		})
		return func(_, row, _ int) bool { return rows(row) }
	}
}

func has(list []float64, is func(float64) bool) bool {
	for _, v := range list {
		if is(v) {
			return true
		}
	}
	return false
}

func squares(list []float64) float64 {
	return bound.Sum(len(list), func(i int) float64 { return list[i] * list[i] })
}

// half returns which half an output belongs to: its name ends with 1 or 2.
func half(c *bound.Call, operand int) int {
	name := c.Definition.Operands[operand].Name
	return int(name[len(name)-1] - '1')
}

// turnedResult returns y1 or y2.
func turnedResult(c *bound.Call) func(operand, row, col int) float64 {
	x1, x2, angle := op.InputOf(c, "x1"), op.InputOf(c, "x2"), angleOf(c)
	return func(operand, row, col int) float64 {
		cos, sin := angle(row, col)
		return turns(x1(row, col), x2(row, col), cos, sin, false)[half(c, operand)].value
	}
}

// normResult returns y1, y2 or rstd.
func normResult(c *bound.Call) func(operand, row, col int) float64 {
	x1, x2, angle := c.Matrix("x1"), c.Matrix("x2"), angleOf(c)
	gamma1, gamma2 := op.InputOf(c, "gamma1"), op.InputOf(c, "gamma2")
	rows := op.ByRow(func(row int) float64 {
		rstd, _ := rstdOf(x1.Row(row), x2.Row(row), c.Param("eps"))
		return rstd
	})
	return func(operand, row, col int) float64 {
		rstd := rows(row)
		if c.Definition.Operands[operand].Name == "rstd" {
			return rstd
		}
		cos, sin := angle(row, col)
		return turns(x1.At(row, col)*rstd*gamma1(row, col), x2.At(row, col)*rstd*gamma2(row, col), cos, sin, false)[half(c, operand)].value
	}
}

// gradientResult returns dx1, dx2, dgamma1 or dgamma2; of a sum that may overflow in some order the
// sum of the magnitudes.
func gradientResult(c *bound.Call) func(operand, row, col int) float64 {
	at, rstd := gradientsOf(c), op.InputOf(c, "rstd")
	R, C := c.Operands[0].Rows, c.Operands[0].Cols
	rows := op.ByRow(func(row int) float64 {
		return over(C, func(i int) float64 {
			both := at(row, i)
			return both[0].t*both[0].xhat + both[1].t*both[1].xhat
		}) / float64(2*C)
	})
	return func(operand, row, col int) float64 {
		k := half(c, operand)
		switch c.Definition.Operands[operand].Name {
		case "dgamma1", "dgamma2":
			return over(R, func(r int) float64 { e := at(r, col)[k]; return e.g * e.xhat })
		}
		e := at(row, col)[k]
		return (e.t - e.xhat*rows(row)) * rstd(row, 0)
	}
}

// over returns a sum; of one that may overflow in some order the sum of the magnitudes.
func over(n int, term func(i int) float64) float64 {
	if abs := bound.Sum(n, func(i int) float64 { return math.Abs(term(i)) }); op.MayOverflow(abs) {
		return abs
	}
	return bound.Sum(n, term)
}
