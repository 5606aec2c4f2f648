//go:build unix

package kernelprocess_test

import (
	"fmt"
	"log"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/kernelprocess"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// A program that calls kernelprocess.Main first thing, as this package's TestMain does, is
// its own kernel process.
func Example() {
	pool, err := kernelprocess.NewPool(kernelprocess.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	dev, err := pool.Open("cpu", "")
	if err != nil {
		log.Fatal(err)
	}
	q, err := engine.NewQueue(dev)
	if err != nil {
		log.Fatal(err)
	}
	x, err := tensor.FromFloat32(dev, num.F32, []float32{1, 1, 1, 1}, 1, 4) // in memory that both processes see
	if err != nil {
		log.Fatal(err)
	}
	if err := softmax.Forward(q, x, x); err != nil {
		log.Fatal(err)
	}
	values, err := x.Float32s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(values, "on", dev.Name())
	// Output: [0.25 0.25 0.25 0.25] on process:cpu
}

// Any call can be made in a process, with tensors that lie where they are.
func ExampleIsolated() {
	pool, err := kernelprocess.NewPool(kernelprocess.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	dev, err := pool.Open("cpu", "")
	if err != nil {
		log.Fatal(err)
	}
	q := cpu.Queue()
	x, err := tensor.FromFloat32(q.Device(), num.F32, []float32{0, 0}, 1, 2)
	if err != nil {
		log.Fatal(err)
	}
	if err := softmax.Forward(q, x, x, kernelprocess.Isolated(dev)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(x.Float32s())
	// Output: [0.5 0.5] <nil>
}
