package ball

import (
	"math"
	"math/big"
)

// The error function erf(x) = 2/√π ∫₀ˣ exp(-t²) dt, in float64 and at any precision.

const (
	erfErr   = 0x1p-51
	erfLimit = 6 // 1 - erf(6) < 2^-55

	twoOverRootPi = 2 / 1.77245385090551602729816748334114518279754945612238712821380779
)

// pointErf returns erf(x), relative error at most erfErr.
//
// Below 3/32 it is the power series x*(2/√π)*(1 - x²/3 + x⁴/10 - ...) up to x^14, whose
// next term is below 2^-67: 2/√π is off by 0.9u, the sum by u/2 and 0.02u, two products
// by u each: 3.5u.
//
// Otherwise c = i/16 is the nearest to x, h = x-c is exact, |h| <= 1/32, and
//
//	erf(x) = erf(c) + erf'(c)*(h - c*h² + ... ),
//
// the Taylor polynomial of degree 10. Its terms T_n = erf⁽ⁿ⁾(c)*hⁿ/(n!*erf'(c)) follow from
// erf⁽ⁿ⁺¹⁾ = -2c*erf⁽ⁿ⁾ - 2(n-1)*erf⁽ⁿ⁻¹⁾. The remainder is below 2^-64, because the
// derivatives are Hermite functions, which Cramér's inequality bounds:
// |erf⁽ⁿ⁺¹⁾| <= 1.226*sqrt(2ⁿ*n!), 1.226 being 2/√π*1.0865. |T_2| <= c|h| * |h| < 0.19|h|
// and the later terms are off by a few u of themselves, the last sum rounds by 1.2u|h|:
// together below 2u|h|, with erf'(c) and the product below 4.5u*|h|*erf'(c). As erf'(c)*|h|
// is at most 0.036, the bracket is off by 0.2u, against erf(x) > 0.105: 1.9u. The last sum
// rounds by u: 3u in all.
func pointErf(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a < 3.0/32:
		s := float64(x * x)
		p := 0.0
		for i := len(erfTaylor) - 1; i >= 0; i-- {
			p = erfTaylor[i] + float64(s*p)
		}
		return float64(float64(x*(1-float64(s*p))) * twoOverRootPi)
	case a >= erfLimit:
		return math.Copysign(1, x)
	}
	hi, rest := nearErf(a)
	return math.Copysign(hi+rest, x)
}

// nearErf returns erf(a) for 3/32 <= a < 6 as the sum of the table's entry and a number below 0.036.
func nearErf(a float64) (hi, rest float64) {
	i := int(float64(a*16) + 0.5)
	c := float64(i) * (1.0 / 16)
	h := a - c
	var terms [11]float64
	terms[1] = h
	for n := 1; n < 10; n++ {
		terms[n+1] = float64(-h * (float64(2*c*terms[n]) + float64(float64(h*erfRatio[n])*terms[n-1])) * erfInverse[n])
	}
	sum := 0.0
	for n := 10; n > 0; n-- {
		sum += terms[n]
	}
	t := &erfTable[i-erfFirst]
	return t.hi, t.lo + float64(t.slope*sum)
}

var (
	// erfTaylor are the coefficients of 1 - erf(x)/(x*2/√π) in x², over x²: 1/(n!*(2n+1)),
	// signs alternating.
	erfTaylor = [7]float64{1.0 / 3, -1.0 / 10, 1.0 / 42, -1.0 / 216, 1.0 / 1320, -1.0 / 9360, 1.0 / 75600}

	erfRatio   = [10]float64{1: 0, 2.0 / 2, 4.0 / 3, 6.0 / 4, 8.0 / 5, 10.0 / 6, 12.0 / 7, 14.0 / 8, 16.0 / 9} // 2(n-1)/n
	erfInverse = [10]float64{1: 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5, 1.0 / 6, 1.0 / 7, 1.0 / 8, 1.0 / 9, 1.0 / 10}
)

// Erf has the slope 2/√π*exp(-a²), which over the ball is at most exp(2|a|r) <= 1+4|a|r
// times that, for 2|a|r <= 1. Its own error is below 2^-40. Beyond 6 the slope at 6 serves.
func (a Ball) Erf() Ball {
	m := math.Abs(a.Mid)
	if a.Rad*m <= 0.5 && a.Rad <= 1 && a != (Ball{}) {
		c := pointErf(a.Mid)
		e := min(m, erfLimit)
		slope := twoOverRootPi * pointExp(-float64(e*e)) * (1 + 0x1p-40) * (1 + 4*(m*a.Rad))
		return outward(c, float64(math.Abs(c)*erfErr)+float64(slope*a.Rad))
	}
	if !a.Known() {
		return unknown
	}
	return increasing(a, erfAt)
}

func erfAt(x float64) Ball {
	if x == 0 {
		return Ball{}
	}
	c := pointErf(x)
	return outward(c, math.Abs(c)*erfErr)
}

func (a Interval) Erf() Interval { return a.increasing(erfAt) }

// bigErf returns erf(x) for x ≠ 0, relative error at most 2^-p. It shares nothing with pointErf.
//
//	erf(x) = 2/√π * x * exp(-x²) * s,   s = 1 + t/3*(1 + t/5*(1 + t/7*...)),  t = 2x²
//
// has positive terms alone. They are taken until one is below 2^-w and its factor below
// 1/2, so that the rest is below it. There are fewer than 2^20.
//
// Error, d = 2^-w. Each of n steps adds at most 3d to the relative error of the bracket; t
// is off by 2d and counts n times at most; the cut, √π, the exponential (x² is exact) and
// the products are off by less than 16d together: (5n+16)*d < 2^-p.
//
// For x² > p, 1 - erf(x) < exp(-x²) < 2^-1.4p, and the result is ±1.
func bigErf(x *big.Float, p uint) *big.Float {
	square := newMid(2*x.MinPrec()).Mul(x, x)
	if square.Cmp(newMid(64).SetInt64(int64(p))) > 0 {
		return newMid(p).SetInt64(int64(x.Sign()))
	}
	w := p + 24
	t := newMid(w).SetMantExp(square, 1)
	n := int64(1)
	odd := newMid(64)
	for term := newMid(radPrec).SetInt64(1); term.MantExp(nil) > -int(w) || t.Cmp(odd.SetInt64(n)) > 0; {
		n += 2
		term.Mul(term, t)
		term.Quo(term, odd.SetInt64(n))
	}
	s := newMid(w).SetInt64(1)
	for ; n > 1; n -= 2 {
		s.Mul(s, t)
		s.Quo(s, odd.SetInt64(n))
		s.Add(s, one)
	}
	s.Mul(s, bigExp(square.Neg(square), w))
	s.Mul(s, x)
	s.Quo(s, Big{prec: w}.Pi().Sqrt().m())
	return s.SetMantExp(s, 1)
}

func bigErfAt(x *big.Float, p uint) Big {
	if x.Sign() == 0 {
		return Big{prec: p}
	}
	return at(bigErf, x, p)
}

// Erf has the slope of Ball.Erf.
func (a Big) Erf() Big {
	if !a.Known() {
		return a
	}
	twice := mulUp(mulUp(absUp(a.m()), a.r()), upFloat64(2))
	if twice.Cmp(one) > 0 || !a.hasRadAtMost(1) {
		return a.increasing(bigErfAt)
	}
	c := bigErfAt(a.m(), a.Prec())
	if a.r().Sign() == 0 {
		return c
	}
	slope := Big{mid: a.m(), prec: minPrec}.Sqr().Neg().Exp().magUp()
	slope = mulUp(slope, upFloat64(math.Nextafter(twoOverRootPi, 2)))
	return c.plus(mulUp(mulUp(slope, a.r()), addUp(one, mulUp(twice, upFloat64(2)))))
}
