package relu2

import (
	"math"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
)

// arguments are x of both directions.
var arguments = []struct {
	name string
	x    op.Element
}{
	{"around-zero", op.Scaled(0x1p-12)}, // squares are subnormal in f16
	{"negative", op.Between(-8, 0)},
	{"zero", func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, 0) }},
	{"overflow-of-f16", op.Around(256)},
	{"overflow-of-f32", func(g *gen.Generator, _, _ int) float32 { return 0x1p64 * (1 + 0x1p-20*g.Normal()) }},
	{"doubling-overflows", func(g *gen.Generator, _, _ int) float32 { return g.Exponents(125, 128) }},
	{"underflow-of-f32", func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-78, -60) }},
	{"subnormal", func(g *gen.Generator, _, _ int) float32 {
		return op.EitherSign(g, math.Float32frombits(uint32(g.Below(1<<23))))
	}},
	{"subnormal-f16", func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, 0x1p-24*float32(g.Below(1<<10))) }},
	{"every-exponent", func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-126, 128) }},
	{"patterns-of-f16", func(_ *gen.Generator, r, c int) float32 { return num.F16ToF32(uint16(8191*r + c)) }},
	{"patterns-of-bf16", func(_ *gen.Generator, r, c int) float32 { return num.BF16ToF32(uint16(8191*r + c)) }},
}

func patterns(d *def.Definition) []op.Pattern {
	var list []op.Pattern
	for _, p := range arguments {
		list = append(list, op.Pattern{Name: p.name, Definition: d, Values: map[string]op.Element{"x": p.x}})
	}
	if d == BackwardDefinition {
		for _, p := range op.Factors {
			list = append(list, op.Pattern{Name: p.Name + "-gradient", Definition: d, Values: map[string]op.Element{"x": op.Between(-4, 4), "dy": p.Value}})
		}
		// Where 2·x is 1, dx is dy: every power of two is stored.
		list = append(list, op.Pattern{Name: "passes-through", Definition: d, Values: map[string]op.Element{
			"x": func(*gen.Generator, int, int) float32 { return 0.5 },
			"dy": func(g *gen.Generator, _, _ int) float32 {
				return op.EitherSign(g, float32(math.Ldexp(1, g.Below(42)-25)))
			},
		}})
	}
	return list
}

var (
	forwardScalings = []op.Scaling{
		{Name: "scaled-x", Definition: ForwardDefinition, Inputs: map[string]int{"x": 1}, Outputs: map[string]int{"y": 2}},
	}
	backwardScalings = []op.Scaling{
		{Name: "scaled-dy", Definition: BackwardDefinition, Inputs: map[string]int{"dy": 1}, Outputs: map[string]int{"dx": 1}},
		{Name: "scaled-x", Definition: BackwardDefinition, Inputs: map[string]int{"x": 1}, Outputs: map[string]int{"dx": 1}},
		{Name: "negated-dy", Definition: BackwardDefinition, Negated: []string{"dy", "dx"}},
	}
)
