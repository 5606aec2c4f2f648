package ball

import "math/big"

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

// slopeRadius is slope * r * (1 + k*r).
func slopeRadius(slope, r *big.Float, k float64) *big.Float {
	return mulUp(mulUp(slope, r), addUp(upFloat64(1), mulUp(r, upFloat64(k))))
}

// magUp is the largest magnitude in a.
func (a Big) magUp() *big.Float { return addUp(absUp(a.m()), a.r()) }

func (a Big) hasRadAtMost(x float64) bool { return a.r().Cmp(big.NewFloat(x)) <= 0 }

// at evaluates a point function to the precision of the result.
func at(f func(*big.Float, uint) *big.Float, x *big.Float, p uint) Big {
	z := settleRel(f(x, p+2), p+1)
	return settle(newMid(p).Set(z.mid), z.rad)
}

// isBeyond reports |x| >= 2^limit.
func isBeyond(x *big.Float, limit int) bool { return x.MantExp(nil) > limit }

// atMost is [0, 2^-2^20], what is left of exp beyond the limit.
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
