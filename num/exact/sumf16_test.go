package exact

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"tokitai/num"
)

// term is a stored value on its way into a sum.
type term struct {
	d       num.DType
	pattern uint32
}

func sumOf(terms []term) *SumF16 {
	s := new(SumF16)
	for _, x := range terms {
		s.AddValue(x.d, x.pattern)
	}
	return s
}

func checkSum(t *testing.T, terms []term) {
	t.Helper()
	exact := new(big.Rat)
	for _, x := range terms {
		exact.Add(exact, new(big.Rat).SetFloat64(float64(num.Widen(x.d, x.pattern))))
	}
	s := sumOf(terms)
	for _, d := range num.FloatDTypes {
		if got, want := s.Round(d), slowRound(d, exact); got != want {
			t.Fatalf("sum of %d terms to %v: %#x, want %#x (%s)", len(terms), d, got, want, exact.FloatString(60))
		}
	}
}

// TestSumF16Patterns: every f16 by itself, and with its negation and a little.
func TestSumF16Patterns(t *testing.T) {
	for p := range uint32(1 << 16) {
		v := num.F16ToF32(uint16(p))
		var s SumF16
		s.Add(uint16(p))
		want := math.Float32bits(v + 0) // -0 becomes +0
		if v-v != 0 {
			want = num.Canonical(num.F32, want)
		}
		if got := s.Round(num.F32); got != want {
			t.Fatalf("%#x alone gives %#x, want %#x", p, got, want)
		}
		if v-v != 0 {
			continue
		}
		s.Add(uint16(p) ^ 0x8000)
		if got := s.Round(num.F16); got != 0 {
			t.Fatalf("%#x and its negation give %#x", p, got)
		}
		s.Add(1)
		if got := s.Round(num.F16); got != 1 {
			t.Fatalf("%#x, its negation and 2^-24 give %#x", p, got)
		}
	}
}

func TestSumF16Random(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	f16 := func() term { return term{num.F16, uint32(num.F32ToF16(finite(r, num.F16)))} }
	for range 300 {
		var terms []term
		for range r.IntN(60) {
			terms = append(terms, f16())
		}
		switch r.IntN(4) {
		case 0: // cancelling
			for _, x := range terms[:len(terms)/2*2] {
				terms = append(terms, term{x.d, x.pattern ^ 0x8000})
			}
			terms = append(terms, f16())
		case 1: // an old value of any size
			terms = append(terms, term{num.F32, math.Float32bits(finite(r, num.F32))})
		case 2: // many of any format
			for range 20 {
				d := num.FloatDTypes[r.IntN(3)]
				terms = append(terms, term{d, num.Narrow(d, finite(r, d))})
			}
		}
		checkSum(t, terms)

		before := sumOf(terms)
		r.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
		if after := sumOf(terms); *after != *before {
			t.Fatal("the order of the terms matters")
		}
	}
}

// TestSumF16Edges: carries across every word, the smallest and largest values, ties.
func TestSumF16Edges(t *testing.T) {
	f32 := func(x float64) term { return term{num.F32, math.Float32bits(float32(x))} }
	f16 := func(x float32) term { return term{num.F16, uint32(num.F32ToF16(x))} }
	largest := float64(math.MaxFloat32)
	for _, terms := range [][]term{
		nil,
		{f32(0x1p-149)}, {f32(-0x1p-149)}, {f32(largest)}, {f32(-largest)},
		{f32(0x1p-149), f32(-0x1p-149)},
		{f32(largest), f32(-largest), f32(-0x1p-149)},
		{f32(largest), f32(largest)},
		{f32(largest), f32(largest), f32(-largest)},
		{f32(-0x1p-149), f16(1)}, {f32(0x1p-149), f16(-1)},
		{f32(largest), f16(-0x1p-24)},
		{f16(2048), f16(1)}, {f16(2050), f16(1)}, {f16(-2048), f16(-1)}, // ties of f16
		{f16(2048), f16(1), f32(0x1p-149)}, {f16(2048), f16(1), f32(-0x1p-149)},
		{f32(0x1p24), f16(1)}, {f32(0x1p24), f16(1), f32(-0x1p-140)}, // ties of f32
		{f16(65504), f16(16)}, {f16(65504), f16(15.99)}, // the border of infinity
		{{num.BF16, 0x0001}, {num.BF16, 0x8001}, {num.BF16, 0x7f7f}},
	} {
		checkSum(t, terms)
	}
	var many SumF16
	for range 1 << 20 {
		many.Add(0xfbff) // -65504
	}
	if got := math.Float32frombits(many.Round(num.F32)); got != -65504*(1<<20) {
		t.Errorf("2^20 times -65504 is %g", got)
	}
}

func TestSumF16Special(t *testing.T) {
	const inf, negInf, nan, one = 0x7c00, 0xfc00, 0x7e01, 0x3c00
	for _, c := range []struct {
		patterns []uint16
		want     float64
	}{
		{[]uint16{one, inf}, math.Inf(1)},
		{[]uint16{negInf, one, negInf}, math.Inf(-1)},
		{[]uint16{inf, negInf}, math.NaN()},
		{[]uint16{negInf, one, inf}, math.NaN()},
		{[]uint16{nan}, math.NaN()},
		{[]uint16{0xfe01, inf}, math.NaN()},
	} {
		for _, d := range num.FloatDTypes {
			var s, wide SumF16
			for _, p := range c.patterns {
				s.Add(p)
				wide.AddValue(num.F32, math.Float32bits(num.F16ToF32(p)))
			}
			want := num.Canonical(d, num.NarrowF64(d, c.want))
			if got := s.Round(d); got != want {
				t.Errorf("%#x to %v: %#x, want %#x", c.patterns, d, got, want)
			}
			if got := wide.Round(d); got != want {
				t.Errorf("%#x as f32 to %v: %#x, want %#x", c.patterns, d, got, want)
			}
		}
	}
}
