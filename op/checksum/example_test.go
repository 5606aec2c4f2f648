package checksum_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/checksum"
	"tokitai/tensor"
)

// A tensor and its two halves.
func ExampleOf() {
	q := cpu.Queue()
	whole, err := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2, 3, 4}, 4)
	if err != nil {
		panic(err)
	}
	low, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2}, 2)
	high, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{3, 4}, 2)

	d, err := checksum.Of(q, whole, 0)
	if err != nil {
		panic(err)
	}
	a, _ := checksum.Of(q, low, 0)
	b, _ := checksum.Of(q, high, 2)
	fmt.Println(d)
	fmt.Println(d == a.Plus(b))
	// Output:
	// bd1e27d5c84de7e7
	// true
}
