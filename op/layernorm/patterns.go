package layernorm

import (
	"math"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

var forwardPatterns = []op.Pattern{
	forwardPattern("mean-100", DefaultEps, op.Around(100)),
	forwardPattern("mean-1000", DefaultEps, op.Around(1000)),
	forwardPattern("mean-10000", DefaultEps, op.Around(10000)),
	forwardPattern("mean-minus-1000", DefaultEps, op.Around(-1000)),
	forwardPattern("constant-rows", DefaultEps, func(_ *gen.Generator, r, _ int) float32 { return gen.Seeded(uint64(r)).Normal() }),
	forwardPattern("one-outlier", DefaultEps, outlier(1000, func(r int) int { return 1 + r%9 })),
	forwardPattern("first-is-outlier", DefaultEps, outlier(1000, func(int) int { return 0 })), // the others are far from what they are shifted by
	forwardPattern("tiny-variance", DefaultEps, op.Scaled(0x1p-12)),
	forwardPattern("variance-like-eps", DefaultEps, op.Scaled(0x1p-8)),
	forwardPattern("large-eps", 1, op.Normal),
	forwardPattern("huge-eps", 1e30, op.Normal),
	forwardPattern("subnormal-eps", 1e-40, op.Normal),
	forwardPattern("no-eps", 0, op.Scaled(0x1p-20)), // a least eps would show
	forwardPattern("no-eps-constant-rows", 0, func(_ *gen.Generator, r, _ int) float32 { return gen.Seeded(uint64(r)).Normal() }),
	forwardPattern("alternating-signs", DefaultEps, func(_ *gen.Generator, _, c int) float32 { return 3 * sign(c) }),
	forwardPattern("ascending", DefaultEps, func(_ *gen.Generator, _, c int) float32 { return 0x1p-4 * float32(c) }),
	forwardPattern("variance-overflow", DefaultEps, op.Scaled(0x1p66)), // infinities in f16
	forwardPattern("gamma-zero-or-negative", DefaultEps, op.Normal, with("gamma", zeroOrNegative)),
	forwardPattern("passes-through", DefaultEps, op.Normal, with("gamma", constant(0)), with("beta", func(g *gen.Generator, _, _ int) float32 { return float32(math.Ldexp(1, g.Below(42)-25)) })),                     // y is beta
	forwardPattern("signed-zero-beta", DefaultEps, func(_ *gen.Generator, r, _ int) float32 { return gen.Seeded(uint64(r)).Normal() }, with("beta", func(_ *gen.Generator, _, c int) float32 { return 0 * sign(c) })), // constant rows
	forwardPattern("beta-dominates", DefaultEps, op.Normal, with("beta", largeOrLargest)),
	forwardPattern("beta-cancels", DefaultEps, func(_ *gen.Generator, _, c int) float32 { return 3 * sign(c) }, with("gamma", constant(1)), with("beta", func(_ *gen.Generator, _, c int) float32 { return -sign(c) })),

	// All differences to the first element are 0, and 1/sqrt(eps) is 256: y is beta,
	// mean is x, rstd is 256. Sums of the rows themselves are exact up to 2^17 columns.
	{
		Name: "constant-integers", Definition: ForwardDefinition, Params: []float64{0x1p-16}, IsGrid: true,
		Values: map[string]op.Element{
			"x":     func(_ *gen.Generator, r, _ int) float32 { return integers(100)(gen.Seeded(uint64(r)), r, 0) },
			"gamma": integers(8), "beta": integers(8),
		},
	},
}

var backwardPatterns = []op.Pattern{
	backwardPattern("mean-1000", op.Normal, op.Around(1000), with("mean", constant(1000))),
	backwardPattern("column-cancellation", nearlyOpposite, op.Normal),
	backwardPattern("row-cancellation", func(g *gen.Generator, _, _ int) float32 { return 1 + 0x1p-8*g.Normal() }, op.Normal, with("gamma", constant(1))),
	backwardPattern("projected", shared, shared, with("gamma", constant(1)), with("mean", constant(0)), with("rstd", constant(1))), // dy is xhat: dx is nearly 0
	backwardPattern("large-rstd", op.Normal, op.Scaled(0x1p-10), with("rstd", op.Between(256, 1024)), with("mean", op.Scaled(0x1p-14))),
	backwardPattern("tiny-rstd", op.Normal, op.Scaled(1000), with("rstd", constant(0x1p-12))),
	backwardPattern("zero-rstd", op.Normal, op.Normal, with("rstd", constant(0))),
	backwardPattern("one-huge-gradient", outlier(10000, func(r int) int { return r % 9 }), op.Normal),
	backwardPattern("one-huge-row", func(g *gen.Generator, r, _ int) float32 { return g.Normal() * (1 + 8191*float32(1-min(r%16, 1))) }, op.Normal),
	backwardPattern("alternating-signs", func(g *gen.Generator, r, c int) float32 { return sign(r+c) * (100 + g.Normal()) }, op.Normal),
	backwardPattern("zero-gradient", func(_ *gen.Generator, r, c int) float32 { return 0 * sign(r+c) }, op.Normal),
	backwardPattern("wide", op.Wide, op.Wide),
	backwardPattern("gamma-zero-or-negative", op.Normal, op.Normal, with("gamma", zeroOrNegative)),
	backwardPattern("integers", integers(8), integers(8), with("gamma", integers(2)), with("mean", constant(1)), with("rstd", constant(0.25))),

	// gamma is +0 and dy positive, so dx is +0 whatever is computed; the column sums are
	// those of integers of at most 8, and of quarters of at most 8·9/4: exact up to 2^17 rows.
	grid(backwardPattern("integers-in-columns", positiveInteger, integers(8), with("gamma", constant(0)), with("mean", constant(1)), with("rstd", constant(0.25)))),
}

var forwardScalings = []op.Scaling{
	{Name: "scaled-x", Definition: ForwardDefinition, Inputs: map[string]int{"x": 1}, Params: map[string]int{"eps": 2}, Outputs: map[string]int{"mean": 1, "rstd": -1}},
	{Name: "scaled-gamma-and-beta", Definition: ForwardDefinition, Inputs: map[string]int{"gamma": 1, "beta": 1}, Outputs: map[string]int{"y": 1}},
	{Name: "negated-x-and-beta", Definition: ForwardDefinition, Negated: []string{"x", "beta", "y", "mean"}},
	{Name: "negated-x-and-gamma", Definition: ForwardDefinition, Negated: []string{"x", "gamma", "mean"}},
}

var backwardScalings = []op.Scaling{
	{Name: "scaled-dy", Definition: BackwardDefinition, Inputs: map[string]int{"dy": 1}, Outputs: map[string]int{"dx": 1, "dgamma": 1, "dbeta": 1}},
	{Name: "scaled-gamma", Definition: BackwardDefinition, Inputs: map[string]int{"gamma": 1}, Outputs: map[string]int{"dx": 1}},
	{Name: "scaled-x", Definition: BackwardDefinition, Inputs: map[string]int{"x": 1, "mean": 1, "rstd": -1}, Outputs: map[string]int{"dx": -1}},
	{Name: "negated-dy", Definition: BackwardDefinition, Negated: []string{"dy", "dx", "dgamma", "dbeta"}},
	{Name: "negated-x", Definition: BackwardDefinition, Negated: []string{"x", "mean", "dgamma"}},
}

// setting is one operand's values.
type setting struct {
	operand string
	values  op.Element
}

func with(operand string, values op.Element) setting { return setting{operand, values} }

func forwardPattern(name string, eps float64, x op.Element, others ...setting) op.Pattern {
	return pattern(ForwardDefinition, name, []float64{eps}, append([]setting{{"x", x}, {"gamma", op.Around(1)}}, others...))
}

func backwardPattern(name string, dy, x op.Element, others ...setting) op.Pattern {
	usual := []setting{{"dy", dy}, {"x", x}, {"gamma", op.Around(1)}, {"mean", op.Scaled(0x1p-5)}, {"rstd", op.Between(1, 2)}}
	return pattern(BackwardDefinition, name, nil, append(usual, others...))
}

func pattern(d *def.Definition, name string, params []float64, settings []setting) op.Pattern {
	p := op.Pattern{Name: name, Definition: d, Params: params, Values: map[string]op.Element{}}
	for _, s := range settings { // later ones replace the usual ones
		p.Values[s.operand] = s.values
	}
	return p
}

func grid(p op.Pattern) op.Pattern {
	p.IsGrid = true
	return p
}

// sign returns 1 for even n and -1 for odd.
func sign(n int) float32 { return float32(1 - 2*(n&1)) }

func constant(x float32) op.Element { return func(*gen.Generator, int, int) float32 { return x } }

// outlier returns normal values, with x added in one column of each row.
func outlier(x float32, column func(r int) int) op.Element {
	return func(g *gen.Generator, r, c int) float32 {
		if c == column(r) {
			return x + g.Normal()
		}
		return g.Normal()
	}
}

// integers are 1 to n, of either sign.
func integers(n int) op.Element {
	return func(g *gen.Generator, _, _ int) float32 { return sign(g.Below(2)) * float32(1+g.Below(n)) }
}

func positiveInteger(g *gen.Generator, _, _ int) float32 { return float32(1 + g.Below(8)) }

// largeOrLargest is about 1000, or the largest f16 of either sign, which y may exceed by less than
// half a unit in the last place.
func largeOrLargest(g *gen.Generator, r, c int) float32 {
	if c%2 == 1 {
		return 65504 * sign(c/2)
	}
	return op.Around(1000)(g, r, c)
}

func zeroOrNegative(g *gen.Generator, _, c int) float32 {
	switch c % 4 {
	case 0:
		return 0
	case 1:
		return -1
	case 2:
		return 0 * sign(1)
	}
	return g.Normal()
}

// shared is one value for several operands.
func shared(_ *gen.Generator, r, c int) float32 {
	return gen.Seeded(uint64(r)<<32 | uint64(c)).Normal()
}

// nearlyOpposite is, in an odd row, nearly minus the row before.
func nearlyOpposite(g *gen.Generator, r, c int) float32 {
	return sign(r) * shared(nil, r/2, c) * (1 + float32(g.Below(8))*0x1p-11)
}
