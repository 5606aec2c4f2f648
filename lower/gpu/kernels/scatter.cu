// Sums of rows by index, in three steps:
//  1. the queries are sorted by index, stably: a radix sort, eight bits a pass, each
//     pass of three kernels (count, scan, place);
//  2. bounds finds where the queries of each row of the result begin;
//  3. sum adds the rows of every index that occurs at most CHUNK times, long those
//     that occur more often.
// Nothing depends on the order in which blocks run: the only atomic operations count.

struct SortParams {
    const i32* index;     // in the first pass: the keys; else null
    const u32* keys;      // in later passes
    const u32* positions; // of the keys among the queries
    u32* sorted_keys;
    u32* sorted_positions;
    u32* counts; // [blocks][256]: digits of a block's tile
    u32* begins; // [256]: where a digit begins among all queries
    i64 index_stride;
    i64 queries, rows;
    i64 blocks;
    i32 shift, unused;
};

struct BoundsParams {
    const u32* keys;
    u32* first; // [rows+1]: where the queries of a row begin
    i64 queries, rows;
};

struct SumParams {
    const u32* positions;
    const u32* first;
    const Input* in;
    Output* result;
    const u64* refused;
    i64 in_stride, result_stride;
    i64 rows, cols;
};

// ---- sorting ----

const int TILE = 1024; // queries a block sorts
const int THREADS = 256;
const int OWN = TILE / THREADS;

// An index without a row comes after all others.
DEVICE u32 key_at(const SortParams& p, i64 q) {
    if (p.index == nullptr) return p.keys[q];
    i32 v = p.index[q * p.index_stride];
    return v >= 0 && v < p.rows ? (u32)v : (u32)p.rows;
}

KERNEL(ENTRY_COUNT, 256)(const SortParams p) {
    SHARED(u32, count, 256);
    count[threadIdx.x] = 0;
    BARRIER();
    for (int i = 0; i < OWN; i++) {
        i64 q = (i64)blockIdx.x * TILE + i * THREADS + threadIdx.x;
        if (q < p.queries) ATOMIC_ADD(&count[key_at(p, q) >> p.shift & 255u], 1u);
    }
    BARRIER();
    p.counts[(i64)blockIdx.x * 256 + threadIdx.x] = count[threadIdx.x];
}

// The sum of all earlier threads' values.
DEVICE u32 scan_block(u32 value, u32* sums) {
    int t = threadIdx.x;
    sums[t] = value;
    BARRIER();
    for (int d = 1; d < THREADS; d *= 2) {
        u32 earlier = t >= d ? sums[t - d] : 0;
        BARRIER();
        sums[t] += earlier;
        BARRIER();
    }
    return sums[t] - value;
}

// One block, a thread for each digit: counts become the sums of all earlier tiles'.
KERNEL(ENTRY_SCAN, 256)(const SortParams p) {
    SHARED(u32, sums, 256);
    const int AHEAD = 8; // loads on their way at once
    u32 before = 0;
    for (i64 first = 0; first < p.blocks; first += AHEAD) {
        u32 n[AHEAD];
        UNROLL for (int i = 0; i < AHEAD; i++) n[i] = first + i < p.blocks ? p.counts[(first + i) * 256 + threadIdx.x] : 0;
        UNROLL for (int i = 0; i < AHEAD; i++) {
            if (first + i < p.blocks) p.counts[(first + i) * 256 + threadIdx.x] = before;
            before += n[i];
        }
    }
    p.begins[threadIdx.x] = scan_block(before, sums);
}

// Sorts a tile stably by four bits of its keys. counters are [16][THREADS]: how often
// a digit occurs among a thread's own, neighbouring, items; their sums in this order
// are where the items go.
DEVICE void sort_tile(u32* keys, u32* positions, u32* counters, u32* sums, int shift) {
    int t = threadIdx.x;
    u32 key[OWN], position[OWN];
    for (int d = 0; d < 16; d++) counters[d * THREADS + t] = 0;
    for (int i = 0; i < OWN; i++) {
        key[i] = keys[t * OWN + i];
        position[i] = positions[t * OWN + i];
        counters[(key[i] >> shift & 15u) * THREADS + t]++;
    }
    BARRIER();
    u32 sum = 0;
    for (int d = 0; d < 16; d++) sum += counters[t * 16 + d];
    u32 before = scan_block(sum, sums);
    for (int d = 0; d < 16; d++) {
        u32 n = counters[t * 16 + d];
        counters[t * 16 + d] = before;
        before += n;
    }
    BARRIER();
    for (int i = 0; i < OWN; i++) {
        u32 to = counters[(key[i] >> shift & 15u) * THREADS + t]++;
        keys[to] = key[i];
        positions[to] = position[i];
    }
    BARRIER();
}

KERNEL(ENTRY_PLACE, 256)(const SortParams p) {
    SHARED(u32, keys, TILE);
    SHARED(u32, positions, TILE);
    SHARED(u32, counters, 16 * THREADS);
    SHARED(u32, sums, 256);
    SHARED(u32, begin, 257); // of each digit within the tile
    int t = threadIdx.x;
    i64 first = (i64)blockIdx.x * TILE;
    int n = p.queries - first < TILE ? (int)(p.queries - first) : TILE;
    for (int i = t; i < TILE; i += THREADS) {
        keys[i] = i < n ? key_at(p, first + i) : ~0u; // what is missing stays at the end
        positions[i] = i >= n ? 0u : p.index == nullptr ? p.positions[first + i] : (u32)(first + i);
    }
    BARRIER();
    sort_tile(keys, positions, counters, sums, p.shift);
    sort_tile(keys, positions, counters, sums, p.shift + 4);

    counters[t] = p.begins[t] + p.counts[(i64)blockIdx.x * 256 + t]; // where the tile's digits go
    for (int i = t; i < n; i += THREADS) {
        u32 digit = keys[i] >> p.shift & 255u;
        if (i == 0 || (keys[i - 1] >> p.shift & 255u) != digit) begin[digit] = i;
    }
    BARRIER();
    for (int i = t; i < n; i += THREADS) {
        u32 digit = keys[i] >> p.shift & 255u;
        u32 to = counters[digit] + i - begin[digit];
        p.sorted_keys[to] = keys[i];
        p.sorted_positions[to] = positions[i];
    }
}

KERNEL(ENTRY_BOUNDS, 256)(const BoundsParams p) {
    i64 v = (i64)blockIdx.x * 256 + threadIdx.x;
    if (v > p.rows) return;
    i64 low = 0, high = p.queries; // keys before low are less than v, those from high on are not
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (p.keys[middle] < (u32)v) low = middle + 1;
        else high = middle;
    }
    p.first[v] = (u32)low;
}

// ---- adding ----

const int CHUNK = 64;

#if EXACT

// binary16 values are integers in units of 2^-24, each below 2^40, so that a chunk's
// sum fits 64 bits, and a sum of 2^32 values 128.
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

// n is below 128.
DEVICE Wide shifted_left(Wide a, int n) {
    if (n >= 64) return Wide{a.low << (n - 64), 0};
    return n == 0 ? a : Wide{a.high << n | a.low >> (64 - n), a.low << n};
}

DEVICE Wide shifted_right(Wide a, int n) {
    if (n >= 64) return Wide{0, a.high >> (n - 64)};
    return n == 0 ? a : Wide{a.high >> n, a.low >> n | a.high << (64 - n)};
}

// What is shifted out leaves its trace in the last bit.
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

// The pattern nearest to ±a·2^e: FRACTION stored bits, the last of the smallest worth
// 2^LEAST. Zero is +0.
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
        // Two bits more than are kept: the next one, and whether anything follows.
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

// The old value, a pattern of Output, is one more exact term; then the one rounding.
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
            // Both in units of 2^unit, so small that the larger term is whole. Of the smaller,
            // what lies below leaves a trace: the sum has far more bits than are kept.
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

#else // a chunk is added in ascending order from +0, and the chunks to the old value

struct Sum {
    float value;
};

struct Total {
    float value;
};

DEVICE Sum empty_sum() { return Sum{0.0f}; }
DEVICE void add_term(Sum& s, float x) { s.value = s.value + x; }

#endif

// One column of the group that a thread owns: a pattern of binary16, or a value.
#if EXACT
#define TERM(GROUP, J) (GROUP.w[(J) >> 1] >> 16 * ((J) & 1) & 0xffffu)
#else
#define TERM(GROUP, J) GET(GROUP, J)
#endif

// add_rows adds the rows of queries begin to end to N columns, in order.
template <int N>
DEVICE void add_rows(Sum* sum, const SumParams& p, u32 begin, u32 end, i64 column, int n) {
    const int AHEAD = EXACT && ACCUMULATE ? 2 : 4; // rows on their way at once, as far as registers allow
    for (u32 i = begin; i < end; i += AHEAD) {
        InputGroup g[AHEAD];
        UNROLL for (int k = 0; k < AHEAD; k++) {
            if (i + k < end) {
                const Input* at = p.in + (i64)p.positions[i + k] * p.in_stride + column;
                g[k] = N == 8 ? FETCH_VECTOR(at, n) : FETCH(at, n);
            }
        }
        UNROLL for (int k = 0; k < AHEAD; k++) {
            if (i + k < end) {
                UNROLL for (int j = 0; j < N; j++) add_term(sum[j], TERM(g[k], j));
            }
        }
    }
}

template <int N>
DEVICE int columns_from(const SumParams& p, i64 column) {
    return column >= p.cols ? 0 : p.cols - column < N ? (int)(p.cols - column) : N;
}

#if EXACT
DEVICE Total begin_total(const Output*, bool) { return empty_total(); }
DEVICE void store_total(Output* at, const Total& t) { finish(at, t); }
#else
DEVICE void add_sum(Total& t, const Sum& s) { t.value = t.value + s.value; }
DEVICE Total begin_total(const Output* at, bool exists) { return Total{ACCUMULATE && exists ? LOAD_OUTPUT(at) : 0.0f}; }
DEVICE void store_total(Output* at, const Total& t) { STORE_OUTPUT(at, t.value); }
#endif

// Rows whose index occurs at most CHUNK times: a thread adds N columns.
template <int N>
DEVICE void sum_short(const SumParams& p) {
    i64 row = (i64)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= p.rows) return;
    u32 begin = p.first[row], end = p.first[row + 1];
    if (IS_REFUSED(p.refused)) return;
    if (end - begin > CHUNK || (ACCUMULATE && begin == end)) return;
    for (i64 column = (i64)threadIdx.x * N; column < p.cols; column += (i64)blockDim.x * N) {
        int n = columns_from<N>(p, column);
        Sum sum[N];
        UNROLL for (int j = 0; j < N; j++) sum[j] = empty_sum();
        add_rows<N>(sum, p, begin, end, column, n);
        Output* at = p.result + row * p.result_stride + column;
        UNROLL for (int j = 0; j < N; j++) {
            if (j >= n) continue;
            Total total = begin_total(at + j, true);
            add_sum(total, sum[j]);
            store_total(at + j, total);
        }
    }
}

// Rows whose index occurs more often: each of eight teams of 32 threads adds a chunk;
// then the first team adds the eight sums in ascending order.
template <int N>
DEVICE void sum_long(const SumParams& p) {
    const int TEAM = 32, TEAMS = 8;
    SHARED(Sum, sums, TEAM * TEAMS * N);
    if (IS_REFUSED(p.refused)) return;
    int lane = threadIdx.x % TEAM, team = threadIdx.x / TEAM;
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        u32 begin = p.first[row], end = p.first[row + 1];
        if (end - begin <= CHUNK) continue;
        for (i64 first = (i64)blockIdx.y * TEAM * N; first < p.cols; first += (i64)gridDim.y * TEAM * N) {
            i64 column = first + lane * N;
            int n = columns_from<N>(p, column);
            Output* at = p.result + row * p.result_stride + column;
            Total total[N];
            UNROLL for (int j = 0; j < N; j++) total[j] = begin_total(at + j, j < n);
            for (u32 round = begin; round < end; round += TEAMS * CHUNK) {
                u32 from = round + team * CHUNK, to = from + CHUNK < end ? from + CHUNK : end;
                Sum sum[N];
                UNROLL for (int j = 0; j < N; j++) sum[j] = empty_sum();
                if (n > 0 && from < end) add_rows<N>(sum, p, from, to, column, n);
                UNROLL for (int j = 0; j < N; j++) sums[(team * N + j) * TEAM + lane] = sum[j];
                BARRIER();
                if (team == 0) {
                    for (int k = 0; k < TEAMS && round + k * CHUNK < end; k++) {
                        UNROLL for (int j = 0; j < N; j++) add_sum(total[j], sums[(k * N + j) * TEAM + lane]);
                    }
                }
                BARRIER();
            }
            UNROLL for (int j = 0; j < N; j++)
                if (team == 0 && j < n) store_total(at + j, total[j]);
        }
    }
}

KERNEL(ENTRY_SUM_VECTOR, 256)(const SumParams p) { sum_short<8>(p); }

KERNEL(ENTRY_SUM_ELEMENT, 256)(const SumParams p) { sum_short<1>(p); }

KERNEL(ENTRY_LONG_VECTOR, 256)(const SumParams p) { sum_long<8>(p); }

KERNEL(ENTRY_LONG_ELEMENT, 256)(const SumParams p) { sum_long<1>(p); }
