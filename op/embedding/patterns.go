package embedding

import (
	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

// indices are ways to occur.
var indices = []struct {
	name string
	at   op.Index
}{
	{"three-of-each", threeOfEach},
	{"all-one", one},
	{"all-different", func(_ *gen.Generator, r, bound int) int { return r % bound }}, // as far as there are rows
	{"descending", func(_ *gen.Generator, r, bound int) int { return bound - 1 - r%bound }},
	{"only-first", func(*gen.Generator, int, int) int { return 0 }},
	{"only-last", func(_ *gen.Generator, _, bound int) int { return bound - 1 }},
	{"bursts", burst},
	{"alternating", func(_ *gen.Generator, r, bound int) int { return r % 2 * (bound - 1) }},
	{"one-frequent", frequent},
	{"just-outside", func(g *gen.Generator, r, bound int) int { return []int{-1, bound, 0, bound - 1}[r%4] }},
}

func threeOfEach(_ *gen.Generator, r, bound int) int { return r / 3 % bound }

func one(_ *gen.Generator, _, bound int) int { return bound / 2 }

// burst has more than a chunk of neighbours, and no multiple of one.
func burst(_ *gen.Generator, r, bound int) int { return r / 100 % bound }

// frequent is row 0 half of the time: many chunks of it, with others in between.
func frequent(g *gen.Generator, _, bound int) int {
	if g.Below(2) == 0 {
		return 0
	}
	return g.Below(bound)
}

// barelyAbove is the largest f16, but the smallest once: 8,199 of the former are in the
// middle between two binary32 numbers, of which the lower is even, and the latter decides.
func barelyAbove(_ *gen.Generator, r, _ int) float32 {
	if r == 0 {
		return 0x1p-24
	}
	return 65504
}

var forwardPatterns = func() (list []op.Pattern) {
	for _, i := range indices {
		list = append(list, op.Pattern{Name: i.name, Definition: ForwardDefinition, Index: map[string]op.Index{"index": i.at}})
	}
	return list
}()

// sums are values of dout, with the indices that bring them together. Those under
// isGrid are integers whose absolute values add up to less than 2^24 for up to 2^17
// queries, the old dweight included: every order is exact. None is zero, so that a
// sum of zero is +0.
var sums = []struct {
	name   string
	dout   op.Element
	at     op.Index // nil is uniform
	isGrid bool
	isLong bool
}{
	{name: "wide-three-of-each", dout: op.Wide, at: threeOfEach},
	{name: "wide-bursts", dout: op.Wide, at: burst},
	{name: "cancellation", dout: nearlyOpposite, at: one},
	{name: "barely-above-a-tie", dout: barelyAbove, at: one, isLong: true},
	{name: "cancellation-across-chunks", dout: hugeInChunks, at: one},
	{name: "integers", dout: integers, isGrid: true},
	{name: "integers-three-of-each", dout: integers, at: threeOfEach, isGrid: true},
	{name: "integers-all-one", dout: integers, at: one, isGrid: true},
	{name: "integers-bursts", dout: integers, at: burst, isGrid: true},
	{name: "integers-one-frequent", dout: integers, at: frequent, isGrid: true},
	{name: "many-small-onto-one-large", dout: first(2048, constant(1)), at: one, isGrid: true},                              // a sum in 16 bits stays at 2,048, or 256
	{name: "ties", dout: tie, at: one, isGrid: true},                                                                        // odd, from 2,048 on for f16 and 256 on for bf16
	{name: "f16-limit", dout: limit, at: one, isGrid: true},                                                                 // near 65,504 and 65,520
	{name: "f16-overflow-on-the-way", dout: func(_ *gen.Generator, r, _ int) float32 { return 60000 * sign(r/2) }, at: one}, // within range at the end
}

func backwardPatterns(d *def.Definition) (list []op.Pattern) {
	for _, i := range indices {
		list = append(list, op.Pattern{Name: i.name, Definition: d, Index: map[string]op.Index{"index": i.at}})
	}
	for _, s := range sums {
		p := op.Pattern{Name: s.name, Definition: d, IsGrid: s.isGrid, IsLong: s.isLong, Values: map[string]op.Element{"dout": s.dout}}
		if s.at != nil {
			p.Index = map[string]op.Index{"index": s.at}
		}
		switch {
		case d.Accumulates() && s.isGrid:
			p.Values["dweight"] = evenInteger
		case d.Accumulates() && s.isLong: // the old value must not decide
			p.Values["dweight"] = constant(0)
		}
		list = append(list, p)
	}
	return list
}

var forwardScalings = []op.Scaling{
	{Name: "scaled-weight", Definition: ForwardDefinition, Inputs: map[string]int{"weight": 1}, Outputs: map[string]int{"out": 1}},
	{Name: "negated-weight", Definition: ForwardDefinition, Negated: []string{"weight", "out"}},
}

var backwardScalings = []op.Scaling{
	{Name: "scaled-dout", Definition: BackwardDefinition, Inputs: map[string]int{"dout": 1}, Outputs: map[string]int{"dweight": 1}},
	{Name: "negated-dout", Definition: BackwardDefinition, Negated: []string{"dout", "dweight"}},
	{Name: "scaled-sums", Definition: AccumulateDefinition, Inputs: map[string]int{"dout": 1, "dweight": 1}, Outputs: map[string]int{"dweight": 1}},
	{Name: "negated-sums", Definition: AccumulateDefinition, Negated: []string{"dout", "dweight"}},
}

func sign(n int) float32 { return float32(1 - 2*(n&1)) }

func constant(x float32) op.Element { return func(*gen.Generator, int, int) float32 { return x } }

// first has one value in the first row.
func first(x float32, rest op.Element) op.Element {
	return func(g *gen.Generator, r, c int) float32 {
		if r == 0 {
			return x
		}
		return rest(g, r, c)
	}
}

// integers are 1 to 8, of either sign.
func integers(g *gen.Generator, _, _ int) float32 { return sign(g.Below(2)) * float32(1+g.Below(8)) }

// evenInteger leaves a sum as odd as it is.
func evenInteger(g *gen.Generator, _, _ int) float32 {
	return sign(g.Below(2)) * float32(2+2*g.Below(4))
}

// nearlyOpposite is, in an odd row, nearly minus the row before.
func nearlyOpposite(g *gen.Generator, r, c int) float32 {
	x := gen.Seeded(uint64(r/2)<<32 | uint64(c)).Normal()
	return sign(r) * x * (1 + float32(g.Below(8))*0x1p-11)
}

// hugeInChunks has elements that cancel those of the next chunk.
func hugeInChunks(g *gen.Generator, r, _ int) float32 {
	if r%64 == 7 {
		return 30000 * sign(r/64)
	}
	return g.Normal()
}

func tie(g *gen.Generator, r, c int) float32 {
	switch {
	case r == 0 && c%2 == 0:
		return 2048
	case r == 0:
		return 256
	case r == 1:
		return float32(1 + 2*g.Below(3))
	}
	return 2 * sign(g.Below(2))
}

// limit is 65,504 in the first two rows; bf16 makes that 65,536.
func limit(g *gen.Generator, r, _ int) float32 {
	if r < 2 {
		return 32752
	}
	return []float32{1, 8, 15, 16}[g.Below(4)] * sign(g.Below(2))
}
