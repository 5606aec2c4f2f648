package truth

import (
	"math"
	"testing"
)

// TestDeviation compares the deviations of sums with those of OrderVariance, and checks that exact
// sums have none.
func TestDeviation(t *testing.T) {
	ones := make([]float64, 1000)
	for i := range ones {
		ones[i] = float64(i%7) - 3.5
	}
	if d := deviationOf(ones, true); d.Most != 0 || d.Actual != 0 || chainDeviation(ones, true) != 0 {
		t.Errorf("exact sums: %+v", d)
	}
	terms := make([]float64, 300)
	for i := range terms {
		terms[i] = float64(float32(math.Sin(float64(i*i)))) * (1 + 0x1p-30)
	}
	least, most := math.Inf(1), 0.0
	for _, o := range UsualOrders {
		v := math.Sqrt(OrderVariance(o, terms))
		least, most = min(least, v), max(most, v)
	}
	d := deviationOf(terms, false)
	if d.Least > least || d.Most < most || d.Most > 2*most || d.Actual == 0 || d.Actual > 10*d.Most {
		t.Errorf("%+v, want deviations from %v to %v", d, least, most)
	}
	if chain := chainDeviation(terms, false); chain < math.Sqrt(OrderVariance(UsualOrders[0], terms))*(1-1e-9) || chain > d.Most*(1+1e-9) {
		t.Errorf("sequential: %v, of %+v", chain, d)
	}
	// The roundings of equal terms are alike: the error of their sum is far above the deviation.
	same := make([]float64, 4096)
	for i := range same {
		same[i] = float64(float32(0.1))
	}
	if d := deviationOf(same, false); d.Actual < 3*d.Most {
		t.Errorf("equal terms: %+v", d)
	}
}

// TestAddOnce: sums that are closer to a tie of binary32 than binary64 shows are rounded to the side on which they are.
func TestAddOnce(t *testing.T) {
	for _, x := range []struct{ a, b, want float64 }{
		{1, 0x1p-24 + 0x1p-68, 1 + 0x1p-23},
		{1, 0x1p-24, 1},
		{1 + 0x1p-23, 0x1p-24 - 0x1p-68, 1 + 0x1p-23},
		{1 + 0x1p-23, 0x1p-24, 1 + 0x1p-22},
		{-1, -0x1p-24 - 0x1p-68, -1 - 0x1p-23},
		{0x1p-68, -1, -1},
	} {
		if got := addOnce(x.a, x.b); got != x.want {
			t.Errorf("%x + %x = %x, want %x", x.a, x.b, got, x.want)
		}
	}
}
