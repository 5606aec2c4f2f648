package linear

import (
	"math"

	"tokitai/bound"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/silu"
)

var residualClauses = op.ClausesOf(ResidualDefinition,
	op.Interfaces(),
	op.Calculates(),
	op.Specially(where(func(z sum) bool { return z.hasNoNumber })),
	op.Interfaces(),
	op.Specially(where(func(z sum) bool { return z.isAtAnEnd })),
)

var swigluClauses = op.ClausesOf(SwiGLUDefinition,
	op.Interfaces(),
	op.Calculates(),
	op.Avoiding(ofSwiGLU(func(z sum) bool { return z.hasNoNumber }), ofSwiGLU(func(z sum) bool { return z.hasNoNumber })), // silu, 0, times an infinity
	op.Interfaces(),
	op.Specially(ofSwiGLU(func(z sum) bool { return z.isAtAnEnd })),
)

// ofSwiGLU covers elements of gate by what the sum of their products is, of up likewise, and of Y by both.
func ofSwiGLU(is func(z sum) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		a, g, u := c.Matrix("A"), c.Matrix("G"), c.Matrix("U")
		dtype := c.Operands[c.Definition.Operand("Y")].DType
		return func(operand, row, col int) bool {
			gate, up := sumOf(a, g, 0, dtype, row, col), sumOf(a, u, 0, dtype, row, col)
			switch c.Definition.Operands[operand].Name {
			case "gate":
				return is(gate)
			case "up":
				return is(up)
			}
			y := sum{isAtAnEnd: op.IsAtAnEnd(dtype, silu.At(gate.product).Value()*up.product)}
			return is(gate) || is(up) || is(y)
		}
	}
}

// sum is what clauses say of the sum of one element.
type sum struct {
	product     float64
	hasNoNumber bool // a NaN or an infinity takes part
	isAtAnEnd   bool // the product or the result is subnormal, or it or a partial sum may be infinite
}

func where(is func(z sum) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		a, b, x := c.Matrix("A"), c.Matrix("B"), c.Matrix("X")
		dtype := c.Operands[c.Definition.Operand("Y")].DType
		return func(_, row, col int) bool { return is(sumOf(a, b, x.At(row, col), dtype, row, col)) }
	}
}

func sumOf(a, b bound.Matrix, x float64, dtype num.DType, row, col int) (z sum) {
	product, abs := 0.0, 0.0
	z.hasNoNumber = op.IsNoNumber(x)
	for k := range a.Cols {
		v, w := a.At(row, k), b.At(col, k)
		product, abs = product+v*w, abs+math.Abs(v*w)
		z.hasNoNumber = z.hasNoNumber || op.IsNoNumber(v) || op.IsNoNumber(w)
	}
	z.product = product
	z.isAtAnEnd = op.IsAtAnEnd(dtype, product) || op.IsAtAnEnd(dtype, product+x) || op.MayOverflow(abs)
	return z
}
