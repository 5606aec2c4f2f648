package engine_test

import (
	"fmt"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// A step of training is recorded once. Before each later run, the step's number and its
// learning rate are changed.
func ExampleQueue_Record() {
	q := cpu.Queue()
	x, err := tensor.FromFloat32(q.Device(), num.F32, []float32{1, 2, 3, 4}, 2, 2)
	if err != nil {
		panic(err)
	}
	grad, _ := tensor.New(q.Device(), num.F32, 2, 2)
	m, _ := tensor.New(q.Device(), num.F32, 2, 2)
	v, _ := tensor.New(q.Device(), num.F32, 2, 2)
	update := func(q *engine.Queue, t int) error {
		hyper := adamw.DefaultHyper
		hyper.LR = 0.5 / float64(t)
		return adamw.Step(q, adamw.Update{State: adamw.State{Weight: x, M: m, V: v}, Grad: grad, Hyper: hyper, T: t})
	}
	step, err := q.Record(func(q *engine.Queue) error {
		if err := softmax.Forward(q, grad, x); err != nil {
			return err
		}
		return update(q, 1)
	})
	if err != nil {
		panic(err)
	}
	defer step.Close()
	for t := 1; t <= 3; t++ {
		if err := step.Update(func(q *engine.Queue) error { return update(q, t) }); err != nil {
			panic(err)
		}
		if err := step.Run(q); err != nil {
			panic(err)
		}
		fmt.Println(x.Float32s())
	}
	// Output:
	// [0.49500006 1.49 2.4850001 3.48] <nil>
	// [0.24373919 1.2362839 2.2287643 3.221309] <nil>
	// [0.076635405 1.0675684 2.0583522 3.049285] <nil>
}
