package silu

import (
	"math"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
)

// Arguments are values of x on which kernels with a silu fail.
var Arguments = []struct {
	Name string
	X    op.Element
}{
	{"near-zero-of-derivative", func(g *gen.Generator, _, _ int) float32 { return -1.2784645 + 0x1p-7*g.Normal() }},
	{"least-silu", func(g *gen.Generator, _, _ int) float32 { return -1.2784645 + g.Normal() }},
	{"above-six", op.Between(6, 12)}, // where silu is nearly x
	{"below-minus-six", op.Between(-12, -6)},
	{"tails", func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, g.Uniform(8, 32)) }},
	{"around-seventeen", func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, 17+g.Normal()) }}, // 1 + e is 1
	{"exp-underflow", op.Between(-110, -84)},
	{"exp-overflow", op.Between(84, 110)}, // of a form with exp(x)
	{"around-the-clamp", func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, 128+g.Normal()) }},
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

func patterns(d *def.Definition) []op.Pattern {
	var list []op.Pattern
	for _, p := range Arguments {
		list = append(list, op.Pattern{Name: p.Name, Definition: d, Values: map[string]op.Element{"x": p.X}})
	}
	if d == BackwardDefinition {
		for _, p := range op.Factors {
			list = append(list, op.Pattern{Name: p.Name + "-gradient", Definition: d, Values: map[string]op.Element{"x": op.Between(-4, 4), "dy": p.Value}})
		}
		// Where the derivative is 1, dx is dy: every power of two is stored.
		list = append(list, op.Pattern{Name: "passes-through", Definition: d, Values: map[string]op.Element{
			"x": func(*gen.Generator, int, int) float32 { return 32 },
			"dy": func(g *gen.Generator, _, _ int) float32 {
				return op.EitherSign(g, float32(math.Ldexp(1, g.Below(42)-25)))
			},
		}})
	}
	return list
}

var scalings = []op.Scaling{
	{Name: "scaled-dy", Definition: BackwardDefinition, Inputs: map[string]int{"dy": 1}, Outputs: map[string]int{"dx": 1}},
	{Name: "negated-dy", Definition: BackwardDefinition, Negated: []string{"dy", "dx"}},
}
