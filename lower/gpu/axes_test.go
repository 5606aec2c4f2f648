package gpu_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial"
	"tokitai/trial/randdef"
)

// stacks are products with batch axes and groups, one of each kind that the kernel tells
// apart.
var stacks = []def.ContractionForm{
	{LeftDims: []string{"H", "M", "K"}, RightDims: []string{"H", "K", "N"}, ResultDims: []string{"H", "M", "N"}},
	{LeftDims: []string{"P", "K", "M"}, TransposeLeft: true, RightDims: []string{"H", "N", "K"}, TransposeRight: true, ResultDims: []string{"P", "H", "M", "N"}, Accumulate: true},
	{LeftDims: []string{"M", "K"}, RightDims: []string{"G", "K", "N"}, ResultDims: []string{"M", "N"}, Groups: groupsOf("M")},
	{LeftDims: []string{"H", "K", "M"}, TransposeLeft: true, RightDims: []string{"G", "N", "K"}, TransposeRight: true, ResultDims: []string{"H", "M", "N"}, Groups: groupsOf("M"), Accumulate: true},
	{LeftDims: []string{"K", "M"}, TransposeLeft: true, RightDims: []string{"K", "N"}, ResultDims: []string{"G", "M", "N"}, Groups: groupsOf("K")},
	{LeftDims: []string{"H", "M", "K"}, RightDims: []string{"N", "K"}, TransposeRight: true, ResultDims: []string{"G", "H", "M", "N"}, Groups: groupsOf("K"), Accumulate: true},
}

func groupsOf(letter string) def.Groups {
	return def.Groups{Number: "G", Of: letter, Offsets: "offsets"}
}

func stackDefinition(i int) *def.Definition {
	f := stacks[i]
	f.Left, f.Right, f.Result = "a", "b", "c"
	return def.Must(def.Contraction(fmt.Sprintf("stack%d", i), f))
}

// place adds a call on operands as they are laid out.
func (p *tables) place(t testing.TB, label string, k *gpu.Kernel, before *trial.Operands, params ...float64) {
	t.Helper()
	amongNaNs(before)
	want := answeredWith(t, before, reference.Options{Accum: ruleOf(before, p.accum), Params: params})
	p.calls = append(p.calls, &call{label: label, kernel: k, before: before, want: want, params: params, limits: p.limits, tile: p.tile})
}

// ruleOf returns the rule of a kernel for tensor cores, on which exact sums do not depend.
func ruleOf(o *trial.Operands, accum def.Accum) def.Accum {
	if o.Definition.Ring().IsExact() {
		return def.FMAChain
	}
	return accum
}

// contiguous returns operands without gaps. Their groups have three, no and all other
// indices: the last begins where nothing is aligned.
func contiguous(g *gen.Generator, d *def.Definition, dtypes []num.DType, sizes map[string]int) []num.Array {
	var list []num.Array
	for i := range d.Operands {
		o := &d.Operands[i]
		a := o.NewArray(dtypes[i], sizes)
		if o.IsOffsets {
			for j, v := range []int{0, 3, 3, sizes[d.Groups().Of]} {
				a.SetBits(j, 0, uint32(v))
			}
		} else {
			trial.Fill(a, func(int, int) float32 { return g.Ordinary() })
		}
		list = append(list, a)
	}
	return list
}

// addStacks adds calls of one definition: at random places, and where rows are aligned.
func addStacks(t testing.TB, p *tables, i int, dtypes []num.DType) {
	d := stackDefinition(i)
	dtypes = append(slices.Clone(dtypes), num.I32)[:len(d.Operands)]
	k := p.compile(t, d, dtypes)
	g := gen.New(fmt.Sprint(d.Name, dtypes))
	for n := range 9 {
		p.limits.Multiprocessors = []int{1, 1000}[n%2]
		sizes := randdef.ProductSizes(g, d, []int{5, 40, 140}[n%3])
		c := randdef.NewCase(g, d, dtypes, sizes)
		p.place(t, fmt.Sprint(d.Name, dtypes, sizes), k, c.Memory)
	}
	for n, s := range [][3]int{{128, 128, 32}, {72, 136, 40}, {136, 64, 48}, {144, 128, 80}} {
		p.limits.Multiprocessors = []int{1, 1000}[n%2]
		sizes := map[string]int{"M": s[0], "N": s[1], "K": s[2], "P": 2, "H": 2, "G": 3}
		p.place(t, fmt.Sprint(d.Name, dtypes, sizes), k, trial.CopyOf(d, contiguous(g, d, dtypes, sizes), nil))
	}
}

var stackFormats = [][]num.DType{{num.F16, num.F16, num.F16}, {num.F32, num.F32, num.F32}, {num.BF16, num.BF16, num.F32}}

// TestStacks: batch axes and groups, bit for bit, in tiles of both sizes.
func TestStacks(t *testing.T) {
	for i := range stacks {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			p := &tables{}
			for j, dtypes := range stackFormats {
				if j == i%3 || isFull() {
					addStacks(t, p, i, dtypes)
				}
			}
			inBuilds(t, func(build simtest.Build) string { return p.run(t, build, 32, uint64(i)) })
		})
	}
}

// Bad offsets are found, the first of them, and nothing is written.
func TestCheckOffsets(t *testing.T) {
	t.Parallel()
	d := stackDefinition(2)
	k, err := gpu.Compile(d, []num.DType{num.F32, num.F32, num.F32, num.I32}, gpu.Element)
	if err != nil {
		t.Fatal(err)
	}
	program := simtest.Compile(t, k.Source.Text, simtest.Plain)
	const m, n, depth, groups = 5, 3, 2, 3
	for i, x := range []struct {
		offsets []int32
		want    uint64
	}{
		{[]int32{0, 2, 2, 5}, gpu.Passed},
		{[]int32{0, 0, 0, 5}, gpu.Passed},
		{[]int32{0, 5, 5, 5}, gpu.Passed},
		{[]int32{1, 2, 2, 5}, 0<<32 | 1},
		{[]int32{0, 2, 1, 5}, 2<<32 | 1},
		{[]int32{0, 2, 2, 4}, 3<<32 | 4},
		{[]int32{0, 2, 6, 5}, 3<<32 | 5},
		{[]int32{0, -1, 2, 5}, 1<<32 | 0xffffffff},
		{[]int32{-3, 9, 8, 7}, 0<<32 | 0xfffffffd},
	} {
		offsets := make([]byte, 4*(groups+1))
		for j, v := range x.offsets {
			binary.LittleEndian.PutUint32(offsets[4*j:], uint32(v))
		}
		result := bytes.Repeat([]byte{trial.GuardByte}, 4*m*n)
		words := bytes.Repeat([]byte{0xff}, 8)
		buffers := [][]byte{make([]byte, 4*m*depth), make([]byte, 4*groups*depth*n), result, offsets, words}
		operand := func(buffer int, d num.DType, rows, cols int) lower.Operand {
			return lower.Operand{Array: num.Array{DType: d, Rows: rows, Cols: cols, Stride: cols}, Pointer: simtest.Pointer(buffer)}
		}
		stack := operand(1, num.F32, groups*depth, n)
		stack.Batch.Append(groups, depth*n)
		var plan gpu.Plan
		call := &lower.Call{Operands: []lower.Operand{operand(0, num.F32, m, depth), stack, operand(2, num.F32, m, n), operand(3, num.I32, groups+1, 1)}}
		err := k.PlanChecked(&plan, call, gpu.Limits{WarpWidth: 32, Multiprocessors: 1})
		if err != nil || len(plan.Checks) != 1 || plan.Checks[0] != (gpu.Check{Operand: 3, Bound: m}) {
			t.Fatalf("checks %+v, %v", plan.Checks, err)
		}
		plan.Place(0, simtest.Pointer(4))
		if err := program.Run(simtest.Run{Warp: 32, Seed: uint64(i), Buffers: buffers, Launches: simtest.LaunchesOf(k, &plan)}); err != nil {
			t.Fatal(err)
		}
		if got := binary.LittleEndian.Uint64(words); got != x.want {
			t.Errorf("offsets %v: found 0x%x, want 0x%x", x.offsets, got, x.want)
		}
		isWritten := !bytes.Equal(result, bytes.Repeat([]byte{trial.GuardByte}, 4*m*n))
		if isWritten != (x.want == gpu.Passed) {
			t.Errorf("offsets %v: written %v", x.offsets, isWritten)
		}
	}
}

// Planning a product with axes allocates nothing, once a plan has been used.
func TestPlanOfStacksAllocatesNothing(t *testing.T) {
	d := stackDefinition(3)
	dtypes := []num.DType{num.F16, num.F16, num.F16, num.I32}
	k, err := gpu.Compile(d, dtypes, gpu.Element)
	if err != nil {
		t.Fatal(err)
	}
	call := &lower.Call{}
	for _, a := range contiguous(gen.New(t.Name()), d, dtypes, map[string]int{"M": 9, "N": 8, "K": 7, "H": 2, "G": 3}) {
		call.Operands = append(call.Operands, lower.Operand{Array: a, Pointer: 4096})
	}
	var plan gpu.Plan
	if n := testing.AllocsPerRun(10, func() {
		if err := k.PlanChecked(&plan, call, gpu.Limits{Multiprocessors: 2}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Operands are read 16 bytes at a time only where every matrix, and every group wherever
// it begins, has rows at multiples of 16 bytes. The simulator reads at any address; a GPU
// does not.
func TestVectorAccessOfStacks(t *testing.T) {
	const flags = 11 * 8 // after three pointers and eight integers
	for i, want := range [][3]uint32{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, {0, 0, 1}} {
		d := stackDefinition(i)
		dtypes := []num.DType{num.F16, num.F16, num.F16, num.I32}[:len(d.Operands)]
		k, err := gpu.Compile(d, dtypes, gpu.Element)
		if err != nil {
			t.Fatal(err)
		}
		arrays := contiguous(gen.New(t.Name()), d, dtypes, map[string]int{"M": 16, "N": 24, "K": 32, "P": 2, "H": 2, "G": 3})
		for moved := -1; moved < 3; moved++ { // one operand's matrices lie four elements further apart
			call := &lower.Call{}
			expected := want
			for j, a := range arrays {
				o := lower.Operand{Array: a, Pointer: 4096}
				if j == moved && o.Batch.Count > 0 {
					o.Batch.Axes[0].Stride += 4
					expected[j] = 0
				}
				call.Operands = append(call.Operands, o)
			}
			var plan gpu.Plan
			if err := k.Plan(&plan, call, gpu.Limits{Multiprocessors: 2}); err != nil {
				t.Fatal(err)
			}
			var got [3]uint32
			for j := range got {
				got[j] = binary.LittleEndian.Uint32(plan.Launches[0].Params[flags+4*j:])
			}
			if got != expected {
				t.Errorf("%s with operand %d moved: vector access %v, want %v", d.Name, moved, got, expected)
			}
		}
	}
}
