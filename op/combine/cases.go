package combine

import (
	"slices"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

var sizes = map[string]int{"Q": 256, "S": 4, "V": 1024, "D": 64}

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	{
		Name: "combine.forward", Summary: "weighted sums of the rows of a token's experts",
		Usual:       map[string]int{"S": 8},
		Definitions: []*def.Definition{ForwardDefinition}, Bounds: forwardBounds, Run: op.Plain(ForwardDefinition),
		Data: []op.Data{
			{Name: "normal", Definition: ForwardDefinition, Sizes: sizes},
			{Name: "wide", Definition: ForwardDefinition, Sizes: sizes, Values: map[string]op.Element{"o": op.Wide}},
		},
		Patterns: slices.Concat(places(ForwardDefinition), values(ForwardDefinition, "o")),
		Scalings: []op.Scaling{
			{Name: "scaled-o", Definition: ForwardDefinition, Inputs: map[string]int{"o": 1}, Outputs: map[string]int{"y": 1}},
			{Name: "scaled-weight", Definition: ForwardDefinition, Inputs: map[string]int{"weight": 1}, Outputs: map[string]int{"y": 1}},
			{Name: "negated-o", Definition: ForwardDefinition, Negated: []string{"o", "y"}},
		},
		Clauses: forwardClauses,
	},
	{
		Name: "combine.backward", Summary: "gradient of combine.forward, of permuted rows",
		Definitions: []*def.Definition{BackwardDefinition}, Bounds: backwardBounds, Run: op.Plain(BackwardDefinition),
		Data: []op.Data{
			{Name: "normal", Definition: BackwardDefinition, Sizes: map[string]int{"R": 64, "C": 1024}},
			{Name: "wide", Definition: BackwardDefinition, Sizes: map[string]int{"R": 64, "C": 1024}, Values: map[string]op.Element{"dy": op.Wide}},
		},
		Patterns: []op.Pattern{
			{Name: "cancellation", Definition: BackwardDefinition, Values: map[string]op.Element{"o": opposite, "dy": one}},
			{Name: "integers", Definition: BackwardDefinition, IsGrid: true, Values: map[string]op.Element{"o": integer, "dy": integer, "weight": integer}},
			{Name: "overflow-of-f16", Definition: BackwardDefinition, Values: map[string]op.Element{"dy": op.Around(256), "weight": op.Around(256)}},
		},
		Scalings: []op.Scaling{
			{Name: "scaled-dy", Definition: BackwardDefinition, Inputs: map[string]int{"dy": 1}, Outputs: map[string]int{"do": 1, "dweight": 1}},
			{Name: "negated-dy", Definition: BackwardDefinition, Negated: []string{"dy", "do", "dweight"}},
		},
		Clauses: backwardClauses,
	},
	{
		Name: "combine.permute.forward", Summary: "tokens as rows of their experts, bit for bit",
		Definitions: []*def.Definition{PermuteDefinition}, Bounds: permuteBounds, Run: op.Plain(PermuteDefinition),
		Data:     []op.Data{{Name: "normal", Definition: PermuteDefinition, Sizes: map[string]int{"Q": 256, "V": 64, "D": 64}}},
		Patterns: places(PermuteDefinition),
		Scalings: []op.Scaling{{Name: "scaled-x", Definition: PermuteDefinition, Inputs: map[string]int{"x": 1}, Outputs: map[string]int{"rows": 1}}},
		Clauses:  permuteClauses,
	},
	{
		Name: "combine.permute.backward", Summary: "gradient of combine.permute.forward: sums of the rows of a token",
		Usual:       map[string]int{"S": 8},
		Definitions: []*def.Definition{PermuteBackwardDefinition}, Bounds: permuteBackwardBounds, Run: op.Plain(PermuteBackwardDefinition),
		Data: []op.Data{
			{Name: "normal", Definition: PermuteBackwardDefinition, Sizes: sizes},
			{Name: "wide", Definition: PermuteBackwardDefinition, Sizes: sizes, Values: map[string]op.Element{"drows": op.Wide}},
		},
		Patterns: slices.Concat(places(PermuteBackwardDefinition), values(PermuteBackwardDefinition, "drows")),
		Scalings: []op.Scaling{
			{Name: "scaled-drows", Definition: PermuteBackwardDefinition, Inputs: map[string]int{"drows": 1}, Outputs: map[string]int{"dx": 1}},
			{Name: "negated-drows", Definition: PermuteBackwardDefinition, Negated: []string{"drows", "dx"}},
		},
		Clauses: permuteBackwardClauses,
	},
}

// places are ways to name rows.
func places(d *def.Definition) (list []op.Pattern) {
	for _, p := range []struct {
		name string
		at   op.Index
	}{
		{"all-one", func(_ *gen.Generator, _, bound int) int { return bound / 2 }},
		{"ascending", func(_ *gen.Generator, r, bound int) int { return r % bound }},
		{"descending", func(_ *gen.Generator, r, bound int) int { return bound - 1 - r%bound }},
		{"just-outside", func(_ *gen.Generator, r, bound int) int { return []int{-1, bound, 0, bound - 1}[r%4] }},
	} {
		list = append(list, op.Pattern{Name: p.name, Definition: d, Index: map[string]op.Index{d.Operands[0].Name: p.at}})
	}
	return list
}

// values are rows whose sums depend on how they are added.
func values(d *def.Definition, table string) []op.Pattern {
	exact := map[string]op.Element{table: integer}
	if d.Operand("weight") >= 0 {
		exact["weight"] = integer
	}
	return []op.Pattern{
		{Name: "cancellation", Definition: d, Values: map[string]op.Element{table: opposite}, Index: map[string]op.Index{"place": func(g *gen.Generator, r, bound int) int { return r % bound }}},
		{Name: "integers", Definition: d, Values: exact, IsGrid: true},
		{Name: "overflow-of-f16", Definition: d, Values: map[string]op.Element{table: op.Around(65504)}},
	}
}

// integer is 1 to 8, of either sign.
func integer(g *gen.Generator, _, _ int) float32 {
	return float32(1-2*g.Below(2)) * float32(1+g.Below(8))
}

func one(*gen.Generator, int, int) float32 { return 1 }

// opposite is, in an odd row or column, nearly minus the one before.
func opposite(g *gen.Generator, r, c int) float32 {
	x := gen.Seeded(uint64(r/2)<<32 | uint64(c/2)).Normal()
	return float32(1-2*((r+c)&1)) * x * (1 + float32(g.Below(8))*0x1p-11)
}
