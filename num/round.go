package num

import "math"

// Round stores x as d and reads it back: one rounding to nearest even.
func Round(d DType, x float32) float32 { return Widen(d, Narrow(d, x)) }

// StochasticRound rounds x to one of its neighbours in d, as word decides. With
// lo <= |x| < hi the neighbours of |x| and
//
//	q = floor((|x|-lo) / (hi-lo) · 2^32)
//
// the result is hi if word < q, else lo, with the sign of x: over all words, hi
// has the probability that makes |x| the mean, to within 2^-32. A value of d
// stays itself, so do infinities and NaN. Beyond the largest finite value there
// is no mean to keep, and Round decides whatever the word: from half a spacing
// on infinity (65520 for f16), before it the largest finite value.
func StochasticRound(d DType, x float32, word uint32) float32 {
	abs := math.Abs(float64(x))
	if x != x || abs > MaxFinite(d) {
		return Round(d, x)
	}
	bits := Narrow(d, float32(abs))
	if float64(Widen(d, bits)) > abs {
		bits--
	}
	lo, hi := float64(Widen(d, bits)), float64(Widen(d, bits+1))
	// Exact: |x|-lo lies on the grid of x, hi-lo is a power of two, and the
	// conversion to an integer is the floor.
	q := (abs - lo) / (hi - lo) * (1 << 32)
	if word < uint32(q) {
		lo = hi
	}
	return float32(math.Copysign(lo, float64(x)))
}
