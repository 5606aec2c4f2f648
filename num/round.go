package num

import "math"

// Round rounds x to d, to nearest even; NearestInteger rounds to integers.
func Round(d DType, x float32) float32 {
	if d.IsInteger() {
		return Value(d, Stored(d, x))
	}
	return Widen(d, Narrow(d, x))
}

// StochasticRound rounds x to one of its neighbours in d, chosen by word. With
// lo <= |x| < hi the neighbours of |x| and
//
//	q = floor((|x|-lo) / (hi-lo) · 2^32)
//
// the result is hi if word < q, else lo, with the sign of x. Over all words, the mean
// of the result is |x| to within 2^-32 of the spacing. Values of d, infinities and NaN
// are unchanged. Beyond the largest finite value there is no mean to keep, so the
// result is that of Round, whatever the word: infinity from half a spacing on (65520
// for f16), else the largest finite value.
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
