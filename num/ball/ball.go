package ball

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
)

// Ball is the set of real numbers x with |x - Mid| <= Rad. The zero value is the
// exact 0. A Ball whose Mid or Rad is NaN or infinite carries no information.
type Ball struct{ Mid, Rad float64 }

var _ Number[Ball] = Ball{}

var unknown = Ball{math.NaN(), math.Inf(1)}

// FromFloat64 returns the ball of exactly x; it is unknown if x is NaN or infinite.
func FromFloat64(x float64) Ball {
	if !isFinite(x) {
		return unknown
	}
	return Ball{Mid: x}
}

func (Ball) FromFloat64(x float64) Ball { return FromFloat64(x) }

func (Ball) FromRat(x *big.Rat) Ball {
	c, isExact := x.Float64()
	if isExact {
		return Ball{Mid: c}
	}
	return outward(c, 0)
}

func (Ball) Pi() Ball { return Ball{math.Pi, 0x1p-52} } // π - math.Pi is 1.23e-16, 2^-52 is 2.2e-16

func (a Ball) String() string {
	if !a.Known() {
		return "unknown"
	}
	return fmt.Sprintf("%.17g ± %.3g", a.Mid, a.Rad)
}

func (a Ball) Known() bool { return isFinite(a.Mid) && a.Rad <= math.MaxFloat64 }

// isFinite reports whether x is neither infinite nor NaN. It does not compute x - x: where that is
// inlined behind a product, a compiler may fuse the two, and the result is the product's rounding
// error.
func isFinite(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }

const (
	least = 0x1p-1074 // the smallest positive float64
	tiny  = 0x1p-1022
	grow  = 1 + 0x1p-48
)

// outward returns a Ball of a midpoint and a radius computed in plain float64.
//
// Lemma. Write u = 2^-53. If the exact midpoint lies within
// |c|*2^-52*(1+2^-49) + 2^-1024 of c, and the exact radius is at most
// r*(1+2^-49) + 2^-1024, then the exact ball lies in the result.
//
// Proof. Let s = r + |c|*2^-52. Each of the four roundings below loses at most a
// factor 1-u, and the two products at most 2^-1075 by underflow, so the result is
// at least s*(1+2^-48)*(1-u)^4 + tiny*(1-u) - 2^-1073 >= s*(1+2^-49) + 2^-1023:
// the sum of what was asked for.
//
// So a caller may use two roundings in c, up to fifteen in r ((1+u)^15 < 1+2^-49),
// and underflow in a few products (2^-1075 each) as long as nothing amplifies it
// afterwards. A c that overflowed gives an infinite, one that is NaN a NaN radius.
//
// The conversions float64(...) here and below keep the compiler from fusing a
// product with a sum: bounds would survive it, equal bits on all machines would not.
func outward(c, r float64) Ball {
	return Ball{c, float64((float64(r)+float64(math.Abs(c)*0x1p-52))*grow) + tiny}
}

// Add uses no absolute term, so that an exact zero stays exact. A float64 sum
// rounds only if it is at least 2^-1021, and then |c|*2^-52 >= 2^-1073 loses at
// most a quarter to underflow and still exceeds the error |c|*2^-53; sums of radii
// below 2^-1022 are exact, and multiplying by grow never makes a number smaller.
func (a Ball) Add(b Ball) Ball {
	c := a.Mid + b.Mid
	return Ball{c, float64(((a.Rad + b.Rad) + float64(math.Abs(c)*0x1p-52)) * grow)}
}

func (a Ball) Sub(b Ball) Ball {
	c := a.Mid - b.Mid
	return Ball{c, float64(((a.Rad + b.Rad) + float64(math.Abs(c)*0x1p-52)) * grow)}
}

// Mul: |xy - ab| = |a(y-b) + y(x-a)| <= |a|*rb + (|b|+rb)*ra.
func (a Ball) Mul(b Ball) Ball {
	c := a.Mid * b.Mid
	r := float64(math.Abs(a.Mid)*b.Rad) + float64((math.Abs(b.Mid)+b.Rad)*a.Rad)
	if r == 0 && (a == Ball{} || b == Ball{}) {
		return Ball{}
	}
	return outward(c, r)
}

// Sqr: the squares of a ball that does not contain 0 are exactly the interval
// m²+r² ± 2mr, m = |Mid|, whose lower end is (m-r)²; of one that does, [0, (m+r)²].
func (a Ball) Sqr() Ball {
	if (a == Ball{}) {
		return Ball{}
	}
	m := math.Abs(a.Mid)
	if a.Rad <= m {
		return outward(float64(m*m)+float64(a.Rad*a.Rad), 2*m*a.Rad)
	}
	h := (m + a.Rad) * (m + a.Rad) * 0.5
	return outward(h, h)
}

// Div: |x/y - a/b| = |(x-a) - (a/b)(y-b)|/|y| <= (ra + |a/b|*rb)/(|b|-rb).
// The two terms least stand above the underflow of the quotient and of the
// product, which the division by a small |b|-rb would amplify.
func (a Ball) Div(b Ball) Ball {
	d := math.Abs(b.Mid) - b.Rad
	if !(0 < d && d <= math.MaxFloat64) {
		return unknown
	}
	if (a == Ball{}) {
		return Ball{}
	}
	c := a.Mid / b.Mid
	r := a.Rad
	if b.Rad != 0 {
		r += float64((math.Abs(c)+least)*b.Rad) + least
	}
	return outward(c, r/d)
}

func (a Ball) Recip() Ball { return Ball{Mid: 1}.Div(a) }

// Sqrt: the lower half is the wider one, and
// sqrt(a) - sqrt(a-ra) = ra/(sqrt(a)+sqrt(a-ra)).
func (a Ball) Sqrt() Ball {
	switch {
	case !a.Known() || a.Mid < -a.Rad:
		return unknown
	case a == Ball{}:
		return Ball{}
	case a.Rad <= a.Mid:
		c := math.Sqrt(a.Mid)
		return outward(c, a.Rad/(c+math.Sqrt(a.Mid-a.Rad)))
	}
	h := math.Sqrt(a.Mid+a.Rad) * 0.5
	return outward(h, h)
}

// Rsqrt: with q = ra/a < 1 the lower half is the wider one, and
// (1-q)^(-1/2) - 1 <= (q/2)/(1-q) = ra/(2(a-ra)), coefficient by coefficient.
// That quotient underflows only for a > 2^-53, where c < 2^27 amplifies it harmlessly.
func (a Ball) Rsqrt() Ball {
	d := a.Mid - a.Rad
	if !(0 < d && d <= math.MaxFloat64) {
		return unknown
	}
	c := 1 / math.Sqrt(a.Mid)
	return outward(c, c*(a.Rad/(2*d)))
}

func (a Ball) Neg() Ball { return Ball{-a.Mid, a.Rad} }

func (a Ball) Abs() Ball {
	m := math.Abs(a.Mid)
	if a.Rad <= m || !a.Known() {
		return Ball{m, a.Rad}
	}
	return between(0, sumUp(m, a.Rad))
}

// Max returns an operand itself if the balls are apart: d >= s*(1+2^-48) proves it, with
// one rounding in d and two in s*grow.
func (a Ball) Max(b Ball) Ball {
	d, s := a.Mid-b.Mid, float64((a.Rad+b.Rad)*grow)
	switch {
	case d >= s && s <= math.MaxFloat64 && d <= math.MaxFloat64:
		return a
	case -d >= s && s <= math.MaxFloat64 && -d <= math.MaxFloat64:
		return b
	case !a.Known() || !b.Known():
		return unknown
	}
	alo, ahi := a.Bounds()
	blo, bhi := b.Bounds()
	return between(max(alo, blo), max(ahi, bhi))
}

func (a Ball) Min(b Ball) Ball { return a.Neg().Max(b.Neg()).Neg() }

func (a Ball) Hull(b Ball) Ball {
	if a == b {
		return a
	}
	alo, ahi := a.Bounds()
	blo, bhi := b.Bounds()
	return between(min(alo, blo), max(ahi, bhi))
}

// Scale2 multiplies by 2^n: exact, but for results below 2^-1022.
func (a Ball) Scale2(n int) Ball {
	for n > 1000 && a.Known() && a != (Ball{}) {
		a, n = a.Scale2(1000), n-1000
	}
	for n < -1000 && (math.Abs(a.Mid) >= tiny || a.Rad >= tiny) && a.Known() {
		a, n = a.Scale2(-1000), n+1000
	}
	p := pow2(max(-1000, min(n, 1000)))
	z := Ball{a.Mid * p, a.Rad * p}
	if (z.Mid/p != a.Mid || z.Rad/p != a.Rad) && z.Known() {
		z.Rad = sumUp(z.Rad, least) // each lost at most half of least
	}
	return z
}

// Sum adds the midpoints with the error of every addition recovered exactly
// (Knuth's TwoSum) and added up on the side.
//
// Let n terms be added, A the sum of all |mid|, u = 2^-53. The midpoints' sum is
// exactly s + Σe_i with |e_i| <= u|s_i| <= uA(1+nu), and the computed e differs
// from Σe_i by at most (n-1)u*Σ|e_i| < (nu)²A(1+nu) (Jeannerod and Rump 2013).
// Below, A and the radii are computed sums of n+1 positive terms, at least
// (1-nu) of the exact ones; (n*2^-52)² instead of (n*2^-53)² covers that for
// every n up to 2^48.
func (a Ball) Sum(terms []Ball) Ball {
	p := a.start()
	for i := range terms {
		p = p.plus(terms[i])
	}
	return p.total(len(terms))
}

// partialSum is a sum under way: of midpoints, of what their additions lost, and of the magnitudes
// of midpoints and radii.
type partialSum struct{ sum, lost, abs, rad float64 }

func (a Ball) start() partialSum { return partialSum{sum: a.Mid, abs: math.Abs(a.Mid), rad: a.Rad} }

func (p partialSum) plus(x Ball) partialSum {
	z := p.sum + x.Mid
	v := z - p.sum
	p.lost += (p.sum - (z - v)) + (x.Mid - v)
	p.sum = z
	p.abs += math.Abs(x.Mid)
	p.rad += x.Rad
	return p
}

// total returns the sum after n terms.
func (p partialSum) total(n int) Ball {
	c := p.sum + p.lost
	nu := float64(n) * 0x1p-52
	r := p.rad + float64(p.rad*nu)
	if p.abs == 0 {
		return Ball{c, float64(r * grow)}
	}
	return outward(c, r+float64(p.abs*float64(nu*nu)))
}

// Widen adds (|Mid|+Rad)*u + eta to the radius.
func (a Ball) Widen(u, eta float64) Ball {
	m := math.Abs(a.Mid) + a.Rad
	if eta == 0 && (u == 0 || m == 0) {
		return a
	}
	return Ball{a.Mid, float64((a.Rad+(float64(m*u)+eta))*grow) + tiny}
}

func (a Ball) Less(b Ball) Truth   { return a.compare(b, true) }
func (a Ball) LessEq(b Ball) Truth { return a.compare(b, false) }

func (a Ball) compare(b Ball, strict bool) Truth {
	if !a.Known() || !b.Known() {
		return Maybe
	}
	alo, ahi := a.Bounds()
	blo, bhi := b.Bounds()
	return ordered(cmp.Compare(ahi, blo), cmp.Compare(alo, bhi), strict)
}

func (a Ball) Equal(b Ball) Truth {
	if !a.Known() || !b.Known() {
		return Maybe
	}
	if a.Rad == 0 && b.Rad == 0 && a.Mid == b.Mid {
		return Yes
	}
	if a.Less(b) == Yes || b.Less(a) == Yes {
		return No
	}
	return Maybe
}

func (a Ball) Bounds() (lo, hi float64) {
	if !a.Known() {
		return math.Inf(-1), math.Inf(1)
	}
	return 0 - sumUp(-a.Mid, a.Rad), sumUp(a.Mid, a.Rad) // 0 - x: a zero end is +0
}

func (a Ball) Endpoints() (lo, hi float64) {
	if !a.Known() {
		return math.Inf(-1), math.Inf(1)
	}
	return 0 - sumOdd(-a.Mid, a.Rad), sumOdd(a.Mid, a.Rad)
}

// between returns a ball around [lo, hi]; unknown unless both are finite. The midpoint
// may round: the radius is measured from it.
func between(lo, hi float64) Ball {
	if lo == hi {
		return FromFloat64(lo)
	}
	c := float64(lo*0.5) + float64(hi*0.5)
	return Ball{c, max(sumUp(hi, -c), sumUp(c, -lo))}
}

// twoSum returns x+y rounded, and the rounding error exactly (Knuth).
func twoSum(x, y float64) (s, e float64) {
	s = x + y
	v := s - x
	return s, (x - (s - v)) + (y - v)
}

// sumUp returns x+y rounded up.
func sumUp(x, y float64) float64 {
	s, e := twoSum(x, y)
	if e > 0 {
		return next(s)
	}
	return s
}

// next returns the float64 above x, which is finite and not 0.
func next(x float64) float64 {
	if x > 0 {
		return math.Float64frombits(math.Float64bits(x) + 1)
	}
	return math.Float64frombits(math.Float64bits(x) - 1)
}

// sumOdd returns x+y rounded to odd: if inexact, the neighbour with an odd last bit.
func sumOdd(x, y float64) float64 {
	return toOdd(twoSum(x, y))
}

// toOdd returns s+e rounded to odd, where s is the float64 nearest to it: the neighbour
// of s on the side of e if s+e is not s and s is even.
func toOdd(s, e float64) float64 {
	bits := math.Float64bits(s)
	switch {
	case e == 0 || e != e || bits&1 == 1:
		return s
	case (e > 0) == (s > 0):
		return math.Float64frombits(bits + 1)
	}
	return math.Float64frombits(bits - 1)
}

// pow2 returns 2^n for -1022 <= n <= 1023.
func pow2(n int) float64 { return math.Float64frombits(uint64(n+1023) << 52) }
