package fn

import (
	"math"

	"tokitai/def"
)

// Log is the natural logarithm: −Inf at both zeros, NaN below, +Inf at +Inf, and
// log(1) = +0 exactly.
func Log(x def.Value) def.Value { return LogFunction.Of(x) }

// LogFunction is [Log].
//
// x = m·2^k with √½ ≤ m < √2, so that log x = k·ln 2 + log(1+f) with f = m − 1,
// which is exact, and log(1+f) = f + f²·q(f). k·ln 2 + f is kept as a sum of two
// numbers, the larger of which is rounded only in the last addition:
//
//	a = k·ln2Short          exact: ln2Short has 16 bits, k has 8
//	hi + lo = a + f         exact: |a| ≥ |f|, or a = 0
//	y = hi + (lo + k·ln2Rest + f²·q(f))
var LogFunction = &def.Function{
	Name: "log", Math: def.MathLog,
	ULPs:    0.9,
	Domain:  def.Positive,
	Outside: "-Inf at zero, NaN below",
	Expand: func(x def.Value) def.Value {
		isSubnormal := x.Less(def.Const(0x1p-126)).As("small")
		xn := def.Select(isSubnormal, x.Mul(def.Const(0x1p23)), x).As("xn")
		shift := def.Select(isSubnormal, def.IntConst(-23), def.IntConst(0)).As("shift")

		pattern := xn.Bits()
		sqrtHalf := def.IntConst(int32(math.Float32bits(math.Sqrt2 / 2)))
		k := pattern.ISub(sqrtHalf).Shr(23).As("k")
		f := pattern.ISub(k.Shl(23)).Float().Sub(def.One).As("f")
		kf := k.IAdd(shift).IToF().As("kf")

		a := kf.Mul(constant(ln2Short)).As("a")
		hi := a.Add(f).As("hi")
		lo := a.Sub(hi).Add(f).As("lo")
		q := polynomial(f, logCoefficients[:]).As("q")
		rest := def.FMA(kf, constant(ln2Rest), lo)
		y := hi.Add(def.FMA(f.Mul(f), q, rest)).As("y")

		atMostZero := def.Select(x.Equal(def.Zero), def.Const(math.Inf(-1)), def.Const(math.NaN()))
		y = def.Select(def.Zero.Less(x), y, atMostZero)
		return def.Select(x.Less(def.Const(math.Inf(1))), y, x) // +Inf and NaN pass
	},
}
