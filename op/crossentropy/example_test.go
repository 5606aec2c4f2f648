package crossentropy_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/crossentropy"
	"tokitai/tensor"
)

func Example() {
	q := cpu.Queue()
	logits, err := tensor.FromFloat32(q.Device(), num.F16, []float32{
		2, 2, 2, 2,
		0, 8, 0, 0,
		1, 2, 3, 4,
	}, 3, 4)
	if err != nil {
		panic(err)
	}
	label, _ := tensor.FromInt32(q.Device(), []int32{1, 1, crossentropy.DefaultIgnore}, 3)
	loss, _ := tensor.New(q.Device(), num.F32, 3)
	p := crossentropy.DefaultParams
	p.Scale = 0.5 // the mean of the two rows that count
	if err := crossentropy.Run(q, loss, logits, logits, label, p); err != nil {
		panic(err)
	}
	fmt.Println(loss.Float32s())
	dlogits, _ := logits.Float32s() // the gradient has replaced the logits
	for r := range 3 {
		fmt.Println(dlogits[4*r : 4*r+4])
	}
	// Output:
	// [1.3862944 0.0010058588 0] <nil>
	// [0.125 -0.375 0.125 0.125]
	// [0.00016760826 -0.00050258636 0.00016760826 0.00016760826]
	// [0 0 0 0]
}

func ExampleRun_badLabel() {
	q := cpu.Queue()
	logits, _ := tensor.New(q.Device(), num.F16, 2, 4)
	label, _ := tensor.FromInt32(q.Device(), []int32{1, 4}, 2)
	loss, _ := tensor.New(q.Device(), num.F32, 2)
	fmt.Println(crossentropy.Run(q, loss, logits, logits, label, crossentropy.DefaultParams))
	// Output: crossentropy: label[1] is 4, want 0 to 3 or -100 (ignore)
}
