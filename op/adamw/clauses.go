package adamw

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/op"
)

// clausesOf returns the clauses of a mode. The modes differ in C5 and C11.
func clausesOf(d *def.Definition) []op.Clause {
	return op.ClausesOf(d,
		op.Interfaces(),
		op.Interfaces(),
		op.Specially(op.Either(
			op.OnlyOf(op.Where(op.IsNaN, "weight", "m", "v", "grad"), "weight", "copy"),
			op.OnlyOf(op.Where(op.IsNaN, "m", "grad"), "m"),
			op.OnlyOf(op.Where(op.IsNaN, "v", "grad"), "v"),
		)),
		op.Interfaces(),
		op.Calculates(),
		op.Clause{Kind: op.Special, OrNaN: true, Covers: op.Either( // m + (1-beta1)*(grad-m) is NaN for an infinite m
			op.OnlyOf(op.Where(op.IsInfinite, "weight", "m", "grad"), "weight", "copy"),
			op.OnlyOf(op.Where(op.IsInfinite, "m"), "m"),
		), OthersGiveNaN: op.OnlyOf(fromGradient, "m")},
		op.Specially(op.OnlyOf(whereStep(func(s step, _ *bound.Call) bool { return s.v > math.MaxFloat32 || s.v < 0 }), "weight", "copy", "v")),
		op.InfiniteOrNaN(op.OnlyOf(whereStep(func(s step, c *bound.Call) bool { return s.v == 0 && c.Param("eps") == 0 }), "weight", "copy")),
		op.Specially(op.Either(op.WhereSubnormal("weight", "m", "v", "grad"), op.WhereResult(op.IsAtAnEnd, func(c *bound.Call) func(operand, row, col int) float64 {
			at := stepOf(c)
			return func(operand, row, col int) float64 { return at(row, col).of(c.Definition.Operands[operand].Name) }
		}))),
		op.Specially(op.OnlyOf(whereStep(func(s step, c *bound.Call) bool {
			return s.isAtRest && c.Param("decay") == 0 && c.Param("eps") > 0
		}), "weight", "copy")),
		op.Interfaces(),
	)
}

// fromGradient covers an infinite grad where beta1 is at most 1/2. An m that moves from the nearer
// of m and grad, as PyTorch's does, is then grad - beta1*(grad - m): NaN.
func fromGradient(c *bound.Call) func(operand, row, col int) bool {
	grad := op.InputOf(c, "grad")
	return func(_, row, col int) bool { return c.Param("one_minus_beta1") >= 0.5 && op.IsInfinite(grad(row, col)) }
}

// step is one element's new values over the real numbers.
type step struct {
	weight, m, v float64
	isAtRest     bool // m, v and grad are +0
}

func (s step) of(output string) float64 {
	switch output {
	case "m":
		return s.m
	case "v":
		return s.v
	}
	return s.weight
}

func stepOf(c *bound.Call) func(row, col int) step {
	weight, m, v, grad := op.InputOf(c, "weight"), op.InputOf(c, "m"), op.InputOf(c, "v"), op.InputOf(c, "grad")
	return func(row, col int) (s step) {
		w, g := weight(row, col), grad(row, col)
		isZero := func(x float64) bool { return x == 0 && !math.Signbit(x) }
		s.isAtRest = isZero(m(row, col)) && isZero(v(row, col)) && isZero(g)
		s.m = c.Param("beta1")*m(row, col) + c.Param("one_minus_beta1")*g
		s.v = c.Param("beta2")*v(row, col) + c.Param("one_minus_beta2")*g*g
		s.weight = w - (c.Param("step_size")*s.m/(math.Sqrt(s.v)*c.Param("inverse_sqrt_bc2")+c.Param("eps")) + c.Param("decay")*w)
		return s
	}
}

func whereStep(is func(s step, c *bound.Call) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		at := stepOf(c)
		return func(_, row, col int) bool { return is(at(row, col), c) }
	}
}

var clauses, ranges = func() (clauses []op.Clause, ranges []op.Range) {
	for mode := range Mode(len(modeNames)) {
		d := mode.Definition()
		clauses = append(clauses, clausesOf(d)...)
		// A mean of what is at least 0, with weights of at least 0: no form leaves it but one
		// that adds (1-beta2)*(grad^2 - v) to v, and that by its errors.
		ranges = append(ranges, op.Range{Definition: d, Output: "v", Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
			v, at := op.InputOf(c, "v"), stepOf(c)
			return func(r, col int) (lo, hi float64) {
				if !(v(r, col) >= 0) {
					return math.Inf(-1), math.Inf(1)
				}
				return -8 * bound.U * (v(r, col) + at(r, col).v), math.Inf(1)
			}
		}})
	}
	return clauses, ranges
}()
