package model

import (
	"math"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// TestEntropy compares the entropy of rows with that of binary64: a few roundings of numbers up to ln 4.
func TestEntropy(t *testing.T) {
	t.Parallel()
	rows := [][]float32{{1, 1, 1, 1}, {0, 100, 0, 0}, {-1, 0, 2, 0.5}, {1000, 1000, -1000, 0}}
	var flat []float32
	for _, r := range rows {
		flat = append(flat, r...)
	}
	q := cpu.Queue()
	x, err := tensor.FromFloat32(q.Device(), num.F32, flat, len(rows), 4)
	if err != nil {
		t.Fatal(err)
	}
	h, err := tensor.New(q.Device(), num.F32, len(rows))
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Call(q, Entropy, []*tensor.Tensor{x, h}, nil); err != nil {
		t.Fatal(err)
	}
	got, err := h.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		sum, want := 0.0, 0.0
		top := float64(max(r[0], r[1], r[2], r[3]))
		for _, v := range r {
			sum += math.Exp(float64(v) - top)
		}
		for _, v := range r {
			if p := math.Exp(float64(v)-top) / sum; p > 0 {
				want -= p * math.Log(p)
			}
		}
		// Logarithm, quotient, difference and eight products and sums, of numbers below 4: half an ulp of each, 2^-23.
		if math.Abs(float64(got[i])-want) > 16*0x1p-23 {
			t.Errorf("%v: entropy %v, want %v", r, got[i], want)
		}
	}
}
