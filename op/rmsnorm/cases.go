package rmsnorm

import (
	"tokitai/def"
	"tokitai/op"
)

var params = []op.Param{{Name: "eps", Default: "1e-6", Help: "added to the mean square"}}

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	{
		Name: "rmsnorm.forward", Summary: "normalizes each row to mean square 1, then scales by column",
		Definitions: []*def.Definition{ForwardDefinition}, Bounds: forwardBounds, Params: params, Run: op.Plain(ForwardDefinition),
		Data: data(ForwardDefinition), Patterns: forwardPatterns(ForwardDefinition), Scalings: forwardScalings,
		Formulas: forwardFormulas, Clauses: forwardClauses, Ranges: rangesOf(ForwardDefinition),
	},
	{
		Name: "rmsnorm.residual", Summary: "adds a residual, stores the sum, and computes rmsnorm.forward of it",
		Definitions: []*def.Definition{ResidualDefinition}, Bounds: residualBounds, Params: params, Run: op.Plain(ResidualDefinition),
		Data: data(ResidualDefinition), Patterns: forwardPatterns(ResidualDefinition), Scalings: residualScalings,
		Clauses: residualClauses, Ranges: rangesOf(ResidualDefinition),
	},
	{
		Name: "rmsnorm.backward", Summary: "gradients of rmsnorm.forward",
		Definitions: []*def.Definition{BackwardDefinition}, Bounds: backwardBounds, Run: op.Plain(BackwardDefinition),
		Data: data(BackwardDefinition)[:1], Patterns: backwardPatterns, Scalings: backwardScalings,
		Formulas: backwardFormulas, Clauses: backwardClauses,
	},
}

func data(d *def.Definition) []op.Data {
	kind := func(name string, x op.Element) op.Data {
		data := op.Data{
			Name: name, Definition: d, Sizes: map[string]int{"R": 64, "C": 1024},
			Values: map[string]op.Element{"x": x, "gamma": op.Around(1), "rstd": op.Between(1, 2)},
		}
		if d != BackwardDefinition {
			data.Params = []float64{DefaultEps}
		}
		return data
	}
	return []op.Data{kind("normal", op.Normal), kind("mean 10", op.Around(10)), kind("small", op.Scaled(0x1p-10))}
}
