package layernorm_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/layernorm"
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
	x, _ := vector(num.F16, 252, 256, 252, 256).Reshape(1, 4)
	gamma, beta := vector(num.F32, 1, 1, 2, 2), vector(num.F32, 0, 0, 10, 10)
	mean, rstd := vector(num.F32, 0), vector(num.F32, 0)
	y, _ := tensor.New(q.Device(), num.F16, 1, 4)
	if err := layernorm.Forward(q, y, mean, rstd, x, gamma, beta, layernorm.Params{Eps: 0}); err != nil {
		panic(err)
	}
	fmt.Println(y.Float32s())
	fmt.Println(mean.Float32s())
	fmt.Println(rstd.Float32s())

	dy, _ := vector(num.F16, 1, 0, 0, 0).Reshape(1, 4)
	dgamma, dbeta := vector(num.F32, 0, 0, 0, 0), vector(num.F32, 0, 0, 0, 0)
	if err := layernorm.Backward(q, dy, dgamma, dbeta, dy, x, gamma, mean, rstd); err != nil { // dx in the place of dy
		panic(err)
	}
	fmt.Println(dy.Float32s())
	fmt.Println(dgamma.Float32s())
	// Output:
	// [-1 1 8 12] <nil>
	// [254] <nil>
	// [0.5] <nil>
	// [0.25 0 -0.25 0] <nil>
	// [-1 0 0 0] <nil>
}
