package adamw_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/tensor"
)

// A model of one tensor with f32 weights and an f16 copy for its forward pass.
func ExampleOptimizer() {
	q := cpu.Queue()
	weight, err := tensor.FromFloat32(q.Device(), num.F32, []float32{1, -1}, 2)
	if err != nil {
		panic(err)
	}
	copied, _ := tensor.New(q.Device(), num.F16, 2)
	hyper := adamw.DefaultHyper
	hyper.LR = 1e-4
	o, err := adamw.New(q, adamw.Options{Mode: adamw.Master, Hyper: hyper}, []adamw.Parameter{
		{Name: "layer", Weight: weight, Copy: copied, LRScale: 1},
	})
	if err != nil {
		panic(err)
	}
	defer o.Close()

	grad, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{2, 3}, 2)
	for range 3 {
		if err := o.StepAll(q, []*tensor.Tensor{grad}); err != nil {
			panic(err)
		}
	}
	fmt.Println(o.Steps())
	fmt.Println(weight.Float32s())
	fmt.Println(copied.Float32s())
	// Output:
	// 3
	// [0.99969995 -1.0003] <nil>
	// [0.9995117 -1] <nil>
}

// In place, a 16-bit weight does not feel a small step.
func ExampleStep() {
	q := cpu.Queue()
	moments := func() *tensor.Tensor { x, _ := tensor.New(q.Device(), num.F32, 1); return x }
	grad, _ := tensor.FromFloat32(q.Device(), num.F16, []float32{1}, 1)
	hyper := adamw.DefaultHyper
	hyper.LR = 1e-4
	for _, d := range []num.DType{num.F16, num.F32} {
		w, _ := tensor.FromFloat32(q.Device(), d, []float32{1}, 1)
		s := adamw.State{Weight: w, M: moments(), V: moments()}
		for t := 1; t <= 1000; t++ {
			if err := adamw.Step(q, adamw.Update{State: s, Grad: grad, Hyper: hyper, T: t}); err != nil {
				panic(err)
			}
		}
		values, _ := w.Float32s()
		fmt.Printf("%s: %.3f\n", d, values[0])
	}
	// Output:
	// f16: 1.000
	// f32: 0.899
}
