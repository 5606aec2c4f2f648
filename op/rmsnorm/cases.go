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
		Name: "rmsnorm.residual.forward", Summary: "adds a residual, stores the sum, and computes rmsnorm.forward of it",
		Definitions: []*def.Definition{ResidualForwardDefinition}, Bounds: residualForwardBounds, Params: params, Run: op.Plain(ResidualForwardDefinition),
		Data: data(ResidualForwardDefinition), Patterns: forwardPatterns(ResidualForwardDefinition), Scalings: residualForwardScalings,
		Formulas: residualForwardFormulas, Clauses: residualForwardClauses, Ranges: rangesOf(ResidualForwardDefinition),
	},
	{
		Name: "rmsnorm.backward", Summary: "gradients of rmsnorm.forward",
		Definitions: []*def.Definition{BackwardDefinition}, Bounds: backwardBounds, Run: op.Plain(BackwardDefinition),
		Data: data(BackwardDefinition)[:1], Patterns: backwardPatterns(BackwardDefinition), Scalings: backwardScalings(BackwardDefinition),
		Formulas: backwardFormulas, Clauses: backwardClauses(BackwardDefinition),
	},
	{
		Name: "rmsnorm.residual.backward", Summary: "gradients of rmsnorm.residual.forward, with that of the sum from elsewhere",
		Definitions: []*def.Definition{ResidualBackwardDefinition}, Bounds: residualBackwardBounds, Run: op.Plain(ResidualBackwardDefinition),
		Data: data(ResidualBackwardDefinition)[:1], Patterns: backwardPatterns(ResidualBackwardDefinition), Scalings: backwardScalings(ResidualBackwardDefinition),
		Formulas: residualBackwardFormulas, Clauses: backwardClauses(ResidualBackwardDefinition),
	},
}

func data(d *def.Definition) []op.Data {
	kind := func(name string, x op.Element) op.Data {
		data := op.Data{
			Name: name, Definition: d, Sizes: map[string]int{"R": 64, "C": 1024},
			Values: map[string]op.Element{"x": x, "residual": x, "gamma": op.Around(1), "rstd": op.Between(1, 2)},
		}
		if len(d.Params) > 0 {
			data.Params = []float64{DefaultEps}
		}
		return data
	}
	return []op.Data{kind("normal", op.Normal), kind("mean 10", op.Around(10)), kind("small", op.Scaled(0x1p-10))}
}
