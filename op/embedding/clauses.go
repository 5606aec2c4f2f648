package embedding

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/op"
)

var forwardClauses = op.ClausesOf(ForwardDefinition,
	op.Interfaces(),
	op.Specially(func(c *bound.Call) func(operand, row, col int) bool {
		index, weight := c.Operands[0], c.Operands[1]
		return func(_, row, col int) bool {
			v := int(index.Int(row, 0))
			return v >= 0 && v < weight.Rows && op.IsNaN(float64(weight.At(v, col)))
		}
	}),
	op.Specially(func(c *bound.Call) func(operand, row, col int) bool {
		return func(_, row, _ int) bool { return isBad(c, row, c.Operands[1].Rows) }
	}),
	op.Interfaces(),
	op.Interfaces(),
)

func isBad(c *bound.Call, query, rows int) bool {
	v := int(c.Operands[0].Int(query, 0))
	return v < 0 || v >= rows
}

func backwardClauses(d *def.Definition) []op.Clause {
	return op.ClausesOf(d,
		op.Interfaces(),
		op.Calculates(),
		op.Calculates(),
		op.Specially(whereSum(func(z sum) bool { return z.hasNoNumber })),
		op.Specially(func(c *bound.Call) func(operand, row, col int) bool { // any row may have been taken for the one that it names
			hasBad := false
			for q := range c.Operands[0].Rows {
				hasBad = hasBad || isBad(c, q, c.Operands[2].Rows)
			}
			return func(int, int, int) bool { return hasBad }
		}),
		op.Specially(whereSum(func(z sum) bool { return z.n == 0 })),
		op.Specially(whereSum(func(z sum) bool { return z.isAtAnEnd })),
		op.Interfaces(),
		op.Interfaces(),
	)
}

// sum is what clauses say of the sum of one element.
type sum struct {
	n           int  // of queries
	hasNoNumber bool // a NaN or an infinity takes part
	isAtAnEnd   bool // it is subnormal, or it or a partial sum may be infinite
}

func whereSum(is func(z sum) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		index, dout, dweight := c.Operands[0], c.Operands[1], c.Operands[2]
		queries := make([][]int, dweight.Rows)
		for q := range index.Rows {
			if !isBad(c, q, dweight.Rows) {
				queries[index.Int(q, 0)] = append(queries[index.Int(q, 0)], q)
			}
		}
		return func(_, row, col int) bool {
			z, total, abs := sum{n: len(queries[row])}, 0.0, 0.0
			add := func(v float64) {
				total, abs = total+v, abs+math.Abs(v)
				z.hasNoNumber = z.hasNoNumber || op.IsNoNumber(v)
			}
			for _, q := range queries[row] {
				add(float64(dout.At(q, col)))
			}
			if c.Definition.Accumulates() && z.n > 0 {
				add(float64(dweight.At(row, col)))
			}
			z.isAtAnEnd = op.IsAtAnEnd(dweight.DType, total) || op.MayOverflow(abs)
			return is(z)
		}
	}
}
