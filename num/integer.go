package num

import "math"

// SignExtend returns the integer of a pattern of d, a format of integers.
func SignExtend(d DType, bits uint64) int64 {
	switch d {
	case I8:
		return int64(int8(bits))
	case I32:
		return int64(int32(bits))
	case I64:
		return int64(bits)
	}
	panic("num: " + d.String() + " is not a format of integers")
}

// Stored returns the pattern of d that stores v, rounded once to nearest even.
func Stored(d DType, v float32) uint64 {
	if d.IsInteger() {
		return NearestInteger(d, v)
	}
	return uint64(Narrow(d, v))
}

// NearestInteger returns the pattern of the integer of d nearest to v, ties to even. What is
// beyond the format's range becomes its least or greatest integer, and NaN becomes 0. It
// fills operands of tests: no definition converts a real value to an integer by storing it.
func NearestInteger(d DType, v float32) uint64 {
	width := 8 * d.Size()
	least := int64(-1) << (width - 1)
	switch x := math.RoundToEven(float64(v)); {
	case x != x:
		return 0
	case x >= -float64(least):
		return uint64(^least)
	case x < float64(least):
		return uint64(least) & (1<<width - 1)
	default:
		return uint64(int64(x)) & (1<<width - 1)
	}
}
