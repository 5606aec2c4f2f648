package truthtest

import (
	"fmt"
	"math"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/truth"
)

func TestOrderVarianceByHand(t *testing.T) {
	const u2 = 0x1p-48 / 3
	for _, test := range []struct {
		o     def.Order
		terms []float64
		want  float64
	}{
		{def.Sequential, []float64{5}, 0},
		{def.Sequential, []float64{1, 2, 5}, (4 + 64) * u2},                                          // 3, 8
		{def.Order{Kind: def.Lanes, Width: 2}, []float64{1, 2, -5, 4}, (16 + 16 + 4) * u2},           // -4, 6, 2
		{def.Order{Kind: def.Chunks, Width: 2}, []float64{1, -1, 0.25, 0.5}, (0.25 + 0.25) * u2},     // 0, 0.75, 0.75
		{def.Order{Kind: def.Pairwise}, []float64{1.5, 1.5, 1.5}, (4 + 16) * u2},                     // 3, 4.5
		{def.Sequential, []float64{0x1p-127, 0x1p-127, 0x1p-126, 0x1p-126}, 2 * 0x1p-250 * u2},       // 2^-126 is exact; 2^-125, 1.5·2^-125
		{def.Order{Kind: def.Lanes, Width: 4}, []float64{0x1p-140, 0x1p-140, 0x1p-149, 0x1p-149}, 0}, // all exact
	} {
		if got := truth.OrderVariance(test.o, test.terms); math.Abs(got-test.want) > 0x1p-50*test.want {
			t.Errorf("%s of %v: got %v, want %v", test.o, test.terms, got, test.want)
		}
	}
}

// TestOrderVariance checks that binary32 sums in an order have the mean square error of the model.
// If z is the error divided by σ, the mean of z² over N sums has expectation 1 if all roundings are
// uniform, and a standard deviation of √(2/N). Additions that drop a single bit contribute up to
// 3/2 of their share, and exact additions nothing: the share of exact ones is counted.
func TestOrderVariance(t *testing.T) {
	const N, K = 2000, 500
	for _, o := range orders {
		if !o.IsDeclared() {
			continue
		}
		for kind, value := range kinds {
			g := gen.New(fmt.Sprint(t.Name(), o, kind))
			mean, exactShare, bias := 0.0, 0.0, 0.0
			for range N {
				terms, wide := make([]float32, K), make([]float64, K)
				exactly := 0.0
				for k := range terms {
					terms[k] = value(g)
					wide[k] = float64(terms[k])
					exactly += wide[k] // off by 2^-29 of a rounding to binary32
				}
				sigma2 := truth.OrderVariance(o, wide)
				unrounded := 0.0
				got := def.Fold(o, terms, func(a, b float32) float32 {
					if s := a + b; float64(s) == float64(a)+float64(b) {
						half := num.ULP(num.F32, float64(s)) / 2
						unrounded += half * half / 3
					}
					return a + b
				})
				e := float64(got) - exactly
				mean += e * e / sigma2 / N
				bias += e / math.Sqrt(sigma2) / N
				exactShare += unrounded / sigma2 / N
			}
			deviation := math.Sqrt(2.0 / N)
			t.Logf("%s of %s: mean z² %.3f, mean z %.3f, share of exact additions %.3f", o, kind, mean, bias, exactShare)
			if lo, hi := 1-exactShare-6*deviation, 1.5+1.5*6*deviation; !(lo <= mean && mean <= hi) {
				t.Errorf("%s of %s: the mean square error is %v of the model's, want %v to %v", o, kind, mean, lo, hi)
			}
			if limit := 6 * math.Sqrt(1.5/N); math.Abs(bias) > limit {
				t.Errorf("%s of %s: the mean error is %v of σ, want at most %v", o, kind, bias, limit)
			}
		}
	}
}
