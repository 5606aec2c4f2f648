package linear

import (
	"fmt"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	{
		Name: "linear.residual.forward", Summary: "matrix product, added to another matrix",
		Definitions: []*def.Definition{ResidualDefinition}, Bounds: residualBounds, Run: op.Plain(ResidualDefinition),
		Data: data(ResidualDefinition), Patterns: residualPatterns(), Clauses: residualClauses,
		Scalings: []op.Scaling{
			{Name: "scaled", Definition: ResidualDefinition, Inputs: map[string]int{"A": 1, "X": 1}, Outputs: map[string]int{"Y": 1}},
			{Name: "negated", Definition: ResidualDefinition, Negated: []string{"B", "X", "Y"}},
		},
	},
	{
		Name: "linear.swiglu.forward", Summary: "two matrix products, silu of one times the other",
		Definitions: []*def.Definition{SwiGLUDefinition}, Bounds: swigluBounds, Run: op.Plain(SwiGLUDefinition),
		Data: data(SwiGLUDefinition), Patterns: swigluPatterns(), Clauses: swigluClauses,
		Scalings: []op.Scaling{
			{Name: "scaled-up", Definition: SwiGLUDefinition, Inputs: map[string]int{"U": 1}, Outputs: map[string]int{"up": 1, "Y": 1}},
			{Name: "negated-up", Definition: SwiGLUDefinition, Negated: []string{"U", "up", "Y"}},
		},
	},
}

func data(d *def.Definition) []op.Data {
	var list []op.Data
	for _, k := range []int{64, 1024} {
		list = append(list, op.Data{Name: fmt.Sprintf("normal, %d summed", k), Definition: d, Sizes: map[string]int{"M": 48, "N": 48, "K": k}})
	}
	return append(list, op.Data{Name: "wide, 64 summed", Definition: d, Sizes: map[string]int{"M": 48, "N": 48, "K": 64}, Values: map[string]op.Element{"A": op.Wide}})
}

// constant is the same everywhere.
func constant(v float32) op.Element { return func(*gen.Generator, int, int) float32 { return v } }

// alternating changes its sign along a row.
func alternating(v float32) op.Element {
	return func(_ *gen.Generator, _, k int) float32 {
		if k%2 == 1 {
			return -v
		}
		return v
	}
}

// oneHuge has a huge element in each row.
func oneHuge(g *gen.Generator, _, k int) float32 {
	if k == 0 {
		return 2048
	}
	return g.Normal()
}

func swigluPatterns() []op.Pattern {
	d := SwiGLUDefinition
	return []op.Pattern{
		{Name: "cancellation", Definition: d, Values: map[string]op.Element{"A": alternating(1), "G": op.Around(8), "U": op.Around(8)}},
		{Name: "one-huge", Definition: d, Values: map[string]op.Element{"A": oneHuge}},
		{Name: "negative-tail", Definition: d, Values: map[string]op.Element{"A": op.AbsScaled(1), "G": op.Between(-4, 0)}},
		{Name: "positive-tail", Definition: d, Values: map[string]op.Element{"A": op.AbsScaled(1), "G": op.Between(0, 4)}},
		{Name: "gates-near-zero", Definition: d, Values: map[string]op.Element{"G": op.Scaled(0x1p-14)}},
		{Name: "overflow-of-f16", Definition: d, Values: map[string]op.Element{"A": constant(256), "U": op.Around(256)}},
	}
}

func residualPatterns() []op.Pattern {
	d := ResidualDefinition
	return []op.Pattern{
		{Name: "cancellation", Definition: d, Values: map[string]op.Element{"A": alternating(1), "B": op.Around(8)}},
		{Name: "one-huge", Definition: d, Values: map[string]op.Element{"A": oneHuge}},
		// The product is a tie or next to one, which a rounding of the sum alone does not see.
		{Name: "rounded-twice", Definition: d, Values: map[string]op.Element{"A": op.Around(32), "B": op.Around(32), "X": op.Scaled(0x1p-3)}},
		{Name: "residual-far-above", Definition: d, Values: map[string]op.Element{"X": op.Scaled(4096)}},
		{Name: "residual-far-below", Definition: d, Values: map[string]op.Element{"X": op.Scaled(0x1p-12)}},
		{Name: "product-near-zero", Definition: d, Values: map[string]op.Element{"A": op.Scaled(0x1p-12), "B": op.Scaled(0x1p-12), "X": constant(0)}},
		{Name: "overflow-of-f16", Definition: d, Values: map[string]op.Element{"A": constant(256), "B": op.Around(256)}},
	}
}
