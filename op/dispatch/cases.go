package dispatch

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{{
	Name: "dispatch.forward", Summary: "choices of tokens sorted by expert",
	Usual:       map[string]int{"S": 8, "E": 256},
	Definitions: []*def.Definition{ForwardDefinition},
	Params:      []op.Param{{Name: "experts", Help: "number of experts"}},
	Run: func(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.CallOption) (engine.Args, error) {
		experts := int(v.Int("experts", 1, math.MaxInt32-1))
		if v.Err() != nil {
			return nil, v.Err()
		}
		return op.Eval(q, ForwardDefinition, in, nil, append(opts, engine.WithSizes(map[string]int{"E": experts}))...)
	},
	Data:     []op.Data{{Name: "uniform", Definition: ForwardDefinition, Sizes: map[string]int{"T": 1024, "S": 4, "E": 32}}},
	Patterns: patterns,
	Clauses: op.ClausesOf(ForwardDefinition,
		op.Interfaces(),
		op.Calculates(),
		op.Calculates(),
		op.Calculates(),
		op.Specially(func(c *bound.Call) func(operand, row, col int) bool { // any element may depend on it
			expert, experts, hasBad := c.Operands[0], c.Operands[1].Rows, false
			for t := range expert.Rows {
				for s := range expert.Cols {
					e := int(expert.Int(t, s))
					hasBad = hasBad || e < 0 || e >= experts
				}
			}
			return func(int, int, int) bool { return hasBad }
		}),
		op.Interfaces(),
	),
}}

var patterns = func() (list []op.Pattern) {
	for _, p := range []struct {
		name string
		at   op.Index
	}{
		{"all-to-one", func(_ *gen.Generator, _, bound int) int { return bound / 2 }},
		{"only-first", func(*gen.Generator, int, int) int { return 0 }},
		{"only-last", func(_ *gen.Generator, _, bound int) int { return bound - 1 }},
		{"sorted", func(_ *gen.Generator, r, bound int) int { return min(r/7, bound-1) }},
		{"descending", func(_ *gen.Generator, r, bound int) int { return bound - 1 - r%bound }},
		{"alternating", func(_ *gen.Generator, r, bound int) int { return r % 2 * (bound - 1) }},
		{"bursts", func(_ *gen.Generator, r, bound int) int { return r / 100 % bound }},
		{"one-frequent", func(g *gen.Generator, _, bound int) int { return g.Below(2) * g.Below(bound) }},
		{"just-outside", func(_ *gen.Generator, r, bound int) int { return []int{-1, bound, 0, bound - 1}[r%4] }},
	} {
		list = append(list, op.Pattern{Name: p.name, Definition: ForwardDefinition, Index: map[string]op.Index{"expert": p.at}})
	}
	return list
}()
