// */cuda.hopper: gradients of streams on Hopper's tensor cores
// dk[s,g,:], dv[s,g,:] from the queries that see a key, and dq[t,g,j,:] from the keys that a query sees
//
// Operands  as kernels/weigh_backward.cu, in f16 or bf16; rows of q, k, v and do begin, and end, at multiples of 16 bytes, those of
//           gradients begin there
// Numerics  as kernels/weigh_backward_mma.cu, with the same bits: wgmma adds its steps of 16 one after another, as mma.sync does
// Schedule  for dk and dv a block has 128 keys, each of two warpgroups 64 of them, and tiles of 64 queries come by; for dq it has 128
//           queries, and blocks of keys come by in halves of 64. A warp of a third warpgroup copies what comes by, by tensor maps, into
//           a ring of STAGES tiles. A warpgroup asks for the products with its own rows that give scores and their gradients, which
//           stay in registers and become left operands as they are: weights are computed while the gradients of scores are under way,
//           and slopes while the weights are multiplied. Where a tile is seen in part and is not finite, it is multiplied by
//           mma.sync, as there. Sums over heads and segments of queries lie in memory between them.
// Requires  sm_90a, tensorcore.h; depth <= DEPTH

struct MappedBackward {
    TensorMap q, k, v, d_o; // boxes of 64 rows
    Backward b;
};

const int LINE = 128, HALF = OWN / 2; // bytes of a swizzled line, and rows of a warpgroup
static_assert(HALF == OTHERS, "boxes of own rows and of others have one size");

// Where things lie in shared memory, and the place in the ring. A side has two matrices of 64 rows, left and right: keys and values, or
// queries and the gradients of their means.
template <int DEPTH>
struct Ring {
    static const int STAGES = 4, PANELS = (DEPTH + 63) / 64; // panels have 64 elements of each row
    static const int PANEL_BYTES = OTHERS * LINE, MATRIX_BYTES = PANELS * PANEL_BYTES, SIDE_BYTES = 2 * MATRIX_BYTES;
    static const int OTHERS_AT = 2 * SIDE_BYTES, ZEROS_AT = OTHERS_AT + STAGES * SIDE_BYTES, NUMBERS_AT = ZEROS_AT + 8 * LINE;
    static const int BARRIERS_AT = NUMBERS_AT + STAGES * 2 * OTHERS * 4, LOST_AT = BARRIERS_AT + (2 * STAGES + 1) * 8;

    u32 base;
    int stage;
    u32 parity;

    DEVICE u32 own(int half) const { return base + half * SIDE_BYTES; }
    DEVICE u32 others() const { return base + OTHERS_AT + stage * SIDE_BYTES; }
    DEVICE int numbers_at() const { return NUMBERS_AT + stage * 2 * OTHERS * 4; } // lse, then delta, of the queries that come by
    DEVICE u32 has_own() const { return base + BARRIERS_AT; }
    DEVICE u32 full() const { return base + BARRIERS_AT + 8 + stage * 8; }
    DEVICE u32 empty() const { return full() + STAGES * 8; }

    DEVICE void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }

    // A stage is full when its boxes, and with NUMBERS those of 32 lanes, have arrived.
    DEVICE void init(bool has_numbers) {
        mbarrier_init(has_own(), 1);
        for (int i = 0; i < STAGES; i++, advance()) {
            mbarrier_init(full(), has_numbers ? 33 : 1);
            mbarrier_init(empty(), OWN / 16);
        }
        mbarrier_fence_init();
    }
};

// The tiles that come by, in the order of the sums. All lanes of a warp walk together.
template <bool OF_KEYS>
struct Walk {
    const Params& p;
    Tile& t;
    Visit v;                             // for dk and dv
    int number, last_block, first_other; // for dq

    DEVICE Walk(const Params& p, Tile& t) : p(p), t(t), v{0, 0}, number(0), last_block(0), first_other(0) {
        if (OF_KEYS) {
            v = next_visit(p, t, Visit{0, round_down(t.place, OTHERS)});
        } else {
            last_block = (t.keys - 1) / BLOCK;
            go_to(0);
        }
    }
    DEVICE void go_to(int n) {
        number = next_half(p, t, n, last_block);
        first_other = key_of(number, last_block);
    }
    DEVICE bool is_over() const { return OF_KEYS ? v.head >= (int)p.shared : number >= 2 * (last_block + 1); }
    DEVICE int first() const { return OF_KEYS ? v.first : first_other; }
    // Which chain the sums of a tile belong to.
    DEVICE int chain() const { return OF_KEYS ? round_down(v.first, SEGMENT) : number / 2; }
    DEVICE void advance() {
        if (OF_KEYS) {
            v = next_visit(p, t, Visit{v.head, v.first + OTHERS});
        } else {
            go_to(number + 1);
        }
    }
};

// Copies the block's own rows, and every tile that comes by. All lanes of a warp come here.
template <int DEPTH, bool OF_KEYS>
DEVICE void bring(const MappedBackward& m, Tile& t, Ring<DEPTH> ring, unsigned char* memory) {
    typedef Ring<DEPTH> R;
    const bool is_first = threadIdx.x == 0;
    const int queries_from = t.first_query - t.place; // the row of place 0, which may be before the first
    auto load = [&](bool is_of_keys, u32 to, u32 barrier, int first) {
        for (int i = 0; i < R::PANELS; i++) {
            const u32 left = to + i * R::PANEL_BYTES, right = left + R::MATRIX_BYTES;
            if (is_of_keys) {
                tensor_load(left, &m.k, barrier, i * 64, t.first_key + first, t.group, 0, 0);
                tensor_load(right, &m.v, barrier, i * 64, t.first_key + first, t.group, 0, 0);
            } else {
                tensor_load(left, &m.q, barrier, i * 64, queries_from + first, t.group, t.shared, 0);
                tensor_load(right, &m.d_o, barrier, i * 64, queries_from + first, t.group, t.shared, 0);
            }
        }
    };
    if (is_first) {
        mbarrier_expect(ring.has_own(), 2 * R::SIDE_BYTES);
        for (int half = 0; half < 2; half++) load(OF_KEYS, ring.own(half), ring.has_own(), t.first + half * HALF);
    }
    ring.parity = 1; // what was never used is free
    ROLLED for (Walk<OF_KEYS> w(m.b.p, t); !w.is_over(); w.advance(), ring.advance()) {
        mbarrier_wait(ring.empty(), ring.parity);
        if (is_first) {
            mbarrier_expect(ring.full(), R::SIDE_BYTES);
            load(!OF_KEYS, ring.others(), ring.full(), w.first());
        }
        if (OF_KEYS) {
            float* const to = reinterpret_cast<float*>(memory + ring.numbers_at());
            ROLLED for (int i = threadIdx.x; i < OTHERS; i += 32) read_numbers(m.b.p, t, w.first() + i, to[i], to[OTHERS + i]);
            mbarrier_arrive(ring.full());
        }
    }
}

// What a warpgroup computes: 64 of the block's own rows. A warp has 16 of them.
template <int DEPTH, bool OF_KEYS>
struct Puller {
    typedef Ring<DEPTH> R;
    static const int STEPS = DEPTH / 16, COLUMNS = DEPTH / 8;  // along the depth; of eight
    static const int PART = HAS_SLOPE && DEPTH > 64 ? 32 : 64; // of what comes by, at once: as registers allow
    static const int PAIRS = PART / 16;

    const Params& p;
    Tile& t;
    unsigned char* const memory;
    const int half, thread, lane, row, column; // the lane's first row in the block, and its columns of eight, two neighbours
    float s[PART / 2], g[PART / 2];            // accumulators: element e of columns 8n + ... lies at 4n + e
    float left[DEPTH / 2], right[DEPTH / 2];   // dk and dv; or the chain and the sum of dq
    u32 weights[PAIRS][4], slopes[PAIRS][4];   // rounded
    float lse[2], delta[2];                    // of own queries
    R before;                                  // the stage of products that may be under way
    bool has_before;
    int checks;
    i32* const lost;

    DEVICE Puller(const Params& p, Tile& t, unsigned char* memory)
        : p(p), t(t), memory(memory), half((int)threadIdx.x / 128 - 1), thread(threadIdx.x % 128), lane(threadIdx.x % 32), row(half * HALF + thread / 32 * 16 + lane / 4),
          column(lane % 4 * 2), lost(reinterpret_cast<i32*>(memory + R::LOST_AT) + half * 2) {
        has_before = false;
        checks = 0;
        clear(left);
        clear(right);
        if (!OF_KEYS) UNROLL for (int r = 0; r < 2; r++) read_numbers(p, t, t.first + row + r * 8, lse[r], delta[r]);
    }

    static DEVICE void clear(float (&x)[DEPTH / 2]) {
        UNROLL for (int i = 0; i < DEPTH / 2; i++) x[i] = 0.0f;
    }

    DEVICE void release() {
        if (has_before && lane == 0) mbarrier_arrive(before.empty());
        has_before = false;
    }

    // x = the products of own rows and a part of those that have come by.
    DEVICE void multiply(float (&x)[PART / 2], u32 own_at, u32 others_at) const {
        UNROLL for (int k = 0; k < STEPS; k++) {
            const int at = k / 4 * R::PANEL_BYTES + k % 4 * 32;
            wgmma_64_N_16<PART, IS_BF16, false, false>(x, wgmma_descriptor(own_at + at, 16, 8 * LINE), wgmma_descriptor(others_at + at, 16, 8 * LINE), k > 0);
        }
    }

    // The factors of pairs, rounded, as the left operand of a product.
    static DEVICE void pack(u32 (&to)[PAIRS][4], const float (&x)[PART / 2]) {
        UNROLL for (int k = 0; k < PAIRS; k++)
            UNROLL for (int i = 0; i < 4; i++) {
                const int at = (k * 2 + i / 2) * 4 + i % 2 * 2;
                to[k][i] = NARROW_PAIR(x[at], x[at + 1]);
            }
    }

    // Begins to add to x the products of factors and a part of a matrix that has come by, whose first row is `first`.
    DEVICE void add(float (&x)[DEPTH / 2], u32 (&factors)[PAIRS][4], u32 others_at, int first, u32 zeros, bool is_lost) {
        u64 others = wgmma_descriptor(others_at, R::PANEL_BYTES, 8 * LINE), step = 16 * LINE >> 4;
        if (is_lost) {
            add_lost(x, factors, others_at, first);
            others = wgmma_descriptor(zeros, 0, 0);
            step = 0;
            UNROLL for (int k = 0; k < PAIRS; k++) UNROLL for (int i = 0; i < 4; i++) factors[k][i] = 0;
        }
        wgmma_fence();
        UNROLL for (int k = 0; k < PAIRS; k++) wgmma_64_N_16<DEPTH, IS_BF16, true>(x, factors[k], others + k * step, 1);
        wgmma_commit();
    }

    // The same where some elements are not finite, and the rows of a warp see a part.
    DEVICE void add_lost(float (&x)[DEPTH / 2], const u32 (&factors)[PAIRS][4], u32 others_at, int first) const {
        auto sees = [&](int r, int other) {
            float exponent, slope;
            const int mine = t.first + half * HALF + thread / 32 * 16 + r;
            return look_at(p, t, OF_KEYS ? other : mine, OF_KEYS ? mine : other, 0.0f, exponent, slope);
        };
        UNROLL for (int k = 0; k < PAIRS; k++)
            UNROLL for (int n = 0; n < COLUMNS; n += 2) {
                const int line = k * 16 + lane % 16, piece = n + lane / 16;
                u32 w[4];
                load_matrix_4_transposed(w, others_at + piece / 8 * R::PANEL_BYTES + line * LINE + (piece % 8 ^ line % 8) * 16);
                float a[4], b[4];
                UNROLL for (int e = 0; e < 4; e++) a[e] = x[n * 4 + e], b[e] = x[n * 4 + 4 + e];
                if (in_any_lane((not_finite(w[0]) | not_finite(w[1]) | not_finite(w[2]) | not_finite(w[3])) != 0)) {
                    multiply_rows(sees, first + k * 16, factors[k], w, a, b);
                } else {
                    u32 low[2] = {w[0], w[1]}, high[2] = {w[2], w[3]};
                    MULTIPLY_ADD(a, factors[k], low);
                    MULTIPLY_ADD(b, factors[k], high);
                }
                UNROLL for (int e = 0; e < 4; e++) x[n * 4 + e] = a[e], x[n * 4 + 4 + e] = b[e];
            }
    }

    // Whether what has come by, and is going to be added, is not finite. The warpgroup's threads meet.
    DEVICE bool has_lost(const R& ring) {
        const unsigned char* from = memory + (ring.others() - ring.base) + thread % OTHERS * LINE;
        u32 found = 0;
        UNROLL for (int panel = 0; panel < (OF_KEYS ? 2 : 1) * R::PANELS; panel++)
            UNROLL for (int i = 0; i < 4; i++) {
                const uint4_aligned w = *reinterpret_cast<const uint4_aligned*>(from + panel * R::PANEL_BYTES + (i + thread / OTHERS * 4) * 16);
                found |= not_finite(w.x) | not_finite(w.y) | not_finite(w.z) | not_finite(w.w);
            }
        i32* const flag = lost + checks++ % 2; // nobody reads that of the check before the last
        if (found) *flag = checks;
        named_barrier(1 + half, 128);
        return *flag == checks;
    }

    // Computes weights from the scores of a part, and the slopes of exponents. IS_CLEAR: every pair is visible. It returns a bit for every pair that is not.
    template <bool IS_CLEAR>
    DEVICE u32 weigh(float (&bend)[HAS_SLOPE ? PART / 2 : 1], int first, const float* of) {
        u32 hidden = 0;
        UNROLL for (int n = 0; n < PART / 8; n++) {
            const Words2 theirs_z = OF_KEYS ? *reinterpret_cast<const Words2*>(of + n * 8 + column) : Words2{0, 0};
            UNROLL for (int e = 0; e < 4; e++) {
                const int mine = t.first + row + e / 2 * 8, theirs = first + n * 8 + column + e % 2, at = n * 4 + e;
                float exponent, slope;
                const bool is_visible = look_at(p, t, OF_KEYS ? theirs : mine, OF_KEYS ? mine : theirs, s[at], exponent, slope);
                s[at] = IS_CLEAR || is_visible ? power(exponent - (OF_KEYS ? float_of(e % 2 ? theirs_z.y : theirs_z.x) : lse[e / 2])) : 0.0f;
                if (!IS_CLEAR && !is_visible) hidden |= 1u << at;
                if (HAS_SLOPE) bend[at] = slope;
            }
        }
        return hidden;
    }

    // The gradients of exponents of a part, in the place of its weights.
    DEVICE void slope(const float (&bend)[HAS_SLOPE ? PART / 2 : 1], const float* of, u32 hidden) {
        UNROLL for (int n = 0; n < PART / 8; n++) {
            const Words2 theirs_delta = OF_KEYS ? *reinterpret_cast<const Words2*>(of + OTHERS + n * 8 + column) : Words2{0, 0};
            UNROLL for (int e = 0; e < 4; e++) {
                const int at = n * 4 + e;
                float x = s[at] * (g[at] - (OF_KEYS ? float_of(e % 2 ? theirs_delta.y : theirs_delta.x) : delta[e / 2]));
                if (HAS_SLOPE) x = x * bend[at];
                s[at] = hidden >> at & 1u ? 0.0f : x;
            }
        }
    }

    // Takes a part of what has come by, whose first row is `first`. sight: what the warpgroup's rows and it see of each other. The products
    // with `left` are under way when it returns.
    DEVICE void take(const R& ring, int part, int first, int sight, bool is_lost, bool is_new) {
        const u32 own = ring.own(half), left_at = ring.others() + part * LINE, right_at = left_at + R::MATRIX_BYTES, zeros = ring.base + R::ZEROS_AT;
        const float* const of = reinterpret_cast<const float*>(memory + ring.numbers_at()) + part;
        float bend[HAS_SLOPE ? PART / 2 : 1];
        wgmma_fence();
        multiply(s, own, left_at);
        wgmma_commit();
        multiply(g, own + R::MATRIX_BYTES, right_at);
        wgmma_commit();
        wgmma_wait<1>(); // the scores are there, and what was asked for before
        wgmma_done(s);
        wgmma_done(left);
        wgmma_done(right);
        release();
        if (is_new && !OF_KEYS) end_block();
        const u32 hidden = sight == 2 ? weigh<true>(bend, first, of) : weigh<false>(bend, first, of);
        if (OF_KEYS) {
            pack(weights, s);
            add(right, weights, right_at, first, zeros, is_lost);
            wgmma_wait<1>();
        } else {
            wgmma_wait<0>();
        }
        wgmma_done(g);
        slope(bend, of, hidden);
        pack(slopes, s);
        add(left, slopes, left_at, first, zeros, is_lost);
    }

    // Waits for all products.
    DEVICE void settle() {
        wgmma_wait<0>();
        wgmma_done(left);
        wgmma_done(right);
        release();
    }

    // Adds the chain of a block of keys to the sum.
    DEVICE void end_block() {
        UNROLL for (int i = 0; i < DEPTH / 2; i++) right[i] = right[i] + left[i], left[i] = 0.0f;
    }

    // Where four sums of the thread lie, between heads and segments.
    DEVICE Quad* total(float* sums, int n) const { return reinterpret_cast<Quad*>(sums) + ((i64)blockIdx.x * (2 * COLUMNS) + n) * (2 * 128) + half * 128 + thread; }

    // Adds the chains of a segment of queries, and of one head, to what is there.
    DEVICE void end_segment(float* sums, bool has_total) {
        settle();
        UNROLL for (int n = 0; n < COLUMNS; n++) {
            const float l[4] = {left[n * 4], left[n * 4 + 1], left[n * 4 + 2], left[n * 4 + 3]}, r[4] = {right[n * 4], right[n * 4 + 1], right[n * 4 + 2], right[n * 4 + 3]};
            add_to(total(sums, n), has_total, l);
            add_to(total(sums, COLUMNS + n), has_total, r);
        }
        clear(left);
        clear(right);
    }

    DEVICE void add_total(float* sums) {
        UNROLL for (int n = 0; n < COLUMNS; n++) {
            const Quad a = *total(sums, n), b = *total(sums, COLUMNS + n);
            UNROLL for (int e = 0; e < 4; e++) left[n * 4 + e] = a.v[e] + left[n * 4 + e], right[n * 4 + e] = b.v[e] + right[n * 4 + e];
        }
    }

    DEVICE void run(R ring, float* sums) {
        const int own = t.first + half * HALF, mine = own + thread / 32 * 16; // first rows of the warpgroup, and of the warp
        bool has_total = false;
        int chain = -1; // of the last tile that was taken
        mbarrier_wait(ring.has_own(), 0);
        ROLLED for (Walk<OF_KEYS> w(p, t); !w.is_over(); ring.advance()) {
            const int first = w.first(), head = w.v.head, end = w.chain();
            int sight = look_between(own, own + HALF, first);
            mbarrier_wait(ring.full(), ring.parity);
            if (sight == 0) {
                settle();
                if (lane == 0) mbarrier_arrive(ring.empty());
            } else {
                const bool is_lost = sight == 1 && has_lost(ring);
                if (sight == 1) sight = look_between(mine, mine + 16, first); // of the warp
                ROLLED for (int part = 0; part < OTHERS; part += PART) take(ring, part, first + part, sight, is_lost, end != chain && part == 0);
                before = ring;
                has_before = true;
                chain = end;
            }
            w.advance();
            if (OF_KEYS && !w.is_over() && (w.v.head != head || w.chain() != end)) {
                end_segment(sums, has_total);
                has_total = true;
            }
        }
        settle();
        if (OF_KEYS) {
            if (has_total) add_total(sums);
            store(left, dk_of(p, t), p.dk_token, 0, scale_of(p));
            store(right, dv_of(p, t), p.dv_token, 0, 1.0f);
        } else {
            end_block();
            store(right, dq_of(p, t), p.dq_token, t.place, scale_of(p));
        }
    }

    // What own rows and a tile that comes by see of each other, as `seen` says it.
    DEVICE int look_between(int own, int own_end, int other) const {
        return OF_KEYS ? seen(p, t, other, other + OTHERS, own, own_end) : seen(p, t, own, own_end, other, other + OTHERS);
    }

    DEVICE void store(const float (&x)[DEPTH / 2], Element* to, i64 stride, int low, float scale) const {
        store_sums<DEPTH, false>(p, t.first + row, to, stride, low, t.keys, scale, [&](int n, int e) { return x[n * 4 + e]; });
    }
};

template <int DEPTH, bool OF_KEYS>
DEVICE void pull(const MappedBackward& m, Tile& t) {
    SHARED_DYN(unsigned char, memory_before);
    const u32 start = shared_address(memory_before), aligned = (start + 1023) / 1024 * 1024;
    unsigned char* const memory = memory_before + (aligned - start);
    typedef Ring<DEPTH> R;
    const R ring = {aligned, 0, 0};
    if (threadIdx.x == 0) {
        tensor_prefetch(&m.q);
        tensor_prefetch(&m.k);
        tensor_prefetch(&m.v);
        tensor_prefetch(&m.d_o);
        R each = ring;
        each.init(OF_KEYS);
        i32* const lost = reinterpret_cast<i32*>(memory + R::LOST_AT);
        for (int i = 0; i < 4; i++) lost[i] = 0;
    }
    for (int i = threadIdx.x; i < 8 * LINE / 4; i += 3 * 128) reinterpret_cast<i32*>(memory + R::ZEROS_AT)[i] = 0;
    fence_async_shared();
    BARRIER();
    if (threadIdx.x < 128) {
        registers_fewer<24>();
        if (threadIdx.x < 32) bring<DEPTH, OF_KEYS>(m, t, ring, memory);
    } else {
        registers_more<240>();
        Puller<DEPTH, OF_KEYS>(m.b.p, t, memory).run(ring, m.b.sums);
    }
}

template <int DEPTH>
DEVICE void pull_keys(const MappedBackward& m) {
    const Params& p = m.b.p;
    Tile t;
    const int groups = (int)p.groups;
    if (IS_REFUSED(p.refused) || !find<true>(p, t, blockIdx.x / groups)) return; // the whole block
    t.group = blockIdx.x % groups;
    pull<DEPTH, true>(m, t);
}

template <int DEPTH>
DEVICE void pull_queries(const MappedBackward& m) {
    const Params& p = m.b.p;
    Tile t;
    const int heads = (int)(p.groups * p.shared);
    if (IS_REFUSED(p.refused) || !find<false>(p, t, gridDim.x / heads - 1 - blockIdx.x / heads)) return; // the whole block
    t.head = blockIdx.x % heads;
    t.group = t.head / (int)p.shared;
    t.shared = t.head % (int)p.shared;
    pull<DEPTH, false>(m, t);
}
