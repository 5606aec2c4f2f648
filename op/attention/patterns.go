package attention

import (
	"math"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

// usual is kappa for heads of 32 columns.
var usual = []float64{Kappa(0.17677669529663687)} // 1/√32

// forwardPatterns have what kernels of attention fail on: sequences of unusual lengths, weights that
// underflow, scores that are no numbers. None of them depends on the place of a key.
var forwardPatterns = patternsOf(ForwardDefinition)

// backwardPatterns have the same queries, keys and values, and gradients on which kernels fail.
var backwardPatterns = append(patternsOf(BackwardDefinition), gradientPatterns()...)

func gradientPatterns() []op.Pattern {
	pattern := func(name string, values map[string]op.Element) op.Pattern {
		return op.Pattern{Name: name, Definition: BackwardDefinition, Values: values}
	}
	one := func(*gen.Generator, int, int) float32 { return 1 }
	return []op.Pattern{
		pattern("gradient-zero", map[string]op.Element{"do": func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, 0) }}),
		pattern("gradient-of-few", map[string]op.Element{"do": func(g *gen.Generator, r, _ int) float32 { return g.Normal() * float32(1-min(r%5, 1)) }}),
		pattern("gradient-wide", map[string]op.Element{"do": op.Wide}),
		pattern("gradient-tiny", map[string]op.Element{"do": op.Scaled(0x1p-14)}),
		pattern("gradient-large", map[string]op.Element{"do": op.Scaled(1000)}),
		pattern("gradient-no-numbers", map[string]op.Element{"do": sometimes(131, float32(math.NaN()), sometimes(131, float32(math.Inf(1)), op.Normal))}),
		// The mean is what every value is, nearly, so that dp and delta cancel.
		pattern("delta-cancels", map[string]op.Element{"do": op.Around(8), "v": func(g *gen.Generator, _, _ int) float32 { return 1 + 0x1p-7*float32(g.Below(3)) }}),
		pattern("delta-vanishes", map[string]op.Element{"v": one}),
		// The logarithm and the mean are not those of the scores: nothing divides by what they are.
		pattern("other-results", map[string]op.Element{"o": op.Normal, "lse": op.Between(0, 6)}),
		pattern("heavy-weights", map[string]op.Element{"lse": op.Between(-20, -2)}),
	}
}

// decodePatterns have the same queries, keys and values, and tables of pages on which kernels fail.
var decodePatterns = append(patternsOf(DecodeDefinition), pagePatterns()...)

// longest is so many keys less than the table of pages has room for.
func longest(less int) op.Index {
	return func(_ *gen.Generator, _, bound int) int { return bound - 1 - less }
}

func pagePatterns() []op.Pattern {
	pattern := func(name string, index map[string]op.Index) op.Pattern {
		return op.Pattern{Name: name, Definition: DecodeDefinition, Index: index}
	}
	return []op.Pattern{
		pattern("whole-pages", map[string]op.Index{"klen": longest(0)}),
		pattern("one-place-left", map[string]op.Index{"klen": longest(1)}),
		pattern("one-key-in-the-last-page", map[string]op.Index{"klen": longest(15)}),
		pattern("no-key-and-one", map[string]op.Index{"klen": func(_ *gen.Generator, r, bound int) int { return []int{0, 1, bound - 1}[r%3] }}),
		pattern("one-page-for-all", map[string]op.Index{"klen": longest(0), "pages": func(*gen.Generator, int, int) int { return 0 }}),
		pattern("pages-ascend", map[string]op.Index{"klen": longest(3), "pages": func(_ *gen.Generator, r, bound int) int { return r % bound }}),
		pattern("pages-descend", map[string]op.Index{"klen": longest(7), "pages": func(_ *gen.Generator, r, bound int) int { return bound - 1 - r%bound }}),
		pattern("sixteen-queries", map[string]op.Index{"qstart": func(_ *gen.Generator, r, _ int) int { return 16 * r }}),
	}
}

func patternsOf(d *def.Definition) []op.Pattern {
	var (
		begin = func(*gen.Generator, int, int) int { return 0 }
		end   = func(_ *gen.Generator, _, bound int) int { return bound }
		each  = func(_ *gen.Generator, r, bound int) int { return min(r, bound) }
		cut   = func(list ...int) op.Index {
			return func(_ *gen.Generator, r, bound int) int { return min(list[r%len(list)], bound) }
		}
		inf = float32(math.Inf(1))
	)
	index := func(q, k op.Index) map[string]op.Index { return map[string]op.Index{"qstart": q, "kstart": k} }
	of := func(q, k, v op.Element) map[string]op.Element {
		return map[string]op.Element{"q": q, "k": k, "v": v}
	}
	positive, one := op.AbsScaled(1), func(*gen.Generator, int, int) float32 { return 1 }
	list := []op.Pattern{
		{Name: "decode", Index: index(each, nil)},
		{Name: "first-empty", Index: index(begin, begin)},
		{Name: "last-empty", Index: index(end, end)},
		{Name: "queries-without-keys", Index: index(nil, end)},
		{Name: "keys-without-queries", Index: index(end, nil)},
		{Name: "ends-of-blocks", Index: index(cut(1, 8, 9, 17), cut(0, 129, 257, 514, 515, 642))}, // 129, 128, 257, 1 and 127 keys
		{Name: "large-scores", Values: of(op.Scaled(8), op.Scaled(8), op.Normal)},
		{Name: "weights-underflow", Values: of(op.Scaled(4), op.Scaled(4), op.Normal), Params: []float64{Kappa(1)}},
		{Name: "equal-scores", Values: of(op.Normal, one, op.Normal)},
		{Name: "zero-scores", Values: of(op.Normal, func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, 0) }, op.Normal)},
		{Name: "scores-minus-infinity", Values: of(positive, sometimes(3, -inf, positive), op.Normal)},
		{Name: "all-minus-infinity", Values: of(positive, func(*gen.Generator, int, int) float32 { return -inf }, op.Wide)},
		{Name: "scores-plus-infinity", Values: of(positive, sometimes(97, inf, positive), op.Normal)},
		{Name: "scores-nan", Values: of(op.Normal, sometimes(131, float32(math.NaN()), op.Normal), op.Normal)},
		{Name: "values-no-numbers", Values: of(op.Normal, op.Normal, func(g *gen.Generator, _, _ int) float32 {
			if g.Below(131) == 0 {
				return [...]float32{inf, -inf, float32(math.NaN())}[g.Below(3)]
			}
			return g.Normal()
		})},
		{Name: "values-cancel", Values: of(op.Scaled(0x1p-6), op.Normal, func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, 1000+g.Normal()) })},
		{Name: "values-around-zero", Values: of(op.Normal, op.Normal, func(g *gen.Generator, _, _ int) float32 { return op.EitherSign(g, 0x1p-149*float32(g.Below(2))) })},
		{Name: "values-of-one-sign", Values: of(op.Normal, op.Normal, op.Around(1000))},
		{Name: "values-near-the-largest", Values: of(op.Normal, op.Normal, op.Factors[3].Value)},
		{Name: "kappa-zero", Params: []float64{0}},
		{Name: "kappa-negative", Params: []float64{-Kappa(0.25)}},
	}
	for i := range list {
		list[i].Definition = d
		for name, at := range list[i].Index {
			if at == nil || d.Operand(name) < 0 {
				delete(list[i].Index, name)
			}
		}
	}
	return list
}

// sometimes is x in one of n elements, and other elsewhere.
func sometimes(n int, x float32, other op.Element) op.Element {
	return func(g *gen.Generator, r, c int) float32 {
		if g.Below(n) == 0 {
			return x
		}
		return other(g, r, c)
	}
}
