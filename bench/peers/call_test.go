package peers_test

import (
	"testing"

	"tokitai"
	"tokitai/backend/cpu"
	"tokitai/op/adamw"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
)

// BenchmarkCall measures what a call costs besides its arithmetic: about 1,000 elements,
// through the functions that programs use.
func BenchmarkCall(b *testing.B) {
	q, err := tokitai.Open(cpu.Kind)
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	tensorOf := func(shape ...int) *tokitai.Tensor {
		n := 1
		for _, size := range shape {
			n *= size
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(i%17)/16 - 0.5
		}
		t, err := tokitai.FromFloat32(q, tokitai.F32, values, shape...)
		if err != nil {
			b.Fatal(err)
		}
		return t
	}
	x, y := tensorOf(1, 1000), tensorOf(1, 1000)
	rows, out, mean, rstd, gamma, beta := tensorOf(10, 100), tensorOf(10, 100), tensorOf(10), tensorOf(10), tensorOf(100), tensorOf(100)
	left, right, product := tensorOf(16, 16), tensorOf(16, 16), tensorOf(16, 16)
	index, err := tokitai.FromInt32(q, []int32{9, 3, 3, 0, 1, 8, 7, 2, 2, 5}, 10)
	if err != nil {
		b.Fatal(err)
	}
	hyper := adamw.DefaultHyper
	hyper.LR = 1e-3
	update := adamw.Update{State: adamw.State{Weight: y, M: tensorOf(1, 1000), V: tensorOf(1, 1000)}, Grad: x, Hyper: hyper, T: 10}
	args := tokitai.Args{"x": x, "y": y}
	for _, row := range []struct {
		name string
		call func() error
	}{
		{"gelu.Forward", func() error { return gelu.Forward(q, y, x) }},
		{"softmax.Forward", func() error { return softmax.Forward(q, y, x) }},
		{"layernorm.Forward", func() error { return layernorm.Forward(q, out, mean, rstd, rows, gamma, beta, layernorm.DefaultParams) }},
		{"embedding.Forward", func() error { return embedding.Forward(q, out, index, rows) }},
		{"embedding.Backward", func() error { return embedding.Backward(q, out, index, rows) }},
		{"gemm.Forward", func() error { return gemm.Forward(q, product, left, right) }},
		{"adamw.Step", func() error { return adamw.Step(q, update) }},
		{"Run", func() error { return tokitai.Run(q, gelu.ForwardDefinition, args) }},
	} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := row.call(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
