package rope

import (
	"maps"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	{
		Name: "rope.forward", Summary: "rotary embeddings: turns pairs by the angles of their positions",
		Usual: map[string]int{"C": 64}, UsualIndex: headsOfTokens,
		Definitions: []*def.Definition{ForwardDefinition}, Bounds: forwardBounds, Run: op.Plain(ForwardDefinition),
		Data: data(ForwardDefinition), Patterns: patterns(ForwardDefinition), Scalings: forwardScalings,
		Clauses: forwardClauses,
	},
	{
		Name: "rope.backward", Summary: "gradients of rope.forward: turns them back",
		Usual: map[string]int{"C": 64}, UsualIndex: headsOfTokens,
		Definitions: []*def.Definition{BackwardDefinition}, Bounds: backwardBounds, Run: op.Plain(BackwardDefinition),
		Data: data(BackwardDefinition), Patterns: patterns(BackwardDefinition), Scalings: backwardScalings,
		Clauses: backwardClauses,
	},
	{
		Name: "rope.norm.forward", Summary: "normalizes each head to mean square 1, scales by column, and turns pairs",
		Usual: map[string]int{"C": 64}, UsualIndex: headsOfTokens,
		Definitions: []*def.Definition{NormForwardDefinition}, Bounds: normForwardBounds, Run: op.Plain(NormForwardDefinition),
		Params: []op.Param{{Name: "eps", Default: "1e-6", Help: "added to the mean square"}},
		Data:   data(NormForwardDefinition), Patterns: patterns(NormForwardDefinition), Scalings: normForwardScalings,
		Clauses: normForwardClauses,
	},
	{
		Name: "rope.norm.backward", Summary: "gradients of rope.norm.forward",
		Usual: map[string]int{"C": 64}, UsualIndex: headsOfTokens,
		Definitions: []*def.Definition{NormBackwardDefinition}, Bounds: normBackwardBounds, Run: op.Plain(NormBackwardDefinition),
		Data: data(NormBackwardDefinition)[:1], Patterns: patterns(NormBackwardDefinition), Scalings: normBackwardScalings,
		Clauses: normBackwardClauses,
	},
	{
		Name: "rope.interleaved.forward", Summary: "rotary embeddings of pairs of neighbours",
		Usual: map[string]int{"C": 128}, UsualIndex: headsOfTokens,
		Definitions: []*def.Definition{InterleavedForwardDefinition}, Bounds: interleavedBounds(InterleavedForwardDefinition), Run: op.Plain(InterleavedForwardDefinition),
		Data: interleavedData(InterleavedForwardDefinition), Patterns: interleavedPatterns(InterleavedForwardDefinition), Scalings: interleavedScalings(InterleavedForwardDefinition),
		Clauses: interleavedForwardClauses,
	},
	{
		Name: "rope.interleaved.backward", Summary: "gradients of rope.interleaved.forward: turns them back",
		Usual: map[string]int{"C": 128}, UsualIndex: headsOfTokens,
		Definitions: []*def.Definition{InterleavedBackwardDefinition}, Bounds: interleavedBounds(InterleavedBackwardDefinition), Run: op.Plain(InterleavedBackwardDefinition),
		Data: interleavedData(InterleavedBackwardDefinition), Patterns: interleavedPatterns(InterleavedBackwardDefinition), Scalings: interleavedScalings(InterleavedBackwardDefinition),
		Clauses: interleavedBackwardClauses,
	},
	{
		Name: "rope.interleaved.norm.forward", Summary: "normalizes each head to mean square 1, scales by column, and turns pairs of neighbours",
		Usual: map[string]int{"C": 128}, UsualIndex: headsOfTokens,
		Definitions: []*def.Definition{InterleavedNormForwardDefinition}, Bounds: interleavedNormForwardBounds, Run: op.Plain(InterleavedNormForwardDefinition),
		Params: []op.Param{{Name: "eps", Default: "1e-6", Help: "added to the mean square"}},
		Data:   interleavedData(InterleavedNormForwardDefinition), Patterns: interleavedPatterns(InterleavedNormForwardDefinition), Scalings: interleavedScalings(InterleavedNormForwardDefinition),
		Clauses: interleavedNormForwardClauses,
	},
	{
		Name: "rope.interleaved.norm.backward", Summary: "gradients of rope.interleaved.norm.forward",
		Usual: map[string]int{"C": 128}, UsualIndex: headsOfTokens,
		Definitions: []*def.Definition{InterleavedNormBackwardDefinition}, Bounds: interleavedNormBackwardBounds, Run: op.Plain(InterleavedNormBackwardDefinition),
		Data: interleavedData(InterleavedNormBackwardDefinition)[:1], Patterns: interleavedPatterns(InterleavedNormBackwardDefinition), Scalings: interleavedScalings(InterleavedNormBackwardDefinition),
		Clauses: interleavedNormBackwardClauses,
	},
}

// headsOfTokens are the positions of sequences, of which every token has 32 heads.
var headsOfTokens = map[string]op.Index{"position": func(_ *gen.Generator, r, bound int) int { return r / 32 % bound }}

// data has heads of 128 columns, 64 pairs.
func data(d *def.Definition) []op.Data {
	kind := func(name string, x op.Element) op.Data {
		data := op.Data{Name: name, Definition: d, Sizes: map[string]int{"R": 512, "C": 64, "P": 128}, Values: tables(d)}
		names := pairs(d)
		maps.Copy(data.Values, map[string]op.Element{names[0]: x, names[1]: x})
		if len(d.Params) > 0 {
			data.Params = []float64{DefaultEps}
		}
		return data
	}
	return []op.Data{kind("normal", op.Normal), kind("wide", op.Wide)}
}
