package cpu_test

import (
	"math"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/tensor"
)

// TestTensorCores checks that each lowering that emulates tensor cores truncates sums after the
// number of fractional bits of its model.
func TestTensorCores(t *testing.T) {
	q := cpu.Queue()
	of := func(d num.DType, rows, cols int, values ...float32) *tensor.Tensor {
		x, err := tensor.FromFloat32(q.Device(), d, values, rows, cols)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	const next = 1 + 0x1p-23
	for _, c := range []struct {
		lowering string
		tiny     float32 // added to 1
		times    int
		want     float32
	}{
		{"cpu.mma-16-25", 0x1p-25, 4, next},
		{"cpu.mma-16-25", 0x1p-26, 8, 1},
		{"cpu.mma-8-24", 0x1p-24, 2, next},
		{"cpu.mma-8-24", 0x1p-25, 4, 1},
		{"cpu.mma-4-23", 0x1p-23, 1, next},
		{"cpu.mma-4-23", 0x1p-24, 2, 1},
	} {
		a, b := []float32{1}, []float32{1}
		for range c.times {
			a, b = append(a, 0x1p-12), append(b, c.tiny*0x1p12)
		}
		left, right, result := of(num.F16, 1, len(a), a...), of(num.F16, len(a), 1, b...), of(num.F32, 1, 1, 0)
		if err := gemm.Forward(q, result, left, right, engine.WithLowering(c.lowering)); err != nil {
			t.Fatal(err)
		}
		if got, err := result.Float32s(); err != nil || math.Float32bits(got[0]) != math.Float32bits(c.want) {
			t.Errorf("%s: 1 + %d·%v is %v, want %v (%v)", c.lowering, c.times, c.tiny, got, c.want, err)
		}
	}
	x := of(num.F32, 1, 1, 1)
	err := gemm.Forward(q, of(num.F32, 1, 1, 0), x, x, engine.WithLowering("cpu.mma-16-25"))
	if err == nil || !strings.Contains(err.Error(), "rule mma(16,25) takes f16, bf16, e4m3 or e5m2, got f32") {
		t.Errorf("f32: got %v", err)
	}
}
