// A block computes a tile of the result. It walks along the summed index in steps
// of DEPTH: the step's lines of both operands lie in shared memory, widened, while
// the next step's are on their way into registers. A thread owns TALL × WIDE results,
// in groups of 4×4, each with one accumulator that meets its products in ascending
// order. A last step that is not full ends early: there is no padding along the
// summed index, because fma(0, 0, −0) is +0.

struct Params {
    const Input* left;
    const Input* right;
    Output* result;
    i64 left_stride, right_stride, result_stride;
    i64 rows, cols, depth;     // of the product
    i64 tile_rows, tile_cols;  // how many tiles there are
    i32 left_vector, right_vector; // rows begin at multiples of 16 bytes
};

const int THREADS = 256;

// Lines are rows of the left operand or columns of the right one. A thread fetches
// eight neighbours in memory: eight of one line where lines are contiguous, else one
// of each of eight lines.
struct Reader {
    const Input* at;
    i64 advance; // from one step to the next
    int k;       // the first, within a step
    int lines;   // how many exist of those that the thread fetches
};

template <int LINES, int DEPTH, bool CONTIGUOUS>
DEVICE Reader reader_of(const Input* operand, i64 stride, i64 first_line, i64 lines) {
    int line = CONTIGUOUS ? threadIdx.x % LINES : threadIdx.x % (LINES / 8) * 8;
    Reader r;
    r.k = CONTIGUOUS ? threadIdx.x / LINES * 8 : threadIdx.x / (LINES / 8);
    i64 left = lines - first_line - line;
    r.lines = left <= 0 ? 0 : left < 8 ? (int)left : 8;
    r.advance = CONTIGUOUS ? DEPTH : DEPTH * stride;
    r.at = CONTIGUOUS ? operand + (first_line + line) * stride + r.k : operand + r.k * stride + first_line + line;
    return r;
}

// left is how much of the summed index is left from this step on.
template <bool CONTIGUOUS>
DEVICE void fetch(float* values, Reader& r, bool vector, i64 left) {
    i64 k_left = left - r.k;
    int n = k_left <= 0 || r.lines == 0 ? 0 : !CONTIGUOUS ? r.lines : k_left < 8 ? (int)k_left : 8;
    InputGroup g = vector ? FETCH_VECTOR(r.at, n) : FETCH(r.at, n);
    UNROLL for (int j = 0; j < 8; j++) values[j] = GET(g, j);
    r.at += r.advance;
}

// A step in shared memory has the lines of each k side by side.
template <int LINES, int DEPTH, int PITCH, bool CONTIGUOUS>
DEVICE void put(float* step, const float* values) {
    if (CONTIGUOUS) {
        int line = threadIdx.x % LINES, k = threadIdx.x / LINES * 8;
        UNROLL for (int j = 0; j < 8; j++) step[(k + j) * PITCH + line] = values[j];
    } else {
        int line = threadIdx.x % (LINES / 8) * 8, k = threadIdx.x / (LINES / 8);
        UNROLL for (int j = 0; j < 8; j++) step[k * PITCH + line + j] = values[j];
    }
}

template <int ROWS, int COLS, int TALL, int WIDE>
DEVICE void step(float (*acc)[WIDE], const float* left, const float* right, int row, int col) {
    float a[TALL], b[WIDE];
    UNROLL for (int q = 0; q < TALL / 4; q++) {
        Quad quad = *reinterpret_cast<const Quad*>(left + row + q * (ROWS * 4 / TALL));
        UNROLL for (int i = 0; i < 4; i++) a[q * 4 + i] = quad.v[i];
    }
    UNROLL for (int q = 0; q < WIDE / 4; q++) {
        Quad quad = *reinterpret_cast<const Quad*>(right + col + q * (COLS * 4 / WIDE));
        UNROLL for (int j = 0; j < 4; j++) b[q * 4 + j] = quad.v[j];
    }
    UNROLL for (int i = 0; i < TALL; i++)
        UNROLL for (int j = 0; j < WIDE; j++) acc[i][j] = fused(a[i], b[j], acc[i][j]);
}

// Tiles are taken in bands of eight rows of tiles, down each column of a band, so
// that blocks that run together share their operands in the cache.
DEVICE void tile_of(const Params& p, i64 index, i64* tile_row, i64* tile_col) {
    i64 per_band = 8 * p.tile_cols, band = index / per_band, rest = index - band * per_band;
    i64 tall = p.tile_rows - band * 8 < 8 ? p.tile_rows - band * 8 : 8;
    *tile_col = rest / tall;
    *tile_row = band * 8 + rest - *tile_col * tall;
}

template <int ROWS, int COLS, int DEPTH, int TALL, int WIDE>
DEVICE void multiply(const Params& p) {
    static_assert(ROWS / TALL * (COLS / WIDE) == THREADS && ROWS * DEPTH == 8 * THREADS && COLS * DEPTH == 8 * THREADS, "the work is not divided evenly");
    const int LEFT_PITCH = ROWS + 4, RIGHT_PITCH = COLS + 4;
    SHARED(float, left, 2 * DEPTH * LEFT_PITCH);
    SHARED(float, right, 2 * DEPTH * RIGHT_PITCH);

    i64 tile_row, tile_col;
    tile_of(p, blockIdx.x, &tile_row, &tile_col);
    i64 first_row = tile_row * ROWS, first_col = tile_col * COLS;
    int row = threadIdx.x / (COLS / WIDE) * 4, col = threadIdx.x % (COLS / WIDE) * 4;

    Reader left_reader = reader_of<ROWS, DEPTH, !TRANSPOSE_LEFT>(p.left, p.left_stride, first_row, p.rows);
    Reader right_reader = reader_of<COLS, DEPTH, TRANSPOSE_RIGHT>(p.right, p.right_stride, first_col, p.cols);
    float next_left[8], next_right[8];
    fetch<!TRANSPOSE_LEFT>(next_left, left_reader, p.left_vector, p.depth);
    fetch<TRANSPOSE_RIGHT>(next_right, right_reader, p.right_vector, p.depth);
    put<ROWS, DEPTH, LEFT_PITCH, !TRANSPOSE_LEFT>(left, next_left);
    put<COLS, DEPTH, RIGHT_PITCH, TRANSPOSE_RIGHT>(right, next_right);
    // The thread's first result, and how many rows and columns there are from it on.
    Output* result = p.result + (first_row + row) * p.result_stride + first_col + col;
    int rows = p.rows - first_row < ROWS ? (int)(p.rows - first_row) - row : ROWS;
    int cols = p.cols - first_col < COLS ? (int)(p.cols - first_col) - col : COLS;
    float acc[TALL][WIDE];
    UNROLL for (int i = 0; i < TALL; i++) {
        UNROLL for (int j = 0; j < WIDE; j++) {
            int r = i / 4 * (ROWS * 4 / TALL) + i % 4, c = j / 4 * (COLS * 4 / WIDE) + j % 4;
            acc[i][j] = ACCUMULATE && r < rows && c < cols ? LOAD_OUTPUT(result + r * p.result_stride + c) : 0.0f;
        }
    }
    BARRIER();
    int half = 0; // of shared memory, which holds the present step
    for (i64 remaining = p.depth; remaining > 0; remaining -= DEPTH) {
        bool more = remaining > DEPTH;
        if (more) {
            fetch<!TRANSPOSE_LEFT>(next_left, left_reader, p.left_vector, remaining - DEPTH);
            fetch<TRANSPOSE_RIGHT>(next_right, right_reader, p.right_vector, remaining - DEPTH);
        }
        const float* l = left + half * DEPTH * LEFT_PITCH;
        const float* r = right + half * DEPTH * RIGHT_PITCH;
        if (remaining >= DEPTH) {
            for (int i = 0; i < DEPTH; i += 8) {
                UNROLL for (int j = 0; j < 8; j++)
                    step<ROWS, COLS, TALL, WIDE>(acc, l + (i + j) * LEFT_PITCH, r + (i + j) * RIGHT_PITCH, row, col);
            }
        } else {
            for (int i = 0; i < (int)remaining; i++)
                step<ROWS, COLS, TALL, WIDE>(acc, l + i * LEFT_PITCH, r + i * RIGHT_PITCH, row, col);
        }
        half ^= 1;
        if (more) {
            put<ROWS, DEPTH, LEFT_PITCH, !TRANSPOSE_LEFT>(left + half * DEPTH * LEFT_PITCH, next_left);
            put<COLS, DEPTH, RIGHT_PITCH, TRANSPOSE_RIGHT>(right + half * DEPTH * RIGHT_PITCH, next_right);
            BARRIER();
        }
    }

    UNROLL for (int i = 0; i < TALL; i++) {
        UNROLL for (int j = 0; j < WIDE; j++) {
            int r = i / 4 * (ROWS * 4 / TALL) + i % 4, c = j / 4 * (COLS * 4 / WIDE) + j % 4;
            if (r < rows && c < cols) STORE_OUTPUT(result + r * p.result_stride + c, acc[i][j]);
        }
    }
}

KERNEL(ENTRY_LARGE, 256)(const Params p) { multiply<128, 128, 16, 8, 8>(p); }

KERNEL(ENTRY_SMALL, 256)(const Params p) { multiply<64, 64, 32, 4, 4>(p); }
