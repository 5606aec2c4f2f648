package ball

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
)

// Interval is the set of real numbers x with Lo <= x <= Hi. It is made for steps of
// binary32: rounding to nearest is monotonic, so the results of a correctly rounded
// operation on an interval lie between its results on the ends.
//
// Add, Sub, Mul, Sqr, Div, Recip and Sqrt of binary32 ends have ends that are rounded
// to odd, once (products are exact): [Interval.Nearest] of the result has exactly the
// ends that binary32 arithmetic gives. So has Nearest of a product, not yet rounded,
// to which a binary32 is added: the fused multiply-add. Until Nearest an end may
// exclude the last bit of a float64; everything else is rounded outward.
//
// The zero value is the exact 0. An Interval with an end that is NaN or infinite is
// unknown.
type Interval struct{ Lo, Hi float64 }

var _ Number[Interval] = Interval{}

var unknownInterval = Interval{math.NaN(), math.NaN()}

// interval returns [lo, hi], unknown unless both are finite. 0 + x: a zero end is +0.
func interval(lo, hi float64) Interval {
	z := Interval{0 + lo, 0 + hi}
	if !z.Known() {
		return unknownInterval
	}
	return z
}

func (a Interval) Known() bool { return isFinite(a.Lo) && isFinite(a.Hi) }

func (a Interval) String() string {
	if !a.Known() {
		return "unknown"
	}
	return fmt.Sprintf("[%.17g, %.17g]", a.Lo, a.Hi)
}

func (Interval) FromFloat64(x float64) Interval { return interval(x, x) }

func (Interval) FromRat(x *big.Rat) Interval { return interval(Ball{}.FromRat(x).Bounds()) }

func (Interval) Pi() Interval { return interval(Ball{}.Pi().Bounds()) }

// Ball returns a ball around the interval.
func (a Interval) Ball() Ball {
	if !a.Known() {
		return unknown
	}
	return between(a.Lo, a.Hi)
}

// Nearest rounds both ends to binary32, to nearest even; unknown if one overflows.
func (a Interval) Nearest() Interval {
	return interval(float64(float32(a.Lo)), float64(float32(a.Hi)))
}

// Inside shrinks the interval to the first and the last binary32 in it, so that every
// binary32 in it stays in. If there is none, it rounds the ends as Nearest does. It is
// unknown beyond the largest finite binary32.
func (a Interval) Inside() Interval {
	z := Interval{float64(float32(a.Lo)), float64(float32(a.Hi))}
	if z.Lo < a.Lo {
		z.Lo = float64(math.Nextafter32(float32(z.Lo), math.MaxFloat32))
	}
	if z.Hi > a.Hi {
		z.Hi = float64(math.Nextafter32(float32(z.Hi), -math.MaxFloat32))
	}
	switch {
	case !(-math.MaxFloat32 <= a.Lo && a.Hi <= math.MaxFloat32):
		return unknownInterval
	case z.Lo > z.Hi:
		return a.Nearest()
	}
	return interval(z.Lo, z.Hi)
}

func (a Interval) Add(b Interval) Interval {
	return interval(sumOdd(a.Lo, b.Lo), sumOdd(a.Hi, b.Hi))
}

func (a Interval) Sub(b Interval) Interval { return a.Add(b.Neg()) }

// Mul is exact for ends of 26 bits.
func (a Interval) Mul(b Interval) Interval {
	if !a.Known() || !b.Known() {
		return unknownInterval
	}
	p, q, r, s := a.Lo*b.Lo, a.Lo*b.Hi, a.Hi*b.Lo, a.Hi*b.Hi
	return interval(min(p, q, r, s), max(p, q, r, s))
}

func (a Interval) Sqr() Interval {
	m := a.Abs()
	return interval(m.Lo*m.Lo, m.Hi*m.Hi)
}

// Div: a quotient is monotonic in each operand as long as the divisor keeps its sign.
func (a Interval) Div(b Interval) Interval {
	if !a.Known() || !(b.Lo > 0 || b.Hi < 0) {
		return unknownInterval
	}
	p, q, r, s := quotientOdd(a.Lo, b.Lo), quotientOdd(a.Lo, b.Hi), quotientOdd(a.Hi, b.Lo), quotientOdd(a.Hi, b.Hi)
	return interval(min(p, q, r, s), max(p, q, r, s))
}

func (a Interval) Recip() Interval { return Interval{1, 1}.Div(a) }

func (a Interval) Sqrt() Interval {
	if !(a.Hi >= 0) {
		return unknownInterval
	}
	return interval(rootOdd(max(a.Lo, 0)), rootOdd(a.Hi))
}

func (a Interval) Rsqrt() Interval {
	_, hi := FromFloat64(a.Lo).Rsqrt().Bounds()
	lo, _ := FromFloat64(a.Hi).Rsqrt().Bounds()
	return interval(lo, hi)
}

func (a Interval) Neg() Interval { return Interval{0 - a.Hi, 0 - a.Lo} }

func (a Interval) Abs() Interval {
	switch {
	case a.Lo >= 0:
		return a
	case a.Hi <= 0:
		return a.Neg()
	}
	return interval(0, max(-a.Lo, a.Hi)) // max keeps NaN
}

func (a Interval) Max(b Interval) Interval { return interval(max(a.Lo, b.Lo), max(a.Hi, b.Hi)) }

func (a Interval) Min(b Interval) Interval { return interval(min(a.Lo, b.Lo), min(a.Hi, b.Hi)) }

func (a Interval) Hull(b Interval) Interval { return interval(min(a.Lo, b.Lo), max(a.Hi, b.Hi)) }

func (a Interval) Exp() Interval     { return a.increasing(expAt) }
func (a Interval) Exp2() Interval    { return a.increasing(exp2At) }
func (a Interval) Expm1() Interval   { return a.increasing(expm1At) }
func (a Interval) Log() Interval     { return a.increasing(logAt) }
func (a Interval) Log2() Interval    { return a.increasing(log2At) }
func (a Interval) Log1p() Interval   { return a.increasing(log1pAt) }
func (a Interval) Tanh() Interval    { return a.increasing(tanhAt) }
func (a Interval) Sigmoid() Interval { return a.increasing(sigmoidAt) }

func (a Interval) increasing(at func(float64) Ball) Interval {
	if !a.Known() {
		return unknownInterval
	}
	lo, hi := at(a.Lo).Bounds()
	if a.Lo != a.Hi {
		_, hi = at(a.Hi).Bounds()
	}
	return interval(lo, hi)
}

// Scale2 is exact, but for results below 2^-1022, which are enclosed.
func (a Interval) Scale2(n int) Interval {
	lo, _ := FromFloat64(a.Lo).Scale2(n).Bounds()
	_, hi := FromFloat64(a.Hi).Scale2(n).Bounds()
	return interval(lo, hi)
}

// Sum returns a plus the terms. It sums the lower ends and the upper ends separately, with
// the method that Ball.Sum uses for midpoints.
func (a Interval) Sum(terms []Interval) Interval {
	lo, hi := sumOfEnds{s: a.Lo, abs: math.Abs(a.Lo)}, sumOfEnds{s: a.Hi, abs: math.Abs(a.Hi)}
	for _, x := range terms {
		lo.add(x.Lo)
		hi.add(x.Hi)
	}
	l, _ := lo.total(len(terms)).Bounds()
	_, h := hi.total(len(terms)).Bounds()
	return interval(l, h)
}

// sumOfEnds is Ball.Sum, whose proof it shares, for exact terms.
type sumOfEnds struct{ s, e, abs float64 }

func (z *sumOfEnds) add(x float64) {
	s, e := twoSum(z.s, x)
	z.s, z.e, z.abs = s, z.e+e, z.abs+math.Abs(x)
}

func (z *sumOfEnds) total(n int) Ball {
	if z.abs == 0 {
		return Ball{}
	}
	nu := float64(n) * 0x1p-52
	return outward(z.s+z.e, float64(z.abs*float64(nu*nu)))
}

// Widen moves each end by its own magnitude times u, and by eta: x - |x|·u increases
// with x for u < 1, so the ends bound what a relative error u makes of any x between
// them. 2^-50 of it stands above the roundings here and that of an end to odd.
func (a Interval) Widen(u, eta float64) Interval {
	if u == 0 && eta == 0 {
		return a
	}
	move := func(x float64) float64 {
		m := math.Abs(x)
		return float64((float64(m*u)+eta)*grow) + float64(m*0x1p-50) + tiny
	}
	return interval(a.Lo-move(a.Lo), a.Hi+move(a.Hi))
}

func (a Interval) Less(b Interval) Truth   { return a.compare(b, true) }
func (a Interval) LessEq(b Interval) Truth { return a.compare(b, false) }

func (a Interval) compare(b Interval, strict bool) Truth {
	if !a.Known() || !b.Known() {
		return Maybe
	}
	return ordered(cmp.Compare(a.Hi, b.Lo), cmp.Compare(a.Lo, b.Hi), strict)
}

func (a Interval) Equal(b Interval) Truth {
	switch {
	case !a.Known() || !b.Known():
		return Maybe
	case a.Lo == a.Hi && a == b:
		return Yes
	case a.Hi < b.Lo || b.Hi < a.Lo:
		return No
	}
	return Maybe
}

// Bounds returns the ends.
func (a Interval) Bounds() (lo, hi float64) {
	if !a.Known() {
		return math.Inf(-1), math.Inf(1)
	}
	return 0 + a.Lo, 0 + a.Hi
}

// Endpoints returns the ends.
func (a Interval) Endpoints() (lo, hi float64) { return a.Bounds() }

// quotientOdd returns x/y rounded to odd, for binary32 numbers: the remainder x - q·y is
// exact in an FMA, and shows on which side of q the quotient lies.
func quotientOdd(x, y float64) float64 {
	q := x / y
	r := math.FMA(-q, y, x)
	if y < 0 {
		r = -r
	}
	return toOdd(q, r)
}

// rootOdd returns the square root of a binary32 rounded to odd.
func rootOdd(x float64) float64 {
	s := math.Sqrt(x)
	return toOdd(s, math.FMA(-s, s, x))
}
