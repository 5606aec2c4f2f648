package swiglu

import (
	"math"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
	"tokitai/op/silu"
)

func patterns(d *def.Definition) []op.Pattern {
	var list []op.Pattern
	add := func(name string, values map[string]op.Element) {
		list = append(list, op.Pattern{Name: name, Definition: d, Values: values})
	}
	for _, p := range silu.Arguments {
		add(p.Name, map[string]op.Element{"gate": p.X})
	}
	for _, p := range op.Factors {
		add(p.Name+"-up", map[string]op.Element{"gate": op.Between(-4, 4), "up": p.Value})
	}
	// The tails of both factors meet: silu below 2^-126 times an up of up to 2^100.
	add("tail-times-large", map[string]op.Element{"gate": op.Between(-100, -60), "up": func(g *gen.Generator, _, _ int) float32 { return g.Exponents(40, 100) }})
	// Where silu is gate or its derivative 1, results are products: every power of two is stored.
	powers := func(g *gen.Generator, _, _ int) float32 {
		return op.EitherSign(g, float32(math.Ldexp(1, g.Below(42)-30)))
	}
	add("passes-through", map[string]op.Element{"gate": func(*gen.Generator, int, int) float32 { return 32 }, "up": powers, "dy": constant(1)})
	if d == BackwardDefinition {
		for _, p := range op.Factors {
			add(p.Name+"-gradient", map[string]op.Element{"gate": op.Between(-4, 4), "dy": p.Value})
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
