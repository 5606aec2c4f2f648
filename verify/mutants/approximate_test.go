package mutants

import (
	"math"
	"testing"
)

// TestApproximate: the fast functions keep the errors that kernels declare, and use them.
func TestApproximate(t *testing.T) {
	for _, f := range []struct {
		name    string
		of      func(x float32) float32
		true    func(x float64) float64
		between [2]float64
		most    func(x, y float64) float64 // the declared error
	}{
		{"exp", FastExp, math.Exp, [2]float64{-80, 80}, func(x, y float64) float64 { return (2 + 1.16*math.Abs(x)) * ulp(y) }},
		{"exp within 64 ulps", RoughExp(64), math.Exp, [2]float64{-80, 80}, func(_, y float64) float64 { return 64 * ulp(y) }},
		{"rsqrt", FastRsqrt(2), func(x float64) float64 { return 1 / math.Sqrt(x) }, [2]float64{1e-3, 1e3}, func(_, y float64) float64 { return 2 * ulp(y) }},
		{"sqrt", FastSqrt(1), math.Sqrt, [2]float64{1e-3, 1e3}, func(_, y float64) float64 { return ulp(y) }},
		{"log", FastLog(2), math.Log, [2]float64{1e-3, 1e3}, func(_, y float64) float64 { return 2 * ulp(y) }},
		{"division by 3", func(x float32) float32 { return FastDivide(2)(x, 3) }, func(x float64) float64 { return x / 3 }, [2]float64{-5, 5}, func(_, y float64) float64 { return 2 * ulp(y) }},
		{"tanh", FastTanh, math.Tanh, [2]float64{-6, 6}, func(_, y float64) float64 { return 0x1p-11 * math.Abs(y) }},
	} {
		largest := 0.0
		const n = 20_000
		for i := range n {
			x := float32(f.between[0] + (f.between[1]-f.between[0])*float64(i)/n)
			y := f.true(float64(x))
			if y == 0 {
				continue
			}
			share := math.Abs(float64(f.of(x))-y) / f.most(float64(x), y)
			if largest = max(largest, share); share > 1 {
				t.Errorf("%s(%v): got %v, want %v within %v", f.name, x, f.of(x), y, f.most(float64(x), y))
				break
			}
		}
		if largest < 0.75 {
			t.Errorf("%s uses %.2f of the error that it may have, want 0.75 or more", f.name, largest)
		}
	}
	for _, x := range []float32{0, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())} {
		if got, want := FastExp(x), Exp32(x); math.Float32bits(got) != math.Float32bits(want) && want == want {
			t.Errorf("FastExp(%v): got %v, want %v", x, got, want)
		}
	}
}

// TestExponentials: however a row is divided, the sum of its exponentials is the same up to
// rounding, and special elements make it what softmax needs.
func TestExponentials(t *testing.T) {
	p := Ordered(InPairs)
	ways := map[string]func(p Parts, x []float32) Exponentials{"one by one": OneByOne, "in blocks of 3": InBlocks(3), "in 4 parts": InParts(4)}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, row := range []struct {
		x    []float32
		m, s float32
	}{
		{[]float32{1, 1, 1, 1, 1, 1, 1}, 1, 7},
		{[]float32{-inf, -inf, -inf, -inf, 2, -inf, 2}, 2, 2},
		{[]float32{-200, 5, -200, -200, -200, 5, -200}, 5, 2},
		{[]float32{0, inf, 0, 0, 0, 0, 0}, inf, nan},
		{[]float32{0, 0, 0, nan, 0, 0, 0}, nan, nan},
	} {
		for name, way := range ways {
			e := way(p, row.x)
			same := func(a, b float32) bool { return a == b || a != a && b != b }
			if !same(e.Sum, row.s) || !same(e.Max, row.m) && row.m == row.m {
				t.Errorf("%v %s: got maximum %v and sum %v, want %v and %v", row.x, name, e.Max, e.Sum, row.m, row.s)
			}
		}
	}
}
