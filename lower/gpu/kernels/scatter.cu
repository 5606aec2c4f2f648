// embedding.backward/cuda.scatter
// result[v,d] = sum over q with index[q] = v of in[q,d] (+ result[v,d])        a list of queries per row of the result
//
// Operands  index (queries) i32; in (queries, cols); result (rows, cols); rows strided
// Numerics  f16: exact sum, one rounding. bf16, f32: chunks of CHUNK queries in ascending order, each from +0,
//           then the chunks' sums in ascending order, from +0 or the old value
// Schedule  1. clear     sets all counters to zero
//           2. count     counts the queries of each row, and numbers them in order of arrival
//           3. allocate  gives each row its range in the list of positions
//           4. place     writes the positions of the queries there
//           5. order     sorts the positions of each row, unless sums are exact
//           6. sum       adds and stores the rows whose index occurs at most CHUNK times; of the others, adds each chunk
//           7. combine   adds the chunks of those
//           Blocks run in any order: the ranges of rows in the lists depend on it, sums do not.
// Requires  queries < 2^31, rows < 2^31 - 1; operands and rows aligned to 16 bytes for ENTRY_SUM_VECTOR

const int THREADS = 256; // per block of the kernels that make lists
const int CHUNK = 64;    // queries; part of the definition of the sum
const int GROUP = 4;     // neighbouring rows whose positions are contiguous

struct Counters {
    u64 frequent; // low half: rows with more than CHUNK queries; high half: their chunks
    u32 listed;   // queries of all other rows
    u32 large;    // rows with more than SORTED queries
};

struct ListParams {
    const i32* index;
    Counters* counters;
    u32* counts;        // [rows], up to a multiple of GROUP
    u32* first;         // [rows], likewise: the offset of a row's positions, or its first chunk
    u32* numbers;       // [queries]: the number of a query among those of its row
    u32* positions;     // [queries] of infrequent rows, then [chunks][CHUNK]
    u32* ordered;       // the same, ascending within a row
    u32* frequent_rows; // in any order
    u32* large_rows;
    u32* chunk_rows; // [chunks]
    i64 index_stride;
    i64 queries, rows;
};

struct SumParams {
    const Counters* counters;
    const u32* counts;
    const u32* first;
    const u32* positions;
    const u32* frequent_rows;
    const u32* chunk_rows;
    const Input* in;
    Output* result;
    Partial* partial; // [chunks][partial_stride]
    const u64* refused;
    i64 in_stride, result_stride, partial_stride;
    i64 queries, rows, cols;
    i64 chunk_blocks; // the first blocks add chunks, the others add rows
};

// ---- lists ----

// Returns the row of a query, or -1 if its index is out of range.
DEVICE i64 row_of(const ListParams& p, i64 q) {
    i32 v = p.index[q * p.index_stride];
    return v >= 0 && v < p.rows ? v : -1;
}

KERNEL(ENTRY_CLEAR, 256)(const ListParams p) {
    i64 v = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (v < (p.rows + GROUP - 1) / GROUP * GROUP) p.counts[v] = 0;
    if (v == 0) *p.counters = Counters{0, 0, 0};
}

KERNEL(ENTRY_COUNT, 256)(const ListParams p) {
    i64 q = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (q >= p.queries) return;
    i64 v = row_of(p, q);
    if (v >= 0) p.numbers[q] = ATOMIC_ADD(&p.counts[v], 1u);
}

// Returns the sum of the values of all lower-numbered threads (Hillis and Steele).
DEVICE u32 scan_block(u32 value, u32* sums) {
    int t = threadIdx.x;
    sums[t] = value;
    BARRIER(); // all values are written
    for (int d = 1; d < THREADS; d *= 2) {
        u32 earlier = t >= d ? sums[t - d] : 0;
        BARRIER(); // all threads have read before any writes
        sums[t] += earlier;
        BARRIER(); // this level is complete
    }
    return sums[t] - value;
}

const u32 SORTED = 4096; // queries that a block sorts by comparisons, in 16 KiB of shared memory

// The positions of a block's infrequent rows are contiguous.
KERNEL(ENTRY_ALLOCATE, 256)(const ListParams p) {
    SHARED(u32, sums, THREADS);
    SHARED(u32, begin, 1);
    i64 row = ((i64)blockIdx.x * THREADS + threadIdx.x) * GROUP;
    u32 count[GROUP], sum = 0;
    UNROLL for (int i = 0; i < GROUP; i++) {
        count[i] = row + i < p.rows ? p.counts[row + i] : 0;
        if (count[i] <= CHUNK) {
            sum += count[i];
            continue;
        }
        u64 before = ATOMIC_ADD(&p.counters->frequent, (u64)((count[i] + CHUNK - 1) / CHUNK) << 32 | 1u);
        p.frequent_rows[(u32)before] = (u32)(row + i);
        p.first[row + i] = (u32)(before >> 32);
        if (count[i] > SORTED) p.large_rows[ATOMIC_ADD(&p.counters->large, 1u)] = (u32)(row + i);
    }
    u32 at = scan_block(sum, sums);
    if (threadIdx.x == THREADS - 1) begin[0] = ATOMIC_ADD(&p.counters->listed, at + sum);
    BARRIER(); // the last thread has written begin
    at += begin[0];
    if (row >= p.rows) return;
    UNROLL for (int i = 0; i < GROUP; i++) {
        if (count[i] > CHUNK) continue;
        p.first[row + i] = at;
        at += count[i];
    }
}

KERNEL(ENTRY_PLACE, 256)(const ListParams p) {
    i64 q = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (q >= p.queries) return;
    i64 v = row_of(p, q);
    if (v < 0) return;
    u32 number = p.numbers[q], first = p.first[v];
    if (p.counts[v] <= CHUNK) {
        p.positions[first + number] = (u32)q;
        return;
    }
    p.positions[p.queries + (i64)first * CHUNK + number] = (u32)q;
    if (number % CHUNK == 0) p.chunk_rows[first + number / CHUNK] = (u32)v;
}

#if !EXACT

// Sorts up to SORTED positions with a bitonic network.
DEVICE void sort_by_comparing(const u32* from, u32* to, u32 n, u32* shared) {
    u32 size = 1;
    while (size < n) size *= 2;
    for (u32 i = threadIdx.x; i < size; i += THREADS) shared[i] = i < n ? from[i] : ~0u;
    BARRIER(); // all positions are in shared memory
    for (u32 run = 2; run <= size; run *= 2) {
        for (u32 d = run / 2; d > 0; d /= 2) {
            for (u32 i = threadIdx.x; i < size / 2; i += THREADS) {
                u32 low = i / d * 2 * d + i % d, high = low + d;
                u32 a = shared[low], b = shared[high];
                bool is_ascending = (low & run) == 0;
                shared[low] = (a < b) == is_ascending ? a : b;
                shared[high] = (a < b) == is_ascending ? b : a;
            }
            BARRIER(); // this step of the network is complete
        }
    }
    for (u32 i = threadIdx.x; i < n; i += THREADS) to[i] = shared[i];
    BARRIER(); // all threads have read shared, the next row may overwrite it
}

const u32 WINDOW = 32 * SORTED; // queries whose bits fit the same shared memory

// Returns the number of ones in w.
DEVICE u32 ones(u32 w) {
    w -= w >> 1 & 0x55555555u;
    w = (w & 0x33333333u) + (w >> 2 & 0x33333333u);
    return ((w + (w >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

// Sorts those of n positions that are in a window: each sets its bit, then bits are read in order.
DEVICE void sort_by_bits(const u32* from, u32* to, u32 n, u32 window, u32* bits, u32* sums) {
    const u32 OWN = SORTED / THREADS;
    u32 earlier = 0;
    for (u32 i = threadIdx.x; i < SORTED; i += THREADS) bits[i] = 0;
    BARRIER(); // all bits are clear
    for (u32 i = threadIdx.x; i < n; i += THREADS) {
        u32 q = from[i];
        if (q / WINDOW < window) earlier++;
        if (q / WINDOW == window) ATOMIC_ADD(&bits[q % WINDOW / 32], 1u << q % 32); // no position occurs twice
    }
    scan_block(earlier, sums); // its barriers also complete the bits
    u32 at = sums[THREADS - 1], sum = 0;
    BARRIER(); // all threads have read sums before the next scan overwrites it
    for (u32 i = 0; i < OWN; i++) sum += ones(bits[threadIdx.x * OWN + i]);
    at += scan_block(sum, sums);
    for (u32 i = 0; i < OWN; i++) {
        u32 w = bits[threadIdx.x * OWN + i];
        for (u32 q = window * WINDOW + (threadIdx.x * OWN + i) * 32; w != 0; w >>= 1, q++)
            if (w & 1u) to[at++] = q;
    }
    BARRIER(); // all threads have read bits, the next window may overwrite them
}

// The positions of an infrequent row are few: the place of each is the number of smaller ones.
KERNEL(ENTRY_ORDER, 256)(const ListParams p) {
    SHARED(u32, shared, SORTED);
    SHARED(u32, sums, THREADS);
    const u32* from = p.positions + p.queries;
    u32* to = p.ordered + p.queries;
    u32 windows = (u32)((p.queries + WINDOW - 1) / WINDOW);
    u64 items = (u64)p.counters->large * windows;
    for (u64 i = blockIdx.x; i < items; i += gridDim.x) {
        u32 row = p.large_rows[i / windows];
        i64 at = (i64)p.first[row] * CHUNK;
        sort_by_bits(from + at, to + at, p.counts[row], (u32)(i % windows), shared, sums);
    }
    u32 frequent = (u32)p.counters->frequent;
    for (u32 i = blockIdx.x; i < frequent; i += gridDim.x) {
        u32 row = p.frequent_rows[i];
        i64 at = (i64)p.first[row] * CHUNK;
        if (p.counts[row] <= SORTED) sort_by_comparing(from + at, to + at, p.counts[row], shared);
    }
    for (i64 q = (i64)blockIdx.x * THREADS + threadIdx.x; q < p.queries; q += (i64)gridDim.x * THREADS) {
        i64 v = row_of(p, q);
        if (v < 0) continue;
        u32 count = p.counts[v], first = p.first[v], less = 0;
        if (count > CHUNK) continue;
        for (u32 i = 0; i < count; i++) less += p.positions[first + i] < (u32)q ? 1u : 0u;
        p.ordered[first + less] = (u32)q;
    }
}

#endif

// ---- a thread's columns ----

const int VECTOR = 16 / sizeof(Input); // columns of 16 bytes

// N columns of a row as they are stored: one column, or 16 bytes.
template <int N>
struct Stored {
    u32 w[4];
};

template <int N>
DEVICE Stored<N> load(const Input* at) {
    if (N == 1) return Stored<N>{{INPUT_PATTERN(*at), 0, 0, 0}};
    uint4_aligned a = *reinterpret_cast<const uint4_aligned*>(at);
    return Stored<N>{{a.x, a.y, a.z, a.w}};
}

// Returns the pattern of column j in the low bits; higher bits are unspecified.
template <int N>
DEVICE u32 pattern_at(const Stored<N>& s, int j) {
    return sizeof(Input) == 4 ? s.w[j] : s.w[j >> 1] >> 16 * (j & 1);
}

// Stores 16 bytes with one instruction, which compilers would otherwise split.
DEVICE void store_vector(void* at, u32 x, u32 y, u32 z, u32 w) {
#if defined(__CUDA_ARCH__) && !defined(TOKITAI_SIM)
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
#else
    *reinterpret_cast<uint4_aligned*>(at) = uint4_aligned{x, y, z, w};
#endif
}

// Stores the words of N columns of the result.
template <int N>
DEVICE void store(Output* at, const u32* w) {
    if (N == 1) {
        *at = OUTPUT_OF(w[0]);
        return;
    }
    UNROLL for (int i = 0; i < N * (int)sizeof(Output) / 4; i += 4)
        store_vector(at + i * (int)(4 / sizeof(Output)), w[i], w[i + 1], w[i + 2], w[i + 3]);
}

// Loads the patterns of N columns of the result.
template <int N>
DEVICE void load_result(const Output* at, u32* pattern) {
    if (N == 1) {
        pattern[0] = OUTPUT_PATTERN(*at);
        return;
    }
    const int PER_WORD = 4 / sizeof(Output);
    UNROLL for (int j = 0; j < N; j += 4 * PER_WORD) {
        uint4_aligned a = *reinterpret_cast<const uint4_aligned*>(at + j);
        const u32 w[4] = {a.x, a.y, a.z, a.w};
        UNROLL for (int i = 0; i < 4 * PER_WORD; i++) pattern[j + i] = PER_WORD == 1 ? w[i] : w[i >> 1] >> 16 * (i & 1) & 0xffffu;
    }
}

// ---- sums ----

#if EXACT

// binary16 values are integers in units of 2^-24, each below 2^40: the sum of a chunk fits
// 64 bits, and a sum of 2^32 values fits 128.
enum { NOT_A_NUMBER = 1, PLUS_INFINITY = 2, MINUS_INFINITY = 4 };

struct Sum {
    i64 units;
    u32 special;
    u32 unused;
};

struct Wide {
    u64 high, low;
};

// Two's complement in units of 2^-24.
struct Total {
    Wide units;
    u32 special;
};

DEVICE Sum empty_sum() { return Sum{0, 0, 0}; }
DEVICE Total empty_total() { return Total{{0, 0}, 0}; }

DEVICE void add_term(Sum& s, u32 h) {
    u32 e = h >> 10 & 31u, m = h & 0x3ffu;
    if (e == 31) {
        s.special |= m != 0 ? NOT_A_NUMBER : h & 0x8000u ? MINUS_INFINITY : PLUS_INFINITY;
        return;
    }
    i64 units = e == 0 ? (i64)m : (i64)(m | 0x400u) << (e - 1);
    s.units += h & 0x8000u ? -units : units;
}

DEVICE Wide plus(Wide a, Wide b) {
    u64 low = a.low + b.low;
    return Wide{a.high + b.high + (low < a.low ? 1u : 0u), low};
}

DEVICE Wide minus(Wide a, Wide b) { return Wide{a.high - b.high - (a.low < b.low ? 1u : 0u), a.low - b.low}; }
DEVICE bool is_zero(Wide a) { return (a.high | a.low) == 0; }
DEVICE bool is_less(Wide a, Wide b) { return a.high < b.high || (a.high == b.high && a.low < b.low); }

// Shifts require n < 128.
DEVICE Wide shifted_left(Wide a, int n) {
    if (n >= 64) return Wide{a.low << (n - 64), 0};
    return n == 0 ? a : Wide{a.high << n | a.low >> (64 - n), a.low << n};
}

DEVICE Wide shifted_right(Wide a, int n) {
    if (n >= 64) return Wide{0, a.high >> (n - 64)};
    return n == 0 ? a : Wide{a.high >> n, a.low >> n | a.high << (64 - n)};
}

// Sets the last bit if any bit that is shifted out was set (rounding to odd).
DEVICE Wide shifted_right_odd(Wide a, int n) {
    if (n <= 0) return a;
    if (n >= 128) return Wide{0, is_zero(a) ? 0u : 1u};
    Wide r = shifted_right(a, n), back = shifted_left(r, n);
    if (back.high != a.high || back.low != a.low) r.low |= 1;
    return r;
}

DEVICE int bit_length(Wide a) {
    int n = 0;
    u64 w = a.high != 0 ? a.high : a.low;
    if (a.high != 0) n = 64;
    for (int s = 32; s > 0; s /= 2)
        if (w >> s) {
            w >>= s;
            n += s;
        }
    return w ? n + 1 : n;
}

DEVICE void add_sum(Total& t, const Sum& s) {
    t.units = plus(t.units, Wide{s.units < 0 ? ~(u64)0 : 0, (u64)s.units});
    t.special |= s.special;
}

// Returns the pattern nearest to ±a·2^e in a format with FRACTION stored bits whose smallest
// subnormal is 2^LEAST. Zero is +0.
template <int FRACTION, int LEAST>
DEVICE u32 rounded(bool negative, Wide a, int e, u32 sign, u32 infinity) {
    if (is_zero(a)) return 0;
    int last = bit_length(a) - 1 + e - FRACTION; // exponent of the result's last bit
    if (last < LEAST) last = LEAST;
    int drop = last - e;
    u32 units;
    if (drop <= 0) {
        units = (u32)shifted_left(a, -drop).low;
    } else {
        // Two bits more than are kept: the next one, and whether any bit below it is set.
        u64 more = drop == 1 ? shifted_left(a, 1).low : shifted_right_odd(a, drop - 2).low;
        units = (u32)(more >> 2);
        u32 rest = (u32)more & 3u;
        if (rest == 3u || (rest == 2u && (units & 1u))) units++;
    }
    u32 pattern = ((u32)(last - LEAST) << FRACTION) + units;
    return (negative ? sign : 0) | (pattern < infinity ? pattern : infinity);
}

#if OUTPUT_IS_F16
#define ROUNDED(NEGATIVE, A, E) rounded<10, -24>(NEGATIVE, A, E, 0x8000u, 0x7c00u)
const u32 SIGN_PATTERN = 0x8000u, INFINITY_PATTERN = 0x7c00u, NAN_PATTERN = 0x7e00u;
#else
#define ROUNDED(NEGATIVE, A, E) rounded<23, -149>(NEGATIVE, A, E, 0x80000000u, 0x7f800000u)
const u32 SIGN_PATTERN = 0x80000000u, INFINITY_PATTERN = 0x7f800000u, NAN_PATTERN = 0x7fc00000u;
#endif

// Adds the old value, a pattern of Output, as one more exact term, and rounds once.
DEVICE u32 finished(Total t, u32 old) {
    bool negative = t.units.high >> 63 != 0;
    Wide a = negative ? minus(Wide{0, 0}, t.units) : t.units;
    int e = -24;
    if (ACCUMULATE) {
        u32 rest = old & ~SIGN_PATTERN;
        if (rest >= INFINITY_PATTERN) t.special |= rest > INFINITY_PATTERN ? NOT_A_NUMBER : old & SIGN_PATTERN ? MINUS_INFINITY : PLUS_INFINITY;
        const int FRACTION = OUTPUT_IS_F16 ? 10 : 23, LEAST = OUTPUT_IS_F16 ? -24 : -149;
        int field = (int)(rest >> FRACTION);
        u32 fraction = rest & ((1u << FRACTION) - 1);
        Wide b{0, field == 0 ? fraction : fraction | 1u << FRACTION};
        int be = field == 0 ? LEAST : LEAST + field - 1;
        bool b_negative = (old & SIGN_PATTERN) != 0;
        if (is_zero(a)) {
            a = b, e = be, negative = b_negative;
        } else if (!is_zero(b)) {
            // Both in units of 2^unit, in which the larger term is an integer. The smaller one is
            // rounded to odd: the sum has far more bits than are kept.
            int top_a = bit_length(a) + e, top_b = bit_length(b) + be;
            int unit = (top_a > top_b ? top_a : top_b) - 126;
            a = unit <= e ? shifted_left(a, e - unit) : shifted_right_odd(a, unit - e);
            b = unit <= be ? shifted_left(b, be - unit) : shifted_right_odd(b, unit - be);
            e = unit;
            if (negative == b_negative) {
                a = plus(a, b);
            } else if (is_less(a, b)) {
                a = minus(b, a), negative = b_negative;
            } else {
                a = minus(a, b);
            }
        }
    }
    if (t.special == PLUS_INFINITY) return INFINITY_PATTERN;
    if (t.special == MINUS_INFINITY) return SIGN_PATTERN | INFINITY_PATTERN;
    if (t.special != 0) return NAN_PATTERN;
    return ROUNDED(negative, a, e);
}

DEVICE void finish(Output* at, const Total& t) {
#if OUTPUT_IS_F16
    *at = (Output)finished(t, ACCUMULATE ? *at : 0);
#else
    *at = float_of(finished(t, ACCUMULATE ? bits_of(*at) : 0));
#endif
}

// ---- exact sums of few terms, in binary64 ----

#if defined(__CUDA_ARCH__) && !defined(TOKITAI_SIM)

DEVICE u64 bits_of_double(double x) { return (u64)__double_as_longlong(x); }
DEVICE double double_of(u64 b) { return __longlong_as_double((i64)b); }
DEVICE double scaled_plus(double x, double scale, double sum) { return __fma_rn(x, scale, sum); }

#else

DEVICE u64 bits_of_double(double x) {
    u64 b;
    __builtin_memcpy(&b, &x, 8);
    return b;
}

DEVICE double double_of(u64 b) {
    double x;
    __builtin_memcpy(&x, &b, 8);
    return x;
}

DEVICE double scaled_plus(double x, double scale, double sum) { return sum + x * scale; } // the product is exact

#endif

// Finite values are multiples of 2^-24 below 2^16, so sums of n of them are multiples of
// 2^-24 below n·2^16. With n up to 2^13 they have at most 53 bits, and binary64 adds them
// without rounding. Chunks have 64 terms, and the old value is one more.
//
// A binary16 pattern is shifted into the fields of a binary64, which is then 2^1008 times
// too small, for subnormals too; the multiplication by 2^1008 is exact.
template <int N>
struct Sums {
    double value[N];
    u32 exponents; // bits 15 and 31 are set if any exponent was the largest

    DEVICE void clear() {
        UNROLL for (int j = 0; j < N; j++) value[j] = 0;
        exponents = 0;
    }

    DEVICE static double widened(double sum, u32 pattern_above) {
        u32 high = (u32)((i32)pattern_above >> 6) & 0x81fffc00u;
        return scaled_plus(double_of((u64)high << 32), 0x1p1008, sum);
    }

    DEVICE void add(const Stored<N>& s) {
        UNROLL for (int i = 0; i < (N + 1) / 2; i++) {
            exponents |= (s.w[i] & 0x7c007c00u) + 0x04000400u;
            value[2 * i] = widened(value[2 * i], s.w[i] << 16);
            if (N > 1) value[N > 1 ? 2 * i + 1 : 0] = widened(value[N > 1 ? 2 * i + 1 : 0], s.w[i]);
        }
    }

    DEVICE bool is_finite() const { return (exponents & 0x80008000u) == 0; }

    // Stores the sums, with one rounding, unless a term was not finite.
    DEVICE bool finish(Output* at) const {
        double s[N];
        bool is_done = is_finite();
        u32 old[N];
        if (ACCUMULATE) load_result<N>(at, old);
        UNROLL for (int j = 0; j < N; j++) {
            s[j] = value[j];
            if (!ACCUMULATE) continue;
            is_done = is_done && (old[j] & INFINITY_PATTERN) != INFINITY_PATTERN;
            s[j] = OUTPUT_IS_F16 ? widened(s[j], old[j] << 16) : plus_odd(s[j], (double)float_of(old[j]));
        }
        if (!is_done) return false;
        u32 w[N];
        if (OUTPUT_IS_F16) {
            UNROLL for (int j = 0; j < N; j += 2) w[j / 2] = narrowed_pair(s[j], N > 1 ? s[j + 1] : 0);
        } else {
            UNROLL for (int j = 0; j < N; j++) w[j] = bits_of((float)s[j]);
        }
        store<N>(at, w);
        return true;
    }

    // Rounds to binary16, and returns the high word of a binary64 that is 2^1008 times
    // smaller: the pattern shifted left by 10, with exponents beyond the largest. Adding
    // 1.5·2^(e+42) clears all bits below 2^(e-10), the last bit of a result with exponent
    // e; for subnormal results e is that of the smallest normal number.
    DEVICE static u32 narrowed(double s) {
        u32 e = (u32)(bits_of_double(s) >> 32) & 0x7ff00000u;
        if (e < (1023u - 14u) << 20) e = (1023u - 14u) << 20;
        double shift = double_of((u64)(e + (42u << 20) + 0x80000u) << 32);
        return (u32)(bits_of_double((s + shift - shift) * 0x1p-1008) >> 32);
    }

    DEVICE static u32 below_infinity(u32 high) {
        u32 rest = high & 0x7fffffffu;
        return rest < 0x7c00u << 10 ? rest : 0x7c00u << 10;
    }

    // Returns two patterns in a word.
    DEVICE static u32 narrowed_pair(double a, double b) {
        u32 low = narrowed(a), high = narrowed(b);
        u32 signs = (low >> 16 | (high & 0xffff0000u)) & 0x80008000u;
        return signs | (below_infinity(low) >> 10) | below_infinity(high) << 6;
    }

    // Returns a + b rounded to odd: an inexact sum becomes its neighbour with an odd last bit.
    // Rounding that to binary32 gives the same as rounding the exact sum.
    DEVICE static double plus_odd(double a, double b) {
        double sum = a + b, of_b = sum - a;
        double error = (a - (sum - of_b)) + (b - of_b);
        u64 bits = bits_of_double(sum);
        if (error != 0 && (bits & 1) == 0) bits += (error > 0) == (sum > 0) ? 1 : ~(u64)0;
        return double_of(bits);
    }

    DEVICE bool keep(Partial* at) const {
        if (is_finite()) {
            UNROLL for (int j = 0; j < N; j++) at[j] = bits_of_double(value[j]);
        }
        return is_finite();
    }
};

// A chunk's sum is stored as a binary64, or as this NaN with the special flags in its last bits.
const u64 SPECIAL = (u64)0x7ff8 << 48;

DEVICE Sum sum_of(const SumParams& p, const u32* positions, u32 n, i64 column) {
    Sum sum = empty_sum();
    for (u32 i = 0; i < n; i++) add_term(sum, p.in[(i64)positions[i] * p.in_stride + column]);
    return sum;
}

// Sum a row or chunk again, column by column, with values that are not finite.
DEVICE void finish_special(const SumParams& p, Output* at, const u32* positions, u32 n, i64 column, int columns) {
    for (int j = 0; j < columns; j++) {
        Total total = empty_total();
        add_sum(total, sum_of(p, positions, n, column + j));
        finish(at + j, total);
    }
}

DEVICE void keep_special(const SumParams& p, Partial* at, const u32* positions, u32 n, i64 column, int columns) {
    for (int j = 0; j < columns; j++) {
        Sum sum = sum_of(p, positions, n, column + j);
        at[j] = sum.special != 0 ? SPECIAL | sum.special : bits_of_double((double)sum.units * 0x1p-24);
    }
}

DEVICE Total begin_total(const Output*) { return empty_total(); }

DEVICE void add_partial(Total& t, Partial b) {
    if ((b & SPECIAL) == SPECIAL) t.special |= (u32)b;
    else add_sum(t, Sum{(i64)(double_of(b) * 0x1p24), 0, 0});
}

#else

// Terms of a chunk are added in ascending order from +0, and the chunks to the old value.
template <int N>
struct Sums {
    float value[N];

    DEVICE void clear() {
        UNROLL for (int j = 0; j < N; j++) value[j] = 0.0f;
    }

    DEVICE void add(const Stored<N>& s) {
        UNROLL for (int j = 0; j < N; j++) value[j] = value[j] + WIDEN_INPUT(pattern_at(s, j));
    }

    DEVICE bool finish(Output* at) const {
        u32 old[N], w[N];
        if (ACCUMULATE) load_result<N>(at, old);
        UNROLL for (int j = 0; j < N; j++) {
            u32 pattern = NARROW_OUTPUT(ACCUMULATE ? WIDEN_OUTPUT(old[j]) + value[j] : value[j]);
            if (sizeof(Output) == 4) w[j] = pattern;
            else w[j / 2] = j % 2 == 0 ? pattern : w[j / 2] | pattern << 16;
        }
        store<N>(at, w);
        return true;
    }

    DEVICE bool keep(Partial* at) const {
        UNROLL for (int j = 0; j < N; j++) at[j] = value[j];
        return true;
    }
};

DEVICE void finish_special(const SumParams&, Output*, const u32*, u32, i64, int) {}
DEVICE void keep_special(const SumParams&, Partial*, const u32*, u32, i64, int) {}

struct Total {
    float value;
};

DEVICE Total begin_total(const Output* at) { return Total{ACCUMULATE ? WIDEN_OUTPUT(OUTPUT_PATTERN(*at)) : 0.0f}; }
DEVICE void add_partial(Total& t, Partial b) { t.value = t.value + b; }
DEVICE void finish(Output* at, const Total& t) { *at = OUTPUT_OF(NARROW_OUTPUT(t.value)); }

#endif

// ---- adding ----

const int AHEAD = EXACT && ACCUMULATE && OUTPUT_IS_F16 ? 3 : 4; // rows in flight, as many as registers allow

// Prefetches rows of the list, and positions one step further ahead.
template <int N>
struct Reader {
    const u32* list;
    u32 n;
    const Input* in;
    i64 stride;
    u32 position[AHEAD];
    Stored<N> row[AHEAD];

    DEVICE void look(u32 t) {
        UNROLL for (int k = 0; k < AHEAD; k++)
            if (t + k < n) position[k] = list[t + k];
    }

    DEVICE void read(u32 t) {
        UNROLL for (int k = 0; k < AHEAD; k++)
            if (t + k < n) row[k] = load<N>(in + (i64)position[k] * stride);
        look(t + AHEAD);
    }
};

template <int N>
DEVICE void sum_chunks(const SumParams& p, u32 column) {
    u32 chunks = (u32)(p.counters->frequent >> 32);
    for (i64 c = (i64)blockIdx.x * blockDim.y + threadIdx.y; c < chunks; c += p.chunk_blocks * blockDim.y) {
        u32 row = p.chunk_rows[c];
        u32 n = p.counts[row] - (u32)(c - p.first[row]) * CHUNK;
        if (n > CHUNK) n = CHUNK;
        Reader<N> r{p.positions + p.queries + c * CHUNK, n, p.in + column, p.in_stride, {}, {}};
        Sums<N> sums;
        sums.clear();
        r.look(0);
        for (u32 t = 0; t < n; t += AHEAD) {
            r.read(t);
            UNROLL for (int k = 0; k < AHEAD; k++)
                if (t + k < n) sums.add(r.row[k]);
        }
        Partial* at = p.partial + c * p.partial_stride + column;
        if (!sums.keep(at)) keep_special(p, at, r.list, n, column, N);
    }
}

DEVICE Output* result_at(const SumParams& p, u32 row, u32 column) { return p.result + row * p.result_stride + column; }

// The list covers GROUP rows, so that the loads of short rows overlap.
template <int N>
DEVICE void sum_rows(const SumParams& p, u32 column) {
    u32 first_row = ((blockIdx.x - (u32)p.chunk_blocks) * blockDim.y + threadIdx.y) * GROUP;
    if (first_row >= p.rows) return;
    uint4_aligned counts = *reinterpret_cast<const uint4_aligned*>(p.counts + first_row);
    uint4_aligned firsts = *reinterpret_cast<const uint4_aligned*>(p.first + first_row);
    const u32 count[GROUP] = {counts.x, counts.y, counts.z, counts.w}, first[GROUP] = {firsts.x, firsts.y, firsts.z, firsts.w};
    u32 begin = 0, n = 0;
    u64 waiting = 0; // 16 bits per row: its number, and in the low byte its count
    UNROLL for (int i = GROUP - 1; i >= 0; i--) {
        if (count[i] == 0) {
            const u32 zeros[N] = {}; // at least as many words as are stored
            if (!ACCUMULATE && first_row + i < p.rows) store<N>(result_at(p, first_row + i, column), zeros);
        } else if (count[i] <= CHUNK) {
            waiting = waiting << 16 | (u32)i << 8 | count[i];
            begin = first[i];
            n += count[i];
        }
    }
    Reader<N> r{p.positions + begin, n, p.in + column, p.in_stride, {}, {}};
    Sums<N> sums;
    sums.clear();
    u32 end = (u32)waiting & 255u, special = 0;
    r.look(0);
    for (u32 t = 0; t < n; t += AHEAD) {
        r.read(t);
        UNROLL for (int k = 0; k < AHEAD; k++) {
            if (t + k >= n) continue;
            sums.add(r.row[k]);
            if (t + k + 1 != end) continue;
            u32 i = (u32)waiting >> 8 & 255u;
            if (!sums.finish(result_at(p, first_row + i, column))) special |= 1u << i;
            sums.clear();
            waiting >>= 16;
            end += (u32)waiting & 255u;
        }
    }
    for (int i = 0; special >> i != 0; i++)
        if (special >> i & 1u) finish_special(p, result_at(p, first_row + i, column), p.positions + p.first[first_row + i], p.counts[first_row + i], column, N);
}

template <int N>
DEVICE void sum(const SumParams& p) {
    if (IS_REFUSED(p.refused)) return;
    for (i64 column = ((i64)blockIdx.y * blockDim.x + threadIdx.x) * N; column < p.cols; column += (i64)gridDim.y * blockDim.x * N) {
        if (blockIdx.x < p.chunk_blocks) sum_chunks<N>(p, (u32)column);
        else sum_rows<N>(p, (u32)column);
    }
}

KERNEL_BLOCKS(ENTRY_SUM_VECTOR, 256, 3)(const SumParams p) { sum<VECTOR>(p); }

KERNEL(ENTRY_SUM_ELEMENT, 256)(const SumParams p) { sum<1>(p); }

KERNEL(ENTRY_COMBINE, 256)(const SumParams p) {
    if (IS_REFUSED(p.refused)) return;
    const u32 BATCH = 16; // chunks in flight
    u32 frequent = (u32)p.counters->frequent;
    for (u32 l = blockIdx.x; l < frequent; l += gridDim.x) {
        u32 row = p.frequent_rows[l];
        u32 chunks = (p.counts[row] + CHUNK - 1) / CHUNK;
        for (i64 column = (i64)blockIdx.y * blockDim.x + threadIdx.x; column < p.cols; column += (i64)gridDim.y * blockDim.x) {
            const Partial* from = p.partial + p.first[row] * p.partial_stride + column;
            Output* at = p.result + row * p.result_stride + column;
            Total total = begin_total(at);
            for (u32 c = 0; c < chunks; c += BATCH) {
                Partial b[BATCH];
                UNROLL for (u32 k = 0; k < BATCH; k++)
                    if (c + k < chunks) b[k] = from[(c + k) * p.partial_stride];
                UNROLL for (u32 k = 0; k < BATCH; k++)
                    if (c + k < chunks) add_partial(total, b[k]);
            }
            finish(at, total);
        }
    }
}
