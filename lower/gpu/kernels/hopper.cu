// */cuda.hopper: products of matrices on Hopper's tensor cores
// C[m,n] = sum_k A[m,k] B[k,n] (+ C[m,n], or times scales of m and n)        tiles of C, one at a time on each multiprocessor
//
// Operands  A (M,K) or (K,M), B (K,N) or (N,K) in f16 or bf16; C (M,N) in the format of A or in f32.
//           With HAS_BYTES, */cuda.hopper-fp8 and */cuda.hopper-int8: A (M,K) and B (N,K) in e4m3, e5m2 or i8, C in f32,
//           f16 or bf16; A and B may lie anywhere, since nothing else has the model of FP8. Otherwise A and B begin, and their rows end and their matrices lie apart, at multiples of 16 bytes; C may
//           lie anywhere. With HAS_AXES, stacks of matrices with up to three batch axes, repeated ones
//           among them; with GROUPED, rows of A and C or the summed index divided by offsets in memory; with
//           SCALED, f32 scales of the rows and columns of C, at any stride. With FUSED, C is not written: its sums
//           end in the expression of the definition (lower/gpu/fused.go), by way of shared memory.
// Numerics  model mma(16,25): steps of 16 products, k ascending from +0 or C; for FP8, mma(32,13,13); i8 in
//           32 bits that wrap, then rounded to f32. Then times the scale of the row, and of the column, each product rounded; one rounding at the store
// Schedule  as many blocks as multiprocessors, each with a warpgroup that loads tiles of both operands, DEPTH
//           along k, into a ring of stages, and two that multiply, 64 rows of the tile each. Their results go
//           to memory by way of shared memory, while the next tile's operands arrive. Tiles of 128x256
//           (ENTRY_WIDE), or of 128x128 (ENTRY_NARROW) where there are few; bands of 16 rows of tiles.
//           For 33 to 64 rows, tiles of 64x64 or 64x32, one warpgroup that multiplies, and stages of two steps.
// Requires  tensorcore.h; sm_90a
// Ladder    1.04 of cuBLAS on an H200, the geometric mean of 38 products; clusters that share B, stores by single
//           warps and more slots gained nothing. 64 rows by 4096x4096, of a copy's bytes a second: 0.64 in kernels/mma.cu
//           -> 0.73 in stages of one step -> 0.83 to 0.87 of two    (docs/gpu.md)
//
// A stage has two barriers: full counts the bytes that copies bring, empty the warps that
// have read it. A stage's phase is the parity of how often the ring has been gone round.

struct MappedParams {
    TensorMap left, right, result;
    u32 tiles;
    i32 has_result; // whether result is set
    Params p;
};

#if IS_INT8
typedef i32 Sum;
#else
typedef float Sum;
#endif

const int LINE = 128; // bytes of a swizzled line: DEPTH elements of an operand
const int DEPTH = LINE / sizeof(Input), BAND = 16;

// ---- shared memory ----

// A tile, and the ring: stages of so many STEPS, each DEPTH along k.
template <int TILE_ROWS, int TILE_COLS, int STAGES, int STAGE_STEPS = 1>
struct Layout {
    static const int ROWS = TILE_ROWS, COLS = TILE_COLS, STEPS = STAGE_STEPS;
    static const int CONSUMERS = ROWS / 64, THREADS = (1 + CONSUMERS) * 128;
    static const int LEFT_BYTES = ROWS * LINE, STEP_BYTES = LEFT_BYTES + COLS * LINE, STAGE_BYTES = STEPS * STEP_BYTES;
    static const int ACROSS = COLS * sizeof(Input) < LINE ? COLS : DEPTH; // elements of a line of B that lies along n
    static const bool HAS_SLOTS = COLS * sizeof(Output) >= LINE;          // results fill lines
    static const int SLOTS = COLS * sizeof(Output) > LINE ? 2 : 1, SLOT_BYTES = 64 * LINE; // for results on their way to memory: 64 rows, one line each
    static const int SLOTS_AT = STAGES * STAGE_BYTES, BARRIERS_AT = SLOTS_AT + CONSUMERS * SLOTS * SLOT_BYTES;

    // The ring of stages, and the place of a warpgroup in it.
    u32 base;
    int stage;
    u32 parity;

    DEVICE u32 left(int step = 0) const { return base + stage * STAGE_BYTES + step * STEP_BYTES; }
    DEVICE u32 right(int step = 0) const { return left(step) + LEFT_BYTES; }
    DEVICE u32 full() const { return base + BARRIERS_AT + stage * 8; }
    DEVICE u32 empty() const { return base + BARRIERS_AT + (STAGES + stage) * 8; }

    // A stage is filled when as many threads have arrived, and the bytes that one of them expects.
    DEVICE void init(int fillers) {
        for (int i = 0; i < STAGES; i++, advance()) {
            mbarrier_init(full(), fillers);
            mbarrier_init(empty(), CONSUMERS * 4);
        }
        mbarrier_fence_init();
    }

    DEVICE void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// ---- where a matrix lies in its operand's tensor map ----

#if HAS_AXES
struct Place {
    i32 at[MAX_AXES];

    DEVICE Place(const Walk& w, i64 product) {
        UNROLL for (int i = 0; i < MAX_AXES; i++) at[i] = w.stride[i] == 0 ? 0 : (i32)(product / w.divisor[i] % w.size[i]);
    }
};
#define PLACE(NAME, OPERAND, PRODUCT) const Place NAME(m.p.OPERAND##_walk, PRODUCT)
#define AT_PLACE(NAME) , NAME.at[0], NAME.at[1], NAME.at[2]
#else
#define PLACE(NAME, OPERAND, PRODUCT)
#define AT_PLACE(NAME)
#endif

// ---- the warpgroup that loads ----

template <class L>
DEVICE void produce(const MappedParams& m, L ring) {
    ring.parity = 1; // a stage that was never used is empty
    for (u32 index = blockIdx.x; index < m.tiles; index += gridDim.x) {
        Found tile = {};
        if (!tile.find<L::ROWS, L::COLS, BAND>(m.p, index)) continue;
        PLACE(left_place, left, tile.product);
        PLACE(right_place, right, tile.product);
        i32 row = (i32)(tile.begin + tile.row), col = (i32)tile.col, end = (i32)(tile.k_begin + tile.depth);
        for (i32 k = (i32)tile.k_begin; k < end;) { // steps beyond the end are zero
            mbarrier_wait(ring.empty(), ring.parity);
            mbarrier_expect(ring.full(), L::STAGE_BYTES);
            UNROLL for (int step = 0; step < L::STEPS; step++, k += DEPTH) {
                if (TRANSPOSE_LEFT) {
                    UNROLL for (int i = 0; i < L::ROWS; i += 64)
                        tensor_load(ring.left(step) + i * LINE, &m.left, ring.full(), row + i, k AT_PLACE(left_place));
                } else {
                    tensor_load(ring.left(step), &m.left, ring.full(), k, row AT_PLACE(left_place));
                }
                if (TRANSPOSE_RIGHT) {
                    tensor_load(ring.right(step), &m.right, ring.full(), k, col AT_PLACE(right_place));
                } else {
                    UNROLL for (int i = 0; i < L::COLS; i += L::ACROSS)
                        tensor_load(ring.right(step) + i * LINE, &m.right, ring.full(), col + i, k AT_PLACE(right_place));
                }
            }
            ring.advance();
        }
    }
}

#if HAS_BYTES
// Copies a piece of a line: the first `count` elements of 16, and zeros for the others.
DEVICE void copy_piece(u32 to, const Input* from, i64 count) {
    u32 w[4] = {0, 0, 0, 0};
    UNROLL for (int i = 0; i < 16; i++)
        if (i < count) w[i / 4] |= (u32)(unsigned char)from[i] << 8 * (i % 4);
    shared_store_2(to, float_of(w[0]), float_of(w[1]));
    shared_store_2(to + 8, float_of(w[2]), float_of(w[3]));
}

// Fills stages as copies by tensor maps do, for operands that these cannot describe: all
// threads of the warpgroup, element by element.
template <class L>
DEVICE void produce_loosely(const MappedParams& m, L ring) {
    ring.parity = 1;
    for (u32 index = blockIdx.x; index < m.tiles; index += gridDim.x) {
        Found tile = {};
        if (!tile.find<L::ROWS, L::COLS, BAND>(m.p, index)) continue;
        const Input *left = m.p.left + tile.begin * m.p.left_stride, *right = m.p.right;
#if HAS_AXES
        left += matrix_at(m.p.left_walk, tile.product);
        right += matrix_at(m.p.right_walk, tile.product);
#endif
        for (i64 k = 0; k < tile.depth; k += DEPTH) {
            mbarrier_wait(ring.empty(), ring.parity);
            for (int i = threadIdx.x; i < (L::ROWS + L::COLS) * 8; i += 128) {
                int line = i / 8, piece = i % 8;
                bool is_left = line < L::ROWS;
                i64 at = is_left ? tile.row + line : tile.col + line - L::ROWS, lines = is_left ? tile.rows : m.p.cols;
                const Input* from = (is_left ? left + at * m.p.left_stride : right + at * m.p.right_stride) + k + piece * 16;
                copy_piece(ring.left() + line * LINE + (piece ^ line % 8) * 16, from, at < lines ? tile.depth - k - piece * 16 : 0);
            }
            fence_async_shared(); // the products read what this thread has written
            mbarrier_arrive(ring.full());
            ring.advance();
        }
    }
}
#endif

// ---- the warpgroups that multiply ----

#if GROUPED == 2
// Sets what a stage has beyond its first `depth` along k to zero: it belongs to the next group.
template <class L>
DEVICE void clear_rest(const L& ring, int depth) {
    const int LINES = L::ROWS + L::COLS;
    for (int i = threadIdx.x - 128; i < LINES * LINE / 16; i += L::CONSUMERS * 128) {
        int line = i / 8, piece = i % 8;
        bool is_transposed = line < L::ROWS ? TRANSPOSE_LEFT : !TRANSPOSE_RIGHT;
        // A box of a transposed operand has a line for each k.
        int k = is_transposed ? line % DEPTH : (piece ^ line % 8) * 8, kept = is_transposed ? (k < depth ? 8 : 0) : depth - k;
        if (kept < 8) shared_keep_8(ring.left() + line * LINE + piece * 16, kept);
    }
    fence_async_shared();
    named_barrier(1 + L::CONSUMERS, L::CONSUMERS * 128);
}
#endif

template <class L>
DEVICE void multiply_tile(L& ring, i32 depth, int part, Sum (&acc)[L::COLS / 2]) {
    const int RIGHT_LINE = TRANSPOSE_RIGHT ? LINE : L::ACROSS * (int)sizeof(Input);
    const u32 LEFT_NEXT = TRANSPOSE_LEFT ? DEPTH * LINE : 16, RIGHT_NEXT = TRANSPOSE_RIGHT ? 16 : DEPTH * LINE;
    const u64 LEFT_STEP = (TRANSPOSE_LEFT ? 16 * LINE : 32) >> 4, RIGHT_STEP = (TRANSPOSE_RIGHT ? 32 : 16 * RIGHT_LINE) >> 4;
    bool is_signal = threadIdx.x % 32 == 0;
    u32 before = 0; // the empty barrier of the stage before
    for (i32 k = 0; k < depth; k += L::STEPS * DEPTH) {
        mbarrier_wait(ring.full(), ring.parity);
#if GROUPED == 2
        if (depth - k < DEPTH) clear_rest(ring, depth - k);
#endif
        wgmma_fence();
        UNROLL for (int step = 0; step < L::STEPS; step++) {
            u64 left = wgmma_descriptor(ring.left(step) + part * 64 * LINE, LEFT_NEXT, 8 * LINE);
            u64 right = wgmma_descriptor(ring.right(step), RIGHT_NEXT, 8 * RIGHT_LINE, RIGHT_LINE);
            UNROLL for (int i = 0; i < DEPTH * (int)sizeof(Input) / 32; i++) {
                const bool adds = ACCUMULATE || k > 0 || step > 0 || i > 0;
#if IS_INT8
                wgmma_64_N_32_i8<L::COLS>(acc, left + i * LEFT_STEP, right + i * RIGHT_STEP, adds);
#elif HAS_BYTES
                wgmma_64_N_32<L::COLS, IS_E5M2>(acc, left + i * LEFT_STEP, right + i * RIGHT_STEP, adds);
#else
                wgmma_64_N_16<L::COLS, IS_BF16, TRANSPOSE_LEFT, !TRANSPOSE_RIGHT>(acc, left + i * LEFT_STEP, right + i * RIGHT_STEP, adds);
#endif
            }
        }
        wgmma_commit();
        if (k > 0) {
            wgmma_wait<1>();
            if (is_signal) mbarrier_arrive(before);
        }
        before = ring.empty();
        ring.advance();
    }
    wgmma_wait<0>();
    if (depth > 0 && is_signal) mbarrier_arrive(before);
}

#if IS_INT8
// Multiplies a tile, and rounds its sums.
template <class L>
DEVICE void multiply_tile(L& ring, i32 depth, int part, float (&acc)[L::COLS / 2]) {
    i32 sums[L::COLS / 2];
    multiply_tile(ring, depth, part, sums);
    wgmma_done(sums);
    UNROLL for (int i = 0; i < L::COLS / 2; i++) acc[i] = (float)sums[i];
}
#endif

// ---- results ----

struct alignas(2 * sizeof(Output)) OutputPair {
    Output v[2];
} MAY_ALIAS;

// The accumulators of a thread as elements of C: pairs of neighbours, row by row.
struct Pairs {
    Output* at;
    i64 stride;
    i64 rows, cols; // how many there are from the first pair on
#if SCALED
    i64 row, col;   // of the first pair
#endif

    DEVICE Pairs(const Params& p, const Found& tile, int part) {
        int thread = threadIdx.x % 128;
        i64 row = tile.row + part * 64 + thread / 32 * 16 + thread % 32 / 4, col = tile.col + thread % 4 * 2;
        stride = p.result_stride;
        at = p.result + (tile.begin + row) * stride + col;
#if HAS_AXES
        at += matrix_at(p.result_walk, tile.product);
#endif
        rows = tile.rows - row;
        cols = p.cols - col;
#if SCALED
        this->row = row;
        this->col = col;
#endif
    }

#if SCALED
    // A scale that there is not is 1, which changes nothing.
    template <int COUNT>
    DEVICE void scale(const Params& p, float (&acc)[COUNT]) {
        float by_row[2];
        UNROLL for (int i = 0; i < 2; i++)
            by_row[i] = p.row_scale && i * 8 < rows ? p.row_scale[(row + i * 8) * p.row_scale_stride] : 1.0f;
        UNROLL for (int j = 0; j < COUNT / 2; j++) {
            int at = j / 2 * 4 + j % 2, c = j / 2 * 8 + j % 2;
            float by_col = p.col_scale && c < cols ? p.col_scale[(col + c) * p.col_scale_stride] : 1.0f;
            acc[at] = acc[at] * by_row[0] * by_col;
            acc[at + 2] = acc[at + 2] * by_row[1] * by_col;
        }
    }
#endif

    template <int COUNT>
    DEVICE void load(float (&acc)[COUNT]) {
        UNROLL for (int i = 0; i < COUNT; i++) {
            int row = i / 2 % 2 * 8, col = i / 4 * 8 + i % 2;
            acc[i] = row < rows && col < cols ? LOAD_OUTPUT(at + row * stride + col) : 0.0f;
        }
    }

    template <int COUNT>
    DEVICE void store(const float (&acc)[COUNT]) {
        UNROLL for (int i = 0; i < COUNT; i++) {
            int row = i / 2 % 2 * 8, col = i / 4 * 8 + i % 2;
            if (row < rows && col < cols) STORE_OUTPUT(at + row * stride + col, acc[i]);
        }
    }

    // The same where rows begin at multiples of 16 bytes.
    template <int COUNT>
    DEVICE void store_pairs(const float (&acc)[COUNT]) {
        UNROLL for (int i = 0; i < COUNT; i += 2) {
            int row = i / 2 % 2 * 8, col = i / 4 * 8;
            Output* to = at + row * stride + col;
            if (row < rows && col + 1 < cols) {
                OutputPair pair;
                UNROLL for (int j = 0; j < 2; j++) STORE_OUTPUT(&pair.v[j], acc[i + j]);
                *reinterpret_cast<OutputPair*>(to) = pair;
            } else if (row < rows && col < cols) {
                STORE_OUTPUT(to, acc[i]);
            }
        }
    }
};

// Stores the 64 rows of a warpgroup, a line of each at a time. A slot is written again when
// the store that used it has read it.
template <class L>
DEVICE void store_lines(const MappedParams& m, const L& ring, const Found& tile, int part, const float (&acc)[L::COLS / 2]) {
    const int PER_LINE = LINE / sizeof(Output);
    int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
    u32 slots = ring.base + L::SLOTS_AT + part * L::SLOTS * L::SLOT_BYTES;
    PLACE(place, result, tile.product);
    UNROLL for (int line = 0; line < L::COLS / PER_LINE; line++) {
        u32 slot = slots + line % L::SLOTS * L::SLOT_BYTES;
        if (thread == 0) tensor_store_wait<L::SLOTS - 1>();
        named_barrier(1 + part, 128);
        if constexpr (sizeof(Output) == 2) {
            int row = warp * 16 + lane % 16;
            UNROLL for (int q = 0; q < 4; q++) {
                const float* d = acc + line * 32 + q * 8;
                const u32 pairs[4] = {NARROW_PAIR(d[0], d[1]), NARROW_PAIR(d[2], d[3]), NARROW_PAIR(d[4], d[5]), NARROW_PAIR(d[6], d[7])};
                store_matrix_4(slot + row * LINE + ((q * 2 + lane / 16) ^ (row % 8)) * 16, pairs);
            }
        } else {
            int row = warp * 16 + lane / 4;
            UNROLL for (int j = 0; j < 4; j++) {
                const float* d = acc + line * 16 + j * 4;
                u32 at = slot + row * LINE + ((j * 2 + lane % 4 / 2) ^ (row % 8)) * 16 + lane % 2 * 8;
                shared_store_2(at, d[0], d[1]);
                shared_store_2(at + 8 * LINE, d[2], d[3]);
            }
        }
        fence_async_shared();
        named_barrier(1 + part, 128);
        if (thread == 0) {
            tensor_store(&m.result, slot, (i32)tile.col + line * PER_LINE, (i32)(tile.begin + tile.row) + part * 64 AT_PLACE(place));
            tensor_store_commit();
        }
    }
}

#if FUSED
// Where the sums of the lines of a slot or two lie: pieces of four are permuted within a line.
struct Sums {
    DEVICE int row(int r) const { return r; }
    DEVICE int at(int r, int c) const { return c / 32 * (64 * 32) + r * 32 + ((c / 4 ^ r) % 8) * 4; }
};

// Ends the sums of the 64 rows of a warpgroup, a line or two of each at a time.
template <class L>
DEVICE void end_lines(const MappedParams& m, const L& ring, char* memory, const Found& tile, int part, const float (&acc)[L::COLS / 2]) {
    const int WIDE = L::SLOTS * 32; // columns at a time
    int thread = threadIdx.x % 128, lane = thread % 32, row = thread / 32 * 16 + lane / 4;
    float* sums = reinterpret_cast<float*>(memory + (ring.base - shared_address(memory)) + L::SLOTS_AT + part * L::SLOTS * L::SLOT_BYTES);
    UNROLL for (int first = 0; first < L::COLS; first += WIDE) {
        named_barrier(1 + part, 128); // nobody reads what was here
        UNROLL for (int j = 0; j < WIDE / 8; j++)
            UNROLL for (int n = 0; n < 4; n++)
                sums[Sums().at(row + n / 2 * 8, j * 8 + lane % 4 / 2 * 4) + lane % 2 * 2 + n % 2] = acc[first / 2 + j * 4 + n];
        named_barrier(1 + part, 128); // the sums are complete
        end_block<64, WIDE, 128>(m.p, tile.begin, tile.rows, sums, tile.row + part * 64, tile.col + first, thread, Sums());
    }
}
#endif

template <class L>
DEVICE void consume(const MappedParams& m, L ring, char* memory, int part) {
    float acc[L::COLS / 2];
    for (u32 index = blockIdx.x; index < m.tiles; index += gridDim.x) {
        Found tile = {};
        if (!tile.find<L::ROWS, L::COLS, BAND>(m.p, index)) continue;
        if (ACCUMULATE) Pairs(m.p, tile, part).load(acc);
#if GROUPED == 2
        if (!ACCUMULATE && tile.depth == 0) // no product sets them
            UNROLL for (int i = 0; i < L::COLS / 2; i++) acc[i] = 0.0f;
#endif
        multiply_tile(ring, (i32)tile.depth, part, acc);
#if SCALED
        Pairs(m.p, tile, part).scale(m.p, acc);
#endif
#if FUSED
        end_lines(m, ring, memory, tile, part, acc);
        continue;
#endif
        // Rows that follow those of a group belong to the next one.
        if constexpr (L::HAS_SLOTS) {
            if (m.has_result && (GROUPED != 1 || tile.row + part * 64 + 64 <= tile.rows)) {
                store_lines(m, ring, tile, part, acc);
                continue;
            }
        } else if (m.p.result_vector) {
            Pairs(m.p, tile, part).store_pairs(acc);
            continue;
        }
        Pairs(m.p, tile, part).store(acc);
    }
    if (threadIdx.x % 128 == 0) tensor_store_wait<0>();
}

template <class L, bool IS_LOOSE = false>
DEVICE void multiply_all(const MappedParams& m, char* memory) {
#if GROUPED
    if (IS_REFUSED(m.p.refused)) return;
#endif
    L ring = {(shared_address(memory) + 1023) / 1024 * 1024, 0, 0};
    if (threadIdx.x == 0) {
        if (!IS_LOOSE) {
            tensor_prefetch(&m.left);
            tensor_prefetch(&m.right);
        }
        L each = ring;
        each.init(IS_LOOSE ? 128 : 1);
    }
    BARRIER();
    int warpgroup = threadIdx.x / 128;
#if HAS_BYTES
    if constexpr (IS_LOOSE) {
        if (warpgroup == 0) {
            registers_fewer<72>();
            produce_loosely(m, ring);
        } else {
            registers_more<208>();
            consume(m, ring, memory, warpgroup - 1);
        }
        return;
    }
#endif
    if (warpgroup == 0) {
        if constexpr (L::CONSUMERS > 1) registers_fewer<24>();
        if (threadIdx.x == 0) produce(m, ring);
    } else {
        if constexpr (L::CONSUMERS > 1) registers_more<240>();
        consume(m, ring, memory, warpgroup - 1);
    }
}

typedef Layout<128, 256, 4> Wide;
typedef Layout<128, 128, 6> Narrow;

KERNEL_ALONE(ENTRY_WIDE, Wide::THREADS)(GRID_CONSTANT MappedParams m) {
    SHARED_DYN(char, memory);
    multiply_all<Wide>(m, memory);
}

KERNEL_ALONE(ENTRY_NARROW, Narrow::THREADS)(GRID_CONSTANT MappedParams m) {
    SHARED_DYN(char, memory);
    multiply_all<Narrow>(m, memory);
}
