package fn

import (
	"math"

	"tokitai/def"
)

// Log returns the natural logarithm: −Inf at both zeros, NaN below, +Inf at +Inf, and
// log(1) = +0 exactly.
func Log(x def.Value) def.Value { return LogFunction.Of(x) }

// Log2 returns the binary logarithm, exact at powers of two: −Inf at both zeros, NaN below,
// +Inf at +Inf, and log2(1) = +0.
func Log2(x def.Value) def.Value { return Log2Function.Of(x) }

// Log1p returns log(1+x), accurate near zero: zeros keep their sign, −Inf at −1, NaN below,
// +Inf at +Inf.
func Log1p(x def.Value) def.Value { return Log1pFunction.Of(x) }

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
		f, kf := logReduced(x)
		return logSpecial(x, logOf(f, kf, logCoefficients[:]))
	},
}

// Log2Function is [Log2]: as [LogFunction], log₂ x = k + log₂(1+f), and
// log₂(1+f) = f·log₂e + f²·q(f), the product in two numbers:
//
//	g + rest = f·log₂e      g rounded, rest from an FMA
//	hi + lo = k + g         exact: |k| ≥ 1 > |g|, or k = 0
//	y = hi + (lo + rest + f²·q(f))
var Log2Function = &def.Function{
	Name: "log2", Math: def.MathLog2,
	ULPs:    1,
	Domain:  def.Positive,
	Outside: "-Inf at zero, NaN below",
	Expand: func(x def.Value) def.Value {
		f, kf := logReduced(x)
		g := f.Mul(constant(log2e)).As("g")
		rest := def.FMA(f, constant(log2eLo), def.FMA(f, constant(log2e), g.Neg())).As("rest")
		hi := kf.Add(g).As("hi")
		lo := kf.Sub(hi).Add(g).As("lo")
		q := polynomial(f, log2Coefficients[:]).As("q")
		return logSpecial(x, hi.Add(def.FMA(f.Mul(f), q, lo.Add(rest))).As("y"))
	},
}

// Log1pFunction is [Log1p]: [LogFunction] for 1 + x = m·2^k, but with ¾ ≤ m < 1½. k comes
// from the rounded sum, and f does not:
//
//	f = 2^−k·x + (2^−k − 1)
//
// is exact for x < 2²⁴: it is x for k = 0, and otherwise at most ½ and a multiple of the
// last bit of 2^−k·x, which is 2⁻²⁵ or more because x ≥ ½ or x ≤ −¼. Only at x = ½ − 2⁻²⁵ it
// rounds: 1 + x rounds up to 1½ there, and the last bit is 2⁻²⁶. Above 2⁶⁴, where 2^−k
// is soon no normal number, x·2⁻³² stands for x: there 1 + x and x are the same to all 24
// bits.
var Log1pFunction = &def.Function{
	Name: "log1p", Math: def.MathLog1p,
	ULPs:    1,
	Domain:  def.Above(-1),
	Outside: "-Inf at -1, NaN below",
	Expand: func(x def.Value) def.Value {
		isLarge := def.Const(0x1p64).LessEqual(x).As("large")
		xn := def.Select(isLarge, x.Mul(def.Const(0x1p-32)), x).As("xn")
		shift := def.Select(isLarge, def.IntConst(32), def.IntConst(0)).As("shift")
		k := def.One.Add(xn).Bits().ISub(patternOf(0.75)).Shr(23).As("k")
		s := def.IntConst(127).ISub(k).Shl(23).Float().As("s")
		f := def.FMA(s, xn, s.Sub(def.One)).As("f")
		y := logOf(f, k.IAdd(shift).IToF().As("kf"), log1pCoefficients[:])
		y = def.Select(x.Equal(def.Zero), x, y) // -0
		atMostMinusOne := def.Select(x.Equal(def.Const(-1)), def.Const(math.Inf(-1)), def.Const(math.NaN()))
		y = def.Select(def.Const(-1).Less(x), y, atMostMinusOne)
		return def.Select(x.Less(def.Const(math.Inf(1))), y, x) // +Inf and NaN pass
	},
}

func patternOf(x float32) def.Value { return def.IntConst(int32(math.Float32bits(x))) }

// logReduced returns f and k, both as floats, for x > 0.
func logReduced(x def.Value) (f, kf def.Value) {
	isSubnormal := x.Less(def.Const(0x1p-126)).As("small")
	xn := def.Select(isSubnormal, x.Mul(def.Const(0x1p23)), x).As("xn")
	shift := def.Select(isSubnormal, def.IntConst(-23), def.IntConst(0)).As("shift")
	pattern := xn.Bits()
	k := pattern.ISub(patternOf(math.Sqrt2 / 2)).Shr(23).As("k")
	f = pattern.ISub(k.Shl(23)).Float().Sub(def.One).As("f")
	return f, k.IAdd(shift).IToF().As("kf")
}

// logOf returns k·ln 2 + log(1+f), with f + f²·q(f) for the logarithm.
func logOf(f, kf def.Value, coefficients []float32) def.Value {
	a := kf.Mul(constant(ln2Short)).As("a")
	hi := a.Add(f).As("hi")
	lo := a.Sub(hi).Add(f).As("lo")
	q := polynomial(f, coefficients).As("q")
	rest := def.FMA(kf, constant(ln2Rest), lo)
	return hi.Add(def.FMA(f.Mul(f), q, rest)).As("y")
}

// logSpecial returns y if x is positive and finite, or else the special value of log x.
func logSpecial(x, y def.Value) def.Value {
	atMostZero := def.Select(x.Equal(def.Zero), def.Const(math.Inf(-1)), def.Const(math.NaN()))
	y = def.Select(def.Zero.Less(x), y, atMostZero)
	return def.Select(x.Less(def.Const(math.Inf(1))), y, x) // +Inf and NaN pass
}
