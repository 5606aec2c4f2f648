package router_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/router"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	logits, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{0, 3, 0, 3, -1, 8, 0, 0}, 2, 4)
	bias, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{0, 0, 0.5, 0}, 4)
	weight, _ := tensor.New(q.Device(), num.F32, 2, 2)
	expert, _ := tensor.New(q.Device(), num.I32, 2, 2)
	if err := router.SoftmaxForward(q, weight, expert, logits, bias, router.DefaultParams(2)); err != nil {
		panic(err)
	}
	fmt.Println(weight.Float32s())
	fmt.Println(expert.Int32s())
	// Output:
	// [0.95257413 0.047425874 0.9996646 0.0003353501] <nil>
	// [1 2 1 2] <nil>
}
