package gemm_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	a, err := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		panic(err)
	}
	b, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{7, 8, 9, 10, 11, 12}, 3, 2)
	c, _ := tensor.New(q.Device(), num.F32, 2, 2)
	if err := gemm.Forward(q, c, a, b); err != nil {
		panic(err)
	}
	fmt.Println(c.Float32s())

	// A block of columns of a larger matrix is an operand too.
	left, _ := a.Slice(0, 2, 0, 2)
	top, _ := b.Slice(0, 2, 0, 2)
	if err := gemm.Forward(q, c, left, top); err != nil {
		panic(err)
	}
	right, _ := a.Slice(0, 2, 2, 3)
	bottom, _ := b.Slice(2, 3, 0, 2)
	if err := gemm.ForwardAccumulate(q, c, right, bottom); err != nil {
		panic(err)
	}
	fmt.Println(c.Float32s())
	// Output:
	// [58 64 139 154] <nil>
	// [58 64 139 154] <nil>
}

func ExampleGradA() {
	q := cpu.Queue()
	dc, _ := tensor.FromFloat32(q.Device(), num.BF16, []float32{1, -1}, 1, 2)
	b, _ := tensor.FromFloat32(q.Device(), num.BF16, []float32{7, 8, 9, 11, 11, 12}, 3, 2)
	da, _ := tensor.New(q.Device(), num.BF16, 1, 3)
	if err := gemm.GradA(q, da, dc, b); err != nil {
		panic(err)
	}
	fmt.Println(da.Float32s())
	// Output: [-1 -2 -1] <nil>
}

// The heads of [position, head, width] are multiplied where they are, without a copy, and
// two heads share one matrix of keys.
func ExampleBatchedGradA() {
	q := cpu.Queue()
	queries, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2, 3, 4, 5, 6, 7, 8}, 2, 2, 2)
	heads, _ := queries.Permute(1, 0, 2) // head, position, width
	keys, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 0, 1, 1, 0, 1}, 3, 2)
	shared, _ := keys.Expand(2, 3, 2)
	scores, _ := tensor.New(q.Device(), num.F32, 2, 2, 3)               // head, query, key
	if err := gemm.BatchedGradA(q, scores, heads, shared); err != nil { // queries·keysᵀ
		panic(err)
	}
	fmt.Println(scores.Float32s())
	// Output: [1 3 2 5 11 6 3 7 4 7 15 8] <nil>
}
