package swiglu

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
	"tokitai/op/silu"
)

var forwardClauses = op.ClausesOf(ForwardDefinition,
	op.Interfaces(),
	op.Specially(op.Where(op.IsNaN, "gate", "up")),
	op.Avoiding(op.Where(op.IsInfinite, "gate"), op.Where(isMinusInfinity, "gate")), // -Inf times the sigmoid of it
	op.Avoiding(op.Where(op.IsInfinite, "up"), infiniteAndFarBelow("up")),
	op.Specially(op.Where(op.IsZero, "gate")),
	op.Calculates(),
	op.Specially(op.Either(op.WhereSubnormal("gate", "up"), op.WhereResult(op.IsAtAnEnd, resultOf))),
	op.Interfaces(),
)

var backwardClauses = op.ClausesOf(BackwardDefinition,
	op.Interfaces(),
	op.Specially(where(op.IsNaN)),
	op.Avoiding(op.Where(op.IsInfinite, "gate"), op.Where(op.IsInfinite, "gate")), // the slope of the sigmoid, 0, times an infinity
	op.Avoiding(where(op.IsInfinite, "dy", "up"), infiniteAndFarBelow("dy", "up")),
	op.Specially(op.Where(op.IsZero, "gate")),
	op.Calculates(),
	op.Specially(op.Either(where(nil, "dy", "gate", "up"), op.WhereResult(op.IsAtAnEnd, resultOf))),
	op.Interfaces(),
)

func isMinusInfinity(v float64) bool { return math.IsInf(v, -1) }

// infiniteAndFarBelow covers infinite inputs where the gate is so far below zero that a form
// may have a sigmoid of 0 where the definition has none: exp(-gate) overflows at -88.7.
func infiniteAndFarBelow(inputs ...string) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		gate, isInfinite := op.InputOf(c, "gate"), where(op.IsInfinite, inputs...)(c)
		return func(operand, row, col int) bool {
			return gate(row, col) < -80 && isInfinite(operand, row, col)
		}
	}
}

// where covers outputs at the places where an input on which they depend holds a value of some
// kind, or a subnormal one if is is nil; dup does not depend on up.
func where(is func(float64) bool, inputs ...string) op.Covering {
	if inputs == nil {
		inputs = []string{"dy", "gate", "up"}
	}
	without := []string{}
	for _, name := range inputs {
		if name != "up" {
			without = append(without, name)
		}
	}
	covering := func(inputs ...string) op.Covering {
		if is == nil {
			return op.WhereSubnormal(inputs...)
		}
		return op.Where(is, inputs...)
	}
	return op.Either(op.OnlyOf(covering(inputs...), "y", "dgate"), op.OnlyOf(covering(without...), "dup"))
}

// resultOf returns y, dgate or dup.
func resultOf(c *bound.Call) func(operand, row, col int) float64 {
	gate, up := op.InputOf(c, "gate"), op.InputOf(c, "up")
	dy := func(int, int) float64 { return 1 }
	if c.Definition == BackwardDefinition {
		dy = op.InputOf(c, "dy")
	}
	return func(operand, row, col int) float64 {
		n := silu.At(gate(row, col))
		switch c.Definition.Operands[operand].Name {
		case "dgate":
			return dy(row, col) * up(row, col) * n.Slope()
		case "dup":
			return dy(row, col) * n.Value()
		}
		return n.Value() * up(row, col)
	}
}

// The sigmoid is between 0 and 1, so that y lies between 0 and gate·up. A form in which it
// exceeds 1 does so by rounding: 2^-20 is 16 roundings. A product that underflows may be larger
// than it should be by half of the least number.
var forwardRanges = []op.Range{{
	Definition: ForwardDefinition, Output: "y", Assumes: []string{"tanh", "sigmoid", "div", "recip"},
	Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
		return between(op.InputOf(c, "gate"), op.InputOf(c, "up"), 0, 1)
	},
}}

// The derivative of silu is between -0.0999 and 1.0999.
var backwardRanges = []op.Range{
	{
		Definition: BackwardDefinition, Output: "dgate", Clause: "C7", Assumes: []string{"exp", "tanh", "sigmoid", "div", "recip"},
		Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
			within, gate := between(op.InputOf(c, "dy"), op.InputOf(c, "up"), -0.1, 1.1), op.InputOf(c, "gate")
			return func(r, col int) (lo, hi float64) {
				if op.IsNoNumber(gate(r, col)) {
					return math.Inf(-1), math.Inf(1)
				}
				return within(r, col)
			}
		},
	},
	{
		Definition: BackwardDefinition, Output: "dup", Assumes: []string{"tanh", "sigmoid", "div", "recip"},
		Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
			return between(op.InputOf(c, "gate"), op.InputOf(c, "dy"), 0, 1)
		},
	},
}

// between returns the range of a product of two inputs and a factor from least to most.
func between(a, b func(r, col int) float64, least, most float64) func(r, col int) (lo, hi float64) {
	return func(r, col int) (lo, hi float64) {
		x, y := a(r, col), b(r, col)
		if op.IsNoNumber(x) || op.IsNoNumber(y) {
			return math.Inf(-1), math.Inf(1)
		}
		low, high := x*y*least*(1+0x1p-20), x*y*most*(1+0x1p-20)
		small := (1 + math.Abs(x) + math.Abs(y)) * 0x1p-149
		return min(low, high) - small, max(low, high) + small
	}
}
