package num

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/x448/float16"
)

func TestWidenAllPatterns(t *testing.T) {
	for _, s := range slowFormats {
		f := s.dtype.format()
		for p := range 2 * uint32(s.sign) {
			got, magnitude := Widen(s.dtype, p), p&(uint32(s.sign)-1)
			isNegative := p != magnitude
			if magnitude > uint32(s.last()) {
				want := 0xff<<23 | p<<(23-f.fraction)&(1<<23-1)
				if isNegative {
					want |= 1 << 31
				}
				if math.Float32bits(got) != want {
					t.Fatalf("%v %#04x: got %#08x, want NaN %#08x with its payload", s.dtype, p, math.Float32bits(got), want)
				}
				continue
			}
			want := s.values[magnitude]
			if magnitude == uint32(s.last()) && s.dtype != E4M3 {
				want = math.Inf(1)
			}
			if isNegative {
				want = -want
			}
			if math.Float64bits(float64(got)) != math.Float64bits(want) {
				t.Fatalf("%v %#04x: got %v, want %v", s.dtype, p, got, want)
			}
			if s.dtype == F16 && got != float16.Frombits(uint16(p)).Float32() {
				t.Fatalf("f16 %#04x: got %v, x448/float16 has %v", p, got, float16.Frombits(uint16(p)).Float32())
			}
		}
	}
}

func TestNarrowRoundTrip(t *testing.T) {
	for _, s := range slowFormats {
		d := s.dtype
		for p := range 2 * uint32(s.sign) {
			want := p
			if IsNaN(d, p) {
				want |= d.format().nan // quiet, sign and payload kept
			}
			x := Widen(d, p)
			if got := Narrow(d, x); got != want {
				t.Fatalf("%v %#04x: back from binary32 as %#04x, want %#04x", d, p, got, want)
			}
			if got := NarrowF64(d, float64(x)); got != want {
				// The conversion to binary64 quiets the NaN, which is the same.
				t.Fatalf("%v %#04x: back from binary64 as %#04x, want %#04x", d, p, got, want)
			}
		}
	}
}

// TestNarrowBoundaries visits both sides of every point where rounding changes,
// and every value of the format, the overflow to infinity included.
func TestNarrowBoundaries(t *testing.T) {
	for _, s := range slowFormats {
		for p := range len(s.values) - 1 {
			lo, hi := s.values[p], s.values[p+1]
			for _, at := range []float64{lo, (lo + hi) / 2, hi} {
				for _, sign := range []float64{1, -1} {
					checkNarrowAround(t, s, sign*at)
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}

// checkNarrowAround checks 3 binary32 neighbours and 1 binary64 neighbour on
// either side of x.
func checkNarrowAround(t *testing.T, s slowFormat, x float64) {
	t.Helper()
	if x32 := float32(x); float64(x32) == x {
		for i := int64(-3); i <= 3; i++ {
			checkNarrow(t, s, Widen(F32, FromIndex(F32, Index(F32, math.Float32bits(x32))+i)))
		}
	}
	for _, x64 := range []float64{math.Nextafter(x, math.Inf(-1)), x, math.Nextafter(x, math.Inf(1))} {
		checkNarrowF64(t, s, x64)
	}
}

func checkNarrow(t *testing.T, s slowFormat, x float32) {
	t.Helper()
	got, want := Canonical(s.dtype, Narrow(s.dtype, x)), uint32(s.round(float64(x)))
	if got != want {
		t.Errorf("%v of binary32 %v (%#08x): got %#04x, want %#04x", s.dtype, x, math.Float32bits(x), got, want)
	}
	if s.dtype != F16 {
		return
	}
	if other := Canonical(F16, uint32(float16.Fromfloat32(x).Bits())); got != other {
		t.Errorf("f16 of binary32 %v (%#08x): got %#04x, x448/float16 has %#04x", x, math.Float32bits(x), got, other)
	}
}

func checkNarrowF64(t *testing.T, s slowFormat, x float64) {
	t.Helper()
	if got, want := Canonical(s.dtype, NarrowF64(s.dtype, x)), uint32(s.round(x)); got != want {
		t.Errorf("%v of binary64 %v (%#016x): got %#04x, want %#04x", s.dtype, x, math.Float64bits(x), got, want)
	}
}

func TestNarrowRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		for _, s := range slowFormats {
			checkNarrow(t, s, math.Float32frombits(r.Uint32()))
			checkNarrowF64(t, s, math.Float64frombits(r.Uint64()))
			checkNarrowF64(t, s, math.Ldexp(1+r.Float64(), r.IntN(300)-160))
		}
		if t.Failed() {
			return
		}
	}
}

func TestNarrowByHand(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		d    DType
		x    float64
		want uint32
	}{
		{F16, 1, 0x3c00},
		{F16, 0, 0},
		{F16, math.Copysign(0, -1), 0x8000},
		{F16, 65504, 0x7bff},
		{F16, 65519.99, 0x7bff},
		{F16, 65520, 0x7c00},
		{F16, -65520, 0xfc00},
		{F16, 1e300, 0x7c00},
		{F16, -inf, 0xfc00},
		{F16, 0x1p-24, 1},
		{F16, 0x1p-25, 0}, // tie between 0 and the smallest subnormal
		{F16, 0x1.000002p-25, 1},
		{F16, 0x1.ffcp-15, 0x0400}, // tie between the largest subnormal and the smallest normal
		{F16, -0x1p-1074, 0x8000},
		{F16, 1 + 0x1p-11, 0x3c00},           // tie
		{F16, 1 + 0x1p-11 + 0x1p-40, 0x3c01}, // through binary32 it would be a tie
		{BF16, 1 + 0x1p-8, 0x3f80},
		{BF16, 1 + 0x1p-8 + 0x1p-40, 0x3f81},
		{BF16, 0x1.fep127, 0x7f7f},
		{BF16, 0x1.ffp127, 0x7f80}, // tie between the largest finite value and 2^128
		{BF16, 0x1.feffp127, 0x7f7f},
		{BF16, 0x1p-133, 1},
		{BF16, 0x1p-134, 0},
		{BF16, 0x1.8p-133, 2}, // tie
		{BF16, -inf, 0xff80},
		{F32, 1 + 0x1p-24 + 0x1p-50, 0x3f800001},
		{E4M3, 1, 0x38},
		{E4M3, math.Copysign(0, -1), 0x80},
		{E4M3, 448, 0x7e},
		{E4M3, 464, 0x7e}, // tie: 480, which would be odd, is the pattern of NaN
		{E4M3, 464.0001, 0x7f},
		{E4M3, 500, 0x7f},
		{E4M3, -1e30, 0xff},
		{E4M3, inf, 0x7f},
		{E4M3, -inf, 0xff},
		{E4M3, 0x1p-9, 1},
		{E4M3, 0x1p-10, 0}, // tie between 0 and the smallest subnormal
		{E4M3, -0x1.8p-9, 0x82},
		{E4M3, 0x1.ep-7, 0x08}, // tie between the largest subnormal and the smallest normal
		{E4M3, 1 + 0x1p-4, 0x38},
		{E4M3, 1 + 0x1p-4 + 0x1p-40, 0x39},
		{E5M2, 1, 0x3c},
		{E5M2, 57344, 0x7b},
		{E5M2, 61439.99, 0x7b},
		{E5M2, 61440, 0x7c},
		{E5M2, -inf, 0xfc},
		{E5M2, 0x1p-16, 1},
		{E5M2, 0x1p-17, 0},
		{E5M2, 1 + 0x1p-3, 0x3c},
		{E5M2, 1 + 0x1p-3 + 0x1p-40, 0x3d},
	} {
		if got := NarrowF64(c.d, c.x); got != c.want {
			t.Errorf("%v of binary64 %v: got %#04x, want %#04x", c.d, c.x, got, c.want)
		}
		if x := float32(c.x); float64(x) == c.x {
			if got := Narrow(c.d, x); got != c.want {
				t.Errorf("%v of binary32 %v: got %#04x, want %#04x", c.d, c.x, got, c.want)
			}
		}
	}
}

// TestBulk runs every length up to 40 at every offset up to 3, with sentinels
// after the end, against one value at a time.
func TestBulk(t *testing.T) {
	const canary16, canary32 = 0x5a5a, 12345
	r := rand.New(rand.NewPCG(3, 4))
	for _, f := range []struct {
		name   string
		widen  func([]float32, []uint16)
		narrow func([]uint16, []float32)
		dtype  DType
	}{
		{"f16", F16sToF32s, F32sToF16s, F16},
		{"bf16", BF16sToF32s, F32sToBF16s, BF16},
	} {
		for n := range 40 {
			for offset := range 4 {
				narrow, wide := make([]uint16, offset+n+1), make([]float32, offset+n+1)
				for i := range narrow {
					narrow[i], wide[i] = uint16(r.Uint32()), math.Float32frombits(r.Uint32())
				}
				gotWide, gotNarrow := make([]float32, offset+n+1), make([]uint16, offset+n+1)
				gotWide[offset+n], gotNarrow[offset+n] = canary32, canary16
				f.widen(gotWide[offset:], narrow[offset:offset+n])
				f.narrow(gotNarrow[offset:], wide[offset:offset+n])
				for i := offset; i < offset+n; i++ {
					if got, want := math.Float32bits(gotWide[i]), math.Float32bits(Widen(f.dtype, uint32(narrow[i]))); got != want {
						t.Fatalf("%s n=%d offset=%d: widened [%d] to %#08x, want %#08x", f.name, n, offset, i, got, want)
					}
					if got, want := uint32(gotNarrow[i]), Narrow(f.dtype, wide[i]); got != want {
						t.Fatalf("%s n=%d offset=%d: narrowed [%d] to %#04x, want %#04x", f.name, n, offset, i, got, want)
					}
				}
				if gotWide[offset+n] != canary32 || gotNarrow[offset+n] != canary16 {
					t.Fatalf("%s n=%d offset=%d: wrote beyond the end", f.name, n, offset)
				}
			}
		}
	}
}

func TestCanonical(t *testing.T) {
	for _, c := range []struct {
		d          DType
		bits, want uint32
	}{
		{F16, 0x7c01, 0x7e00}, {F16, 0xffff, 0x7e00}, {F16, 0x7c00, 0x7c00}, {F16, 0xfc00, 0xfc00}, {F16, 0x8000, 0x8000},
		{BF16, 0x7f81, 0x7fc0}, {BF16, 0xffc0, 0x7fc0}, {BF16, 0xff80, 0xff80}, {BF16, 0x7f7f, 0x7f7f},
		{F32, 0x7fffffff, 0x7fc00000}, {F32, 0xff800001, 0x7fc00000}, {F32, 0xff800000, 0xff800000}, {F32, 0x80000000, 0x80000000},
		{I32, 0x7fffffff, 0x7fffffff},
		{E4M3, 0xff, 0x7f}, {E4M3, 0xfe, 0xfe}, {E4M3, 0x7e, 0x7e}, {E4M3, 0x80, 0x80},
		{E5M2, 0x7d, 0x7e}, {E5M2, 0xff, 0x7e}, {E5M2, 0xfc, 0xfc}, {E5M2, 0x7b, 0x7b},
	} {
		if got := Canonical(c.d, c.bits); got != c.want {
			t.Errorf("%v %#x: got %#x, want %#x", c.d, c.bits, got, c.want)
		}
		if got, want := IsNaN(c.d, c.bits), c.bits != c.want || c.bits == 0x7fc00000; got != want {
			t.Errorf("%v %#x: IsNaN is %v", c.d, c.bits, got)
		}
	}
}

// Subnormals of f16 are kept, and 2^-14 is the smallest normal, not 2.
func TestAncestor22_SubnormalsAndSmallestNormal(t *testing.T) {
	for _, test := range []struct {
		value   float32
		pattern uint16
	}{
		{0x1p-14, 0x0400}, {-0x1p-14, 0x8400}, {2, 0x4000},
		{0x1p-24, 0x0001}, {0x1.8p-23, 0x0003}, {0x1.ff8p-15, 0x03ff}, {-0x1p-15, 0x8200},
	} {
		if got := F32ToF16(test.value); got != test.pattern {
			t.Errorf("%x: got 0x%04x, want 0x%04x", test.value, got, test.pattern)
		}
		if got := F16ToF32(test.pattern); got != test.value {
			t.Errorf("0x%04x: got %x, want %x", test.pattern, got, test.value)
		}
	}
}
