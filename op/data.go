package op

import (
	"tokitai/def"
	"tokitai/internal/gen"
)

// Pattern is a way to fill the operands of a definition that asks something of a
// kernel which random numbers do not: cancellation, one huge element, ties, many
// occurrences of one index. It is tried in many sizes.
type Pattern struct {
	Name       string // lower case and hyphens: it is part of a case's name
	Definition *def.Definition
	Params     []float64          // in the order of the definition; nil takes those of its first Data
	Values     map[string]Element // operands that it does not name are normally distributed
	Index      map[string]Index   // indices that it does not name are uniform

	// IsGrid says that every sum over these values is exact in every order, and that
	// nothing else of the definition is left to a lowering: even one that promises no
	// bits has one answer.
	IsGrid bool

	// IsLong says that the pattern is also meant for a sum of more terms than one machine
	// word adds exactly. Only levels with room for it have such a case.
	IsLong bool
}

// Index is the index at a row, for a table of bound rows; it may lie outside.
type Index func(g *gen.Generator, r, bound int) int

// Scaling is a relation that holds bit for bit: where the named inputs and parameters
// are multiplied by powers of two, the outputs are too. It is stated for the exponent
// k: an operand with factor 2 is multiplied by 4^k, one with factor -1 divided by 2^k.
// What is not named stays as it is. It is asserted of inputs whose multiples are exact
// in their formats, where both results are normal numbers, for a k that keeps all
// intermediate results so.
type Scaling struct {
	Name       string // lower case and hyphens
	Definition *def.Definition
	Inputs     map[string]int
	Params     map[string]int
	Outputs    map[string]int
	Negated    []string // operands, inputs and outputs, that change their sign too
}

// Elements that several operations use.
var (
	// Normal is a standard normal variable, as operands are by default.
	Normal Element = func(g *gen.Generator, _, _ int) float32 { return g.Normal() }

	// Wide has exponents from 2^-12 to 2^4 and either sign.
	Wide Element = func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-12, 4) }

	// Positive is between 2^-9 and 2^3.
	Positive Element = func(g *gen.Generator, _, _ int) float32 { return abs(g.Ordinary()) }
)

// Scaled is a normal variable times s.
func Scaled(s float32) Element {
	return func(g *gen.Generator, _, _ int) float32 { return s * g.Normal() }
}

// Around is a normal variable around a mean.
func Around(mean float32) Element {
	return func(g *gen.Generator, _, _ int) float32 { return mean + g.Normal() }
}

// Between is uniform in [low, high).
func Between(low, high int) Element {
	return func(g *gen.Generator, _, _ int) float32 { return g.Uniform(low, high) }
}

// AbsScaled is the absolute value of a normal variable, times s.
func AbsScaled(s float32) Element {
	return func(g *gen.Generator, _, _ int) float32 { return abs(s * g.Normal()) }
}

func abs(x float32) float32 {
	if x < 0 {
		return -x
	}
	return x
}
