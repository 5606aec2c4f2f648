package gpu_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"tokitai/internal/gen"
	"tokitai/internal/tensorcore"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
)

const withTensorCores = "#include \"tensorcore.h\"\n"

// fragmentKernels have one instruction each. A lane's registers lie in memory one after
// another.
const fragmentKernels = withTensorCores + `
struct Params { u32 *a, *b; float* c; };

// One tile a block: fragments of a, b and c, of which c becomes the result.
template <bool IS_BF16>
DEVICE void multiply_one(const Params& p) {
    int lane = blockIdx.x * 32 + threadIdx.x;
    u32 a[4], b[2];
    float d[4];
    for (int i = 0; i < 4; i++) a[i] = p.a[lane * 4 + i], d[i] = p.c[lane * 4 + i];
    for (int i = 0; i < 2; i++) b[i] = p.b[lane * 2 + i];
    if (IS_BF16) mma_16_8_16_bf16(d, a, b);
    else mma_16_8_16_f16(d, a, b);
    for (int i = 0; i < 4; i++) p.c[lane * 4 + i] = d[i];
}
KERNEL(multiply_f16, 32)(const Params p) { multiply_one<false>(p); }
KERNEL(multiply_bf16, 32)(const Params p) { multiply_one<true>(p); }

// From a to b by way of shared memory, 512 bytes: lane l gives row l of 32.
KERNEL(load, 32)(const Params p) {
    SHARED_DYN(u32, memory);
    for (int i = 0; i < 4; i++) memory[threadIdx.x * 4 + i] = p.a[threadIdx.x * 4 + i];
    WARP_BARRIER();
    u32 r[4];
    load_matrix_4(r, shared_address(memory) + threadIdx.x * 16);
    for (int i = 0; i < 4; i++) p.b[threadIdx.x * 4 + i] = r[i];
}
KERNEL(load_transposed, 32)(const Params p) {
    SHARED_DYN(u32, memory);
    for (int i = 0; i < 4; i++) memory[threadIdx.x * 4 + i] = p.a[threadIdx.x * 4 + i];
    WARP_BARRIER();
    u32 r[4];
    load_matrix_4_transposed(r, shared_address(memory) + threadIdx.x * 16);
    for (int i = 0; i < 4; i++) p.b[threadIdx.x * 4 + i] = r[i];
}
KERNEL(store, 32)(const Params p) {
    SHARED(u32, memory, 128);
    u32 r[4];
    for (int i = 0; i < 4; i++) r[i] = p.a[threadIdx.x * 4 + i];
    store_matrix_4(shared_address(memory) + threadIdx.x * 16, r);
    WARP_BARRIER();
    for (int i = 0; i < 4; i++) p.b[threadIdx.x * 4 + i] = memory[threadIdx.x * 4 + i];
}
// Lane l copies the first l / 2 bytes of its piece, in the second of three groups; what is
// there before and after the wait goes to b.
KERNEL(copy, 32)(const Params p) {
    SHARED_DYN(u32, memory);
    u32* own = memory + threadIdx.x * 4;
    for (int i = 0; i < 4; i++) own[i] = 7;
    copy_async_commit();
    copy_async_16(shared_address(own), p.a + threadIdx.x * 4, threadIdx.x / 2);
    copy_async_commit();
    copy_async_commit();
    copy_async_wait<2>();
    for (int i = 0; i < 4; i++) p.b[threadIdx.x * 4 + i] = own[i];
    copy_async_wait<1>();
    for (int i = 0; i < 4; i++) p.b[128 + threadIdx.x * 4 + i] = own[i];
}
`

// fragments packs a tile for the lanes of a warp, as PTX defines it.
func fragments(tile *tensorcore.Tile) (a, b, c []byte) {
	word := binary.LittleEndian.AppendUint32
	for lane := range 32 {
		row, col := lane/4, lane%4*2
		for i := range 4 {
			r, k := row+i%2*8, col+i/2*8
			a = word(a, tile.A[r][k]|tile.A[r][k+1]<<16)
		}
		for i := range 2 {
			k := col + i*8
			b = word(b, tile.B[k][row]|tile.B[k+1][row]<<16)
		}
		for i := range 4 {
			c = word(c, tile.C[row+i/2*8][col+i%2])
		}
	}
	return a, b, c
}

// tileOf returns the results of a tile from the fragments of c.
func tileOf(c []byte) (d [16][8]uint32) {
	for lane := range 32 {
		for i := range 4 {
			d[lane/4+i/2*8][lane%4*2+i%2] = binary.LittleEndian.Uint32(c[(lane*4+i)*4:])
		}
	}
	return d
}

func pointers(n int) (params []byte) {
	for i := range n {
		params = binary.LittleEndian.AppendUint64(params, simtest.Pointer(i))
	}
	return params
}

// TestSimMMA: mma.sync on the simulator returns what an H200 returned, and what num.MMA
// returns for another model.
func TestSimMMA(t *testing.T) {
	t.Parallel()
	models := []num.MMA{{L: 16, F: 25}, {L: 8, F: 24}, {L: 4, F: 23}}
	if isSmoke() {
		models = models[:1]
	}
	for _, m := range models {
		define := fmt.Sprintf("#define TOKITAI_MMA_STEP %d\n#define TOKITAI_MMA_BITS %d\n", m.L, m.F)
		program := simtest.Compile(t, define+fragmentKernels, simtest.Plain)
		for kind, k := range tensorcore.Kinds {
			tiles := tensorcore.Tiles
			if m.L != 16 {
				tiles = 8
			}
			var a, b, c []byte
			for i := range tiles {
				ta, tb, tc := fragments(tensorcore.Input(kind, i))
				a, b, c = append(a, ta...), append(b, tb...), append(c, tc...)
			}
			run := simtest.Run{Buffers: [][]byte{a, b, c}, Launches: []simtest.Launch{{
				Entry: "multiply_" + k.DType.String(), Grid: [3]uint32{uint32(tiles), 1, 1}, Block: [3]uint32{32, 1, 1}, Params: pointers(3),
			}}}
			if err := program.Run(run); err != nil {
				t.Fatal(err)
			}
			hash := sha256.New()
			for i := range tiles {
				got := tileOf(c[i*512:])
				if err := binary.Write(hash, binary.LittleEndian, got[:]); err != nil {
					t.Fatal(err)
				}
				if m.L == 16 {
					continue
				}
				in := tensorcore.Input(kind, i)
				for r := range got {
					for n := range got[r] {
						var column [16]uint32
						for j := range column {
							column[j] = in.B[j][n]
						}
						want := math.Float32bits(m.Dot(k.DType, in.A[r][:], column[:], math.Float32frombits(in.C[r][n])))
						if got[r][n] != want {
							t.Fatalf("%v, %s of %v, tile %d: got 0x%08x at %d, %d, want 0x%08x", m, k.Name, k.DType, i, got[r][n], r, n, want)
						}
					}
				}
			}
			if got := fmt.Sprintf("%x", hash.Sum(nil)[:8]); m.L == 16 && got != k.Answer {
				t.Errorf("%s of %v: the results have hash %s, an H200's %s", k.Name, k.DType, got, k.Answer)
			}
		}
	}
}

// TestSimFragments moves matrices between shared memory and registers, and copies pieces.
func TestSimFragments(t *testing.T) {
	t.Parallel()
	for _, build := range builds() {
		program := simtest.Compile(t, fragmentKernels, build)
		a := make([]byte, 512) // 32 rows of eight elements; element e of row r is 16r + e
		for i := range 256 {
			binary.LittleEndian.PutUint16(a[2*i:], uint16(i/8*16+i%8))
		}
		launch := func(entry string) []byte {
			b := make([]byte, 1024)
			run := simtest.Run{Buffers: [][]byte{bytes.Clone(a), b}, Launches: []simtest.Launch{{
				Entry: entry, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Shared: 512, Params: append(pointers(2), make([]byte, 8)...),
			}}}
			if err := program.Run(run); err != nil {
				t.Fatal(err)
			}
			return b
		}
		halves := func(entry string, want func(lane, i, half int) uint16) {
			b := launch(entry)
			for n := range 256 {
				lane, i, half := n/8, n/2%4, n%2
				if got := binary.LittleEndian.Uint16(b[2*n:]); got != want(lane, i, half) {
					t.Fatalf("%s: register %d of lane %d has %#x in half %d, want %#x", entry, i, lane, got, half, want(lane, i, half))
				}
			}
		}
		halves("load", func(lane, i, half int) uint16 { return uint16((8*i+lane/4)*16 + lane%4*2 + half) })
		halves("load_transposed", func(lane, i, half int) uint16 { return uint16((8*i+lane%4*2+half)*16 + lane/4) })
		// Row r of matrix m consists of registers m of lanes 4r to 4r+3.
		halves("store", func(lane, i, half int) uint16 {
			from := lane%8*4 + i // lane that holds it
			return uint16(from*16 + lane/8*2 + half)
		})
		b := launch("copy")
		for n := range 512 {
			want := byte(0)
			if n%16 < n/16/2 {
				want = a[n]
			}
			if b[n] != 0xff || b[512+n] != want {
				t.Fatalf("copy: got %#x before the wait and %#x after it at byte %d, want 0xff and %#x", b[n], b[512+n], n, want)
			}
		}
	}
}

// ringKernel multiplies in a cluster of two blocks, which share the right operand: a
// warpgroup multiplies what a thread of a fifth warp loads. RIGHT_IN_ROWS and LEFT_IN_ROWS say
// along which index the operands' lines lie; results are f32.
const ringKernel = `struct Params { TensorMap left, right, result; i32 depth, pad[15]; };
const int STAGES = 2, LINE = 128, LEFT = 64 * LINE, RIGHT = COLS * LINE, STAGE = LEFT + RIGHT;
const int SLOT_AT = STAGES * STAGE, BARRIERS_AT = SLOT_AT + 64 * LINE;

DEVICE void load_all(const Params& p, u32 base, u32 full, u32 empty) {
    u32 rank = cluster_rank();
    for (i32 i = 0; i * 64 < p.depth; i++) {
        u32 stage = i % STAGES, to = base + stage * STAGE, barrier = full + 8 * stage;
        mbarrier_wait(empty + 8 * stage, 1 ^ i / STAGES % 2);
        mbarrier_expect(barrier, STAGE);
        if (TRANSPOSE_LEFT) tensor_load(to, &p.left, barrier, blockIdx.x * 64, i * 64);
        else tensor_load(to, &p.left, barrier, i * 64, blockIdx.x * 64);
        u32 part = to + LEFT + rank * RIGHT / 2;
        if (TRANSPOSE_RIGHT)
            for (int j = 0; j < COLS / 2; j += 64) tensor_load_multicast(part + j * LINE, &p.right, barrier, 3, rank * COLS / 2 + j, i * 64);
        else
            tensor_load_multicast(part, &p.right, barrier, 3, i * 64, rank * COLS / 2);
    }
}

DEVICE void multiply_all(const Params& p, u32 base, u32 full, u32 empty) {
    float acc[COLS / 2];
    for (i32 i = 0; i * 64 < p.depth; i++) {
        u32 stage = i % STAGES, at = base + stage * STAGE;
        mbarrier_wait(full + 8 * stage, i / STAGES % 2);
        u64 left = wgmma_descriptor(at, 16, 1024), right = wgmma_descriptor(at + LEFT, 64 * LINE, 1024);
        wgmma_fence();
        for (int j = 0; j < 4; j++)
            wgmma_64_N_16<COLS, IS_BF16, TRANSPOSE_LEFT, TRANSPOSE_RIGHT>(acc, left + j * (TRANSPOSE_LEFT ? 128 : 2), right + j * (TRANSPOSE_RIGHT ? 128 : 2), i > 0 || j > 0);
        wgmma_commit();
        wgmma_wait<0>();
        if (threadIdx.x % 32 < 2) mbarrier_arrive_at(empty + 8 * stage, threadIdx.x % 32);
    }
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
    u32 slot = base + SLOT_AT;
    for (int line = 0; line < COLS / 32; line++) {
        if (threadIdx.x == 0) tensor_store_wait<0>(); // the slot is free
        named_barrier(1, 128);
        for (int j = 0; j < 4; j++) {
            const float* d = acc + line * 16 + j * 4;
            u32 at = slot + row * LINE + ((j * 2 + lane % 4 / 2) ^ (row % 8)) * 16 + lane % 2 * 8;
            shared_store_2(at, d[0], d[1]);
            shared_store_2(at + 8 * LINE, d[2], d[3]);
        }
        fence_async_shared();
        named_barrier(1, 128);
        if (threadIdx.x == 0) {
            tensor_store(&p.result, slot, line * 32, blockIdx.x * 64);
            tensor_store_commit();
        }
    }
    if (threadIdx.x == 0) tensor_store_wait<0>(); // all are stored
}

KERNEL_CLUSTER(ring, 160, 2)(GRID_CONSTANT Params p) {
    SHARED_DYN(char, memory);
    u32 base = (shared_address(memory) + 1023) / 1024 * 1024, full = base + BARRIERS_AT, empty = full + 8 * STAGES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(full + 8 * i, 1);
            mbarrier_init(empty + 8 * i, 8); // the warps of both blocks
        }
        mbarrier_fence_init();
    }
    cluster_barrier();
    if (threadIdx.x < 128) multiply_all(p, base, full, empty);
    else if (threadIdx.x == 128) load_all(p, base, full, empty);
    cluster_barrier(); // before a block ends
}
`

// ringCase is a call of the ring kernel.
type ringCase struct {
	dtype                         num.DType
	rows, cols, depth             int
	transposeLeft, transposeRight bool
	tile                          int // COLS
}

// source returns a version of the ring kernel with an entry of its own.
func (c ringCase) source(entry, text string) string {
	text = strings.ReplaceAll(text, "KERNEL_CLUSTER(ring,", "KERNEL_CLUSTER("+entry+",")
	return fmt.Sprintf("%snamespace of_%s {\n#line 1 \"kernel.cu\"\n%s}\n#undef COLS\n#undef IS_BF16\n#undef TRANSPOSE_LEFT\n#undef TRANSPOSE_RIGHT\n", c.macros(), entry, text)
}

func (c ringCase) macros() string {
	truth := map[bool]string{false: "false", true: "true"}
	return fmt.Sprintf("#define COLS %d\n#define IS_BF16 %s\n#define TRANSPOSE_LEFT %s\n#define TRANSPOSE_RIGHT %s\n", c.tile, truth[c.dtype == num.BF16], truth[c.transposeLeft], truth[c.transposeRight])
}

// run multiplies random matrices and returns what is wrong. What is outside of the
// operands is NaN.
func (c ringCase) run(program *simtest.Program, entry string, seed uint64) string {
	g := gen.New("ring")
	const size = 2
	matrix := func(rows, cols, pad int) (num.Array, []byte, uint64) {
		a := filled(g, c.dtype, rows, cols, valueKinds[0])
		stride := roundUp(cols, 8) + pad
		memory := bytes.Repeat([]byte{0xff}, rows*stride*size)
		for r := range rows {
			for k := range cols {
				binary.LittleEndian.PutUint16(memory[(r*stride+k)*size:], uint16(a.Bits(r, k)))
			}
		}
		return a, memory, uint64(stride * size)
	}
	order := func(isSwapped bool, outer, inner int) (int, int) {
		if isSwapped {
			return inner, outer
		}
		return outer, inner
	}
	leftRows, leftCols := order(c.transposeLeft, c.rows, c.depth)
	rightRows, rightCols := order(c.transposeRight, c.cols, c.depth)
	left, leftMemory, leftStride := matrix(leftRows, leftCols, 8)
	right, rightMemory, rightStride := matrix(rightRows, rightCols, 0)
	resultStride := uint64(roundUp(c.cols, 4)+4) * 4
	result := bytes.Repeat([]byte{0xa5}, c.rows*int(resultStride))

	operand := func(buffer, rows, cols int, stride uint64, lines uint32) simtest.TensorMap {
		return simtest.TensorMap{Address: simtest.Pointer(buffer), ElementBytes: size, Sizes: []uint64{uint64(cols), uint64(rows)}, Strides: []uint64{stride}, Box: []uint32{64, lines}, IsSwizzled: true}
	}
	lines := uint32(c.tile / 2)
	if c.transposeRight {
		lines = 64
	}
	maps := []simtest.TensorMap{
		operand(0, leftRows, leftCols, leftStride, 64),
		operand(1, rightRows, rightCols, rightStride, lines),
		{Address: simtest.Pointer(2), ElementBytes: 4, Sizes: []uint64{uint64(c.cols), uint64(c.rows)}, Strides: []uint64{resultStride}, Box: []uint32{32, 64}, IsSwizzled: true},
	}
	var params []byte
	for _, m := range maps {
		params = m.AppendTo(params)
	}
	params = binary.LittleEndian.AppendUint32(params, uint32(c.depth))
	params = append(params, make([]byte, 60)...)
	run := simtest.Run{Seed: seed, Buffers: [][]byte{leftMemory, rightMemory, result}, Launches: []simtest.Launch{{
		Entry: entry, Grid: [3]uint32{uint32(roundUp(c.rows, 128) / 64), 1, 1}, Block: [3]uint32{160, 1, 1},
		Shared: uint32(2*(64+c.tile)*128 + 64*128 + 32 + 1024), Params: params,
	}}}
	if err := program.Run(run); err != nil {
		return err.Error()
	}
	m := num.MMA{L: 16, F: 25}
	for r := range c.rows {
		for n := range int(resultStride / 4) {
			want := uint32(0xa5a5a5a5)
			if n < c.cols {
				row, col := make([]uint32, c.depth), make([]uint32, c.depth)
				for k := range c.depth {
					lr, lc := order(c.transposeLeft, r, k)
					rr, rc := order(c.transposeRight, n, k)
					row[k], col[k] = left.Bits(lr, lc), right.Bits(rr, rc)
				}
				want = math.Float32bits(m.Dot(c.dtype, row, col, 0))
			}
			if got := binary.LittleEndian.Uint32(result[uint64(r)*resultStride+uint64(4*n):]); got != want {
				return fmt.Sprintf("wrong bits: got 0x%08x at %d, %d, want 0x%08x", got, r, n, want)
			}
		}
	}
	return ""
}

var (
	plainRing      = ringCase{num.F16, 128, 64, 192, false, false, 64}
	transposedRing = ringCase{num.BF16, 130, 121, 200, true, true, 128}
)

// TestSimRing multiplies by wgmma, TMA and mbarriers, in every layout of the operands.
func TestSimRing(t *testing.T) {
	t.Parallel()
	cases := []ringCase{
		plainRing, transposedRing,
		{num.F16, 200, 61, 64, true, false, 64},
		{num.BF16, 70, 250, 330, false, true, 256},
		{num.F16, 128, 256, 64, false, false, 256},
	}
	source := withTensorCores
	for i, c := range cases {
		source += c.source(fmt.Sprintf("ring_%d", i), ringKernel)
	}
	for _, build := range builds() {
		program := simtest.Compile(t, source, build)
		for i, c := range cases {
			for seed := range uint64(3) {
				if text := c.run(program, fmt.Sprintf("ring_%d", i), seed); text != "" {
					t.Errorf("%+v, %v, seed %d: %s", c, build, seed, text)
				}
			}
		}
	}
}

// builds are those that kernels for tensor cores are tested with.
func builds() []simtest.Build {
	if isFull() {
		return []simtest.Build{simtest.Plain, simtest.Address, simtest.Race}
	}
	return []simtest.Build{simtest.Plain}
}

// inBuilds runs the same in each of the builds. What it returns is what was wrong.
func inBuilds(t *testing.T, run func(build simtest.Build) string) {
	t.Helper()
	for _, build := range builds() {
		if text := run(build); text != "" {
			t.Errorf("%v: %s", build, text)
		}
	}
}
