// */cuda.mma, */sim.mma: products of matrices on tensor cores
// C[m,n] = sum_k A[m,k] B[k,n] (+ C[m,n])        one tile of C per block
//
// Operands  A (M,K) or (K,M), B (K,N) or (N,K) in f16 or bf16; C (M,N) in the format of A or in f32.
//           Rows at any stride and alignment. With HAS_AXES, stacks of matrices, whose batch axes have any
//           strides, 0 among them; with GROUPED, rows of A and C or the summed index divided by offsets in memory.
// Numerics  mma.sync m16n8k16, k ascending from +0 or C; one rounding at the store. Zeros of both operands
//           fill the summed index up to a whole step, and steps of zeros change nothing.
// Schedule  a ring of STAGES steps of DEPTH along k in shared memory, filled by asynchronous copies of 16 bytes;
//           a warp computes WARP_ROWS x WARP_COLS of the tile, and reads the next 16 of k while it multiplies.
// Requires  sm_80, tensorcore.h
//
// A step lies in shared memory as in memory: rows of LINES or of DEPTH elements. Their pieces
// of 16 bytes are permuted within a row, so that the eight rows of an 8×8 matrix lie in
// different banks.

const int PIECE = 8; // elements of 16 bytes

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

DEVICE u32 pair(u16 low, u16 high) { return low | (u32)high << 16; }

template <int LINES, int DEPTH, bool CONTIGUOUS, int THREADS>
struct Loader {
    typedef Step<LINES, DEPTH, CONTIGUOUS, THREADS> Shape;

    const Input* at; // the thread's first piece of the next step
    i64 stride;
    int row;       // of the first piece
    int first;     // element of a row
    i64 k_left;    // how much of the summed index the next steps have
    int lines;     // of the tile that exist
    bool is_vector;
    unsigned char* memory; // of the block

    DEVICE Loader(const Input* operand, i64 stride, i64 first_line, i64 all_lines, i64 depth, bool is_vector, unsigned char* memory)
        : stride(stride), k_left(depth), is_vector(is_vector), memory(memory) {
        row = threadIdx.x / Shape::ACROSS;
        first = threadIdx.x % Shape::ACROSS * PIECE;
        lines = all_lines - first_line < LINES ? (int)(all_lines - first_line) : LINES;
        at = operand + (CONTIGUOUS ? (first_line + row) * stride + first : row * stride + first_line + first);
    }

    // Begins to copy the next step to an offset in memory, zeros where the operand ends.
    DEVICE void fetch(u32 offset) {
        const u32 to = shared_address(memory) + offset;
        int depth = k_left < DEPTH ? (int)k_left : DEPTH;
        int rows = (CONTIGUOUS ? lines : depth) - row, elements = (CONTIGUOUS ? depth : lines) - first;
        if (is_vector && (CONTIGUOUS ? depth == DEPTH : lines % PIECE == 0)) { // pieces are whole or empty
            UNROLL for (int i = 0; i < Shape::COUNT; i++)
                copy_async_16(to + Shape::place(row + i * Shape::APART, first / PIECE), at + i * Shape::APART * stride,
                              i * Shape::APART < rows && elements > 0 ? 16 : 0);
        } else {
            ROLLED for (int i = 0; i < Shape::COUNT; i++)
                fetch_partial(offset + Shape::place(row + i * Shape::APART, first / PIECE), at + i * Shape::APART * stride,
                              i * Shape::APART >= rows || elements < 0 ? 0 : elements < PIECE ? elements : PIECE);
        }
        at += CONTIGUOUS ? DEPTH : DEPTH * stride;
        k_left -= DEPTH;
    }

    DEVICE void fetch_partial(u32 offset, const Input* from, int elements) const {
        if (is_vector) {
            copy_async_16(shared_address(memory) + offset, from, elements * 2);
        } else {
            u16 e[PIECE];
            UNROLL for (int j = 0; j < PIECE; j++) e[j] = j < elements ? from[j] : (u16)0;
            *reinterpret_cast<uint4_aligned*>(memory + offset) = uint4_aligned{pair(e[0], e[1]), pair(e[2], e[3]), pair(e[4], e[5]), pair(e[6], e[7])};
        }
    }
};

// ---- from shared memory to results ----

// Where the lanes of a warp read 16 lines by 16 along k, as four 8×8 matrices in the order
// that an mma takes them: the left operand's lines first, the right operand's k first.
template <class Shape, bool CONTIGUOUS, bool LINES_FIRST>
struct Reader {
    u32 at; // of the first line and k

    DEVICE explicit Reader(int line) {
        int lane = threadIdx.x % 32, matrix = lane / 8;
        int by_line = (LINES_FIRST ? matrix % 2 : matrix / 2), by_k = (LINES_FIRST ? matrix / 2 : matrix % 2);
        at = CONTIGUOUS ? Shape::place(line + by_line * 8 + lane % 8, by_k) : Shape::place(by_k * 8 + lane % 8, line / PIECE + by_line);
    }

    // The 16 lines of index i, and the 16 of k of index k.
    DEVICE void load(u32 (&words)[4], u32 step, int i, int k) const {
        if (CONTIGUOUS) load_matrix_4(words, step + (at ^ k * 32) + i * 16 * Shape::PITCH);
        else load_matrix_4_transposed(words, step + (at ^ i * 32) + k * 16 * Shape::PITCH);
    }
};

struct alignas(2 * sizeof(Output)) OutputPair {
    Output v[2];
} MAY_ALIAS;

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
};

// A tile, of which a warp computes WARP_TALL × WARP_WIDE.
template <int TALL, int WIDE, int DEPTH, int STAGES, int WARP_TALL, int WARP_WIDE>
struct Tile {
    static const int ROWS = TALL, COLS = WIDE;
    static const int WARPS_ACROSS = WIDE / WARP_WIDE, THREADS = TALL / WARP_TALL * WARPS_ACROSS * 32;
    typedef Step<TALL, DEPTH, !TRANSPOSE_LEFT, THREADS> Left;
    typedef Step<WIDE, DEPTH, TRANSPOSE_RIGHT, THREADS> Right;
    static const int BYTES = Left::BYTES + Right::BYTES; // of a stage
    static const int SUMS_DOWN = WARP_TALL / 16, SUMS_ACROSS = WARP_WIDE / 16, PARTS = DEPTH / 16;
    static_assert(PARTS % 2 == 0 && STAGES >= 2, "fragments and stages take turns");

    struct Fragments {
        u32 left[SUMS_DOWN][4], right[SUMS_ACROSS][4];
    };

    static DEVICE void compute(const Params& p, i64 first_row, i64 first_col) {
        SHARED_DYN(unsigned char, memory);
        Loader<TALL, DEPTH, !TRANSPOSE_LEFT, THREADS> left(p.left, p.left_stride, first_row, p.rows, p.depth, p.left_vector, memory);
        Loader<WIDE, DEPTH, TRANSPOSE_RIGHT, THREADS> right(p.right, p.right_stride, first_col, p.cols, p.depth, p.right_vector, memory);
        u32 filled = 0; // offset of the stage that the next copies fill
        UNROLL for (int i = 0; i < STAGES - 1; i++) {
            if (i == 0 || left.k_left > 0) {
                left.fetch(filled);
                right.fetch(filled + Left::BYTES);
            }
            copy_async_commit();
            filled += BYTES;
        }

        int warp = threadIdx.x / 32, row = warp / WARPS_ACROSS * WARP_TALL, col = warp % WARPS_ACROSS * WARP_WIDE;
        int lane = threadIdx.x % 32, lane_row = row + lane / 4, lane_col = col + lane % 4 * 2;
        float sums[SUMS_DOWN][SUMS_ACROSS * 2][4];
        if (ACCUMULATE) {
            Results results(p, first_row + lane_row, first_col + lane_col);
            UNROLL for (int i = 0; i < SUMS_DOWN; i++)
                UNROLL for (int j = 0; j < SUMS_ACROSS * 2; j++) {
                    results.load(&sums[i][j][0], i * 16, j * 8);
                    results.load(&sums[i][j][2], i * 16 + 8, j * 8);
                }
        } else {
            UNROLL for (int i = 0; i < SUMS_DOWN; i++)
                UNROLL for (int j = 0; j < SUMS_ACROSS * 2; j++)
                    UNROLL for (int n = 0; n < 4; n++) sums[i][j][n] = 0.0f;
        }

        const Reader<Left, !TRANSPOSE_LEFT, true> left_reader(row);
        const Reader<Right, TRANSPOSE_RIGHT, false> right_reader(col);
        Fragments fragments[2]; // of the present 16 of k and of the next, in turns
        const u32 ring = shared_address(memory);
        u32 step = ring; // that is being multiplied
        copy_async_wait<STAGES - 2>();
        BARRIER(); // everybody's copies of the first step have arrived
        load(fragments[0], left_reader, right_reader, step, 0);
        for (i64 remaining = p.depth;;) {
            bool more = remaining > DEPTH;
            if (left.k_left > 0) { // into the stage that all left before the last barrier
                left.fetch(filled);
                right.fetch(filled + Left::BYTES);
            }
            copy_async_commit();
            filled = filled + BYTES == STAGES * BYTES ? 0 : filled + BYTES;
            UNROLL for (int k = 0; k < PARTS; k++) {
                if (k + 1 < PARTS) {
                    load(fragments[(k + 1) % 2], left_reader, right_reader, step, k + 1);
                } else if (more) {
                    step = step + BYTES == ring + STAGES * BYTES ? ring : step + BYTES;
                    copy_async_wait<STAGES - 2>();
                    BARRIER(); // the next step has arrived, and nobody reads this one any more
                    load(fragments[(k + 1) % 2], left_reader, right_reader, step, 0);
                }
                multiply_add(sums, fragments[k % 2]);
            }
            if (!more) break;
            remaining -= DEPTH;
        }

        Results results(p, first_row + lane_row, first_col + lane_col);
        UNROLL for (int i = 0; i < SUMS_DOWN; i++)
            UNROLL for (int j = 0; j < SUMS_ACROSS * 2; j++) {
                results.store(&sums[i][j][0], i * 16, j * 8);
                results.store(&sums[i][j][2], i * 16 + 8, j * 8);
            }
    }

    template <class LeftReader, class RightReader>
    static DEVICE void load(Fragments& to, const LeftReader& left, const RightReader& right, u32 step, int k) {
        UNROLL for (int i = 0; i < SUMS_DOWN; i++) left.load(to.left[i], step, i, k);
        UNROLL for (int j = 0; j < SUMS_ACROSS; j++) right.load(to.right[j], step + Left::BYTES, j, k);
    }

    static DEVICE void multiply_add(float (&sums)[SUMS_DOWN][SUMS_ACROSS * 2][4], const Fragments& f) {
        UNROLL for (int i = 0; i < SUMS_DOWN; i++)
            UNROLL for (int j = 0; j < SUMS_ACROSS * 2; j++) {
                u32 right[2] = {f.right[j / 2][j % 2 * 2], f.right[j / 2][j % 2 * 2 + 1]};
                MULTIPLY_ADD(sums[i][j], f.left[i], right);
            }
    }
};
