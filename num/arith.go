package num

import "math"

// Addition, subtraction, multiplication, division and negation need no function
// here: Go's own are correctly rounded. But Go may fuse x*y + z into one
// rounding on some machines, so a product that feeds a sum is written
// float32(x*y) + z throughout the project.

// FMA returns a·b + c with one rounding, to nearest even.
//
// The product is exact in binary64, so only the sum rounds, first to binary64
// and then to binary32. The double rounding does harm only where the binary64
// sum lands exactly halfway between two binary32 values: there, and below the
// normal range, where halfway lies elsewhere in the pattern, fmaOdd decides.
func FMA(a, b, c float32) float32 {
	p := float64(float64(a) * float64(b))
	s := p + float64(c)
	if isDelicate(s) {
		return fmaOdd(p, float64(c), s)
	}
	return float32(s)
}

// isDelicate reports whether rounding the binary64 sum s of a product and a number to
// binary32 may differ from rounding their exact sum. Of a zero it does not: the sum is
// exact.
func isDelicate(s float64) bool {
	const leastNormal = (1023 - 126) << 52
	bits := math.Float64bits(s)
	return bits&(1<<29-1) == 1<<28 || bits&^(1<<63)-1 < leastNormal-1
}

// fmaOdd rounds p + c, whose nearest binary64 is s, by way of round to odd: of
// the two binary64 values around an inexact sum it takes the odd one, which is
// never halfway between two binary32 values and lies on the sum's side of every
// such point (Boldo and Melquiond 2008). The error of s is exact by Knuth's
// TwoSum, as nothing here can overflow or underflow in binary64.
func fmaOdd(p, c, s float64) float32 {
	t := s - p
	e := (p - (s - t)) + (c - t)
	bits := math.Float64bits(s)
	if e != 0 && bits&1 == 0 {
		if (e > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
	}
	return float32(math.Float64frombits(bits))
}

// Sqrt returns the correctly rounded square root: binary64 is wide enough that rounding
// its square root a second time is harmless.
func Sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// Max returns the larger operand, or NaN if either is NaN; -0 < +0.
func Max(a, b float32) float32 { return max(a, b) }

// Min returns the smaller operand, or NaN if either is NaN; -0 < +0.
func Min(a, b float32) float32 { return min(a, b) }

// Rint rounds to the nearest integer, ties to even, and keeps the sign of a zero
// result. Infinities and NaN are unchanged.
func Rint(x float32) float32 { return float32(math.RoundToEven(float64(x))) }

// Bounds of Scale's exponent: both halves of it are then exponents of normal
// powers of two.
const (
	minScale = -252
	maxScale = 254
)

// Scale returns (x·2^a)·2^(n-a) with a = floor(n/2): two roundings, of which the
// first acts only when a subnormal or infinite value already appears halfway.
// n is rounded by Rint and clamped to [-252, 254]; a NaN in x or n gives NaN.
func Scale(x, n float32) float32 {
	if n != n {
		return n
	}
	k := int(max(minScale, min(Rint(n), maxScale)))
	a := k >> 1
	half := float32(x * powerOfTwo(a))
	return half * powerOfTwo(k-a)
}

// powerOfTwo returns 2^k for -126 <= k <= 127.
func powerOfTwo(k int) float32 { return math.Float32frombits(uint32(k+127) << 23) }

// FToI truncates toward zero and saturates; NaN gives 0.
func FToI(x float32) int32 {
	switch {
	case x != x:
		return 0
	case x >= 1<<31:
		return math.MaxInt32
	case x < -1<<31:
		return math.MinInt32
	}
	return int32(x)
}
