package dropout_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/dropout"
	"tokitai/tensor"
)

func ExampleForward() {
	q := cpu.Queue()
	x, err := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2, 3, 4, 5, 6}, 6)
	if err != nil {
		panic(err)
	}
	w := dropout.Words{Seed: 42, Step: 1}
	y, _ := tensor.New(q.Device(), num.F16, 6)
	if err := dropout.Forward(q, y, x, 0.5, w); err != nil {
		panic(err)
	}
	fmt.Println(y.Float32s())

	// The gradient of a sum of y drops the same elements.
	dy, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 1, 1, 1, 1, 1}, 6)
	if err := dropout.Backward(q, dy, dy, 0.5, w); err != nil {
		panic(err)
	}
	fmt.Println(dy.Float32s())
	// Output:
	// [0 4 0 8 0 0] <nil>
	// [0 2 0 2 0 0] <nil>
}
