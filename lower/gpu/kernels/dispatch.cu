// dispatch.forward/cuda.dispatch
// row r of the choices i = t*S+s, sorted by (index[i], i)        a stable counting sort, digit by digit
//
// Operands  index (tokens, choices) i32; counts (experts), offsets (experts + 1), source, slot and place
//           (tokens, choices) i32; all strided
// Numerics  integers. A bad index counts as one more expert, the last, whose rows and places are -1.
// Schedule  for each digit of the experts, the lowest first; one digit holds up to 511 experts:
//           1. count  the digits of a block's choices
//           2. scan   for each digit, the counts of the blocks; one block a digit
//           3. place  a choice goes behind those of lower digits, of earlier blocks, and of earlier choices
//           4. bounds the offsets by bisection, if there are several digits; otherwise place knows them
//           Atomic additions count, and nothing depends on their order.
// Requires  fewer than 2^31 choices and experts

const int THREADS = 256;
const int MOST_BINS = 512;
const u32 NONE = ~0u;

struct Params {
    const i32* index;
    const u32* from; // the choices in the order of the lower digits; null for the first digit
    u32* to;         // in that of this one; null for the last digit
    u32* histogram;  // [bins][blocks]
    u32* totals;     // [bins]
    i32* counts;
    i32* offsets;
    i32* source;
    i32* slot;
    i32* place;
    const u64* refused;
    i64 index_stride, counts_stride, offsets_stride, source_stride, slot_stride, place_stride;
    i64 choices, columns, experts; // all choices, and those of a token
    i64 blocks, rounds;            // rounds of THREADS choices a block
    i64 shift, bins, digits;       // of the digit, and how many there are
};

DEVICE i64 at(const Params& p, u32 i, i64 stride) {
    if (stride == p.columns) return i;
    u32 columns = (u32)p.columns;
    return (i64)(i / columns) * stride + i % columns;
}

// Returns the expert of a choice.
DEVICE u32 expert_of(const Params& p, u32 i) {
    u32 e = (u32)p.index[at(p, i, p.index_stride)];
    return e < (u32)p.experts ? e : (u32)p.experts;
}

// Returns choice number n in the order so far, or NONE after the last.
DEVICE u32 choice_at(const Params& p, i64 n) {
    if (n >= p.choices) return NONE;
    return p.from != nullptr ? p.from[n] : (u32)n;
}

DEVICE u32 digit_of(const Params& p, u32 expert) { return expert >> p.shift & ((u32)p.bins - 1); }

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

KERNEL(ENTRY_COUNT, 256)(const Params p) {
    SHARED(u32, bins, MOST_BINS);
    if (IS_REFUSED(p.refused)) return;
    for (i64 b = threadIdx.x; b < p.bins; b += THREADS) bins[b] = 0;
    BARRIER(); // all bins are clear
    i64 first = (i64)blockIdx.x * p.rounds * THREADS + threadIdx.x;
    for (i64 round = 0; round < p.rounds; round++) {
        u32 i = choice_at(p, first + round * THREADS);
        if (i != NONE) ATOMIC_ADD(&bins[digit_of(p, expert_of(p, i))], 1u);
    }
    BARRIER(); // all choices are counted
    for (i64 b = threadIdx.x; b < p.bins; b += THREADS) p.histogram[b * p.blocks + blockIdx.x] = bins[b];
}

KERNEL(ENTRY_SCAN, 256)(const Params p) {
    SHARED(u32, sums, THREADS);
    if (IS_REFUSED(p.refused)) return;
    u32* counts = p.histogram + (i64)blockIdx.x * p.blocks;
    i64 own = (p.blocks + THREADS - 1) / THREADS, begin = threadIdx.x * own, end = begin + own;
    if (end > p.blocks) end = p.blocks;
    u32 sum = 0;
    for (i64 b = begin; b < end; b++) sum += counts[b];
    u32 before = scan_block(sum, sums);
    if (threadIdx.x == THREADS - 1) p.totals[blockIdx.x] = before + sum;
    for (i64 b = begin; b < end; b++) {
        u32 n = counts[b];
        counts[b] = before;
        before += n;
    }
}

// Returns how many of the first n keys, four to a quad, are equal to a key.
DEVICE u32 equal_before(const uint4_aligned* keys, u32 n, u32 key) {
    u32 equal = 0;
    for (u32 i = 0; i < n; i += 4) {
        uint4_aligned k = keys[i / 4];
        equal += (k.x == key) + (i + 1 < n && k.y == key) + (i + 2 < n && k.z == key) + (i + 3 < n && k.w == key);
    }
    return equal;
}

KERNEL(ENTRY_PLACE, 256)(const Params p) {
    SHARED(u32, next, MOST_BINS); // the row of a digit's next choice
    SHARED(u32, sums, THREADS);
    SHARED(uint4_aligned, quads, THREADS / 4);
    if (IS_REFUSED(p.refused)) return;
    u32* keys = reinterpret_cast<u32*>(quads);
    bool is_last = p.to == nullptr;
    // A thread has two neighbouring digits.
    u32 total[2];
    UNROLL for (int k = 0; k < 2; k++) total[k] = 2 * threadIdx.x + k < p.bins ? p.totals[2 * threadIdx.x + k] : 0;
    u32 before = scan_block(total[0] + total[1], sums);
    UNROLL for (int k = 0; k < 2; k++) {
        u32 d = 2 * threadIdx.x + k;
        if (d < p.bins) next[d] = before + p.histogram[d * p.blocks + blockIdx.x];
        if (blockIdx.x == 0 && p.digits == 1) {
            if (d < p.experts) p.counts[d * p.counts_stride] = (i32)total[k];
            if (d <= p.experts) p.offsets[d * p.offsets_stride] = (i32)before;
        }
        before += total[k];
    }
    i64 first = (i64)blockIdx.x * p.rounds * THREADS + threadIdx.x;
    for (i64 round = 0; round < p.rounds; round++) {
        u32 i = choice_at(p, first + round * THREADS);
        u32 expert = i != NONE ? expert_of(p, i) : 0, digit = digit_of(p, expert);
        keys[threadIdx.x] = i != NONE ? digit : NONE;
        BARRIER(); // the keys of this round are written, and next has counted those before
        u32 r = next[digit] + equal_before(quads, threadIdx.x, digit);
        BARRIER(); // all threads have read next and keys
        if (i == NONE) continue;
        ATOMIC_ADD(&next[digit], 1u);
        if (!is_last) {
            p.to[r] = i;
            continue;
        }
        bool is_bad = expert == (u32)p.experts;
        p.source[at(p, r, p.source_stride)] = is_bad ? -1 : (i32)(i / (u32)p.columns);
        p.slot[at(p, r, p.slot_stride)] = is_bad ? -1 : (i32)i;
        p.place[at(p, i, p.place_stride)] = is_bad ? -1 : (i32)r;
    }
}

// Returns how many rows have an expert below e.
DEVICE i64 rows_below(const Params& p, i64 e) {
    i64 low = 0, high = p.choices;
    while (low < high) {
        i64 middle = (low + high) / 2;
        i32 i = p.slot[at(p, (u32)middle, p.slot_stride)];
        if (i >= 0 && (i64)expert_of(p, (u32)i) < e) low = middle + 1;
        else high = middle;
    }
    return low;
}

KERNEL(ENTRY_BOUNDS, 256)(const Params p) {
    if (IS_REFUSED(p.refused)) return;
    for (i64 e = (i64)blockIdx.x * THREADS + threadIdx.x; e <= p.experts; e += (i64)gridDim.x * THREADS) {
        i64 begin = rows_below(p, e);
        p.offsets[e * p.offsets_stride] = (i32)begin;
        if (e < p.experts) p.counts[e * p.counts_stride] = (i32)(rows_below(p, e + 1) - begin);
    }
}
