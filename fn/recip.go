package fn

import (
	"math"

	"tokitai/def"
)

// Recip returns 1/x for every x, without a division: ±0 gives ±Inf, ±Inf gives ±0, and
// overflow gives ±Inf.
func Recip(x def.Value) def.Value { return RecipFunction.Of(x) }

// RecipBounded returns 1/x for 2⁻¹²⁵ ≤ |x| ≤ 2¹²⁵, for arguments that are bounded already,
// such as 1 + e with 0 ≤ e ≤ 1. Outside, the result is unspecified but deterministic.
func RecipBounded(x def.Value) def.Value { return RecipBoundedFunction.Of(x) }

// Rsqrt returns 1/√x: +Inf and −Inf at the zeros, +0 at +Inf, NaN below zero.
func Rsqrt(x def.Value) def.Value { return RsqrtFunction.Of(x) }

// Both reciprocals start from the pattern of x, taken from a constant: the exponent
// is negated and the significand falls linearly, so that u = x·g₀ stays within 5.1 %
// of 1. Then
//
//	g₁ = g₀·((u − recipShift)² + recipRest)    |1 − x·g₁| < 3.3·10⁻⁵
//	gap = 1 − x·g₁                             one rounding
//	y = g₁ + g₁·gap                            |1 − x·y| < 1.1·10⁻⁹ before its rounding
//
// The cubic u·((u−recipShift)²+recipRest) is 1 plus the Chebyshev polynomial of
// degree 3 on the range of u: no cubic with leading coefficient 1 is closer to 1.

// RecipBoundedFunction is [RecipBounded].
var RecipBoundedFunction = &def.Function{
	Name: "recip_bounded", Math: def.MathRecip,
	ULPs:    0.52,
	Domain:  def.Domain{Low: 0x1p-125, High: 0x1p125, OfAbs: true},
	Outside: "elsewhere unspecified but deterministic",
	Expand: func(x def.Value) def.Value {
		y, _ := recipNewton(x)
		return y
	},
}

// RecipFunction is [Recip].
var RecipFunction = &def.Function{
	Name: "recip", Math: def.MathRecip,
	ULPs:    0.76,
	Domain:  def.NonZero,
	Outside: "+Inf at +0, -Inf at -0",
	Expand: func(x def.Value) def.Value {
		scale := def.Select(x.Abs().Less(def.One), def.Const(0x1p64), def.Const(0x1p-64)).As("scale")
		y, gap := recipNewton(x.Mul(scale).As("xs"))
		// For ±0, ±Inf and NaN the gap is NaN or +Inf, and Inf's pattern less
		// that of x is the answer: ±Inf, ±0 and NaN.
		special := def.IntConst(int32(math.Float32bits(float32(math.Inf(1))))).ISub(x.Bits()).Float()
		return def.Select(gap.Less(def.Half), y.Mul(scale), special)
	},
}

// recipNewton returns 1/x after the Newton step, and the gap before it.
func recipNewton(x def.Value) (y, gap def.Value) {
	g := recipStart(x)
	gap = def.FMA(x.Neg(), g, def.One).As("gap")
	return def.FMA(g, gap, g), gap
}

// recipStart returns 1/x with a relative error below 3.3·10⁻⁵.
func recipStart(x def.Value) def.Value {
	g := def.IntConst(recipGuess).ISub(x.Bits()).Float().As("g0")
	u := def.FMA(x, g, constant(-recipShift)).As("gu")
	return g.Mul(def.FMA(u, u, constant(recipRest))).As("g1")
}

// RsqrtFunction is [Rsqrt]. A division and a square root that round correctly are
// needed elsewhere anyway, and this is as close as two roundings get.
var RsqrtFunction = &def.Function{
	Name: "rsqrt", Math: def.MathRsqrt,
	ULPs:    1.5,
	Domain:  def.Positive,
	Outside: "+Inf at +0, -Inf at -0, NaN below",
	Expand: func(x def.Value) def.Value {
		return def.One.Div(x.Sqrt())
	},
}
