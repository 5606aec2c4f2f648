package truth

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/num"
)

// TestFormsOfScaledProducts checks products that overflow or underflow if scales are multiplied into
// the factors, although the sum times the scales does neither.
func TestFormsOfScaledProducts(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name        string
		scales      []float64
		a, b        []float64
		isOne       bool
		mayOverflow bool
		isEither    bool
	}{
		{"ordinary", []float64{3, 0.25}, []float64{1, inf}, []float64{2, 3}, true, false, false},
		{"a large factor against a small one", []float64{4, 0x1p114}, []float64{0x1p-6, 80}, []float64{24576, 0x1p-6}, false, true, false},
		{"a huge scale against a tiny one", []float64{math.MaxFloat32, 0x1p-126}, []float64{0, inf, 3.5}, []float64{0, -1, 0}, false, true, false},
		{"a tiny scale against a large one", []float64{0x1p-120, 0x1p60}, []float64{0x1p-14, 1}, []float64{inf, 1}, false, false, false},
		{"an infinite scale", []float64{inf, 1}, []float64{1}, []float64{1}, false, false, false},
		{"an infinite scale and a zero", []float64{inf, 0}, []float64{1}, []float64{1}, false, false, false},
		{"a scale that is NaN", []float64{math.NaN(), 1}, []float64{inf}, []float64{1}, false, false, false},
		{"an infinite scale of a sum that cancels", []float64{inf, 1}, []float64{1, 1}, []float64{1, -1 - 0x1p-23}, false, false, true},
		{"an infinite scale and one that makes factors subnormal", []float64{inf, 0x1p-149}, []float64{2, -1.25}, []float64{-0.5, 0.375}, false, false, true},
		{"an infinite scale and a small one", []float64{0x1p-100, inf}, []float64{2, -1.25}, []float64{-0.5, 0.375}, false, false, false},
		{"a tiny product of scales", []float64{0x1.4p-64, 0x1.4p-63}, []float64{inf}, []float64{1}, false, false, false},
		{"a large product of scales", []float64{0x1p70, 0x1p70}, []float64{1}, []float64{1}, false, true, false},
	} {
		if got := formOfScaled(c.scales, products{a: c.a, b: c.b}); got.isOne != c.isOne || got.mayOverflow != c.mayOverflow || got.isEither != c.isEither {
			t.Errorf("%s: %+v, want isOne %v, mayOverflow %v and isEither %v", c.name, got, c.isOne, c.mayOverflow, c.isEither)
		}
	}
}

// TestInfinityOfEitherSign checks that an infinity may have either sign only if it is multiplied by
// a number whose sign depends on rounding errors.
func TestInfinityOfEitherSign(t *testing.T) {
	d := def.Must(def.Rowwise("test.normalise", func(b *def.Builder) {
		x, gamma := b.In("x"), b.InCol("gamma", def.Like("x"))
		n := b.Columns()
		centred := x.Sub(def.RowSum(x).Div(n))
		variance := def.RowSum(centred.Mul(centred)).Div(n)
		b.Out("y", def.FMA(centred.Mul(def.One.Div(variance.Sqrt())), gamma, def.One), def.Like("x"))
	}))
	inf := float32(math.Inf(1))
	const tiny = 0x1p-149
	for _, c := range []struct {
		name  string
		x     []float32
		first float32 // of gamma
		want  bool
	}{
		{"clear", []float32{1, 2, 3, 5}, inf, false},
		{"clear, of the other sign", []float32{1, 2, 3, 5}, -inf, false},
		{"far from zero", []float32{1001, 1002, 1003, 1005}, inf, false},
		{"close to the mean", []float32{1, 2, 3, -2 - 0x1p-21}, inf, true},
		{"nearly constant", []float32{1 + 0x1p-23, 1, 1, 1}, inf, true},
		{"subnormal", []float32{1000 * tiny, 1004 * tiny, 1000 * tiny, 1000 * tiny}, inf, true},
		{"subnormal and clear", []float32{1000 * tiny, 9000 * tiny, 1000 * tiny, 1000 * tiny}, inf, false},
		{"finite", []float32{1 + 0x1p-23, 1, 1, 1}, 2, false},
	} {
		x, gamma, y := num.NewArray(num.F32, 1, 4), num.NewArray(num.F32, 1, 4), num.NewArray(num.F32, 1, 4)
		for i, v := range c.x {
			x.Set(0, i, v)
			gamma.Set(0, i, 1)
		}
		gamma.Set(0, 0, c.first)
		f, err := FindForms(t.Context(), d, []num.Array{x, gamma, y}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.IsEither(2, 0, 0); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if f.IsEither(2, 0, 1) {
			t.Errorf("%s: a finite result has either sign", c.name)
		}
	}
}

// TestRegroupedProducts checks that the set of a product of three factors has what a kernel gives that
// multiplies them in another order, in which two of them underflow, and not much more.
func TestRegroupedProducts(t *testing.T) {
	d := def.Must(def.Rowwise("test.product", func(b *def.Builder) {
		x, y, z := b.In("x"), b.In("y"), b.In("z")
		b.Out("p", x.Mul(y).Mul(z), def.Like("x"))
	}))
	x, y, z := float32(0x1.8p50), float32(0x1.6p-60), float32(0x1.2p-84)
	operands := []num.Array{num.ArrayOf(num.F32, 1, 1, x), num.ArrayOf(num.F32, 1, 1, y), num.ArrayOf(num.F32, 1, 1, z), num.NewArray(num.F32, 1, 1)}
	for _, isForm := range []bool{false, true} { // whose steps are in their order
		s, err := EncloseStable(d, operands, StableOptions{CountSteps: isForm})
		if err != nil {
			t.Fatal(err)
		}
		underflowing := float32(y * z)
		for _, test := range []struct {
			name string
			p    float32
			want bool
		}{
			{"in order", float32(x*y) * z, true},
			{"y and z first", underflowing * x, !isForm},
			{"y and z first, and five units lost", (underflowing - 5*0x1p-149) * x, false},
			{"flushed", 0, false},
		} {
			if got := s.Admits(3, 0, 0, 0, math.Float32bits(test.p)); got != test.want {
				t.Errorf("%s, a declared form %v: %v is admitted: %v, want %v", test.name, isForm, test.p, got, test.want)
			}
		}
	}
}
