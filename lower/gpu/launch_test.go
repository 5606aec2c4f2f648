package gpu_test

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/lower/gpu"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/crossentropy"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
)

// limits are those of an H200.
var limits = gpu.Limits{WarpWidth: 32, Multiprocessors: 132, SharedBytes: 227 << 10}

// newCall returns a call on operands.
func newCall(d *def.Definition, operands []lower.Operand, params []float64) *lower.Call {
	c := &lower.Call{Operands: operands, Params: params}
	if len(operands) == len(d.Operands) {
		c.Measure(d)
	}
	return c
}

// operandsOf are contiguous operands of R×C.
func operandsOf(d *def.Definition, dtypes []num.DType, r, c int) []lower.Operand {
	var all []lower.Operand
	for i := range d.Operands {
		rows, cols := d.Operands[i].Matrix(map[string]int{"R": r, "C": c})
		all = append(all, lower.Operand{Array: num.Array{DType: dtypes[i], Rows: rows, Cols: cols, Stride: cols}, Pointer: uint64(i+1) << 44})
	}
	return all
}

func compileVector(t *testing.T, d *def.Definition) (*gpu.Kernel, []num.DType) {
	t.Helper()
	dtypes := onePerFormat(d, d.Formats())[0]
	k, err := gpu.Compile(d, dtypes, gpu.Vector)
	if err != nil {
		t.Fatal(err)
	}
	return k, dtypes
}

// TestRowStorage follows softmax from short rows to rows that fit nowhere.
func TestRowStorage(t *testing.T) {
	d := softmax.ForwardDefinition
	k, dtypes := compileVector(t, d)
	var plan gpu.Plan
	for _, x := range []struct {
		rows, cols  int
		sharedBytes int
		entry       string
		grid, block uint32
		shared      uint32
	}{
		{1000, 8, 227 << 10, "rows8_registers1", 63, 128, 0},
		{1000, 64, 227 << 10, "rows8_registers1_whole", 63, 128, 0},
		{1001, 64, 227 << 10, "rows8_registers1", 63, 128, 0},
		{1000, 72, 227 << 10, "rows16_registers1", 125, 128, 0},
		{1000, 128, 227 << 10, "rows16_registers1_whole", 125, 128, 0},
		{1001, 128, 227 << 10, "rows16_registers1", 126, 128, 0},
		{1000, 136, 227 << 10, "rows32_registers1", 500, 64, 0},
		{1001, 256, 227 << 10, "rows32_registers1_whole", 501, 64, 0},
		{1000, 264, 227 << 10, "rows32_registers4", 500, 64, 0},
		{1000, 2048, 227 << 10, "rows32_registers8_whole", 500, 64, 0},
		{1000, 2056, 227 << 10, "rows128_registers4", 1000, 128, 0},
		{1000, 8192, 227 << 10, "rows128_registers8_whole", 1000, 128, 0},
		{1000, 8200, 227 << 10, "rows1024_staged2", 132, 1024, 4 * 4 * 1024 * 4},
		{100, 32768, 227 << 10, "rows1024_staged4_whole", 100, 1024, 4 * 4 * 1024 * 4},
		{1000, 32768, 227 << 10, "rows1024_staged4_whole", 132, 1024, 8 * 4 * 1024 * 4},
		{1000, 32776, 227 << 10, "rows1024_partly8", 132, 1024, 13 * 4 * 1024 * 4},
		{1000, 32776, 145 << 10, "rows1024_partly8", 132, 1024, 8 * 4 * 1024 * 4},
		{1000, 32776, 99 << 10, "rows1024_reread", 1000, 1024, 0},
		{1000, 65536, 227 << 10, "rows1024_partly8_whole", 132, 1024, 13 * 4 * 1024 * 4},
		{1000, 65536, 99 << 10, "rows1024_reread", 1000, 1024, 0},
		{1000, 131072, 227 << 10, "rows1024_reread", 1000, 1024, 0},
		{3, 1 << 31, 227 << 10, "rows1024_reread", 3, 1024, 0},
		{1 << 35, 8, 227 << 10, "rows8_registers1", 1 << 21, 128, 0},
	} {
		l := limits
		l.SharedBytes = x.sharedBytes
		err := k.Plan(&plan, newCall(d, operandsOf(d, dtypes, x.rows, x.cols), nil), l)
		if err != nil || len(plan.Launches) != 1 || plan.ScratchBytes != 0 {
			t.Fatalf("%+v: got %d launches, %d bytes of scratch memory, error %v; want one launch", x, len(plan.Launches), plan.ScratchBytes, err)
		}
		got := plan.Launches[0]
		if entry := k.Source.Entries[got.Entry]; entry != "softmax_forward_"+x.entry || got.Grid != [3]uint32{x.grid, 1, 1} || got.Block != [3]uint32{x.block, 1, 1} || got.Shared != x.shared {
			t.Errorf("%+v: got %s, grid %v, block %v, %d bytes shared", x, entry, got.Grid, got.Block, got.Shared)
		}
	}
}

// TestLaunchOrder shows which kernels run, and that sums are taken before what they
// read is replaced.
func TestLaunchOrder(t *testing.T) {
	var plan gpu.Plan // one for all: nothing is left of the plan before
	for _, x := range []struct {
		d       *def.Definition
		r, c    int
		want    string
		scratch int64
	}{
		{layernorm.BackwardDefinition, 600, 1024, "rows32_fused4 columns", 2 * 512 * 1024 * 4},
		{layernorm.BackwardDefinition, 5, 1024, "rows32_fused4 columns", 2 * 5 * 1024 * 4},
		{layernorm.BackwardDefinition, 5, 32768, "column_lanes rows1024_staged4_whole columns", 2 * 5 * 32768 * 4},
		{besideSums, 5, 1024, "rows32_fused4 columns scalars", 5 * 1024 * 4},
		{sums, 5, 1000, "rows32_registers4 column_lanes total_rows elements columns scalars", 256 + (5*1000*4 + 224) + 256},
		{norm.SquareSumDefinition, 3, 1 << 31, "total_flat total_next total_next scalars", 98304*4 + 256 + 256},
		{norm.SquareSumDefinition, 1, 1, "total_flat scalars", 256},
		{norm.ClipDefinition, 1, 1, "flat", 0},
	} {
		k, dtypes := compileVector(t, x.d)
		if err := k.Plan(&plan, newCall(x.d, operandsOf(x.d, dtypes, x.r, x.c), make([]float64, len(x.d.Params))), limits); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, l := range plan.Launches {
			names = append(names, strings.TrimPrefix(k.Source.Entries[l.Entry], k.Source.Name+"_"))
		}
		if got := strings.Join(names, " "); got != x.want || plan.ScratchBytes != x.scratch {
			t.Errorf("%s %d×%d: got %s, %d bytes of scratch memory, want %s, %d", x.d.Name, x.r, x.c, got, plan.ScratchBytes, x.want, x.scratch)
		}
	}
}

// TestPackedParameters reads the struct of a launch as the kernel does.
func TestPackedParameters(t *testing.T) {
	d := crossentropy.Definition
	k, dtypes := compileVector(t, d)
	operands := operandsOf(d, dtypes, 3, 1000)
	operands[0].Stride = 1024
	var plan gpu.Plan
	if err := k.Plan(&plan, newCall(d, operands, []float64{-100, 0.1}), limits); err != nil {
		t.Fatal(err)
	}
	p := plan.Launches[0].Params
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(p[8*i:]) }
	half := func(i int) uint32 { return binary.LittleEndian.Uint32(p[8*10+4*i:]) }
	for i, want := range []uint64{1 << 44, 1024, 2 << 44, 1, 3 << 44, 1, 4 << 44, 1000, 3, 0} {
		if word(i) != want {
			t.Errorf("word %d: got %d, want %d", i, word(i), want)
		}
	}
	minus := int32(-100)
	for i, want := range []uint32{1000, math.Float32bits(1000), 0, math.Float32bits(3), uint32(minus), math.Float32bits(0.1)} {
		if half(i) != want {
			t.Errorf("half word %d: got 0x%x, want 0x%x", i, half(i), want)
		}
	}
	if len(p) != 8*10+4*6 {
		t.Errorf("got %d bytes, want %d", len(p), 8*10+4*6)
	}
}

// TestPlace puts scratch memory at an address, and then at another.
func TestPlace(t *testing.T) {
	d := layernorm.BackwardDefinition
	k, dtypes := compileVector(t, d)
	operands := operandsOf(d, dtypes, 5, 1000)
	var plan gpu.Plan
	if err := k.Plan(&plan, newCall(d, operands, nil), limits); err != nil {
		t.Fatal(err)
	}
	without := make([][]byte, len(plan.Launches))
	for i, l := range plan.Launches {
		without[i] = slices.Clone(l.Params)
	}
	for _, scratch := range []uint64{1 << 50, 1 << 51} {
		plan.Place(scratch, 1<<60)
		for i, l := range plan.Launches {
			found := 0
			for at := 0; at+8 <= len(l.Params); at += 8 {
				got, was := binary.LittleEndian.Uint64(l.Params[at:]), binary.LittleEndian.Uint64(without[i][at:])
				if got >= scratch && got < scratch+uint64(plan.ScratchBytes) {
					found++
				} else if got != was {
					t.Errorf("launch %d, byte %d: got %#x, want %#x or an address in scratch memory", i, at, got, was)
				}
			}
			if found != 1 {
				t.Errorf("launch %d has %d addresses in scratch memory, want that of the column lanes", i, found)
			}
		}
	}
}

// TestPlanAllocatesNothing holds for a plan that is used again.
func TestPlanAllocatesNothing(t *testing.T) {
	for _, d := range []*def.Definition{softmax.ForwardDefinition, layernorm.BackwardDefinition, norm.SquareSumDefinition} {
		k, dtypes := compileVector(t, d)
		call := newCall(d, operandsOf(d, dtypes, 100, 70000), make([]float64, len(d.Params)))
		var plan gpu.Plan
		var err error
		if n := testing.AllocsPerRun(100, func() { err = k.Plan(&plan, call, limits); plan.Place(1<<40, 0) }); n != 0 || err != nil {
			t.Errorf("%s: %v allocations, error %v", d.Name, n, err)
		}
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, d := range []*def.Definition{softmax.ForwardDefinition, layernorm.BackwardDefinition, adamw.InPlaceDefinition} {
		b.Run("op="+d.Name, func(b *testing.B) {
			dtypes := onePerFormat(d, d.Formats())[0]
			k, err := gpu.Compile(d, dtypes, gpu.Vector)
			if err != nil {
				b.Fatal(err)
			}
			operands, params := operandsOf(d, dtypes, 100, 1024), make([]float64, len(d.Params))
			var plan gpu.Plan
			b.ReportAllocs()
			for b.Loop() {
				if err := k.Plan(&plan, newCall(d, operands, params), limits); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestRefusedOperands names what a kernel is not made for.
func TestRefusedOperands(t *testing.T) {
	d := softmax.ForwardDefinition
	k, dtypes := compileVector(t, d)
	var plan gpu.Plan
	for _, x := range []struct {
		name   string
		change func(o []lower.Operand) []lower.Operand
		want   string
	}{
		{"too few", func(o []lower.Operand) []lower.Operand { return o[:1] }, "got 1 operands"},
		{"another format", func(o []lower.Operand) []lower.Operand { o[0].DType = num.F32; return o }, "x is stored as f32"},
		{"unaligned base", func(o []lower.Operand) []lower.Operand { o[1].Pointer += 2; return o }, "y does not consist of rows of whole groups"},
		{"unaligned rows", func(o []lower.Operand) []lower.Operand { o[0].Stride++; return o }, "x does not consist of rows of whole groups"},
		{"long rows", func([]lower.Operand) []lower.Operand { return operandsOf(d, dtypes, 1, 1<<31+8) }, "want at most 2147483648"},
	} {
		operands := x.change(operandsOf(d, dtypes, 4, 64))
		if err := k.Plan(&plan, newCall(d, operands, nil), limits); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want an error with %q", x.name, err, x.want)
		}
		if strings.HasPrefix(x.name, "unaligned") && gpu.VariantOf(d, newCall(d, operands, nil)) != gpu.Element {
			t.Errorf("%s: the vector variant is chosen", x.name)
		}
	}
	if gpu.VariantOf(d, newCall(d, operandsOf(d, dtypes, 4, 64), nil)) != gpu.Vector {
		t.Error("aligned operands: the element variant is chosen")
	}
	if _, err := gpu.Compile(d, dtypes[:1], gpu.Element); err == nil {
		t.Error("a format too few is not refused")
	}
}
