package cache

import (
	"tokitai/bound"
	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{{
	Name: "cache.append", Summary: "rows written into a table by index, bit for bit",
	Definitions: []*def.Definition{AppendDefinition}, Run: op.Plain(AppendDefinition),
	Bounds: []bound.Form{{
		Output: "cache",
		Text:   []string{"bound = 0, and cache is the truth itself: bits are copied"},
		At:     func(*bound.Call) func(r, c int) float64 { return func(int, int) float64 { return 0 } },
	}},
	Data:     []op.Data{{Name: "normal", Definition: AppendDefinition, Sizes: map[string]int{"Q": 64, "V": 256, "D": 64}}},
	Patterns: patterns,
	Scalings: []op.Scaling{{Name: "scaled", Definition: AppendDefinition, Inputs: map[string]int{"rows": 1, "cache": 1}, Outputs: map[string]int{"cache": 1}}},
	Clauses: op.ClausesOf(AppendDefinition,
		op.Interfaces(),
		op.Specially(func(c *bound.Call) func(operand, row, col int) bool {
			return writtenBy(c, func(q, col int) bool { return op.IsNaN(float64(c.Operands[1].At(q, col))) })
		}),
		op.Specially(func(c *bound.Call) func(operand, row, col int) bool {
			isWritten := writtenBy(c, func(int, int) bool { return true })
			return func(operand, row, col int) bool { return !isWritten(operand, row, col) }
		}),
		op.Specially(func(c *bound.Call) func(operand, row, col int) bool {
			seen, twice := map[int32]bool{}, map[int32]bool{}
			for q := range c.Operands[0].Rows {
				v := c.Operands[0].Int(q, 0)
				seen[v], twice[v] = true, seen[v]
			}
			return func(_, row, _ int) bool { return twice[int32(row)] }
		}),
		op.Specially(func(c *bound.Call) func(operand, row, col int) bool { // any row may have been taken for the one that it names
			hasBad := false
			for q := range c.Operands[0].Rows {
				v := int(c.Operands[0].Int(q, 0))
				hasBad = hasBad || v < 0 || v >= c.Operands[2].Rows
			}
			return func(int, int, int) bool { return hasBad }
		}),
		op.Interfaces(),
	),
}}

// writtenBy covers the elements of rows whose last query is of a kind.
func writtenBy(c *bound.Call, is func(q, col int) bool) func(operand, row, col int) bool {
	last := map[int]int{}
	for q := range c.Operands[0].Rows {
		last[int(c.Operands[0].Int(q, 0))] = q
	}
	return func(_, row, col int) bool { q, ok := last[row]; return ok && is(q, col) }
}

var patterns = func() (list []op.Pattern) {
	for _, p := range []struct {
		name string
		at   op.Index
	}{
		{"all-one", func(_ *gen.Generator, _, bound int) int { return bound / 2 }},
		{"all-different", func(_ *gen.Generator, r, bound int) int { return r % bound }}, // as far as there are rows
		{"descending", func(_ *gen.Generator, r, bound int) int { return bound - 1 - r%bound }},
		{"pairs", func(_ *gen.Generator, r, bound int) int { return r / 2 % bound }},
		{"far-pairs", func(_ *gen.Generator, r, bound int) int { return r % 67 % bound }},
		{"just-outside", func(_ *gen.Generator, r, bound int) int { return []int{-1, bound, 0, bound - 1}[r%4] }},
	} {
		list = append(list, op.Pattern{Name: p.name, Definition: AppendDefinition, Index: map[string]op.Index{"slot": p.at}})
	}
	return list
}()
