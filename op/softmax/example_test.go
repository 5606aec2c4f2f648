package softmax_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	x, err := tensor.FromFloat32(q.Device(), num.F32, []float32{1, 1, 1, 1, 0, 40, 0, 0}, 2, 4)
	if err != nil {
		panic(err)
	}
	if err := softmax.Forward(q, x, x); err != nil { // in place
		panic(err)
	}
	y, _ := x.Float32s()
	fmt.Println(y[:4])
	fmt.Println(y[4:])
	// Output:
	// [0.25 0.25 0.25 0.25]
	// [4.248354e-18 1 4.248354e-18 4.248354e-18]
}

func ExampleBackward() {
	q := cpu.Queue()
	y, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{0.5, 0.25, 0.25}, 1, 3)
	dy, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{4, 8, 0}, 1, 3)
	dx, _ := tensor.New(q.Device(), num.F16, 1, 3)
	if err := softmax.Backward(q, dx, dy, y); err != nil {
		panic(err)
	}
	fmt.Println(dx.Float32s())
	// Output: [0 1 -1] <nil>
}

func ExampleForward_error() {
	q := cpu.Queue()
	x, _ := tensor.New(q.Device(), num.F16, 4, 16)
	y, _ := tensor.New(q.Device(), num.F16, 4, 8)
	fmt.Println(softmax.Forward(q, y, x))
	// Output: softmax.forward: y has shape [4 8], want [4 16] like x
}
