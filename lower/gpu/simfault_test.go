package gpu_test

import (
	"encoding/binary"
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
`

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
		{"right_exchange", simtest.Race, 32, 1, nil},
		{"missing_warp_barrier", simtest.Race, 32, 1, []string{"race", "kernel.cu:21"}},
		{"wrong_warp_width", simtest.Race, 32, 1, []string{"race", "kernel.cu:28"}},
		{"wrong_warp_width", simtest.Race, 64, 1, nil},
		{"race_between_blocks", simtest.Race, 32, 4, []string{"race", "another block", "kernel.cu:31"}},
		{"right_counting", simtest.Race, 32, 4, nil},
		{"count_read_too_early", simtest.Race, 32, 1, []string{"race", "atomic update", "kernel.cu:35"}},
		{"divergent_barrier", simtest.Plain, 32, 1, []string{"barrier divergence at kernel.cu:39", "100 threads wait, 28 have ended"}},
		{"two_barriers", simtest.Plain, 32, 1, []string{"barrier divergence", "kernel.cu:44", "kernel.cu:46"}},
		{"divergent_shuffle", simtest.Plain, 32, 1, []string{"divergent shuffle at kernel.cu:52", "lanes eeeeeeee of ffffffff", "lane 0 has ended"}},
		{"divergent_shuffle", simtest.Plain, 64, 1, []string{"divergent shuffle at kernel.cu:52", "lanes eeeeeeeeeeeeeeee of"}},
		{"deadlock", simtest.Plain, 32, 1, []string{"deadlock", "kernel.cu:55", "kernel.cu:56"}},
		{"shared_out_of_bounds", simtest.Address, 32, 1, []string{"global-buffer-overflow", "kernel.cu:60"}},
		{"dynamic_out_of_bounds", simtest.Address, 32, 1, []string{"heap-buffer-overflow", "kernel.cu:65"}},
		{"global_out_of_bounds", simtest.Address, 32, 1, []string{"heap-buffer-overflow", "kernel.cu:68"}},
		{"right_mask", simtest.Plain, 32, 1, nil},
		{"right_mask", simtest.Plain, 64, 1, []string{"lane 32 is not in its own mask"}},
		{"no_such_kernel", simtest.Plain, 32, 1, []string{"no kernel named no_such_kernel"}},
	} {
		run := simtest.Run{Warp: x.warp, Buffers: [][]byte{make([]byte, 4*n)}, Launches: []simtest.Launch{launch(x.entry, x.blocks, 128)}}
		err := programs[x.build].Run(run)
		if (err != nil) != (x.says != nil) {
			t.Errorf("%s, %s, warp of %d: got %v, want %v", x.entry, x.build, x.warp, err, x.says)
			continue
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

// TestTableFaults changes hand-written kernels; each change must be found by the check
// that is made for it. The kernels as they are pass the same calls in the same build.
func TestTableFaults(t *testing.T) {
	f16 := []num.DType{num.F16, num.F16, num.F16}
	indexed := []num.DType{num.I32, num.F16, num.F16}
	addGemm := func(t testing.TB, p *tables) {
		addGemms(t, p, gemm.ForwardAccumulateDefinition, f16, []gemmShape{
			{3, 5, 70, false, 0, 0}, {130, 3, 33, true, 16, 8}, {67, 5, 33, false, 4, 3}, {64, 64, 24, true, 0, 0}, {120, 9, 25, false, 0, 7},
		})
	}
	addBackward := func(d *def.Definition, format num.DType) func(t testing.TB, p *tables) {
		return func(t testing.TB, p *tables) {
			k := p.compile(t, d, []num.DType{num.I32, format, format})
			g := gen.New("faults")
			p.limits.Multiprocessors = 2
			p.add(t, "many", d, k, []num.Array{skewed(g, 1100, 300), filled(g, format, 1100, 9, valueKinds[0]), filled(g, format, 300, 9, valueKinds[2])}, 0, 7)
			p.add(t, "few", d, k, []num.Array{counted(g, 70), filled(g, format, 70*69/2, 3, valueKinds[3]), filled(g, format, 70, 3, valueKinds[0])}, 4, 1)
			p.add(t, "very many", d, k, []num.Array{skewed(g, 8800, 3), filled(g, format, 8800, 1, valueKinds[0]), filled(g, format, 3, 1, valueKinds[0])}, 0, 0)
		}
	}
	addGather := func(t testing.TB, p *tables) {
		d := embedding.ForwardDefinition
		k := p.compile(t, d, indexed)
		g := gen.New("faults")
		p.add(t, "gather", d, k, []num.Array{indices(g, 17, 9, true), randomBits(g, num.F16, 9, 33), num.NewArray(num.F16, 17, 33)}, 0, 7)
	}
	for _, x := range []struct {
		name     string
		add      func(t testing.TB, p *tables)
		build    simtest.Build
		from, to string
		says     string
	}{
		{"gemm", addGemm, simtest.Race, "", "", ""},
		{"gemm", addGemm, simtest.Address, "", "", ""},
		{"gemm without a barrier", addGemm, simtest.Race, "BARRIER(); // the next step", "// the next step", "race"},
		{"gemm with one half of shared memory", addGemm, simtest.Race, "half ^= 1;", "", "race"},
		{"gemm with a padded step", addGemm, simtest.Plain, "k < (int)remaining", "k < DEPTH", "want 0x8000"},
		{"gemm reading beyond a row", addGemm, simtest.Address, "(left < DEPTH ? (int)left : DEPTH) - k", "DEPTH - k", "buffer-overflow"},
		{"gemm reading whole pieces beyond a row", addGemm, simtest.Address, "is_whole && left >= DEPTH", "is_whole", "buffer-overflow"},
		{"gemm reading beyond the last row", addGemm, simtest.Address, "(left < LINES ? (int)left : LINES) - line", "LINES - line", "buffer-overflow"},
		{"gemm reading whole pieces beyond the last row", addGemm, simtest.Address, "is_vector && left >= LINES", "is_vector", "buffer-overflow"},
		{"gemm writing beyond the last row", addGemm, simtest.Address, "if (r < rows && c + n < cols) STORE", "if (c + n < cols) STORE", "buffer-overflow"},
		{"gemm writing four results beyond a row", addGemm, simtest.Plain, "c + 4 <= cols) {\n            OutputQuad quad;", "c < cols) {\n            OutputQuad quad;", "beside its elements"},
		{"gemm rounding products", addGemm, simtest.Plain, "acc[i][j] = fused(a.v[i], b.v[j], acc[i][j])", "acc[i][j] = acc[i][j] + round_f16(a.v[i] * b.v[j])", "want 0x"},
		{"scatter", addBackward(embedding.BackwardDefinition, num.F16), simtest.Race, "", "", ""},
		{"scatter in order", addBackward(embedding.BackwardDefinition, num.F32), simtest.Race, "", "", ""},
		{"scatter", addBackward(embedding.AccumulateDefinition, num.F16), simtest.Address, "", "", ""},
		{"scatter in order", addBackward(embedding.AccumulateDefinition, num.F32), simtest.Address, "", "", ""},
		{"places read too early", addBackward(embedding.BackwardDefinition, num.F16), simtest.Race, "BARRIER();\n    at += begin[0];", "at += begin[0];", "race"},
		{"compared too early", addBackward(embedding.BackwardDefinition, num.F32), simtest.Race, "? b : a;\n            }\n            BARRIER();", "? b : a;\n            }", "race"},
		{"positions out of order", addBackward(embedding.BackwardDefinition, num.F32), simtest.Plain, "p.ordered[first + less]", "p.ordered[first + count - 1 - less]", "want 0x"},
		{"chunks out of order", addBackward(embedding.BackwardDefinition, num.F32), simtest.Plain, "to[i] = shared[i];", "to[n - 1 - i] = shared[i];", "want 0x"},
		{"bits counted too early", addBackward(embedding.BackwardDefinition, num.F32), simtest.Race, "bits[i] = 0;\n    BARRIER();", "bits[i] = 0;", "race"},
		{"bits from the wrong end", addBackward(embedding.BackwardDefinition, num.F32), simtest.Plain, "1u << q % 32", "1u << (31 - q % 32)", "want 0x"},
		{"infinities added as numbers", addBackward(embedding.BackwardDefinition, num.F16), simtest.Plain, "(s.w[i] & 0x7c007c00u)", "(s.w[i] & 0x3c003c00u)", "want 0x"},
		{"one bit too few", addBackward(embedding.BackwardDefinition, num.F16), simtest.Plain, "(42u << 20)", "(43u << 20)", "want 0x"},
		{"columns beyond a row", addBackward(embedding.BackwardDefinition, num.F16), simtest.Address, "threadIdx.x) * N; column < p.cols;", "threadIdx.x) * N; column <= p.cols;", "buffer-overflow"},
		{"untouched rows are written", addBackward(embedding.AccumulateDefinition, num.F16), simtest.Plain, "(!ACCUMULATE && first_row + i < p.rows)", "(first_row + i < p.rows)", "want 0x8000"},
		{"gather", addGather, simtest.Address, "", "", ""},
		{"gather by one row too many", addGather, simtest.Address, "row[i] >= p.rows", "row[i] > p.rows", "buffer-overflow"},
		{"gather of whole words", addGather, simtest.Address, "i64 words = p.cols / PER_WORD;", "i64 words = (p.cols + PER_WORD - 1) / PER_WORD;", "buffer-overflow"},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "_")+"/"+x.build.String(), func(t *testing.T) {
			t.Parallel()
			p := &tables{}
			x.add(t, p)
			var change []string
			if x.from != "" {
				change = []string{x.from, x.to}
			}
			got := p.run(t, x.build, 64, 0, change...)
			if (got == "") != (x.says == "") || !strings.Contains(got, x.says) {
				t.Errorf("got %q, want %q", got, x.says)
			}
		})
	}
}
