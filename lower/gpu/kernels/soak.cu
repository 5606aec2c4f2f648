// What holds every part of a GPU to answers that are known
//
// Operands  see Params; answers are a word for each thread of a block, the same for all blocks
// Numerics  the steps of definitions, mixed into a word: package soak computes the same on the host
// Places    a fault has the multiprocessor, the block and the thread that found it, the offset
//           in memory, and the bits that differ
// Requires  blocks of THREADS threads; MATRIX for sm_80 and tensorcore.h

const int THREADS = 256;

struct Fault {
    u32 kind, unit, block, thread;
    u64 at, bits;
};

struct Params {
    const u32* answers;
    const u32* left;  // factors of the matrix instruction, as it takes them: 4 words a thread for each of CHAIN products
    const u32* right; // 2 words likewise
    const u32* start; // 4 words a thread: what the first product is added to
    u64* held;        // by multiprocessor: answers that were compared
    Fault* faults;
    u32* found; // faults, whether or not there was room for them
    uint4_aligned* memory;
    i64 pieces; // of memory, 16 bytes each
    i64 first;  // the offset of memory from the first byte of all, in bytes
    u32 room, units, seed, rounds, pattern, words;
};

enum Kind { ARITHMETIC = 1, SHARED_MEMORY, EXCHANGE, MATRIX_F16, MATRIX_BF16, MEMORY };

#if defined(TOKITAI_SIM)
DEVICE u32 multiprocessor() { return blockIdx.x % 4; } // as many as device/gpu/sim says it has
#else
DEVICE u32 multiprocessor() {
    u32 id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
}
#endif

DEVICE void tell(const Params& p, u32 kind, u64 at, u64 bits) {
    u32 n = ATOMIC_ADD(p.found, 1u);
    if (n < p.room) p.faults[n] = Fault{kind, multiprocessor(), blockIdx.x, threadIdx.x, at, bits};
}

// Counts the answers of a block that has compared them.
DEVICE void count(const Params& p, u64 answers) {
    BARRIER();
    u32 unit = multiprocessor();
    if (threadIdx.x == 0 && unit < p.units) ATOMIC_ADD(&p.held[unit], answers);
}

DEVICE u32 mix(u32 x) {
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

DEVICE u32 turn(u32 x, int n) { return x << n | x >> (32 - n); }

// In [1, 2).
DEVICE float fraction(u32 x) { return float_of(0x3f800000u | x >> 9); }

KERNEL(soak_arithmetic, THREADS)(const Params p) {
    u32 x = mix(p.seed + threadIdx.x);
    ROLLED for (u32 r = 0; r < p.rounds; r++) {
        u32 y = mix(x + 0x9e3779b9u);
        float a = fraction(x), b = fraction(y), c = float_of((x & 1u) << 31 | 0x3f000000u | (y & 0x7fffffu));
        float f = fused(a, b, c), q = divide(a, b), s = square_root(a * b), z = scale(f, a * 16.0f - 24.0f);
        u32 halves = narrow_f16(q) << 16 | narrow_bf16(s);
        float w = widen_f16(halves >> 16) + widen_bf16(halves & 0xffffu);
        x = mix(x + bits_of(f)) ^ bits_of(q) ^ turn(bits_of(s), 7) ^ turn(bits_of(z), 13);
        x = x + halves + turn(bits_of(w), 19) + (u32)mul_high((i32)x, (i32)y) + (u32)int_mul((i32)y, (i32)(x | 1u));
    }
    u32 wrong = x ^ p.answers[threadIdx.x];
    if (wrong != 0) tell(p, ARITHMETIC, 0, wrong);
    count(p, THREADS);
}

// All of a block's shared memory: each cell is read by another thread than has written it.
KERNEL(soak_shared, THREADS)(const Params p) {
    SHARED_DYN(u32, cells);
    for (u32 r = 0; r < p.rounds; r++) {
        u32 flip = r % 2 == 0 ? 0u : ~0u, salt = p.seed + r / 2;
        ROLLED for (u32 i = threadIdx.x; i < p.words; i += THREADS) cells[i] = mix(salt + i) ^ flip;
        BARRIER();
        ROLLED for (u32 i = THREADS - 1 - threadIdx.x; i < p.words; i += THREADS) {
            u32 wrong = cells[i] ^ mix(salt + i) ^ flip;
            if (wrong != 0) tell(p, SHARED_MEMORY, 4 * (u64)i, wrong);
        }
        BARRIER();
        u32 own = mix(salt + threadIdx.x);
        UNROLL for (int d = 1; d < 32; d *= 2) {
            u32 wrong = SHFL_XOR(own, d, 32) ^ mix(salt + (threadIdx.x ^ d));
            if (wrong != 0) tell(p, EXCHANGE, d, wrong);
        }
    }
    count(p, (u64)p.rounds * p.words);
}

#if MATRIX

const int CHAIN = 4; // products, each added to the one before

template <class Multiply>
DEVICE void soak_matrix(const Params& p, u32 kind, Multiply multiply) {
    u32 left[CHAIN][4], right[CHAIN][2], start[4], want[4], wrong[4] = {0, 0, 0, 0};
    UNROLL for (int j = 0; j < CHAIN; j++) {
        UNROLL for (int i = 0; i < 4; i++) left[j][i] = p.left[(threadIdx.x * CHAIN + j) * 4 + i];
        UNROLL for (int i = 0; i < 2; i++) right[j][i] = p.right[(threadIdx.x * CHAIN + j) * 2 + i];
    }
    UNROLL for (int i = 0; i < 4; i++) {
        start[i] = p.start[threadIdx.x * 4 + i];
        want[i] = p.answers[threadIdx.x * 4 + i];
    }
    ROLLED for (u32 r = 0; r < p.rounds; r++) {
        float d[4];
        UNROLL for (int i = 0; i < 4; i++) d[i] = float_of(start[i]);
        UNROLL for (int j = 0; j < CHAIN; j++) multiply(d, left[j], right[j]);
        UNROLL for (int i = 0; i < 4; i++) wrong[i] |= bits_of(d[i]) ^ want[i];
    }
    UNROLL for (int i = 0; i < 4; i++)
        if (wrong[i] != 0) tell(p, kind, i, wrong[i]);
    count(p, (u64)p.rounds * THREADS * 4);
}

struct MultiplyF16 {
    DEVICE void operator()(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) const { mma_16_8_16_f16(d, a, b); }
};
struct MultiplyBF16 {
    DEVICE void operator()(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) const { mma_16_8_16_bf16(d, a, b); }
};

KERNEL(soak_matrix_f16, THREADS)(const Params p) { soak_matrix(p, MATRIX_F16, MultiplyF16()); }
KERNEL(soak_matrix_bf16, THREADS)(const Params p) { soak_matrix(p, MATRIX_BF16, MultiplyBF16()); }

#endif

// A word of a pattern; i counts the words of all memory.
DEVICE u32 pattern(const Params& p, u64 i) {
    u32 flip = p.pattern % 2 == 0 ? 0u : ~0u;
    switch (p.pattern / 2) {
    case 0: return flip;
    case 1: return 0x55555555u ^ flip;
    case 2: return 1u << ((u32)i + p.seed) % 32 ^ flip;
    default: return mix((u32)i ^ mix((u32)(i >> 32) ^ p.seed)) ^ flip;
    }
}

// As kernels do, a warp stores and loads pieces of 16 bytes that lie one after the other.
KERNEL(soak_fill, THREADS)(const Params p) {
    ROLLED for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < p.pieces; i += (i64)gridDim.x * THREADS) {
        u64 at = (u64)(p.first / 4 + 4 * i);
        p.memory[i] = uint4_aligned{pattern(p, at), pattern(p, at + 1), pattern(p, at + 2), pattern(p, at + 3)};
    }
}

// Blocks read in the opposite order: what one has written another reads. A word that differs is
// read once more, behind the caches of a multiprocessor: the upper half of bits is what differs then.
KERNEL(soak_compare, THREADS)(const Params p) {
    ROLLED for (i64 i = (i64)(gridDim.x - 1 - blockIdx.x) * THREADS + threadIdx.x; i < p.pieces; i += (i64)gridDim.x * THREADS) {
        uint4_aligned piece = p.memory[i];
        u64 at = (u64)(p.first / 4 + 4 * i);
        u32 got[4] = {piece.x, piece.y, piece.z, piece.w};
        UNROLL for (int j = 0; j < 4; j++) {
            u32 want = pattern(p, at + j), wrong = got[j] ^ want;
            if (wrong != 0) tell(p, MEMORY, 4 * (at + j), (u64)(ATOMIC_ADD((u32*)(p.memory + i) + j, 0u) ^ want) << 32 | wrong);
        }
    }
}
