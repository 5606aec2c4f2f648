package swiglu_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/swiglu"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	gate, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{-2, -1, 0, 1, 2}, 5)
	up, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2, 3, 4, 5}, 5)
	y, _ := tensor.New(q.Device(), num.F16, 5)
	if err := swiglu.Forward(q, y, gate, up); err != nil {
		panic(err)
	}
	fmt.Println(y.Float32s())
	// Output: [-0.23840332 -0.53808594 0 2.9238281 8.8046875] <nil>
}

func ExampleBackward() {
	q := cpu.Queue()
	gate, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{-200, 0, 200}, 3)
	up, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{3, 3, 3}, 3)
	dy, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{8, 8, 8}, 3)
	dup, _ := tensor.New(q.Device(), num.F32, 3)
	if err := swiglu.Backward(q, dy, dup, dy, gate, up); err != nil { // dgate in the place of dy
		panic(err)
	}
	fmt.Println(dy.Float32s())
	fmt.Println(dup.Float32s())
	// Output:
	// [0 12 24] <nil>
	// [-0 0 1600] <nil>
}
