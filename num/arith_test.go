package num

import (
	"math"
	"math/rand/v2"
	"testing"
)

var (
	inf32          = float32(math.Inf(1))
	nan32          = float32(math.NaN())
	negativeZero32 = float32(math.Copysign(0, -1))
)

// same compares bits, all NaNs being one.
func same(a, b float32) bool {
	return Canonical(F32, math.Float32bits(a)) == Canonical(F32, math.Float32bits(b))
}

func TestMaxMin(t *testing.T) {
	for _, c := range []struct{ a, b, max, min float32 }{
		{1, 2, 2, 1},
		{0, negativeZero32, 0, negativeZero32},
		{-inf32, inf32, inf32, -inf32},
		{nan32, 1, nan32, nan32},
		{inf32, nan32, nan32, nan32},
		{-0x1p-149, negativeZero32, negativeZero32, -0x1p-149},
	} {
		for _, swapped := range []bool{false, true} {
			a, b := c.a, c.b
			if swapped {
				a, b = b, a
			}
			if got := Max(a, b); !same(got, c.max) {
				t.Errorf("Max(%v, %v) = %v, want %v", a, b, got, c.max)
			}
			if got := Min(a, b); !same(got, c.min) {
				t.Errorf("Min(%v, %v) = %v, want %v", a, b, got, c.min)
			}
		}
	}
}

func TestRint(t *testing.T) {
	for _, c := range []struct{ x, want float32 }{
		{0.5, 0}, {1.5, 2}, {2.5, 2}, {-0.5, negativeZero32}, {-1.5, -2}, {-0.25, negativeZero32},
		{0x1.fffffep-2, 0}, {0x1.000002p-1, 1}, {0x1p23 - 0.5, 0x1p23}, {0x1p23 + 1, 0x1p23 + 1}, {1e30, 1e30},
		{0, 0}, {negativeZero32, negativeZero32}, {inf32, inf32}, {-inf32, -inf32}, {nan32, nan32}, {-0x1p-149, negativeZero32},
	} {
		if got := Rint(c.x); !same(got, c.want) {
			t.Errorf("Rint(%v) = %v, want %v", c.x, got, c.want)
		}
	}
}

func TestScaleByHand(t *testing.T) {
	for _, c := range []struct{ x, n, want float32 }{
		{1, 10, 1024}, {3, -1, 1.5}, {-1, 127, -0x1p127}, {1, 128, inf32}, {1, -149, 0x1p-149}, {1, -150, 0},
		{0x1p-149, 254, 0x1p105}, {0x1p-149, 1000, 0x1p105}, {0x1p-149, inf32, 0x1p105},
		{0x1p127, -252, 0x1p-125}, {0x1p127, -1e9, 0x1p-125}, {0x1p127, -inf32, 0x1p-125},
		{1, 0.5, 1}, {1, 1.5, 4}, {1, -2.5, 0.25}, {1, negativeZero32, 1},
		{9 * 0x1p-149, -4, 0}, // one rounding would give 2^-149
		{5 * 0x1p-149, -3, 0}, // floor(-3/2) = -2 comes first
		{0x1p127, 1, inf32}, {0x1.8p126, 2, inf32},
		{nan32, 1, nan32}, {1, nan32, nan32}, {inf32, -252, inf32}, {0, 254, 0}, {negativeZero32, 3, negativeZero32},
	} {
		if got := Scale(c.x, c.n); !same(got, c.want) {
			t.Errorf("Scale(%v, %v) = %v, want %v", c.x, c.n, got, c.want)
		}
	}
}

// TestScaleRoundings takes each half step exactly in binary64 and rounds it.
func TestScaleRoundings(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for n := -260; n <= 260; n++ {
		k := max(-252, min(n, 254))
		a := int(math.Floor(float64(k) / 2))
		for range 300 {
			x := math.Float32frombits(r.Uint32())
			half := float32(math.Ldexp(float64(x), a))
			want := float32(math.Ldexp(float64(half), k-a))
			if got := Scale(x, float32(n)); !same(got, want) {
				t.Fatalf("Scale(%v, %d) = %v, want %v", x, n, got, want)
			}
		}
	}
}

func TestFToI(t *testing.T) {
	for _, c := range []struct {
		x    float32
		want int32
	}{
		{0, 0}, {1.9, 1}, {-1.9, -1}, {0x1.fffffep30, 0x7fffff80}, {0x1p31, math.MaxInt32}, {inf32, math.MaxInt32},
		{-0x1p31, math.MinInt32}, {-0x1.000002p31, math.MinInt32}, {-inf32, math.MinInt32}, {nan32, 0}, {-0x1p-149, 0},
	} {
		if got := FToI(c.x); got != c.want {
			t.Errorf("FToI(%v) = %d, want %d", c.x, got, c.want)
		}
	}
}

// TestSqrt squares the midpoints on both sides of the result, exactly in
// binary64: the operand must lie between.
func TestSqrt(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 200_000 {
		x := math.Float32frombits(r.Uint32() >> 1)
		if !(x > 0 && x < inf32) {
			continue
		}
		root := Sqrt(x)
		below := (float64(root) + float64(math.Nextafter32(root, 0))) / 2
		above := (float64(root) + float64(math.Nextafter32(root, inf32))) / 2
		if !(below*below < float64(x) && float64(x) < above*above) {
			t.Fatalf("Sqrt(%v) = %v is not the nearest", x, root)
		}
	}
	for _, c := range []struct{ x, want float32 }{
		{4, 2}, {0, 0}, {negativeZero32, negativeZero32}, {-1, nan32}, {inf32, inf32}, {-inf32, nan32}, {nan32, nan32}, {0x1p-148, 0x1p-74},
	} {
		if got := Sqrt(c.x); !same(got, c.want) {
			t.Errorf("Sqrt(%v) = %v, want %v", c.x, got, c.want)
		}
	}
}
