package num

import "math"

// Both conversions of binary16 select a table row by sign and exponent, then do one
// load or one addition. A branch for subnormals would be mispredicted on data around
// 2^-14. The tables take 13 KB, so they stay in the first-level cache; a table of all
// 65,536 values would not.

// F16ToF32 widens a binary16 pattern exactly.
func F16ToF32(h uint16) float32 { return math.Float32frombits(widenF16(h)) }

// F16sToF32s widens src into dst, which must be at least as long.
func F16sToF32s(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	for i, h := range src {
		dst[i] = math.Float32frombits(widenF16(h))
	}
}

func widenF16(h uint16) uint32 {
	row := &f16Widen[h>>10]
	return row.base + f16Fraction[(row.fractions+uint32(h&0x3ff))%2048]
}

// f16Widen is indexed by sign and exponent of a binary16 pattern.
var f16Widen = func() (rows [64]struct {
	base      uint32 // sign and exponent of the binary32 pattern
	fractions uint32 // index in f16Fraction of this exponent's fractions
}) {
	for i := range rows {
		row, e := &rows[i], uint32(i)&31
		row.base = uint32(i) >> 5 << 31
		switch e {
		case 0:
			continue
		case 31:
			row.base |= 0xff << 23
		default:
			row.base |= (e + 127 - 15) << 23
		}
		row.fractions = 1024
	}
	return rows
}()

// f16Fraction holds the whole patterns of the 1,024 subnormals and zero, then
// the 1,024 fractions of every other exponent.
var f16Fraction = func() (fractions [2048]uint32) {
	for i := range uint32(1024) {
		fractions[i] = math.Float32bits(float32(i) * 0x1p-24)
		fractions[1024+i] = i << 13
	}
	return fractions
}()

// F32ToF16 rounds once to binary16, to nearest even. Magnitudes from 65520 on become
// infinite.
func F32ToF16(x float32) uint16 { return narrowF16(math.Float32bits(x)) }

// F32sToF16s narrows src into dst, which must be at least as long.
func F32sToF16s(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = narrowF16(math.Float32bits(x))
	}
}

// narrowF16 rounds with one addition. With 2^E the binade of |x|, but never below
// f16's smallest normal one, the sum 2^(E+13) + |x| has its last bit at 2^(E-10),
// like f16: the fraction of the sum is |x| in units of f16, rounded to nearest even,
// hidden bit included.
func narrowF16(b uint32) uint16 {
	row := &f16Narrow[b>>23]
	abs := b &^ (1 << 31)
	if abs > 0x7f800000 {
		return uint16(b>>16&0x8000 | 0x7e00 | abs>>13&0x3ff)
	}
	return uint16(math.Float32bits(math.Float32frombits(abs)+row.magic)) + row.base
}

// f16Narrow is indexed by sign and exponent of a binary32 pattern.
var f16Narrow = func() (rows [512]struct {
	magic float32 // 2^(E+13); infinity, whose fraction is zero, beyond f16's range
	base  uint16  // sign and exponent; one less than E's, as the sum counts the hidden bit
}) {
	for i := range rows {
		row, e := &rows[i], max(i&0xff-127, -14)
		row.base = uint16(i >> 8 << 15)
		if e > 15 {
			row.magic = float32(math.Inf(1))
			row.base |= 0x7c00
			continue
		}
		row.magic = float32(math.Ldexp(1, e+13))
		row.base |= uint16(e+14) << 10
	}
	return rows
}()

// F64ToF16 rounds once to binary16, to nearest even, never through binary32.
func F64ToF16(x float64) uint16 { return uint16(f16Format.round(x)) }
