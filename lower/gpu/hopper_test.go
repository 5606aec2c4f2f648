package gpu_test

import (
	"fmt"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
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
		if err := k.Plan(&plan, newCall(c.before.Definition, operands, nil), gpu.Limits{WarpWidth: 32, Multiprocessors: 2, SharedBytes: 227 << 10}); err != nil {
			t.Fatalf("%s: %v", c.label, err)
		}
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
	return launch(t, simtest.Compile(t, withTensorCores+"#line 1 \"kernel.cu\"\n"+k.Source.Text, build), build, seed, k, calls)
}

var hopperModel = def.MMA(16, 25)

// hopperFP8Model is that of operands in FP8.
var hopperFP8Model = def.MMA(32, 13).Narrow(13)

// newMultiplied returns a call on operands as they are laid out, with the answer.
func newMultiplied(t testing.TB, label string, before *trial.Operands) multiplied {
	t.Helper()
	model := hopperModel
	if before.Array(0).DType.IsFP8() {
		model = hopperFP8Model
	}
	for i := range before.Definition.Operands {
		if o := &before.Definition.Operands[i]; o.IsOut && !o.IsIn {
			trial.FillBits(before.Array(i), func(int, int) uint32 { return 0xa5a5a5a5 })
		}
	}
	want := before.Clone()
	if err := reference.Run(want.Definition, want.Arrays(), reference.Options{Model: model}); err != nil {
		t.Fatal(err)
	}
	return multiplied{label, before, want}
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

var hopperShapes = [][3]int{{136, 264, 72}, {64, 120, 200}, {8, 8, 8}, {304, 136, 328}}

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
			k, calls := compileHopper(t, d, dtypes), products(t, d, dtypes, hopperShapes)
			builds := []simtest.Build{simtest.Plain}
			if isFull() {
				builds = append(builds, simtest.Address, simtest.Race)
			}
			for _, build := range builds {
				if text := multiply(t, build, uint64(i), k, calls); text != "" {
					t.Errorf("%v: %s", build, text)
				}
			}
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
			builds := []simtest.Build{simtest.Plain}
			if isFull() {
				builds = append(builds, simtest.Address, simtest.Race)
			}
			for _, build := range builds {
				if text := multiply(t, build, uint64(i), k, calls); text != "" {
					t.Errorf("%v: %s", build, text)
				}
			}
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

// fault is a change of a kernel's text, and what is said of it.
type fault struct{ name, from, to, says string }

// findFaults compiles a kernel with each fault, of which only one entry is launched, in one
// program, and reports those that are not found.
func findFaults(t *testing.T, k *gpu.Kernel, entry string, calls []multiplied, faults []fault) {
	t.Helper()
	faults = essential(faults)
	var source strings.Builder
	source.WriteString(withTensorCores)
	for i, f := range faults {
		text := k.Source.Text
		if !strings.Contains(text, f.from) {
			t.Fatalf("the source does not contain %q", f.from)
		}
		text = withoutKernels(strings.ReplaceAll(text, f.from, f.to), entry)
		fmt.Fprintf(&source, "namespace fault_%d {\n#line 1 \"kernel.cu\"\n%s}\n", i, strings.ReplaceAll(text, k.Source.Name, faultName(k, i)))
		for _, m := range macroName.FindAllStringSubmatch(text, -1) {
			fmt.Fprintf(&source, "#undef %s\n", m[1])
		}
	}
	program := simtest.Compile(t, source.String(), simtest.Plain)
	for i, f := range faults {
		changed := *k
		changed.Source.Entries = nil
		for _, e := range k.Source.Entries {
			changed.Source.Entries = append(changed.Source.Entries, strings.Replace(e, k.Source.Name, faultName(k, i), 1))
		}
		text := ""
		for seed := uint64(0); seed < 3 && text == ""; seed++ { // a fault may need another order
			text = launch(t, program, simtest.Plain, seed, &changed, calls)
		}
		if !strings.Contains(text, f.says) || f.says == "" && text != "" {
			t.Errorf("%s: got %q, want %q", f.name, text, f.says)
		}
	}
}

// essential returns the first faults of a list, which are the most important ones, at the
// lowest level.
func essential(faults []fault) []fault {
	if isSmoke() {
		return faults[:min(len(faults), 8)]
	}
	return faults
}

func faultName(k *gpu.Kernel, i int) string { return fmt.Sprintf("fault_%d_%s", i, k.Source.Name) }

// withoutKernels leaves out all entries but one.
func withoutKernels(text, entry string) string {
	parts := strings.SplitAfter(text, "\nKERNEL")
	kept := strings.TrimSuffix(parts[0], "KERNEL")
	for _, p := range parts[1:] {
		if p = "KERNEL" + strings.TrimSuffix(p, "KERNEL"); strings.Contains(p[:strings.Index(p, ",")], entry) {
			kept += p
		}
	}
	return kept
}

// TestHopperFaults: what is wrong with a change of the kernel is found, by the simulator
// or by the bits.
func TestHopperFaults(t *testing.T) {
	const wrongBits = "wrong bits"
	dtypes := []num.DType{num.BF16, num.BF16, num.BF16}
	calls := products(t, gemm.ForwardDefinition, dtypes, [][3]int{{300, 120, 520}})
	faults := []fault{
		{"as it is", "mbarrier", "mbarrier", ""},
		{"a stage released before it was read", "            wgmma_wait<1>();\n            if (is_signal) mbarrier_arrive(before);", "            if (is_signal) mbarrier_arrive(before);\n            wgmma_wait<1>();", "has not read yet"},
		{"no wait for a load", "mbarrier_wait(ring.full(), ring.parity);", "", "has not filled yet"},
		{"steps of k out of order", "left + i * LEFT_STEP, right + i * RIGHT_STEP", "left + (i ^ 1) * LEFT_STEP, right + (i ^ 1) * RIGHT_STEP", wrongBits},
		{"a fragment swapped", "NARROW_PAIR(d[2], d[3]), NARROW_PAIR(d[4], d[5])", "NARROW_PAIR(d[4], d[5]), NARROW_PAIR(d[2], d[3])", wrongBits},
		{"the wrong parity", "ring.parity = 1;", "ring.parity = 0;", "deadlock"},
		{"no fence before a store", "        fence_async_shared();\n", "", "without fence_async_shared"},
		{"a slot written before it was stored", "        if (thread == 0) tensor_store_wait<L::SLOTS - 1>();\n", "", "overwritten before it was read"},
		{"a product that nobody waits for", "wgmma_wait<1>();", "", "has not read yet"},
		{"accumulators used too early", "    wgmma_wait<0>();\n", "", "has not read yet"},
		{"no wait for an empty stage", "mbarrier_wait(ring.empty(), ring.parity);", "", "one arrival more"},
		{"a parity that does not change", "parity ^= 1;", "", "one arrival more"},
		{"a step of k of the left operand alone", "left + i * LEFT_STEP", "left", wrongBits},
		{"old sums in the first step", "ACCUMULATE || k > 0 || i > 0", "true", wrongBits},
		{"the rows of the other warpgroup", "ring.left() + part * 64 * LINE", "ring.left() + (1 - part) * 64 * LINE", wrongBits},
		{"one slot too many under way", "tensor_store_wait<L::SLOTS - 1>", "tensor_store_wait<L::SLOTS>", "overwritten before it was read"},
		{"the last stores", "    if (threadIdx.x % 128 == 0) tensor_store_wait<0>();\n", "", "under way when thread"},
		{"barriers that copies do not see", "        mbarrier_fence_init();\n", "", "before mbarrier_fence_init"},
		{"no barrier at the beginning", "    BARRIER();\n", "", "not initialised"},
		{"the wrong number of bytes", "mbarrier_expect(ring.full(), L::STAGE_BYTES)", "mbarrier_expect(ring.full(), L::STAGE_BYTES - 2)", "bytes are missing"},
		{"too few arrivals", "mbarrier_init(empty(), CONSUMERS * 4)", "mbarrier_init(empty(), CONSUMERS * 4 - 1)", "has not read yet"},
		{"registers that there are not", "registers_more<240>", "registers_more<256>", "registers"},
	}
	findFaults(t, compileHopper(t, gemm.ForwardDefinition, dtypes), "_narrow", calls, faults)
}

// TestHopperFP8Faults does the same for what FP8 adds: scales, and operands at any address.
func TestHopperFP8Faults(t *testing.T) {
	const wrongBits = "wrong bits"
	d, dtypes := gemm.FP8ForwardDefinition, []num.DType{num.E4M3, num.E4M3, num.F32, num.F32, num.F32}
	operands := gemmOperands(gen.New(t.Name()), d, dtypes, 70, 20, 1033, valueKinds[0])
	calls := []multiplied{newMultiplied(t, d.Name, trial.CopyOf(d, operands, nil))}
	findFaults(t, compileHopper(t, d, dtypes), "_loose", calls, []fault{
		{"as it is", "mbarrier", "mbarrier", ""},
		{"no fence before the products", "fence_async_shared(); // the products read what this thread has written", "", "without fence_async_shared"},
		{"the column's scale first", "acc[at] * by_row[0] * by_col", "acc[at] * by_col * by_row[0]", wrongBits},
		{"the same scale for two rows", "(row + i * 8) * p.row_scale_stride", "row * p.row_scale_stride", wrongBits},
		{"pieces that are not swizzled", "(piece ^ line % 8) * 16, from", "piece * 16, from", wrongBits},
		{"steps of k out of order", "wgmma_64_N_32<L::COLS, IS_E5M2>(acc, left + i * LEFT_STEP, right + i * RIGHT_STEP", "wgmma_64_N_32<L::COLS, IS_E5M2>(acc, left + (i ^ 1) * LEFT_STEP, right + (i ^ 1) * RIGHT_STEP", wrongBits},
		{"the other format", "wgmma_64_N_32<L::COLS, IS_E5M2>", "wgmma_64_N_32<L::COLS, !IS_E5M2>", wrongBits},
		{"no wait for an empty stage", "            mbarrier_wait(ring.empty(), ring.parity);\n            for (int i", "            for (int i", "deadlock"},
	})
}

// TestMMAFaults does the same for the kernel of mma.sync.
func TestMMAFaults(t *testing.T) {
	const wrongBits = "wrong bits"
	dtypes := []num.DType{num.F16, num.F16, num.F32}
	k, err := gpu.CompileMMA(gemm.ForwardDefinition, dtypes)
	if err != nil {
		t.Fatal(err)
	}
	findFaults(t, k, "_middle", products(t, gemm.ForwardDefinition, dtypes, [][3]int{{70, 120, 330}}), []fault{
		{"as it is", "copy_async", "copy_async", ""},
		{"copies that nobody waits for", "                copy_async_wait<STAGES - 2>();\n", "", wrongBits},
		{"no barrier after a wait", "                BARRIER(); // the next step", "                // the next step", wrongBits},
		{"a stage overwritten while it is read", "i < STAGES - 1; i++", "i < STAGES; i++", wrongBits},
		{"steps of k out of order", "DEVICE void read(int turn, int part) {\n", "DEVICE void read(int turn, int part) {\n        part ^= 1;\n", wrongBits},
		{"a fragment swapped", "{b[turn][j / 2][j % 2 * 2], b[turn][j / 2][j % 2 * 2 + 1]}", "{b[turn][j / 2][j % 2 * 2 + 1], b[turn][j / 2][j % 2 * 2]}", wrongBits},
		{"copies that all wait for too late", "copy_async_wait<STAGES - 2>", "copy_async_wait<STAGES - 1>", wrongBits},
		{"stages out of order", "current + BYTES == ring", "current + 2 * BYTES == ring", wrongBits},
		{"matrices of the left operand in the order of the right one", "!TRANSPOSE_LEFT, true> left_reader", "!TRANSPOSE_LEFT, false> left_reader", wrongBits},
		{"rows of results swapped", "results.store(&t.sums[i][j][n], i * 16 + n * 4", "results.store(&t.sums[i][j][n], i * 16 + (2 - n) * 4", wrongBits},
		{"what follows a row", "at, elements * 2)", "at, 16)", wrongBits},
		{"a copy that is not aligned", "offset, at, elements * 2)", "offset + 8, at, elements * 2)", "want a multiple of 16"},
		{"a warp that is not whole", "            multiply_add(k % 2);\n", "            if (threadIdx.x != 3) multiply_add(k % 2);\n", "lane 3"},
	})
}
