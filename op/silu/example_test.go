package silu_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/silu"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	x, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{-2, -1, 0, 1, 2}, 5)
	y, _ := tensor.New(q.Device(), num.F16, 5)
	if err := silu.Forward(q, y, x); err != nil {
		panic(err)
	}
	fmt.Println(y.Float32s())
	// Output: [-0.23840332 -0.26904297 0 0.73095703 1.7617188] <nil>
}

func ExampleBackward() {
	q := cpu.Queue()
	x, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{-200, 0, 200}, 3)
	dy, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{8, 8, 8}, 3)
	if err := silu.Backward(q, dy, dy, x); err != nil { // in the place of dy
		panic(err)
	}
	fmt.Println(dy.Float32s())
	// Output: [0 4 8] <nil>
}
