package norm

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
)

var squareSumClauses = op.ClausesOf(SquareSumDefinition,
	op.Interfaces(),
	op.Specially(whereAny(op.IsNoNumber, "x")),
	op.Calculates(),
	op.Specially(whereAny(func(v float64) bool { v = math.Abs(v); return v >= 0x1p64 || v > 0 && v <= 0x1p-75 }, "x")),
	op.Specially(op.WhereResult(op.IsTooLargeFor, func(c *bound.Call) func(operand, row, col int) float64 {
		x := c.Matrix("x").Values
		sum := bound.Sum(len(x), func(i int) float64 { return x[i] * x[i] })
		return func(int, int, int) float64 { return sum }
	})),
	op.Interfaces(),
)

var totalClauses = op.ClausesOf(TotalDefinition,
	op.Interfaces(),
	op.Calculates(),
	op.Specially(func(c *bound.Call) func(operand, row, col int) bool {
		x := c.Matrix("sums")
		return func(_, row, _ int) bool {
			values := x.Row(row)
			sum := bound.Sum(len(values), func(i int) float64 { return values[i] })
			abs := bound.Sum(len(values), func(i int) float64 { return math.Abs(values[i]) })
			return sum == 0 || !(abs <= math.MaxFloat32)
		}
	}),
	op.Interfaces(),
)

var clipClauses = op.ClausesOf(ClipDefinition,
	op.Interfaces(),
	op.Specially(op.Where(func(v float64) bool { return v != v || math.IsInf(v, 1) }, "total")),
	op.Calculates(),
	op.Specially(op.Either(op.Where(func(v float64) bool { return v < 0 || op.IsNegativeZero(v) }, "total"), op.WhereSubnormal("total"))),
	op.Interfaces(),
)

// whereAny covers all outputs if an input holds a value of some kind anywhere.
func whereAny(is func(float64) bool, input string) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		a := c.Operands[c.Definition.Operand(input)]
		has := false
		for row := range a.Rows {
			has = has || op.RowHas(c, is, row, input)
		}
		return func(int, int, int) bool { return has }
	}
}

var atLeastZero = func(*bound.Call) func(r, col int) (lo, hi float64) {
	return func(int, int) (lo, hi float64) { return 0, math.Inf(1) }
}

// Squares are at least 0, in every form and after every rounding.
var squareSumRanges = []op.Range{{Definition: SquareSumDefinition, Output: "total", Clause: "C5", Between: atLeastZero}}

// A factor above 1 is not clipping. It is max_norm over a norm that is larger, so that a
// quotient exceeds 1 by its error alone; 2^-20 is 16 units in the last place.
var clipRanges = []op.Range{
	{Definition: ClipDefinition, Output: "norm", Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
		total := op.InputOf(c, "total")
		return func(r, col int) (lo, hi float64) {
			if total(r, col) < 0 {
				return math.Inf(-1), math.Inf(1) // NaN
			}
			return 0, math.Inf(1)
		}
	}},
	{Definition: ClipDefinition, Output: "factor", Clause: "C3", Assumes: []string{"sqrt", "rsqrt", "div", "recip"}, Between: func(*bound.Call) func(r, col int) (lo, hi float64) {
		return func(int, int) (lo, hi float64) { return 0, 1 + 0x1p-20 }
	}},
}
