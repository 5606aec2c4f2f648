package gpu_test

import (
	"encoding/binary"
	"regexp"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
)

// small kernels, each right or wrong in one thing. Line numbers appear in messages.
const smallKernels = `struct Params { float* x; i64 n; };
KERNEL(right_reversal, 128)(const Params p) {
    SHARED(float, s, 128);
    s[threadIdx.x] = p.x[blockIdx.x * 128 + threadIdx.x];
    BARRIER();
    p.x[blockIdx.x * 128 + threadIdx.x] = s[127 - threadIdx.x];
}
KERNEL(missing_barrier, 128)(const Params p) {
    SHARED(float, s, 128);
    s[threadIdx.x] = p.x[threadIdx.x];
    p.x[threadIdx.x] = s[127 - threadIdx.x];
}
KERNEL(right_exchange, 128)(const Params p) {
    SHARED(float, s, 128);
    s[threadIdx.x] = p.x[threadIdx.x];
    WARP_BARRIER();
    p.x[threadIdx.x] = s[threadIdx.x ^ 1];
}
KERNEL(missing_warp_barrier, 128)(const Params p) {
    SHARED(float, s, 128);
    s[threadIdx.x] = p.x[threadIdx.x];
    p.x[threadIdx.x] = s[threadIdx.x ^ 1];
}
KERNEL(wrong_warp_width, 128)(const Params p) {
    SHARED(float, s, 128);
    s[threadIdx.x] = p.x[threadIdx.x];
    WARP_BARRIER();
    p.x[threadIdx.x] = s[threadIdx.x ^ 32];
}
KERNEL(race_between_blocks, 128)(const Params p) {
    if (threadIdx.x == 0) p.x[blockIdx.x / 2] = (float)blockIdx.x;
}
KERNEL(right_counting, 128)(const Params p) { ATOMIC_ADD(reinterpret_cast<int*>(p.x), 1); }
KERNEL(count_read_too_early, 128)(const Params p) {
    ATOMIC_ADD(reinterpret_cast<int*>(p.x), 1);
    p.x[1 + threadIdx.x] = p.x[0];
}
KERNEL(divergent_barrier, 128)(const Params p) {
    if (threadIdx.x < 100) BARRIER();
    p.x[threadIdx.x] = 0;
}
KERNEL(two_barriers, 128)(const Params p) {
    if (threadIdx.x < 64) {
        BARRIER();
    } else {
        BARRIER();
    }
    p.x[threadIdx.x] = 0;
}
KERNEL(divergent_shuffle, 128)(const Params p) {
    if (threadIdx.x % 4 == 0) return;
    p.x[threadIdx.x] = SHFL_XOR(p.x[threadIdx.x], 1, 32);
}
KERNEL(deadlock, 128)(const Params p) {
    if (threadIdx.x % 2 == 0) p.x[threadIdx.x] = SHFL_XOR(1.0f, 1, 32);
    else p.x[threadIdx.x] = SHFL_XOR(2.0f, 1, 32);
}
KERNEL(shared_out_of_bounds, 128)(const Params p) {
    SHARED(float, s, 128);
    s[threadIdx.x + 1] = 1;
    p.x[threadIdx.x] = s[threadIdx.x];
}
KERNEL(dynamic_out_of_bounds, 128)(const Params p) {
    SHARED_DYN(float, s);
    s[threadIdx.x + 1] = 1;
    p.x[threadIdx.x] = s[threadIdx.x];
}
KERNEL(global_out_of_bounds, 128)(const Params p) { p.x[threadIdx.x + p.n - 127] = 0; }
KERNEL(right_mask, 128)(const Params p) { p.x[threadIdx.x] = __shfl_down_sync(0xffffffffu, p.x[threadIdx.x], 1); }
KERNEL(left_over, 128)(const Params p) {
    SHARED(float, s, 128);
    float old = s[threadIdx.x];
    BARRIER();
    s[threadIdx.x] = 1;
    p.x[threadIdx.x] = old;
}
KERNEL(block_order, 128)(const Params p) {
    if (threadIdx.x == 0) p.x[blockIdx.x] = (float)ATOMIC_ADD(reinterpret_cast<int*>(p.x) + 511, 1);
}
KERNEL(written_by_a_reader, 128)(const Params p) {
    p.x[1 + threadIdx.x] = p.x[0];
    if (threadIdx.x == 127) p.x[0] = 1;
}
template <int N>
DEVICE void fill_shared(const Params& p) {
    SHARED(float, s, N);
    s[threadIdx.x + 1] = 1;
    p.x[threadIdx.x] = s[threadIdx.x];
}
KERNEL(shared_of_a_template, 128)(const Params p) { fill_shared<128>(p); }
KERNEL(divergent_ballot, 128)(const Params p) {
    if (threadIdx.x != 5) p.x[threadIdx.x] = (float)__ballot_sync(~0ull, true);
}
`

var raceBetween = regexp.MustCompile(`by thread (\d+) .*by thread (\d+) `)

// TestSimulator: each fault is found by the check that is made for it, with the line;
// what is right is accepted.
func TestSimulator(t *testing.T) {
	t.Parallel()
	var programs [3]*simtest.Program
	for b := range programs {
		programs[b] = simtest.Compile(t, smallKernels, simtest.Build(b))
	}
	const n = 512
	launch := func(entry string, blocks, threads uint32) simtest.Launch {
		params := binary.LittleEndian.AppendUint64(nil, simtest.Pointer(0))
		return simtest.Launch{Entry: entry, Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{threads, 1, 1}, Shared: 512, Params: binary.LittleEndian.AppendUint64(params, n)}
	}
	for _, x := range []struct {
		entry  string
		build  simtest.Build
		warp   int
		blocks uint32
		says   []string // nothing if it is right
	}{
		{"right_reversal", simtest.Plain, 32, 4, nil},
		{"right_reversal", simtest.Address, 32, 4, nil},
		{"right_reversal", simtest.Race, 64, 4, nil},
		{"missing_barrier", simtest.Race, 32, 1, []string{"race", "written by thread", "kernel.cu:10", "kernel.cu:11"}},
		{"missing_barrier", simtest.Race, 64, 1, []string{"race", "written by thread", "kernel.cu:10", "kernel.cu:11"}},
		{"right_exchange", simtest.Race, 32, 1, nil},
		{"right_exchange", simtest.Race, 64, 1, nil},
		{"missing_warp_barrier", simtest.Race, 32, 1, []string{"race", "kernel.cu:21", "kernel.cu:22"}},
		{"missing_warp_barrier", simtest.Race, 64, 1, []string{"race", "kernel.cu:21", "kernel.cu:22"}},
		{"wrong_warp_width", simtest.Race, 32, 1, []string{"race", "kernel.cu:28"}},
		{"wrong_warp_width", simtest.Race, 64, 1, nil},
		{"race_between_blocks", simtest.Race, 32, 4, []string{"race", "another block", "kernel.cu:31"}},
		{"race_between_blocks", simtest.Race, 64, 4, []string{"race", "another block", "kernel.cu:31"}},
		{"written_by_a_reader", simtest.Race, 32, 1, []string{"race", "kernel.cu:81", "kernel.cu:82"}},
		{"written_by_a_reader", simtest.Race, 64, 1, []string{"race", "kernel.cu:81", "kernel.cu:82"}},
		{"right_counting", simtest.Race, 32, 4, nil},
		{"count_read_too_early", simtest.Race, 32, 1, []string{"race", "atomic update", "kernel.cu:35", "kernel.cu:36"}},
		{"divergent_barrier", simtest.Plain, 32, 1, []string{"barrier divergence at kernel.cu:39", "100 threads wait, 28 have ended"}},
		{"divergent_barrier", simtest.Plain, 64, 1, []string{"barrier divergence at kernel.cu:39", "100 threads wait, 28 have ended"}},
		{"two_barriers", simtest.Plain, 32, 1, []string{"barrier divergence", "kernel.cu:44", "kernel.cu:46"}},
		{"two_barriers", simtest.Plain, 64, 1, []string{"barrier divergence", "kernel.cu:44", "kernel.cu:46"}},
		{"divergent_shuffle", simtest.Plain, 32, 1, []string{"divergent shuffle at kernel.cu:52", "lanes eeeeeeee of ffffffff", "lane 0 has ended"}},
		{"divergent_shuffle", simtest.Plain, 64, 1, []string{"divergent shuffle at kernel.cu:52", "lanes eeeeeeeeeeeeeeee of"}},
		{"divergent_ballot", simtest.Plain, 32, 1, []string{"divergent ballot at kernel.cu:92", "lanes ffffffdf of ffffffff", "lane 5 has ended"}},
		{"deadlock", simtest.Plain, 32, 1, []string{"deadlock", "kernel.cu:55", "kernel.cu:56"}},
		{"shared_out_of_bounds", simtest.Address, 32, 1, []string{"heap-buffer-overflow", "kernel.cu:60"}},
		{"shared_of_a_template", simtest.Address, 32, 1, []string{"heap-buffer-overflow", "kernel.cu:87"}},
		{"dynamic_out_of_bounds", simtest.Address, 32, 1, []string{"heap-buffer-overflow", "kernel.cu:65"}},
		{"global_out_of_bounds", simtest.Address, 32, 1, []string{"heap-buffer-overflow", "kernel.cu:68"}},
		{"global_out_of_bounds", simtest.Address, 64, 1, []string{"heap-buffer-overflow", "kernel.cu:68"}},
		{"right_mask", simtest.Plain, 32, 1, nil},
		{"right_mask", simtest.Plain, 64, 1, []string{"kernel.cu:69: lane 32 is not in its own mask"}},
		{"no_such_kernel", simtest.Plain, 32, 1, []string{"no kernel named no_such_kernel"}},
	} {
		run := simtest.Run{Warp: x.warp, Buffers: [][]byte{make([]byte, 4*n)}, Launches: []simtest.Launch{launch(x.entry, x.blocks, 128)}}
		err := programs[x.build].Run(run)
		if (err != nil) != (x.says != nil) {
			t.Errorf("%s, %s, warp of %d: got %v, want %v", x.entry, x.build, x.warp, err, x.says)
			continue
		}
		if err != nil {
			if who := raceBetween.FindStringSubmatch(err.Error()); who != nil && who[1] == who[2] && !strings.Contains(err.Error(), "another block") {
				t.Errorf("%s, warp of %d: a race of a thread with itself: %v", x.entry, x.warp, err)
			}
		}
		for _, part := range x.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s, %s, warp of %d: the message lacks %q: %v", x.entry, x.build, x.warp, part, err)
			}
		}
	}

	// Bad launches.
	for says, l := range map[string]simtest.Launch{
		"want 1 to 128":                    launch("right_reversal", 1, 129),
		"blocks, want 1 at least":          launch("right_reversal", 0, 128),
		"got 8 bytes of parameters, want ": {Entry: "right_reversal", Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: make([]byte, 8)},
	} {
		if err := programs[simtest.Plain].Run(simtest.Run{Launches: []simtest.Launch{l}}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("bad launch: got %v, want %q", err, says)
		}
	}

	// Shared memory begins as NaN in every block, and the seed decides the order of blocks.
	words := make([]byte, 4*n)
	run := simtest.Run{Buffers: [][]byte{words}, Launches: []simtest.Launch{launch("left_over", 3, 128)}}
	if err := programs[simtest.Plain].Run(run); err != nil {
		t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint32(words); got != 0xffffffff {
		t.Errorf("shared memory of a new block: got 0x%x, want 0xffffffff", got)
	}
	var orders [2]string
	for seed := range orders {
		clear(words)
		run := simtest.Run{Seed: uint64(seed), Buffers: [][]byte{words}, Launches: []simtest.Launch{launch("block_order", 97, 128)}}
		if err := programs[simtest.Plain].Run(run); err != nil {
			t.Fatal(err)
		}
		orders[seed] = string(words[:4*97])
	}
	if orders[0] == orders[1] {
		t.Error("the seed does not change the order of blocks")
	}
}

// addTable adds calls of a table's kernel for a format that reach all of its paths.
func addTable(d *def.Definition, format num.DType) func(t testing.TB, p *tables) {
	return func(t testing.TB, p *tables) {
		g := gen.New("faults")
		indexed := []num.DType{num.I32, format, format}
		switch d.Form.(type) {
		case *def.Product:
			addGemms(t, p, d, []num.DType{format, format, format}, []gemmShape{
				{3, 5, 70, false, 0, 0}, {130, 3, 33, true, 16, 8}, {67, 5, 33, false, 4, 3}, {64, 64, 24, true, 0, 0}, {120, 9, 25, false, 0, 7},
			})
		case *def.Lookup:
			k := p.compile(t, d, indexed)
			p.add(t, "gather", d, k, []num.Array{indices(g, 17, 9, true), randomBits(g, format, 9, 33), num.NewArray(format, 17, 33)}, 0, 7)
		default:
			k := p.compile(t, d, indexed)
			p.limits.Multiprocessors = 2
			p.add(t, "many", d, k, []num.Array{skewed(g, 1100, 300), filled(g, format, 1100, 9, valueKinds[0]), filled(g, format, 300, 9, valueKinds[2])}, 0, 7)
			p.add(t, "few", d, k, []num.Array{counted(g, 70), filled(g, format, 70*69/2, 3, valueKinds[3]), filled(g, format, 70, 3, valueKinds[0])}, 4, 1)
			p.add(t, "very many", d, k, []num.Array{skewed(g, 8800, 3), filled(g, format, 8800, 1, valueKinds[0]), filled(g, format, 3, 1, valueKinds[0])}, 0, 0)
			p.add(t, "one of many", d, k, []num.Array{oneOfMany(), filled(g, format, 5200, 1, valueKinds[0]), filled(g, format, 3, 1, valueKinds[0])}, 0, 0)
		}
	}
}

// oneOfMany is an index of three rows, of which the one in the middle has too many queries
// to be sorted by comparing: the block that sorts it goes on with the first.
func oneOfMany() num.Array {
	index := num.NewArray(num.I32, 5200, 1)
	for q := range index.Rows {
		row := uint32(1)
		if q%52 < 2 {
			row = uint32(q % 52 * 2)
		}
		index.SetBits(q, 0, row)
	}
	return index
}

// TestTableSanitizers looks for races and for accesses out of bounds in every
// hand-written kernel.
func TestTableSanitizers(t *testing.T) {
	for _, build := range []simtest.Build{simtest.Race, simtest.Address} {
		t.Run(build.String(), func(t *testing.T) {
			t.Parallel()
			p := &tables{}
			list := tableDefinitions
			if isSmoke() {
				list = []*def.Definition{embedding.ForwardDefinition, embedding.AccumulateDefinition, gemm.ForwardDefinition}
			}
			for _, d := range list {
				addTable(d, num.F16)(t, p)
				if d.Access() == def.ToIndex {
					addTable(d, num.F32)(t, p) // sorts
				}
			}
			if text := p.run(t, build, 64, 0); text != "" {
				t.Error(text)
			}
		})
	}
}

// TestTableFaults changes hand-written kernels; each change must be found by the check
// that is made for it. TestTableSanitizers and others make the same calls of the kernels as
// they are.
func TestTableFaults(t *testing.T) {
	found := findings{}
	addGemm, addGather := addTable(gemm.ForwardAccumulateDefinition, num.F16), addTable(embedding.ForwardDefinition, num.F16)
	for _, x := range []struct {
		name     string
		add      func(t testing.TB, p *tables)
		build    simtest.Build
		from, to string
		says     string
	}{
		{"gemm without a barrier", addGemm, simtest.Race, "BARRIER(); // the next step", "// the next step", "race"},
		{"gemm with one half of shared memory", addGemm, simtest.Race, "half ^= 1;", "", "race"},
		{"gemm with a padded step", addGemm, simtest.Plain, "k < (int)remaining", "k < DEPTH", "want 0x8000"},
		{"gemm reading beyond a row", addGemm, simtest.Address, "(left < DEPTH ? (int)left : DEPTH) - k", "DEPTH - k", "buffer-overflow"},
		{"gemm reading whole pieces beyond a row", addGemm, simtest.Address, "is_whole && left >= DEPTH", "is_whole", "buffer-overflow"},
		{"gemm reading beyond the last row", addGemm, simtest.Address, "(left < LINES ? (int)left : LINES) - line", "LINES - line", "buffer-overflow"},
		{"gemm reading whole pieces beyond the last row", addGemm, simtest.Address, "is_vector && left >= LINES", "is_vector", "buffer-overflow"},
		{"gemm writing beyond the last row", addGemm, simtest.Address, "if (r < rows && c + n < cols) STORE", "if (c + n < cols) STORE", "buffer-overflow"},
		{"gemm writing four results beyond a row", addGemm, simtest.Plain, "c + 4 <= cols) {\n            OutputQuad quad;", "c < cols) {\n            OutputQuad quad;", "it writes between the rows of C"},
		{"gemm rounding products", addGemm, simtest.Plain, "acc[i][j] = fused(a.v[i], b.v[j], acc[i][j])", "acc[i][j] = acc[i][j] + round_f16(a.v[i] * b.v[j])", "want 0x"},
		{"places read too early", addTable(embedding.BackwardDefinition, num.F16), simtest.Race, "BARRIER(); // the last thread has written begin\n    at += begin[0];", "at += begin[0];", "race"},
		{"compared too early", addTable(embedding.BackwardDefinition, num.F32), simtest.Race, "? b : a;\n            }\n            BARRIER(); // this step of the network is complete", "? b : a;\n            }", "race"},
		{"positions out of order", addTable(embedding.BackwardDefinition, num.F32), simtest.Plain, "p.ordered[first + less]", "p.ordered[first + count - 1 - less]", "want 0x"},
		{"chunks out of order", addTable(embedding.BackwardDefinition, num.F32), simtest.Plain, "to[i] = shared[i];", "to[n - 1 - i] = shared[i];", "want 0x"},
		{"bits counted too early", addTable(embedding.BackwardDefinition, num.F32), simtest.Race, "bits[i] = 0;\n    BARRIER(); // all bits are clear", "bits[i] = 0;", "race"},
		{"bits replaced too early", addTable(embedding.BackwardDefinition, num.F32), simtest.Race, "to[at++] = q;\n    }\n    BARRIER(); // all threads have read bits, the next window may overwrite them", "to[at++] = q;\n    }", "race"},
		{"bits from the wrong end", addTable(embedding.BackwardDefinition, num.F32), simtest.Plain, "1u << q % 32", "1u << (31 - q % 32)", "want 0x"},
		{"infinities added as numbers", addTable(embedding.BackwardDefinition, num.F16), simtest.Plain, "(s.w[i] & 0x7c007c00u)", "(s.w[i] & 0x3c003c00u)", "want 0x"},
		{"one bit too few", addTable(embedding.BackwardDefinition, num.F16), simtest.Plain, "(42u << 20)", "(43u << 20)", "want 0x"},
		{"columns beyond a row", addTable(embedding.BackwardDefinition, num.F16), simtest.Address, "threadIdx.x) * N; column < p.cols;", "threadIdx.x) * N; column <= p.cols;", "buffer-overflow"},
		{"untouched rows are written", addTable(embedding.AccumulateDefinition, num.F16), simtest.Plain, "(!ACCUMULATE && first_row + i < p.rows)", "(first_row + i < p.rows)", "want 0x8000"},
		{"gather by one row too many", addGather, simtest.Address, "row[i] >= p.rows", "row[i] > p.rows", "buffer-overflow"},
		{"gather of whole words", addGather, simtest.Address, "i64 words = p.cols / PER_WORD;", "i64 words = (p.cols + PER_WORD - 1) / PER_WORD;", "buffer-overflow"},
	} {
		if isSmoke() && found.again(x.build, x.says) {
			continue
		}
		t.Run(strings.ReplaceAll(x.name, " ", "_")+"/"+x.build.String(), func(t *testing.T) {
			t.Parallel()
			p := &tables{}
			x.add(t, p)
			if got := p.run(t, x.build, 64, 0, x.from, x.to); got == "" || !strings.Contains(got, x.says) {
				t.Errorf("got %q, want %q", got, x.says)
			}
		})
	}
}
