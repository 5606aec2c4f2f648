package rope_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/rope"
	"tokitai/tensor"
)

// Two tokens with one head of four columns each, at positions 0 and 3.
func Example() {
	q := cpu.Queue()
	x, _ := tensor.FromFloat32(q.Device(), num.F32, []float32{1, 2, 3, 4, 1, 2, 3, 4}, 2, 1, 4)
	position, _ := tensor.FromInt32(q.Device(), []int32{0, 3}, 2)
	cos, sin, err := rope.Tables(q.Device(), 16, 2, rope.DefaultFrequencies)
	if err != nil {
		panic(err)
	}
	x1, x2, err := rope.Halves(x)
	if err != nil {
		panic(err)
	}
	if err := rope.Forward(q, x1, x2, x1, x2, position, cos, sin); err != nil { // in place
		panic(err)
	}
	fmt.Println(x.Float32s())
	// Output: [1 2 3 4 -1.4133525 1.8791181 -2.8288574 4.0581913] <nil>
}
