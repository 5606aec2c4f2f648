package dispatch_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/dispatch"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	const tokens, choices, experts = 3, 2, 3
	expert, err := tensor.FromInt32(q.Device(), []int32{2, 0, 0, 2, 2, 1}, tokens, choices)
	if err != nil {
		panic(err)
	}
	counts, _ := tensor.New(q.Device(), num.I32, experts)
	offsets, _ := tensor.New(q.Device(), num.I32, experts+1)
	source, _ := tensor.New(q.Device(), num.I32, tokens, choices)
	slot, _ := tensor.New(q.Device(), num.I32, tokens, choices)
	place, _ := tensor.New(q.Device(), num.I32, tokens, choices)
	if err := dispatch.Forward(q, counts, offsets, source, slot, place, expert); err != nil {
		panic(err)
	}
	fmt.Println(offsets.Int32s())
	fmt.Println(source.Int32s())
	fmt.Println(place.Int32s())
	// Output:
	// [0 2 3 6] <nil>
	// [0 1 2 0 1 2] <nil>
	// [3 0 1 4 5 2] <nil>
}
