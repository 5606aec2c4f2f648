package gpu_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/reference"
	"tokitai/trial"
)

// multiplied is a call of a kernel for tensor cores, and the reference's answer by the model.
type multiplied struct {
	label        string
	before, want *trial.Operands

	multiprocessors int    // of the device; 2 if it is 0
	entry           string // how the name of one of the kernel's launches ends
	params          []float64
}

// launch makes calls of a kernel in a program and returns what is wrong, if anything.
func launch(t testing.TB, program *simtest.Program, build simtest.Build, seed uint64, k *gpu.Kernel, calls []multiplied) string {
	t.Helper()
	run := simtest.Run{Seed: seed}
	var plan gpu.Plan
	var placed [][]piece
	for _, c := range calls {
		pieces, operands := lay(&run, c.before, build == simtest.Address)
		placed = append(placed, pieces)
		if err := k.Plan(&plan, newCall(c.before.Definition, operands, c.params), gpu.Limits{WarpWidth: 32, Multiprocessors: cmp.Or(c.multiprocessors, 2), SharedBytes: 227 << 10}); err != nil {
			t.Fatalf("%s: %v", c.label, err)
		}
		if !slices.ContainsFunc(plan.Launches, func(l gpu.Launch) bool { return strings.HasSuffix(k.Source.Entries[l.Entry], c.entry) }) {
			t.Errorf("%s: no launch of %s", c.label, c.entry)
		}
		plan.Place(simtest.Pointer(len(run.Buffers)), 0)
		run.Buffers = append(run.Buffers, make([]byte, plan.ScratchBytes))
		run.Launches = append(run.Launches, simtest.LaunchesOf(k, &plan)...)
	}
	if err := program.Run(run); err != nil {
		return err.Error()
	}
	for i, c := range calls {
		if text := readBack(&run, c.before, placed[i]).Fault(c.want); text != "" {
			return "wrong bits: " + c.label + ": " + text
		}
	}
	return ""
}

// multiply compiles a kernel and makes calls of it.
func multiply(t testing.TB, build simtest.Build, seed uint64, k *gpu.Kernel, calls []multiplied) string {
	t.Helper()
	return launch(t, simtest.Compile(t, withTensorCores+plainly+"#line 1 \"kernel.cu\"\n"+k.Source.Text, build), build, seed, k, calls)
}

var hopperModel = def.MMA(16, 25)

// hopperFP8Model is that of operands in FP8.
var hopperFP8Model = def.MMA(32, 13).Narrow(13)

// newMultiplied returns a call on operands as they are laid out, with the answer.
func newMultiplied(t testing.TB, label string, before *trial.Operands, params ...float64) multiplied {
	t.Helper()
	amongNaNs(before)
	accum := hopperModel
	if before.Array(0).DType.IsFP8() {
		accum = hopperFP8Model
	}
	for i := range before.Definition.Operands {
		if o := &before.Definition.Operands[i]; o.IsOut && !o.IsIn {
			trial.FillBits(before.Array(i), func(int, int) uint32 { return 0xa5a5a5a5 })
		}
	}
	want := before.Clone()
	if err := reference.Run(want.Definition, want.Arrays(), reference.Options{Accum: ruleOf(before, accum), Params: params}); err != nil {
		t.Fatal(err)
	}
	return multiplied{label: label, before: before, want: want, params: params}
}

// products returns calls of a product: rows at multiples of 16 bytes, sizes beside those
// of tiles, a gap between rows.
func products(t testing.TB, d *def.Definition, dtypes []num.DType, shapes [][3]int) []multiplied {
	t.Helper()
	g := gen.New(fmt.Sprint("hopper", d.Name, dtypes))
	var list []multiplied
	for i, s := range shapes {
		operands := gemmOperands(g, d, dtypes, s[0], s[1], s[2], valueKinds[i%len(valueKinds)])
		before := trial.CopyOf(d, operands, func(j int) trial.Layout { return trial.Layout{Gap: alignedGap(operands[j], 8*(i%2))} })
		list = append(list, newMultiplied(t, fmt.Sprint(d.Name, dtypes, s), before))
	}
	return list
}

func compileHopper(t testing.TB, d *def.Definition, dtypes []num.DType) *gpu.Kernel {
	t.Helper()
	k, err := gpu.CompileHopper(d, dtypes)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// hopperShapes have tiles of all sizes: narrow ones of 64 rows where there are no more than
// multiprocessors.
var hopperShapes = [][3]int{{136, 264, 72}, {64, 120, 200}, {8, 8, 8}, {304, 136, 328}, {64, 56, 1112}, {48, 200, 840}}

// hopperSmall has four tiles of 64×64 for four multiprocessors, instead of one.
var hopperSmall = [3]int{104, 96, 200}

// TestHopper compares the kernel for Hopper with the reference, by the model.
func TestHopper(t *testing.T) {
	formats := [][]num.DType{{num.F16, num.F16, num.F16}, {num.BF16, num.BF16, num.F32}, {num.BF16, num.BF16, num.BF16}, {num.F16, num.F16, num.F32}}
	for i, d := range gemms {
		if isSmoke() && i != 3 {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			dtypes := formats[i%len(formats)]
			k, calls := compileHopper(t, d, dtypes), products(t, d, dtypes, append(hopperShapes, hopperSmall))
			calls[len(hopperShapes)].multiprocessors = 4
			inBuilds(t, func(build simtest.Build) string { return multiply(t, build, uint64(i), k, calls) })
		})
	}
}

// TestHopperFP8 compares products in FP8, with scales and without, and scaled products in
// bf16.
func TestHopperFP8(t *testing.T) {
	form := def.ContractionForm{
		Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"N", "K"}, TransposeRight: true, Result: "c", ResultDims: []string{"M", "N"},
	}
	scaled, accumulated := form, form
	scaled.Scales = def.Scales{Col: "s"}
	accumulated.Factors, accumulated.Accumulate = def.Only(num.FP8DTypes...), true
	shapes := [][3]int{{130, 264, 80}, {5, 16, 208}, {1, 1, 48}}
	for i, c := range []struct {
		d      *def.Definition
		dtypes []num.DType
	}{
		{gemm.FP8ForwardDefinition, []num.DType{num.E4M3, num.E4M3, num.F32, num.F32, num.F32}},
		{gemm.FP8ForwardDefinition, []num.DType{num.E5M2, num.E5M2, num.BF16, num.F32, num.F32}},
		{gemm.FP8ForwardDefinition, []num.DType{num.E4M3, num.E4M3, num.F16, num.F32, num.F32}},
		{def.Must(def.Contraction("scaled", scaled)), []num.DType{num.BF16, num.BF16, num.BF16, num.F32}},
		{def.Must(def.Contraction("accumulated", accumulated)), []num.DType{num.E5M2, num.E5M2, num.F32}},
	} {
		if isSmoke() && i > 0 {
			continue
		}
		t.Run(fmt.Sprint(c.d.Name, c.dtypes), func(t *testing.T) {
			t.Parallel()
			k, calls := compileHopper(t, c.d, c.dtypes), products(t, c.d, c.dtypes, shapes)
			if c.dtypes[0].IsFP8() { // at any address, with rows of any length
				g := gen.New(fmt.Sprint("loose", c.d.Name, c.dtypes))
				for _, s := range [][3]int{{130, 131, 83}, {1, 1, 1}, {3, 7, 261}} {
					operands := gemmOperands(g, c.d, c.dtypes, s[0], s[1], s[2], valueKinds[0])
					before := trial.CopyOf(c.d, operands, func(int) trial.Layout { return trial.Layout{Offset: 3, Gap: 5, ColumnGap: 2} })
					calls = append(calls, newMultiplied(t, fmt.Sprint(c.d.Name, c.dtypes, s, "loose"), before))
				}
			}
			inBuilds(t, func(build simtest.Build) string { return multiply(t, build, uint64(i), k, calls) })
		})
	}
	t.Run("stacks", func(t *testing.T) {
		t.Parallel()
		g := gen.New(t.Name())
		for i, change := range []func(f *def.ContractionForm){
			func(f *def.ContractionForm) {
				f.LeftDims, f.RightDims, f.ResultDims = []string{"H", "M", "K"}, []string{"P", "N", "K"}, []string{"P", "H", "M", "N"}
			},
			func(f *def.ContractionForm) { f.Groups, f.RightDims = groupsOf("M"), []string{"G", "N", "K"} },
		} {
			f := form
			f.Factors = def.Only(num.FP8DTypes...)
			change(&f)
			d := def.Must(def.Contraction(fmt.Sprintf("stack%d", i), f))
			dtypes := append([]num.DType{num.E4M3, num.E4M3, num.BF16}, num.I32)[:len(d.Operands)]
			var calls []multiplied
			for _, sizes := range []map[string]int{{"M": 20, "N": 16, "K": 32, "P": 2, "H": 3, "G": 3}, {"M": 13, "N": 5, "K": 37, "P": 2, "H": 3, "G": 3}} {
				calls = append(calls, newMultiplied(t, fmt.Sprint(d.Name, sizes), trial.CopyOf(d, contiguous(g, d, dtypes, sizes), nil)))
			}
			if text := multiply(t, simtest.Plain, uint64(i), compileHopper(t, d, dtypes), calls); text != "" {
				t.Error(text)
			}
		}
	})
	for want, change := range map[string]func(f *def.ContractionForm){
		"does not have the summed index in its rows": func(f *def.ContractionForm) { f.RightDims, f.TransposeRight = []string{"K", "N"}, false },
		"groups divide the summed index": func(f *def.ContractionForm) {
			f.Groups = groupsOf("K")
			f.ResultDims = []string{"G", "M", "N"}
		},
	} {
		f := form
		f.Factors = def.Only(num.FP8DTypes...)
		change(&f)
		d := def.Must(def.Contraction("refused", f))
		if _, err := gpu.CompileHopper(d, append([]num.DType{num.E4M3, num.E4M3, num.F32}, num.I32)[:len(d.Operands)]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestHopperStacks: batch axes and groups.
func TestHopperStacks(t *testing.T) {
	for i := range stacks {
		if isSmoke() && i%3 != 2 {
			continue
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			d := stackDefinition(i)
			dtypes := append([]num.DType{num.BF16, num.BF16, num.BF16}, num.I32)[:len(d.Operands)]
			k := compileHopper(t, d, dtypes)
			g := gen.New(fmt.Sprint("hopper", d.Name))
			var calls []multiplied
			for n := range 3 {
				sizes := map[string]int{"M": 40 + 96*n, "N": 136, "K": 72 + 8*n, "P": 2, "H": 2, "G": 3}
				calls = append(calls, newMultiplied(t, fmt.Sprint(d.Name, sizes), trial.CopyOf(d, contiguous(g, d, dtypes, sizes), nil)))
			}
			if text := multiply(t, simtest.Plain, uint64(i), k, calls); text != "" {
				t.Error(text)
			}
		})
	}
}

// grouped returns a call of a product with groups of rows that end at the given places, of matrices of the given sizes.
func grouped(t testing.TB, d *def.Definition, dtypes []num.DType, ends []int, sizes map[string]int) multiplied {
	t.Helper()
	sizes["G"], sizes["M"] = len(ends), ends[len(ends)-1]
	g := gen.New(fmt.Sprint(d.Name, ends))
	var operands []num.Array
	for i := range d.Operands {
		a := d.Operands[i].NewArray(dtypes[i], sizes)
		if d.Operands[i].IsOffsets {
			for n, end := range ends {
				a.SetBits(n+1, 0, uint32(end))
			}
		} else {
			trial.Fill(a, func(int, int) float32 { return g.Ordinary() })
		}
		operands = append(operands, a)
	}
	return newMultiplied(t, fmt.Sprint(d.Name, sizes), trial.CopyOf(d, operands, nil))
}

// TestHopperGroups: groups of rows, and of the summed index, in tiles of all sizes and in several rounds; of lengths that no tile and no
// step divides, empty, and more than blocks keep in order.
func TestHopperGroups(t *testing.T) {
	many := make([]int, 131)
	for i := range many {
		many[i] = (i + 2) / 3
	}
	type shape struct {
		ends            []int // of groups
		cols, other     int   // columns of the result, and the size that is neither those nor M
		multiprocessors int
		entry           string
	}
	shapes := []shape{
		{[]int{70, 70, 201, 210, 338}, 120, 136, 2, "_narrow"},
		{[]int{9, 151, 280, 280}, 184, 136, 3, "_128x192"},
		{many, 8, 8, 7, "_narrow"},
	}
	for i, x := range []struct {
		d     *def.Definition
		cols  string
		other string
		wide  shape
	}{
		{gemm.GroupedForwardDefinition, "N", "K", shape{[]int{20}, 256, 1152, 1, "_wide"}},
		{gemm.GroupedGradBDefinition, "N", "K", shape{[]int{1160}, 256, 8, 1, "_wide"}},
		{gemm.GroupedGradADefinition, "K", "N", shape{[]int{20}, 256, 1152, 1, "_wide"}},
	} {
		if isSmoke() && i > 1 {
			continue
		}
		t.Run(x.d.Name, func(t *testing.T) {
			t.Parallel()
			dtypes := x.d.DTypes(num.BF16)
			if i != 2 {
				dtypes[2] = num.F32
			}
			k := compileHopper(t, x.d, dtypes)
			var calls []multiplied
			for _, s := range append(shapes, x.wide) {
				c := grouped(t, x.d, dtypes, s.ends, map[string]int{x.cols: s.cols, x.other: s.other})
				c.multiprocessors, c.entry = s.multiprocessors, s.entry
				calls = append(calls, c)
			}
			inBuilds(t, func(build simtest.Build) string { return multiply(t, build, uint64(i), k, calls) })
		})
	}
}

// TestHopperTiles: few rows have tiles of their own, unless they are left to mma.sync; so have results of few tiles.
func TestHopperTiles(t *testing.T) {
	for _, x := range []struct {
		m, n   int
		want   string
		yields bool
	}{
		{4096, 4096, "_wide", false}, {1024, 1024, "_narrow", false}, {1024, 640, "_64x64", false}, {384, 384, "_64x64", false},
		{64, 4096, "_64x32", false}, {64, 4232, "_64x64", false}, {63, 4096, "_64x64", false}, {33, 64, "_64x64", false}, {32, 64, "_64x64", true},
	} {
		k := compileHopper(t, gemm.ForwardDefinition, []num.DType{num.F16, num.F16, num.F16})
		operand := func(rows, cols int) lower.Operand {
			return lower.Operand{Array: num.Array{DType: num.F16, Rows: rows, Cols: cols, Stride: cols}, Pointer: 4096}
		}
		call := &lower.Call{Operands: []lower.Operand{operand(x.m, 512), operand(512, x.n), operand(x.m, x.n)}}
		var plan gpu.Plan
		if err := k.Plan(&plan, call, gpu.Limits{WarpWidth: 32, Multiprocessors: 132, SharedBytes: 227 << 10}); err != nil {
			t.Fatal(err)
		}
		l := &plan.Launches[0]
		if got := k.Source.Entries[l.Entry]; !strings.HasSuffix(got, x.want) || l.Shared > 227<<10 {
			t.Errorf("%+v: got %s with %d bytes of shared memory", x, got, l.Shared)
		}
		if got := gpu.YieldsToMMA(gemm.ForwardDefinition, call); got != x.yields {
			t.Errorf("%+v: yields: %t", x, got)
		}
	}
}
