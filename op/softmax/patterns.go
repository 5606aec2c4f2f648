package softmax

import (
	"math"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

var forwardPatterns = []op.Pattern{
	pattern(ForwardDefinition, "one-huge", all("x", peak(40, func(r int) int { return r % 7 }))),
	pattern(ForwardDefinition, "two-maxima", all("x", twoMaxima)),
	pattern(ForwardDefinition, "constant-rows", all("x", func(_ *gen.Generator, r, _ int) float32 { return gen.Seeded(uint64(r)).Normal() })),
	pattern(ForwardDefinition, "steps-of-ln-2", all("x", func(_ *gen.Generator, r, c int) float32 { return -0x1.62e430p-1 * float32((c+r)%24) })),
	pattern(ForwardDefinition, "exp-underflow", all("x", underflow)),
	pattern(ForwardDefinition, "causal-mask", all("x", masked(func(r, c int) bool { return c > r }))),
	pattern(ForwardDefinition, "masked-rows", all("x", masked(func(r, c int) bool { return r%3 == 1 || c%8 != r%8 }))),
	pattern(ForwardDefinition, "left-padded", all("x", masked(op.LeftPadding))), // the maximum is -Inf for a while
	// Every difference to the maximum is new: an online softmax rescales at every element.
	pattern(ForwardDefinition, "ascending", all("x", func(_ *gen.Generator, _, c int) float32 { return 0x1p-6 * float32(c) })),
	pattern(ForwardDefinition, "descending", all("x", func(_ *gen.Generator, _, c int) float32 { return -0x1p-6 * float32(c) })),
	pattern(ForwardDefinition, "rising-blocks", all("x", func(g *gen.Generator, _, c int) float32 { return float32(8*(c/32)) + g.Normal() })),
	pattern(ForwardDefinition, "falling-blocks", all("x", func(g *gen.Generator, _, c int) float32 { return -float32(8*(c/32)) + g.Normal() })),
	pattern(ForwardDefinition, "maximum-first", all("x", peak(20, func(int) int { return 0 }))),
	pattern(ForwardDefinition, "far-above-zero", all("x", op.Around(1000))),
	pattern(ForwardDefinition, "far-below-zero", all("x", op.FarBelow)),
	pattern(ForwardDefinition, "nearly-equal", all("x", op.Scaled(0x1p-10))),

	// Every exponential is 1 or underflows to 0: the sum is the number of ones, exact
	// up to 2^24 columns, and y is 1 over it, rounded once, or +0.
	grid(ForwardDefinition, "one-or-nothing", all("x", func(g *gen.Generator, _, _ int) float32 { return -200 * float32(g.Below(2)) })),
	grid(ForwardDefinition, "one-class", all("x", func(_ *gen.Generator, r, c int) float32 { return -200 * float32(min(1, abs(c-r%7))) })),
}

var backwardPatterns = []op.Pattern{
	pattern(BackwardDefinition, "cancellation", both(func(g *gen.Generator, _, _ int) float32 { return 1 + 0x1p-8*g.Normal() }, halves)),
	pattern(BackwardDefinition, "constant-gradient", both(func(*gen.Generator, int, int) float32 { return 3 }, probability)),
	pattern(BackwardDefinition, "one-hot", both(op.Normal, oneHot)),
	pattern(BackwardDefinition, "nearly-one-hot", both(op.Normal, nearlyOneHot)),
	pattern(BackwardDefinition, "alternating-signs", both(func(g *gen.Generator, _, c int) float32 { return float32(1-2*(c&1)) * (100 + g.Normal()) }, probability)),
	pattern(BackwardDefinition, "one-huge-gradient", both(peak(30000, func(r int) int { return r % 7 }), probability)),
	pattern(BackwardDefinition, "wide", both(op.Wide, probability)),
	pattern(BackwardDefinition, "tiny-probabilities", both(op.Normal, func(g *gen.Generator, _, _ int) float32 { return magnitude(g.Exponents(-24, -14)) })),

	// Products are multiples of 2^-6 of at most 1: up to 2^17 columns their sum and its
	// difference to dy are exact. y are powers of two, so nothing is rounded but dx.
	grid(BackwardDefinition, "integers", both(integers, func(g *gen.Generator, _, _ int) float32 { return float32(math.Ldexp(1, -3-g.Below(4))) })),
}

var backwardScalings = []op.Scaling{
	{Name: "scaled-dy", Definition: BackwardDefinition, Inputs: map[string]int{"dy": 1}, Outputs: map[string]int{"dx": 1}},
	{Name: "negated-dy", Definition: BackwardDefinition, Negated: []string{"dy", "dx"}},
}

func pattern(d *def.Definition, name string, values map[string]op.Element) op.Pattern {
	return op.Pattern{Name: name, Definition: d, Values: values}
}

func grid(d *def.Definition, name string, values map[string]op.Element) op.Pattern {
	return op.Pattern{Name: name, Definition: d, Values: values, IsGrid: true}
}

func both(dy, y op.Element) map[string]op.Element { return map[string]op.Element{"dy": dy, "y": y} }

// peak has one element that stands out, in a column that the row decides.
func peak(height float32, column func(r int) int) op.Element {
	return func(g *gen.Generator, r, c int) float32 {
		if c == column(r) {
			return height + g.Normal()
		}
		return g.Normal()
	}
}

func twoMaxima(g *gen.Generator, r, c int) float32 {
	if c == r%8 || c == 8+r%8 {
		return 5
	}
	return g.Normal() - 4
}

// underflow reaches the arguments where exp becomes subnormal, and where it becomes 0.
func underflow(g *gen.Generator, r, c int) float32 {
	if c == r%3 {
		return 0
	}
	return g.Uniform(-105, -86)
}

func masked(isMasked func(r, c int) bool) op.Element {
	return func(g *gen.Generator, r, c int) float32 {
		if isMasked(r, c) {
			return float32(math.Inf(-1))
		}
		return g.Normal()
	}
}

// halves add up to nearly 1, however many there are.
func halves(_ *gen.Generator, _, c int) float32 { return float32(math.Ldexp(1, -1-c)) }

func oneHot(_ *gen.Generator, r, c int) float32 {
	if c == r%7 {
		return 1
	}
	return 0
}

// integers are 1 to 8, of either sign.
func integers(g *gen.Generator, _, _ int) float32 {
	return float32((1 - 2*g.Below(2)) * (1 + g.Below(8)))
}

func magnitude(x float32) float32 { return max(x, -x) }

func abs(n int) int { return max(n, -n) }
