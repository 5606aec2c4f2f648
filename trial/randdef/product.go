package randdef

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/trial"
)

// Product returns a random contraction with batch axes, groups, or both: operands as they
// are or transposed, each with some of the result's axes, some of them factors in FP8.
func Product(g *gen.Generator) *def.Definition {
	batch := []string{"P", "H", "T"}[:g.Below(3)]
	f := product(g)
	f.Accumulate = g.Below(2) == 0
	some := func(dims []string) []string {
		return slices.Concat(slices.DeleteFunc(slices.Clone(batch), func(string) bool { return g.Below(3) == 0 }), dims)
	}
	f.LeftDims, f.RightDims, f.ResultDims = some(f.LeftDims), some(f.RightDims), slices.Concat(batch, f.ResultDims)
	switch kind := g.Below(3); {
	case kind == 1: // rows of the result
		f.Groups = def.Groups{Number: "G", Of: "M", Offsets: "offsets"}
		f.RightDims = slices.Insert(f.RightDims, 0, "G")
	case kind == 2 || len(batch) == 0: // the sum
		f.Groups = def.Groups{Number: "G", Of: "K", Offsets: "offsets"}
		f.ResultDims = slices.Insert(f.ResultDims, 0, "G")
	}
	return def.Must(def.Contraction(fmt.Sprintf("product%d", g.Below(1000)), f))
}

// Scaled returns a random contraction with scales of its rows, its columns, or both.
func Scaled(g *gen.Generator) *def.Definition {
	f := product(g)
	f.Scales = []def.Scales{{Row: "s"}, {Col: "t"}, {Row: "s", Col: "t"}}[g.Below(3)]
	return def.Must(def.Contraction(fmt.Sprintf("scaled%d", g.Below(1000)), f))
}

// product returns a random product of two matrices.
func product(g *gen.Generator) def.ContractionForm {
	f := def.ContractionForm{
		Left: "a", LeftDims: []string{"M", "K"}, TransposeLeft: g.Below(2) == 0,
		Right: "b", RightDims: []string{"K", "N"}, TransposeRight: g.Below(2) == 0,
		Result: "c", ResultDims: []string{"M", "N"},
	}
	if f.TransposeLeft {
		slices.Reverse(f.LeftDims)
	}
	if f.TransposeRight {
		slices.Reverse(f.RightDims)
	}
	if g.Below(3) == 0 {
		f.Factors = def.Only(num.FP8DTypes...)
	}
	return f
}

// ProductSizes returns random sizes of a contraction, at most most for those of its
// matrices.
func ProductSizes(g *gen.Generator, d *def.Definition, most int) map[string]int {
	sizes := map[string]int{}
	for _, letter := range d.Sizes() {
		switch letter {
		case "M", "N", "K":
			sizes[letter] = 1 + g.Below(most)
		default:
			sizes[letter] = 1 + g.Below(4)
		}
	}
	return sizes
}

// stack draws where the matrices of an operand are: outside its rows, or between them, as
// heads are. An input may repeat its matrices.
func stack(g *gen.Generator, l *trial.Layout, o *def.Operand) {
	n := len(o.BatchDims())
	l.Order = make([]int, n+1)
	l.IsRepeated = make([]bool, n)
	for i := range l.Order {
		l.Order[i] = i
		if k := g.Below(i + 1); g.Below(2) == 0 {
			l.Order[i], l.Order[k] = l.Order[k], l.Order[i]
		}
	}
	for i := range l.IsRepeated {
		l.IsRepeated[i] = !o.IsOut && g.Below(6) == 0
	}
}
