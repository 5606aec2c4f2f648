package sgd

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/op"
)

func clausesOf(d *def.Definition, isNesterov bool) []op.Clause {
	return op.ClausesOf(d,
		op.Interfaces(),
		op.Interfaces(),
		op.Specially(op.Where(op.IsNaN, "weight", "buffer", "grad")),
		op.Interfaces(),
		op.Calculates(),
		op.InfiniteOrNaN(op.Where(op.IsInfinite, "weight", "buffer", "grad")),
		op.Specially(op.Either(op.WhereSubnormal("weight", "buffer", "grad"), op.WhereResult(op.IsAtAnEnd, func(c *bound.Call) func(operand, row, col int) float64 {
			at := stepsOf(c)
			return func(operand, row, col int) float64 {
				return at(row, col).of(c.Definition.Operands[operand].Name, isNesterov)
			}
		}))),
		op.Specially(op.OnlyOf(atRest, "weight", "copy")),
		op.Interfaces(),
	)
}

// atRest covers weights that a step does not move.
func atRest(c *bound.Call) func(operand, row, col int) bool {
	buffer, grad := op.InputOf(c, "buffer"), op.InputOf(c, "grad")
	isZero := func(x float64) bool { return x == 0 && !math.Signbit(x) }
	return func(_, row, col int) bool {
		return c.Param("weight_decay") == 0 && isZero(buffer(row, col)) && isZero(grad(row, col))
	}
}
