package attention

import (
	"tokitai/def"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	{
		Name: "attention.forward", Summary: "causal attention of packed sequences, with grouped heads",
		Definitions: []*def.Definition{ForwardDefinition}, Bounds: forwardBounds, Run: op.Plain(ForwardDefinition),
		Params: []op.Param{{Name: "kappa", Help: "the scale of scores times log2(e), such as 1.4426950408889634/sqrt(D)"}},
		Data: []op.Data{
			{Name: "normal", Definition: ForwardDefinition, Sizes: sizes(24, 200, 32, 2), Params: usual},
			{Name: "spread", Definition: ForwardDefinition, Sizes: sizes(12, 150, 64, 1), Params: []float64{Kappa(1)}},
			{Name: "segments", Definition: ForwardDefinition, Sizes: sizes(2, 1100, 8, 1), Params: []float64{Kappa(0.5)}},
		},
		Patterns: forwardPatterns,
		Scalings: scalingsOf(ForwardDefinition),
		Clauses:  forwardClauses,
	},
	{
		Name: "attention.backward", Summary: "the gradients of attention.forward",
		Usual:       map[string]int{"J": 4},
		Definitions: []*def.Definition{BackwardDefinition}, Bounds: backwardBounds, Run: op.Plain(BackwardDefinition),
		Params: []op.Param{{Name: "kappa", Help: "that of attention.forward: the scale of scores times log2(e)"}},
		Data: []op.Data{
			{Name: "normal", Definition: BackwardDefinition, Sizes: sizes(16, 40, 16, 2), Params: []float64{Kappa(0.25)}},
			{Name: "spread", Definition: BackwardDefinition, Sizes: sizes(6, 140, 8, 1), Params: []float64{Kappa(1)}},
			{Name: "segments", Definition: BackwardDefinition, Sizes: sizes(6, 1027, 2, 1), Params: []float64{Kappa(0.5)}},
		},
		Saved:    []op.Saved{{Definition: BackwardDefinition, By: ForwardDefinition, Names: []string{"o", "lse"}}},
		Patterns: backwardPatterns,
		Scalings: []op.Scaling{
			{Name: "scaled-do", Definition: BackwardDefinition, Inputs: map[string]int{"do": 1}, Outputs: map[string]int{"dq": 1, "dk": 1, "dv": 1}},
			{Name: "scaled-q", Definition: BackwardDefinition, Inputs: map[string]int{"q": 1}, Params: map[string]int{"kappa": -1}, Outputs: map[string]int{"dq": -1}},
			{Name: "scaled-k", Definition: BackwardDefinition, Inputs: map[string]int{"k": 1, "q": -1}, Outputs: map[string]int{"dq": 1, "dk": -1}},
			{Name: "scaled-v", Definition: BackwardDefinition, Inputs: map[string]int{"v": 1, "o": 1}, Outputs: map[string]int{"dq": 1, "dk": 1}},
			{Name: "negated-do", Definition: BackwardDefinition, Negated: []string{"do", "dq", "dk", "dv"}},
			{Name: "negated-scores", Definition: BackwardDefinition, Negated: []string{"q", "k", "dq", "dk"}},
			{Name: "negated-v", Definition: BackwardDefinition, Negated: []string{"v", "o", "dq", "dk"}},
		},
		Clauses: backwardClauses,
	},
	{
		Name: "attention.decode", Summary: "causal attention to keys that lie in pages of a cache",
		Usual:       map[string]int{"T": 16, "B": 16, "N": 64},
		Definitions: []*def.Definition{DecodeDefinition}, Bounds: decodeBounds, Run: op.Plain(DecodeDefinition),
		Params: []op.Param{{Name: "kappa", Help: "the scale of scores times log2(e), such as 1.4426950408889634/sqrt(D)"}},
		Data: []op.Data{
			{Name: "normal", Definition: DecodeDefinition, Sizes: pageSizes(6, 16, 6, 32, 3), Params: usual},
			{Name: "speculation", Definition: DecodeDefinition, Sizes: pageSizes(16, 32, 4, 16, 2), Params: []float64{Kappa(0.25)}},
			{Name: "segments", Definition: DecodeDefinition, Sizes: pageSizes(2, 256, 5, 8, 1), Params: []float64{Kappa(0.5)}, Index: map[string]op.Index{"klen": longest(0)}},
		},
		Patterns: decodePatterns,
		Scalings: scalingsOf(DecodeDefinition),
		Clauses:  decodeClauses,
	},
}

// scalingsOf are relations of attention, wherever keys lie.
func scalingsOf(d *def.Definition) []op.Scaling {
	return []op.Scaling{
		{Name: "scaled-q", Definition: d, Inputs: map[string]int{"q": 1}, Params: map[string]int{"kappa": -1}},
		{Name: "scaled-k", Definition: d, Inputs: map[string]int{"k": 1, "q": -1}},
		{Name: "scaled-v", Definition: d, Inputs: map[string]int{"v": 1}, Outputs: map[string]int{"o": 1}},
		{Name: "negated-v", Definition: d, Negated: []string{"v", "o"}},
		{Name: "negated-scores", Definition: d, Negated: []string{"q", "k"}},
	}
}

func sizes(t, s, d, b int) map[string]int {
	return map[string]int{"T": t, "S": s, "G": 1, "J": 2, "D": d, "B": b}
}

// pageSizes has half as many pages as the table has entries: some are shared.
func pageSizes(t, n, m, d, b int) map[string]int {
	return map[string]int{"T": t, "N": n, "M": m, "P": (m*b + 1) / 2, "G": 1, "J": 2, "D": d, "B": b}
}
