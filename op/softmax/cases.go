package softmax

import (
	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	{
		Name: "softmax.forward", Summary: "turns each row into probabilities",
		Definitions: []*def.Definition{ForwardDefinition}, Bounds: forwardBounds, Run: op.Plain(ForwardDefinition),
		Data: []op.Data{
			{Name: "normal", Definition: ForwardDefinition, Sizes: rows(64, 1024)},
			{Name: "spread", Definition: ForwardDefinition, Sizes: rows(64, 1024), Values: all("x", op.Scaled(8))},
			{Name: "wide row", Definition: ForwardDefinition, Sizes: rows(2, 32768)},
			{Name: "one dominates", Definition: ForwardDefinition, Sizes: rows(64, 257), Values: all("x", oneHuge)},
		},
		Patterns: forwardPatterns,
		Formulas: forwardFormulas,
		Clauses:  forwardClauses, Ranges: forwardRanges,
	},
	{
		Name: "softmax.backward", Summary: "gradient of softmax.forward, from its result",
		Definitions: []*def.Definition{BackwardDefinition}, Bounds: backwardBounds, Run: op.Plain(BackwardDefinition),
		Data: []op.Data{
			{Name: "normal", Definition: BackwardDefinition, Sizes: rows(64, 1024), Values: all("y", probability)},
			{Name: "one class", Definition: BackwardDefinition, Sizes: rows(64, 257), Values: all("y", nearlyOneHot)},
		},
		Patterns: backwardPatterns,
		Scalings: backwardScalings,
		Formulas: backwardFormulas,
		Clauses:  backwardClauses,
	},
}

func rows(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func all(operand string, e op.Element) map[string]op.Element {
	return map[string]op.Element{operand: e}
}

// oneHuge has one element that leaves nothing to the others.
func oneHuge(g *gen.Generator, r, c int) float32 {
	if c == r {
		return 40 + g.Normal()
	}
	return g.Normal()
}

// probability is about what a row of 1,024 gives.
func probability(g *gen.Generator, _, _ int) float32 {
	x := g.Exponents(-13, -8)
	return max(x, -x)
}

func nearlyOneHot(g *gen.Generator, r, c int) float32 {
	if c == r {
		return 0.9375
	}
	x := g.Exponents(-18, -12)
	return max(x, -x)
}
