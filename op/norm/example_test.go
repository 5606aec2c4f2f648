package norm_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/norm"
	"tokitai/tensor"
)

func ExampleClip() {
	q := cpu.Queue()
	a, err := tensor.FromFloat32(q.Device(), num.F16, []float32{1, -2, 4}, 3)
	if err != nil {
		panic(err)
	}
	b, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{6, 8}, 1, 2)
	total, _ := tensor.New(q.Device(), num.F32, 1)
	factor, _ := tensor.New(q.Device(), num.F32, 1)
	if err := norm.Clip(q, total, factor, 5.5, []*tensor.Tensor{a, b}); err != nil {
		panic(err)
	}
	fmt.Println(total.Float32s())
	fmt.Println(factor.Float32s())
	// Output:
	// [11] <nil>
	// [0.5] <nil>
}

func ExampleSquareSum() {
	q := cpu.Queue()
	x, _ := tensor.FromFloat32(q.Device(), num.BF16, []float32{3, 4}, 2)
	total, _ := tensor.New(q.Device(), num.F32, 1)
	if err := norm.SquareSum(q, total, []*tensor.Tensor{x}); err != nil {
		panic(err)
	}
	fmt.Println(total.Float32s())
	// Output: [25] <nil>
}
