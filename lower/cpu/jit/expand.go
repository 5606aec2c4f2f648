package jit

import "tokitai/num"

// Nodes that no processor has an instruction for, in terms of those it has.

// canonicalNaN is the NaN that a rounding to bf16 gives: any other could become an infinity
// when its low half is cut off.
const canonicalNaN = 0x7fc00000

// round rounds to a storage format and back.
func (s *selector) round(format num.DType, x value) value {
	switch format {
	case num.F16:
		return s.add(opRoundF16, x)
	case num.BF16:
		return s.add(opAnd, s.roundHigh(x), s.constant(0xffff0000))
	}
	return x
}

// roundHigh rounds to bf16 in the high half, and leaves anything in the low half.
func (s *selector) roundHigh(x value) value {
	if s.roundsHigh {
		return s.add(opRoundHigh, x)
	}
	odd := s.add(opAnd, s.shift(opShrUBy, x, 16), s.constant(1))
	r := s.add(opIntAdd, s.add(opIntAdd, x, s.constant(0x7fff)), odd)
	return s.choose(notEqual, x, x, s.constant(canonicalNaN), r)
}

// scale returns (x·2^a)·2^(n−a) with a = ⌊n/2⌋.
func (s *selector) scale(x, n value) value {
	clamped := s.add(opMax, s.add(opMin, s.add(opRint, n), s.float(254)), s.float(-252))
	k := s.add(opFloatToInt, clamped)
	a := s.shift(opShrBy, k, 1)
	power := func(k value) value {
		return s.shift(opShlBy, s.add(opIntAdd, k, s.constant(127)), 23)
	}
	y := s.add(opMul, s.add(opMul, x, power(a)), power(s.add(opIntSub, k, a)))
	return s.choose(notEqual, n, n, n, y)
}

// stochasticRound rounds to a storage format by a random word; see num.StochasticRound. A
// part q/2^32 of the way to the upper neighbour is compared with the word.
func (s *selector) stochasticRound(format num.DType, x, word value) value {
	if format != num.F16 && format != num.BF16 {
		return x
	}
	abs := s.add(opAnd, x, s.constant(signBit-1))
	sign := s.add(opAnd, x, s.constant(signBit))
	drop, most := int32(16), uint32(0x7f7f0000) // bits below the format's last, largest finite value
	if format == num.F16 {
		drop, most = 13, bitsOf(65504)
	}
	low := s.constant(1<<drop - 1)
	goesUp := func(q value) value { return s.mask(belowUnsigned, word, q) }

	q := s.shift(opShlBy, s.add(opAnd, abs, low), 32-drop)
	step := s.add(opAnd, goesUp(q), s.constant(1<<drop))
	r := s.add(opIntAdd, s.add(opAndNot, abs, low), step)
	if format == num.F16 {
		// Below 2^-14 the values of f16 are the multiples of 2^-24.
		t := s.add(opMul, abs, s.float(0x1p24))
		n := s.add(opFloatToInt, t)
		rest := s.add(opMul, s.add(opSub, t, s.add(opIntToFloat, n)), s.float(0x1p16))
		high := s.add(opFloatToInt, rest)
		rest = s.add(opMul, s.add(opSub, rest, s.add(opIntToFloat, high)), s.float(0x1p16))
		q := s.add(opOr, s.shift(opShlBy, high, 16), s.add(opFloatToInt, rest))
		up := s.add(opIntSub, n, goesUp(q)) // a mask is -1
		tiny := s.add(opMul, s.add(opIntToFloat, up), s.float(0x1p-24))
		r = s.choose(less, abs, s.float(0x1p-14), tiny, r)
	}
	r = s.add(opOr, r, sign)
	// The patterns of finite values that the format has are in order; NaN is above them.
	return s.choose(intLess, s.constant(most), abs, s.round(format, x), r)
}

// The constants of Philox 4x32-10.
const (
	philoxRounds                   = 10
	philoxFactor0, philoxFactor1   = 0xD2511F53, 0xCD9E8D57
	philoxKeyStep0, philoxKeyStep1 = 0x9E3779B9, 0xBB67AE85
)

// element returns the numbers of elements, counted from 0 or from a number that is given as its
// low and its high word.
func (s *selector) element(first ...value) (low, high value) {
	rowLow, rowHigh := s.at(&s.elementLow), s.at(&s.elementHigh)
	if len(first) > 0 { // the same in a whole row
		rowLow = s.add(opIntAdd, rowLow, first[0])
		carry := s.mask(belowUnsigned, rowLow, first[0])
		rowHigh = s.add(opIntSub, s.add(opIntAdd, rowHigh, first[1]), carry)
	}
	column := s.add(opColumn)
	low = s.add(opIntAdd, rowLow, column)
	carry := s.mask(belowUnsigned, low, column)
	return low, s.add(opIntSub, rowHigh, carry)
}

// random returns the Philox word of each element; see num.Philox.
func (s *selector) random(seedLow, seedHigh, tensor, step value, first ...value) value {
	low, high := s.element(first...)
	c := [4]value{
		s.add(opOr, s.shift(opShrUBy, low, 2), s.shift(opShlBy, high, 30)),
		s.shift(opShrUBy, high, 2), tensor, step,
	}
	return s.philox(seedLow, seedHigh, c, low)
}

// randomRow returns the Philox word of each column, by the words of the row.
func (s *selector) randomRow(seedLow, seedHigh, a, b, use value) value {
	column := s.add(opColumn)
	return s.philox(seedLow, seedHigh, [4]value{s.shift(opShrUBy, column, 2), a, b, use}, column)
}

// philox returns the word of each counter that number mod 4 names. Every lane computes the
// four words of its counter and takes one.
func (s *selector) philox(seedLow, seedHigh value, c [4]value, number value) value {
	k0, k1 := seedLow, seedHigh
	for round := range philoxRounds {
		if round > 0 {
			k0 = s.add(opIntAdd, k0, s.constant(philoxKeyStep0))
			k1 = s.add(opIntAdd, k1, s.constant(philoxKeyStep1))
		}
		m0, m1 := s.constant(philoxFactor0), s.constant(philoxFactor1)
		high0, low0 := s.add(opMulHigh, c[0], m0), s.add(opIntMul, c[0], m0)
		high1, low1 := s.add(opMulHigh, c[2], m1), s.add(opIntMul, c[2], m1)
		c = [4]value{
			s.add(opXor, s.add(opXor, high1, c[1]), k0), low1,
			s.add(opXor, s.add(opXor, high0, c[3]), k1), low0,
		}
	}
	word := s.add(opAnd, number, s.constant(3))
	r := s.choose(intEqual, word, s.constant(1), c[1], c[0])
	r = s.choose(intEqual, word, s.constant(2), c[2], r)
	return s.choose(intEqual, word, s.constant(3), c[3], r)
}

// nextElements selects the code that moves the flat index on by a row.
func (s *selector) nextElements() {
	if s.elementLow == 0 {
		return
	}
	step := s.at(&s.stepLow)
	low := s.add(opIntAdd, s.at(&s.elementLow), step)
	carry := s.mask(belowUnsigned, low, step)
	high := s.add(opIntSub, s.add(opIntAdd, s.at(&s.elementHigh), s.at(&s.stepHigh)), carry)
	s.addWith(instruction{op: opMove, keep: s.elementHigh}, high)
	s.addWith(instruction{op: opMove, keep: s.elementLow}, low)
}
