package swiglu

import (
	"tokitai/def"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	{
		Name: "swiglu.forward", Summary: "gated linear unit: silu of one input times another",
		Definitions: []*def.Definition{ForwardDefinition}, Bounds: forwardBounds, Run: op.Plain(ForwardDefinition),
		Data: data(ForwardDefinition), Patterns: patterns(ForwardDefinition), Scalings: forwardScalings,
		Formulas: forwardFormulas, Clauses: forwardClauses, Ranges: forwardRanges,
	},
	{
		Name: "swiglu.backward", Summary: "gradients of swiglu.forward, from its inputs",
		Definitions: []*def.Definition{BackwardDefinition}, Bounds: backwardBounds, Run: op.Plain(BackwardDefinition),
		Data: data(BackwardDefinition), Patterns: patterns(BackwardDefinition), Scalings: backwardScalings,
		Formulas: backwardFormulas, Clauses: backwardClauses, Ranges: backwardRanges,
	},
}

func data(d *def.Definition) []op.Data {
	size := map[string]int{"R": 64, "C": 1024}
	return []op.Data{
		{Name: "normal", Definition: d, Sizes: size},
		{Name: "negative tail", Definition: d, Sizes: size, Values: map[string]op.Element{"gate": op.Between(-40, 0)}},
		{Name: "positive tail", Definition: d, Sizes: size, Values: map[string]op.Element{"gate": op.Between(0, 40)}},
		{Name: "wide", Definition: d, Sizes: size, Values: map[string]op.Element{"gate": op.Wide, "up": op.Wide}},
	}
}
