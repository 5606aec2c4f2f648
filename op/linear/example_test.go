package linear_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/linear"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	a, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2, 3, 4}, 2, 2)
	b, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 0, 0, 1, 1, 1}, 3, 2)
	x, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{10, 20, 30, 40, 50, 60}, 2, 3)
	y, _ := tensor.New(q.Device(), num.F16, 2, 3)
	if err := linear.Residual(q, y, x, a, b); err != nil {
		panic(err)
	}
	fmt.Println(y.Float32s())
	// Output: [11 22 33 43 54 67] <nil>
}
