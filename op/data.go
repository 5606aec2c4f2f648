package op

import "tokitai/internal/gen"

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
