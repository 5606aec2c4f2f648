package crossentropy

import (
	"math"

	"tokitai/internal/gen"
	"tokitai/op"
)

var patterns = []op.Pattern{
	pattern("label-at-maximum", 1, peak(12), peakLabel),
	pattern("label-at-minimum", 1, peak(-12), peakLabel),
	pattern("label-first", 1, op.Normal, func(*gen.Generator, int, int) int { return 0 }),
	pattern("label-last", 1, op.Normal, func(_ *gen.Generator, _, bound int) int { return bound - 1 }),
	pattern("tiny-loss", 1, peak(17), peakLabel),
	pattern("huge-loss", 1, peak(-20000), peakLabel),
	pattern("label-masked", 1, peak(math.Inf(-1)), peakLabel),
	pattern("ignored-rows", 1, op.Normal, ignoredSometimes),
	pattern("ignored-rows-with-nan", 1, nanWhereIgnored, ignoredSometimes),
	pattern("bad-labels", 1, op.Normal, badSometimes),
	pattern("bad-labels-with-nan", 1, nanWhereIgnored, badSometimes),
	pattern("half", 0.5, op.Normal, nil),
	pattern("third", 1.0/3, op.Normal, nil),
	pattern("negative-scale", -1, op.Normal, nil),
	pattern("no-scale", 0, op.Normal, nil),
	pattern("tiny-scale", 0x1p-20, op.Normal, nil), // gradients below the normal f16
	pattern("huge-scale", 1e6, op.Normal, nil),     // and beyond all f16
	pattern("constant-rows", 1, func(_ *gen.Generator, r, _ int) float32 { return gen.Seeded(uint64(r)).Normal() }, nil),
	pattern("ascending", 1, func(_ *gen.Generator, _, c int) float32 { return 0x1p-6 * float32(c) }, nil),
	pattern("causal-mask", 1, masked(func(r, c int) bool { return c > r }), nil),
	pattern("left-padded", 1, masked(op.LeftPadding), nil), // the maximum is -Inf for a while
	pattern("far-above-zero", 1, op.Around(1000), nil),
	pattern("far-below-zero", 1, op.FarBelow, nil),
	{
		Name: "ignored-inside", Definition: Definition, Params: []float64{0, 1}, // label 0 is a column, and does not count
		Index: map[string]op.Index{"label": func(g *gen.Generator, _, bound int) int { return g.Below(min(2, bound)) }},
	},

	pattern("sums-of-every-size", 1, everySize, nil),
	{ // labels that are the ignored one in their low bits
		Name: "labels-like-the-ignored", Definition: Definition, Params: []float64{DefaultIgnore, 1}, IsLong: true,
		Index: map[string]op.Index{"label": likeIgnored},
	},

	// The sum is 1 and its logarithm +0: loss is 0 or 200, the gradient 0 or ±scale.
	grid("one-class", 1), grid("one-class-half", 0.5),

	// A small loss of large logits, which max + log sum loses.
	pattern("sure-far-above-zero", 1, func(g *gen.Generator, r, c int) float32 { return 1000 + peak(10)(g, r, c) }, peakLabel),
}

var scalings = []op.Scaling{
	{Name: "scaled-gradient", Definition: Definition, Params: map[string]int{"scale": 1}, Outputs: map[string]int{"dlogits": 1}},
}

// pattern has labels that are uniform where it is given none.
func pattern(name string, scale float64, logits op.Element, label op.Index) op.Pattern {
	p := op.Pattern{
		Name: name, Definition: Definition, Params: []float64{DefaultIgnore, scale},
		Values: map[string]op.Element{"logits": logits},
	}
	if label != nil {
		p.Index = map[string]op.Index{"label": label}
	}
	return p
}

func grid(name string, scale float64) op.Pattern {
	p := pattern(name, scale, func(_ *gen.Generator, _, c int) float32 { return -200 * float32(min(c, 1)) }, nil)
	p.IsGrid = true
	return p
}

// peak puts one logit far above or below the others, at peakLabel where there are
// columns enough.
func peak(height float64) op.Element {
	return func(g *gen.Generator, r, c int) float32 {
		if c == r%4 {
			return float32(height) + g.Normal()
		}
		return g.Normal()
	}
}

func peakLabel(_ *gen.Generator, r, bound int) int { return min(r%4, bound-1) }

func ignoredSometimes(g *gen.Generator, r, bound int) int {
	if r%3 == 0 {
		return DefaultIgnore
	}
	return g.Below(bound)
}

func nanWhereIgnored(g *gen.Generator, r, _ int) float32 {
	if r%3 == 0 {
		return float32(math.NaN())
	}
	return g.Normal()
}

// badSometimes is just outside, or far, in every third row.
func badSometimes(g *gen.Generator, r, bound int) int {
	if r%3 == 0 {
		return []int{-1, bound, math.MaxInt32, math.MinInt32}[r/3%4]
	}
	return g.Below(bound)
}

// everySize has rows whose sums are anything from 1 to the number of columns.
func everySize(_ *gen.Generator, r, c int) float32 {
	if c == 0 {
		return 0
	}
	return -12 * gen.Seeded(uint64(r)).Uniform(0, 1)
}

// likeIgnored has 8 or 16 low bits of the ignored label, where there are columns enough.
func likeIgnored(g *gen.Generator, r, bound int) int {
	if label := DefaultIgnore & []int{0xff, 0xffff}[r%2]; label < bound {
		return label
	}
	return g.Below(bound)
}

func masked(isMasked func(r, c int) bool) op.Element {
	return func(g *gen.Generator, r, c int) float32 {
		if isMasked(r, c) {
			return float32(math.Inf(-1))
		}
		return g.Normal()
	}
}
