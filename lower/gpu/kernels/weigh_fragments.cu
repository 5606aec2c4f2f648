// Fragments of streams: what their kernels on tensor cores share.

// Whether a pair holds an infinity or a NaN: then an exponent plus one overflows into the sign.
DEVICE u32 not_finite(u32 pair) { return ((pair & EXPONENTS) + LAST_EXPONENTS) & 0x80008000u; }

DEVICE bool in_any_lane(bool x) { return __ballot_sync(0xffffffffu, x) != 0; }

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

// Adds the products of each row alone, with zeros for the values at keys that it does not see.
template <class Sees>
DEVICE void multiply_rows(const Sees& sees, int key, const u32 (&weights)[4], const u32 (&values)[4], float (&left)[4], float (&right)[4]) {
    const int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    ROLLED for (int r = 0; r < 16; r++) {
        u32 kept[4];
        UNROLL for (int half = 0; half < 2; half++) {
            u32 keep = 0;
            UNROLL for (int e = 0; e < 2; e++)
                if (sees(r, key + column + e + half * 8)) keep |= 0xffffu << 16 * e;
            kept[half] = values[half] & keep;
            kept[half + 2] = values[half + 2] & keep;
        }
        float a[4], b[4];
        UNROLL for (int e = 0; e < 4; e++) a[e] = left[e], b[e] = right[e];
        u32 low[2] = {kept[0], kept[1]}, high[2] = {kept[2], kept[3]};
        MULTIPLY_ADD(a, weights, low);
        MULTIPLY_ADD(b, weights, high);
        UNROLL for (int e = 0; e < 4; e++)
            if (row + e / 2 * 8 == r) left[e] = a[e], right[e] = b[e];
    }
}

// Rows of at most DEPTH elements in shared memory, which all threads of a block copy.
template <int DEPTH, int THREADS>
struct SharedRows {
    static const int PIECES = DEPTH / 8, TURNS = PIECES < 8 ? PIECES : 8, PITCH = DEPTH * 2, APART = THREADS / PIECES;
    static_assert(THREADS % PIECES == 0, "the work is not divided evenly");

    // Where 16 bytes of a row lie: permuted, so that eight rows lie in different banks.
    static DEVICE u32 place(int row, int piece) { return row * PITCH + (piece ^ row / (8 / TURNS) % TURNS) * 16; }

    // Begins to copy rows. row_at says where a row lies, and is null for zeros; some is an address that may be read.
    template <int ALL, bool ANY_ADDRESS, class At>
    static DEVICE void copy(u32 to, int depth, const Element* some, const At& row_at) {
        static_assert(ALL % APART == 0, "the work is not divided evenly");
        int r = threadIdx.x / PIECES, piece = threadIdx.x % PIECES, n = depth - piece * 8;
        n = n < 0 ? 0 : n < 8 ? n : 8;
        if (!ANY_ADDRESS) {
            UNROLL for (int i = 0; i < ALL; i += APART) {
                const Element* from = row_at(r + i);
                bool is_in = from != nullptr && n > 0;
                copy_async_16(to + place(r + i, piece), is_in ? from + piece * 8 : some, is_in ? n * 2 : 0);
            }
        } else {
            SHARED_DYN(unsigned char, memory);
            ROLLED for (int i = 0; i < ALL; i += APART) {
                const Element* from = row_at(r + i);
                Group16 g = fetch16(from != nullptr ? from + piece * 8 : some, from != nullptr ? n : 0);
                *reinterpret_cast<uint4_aligned*>(memory + (to - shared_address(memory)) + place(r + i, piece)) = uint4_aligned{g.w[0], g.w[1], g.w[2], g.w[3]};
            }
        }
    }
};

