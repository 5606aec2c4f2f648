package num

import "math"

// Index returns the number of a value of d in ascending order, without gaps: both
// zeros are 0, the smallest subnormal is 1, infinity, if there is one, follows the largest
// finite value, and negation negates. The index of a NaN is beyond all others and has no
// meaning, so check IsNaN first. The index of an integer is its value.
func Index[P Pattern](d DType, bits P) int64 {
	if d.IsInteger() {
		return SignExtend(d, uint64(bits))
	}
	f := d.format()
	m := int64(f.magnitude(uint32(bits)))
	if uint32(bits)&f.sign != 0 {
		return -m
	}
	return m
}

// FromIndex returns the pattern of an index. It is the inverse of Index; 0 gives +0,
// and an index beyond the last of a sign gives that one: an infinity, except in E4M3.
func FromIndex(d DType, i int64) uint32 {
	f := d.format()
	if i < 0 {
		return f.sign | uint32(min(-i, int64(f.last)))
	}
	return uint32(min(i, int64(f.last)))
}

// Distance returns the number of steps from a to b in the order of Index. It is 0 for
// the two zeros, although their bits differ, and for two NaNs. The distance of a NaN
// from anything else is math.MaxInt64, and so is a larger one of integers.
func Distance[P Pattern](d DType, a, b P) int64 {
	switch nans := [2]bool{IsNaN(d, a), IsNaN(d, b)}; nans {
	case [2]bool{true, true}:
		return 0
	case [2]bool{false, false}:
		x, y := Index(d, a), Index(d, b)
		if n := uint64(max(x, y)) - uint64(min(x, y)); n <= math.MaxInt64 {
			return int64(n)
		}
	}
	return math.MaxInt64
}

// NextUp returns the least value of d above a pattern's, like IEEE 754 nextUp: the
// smallest positive value for both zeros, -0 for the largest negative value, and +Inf,
// NaN and the largest value of E4M3 unchanged.
func NextUp[P Pattern](d DType, pattern P) P {
	bits := uint32(pattern)
	f := d.format()
	switch m := f.magnitude(bits); {
	case m > f.last || bits == f.last:
		return pattern
	case m == 0:
		return 1
	case bits&f.sign != 0:
		return pattern - 1
	}
	return pattern + 1
}

// NextDown returns the greatest value of d below a pattern's, like NextUp mirrored: +0
// for the smallest positive value.
func NextDown[P Pattern](d DType, bits P) P {
	sign := P(d.format().sign)
	return NextUp(d, bits^sign) ^ sign
}

// ULP returns the distance between neighbours of d in the binade of |x|. Below the
// smallest normal value it is the smallest subnormal; beyond the largest finite
// value, infinity included, it stays that of the top binade. NaN gives NaN. Integers are 1
// apart.
func ULP(d DType, x float64) float64 {
	switch {
	case x != x:
		return x
	case d.IsInteger():
		return 1
	}
	f := d.format()
	e := int(math.Float64bits(x)>>52&0x7ff) - 1023
	return math.Ldexp(1, min(max(e, f.emin), f.emax)-f.fraction)
}

// MaxFinite returns the largest finite value of d; that of I64 is rounded to 2^63.
func MaxFinite(d DType) float64 {
	if d.IsInteger() {
		return float64(int64(1)<<(8*d.Size()-1) - 1)
	}
	return float64(Widen(d, d.format().largest))
}
