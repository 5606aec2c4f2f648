// */cuda.mma, */cuda.mma-int8, */sim.mma: products of matrices on tensor cores
// C[m,n] = sum_k A[m,k] B[k,n] (+ C[m,n])        one tile of C per block
//
// Operands  A (M,K) or (K,M), B (K,N) or (N,K) in f16 or bf16; C (M,N) in the format of A or in f32.
//           Rows at any stride and alignment. With HAS_AXES, stacks of matrices, whose batch axes have any
//           strides, 0 among them; with GROUPED, rows of A and C or the summed index divided by offsets in memory;
//           with SCALED, f32 scales of the rows and columns of C, at any stride. With FUSED, C is not written: its
//           sums end in the expression of the definition (lower/gpu/fused.go).
//           For i8, A (M,K) and B (N,K), both with rows along k.
// Numerics  mma.sync m16n8k16, k ascending from +0 or C; i8 by m16n8k32 in 32 bits that wrap, then rounded to f32. Then times the scale of the row, and of the column, each
//           product rounded; one rounding at the store. Zeros of both operands fill the summed index up to a
//           whole step, and steps of zeros change nothing.
// Schedule  a ring of STAGES steps of DEPTH along k in shared memory, filled by asynchronous copies of 16 bytes,
//           which are begun among the products of an earlier step; element by element where rows do not begin at
//           multiples of 16 bytes. A warp computes WARP_TALL x WARP_WIDE of the tile, and reads the next 16 of k
//           while it multiplies. lower/gpu/mma.go lists the tiles: narrow ones for few rows.
// Requires  sm_80, tensorcore.h
// Ladder    of cuBLAS at 4096^3 in f16: 0.52 in steps of 32 -> 0.54 of 64 -> 0.59 with the copies among the
//           products -> 0.60 to 0.61 with stores of 16 bytes. Of a copy's bytes a second, 16 rows by 4096x14336: 0.77 -> 0.95 with these and eight stages   (docs/gpu.md)
//
// A step lies in shared memory as in memory: rows of LINES or of DEPTH elements. Their pieces
// of 16 bytes are permuted within a row, so that the eight rows of an 8×8 matrix lie in
// different banks.

const int PIECE = 16 / sizeof(Input); // elements of 16 bytes

#if IS_INT8
typedef i32 Sum;
typedef unsigned char Pattern;
#else
typedef float Sum;
typedef u16 Pattern;
#endif

// ---- from memory to shared memory ----

// The part of an operand that a step needs: LINES lines (rows of C for the left operand,
// columns for the right one) by DEPTH along k, in rows along k where lines are CONTIGUOUS.
template <int LINES, int DEPTH, bool CONTIGUOUS, int THREADS>
struct Step {
    static const int ACROSS = (CONTIGUOUS ? DEPTH : LINES) / PIECE; // pieces of a row
    static const int DOWN = CONTIGUOUS ? LINES : DEPTH;
    static const int PITCH = ACROSS * 16, BYTES = DOWN * PITCH;
    static const int COUNT = DOWN * ACROSS / THREADS; // pieces of a thread
    static const int APART = THREADS / ACROSS;        // from a thread's piece to its next, in rows
    static_assert(THREADS % ACROSS == 0 && COUNT * APART == DOWN, "the work is not divided evenly");

    // Where a piece of a row lies, in bytes.
    static DEVICE u32 place(int row, int piece) {
        const int TURNS = ACROSS < 8 ? ACROSS : 8; // rows of fewer pieces share their banks with their neighbours
        return row * PITCH + (piece ^ row / (8 / TURNS) % TURNS) * 16;
    }
};

// The stages lie at the beginning of the block's memory.
DEVICE u32 ring_address() {
    SHARED_DYN(unsigned char, memory);
    return shared_address(memory);
}

DEVICE u32 pair(u16 low, u16 high) { return low | (u32)high << 16; }

// The patterns of neighbours in memory.
DEVICE u32 word_of(const Pattern* e) {
    u32 word = 0;
    UNROLL for (int i = 0; i < PIECE / 4; i++) word |= (u32)e[i] << 8 * sizeof(Input) * i;
    return word;
}

template <int LINES, int DEPTH, bool CONTIGUOUS, int THREADS, bool ANY_ADDRESS>
struct Loader {
    typedef Step<LINES, DEPTH, CONTIGUOUS, THREADS> Shape;

    const Input* at; // the thread's next piece
    i64 apart;       // to the one after it
    int row, first;  // the thread's first piece of a step: its row, and its element of the row
    int lines;       // of the tile that exist
    bool is_vector;

    DEVICE Loader(const Input* operand, i64 stride, i64 first_line, i64 all_lines, bool is_vector)
        : apart(Shape::APART * stride), is_vector(is_vector) {
        row = threadIdx.x / Shape::ACROSS;
        first = threadIdx.x % Shape::ACROSS * PIECE;
        lines = all_lines - first_line < LINES ? (int)(all_lines - first_line) : LINES;
        at = operand + (CONTIGUOUS ? (first_line + row) * stride + first : row * stride + first_line + first);
    }

    // Whether the pieces of steps that are full along k are whole or empty.
    DEVICE bool is_even() const { return !ANY_ADDRESS && (CONTIGUOUS || lines % PIECE == 0); }

    // Begins to copy one part of PARTS of such a step to an offset in memory.
    template <int PARTS>
    DEVICE void fetch_even(u32 offset, int part) {
        UNROLL for (int i = Shape::COUNT * part / PARTS; i < Shape::COUNT * (part + 1) / PARTS; i++) {
            copy_async_16(ring_address() + offset + Shape::place(row + i * Shape::APART, first / PIECE), at,
                          (CONTIGUOUS ? row + i * Shape::APART : first) < lines ? 16 : 0);
            at += apart;
        }
        if (part == PARTS - 1) end_step();
    }

    // Begins to copy a step that has `depth` of the summed index, and zeros where the operand ends.
    DEVICE void fetch(u32 offset, int depth) {
        int rows = CONTIGUOUS ? lines : depth, elements = (CONTIGUOUS ? depth : lines) - first;
        elements = elements < 0 ? 0 : elements < PIECE ? elements : PIECE;
        if (!ANY_ADDRESS || is_vector) {
            ROLLED for (int i = 0; i < Shape::COUNT; i++) {
                copy_async_16(ring_address() + offset + Shape::place(row + i * Shape::APART, first / PIECE), at,
                              row + i * Shape::APART < rows ? elements * (int)sizeof(Input) : 0);
                at += apart;
            }
        } else {
            SHARED_DYN(unsigned char, memory);
            UNROLL_TWICE for (int i = 0; i < Shape::COUNT; i++) {
                int n = row + i * Shape::APART < rows ? elements : 0;
                Pattern e[PIECE];
                UNROLL for (int j = 0; j < PIECE; j++) e[j] = j < n ? (Pattern)at[j] : (Pattern)0;
                *reinterpret_cast<uint4_aligned*>(memory + offset + Shape::place(row + i * Shape::APART, first / PIECE)) =
                    uint4_aligned{word_of(e), word_of(e + PIECE / 4), word_of(e + PIECE / 2), word_of(e + PIECE / 4 * 3)};
                at += apart;
            }
        }
        end_step();
    }

    // Rows of lines follow each other from step to step.
    DEVICE void end_step() {
        if (CONTIGUOUS) at += DEPTH - Shape::COUNT * apart;
    }
};

// ---- from shared memory to results ----

// Where the lanes of a warp read 16 lines by 32 bytes along k, as four matrices of 8 by 16 bytes in the order
// that an mma takes them: the left operand's lines first, the right operand's k first.
template <class Shape, bool CONTIGUOUS, bool LINES_FIRST>
struct Reader {
    u32 at; // of the first line and k

    DEVICE explicit Reader(int line) {
        int lane = threadIdx.x % 32, matrix = lane / 8;
        int by_line = (LINES_FIRST ? matrix % 2 : matrix / 2), by_k = (LINES_FIRST ? matrix / 2 : matrix % 2);
        at = CONTIGUOUS ? Shape::place(line + by_line * 8 + lane % 8, by_k) : Shape::place(by_k * 8 + lane % 8, line / PIECE + by_line);
    }

    // The 16 lines of index i, and the 32 bytes along k of index k.
    DEVICE void load(u32 (&words)[4], u32 step, int i, int k) const {
        if (CONTIGUOUS) load_matrix_4(words, step + (at ^ k * 32) + i * 16 * Shape::PITCH);
        else load_matrix_4_transposed(words, step + (at ^ i * 32) + k * 16 * Shape::PITCH);
    }
};

struct alignas(2 * sizeof(Output)) OutputPair {
    Output v[2];
} MAY_ALIAS;

// Of a 4×4 matrix of words, lane t of four has column t, and gets row t.
DEVICE void transpose_4(u32 (&w)[4]) {
    const bool is_odd = threadIdx.x & 1, is_upper = threadIdx.x & 2;
    UNROLL for (int i = 0; i < 4; i += 2) {
        u32 word = SHFL_XOR(is_odd ? w[i] : w[i + 1], 1, 32);
        (is_odd ? w[i] : w[i + 1]) = word;
    }
    UNROLL for (int i = 0; i < 2; i++) {
        u32 word = SHFL_XOR(is_upper ? w[i] : w[i + 2], 2, 32);
        (is_upper ? w[i] : w[i + 2]) = word;
    }
}

// The results of a lane in the 16×8 products of its warp: two neighbours each of rows row and row + 8.
struct Results {
    Output* at;
    i64 stride;
    int rows, cols; // how many there are from the first on
    bool is_vector;

    DEVICE Results(const Params& p, i64 row, i64 col) {
        at = p.result + row * p.result_stride + col;
        stride = p.result_stride;
        rows = p.rows - row < 1 << 20 ? (int)(p.rows - row) : 1 << 20;
        cols = p.cols - col < 1 << 20 ? (int)(p.cols - col) : 1 << 20;
        is_vector = p.result_vector;
    }

    DEVICE void load(float* two, int r, int c) const {
        const Output* from = at + r * stride + c;
        UNROLL for (int j = 0; j < 2; j++) two[j] = r < rows && c + j < cols ? LOAD_OUTPUT(from + j) : 0.0f;
    }

    DEVICE void store(const float* two, int r, int c) const {
        Output* to = at + r * stride + c;
        if (is_vector && r < rows && c + 2 <= cols) {
            OutputPair pair;
            UNROLL for (int j = 0; j < 2; j++) STORE_OUTPUT(&pair.v[j], two[j]);
            *reinterpret_cast<OutputPair*>(to) = pair;
        } else {
            UNROLL for (int j = 0; j < 2; j++)
                if (r < rows && c + j < cols) STORE_OUTPUT(to + j, two[j]);
        }
    }

    // Stores eight neighbours of 16 bits.
    DEVICE void store_8(const u32 (&words)[4], int r, int c) const {
        Output* to = at + r * stride + c;
        if (r < rows && c + 8 <= cols) {
            *reinterpret_cast<uint4_aligned*>(to) = uint4_aligned{words[0], words[1], words[2], words[3]};
        } else {
            UNROLL for (int j = 0; j < 8; j++)
                if (r < rows && c + j < cols) to[j] = (Output)(words[j / 2] >> 16 * (j % 2));
        }
    }
};

// A tile, of which a warp computes WARP_TALL × WARP_WIDE.
// Rows of the operands begin at multiples of 16 bytes, or at ANY_ADDRESS.
template <int TALL, int WIDE, int DEPTH, int STAGES, int WARP_TALL, int WARP_WIDE, bool ANY_ADDRESS>
struct Tile {
    static const int ROWS = TALL, COLS = WIDE;
    static const int WARPS_ACROSS = WIDE / WARP_WIDE, THREADS = TALL / WARP_TALL * WARPS_ACROSS * 32;
    typedef Step<TALL, DEPTH, !TRANSPOSE_LEFT, THREADS> Left;
    typedef Step<WIDE, DEPTH, TRANSPOSE_RIGHT, THREADS> Right;
    static const int BYTES = Left::BYTES + Right::BYTES; // of a stage
    static const int DOWN = WARP_TALL / 16, ACROSS = WARP_WIDE / 16, PARTS = DEPTH * sizeof(Input) / 32;
    static_assert(PARTS % 2 == 0 && STAGES >= 2, "fragments and stages take turns");
#if FUSED
    // Where sums lie in the memory of the stages.
    struct Sums {
        static const int PITCH = WIDE + 8;
        DEVICE int row(int r) const { return r; }
        DEVICE int at(int r, int c) const { return r * PITCH + c; }
    };
    static_assert(TALL * Sums::PITCH * 4 <= STAGES * BYTES, "the sums are larger than the stages");
#endif

    Loader<TALL, DEPTH, !TRANSPOSE_LEFT, THREADS, ANY_ADDRESS> left;
    Loader<WIDE, DEPTH, TRANSPOSE_RIGHT, THREADS, ANY_ADDRESS> right;
    Reader<Left, !TRANSPOSE_LEFT, true> left_reader;
    Reader<Right, TRANSPOSE_RIGHT, false> right_reader;
    i64 depth;
    int fetched; // steps
    u32 filled;  // the offset of the stage that the next copies fill
    u32 current; // the address of the stage that is being multiplied
    u32 a[2][DOWN][4], b[2][ACROSS][4]; // of the present 32 bytes along k and of the next, in turns
    Sum sums[DOWN][ACROSS * 2][4];

    DEVICE Tile(const Params& p, i64 first_row, i64 first_col, int row, int col)
        : left(p.left, p.left_stride, first_row, p.rows, p.left_vector),
          right(p.right, p.right_stride, first_col, p.cols, p.right_vector), left_reader(row), right_reader(col), depth(p.depth) {
        current = ring_address();
        fetched = filled = 0;
    }

    // Begins to copy one part of COUNT of the next step, which is full along k, and of which
    // both operands' pieces are whole or empty.
    template <int COUNT>
    DEVICE void fetch_even(int part) {
        left.template fetch_even<COUNT>(filled, part);
        right.template fetch_even<COUNT>(filled + Left::BYTES, part);
    }

    // Begins to copy the next step, if there is one.
    DEVICE void fetch() {
        i64 remaining = depth - (i64)fetched * DEPTH;
        if (remaining > 0) {
            left.fetch(filled, remaining < DEPTH ? (int)remaining : DEPTH);
            right.fetch(filled + Left::BYTES, remaining < DEPTH ? (int)remaining : DEPTH);
        }
    }

    DEVICE void advance() {
        fetched++;
        filled = filled + BYTES == STAGES * BYTES ? 0 : filled + BYTES;
    }

    // Reads the 32 bytes along k of index part in the current stage.
    DEVICE void read(int turn, int part) {
        UNROLL for (int i = 0; i < DOWN; i++) left_reader.load(a[turn][i], current, i, part);
        UNROLL for (int j = 0; j < ACROSS; j++) right_reader.load(b[turn][j], current + Left::BYTES, j, part);
    }

    DEVICE void multiply_add(int turn) {
        UNROLL for (int i = 0; i < DOWN; i++)
            UNROLL for (int n = 0; n < ACROSS * 2; n++) {
                int j = i % 2 == 0 ? n : ACROSS * 2 - 1 - n; // back and forth, so that neighbours share an operand
                u32 right[2] = {b[turn][j / 2][j % 2 * 2], b[turn][j / 2][j % 2 * 2 + 1]};
                MULTIPLY_ADD(sums[i][j], a[turn][i], right);
            }
    }

    // Multiplies a step, and begins to copy a later one into the stage that everybody had left
    // before the last barrier: in pieces among the products if it IS_EVEN.
    template <bool IS_EVEN>
    DEVICE void step(bool is_last) {
        if (!IS_EVEN) fetch();
        UNROLL for (int k = 0; k < PARTS; k++) {
            if (IS_EVEN) fetch_even<PARTS>(k);
            if (k + 1 < PARTS) {
                read((k + 1) % 2, k + 1);
            } else if (IS_EVEN || !is_last) {
                copy_async_commit();
                copy_async_wait<STAGES - 2>();
                BARRIER(); // the next step has arrived, and nobody reads this one any more
                current = current + BYTES == ring_address() + STAGES * BYTES ? ring_address() : current + BYTES;
                read((k + 1) % 2, 0);
            }
            multiply_add(k % 2);
        }
        advance();
    }

    static DEVICE void compute(const Params& p, i64 first_row, i64 first_col) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const int row = warp / WARPS_ACROSS * WARP_TALL, col = warp % WARPS_ACROSS * WARP_WIDE;
        Tile t(p, first_row, first_col, row, col);
        // Steps are at most 2^31 / PARTS: a tile would take days.
        const int even = t.left.is_even() && t.right.is_even() ? (int)(p.depth / DEPTH) : 0;
        ROLLED for (int i = 0; i < STAGES - 1; i++) {
            if (!ANY_ADDRESS && i < even) t.template fetch_even<1>(0);
            else t.fetch();
            copy_async_commit();
            t.advance();
        }

        const Results results(p, first_row + row + lane / 4, first_col + col + lane % 4 * 2);
        if constexpr (ACCUMULATE) {
            UNROLL for (int i = 0; i < DOWN; i++)
                UNROLL for (int j = 0; j < ACROSS * 2; j++)
                    UNROLL for (int n = 0; n < 4; n += 2) results.load(&t.sums[i][j][n], i * 16 + n * 4, j * 8);
        } else {
            UNROLL for (int i = 0; i < DOWN; i++)
                UNROLL for (int j = 0; j < ACROSS * 2; j++)
                    UNROLL for (int n = 0; n < 4; n++) t.sums[i][j][n] = 0;
        }

        copy_async_wait<STAGES - 2>();
        BARRIER(); // everybody's copies of the first step have arrived
        if (p.depth > 0) t.read(0, 0); // nothing is added to the result of an empty group
        while (!ANY_ADDRESS && t.fetched < even) t.template step<true>(false);
        const int end = (int)((p.depth + DEPTH - 1) / DEPTH) + STAGES - 1;
        while (t.fetched < end) t.template step<false>(t.fetched == end - 1);

#if FUSED
        copy_async_wait<0>();
        BARRIER(); // nobody reads or fills a stage any more
        SHARED_DYN(float, memory);
        float* to = memory + (row + lane / 4) * Sums::PITCH + col + lane % 4 * 2;
        UNROLL for (int i = 0; i < DOWN; i++)
            UNROLL for (int j = 0; j < ACROSS * 2; j++)
                UNROLL for (int n = 0; n < 4; n++) to[(i * 16 + n / 2 * 8) * Sums::PITCH + j * 8 + n % 2] = t.sums[i][j][n];
        BARRIER(); // the sums are complete
        end_block<ROWS, COLS, THREADS>(p, p.begin, p.rows, memory, first_row, first_col, threadIdx.x, Sums{});
        return;
#endif
        float sums[DOWN][ACROSS * 2][4]; // rounded, if they are integers
        UNROLL for (int i = 0; i < DOWN; i++)
            UNROLL for (int j = 0; j < ACROSS * 2; j++)
                UNROLL for (int n = 0; n < 4; n++) sums[i][j][n] = (float)t.sums[i][j][n];
#if SCALED
        UNROLL for (int i = 0; i < DOWN; i++)
            UNROLL for (int j = 0; j < ACROSS * 2; j++)
                UNROLL for (int n = 0; n < 4; n++) {
                    int r = i * 16 + n / 2 * 8, c = j * 8 + n % 2; // as results has them
                    if (r < results.rows && c < results.cols)
                        sums[i][j][n] = scaled(p, sums[i][j][n], first_row + row + lane / 4 + r, first_col + col + lane % 4 * 2 + c);
                }
#endif
        if constexpr (sizeof(Output) == 2 && ACROSS % 2 == 0) {
            if (p.result_vector) {
                store_vectors(p, sums, first_row + row, first_col + col);
                return;
            }
        }
        UNROLL for (int i = 0; i < DOWN; i++)
            UNROLL for (int j = 0; j < ACROSS * 2; j++)
                UNROLL for (int n = 0; n < 4; n += 2) results.store(&sums[i][j][n], i * 16 + n * 4, j * 8);
    }

    // Stores results of 16 bits, 16 bytes at a time: four lanes, which have a row of each of
    // four products, get one product's each.
    static DEVICE void store_vectors(const Params& p, const float (&sums)[DOWN][ACROSS * 2][4], i64 row, i64 col) {
        const int lane = threadIdx.x % 32;
        const Results results(p, row + lane / 4, col + lane % 4 * 8);
        UNROLL for (int i = 0; i < DOWN; i++)
            UNROLL for (int n = 0; n < 4; n += 2)
                UNROLL for (int j = 0; j + 4 <= ACROSS * 2; j += 4) {
                    u32 words[4];
                    UNROLL for (int x = 0; x < 4; x++) {
                        Output two[2];
                        UNROLL for (int y = 0; y < 2; y++) STORE_OUTPUT(&two[y], sums[i][j + x][n + y]);
                        words[x] = pair(two[0], two[1]);
                    }
                    transpose_4(words);
                    results.store_8(words, i * 16 + n * 4, j * 8);
                }
    }
};
