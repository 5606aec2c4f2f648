package verify_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// mySoftmax is a kernel as one writes it: exponentials from the math library, added
// up from left to right, one division an element. What becomes of the sum after each
// addition is left open.
func mySoftmax(keep func(float32) float32) engine.Kernel {
	return engine.KernelFunc(func(l *engine.Launch) error {
		x, y := l.Operands[0].Array(), l.Operands[1].Array()
		e := make([]float32, x.Cols)
		for r := range x.Rows {
			largest := x.At(r, 0)
			for c := range x.Cols {
				largest = max(largest, x.At(r, c))
			}
			sum := float32(0)
			for c := range x.Cols {
				e[c] = float32(math.Exp(float64(x.At(r, c) - largest)))
				sum = keep(sum + e[c])
			}
			for c := range x.Cols {
				y.Set(r, c, e[c]/sum)
			}
		}
		return nil
	})
}

// lowering declares what the kernel promises: not the reference's bits, but what
// binary32 arithmetic gives when it adds up from left to right, with exponentials
// that are within 1 ulp.
func lowering(name string, keep func(float32) float32) *engine.Lowering {
	return &engine.Lowering{
		Name: name, Device: "cpu",
		IsBounded: true, Order: def.Sequential, FunctionULP: 1,
		Compile: func(*def.Definition, []num.DType, int) (engine.Kernel, error) { return mySoftmax(keep), nil },
	}
}

// One kernel keeps its sum in binary32, the other in f16: a fault that no tolerance of
// 1e-2 shows.
func Example() {
	right := lowering("mine.f32-sum", func(s float32) float32 { return s })
	wrong := lowering("mine.f16-sum", func(s float32) float32 { return num.Widen(num.F16, num.Narrow(num.F16, s)) })

	for _, l := range []*engine.Lowering{right, wrong} {
		target := &verify.Target{Operation: softmax.Operations[0], Definition: softmax.ForwardDefinition, Lowering: l, DType: num.F16}
		result, err := verify.Run(context.Background(), target, verify.Options{Level: verify.Smoke, Seed: 1, Tool: "example", Version: "1"})
		if err != nil {
			log.Fatal(err)
		}
		r := result.Report
		fmt.Println(r.Lowering, r.Contract, r.Model+":", r.Verdict, result.RejectedBy())
		if f := r.Failure; f != nil {
			fmt.Println("  smallest case:", f.Case)
			fmt.Println("  ", f.Message, "got", f.Got, "want", f.Want)
		}
	}
	// Output:
}
