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
//           With GROUPED and formats of 16 bits also tiles of 128x192 and 128x128 of which the two take turns: one stores
//           its tile while the other multiplies the next one.
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

// A tile, and the ring: stages of so many STEPS, each DEPTH along k. Either each of the warpgroups that multiply
// has 64 rows of every tile, or two take turns: each has every other tile.
template <int TILE_ROWS, int TILE_COLS, int STAGES, int STAGE_STEPS = 1, bool IN_TURNS = false>
struct Layout {
    static const int ROWS = TILE_ROWS, COLS = TILE_COLS, STEPS = STAGE_STEPS;
    static const bool HAS_TURNS = IN_TURNS;
    static const int CONSUMERS = HAS_TURNS ? 2 : ROWS / 64, THREADS = (1 + CONSUMERS) * 128;
    static const int PARTS = HAS_TURNS ? ROWS / 64 : 1; // of 64 rows, of a warpgroup's tile
    static const int READERS = HAS_TURNS ? 1 : CONSUMERS; // warpgroups that read a stage
    static const int LEFT_BYTES = ROWS * LINE, STEP_BYTES = LEFT_BYTES + COLS * LINE, STAGE_BYTES = STEPS * STEP_BYTES;
    static const int ACROSS = COLS * sizeof(Input) < LINE ? COLS : DEPTH; // elements of a line of B that lies along n
    static const bool HAS_SLOTS = COLS * sizeof(Output) >= LINE;          // results fill lines
    static const int LINES = PARTS * COLS * (int)sizeof(Output) / LINE; // of results, each of 64 rows
    static const int SLOTS = HAS_TURNS ? (LINES % 4 == 0 ? 4 : 3) : LINES > 1 ? 2 : 1, SLOT_BYTES = 64 * LINE; // for lines on their way to memory
    static const int SLOTS_AT = STAGES * STAGE_BYTES, BARRIERS_AT = SLOTS_AT + CONSUMERS * SLOTS * SLOT_BYTES;
    static const int GROUPS_AT = BARRIERS_AT + 2 * STAGES * 8;
    static_assert(LINES % SLOTS == 0 || !HAS_SLOTS, "slots are not used one after the other");

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
            mbarrier_init(empty(), READERS * 4);
        }
        mbarrier_fence_init();
    }

    DEVICE void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }

    // Passes over the stages of a tile that the other warpgroup multiplies.
    DEVICE void skip(i32 depth) {
        u32 next = stage + (depth + STEPS * DEPTH - 1) / (STEPS * DEPTH);
        stage = next % STAGES;
        parity ^= next / STAGES & 1;
    }
};

// ---- where a matrix lies in its operand's tensor map ----

#if HAS_AXES
struct Place {
    i32 at[MAX_AXES];

    DEVICE Place(const Walk& w, i64 product) { // there are fewer than 2^31 products
        UNROLL for (int i = 0; i < MAX_AXES; i++) at[i] = w.stride[i] == 0 ? 0 : (i32)((u32)product / (u32)w.divisor[i] % (u32)w.size[i]);
    }
};
#define PLACE(NAME, OPERAND, PRODUCT) const Place NAME(m.p.OPERAND##_walk, PRODUCT)
#define AT_PLACE(NAME) , NAME.at[0], NAME.at[1], NAME.at[2]
#else
#define PLACE(NAME, OPERAND, PRODUCT)
#define AT_PLACE(NAME)
#endif

// ---- the tiles of a block ----

#if GROUPED
const int MOST_GROUPS = 128;

// What blocks know of groups if there are no more than MOST_GROUPS: where each begins, and if they divide rows, how
// many rows of tiles precede those of each; if they divide the summed index, the groups by length, longest first.
struct Groups {
    i32 begin[MOST_GROUPS + 1], order[MOST_GROUPS + 1];

    // All threads of the block meet this, and a barrier follows.
    template <class L>
    DEVICE void read(const Params& p) {
        int groups = (int)p.groups;
        for (int g = threadIdx.x; g <= groups; g += L::THREADS) begin[g] = p.offsets[g];
        BARRIER();
        for (int g = threadIdx.x; g <= groups; g += L::THREADS) {
            i32 before = 0, own = g < groups ? begin[g + 1] - begin[g] : 0;
            for (int i = 0; i < (GROUPED == 1 ? g : groups); i++) {
                i32 length = begin[i + 1] - begin[i];
                before += GROUPED == 1 ? (length + L::ROWS - 1) / L::ROWS : (length > own || (length == own && i < g));
            }
            if (GROUPED == 1) order[g] = before;
            else if (g < groups) order[before] = g;
        }
    }
};
#endif

#if GROUPED
template <class L>
DEVICE Groups& groups_of(const L& ring, char* memory) {
    return *reinterpret_cast<Groups*>(memory + (ring.base - shared_address(memory)) + L::GROUPS_AT);
}
#endif

// The tiles of a block, one after the other.
template <class L>
struct Tiles {
    const MappedParams& m;
    u32 rows, count, round; // rows of tiles; tiles; rounds of all blocks
#if GROUPED
    const Groups& groups;
#endif
    Found tile;

#if GROUPED
    DEVICE Tiles(const MappedParams& m, const L& ring, char* memory)
        : m(m), rows((u32)m.p.tile_rows), count(m.tiles), round(0), groups(groups_of(ring, memory)), tile{} {
        if (GROUPED == 1 && m.p.groups <= MOST_GROUPS) {
            rows = groups.order[m.p.groups];
            count = (u32)m.p.per_group * rows * (u32)m.p.tile_cols;
        }
    }
#else
    DEVICE Tiles(const MappedParams& m, const L&, char*) : m(m), rows((u32)m.p.tile_rows), count(m.tiles), round(0), tile{} {}
#endif

    // Finds the next tile. Returns false if there are no more.
    DEVICE bool next() {
        for (;; round++) {
            u32 first = round * gridDim.x, index = first + blockIdx.x;
            if (first >= count) return false;
#if GROUPED
            // Of tiles in the order of their depths, every other round goes the other way: no block has all the deep ones.
            bool is_known = m.p.groups <= MOST_GROUPS;
            if (GROUPED == 2 && is_known && round % 2) index = first + gridDim.x - 1 - blockIdx.x;
            if (index >= count) continue;
            if (is_known) find(index);
            else if (!tile.template find<L::ROWS, L::COLS, BAND>(m.p, index)) continue;
#else
            if (index >= count) continue;
            tile.template find<L::ROWS, L::COLS, BAND>(m.p, index);
#endif
            round++;
            return true;
        }
    }

#if GROUPED
    DEVICE void find(u32 index) {
        u32 down = tile.template take<BAND>(m.p, rows, index), per_group = (u32)m.p.per_group, group = 0;
        tile.col *= L::COLS;
        tile.rows = m.p.rows;
        tile.depth = m.p.depth;
        tile.begin = tile.k_begin = 0;
        if (GROUPED == 1) {
            for (u32 end = (u32)m.p.groups; end - group > 1;) {
                u32 middle = (group + end) / 2;
                (groups.order[middle] <= (i32)down ? group : end) = middle;
            }
            down -= groups.order[group];
            tile.begin = groups.begin[group];
            tile.rows = groups.begin[group + 1] - tile.begin;
            tile.product += group * per_group;
        } else {
            u32 place = (u32)tile.product / per_group;
            group = groups.order[place];
            tile.product += (i64)(i32)(group - place) * per_group;
            tile.k_begin = groups.begin[group];
            tile.depth = groups.begin[group + 1] - tile.k_begin;
        }
        tile.row = (i64)down * L::ROWS;
    }
#endif
};

// ---- the warpgroup that loads ----

template <class L>
DEVICE void produce(const MappedParams& m, L ring, char* memory) {
    ring.parity = 1; // a stage that was never used is empty
    for (Tiles<L> tiles(m, ring, memory); tiles.next();) {
        const Found& tile = tiles.tile;
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
DEVICE void produce_loosely(const MappedParams& m, L ring, char* memory) {
    ring.parity = 1;
    for (Tiles<L> tiles(m, ring, memory); tiles.next();) {
        const Found& tile = tiles.tile;
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
// Sets what SIDE rows or columns of a stage have from `depth` along k to the end of its 16 to zero: it belongs to the next group.
template <int SIDE, bool IS_TRANSPOSED, int THREADS>
DEVICE void clear_side(u32 at, int depth) {
    const int first = depth / 16 * 16;
    for (int i = threadIdx.x % THREADS; i < SIDE * 2; i += THREADS) {
        if (IS_TRANSPOSED) { // a box of 64 has a line for each k
            int k = first + i / 8 % 16;
            if (k < depth) continue;
            u32 piece = at + (i / 128 * DEPTH + k) * LINE + i % 8 * 16;
            shared_store_2(piece, 0.0f, 0.0f);
            shared_store_2(piece + 8, 0.0f, 0.0f);
        } else {
            int line = i / 2, piece = first / 8 + i % 2;
            shared_keep_8(at + line * LINE + (piece ^ line % 8) * 16, depth - piece * 8);
        }
    }
}

template <class L>
DEVICE void clear_rest(const L& ring, int depth, int part) {
    const int THREADS = L::READERS * 128;
    clear_side<L::ROWS, TRANSPOSE_LEFT, THREADS>(ring.left(), depth);
    clear_side<L::COLS, !TRANSPOSE_RIGHT, THREADS>(ring.right(), depth);
    fence_async_shared();
    named_barrier(L::HAS_TURNS ? 1 + part : 1 + L::CONSUMERS, THREADS);
}
#endif

// Where the factors of a product of 64 rows and 16 along k lie in a stage.
template <class L>
struct Factors {
    static const int RIGHT_LINE = TRANSPOSE_RIGHT ? LINE : L::ACROSS * (int)sizeof(Input);
    static const u32 LEFT_NEXT = TRANSPOSE_LEFT ? DEPTH * LINE : 16, RIGHT_NEXT = TRANSPOSE_RIGHT ? 16 : DEPTH * LINE;
    static const u64 LEFT_STEP = (TRANSPOSE_LEFT ? 16 * LINE : 32) >> 4, RIGHT_STEP = (TRANSPOSE_RIGHT ? 32 : 16 * RIGHT_LINE) >> 4;
    static const u64 PART_STEP = 64 * LINE >> 4;
    u64 left, right;

    DEVICE Factors(const L& ring, int step, int part)
        : left(wgmma_descriptor(ring.left(step) + (L::HAS_TURNS ? 0 : part) * 64 * LINE, LEFT_NEXT, 8 * LINE)),
          right(wgmma_descriptor(ring.right(step), RIGHT_NEXT, 8 * RIGHT_LINE, RIGHT_LINE)) {}

    DEVICE void multiply(int i, Sum (&acc)[L::PARTS][L::COLS / 2], bool adds) const {
        UNROLL for (int n = 0; n < L::PARTS; n++) {
#if IS_INT8
            wgmma_64_N_32_i8<L::COLS>(acc[n], left + n * PART_STEP + i * LEFT_STEP, right + i * RIGHT_STEP, adds);
#elif HAS_BYTES
            wgmma_64_N_32<L::COLS, IS_E5M2>(acc[n], left + n * PART_STEP + i * LEFT_STEP, right + i * RIGHT_STEP, adds);
#else
            wgmma_64_N_16<L::COLS, IS_BF16, TRANSPOSE_LEFT, !TRANSPOSE_RIGHT>(acc[n], left + n * PART_STEP + i * LEFT_STEP, right + i * RIGHT_STEP, adds);
#endif
        }
    }
};

template <class L>
DEVICE void multiply_tile(L& ring, i32 depth, int part, Sum (&acc)[L::PARTS][L::COLS / 2]) {
    bool is_signal = threadIdx.x % 32 == 0;
    u32 before = 0; // the empty barrier of the stage before
    i32 k = 0, rest = GROUPED == 2 ? depth % DEPTH : 0; // that belongs to the group in the last step
    for (; k < depth - rest; k += L::STEPS * DEPTH) {
        mbarrier_wait(ring.full(), ring.parity);
        wgmma_fence();
        UNROLL for (int step = 0; step < L::STEPS; step++) {
            const Factors<L> factors(ring, step, part);
            UNROLL for (int i = 0; i < DEPTH * (int)sizeof(Input) / 32; i++) factors.multiply(i, acc, ACCUMULATE || k > 0 || step > 0 || i > 0);
        }
        wgmma_commit();
        if (k > 0) {
            wgmma_wait<1>();
            if (is_signal) mbarrier_arrive(before);
        }
        before = ring.empty();
        ring.advance();
    }
#if GROUPED == 2
    if (rest > 0) {
        mbarrier_wait(ring.full(), ring.parity);
        if (rest % 16 != 0) clear_rest(ring, rest, part);
        wgmma_fence();
        const Factors<L> factors(ring, 0, part);
        ROLLED for (int i = 0; i * 16 < rest; i++) factors.multiply(i, acc, ACCUMULATE || k > 0 || i > 0);
        wgmma_commit();
    }
#endif
    if constexpr (L::HAS_TURNS) named_barrier_arrive(4 - part, 256); // the other one begins
    wgmma_wait<0>();
    if (k > 0 && is_signal) mbarrier_arrive(before);
#if GROUPED == 2
    if (rest > 0) {
        if (is_signal) mbarrier_arrive(ring.empty());
        ring.advance();
    }
#endif
}

#if IS_INT8
// Multiplies a tile, and rounds its sums.
template <class L>
DEVICE void multiply_tile(L& ring, i32 depth, int part, float (&acc)[L::PARTS][L::COLS / 2]) {
    i32 sums[L::PARTS][L::COLS / 2];
    multiply_tile(ring, depth, part, sums);
    wgmma_done(sums[0]);
    UNROLL for (int i = 0; i < L::COLS / 2; i++) acc[0][i] = (float)sums[0][i];
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

#if GROUPED == 1
// The last rows of a group among 64 of a tile: those that follow belong to the next one.
struct LastRows {
    Output* to;
    i64 stride;
    int rows, cols;

    DEVICE LastRows(const Params& p, const Found& tile, int part) : stride(p.result_stride) {
        rows = (int)(tile.rows - tile.row) - part * 64;
        cols = (int)(p.cols - tile.col);
        to = p.result + (tile.begin + tile.row + part * 64) * stride + tile.col;
#if HAS_AXES
        to += matrix_at(p.result_walk, tile.product);
#endif
    }

    // Stores the line of a slot that has the columns from one of the tile on.
    DEVICE void store(const char* slot, int col) const {
        const int PER_PIECE = 16 / sizeof(Output);
        ROLLED for (int i = threadIdx.x % 128; i < 64 * 8; i += 128) {
            int row = i / 8, piece = i % 8, at = col + piece * PER_PIECE;
            if (row < rows && at < cols)
                *reinterpret_cast<uint4_aligned*>(to + row * stride + at) = *reinterpret_cast<const uint4_aligned*>(slot + row * LINE + (piece ^ row % 8) * 16);
        }
    }
};
#endif

// Stores 64 rows of a tile, a line of each at a time, with the slots of the warpgroup `own`. A slot is written again
// when the store that used it has read it. Rows that follow those of a group belong to the next one: if there are any
// among the 64, threads store what is left of a line.
template <class L>
DEVICE void store_lines(const MappedParams& m, const L& ring, char* memory, const Found& tile, int part, int own, int first, const float (&acc)[L::COLS / 2]) {
    const int PER_LINE = LINE / sizeof(Output);
    int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
    u32 slots = ring.base + L::SLOTS_AT + own * L::SLOTS * L::SLOT_BYTES;
    bool is_whole = GROUPED != 1 || tile.row + part * 64 + 64 <= tile.rows;
#if GROUPED == 1
    const LastRows last(m.p, tile, part);
#endif
    PLACE(place, result, tile.product);
    UNROLL for (int line = 0; line < L::COLS / PER_LINE; line++) {
        u32 slot = slots + (first + line) % L::SLOTS * L::SLOT_BYTES;
        if (thread == 0) tensor_store_wait<L::SLOTS - 1>();
        named_barrier(1 + own, 128);
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
        named_barrier(1 + own, 128);
#if GROUPED == 1
        if (!is_whole) last.store(memory + (slot - shared_address(memory)), line * PER_LINE);
#endif
        if (thread == 0) {
            if (is_whole) tensor_store(&m.result, slot, (i32)tile.col + line * PER_LINE, (i32)(tile.begin + tile.row) + part * 64 AT_PLACE(place));
            tensor_store_commit(); // of no store, if threads have stored the line: the next wait counts it
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
DEVICE void end_lines(const MappedParams& m, const L& ring, char* memory, const Found& tile, int part, int own, const float (&acc)[L::COLS / 2]) {
    const int WIDE = L::SLOTS > 1 ? 64 : 32; // columns at a time
    int thread = threadIdx.x % 128, lane = thread % 32, row = thread / 32 * 16 + lane / 4;
    float* sums = reinterpret_cast<float*>(memory + (ring.base - shared_address(memory)) + L::SLOTS_AT + own * L::SLOTS * L::SLOT_BYTES);
    UNROLL for (int first = 0; first < L::COLS; first += WIDE) {
        named_barrier(1 + own, 128); // nobody reads what was here
        UNROLL for (int j = 0; j < WIDE / 8; j++)
            UNROLL for (int n = 0; n < 4; n++)
                sums[Sums().at(row + n / 2 * 8, j * 8 + lane % 4 / 2 * 4) + lane % 2 * 2 + n % 2] = acc[first / 2 + j * 4 + n];
        named_barrier(1 + own, 128); // the sums are complete
        end_block<64, WIDE, 128>(m.p, tile.begin, tile.rows, sums, tile.row + part * 64, tile.col + first, thread, Sums());
    }
}
#endif

// Ends 64 rows of a tile: stores them, or what follows from them.
template <class L>
DEVICE void end_part(const MappedParams& m, const L& ring, char* memory, const Found& tile, int part, int own, int first, float (&acc)[L::COLS / 2]) {
#if SCALED
    Pairs(m.p, tile, part).scale(m.p, acc);
#endif
#if FUSED
    end_lines(m, ring, memory, tile, part, own, acc);
#else
    if constexpr (L::HAS_TURNS) { // which need a tensor map of the result
        store_lines(m, ring, memory, tile, part, own, first, acc);
    } else if constexpr (L::HAS_SLOTS) {
        if (m.has_result) store_lines(m, ring, memory, tile, part, own, first, acc);
        else Pairs(m.p, tile, part).store(acc);
    } else {
        if (m.p.result_vector) Pairs(m.p, tile, part).store_pairs(acc);
        else Pairs(m.p, tile, part).store(acc);
    }
#endif
}

template <class L>
DEVICE void consume(const MappedParams& m, L ring, char* memory, int own) {
    float acc[L::PARTS][L::COLS / 2];
    const int first = L::HAS_TURNS ? 0 : own; // of the tile's parts
    int turn = 0;
    if (L::HAS_TURNS && own == 1) named_barrier_arrive(3, 256); // the other one begins
    for (Tiles<L> tiles(m, ring, memory); tiles.next();) {
        const Found& tile = tiles.tile;
        if constexpr (L::HAS_TURNS) {
            turn ^= 1;
            if (turn == own) {
                ring.skip((i32)tile.depth);
                continue;
            }
        }
        if (ACCUMULATE)
            UNROLL for (int n = 0; n < L::PARTS; n++) Pairs(m.p, tile, first + n).load(acc[n]);
        if constexpr (L::HAS_TURNS) named_barrier(3 + own, 256); // the other one has been given all stages before those of this tile
        multiply_tile(ring, (i32)tile.depth, own, acc);
#if GROUPED == 2
        if (!ACCUMULATE && tile.depth == 0) // no product has set them
            UNROLL for (int n = 0; n < L::PARTS; n++) UNROLL for (int i = 0; i < L::COLS / 2; i++) acc[n][i] = 0.0f;
#endif
        UNROLL for (int n = 0; n < L::PARTS; n++) end_part(m, ring, memory, tile, first + n, own, n * (L::LINES / L::PARTS), acc[n]);
    }
    if (threadIdx.x % 128 == 0) tensor_store_wait<0>();
}

template <class L, bool IS_LOOSE = false>
DEVICE void multiply_all(const MappedParams& m, char* memory) {
#if GROUPED
    if (IS_REFUSED(m.p.refused)) return;
#endif
    L ring = {(shared_address(memory) + 1023) / 1024 * 1024, 0, 0};
#if GROUPED
    if (m.p.groups <= MOST_GROUPS) groups_of(ring, memory).template read<L>(m.p);
#endif
    if (threadIdx.x == 0) {
        if (!IS_LOOSE) {
            tensor_prefetch(&m.left);
            tensor_prefetch(&m.right);
        }
        L each = ring;
        each.init(IS_LOOSE ? 128 : 1);
    }
    BARRIER();
    int warpgroup = (int)uniform(threadIdx.x / 128);
#if HAS_BYTES
    if constexpr (IS_LOOSE) {
        if (warpgroup == 0) {
            registers_fewer<72>();
            produce_loosely(m, ring, memory);
        } else {
            registers_more<208>();
            consume(m, ring, memory, warpgroup - 1);
        }
        return;
    }
#endif
    if (warpgroup == 0) {
        if constexpr (L::CONSUMERS > 1) registers_fewer<24>();
        if (threadIdx.x == 0) produce(m, ring, memory);
    } else {
        if constexpr (L::CONSUMERS > 1) registers_more<240>();
        consume(m, ring, memory, warpgroup - 1);
    }
}

typedef Layout<128, 256, 4> Wide;
#if GROUPED && !HAS_BYTES
typedef Layout<128, 128, 5, 1, true> Narrow;
#else
typedef Layout<128, 128, 6> Narrow;
#endif

KERNEL_ALONE(ENTRY_WIDE, 384)(GRID_CONSTANT MappedParams m) {
    SHARED_DYN(char, memory);
    multiply_all<Wide>(m, memory);
}

KERNEL_ALONE(ENTRY_NARROW, 384)(GRID_CONSTANT MappedParams m) {
    SHARED_DYN(char, memory);
    multiply_all<Narrow>(m, memory);
}
