package ball

import (
	"math"
	"math/big"
)

// Functions of a Big: the function at the midpoint and the same radii as in
// function.go, in arithmetic that rounds up; a wide ball goes by its endpoints.

// bigAt encloses an increasing function at an exact point.
type bigAt func(x *big.Float, p uint) Big

func (a Big) increasing(at bigAt) Big {
	p := a.Prec()
	lo, hi := a.ends()
	l, h := at(lo, p), at(hi, p)
	if !l.Known() || !h.Known() {
		return unknownBig(p)
	}
	return l.Hull(h)
}

// slopeRadius returns slope * r * (1 + k*r).
func slopeRadius(slope, r *big.Float, k float64) *big.Float {
	return mulUp(mulUp(slope, r), addUp(upFloat64(1), mulUp(r, upFloat64(k))))
}

// magUp returns the largest magnitude in a.
func (a Big) magUp() *big.Float { return addUp(absUp(a.m()), a.r()) }

func (a Big) hasRadAtMost(x float64) bool { return a.r().Cmp(big.NewFloat(x)) <= 0 }

// at evaluates a point function to the precision of the result.
func at(f func(*big.Float, uint) *big.Float, x *big.Float, p uint) Big {
	z := settleRel(f(x, p+2), p+1)
	return settle(newMid(p).Set(z.mid), z.rad)
}

// isBeyond reports whether |x| >= 2^limit.
func isBeyond(x *big.Float, limit int) bool { return x.MantExp(nil) > limit }

// atMost returns [0, 2^-2^20], which contains exp(x) for x <= -2^20.
func atMost(p uint) Big {
	h := new(big.Float).SetMantExp(one, -1<<bigLimit-1)
	return Big{mid: newMid(p).Set(h), rad: up().Set(h), prec: p}
}

func bigExpAt(x *big.Float, p uint) Big {
	switch {
	case x.Sign() == 0:
		return NewBig(1, p)
	case !isBeyond(x, bigLimit):
		return at(bigExp, x, p)
	case x.Sign() < 0:
		return atMost(p)
	}
	return unknownBig(p)
}

func (a Big) Exp() Big {
	switch {
	case !a.Known():
		return a
	case a.hasRadAtMost(1) && !isBeyond(a.m(), bigLimit):
		c := bigExpAt(a.m(), a.Prec())
		return c.plus(slopeRadius(c.magUp(), a.r(), 1))
	}
	return a.increasing(bigExpAt)
}

func bigExpm1At(x *big.Float, p uint) Big {
	switch {
	case x.Sign() == 0:
		return Big{prec: p}
	case !isBeyond(x, bigLimit):
		return at(bigExpm1, x, p)
	case x.Sign() < 0:
		return Big{mid: newMid(p).SetInt64(-1), rad: up().SetMantExp(one, -1<<bigLimit), prec: p}
	}
	return unknownBig(p)
}

func (a Big) Expm1() Big {
	switch {
	case !a.Known():
		return a
	case a.hasRadAtMost(1) && !isBeyond(a.m(), bigLimit):
		c := bigExpm1At(a.m(), a.Prec())
		slope := c.Add(NewBig(1, minPrec)).magUp()
		return c.plus(slopeRadius(slope, a.r(), 1))
	}
	return a.increasing(bigExpm1At)
}

func bigLogAt(x *big.Float, p uint) Big {
	if x.Sign() <= 0 || x.IsInf() || x.MantExp(nil) >= 1<<bigLimit || x.MantExp(nil) <= -1<<bigLimit {
		return unknownBig(p)
	}
	if x.Cmp(one) == 0 {
		return Big{prec: p}
	}
	return at(bigLog, x, p)
}

func (a Big) Log() Big {
	if !a.Known() {
		return a
	}
	d := down().Sub(a.m(), a.r())
	if d.Sign() <= 0 {
		return unknownBig(a.Prec())
	}
	q := quoUp(a.r(), d)
	if q.Cmp(big.NewFloat(0.25)) <= 0 {
		c := bigLogAt(a.m(), a.Prec())
		if !c.Known() {
			return c
		}
		return c.plus(q)
	}
	return a.increasing(bigLogAt)
}

// rounded returns a at precision p, with the rounding error added to the radius.
func (a Big) rounded(p uint) Big {
	if !a.Known() {
		return unknownBig(p)
	}
	return settle(newMid(p).Set(a.m()), a.rad)
}

// bigLn2 encloses log 2.
func bigLn2(p uint) Big { return bigLogAt(two, p) }

// bigExp2At returns 2^n*exp(f*ln2), n the integer nearest to x and f = x-n exactly.
func bigExp2At(x *big.Float, p uint) Big {
	switch {
	case !isBeyond(x, bigLimit):
	case x.Sign() < 0:
		return atMost(p)
	default:
		return unknownBig(p)
	}
	v, _ := x.Float64()
	n := int(math.Round(v))
	f := x
	if n != 0 { // the last bit of x is above 2^-MinPrec, n below 2^21
		f = newMid(x.MinPrec()+64).Sub(x, newMid(64).SetInt64(int64(n)))
	}
	if f.Sign() == 0 {
		return Big{mid: newMid(p).SetMantExp(one, n), prec: p}
	}
	w := p + 8
	return Big{mid: f, prec: w}.Mul(bigLn2(w)).Exp().Scale2(n).rounded(p)
}

// Exp2 has the slope ln2*2^a.
func (a Big) Exp2() Big {
	switch {
	case !a.Known():
		return a
	case a.hasRadAtMost(1) && !isBeyond(a.m(), bigLimit):
		c := bigExp2At(a.m(), a.Prec())
		slope := mulUp(c.magUp(), upFloat64(math.Nextafter(math.Ln2, 1)))
		return c.plus(slopeRadius(slope, a.r(), 1))
	}
	return a.increasing(bigExp2At)
}

// bigLog2At returns log(x)/log(2), exact if x is a power of two.
func bigLog2At(x *big.Float, p uint) Big {
	if x.Sign() > 0 && !x.IsInf() && x.MinPrec() == 1 {
		return Big{mid: newMid(p).SetInt64(int64(x.MantExp(nil)) - 1), prec: p}
	}
	w := p + 8
	return bigLogAt(x, w).Div(bigLn2(w)).rounded(p)
}

func (a Big) Log2() Big {
	if !a.Known() {
		return a
	}
	d := down().Sub(a.m(), a.r())
	if d.Sign() <= 0 {
		return unknownBig(a.Prec())
	}
	q := quoUp(a.r(), d)
	if q.Cmp(big.NewFloat(0.25)) <= 0 {
		c := bigLog2At(a.m(), a.Prec())
		if !c.Known() {
			return c
		}
		return c.plus(mulUp(q, upFloat64(math.Nextafter(math.Log2E, 2))))
	}
	return a.increasing(bigLog2At)
}

// bigLog1pAt returns log(1+x): 1+x is exact for |x| < 1, and rounds at 16 more bits than
// asked for beyond, which the logarithm, above 1/2 there, does not show. Where x is so
// small that 1+x would be long, it is x within x².
func bigLog1pAt(x *big.Float, p uint) Big {
	e := x.MantExp(nil)
	switch {
	case x.Sign() == 0:
		return Big{prec: p}
	case -e > int(p)+8:
		return settle(newMid(p).Set(x), mulUp(absUp(x), absUp(x)))
	case e > 0:
		return BigFromFloat(x, p+16).Add(NewBig(1, p+16)).Log().rounded(p)
	}
	return bigLogAt(newMid(x.MinPrec()+p+16).Add(x, one), p)
}

func (a Big) Log1p() Big {
	if !a.Known() {
		return a
	}
	d := down().Sub(down().Add(a.m(), one), a.r())
	if d.Sign() <= 0 {
		return unknownBig(a.Prec())
	}
	q := quoUp(a.r(), d)
	if q.Cmp(big.NewFloat(0.25)) <= 0 {
		c := bigLog1pAt(a.m(), a.Prec())
		if !c.Known() {
			return c
		}
		return c.plus(q)
	}
	return a.increasing(bigLog1pAt)
}

func bigTanhAt(x *big.Float, p uint) Big {
	switch {
	case x.Sign() == 0:
		return Big{prec: p}
	case !isBeyond(x, bigLimit-1):
		return at(bigTanh, x, p)
	}
	return Big{mid: newMid(p).SetInt64(int64(x.Sign())), rad: up().SetMantExp(one, -1<<bigLimit), prec: p}
}

func (a Big) Tanh() Big {
	switch {
	case !a.Known():
		return a
	case a.hasRadAtMost(0.25):
		c := bigTanhAt(a.m(), a.Prec())
		slope := NewBig(1, minPrec).Sub(c.Sqr()).magUp()
		return c.plus(slopeRadius(slope, a.r(), 4))
	}
	return a.increasing(bigTanhAt)
}

func bigSigmoidAt(x *big.Float, p uint) Big {
	switch {
	case x.Sign() == 0:
		return NewBig(0.5, p)
	case !isBeyond(x, bigLimit):
		return at(bigSigmoid, x, p)
	case x.Sign() < 0:
		return atMost(p)
	}
	return Big{mid: newMid(p).SetInt64(1), rad: up().SetMantExp(one, -1<<bigLimit), prec: p}
}

// Sigmoid encloses 1/(1+exp(-x)).
func (a Big) Sigmoid() Big {
	switch {
	case !a.Known():
		return a
	case a.hasRadAtMost(1):
		c := bigSigmoidAt(a.m(), a.Prec())
		slope := c.Mul(NewBig(1, minPrec).Sub(c)).magUp() // σ' = σ(1-σ)
		return c.plus(slopeRadius(slope, a.r(), 2))
	}
	return a.increasing(bigSigmoidAt)
}
