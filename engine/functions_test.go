package engine_test

import (
	"math"
	"testing"

	"tokitai/backend/gputest"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/tensor"
	"tokitai/trial"
)

// functions has an output for each function that no shipped operation uses.
var functions = def.Must(def.Rowwise("functions", func(b *def.Builder) {
	x := b.In("x", def.Only(num.F32))
	for _, f := range []*def.Function{
		fn.Exp2Function, fn.Log2Function, fn.Log1pFunction, fn.SinFunction, fn.CosFunction, fn.ErfFunction,
	} {
		b.Out(f.Name, f.Of(x), def.Only(num.F32))
	}
}))

// angles and the like: zeros, the smallest and the largest numbers, both sides of every
// border in an expansion, and numbers next to multiples of π/2.
var functionArguments = []float32{
	0, float32(math.Copysign(0, -1)), 0x1p-149, -0x1p-149, 0x1p-126, -0x1p-126, 0.5, -0.5, 1, -1, 2, -2, 3, 10, -10,
	math.Sqrt2, math.Sqrt2 / 2, 0.75, 0x1.7ffffep-1, -0.25, -0.99999994, -1.0000001, 0.99999994, 1.0000001, 4, -4, 4.0000005,
	-150, -149.99998, -151, -126, 127.99999, 128, 128.5, 0x1p64, 0x1.fffffep63, 0x1p24, 0x1p-25,
	math.Pi / 2, math.Pi, 0x1.f9cbe2p7, 0x1.9a48dep15, -0x1.9a48dep16, 100, 1000, -12345.678, 0x1p17, -0x1p17, 131072.02,
	math.MaxFloat32, -math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
}

// TestFunctions: the functions that no shipped operation uses have the reference's bits on
// the CPU and on the simulator.
func TestFunctions(t *testing.T) {
	n := len(functionArguments)
	var want []num.Array
	for range functions.Operands {
		want = append(want, num.NewArray(num.F32, 1, n))
	}
	for c, v := range functionArguments {
		want[0].Set(0, c, v)
	}
	if err := reference.Run(functions, want, reference.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, on := range []string{"cpu", "sim"} {
		t.Run(on, func(t *testing.T) {
			q := newQueue(t)
			if on == "sim" {
				var err error
				if q, err = engine.NewQueue(gputest.NeedsSim(t, 32)); err != nil {
					t.Fatal(err)
				}
				defer q.Close()
			}
			x, err := tensor.FromFloat32(q.Device(), num.F32, functionArguments, 1, n)
			if err != nil {
				t.Fatal(err)
			}
			results, err := engine.Eval(q, functions, engine.Args{"x": x})
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range functions.Operands {
				if !o.IsOut {
					continue
				}
				got, err := results[o.Name].Float32s()
				if err != nil {
					t.Fatal(err)
				}
				for c, v := range got {
					if w := want[i].At(0, c); !trial.Values.Same(num.F32, uint64(math.Float32bits(v)), uint64(math.Float32bits(w))) {
						t.Errorf("%s(%v): got %v, want %v", o.Name, functionArguments[c], v, w)
					}
				}
			}
		})
	}
}
