package tensor_test

import (
	"fmt"

	"tokitai/device/cpu"
	"tokitai/num"
	"tokitai/tensor"
)

func Example() {
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	x, err := tensor.FromFloat32(dev, num.F16, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		panic(err)
	}
	defer x.Close()
	right, err := x.Slice(0, 2, 1, 3) // a view of two columns
	if err != nil {
		panic(err)
	}
	values, err := right.Float32s()
	fmt.Println(right, values, err)
	_, err = x.Reshape(4, 2)
	fmt.Println(err)
	// Output:
	// f16 [2 2] on cpu, row stride 3 [2 3 5 6] <nil>
	// tensor.Reshape: shape is [4 2], want the 6 elements of [2 3]
}
