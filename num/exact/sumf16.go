package exact

import (
	"math"
	"math/bits"

	"tokitai/num"
)

// SumF16 is an exact sum of stored values. The zero value is an empty sum.
//
// It is one integer of 320 bits in units of 2^-152. Every finite f16 is an integer
// multiple of 2^-24, the lowest bit of the third word, and below 2^40 of those, so
// adding one touches the upper three words; any other format spans two or three
// words further down or up, down to 2^-149. There is room for 2^39 terms of any
// size. Since nothing is ever lost, the order of the terms cannot matter.
type SumF16 struct {
	words [5]uint64 // two's complement, low word first

	hasNaN, hasPosInf, hasNegInf bool
}

const sumUnit = -152

// Add adds an f16 pattern. Everything but the test for NaN and infinity is free of
// branches, which signs and magnitudes would mispredict.
func (s *SumF16) Add(pattern uint16) {
	exponent, fraction := int64(pattern>>10&31), int64(pattern&0x3ff)
	if exponent == 31 {
		s.addSpecial(fraction != 0, pattern>>15 != 0)
		return
	}
	isNormal := min(exponent, 1)
	units := (fraction | isNormal<<10) << uint(exponent-isNormal)
	sign := int64(int16(pattern)) >> 63 // 0 or -1
	units = (units ^ sign) - sign
	high := uint64(units >> 63) // not sign: -0 adds nothing
	var carry uint64
	s.words[2], carry = bits.Add64(s.words[2], uint64(units), 0)
	s.words[3], carry = bits.Add64(s.words[3], high, carry)
	s.words[4], _ = bits.Add64(s.words[4], high, carry)
}

// AddValue adds a pattern of any floating-point format.
func (s *SumF16) AddValue(d num.DType, pattern uint32) {
	if d == num.F16 {
		s.Add(uint16(pattern))
		return
	}
	v := num.Widen(d, pattern)
	if v-v != 0 {
		s.addSpecial(v != v, v < 0)
		return
	}
	u := math.Float32bits(v)
	m, e := uint64(u&(1<<23-1)), int(u>>23&0xff)-150
	if e == -150 {
		e = -149 // subnormal
	} else {
		m |= 1 << 23
	}
	i, n := (e-sumUnit)/64, uint(e-sumUnit)%64
	s.addWord(i, m<<n, v < 0)
	if high := m >> (64 - n); high != 0 {
		s.addWord(i+1, high, v < 0)
	}
}

// addWord adds or subtracts w at word i, with carry.
func (s *SumF16) addWord(i int, w uint64, isNegative bool) {
	var carry uint64
	if isNegative {
		s.words[i], carry = bits.Sub64(s.words[i], w, 0)
		for i++; carry != 0 && i < len(s.words); i++ {
			s.words[i], carry = bits.Sub64(s.words[i], 0, carry)
		}
		return
	}
	s.words[i], carry = bits.Add64(s.words[i], w, 0)
	for i++; carry != 0 && i < len(s.words); i++ {
		s.words[i], carry = bits.Add64(s.words[i], 0, carry)
	}
}

func (s *SumF16) addSpecial(isNaN, isNegative bool) {
	s.hasNaN = s.hasNaN || isNaN
	s.hasPosInf = s.hasPosInf || !isNaN && !isNegative
	s.hasNegInf = s.hasNegInf || !isNaN && isNegative
}

// Round returns the sum, rounded once to d. An exact zero is +0; a NaN, or infinities of
// both signs, give the canonical NaN.
func (s *SumF16) Round(d num.DType) uint32 {
	x := 0.0
	switch {
	case s.hasNaN || s.hasPosInf && s.hasNegInf:
		return num.Canonical(d, num.NarrowF64(d, math.NaN()))
	case s.hasPosInf:
		x = math.Inf(1)
	case s.hasNegInf:
		x = math.Inf(-1)
	default:
		x = oddWords(s.words[:], sumUnit)
	}
	return num.NarrowF64(d, x)
}
