// The orderings of rows: rank, rowkth and rownucleus
//
// Operands  x (rows, cols) as it is stored, rows strided; e (rows, cols) f32 and the results of orderings, without gaps between rows; k and p, one for all rows or one each
// Numerics  none: keys and masses are integers, whose sums do not depend on their order
// Schedule  a block per row, or a loop over rows

struct PREFIX_ordering_params {
    const void* x;
    i64 x_stride;
    const float* e;      // rownucleus: masses
    const float* k;      // rowkth: the patterns of int32; rownucleus: p
    i32* out;            // of each row one, or one per element
    u32* memory;         // rank of long rows: 4 * cols words for each block
    const i32* need;     // null, or 0 for rows whose result nothing reads
    const u64* refused;
    i64 k_step;          // 0 for a single k
    i64 out_stride;
    i64 rows;
    u32 cols, pad;
};

// The formats of x.
struct PREFIX_f16 {
    typedef f16 Stored;
    static DEVICE float load(const f16* at) { return load_f16(at); }
};

struct PREFIX_bf16 {
    typedef bf16 Stored;
    static DEVICE float load(const bf16* at) { return load_bf16(at); }
};

struct PREFIX_f32 {
    typedef f32 Stored;
    static DEVICE float load(const f32* at) { return *at; }
};

// rint(2^bits * x) for x clamped to [0, 1], bits below 32; NaN counts as 0. The product is exact.
DEVICE u64 PREFIX_share(float x, int bits) {
    if (!(x > 0.0f)) return 0;
    if (x >= 1.0f) return 1ull << bits;
    return (u32)round_to_integral(x * float_of((u32)(127 + bits) << 23));
}

// Ranks of short rows: each thread counts the keys before its own. ROWS rows share a block, each
// in its own part of keys.
template <class X>
DEVICE void PREFIX_rank_short(const PREFIX_ordering_params& p) {
    SHARED(u32, keys, 2048);
    u32 lanes = 32;
    while (lanes < p.cols && lanes < 256) lanes *= 2;
    const u32 per_block = 256 / lanes, slot = threadIdx.x / lanes, t = threadIdx.x % lanes;
    for (i64 first = (i64)blockIdx.x * per_block; first < p.rows; first += (i64)gridDim.x * per_block) {
        const i64 row = first + slot;
        const u32 columns = row < p.rows ? p.cols : 0;
        const auto* x = static_cast<const typename X::Stored*>(p.x) + row * p.x_stride;
        u32* own = keys + slot * p.cols;
        BARRIER(); // the keys of earlier rows have been read
        for (u32 c = t; c < columns; c += lanes) own[c] = order_key(X::load(x + c));
        BARRIER();
        for (u32 c = t; c < columns; c += lanes) {
            const u32 key = own[c];
            u32 rank = 0;
            for (u32 j = 0; j < c; j++) rank += own[j] <= key;
            for (u32 j = c + 1; j < columns; j++) rank += own[j] < key;
            p.out[row * p.cols + c] = (i32)rank;
        }
    }
}

// Ranks of long rows: a radix sort of (key, column) by four bits at a time. Each of 512 threads has a
// run of neighbours, so that the sort is stable.
template <class X>
DEVICE void PREFIX_rank_long(const PREFIX_ordering_params& p) {
    SHARED(u32, counts, 16 * 512);
    SHARED(u32, sums, 512);
    const u32 t = threadIdx.x, run = (p.cols + 511) / 512;
    const u32 begin = t * run < p.cols ? t * run : p.cols, end = begin + run < p.cols ? begin + run : p.cols;
    u32* key = p.memory + (i64)blockIdx.x * 4 * p.cols;
    u32* column = key + p.cols;
    u32* next_key = column + p.cols;
    u32* next_column = next_key + p.cols;
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        const auto* x = static_cast<const typename X::Stored*>(p.x) + row * p.x_stride;
        for (u32 c = begin; c < end; c++) {
            key[c] = order_key(X::load(x + c));
            column[c] = c;
        }
        for (u32 shift = 0; shift < 32; shift += 4) {
            for (u32 d = 0; d < 16; d++) counts[d * 512 + t] = 0;
            for (u32 i = begin; i < end; i++) counts[(key[i] >> shift & 15) * 512 + t]++;
            BARRIER();
            // The sums of all counts before each, in the order of digits, then of threads: here of 16
            // counts in a row, then of threads, and back.
            u32 sum = 0;
            for (u32 i = 0; i < 16; i++) {
                u32 count = counts[t * 16 + i];
                counts[t * 16 + i] = sum;
                sum += count;
            }
            sums[t] = sum;
            BARRIER();
            for (u32 step = 1; step < 512; step *= 2) {
                u32 before = t >= step ? sums[t - step] : 0;
                BARRIER();
                sums[t] += before;
                BARRIER();
            }
            for (u32 i = 0; i < 16; i++) counts[t * 16 + i] += sums[t] - sum;
            BARRIER();
            for (u32 i = begin; i < end; i++) {
                u32 to = counts[(key[i] >> shift & 15) * 512 + t]++;
                next_key[to] = key[i];
                next_column[to] = column[i];
            }
            BARRIER(); // a block sees what its threads have written
            u32* k = key;
            u32* c = column;
            key = next_key, column = next_column, next_key = k, next_column = c;
        }
        for (u32 i = t; i < p.cols; i += 512) p.out[row * p.cols + column[i]] = (i32)i;
        BARRIER();
    }
}

// What is known of the key and the column of an element: the bits in the masks.
struct PREFIX_known {
    u32 key_mask, key, column_mask, column;
};

// Calls f with key, column and mass of the elements of a row that have mass and of which that is known. Without
// masses e all have mass 1.
template <class X, class F>
DEVICE void PREFIX_each(const typename X::Stored* x, const float* e, u32 cols, PREFIX_known known, F f) {
    const u32 BATCH = 8, threads = blockDim.x;
    for (u32 first = threadIdx.x; first < cols; first += BATCH * threads) {
        u32 key[BATCH], mass[BATCH];
        UNROLL for (u32 i = 0; i < BATCH; i++) {
            const u32 c = first + i * threads;
            key[i] = order_key(c < cols ? X::load(x + c) : 0.0f);
            mass[i] = c < cols && (key[i] & known.key_mask) == known.key && (c & known.column_mask) == known.column ? 1 : 0;
        }
        if (e != nullptr) {
            float value[BATCH];
            UNROLL for (u32 i = 0; i < BATCH; i++) value[i] = mass[i] ? e[first + i * threads] : 0.0f;
            UNROLL for (u32 i = 0; i < BATCH; i++) mass[i] = (u32)PREFIX_share(value[i], 30);
        }
        UNROLL for (u32 i = 0; i < BATCH; i++)
            if (mass[i]) f(key[i], first + i * threads, mass[i]);
    }
}

// The column at which the masses of a row, in its order, reach a limit: a descent by digits of eleven
// bits, first of keys and then of columns. A pass over the row adds up the masses of each digit;
// once few elements are left, they are listed and compared with each other. For rowkth all masses are 1
// and the limit is k + 1.
template <bool HAS_MASS, class X>
DEVICE void PREFIX_select(const PREFIX_ordering_params& p) {
    const u32 BINS = 2048, MOST = 1024;
    SHARED(u32, low, BINS); // masses of digits, in two words: atomic additions of 64 bits are slow
    SHARED(u32, high, BINS);
    SHARED(u64, listed, MOST);
    SHARED(u32, listed_mass, MOST);
    SHARED(u64, parts, 32);
    SHARED(u64, chosen, 3); // the digit, the mass before it, its mass; or the result
    SHARED(u32, count, 1);
    const u32 t = threadIdx.x, threads = blockDim.x, lane = t % 32, warp = t / 32, warps = threads / 32;
    u32 run = BINS; // digits of a thread; threads are a power of two
    for (u32 n = threads; n > 1; n /= 2) run /= 2;
    u32 width = 0; // bits of a column
    while ((p.cols - 1) >> width) width++;
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        if (p.need != nullptr && p.need[row] == 0) {
            if (t == 0) p.out[row * p.out_stride] = 0;
            continue;
        }
        const auto* x = static_cast<const typename X::Stored*>(p.x) + row * p.x_stride;
        const float* e = HAS_MASS ? p.e + row * p.cols : nullptr;
        bool is_last = false; // the limit is all that is left
        u64 limit = 0;
        if (!HAS_MASS) {
            const i32 k = (i32)bits_of(p.k[row * p.k_step]);
            limit = k < 0 ? 1 : (u32)k >= p.cols ? p.cols : (u64)k + 1;
            is_last = limit == p.cols;
        }
        PREFIX_known known = {0, 0, 0, 0};
        u32 found = 0;
        bool is_first = true, is_key = true, is_listing = false;
        for (u32 bits = 32; bits > 0; is_first = false) { // that are not known, of keys or of columns
            if (is_last) {
                u32 last = 0, at = 0;
                PREFIX_each<X>(x, e, p.cols, known, [&](u32 key, u32 c, u32) {
                    if (key >= last) last = key, at = c;
                });
                const u64 order = threads_key<32>((u64)last << 32 | at);
                if (lane == 0) parts[warp] = order;
                BARRIER();
                found = (u32)threads_key<32>(lane < warps ? parts[lane] : 0);
                break;
            }
            const u32 next = bits > 11 ? bits - 11 : 0, digits = (1u << (bits - next)) - 1;
            for (u32 i = t; i < BINS; i += threads) low[i] = high[i] = 0;
            if (t == 0) count[0] = 0;
            BARRIER();
            u32 mine = 0; // elements that this thread has listed: two, then it gives up, as additions to one word wait for each other
            PREFIX_each<X>(x, e, p.cols, known, [&](u32 key, u32 c, u32 mass) {
                const u32 digit = (is_key ? key : c) >> next & digits;
                const u32 old = ATOMIC_ADD(&low[digit], mass);
                if (HAS_MASS && old + mass < old) ATOMIC_ADD(&high[digit], 1u);
                if (!is_listing || (HAS_MASS && mine > 2)) return;
                mine++;
                const u32 at = ATOMIC_ADD(&count[0], HAS_MASS && mine > 2 ? threads + 1 : 1u);
                if (at < threads) listed[at] = (u64)key << 32 | c, listed_mass[at] = mass;
            });
            BARRIER();
            if (is_listing && count[0] <= threads) {
                if (t < count[0]) {
                    const u64 own = listed[t];
                    u64 before = 0;
                    for (u32 i = 0; i < count[0]; i++) before += listed[i] < own ? listed_mass[i] : 0;
                    if (before < limit && limit <= before + listed_mass[t]) chosen[0] = own;
                }
                BARRIER();
                found = (u32)chosen[0];
                break;
            }
            // The digit at which the sums of masses reach the limit: each thread has neighbouring digits.
            u64 own = 0;
            for (u32 i = t * run; i < (t + 1) * run; i++) own += (u64)high[i] << 32 | low[i];
            u64 before = own;
            UNROLL for (u32 d = 1; d < 32; d *= 2) {
                const u64 other = SHFL_UP(before, d, 32);
                before += lane >= d ? other : 0;
            }
            if (lane == 31) parts[warp] = before;
            BARRIER();
            before -= own;
            u64 total = 0;
            for (u32 i = 0; i < warps; i++) {
                before += i < warp ? parts[i] : 0;
                total += parts[i];
            }
            if (HAS_MASS && is_first) {
                const u64 share = PREFIX_share(p.k[row * p.k_step], 31);
                limit = (total >> 31) * share + ((total & 0x7fffffffu) * share >> 31);
                if (limit == 0) limit = 1;
                if (total == 0) e = nullptr; // all are kept
                is_last = total == 0 || limit == total;
                if (is_last) {
                    BARRIER(); // all threads have read parts
                    continue;
                }
            }
            if (before < limit && limit <= before + own) {
                u32 digit = t * run;
                u64 mass;
                for (; mass = (u64)high[digit] << 32 | low[digit], before + mass < limit; digit++) before += mass;
                chosen[0] = digit, chosen[1] = before, chosen[2] = mass;
            }
            BARRIER();
            if (is_key) known.key_mask |= digits << next, known.key |= (u32)chosen[0] << next;
            else known.column_mask |= digits << next, known.column |= (u32)chosen[0] << next;
            limit -= chosen[1];
            is_last = limit == chosen[2];
            is_listing = HAS_MASS || chosen[2] <= threads; // which is the number of elements, without masses
            bits = next;
            if (bits == 0 && is_key) is_key = false, bits = width;
            found = known.column;
        }
        if (t == 0) p.out[row * p.out_stride] = (i32)found;
        BARRIER(); // all threads have read what the next row overwrites
    }
}
