package relu2

import (
	"tokitai/def"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	{
		Name: "relu2.forward", Summary: "squared rectified linear unit",
		Definitions: []*def.Definition{ForwardDefinition}, Bounds: forwardBounds, Run: op.Plain(ForwardDefinition),
		Data: data(ForwardDefinition), Patterns: patterns(ForwardDefinition), Scalings: forwardScalings,
		Clauses: forwardClauses, Ranges: forwardRanges,
	},
	{
		Name: "relu2.backward", Summary: "gradient of relu2.forward, from its input",
		Definitions: []*def.Definition{BackwardDefinition}, Bounds: backwardBounds, Run: op.Plain(BackwardDefinition),
		Data: data(BackwardDefinition), Patterns: patterns(BackwardDefinition), Scalings: backwardScalings,
		Formulas: backwardFormulas, Clauses: backwardClauses, Ranges: backwardRanges,
	},
}

func data(d *def.Definition) []op.Data {
	size := map[string]int{"R": 64, "C": 1024}
	return []op.Data{
		{Name: "normal", Definition: d, Sizes: size},
		{Name: "wide", Definition: d, Sizes: size, Values: map[string]op.Element{"x": op.Wide}},
	}
}
