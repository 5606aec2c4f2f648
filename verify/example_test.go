package verify_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/tensor"
	"tokitai/verify"
)

// mySoftmax is a plain kernel: exponentials from the math library, added up from left to
// right, and one division per element. keep is applied to the sum after each addition.
func mySoftmax(keep func(float32) float32) engine.Kernel {
	return engine.KernelFunc(func(l *engine.Launch) error {
		x, y := l.Operands[0].Array, l.Operands[1].Array
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
		Promise: engine.Promise{Name: promise.Stable, Order: def.Sequential, FunctionULP: 1},
		Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
			return mySoftmax(keep), nil
		},
	}
}

// One kernel keeps its sum in binary32, the other in bf16, as the outputs are stored.
func Example() {
	right := lowering("mine.f32-sum", func(s float32) float32 { return s })
	wrong := lowering("mine.bf16-sum", func(s float32) float32 { return num.Widen(num.BF16, num.Narrow(num.BF16, s)) })

	for _, l := range []*engine.Lowering{right, wrong} {
		target := &verify.Target{Operation: softmax.Operations[0], Definition: softmax.ForwardDefinition, Lowering: l, DType: num.BF16}
		result, err := verify.Run(context.Background(), target, verify.Options{Level: verify.Smoke, Seed: 1, Tool: "example", Version: "1"})
		if err != nil {
			log.Fatal(err)
		}
		r := result.Report
		fmt.Println(r.Lowering, r.Contract, r.Model+":", r.Verdict, result.RejectedBy())
		if f := r.Failure; f != nil {
			fmt.Printf("  %s: %s is %s, want %s\n", f.Case, f.Place, f.Got, f.Want)
		}
	}
	// Output:
	// softmax.forward/mine.f32-sum bounded sequential: accepted []
	// softmax.forward/mine.bf16-sum bounded sequential: rejected [set statistics]
	//   integers/R=1,C=7: y[0,0] is 0x3d81 (0.062988281), want 0x3d80 (0.0625)
}

// A checked call computes as any other, and reports on its results.
func ExampleChecked() {
	q := cpu.Queue()
	x, err := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2, 3, 4}, 1, 4)
	if err != nil {
		log.Fatal(err)
	}
	y, err := tensor.New(q.Device(), num.F16, 1, 4)
	if err != nil {
		log.Fatal(err)
	}
	report := &verify.CallReport{Tool: "example", Version: "1"}
	if err := softmax.Forward(q, y, x, verify.Checked(report)); err != nil {
		log.Fatal(err)
	}
	for _, r := range report.Reports() {
		fmt.Printf("%s %s: %d outputs %s, worst error %.3f ulp\n", r.Definition.Name, r.DType, r.Elements, r.Verdict, *r.WorstErrorULP)
	}
	// Output: softmax.forward f16: 4 outputs accepted, worst error 0.496 ulp
}
