package layernorm

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
)

var forwardClauses = op.ClausesOf(ForwardDefinition,
	op.Interfaces(),
	op.Interfaces(),
	op.InfiniteOrNaN(op.WhereRow(op.IsNoNumber, "x")),
	op.Calculates(),
	op.Specially(whereMoments(func(_ *bound.Call, x []float64, m moments) bool {
		n := float64(len(x))
		return op.MayOverflow(m.variance*n) || op.MayOverflow(m.abs*n)
	})),
	op.InfiniteOrNaN(whereMoments(func(c *bound.Call, x []float64, m moments) bool {
		for _, v := range x {
			if math.Abs(v-m.mean) > 0x1p-75 { // whose square is no zero
				return false
			}
		}
		return c.Param("eps") == 0
	})),
	op.InfiniteOrNaN(op.OnlyOf(op.Where(op.IsNoNumber, "gamma", "beta"), "y")),
	op.Specially(op.Either(op.WhereSubnormal("x"), op.WhereResult(op.IsAtAnEnd, forwardResult))),
	op.Interfaces(),
)

// whereMoments covers the outputs of rows of some kind.
func whereMoments(is func(c *bound.Call, x []float64, m moments) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		x := c.Matrix("x")
		rows := op.ByRow(func(row int) bool { return is(c, x.Row(row), momentsOf(x.Row(row), c.Param("eps"))) })
		return func(_, row, _ int) bool { return rows(row) }
	}
}

// forwardResult returns y, mean or rstd.
func forwardResult(c *bound.Call) func(operand, row, col int) float64 {
	x, gamma, beta := c.Matrix("x"), op.InputOf(c, "gamma"), op.InputOf(c, "beta")
	rows := op.ByRow(func(row int) moments { return momentsOf(x.Row(row), c.Param("eps")) })
	return func(operand, row, col int) float64 {
		m := rows(row)
		switch c.Definition.Operands[operand].Name {
		case "mean":
			return m.mean
		case "rstd":
			return m.rstd
		}
		return (x.At(row, col)-m.mean)*m.rstd*gamma(row, col) + beta(row, col)
	}
}

var backwardClauses = op.ClausesOf(BackwardDefinition,
	op.Interfaces(),
	op.Specially(op.OnlyOf(op.WhereRow(op.IsNaN, "dy", "x", "mean", "rstd", "gamma"), "dx")),
	op.Specially(whereColumn(op.IsNaN)),
	op.InfiniteOrNaN(op.OnlyOf(op.WhereRow(op.IsInfinite, "dy", "x", "mean", "rstd", "gamma"), "dx")),
	op.InfiniteOrNaN(whereColumn(op.IsInfinite)),
	op.Specially(op.OnlyOf(op.Where(op.IsZero, "rstd"), "dx")),
	op.Specially(op.Either(op.OnlyOf(op.WhereSubnormal("dy", "x"), "dx"), op.WhereResult(op.IsAtAnEnd, backwardResult))),
	op.Interfaces(),
)

// whereColumn covers dgamma where dy or xhat hold a value of some kind in the column, and
// dbeta where dy does.
func whereColumn(is func(float64) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		return func(operand, _, col int) bool {
			switch c.Definition.Operands[operand].Name {
			case "dgamma":
				return op.ColumnHas(c, is, col, "dy", "x", "mean", "rstd")
			case "dbeta":
				return op.ColumnHas(c, is, col, "dy")
			}
			return false
		}
	}
}

// backwardResult returns dx, dgamma or dbeta; of a sum that may overflow in some order the sum
// of the magnitudes.
func backwardResult(c *bound.Call) func(operand, row, col int) float64 {
	dy, gamma, rstd, xhat := op.InputOf(c, "dy"), op.InputOf(c, "gamma"), op.InputOf(c, "rstd"), xhatOf(c)
	R, C := c.Operands[0].Rows, c.Operands[0].Cols
	over := func(n int, term func(i int) float64) float64 {
		if abs := bound.Sum(n, func(i int) float64 { return math.Abs(term(i)) }); op.MayOverflow(abs) {
			return abs
		}
		return bound.Sum(n, term)
	}
	rows := op.ByRow(func(row int) [2]float64 {
		t := func(col int) float64 { return dy(row, col) * gamma(row, col) }
		return [2]float64{over(C, t) / float64(C), over(C, func(col int) float64 { return t(col) * xhat(row, col) }) / float64(C)}
	})
	return func(operand, row, col int) float64 {
		switch c.Definition.Operands[operand].Name {
		case "dgamma":
			return over(R, func(r int) float64 { return dy(r, col) * xhat(r, col) })
		case "dbeta":
			return over(R, func(r int) float64 { return dy(r, col) })
		}
		return (dy(row, col)*gamma(row, col) - rows(row)[0] - xhat(row, col)*rows(row)[1]) * rstd(row, col)
	}
}

// Of n numbers, one is at most √(n-1) standard deviations from their mean (Samuelson 1968):
// |x - mean|·rstd is at most that for any eps of at least 0. A form that computes the mean, the
// variance and the quotient in binary32 exceeds this by their errors: 8γ of C+8 roundings,
// relative to the largest |x|.
var forwardRanges = []op.Range{{
	Definition: ForwardDefinition, Output: "y", Assumes: []string{"sqrt", "rsqrt", "div", "recip"},
	Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
		x, gamma, beta := c.Matrix("x"), op.InputOf(c, "gamma"), op.InputOf(c, "beta")
		most := math.Sqrt(float64(x.Cols - 1))
		type row struct{ largest, rstd, most float64 } // of |x|; of |x-mean|*rstd
		rows := op.ByRow(func(r int) row {
			m := momentsOf(x.Row(r), c.Param("eps"))
			z := row{rstd: m.rstd, most: math.Inf(1)}
			for _, v := range x.Row(r) {
				z.largest = max(z.largest, math.Abs(v))
			}
			// x - mean is off by the errors of the mean, or of x*rstd - mean*rstd, and the
			// deviation by at most as much. What underflows is lost besides: of the mean and of
			// x - mean, and of every square, which makes the variance less and rstd larger.
			lost := 0x1p-149 * float64(x.Cols+8)
			if variance := lost * (m.rstd*m.rstd + 2*m.rstd); variance <= 0.5 { // relative to variance + eps
				z.most = (most+8*bound.Gamma(x.Cols+8)*(1+most)*(1+z.largest*m.rstd))*(1+variance) + 2*lost*m.rstd
			}
			return z
		})
		return func(r, col int) (lo, hi float64) {
			z := rows(r)
			size := z.most*math.Abs(gamma(r, col)) + 4*bound.U*math.Abs(beta(r, col)) + 0x1p-126
			size += 0x1p-147 * (2*z.largest + z.rstd) // gamma*rstd, or gamma*(x-mean), may underflow
			if !(size <= math.MaxFloat32) {
				return math.Inf(-1), math.Inf(1)
			}
			return beta(r, col) - size, beta(r, col) + size
		}
	},
}, {
	// A variance is at least 0 in every form but the mean of squares less the square of the
	// mean; its error makes rstd exceed 1/sqrt(eps) by a few roundings.
	Definition: ForwardDefinition, Output: "rstd", Assumes: []string{"sqrt", "rsqrt", "div", "recip"},
	Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
		most := (1 + 0x1p-20) / math.Sqrt(c.Param("eps"))
		return func(r, _ int) (lo, hi float64) {
			if op.RowHas(c, op.IsNoNumber, r, "x") {
				return math.Inf(-1), math.Inf(1)
			}
			return 0, most
		}
	},
}}
