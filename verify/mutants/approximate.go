package mutants

import (
	"hash/fnv"
	"math"
)

// Functions with the errors that devices' fast functions have. The error depends on the
// argument alone, as it does there, and on its significand rather than its exponent where
// the function's own does, so that a power of two passes through.

// noise is a number in [-1, 1] that depends on the given bits.
func noise(bits ...uint32) float64 {
	h := fnv.New64a()
	for _, b := range bits {
		h.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
	}
	x := h.Sum64()
	x ^= x >> 32 // fnv mixes its low bits least
	x *= 0x9e3779b97f4a7c15
	return float64(int64(x)) / (1 << 63)
}

// significand returns the bits of x without its sign and exponent.
func significand(x float32) uint32 { return math.Float32bits(x) & (1<<23 - 1) }

// ulp is the distance of binary32 numbers around y.
func ulp(y float64) float64 {
	_, e := math.Frexp(y)
	return math.Ldexp(1, max(e-24, -149))
}

// within returns a binary32 within so many ulps of y, in a direction that the noise says.
func within(y, ulps, noise float64) float32 {
	if y == 0 || math.IsNaN(y) || math.IsInf(y, 0) {
		return float32(y)
	}
	size := math.Abs(y)
	return float32(math.Copysign(max(0, size+noise*(ulps-0.5)*ulp(y)), y))
}

// FastExp is e to the power of x within 2 + 1.16·|x| ulps, as a power of two of the rounded
// product x·log2(e) gives it; the power of 0 is 1.
func FastExp(x float32) float32 {
	if x == 0 {
		return 1
	}
	y := within(math.Exp(float64(x)), 2+1.16*math.Abs(float64(x)), noise(math.Float32bits(x)))
	return max(y, 0)
}

// RoughExp is e to the power of x within so many ulps; the power of 0 is 1.
func RoughExp(ulps float64) func(x float32) float32 {
	return func(x float32) float32 {
		if x == 0 {
			return 1
		}
		return within(math.Exp(float64(x)), ulps, noise(math.Float32bits(x)))
	}
}

// FastRsqrt is 1/sqrt(x) within ulps.
func FastRsqrt(ulps float64) func(x float32) float32 {
	return func(x float32) float32 {
		_, e := math.Frexp(float64(x))
		return within(1/math.Sqrt(float64(x)), ulps, noise(significand(x), uint32(e&1)))
	}
}

// FastDivide is a/b within ulps.
func FastDivide(ulps float64) func(a, b float32) float32 {
	return func(a, b float32) float32 {
		return within(float64(a)/float64(b), ulps, noise(significand(a), significand(b)))
	}
}

// FastSqrt is sqrt(x) within ulps.
func FastSqrt(ulps float64) func(x float32) float32 {
	return func(x float32) float32 {
		_, e := math.Frexp(float64(x))
		return within(math.Sqrt(float64(x)), ulps, noise(significand(x), uint32(e&1)))
	}
}

// FastLog is the logarithm within ulps; that of 1 is 0.
func FastLog(ulps float64) func(x float32) float32 {
	return func(x float32) float32 {
		return within(math.Log(float64(x)), ulps, noise(math.Float32bits(x)))
	}
}

// FastTanh is the hyperbolic tangent with a relative error of at most 2^-11.
func FastTanh(x float32) float32 {
	y := math.Tanh(float64(x))
	fast := float32(y * (1 + noise(math.Float32bits(x))*(0x1p-11-0x1p-24)))
	return max(-1, min(fast, 1))
}

// Flush replaces a subnormal number by a zero of its sign.
func Flush(x float32) float32 {
	if math.Abs(float64(x)) < 0x1p-126 {
		return float32(math.Copysign(0, float64(x)))
	}
	return x
}
