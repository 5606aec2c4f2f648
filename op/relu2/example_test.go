package relu2_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/relu2"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	x, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{-2, -1, 0, 1, 2.5}, 5)
	y, _ := tensor.New(q.Device(), num.F16, 5)
	if err := relu2.Forward(q, y, x); err != nil {
		panic(err)
	}
	fmt.Println(y.Float32s())
	// Output: [0 0 0 1 6.25] <nil>
}

func ExampleBackward() {
	q := cpu.Queue()
	x, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{-3, 0, 3}, 3)
	dy, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{8, -8, 8}, 3)
	if err := relu2.Backward(q, dy, dy, x); err != nil { // in the place of dy
		panic(err)
	}
	fmt.Println(dy.Float32s())
	// Output: [0 -0 48] <nil>
}
