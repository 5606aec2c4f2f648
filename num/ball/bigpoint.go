package ball

import (
	"math"
	"math/big"
	"math/bits"
)

// Functions of one exact big.Float x, to any precision p: the result z satisfies
// |z - f(x)| <= 2^-p * |f(x)|. They share nothing with elementary.go.
//
// Notation: d = 2^-w, w the working precision; every operation rounds by at most d
// relatively, and wherever only positive numbers are added and multiplied,
// relative errors add (second-order terms are covered by the guard bits: every
// count below is at least doubled by rounding up to a power of two).

// bigLimit bounds the arguments of the exponential functions, 2^20 in magnitude.
const bigLimit = 20

// bigExpm1Pos returns exp(x)-1 for 0 < x < 2^20.
//
// y = x*2^-k is below 2^-h, h = floor(sqrt(p)). exp(y)-1 = y*s,
// s = 1 + y/2*(1 + y/3*(1 + ... )), n factors; what is cut off is below y^n <= 2^-w.
// Then k times E := E*(E+2), which is exp(2y)-1.
//
// Error. A Horner step turns a relative error ε of s into at most 2^-h*(ε+2d) + d, so
// s stays below 2d; rounding x to w bits counts at most 2d (the derivative of log
// expm1 at y < 1, times y, is below 2), the product d, the cut d: E starts with 6d.
// One doubling multiplies the relative error by 1+E/(E+2) and adds 2d. While E < 1,
// the factors 1+E/2 multiply to at most exp(1/2+1/4+...) <= e < 4, because E more
// than doubles in every step; there are at most max(e,0)+1 steps with E >= 1 where
// x < 2^e (E >= 1 means that the argument is at least ln 2), each with a factor below
// 2. So the result is off by at most (6+2k)*2^(max(e,0)+3)*d.
func bigExpm1Pos(x *big.Float, p uint) *big.Float {
	e := x.MantExp(nil)
	h := int(math.Sqrt(float64(p)))
	k := max(0, e+h)
	w := p + uint(bits.Len(uint(6+2*k))+max(e, 0)+3+2)

	y := newMid(w).Set(x)
	y.SetMantExp(y, -k)
	n := int(w)/(k-e) + 1
	s := newMid(w).SetInt64(1)
	i := newMid(32)
	for j := n + 1; j > 1; j-- {
		s.Mul(s, y)
		s.Quo(s, i.SetInt64(int64(j)))
		s.Add(s, one)
	}
	s.Mul(s, y)
	t := newMid(w)
	for range k {
		s.Mul(s, t.Add(s, two))
	}
	return s
}

var two = new(big.Float).SetInt64(2)

// bigExpm1 returns exp(x)-1 for 0 < |x| < 2^20; for x < 0 it is -E/(E+1), E = exp(-x)-1,
// whose relative error is that of E times 1/(E+1), plus 2d.
func bigExpm1(x *big.Float, p uint) *big.Float {
	z := bigExpm1Pos(new(big.Float).Abs(x), p+3)
	if x.Sign() < 0 {
		z.Quo(z, newMid(p+3).Add(z, one))
		z.Neg(z)
	}
	return z
}

// bigExp returns exp(x) for 0 < |x| < 2^20: E+1, or 1/(E+1) for x < 0.
func bigExp(x *big.Float, p uint) *big.Float {
	z := bigExpm1Pos(new(big.Float).Abs(x), p+3)
	z.Add(z, one)
	if x.Sign() < 0 {
		z.Quo(one, z)
	}
	return z
}

// bigLog returns log x for x > 0, x ≠ 1, 2^-2^20 < x < 2^(2^20).
//
// With any y, log x = y + log(1+d), d = x*exp(-y) - 1. y is math.Log's value: nothing
// depends on it but the number of terms of log(1+d), which is taken from d itself.
//
// Error. If |x-1| >= 1/2, the product is off by 2^-w*2, d by 2^-w*4, against
// |log x| > 0.4. If |x-1| < 1/2, d is computed as (x-1)*(1+E) + E, E = exp(-y)-1,
// each term at most 4|log x|, each off by 4*2^-w relatively, so that d is off by less
// than 2^-w*64*|log x|. The series, |d| < 2^-8, is off by a few 2^-w|d| more, what is
// cut off is below 2^-w|d|, and the last sum (of terms of which one is much the
// smaller, or y = 0) rounds by 2^-w|log x|: below 2^-w*128 in all.
func bigLog(x *big.Float, p uint) *big.Float {
	w := p + 10
	m := new(big.Float)
	e := x.MantExp(m)
	f, _ := m.Float64()
	y := math.Log(2*f) + float64(float64(e-1)*math.Ln2)
	if v, _ := x.Float64(); 0.5 < v && v < 2 {
		y = math.Log(v)
	}

	d := newMid(w)
	z := newMid(w).SetFloat64(y)
	u := newMid(w).Sub(x, one)
	minusY := newMid(64).SetFloat64(-y)
	switch {
	case y == 0:
		d.Set(u)
	case u.MantExp(nil) > -1:
		d.Mul(x, bigExp(minusY, w))
		d.Sub(d, one)
	default:
		v := bigExpm1(minusY, w)
		d.Mul(u, newMid(w).Add(v, one))
		d.Add(d, v)
	}
	if d.Sign() == 0 {
		return z
	}
	de := d.MantExp(nil)
	if de > -8 {
		panic("ball: math.Log is off by more than 2^-8")
	}
	// log(1+d) = d*(1 - d*(1/2 - d*(1/3 - ...)))
	s := newMid(w)
	t := newMid(w)
	for j := int(w)/-de + 2; j > 0; j-- {
		s.Mul(s, d)
		s.Sub(t.Quo(one, t.SetInt64(int64(j))), s)
	}
	return z.Add(z, s.Mul(s, d))
}

// bigTanh returns tanh(x) = E/(E+2), E = exp(2|x|)-1, for 0 < |x| < 2^19: the relative
// error of E counts at most once, plus 2d.
func bigTanh(x *big.Float, p uint) *big.Float {
	a := new(big.Float).Abs(x)
	z := bigExpm1Pos(a.SetMantExp(a, 1), p+3)
	z.Quo(z, newMid(p+3).Add(z, two))
	if x.Sign() < 0 {
		z.Neg(z)
	}
	return z
}

// bigSigmoid returns 1/(1+exp(-x)) for 0 < |x| < 2^20: with E = exp(|x|)-1 it is
// (E+1)/(E+2) for x > 0 and 1/(E+2) for x < 0.
func bigSigmoid(x *big.Float, p uint) *big.Float {
	z := bigExpm1Pos(new(big.Float).Abs(x), p+3)
	t := newMid(p+3).Add(z, two)
	if x.Sign() > 0 {
		return z.Quo(z.Add(z, one), t)
	}
	return z.Quo(one, t)
}

// Pi returns π rounded to prec bits, off by at most one ulp.
//
// π = 16 atan(1/5) - 4 atan(1/239) (Machin) in integers scaled by 2^(prec+64). Every
// term of the two series is cut twice, by less than one unit each; there are fewer
// than (prec+64)/2 terms, so the sum is off by less than 40*(prec+64) units, below
// 2^-20 ulp for any prec under 2^30.
func Pi(prec uint) *big.Float {
	w := prec + 64
	z := new(big.Int).Lsh(atanInv(5, w), 4)
	z.Sub(z, new(big.Int).Lsh(atanInv(239, w), 2))
	x := newMid(prec).SetInt(z)
	return x.SetMantExp(x, -int(w))
}

// atanInv returns atan(1/n) * 2^w.
func atanInv(n int64, w uint) *big.Int {
	power := new(big.Int).Lsh(big.NewInt(1), w)
	power.Quo(power, big.NewInt(n))
	square, sum, term := big.NewInt(n*n), new(big.Int), new(big.Int)
	for i := int64(1); power.Sign() != 0; i += 2 {
		term.Quo(power, big.NewInt(i))
		if i&2 == 0 {
			sum.Add(sum, term)
		} else {
			sum.Sub(sum, term)
		}
		power.Quo(power, square)
	}
	return sum
}
