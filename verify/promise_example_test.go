package verify_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/verify"
)

// exp2Softmax is a right kernel in another form, with powers of two instead of e. Its bits and its
// steps are not those of the definition.
var exp2Softmax = engine.KernelFunc(func(l *engine.Launch) error {
	x, y := l.Operands[0].Array, l.Operands[1].Array
	p := make([]float32, x.Cols)
	for r := range x.Rows {
		largest, sum := x.At(r, 0), float32(0)
		for c := range x.Cols {
			largest = max(largest, x.At(r, c))
		}
		for c := range x.Cols {
			p[c] = float32(math.Exp2(float64((x.At(r, c) - largest) * math.Log2E)))
			sum += p[c]
		}
		for c := range x.Cols {
			y.Set(r, c, p[c]/sum)
		}
	}
	return nil
})

// One kernel under three promises, and with a declaration that is too wide to say anything.
func Example_promises() {
	rough, _, err := promise.ParseDeclaration("exp=2^-6")
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range []engine.Promise{
		{Name: promise.Bits},
		{Name: promise.Ordered},
		{Name: promise.Stable},
		{Name: promise.Stable, Declares: rough},
	} {
		l := &engine.Lowering{
			Name: "mine.exp2", Device: "cpu", Promise: p,
			Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) { return exp2Softmax, nil },
		}
		target := &verify.Target{Operation: softmax.Operations[0], Definition: softmax.ForwardDefinition, Lowering: l, DType: num.F32}
		result, err := verify.Run(context.Background(), target, verify.Options{Level: verify.Smoke, Seed: 1, Tool: "example", Version: "1"})
		if err != nil {
			log.Fatal(err)
		}
		r := result.Report
		fmt.Printf("%s %s: %s (honest: %s, accurate: %s)\n", r.Promise, r.Declared, r.Verdict, r.Honest, r.Accurate)
	}
	// Output:
	// bits : rejected (honest: no, accurate: no)
	// ordered : rejected (honest: no, accurate: no)
	// stable : accepted (honest: yes, accurate: no)
	// stable exp=2^-6: undecided (honest: undecided, accurate: no)
}
