package layernorm

import (
	"tokitai/def"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	{
		Name: "layernorm.forward", Summary: "normalizes each row to mean 0 and variance 1, then scales and shifts by column",
		Definitions: []*def.Definition{ForwardDefinition}, Bounds: forwardBounds,
		Params: []op.Param{{Name: "eps", Default: "1e-5", Help: "added to the variance"}},
		Run:    op.Plain(ForwardDefinition),
		Data: []op.Data{
			data(ForwardDefinition, "normal", op.Normal),
			data(ForwardDefinition, "mean 10", op.Around(10)),
			data(ForwardDefinition, "small", op.Scaled(0x1p-6)),
		},
		Patterns: forwardPatterns,
		Scalings: forwardScalings,
		Formulas: forwardFormulas,
		Clauses:  forwardClauses, Ranges: forwardRanges,
	},
	{
		Name: "layernorm.backward", Summary: "gradients of layernorm.forward",
		Definitions: []*def.Definition{BackwardDefinition}, Bounds: backwardBounds, Allowances: backwardAllowances, Run: op.Plain(BackwardDefinition),
		Data:     []op.Data{data(BackwardDefinition, "normal", op.Normal)},
		Patterns: backwardPatterns,
		Scalings: backwardScalings,
		Formulas: backwardFormulas,
		Clauses:  backwardClauses,
	},
}

func data(d *def.Definition, name string, x op.Element) op.Data {
	data := op.Data{
		Name: name, Definition: d, Sizes: map[string]int{"R": 64, "C": 1024},
		Values: map[string]op.Element{"x": x, "gamma": op.Around(1), "mean": op.Scaled(0x1p-5), "rstd": op.Between(1, 2)},
	}
	if d == ForwardDefinition {
		data.Params = []float64{DefaultEps}
	}
	return data
}
