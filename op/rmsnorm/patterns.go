package rmsnorm

import (
	"maps"
	"math"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

// forwardPatterns are patterns of x, and with a residual some in which the sum cancels or rounds.
func forwardPatterns(d *def.Definition) []op.Pattern {
	var list []op.Pattern
	add := func(name string, eps float64, x op.Element, others ...setting) {
		usual := []setting{{"x", x}, {"gamma", op.Around(1)}}
		if d == ResidualForwardDefinition {
			usual = append(usual, setting{"residual", negligible(x)})
		}
		list = append(list, pattern(d, name, []float64{eps}, append(usual, others...)))
	}
	add("mean-1000", DefaultEps, op.Around(1000))
	add("constant-rows", DefaultEps, func(_ *gen.Generator, r, _ int) float32 { return gen.Seeded(uint64(r)).Normal() })
	add("zero-rows", DefaultEps, func(_ *gen.Generator, r, c int) float32 { return 0 * sign(r+c) })
	add("one-outlier", DefaultEps, outlier(1000, func(r int) int { return 1 + r%9 }))
	add("one-huge", DefaultEps, outlier(30000, func(r int) int { return r % 5 }))
	add("square-like-eps", DefaultEps, op.Scaled(0x1p-10))
	add("square-below-eps", DefaultEps, op.Scaled(0x1p-14))
	add("large-eps", 1, op.Normal)
	add("huge-eps", 1e30, op.Normal)
	add("subnormal-eps", 1e-40, op.Normal)
	add("no-eps", 0, op.Scaled(0x1p-14)) // a least eps would show
	add("no-eps-zero-rows", 0, func(_ *gen.Generator, r, c int) float32 { return 0 * sign(r+c) })
	add("squares-overflow", DefaultEps, op.Scaled(0x1p66)) // infinities in f16
	add("squares-underflow", 0, op.Scaled(0x1p-70))        // zeros in f16
	add("squares-overflow-f16", DefaultEps, op.Scaled(1000))
	add("ascending", DefaultEps, func(_ *gen.Generator, _, c int) float32 { return 0x1p-4 * float32(c) })
	add("wide", DefaultEps, op.Wide)
	add("gamma-zero-or-negative", DefaultEps, op.Normal, with("gamma", zeroOrNegative))
	add("gamma-largest-f16", DefaultEps, op.Normal, with("gamma", func(_ *gen.Generator, _, c int) float32 { return 65504 * sign(c) }))
	// Every number is 4 or -4, so that rstd is exactly 1/4, and y is gamma of either sign: every
	// power of two that f16 has is stored.
	add("passes-through", 0, func(_ *gen.Generator, r, c int) float32 { return 4 * sign(r*c) }, with("gamma", func(g *gen.Generator, _, _ int) float32 { return float32(math.Ldexp(1, g.Below(40)-24)) }))
	list[len(list)-1].IsGrid = true
	if d == ResidualForwardDefinition {
		list[len(list)-1].Values["residual"] = constant(0)
		add("residual-cancels", DefaultEps, shared, with("residual", func(g *gen.Generator, r, c int) float32 { return -shared(g, r, c) * (1 + float32(g.Below(8))*0x1p-7) }))
		add("residual-dominates", DefaultEps, op.Normal, with("residual", op.Scaled(1000)))
		add("residual-overflows-f16", DefaultEps, op.Scaled(40000), with("residual", op.Scaled(40000)))
		add("residual-subnormal", DefaultEps, op.Scaled(0x1p-20), with("residual", op.Scaled(0x1p-24)))
		// Halves of a unit in the last place of f16 and bf16, between 1 and 2.
		add("residual-ties", DefaultEps, func(g *gen.Generator, _, _ int) float32 { return 1 + float32(g.Below(128))*0x1p-7 }, with("residual", func(g *gen.Generator, _, c int) float32 {
			return float32(1+2*g.Below(2)) * [...]float32{0x1p-11, 0x1p-8}[c%2]
		}))
	}
	return list
}

// backwardPatterns are patterns of dy and of what was normalized, and with a residual some of dsum.
func backwardPatterns(d *def.Definition) []op.Pattern {
	var list []op.Pattern
	add := func(name string, dy, x op.Element, others ...setting) {
		usual := []setting{{"dy", dy}, {"x", x}, {"gamma", op.Around(1)}, {"rstd", op.Between(1, 2)}}
		if d == ResidualBackwardDefinition {
			usual[1].operand = "sum"
			usual = append(usual, setting{"dsum", op.Normal})
		}
		list = append(list, pattern(d, name, nil, append(usual, others...)))
	}
	add("mean-1000", op.Normal, op.Around(1000), with("rstd", constant(0x1p-10)))
	add("column-cancellation", nearlyOpposite, constant(1))
	add("row-cancellation", func(g *gen.Generator, _, c int) float32 { return sign(c) * (1 + 0x1p-8*g.Normal()) }, constant(1), with("gamma", constant(1)))
	add("projected", shared, shared, with("gamma", constant(1)), with("rstd", constant(1))) // dy is xhat: dx is nearly 0
	add("large-rstd", op.Normal, op.Scaled(0x1p-10), with("rstd", op.Between(256, 1024)))
	add("tiny-rstd", op.Normal, op.Scaled(1000), with("rstd", constant(0x1p-12)))
	add("zero-rstd", op.Normal, op.Normal, with("rstd", constant(0)))
	add("one-huge-gradient", outlier(10000, func(r int) int { return r % 9 }), op.Normal)
	add("one-huge-row", func(g *gen.Generator, r, _ int) float32 { return g.Normal() * (1 + 8191*float32(1-min(r%16, 1))) }, op.Normal)
	add("alternating-signs", func(g *gen.Generator, r, c int) float32 { return sign(r+c) * (100 + g.Normal()) }, op.Normal)
	add("zero-gradient", func(_ *gen.Generator, r, c int) float32 { return 0 * sign(r+c) }, op.Normal)
	add("wide", op.Wide, op.Wide)
	add("gamma-zero-or-negative", op.Normal, op.Normal, with("gamma", zeroOrNegative))
	add("integers", integers(8), integers(8), with("gamma", integers(2)), with("rstd", constant(0.25)))
	// gamma is +0 and dy positive, so dx is +0 whatever is computed, or dsum; the column sums are
	// those of quarters of at most 8·8/4: exact up to 2^17 rows.
	add("integers-in-columns", positiveInteger, integers(8), with("gamma", constant(0)), with("rstd", constant(0.25)))
	if list[len(list)-1].IsGrid = true; d == ResidualBackwardDefinition {
		add("dsum-dominates", op.Normal, op.Normal, with("dsum", op.Scaled(1000)))
		add("dsum-negligible", op.Normal, op.Normal, with("dsum", op.Scaled(0x1p-10)))
		// Without a projection, which is small in long rows, dx would be nearly 0.
		add("dsum-cancels", shared, op.Normal, with("gamma", constant(1)), with("rstd", constant(1)), with("dsum", func(g *gen.Generator, r, c int) float32 {
			return -shared(g, r, c) * (1 + float32(g.Below(8))*0x1p-7)
		}))
		add("dsum-subnormal", op.Scaled(0x1p-20), op.Normal, with("dsum", op.Scaled(0x1p-24)))
	}
	return list
}

var (
	forwardScalings = []op.Scaling{
		{Name: "scaled-x", Definition: ForwardDefinition, Inputs: map[string]int{"x": 1}, Params: map[string]int{"eps": 2}, Outputs: map[string]int{"rstd": -1}},
		{Name: "scaled-gamma", Definition: ForwardDefinition, Inputs: map[string]int{"gamma": 1}, Outputs: map[string]int{"y": 1}},
		{Name: "negated-x", Definition: ForwardDefinition, Negated: []string{"x", "y"}},
		{Name: "negated-gamma", Definition: ForwardDefinition, Negated: []string{"gamma", "y"}},
	}
	residualForwardScalings = []op.Scaling{
		{Name: "scaled-x-and-residual", Definition: ResidualForwardDefinition, Inputs: map[string]int{"x": 1, "residual": 1}, Params: map[string]int{"eps": 2}, Outputs: map[string]int{"sum": 1, "rstd": -1}},
		{Name: "scaled-gamma", Definition: ResidualForwardDefinition, Inputs: map[string]int{"gamma": 1}, Outputs: map[string]int{"y": 1}},
		{Name: "negated-x-and-residual", Definition: ResidualForwardDefinition, Negated: []string{"x", "residual", "sum", "y"}},
	}
)

// backwardScalings are relations of the gradients; dsum, if there is one, scales like dx.
func backwardScalings(d *def.Definition) []op.Scaling {
	x, dsum := "x", func(int) map[string]int { return map[string]int{} }
	negated := []string{"dy", "dx", "dgamma"}
	if d == ResidualBackwardDefinition {
		x, dsum = "sum", func(power int) map[string]int { return map[string]int{"dsum": power} }
		negated = append(negated, "dsum")
	}
	scaling := func(name string, dx, dgamma int, inputs map[string]int) op.Scaling {
		s := op.Scaling{Name: name, Definition: d, Inputs: dsum(dx), Outputs: map[string]int{"dx": dx}}
		if maps.Copy(s.Inputs, inputs); dgamma != 0 {
			s.Outputs["dgamma"] = dgamma
		}
		return s
	}
	return []op.Scaling{
		scaling("scaled-dy", 1, 1, map[string]int{"dy": 1}),
		scaling("scaled-gamma", 1, 0, map[string]int{"gamma": 1}),
		scaling("scaled-"+x, -1, 0, map[string]int{x: 1, "rstd": -1}),
		{Name: "negated-dy", Definition: d, Negated: negated},
		{Name: "negated-" + x, Definition: d, Negated: []string{x, "dgamma"}},
	}
}

// setting is one operand's values.
type setting struct {
	operand string
	values  op.Element
}

func with(operand string, values op.Element) setting { return setting{operand, values} }

func pattern(d *def.Definition, name string, params []float64, settings []setting) op.Pattern {
	p := op.Pattern{Name: name, Definition: d, Params: params, Values: map[string]op.Element{}}
	for _, s := range settings { // later ones replace the usual ones
		p.Values[s.operand] = s.values
	}
	return p
}

// negligible is a residual of the size of x in every third place, and much smaller elsewhere.
func negligible(x op.Element) op.Element {
	return func(g *gen.Generator, r, c int) float32 {
		if c%3 == 0 {
			return x(g, r, c)
		}
		return 0x1p-9 * x(g, r, c)
	}
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
