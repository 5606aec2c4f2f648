package dropout

import (
	"tokitai/bound"
	"tokitai/def"
	"tokitai/op"
)

func clausesOf(d *def.Definition) []op.Clause {
	in := d.Operands[0].Name
	return op.ClausesOf(d,
		op.Interfaces(),
		op.Calculates(),
		op.Calculates(),
		op.Avoiding(op.Either(op.Where(op.IsNoNumber, in), op.Where(op.IsZero, in)), dropped(in)), // 0 times an infinity
		op.Specially(op.Either(op.WhereSubnormal(in), op.WhereResult(op.IsAtAnEnd, results(in)))),
		op.Interfaces(),
	)
}

// dropped covers elements that are no numbers and are dropped.
func dropped(in string) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		isNone, isKept := op.Where(op.IsNoNumber, in)(c), keeps(c)
		return func(operand, row, col int) bool { return isNone(operand, row, col) && !isKept(row, col) }
	}
}

// results returns the exact results of a call.
func results(in string) func(c *bound.Call) func(operand, row, col int) float64 {
	return func(c *bound.Call) func(operand, row, col int) float64 {
		x, isKept, scale := op.InputOf(c, in), keeps(c), c.Param("scale")
		return func(_, row, col int) float64 {
			if !isKept(row, col) {
				return 0
			}
			return x(row, col) * scale
		}
	}
}
