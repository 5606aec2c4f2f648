package jit_test

import (
	"fmt"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower"
	"tokitai/lower/cpu/jit"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/trial/randdef"
)

// BenchmarkCompute runs one worker on data in the caches: what is left is the code.
func BenchmarkCompute(b *testing.B) {
	for _, name := range []string{"softmax.forward", "softmax.backward", "gelu.forward", "gelu.backward", "layernorm.forward", "layernorm.backward", "crossentropy", "adamw.step"} {
		d := definition(b, name)
		for _, dtype := range num.FloatDTypes {
			dtypes := d.DTypes(dtype)
			for _, set := range machine.Available() {
				if set == machine.Plain {
					continue
				}
				b.Run(fmt.Sprintf("%s/%s/%s", name, dtype, set), func(b *testing.B) { compute(b, d, dtypes, set) })
			}
		}
	}
}

func definition(t testing.TB, name string) *def.Definition {
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Name == name {
				return d
			}
		}
	}
	t.Fatalf("no definition %s", name)
	return nil
}

func compute(b *testing.B, d *def.Definition, dtypes []num.DType, set machine.Set) {
	const rows, cols = 32, 1024
	c := randdef.NewCase(gen.New("compute"), d, dtypes, map[string]int{"R": rows, "C": cols})
	for i, a := range c.Operands { // numbers near 1: subnormals are slow
		for k := 0; d.Operands[i].IsIn && !d.Operands[i].IsIndex && k < a.Rows*a.Cols; k++ {
			a.Set(k/a.Cols, k%a.Cols, float32(k*2654435761%4001-2000)/1000)
		}
	}
	for i := range c.Params {
		c.Params[i] = 0.5
	}
	call := &lower.Call{Params: c.Params}
	for _, a := range c.Operands {
		call.Operands = append(call.Operands, lower.Operand{Array: a})
	}
	call.Measure(d)
	p, err := jit.Compile(d, dtypes, jit.ClassOf(d, call), set)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		job := p.Bind(call, 1)
		for {
			items, ok := job.Next()
			if !ok {
				break
			}
			for i := range items {
				job.Do(0, i)
			}
		}
		job.Release()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(rows*cols), "ns/element")
}
