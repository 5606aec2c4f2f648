package gemm

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
)

func clausesOf(definitions ...*def.Definition) (list []op.Clause) {
	for _, d := range definitions {
		clauses := []op.Clause{
			op.Interfaces(),
			op.Calculates(),
			op.Specially(where(func(z productSum) bool { return z.hasNoNumber })),
			op.Specially(where(func(z productSum) bool { return z.hasZeroTimes })),
			op.Interfaces(),
			op.Specially(where(func(z productSum) bool { return z.isZero })),
			op.Specially(where(func(z productSum) bool { return z.isAtAnEnd })),
		}
		if d.HasAxes() {
			clauses = append(clauses, op.Interfaces(), op.Calculates())
		}
		list = append(list, op.ClausesOf(d, clauses...)...)
	}
	return list
}

var fp8Clauses = op.ClausesOf(FP8ForwardDefinition,
	op.Interfaces(),
	op.Calculates(),
	op.Calculates(),
	op.Specially(where(func(z productSum) bool { return z.hasNoNumber })),
	op.Specially(where(func(z productSum) bool { return z.hasZeroTimes || z.isZero })),
	op.Interfaces(),
	op.Specially(where(func(z productSum) bool { return z.isAtAnEnd })),
)

// productSum is what clauses say of the sum of one element.
type productSum struct {
	hasNoNumber  bool // a NaN or an infinity takes part
	hasZeroTimes bool // and a zero is multiplied by one
	isZero       bool // the sum is zero, exactly or in its format
	isAtAnEnd    bool // it is subnormal, or it or a partial sum may be infinite
}

func where(is func(z productSum) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		return func(_, row, col int) bool { return is(productSumOf(c, row, col)) }
	}
}

// productSumOf adds up the products of an element of the result, in binary64.
func productSumOf(c *bound.Call, row, col int) (z productSum) {
	d, a, b, result := c.Definition, &c.Operands[0], &c.Operands[1], &c.Operands[2]
	terms := termsOf(c, row)
	sum, abs := 0.0, 0.0
	add := func(x, y float64) {
		sum, abs = sum+x*y, abs+math.Abs(x*y)
		if op.IsNoNumber(x) || op.IsNoNumber(y) {
			z.hasNoNumber = true
			z.hasZeroTimes = z.hasZeroTimes || x == 0 || y == 0
		}
	}
	for k := range terms.count {
		i, j := terms.left(k)
		x := a.At(i, j)
		i, j = terms.right(k, col)
		add(float64(x), float64(b.At(i, j)))
	}
	if d.Accumulates() {
		add(float64(result.At(row, col)), 1)
	}
	for _, name := range []string{d.Scales().Row, d.Scales().Col} {
		if i := d.Operand(name); i >= 0 {
			scale := float64(c.Operands[i].At(map[string]int{d.Scales().Row: row, d.Scales().Col: col}[name], 0))
			z.hasNoNumber = z.hasNoNumber || op.IsNoNumber(scale)
			z.hasZeroTimes = z.hasZeroTimes || scale == 0 && op.IsNoNumber(sum) || sum == 0 && op.IsNoNumber(scale)
			sum, abs = sum*scale, max(abs, abs*math.Abs(scale))
		}
	}
	z.isZero = num.Widen(result.DType, num.NarrowF64(result.DType, sum)) == 0
	z.isAtAnEnd = op.IsAtAnEnd(result.DType, sum) || op.MayOverflow(abs)
	return z
}
