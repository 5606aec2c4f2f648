package crossentropy

import (
	"tokitai/def"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{{
	Name: "crossentropy", Summary: "cross-entropy loss of each row, and the gradient of its logits",
	Definitions: []*def.Definition{Definition}, Bounds: bounds,
	Params: []op.Param{
		{Name: "scale", Default: "1", Help: "multiplies the gradient"},
		{Name: "ignore", Default: "-100", Help: "label of rows to ignore"},
	},
	Run: op.Plain(Definition),
	Data: []op.Data{
		data("normal", 64, 1024, op.Normal),
		data("spread", 64, 1024, op.Scaled(8)),
		data("wide row", 2, 32768, op.Normal),
	},
	Patterns: patterns,
	Scalings: scalings,
	Formulas: formulas,
	Clauses:  clauses, Ranges: ranges,
}}

func data(name string, r, c int, x op.Element) op.Data {
	return op.Data{
		Name: name, Definition: Definition, Sizes: map[string]int{"R": r, "C": c},
		Params: []float64{DefaultIgnore, 1}, Values: map[string]op.Element{"logits": x},
	}
}
