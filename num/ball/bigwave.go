package ball

import "math/big"

// Sine and cosine of a Big.

// bigWaveLimit bounds the exponent of arguments that are reduced, since π is needed to as
// many bits. Beyond, the result is [-1, 1].
const bigWaveLimit = 1 << 12

func bigEveryWave(p uint) Big { return Big{rad: upFloat64(1), prec: p} }

// bigQuarter encloses r with x = k*π/2 + r, |r| < 0.8, and returns k modulo 4. It takes π
// to as many bits as make the radius 2^-w of r, which is not 0 since π is irrational.
func bigQuarter(x *big.Float, w uint) (k int, r Big) {
	if x.Cmp(big.NewFloat(-0.75)) > 0 && x.Cmp(big.NewFloat(0.75)) < 0 {
		return 0, BigFromFloat(x, w)
	}
	e := uint(max(x.MantExp(nil), 1))
	for bits := w + 2*e + 32; ; bits += w {
		half := Big{prec: bits}.Pi().Scale2(-1)
		turns := newMid(e+32).Quo(x, half.m())
		turns.Add(turns, newMid(64).SetFloat64(0.5*float64(x.Sign())))
		n, _ := turns.Int(nil) // toward 0: the nearest, or almost
		exact := Big{mid: x, prec: max(bits, x.MinPrec()+e)}
		r = exact.Sub(half.Mul(Big{mid: newMid(e + 64).SetInt(n), prec: bits}))
		if r.r().Cmp(up().SetMantExp(new(big.Float).Abs(r.m()), -int(w))) <= 0 {
			k = int(new(big.Int).And(n, big.NewInt(3)).Int64()) // two's complement
			return k, r.rounded(w)                              // off by less than 2^-w more
		}
	}
}

// bigWave returns sin(x + turns*π/2) for x ≠ 0, relative error at most 2^-p: the sine, or with
// one quarter turn the cosine.
//
// With r = x - k*π/2 it is one of ±r*s and ±s, s = 1 - y/(i(i+1))*(1 - y/((i+2)(i+3))*...)
// for y = r² < 0.65, and i = 2 or 1. Terms alternate and fall, so that what is cut off is
// below the last one taken, 2^-w.
//
// Error, d = 2^-w. A step turns a relative error ε of the bracket, which is at least 0.67,
// into at most (0.33/0.67)*(ε+3d) + d, so s stays below 5d. r is off by 2d, which neither
// sin nor cos makes larger (r*cot(r) <= 1, r*tan(r) < 0.83), the cut counts 1.5d, the last
// product d: below 16d in all.
func bigWave(x *big.Float, turns int, p uint) *big.Float {
	w := p + 4
	k, ball := bigQuarter(x, w)
	r := ball.m()
	k = (k + turns) & 3
	i := int64(2 - k&1)

	y := newMid(w).Mul(r, r)
	term, last := newMid(radPrec).SetInt64(1), i
	n := newMid(64)
	for ; term.MantExp(nil) > -int(w); last += 2 {
		term.Mul(term, y)
		term.Quo(term, n.SetInt64(last*(last+1)))
	}
	s := newMid(w).SetInt64(1)
	for j := last - 2; j >= i; j -= 2 {
		s.Mul(s, y)
		s.Quo(s, n.SetInt64(j*(j+1)))
		s.Sub(one, s)
	}
	if k&1 == 0 {
		s.Mul(s, r)
	}
	if k >= 2 {
		s.Neg(s)
	}
	return s
}

// Sin has the radius |cos a|*r + r²/2: see Ball.Sin.
func (a Big) Sin() Big { return a.wave(0, Ball.Sin) }
func (a Big) Cos() Big { return a.wave(1, Ball.Cos) }

// wave encloses the sine of a plus the given quarter turns. It computes a wide ball in
// float64, since more precision would not make it narrower.
func (a Big) wave(turns int, wide func(Ball) Ball) Big {
	p := a.Prec()
	switch {
	case !a.Known():
		return a
	case !a.hasRadAtMost(0x1p-4):
		z := wide(between(a.Bounds()))
		if !z.Known() {
			return bigEveryWave(p)
		}
		return Big{mid: newMid(p).SetFloat64(z.Mid), rad: upFloat64(z.Rad), prec: p}
	case a.m().MantExp(nil) > bigWaveLimit:
		return bigEveryWave(p)
	}
	c := bigWaveAt(a.m(), turns, p)
	if a.r().Sign() == 0 {
		return c
	}
	slope := bigWaveAt(a.m(), turns+1, minPrec).magUp()
	return c.plus(mulUp(a.r(), addUp(slope, mulUp(a.r(), upFloat64(0.5)))))
}

func bigWaveAt(x *big.Float, turns int, p uint) Big {
	if x.Sign() == 0 {
		return NewBig(float64(turns&1), p) // turns is at most 2
	}
	return at(func(x *big.Float, p uint) *big.Float { return bigWave(x, turns, p) }, x, p)
}
