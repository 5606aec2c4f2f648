// */cuda.mma: gradients of streams on tensor cores
// dk[s,g,:], dv[s,g,:] from the queries that see a key, and dq[t,g,j,:] from the keys that a query sees
//
// Operands  as kernels/weigh_backward.cu, in f16 or bf16; rows at any stride, and with ANY_ADDRESS at any address
// Numerics  rule weigh.backward of the definition: all sums of products are chains of mma.sync m16n8k16, ascending. Zeros fill a
//           row up to DEPTH and a block up to its size. Weights and slopes of pairs that do not see each other are +0, and where a
//           factor that they meet is not finite, each row is multiplied alone.
// Schedule  for dk and dv a block has 128 keys, a warp 16 of them, and tiles of 64 queries come by; for dq it has 128
//           queries, and blocks of keys come by in halves of 64. Either way scores and their gradients are accumulators
//           that become left operands as they are, and what comes by is copied one tile ahead.
//           Sums over heads and segments of queries lie in memory between them.
// Requires  sm_80, tensorcore.h; depth <= DEPTH

const int WARPS = OWN / 16, THREADS = WARPS * 32;

// What there is of one side, rows of keys or of places of queries: two matrices that are multiplied together.
struct Side {
    const Element *left, *right;
    i64 left_stride, right_stride;
    int low, high; // rows outside are zeros
};

DEVICE Side keys_of(const Params& p, const Tile& t) {
    return Side{p.k + (i64)t.first_key * p.k_token + t.group * p.k_group, p.v + (i64)t.first_key * p.v_token + t.group * p.v_group,
                p.k_token, p.v_token, 0, t.keys};
}

DEVICE Side queries_of(const Params& p, const Tile& t) {
    return Side{p.q + (i64)(t.first_query - t.place) * p.q_token + t.group * p.q_group + t.shared * p.q_head,
                p.d_o + (i64)(t.first_query - t.place) * p.d_o_token + t.group * p.d_o_group + t.shared * p.d_o_head,
                p.q_token, p.d_o_token, t.place, t.keys};
}

template <int DEPTH, bool ANY_ADDRESS, bool OF_KEYS>
struct Puller {
    static const int STEPS = DEPTH / 16, COLUMNS = DEPTH / 8; // along the depth; of eight
    static const int PAIRS = DEPTH > 64 ? 2 : 4;              // of eight of what comes by, at once: as registers allow
    typedef SharedRows<DEPTH, THREADS> Rows;
    static const int PITCH = Rows::PITCH, OWN_BYTES = OWN * PITCH, SLOT = OTHERS * PITCH;

    const Params& p;
    Tile& t;
    const int lane, warp, row, column; // the lane's first row in the warp's 16, and its columns of eight, two neighbours
    u32 base, others;                  // addresses in shared memory
    float* numbers;                    // of queries: lse and delta
    float s[PAIRS * 2][4], g[PAIRS * 2][4];
    float left[COLUMNS][4], right[COLUMNS][4]; // dk and dv; or the chain and the sum of dq

    DEVICE Puller(const Params& p, Tile& t)
        : p(p), t(t), lane(threadIdx.x % 32), warp(threadIdx.x / 32), row(lane / 4), column(lane % 4 * 2) {
        SHARED_DYN(unsigned char, memory);
        base = shared_address(memory);
        others = base + 2 * OWN_BYTES;
        numbers = reinterpret_cast<float*>(memory + 2 * OWN_BYTES + 4 * SLOT);
        clear(left);
        clear(right);
    }

    static DEVICE void clear(float (&x)[COLUMNS][4]) {
        UNROLL for (int n = 0; n < COLUMNS; n++) UNROLL for (int e = 0; e < 4; e++) x[n][e] = 0.0f;
    }

    // Begins to copy rows of a side from `first` on, and zeros for those that are not there.
    template <int ALL>
    DEVICE void copy_side(u32 to, const Side& s, int first) const {
        auto copy = [&](u32 to, const Element* from, i64 stride) {
            Rows::template copy<ALL, ANY_ADDRESS>(to, (int)p.depth, p.k, [&](int row) {
                return first + row >= s.low && first + row < s.high ? from + (first + row) * stride : nullptr;
            });
        };
        copy(to, s.left, s.left_stride);
        copy(to + ALL * PITCH, s.right, s.right_stride);
    }

    // Reads lse and delta of queries from a place on.
    DEVICE void copy_numbers(float* to, int first, int count) const {
        for (int i = threadIdx.x; i < count; i += THREADS) read_numbers(p, t, first + i, to[i], to[count + i]);
    }

    // x = the products of the warp's own rows and those that have come by.
    DEVICE void multiply(float (&x)[PAIRS * 2][4], u32 own_at, u32 others_at) const {
        const u32 mine = Rows::place(warp * 16 + lane % 16, lane / 16), theirs = Rows::place(lane % 8 + lane / 16 * 8, lane / 8 % 2);
        UNROLL for (int n = 0; n < PAIRS * 2; n++) UNROLL for (int e = 0; e < 4; e++) x[n][e] = 0.0f;
        ROLLED for (int k = 0; k < STEPS; k++) { // unrolled it needs more registers than there are
            u32 a[4];
            load_matrix_4(a, own_at + (mine ^ k * 32));
            UNROLL for (int n = 0; n < PAIRS; n++) {
                u32 w[4];
                load_matrix_4(w, others_at + (theirs ^ k * 32) + n * 16 * PITCH);
                u32 low[2] = {w[0], w[1]}, high[2] = {w[2], w[3]};
                MULTIPLY_ADD(x[n * 2], a, low);
                MULTIPLY_ADD(x[n * 2 + 1], a, high);
            }
        }
    }

    // Adds to x the products of factors of pairs, rounded, and the rows that have come by, from `first` on.
    template <bool IS_CLEAR>
    DEVICE void add(float (&x)[COLUMNS][4], const float (&factors)[PAIRS * 2][4], u32 others_at, int first) const {
        auto sees = [&](int r, int other) {
            float exponent, slope;
            const int mine = t.first + warp * 16 + r;
            return look_at(p, t, OF_KEYS ? other : mine, OF_KEYS ? mine : other, 0.0f, exponent, slope);
        };
        const u32 theirs = others_at + Rows::place(lane % 16, lane / 16);
        UNROLL for (int k = 0; k < PAIRS; k++) {
            u32 a[4];
            UNROLL for (int i = 0; i < 4; i++) a[i] = NARROW_PAIR(factors[k * 2 + i / 2][i % 2 * 2], factors[k * 2 + i / 2][i % 2 * 2 + 1]);
            UNROLL for (int n = 0; n < COLUMNS; n += 2) {
                u32 w[4];
                load_matrix_4_transposed(w, (theirs ^ n * 16) + k * 16 * PITCH);
                if (!IS_CLEAR && in_any_lane((not_finite(w[0]) | not_finite(w[1]) | not_finite(w[2]) | not_finite(w[3])) != 0)) {
                    multiply_rows(sees, first + k * 16, a, w, x[n], x[n + 1]);
                    continue;
                }
                u32 low[2] = {w[0], w[1]}, high[2] = {w[2], w[3]};
                MULTIPLY_ADD(x[n], a, low);
                MULTIPLY_ADD(x[n + 1], a, high);
            }
        }
    }

    // Takes what has come by, rows from `first` on, whose numbers, or those of the own rows, are at `of`. IS_CLEAR: every pair is visible.
    template <bool IS_CLEAR>
    DEVICE void take(u32 slot, int first, const float* of, int count) {
        ROLLED for (int i = 0; i < OTHERS; i += PAIRS * 16)
            take_part<IS_CLEAR>(others + slot * 2 * SLOT + i * PITCH, first + i, of + (OF_KEYS ? i : 0), count);
    }

    template <bool IS_CLEAR>
    DEVICE void take_part(u32 left_at, int first, const float* of, int count) {
        const u32 right_at = left_at + SLOT;
        u32 hidden = 0;
        float slopes[HAS_SLOPE ? PAIRS * 2 : 1][4];
        multiply(s, base, left_at);
        UNROLL for (int n = 0; n < PAIRS * 2; n++)
            UNROLL for (int e = 0; e < 4; e++) {
                const int mine = warp * 16 + row + e / 2 * 8, theirs = n * 8 + column + e % 2;
                float exponent, slope;
                const bool is_visible = look_at(p, t, OF_KEYS ? first + theirs : t.first + mine, OF_KEYS ? t.first + mine : first + theirs, s[n][e], exponent, slope);
                s[n][e] = IS_CLEAR || is_visible ? power(exponent - of[OF_KEYS ? theirs : mine]) : 0.0f;
                if (!IS_CLEAR && !is_visible) hidden |= 1u << (n * 4 + e);
                if (HAS_SLOPE) slopes[n][e] = slope;
            }
        if (OF_KEYS) add<IS_CLEAR>(right, s, right_at, first);
        multiply(g, base + OWN_BYTES, right_at);
        UNROLL for (int n = 0; n < PAIRS * 2; n++)
            UNROLL for (int e = 0; e < 4; e++) {
                const int mine = warp * 16 + row + e / 2 * 8, theirs = n * 8 + column + e % 2;
                float x = s[n][e] * (g[n][e] - of[count + (OF_KEYS ? theirs : mine)]);
                if (HAS_SLOPE) x = x * slopes[n][e];
                s[n][e] = hidden >> (n * 4 + e) & 1u ? 0.0f : x;
            }
        add<IS_CLEAR>(left, s, left_at, first);
    }

    DEVICE void store(const float (&x)[COLUMNS][4], Element* to, i64 stride, int low, int high, float scale) const {
        store_sums<DEPTH, ANY_ADDRESS>(p, t.first + warp * 16 + row, to, stride, low, high, scale, [&](int n, int e) { return x[n][e]; });
    }
};

template <int DEPTH, bool ANY_ADDRESS>
DEVICE void pull_keys(const Backward& f) {
    const Params& p = f.p;
    typedef Puller<DEPTH, ANY_ADDRESS, true> P;
    Tile t;
    const int groups = (int)p.groups;
    if (IS_REFUSED(p.refused) || !find<true>(p, t, blockIdx.x / groups)) return; // the whole block
    t.group = blockIdx.x % groups;
    P w(p, t);
    auto total = [&](int n) { // where four sums of a thread lie
        return reinterpret_cast<Quad*>(f.sums) + ((i64)blockIdx.x * (2 * P::COLUMNS) + n) * THREADS + threadIdx.x;
    };
    bool has_total = false;
    const Side own = keys_of(p, t);
    w.template copy_side<OWN>(w.base, own, t.first);
    Visit v = next_visit(p, t, Visit{0, round_down(t.place, OTHERS)});
    if (v.head < (int)p.shared) {
        w.template copy_side<OTHERS>(w.others, queries_of(p, t), v.first);
        w.copy_numbers(w.numbers, v.first, OTHERS);
    }
    copy_async_commit();
    const int first = t.first + w.warp * 16;
    ROLLED for (int slot = 0; v.head < (int)p.shared; slot ^= 1) {
        copy_async_wait<0>();
        BARRIER(); // these queries have arrived, and nobody reads those before
        const Visit next = next_visit(p, t, Visit{v.head, v.first + OTHERS});
        if (next.head < (int)p.shared) {
            w.template copy_side<OTHERS>(w.others + (slot ^ 1) * 2 * P::SLOT, queries_of(p, t), next.first);
            w.copy_numbers(w.numbers + (slot ^ 1) * 2 * OTHERS, next.first, OTHERS);
        }
        copy_async_commit();
        choose_head(p, t, v.head);
        const int sight = first < t.keys ? seen(p, t, v.first, v.first + OTHERS, first, first + 16) : 0;
        if (sight == 2) w.template take<true>(slot, v.first, w.numbers + slot * 2 * OTHERS, OTHERS);
        else if (sight == 1) w.template take<false>(slot, v.first, w.numbers + slot * 2 * OTHERS, OTHERS);
        if (next.head < (int)p.shared && (next.head != v.head || round_down(next.first, SEGMENT) != round_down(v.first, SEGMENT))) {
            UNROLL for (int n = 0; n < P::COLUMNS; n++) {
                add_to(total(n), has_total, w.left[n]);
                add_to(total(P::COLUMNS + n), has_total, w.right[n]);
            }
            P::clear(w.left);
            P::clear(w.right);
            has_total = true;
        }
        v = next;
    }
    if (has_total) {
        UNROLL for (int n = 0; n < P::COLUMNS; n++) {
            const Quad a = *total(n), b = *total(P::COLUMNS + n);
            UNROLL for (int e = 0; e < 4; e++) w.left[n][e] = a.v[e] + w.left[n][e], w.right[n][e] = b.v[e] + w.right[n][e];
        }
    }
    w.store(w.left, dk_of(p, t), p.dk_token, 0, t.keys, scale_of(p));
    w.store(w.right, dv_of(p, t), p.dv_token, 0, t.keys, 1.0f);
}

template <int DEPTH, bool ANY_ADDRESS>
DEVICE void pull_queries(const Backward& f) {
    const Params& p = f.p;
    typedef Puller<DEPTH, ANY_ADDRESS, false> P;
    Tile t;
    const int heads = (int)(p.groups * p.shared);
    if (IS_REFUSED(p.refused) || !find<false>(p, t, gridDim.x / heads - 1 - blockIdx.x / heads)) return; // the whole block
    t.head = blockIdx.x % heads;
    t.group = t.head / (int)p.shared;
    t.shared = t.head % (int)p.shared;
    P w(p, t);
    const Side keys = keys_of(p, t);
    w.template copy_side<OWN>(w.base, queries_of(p, t), t.first);
    w.copy_numbers(w.numbers, t.first, OWN);
    const int last_block = (t.keys - 1) / BLOCK, count = 2 * (last_block + 1);
    int number = next_half(p, t, 0, last_block);
    if (number < count) w.template copy_side<OTHERS>(w.others, keys, key_of(number, last_block));
    copy_async_commit();
    const int first = t.first + w.warp * 16;
    ROLLED for (int slot = 0; number < count; slot ^= 1) {
        copy_async_wait<0>();
        BARRIER(); // these keys have arrived, and nobody reads those before
        const int next = next_half(p, t, number + 1, last_block), key = key_of(number, last_block);
        if (next < count) w.template copy_side<OTHERS>(w.others + (slot ^ 1) * 2 * P::SLOT, keys, key_of(next, last_block));
        copy_async_commit();
        const int sight = seen(p, t, first, first + 16, key, key + OTHERS);
        if (sight == 2) w.template take<true>(slot, key, w.numbers, OWN);
        else if (sight == 1) w.template take<false>(slot, key, w.numbers, OWN);
        if (next / 2 != number / 2) { // the block's last half
            UNROLL for (int n = 0; n < P::COLUMNS; n++) UNROLL for (int e = 0; e < 4; e++) w.right[n][e] = w.right[n][e] + w.left[n][e];
            P::clear(w.left);
        }
        number = next;
    }
    w.store(w.right, dq_of(p, t), p.dq_token, t.place, t.keys, scale_of(p));
}
