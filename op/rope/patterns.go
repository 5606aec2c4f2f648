package rope

import (
	"maps"
	"math"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

// cosine and sine are those of angles with rational waves, m and n being integers that differ from
// place to place: (n²-m²)/(n²+m²) and 2mn/(n²+m²). Each is rounded once.
func cosine(_ *gen.Generator, r, c int) float32 {
	m, n := legs(r, c)
	return float32(float64(n*n-m*m) / float64(n*n+m*m))
}

func sine(_ *gen.Generator, r, c int) float32 {
	m, n := legs(r, c)
	return float32(float64(2*m*n) / float64(n*n+m*m))
}

// legs has no angle at position 0.
func legs(r, c int) (m, n int) {
	if r == 0 {
		return 0, 1
	}
	return (r*37+c*11)%127 - 63, 1 + (r*13+c*29)%61
}

// tables are the usual values of the tables, and of the factors of a norm.
func tables(d *def.Definition) map[string]op.Element {
	values := map[string]op.Element{"cos": cosine, "sin": sine}
	if d == NormForwardDefinition || d == NormBackwardDefinition {
		values["gamma1"], values["gamma2"] = op.Around(1), op.Around(1)
	}
	if d == NormBackwardDefinition {
		values["rstd"] = op.Between(1, 2)
	}
	return values
}

func sign(n int) float32 { return float32(1 - 2*(n&1)) }

func constant(v float32) op.Element { return func(*gen.Generator, int, int) float32 { return v } }

// pairs names the halves that are turned.
func pairs(d *def.Definition) [2]string {
	if d == BackwardDefinition || d == NormBackwardDefinition {
		return [2]string{"dy1", "dy2"}
	}
	return [2]string{"x1", "x2"}
}

// shared returns the same number for both halves of a pair.
func shared(r, c int) float32 { return gen.Seeded(uint64(r)<<32 | uint64(c)).Normal() }

func patterns(d *def.Definition) []op.Pattern {
	x := pairs(d)
	var list []op.Pattern
	add := func(name string, values map[string]op.Element, index op.Index) {
		p := op.Pattern{Name: name, Definition: d, Values: tables(d)}
		maps.Copy(p.Values, values)
		if index != nil {
			p.Index = map[string]op.Index{"position": index}
		}
		if len(d.Params) > 0 {
			p.Params = []float64{DefaultEps}
		}
		list = append(list, p)
	}
	both := func(e op.Element) map[string]op.Element { return map[string]op.Element{x[0]: e, x[1]: e} }
	add("first-position", nil, func(*gen.Generator, int, int) int { return 0 })
	add("last-position", nil, func(_ *gen.Generator, _, bound int) int { return bound - 1 })
	add("both-ends", nil, func(_ *gen.Generator, r, bound int) int { return r % 2 * (bound - 1) })
	add("ascending-positions", nil, func(_ *gen.Generator, r, bound int) int { return r % bound })
	add("heads-of-a-token", nil, func(_ *gen.Generator, r, bound int) int { return r / 4 % bound })
	add("just-outside", nil, func(_ *gen.Generator, r, bound int) int { return []int{-1, bound, 0, bound - 1}[r%4] })
	add("far-outside", nil, func(_ *gen.Generator, r, bound int) int { return []int{math.MinInt32, math.MaxInt32, 0, -bound}[r%4] })
	add("quarter-turn", map[string]op.Element{"cos": constant(0), "sin": constant(1)}, nil)
	add("cancels", map[string]op.Element{ // x1·c = x2·s, up to a rounding
		x[0]: func(g *gen.Generator, r, c int) float32 { return shared(r, c) },
		x[1]: func(g *gen.Generator, r, c int) float32 { return shared(r, c) }, "cos": constant(math.Sqrt2 / 2), "sin": constant(math.Sqrt2 / 2),
	}, nil)
	add("opposite", map[string]op.Element{
		x[0]: func(g *gen.Generator, r, c int) float32 { return shared(r, c) },
		x[1]: func(g *gen.Generator, r, c int) float32 { return -shared(r, c) }, "cos": constant(math.Sqrt2 / 2), "sin": constant(math.Sqrt2 / 2),
	}, nil)
	add("tiny-angle", map[string]op.Element{"cos": constant(1), "sin": func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-40, -12) }}, nil)
	add("tables-not-of-an-angle", map[string]op.Element{"cos": op.Wide, "sin": op.Wide}, nil)
	add("tables-zero", map[string]op.Element{"cos": constant(0), "sin": func(_ *gen.Generator, _, c int) float32 { return 0 * sign(c) }}, nil)
	add("wide", both(op.Wide), nil)
	add("one-half-huge", map[string]op.Element{x[0]: op.Scaled(10000), x[1]: op.Scaled(0x1p-10)}, nil)
	add("largest-f16", both(func(g *gen.Generator, r, c int) float32 { return sign(r+c) * (65504 - float32(32*g.Below(200))) }), nil)
	add("subnormal-f16", both(func(g *gen.Generator, r, c int) float32 { return sign(r+c) * 0x1p-24 * float32(g.Below(1<<10)) }), nil)
	add("subnormal", both(func(g *gen.Generator, r, c int) float32 {
		return sign(r+c) * math.Float32frombits(uint32(g.Below(1<<23)))
	}), nil)
	// Pairs of small integers turned by quarters: sums and products are exact.
	quarter := func(shift int) op.Element {
		return func(_ *gen.Generator, r, c int) float32 { return [4]float32{1, 0, -1, 0}[(r+c+shift)&3] }
	}
	add("quarters", map[string]op.Element{
		x[0]: func(g *gen.Generator, _, _ int) float32 { return float32(g.Below(7) - 3) },
		x[1]: func(g *gen.Generator, _, _ int) float32 { return float32(g.Below(7) - 3) }, "cos": quarter(0), "sin": quarter(3),
	}, nil)
	list[len(list)-1].IsGrid = d == ForwardDefinition || d == BackwardDefinition
	if d == NormForwardDefinition {
		add("zero-rows", both(func(_ *gen.Generator, r, c int) float32 { return 0 * sign(r+c) }), nil)
		add("one-outlier", map[string]op.Element{x[0]: func(g *gen.Generator, r, c int) float32 {
			if c == r%9 {
				return 1000
			}
			return g.Normal()
		}}, nil)
		add("one-half-zero", map[string]op.Element{x[1]: constant(0)}, nil)
		add("square-like-eps", both(op.Scaled(0x1p-10)), nil)
		add("squares-overflow", both(op.Scaled(0x1p66)), nil) // infinities in f16
		add("gamma-zero-or-negative", map[string]op.Element{"gamma1": func(_ *gen.Generator, _, c int) float32 { return float32(c%3) - 1 }}, nil)
	}
	if d == NormBackwardDefinition {
		add("rstd-zero", map[string]op.Element{"rstd": constant(0)}, nil)
		add("along-x", map[string]op.Element{ // t is xhat, so that dx cancels
			"x1": func(_ *gen.Generator, r, c int) float32 { return shared(r, c) }, "dy1": func(_ *gen.Generator, r, c int) float32 { return shared(r, c) },
			"x2": func(_ *gen.Generator, r, c int) float32 { return shared(r, ^c) }, "dy2": func(_ *gen.Generator, r, c int) float32 { return shared(r, ^c) },
			"cos": constant(1), "sin": constant(0), "gamma1": constant(1), "gamma2": constant(1),
		}, nil)
		add("gamma-zero-or-negative", map[string]op.Element{"gamma1": func(_ *gen.Generator, _, c int) float32 { return float32(c%3) - 1 }}, nil)
	}
	return list
}

var forwardScalings = []op.Scaling{
	{Name: "scaled-x", Definition: ForwardDefinition, Inputs: map[string]int{"x1": 1, "x2": 1}, Outputs: map[string]int{"y1": 1, "y2": 1}},
	{Name: "scaled-tables", Definition: ForwardDefinition, Inputs: map[string]int{"cos": 1, "sin": 1}, Outputs: map[string]int{"y1": 1, "y2": 1}},
}

var backwardScalings = []op.Scaling{
	{Name: "scaled-dy", Definition: BackwardDefinition, Inputs: map[string]int{"dy1": 1, "dy2": 1}, Outputs: map[string]int{"dx1": 1, "dx2": 1}},
	{Name: "scaled-tables", Definition: BackwardDefinition, Inputs: map[string]int{"cos": 1, "sin": 1}, Outputs: map[string]int{"dx1": 1, "dx2": 1}},
}

var normForwardScalings = []op.Scaling{
	{Name: "scaled-gamma", Definition: NormForwardDefinition, Inputs: map[string]int{"gamma1": 1, "gamma2": 1}, Outputs: map[string]int{"y1": 1, "y2": 1}},
	{Name: "scaled-tables", Definition: NormForwardDefinition, Inputs: map[string]int{"cos": 1, "sin": 1}, Outputs: map[string]int{"y1": 1, "y2": 1}},
	{Name: "scaled-x", Definition: NormForwardDefinition, Inputs: map[string]int{"x1": 1, "x2": 1}, Params: map[string]int{"eps": 2}, Outputs: map[string]int{"rstd": -1}},
}

var normBackwardScalings = []op.Scaling{
	{Name: "scaled-dy", Definition: NormBackwardDefinition, Inputs: map[string]int{"dy1": 1, "dy2": 1}, Outputs: map[string]int{"dx1": 1, "dx2": 1, "dgamma1": 1, "dgamma2": 1}},
	{Name: "scaled-gamma", Definition: NormBackwardDefinition, Inputs: map[string]int{"gamma1": 1, "gamma2": 1}, Outputs: map[string]int{"dx1": 1, "dx2": 1}},
}
