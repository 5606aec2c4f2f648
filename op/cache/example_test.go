package cache_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/cache"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	keys, err := tensor.New(q.Device(), num.F16, 4, 2) // of four tokens
	if err != nil {
		panic(err)
	}
	slot, _ := tensor.FromInt32(q.Device(), []int32{2, 0}, 2)
	rows, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2, 3, 4}, 2, 2)
	if err := cache.Append(q, keys, slot, rows); err != nil {
		panic(err)
	}
	fmt.Println(keys.Float32s())
	// Output:
	// [3 4 0 0 1 2 0 0] <nil>
}
