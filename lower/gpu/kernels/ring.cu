// */cuda.fma, */hip.fma, */sim.fma: products of matrices in Z/2^32 and Z/p^k
// C[m,n] = sum_k A[m,k] B[k,n]        one tile of 64x64 per block of 256 threads
//
// Operands  A (M,K) or (K,M), B (K,N) or (N,K) in i8, with C in i32, or with scales in f16, bf16 or f32; or A, B
//           and C in i64. Rows at any stride and alignment.
// Numerics  exact: i8 in 32 bits, which wrap; i64 as residues from 0 to p^k-1, times 2^64 on the way. With SCALED, the sum is rounded to f32
//           once, then multiplied by the scale of the row, and of the column, each product rounded.
// Schedule  a step of 16 words along k lies in shared memory; a word is four neighbours along k of i8, or one residue.
//           A thread has 4x4 results. What is missing at the end of a row is 0, which changes no exact sum.
// Requires  nothing beyond prelude.h; a word of i8 takes one dp4a where there is one. Tensor cores multiply i8 in mma.cu and hopper.cu

#if IS_NARROW
typedef u32 Word; // four neighbours along k
const int PER_WORD = 4;
#else
typedef u64 Word;
const int PER_WORD = 1;
#endif

const int TILE = 64, STEP = 16, THREADS = 256, SIDE = 4;

// ---- arithmetic ----

#if IS_NARROW
DEVICE Word word_of(const i8* values) {
    u32 word = 0;
    UNROLL for (int i = 0; i < 4; i++) word |= (u32)(unsigned char)values[i] << 8 * i;
    return word;
}

// acc + a[0] b[0] + ... + a[3] b[3], modulo 2^32.
DEVICE u32 add_product(u32 acc, u32 a, u32 b) {
#if defined(__CUDA_ARCH__)
    return (u32)__dp4a((int)a, (int)b, (int)acc);
#else
    UNROLL for (int i = 0; i < 4; i++) acc += (u32)((int)(i8)(a >> 8 * i) * (int)(i8)(b >> 8 * i));
    return acc;
#endif
}
#elif IS_BINARY
DEVICE Word word_of(const i64* values) { return (u64)values[0]; }
DEVICE u64 add_product(u64 acc, u64 a, u64 b) { return acc + a * b; }
#else
// The upper half of a product, from products of halves.
DEVICE u64 multiply_high(u64 a, u64 b) {
    u64 a0 = (u32)a, a1 = a >> 32, b0 = (u32)b, b1 = b >> 32;
    u64 middle = a1 * b0 + (a0 * b0 >> 32);
    u64 other = a0 * b1 + (u32)middle;
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

// a b / 2^64 modulo p^k, for any a and b below the modulus, by Montgomery: a multiple of the modulus makes the low word
// 0. The carry is 1 unless it was.
DEVICE u64 montgomery(u64 a, u64 b) {
    u64 low = a * b;
    u64 z = multiply_high(a, b) + multiply_high(low * NEGATED_INVERSE, MODULUS) + (low != 0);
    return z >= MODULUS ? z - MODULUS : z;
}

// A residue times 2^64, from two's complement: x - 2^64 for a negative number.
DEVICE Word word_of(const i64* values) {
    u64 z = montgomery((u64)values[0], SQUARE);
    if (values[0] >= 0) return z;
    return z >= SQUARE ? z - SQUARE : z + (MODULUS - SQUARE);
}

// The sum of products, times 2^64; put divides by it.
DEVICE u64 add_product(u64 acc, u64 a, u64 b) {
    u64 z = acc + montgomery(a, b); // below 2^64
    return z >= MODULUS ? z - MODULUS : z;
}
#endif

// ---- from memory to shared memory ----

// The word at a line and a place along k: of a row that is contiguous, or of a column.
template <bool CONTIGUOUS>
DEVICE Word load(const Input* operand, i64 stride, i64 line, i64 lines, i64 k, i64 depth) {
    Input values[PER_WORD];
    UNROLL for (int i = 0; i < PER_WORD; i++) {
        bool is_there = line < lines && k + i < depth;
        values[i] = is_there ? operand[CONTIGUOUS ? line * stride + k + i : (k + i) * stride + line] : (Input)0;
    }
    return word_of(values);
}

template <bool CONTIGUOUS>
DEVICE void fill(Word* step, const Input* operand, i64 stride, i64 first, i64 lines, i64 k, i64 depth) {
    for (int i = threadIdx.x; i < TILE * STEP; i += THREADS) {
        int line = CONTIGUOUS ? i / STEP : i % TILE, word = CONTIGUOUS ? i % STEP : i / TILE;
        step[word * (TILE + 1) + line] = load<CONTIGUOUS>(operand, stride, first + line, lines, k + word * PER_WORD, depth);
    }
}

// ---- from sums to results ----

DEVICE void put(const Params& p, i64 row, i64 col, Word sum) {
    Output* at = p.result + row * p.result_stride + col;
#if IS_INTEGER && IS_NARROW
    *at = (Output)sum;
#elif IS_INTEGER && IS_BINARY
    *at = (Output)(sum & (MODULUS - 1));
#elif IS_INTEGER
    *at = (Output)montgomery(sum, 1);
#else
    STORE_OUTPUT(at, scaled(p, (float)(i32)sum, row, col));
#endif
}

struct Tile {
    static const int ROWS = TILE, COLS = TILE;

    static DEVICE void compute(const Params& p, i64 first_row, i64 first_col) {
        SHARED(Word, left, STEP * (TILE + 1));
        SHARED(Word, right, STEP * (TILE + 1));
        int row = threadIdx.x / 16, col = threadIdx.x % 16; // and every 16th from there
        Word acc[SIDE][SIDE];
        UNROLL for (int i = 0; i < SIDE; i++)
            UNROLL for (int j = 0; j < SIDE; j++) acc[i][j] = 0;
        for (i64 k = 0; k < p.depth; k += STEP * PER_WORD) {
            fill<!TRANSPOSE_LEFT>(left, p.left, p.left_stride, first_row, p.rows, k, p.depth);
            fill<TRANSPOSE_RIGHT>(right, p.right, p.right_stride, first_col, p.cols, k, p.depth);
            BARRIER(); // the step is complete
            ROLLED for (int word = 0; word < STEP; word++) {
                Word a[SIDE], b[SIDE];
                UNROLL for (int i = 0; i < SIDE; i++) {
                    a[i] = left[word * (TILE + 1) + row + 16 * i];
                    b[i] = right[word * (TILE + 1) + col + 16 * i];
                }
                UNROLL for (int i = 0; i < SIDE; i++)
                    UNROLL for (int j = 0; j < SIDE; j++) acc[i][j] = add_product(acc[i][j], a[i], b[j]);
            }
            BARRIER(); // nobody reads this step any more
        }
        UNROLL for (int i = 0; i < SIDE; i++)
            UNROLL for (int j = 0; j < SIDE; j++) {
                i64 r = first_row + row + 16 * i, c = first_col + col + 16 * j;
                if (r < p.rows && c < p.cols) put(p, r, c, acc[i][j]);
            }
    }
};

KERNEL(ENTRY, 256)(const Params p) { multiply<Tile>(p); }
