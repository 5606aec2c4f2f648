package fn

import (
	"math"

	"tokitai/def"
)

// Sin returns the sine of x for |x| ≤ 2¹⁷; zeros keep their sign. Beyond 2¹⁷ it returns
// NaN: the reduction with three constants is not accurate there, and a result with few
// correct digits would go unnoticed.
func Sin(x def.Value) def.Value { return SinFunction.Of(x) }

// Cos returns the cosine of x for |x| ≤ 2¹⁷, and NaN beyond, like [Sin].
func Cos(x def.Value) def.Value { return CosFunction.Of(x) }

// SinFunction is [Sin].
//
// Sine and cosine reduce x = n·½π + r + rl with |r| hardly above ¼π; rl is the error of r.
// Their sum is the distance of x from n·½π to 56 bits after the point. No argument comes
// closer than 2⁻²⁸ to a zero, so r + rl always has more bits than the result.
//
//	t = x·2/π + magic            magic = 1.5·2²³: n is in the low bits of t
//	n = t − magic                exact, |n| < 2¹⁷
//	z = x − n·halfPi1            exact: a multiple of 2⁻²⁴ below 1
//	b + bl = n·(halfPi2+halfPi3) b rounded, bl from FMAs
//	r = z − b                    and z − r − b is its error, exactly, because z is
//	rl = ((z − r) − b) − bl      a multiple of the last bit of b
//
// Then with s = r²
//
//	sin = r + (r·s·p(s) + rl)
//	cos = w + (s²·q(s) − r·rl + (1 − w − s/2)),  w = 1 − s/2 rounded
//
// and the last two bits of n say which of them, with which sign.
var SinFunction = &def.Function{
	Name: "sin", Math: def.MathSin,
	ULPs:    0.9,
	Domain:  waveDomain,
	Outside: "NaN",
	Expand: func(x def.Value) def.Value {
		return def.Select(x.Equal(def.Zero), x, wave(x, 0)) // -0
	},
}

// CosFunction is [Cos]: the sine a quarter turn later.
var CosFunction = &def.Function{
	Name: "cos", Math: def.MathCos,
	ULPs:    0.9,
	Domain:  waveDomain,
	Outside: "NaN",
	Expand:  func(x def.Value) def.Value { return wave(x, 1) },
}

const waveLimit = 0x1p17

var waveDomain = def.Domain{High: waveLimit, OfAbs: true}

// wave returns the sine of x plus the given number of quarter turns.
func wave(x def.Value, turns int32) def.Value {
	magic := def.Const(roundMagic)
	t := def.FMA(x, constant(twoOverPi), magic).As("t")
	n := t.Sub(magic).As("n")
	z := def.FMA(n, constant(-halfPi1), x).As("z")
	b := n.Mul(constant(halfPi2)).As("b")
	bl := def.FMA(n, constant(halfPi3), def.FMA(n, constant(halfPi2), b.Neg())).As("bl")
	r := z.Sub(b).As("r")
	rl := z.Sub(r).Sub(b).Sub(bl).As("rl")

	s := r.Mul(r).As("s")
	sin := r.Add(def.FMA(r.Mul(s), polynomial(s, sinCoefficients[:]), rl)).As("sinr")
	w := def.FMA(s, def.Const(-0.5), def.One).As("w")
	rest := def.FMA(r, rl.Neg(), def.FMA(s, def.Const(-0.5), def.One.Sub(w))).As("rest")
	cos := w.Add(def.FMA(s.Mul(s), polynomial(s, cosCoefficients[:]), rest)).As("cosr")

	k := t.Bits()
	if turns != 0 {
		k = k.IAdd(def.IntConst(turns))
	}
	isSine := k.IAnd(def.IntConst(1)).Equal(def.IntConst(0)).As("issin")
	sign := k.IAnd(def.IntConst(2)).Shl(30).As("sign")
	y := def.Select(isSine, sin, cos).Bits().IAdd(sign).Float().As("y")
	return def.Select(x.Abs().LessEqual(def.Const(waveLimit)), y, def.Const(math.NaN()))
}
