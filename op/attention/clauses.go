package attention

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
)

var forwardClauses, decodeClauses = clausesOf(ForwardDefinition), clausesOf(DecodeDefinition)

// clausesOf returns the clauses of attention, which are the same wherever keys lie.
func clausesOf(d *def.Definition) []op.Clause {
	return op.ClausesOf(d,
		op.Interfaces(),
		op.Interfaces(),
		op.Interfaces(),
		op.Calculates(),
		op.Specially(whereQuery(func(z *queries, x *query, _ int) bool { return math.IsInf(x.largest, -1) })),
		op.Specially(whereQuery(func(z *queries, x *query, _ int) bool {
			return has(x.exponents, op.IsNoNumber)
		})),
		op.InfiniteOrNaN(op.OnlyOf(whereValue(func(z *queries, x *query, c int) bool {
			return has(x.keys, func(key int) bool { return op.IsNoNumber(float64(z.v.At(key, c))) })
		}), "o")),
		op.Specially(hiddenNoNumbers),
		op.Specially(op.Either(
			whereQuery(func(z *queries, x *query, _ int) bool { return has(x.products, op.MayOverflow) || z.hasSmallWeight(x) }),
			op.OnlyOf(whereValue(func(z *queries, x *query, c int) bool {
				abs := 0.0
				for _, key := range x.keys {
					abs += math.Abs(float64(z.v.At(key, c)))
				}
				return op.MayOverflow(abs)
			}), "o"),
			op.OnlyOf(op.WhereResult(op.IsAtAnEnd, meanOf), "o"),
			hasSubnormal,
		)),
		op.Calculates(),
		op.Interfaces(),
	)
}

func has[T any](list []T, is func(T) bool) bool {
	for _, x := range list {
		if is(x) {
			return true
		}
	}
	return false
}

// whereQuery covers the rows of both results that are of some kind.
func whereQuery(is func(z *queries, x *query, row int) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		z := queriesOf(c)
		rows := op.ByRow(func(row int) bool { return is(z, z.at(row), row) })
		return func(operand, row, col int) bool { return rows(z.row(operand, row, col)) }
	}
}

// whereValue covers the elements of o that are of some kind.
func whereValue(is func(z *queries, x *query, col int) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		z := queriesOf(c)
		return func(_, row, col int) bool { return is(z, z.at(row), col) }
	}
}

// hasSmallWeight reports whether a weight that a row has, relative to the largest, is below the normal
// numbers of the format of v.
func (z *queries) hasSmallWeight(x *query) bool {
	least := -126.0
	if z.q.DType == num.F16 {
		least = -14
	}
	return has(x.exponents, func(t float64) bool { return !op.IsNoNumber(t-x.largest) && t-x.largest < least+1 })
}

// hiddenNoNumbers covers the rows whose group has keys or values that are no numbers, and that they do
// not see.
func hiddenNoNumbers(c *bound.Call) func(operand, row, col int) bool {
	z := queriesOf(c)
	isBad := make([]bool, z.k.Rows)
	count := make([]int, z.groups)
	for row := range isBad {
		for col := range z.k.Cols {
			isBad[row] = isBad[row] || op.IsNoNumber(float64(z.k.At(row, col))) || op.IsNoNumber(float64(z.v.At(row, col)))
		}
		if isBad[row] {
			count[row%z.groups]++
		}
	}
	rows := op.ByRow(func(row int) bool {
		hidden := count[z.group(row)]
		for _, key := range z.at(row).keys {
			if isBad[key] {
				hidden--
			}
		}
		return hidden > 0
	})
	return func(operand, row, col int) bool { return rows(z.row(operand, row, col)) }
}

// hasSubnormal covers the rows with a subnormal query, key or value.
func hasSubnormal(c *bound.Call) func(operand, row, col int) bool {
	z := queriesOf(c)
	is := func(a num.Array, row int) bool {
		for col := range a.Cols {
			if op.IsSubnormalIn(a.DType, float64(a.At(row, col))) {
				return true
			}
		}
		return false
	}
	rows := op.ByRow(func(row int) bool {
		return is(z.q, row) || has(z.at(row).keys, func(key int) bool { return is(z.k, key) || is(z.v, key) })
	})
	return func(operand, row, col int) bool { return rows(z.row(operand, row, col)) }
}

// meanOf returns the elements of o.
func meanOf(c *bound.Call) func(operand, row, col int) float64 {
	z := queriesOf(c)
	return func(_, row, col int) float64 {
		x := z.at(row)
		mean, sum := 0.0, 0.0
		for i, key := range x.keys {
			w := math.Exp2(x.exponents[i] - x.largest)
			mean, sum = mean+w*float64(z.v.At(key, col)), sum+w
		}
		return mean / sum
	}
}
