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
template <int DEPTH, bool OF_KEYS>
struct Ring {
    static const int STAGES = 4, PANELS = (DEPTH + 63) / 64; // panels have 64 elements of each row
    static const int PANEL_BYTES = OTHERS * LINE, MATRIX_BYTES = PANELS * PANEL_BYTES, SIDE_BYTES = 2 * MATRIX_BYTES;
    static const int OTHERS_AT = 2 * SIDE_BYTES, ZEROS_AT = OTHERS_AT + STAGES * SIDE_BYTES, NUMBERS_AT = ZEROS_AT + 8 * LINE;
    static const int NOTICES_AT = NUMBERS_AT + STAGES * 2 * OTHERS * 4, BARRIERS_AT = NOTICES_AT + STAGES * 16, LOST_AT = BARRIERS_AT + (2 * STAGES + 1) * 8;
    static const int PART = (HAS_SLOPE && DEPTH > 64) || (OF_KEYS && DEPTH > 96) ? 32 : 64; // of what comes by, at once: as registers allow

    u32 base;
    int stage;
    u32 parity;

    DEVICE u32 own(int half) const { return base + half * SIDE_BYTES; }
    DEVICE u32 others() const { return base + OTHERS_AT + stage * SIDE_BYTES; }
    DEVICE int numbers_at() const { return NUMBERS_AT + stage * 2 * OTHERS * 4; } // lse, then delta, of the queries that come by
    DEVICE int notice_at() const { return NOTICES_AT + stage * 16; }
    DEVICE u32 has_own() const { return base + BARRIERS_AT; }
    DEVICE u32 full() const { return base + BARRIERS_AT + 8 + stage * 8; }
    DEVICE u32 empty() const { return full() + STAGES * 8; }

    DEVICE void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }

    // A stage is full when its boxes, its notice and the numbers of 32 lanes have arrived.
    DEVICE void init() {
        mbarrier_init(has_own(), 1);
        for (int i = 0; i < STAGES; i++, advance()) {
            mbarrier_init(full(), OF_KEYS ? 34 : 2);
            mbarrier_init(empty(), OWN / 16);
        }
        mbarrier_fence_init();
    }
};

// What a stage says of the tile in it.
struct alignas(16) Notice {
    i32 first, head; // the first row, and the head in its group, or -1: no tile comes any more
    u32 some, all;   // of each part and each warp a bit: it sees some, or all, of the tile's rows; and IS_NEW
    static const u32 IS_NEW = 1u << 31; // the tile is the first of another chain
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
    // Which chain of the head the sums of a tile belong to.
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
DEVICE void bring(const MappedBackward& m, Tile& t, Ring<DEPTH, OF_KEYS> ring) {
    typedef Ring<DEPTH, OF_KEYS> R;
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
    Walk<OF_KEYS> w(m.b.p, t);
    ROLLED for (; !w.is_over(); w.advance(), ring.advance()) {
        mbarrier_wait(ring.empty(), ring.parity);
        if (is_first) {
            mbarrier_expect(ring.full(), R::SIDE_BYTES);
            load(!OF_KEYS, ring.others(), ring.full(), w.first());
        }
    }
    mbarrier_wait(ring.empty(), ring.parity);
    if (is_first) mbarrier_arrive(ring.full());
}

// Writes the notices of every tile that comes by, and that no more does. All lanes of another warp come here.
template <int DEPTH, bool OF_KEYS>
DEVICE void announce(const Params& p, Tile& t, Ring<DEPTH, OF_KEYS> ring, unsigned char* memory) {
    const int PART = Ring<DEPTH, OF_KEYS>::PART, lane = threadIdx.x % 32, mine = t.first + lane % 8 * 16;
    ring.parity = 1;
    Walk<OF_KEYS> w(p, t);
    int chain = w.chain(), head = w.v.head;
    ROLLED for (bool is_over = false; !is_over; ring.advance()) {
        is_over = w.is_over();
        mbarrier_wait(ring.empty(), ring.parity);
        Notice* const notice = reinterpret_cast<Notice*>(memory + ring.notice_at());
        if (!is_over) {
            const int other = w.first() + lane / 8 * PART;
            const int sight = lane / 8 * PART >= OTHERS ? 0 : OF_KEYS ? seen(p, t, other, other + PART, mine, mine + 16) : seen(p, t, mine, mine + 16, other, other + PART);
            const u32 some = (u32)__ballot_sync(0xffffffffu, sight != 0), all = (u32)__ballot_sync(0xffffffffu, sight == 2);
            const bool is_new = w.chain() != chain || w.v.head != head;
            if (lane == 0) *notice = Notice{w.first(), w.v.head, is_new ? some | Notice::IS_NEW : some, all};
            chain = w.chain();
            head = w.v.head;
            w.advance();
        } else if (lane == 0) {
            notice->head = -1;
        }
        if (lane == 0) mbarrier_arrive(ring.full());
    }
}

// Reads the numbers of every tile of queries that comes by. All lanes of a third warp come here.
template <int DEPTH>
DEVICE void bring_numbers(const Params& p, Tile& t, Ring<DEPTH, true> ring, unsigned char* memory) {
    ring.parity = 1;
    Walk<true> w(p, t);
    ROLLED for (bool is_over = false; !is_over; ring.advance()) {
        is_over = w.is_over();
        mbarrier_wait(ring.empty(), ring.parity);
        if (!is_over) {
            float* const to = reinterpret_cast<float*>(memory + ring.numbers_at());
            ROLLED for (int i = threadIdx.x % 32; i < OTHERS; i += 32) read_numbers(p, t, w.first() + i, to[i], to[OTHERS + i]);
            w.advance();
        }
        mbarrier_arrive(ring.full());
    }
}

// What a warpgroup computes: 64 of the block's own rows. A warp has 16 of them.
template <int DEPTH, bool OF_KEYS>
struct Puller {
    typedef Ring<DEPTH, OF_KEYS> R;
    static const int STEPS = DEPTH / 16, COLUMNS = DEPTH / 8; // along the depth; of eight
    static const int PART = R::PART, PAIRS = PART / 16;

    const Params& p;
    Tile& t;
    unsigned char* const memory;
    const int half, thread, lane, row, column; // the lane's first row in the block, and its columns of eight, two neighbours
    float s[PART / 2], g[PART / 2];            // accumulators: element e of columns 8n + ... lies at 4n + e
    float left[DEPTH / 2], right[DEPTH / 2];   // dk and dv; or the chain and the sum of dq
    u32 weights[PAIRS][4], slopes[PAIRS][4];   // rounded
    float lse[2], delta[2];                    // of own queries
    int checks;
    i32* const lost;

    DEVICE Puller(const Params& p, Tile& t, unsigned char* memory)
        : p(p), t(t), memory(memory), half((int)threadIdx.x / 128 - 1), thread(threadIdx.x % 128), lane(threadIdx.x % 32), row(half * HALF + thread / 32 * 16 + lane / 4),
          column(lane % 4 * 2), lost(reinterpret_cast<i32*>(memory + R::LOST_AT) + half * 2) {
        checks = 0;
        clear(left);
        clear(right);
        if (!OF_KEYS) UNROLL for (int r = 0; r < 2; r++) read_numbers(p, t, t.first + row + r * 8, lse[r], delta[r]);
    }

    static DEVICE void clear(float (&x)[DEPTH / 2]) {
        UNROLL for (int i = 0; i < DEPTH / 2; i++) x[i] = 0.0f;
    }

    // Asks for the products of own rows and a part of those that have come by: the scores s, and the gradients of weights g.
    DEVICE void ask(const R& ring, int part) {
        const u64 own = computed_here(wgmma_descriptor(ring.own(half), 16, 8 * LINE)), others = wgmma_descriptor(ring.others() + part * LINE, 16, 8 * LINE);
        multiply(s, own, others);
        wgmma_commit();
        multiply(g, own + (R::MATRIX_BYTES >> 4), others + (R::MATRIX_BYTES >> 4));
        wgmma_commit();
    }

    DEVICE void multiply(float (&x)[PART / 2], u64 own, u64 others) const {
        UNROLL for (int k = 0; k < STEPS; k++) {
            const int at = (k / 4 * R::PANEL_BYTES + k % 4 * 32) >> 4;
            wgmma_64_N_16<PART, IS_BF16, false, false>(x, own + at, others + at, k > 0);
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

    // Asks to add the products of weights and slopes and of rows that have come by, 16 a step.
    DEVICE void add_all(u64 left_others, u64 right_others, u64 step) {
        if (OF_KEYS) add(right, weights, right_others, step);
        add(left, slopes, left_others, step);
        wgmma_commit();
    }

    DEVICE void add(float (&x)[DEPTH / 2], const u32 (&factors)[PAIRS][4], u64 others, u64 step) const {
        UNROLL for (int k = 0; k < PAIRS; k++) wgmma_64_N_16<DEPTH, IS_BF16, true>(x, factors[k], others + k * step, 1);
    }

    // Adds them where some elements are not finite, and the warpgroup's rows see a part. `first` is the first row that has come by.
    DEVICE void add_lost(float (&x)[DEPTH / 2], const u32 (&factors)[PAIRS][4], u32 others_at, int first) const {
        const int lane = computed_here(this->lane), own = computed_here(t.first + half * HALF + thread / 32 * 16);
        auto sees = [&](int r, int other) {
            float exponent, slope;
            const int mine = own + r;
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

    // Whether a part of what has come by, which is going to be added, is not finite. The warpgroup's threads meet.
    DEVICE bool has_lost(const R& ring, int part) {
        const int PIECES = PART / 16; // of a line for each thread
        const unsigned char* from = memory + (ring.others() - ring.base) + (part + thread % PART) * LINE + thread / PART * PIECES * 16;
        u32 found = 0;
        UNROLL for (int panel = 0; panel < (OF_KEYS ? 2 : 1) * R::PANELS; panel++)
            UNROLL for (int i = 0; i < PIECES; i++) {
                const uint4_aligned w = *reinterpret_cast<const uint4_aligned*>(from + panel * R::PANEL_BYTES + i * 16);
                found |= not_finite(w.x) | not_finite(w.y) | not_finite(w.z) | not_finite(w.w);
            }
        i32* const flag = lost + checks++ % 2; // nobody reads that of the check before the last
        if (found) ATOMIC_MAX(flag, checks);
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
                exponent = exponent - (OF_KEYS ? float_of(e % 2 ? theirs_z.y : theirs_z.x) : lse[e / 2]);
                s[at] = power(IS_CLEAR || is_visible ? exponent : LOWEST);
                if (!IS_CLEAR && !is_visible) hidden |= 1u << at;
                if (HAS_SLOPE) bend[at] = slope;
            }
        }
        return hidden;
    }

    // The gradients of exponents of a part, in the place of those of its weights.
    DEVICE void slope(const float (&bend)[HAS_SLOPE ? PART / 2 : 1], const float* of, u32 hidden) {
        UNROLL for (int n = 0; n < PART / 8; n++) {
            const Words2 theirs_delta = OF_KEYS ? *reinterpret_cast<const Words2*>(of + OTHERS + n * 8 + column) : Words2{0, 0};
            UNROLL for (int e = 0; e < 4; e++) {
                const int at = n * 4 + e;
                float x = s[at] * (g[at] - (OF_KEYS ? float_of(e % 2 ? theirs_delta.y : theirs_delta.x) : delta[e / 2]));
                if (HAS_SLOPE) x = x * bend[at];
                g[at] = hidden >> at & 1u ? 0.0f : x;
            }
        }
    }

    // Adds the chain of a block of keys to the sum.
    DEVICE void end_block() {
        UNROLL for (int i = 0; i < DEPTH / 2; i++) right[i] = right[i] + left[i], left[i] = 0.0f;
    }

    // Where four sums of the thread lie, between heads and segments.
    DEVICE Quad* total(float* sums, int n) const { return reinterpret_cast<Quad*>(sums) + ((i64)blockIdx.x * (2 * COLUMNS) + n) * (2 * 128) + half * 128 + thread; }

    // Adds the chains of a segment of queries, and of one head, to what is there.
    DEVICE void end_segment(float* sums, bool has_total) {
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

    DEVICE Notice notice_of(const R& ring) const { return *reinterpret_cast<const Notice*>(memory + ring.notice_at()); }

    DEVICE void run(R ring, float* sums) {
        bool has_total = false;
        mbarrier_wait(ring.full(), ring.parity);
        Notice notice = notice_of(ring);
        if (notice.head >= 0) {
            mbarrier_wait(ring.has_own(), 0);
            wgmma_done(left); // zeros: the compiler would set them while products are under way, and have these wait for each other
            wgmma_done(right);
            wgmma_fence();
            ask(ring, 0);
            int part = 0;
            u32 used = 0; // the barrier of the stage before, whose products are under way
            ROLLED while (true) {
                const int first = notice.first + part, bit = part / PART * 8 + half * 4;
                const u32 some = notice.some >> bit & 15, all = notice.all >> bit & 15; // of the warpgroup
                const float* const of = reinterpret_cast<const float*>(memory + ring.numbers_at()) + part;
                float bend[HAS_SLOPE ? PART / 2 : 1];
                if (OF_KEYS) choose_head(p, t, notice.head);
                wgmma_wait<1>(); // the scores are there, and what was asked for before
                wgmma_done(s);
                if (used != 0 && lane == 0) mbarrier_arrive(used);
                const u32 hidden = all >> thread / 32 & 1 ? weigh<true>(bend, first, of) : weigh<false>(bend, first, of);
                const bool is_lost = some != 0 && all != 15 && has_lost(ring, part);
                wgmma_wait<0>();
                wgmma_done(g);
                wgmma_done(left);
                wgmma_done(right);
                if (part == 0 && (notice.some & Notice::IS_NEW) != 0) {
                    if (OF_KEYS) end_segment(sums, has_total);
                    else end_block();
                    has_total = true;
                }
                slope(bend, of, hidden);
                if (OF_KEYS) pack(weights, s);
                pack(slopes, g);
                const u32 left_at = ring.others() + part * LINE, right_at = left_at + R::MATRIX_BYTES;
                u64 left_others = wgmma_descriptor(left_at, R::PANEL_BYTES, 8 * LINE), right_others = wgmma_descriptor(right_at, R::PANEL_BYTES, 8 * LINE), step = 16 * LINE >> 4;
                if (some == 0 || is_lost) {
                    if (is_lost) {
                        if (OF_KEYS) add_lost(right, weights, right_at, first);
                        add_lost(left, slopes, left_at, first);
                    }
                    left_others = right_others = wgmma_descriptor(ring.base + R::ZEROS_AT, 0, 0);
                    step = 0;
                    UNROLL for (int k = 0; k < PAIRS; k++) UNROLL for (int i = 0; i < 4; i++) weights[k][i] = slopes[k][i] = 0;
                }
                used = 0;
                if ((part += PART) == OTHERS) {
                    part = 0;
                    used = ring.empty();
                    ring.advance();
                    mbarrier_wait(ring.full(), ring.parity);
                    notice = notice_of(ring);
                }
                if (notice.head < 0) {
                    wgmma_fence();
                    add_all(left_others, right_others, step);
                    break;
                }
                wgmma_fence();
                add_all(left_others, right_others, step);
                ask(ring, part);
            }
            wgmma_wait<0>();
            wgmma_done(left);
            wgmma_done(right);
        }
        if (OF_KEYS) {
            if (has_total) add_total(sums);
            store(left, dk_of(p, t), p.dk_token, 0, scale_of(p));
            store(right, dv_of(p, t), p.dv_token, 0, 1.0f);
        } else {
            end_block();
            store(right, dq_of(p, t), p.dq_token, t.place, scale_of(p));
        }
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
    typedef Ring<DEPTH, OF_KEYS> R;
    const R ring = {aligned, 0, 0};
    if (threadIdx.x == 0) {
        tensor_prefetch(&m.q);
        tensor_prefetch(&m.k);
        tensor_prefetch(&m.v);
        tensor_prefetch(&m.d_o);
        R each = ring;
        each.init();
        i32* const lost = reinterpret_cast<i32*>(memory + R::LOST_AT);
        for (int i = 0; i < 4; i++) lost[i] = 0;
    }
    for (int i = threadIdx.x; i < 8 * LINE / 4; i += 3 * 128) reinterpret_cast<i32*>(memory + R::ZEROS_AT)[i] = 0;
    fence_async_shared();
    BARRIER();
    if (threadIdx.x < 128) {
        registers_fewer<OF_KEYS ? 40 : 24>();
        if (threadIdx.x < 32) bring<DEPTH, OF_KEYS>(m, t, ring);
        else if (threadIdx.x < 64) announce<DEPTH, OF_KEYS>(m.b.p, t, ring, memory);
        else if (threadIdx.x < 96) {
            if constexpr (OF_KEYS) bring_numbers<DEPTH>(m.b.p, t, ring, memory);
        }
    } else {
        registers_more<OF_KEYS ? 232 : 240>();
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
