package sgd_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/sgd"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	vector := func(d num.DType, values ...float32) *tensor.Tensor {
		t, err := tensor.FromFloat32(q.Device(), d, values, len(values))
		if err != nil {
			panic(err)
		}
		return t
	}
	u := sgd.Update{
		Weight: vector(num.F32, 1, -2), Buffer: vector(num.F32, 0, 0), Grad: vector(num.BF16, 4, -0.5), Copy: vector(num.BF16, 0, 0),
		IsMaster: true, Hyper: sgd.Hyper{LR: 0.125, Momentum: 0.5},
	}
	for range 2 {
		if err := sgd.Step(q, u); err != nil {
			panic(err)
		}
		fmt.Println(u.Weight.Float32s())
	}
	fmt.Println(u.Copy.Float32s())
	// Output:
	// [0.5 -1.9375] <nil>
	// [-0.25 -1.84375] <nil>
	// [-0.25 -1.84375] <nil>
}
