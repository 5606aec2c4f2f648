package fn

import (
	"math"

	"tokitai/def"
)

// Sigmoid returns 1/(1+e⁻ˣ) for every x, accurate in both tails.
func Sigmoid(x def.Value) def.Value { return SigmoidFunction.Of(x) }

// Tanh returns the hyperbolic tangent for every x: odd, zeros keep their sign, ±1 at the
// infinities.
func Tanh(x def.Value) def.Value { return TanhFunction.Of(x) }

// SigmoidFunction is [Sigmoid]. With e = exp(−|x|) nothing overflows and nothing
// cancels: 1/(1+e) for x ≥ 0, e/(1+e) below.
var SigmoidFunction = &def.Function{
	Name: "sigmoid", Math: def.MathSigmoid,
	ULPs:   2.8,
	Domain: def.EveryX,
	Expand: func(x def.Value) def.Value {
		e := ExpNonPositive(x.Abs().Neg()).As("e")
		y := RecipBounded(def.One.Add(e)).As("y")
		return def.Select(def.Zero.LessEqual(x), y, e.Mul(y))
	},
}

// TanhFunction is [Tanh]: tanh a = h/(1+h) with a = |x| and h = (exp(2a) − 1)/2, which
// loses nothing near zero. h comes from the reduction of [Exp], 2a = n·ln 2 + r:
//
//	b = exp(r) − 1 = r + r²·q(r)
//	h = 2ⁿ⁻¹·b + (2ⁿ⁻¹ − ½)          one rounding
//	d + dl = 1 + h                    exactly
//	y = g·h, g near 1/d               g from the start of [Recip]
//	y + g·(h − y·d − y·dl)            one rounding that matters
//
// Errors of h matter less the larger it is, as both sides of the quotient have it, so
// the low part of ln 2 is left out.
var TanhFunction = &def.Function{
	Name: "tanh", Math: def.MathTanh,
	ULPs:   1.8,
	Domain: def.EveryX,
	Expand: func(x def.Value) def.Value {
		a := x.Abs()
		a = def.Select(def.Const(tanhOne).Less(a), def.Const(tanhOne), a).As("a")
		a2 := a.Add(a).As("a2")
		magic := expMagic(-1)
		t := def.FMA(a2, constant(log2e), magic).As("t")
		n := t.Sub(magic).As("n")
		r := def.FMA(n, constant(-ln2Hi), a2).As("r")
		b := def.FMA(r.Mul(r), polynomial(r, expm1Coefficients[:]), r).As("b")
		s := t.Bits().Shl(23).Float().As("s")
		h := def.FMA(s, b, s.Sub(def.Half)).As("h")
		d := def.One.Add(h).As("d")
		minusDl := d.Sub(def.One).Sub(h).As("mdl")
		g := recipStart(d)
		y := g.Mul(h).As("y")
		residual := def.FMA(y, minusDl, def.FMA(y.Neg(), d, h)).As("w")
		y = def.FMA(g, residual, y)
		sign := x.Bits().IAnd(def.IntConst(math.MinInt32))
		return y.Bits().IOr(sign).Float()
	},
}

const tanhOne = 9.25 // from here on tanh rounds to 1
