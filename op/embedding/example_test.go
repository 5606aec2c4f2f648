package embedding_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	weight, err := tensor.FromFloat32(q.Device(), num.F16, []float32{
		1, 2,
		3, 4,
		5, 6,
	}, 3, 2)
	if err != nil {
		panic(err)
	}
	index, _ := tensor.FromInt32(q.Device(), []int32{2, 0, 2}, 3)
	out, _ := tensor.New(q.Device(), num.F16, 3, 2)
	if err := embedding.Forward(q, out, index, weight); err != nil {
		panic(err)
	}
	fmt.Println(out.Float32s())

	dweight, _ := tensor.New(q.Device(), num.F16, 3, 2)
	if err := embedding.Backward(q, dweight, index, out); err != nil { // out stands in for a gradient
		panic(err)
	}
	fmt.Println(dweight.Float32s())
	// Output:
	// [5 6 1 2 5 6] <nil>
	// [1 2 0 0 10 12] <nil>
}

func ExampleForward_badIndex() {
	q := cpu.Queue()
	weight, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2}, 2, 1)
	index, _ := tensor.FromInt32(q.Device(), []int32{1, 2}, 2)
	out, _ := tensor.New(q.Device(), num.F16, 2, 1)
	fmt.Println(embedding.Forward(q, out, index, weight))

	skip := q.With(engine.WithBadIndex(engine.Skip))
	fmt.Println(embedding.Forward(skip, out, index, weight))
	fmt.Println(out.Float32s())
	// Output:
	// embedding.forward: index[1] is 2, want 0 to 1
	// <nil>
	// [2 0] <nil>
}
