package num

import "math"

// The two formats of the Open Compute Project's "OCP 8-bit Floating Point Specification",
// revision 1.0. E5M2 has the values of IEEE formats: infinities, and three NaNs of either
// sign. E4M3 uses the topmost exponent for numbers too, so that it reaches 448; it has no
// infinities, and the pattern of all ones is its NaN.
//
// The specification has two ways to convert a number beyond the range, and here it is the
// one without saturation: the number is rounded as if exponents had no limit, and if that
// is larger than the largest finite value, the result is infinite in E5M2 (from 61440 on)
// and NaN in E4M3 (above 464; 464 itself is a tie, and 448 is even). A number that is
// clipped would look like one that is right. (PyTorch 2.15 saturates in E4M3, and does not in
// E5M2; earlier versions saturate in neither.)

// E4M3ToF32 widens an E4M3 pattern exactly.
func E4M3ToF32(p uint8) float32 { return e4m3Values[p] }

// E5M2ToF32 widens an E5M2 pattern exactly.
func E5M2ToF32(p uint8) float32 { return e5m2Values[p] }

// E4M3sToF32s widens src into dst, which must be at least as long.
func E4M3sToF32s(dst []float32, src []uint8) {
	dst = dst[:len(src)]
	for i, p := range src {
		dst[i] = e4m3Values[p]
	}
}

// E5M2sToF32s widens src into dst, which must be at least as long.
func E5M2sToF32s(dst []float32, src []uint8) {
	dst = dst[:len(src)]
	for i, p := range src {
		dst[i] = e5m2Values[p]
	}
}

var (
	e4m3Values = e4m3Format.values()
	e5m2Values = e5m2Format.values()
)

// values returns the values of all patterns of a format of one byte.
func (f *format) values() (values [256]float32) {
	for p := range uint32(len(values)) {
		sign, magnitude := p&f.sign<<24, f.magnitude(p)
		t := f.unpack(magnitude)
		switch v := math.Ldexp(float64(t.significand), t.exponent-f.fraction); {
		case magnitude > f.largest: // sign and payload are kept
			values[p] = math.Float32frombits(sign | 0x7f800000 | magnitude<<(23-f.fraction)&0x7fffff)
		default:
			values[p] = math.Float32frombits(sign | math.Float32bits(float32(v)))
		}
	}
	return values
}
