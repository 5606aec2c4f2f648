package sgd

import (
	"math"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	operation(StepDefinition, false, "one step of SGD with momentum on one tensor"),
	operation(MasterDefinition, false, "one step of SGD with momentum on f32 weights with a 16-bit copy"),
	operation(NesterovDefinition, true, "one step of SGD with Nesterov's momentum on one tensor"),
	operation(NesterovMasterDefinition, true, "one step of SGD with Nesterov's momentum on f32 weights with a 16-bit copy"),
}

func operation(d *def.Definition, isNesterov bool, summary string) *op.Operation {
	o := op.Of(d, "")
	o.IsOwn, o.Summary, o.Data, o.Bounds = false, summary, []op.Data{data(d, "usual", usual), data(d, "dampened", Hyper{0.1, 0.9, 0.5, 0.01})}, boundsOf(d, isNesterov)
	o.Patterns, o.Scalings, o.Clauses = patterns(d), scalings(d), clausesOf(d, isNesterov)
	return o
}

// usual are numbers that people train with.
var usual = Hyper{LR: 0.1, Momentum: 0.9, WeightDecay: 5e-4}

func (h Hyper) list() []float64 { return []float64{h.LR, h.Momentum, h.Dampening, h.WeightDecay} }

func data(d *def.Definition, name string, h Hyper) op.Data {
	return op.Data{
		Name: name, Definition: d, Sizes: map[string]int{"R": 64, "C": 1024}, Params: h.list(),
		Values: map[string]op.Element{"weight": op.Scaled(0.02), "buffer": op.Scaled(0x1p-5), "grad": op.Scaled(0x1p-7)},
	}
}

// patterns say what training has, where they do not.
func patterns(d *def.Definition) (list []op.Pattern) {
	for _, p := range []struct {
		name                 string
		hyper                Hyper
		weight, buffer, grad op.Element
	}{
		{name: "first-step", hyper: usual, buffer: zeros},
		{name: "no-momentum", hyper: Hyper{LR: 0.1, WeightDecay: 0.01}},
		{name: "no-learning", hyper: Hyper{Momentum: 0.9}},
		{name: "nothing", hyper: Hyper{LR: 0.1, Momentum: 0.9}, buffer: zeros, grad: zeros},
		{name: "fully-dampened", hyper: Hyper{LR: 0.1, Momentum: 0.9, Dampening: 1, WeightDecay: 0.01}},
		{name: "negative-dampening", hyper: Hyper{LR: 0.1, Momentum: 0.9, Dampening: -3}},
		{name: "large-decay", hyper: Hyper{LR: 0.5, Momentum: 0, WeightDecay: 2}, grad: zeros}, // the weight cancels
		{name: "buffer-cancels", hyper: Hyper{LR: 0.1, Momentum: 0.5}, buffer: shared(2), grad: shared(-1)},
		{name: "decay-cancels", hyper: Hyper{LR: 0.1, Momentum: 0.9, WeightDecay: 1}, weight: shared(1), grad: shared(-1)},
		{name: "lost-updates", hyper: Hyper{LR: 1e-6, Momentum: 0.9}, weight: op.Around(4)},
		{name: "huge-gradients", hyper: usual, grad: op.Scaled(10000)},
		{name: "overflow", hyper: Hyper{LR: 1, Momentum: 0.9}, grad: func(g *gen.Generator, _, _ int) float32 { return g.Exponents(125, 128) }},
		{name: "subnormal-weights", hyper: Hyper{LR: 1e-41, Momentum: 0.9, WeightDecay: 0.5}, weight: subnormal},
		{name: "subnormal-state", hyper: usual, buffer: subnormal, grad: subnormal},
		{name: "wide", hyper: usual, weight: op.Wide, buffer: op.Wide, grad: op.Wide},
	} {
		values := data(d, "", usual).Values
		for name, e := range map[string]op.Element{"weight": p.weight, "buffer": p.buffer, "grad": p.grad} {
			if e != nil {
				values[name] = e
			}
		}
		list = append(list, op.Pattern{Name: p.name, Definition: d, Params: p.hyper.list(), Values: values})
	}
	return list
}

func scalings(d *def.Definition) []op.Scaling {
	all, negated := map[string]int{"weight": 1, "buffer": 1}, []string{"weight", "buffer", "grad"}
	if d.Operand("copy") >= 0 {
		all["copy"], negated = 1, append(negated, "copy")
	}
	return []op.Scaling{
		{Name: "scaled", Definition: d, Inputs: map[string]int{"weight": 1, "buffer": 1, "grad": 1}, Outputs: all},
		{Name: "negated", Definition: d, Negated: negated},
	}
}

func zeros(*gen.Generator, int, int) float32 { return 0 }

func subnormal(g *gen.Generator, _, _ int) float32 {
	return op.EitherSign(g, math.Float32frombits(uint32(g.Below(1<<23))))
}

// shared is one value for several operands, times a factor.
func shared(factor float32) op.Element {
	return func(g *gen.Generator, r, c int) float32 {
		return factor * 0x1p-8 * gen.Seeded(uint64(r)<<32|uint64(c)).Normal() * (1 + float32(g.Below(8))*0x1p-11)
	}
}
