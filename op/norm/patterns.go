package norm

import (
	"math"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

var squareSumPatterns = []op.Pattern{
	ofX("one-huge", first(4096, op.Scaled(0x1p-6))),
	ofX("one-huge-among-ones", first(4096, plusMinusOne)), // 2^24: a single sum would stay there
	ofX("ascending", func(_ *gen.Generator, r, c int) float32 { return 0x1p-5 * float32((r+c)%1024) }),
	ofX("every-exponent", func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-40, 40) }),
	ofX("overflowing-squares", func(g *gen.Generator, _, _ int) float32 { return g.Exponents(60, 66) }),
	ofX("overflowing-sum", func(g *gen.Generator, _, _ int) float32 { return g.Exponents(63, 64) }),
	ofX("subnormal-squares", func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-77, -60) }),
	ofX("largest-f16", func(g *gen.Generator, _, _ int) float32 {
		return plusMinusOne(g, 0, 0) * (65504 - float32(32*g.Below(16)))
	}),
	ofX("subnormal-f16", func(g *gen.Generator, _, _ int) float32 { return 0x1p-24 * float32(g.Below(1024)) }),
	// Squares of at most 1, 9 and 121: exact up to 2^17 elements, and up to 2^20 the first two.
	grid(ofX("plus-minus-one", plusMinusOne)),
	grid(ofX("integers", integers(3))),
	grid(ofX("larger-integers", integers(11))),
}

var totalPatterns = []op.Pattern{
	ofSums("positive", op.Positive),
	ofSums("one-huge", first(0x1p24, op.Positive)),
	ofSums("cancellation", func(g *gen.Generator, r, c int) float32 {
		return float32(1-2*(c&1)) * gen.Seeded(uint64(r)<<32|uint64(c/2)).Normal() * (1 + float32(g.Below(8))*0x1p-23)
	}),
	ofSums("overflowing-sum", func(g *gen.Generator, _, _ int) float32 { return g.Exponents(126, 128) }),
	ofSums("tiny", func(g *gen.Generator, _, _ int) float32 { return math.Float32frombits(uint32(g.Below(1 << 24))) }),
	// At most 1 and 2^10: exact up to 2^23 and 2^13 columns.
	grid(ofSums("plus-minus-one", plusMinusOne)),
	grid(ofSums("integers", integers(1024))),
}

var clipPatterns = []op.Pattern{
	ofTotal("at-the-limit", 1, func(g *gen.Generator, _, _ int) float32 { return 1 + float32(g.Below(17)-8)*0x1p-23 }),
	ofTotal("around-the-limit", 0.1, func(g *gen.Generator, _, _ int) float32 { return 0.01 * (1 + 0x1p-20*g.Normal()) }),
	ofTotal("below", 1000, op.Positive),
	ofTotal("above", 0x1p-20, op.Positive),
	ofTotal("zero", 1, func(_ *gen.Generator, r, c int) float32 { return 0 * float32(1-2*((r+c)&1)) }),
	ofTotal("infinite", 1, func(g *gen.Generator, _, c int) float32 {
		return []float32{float32(math.Inf(1)), float32(math.NaN()), math.MaxFloat32, g.Normal()}[c%4]
	}),
	ofTotal("negative", 1, op.Normal),
	ofTotal("tiny", 0x1p-100, func(g *gen.Generator, _, _ int) float32 { return math.Float32frombits(uint32(g.Below(1 << 24))) }),
	ofTotal("every-exponent", 1, func(g *gen.Generator, _, _ int) float32 { return max(0, g.Exponents(-126, 128)) }),
	ofTotal("smallest-limit", 0x1p-149, op.Positive),
	ofTotal("largest-limit", math.MaxFloat32, func(g *gen.Generator, _, _ int) float32 { return max(0, g.Exponents(-126, 128)) }),
	// Roots and ratios of powers of two: nothing is rounded.
	grid(ofTotal("powers-of-four", 1, func(g *gen.Generator, _, _ int) float32 { return float32(math.Ldexp(1, 2*g.Below(100)-100)) })),
}

var squareSumScalings = []op.Scaling{
	{Name: "scaled-x", Definition: SquareSumDefinition, Inputs: map[string]int{"x": 1}, Outputs: map[string]int{"total": 2}},
	{Name: "negated-x", Definition: SquareSumDefinition, Negated: []string{"x"}},
	{Name: "scaled-sums", Definition: TotalDefinition, Inputs: map[string]int{"sums": 1}, Outputs: map[string]int{"total": 1}},
	{Name: "negated-sums", Definition: TotalDefinition, Negated: []string{"sums", "total"}},
}

var clipScalings = []op.Scaling{
	{Name: "scaled-total", Definition: ClipDefinition, Inputs: map[string]int{"total": 2}, Params: map[string]int{"max_norm": 1}, Outputs: map[string]int{"norm": 1}},
}

func ofX(name string, x op.Element) op.Pattern { return pattern(SquareSumDefinition, name, "x", x) }

func ofSums(name string, sums op.Element) op.Pattern {
	return pattern(TotalDefinition, name, "sums", sums)
}

func ofTotal(name string, maxNorm float64, total op.Element) op.Pattern {
	p := pattern(ClipDefinition, name, "total", total)
	p.Params = []float64{maxNorm}
	return p
}

func pattern(d *def.Definition, name, operand string, values op.Element) op.Pattern {
	return op.Pattern{Name: name, Definition: d, Values: map[string]op.Element{operand: values}}
}

func grid(p op.Pattern) op.Pattern {
	p.IsGrid = true
	return p
}

// first has one value in front of each row's others.
func first(x float32, rest op.Element) op.Element {
	return func(g *gen.Generator, r, c int) float32 {
		if c == 0 {
			return x
		}
		return rest(g, r, c)
	}
}

func plusMinusOne(g *gen.Generator, _, _ int) float32 { return float32(1 - 2*g.Below(2)) }

// integers are 1 to n, of either sign.
func integers(n int) op.Element {
	return func(g *gen.Generator, _, _ int) float32 { return plusMinusOne(g, 0, 0) * float32(1+g.Below(n)) }
}
