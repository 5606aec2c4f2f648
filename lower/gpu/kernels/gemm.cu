// */cuda.fma, */hip.fma, */sim.fma: products of matrices
// C[m,n] = sum_k A[m,k] B[k,n] (+ C[m,n], or times scales of m and n)        one tile of C per block of 128 threads
//
// Operands  A (M,K) or (K,M), B (K,N) or (N,K) in f16, bf16, f32 or FP8; C (M,N) in any of the first three.
//           Rows at any stride and alignment; 16 bytes at a time where all rows begin at multiples of 16.
//           With HAS_AXES, stacks of matrices, whose batch axes have any strides, 0 among them; with
//           GROUPED, rows of A and C or the summed index divided by offsets in memory; with SCALED, f32
//           scales of the rows and columns of C, at any stride.
//           With FUSED, C is not written: its sums end in the expression of the definition, which is written in
//           front (lower/gpu/fused.go), and of which the last of the definition's products stores the outputs.
// Numerics  model fma: acc = fused(a, b, acc), k ascending from +0 or C; then times the scale of the row,
//           and of the column, each product rounded; one rounding at the store
// Schedule  tiles of 128x128 (ENTRY_LARGE), or of 64x64 (ENTRY_SMALL) where there are few; bands of eight
//           rows of tiles. A step of DEPTH along k lies widened in one half of shared memory, while the
//           next one comes from memory into registers and goes into the other half.
// Requires  nothing beyond prelude.h
// Ladder    16x8 results a thread, k + 1 read ahead, nothing of the results kept meanwhile: 0.69 of the multiply-adds
//           of all lanes in f16, 0.66 in f32    (docs/gpu.md)
//
// A warp's worth of threads, four down and eight across, computes a part of the tile.
// A thread owns TALL × WIDE of its results, in groups of 4×4, each with one accumulator
// that meets its products in ascending order. It reads the values of index k + 1 from
// shared memory while it multiplies those of k.
//
// A last step that is not full ends early: there is no padding along the summed
// index, because fma(0, 0, −0) is +0.

const int THREADS = 128;

// AMD's compiler would load all values of a step before it multiplies any, and spill them.
#if defined(__HIP__)
#define UNROLL_STEP ROLLED
#else
#define UNROLL_STEP UNROLL
#endif

// ---- from memory to shared memory ----

const int PER_WORD = 4 / sizeof(Input), PIECE = 4 * PER_WORD, BITS = 8 * sizeof(Input);
const int STEP = PIECE < 8 ? PIECE : 8; // of which DEPTH is a multiple: in f32, a step takes four times its bytes of FP8

// Neighbours in memory, as they are stored.
struct alignas(16) Piece {
    u32 w[4];
} MAY_ALIAS;

DEVICE u32 pattern_of(float x) { return bits_of(x); }
DEVICE u32 pattern_of(u16 x) { return x; }
DEVICE u32 pattern_of(unsigned char x) { return x; }

DEVICE float element(const Piece& piece, int j) {
    u32 pattern = piece.w[j / PER_WORD] >> BITS * (j % PER_WORD);
    return WIDEN(PER_WORD == 1 ? pattern : pattern & ((1u << BITS % 32) - 1));
}

// The first n elements of a piece, the others zero.
DEVICE Piece partial(const Input* at, int n) {
    Piece piece = {{0, 0, 0, 0}};
    UNROLL for (int j = 0; j < PIECE; j++) piece.w[j / PER_WORD] |= (j < n ? pattern_of(at[j]) : 0u) << BITS * (j % PER_WORD);
    return piece;
}

// What a thread brings of each step: COUNT pieces, each of one line where lines are
// CONTIGUOUS, else of one k and PIECE lines.
template <int LINES, int DEPTH, bool CONTIGUOUS>
struct Reader {
    static const int COUNT = LINES * DEPTH / PIECE / THREADS;
    static const int ACROSS = (CONTIGUOUS ? DEPTH : LINES) / PIECE; // pieces side by side in memory
    static const int APART = THREADS / ACROSS;                      // from a thread's piece to its next, in lines or k
    static const int PITCH = LINES + 4;                             // a step has the lines of each k side by side
    static_assert(THREADS % ACROSS == 0 && COUNT * APART * ACROSS * PIECE == LINES * DEPTH, "the work is not divided evenly");

    const Input* at;
    i64 apart, advance; // to the thread's next piece, and to the next step
    int line, k;        // of the first piece
    int lines;          // how many there are from line on
    bool is_whole;      // all lines of the tile exist, and pieces begin at multiples of 16 bytes
    Piece pieces[COUNT];

    DEVICE Reader(const Input* operand, i64 stride, i64 first_line, i64 all_lines, bool is_vector) {
        int across = threadIdx.x % ACROSS * PIECE, down = threadIdx.x / ACROSS;
        line = CONTIGUOUS ? down : across;
        k = CONTIGUOUS ? across : down;
        at = operand + (CONTIGUOUS ? (first_line + line) * stride + k : k * stride + first_line + line);
        apart = APART * stride;
        advance = CONTIGUOUS ? DEPTH : DEPTH * stride;
        i64 left = all_lines - first_line;
        is_whole = is_vector && left >= LINES;
        lines = (left < LINES ? (int)left : LINES) - line;
    }

    // left is how much of the summed index is left from this step on.
    DEVICE void fetch(i64 left) {
        if (is_whole && left >= DEPTH) {
            UNROLL for (int i = 0; i < COUNT; i++) pieces[i] = *reinterpret_cast<const Piece*>(at + i * apart);
        } else {
            int k_left = (left < DEPTH ? (int)left : DEPTH) - k;
            UNROLL for (int i = 0; i < COUNT; i++) {
                int n = CONTIGUOUS ? (i * APART < lines ? k_left : 0) : (i * APART < k_left ? lines : 0);
                pieces[i] = partial(at + i * apart, n);
            }
        }
        at += advance;
    }

    DEVICE void put(float* step) {
        float* to = step + k * PITCH + line;
        UNROLL for (int i = 0; i < COUNT; i++) {
            if (CONTIGUOUS) {
                UNROLL for (int j = 0; j < PIECE; j++) to[j * PITCH + i * APART] = element(pieces[i], j);
            } else {
                UNROLL for (int j = 0; j < PIECE; j += 4)
                    *reinterpret_cast<Quad*>(to + i * APART * PITCH + j) =
                        Quad{{element(pieces[i], j), element(pieces[i], j + 1), element(pieces[i], j + 2), element(pieces[i], j + 3)}};
            }
        }
    }
};

// ---- from shared memory to results ----

// The values of COUNT lines of one k, in quads that lie APART.
template <int COUNT, int APART>
struct Fragment {
    float v[COUNT];

    DEVICE void load(const float* from) {
        UNROLL for (int q = 0; q < COUNT / 4; q++) {
            Quad quad = *reinterpret_cast<const Quad*>(from + q * APART);
            UNROLL for (int i = 0; i < 4; i++) v[q * 4 + i] = quad.v[i];
        }
    }
};

const int DOWN = 4, ACROSS = 8; // the threads of a part, which are as many as a warp of 32 has

// Of four neighbouring lanes, two each read the same of either operand.
DEVICE int lane_down(int lane) { return (lane >> 1 & 1) | (lane >> 3 & 2); }
DEVICE int lane_across(int lane) { return (lane & 1) | (lane >> 1 & 6); }

template <int TALL, int WIDE>
DEVICE void multiply_add(float (*acc)[WIDE], const Fragment<TALL, DOWN * 4>& a, const Fragment<WIDE, ACROSS * 4>& b) {
    UNROLL for (int i = 0; i < TALL; i++)
        UNROLL for (int j = 0; j < WIDE; j++) acc[i][j] = fused(a.v[i], b.v[j], acc[i][j]);
}

struct alignas(4 * sizeof(Output)) OutputQuad {
    Output v[4];
} MAY_ALIAS;

// The results of a thread, of which the first lies at row and col of its tile.
struct Results {
    Output* at;
    i64 stride;
    i64 rows, cols; // how many there are from the first on
    bool is_vector;

    DEVICE Results(const Params& p, i64 first_row, i64 first_col, int row, int col) {
        at = p.result + (first_row + row) * p.result_stride + first_col + col;
        stride = p.result_stride;
        rows = p.rows - first_row - row;
        cols = p.cols - first_col - col;
        is_vector = p.result_vector;
    }

    // Four side by side, from the thread's row i and column j on.
    DEVICE void load(float* values, int i, int j) {
        int r = i / 4 * (DOWN * 4) + i % 4, c = j * ACROSS;
        const Output* from = at + r * stride + c;
        if (is_vector && r < rows && c + 4 <= cols) {
            OutputQuad quad = *reinterpret_cast<const OutputQuad*>(from);
            UNROLL for (int n = 0; n < 4; n++) values[n] = LOAD_OUTPUT(&quad.v[n]);
        } else {
            UNROLL for (int n = 0; n < 4; n++) values[n] = r < rows && c + n < cols ? LOAD_OUTPUT(from + n) : 0.0f;
        }
    }

    DEVICE void store(const float* values, int i, int j) {
        int r = i / 4 * (DOWN * 4) + i % 4, c = j * ACROSS;
        Output* to = at + r * stride + c;
        if (is_vector && r < rows && c + 4 <= cols) {
            OutputQuad quad;
            UNROLL for (int n = 0; n < 4; n++) STORE_OUTPUT(&quad.v[n], values[n]);
            *reinterpret_cast<OutputQuad*>(to) = quad;
        } else {
            UNROLL for (int n = 0; n < 4; n++)
                if (r < rows && c + n < cols) STORE_OUTPUT(to + n, values[n]);
        }
    }
};

#if FUSED
// Where sums lie in shared memory: 16 rows of every part of PART_ROWS.
template <int COLS, int PART_ROWS>
struct SumsOf {
    static const int PITCH = COLS + 4;
    int slab;
    DEVICE int row(int r) const { return r / (DOWN * 4) * PART_ROWS + slab * (DOWN * 4) + r % (DOWN * 4); }
    DEVICE int at(int r, int c) const { return r * PITCH + c; }
};
#endif

// Computes the tile that begins at first_row and first_col.
template <int ROWS, int COLS, int DEPTH, int TALL, int WIDE>
DEVICE void multiply_tile(const Params& p, i64 first_row, i64 first_col) {
    static_assert(ROWS / TALL * (COLS / WIDE) == THREADS && ROWS % (TALL * DOWN) == 0 && COLS % (WIDE * ACROSS) == 0 && DEPTH % 2 == 0,
                  "the work is not divided evenly");
    typedef Reader<ROWS, DEPTH, !TRANSPOSE_LEFT> LeftReader;
    typedef Reader<COLS, DEPTH, TRANSPOSE_RIGHT> RightReader;
    const int LEFT_PITCH = LeftReader::PITCH, RIGHT_PITCH = RightReader::PITCH;
#if FUSED
    typedef SumsOf<COLS, TALL * DOWN> Sums;
    const int SLAB = ROWS / TALL * 4; // rows whose sums lie in shared memory at a time: of each part, 16
    const int LEFT_FLOATS = 2 * DEPTH * LEFT_PITCH > SLAB * Sums::PITCH ? 2 * DEPTH * LEFT_PITCH : SLAB * Sums::PITCH;
    SHARED(float, left, LEFT_FLOATS);
#else
    SHARED(float, left, 2 * DEPTH * LEFT_PITCH);
#endif
    SHARED(float, right, 2 * DEPTH * RIGHT_PITCH);

    LeftReader left_reader(p.left, p.left_stride, first_row, p.rows, p.left_vector);
    RightReader right_reader(p.right, p.right_stride, first_col, p.cols, p.right_vector);
    left_reader.fetch(p.depth);
    right_reader.fetch(p.depth);
    left_reader.put(left);
    right_reader.put(right);

    int part = threadIdx.x / (DOWN * ACROSS), lane = threadIdx.x % (DOWN * ACROSS);
    int row = part / (COLS / (WIDE * ACROSS)) * (TALL * DOWN) + lane_down(lane) * 4;
    int col = part % (COLS / (WIDE * ACROSS)) * (WIDE * ACROSS) + lane_across(lane) * 4;
    float acc[TALL][WIDE];
    if (ACCUMULATE) {
        Results results(p, first_row, first_col, row, col);
        UNROLL for (int i = 0; i < TALL; i++)
            UNROLL for (int j = 0; j < WIDE; j += 4) results.load(&acc[i][j], i, j);
    } else {
        UNROLL for (int i = 0; i < TALL; i++)
            UNROLL for (int j = 0; j < WIDE; j++) acc[i][j] = 0.0f;
    }
    BARRIER(); // the first step is complete
    const float* l = left + row; // in the half that holds the present step
    const float* r = right + col;
    int half = 0;
    Fragment<TALL, DOWN * 4> a[2]; // of k and k + 1, in turns
    Fragment<WIDE, ACROSS * 4> b[2];
    a[0].load(l);
    b[0].load(r);
    i64 remaining = p.depth;
    for (; remaining >= DEPTH; remaining -= DEPTH) {
        bool more = remaining > DEPTH;
        if (more) {
            left_reader.fetch(remaining - DEPTH);
            right_reader.fetch(remaining - DEPTH);
        }
        UNROLL_STEP for (int k = 0; k < DEPTH - 2; k += 2) {
            a[1].load(l + (k + 1) * LEFT_PITCH);
            b[1].load(r + (k + 1) * RIGHT_PITCH);
            multiply_add<TALL, WIDE>(acc, a[0], b[0]);
            a[0].load(l + (k + 2) * LEFT_PITCH);
            b[0].load(r + (k + 2) * RIGHT_PITCH);
            multiply_add<TALL, WIDE>(acc, a[1], b[1]);
        }
        a[1].load(l + (DEPTH - 1) * LEFT_PITCH);
        b[1].load(r + (DEPTH - 1) * RIGHT_PITCH);
        multiply_add<TALL, WIDE>(acc, a[0], b[0]);
        half ^= 1;
        if (more) {
            left_reader.put(left + half * DEPTH * LEFT_PITCH);
            right_reader.put(right + half * DEPTH * RIGHT_PITCH);
            BARRIER(); // the next step is complete, and nobody reads this one any more
            l = left + half * DEPTH * LEFT_PITCH + row;
            r = right + half * DEPTH * RIGHT_PITCH + col;
            a[0].load(l);
            b[0].load(r);
        }
        multiply_add<TALL, WIDE>(acc, a[1], b[1]);
    }
    for (int k = 0; k < (int)remaining; k++) {
        a[0].load(l + k * LEFT_PITCH);
        b[0].load(r + k * RIGHT_PITCH);
        multiply_add<TALL, WIDE>(acc, a[0], b[0]);
    }

    RENEW(row); // else what belongs to the results takes registers all the time
    RENEW(col);
#if FUSED
    float* to = left + (part / (COLS / (WIDE * ACROSS)) * (DOWN * 4) + lane_down(lane) * 4) * Sums::PITCH + col;
    UNROLL for (int slab = 0; slab < TALL / 4; slab++) {
        BARRIER(); // nobody reads what was here
        UNROLL for (int i = 0; i < 4; i++)
            UNROLL for (int j = 0; j < WIDE; j += 4) {
                const float* a = &acc[slab * 4 + i][j];
                *reinterpret_cast<Quad*>(to + i * Sums::PITCH + j * ACROSS) = Quad{{a[0], a[1], a[2], a[3]}};
            }
        BARRIER(); // the sums are complete
        end_block<SLAB, COLS, THREADS>(p, p.begin, p.rows, left, first_row, first_col, threadIdx.x, Sums{slab});
    }
    return;
#endif
    Results results(p, first_row, first_col, row, col);
#if SCALED
    UNROLL for (int i = 0; i < TALL; i++)
        UNROLL for (int j = 0; j < WIDE; j++) {
            i64 r = i / 4 * (DOWN * 4) + i % 4, c = j / 4 * (ACROSS * 4) + j % 4; // as results has them
            if (r < results.rows && c < results.cols) acc[i][j] = scaled(p, acc[i][j], first_row + row + r, first_col + col + c);
        }
#endif
    UNROLL for (int i = 0; i < TALL; i++)
        UNROLL for (int j = 0; j < WIDE; j += 4) results.store(&acc[i][j], i, j);
}

// A tile, as product.cu takes it.
template <int TALL_TILE, int WIDE_TILE, int DEPTH, int TALL, int WIDE>
struct Tile {
    static const int ROWS = TALL_TILE, COLS = WIDE_TILE;
    static DEVICE void compute(const Params& p, i64 first_row, i64 first_col) {
        multiply_tile<ROWS, COLS, DEPTH, TALL, WIDE>(p, first_row, first_col);
    }
};

KERNEL(ENTRY_LARGE, 128)(const Params p) { multiply<Tile<128, 128, 2 * STEP, 16, 8>>(p); }

KERNEL(ENTRY_SMALL, 128)(const Params p) { multiply<Tile<64, 64, 4 * STEP, 8, 4>>(p); }
