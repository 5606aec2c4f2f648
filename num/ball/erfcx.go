package ball

import (
	"math"
	"math/big"
)

// The scaled complementary error function erfcx(x) = exp(x²)*(1 - erf(x)), in float64 and at any
// precision. It falls from 1 at 0 like 1/(x√π). Below 0, where it rises like 2*exp(x²), it is
// needed only for balls around 0: it is unknown below -1.

const (
	erfcxErr   = 0x1p-50
	erfcxTerms = 100

	rootOfInversePi = 1 / 1.77245385090551602729816748334114518279754945612238712821380779
)

// pointErfcx returns erfcx(x) for x >= -1, relative error at most erfcxErr = 8u.
//
// Below 1.5 it is exp(x²)*(1 - erf(x)). The difference is taken from the parts of erf: what is added
// to the table's entry is off by 4.5u*erf'(c)/32 (pointErf), at most 0.5u of 1 - erf(x) as erf'/(1 - erf) is
// below 3.6, and two sums add 1.5u; below 3/32 erf is off by 0.4u. The exponential is off by 2u. The
// rest of x² corrects it, a sum and a product add 2u.
//
// Beyond, it is the continued fraction 1/√π * 1/(x + (1/2)/(x + (2/2)/(x + (3/2)/(x + ...)))). Its
// convergents lie on both sides of the value by turns, so that the value is closer to the 100th than the
// 101st is: 2^-55 of it at 1.5, less for larger x. A step is off by 2u and by what the step
// before is off times t/(x+t), at most 0.83 and 0.2 in the last: 4.4u in all, and u/2 of √π.
func pointErfcx(x float64) float64 {
	if x < 1.5 {
		square := float64(x * x)
		e := pointExp(square)
		e += float64(e * math.FMA(x, x, -square))
		if x < 3.0/32 { // below zero this is a sum
			return float64(e * (1 - pointErf(x)))
		}
		hi, rest := nearErf(x)
		return float64(e * ((1 - hi) - rest))
	}
	t := 0.0
	for k := erfcxTerms; k > 0; k-- {
		t = float64(float64(k)*0.5) / (x + t)
	}
	return float64(rootOfInversePi / (x + t))
}

// Erfcx falls with the slope s(x) = 2/√π - 2x*erfcx(x), steepest at the lower end of the ball. s itself falls by
// at most 2*erfcx(x), so that it is at most s(mid) + 2r*(erfcx(mid) + 2/√π*r) there. Where s(mid) cancels, it is at most
// 4/√π / (x + max(x, √2))², since erfcx(x) exceeds 2/√π / (x + √(x²+2)).
func (a Ball) Erfcx() Ball {
	lo, hi := a.Bounds()
	switch {
	case !a.Known() || lo < -1:
		return unknown
	case a == Ball{}:
		return Ball{Mid: 1}
	case lo < 0:
		least, _ := erfcxAt(hi).Bounds()
		_, most := erfcxAt(lo).Bounds()
		return between(least, most)
	}
	c := pointErfcx(a.Mid)
	near := twoOverRootPi - float64(2*a.Mid*c) + float64(2*a.Rad*(c+float64(twoOverRootPi*a.Rad))) + 0x1p-48
	d := lo + max(lo, 1.4142135)
	fall := min(float64(near*a.Rad), float64(2*twoOverRootPi/d*(a.Rad/d)))
	return outward(c, float64(c*erfcxErr)+float64(fall*(1+0x1p-48)))
}

func erfcxAt(x float64) Ball {
	c := pointErfcx(x)
	return outward(c, c*erfcxErr)
}

func (a Interval) Erfcx() Interval {
	if !a.Known() || a.Lo < -1 {
		return unknownInterval
	}
	return a.Neg().increasing(func(x float64) Ball { return erfcxAt(-x) })
}

// bigErfcx returns erfcx(x) for x ≠ 0 and x >= -1, relative error at most 2^-p. It shares nothing with pointErfcx.
//
// For x² <= p+64 it is exp(x²)*(1 - erf(x)), with erf to as many more bits as the difference loses:
// 1 - erf(x) > exp(-x²)/(4(1+x)), so that 2x² + 2 + log2(4(1+x)) are enough. Otherwise it is
//
//	1/(x√π) * (1 - 1/(2x²) + 1*3/(2x²)² - 1*3*5/(2x²)³ + ...)
//
// which is off by less than the first term that is left out. The terms fall to exp(-x²), which is
// below 2^-w, w = p+24. There are fewer than w of them, each off by 3*2^-w*(its number) and below 1.
func bigErfcx(x *big.Float, p uint) *big.Float {
	square := newMid(2*x.MinPrec()).Mul(x, x)
	w := p + 24
	if square.Cmp(newMid(64).SetInt64(int64(p)+64)) <= 0 {
		n, _ := square.Uint64()
		rest := newMid(w+2*uint(n)+uint(n)+16).Sub(one, bigErf(x, w+2*uint(n)+uint(n)+16))
		return newMid(w).Mul(bigExp(square, w), rest)
	}
	twice := newMid(w).SetMantExp(square, 1)
	sum, term := newMid(w).SetInt64(1), newMid(w).SetInt64(1)
	for n := int64(1); term.MantExp(nil) > -int(w); n += 2 {
		term.Mul(term, newMid(64).SetInt64(-n))
		term.Quo(term, twice)
		sum.Add(sum, term)
	}
	sum.Quo(sum, x)
	return sum.Quo(sum, Big{prec: w}.Pi().Sqrt().m())
}

// Erfcx goes by the ends.
func (a Big) Erfcx() Big {
	p := a.Prec()
	if !a.Known() {
		return a
	}
	lo, _ := a.ends()
	if lo.Cmp(newMid(64).SetInt64(-1)) < 0 {
		return unknownBig(p)
	}
	return a.increasing(func(x *big.Float, p uint) Big {
		if x.Sign() == 0 {
			return NewBig(1, p)
		}
		return at(bigErfcx, x, p)
	})
}
