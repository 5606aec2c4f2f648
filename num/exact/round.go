package exact

import (
	"math"
	"math/bits"

	"tokitai/num"
)

// Step is the method that determined a rounding.
type Step uint8

const (
	BySpecial      Step = iota // a NaN or an infinity among the operands
	ByFloat64                  // plain float64 and its bound
	ByTwoAdic                  // float64 and integers modulo 2^64
	ByDoubleDouble             // double-double and its bound
	ByBig                      // math/big
)

func (s Step) String() string {
	return [...]string{"special", "float64", "two-adic", "double-double", "big"}[s]
}

// Round rounds init + Σ a[k]*b[k] once, to nearest even. An exact zero is +0, a
// result too small for d keeps its sign. A NaN, 0*Inf, or infinities of both signs
// give the canonical NaN; otherwise an infinity gives itself.
func Round[E Operand](d num.DType, a, b []E, init E) (pattern uint32, step Step) {
	p := Float64(a, b, init)
	if p.Sum-p.Sum != 0 {
		pattern, _ = p.Round(d)
		return pattern, BySpecial
	}
	if pattern, ok := p.Round(d); ok {
		return pattern, ByFloat64
	}
	g := newGrid(a, b, init)
	if g.holds(p) {
		return num.NarrowF64(d, p.Sum), ByFloat64
	}
	if sum, ok := twoAdic(a, b, init, p, g); ok {
		return num.NarrowF64(d, sum), ByTwoAdic
	}
	s, c, r := doubleDouble(a, b, init, p.Abs)
	if pattern := num.NarrowF64(d, oddSum(s, c-r)); pattern == num.NarrowF64(d, oddSum(s, c+r)) {
		return pattern, ByDoubleDouble
	}
	return RoundBig(d, Big(a, b, init)), ByBig
}

// grid holds the largest powers of two that divide all terms: all a[k] are multiples of
// 2^a, all b[k] of 2^b, init and all products of 2^unit, a+b = unit.
type grid struct {
	a, b, unit int
	isNarrow   bool // all |a[k]| < 2^(a+63) and all |b[k]| < 2^(b+63)
}

func newGrid[E Operand](a, b []E, init E) grid {
	lowA, highA := span(a)
	lowB, highB := span(b)
	low, _ := span([]E{init})
	unit := min(lowA+lowB, low)
	g := grid{a: unit - lowB, b: lowB, unit: unit}
	g.isNarrow = highA <= g.a+63 && highB <= g.b+63
	return g
}

// span returns the exponent of the lowest bit set anywhere in x, and the least power
// of two above all magnitudes; 512 and -512 if x is zero.
func span[E Operand](x []E) (low, high int) {
	low, high = 512, -512
	for _, v := range x {
		if v == 0 {
			continue
		}
		m, e := split(float64(v))
		low, high = min(low, e+bits.TrailingZeros64(m)), max(high, e+53)
	}
	return low, high
}

// split writes |x| = m * 2^e with a 53-bit integer m, for a normal x.
func split(x float64) (m uint64, e int) {
	u := math.Float64bits(x)
	return u&(1<<52-1) | 1<<52, int(u>>52&0x7ff) - 1075
}

// holds reports whether p.Sum is exact: every partial sum, in any order, is a
// multiple of the unit and at most 2^53 of them.
func (g grid) holds(p Product) bool { return p.Abs <= math.Ldexp(1, g.unit+53) }
