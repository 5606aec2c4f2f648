package gemm_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/gemm"
	"tokitai/reference"
	"tokitai/trial"
)

// fill returns an operand with the values of a pattern.
func fill(p op.Pattern, operand string, d num.DType, rows, cols int) num.Array {
	a := num.NewArray(d, rows, cols)
	value := p.Values[operand]
	if value == nil {
		value = op.Normal
	}
	g := gen.New(p.Name + "/" + operand)
	for r := range rows {
		for c := range cols {
			a.Set(r, c, value(g, r, c))
		}
	}
	return a
}

// TestPatternsFindMistakes computes products with the mistakes that kernels make: the
// pattern that is there for one finds it.
func TestPatternsFindMistakes(t *testing.T) {
	forward := gemm.Operations[0]
	d := forward.Definitions[0]
	const m, n, k = 8, 45, 45
	toF16, toF32 := []num.DType{num.F16, num.F16, num.F16}, []num.DType{num.F16, num.F16, num.F32}
	chain := func(a, b []float32, step func(a, b, acc float32) float32) float32 {
		acc := float32(0)
		for k := range a {
			acc = step(a[k], b[k], acc)
		}
		return acc
	}
	rightChain := func(a, b []float32) float32 { return chain(a, b, num.FMA) }
	store := func(x float32) float32 { return num.Round(num.F16, x) }
	for _, test := range []struct {
		mistake, pattern string
		formats          []num.DType
		dot              func(a, b []float32) float32
	}{
		{"none", "offset", toF16, rightChain},
		{"an accumulator in f16", "offset", toF16, func(a, b []float32) float32 {
			return chain(a, b, func(a, b, acc float32) float32 { return store(num.FMA(a, b, acc)) })
		}},
		{"an accumulator of 23 bits", "large-integers", toF32, func(a, b []float32) float32 {
			return chain(a, b, func(a, b, acc float32) float32 {
				return math.Float32frombits(math.Float32bits(num.FMA(a, b, acc)) &^ 1)
			})
		}},
		{"factors of 11 bits", "long-integers-left", []num.DType{num.F32, num.F32, num.F32}, func(a, b []float32) float32 {
			return chain(a, b, func(a, b, acc float32) float32 { return num.FMA(store(a), store(b), acc) })
		}},
		{"two parts in f16", "offset", toF16, func(a, b []float32) float32 {
			half := len(a) / 2
			return store(rightChain(a[:half], b[:half])) + store(rightChain(a[half:], b[half:]))
		}},
		{"the last product is missing", "plus-minus-one", toF16, func(a, b []float32) float32 { return rightChain(a[:len(a)-1], b) }},
		{"zeros are skipped", "zeros-against-infinities", toF16, func(a, b []float32) float32 {
			return chain(a, b, func(a, b, acc float32) float32 {
				if a == 0 {
					return acc
				}
				return num.FMA(a, b, acc)
			})
		}},
		{"the store saturates", "f16-limit", toF16, func(a, b []float32) float32 { return min(rightChain(a, b), 65504) }},
		{"the store truncates", "ties", toF16, func(a, b []float32) float32 {
			return math.Float32frombits(math.Float32bits(rightChain(a, b)) &^ 0x1fff)
		}},
		{"the store rounds ties up", "ties", toF16, func(a, b []float32) float32 {
			return math.Float32frombits((math.Float32bits(rightChain(a, b)) + 0x1000) &^ 0x1fff)
		}},
		{"subnormals are flushed", "f16-underflow", toF16, func(a, b []float32) float32 {
			if x := rightChain(a, b); math.Abs(float64(store(x))) >= 0x1p-14 {
				return x
			}
			return 0
		}},
		{"B is read transposed", "identity-left", toF16, nil},
	} {
		i := slices.IndexFunc(forward.Patterns, func(p op.Pattern) bool { return p.Definition == d && p.Name == test.pattern })
		if i < 0 {
			t.Fatalf("gemm.forward has no pattern %s", test.pattern)
		}
		p := forward.Patterns[i]
		left, right := fill(p, "A", test.formats[0], m, k), fill(p, "B", test.formats[1], k, n)
		want := num.NewArray(test.formats[2], m, n)
		if err := reference.Run(d, []num.Array{left, right, want}, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		dot, isTransposed := test.dot, test.dot == nil
		if isTransposed {
			dot = rightChain
		}
		got, differ := want.Clone(), 0
		a, b := make([]float32, k), make([]float32, k)
		for r := range m {
			for c := range n {
				for i := range k {
					if a[i], b[i] = left.At(r, i), right.At(i, c); isTransposed {
						b[i] = right.At(c, i)
					}
				}
				got.Set(r, c, dot(a, b))
				if !trial.Values.Same(got.DType, got.Bits64(r, c), want.Bits64(r, c)) {
					differ++
				}
			}
		}
		if isFound, isRight := differ > 0, test.mistake == "none"; isFound == isRight {
			t.Errorf("%s, pattern %s: %d of %d results differ", test.mistake, test.pattern, differ, m*n)
		}
	}
}
