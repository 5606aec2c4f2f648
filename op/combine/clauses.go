package combine

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/op"
)

var forwardClauses = sumClauses(ForwardDefinition)

var permuteBackwardClauses = sumClauses(PermuteBackwardDefinition)

func sumClauses(d *def.Definition) []op.Clause {
	return op.ClausesOf(d,
		op.Interfaces(),
		op.Calculates(),
		op.Specially(whereSum(func(z sum) bool { return z.hasNoNumber })),
		op.Specially(whereSum(func(z sum) bool { return z.hasBad })),
		op.Specially(whereSum(func(z sum) bool { return z.isAtAnEnd })),
		op.Interfaces(),
		op.Interfaces(),
	)
}

// sum is what clauses say of the sum of one element.
type sum struct {
	hasNoNumber bool // a NaN or an infinity takes part
	hasBad      bool // a place is bad
	isAtAnEnd   bool // it is subnormal, or it or a partial sum may be infinite
}

func whereSum(is func(z sum) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		f := c.Definition.Form.(*def.LookupSum)
		place, table := c.Operands[f.Index], c.Operands[f.Table]
		return func(operand, row, col int) bool {
			var z sum
			total, abs := 0.0, 0.0
			for s := range place.Cols {
				v := int(place.Int(row, s))
				if v < 0 || v >= table.Rows {
					z.hasBad = true
					continue
				}
				term := float64(table.At(v, col))
				if f.IsWeighted() {
					w := float64(c.Operands[f.Weight].At(row, s))
					z.hasNoNumber = z.hasNoNumber || op.IsNoNumber(w)
					term *= w
				}
				z.hasNoNumber = z.hasNoNumber || op.IsNoNumber(term)
				total, abs = total+term, abs+math.Abs(term)
			}
			z.isAtAnEnd = op.IsAtAnEnd(c.Operands[operand].DType, total) || op.MayOverflow(abs)
			return is(z)
		}
	}
}

var permuteClauses = op.ClausesOf(PermuteDefinition,
	op.Interfaces(),
	op.Specially(func(c *bound.Call) func(operand, row, col int) bool {
		source, x := c.Operands[0], c.Operands[1]
		return func(_, row, col int) bool {
			v := int(source.Int(row, 0))
			return v >= 0 && v < x.Rows && op.IsNaN(float64(x.At(v, col)))
		}
	}),
	op.Specially(func(c *bound.Call) func(operand, row, col int) bool {
		source, x := c.Operands[0], c.Operands[1]
		return func(_, row, _ int) bool { v := int(source.Int(row, 0)); return v < 0 || v >= x.Rows }
	}),
	op.Interfaces(),
)

var backwardClauses = op.ClausesOf(BackwardDefinition,
	op.Interfaces(),
	op.Specially(op.Either(
		op.OnlyOf(op.Either(op.Where(op.IsNoNumber, "dy"), op.WhereRow(op.IsNoNumber, "weight")), "do"),
		op.OnlyOf(op.WhereRow(op.IsNoNumber, "dy", "o"), "dweight"),
	)),
	op.Specially(op.WhereResult(op.IsAtAnEnd, resultOf)),
	op.Interfaces(),
)

// resultOf returns do or dweight.
func resultOf(c *bound.Call) func(operand, row, col int) float64 {
	o, dy, weight := c.Matrix("o"), c.Matrix("dy"), c.Matrix("weight")
	return func(operand, row, col int) float64 {
		if c.Definition.Operands[operand].Name == "do" {
			return dy.At(row, col) * weight.At(row, 0)
		}
		return bound.Sum(o.Cols, func(i int) float64 { return dy.At(row, i) * o.At(row, i) })
	}
}
