package swiglu

import (
	"math"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
)

// gates are the gate of both directions.
var gates = []struct {
	name string
	gate op.Element
}{
	{"near-zero-of-derivative", func(g *gen.Generator, _, _ int) float32 { return -1.2784645 + 0x1p-7*g.Normal() }},
	{"least-silu", func(g *gen.Generator, _, _ int) float32 { return -1.2784645 + g.Normal() }},
	{"above-six", op.Between(6, 12)}, // where silu is nearly gate
	{"below-minus-six", op.Between(-12, -6)},
	{"tails", func(g *gen.Generator, _, _ int) float32 { return either(g, g.Uniform(8, 32)) }},
	{"around-seventeen", func(g *gen.Generator, _, _ int) float32 { return either(g, 17+g.Normal()) }}, // 1 + e is 1
	{"exp-underflow", op.Between(-110, -84)},
	{"exp-overflow", op.Between(84, 110)}, // of a form with exp(gate)
	{"around-the-clamp", func(g *gen.Generator, _, _ int) float32 { return either(g, 128+g.Normal()) }},
	{"tiny", func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-30, -10) }},
	{"subnormal", func(g *gen.Generator, _, _ int) float32 {
		return either(g, math.Float32frombits(uint32(g.Below(1<<23))))
	}},
	{"subnormal-f16", func(g *gen.Generator, _, _ int) float32 { return either(g, 0x1p-24*float32(g.Below(1<<10))) }},
	{"every-exponent", func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-126, 128) }},
	{"every-exponent-of-f16", func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-14, 16) }},
	{"patterns-of-f16", func(_ *gen.Generator, r, c int) float32 { return num.F16ToF32(uint16(8191*r + c)) }},
	{"patterns-of-bf16", func(_ *gen.Generator, r, c int) float32 { return num.BF16ToF32(uint16(8191*r + c)) }},
}

// factors are up, and dy of the backward direction, with gates between -4 and 4.
var factors = []struct {
	name   string
	factor op.Element
}{
	{"zero", func(g *gen.Generator, _, _ int) float32 { return either(g, 0) }},
	{"subnormal", func(g *gen.Generator, _, _ int) float32 {
		return either(g, math.Float32frombits(uint32(g.Below(1<<23))))
	}},
	{"subnormal-f16", func(g *gen.Generator, _, _ int) float32 { return either(g, 0x1p-24*float32(g.Below(1<<10))) }},
	{"largest-f16", func(g *gen.Generator, _, _ int) float32 { return either(g, 65504-float32(32*g.Below(200))) }},
	{"wide", op.Wide},
}

func patterns(d *def.Definition) []op.Pattern {
	var list []op.Pattern
	add := func(name string, values map[string]op.Element) {
		list = append(list, op.Pattern{Name: name, Definition: d, Values: values})
	}
	for _, p := range gates {
		add(p.name, map[string]op.Element{"gate": p.gate})
	}
	for _, p := range factors {
		add(p.name+"-up", map[string]op.Element{"gate": op.Between(-4, 4), "up": p.factor})
	}
	// The tails of both factors meet: silu below 2^-126 times an up of up to 2^100.
	add("tail-times-large", map[string]op.Element{"gate": op.Between(-100, -60), "up": func(g *gen.Generator, _, _ int) float32 { return g.Exponents(40, 100) }})
	// Where silu is gate or its derivative 1, results are products: every power of two is stored.
	powers := func(g *gen.Generator, _, _ int) float32 { return either(g, float32(math.Ldexp(1, g.Below(42)-30))) }
	add("passes-through", map[string]op.Element{"gate": func(*gen.Generator, int, int) float32 { return 32 }, "up": powers, "dy": constant(1)})
	if d == BackwardDefinition {
		for _, p := range factors {
			add(p.name+"-gradient", map[string]op.Element{"gate": op.Between(-4, 4), "dy": p.factor})
		}
	}
	for i := range list {
		if d == ForwardDefinition {
			delete(list[i].Values, "dy")
		}
	}
	return list
}

var (
	forwardScalings = []op.Scaling{
		{Name: "scaled-up", Definition: ForwardDefinition, Inputs: map[string]int{"up": 1}, Outputs: map[string]int{"y": 1}},
		{Name: "negated-up", Definition: ForwardDefinition, Negated: []string{"up", "y"}},
	}
	backwardScalings = []op.Scaling{
		{Name: "scaled-dy", Definition: BackwardDefinition, Inputs: map[string]int{"dy": 1}, Outputs: map[string]int{"dgate": 1, "dup": 1}},
		{Name: "scaled-up", Definition: BackwardDefinition, Inputs: map[string]int{"up": 1}, Outputs: map[string]int{"dgate": 1}},
		{Name: "negated-dy", Definition: BackwardDefinition, Negated: []string{"dy", "dgate", "dup"}},
		{Name: "negated-up", Definition: BackwardDefinition, Negated: []string{"up", "dgate"}},
	}
)

func constant(x float32) op.Element { return func(*gen.Generator, int, int) float32 { return x } }

// either gives x one of the two signs.
func either(g *gen.Generator, x float32) float32 {
	if g.Below(2) == 1 {
		return -x
	}
	return x
}
