package table

import (
	"math"
	"math/bits"
)

// units is an exact sum of f16 values: an integer of 128 bits in units of 2^-24, and the
// sum of those that are not finite.
type units struct {
	high    int64
	low     uint64
	special float64
}

// add adds x, a sum of at most exactTerms f16 values.
func (u *units) add(x float64) {
	if x-x != 0 {
		u.special += x
		return
	}
	k := int64(x * (1 << 24)) // exact
	u.addInteger(k>>63, uint64(k))
}

func (u *units) addInteger(high int64, low uint64) {
	var carry uint64
	u.low, carry = bits.Add64(u.low, low, 0)
	u.high += high + int64(carry)
}

// odd returns the sum plus an old value, a binary32 number, rounded to odd in binary64 or
// at least 50 bits, so that it rounds to any narrower format as the exact sum does. A
// zero is +0.
func (u units) odd(old float64) float64 {
	if s := u.special + old; s-s != 0 {
		return s
	}
	if low := int64(u.low); u.high == low>>63 && low <= 1<<53 && low >= -1<<53 {
		return addOdd(old, float64(low)*0x1p-24)
	}
	if math.Abs(old) >= 0x1p100 {
		return old // fewer than 2^40 terms are less than half of its last bit
	}
	// An old value with bits below 2^-24 is less than 1. The part of it below an integer
	// of units then says only that the sum is not an integer.
	k := old * 0x1p24
	floor := math.Floor(k)
	fraction, exponent := math.Frexp(floor)
	m := int64(fraction * (1 << 53)) // floor is m·2^(exponent-53)
	switch shift := exponent - 53; {
	case shift <= 0:
		m >>= -shift // exact
		u.addInteger(m>>63, uint64(m))
	case shift < 64:
		u.addInteger(m>>(64-shift), uint64(m)<<shift)
	default:
		u.addInteger(m<<(shift-64), 0)
	}
	return u.float(k != floor)
}

// addOdd returns x + y, rounded to odd.
func addOdd(x, y float64) float64 {
	s := x + y
	t := s - x
	e := float64(x-float64(s-t)) + float64(y-t) // the error of s, exactly
	if b := math.Float64bits(s); e != 0 && b&1 == 0 {
		if (e > 0) == (s > 0) {
			s = math.Float64frombits(b + 1)
		} else {
			s = math.Float64frombits(b - 1)
		}
	}
	if s == 0 {
		return 0 // +0, also for −0
	}
	return s
}

// float returns the sum, plus a fraction of a unit if more is set, rounded to odd.
func (u units) float(more bool) float64 {
	high, low := uint64(u.high), u.low
	if u.high < 0 {
		// The magnitude of an integer and a fraction is one less, and what the fraction
		// lacks.
		borrow := uint64(0)
		if more {
			borrow = 1
		}
		low, borrow = bits.Sub64(0, low, borrow)
		high, _ = bits.Sub64(0, high, borrow)
	}
	shift := max(0, 64-bits.LeadingZeros64(low)-53)
	if high != 0 {
		shift = 128 - bits.LeadingZeros64(high) - 53
	}
	top, rest := low>>shift, low&(1<<shift-1)
	switch {
	case shift >= 64:
		top, rest = high>>(shift-64), low|high&(1<<(shift-64)-1)
	case high != 0:
		top |= high << (64 - shift)
	}
	if more || rest != 0 {
		top |= 1
	}
	x := math.Ldexp(float64(top), shift-24)
	if u.high < 0 {
		return -x
	}
	return x
}
