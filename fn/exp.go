package fn

import (
	"math"

	"tokitai/def"
)

// Exp returns eˣ for every x: gradual underflow into subnormals and to +0, overflow to
// +Inf, and exp(0) = 1 exactly.
func Exp(x def.Value) def.Value { return ExpFunction.Of(x) }

// ExpNonPositive returns eˣ for x ≤ 0, with fewer operations than [Exp]: for the
// difference to a maximum, or for −|x|. −Inf gives +0. It holds up to x = 44; beyond, the
// result is unspecified but deterministic.
func ExpNonPositive(x def.Value) def.Value { return ExpNonPositiveFunction.Of(x) }

// ExpBounded returns eˣ for −128 ≤ x ≤ 44 without a comparison, for arguments that are
// bounded already. Outside, the result is unspecified but deterministic.
func ExpBounded(x def.Value) def.Value { return ExpBoundedFunction.Of(x) }

// Exp2 returns 2ˣ for every x, exact where x is an integer: gradual underflow into
// subnormals and to +0, overflow to +Inf.
func Exp2(x def.Value) def.Value { return Exp2Function.Of(x) }

// Exp2Short3 returns 2ˣ for x ≤ 127 with a polynomial of degree 3: the relative error is at most
// 2^-13.26. It is for softmax in 16 bits, whose x − max(x) is at most 0. From x = −126.5 down
// the result is +0.
func Exp2Short3(x def.Value) def.Value { return Exp2Short3Function.Of(x) }

// Exp2Short4 is [Exp2Short3] of degree 4: the relative error is at most 2^-18.4.
func Exp2Short4(x def.Value) def.Value { return Exp2Short4Function.Of(x) }

// The first three reduce x = n·ln 2 + r with |r| ≤ ½ ln 2 and take a polynomial for eʳ:
//
//	t = x·log₂e + magic            magic = 1.5·2²³ + 127 + bias, so t is an integer
//	n = t − magic                  exact
//	r = (x − n·ln2Hi) − n·ln2Lo    the first FMA is exact, so r rounds once
//	p = 2^−bias·(1 + r·(1 + r·…))  exactly 2^−bias for x = 0
//	s = 2^(n+bias)                 n + bias + 127 are the low bits of t: a shift
//	y = p·s                        one rounding, also to a subnormal
//
// The bias keeps s a normal number where the result is none. A NaN passes through r
// and p; integers made from its pattern differ between machines and meet only p.

// ExpFunction is [Exp].
var ExpFunction = &def.Function{
	Name: "exp", Math: def.MathExp,
	ULPs:   0.9,
	Domain: def.EveryX,
	Expand: func(x def.Value) def.Value {
		// Below −104 the result is +0, above 89 it is +Inf. Both comparisons are
		// false for NaN, which passes.
		c := def.Select(x.Less(def.Const(-104)), def.Const(-104), x)
		c = def.Select(def.Const(89).Less(c), def.Const(89), c).As("xc")
		// No single bias fits −150 ≤ n ≤ 128.
		isNegative := x.Less(def.Zero).As("isneg")
		magic := def.Select(isNegative, expMagic(64), expMagic(-64)).As("magic")
		unbias := def.Select(isNegative, def.Const(0x1p-64), def.Const(0x1p64)).As("unbias")
		p, s := expReduced(c, magic, 0)
		return p.Mul(s).Mul(unbias)
	},
}

// ExpNonPositiveFunction is [ExpNonPositive].
var ExpNonPositiveFunction = &def.Function{
	Name: "exp_nonpositive", Math: def.MathExp,
	ULPs:    0.9,
	Domain:  def.AtMost(44),
	Outside: "above 44 unspecified but deterministic, NaN at +Inf",
	Expand: func(x def.Value) def.Value {
		c := def.Select(x.Less(def.Const(-104)), def.Const(-104), x).As("xc")
		p, s := expReduced(c, expMagic(64), 64)
		return p.Mul(s)
	},
}

// ExpBoundedFunction is [ExpBounded].
var ExpBoundedFunction = &def.Function{
	Name: "exp_bounded", Math: def.MathExp,
	ULPs:    0.9,
	Domain:  def.Domain{Low: -128, High: 44},
	Outside: "elsewhere unspecified but deterministic, NaN at the infinities",
	Expand: func(x def.Value) def.Value {
		p, s := expReduced(x, expMagic(64), 64)
		return p.Mul(s)
	},
}

// Exp2Function is [Exp2]: [ExpFunction] with n the integer nearest to x, so that r = x − n
// is exact.
var Exp2Function = &def.Function{
	Name: "exp2", Math: def.MathExp2,
	ULPs:   0.9,
	Domain: def.EveryX,
	Expand: func(x def.Value) def.Value {
		c := def.Select(x.Less(def.Const(-151)), def.Const(-151), x)
		c = def.Select(def.Const(128).Less(c), def.Const(128), c).As("xc")
		isNegative := x.Less(def.Zero).As("isneg")
		magic := def.Select(isNegative, expMagic(64), expMagic(-64)).As("magic")
		unbias := def.Select(isNegative, def.Const(0x1p-64), def.Const(0x1p64)).As("unbias")
		t := c.Add(magic).As("t")
		r := c.Sub(t.Sub(magic)).As("r")
		p := polynomial(r, append([]float32{1}, exp2Coefficients[:]...)).As("p")
		s := t.Bits().Shl(23).Float().As("s")
		return p.Mul(s).Mul(unbias)
	},
}

// Exp2Short3Function is [Exp2Short3].
var Exp2Short3Function = exp2Short("exp2_short3", 1350, exp2Short3Coefficients[:])

// Exp2Short4Function is [Exp2Short4].
var Exp2Short4Function = exp2Short("exp2_short4", 44, exp2Short4Coefficients[:])

// exp2Short returns 2ˣ with a short polynomial: [Exp2Function] without a bias. The result is
// p·2ⁿ, and 2^-127 is the pattern of +0, so that everything below 2^-126.5 is lost.
func exp2Short(name string, ulps float64, coefficients []float32) *def.Function {
	return &def.Function{
		Name: name, Math: def.MathExp2,
		ULPs: ulps, Absolute: 0x1p-126,
		Domain:  def.AtMost(127),
		Outside: "above 127 unspecified but deterministic, NaN at +Inf",
		Expand: func(x def.Value) def.Value {
			c := x.Max(def.Const(-127)).As("xc")
			magic := expMagic(0)
			t := c.Add(magic).As("t")
			r := c.Sub(t.Sub(magic)).As("r")
			p := polynomial(r, append([]float32{1}, coefficients...)).As("p")
			return p.Mul(t.Bits().Shl(23).Float().As("s"))
		},
		Near: exp2ShortNear(coefficients),
	}
}

// exp2ShortNear returns p·2ⁿ for n from -63 to 0, where x need not be limited and the result is not subnormal: n - 1 is added to
// the exponent of 2p. The sum's low bits hold n + 511, whose last nine bits are those of n - 1.
func exp2ShortNear(coefficients []float32) *def.Shortcut {
	const bias = 511
	twice := []float32{2}
	for _, c := range coefficients {
		twice = append(twice, 2*c) // exact
	}
	sum := func(x def.Value) def.Value { return x.Add(def.Const(roundMagic + bias)) }
	return &def.Shortcut{
		Least: roundMagic + bias - 63,
		Sum:   &def.Function{Name: "near_sum", Expand: sum},
		Of: &def.Function{Name: "near", Expand: func(x def.Value) def.Value {
			t := sum(x)
			r := x.Sub(t.Sub(def.Const(roundMagic + bias)))
			return t.Bits().Shl(23).IAdd(polynomial(r, twice).Bits()).Float()
		}},
	}
}

// roundMagic rounds to an integer when it is added; the low bits of the sum then hold
// that integer.
const roundMagic = 0x1.8p23

// expMagic returns roundMagic for a sum whose low bits are to be the exponent field of
// 2^(n+bias).
func expMagic(bias float64) def.Value { return def.Const(roundMagic + 127 + bias) }

// expReduced returns p = 2^−bias·eʳ and s = 2^(n+b), b being the bias in magic.
func expReduced(x, magic def.Value, bias int) (p, s def.Value) {
	t := def.FMA(x, constant(log2e), magic).As("t")
	n := t.Sub(magic).As("n")
	r := def.FMA(n, constant(-ln2Hi), x)
	r = def.FMA(n, constant(-ln2Lo), r).As("r")
	c := []float32{1}
	c = append(c, expCoefficients[:]...)
	for k := range c {
		c[k] = float32(math.Ldexp(float64(c[k]), -bias)) // exact
	}
	p = polynomial(r, c).As("p")
	return p, t.Bits().Shl(23).Float().As("s")
}
