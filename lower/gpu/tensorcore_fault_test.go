package gpu_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/trial"
)

// fault is a change of a kernel's text, and what is said of it.
type fault struct{ name, from, to, says string }

// findFaults compiles a kernel with each fault, of which only one entry is launched, in one
// program, and reports those that are not found.
func findFaults(t *testing.T, k *gpu.Kernel, entry string, calls []multiplied, faults []fault) {
	t.Helper()
	faults = essential(faults)
	var source strings.Builder
	source.WriteString(withTensorCores + plainly)
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
		return faults[:min(len(faults), 4)]
	}
	return faults
}

func faultName(k *gpu.Kernel, i int) string { return fmt.Sprintf("fault_%d_%s", i, k.Source.Name) }

// withoutKernels leaves out all entries but those with a part in their names, and deltas.
func withoutKernels(text, entry string) string {
	parts := strings.SplitAfter(text, "\nKERNEL")
	kept := strings.TrimSuffix(parts[0], "KERNEL")
	for _, p := range parts[1:] {
		p = "KERNEL" + strings.TrimSuffix(p, "KERNEL")
		if name := p[:strings.Index(p, ",")]; !strings.Contains(name, entry) && !strings.Contains(name, "_deltas") { // what follows it is kept
			line, _, _ := strings.Cut(p, "\n")
			end := len(line)
			if !strings.HasSuffix(line, "}") {
				end = strings.Index(p, "\n}\n") + len("\n}")
			}
			p = p[end:]
		}
		kept += p
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
		{"steps of k out of order", "i * LEFT_STEP, right + i * RIGHT_STEP", "(i ^ 1) * LEFT_STEP, right + (i ^ 1) * RIGHT_STEP", wrongBits},
		{"a fragment swapped", "NARROW_PAIR(d[2], d[3]), NARROW_PAIR(d[4], d[5])", "NARROW_PAIR(d[4], d[5]), NARROW_PAIR(d[2], d[3])", wrongBits},
		{"the wrong parity", "ring.parity = 1;", "ring.parity = 0;", "deadlock"},
		{"no fence before a store", "        fence_async_shared();\n", "", "without fence_async_shared"},
		{"a slot written before it was stored", "        if (thread == 0) tensor_store_wait<L::SLOTS - 1>();\n", "", "overwritten before it was read"},
		{"a product that nobody waits for", "wgmma_wait<1>();", "", "has not read yet"},
		{"accumulators used too early", "    wgmma_wait<0>();\n", "", "has not read yet"},
		{"no wait for an empty stage", "mbarrier_wait(ring.empty(), ring.parity);", "", "one arrival more"},
		{"a parity that does not change", "parity ^= 1;", "", "one arrival more"},
		{"a step of k of the left operand alone", " + i * LEFT_STEP", "", wrongBits},
		{"old sums in the first step", "ACCUMULATE || k > 0 || step > 0 || i > 0", "true", wrongBits},
		{"the rows of the other warpgroup", "(L::HAS_TURNS ? 0 : part) * 64 * LINE", "(1 - part) * 64 * LINE", wrongBits},
		{"one slot too many under way", "tensor_store_wait<L::SLOTS - 1>", "tensor_store_wait<L::SLOTS>", "overwritten before it was read"},
		{"the last stores", "    if (threadIdx.x % 128 == 0) tensor_store_wait<0>();\n", "", "under way when thread"},
		{"barriers that copies do not see", "        mbarrier_fence_init();\n", "", "before mbarrier_fence_init"},
		{"no barrier at the beginning", "    BARRIER();\n", "", "not initialised"},
		{"the wrong number of bytes", "mbarrier_expect(ring.full(), L::STAGE_BYTES)", "mbarrier_expect(ring.full(), L::STAGE_BYTES - 2)", "bytes are missing"},
		{"too few arrivals", "mbarrier_init(empty(), READERS * 4)", "mbarrier_init(empty(), READERS * 4 - 1)", "has not read yet"},
		{"registers that there are not", "registers_more<240>", "registers_more<256>", "registers"},
	}
	k := compileHopper(t, gemm.ForwardDefinition, dtypes)
	findFaults(t, k, "_narrow", calls, faults)
	findFaults(t, k, "_64x32", products(t, gemm.ForwardDefinition, dtypes, [][3]int{{64, 56, 1112}}), []fault{
		{"as it is", "mbarrier", "mbarrier", ""},
		{"the steps of a stage in one place", " + step * STEP_BYTES", "", "has not filled yet"},
		{"lines of 64 bytes that are taken for 128", "8 * RIGHT_LINE, RIGHT_LINE)", "8 * RIGHT_LINE)", "has not filled yet"},
		{"a step too few", "step < L::STEPS; step++) {", "step < L::STEPS - 1; step++) {", wrongBits},
		{"pairs of another row", "int row = i / 2 % 2 * 8, col = i / 4 * 8;", "int row = 8 - i / 2 % 2 * 8, col = i / 4 * 8;", wrongBits},
	})
}

// TestHopperGroupsFaults does the same for what groups add: warpgroups that take turns, tiles in the order of groups, and what
// follows a group.
func TestHopperGroupsFaults(t *testing.T) {
	t.Parallel()
	const wrongBits = "wrong bits"
	compiled := func(d *def.Definition) (*gpu.Kernel, []multiplied) {
		dtypes := append(d.DTypes(num.BF16)[:2:2], num.F32, num.I32)
		return compileHopper(t, d, dtypes), []multiplied{grouped(t, d, dtypes, []int{70, 70, 140, 230, 301}, map[string]int{"N": 120, "K": 328})}
	}
	k, calls := compiled(gemm.GroupedForwardDefinition)
	findFaults(t, k, "_narrow", calls, []fault{
		{"as it is", "mbarrier", "mbarrier", ""},
		{"nobody begins", "if (L::HAS_TURNS && own == 1) named_barrier_arrive(3, 256);", "", "deadlock"},
		{"stages of the other one that are not passed over", "ring.skip((i32)tile.depth);", "", "deadlock"},
		{"rows of the next group", "tile.row + part * 64 + 64 <= tile.rows", "true", wrongBits},
		{"stores that no wait counts", "            tensor_store_commit(); // of no store", "            if (is_whole) tensor_store_commit(); // of no store", "overwritten before it was read"},
		{"a turn that nobody waits for", "if constexpr (L::HAS_TURNS) named_barrier(3 + own, 256);", "", "has not filled yet"},
		{"groups with a tile too few", "(length + L::ROWS - 1) / L::ROWS", "length / L::ROWS", wrongBits},
		{"rows of the first part twice", "n * PART_STEP + ", "", wrongBits},
	})
	k, calls = compiled(gemm.GroupedGradBDefinition)
	findFaults(t, k, "_narrow", calls, []fault{
		{"as it is", "mbarrier", "mbarrier", ""},
		{"half of what follows a group", "            shared_store_2(piece + 8, 0.0f, 0.0f);\n", "", wrongBits},
		{"zeros that products do not see", "    fence_async_shared();\n    named_barrier(L", "    named_barrier(L", "without fence_async_shared"},
		{"the result of the group in whose place another one is", "tile.product += (i64)(i32)(group - place) * per_group;", "", wrongBits},
		{"a step of 16 too few", "i * 16 < rest", "i * 16 + 16 < rest", wrongBits},
		{"old sums for a group without rows", "acc[n][i] = 0.0f;", "acc[n][i] = 1.0f;", wrongBits},
	})
}

// TestWeighHopperFaults does the same for streams by wgmma: sequences that begin and end within tiles and blocks, two segments, and values that
// are not finite where only some queries see them. Faults beyond the first ones are tested a few at a time.
func TestWeighHopperFaults(t *testing.T) {
	t.Parallel()
	const wrongBits = "wrong bits"
	d := def.Must(def.StreamOf("causal", def.StreamForm{
		Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", KeyStarts: "kstart", Out: "o", LogSum: "lse",
		Functions: def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function},
	}, func(b *def.StreamBuilder) { b.Weigh(b.Score(), b.Key().LessEqual(b.Query())) }))
	dtypes, sizes := d.DTypes(num.BF16), map[string]int{"T": 140, "S": def.StreamSegment + 180, "G": 1, "J": 1, "D": 16, "B": 2}
	g := gen.New("faults of streams")
	var operands []num.Array
	for i := range d.Operands {
		o, a := &d.Operands[i], d.Operands[i].NewArray(dtypes[i], sizes)
		switch {
		case o.IsOffsets:
			a.SetBits(1, 0, 5)
			a.SetBits(2, 0, uint32(sizes[o.Bound]))
		case o.IsIn:
			for r := range a.Rows {
				for c := range a.Cols {
					a.Set(r, c, float32(g.Below(256))/128-1)
				}
			}
		}
		if o.Name == "v" {
			a.Set(a.Rows-3, 2, float32(math.Inf(1)))
		}
		operands = append(operands, a)
	}
	faults := []fault{
		{"as it is", "mbarrier", "mbarrier", ""},
		{"values that are not finite", "has_lost(before, memory, block)", "false", wrongBits},
		{"weights changed while they are multiplied", "                wgmma_wait<0>();\n                wgmma_done(o);\n", "                pack();\n                wgmma_wait<0>();\n", "was changed while the product was under way"},
		{"values released before they were read", "                wgmma_wait<0>();\n                wgmma_done(o);\n                if (!is_first) release(before.no_values());", "                if (!is_first) release(before.no_values());\n                wgmma_wait<0>();", "has not read yet"},
		{"sums that are not scaled", "                    scale();\n", "", wrongBits},
		{"segments that are not put aside", "                    end_segment(old_m, old_l);\n", "", wrongBits},
		{"nobody begins", "if (half == 1) end_turn();", "", "deadlock"},
		{"the values of the first step alone", "values + (u64)(k * step)", "values", wrongBits},
		{"the queries of the other warpgroup", "left = wgmma_descriptor(uniform(ring.query(half))", "left = wgmma_descriptor(uniform(ring.query(1 - half))", wrongBits},
		{"a shortcut for every exponent", "least >= NEAR", "true", wrongBits},
		{"what the other warpgroup sees", "notice->sight[half]", "notice->sight[1 - half]", wrongBits},
		{"no notice that nothing comes any more", "is_over ? -1 : block", "block", "deadlock"},
		{"zeros that products do not see", "    fence_async_shared();\n", "", "without fence_async_shared"},
		{"the wrong parity", "ring.parity = 1;", "ring.parity = 0;", "deadlock"},
		{"keys that are hidden", "IS_CLEAR || is_visible", "true", wrongBits},
		{"the wrong number of bytes", "mbarrier_expect(ring.has_values(), R::BLOCK_BYTES)", "mbarrier_expect(ring.has_values(), R::BLOCK_BYTES - 2)", "bytes are missing"},
		{"values released by one warp alone", "if (!is_first) release(before.no_values());", "if (!is_first && thread < 32) release(before.no_values());", "deadlock"},
		{"sums used too early", "            wgmma_wait<0>();\n            wgmma_done(o);\n            if (half == 0)", "            if (half == 0)", "under way"},
		{"registers that there are not", "registers_more<240>", "registers_more<256>", "registers"},
	}
	kept := faults[:2:2]
	for i, f := range faults[2:] {
		if testlevel.InSample(i, testlevel.Pick(14, 7, 1)) {
			kept = append(kept, f)
		}
	}
	k := gpu.CompileWeighHopperNamed(d, dtypes, "causal")
	findFaults(t, k, "_64", []multiplied{newMultiplied(t, "causal", trial.CopyOf(d, operands, nil))}, kept)
}

// TestWeighBackwardHopperFaults does the same for gradients by wgmma: two sequences, two heads that share keys, two blocks of keys, and
// rows that are not finite where only some of a tile see them.
func TestWeighBackwardHopperFaults(t *testing.T) {
	t.Parallel()
	const wrongBits = "wrong bits"
	form := def.StreamBackwardForm{
		StreamForm: def.StreamForm{
			Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", KeyStarts: "kstart", Out: "o", LogSum: "lse",
			Functions: def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function},
		},
		OutGradient: "do", QueryGradient: "dq", KeyGradient: "dk", ValueGradient: "dv",
	}
	d := def.Must(def.StreamBackwardOf("causal_backward", form, func(b *def.StreamBuilder) {
		b.WeighBackward(b.Score(), b.Key().LessEqual(b.Query()), def.One, def.One)
	}))
	dtypes, sizes := d.DTypes(num.BF16), map[string]int{"T": 140, "S": 155, "G": 1, "J": 2, "D": 16, "B": 2}
	g := gen.New("faults of gradients of streams")
	var operands []num.Array
	for i := range d.Operands {
		o, a := &d.Operands[i], d.Operands[i].NewArray(dtypes[i], sizes)
		switch {
		case o.IsOffsets:
			a.SetBits(1, 0, 5)
			a.SetBits(2, 0, uint32(sizes[o.Bound]))
		case o.IsIn:
			for r := range a.Rows {
				for c := range a.Cols {
					a.Set(r, c, float32(g.Below(256))/128-1)
				}
			}
		}
		if o.Name == "do" || o.Name == "k" {
			a.Set(a.Rows-3, 2, float32(math.Inf(1)))
		}
		operands = append(operands, a)
	}
	faults := []fault{
		{"as it is", "mbarrier", "mbarrier", ""},
		{"rows that are not finite", "has_lost(ring, part)", "false", wrongBits},
		{"sums of a head that are lost", "if (OF_KEYS) end_segment(sums, has_total);", "if (OF_KEYS) clear(left), clear(right);", wrongBits},
		{"the chain of a block that is lost", "else end_block();", "else clear(left);", wrongBits},
		{"pairs that do not see each other", "IS_CLEAR || is_visible", "true", wrongBits},
		{"gradients of weights used too early", "                wgmma_wait<0>();\n                wgmma_done(g);\n", "", "under way"},
		{"scores used too early", "wgmma_wait<1>(); // the scores", "// the scores", "under way"},
		{"a stage released before it was read", "used = ring.empty();", "if (lane == 0) mbarrier_arrive(ring.empty());", "has not read yet"},
		{"the wrong number of bytes", "mbarrier_expect(ring.full(), R::SIDE_BYTES)", "mbarrier_expect(ring.full(), R::SIDE_BYTES - 2)", "bytes are missing"},
		{"no wait for an empty stage", "mbarrier_wait(ring.empty(), ring.parity);", "", "has not filled yet"},
		{"the numbers of other queries", "w.first() + i, to[i]", "w.first() + i + 1, to[i]", wrongBits},
		{"what the other warpgroup sees", "+ half * 4;", "+ 4 - half * 4;", wrongBits},
		{"zeros that products do not see", "    fence_async_shared();\n", "", "without fence_async_shared"},
		{"registers that there are not", "OF_KEYS ? 232 : 240", "256", "registers"},
	}
	kept := faults[:2:2]
	for i, f := range faults[2:] {
		if testlevel.InSample(i, testlevel.Pick(12, 6, 1)) {
			kept = append(kept, f)
		}
	}
	k := gpu.CompileWeighHopperNamed(d, dtypes, "causal_backward")
	findFaults(t, k, "_64", []multiplied{newMultiplied(t, "causal_backward", trial.CopyOf(d, operands, nil))}, kept)
}

// TestMMAFaults does the same for the kernel of mma.sync.
func TestMMAFaults(t *testing.T) {
	const wrongBits = "wrong bits"
	dtypes := []num.DType{num.F16, num.F16, num.F32}
	k, err := gpu.CompileMMA(gemm.ForwardDefinition, dtypes, gpu.Vector)
	if err != nil {
		t.Fatal(err)
	}
	findFaults(t, k, "_64x32", products(t, gemm.ForwardDefinition, dtypes, [][3]int{{60, 120, 1096}, {60, 120, 330}}), []fault{
		{"as it is", "copy_async", "copy_async", ""},
		{"copies that nobody waits for", "                copy_async_wait<STAGES - 2>();\n", "", wrongBits},
		{"no barrier after a wait", "                BARRIER(); // the next step", "                // the next step", wrongBits},
		{"a stage overwritten while it is read", "i < STAGES - 1; i++", "i < STAGES; i++", wrongBits},
		{"steps of k out of order", "DEVICE void read(int turn, int part) {\n", "DEVICE void read(int turn, int part) {\n        part ^= 1;\n", wrongBits},
		{"a fragment swapped", "{b[turn][j / 2][j % 2 * 2], b[turn][j / 2][j % 2 * 2 + 1]}", "{b[turn][j / 2][j % 2 * 2 + 1], b[turn][j / 2][j % 2 * 2]}", wrongBits},
		{"what follows a row", "row + i * Shape::APART < rows ? elements * 2 : 0", "row + i * Shape::APART < rows ? 16 : 0", wrongBits},
		{"copies that all wait for too late", "copy_async_wait<STAGES - 2>", "copy_async_wait<STAGES - 1>", wrongBits},
		{"stages out of order", "current + BYTES == ring", "current + 2 * BYTES == ring", wrongBits},
		{"matrices of the left operand in the order of the right one", "!TRANSPOSE_LEFT, true> left_reader", "!TRANSPOSE_LEFT, false> left_reader", wrongBits},
		{"rows of results swapped", "results.store(&t.sums[i][j][n], i * 16 + n * 4", "results.store(&t.sums[i][j][n], i * 16 + (2 - n) * 4", wrongBits},
		{"a copy that is not aligned", "copy_async_16(ring_address() + offset", "copy_async_16(ring_address() + offset + 8", "want a multiple of 16"},
		{"a warp that is not whole", "            multiply_add(k % 2);\n", "            if (threadIdx.x != 3) multiply_add(k % 2);\n", "lane 3"},
	})
	// Results of 16 bits go to memory another way.
	dtypes[2] = num.F16
	if k, err = gpu.CompileMMA(gemm.ForwardDefinition, dtypes, gpu.Vector); err != nil {
		t.Fatal(err)
	}
	findFaults(t, k, "_64x32", products(t, gemm.ForwardDefinition, dtypes, [][3]int{{60, 117, 72}}), []fault{
		{"as it is", "copy_async", "copy_async", ""},
		{"words of another row", "(is_upper ? w[i] : w[i + 2]) = word", "(is_upper ? w[i + 2] : w[i]) = word", wrongBits},
		{"eight columns where there are fewer", "r < rows && c + 8 <= cols", "r < rows && c < cols", "writes"},
	})
}

// TestSimRingFaults changes the ring kernel; each change is found, by the simulator or by the
// bits, which are those of a product that is not the right one.
func TestSimRingFaults(t *testing.T) {
	t.Parallel()
	const wrongBits = "wrong bits"
	faults := []fault{
		{"a stage released before it was read", "        wgmma_wait<0>();\n        if (threadIdx.x % 32 < 2) mbarrier_arrive_at(empty + 8 * stage, threadIdx.x % 32);\n", "        if (threadIdx.x % 32 < 2) mbarrier_arrive_at(empty + 8 * stage, threadIdx.x % 32);\n        wgmma_wait<0>();\n", "has not read yet"},
		{"no wait for a load", "        mbarrier_wait(full + 8 * stage, i / STAGES % 2);\n", "", "kernel.cu:12: a load into shared memory at 1024, which the product at kernel.cu:28 of thread 0 has not read yet"},
		{"no wait for a product", "        wgmma_wait<0>();\n", "", "has not read yet"},
		{"steps of k out of order", "left + j * (TRANSPOSE_LEFT ? 128 : 2), right + j * (TRANSPOSE_RIGHT ? 128 : 2)", "left + (j ^ 1) * 2, right + (j ^ 1) * 2", wrongBits},
		{"rows of accumulators swapped", "shared_store_2(at + 8 * LINE, d[2], d[3]);", "shared_store_2(at + 8 * LINE, d[3], d[2]);", wrongBits},
		{"the wrong parity of a stage that is full", "full + 8 * stage, i / STAGES % 2", "full + 8 * stage, 1 ^ i / STAGES % 2", "has not read yet"},
		{"results without a fence", "        fence_async_shared();\n", "", "without fence_async_shared"},
		{"a slot overwritten before it was stored", "        if (threadIdx.x == 0) tensor_store_wait<0>(); // the slot is free\n", "", "was overwritten before it was read"},
		{"a stage released by too few warps", "empty + 8 * i, 8)", "empty + 8 * i, 7)", "has not read yet"},
		{"a wait that leaves a product", "wgmma_wait<0>", "wgmma_wait<1>", "has not read yet"},
		{"no fence before products", "        wgmma_fence();\n", "", "without wgmma_fence"},
		{"no commit", "        wgmma_commit();\n", "", "has not read yet"},
		{"accumulators changed under way", "        wgmma_commit();\n", "        wgmma_commit();\n        acc[3] = 0;\n", "were changed while the product was under way"},
		{"the wrong parity of a stage that is empty", "1 ^ i / STAGES % 2", "i / STAGES % 2", "deadlock: thread 0"},
		{"a parity that does not change", "full + 8 * stage, i / STAGES % 2", "full + 8 * stage, 0", "has not filled yet"},
		{"a stage that is loaded again at once", "        mbarrier_wait(empty + 8 * stage, 1 ^ i / STAGES % 2);\n", "", "one arrival more than the 1"},
		{"an arrival too many", "        mbarrier_expect(barrier, STAGE);\n", "        mbarrier_expect(barrier, STAGE);\n        mbarrier_arrive(barrier);\n", "one arrival more than the 1 of the mbarrier"},
		{"too many bytes expected", "mbarrier_expect(barrier, STAGE)", "mbarrier_expect(barrier, STAGE + 16)", "16 bytes are missing"},
		{"too few bytes expected", "mbarrier_expect(barrier, STAGE)", "mbarrier_expect(barrier, LEFT)", "has not filled yet"},
		{"a barrier that is not initialised", "            mbarrier_init(empty + 8 * i, 8); // the warps of both blocks\n", "", "which was not initialised"},
		{"a barrier that is initialised twice", "mbarrier_init(full + 8 * i, 1)", "mbarrier_init(full, 1)", "was initialised at kernel.cu:60"},
		{"a barrier that copies do not see", "        mbarrier_fence_init();\n", "", "before mbarrier_fence_init"},
		{"a barrier in the way of a load", "BARRIERS_AT = SLOT_AT + 64 * LINE", "BARRIERS_AT = STAGE", "whose memory was overwritten"},
		{"no cluster barrier at the beginning", "    cluster_barrier();\n", "    BARRIER();\n", "which was not initialised"},
		{"a block that ends early", "    cluster_barrier(); // before a block ends\n", "", "has ended"},
		{"a product of another shape", "IS_BF16, TRANSPOSE_LEFT, TRANSPOSE_RIGHT>(acc", "IS_BF16, TRANSPOSE_LEFT, !TRANSPOSE_RIGHT>(acc", "not in the first line of a group"},
		{"the other format", "<COLS, IS_BF16", "<COLS, !IS_BF16", wrongBits},
		{"stages out of order", "i * 64, blockIdx.x * 64);", "p.depth - 64 - i * 64, blockIdx.x * 64);", wrongBits},
		{"lines that are not swizzled", "((j * 2 + lane % 4 / 2) ^ (row % 8))", "(j * 2 + lane % 4 / 2)", wrongBits},
		{"a fence of one thread", "        fence_async_shared();\n", "        if (threadIdx.x == 0) fence_async_shared();\n", "without fence_async_shared"},
		{"a slot overwritten by other threads", "        named_barrier(1, 128);\n        for", "        for", "was overwritten before it was read"},
		{"a slot stored before it was written", "        named_barrier(1, 128);\n        if", "        if", "was overwritten before it was read"},
		{"stores that nobody waits for", "    if (threadIdx.x == 0) tensor_store_wait<0>(); // all are stored\n", "", "the store was under way when thread 0 ended"},
		{"a named barrier of too many threads", "        named_barrier(1, 128);\n        if", "        named_barrier(1, 160);\n        if", "deadlock"},
		{"a load to a block that there is not", "barrier, 3, i * 64", "barrier, 7, i * 64", "a load to the blocks 7 in a cluster of 2"},
		{"a load to a place that is not aligned", "rank * RIGHT / 2", "rank * RIGHT / 2 + 16", "want a multiple of 128"},
		{"an operand that is not aligned", "wgmma_descriptor(at + LEFT, ", "wgmma_descriptor(at + LEFT + 128, ", "not in the first line of a group"},
		{"a warp that does not take part", "        wgmma_commit();\n", "        wgmma_commit();\n        if (threadIdx.x == 5) continue;\n", "not all lanes of its warp wait"},
	}
	faults = essential(faults)
	source := withTensorCores
	for i, x := range faults {
		if !strings.Contains(ringKernel, x.from) {
			t.Fatalf("the kernel does not contain %q", x.from)
		}
		source += plainRing.source(fmt.Sprintf("ring_%d", i), strings.ReplaceAll(ringKernel, x.from, x.to))
	}
	program := simtest.Compile(t, source, simtest.Plain)
	for i, x := range faults {
		if text := plainRing.run(program, fmt.Sprintf("ring_%d", i), 0); !strings.Contains(text, x.says) {
			t.Errorf("%s: got %q, want %q", x.name, text, x.says)
		}
	}
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
		{"steps of k out of order", "i * LEFT_STEP, right + i * RIGHT_STEP", "(i ^ 1) * LEFT_STEP, right + (i ^ 1) * RIGHT_STEP", wrongBits},
		{"the other format", "wgmma_64_N_32<L::COLS, IS_E5M2>", "wgmma_64_N_32<L::COLS, !IS_E5M2>", wrongBits},
		{"no wait for an empty stage", "            mbarrier_wait(ring.empty(), ring.parity);\n            for (int i", "            for (int i", "deadlock"},
	})
}
