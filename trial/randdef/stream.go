package randdef

import (
	"fmt"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/trial"
)

var streamForm = def.StreamForm{
	Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", Out: "o", LogSum: "lse",
	Functions: def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function},
}

// Stream returns a random stream.
func Stream(g *gen.Generator) *def.Definition {
	form := streamForm
	form.KeyStarts = "kstart"
	return stream(g, form)
}

// PagedStream returns a random stream whose keys lie in pages.
func PagedStream(g *gen.Generator) *def.Definition {
	form := streamForm
	form.Lengths, form.Pages = "klen", "pages"
	return stream(g, form)
}

func stream(g *gen.Generator, form def.StreamForm) *def.Definition {
	return def.Must(def.StreamOf(fmt.Sprintf("stream%d", g.Below(1000)), form, func(b *def.StreamBuilder) {
		t, visible, base := (&streamBody{g: g, b: b, isPaged: form.Pages != ""}).values(g.Below(3) == 0)
		b.Weigh(t, visible, base...)
	}))
}

// StreamBackward returns the gradients of a random stream, or random gradients of one.
func StreamBackward(g *gen.Generator) *def.Definition {
	if g.Below(2) == 0 {
		for {
			if d := Stream(g); len(d.Operands)+5 <= def.MaxOperands {
				return def.Must(def.Derivative(d, nil, fn.All...))
			}
		}
	}
	form := def.StreamBackwardForm{StreamForm: streamForm, OutGradient: "do", QueryGradient: "dq", KeyGradient: "dk", ValueGradient: "dv"}
	form.KeyStarts = "kstart"
	hasBase := g.Below(3) == 0
	if hasBase {
		form.BaseGradient = "dbase"
	}
	for {
		made := 0
		d, err := def.StreamBackwardOf(fmt.Sprintf("backward%d", g.Below(1000)), form, func(b *def.StreamBuilder) {
			s := &streamBody{g: g, b: b}
			t, visible, base := s.values(hasBase)
			slope := []func() def.Value{
				func() def.Value { return def.One },
				func() def.Value { return t.Mul(def.Const(0.5)) },
				func() def.Value { return b.Param("slope") },
				func() def.Value { return s.float([]string{"G", "J"}) },
				func() def.Value { return s.float([]string{"S"}) },
			}[g.Below(5)]()
			b.WeighBackward(t, visible, slope, b.Param("scale").Mul(def.Const(0.7)), base...)
			made = s.made
		})
		if made <= def.MaxOperands-12 { // of a body
			return def.Must(d, err)
		}
	}
}

type streamBody struct {
	g    *gen.Generator
	b    *def.StreamBuilder
	made int

	isPaged bool
}

// values returns a random exponent and a condition, and perhaps a base.
func (s *streamBody) values(hasBase bool) (t, visible def.Value, base []def.Value) {
	g, b := s.g, s.b
	t = b.Score().Mul(b.Param("kappa"))
	if g.Below(4) == 0 {
		t = fn.Tanh(t).Mul(b.Param("cap"))
	}
	if g.Below(3) == 0 {
		t = def.FMA(s.float([]string{"G", "J"}), b.Key().ISub(b.Query()).IToF(), t)
	}
	for _, dims := range [][]string{{"T"}, {"T", "G", "J"}, {"S"}, {"S", "G"}} {
		if g.Below(5) == 0 && !(s.isPaged && dims[0] == "S") {
			t = t.Add(s.float(dims))
		}
	}
	visible = s.condition()
	if g.Below(3) > 0 {
		visible = def.Select(s.condition(), visible, s.condition())
	}
	if hasBase {
		base = append(base, s.float([]string{"G", "J"}).Mul(def.Const(1.5)))
	}
	return t, visible, base
}

func (s *streamBody) name() string {
	s.made++
	return fmt.Sprintf("x%d", s.made)
}

func (s *streamBody) float(dims []string) def.Value {
	rule := []def.Rule{def.AnyFloat, def.Only(num.F32), def.Like("q")}[s.g.Below(3)]
	return s.b.In(s.name(), dims, rule)
}

func (s *streamBody) condition() def.Value {
	query, key := s.b.Query(), s.b.Key()
	switch s.g.Below(7) {
	case 0:
		return query.ISub(key).Less(def.IntConst(int32(s.g.Below(200))))
	case 1:
		if s.isPaged {
			return s.b.In(s.name(), []string{"T"}, def.Only(num.I32)).IAnd(def.IntConst(63)).Less(key)
		}
		return s.b.In(s.name(), []string{"T"}, def.Only(num.I32)).IAnd(def.IntConst(1)).
			Equal(s.b.In(s.name(), []string{"S"}, def.Only(num.I32)).IAnd(def.IntConst(1)))
	case 2:
		return key.Less(s.b.IntParam(s.name()))
	case 3:
		return def.IntConst(0).LessEqual(key)
	case 4:
		return s.b.Head().NotEqual(key.IAnd(def.IntConst(3)))
	}
	return key.LessEqual(query)
}

// StreamSizes returns random sizes of a stream: sequences around the ends of blocks, or a long one.
func StreamSizes(g *gen.Generator) map[string]int {
	depths := []int{1, 3, 8, 16, 17, 32, 40, 64}
	sizes := map[string]int{
		"T": 1 + g.Below(90), "S": 1 + g.Below(300), "G": 1 + g.Below(2), "J": 1 + g.Below(3), "D": depths[g.Below(len(depths))], "B": 1 + g.Below(4),
	}
	if g.Below(8) == 0 { // several segments
		sizes["S"], sizes["T"], sizes["G"], sizes["J"], sizes["B"] = def.StreamSegment+g.Below(def.StreamSegment), 1+g.Below(3), 1, 1, 1
		if g.Below(3) == 0 { // of queries
			sizes["S"], sizes["T"] = sizes["T"], sizes["S"]
		}
	}
	return sizes
}

// PagedSizes returns random sizes of a stream whose keys lie in pages.
func PagedSizes(g *gen.Generator) map[string]int {
	sizes := StreamSizes(g)
	keys := sizes["S"]
	delete(sizes, "S")
	sizes["N"] = def.MinPage << g.Below(5)
	sizes["M"] = (keys + sizes["N"] - 1) / sizes["N"]
	sizes["P"] = 1 + g.Below(sizes["M"]*sizes["B"]+3) // fewer than the tables have: then sequences share pages
	return sizes
}

// fillPages fills lengths, or the table of pages that follows them.
func fillPages(g *gen.Generator, d *def.Definition, operand int, arrays []num.Array, sizes map[string]int) {
	trial.FillIndex(d, operand, arrays, func(letter string) int { return sizes[letter] }, func(_, _, limit int) int {
		if g.Below(6) == 0 {
			return []int{0, limit - 1}[g.Below(2)]
		}
		return g.Below(limit)
	})
}
