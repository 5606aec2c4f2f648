package jit_test

import (
	"bytes"
	"testing"
	"unsafe"

	"tokitai/lower"
	"tokitai/lower/cpu"
	"tokitai/lower/cpu/jit"
	"tokitai/num"
)

// aligned returns a matrix whose rows begin at cache lines, with the given bytes in it.
func aligned(dtype num.DType, rows, cols int, fill func(i int) float32) num.Array {
	const line = 64
	perLine := line / dtype.Size()
	stride := (cols + perLine - 1) / perLine * perLine
	memory := make([]byte, rows*stride*dtype.Size()+line)
	skip := int(-uintptr(unsafe.Pointer(&memory[0])) % line)
	a := num.Array{DType: dtype, Rows: rows, Cols: cols, Stride: stride, Data: memory[skip:][:rows*stride*dtype.Size()]}
	for i := range rows * cols {
		a.Set(i/cols, i%cols, fill(i))
	}
	return a
}

// TestStreamed compares stores past the caches, which need aligned rows, with the
// interpreter. The bytes between the rows stay as they were.
func TestStreamed(t *testing.T) {
	for _, name := range []string{"softmax.forward", "gelu.forward"} {
		d := definition(t, name)
		for _, dtype := range num.FloatDTypes {
			dtypes := d.DTypes(dtype)
			plain, err := cpu.Compile(d, dtypes, cpu.Short)
			if err != nil {
				t.Fatal(err)
			}
			for _, set := range sets(t) {
				p, err := jit.Compile(d, dtypes, jit.Streamed, set)
				if err != nil {
					t.Fatal(err)
				}
				for _, cols := range []int{1, 15, 16, 31, 64, 100, 257, 300} {
					x := aligned(dtype, 3, cols, func(i int) float32 { return float32(i%97-48) / 16 })
					var results [2]num.Array
					for k, program := range []cpu.Program{plain, p} {
						results[k] = aligned(dtype, 3, cols, func(int) float32 { return 7 })
						call := &lower.Call{Operands: []lower.Operand{{Array: x}, {Array: results[k]}}}
						call.Measure(d)
						job := program.Bind(call, 1)
						for items, ok := job.Next(); ok; items, ok = job.Next() {
							for i := range items {
								job.Do(0, i)
							}
						}
						job.Release()
					}
					if !bytes.Equal(results[0].Data, results[1].Data) {
						t.Errorf("%s %s %s, %d columns: streamed outputs differ from the interpreter's", name, dtype, set, cols)
					}
				}
			}
		}
	}
}
