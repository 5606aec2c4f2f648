package truth

import (
	"math"
	"testing"
)

// TestFormsOfScaledProducts: scales that are multiplied into factors may overflow there, or
// vanish, although the sum times the scales does neither.
func TestFormsOfScaledProducts(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name        string
		scales      []float64
		a, b        []float64
		isOne       bool
		mayOverflow bool
	}{
		{"ordinary", []float64{3, 0.25}, []float64{1, inf}, []float64{2, 3}, true, false},
		{"a large factor against a small one", []float64{4, 0x1p114}, []float64{0x1p-6, 80}, []float64{24576, 0x1p-6}, false, true},
		{"a huge scale against a tiny one", []float64{math.MaxFloat32, 0x1p-126}, []float64{0, inf, 3.5}, []float64{0, -1, 0}, false, true},
		{"a tiny scale against a large one", []float64{0x1p-120, 0x1p60}, []float64{0x1p-14, 1}, []float64{inf, 1}, false, false},
		{"an infinite scale", []float64{inf, 1}, []float64{1}, []float64{1}, false, false},
		{"a large product of scales", []float64{0x1p70, 0x1p70}, []float64{1}, []float64{1}, false, true},
	} {
		if got := formOfScaled(c.scales, products{a: c.a, b: c.b}); got.isOne != c.isOne || got.mayOverflow != c.mayOverflow {
			t.Errorf("%s: %+v, want isOne %v and mayOverflow %v", c.name, got, c.isOne, c.mayOverflow)
		}
	}
}
