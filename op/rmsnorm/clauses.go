package rmsnorm

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/op"
)

var forwardClauses = op.ClausesOf(ForwardDefinition, append([]op.Clause{
	op.Interfaces(),
	op.Interfaces(),
}, common()...)...)

var residualForwardClauses = op.ClausesOf(ResidualForwardDefinition, append([]op.Clause{
	op.Interfaces(),
	op.Interfaces(),
	op.Calculates(),
	op.Specially(op.OnlyOf(whereElement(op.IsNoNumber), "sum")),
}, common()...)...)

// common are the clauses about what is normalized.
func common() []op.Clause {
	return []op.Clause{
		op.Specially(whereRow(func(_ *bound.Call, s []float64) bool { return has(s, op.IsNaN) })),
		op.InfiniteOrNaN(whereRow(func(_ *bound.Call, s []float64) bool {
			return !has(s, op.IsNaN) && (has(s, op.IsInfinite) || op.MayOverflow(squares(s)))
		})),
		op.InfiniteOrNaN(whereRow(func(c *bound.Call, s []float64) bool {
			// squares below 2^-150 are zeros
			return c.Param("eps") == 0 && !has(s, func(v float64) bool { return !(math.Abs(v) <= 0x1p-74) })
		})),
		op.InfiniteOrNaN(op.OnlyOf(op.Where(op.IsNoNumber, "gamma"), "y")),
		op.Specially(op.Either(subnormals, op.WhereResult(op.IsAtAnEnd, resultOf))),
		op.Interfaces(),
	}
}

// subnormals covers the elements that are subnormal in their format before they are normalized.
func subnormals(c *bound.Call) func(operand, row, col int) bool {
	s, d := normalized(c), c.Operands[0].DType
	return func(operand, row, col int) bool {
		return c.Definition.Operands[operand].Extent == def.PerElement && op.IsSubnormalIn(d, s(row)[col])
	}
}

// whereRow covers the outputs of normalized rows of some kind, other than sum.
func whereRow(is func(c *bound.Call, s []float64) bool) op.Covering {
	return op.OnlyOf(func(c *bound.Call) func(operand, row, col int) bool {
		s := normalized(c)
		rows := op.ByRow(func(row int) bool { return is(c, s(row)) })
		return func(_, row, _ int) bool { return rows(row) }
	}, "y", "rstd")
}

// whereElement covers the places where what is normalized is of some kind.
func whereElement(is func(float64) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		s := normalized(c)
		return func(_, row, col int) bool { return is(s(row)[col]) }
	}
}

func has(s []float64, is func(float64) bool) bool {
	for _, v := range s {
		if is(v) {
			return true
		}
	}
	return false
}

// resultOf returns sum, y or rstd.
func resultOf(c *bound.Call) func(operand, row, col int) float64 {
	s, gamma, eps := normalized(c), op.InputOf(c, "gamma"), c.Param("eps")
	rows := op.ByRow(func(row int) float64 { return 1 / math.Sqrt(squares(s(row))/float64(len(s(row)))+eps) })
	return func(operand, row, col int) float64 {
		switch c.Definition.Operands[operand].Name {
		case "sum":
			return s(row)[col]
		case "rstd":
			return rows(row)
		}
		return s(row)[col] * rows(row) * gamma(row, col)
	}
}

// backwardClauses are those of both definitions of gradients: dsum, if there is one, reaches its own
// element.
func backwardClauses(d *def.Definition) []op.Clause {
	x, direct := "x", []string(nil)
	if d == ResidualBackwardDefinition {
		x, direct = "sum", []string{"dsum"}
	}
	inRow := func(is func(float64) bool) op.Covering {
		covers := op.WhereRow(is, "dy", x, "rstd", "gamma")
		if direct != nil {
			covers = op.Either(covers, op.Where(is, direct...))
		}
		return op.OnlyOf(covers, "dx")
	}
	inColumn := func(is func(float64) bool) op.Covering {
		return op.OnlyOf(func(c *bound.Call) func(operand, row, col int) bool {
			return func(_, _, col int) bool { return op.ColumnHas(c, is, col, "dy", x, "rstd") }
		}, "dgamma")
	}
	return op.ClausesOf(d,
		op.Interfaces(),
		op.Specially(inRow(op.IsNaN)),
		op.Specially(inColumn(op.IsNaN)),
		op.InfiniteOrNaN(inRow(op.IsInfinite)),
		op.InfiniteOrNaN(inColumn(op.IsInfinite)),
		op.Specially(op.OnlyOf(op.Where(op.IsZero, "rstd"), "dx")),
		op.Specially(op.Either(op.OnlyOf(op.WhereSubnormal(append(direct, "dy", x)...), "dx"), op.WhereResult(op.IsAtAnEnd, gradientOf))),
		op.Interfaces(),
	)
}

// gradientOf returns dx or dgamma; of a sum that may overflow in some order the sum of the
// magnitudes.
func gradientOf(c *bound.Call) func(operand, row, col int) float64 {
	dy, gamma, rstd, xhat := op.InputOf(c, "dy"), op.InputOf(c, "gamma"), op.InputOf(c, "rstd"), xhatOf(c)
	R, C := c.Operands[0].Rows, c.Operands[0].Cols
	var dsum func(row, col int) float64
	if c.Definition == ResidualBackwardDefinition {
		dsum = op.InputOf(c, "dsum")
	}
	over := func(n int, term func(i int) float64) float64 {
		if abs := bound.Sum(n, func(i int) float64 { return math.Abs(term(i)) }); op.MayOverflow(abs) {
			return abs
		}
		return bound.Sum(n, term)
	}
	rows := op.ByRow(func(row int) float64 {
		return over(C, func(col int) float64 { return dy(row, col) * gamma(row, col) * xhat(row, col) }) / float64(C)
	})
	return func(operand, row, col int) float64 {
		if c.Definition.Operands[operand].Name == "dgamma" {
			return over(R, func(r int) float64 { return dy(r, col) * xhat(r, col) })
		}
		dx := (dy(row, col)*gamma(row, col) - xhat(row, col)*rows(row)) * rstd(row, col)
		if dsum != nil {
			dx += dsum(row, col)
		}
		return dx
	}
}

// No number of a row exceeds its root mean square by more than a factor of √C, so |x|·rstd is at
// most that for any eps of at least 0. A form that computes the mean and the quotient in binary32
// exceeds this by their errors: 8γ of C+8 roundings, and by what is lost of squares that underflow.
func rangesOf(d *def.Definition) []op.Range {
	assumes := []string{"sqrt", "rsqrt", "div", "recip"}
	return []op.Range{
		{
			Definition: d, Output: "y", Assumes: assumes,
			Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
				s, gamma, eps := normalized(c), op.InputOf(c, "gamma"), c.Param("eps")
				type row struct{ largest, rstd, most float64 }
				rows := op.ByRow(func(r int) row {
					n := float64(len(s(r)))
					z := row{rstd: 1 / math.Sqrt(squares(s(r))/n+eps), most: math.Inf(1)}
					for _, v := range s(r) {
						z.largest = max(z.largest, math.Abs(v))
					}
					if lost := 0x1p-147 * z.rstd * z.rstd; lost <= 0.5 && !has(s(r), op.IsNoNumber) {
						z.most = math.Sqrt(n) * (1 + 8*bound.Gamma(len(s(r))+8)) * (1 + lost)
					}
					return z
				})
				return func(r, col int) (lo, hi float64) {
					z := rows(r)
					size := z.most*math.Abs(gamma(r, col)) + 0x1p-126 + 0x1p-147*(2*z.largest+z.rstd) // gamma*rstd may underflow
					if !(size <= math.MaxFloat32) {
						return math.Inf(-1), math.Inf(1)
					}
					return -size, size
				}
			},
		},
		{
			Definition: d, Output: "rstd", Assumes: assumes,
			Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
				most := (1 + 0x1p-20) / math.Sqrt(c.Param("eps"))
				s := normalized(c)
				return func(r, _ int) (lo, hi float64) {
					if has(s(r), op.IsNoNumber) {
						return math.Inf(-1), math.Inf(1)
					}
					return 0, most
				}
			},
		},
	}
}
