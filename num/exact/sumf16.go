package exact

import (
	"math"
	"math/big"
	"math/bits"

	"tokitai/num"
)

// SumF16 is an exact sum of f16 values: every finite one is an integer multiple of
// 2^-24, so the sum is an integer, here of 128 bits, enough for 2^86 terms. The
// zero value is an empty sum.
type SumF16 struct {
	high uint64 // two's complement, in units of 2^-24
	low  uint64

	hasNaN, hasPosInf, hasNegInf bool

	old float32 // one further term that need not be an f16
}

// Add adds an f16 pattern.
func (s *SumF16) Add(pattern uint16) {
	exponent, fraction := pattern>>10&31, uint64(pattern&0x3ff)
	isNegative := pattern>>15 != 0
	if exponent == 31 {
		s.addSpecial(fraction != 0, isNegative)
		return
	}
	units := fraction
	if exponent > 0 {
		units = (fraction | 0x400) << (exponent - 1)
	}
	var carry uint64
	if isNegative {
		s.low, carry = bits.Sub64(s.low, units, 0)
		s.high -= carry
	} else {
		s.low, carry = bits.Add64(s.low, units, 0)
		s.high += carry
	}
}

// AddValue adds a pattern of any format, exactly. At most one that is not f16 may
// be added: the old value of the place that the sum goes to.
func (s *SumF16) AddValue(d num.DType, pattern uint32) {
	v := num.Widen(d, pattern)
	switch {
	case d == num.F16:
		s.Add(uint16(pattern))
	case v-v != 0:
		s.addSpecial(v != v, v < 0)
	case s.old != 0:
		panic("exact: a second old value")
	default:
		s.old = v
	}
}

func (s *SumF16) addSpecial(isNaN, isNegative bool) {
	s.hasNaN = s.hasNaN || isNaN
	s.hasPosInf = s.hasPosInf || !isNaN && !isNegative
	s.hasNegInf = s.hasNegInf || !isNaN && isNegative
}

// Round is the sum, rounded once to d. An exact zero is +0; infinities of both
// signs, or a NaN, give NaN.
func (s *SumF16) Round(d num.DType) uint32 {
	switch {
	case s.hasNaN || s.hasPosInf && s.hasNegInf:
		return num.Narrow(d, float32(math.NaN()))
	case s.hasPosInf:
		return num.Narrow(d, float32(math.Inf(1)))
	case s.hasNegInf:
		return num.Narrow(d, float32(math.Inf(-1)))
	}
	return RoundBig(d, s.big())
}

// big is the sum itself.
func (s *SumF16) big() *big.Float {
	high, low, isNegative := s.high, s.low, int64(s.high) < 0
	if isNegative {
		var borrow uint64
		low, borrow = bits.Sub64(0, low, 0)
		high, _ = bits.Sub64(0, high, borrow)
	}
	units := new(big.Int).SetUint64(high)
	units.Lsh(units, 64).Or(units, new(big.Int).SetUint64(low))
	if isNegative {
		units.Neg(units)
	}
	sum := new(big.Float).SetPrec(600).SetInt(units)
	sum.SetMantExp(sum, -24)
	return sum.Add(sum, new(big.Float).SetFloat64(float64(s.old))) // exact: all bits lie in [-149, 150)
}

// RoundBig rounds a number once, to nearest even. Zero gives +0.
func RoundBig(d num.DType, x *big.Float) uint32 {
	if x.Sign() == 0 {
		return 0
	}
	// x rounded to odd in binary64 rounds to d as x does: binary64 has more than
	// two bits beyond any d, and a wider range.
	y := new(big.Float).SetPrec(53).SetMode(big.ToZero).Set(x)
	f, _ := y.Float64()
	if y.Cmp(x) != 0 {
		f = math.Float64frombits(math.Float64bits(f) | 1)
	}
	return num.NarrowF64(d, f)
}
