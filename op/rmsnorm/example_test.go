package rmsnorm_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/rmsnorm"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	vector := func(d num.DType, values ...float32) *tensor.Tensor {
		x, err := tensor.FromFloat32(q.Device(), d, values, len(values))
		if err != nil {
			panic(err)
		}
		return x
	}
	x, _ := vector(num.F16, 1, 3, -1, 3).Reshape(1, 4)
	residual, _ := vector(num.F16, 3, 1, -3, 1).Reshape(1, 4)
	gamma, rstd := vector(num.F32, 1, 1, 2, 2), vector(num.F32, 0)
	y, _ := tensor.New(q.Device(), num.F16, 1, 4)
	if err := rmsnorm.ForwardResidual(q, residual, y, rstd, x, residual, gamma, rmsnorm.Params{Eps: 0}); err != nil { // sum in the place of residual
		panic(err)
	}
	fmt.Println(residual.Float32s())
	fmt.Println(y.Float32s())
	fmt.Println(rstd.Float32s())

	dy, _ := vector(num.F16, 1, 0, 0, 0).Reshape(1, 4)
	dgamma := vector(num.F32, 0, 0, 0, 0)
	if err := rmsnorm.Backward(q, dy, dgamma, dy, residual, gamma, rstd); err != nil { // dx in the place of dy
		panic(err)
	}
	fmt.Println(dy.Float32s())
	fmt.Println(dgamma.Float32s())
	// Output:
	// [4 4 -4 4] <nil>
	// [1 1 -2 2] <nil>
	// [0.25] <nil>
	// [0.1875 -0.0625 0.0625 -0.0625] <nil>
	// [1 0 0 0] <nil>
}
