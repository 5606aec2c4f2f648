package silu

import (
	"tokitai/def"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	{
		Name: "silu.forward", Summary: "sigmoid linear unit (swish): x times its sigmoid",
		Definitions: []*def.Definition{ForwardDefinition}, Bounds: forwardBounds, Run: op.Plain(ForwardDefinition),
		Data: data(ForwardDefinition), Patterns: patterns(ForwardDefinition),
		Formulas: forwardFormulas, Clauses: forwardClauses, Ranges: forwardRanges,
	},
	{
		Name: "silu.backward", Summary: "gradient of silu.forward, from its input",
		Definitions: []*def.Definition{BackwardDefinition}, Bounds: backwardBounds, Run: op.Plain(BackwardDefinition),
		Data: data(BackwardDefinition), Patterns: patterns(BackwardDefinition), Scalings: scalings,
		Formulas: backwardFormulas, Clauses: backwardClauses, Ranges: backwardRanges,
	},
}

func data(d *def.Definition) []op.Data {
	size := map[string]int{"R": 64, "C": 1024}
	return []op.Data{
		{Name: "normal", Definition: d, Sizes: size},
		{Name: "negative tail", Definition: d, Sizes: size, Values: map[string]op.Element{"x": op.Between(-40, 0)}},
		{Name: "positive tail", Definition: d, Sizes: size, Values: map[string]op.Element{"x": op.Between(0, 40)}},
		{Name: "wide", Definition: d, Sizes: size, Values: map[string]op.Element{"x": op.Wide}},
	}
}
