package ball

import (
	"math"
	"testing"
)

// TestVectors compares every place of a vector with the method.
func TestVectors(t *testing.T) {
	special := []Ball{{}, {Mid: 1}, {Rad: 1}, {-3, 0x1p-30}, {0x1p-1070, 0}, {0x1p600, 0x1p500}, {-0x1p700, 1}, unknown, {math.Inf(1), 0}, {math.Pi, 0x1p-52}, {0, 0x1p-1074}}
	var a, b []Ball
	for _, x := range special {
		for _, y := range special {
			a, b = append(a, x), append(b, y)
		}
	}
	for _, op := range []struct {
		name string
		all  func(out, a, b []Ball)
		one  func(a, b Ball) Ball
	}{{"add", AddAll, Ball.Add}, {"sub", SubAll, Ball.Sub}, {"mul", MulAll, Ball.Mul}} {
		same := func(how string, a, b []Ball) {
			out := make([]Ball, len(special)*len(special))
			op.all(out, a, b)
			for j, got := range out {
				want := op.one(a[j%len(a)], b[j%len(b)])
				if !isSame(got.Mid, want.Mid) || !isSame(got.Rad, want.Rad) {
					t.Errorf("%s, %s: %v and %v give %x, want %x", op.name, how, a[j%len(a)], b[j%len(b)], got, want)
				}
			}
		}
		same("two vectors", a, b)
		for _, x := range special {
			same("a single first", []Ball{x}, b)
			same("a single second", a, []Ball{x})
			same("two single", []Ball{x}, []Ball{{2, 0x1p-50}})
		}
	}
}

// isSame compares bits; all NaNs are the same.
func isSame(x, y float64) bool {
	return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
}
