package ball

import (
	"fmt"
	"math"
	"math/big"
)

// Big is a ball whose midpoint has any precision. The zero value is the exact 0 at
// the least precision. An operation works at the larger precision of its operands;
// a result that fits the precision is exact and adds nothing to the radius.
type Big struct {
	mid  *big.Float // nil is 0
	rad  *big.Float // nil is 0, +Inf is "no information"
	prec uint
}

var _ Number[Big] = Big{}

const (
	minPrec = 64
	radPrec = 32
)

// NewBig returns the ball of exactly x for a computation at prec bits, or more if x needs
// more; it is unknown if x is NaN or infinite.
func NewBig(x float64, prec uint) Big {
	prec = max(prec, minPrec)
	if !isFinite(x) {
		return unknownBig(prec)
	}
	return Big{mid: newMid(prec).SetFloat64(x), prec: prec}
}

// BigFromFloat encloses x for a computation at prec bits; exact if x fits.
func BigFromFloat(x *big.Float, prec uint) Big {
	prec = max(prec, minPrec)
	if x.IsInf() {
		return unknownBig(prec)
	}
	return settle(newMid(prec).Set(x), nil)
}

func (a Big) FromFloat64(x float64) Big { return NewBig(x, a.prec) }

func (a Big) FromRat(x *big.Rat) Big { return settle(newMid(max(a.prec, minPrec)).SetRat(x), nil) }

func (a Big) Pi() Big {
	z := Pi(max(a.prec, minPrec))
	return settleRel(z, z.Prec()-1)
}

// Mid returns a copy of the midpoint, Rad of the radius.
func (a Big) Mid() *big.Float { return new(big.Float).Set(a.m()) }
func (a Big) Rad() *big.Float { return new(big.Float).Set(a.r()) }

// Prec returns the precision in bits at which operations on a work.
func (a Big) Prec() uint { return max(a.prec, minPrec) }

func (a Big) String() string {
	if !a.Known() {
		return "unknown"
	}
	return decimal(a.m(), int(float64(a.Prec())*0.302)) + " ± " + decimal(a.r(), 3)
}

// decimal prints x to n digits, or in hexadecimal where decimal would take long.
func decimal(x *big.Float, n int) string {
	if e := x.MantExp(nil); e < -1<<13 || e > 1<<13 {
		return fmt.Sprintf("%.4p", x)
	}
	return x.Text('g', n)
}

// Ball encloses a by a float64 ball.
func (a Big) Ball() Ball {
	if !a.Known() {
		return unknown
	}
	c, _ := a.m().Float64()
	if !isFinite(c) {
		return unknown
	}
	d := distUp(a.m(), new(big.Float).SetFloat64(c))
	r, acc := up().Add(d, a.r()).Float64()
	if acc == big.Below {
		r = math.Nextafter(r, math.Inf(1))
	}
	return Ball{c, r}
}

var zero = new(big.Float)

func (a Big) m() *big.Float {
	if a.mid == nil {
		return zero
	}
	return a.mid
}

func (a Big) r() *big.Float {
	if a.rad == nil {
		return zero
	}
	return a.rad
}

func (a Big) Known() bool { return a.rad == nil || !a.rad.IsInf() }

func (a Big) isZero() bool { return a.m().Sign() == 0 && a.r().Sign() == 0 }

func unknownBig(prec uint) Big {
	return Big{rad: new(big.Float).SetInf(false), prec: prec}
}

// prepare returns the precision of an operation and whether its result is known.
func prepare(a, b Big) (prec uint, isKnown bool) {
	return max(a.prec, b.prec, minPrec), a.Known() && b.Known()
}

func newMid(prec uint) *big.Float { return new(big.Float).SetPrec(prec) }

// Radii have 32 bits and round up (up, addUp, mulUp, quoUp); lower bounds, needed
// only under a division, round down.
func up() *big.Float { return new(big.Float).SetPrec(radPrec).SetMode(big.ToPositiveInf) }
func down() *big.Float {
	return new(big.Float).SetPrec(radPrec).SetMode(big.ToNegativeInf)
}

// absUp takes the magnitude first: Abs itself would round -x the other way.
func absUp(x *big.Float) *big.Float { return up().Set(new(big.Float).Abs(x)) }

// distUp returns |x-y|, rounded up.
func distUp(x, y *big.Float) *big.Float {
	if x.Cmp(y) < 0 {
		x, y = y, x
	}
	return up().Sub(x, y)
}

func addUp(x, y *big.Float) *big.Float { return up().Add(x, y) }
func mulUp(x, y *big.Float) *big.Float { return up().Mul(x, y) }
func quoUp(x, y *big.Float) *big.Float { return up().Quo(x, y) }
func upFloat64(x float64) *big.Float   { return up().SetFloat64(x) }

var one = new(big.Float).SetInt64(1)

// settle returns a ball of a midpoint just rounded to nearest, and the propagated radius
// (nil is 0).
func settle(z, r *big.Float) Big {
	if z.IsInf() {
		return unknownBig(z.Prec())
	}
	if z.Acc() != big.Exact {
		if z.Sign() == 0 {
			return unknownBig(z.Prec()) // below 2^-2^31
		}
		half := up().SetMantExp(one, z.MantExp(nil)-int(z.Prec())-1)
		if r == nil {
			r = half
		} else {
			r = addUp(r, half)
		}
	}
	if r != nil && r.Sign() == 0 {
		r = nil
	}
	return Big{mid: z, rad: r, prec: z.Prec()}
}

// settleRel returns a ball of a midpoint with relative error at most 2^-bits.
func settleRel(z *big.Float, bits uint) Big {
	return Big{mid: z, rad: up().SetMantExp(absUp(z), -int(bits)), prec: z.Prec()}
}

// plus adds r to the radius.
func (a Big) plus(r *big.Float) Big {
	if r.Sign() != 0 {
		a.rad = addUp(a.r(), r)
	}
	return a
}

func (a Big) Add(b Big) Big {
	p, ok := prepare(a, b)
	if !ok {
		return unknownBig(p)
	}
	return settle(newMid(p).Add(a.m(), b.m()), addUp(a.r(), b.r()))
}

func (a Big) Sub(b Big) Big { return a.Add(b.Neg()) }

func (a Big) Mul(b Big) Big {
	p, ok := prepare(a, b)
	if !ok {
		return unknownBig(p)
	}
	r := mulUp(absUp(a.m()), b.r())
	if a.r().Sign() != 0 {
		r.Add(r, mulUp(addUp(absUp(b.m()), b.r()), a.r()))
	}
	return settle(newMid(p).Mul(a.m(), b.m()), r)
}

// Sqr returns m²+r² ± 2|m|r, or [0, (|m|+r)²]: see Ball.Sqr.
func (a Big) Sqr() Big {
	p, ok := prepare(a, a)
	if !ok {
		return unknownBig(p)
	}
	if a.r().Sign() == 0 {
		return settle(newMid(p).Mul(a.m(), a.m()), nil)
	}
	m := absUp(a.m())
	if newMid(p).Abs(a.m()).Cmp(a.r()) >= 0 {
		square := settle(newMid(p).Mul(a.m(), a.m()), nil)
		return square.Add(settle(newMid(p).Mul(a.r(), a.r()), nil)).plus(mulUp(mulUp(m, a.r()), upFloat64(2)))
	}
	h := addUp(m, a.r())
	h = mulUp(mulUp(h, h), upFloat64(0.5))
	return Big{mid: newMid(p).Set(h), rad: h, prec: p}
}

func (a Big) Div(b Big) Big {
	p, ok := prepare(a, b)
	d := down()
	if ok {
		d.Sub(new(big.Float).Abs(b.m()), b.r())
	}
	if d.Sign() <= 0 {
		return unknownBig(p)
	}
	c := newMid(p).Quo(a.m(), b.m())
	// |a/b| <= |c|(1+2^-63)
	abs := mulUp(absUp(c), upFloat64(1+0x1p-30))
	return settle(c, quoUp(addUp(a.r(), mulUp(abs, b.r())), d))
}

func (a Big) Recip() Big { return Big{mid: one, prec: a.prec}.Div(a) }

// Sqrt takes the error of math/big's root from the residue: it is not promised to
// be correctly rounded. |c - sqrt(a)| = |c²-a|/(c+sqrt(a)) <= |c²-a|/c.
func (a Big) Sqrt() Big {
	p, ok := prepare(a, a)
	if !ok || newMid(p).Neg(a.m()).Cmp(a.r()) > 0 {
		return unknownBig(p)
	}
	if a.isZero() {
		return Big{prec: p}
	}
	if a.m().Cmp(a.r()) < 0 {
		h := up().Sqrt(addUp(a.m(), a.r()))
		h = mulUp(h, upFloat64(0.5+0x1p-20)) // far above the error of the root
		return Big{mid: newMid(p).Set(h), rad: h, prec: p}
	}
	c := newMid(p).Sqrt(a.m())
	low := down().Set(c)
	residue := newMid(2*p+8).Mul(c, c) // exact, and so is the difference
	residue.Sub(residue, a.m())
	z := Big{mid: c, prec: p}.plus(quoUp(absUp(residue), low))
	if a.r().Sign() == 0 {
		return z
	}
	// (ra/2c)(1+ra/a): see Ball.Sqrt. low may exceed the root itself by its error.
	low = mulDown(low, 1-0x1p-20)
	q := addUp(upFloat64(1), quoUp(a.r(), down().Set(a.m())))
	return z.plus(mulUp(mulUp(quoUp(a.r(), low), upFloat64(0.5)), q))
}

func mulDown(x *big.Float, y float64) *big.Float {
	return down().Mul(x, new(big.Float).SetFloat64(y))
}

func (a Big) Rsqrt() Big { return a.Sqrt().Recip() }

func (a Big) Neg() Big {
	if a.mid != nil {
		a.mid = newMid(a.mid.Prec()).Neg(a.mid)
	}
	return a
}

func (a Big) Abs() Big {
	if !a.Known() {
		return a
	}
	m := newMid(a.Prec()).Abs(a.m())
	if m.Cmp(a.r()) >= 0 {
		return Big{mid: m, rad: a.rad, prec: a.Prec()}
	}
	_, hi := Big{mid: m, rad: a.rad, prec: a.Prec()}.ends()
	return betweenBig(new(big.Float), hi, a.Prec())
}

func (a Big) Max(b Big) Big {
	p, ok := prepare(a, b)
	if !ok {
		return unknownBig(p)
	}
	alo, ahi := a.ends()
	blo, bhi := b.ends()
	switch {
	case alo.Cmp(bhi) >= 0:
		return a
	case blo.Cmp(ahi) >= 0:
		return b
	}
	return betweenBig(larger(alo, blo), larger(ahi, bhi), p)
}

func (a Big) Min(b Big) Big { return a.Neg().Max(b.Neg()).Neg() }

func (a Big) Hull(b Big) Big {
	p, ok := prepare(a, b)
	if !ok {
		return unknownBig(p)
	}
	if a.m().Cmp(b.m()) == 0 && a.r().Cmp(b.r()) == 0 {
		return a
	}
	alo, ahi := a.ends()
	blo, bhi := b.ends()
	lo := alo
	if blo.Cmp(alo) < 0 {
		lo = blo
	}
	return betweenBig(lo, larger(ahi, bhi), p)
}

func larger(x, y *big.Float) *big.Float {
	if x.Cmp(y) < 0 {
		return y
	}
	return x
}

func (a Big) Scale2(n int) Big {
	if !a.Known() {
		return a
	}
	z := Big{mid: newMid(a.Prec()).SetMantExp(a.m(), n), prec: a.Prec()}
	if z.mid.IsInf() || z.mid.Sign() == 0 && a.m().Sign() != 0 {
		return unknownBig(z.prec)
	}
	if a.r().Sign() != 0 {
		z.rad = up().SetMantExp(a.r(), n)
		if z.rad.Sign() == 0 {
			return unknownBig(z.prec)
		}
	}
	return z
}

// Sum adds from left to right: at the precision of a Big its roundings do not matter.
func (a Big) Sum(terms []Big) Big {
	for _, t := range terms {
		a = a.Add(t)
	}
	return a
}

func (a Big) Widen(u, eta float64) Big {
	if !a.Known() {
		return a
	}
	return a.plus(addUp(mulUp(addUp(absUp(a.m()), a.r()), upFloat64(u)), upFloat64(eta)))
}

func (a Big) Less(b Big) Truth   { return a.compare(b, true) }
func (a Big) LessEq(b Big) Truth { return a.compare(b, false) }

func (a Big) compare(b Big, strict bool) Truth {
	if _, ok := prepare(a, b); !ok {
		return Maybe
	}
	alo, ahi := a.ends()
	blo, bhi := b.ends()
	return ordered(ahi.Cmp(blo), alo.Cmp(bhi), strict)
}

func (a Big) Equal(b Big) Truth {
	if _, ok := prepare(a, b); !ok {
		return Maybe
	}
	if a.r().Sign() == 0 && b.r().Sign() == 0 && a.m().Cmp(b.m()) == 0 {
		return Yes
	}
	if a.Less(b) == Yes || b.Less(a) == Yes {
		return No
	}
	return Maybe
}

// ends returns the endpoints of a known ball, rounded outward.
func (a Big) ends() (lo, hi *big.Float) {
	if a.r().Sign() == 0 {
		return a.m(), a.m()
	}
	p := a.Prec() + radPrec
	lo = newMid(p).SetMode(big.ToNegativeInf).Sub(a.m(), a.r())
	hi = newMid(p).SetMode(big.ToPositiveInf).Add(a.m(), a.r())
	return lo, hi
}

// betweenBig returns a ball around [lo, hi].
func betweenBig(lo, hi *big.Float, prec uint) Big {
	c := newMid(prec).Add(lo, hi)
	c.SetMantExp(c, -1)
	return Big{mid: c, rad: larger(distUp(hi, c), distUp(c, lo)), prec: prec}
}

func (a Big) Bounds() (lo, hi float64) {
	if !a.Known() {
		return math.Inf(-1), math.Inf(1)
	}
	l, h := a.ends()
	lo, acc := l.Float64()
	if acc == big.Above {
		lo = math.Nextafter(lo, math.Inf(-1))
	}
	hi, acc = h.Float64()
	if acc == big.Below {
		hi = math.Nextafter(hi, math.Inf(1))
	}
	return lo + 0, hi + 0 // a zero end is +0
}

func (a Big) Endpoints() (lo, hi float64) {
	if !a.Known() {
		return math.Inf(-1), math.Inf(1)
	}
	l, h := a.ends()
	return odd(l), odd(h)
}

// odd rounds to odd. Beyond the range of normal float64 numbers any odd one of the
// same sign will do: the smallest is below, the largest above what can be stored.
func odd(x *big.Float) float64 {
	if x.Sign() == 0 {
		return 0
	}
	z := new(big.Float).SetPrec(53).SetMode(big.ToZero).Set(x)
	y, sign := math.MaxFloat64, float64(x.Sign())
	switch e := z.MantExp(nil); {
	case e <= -1022:
		y = 0x1.0000000000001p-1022
	case e <= 1024:
		y, _ = z.Float64()
		y = math.Abs(y)
	}
	if z.Acc() != big.Exact {
		y = math.Float64frombits(math.Float64bits(y) | 1)
	}
	return math.Copysign(y, sign)
}
