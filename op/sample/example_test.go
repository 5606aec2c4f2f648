package sample_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/sample"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	device := q.Device()
	floats := func(v ...float32) *tensor.Tensor { return must(tensor.FromFloat32(device, num.F32, v, len(v))) }
	ints := func(v ...int32) *tensor.Tensor { return must(tensor.FromInt32(device, v, len(v))) }

	logits := must(tensor.FromFloat32(device, num.F32, []float32{0, 3, 1, 0, 3, 1}, 2, 3))
	token, logprob := ints(0, 0), floats(0, 0)
	settings := sample.Settings{
		Sequence: ints(4, 9), Position: ints(17, 17), // the random words of each row
		Temperature: floats(0, 0.8), TopK: ints(0, 2), TopP: floats(1, 0.95), MinP: floats(0, 0),
	}
	if err := sample.Draw(q, token, logprob, logits, settings, sample.Words{Seed: 42}); err != nil {
		panic(err)
	}
	fmt.Println(must(token.Int32s()), must(logprob.Float32s())[0])
	// Output: [1 1] -0.16984603
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
