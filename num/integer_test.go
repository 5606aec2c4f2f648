package num

import (
	"math"
	"testing"
)

// TestIntegers: every width stores its whole range, and converts as it says.
func TestIntegers(t *testing.T) {
	for _, d := range IntegerDTypes {
		width := 8 * d.Size()
		least := int64(-1) << (width - 1)
		a := NewArray(d, 2, 3)
		for _, v := range []int64{0, 1, -1, 100, -100, least, ^least, least + 1} {
			a.SetBits64(1, 2, uint64(v))
			if got := a.Integer(1, 2); got != v {
				t.Errorf("%v: stored %d, read %d", d, v, got)
			}
			if got, want := a.At(1, 2), float32(v); got != want {
				t.Errorf("%v: %d is %v, want %v", d, v, got, want)
			}
			if a.Integer(0, 2) != 0 || a.Integer(1, 1) != 0 {
				t.Fatalf("%v: storing %d changed its neighbours", d, v)
			}
		}
		inf := float32(math.Inf(1))
		for v, want := range map[float32]int64{0.5: 0, 1.5: 2, -1.5: -2, 2.5: 2, 127: 127, -128: -128, inf: ^least, -inf: least, 0x1p100: ^least, -0x1p100: least} {
			a.Set(0, 0, v)
			if got := a.Integer(0, 0); got != want {
				t.Errorf("%v: %v is stored as %d, want %d", d, v, got, want)
			}
		}
		if a.Set(0, 0, float32(math.NaN())); a.Integer(0, 0) != 0 {
			t.Errorf("%v: NaN is stored as %d, want 0", d, a.Integer(0, 0))
		}
		if got, err := ParseDType(d.String()); err != nil || got != d {
			t.Errorf("%v parses as %v, %v", d, got, err)
		}
		if IsNaN(d, ^uint64(0)) || Canonical(d, ^uint64(0)) != ^uint64(0) {
			t.Errorf("%v: an integer is a NaN", d)
		}
	}
	if got := Distance(I64, uint64(1)<<63, 1<<63-1); got != math.MaxInt64 {
		t.Errorf("the distance of the least and the greatest int64 is %d, want the greatest int64", got)
	}
}
