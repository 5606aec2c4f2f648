package gelu

import (
	"tokitai/def"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	{
		Name: "gelu.forward", Summary: "Gaussian error linear unit, tanh approximation",
		Definitions: []*def.Definition{ForwardDefinition}, Bounds: forwardBounds, Run: op.Plain(ForwardDefinition),
		Data: data(ForwardDefinition), Patterns: patterns(ForwardDefinition),
		Formulas: forwardFormulas, Clauses: forwardClauses, Ranges: forwardRanges, Allowances: forwardAllowances,
	},
	{
		Name: "gelu.backward", Summary: "gradient of gelu.forward, from its input",
		Definitions: []*def.Definition{BackwardDefinition}, Bounds: backwardBounds, Run: op.Plain(BackwardDefinition),
		Data: data(BackwardDefinition), Patterns: patterns(BackwardDefinition), Scalings: scalings,
		Formulas: backwardFormulas, Clauses: backwardClauses, Ranges: backwardRanges, Allowances: backwardAllowances,
	},
}

func data(d *def.Definition) []op.Data {
	size := map[string]int{"R": 64, "C": 1024}
	return []op.Data{
		{Name: "normal", Definition: d, Sizes: size},
		{Name: "negative tail", Definition: d, Sizes: size, Values: map[string]op.Element{"x": op.Between(-10, 0)}},
		{Name: "positive tail", Definition: d, Sizes: size, Values: map[string]op.Element{"x": op.Between(0, 10)}},
		{Name: "wide", Definition: d, Sizes: size, Values: map[string]op.Element{"x": op.Wide}},
	}
}
