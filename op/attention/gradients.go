package attention

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
)

// gradients are the rows of a call of the gradients, in binary64: those of queries by the row of dq, and
// for each row of dk the queries that see it.
type gradients struct {
	*queries
	do, o, lse num.Array
	of         func(row int) *gradient
	seenBy     [][]seen // by row of dk
}

// gradient is what a query and head has in common.
type gradient struct {
	*query
	origin  float64  // lse, or 0 where it is -Inf
	delta   float64  // the sum of do*o
	sizes   float64  // that of |do*o|
	weights []weight // by key
}

// weight is that of a key, and the gradient of its score.
type weight struct {
	p, pError, ds, dsError float64 // errors are those of what is multiplied: p and ds rounded to the format of v
	dp, sizes              float64 // the sum of do*v, that of |do*v|
}

// seen is a query and head that sees a key: its row, and which of its keys that is.
type seen struct{ row, key int }

func gradientsOf(c *bound.Call) *gradients {
	operand := func(name string) num.Array { return c.Operands[c.Definition.Operand(name)] }
	z := &gradients{queries: queriesOf(c), do: operand("do"), o: operand("o"), lse: operand("lse")}
	rows := make([]*gradient, z.q.Rows)
	z.of = func(row int) *gradient {
		if rows[row] == nil {
			rows[row] = z.readGradient(row)
		}
		return rows[row]
	}
	z.seenBy = make([][]seen, z.k.Rows)
	for row := range z.q.Rows {
		for i, key := range z.of(row).keys {
			z.seenBy[key] = append(z.seenBy[key], seen{row, i})
		}
	}
	return z
}

// readGradient computes a row. Errors are those of bound.go.
func (z *gradients) readGradient(row int) *gradient {
	x := &gradient{query: z.read(row), origin: float64(z.lse.At(row/z.shared, row%z.shared))}
	if math.IsInf(x.origin, -1) {
		x.origin = 0
	}
	for d := range z.q.Cols {
		product := float64(z.do.At(row, d)) * float64(z.o.At(row, d)) // exact
		x.delta, x.sizes = x.delta+product, x.sizes+math.Abs(product)
	}
	for i, key := range x.keys {
		w := weight{p: math.Exp2(x.exponents[i] - x.origin)}
		for d := range z.q.Cols {
			product := float64(z.do.At(row, d)) * float64(z.v.At(key, d))
			w.dp, w.sizes = w.dp+product, w.sizes+math.Abs(product)
		}
		w.ds = w.p * (w.dp - x.delta)
		z.bound(x, i, &w)
		x.weights = append(x.weights, w)
	}
	return x
}

// eachSeen calls f for every query and key that a result depends on: of a row of dq its own keys, of one
// of dk or dv the queries that see it, until f returns false.
func (z *gradients) eachSeen(operand, row int, f func(x *gradient, row, key int) bool) {
	if z.call.Definition.Operands[operand].Name == "dq" {
		x := z.of(row)
		for i := range x.keys {
			if !f(x, row, i) {
				return
			}
		}
		return
	}
	for _, s := range z.seenBy[row] {
		if !f(z.of(s.row), s.row, s.key) {
			return
		}
	}
}

// wherePair covers the rows of results that depend on a query and a key of some kind.
func wherePair(is func(z *gradients, x *gradient, row, key int) bool) op.Covering {
	return whereGradient(func(z *gradients, operand, row int) bool {
		found := false
		z.eachSeen(operand, row, func(x *gradient, row, key int) bool {
			found = is(z, x, row, key)
			return !found
		})
		return found
	})
}

// whereGradient covers the rows of results that are of some kind.
func whereGradient(is func(z *gradients, operand, row int) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		z := gradientsOf(c)
		type place struct{ operand, row int }
		known := map[place]bool{}
		return func(operand, row, _ int) bool {
			at := place{operand, row}
			covered, ok := known[at]
			if !ok {
				covered = is(z, operand, row)
				known[at] = covered
			}
			return covered
		}
	}
}

// backwardClauses has the clauses that may be waived.
var backwardClauses = op.ClausesOf(BackwardDefinition,
	op.Interfaces(),
	op.Interfaces(),
	op.Interfaces(),
	op.Interfaces(),
	op.Calculates(),
	op.Specially(whereGradient(func(z *gradients, operand, row int) bool {
		isAlone := true
		z.eachSeen(operand, row, func(*gradient, int, int) bool {
			isAlone = false
			return false
		})
		return isAlone
	})),
	op.Specially(wherePair(func(z *gradients, _ *gradient, row, _ int) bool {
		return math.IsInf(float64(z.lse.At(row/z.shared, row%z.shared)), -1)
	})),
	op.Specially(wherePair(func(z *gradients, x *gradient, row, key int) bool {
		return z.isBadQuery(row) || z.isBadKey(x.keys[key])
	})),
	op.Specially(whereGradient(hiddenGradients)),
	op.Specially(op.Either(wherePair((*gradients).isExtreme), mayOverflow, op.WhereResult(op.IsAtAnEnd, gradientOf))),
	op.Calculates(),
	op.Interfaces(),
)

func hasNoNumber(a num.Array, row int) bool {
	for col := range a.Cols {
		if op.IsNoNumber(float64(a.At(row, col))) {
			return true
		}
	}
	return false
}

// isBadQuery reports whether an operand of a query and head has a value that is no number. A logarithm of
// -Inf counts as 0.
func (z *gradients) isBadQuery(row int) bool {
	lse := float64(z.lse.At(row/z.shared, row%z.shared))
	return hasNoNumber(z.q, row) || hasNoNumber(z.do, row) || hasNoNumber(z.o, row) || op.IsNoNumber(lse) && !math.IsInf(lse, -1)
}

func (z *gradients) isBadKey(row int) bool { return hasNoNumber(z.k, row) || hasNoNumber(z.v, row) }

// hiddenGradients reports whether a result's group has keys, or queries, with values that are no
// numbers, on which it does not depend.
func hiddenGradients(z *gradients, operand, row int) bool {
	hidden := 0
	isOfQuery := z.call.Definition.Operands[operand].Name == "dq"
	if isOfQuery {
		for key := z.group(row); key < z.k.Rows; key += z.groups {
			if z.isBadKey(key) {
				hidden++
			}
		}
	} else {
		for of := range z.q.Rows {
			if z.group(of) == row%z.groups && z.isBadQuery(of) {
				hidden++
			}
		}
	}
	z.eachSeen(operand, row, func(x *gradient, of, key int) bool {
		if isOfQuery && z.isBadKey(x.keys[key]) || !isOfQuery && z.isBadQuery(of) {
			hidden--
		}
		return true
	})
	return hidden > 0
}

// isExtreme reports whether a query and a key have values at an end of their formats, or meet in one.
func (z *gradients) isExtreme(x *gradient, row, key int) bool {
	w := &x.weights[key]
	if op.MayOverflow(x.products[key]) || op.MayOverflow(w.sizes+x.sizes) || op.MayOverflow(w.p) || op.MayOverflow(math.Abs(w.ds)) ||
		op.IsAtAnEnd(z.q.DType, w.p) || op.IsAtAnEnd(z.q.DType, w.ds) {
		return true
	}
	at := x.keys[key]
	for d := range z.q.Cols {
		for _, v := range []float32{z.q.At(row, d), z.do.At(row, d), z.o.At(row, d), z.k.At(at, d), z.v.At(at, d)} {
			if op.IsSubnormalIn(z.q.DType, float64(v)) {
				return true
			}
		}
	}
	return false
}

// gradientOf returns the elements of results.
func gradientOf(c *bound.Call) func(operand, row, col int) float64 {
	z := gradientsOf(c)
	return func(operand, row, col int) float64 { return z.sum(operand, row, col).value }
}

// mayOverflow covers the elements whose sums may overflow in some order.
func mayOverflow(c *bound.Call) func(operand, row, col int) bool {
	z := gradientsOf(c)
	return func(operand, row, col int) bool {
		s := z.sum(operand, row, col)
		return op.MayOverflow(s.abs) || op.MayOverflow(s.abs*s.scale)
	}
}

// sum is that of an element of a result: its value, and what its errors follow from.
type sum struct {
	value, abs float64 // the sum of magnitudes with errors, not scaled
	scale      float64 // that multiplies it
	errors     float64 // of the factors, times the others
	steps      int
}

func (z *gradients) sum(operand, row, col int) sum {
	name := z.call.Definition.Operands[operand].Name
	s := sum{scale: math.Ln2 * math.Abs(z.kappa)}
	if name == "dv" {
		s.scale = 1
	}
	n := 0
	z.eachSeen(operand, row, func(x *gradient, of, key int) bool {
		w := &x.weights[key]
		factor, e, other := w.ds, w.dsError, z.k.At(x.keys[key], col)
		switch name {
		case "dk":
			other = z.q.At(of, col)
		case "dv":
			factor, e, other = w.p, w.pError, z.do.At(of, col)
		}
		s.value += factor * float64(other)
		s.abs += (math.Abs(factor) + e) * math.Abs(float64(other))
		s.errors += e * math.Abs(float64(other))
		n++
		return true
	})
	if s.steps = min(n, def.StreamSegment) + z.shared*(n/def.StreamSegment+2); name == "dq" {
		s.steps = min(n, def.StreamBlock) + (n+def.StreamBlock-1)/def.StreamBlock
	}
	if name != "dv" {
		s.value *= math.Ln2 * z.kappa
	}
	return s
}
