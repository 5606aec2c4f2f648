package num

import (
	"math"
	"testing"
)

func FuzzF16(f *testing.F)  { fuzzNarrow(f, slowFormats[0], 0x7bff, 0x477ff000, 0x40effe0000000000) }
func FuzzBF16(f *testing.F) { fuzzNarrow(f, slowFormats[1], 0x7f7f, 0x7f7f8000, 0x47eff00000000000) }

// fuzzNarrow seeds with the edges common to both formats and the given ones.
func fuzzNarrow(f *testing.F, s slowFormat, pattern uint16, bits32 uint32, bits64 uint64) {
	f.Add(uint16(0), uint32(0), uint64(0))
	f.Add(uint16(0x8001), uint32(0x80000001), uint64(1<<63|1))
	f.Add(uint16(0xffff), uint32(0xff800001), uint64(0x7ff0000000000001))
	f.Add(pattern, bits32, bits64)
	f.Add(pattern+1, bits32-1, bits64-1)
	f.Fuzz(func(t *testing.T, pattern uint16, bits32 uint32, bits64 uint64) {
		checkNarrow(t, s, math.Float32frombits(bits32))
		checkNarrowF64(t, s, math.Float64frombits(bits64))
		p := uint32(pattern)
		if back := Narrow(s.dtype, Widen(s.dtype, p)); Canonical(s.dtype, back) != Canonical(s.dtype, p) {
			t.Errorf("%v %#04x comes back as %#04x", s.dtype, p, back)
		}
	})
}

func FuzzFMA(f *testing.F) {
	f.Add(uint32(0x3f800001), uint32(0x33800000), uint32(0x3f800000)) // halfway and a little more
	f.Add(uint32(0x5f800000), uint32(0x5f800000), uint32(0xff000000)) // 2^64·2^64 - 2^127
	f.Add(uint32(0x1a000000), uint32(0x1a400000), uint32(0x00000001)) // subnormal
	f.Add(uint32(0x80000000), uint32(0x3f800000), uint32(0x80000000))
	f.Fuzz(func(t *testing.T, a, b, c uint32) {
		checkFMA(t, newBigFMA(), math.Float32frombits(a), math.Float32frombits(b), math.Float32frombits(c))
	})
}
