package gelu

import (
	"math"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
)

type argument struct {
	name string
	x    op.Element
}

// arguments are x of all definitions. limit is the number at which |x| is held.
func arguments(limit float32, underflow op.Element) []argument {
	return []argument{
		{"near-zero-of-derivative", func(g *gen.Generator, _, _ int) float32 { return -0.7517916 + 0x1p-7*g.Normal() }},
		{"tails", func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, g.Uniform(5, 12)) }},
		{"around-five", func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, 5+0.5*g.Normal()) }},
		{"around-the-clamp", func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, limit+0x1p-3*g.Normal()) }},
		{"exp-underflow", underflow},
		{"tiny", func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-30, -10) }},
		{"subnormal", func(g *gen.Generator, _, _ int) float32 {
			return op.EitherSign(g, math.Float32frombits(uint32(g.Below(1<<23))))
		}},
		{"subnormal-f16", func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, 0x1p-24*float32(g.Below(1<<10))) }},
		{"every-exponent", func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-126, 128) }},
		{"every-exponent-of-f16", func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-14, 16) }},
		{"patterns-of-f16", func(_ *gen.Generator, r, c int) float32 { return num.F16ToF32(uint16(8191*r + c)) }},
		{"patterns-of-bf16", func(_ *gen.Generator, r, c int) float32 { return num.BF16ToF32(uint16(8191*r + c)) }},
	}
}

// gradients are dy of the backward direction, with x between -4 and 4.
var gradients = []struct {
	name string
	dy   op.Element
}{
	{"zero-gradient", func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, 0) }},
	{"subnormal-gradient", func(g *gen.Generator, _, _ int) float32 {
		return op.EitherSign(g, math.Float32frombits(uint32(g.Below(1<<23))))
	}},
	{"subnormal-gradient-f16", func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, 0x1p-24*float32(g.Below(1<<10))) }},
	{"largest-gradient-f16", func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, 65504-float32(32*g.Below(200))) }},
	{"wide-gradient", op.Wide},
}

func patterns(d *def.Definition) []op.Pattern {
	var list []op.Pattern
	limit, underflow := float32(11), op.Between(-11, -9)
	if d == ErfForwardDefinition || d == ErfBackwardDefinition {
		limit, underflow = 15, op.Between(-15, -12)
	}
	for _, a := range arguments(limit, underflow) {
		list = append(list, op.Pattern{Name: a.name, Definition: d, Values: map[string]op.Element{"x": a.x}})
	}
	if d == BackwardDefinition || d == ErfBackwardDefinition {
		for _, a := range gradients {
			list = append(list, op.Pattern{Name: a.name, Definition: d, Values: map[string]op.Element{"dy": a.dy, "x": op.Between(-4, 4)}})
		}
		// Where the derivative is 1, dx is dy: every power of two is stored.
		list = append(list, op.Pattern{Name: "passes-through", Definition: d, Values: map[string]op.Element{
			"x": func(*gen.Generator, int, int) float32 { return 12 },
			"dy": func(g *gen.Generator, _, _ int) float32 {
				return op.EitherSign(g, float32(math.Ldexp(1, g.Below(42)-25)))
			},
		}})
	}
	return list
}

func scalings(d *def.Definition) []op.Scaling {
	return []op.Scaling{
		{Name: "scaled-dy", Definition: d, Inputs: map[string]int{"dy": 1}, Outputs: map[string]int{"dx": 1}},
		{Name: "negated-dy", Definition: d, Negated: []string{"dy", "dx"}},
	}
}
