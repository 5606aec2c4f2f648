package num

import "math"

// BF16ToF32 widens a bfloat16 pattern exactly.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// BF16sToF32s widens src into dst, which must be at least as long.
func BF16sToF32s(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	for i, h := range src {
		dst[i] = math.Float32frombits(uint32(h) << 16)
	}
}

// F32ToBF16 rounds once to bfloat16, to nearest even. A value that rounds beyond the
// largest finite one becomes infinite.
func F32ToBF16(x float32) uint16 { return narrowBF16(math.Float32bits(x)) }

// F32sToBF16s narrows src into dst, which must be at least as long.
func F32sToBF16s(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = narrowBF16(math.Float32bits(x))
	}
}

func narrowBF16(b uint32) uint16 {
	if b&^(1<<31) > 0x7f800000 {
		return uint16(b>>16 | 0x40)
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// F64ToBF16 rounds once to bfloat16, to nearest even, never through binary32.
func F64ToBF16(x float64) uint16 { return uint16(bf16Format.round(x)) }
