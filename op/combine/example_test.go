package combine_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/combine"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	o, err := tensor.FromFloat32(q.Device(), num.F32, []float32{
		1, 10,
		2, 20,
		4, 40,
	}, 3, 2)
	if err != nil {
		panic(err)
	}
	place, _ := tensor.FromInt32(q.Device(), []int32{2, 0, 1, 1}, 2, 2) // two rows for each of two tokens
	weight, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{0.5, 1, 2, 3}, 2, 2)
	y, _ := tensor.New(q.Device(), num.F32, 2, 2)
	if err := combine.Forward(q, y, place, o, weight); err != nil {
		panic(err)
	}
	fmt.Println(y.Float32s())
	// Output:
	// [3 30 10 100] <nil>
}
