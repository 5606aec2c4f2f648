package gelu

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/fn"
	"tokitai/op"
)

// erfPart has the quantities of the definitions by erf, over the real numbers.
type erfPart struct{ a, t, e, w, m float64 }

func erfAt(x float64) (g erfPart) {
	g.a = min(math.Abs(x), 15)
	g.t = g.a * g.a / 2
	g.e = math.Exp(-g.t)
	z := g.a / math.Sqrt2
	g.w = math.Exp(z*z) * math.Erfc(z) / 2
	g.m = g.a/math.Sqrt(2*math.Pi) - g.w
	return g
}

// derivativeByErf returns that of GELU by erf.
func derivativeByErf(x float64) float64 {
	g := erfAt(x)
	if x < 0 {
		return -g.e * g.m
	}
	return 1 + g.e*g.m
}

var erfAssumes = map[*def.Function]float64{fn.ExpBoundedFunction: 1, fn.ErfcxBoundedFunction: 4}

// a² is off by u, so e by (t+2)u, and by 2^-149 where it is subnormal. a/√2 is off by 2u, which
// moves erfcx by no more, and erfcx by 8u: w is off by 10u. Below zero two products add 2u; above, the fma
// rounds by u, and so does the product. One u more is for products of errors.
var erfForwardBounds = []bound.Form{{
	Output: "y", Assumes: erfAssumes, IsTighter: true, // products by 1/2
	Text: []string{
		"bound = u*(2*y + (t + 13)*(x - y)) + 2^-149 for x >= 0",
		"bound = (t + 15)*u*|y| + 2^-148 for x < 0, with t = min(|x|, 15)^2/2",
	},
	At: func(call *bound.Call) func(r, c int) float64 {
		x := call.Matrix("x")
		return func(r, c int) float64 {
			v := x.At(r, c)
			g := erfAt(v)
			if v >= 0 {
				rest := g.e * g.w
				return u*v*(2*(1-rest)+(g.t+13)*rest) + 0x1p-149
			}
			return (g.t+15)*u*g.a*g.e*g.w + 0x1p-148
		}
	},
}}

// m is off by u·a/√(2π) of the constant, 10u·w and u·|m|; e as above; the fma and the products by u
// each. One u·|m| is for products of errors. Where e is subnormal, the error of 2^-149 counts |m| < 6 times.
var erfBackwardBounds = []bound.Form{{
	Output: "dx", Assumes: erfAssumes, IsTighter: true, // products by 1/2
	Text: []string{
		"bound = u*|dy| * (2*s + e*(a/sqrt(2*pi) + 10*w + (t + 4)*|m|)) + (1 + |dy|)*2^-146 for x >= 0",
		"bound = u*|dy|*e * (a/sqrt(2*pi) + 10*w + (t + 6)*|m|) + (1 + |dy|)*2^-146 for x < 0",
		"a = min(|x|, 15), t = a^2/2, e = exp(-t), w = erfcx(a/sqrt(2))/2, m = a/sqrt(2*pi) - w, s = 1 + e*m",
	},
	At: func(call *bound.Call) func(r, c int) float64 {
		dy, x := call.Matrix("dy"), call.Matrix("x")
		return func(r, c int) float64 {
			g, d := erfAt(x.At(r, c)), math.Abs(dy.At(r, c))
			parts, m, small := g.a/math.Sqrt(2*math.Pi)+10*g.w, math.Abs(g.m), (1+d)*0x1p-146
			if x.At(r, c) >= 0 {
				return u*d*(2*(1+g.e*g.m)+g.e*(parts+(g.t+4)*m)) + small
			}
			return u*d*g.e*(parts+(g.t+6)*m) + small
		}
	},
}}

// cdfByErf is ½(1 + erf(x/√2)), which cancels for negative x.
func cdfByErf(x def.Value) def.Value {
	return half.Mul(def.One.Add(fn.Erf(x.Mul(rootHalf))))
}

// densityOf is φ at x, which is held as in the definition.
func densityOf(x def.Value) (held, phi def.Value) {
	held = x.Min(erfLimit).Max(erfLimit.Neg())
	return held, fn.ExpBounded(held.Mul(held).Mul(minusHalf)).Mul(density)
}

var (
	forwardErf = def.Must(def.Rowwise("gelu.erf.forward.sum", func(b *def.Builder) {
		x := b.In("x")
		b.Out("y", x.Mul(cdfByErf(x)), def.Like("x"))
	}))
	backwardErf = def.Must(def.Rowwise("gelu.erf.backward.sum", func(b *def.Builder) {
		dy, x := b.In("dy"), b.In("x", def.Like("dy"))
		held, phi := densityOf(x)
		b.Out("dx", dy.Mul(cdfByErf(x).Add(held.Mul(phi))), def.Like("dy"))
	}))
)

// erfExpanded multiplies dy into Φ and x·φ.
var erfExpanded = def.Must(def.Rowwise("gelu.erf.backward.expanded", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	a, e, w := erfParts(x)
	isNegative := x.Less(def.Zero).As("neg")
	product := dy.Mul(a.Mul(e.Mul(density))).As("product")
	rest := e.Mul(w).As("rest")
	cdf := def.Select(isNegative, rest, def.One.Sub(rest))
	b.Out("dx", dy.Mul(cdf).Add(def.Select(isNegative, product.Neg(), product)), def.Like("dy"))
}))

var erfForwardFormulas = []op.Formula{
	{Name: "erfc", Of: ErfForwardDefinition, Text: "x/2 * erfc(-x/sqrt(2)), as exp(-x^2/2)*erfcx(|x|/sqrt(2)): the definition's own form"},
	{Name: "erf", Of: ErfForwardDefinition, Definition: forwardErf, Text: "x/2 * (1 + erf(x/sqrt(2))), which cancels for negative x: its error is one of erf in units of |x|, and below -5.5 nothing else is left"},
}

var erfBackwardFormulas = []op.Formula{
	{Name: "erfc", Of: ErfBackwardDefinition, Text: "dy*(Phi + x*phi), with Phi by erfc: the definition's own form"},
	{Name: "expanded", Of: ErfBackwardDefinition, Definition: erfExpanded, Text: "dy*Phi + dy*x*phi"},
	{Name: "erf", Of: ErfBackwardDefinition, Definition: backwardErf, Text: "dy*((1 + erf(x/sqrt(2)))/2 + x*phi), which cancels for negative x"},
}

// PyTorch computes x·½·(1 + erf(x/√2)). Below zero the sum cancels. erf is off by 2.5 ulp, 2.5u below 1, and
// its argument by 2u, which moves erf by 2u·z·erf'(z) < 0.97u: 3.5u·|x|/2.
var (
	erfForwardAllowances = []op.Allowance{{
		Profile: "torch", Definition: ErfForwardDefinition, Output: "y",
		Text: "gelu.erf: absolute error 2u*|x|, of 1 + erf",
		At: func(call *bound.Call) func(r, c int) float64 {
			x := call.Matrix("x")
			return func(r, c int) float64 { return 2 * bound.U * math.Abs(x.At(r, c)) }
		},
	}}
	erfBackwardAllowances = []op.Allowance{{
		Profile: "torch", Definition: ErfBackwardDefinition, Output: "dx",
		Text: "gelu.erf: absolute error 2u*|dy|, of 1 + erf",
		At: func(call *bound.Call) func(r, c int) float64 {
			dy := call.Matrix("dy")
			return func(r, c int) float64 { return 2 * bound.U * math.Abs(dy.At(r, c)) }
		},
	}}
)

var erfForwardClauses = op.ClausesOf(ErfForwardDefinition,
	op.Interfaces(),
	op.Specially(op.Where(op.IsNaN, "x")),
	op.Avoiding(op.Where(op.IsInfinite, "x"), op.Where(func(v float64) bool { return math.IsInf(v, -1) }, "x")), // -Inf times Phi of it
	op.Specially(op.Where(op.IsZero, "x")),
	op.Calculates(),
	op.Specially(op.WhereSubnormal("x")),
	op.Interfaces(),
)

var erfBackwardClauses = op.ClausesOf(ErfBackwardDefinition,
	op.Interfaces(),
	op.Specially(op.Where(op.IsNaN, "dy", "x")),
	op.Avoiding(infiniteArgument, infiniteArgument), // phi, 0, times an infinity
	op.Specially(op.Where(op.IsInfinite, "dy")),
	op.Specially(op.Where(op.IsZero, "x")),
	op.Calculates(),
	op.Specially(op.Either(op.WhereSubnormal("dy"), op.WhereResult(op.IsAtAnEnd, gradientByErf))),
	op.Interfaces(),
)

func gradientByErf(c *bound.Call) func(operand, row, col int) float64 {
	dy, x := op.InputOf(c, "dy"), op.InputOf(c, "x")
	return func(_, row, col int) float64 { return dy(row, col) * derivativeByErf(x(row, col)) }
}

// Phi is between 0 and 1, so that y lies between 0 and x. A form in which it exceeds 1 does so by
// rounding: 2^-20 is 16 roundings.
var erfForwardRanges = []op.Range{{
	Definition: ErfForwardDefinition, Output: "y", Clause: "C6", Assumes: []string{"erf", "erfcx", "div", "recip"},
	Between: forwardRanges[0].Between,
}}

// The derivative is between -0.129 and 1.129. A product that underflows may be larger than it
// should be by half of the least number.
var erfBackwardRanges = []op.Range{{
	Definition: ErfBackwardDefinition, Output: "dx", Clause: "C7", Assumes: []string{"exp", "erf", "erfcx", "div", "recip"},
	Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
		between, dy := backwardRanges[0].Between(c), op.InputOf(c, "dy")
		return func(r, col int) (lo, hi float64) {
			lo, hi = between(r, col)
			small := (1 + math.Abs(dy(r, col))) * 0x1p-149
			return lo - small, hi + small
		}
	},
}}
