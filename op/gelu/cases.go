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
		Data: data(BackwardDefinition), Patterns: patterns(BackwardDefinition), Scalings: scalings(BackwardDefinition),
		Formulas: backwardFormulas, Clauses: backwardClauses, Ranges: backwardRanges, Allowances: backwardAllowances,
	},
	{
		Name: "gelu.erf.forward", Summary: "Gaussian error linear unit by erf, without approximation",
		Definitions: []*def.Definition{ErfForwardDefinition}, Bounds: erfForwardBounds, Run: op.Plain(ErfForwardDefinition),
		Data: data(ErfForwardDefinition), Patterns: patterns(ErfForwardDefinition),
		Formulas: erfForwardFormulas, Clauses: erfForwardClauses, Ranges: erfForwardRanges, Allowances: erfForwardAllowances,
	},
	{
		Name: "gelu.erf.backward", Summary: "gradient of gelu.erf.forward, from its input",
		Definitions: []*def.Definition{ErfBackwardDefinition}, Bounds: erfBackwardBounds, Run: op.Plain(ErfBackwardDefinition),
		Data: data(ErfBackwardDefinition), Patterns: patterns(ErfBackwardDefinition), Scalings: scalings(ErfBackwardDefinition),
		Formulas: erfBackwardFormulas, Clauses: erfBackwardClauses, Ranges: erfBackwardRanges, Allowances: erfBackwardAllowances,
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
