package attention_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/attention"
	"tokitai/tensor"
)

// The last two tokens of a sequence of three, with one head of two columns.
func Example() {
	q := cpu.Queue()
	from := func(values []float32, shape ...int) *tensor.Tensor {
		x, err := tensor.FromFloat32(q.Device(), num.F32, values, shape...)
		if err != nil {
			panic(err)
		}
		return x
	}
	query := from([]float32{1, 0, 0, 1}, 2, 1, 1, 2)
	key := from([]float32{1, 0, 1, 0, 0, 2}, 3, 1, 2)
	value := from([]float32{2, 4, 4, 8, 1, 1}, 3, 1, 2)
	qstart, _ := tensor.FromInt32(q.Device(), []int32{0, 2}, 2)
	kstart, _ := tensor.FromInt32(q.Device(), []int32{0, 3}, 2)
	o, _ := tensor.New(q.Device(), num.F32, 2, 1, 1, 2)
	lse, _ := tensor.New(q.Device(), num.F32, 2, 1, 1)
	// Weights are powers of two: the scale is ln(2).
	if err := attention.Forward(q, o, lse, query, key, value, attention.Sequences{QueryStarts: qstart, KeyStarts: kstart}, 1); err != nil {
		panic(err)
	}
	fmt.Println(o.Float32s())
	fmt.Println(lse.Float32s())
	// Output:
	// [3 6 1.6666667 2.6666667] <nil>
	// [2 2.5849624] <nil>
}

// The gradients of one token that sees two keys of equal weight.
func ExampleBackward() {
	q := cpu.Queue()
	from := func(values []float32, shape ...int) *tensor.Tensor {
		x, err := tensor.FromFloat32(q.Device(), num.F32, values, shape...)
		if err != nil {
			panic(err)
		}
		return x
	}
	query, key, value := from([]float32{0}, 1, 1, 1, 1), from([]float32{1, -1}, 2, 1, 1), from([]float32{4, 8}, 2, 1, 1)
	qstart, _ := tensor.FromInt32(q.Device(), []int32{0, 1}, 2)
	kstart, _ := tensor.FromInt32(q.Device(), []int32{0, 2}, 2)
	s := attention.Sequences{QueryStarts: qstart, KeyStarts: kstart}
	saved := attention.Saved{Out: from([]float32{0}, 1, 1, 1, 1), LogSum: from([]float32{0}, 1, 1, 1)}
	if err := attention.Forward(q, saved.Out, saved.LogSum, query, key, value, s, 1); err != nil {
		panic(err)
	}
	dq, dk, dv := from([]float32{0}, 1, 1, 1, 1), from([]float32{0, 0}, 2, 1, 1), from([]float32{0, 0}, 2, 1, 1)
	do := from([]float32{1}, 1, 1, 1, 1) // of a loss that is the mean itself
	if err := attention.Backward(q, dq, dk, dv, do, query, key, value, saved, s, 1); err != nil {
		panic(err)
	}
	fmt.Println(dq.Float32s()) // -2 ln 2
	fmt.Println(dk.Float32s())
	fmt.Println(dv.Float32s())
	// Output:
	// [-1.3862944] <nil>
	// [0 0] <nil>
	// [0.5 0.5] <nil>
}

// A token of each of two sequences that share the first page of a cache: the second has one key more.
func ExampleDecode() {
	q := cpu.Queue()
	const pages, page = 2, 16
	cached := make([]float32, pages*page)
	for i := range 17 {
		cached[i] = float32(i)
	}
	from := func(values []float32, shape ...int) *tensor.Tensor {
		x, err := tensor.FromFloat32(q.Device(), num.F32, values, shape...)
		if err != nil {
			panic(err)
		}
		return x
	}
	query, key, value := from([]float32{0, 0}, 2, 1, 1, 1), from(cached, pages, page, 1, 1), from(cached, pages, page, 1, 1)
	qstart, _ := tensor.FromInt32(q.Device(), []int32{0, 1, 2}, 3)
	lengths, _ := tensor.FromInt32(q.Device(), []int32{16, 17}, 2)
	table, _ := tensor.FromInt32(q.Device(), []int32{0, -1, 0, 1}, 2, 2)
	o, lse := from([]float32{0, 0}, 2, 1, 1, 1), from([]float32{0, 0}, 2, 1, 1)
	if err := attention.Decode(q, o, lse, query, key, value, attention.Pages{QueryStarts: qstart, Lengths: lengths, Table: table}, 1); err != nil {
		panic(err)
	}
	fmt.Println(o.Float32s()) // the means of 0 to 15, and of 0 to 16
	// Output: [7.5 8] <nil>
}
