package num

import (
	"math"
	"testing"
)

func TestIndexOrdersAllValues(t *testing.T) {
	for _, s := range slowFormats {
		d, last := s.dtype, int64(s.last())
		for i := -last; i <= last; i++ {
			p := FromIndex(d, i)
			if Index(d, p) != i {
				t.Fatalf("%v: Index(FromIndex(%d)) = %d", d, i, Index(d, p))
			}
			if i < last && !(Widen(d, p) < Widen(d, FromIndex(d, i+1))) {
				t.Fatalf("%v: the value of index %d is not below the next", d, i)
			}
			if up, want := NextUp(d, p), min(i+1, last); Index(d, up) != want {
				t.Fatalf("%v: NextUp(%#04x) = %#04x, want index %d", d, p, up, want)
			}
			if down, want := NextDown(d, p), max(i-1, -last); Index(d, down) != want {
				t.Fatalf("%v: NextDown(%#04x) = %#04x, want index %d", d, p, down, want)
			}
		}
	}
}

func TestIndexByHand(t *testing.T) {
	for _, c := range []struct {
		d    DType
		bits uint32
		want int64
	}{
		{F16, 0, 0}, {F16, 0x8000, 0}, {F16, 1, 1}, {F16, 0x8001, -1}, {F16, 0x7c00, 0x7c00}, {F16, 0xfc00, -0x7c00},
		{BF16, 0x7f80, 0x7f80}, {BF16, 0xbf80, -0x3f80},
		{F32, 0x80000000, 0}, {F32, 0xff800000, -0x7f800000}, {F32, 0x3f800000, 0x3f800000},
	} {
		if got := Index(c.d, c.bits); got != c.want {
			t.Errorf("Index(%v, %#x) = %d, want %d", c.d, c.bits, got, c.want)
		}
	}
	if got := FromIndex(F16, 1<<40); got != 0x7c00 {
		t.Errorf("FromIndex beyond infinity = %#x", got)
	}
	if got := FromIndex(F32, math.MinInt64+1); got != 0xff800000 {
		t.Errorf("FromIndex beyond -infinity = %#x", got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		d    DType
		a, b uint32
		want int64
	}{
		{F16, 0x0000, 0x8000, 0},
		{F16, 0x0001, 0x8001, 2},
		{F16, 0x7bff, 0x7c00, 1},
		{F16, 0x7c00, 0xfc00, 2 * 0x7c00},
		{F16, 0x7e00, 0xfe01, 0},
		{F16, 0x7e00, 0x7c00, math.MaxInt64},
		{BF16, 0x3f80, 0x7fc0, math.MaxInt64},
		{F32, 0x7f7fffff, 0xff7fffff, 2 * 0x7f7fffff},
		{E4M3, 0x7e, 0xfe, 2 * 0x7e},
		{E4M3, 0x7e, 0x7f, math.MaxInt64},
		{E4M3, 0xff, 0x7f, 0},
		{F32, 0x3f7fffff, 0x3f800001, 2},
	} {
		for _, got := range []int64{Distance(c.d, c.a, c.b), Distance(c.d, c.b, c.a)} {
			if got != c.want {
				t.Errorf("%v: from %#x to %#x are %d steps, want %d", c.d, c.a, c.b, got, c.want)
			}
		}
	}
}

func TestNextByHand(t *testing.T) {
	for _, c := range []struct {
		d              DType
		bits, up, down uint32
	}{
		{F16, 0x0000, 0x0001, 0x8001},
		{F16, 0x8000, 0x0001, 0x8001},
		{F16, 0x0001, 0x0002, 0x0000},
		{F16, 0x8001, 0x8000, 0x8002},
		{F16, 0x7c00, 0x7c00, 0x7bff},
		{F16, 0xfc00, 0xfbff, 0xfc00},
		{F16, 0x7e01, 0x7e01, 0x7e01},
		{BF16, 0x007f, 0x0080, 0x007e},
		{F32, 0x7f7fffff, 0x7f800000, 0x7f7ffffe},
		{F32, 0x80800000, 0x807fffff, 0x80800001},
		{F32, 0xff800001, 0xff800001, 0xff800001},
		{E4M3, 0x7e, 0x7e, 0x7d},
		{E4M3, 0xfe, 0xfd, 0xfe},
		{E4M3, 0x7f, 0x7f, 0x7f},
		{E4M3, 0x80, 0x01, 0x81},
		{E5M2, 0x7b, 0x7c, 0x7a},
		{E5M2, 0x7c, 0x7c, 0x7b},
	} {
		if up, down := NextUp(c.d, c.bits), NextDown(c.d, c.bits); up != c.up || down != c.down {
			t.Errorf("%v %#x: neighbours %#x and %#x, want %#x and %#x", c.d, c.bits, down, up, c.down, c.up)
		}
	}
}

// TestULPIsTheGap holds ULP against the gap to the next value, at every value and
// just below the next.
func TestULPIsTheGap(t *testing.T) {
	for _, s := range slowFormats {
		for p := range len(s.values) - 1 {
			lo, hi := s.values[p], s.values[p+1]
			for _, x := range []float64{lo, -lo, math.Nextafter(hi, 0), -math.Nextafter(hi, 0)} {
				if got := ULP(s.dtype, x); got != hi-lo {
					t.Fatalf("ULP(%v, %v) = %v, want %v", s.dtype, x, got, hi-lo)
				}
			}
		}
	}
	for _, c := range []struct {
		d       DType
		x, want float64
	}{
		{F16, 65519, 32}, {F16, 1e300, 32}, {F16, math.Inf(-1), 32}, {F16, 0x1p-1074, 0x1p-24},
		{BF16, math.Inf(1), 0x1p120}, {BF16, 0, 0x1p-133},
		{F32, 1, 0x1p-23}, {F32, 0x1.ffffffp0, 0x1p-23}, {F32, 0, 0x1p-149}, {F32, 0x1p-126, 0x1p-149}, {F32, 1e300, 0x1p104},
		{I8, 0, 1}, {I32, -0x1p30, 1}, {I64, 0x1p62, 1},
	} {
		if got := ULP(c.d, c.x); got != c.want {
			t.Errorf("ULP(%v, %v) = %v, want %v", c.d, c.x, got, c.want)
		}
	}
	if got := ULP(F16, math.NaN()); got == got {
		t.Errorf("ULP of NaN = %v", got)
	}
}

func TestMaxFinite(t *testing.T) {
	for d, want := range map[DType]float64{F16: 65504, BF16: 0x1.fep127, F32: math.MaxFloat32, E4M3: 448, E5M2: 57344, I8: 127, I32: 1<<31 - 1, I64: 1 << 63} {
		if got := MaxFinite(d); got != want {
			t.Errorf("MaxFinite(%v) = %v, want %v", d, got, want)
		}
	}
}

func TestIndexOfIntegers(t *testing.T) {
	if i, n := Index(I32, uint32(0xffffffff)), Distance(I32, uint32(0x80000000), 0x7fffffff); i != -1 || n != 1<<32-1 {
		t.Errorf("Index of -1 is %d, and from the least to the greatest i32 it is %d, want -1 and 2^32-1", i, n)
	}
}
