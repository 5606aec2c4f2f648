package gelu_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	x, err := tensor.FromFloat32(q.Device(), num.F16, []float32{-2, -1, 0, 1, 2}, 5)
	if err != nil {
		panic(err)
	}
	y, _ := tensor.New(q.Device(), num.F16, 5)
	if err := gelu.Forward(q, y, x); err != nil {
		panic(err)
	}
	fmt.Println(y.Float32s())
	// Output: [-0.045410156 -0.15881348 0 0.8413086 1.9550781] <nil>
}

func ExampleBackward() {
	q := cpu.Queue()
	x, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{-100, 0, 100}, 3)
	dy, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{8, 8, 8}, 3)
	if err := gelu.Backward(q, dy, dy, x); err != nil { // in the place of dy
		panic(err)
	}
	fmt.Println(dy.Float32s())
	// Output: [0 4 8] <nil>
}
