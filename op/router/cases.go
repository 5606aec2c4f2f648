package router

import (
	"math"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = append([]*op.Operation{
	{
		Name: "router.softmax.forward", Summary: "experts of each token by their probabilities, and their weights",
		Usual:       map[string]int{"C": 256, "K": 8},
		Definitions: []*def.Definition{SoftmaxForwardDefinition}, Bounds: softmaxForwardBounds, Run: run(SoftmaxForwardDefinition), Params: params,
		Data: data(SoftmaxForwardDefinition), Patterns: patterns(SoftmaxForwardDefinition), Clauses: softmaxForwardClauses,
	},
	{
		Name: "router.softmax.backward", Summary: "gradient of router.softmax.forward, from its inputs",
		Usual:       map[string]int{"C": 256, "K": 8},
		Definitions: []*def.Definition{SoftmaxBackwardDefinition}, Bounds: softmaxBackwardBounds, Run: run(SoftmaxBackwardDefinition), Params: params,
		Data: data(SoftmaxBackwardDefinition), Patterns: patterns(SoftmaxBackwardDefinition), Clauses: softmaxBackwardClauses,
	},
	{
		Name: "router.sigmoid.forward", Summary: "experts of each token by sigmoid scores, and their weights",
		Usual:       map[string]int{"C": 256, "K": 8},
		Definitions: []*def.Definition{SigmoidForwardDefinition}, Bounds: sigmoidForwardBounds, Run: run(SigmoidForwardDefinition), Params: params,
		Data: data(SigmoidForwardDefinition), Patterns: patterns(SigmoidForwardDefinition), Clauses: sigmoidForwardClauses,
	},
	{
		Name: "router.sigmoid.backward", Summary: "gradient of router.sigmoid.forward, from its inputs",
		Usual:       map[string]int{"C": 256, "K": 8},
		Definitions: []*def.Definition{SigmoidBackwardDefinition}, Bounds: sigmoidBackwardBounds, Run: run(SigmoidBackwardDefinition), Params: params,
		Data: data(SigmoidBackwardDefinition), Patterns: patterns(SigmoidBackwardDefinition), Clauses: sigmoidBackwardClauses,
	},
}, balanceOperations...)

var params = []op.Param{
	{Name: "k", Default: "2", Help: "experts of a token"},
	{Name: "normalise", Default: "1", Help: "1: the weights of a token add up to scale; 0: they are scores times scale"},
	{Name: "scale", Default: "1", Help: "factor of all weights"},
}

// run returns the Run of a definition: there are k slots, unless an input has another number.
func run(d *def.Definition) func(*engine.Queue, engine.Args, *op.Values, ...engine.CallOption) (engine.Args, error) {
	plain := op.Plain(d)
	return func(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.CallOption) (engine.Args, error) {
		k := int(v.Int("k", 1, math.MaxInt32))
		return plain(q, in, v, append(opts, engine.WithSizes(map[string]int{"K": k}))...)
	}
}

func data(d *def.Definition) []op.Data {
	small := map[string]op.Element{"bias": op.Scaled(0x1p-6)}
	return []op.Data{
		{Name: "normal", Definition: d, Sizes: sizes(64, 256, 8), Params: []float64{8, 1, 1}, Values: small},
		{Name: "scaled", Definition: d, Sizes: sizes(64, 60, 4), Params: []float64{4, 1, 2.5}, Values: small},
		{Name: "not normalised", Definition: d, Sizes: sizes(64, 128, 2), Params: []float64{2, 0, 1}, Values: small},
	}
}

func sizes(r, c, k int) map[string]int { return map[string]int{"R": r, "C": c, "K": k} }

func patterns(d *def.Definition) []op.Pattern {
	var list []op.Pattern
	add := func(name string, values map[string]op.Element, params ...float64) {
		list = append(list, op.Pattern{Name: name, Definition: d, Values: values, Params: params})
	}
	add("ties", map[string]op.Element{"logits": few, "bias": op.Scaled(0)}, 3, 1, 1)
	add("ties-of-biases", map[string]op.Element{"logits": op.Scaled(0), "bias": few}, 3, 0, 1)
	add("bias-decides", map[string]op.Element{"bias": op.Scaled(64)}, 2, 1, 2.5)
	add("one-dominates", map[string]op.Element{"logits": oneHuge}, 4, 0, 0.75)
	add("tiny-scores", map[string]op.Element{"logits": op.Between(-110, -80)}, 2, 1, 1)
	add("all-chosen", nil, 1<<20, 1, 1)
	add("fewer-than-slots", nil, 1, 1, 1)
	return list
}

// few has few values, so that many are equal.
func few(g *gen.Generator, _, _ int) float32 { return float32(g.Below(3)) - 1 }

func oneHuge(g *gen.Generator, r, c int) float32 {
	if c == r%7 {
		return 60
	}
	return g.Normal()
}
