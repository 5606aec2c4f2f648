package matmul_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/machine"
	"tokitai/lower/cpu/matmul"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial/randdef"
)

var workerCounts = []int{1, 2, 3}

// sets returns the instruction sets that this machine can test.
func sets(t testing.TB) []machine.Set {
	all := machine.Available()
	if all[0] == machine.Plain {
		t.Skip("skipped: " + machine.Note())
	}
	return all[:len(all)-1]
}

// eachSet runs a test for each instruction set.
func eachSet(t *testing.T, test func(t *testing.T, set machine.Set)) {
	for _, set := range sets(t) {
		t.Run(set.String(), func(t *testing.T) { test(t, set) })
	}
}

// products are all forms of a contraction: each operand as it is or transposed, the result
// set or added to. Sizes are M×N, summed over K.
func products(t testing.TB) []*def.Definition {
	var all []*def.Definition
	for form := range 8 {
		f := def.ContractionForm{
			Left: "a", LeftDims: []string{"M", "K"}, TransposeLeft: form&1 != 0,
			Right: "b", RightDims: []string{"K", "N"}, TransposeRight: form&2 != 0,
			Result: "c", ResultDims: []string{"M", "N"}, Accumulate: form&4 != 0,
		}
		name := "product"
		if f.TransposeLeft {
			slices.Reverse(f.LeftDims)
			name += ".left_transposed"
		}
		if f.TransposeRight {
			slices.Reverse(f.RightDims)
			name += ".right_transposed"
		}
		if f.Accumulate {
			name += ".accumulate"
		}
		d, err := def.Contraction(name, f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

var formats = [][]num.DType{
	{num.F32, num.F32, num.F32},
	{num.F16, num.F16, num.F16}, {num.F16, num.F16, num.F32},
	{num.BF16, num.BF16, num.BF16}, {num.BF16, num.BF16, num.F32},
}

// run executes a program, each worker in a goroutine.
func run(p lowercpu.Program, operands []num.Array, workers int) {
	call := &lower.Call{}
	for _, a := range operands {
		call.Operands = append(call.Operands, lower.Operand{Array: a})
	}
	job := p.Bind(call, workers)
	for {
		items, ok := job.Next()
		if !ok {
			job.Release()
			return
		}
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for item := w; item < items; item += workers {
					job.Do(w, item)
				}
			})
		}
		all.Wait()
	}
}

func dtypesOf(operands []num.Array) []num.DType {
	var dtypes []num.DType
	for _, a := range operands {
		dtypes = append(dtypes, a.DType)
	}
	return dtypes
}

func compile(t testing.TB, d *def.Definition, dtypes []num.DType, set machine.Set) lowercpu.Program {
	t.Helper()
	p, err := matmul.Compile(d, dtypes, set)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// compare holds a program against the reference on one case.
func compare(t *testing.T, c *randdef.Case, set machine.Set, workers int) {
	t.Helper()
	want, got := c.Clone(), c.Clone()
	if err := reference.Run(want.Definition, want.Operands, reference.Options{}); err != nil {
		t.Fatal(err)
	}
	run(compile(t, c.Definition, dtypesOf(c.Operands), set), got.Operands, workers)
	if text := randdef.Diff(got, want); text != "" {
		a, r := c.Operands[0], c.Operands[2]
		t.Fatalf("%s %v, left [%d %d], result [%d %d], %d workers: %s\n%s", c.Definition.Name, dtypesOf(c.Operands), a.Rows, a.Cols, r.Rows, r.Cols, workers, text, c.Definition.Text())
	}
}

// TestSizes has every size of one dimension, the others small and odd.
func TestSizes(t *testing.T) {
	all := products(t)
	eachSet(t, func(t *testing.T, set machine.Set) {
		g := gen.New("sizes")
		others := [][2]int{{1, 3}, {5, 1}, {17, 9}, {33, 2}}
		for n := 1; n <= testlevel.Pick(80, 300); n++ {
			for dimension := range 3 {
				d := all[g.Below(len(all))]
				dtypes := formats[g.Below(len(formats))]
				o := others[g.Below(len(others))]
				sizes := [][3]int{{n, o[0], o[1]}, {o[0], n, o[1]}, {o[0], o[1], n}}[dimension]
				c := randdef.NewCase(g, d, dtypes, map[string]int{"M": sizes[0], "N": sizes[1], "K": sizes[2]})
				compare(t, c, set, workerCounts[g.Below(len(workerCounts))])
			}
		}
	})
}

// TestRandomSizes has random sizes of up to some blocks, in all forms and formats.
func TestRandomSizes(t *testing.T) {
	eachSet(t, func(t *testing.T, set machine.Set) {
		g := gen.New("random sizes")
		for _, d := range products(t) {
			for _, dtypes := range formats {
				t.Run(fmt.Sprintf("%s/%v", d.Name, dtypes), func(t *testing.T) {
					for range testlevel.Pick(4, 20) {
						size := func() int { return 1 + g.Below(1+g.Below(60)) }
						c := randdef.NewCase(g, d, dtypes, map[string]int{"M": size(), "N": size(), "K": size()})
						compare(t, c, set, workerCounts[g.Below(len(workerCounts))])
					}
				})
			}
		}
	})
}
