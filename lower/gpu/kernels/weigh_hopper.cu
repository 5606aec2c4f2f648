// */cuda.hopper: streams on Hopper's tensor cores
// o[t,g,j,:] = the mean of v[s,g,:] over the visible keys s of a sequence, weighed by 2 to the power of their exponents
//
// Operands  as kernels/weigh.cu, in f16 or bf16, without pages; rows of q, k and v begin, and end, at multiples of 16 bytes
// Numerics  as kernels/weigh_mma.cu, with the same bits: wgmma adds its steps of 16 one after another, as mma.sync does
// Schedule  a block has TILE queries of a head, each of two warpgroups 64 of them, and a third warpgroup copies keys and values by
//           tensor maps into rings of STAGES blocks each. A warpgroup asks for the scores of a block, then for the weighed sums
//           of the block before, and computes weights from the scores while the sums are under way; weights are the left
//           operand of the sums, in registers. The two take turns in asking, so that one computes weights while the
//           products of the other are under way. Keys and values that are not finite and that only some rows see are
//           multiplied by mma.sync, as there. What earlier segments give lies in shared memory. The warp that copies also
//           writes which block a stage has, and what each warpgroup sees of it.
// Requires  sm_90a, tensorcore.h; depth <= DEPTH

struct MappedParams {
    TensorMap q, k, v;
    Params p;
};

const int LINE = 128, HALF = TILE / 2; // bytes of a swizzled line, and rows of a warpgroup

// Where things lie in shared memory, and the place of a warpgroup in the rings of keys and of values.
template <int DEPTH>
struct Rings {
    static const int STAGES = 2, PANELS = DEPTH / 64;                     // panels have 64 elements of each row
    static const int PANEL_BYTES = KEYS * LINE, BLOCK_BYTES = PANELS * PANEL_BYTES, HALF_BYTES = PANELS * HALF * LINE;
    static const int KEYS_AT = 2 * HALF_BYTES, VALUES_AT = KEYS_AT + STAGES * BLOCK_BYTES, EARLY_AT = VALUES_AT + STAGES * BLOCK_BYTES;
    static const int ZEROS_AT = EARLY_AT + TILE * DEPTH * 4, NOTICES_AT = ZEROS_AT + 8 * LINE, BARRIERS_AT = NOTICES_AT + STAGES * 16, LOST_AT = BARRIERS_AT + (4 * STAGES + 1) * 8;

    u32 base;
    int stage;
    u32 parity;

    DEVICE u32 query(int half) const { return base + half * HALF_BYTES; }
    DEVICE u32 keys() const { return base + KEYS_AT + stage * BLOCK_BYTES; }
    DEVICE int notice_at() const { return NOTICES_AT + stage * 16; }
    DEVICE u32 values() const { return base + VALUES_AT + stage * BLOCK_BYTES; }
    DEVICE u32 has_query() const { return base + BARRIERS_AT; }
    DEVICE u32 has_keys() const { return base + BARRIERS_AT + 8 + stage * 8; }
    DEVICE u32 has_values() const { return has_keys() + STAGES * 8; }
    DEVICE u32 no_keys() const { return has_keys() + 2 * STAGES * 8; }
    DEVICE u32 no_values() const { return has_keys() + 3 * STAGES * 8; }

    DEVICE void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }

    DEVICE void init() {
        mbarrier_init(has_query(), 1);
        for (int i = 0; i < STAGES; i++, advance()) {
            mbarrier_init(has_keys(), 1);
            mbarrier_init(has_values(), 1);
            mbarrier_init(no_keys(), TILE / 16);
            mbarrier_init(no_values(), TILE / 16);
        }
        mbarrier_fence_init();
    }
};

// What a stage says of the block of keys in it.
struct alignas(16) Notice {
    i32 block;    // its first key, or -1: no block comes any more
    i32 sight[2]; // what the rows of each warpgroup see of it, as seen() says
};

// Copies queries, and every block of keys and values that the tile sees. All lanes of a warp come here.
template <int DEPTH>
DEVICE void bring(const MappedParams& m, const Tile& t, Rings<DEPTH> ring, unsigned char* memory) {
    typedef Rings<DEPTH> R;
    const int lane = threadIdx.x, first = lane % 2 * HALF, last = first + HALF < t.rows ? first + HALF - 1 : t.rows - 1; // of a warpgroup's rows
    const bool is_first = lane == 0;
    if (is_first) {
        mbarrier_expect(ring.has_query(), 2 * R::HALF_BYTES);
        for (int half = 0; half < 2; half++)
            for (int i = 0; i < R::PANELS; i++)
                tensor_load(ring.query(half) + i * HALF * LINE, &m.q, ring.has_query(), i * 64, t.first + half * HALF, t.group, t.shared, 0);
    }
    ring.parity = 1; // what was never used is free
    ROLLED for (int block = next_seen(m.p, t, 0);; block = next_seen(m.p, t, block + KEYS), ring.advance()) {
        mbarrier_wait(ring.no_keys(), ring.parity);
        const bool is_over = block >= t.keys;
        Notice* const notice = reinterpret_cast<Notice*>(memory + ring.notice_at());
        if (is_first) notice->block = is_over ? -1 : block;
        if (lane < 2 && !is_over) notice->sight[lane] = first < t.rows ? seen(m.p, t, first, last, block, KEYS) : 0;
        WARP_BARRIER();
        if (is_over) break;
        if (is_first) {
            mbarrier_expect(ring.has_keys(), R::BLOCK_BYTES);
            for (int i = 0; i < R::PANELS; i++) tensor_load(ring.keys() + i * R::PANEL_BYTES, &m.k, ring.has_keys(), i * 64, t.first_key + block, t.group, 0, 0);
        }
        mbarrier_wait(ring.no_values(), ring.parity);
        if (is_first) {
            mbarrier_expect(ring.has_values(), R::BLOCK_BYTES);
            for (int i = 0; i < R::PANELS; i++) tensor_load(ring.values() + i * R::PANEL_BYTES, &m.v, ring.has_values(), i * 64, t.first_key + block, t.group, 0, 0);
        }
    }
    if (is_first) mbarrier_arrive(ring.has_keys());
}

// What a warpgroup computes: 64 rows of the tile. A warp has 16 of them.
template <int DEPTH>
struct Half {
    typedef Rings<DEPTH> R;
    static const int STEPS = DEPTH / 16, COLUMNS = DEPTH / 8, PAIRS = KEYS / 16; // along the depth; of eight; of keys

    const Params& p;
    const Tile& t;
    const int half, thread, lane, row, column; // the lane's first row in the tile, and its columns of eight, two neighbours
    float s[KEYS / 2], o[DEPTH / 2];           // accumulators: element e of columns 8n + ... lies at 4n + e
    u32 weights[PAIRS][4];
    float m[2], l[2], a[2];     // of rows row and row + 8; a: by which sums were scaled
    float early_m[2], early_l[2]; // of earlier segments; their o lies in shared memory
    bool has_early;
    int checks; // of values
    Quad* early;
    i32* lost;

    DEVICE Half(const Params& p, const Tile& t, unsigned char* memory)
        : p(p), t(t), half((int)threadIdx.x / 128 - 1), thread(threadIdx.x % 128), lane(threadIdx.x % 32), row(half * HALF + thread / 32 * 16 + lane / 4), column(lane % 4 * 2) {
        early = reinterpret_cast<Quad*>(memory + R::EARLY_AT) + half * 128 + thread;
        lost = reinterpret_cast<i32*>(memory + R::LOST_AT) + half * 2;
        has_early = false;
        checks = 0;
        UNROLL for (int r = 0; r < 2; r++) m[r] = LOWEST, l[r] = 0.0f, a[r] = 1.0f;
        UNROLL for (int i = 0; i < DEPTH / 2; i++) o[i] = 0.0f;
    }

    // The warpgroups take turns in asking for products.
    DEVICE void begin_turn() const { named_barrier(1 + half, 256); }
    DEVICE void end_turn() const { named_barrier_arrive(2 - half, 256); }

    DEVICE void release(u32 barrier) const {
        if (lane == 0) mbarrier_arrive(barrier);
    }

    // s = the scores of a block of keys.
    DEVICE void multiply_keys(const R& ring) {
        const u64 left = wgmma_descriptor(uniform(ring.query(half)), 16, 8 * LINE), right = wgmma_descriptor(uniform(ring.keys()), 16, 8 * LINE);
        UNROLL for (int k = 0; k < STEPS; k++)
            wgmma_64_N_16<KEYS, IS_BF16, false, false>(s, left + ((k / 4 * HALF * LINE + k % 4 * 32) >> 4), right + ((k / 4 * R::PANEL_BYTES + k % 4 * 32) >> 4), k > 0);
    }

    // o += the weighed values of a block, 16 keys a step. is_nothing: of zeros instead.
    DEVICE void add_values(const R& ring, bool is_nothing) {
        const u32 nothing = uniform((u32)is_nothing), step = nothing != 0 ? 0 : 16 * LINE >> 4, at = uniform(ring.values());
        const u64 values = nothing != 0 ? wgmma_descriptor(ring.base + R::ZEROS_AT, 0, 0) : wgmma_descriptor(at, R::PANEL_BYTES, 8 * LINE);
        UNROLL for (int k = 0; k < PAIRS; k++) wgmma_64_N_16<DEPTH, IS_BF16, true>(o, weights[k], values + (u64)(k * step), 1);
    }

    // Replaces exponents, none of which is above 0, by powers of two: by the function's shortcut where it has one.
    DEVICE void take_powers() {
        const int AT_ONCE = 16; // as registers allow
        UNROLL for (int from = 0; from < KEYS / 2; from += AT_ONCE) {
#ifdef NEAR
            float least = near_sum(s[from]);
            UNROLL for (int i = from + 1; i < from + AT_ONCE; i++) least = smaller(least, near_sum(s[i]));
            if (least >= NEAR) {
                UNROLL for (int i = from; i < from + AT_ONCE; i++) s[i] = near_power(s[i]);
                continue;
            }
#endif
            UNROLL for (int i = from; i < from + AT_ONCE; i++) s[i] = power(s[i]);
        }
    }

    // Computes weights from the scores of a block, what is carried of them, and the factors of the sums. IS_CLEAR: every
    // row sees every key.
    template <bool IS_CLEAR>
    DEVICE void weigh(int block) {
        float top[2] = {m[0], m[1]}, z[2], lanes[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        UNROLL for (int i = 0; i < KEYS / 2; i++) {
            const int r = i / 2 % 2;
            float exponent, base;
            bool is_visible = look_at(p, t, row + r * 8, block + i / 4 * 8 + column + i % 2, s[i], exponent, base);
            s[i] = IS_CLEAR || is_visible ? exponent : LOWEST;
            top[r] = larger(top[r], s[i]);
        }
        UNROLL for (int r = 0; r < 2; r++) {
            top[r] = larger(top[r], SHFL_XOR(top[r], 1, 32));
            top[r] = larger(top[r], SHFL_XOR(top[r], 2, 32));
            z[r] = origin(top[r]);
            a[r] = power(m[r] - z[r]);
            m[r] = top[r];
        }
        UNROLL for (int i = 0; i < KEYS / 2; i++) s[i] = s[i] - z[i / 2 % 2];
        take_powers();
        UNROLL for (int i = 0; i < KEYS / 2; i++) lanes[i % 4] = lanes[i % 4] + s[i];
        UNROLL for (int r = 0; r < 2; r++) {
            float w = lanes[r * 2] + lanes[r * 2 + 1];
            w = w + SHFL_XOR(w, 1, 32);
            w = w + SHFL_XOR(w, 2, 32);
            l[r] = fused(l[r], a[r], w);
        }
    }

    // The weights as the left operand of a product.
    DEVICE void pack() {
        UNROLL for (int k = 0; k < PAIRS; k++)
            UNROLL for (int i = 0; i < 4; i++) {
                const int at = (k * 2 + i / 2) * 4 + i % 2 * 2;
                weights[k][i] = NARROW_PAIR(s[at], s[at + 1]);
            }
    }

    DEVICE void scale() {
        if (in_any_lane(!(a[0] == 1.0f && a[1] == 1.0f))) {
            UNROLL for (int i = 0; i < DEPTH / 2; i++) o[i] = o[i] * a[i / 2 % 2];
        }
    }

    // Whether values of a block are not finite. The warpgroup's threads meet.
    DEVICE bool has_lost(const R& ring, unsigned char* memory, int block) {
        const unsigned char* from = memory + (ring.values() - ring.base) + thread * LINE;
        u32 found = 0;
        UNROLL for (int panel = 0; panel < R::PANELS; panel++)
            UNROLL for (int i = 0; i < 8; i++) {
                const uint4_aligned w = *reinterpret_cast<const uint4_aligned*>(from + panel * R::PANEL_BYTES + (i ^ thread % 8) * 16);
                found |= not_finite(w.x) | not_finite(w.y) | not_finite(w.z) | not_finite(w.w);
            }
        i32* const flag = lost + checks++ % 2; // nobody reads that of the check before the last
        if (found) *flag = block + 1;
        named_barrier(3 + half, 128);
        return *flag == block + 1;
    }

    // The same as add_values for such a block. Bits say of which 16 keys some row of the warp may see some, and of which every
    // row sees all.
    DEVICE void add_lost_values(const R& ring, int block) {
        const int first = half * HALF + thread / 32 * 16, last = first + 15 < t.rows ? first + 15 : t.rows - 1, own = block + lane % 8 * 16;
        const int of_own = own < t.keys && first < t.rows ? seen(p, t, first, last, own, 16) : 0;
        const u32 some = (u32)__ballot_sync(0xffffffffu, of_own != 0) & 0xffu, all = (u32)__ballot_sync(0xffffffffu, of_own == 2) & 0xffu;
        UNROLL for (int k = 0; k < PAIRS; k++) {
            if ((some >> k & 1u) == 0) continue;
            UNROLL for (int n = 0; n < COLUMNS; n += 2) {
                const int key = k * 16 + lane % 16, piece = n + lane / 16;
                u32 w[4];
                load_matrix_4_transposed(w, ring.values() + piece / 8 * R::PANEL_BYTES + key * LINE + (piece % 8 ^ key % 8) * 16);
                float left[4], right[4];
                UNROLL for (int e = 0; e < 4; e++) left[e] = o[n * 4 + e], right[e] = o[n * 4 + 4 + e];
                if ((all >> k & 1u) == 0 && in_any_lane((not_finite(w[0]) | not_finite(w[1]) | not_finite(w[2]) | not_finite(w[3])) != 0)) {
                    multiply_rows([&](int r, int key) {
                        float exponent, base;
                        return look_at(p, t, first + r, key, 0.0f, exponent, base);
                    }, block + k * 16, weights[k], w, left, right);
                } else {
                    u32 low[2] = {w[0], w[1]}, high[2] = {w[2], w[3]};
                    MULTIPLY_ADD(left, weights[k], low);
                    MULTIPLY_ADD(right, weights[k], high);
                }
                UNROLL for (int e = 0; e < 4; e++) o[n * 4 + e] = left[e], o[n * 4 + 4 + e] = right[e];
            }
        }
    }

    // Joins sums whose largest exponents and weights are right_m and right_l to those of earlier segments.
    DEVICE void join(const float (&right_m)[2], const float (&right_l)[2]) {
        const Joint upper(early_m[0], early_l[0], right_m[0], right_l[0]), lower(early_m[1], early_l[1], right_m[1], right_l[1]);
        UNROLL for (int n = 0; n < COLUMNS; n++) {
            const Quad q = early[n * 256];
            UNROLL for (int e = 0; e < 4; e++) o[n * 4 + e] = (e < 2 ? upper : lower).join(q.v[e], o[n * 4 + e]);
        }
    }

    // Puts the sums of a segment aside.
    DEVICE void end_segment(const float (&right_m)[2], const float (&right_l)[2]) {
        if (has_early) {
            join(right_m, right_l);
        } else {
            UNROLL for (int r = 0; r < 2; r++) early_m[r] = right_m[r], early_l[r] = right_l[r];
        }
        has_early = true;
        UNROLL for (int n = 0; n < COLUMNS; n++) early[n * 256] = Quad{{o[n * 4], o[n * 4 + 1], o[n * 4 + 2], o[n * 4 + 3]}};
        UNROLL for (int i = 0; i < DEPTH / 2; i++) o[i] = 0.0f;
    }

    DEVICE void run(R ring, unsigned char* memory) {
        if (HAS_BASE) {
            UNROLL for (int r = 0; r < 2; r++) {
                float exponent;
                look_at(p, t, row + r * 8, 0, 0.0f, exponent, m[r]);
                l[r] = 1.0f;
            }
        }
        int segment = HAS_BASE ? 0 : -1, sight = 0;
        // The next block of keys, or -1. The threads of a warp agree.
        auto next = [&](const R& ring) {
            mbarrier_wait(ring.has_keys(), ring.parity);
            const Notice* const notice = reinterpret_cast<const Notice*>(memory + ring.notice_at());
            sight = (int)uniform((u32)notice->sight[half]);
            return (int)uniform((u32)notice->block);
        };
        int block = next(ring);
        if (block >= 0) {
            mbarrier_wait(ring.has_query(), 0);
            if (half == 1) end_turn(); // the other one begins
            begin_turn();
            wgmma_fence();
            multiply_keys(ring);
            wgmma_commit();
            end_turn();
            wgmma_wait<0>();
            wgmma_done(s);
            release(ring.no_keys());
            R before = ring;
            ROLLED for (bool is_first = true;; is_first = false) {
                const bool is_new = segment >= 0 && block / SEGMENT != segment;
                segment = block / SEGMENT;
                const float old_m[2] = {m[0], m[1]}, old_l[2] = {l[0], l[1]};
                if (is_new) UNROLL for (int r = 0; r < 2; r++) m[r] = LOWEST, l[r] = 0.0f;
                if (MOSTLY(sight == 2)) {
                    weigh<true>(block);
                } else {
                    weigh<false>(block);
                }
                wgmma_wait<0>();
                wgmma_done(o);
                if (!is_first) release(before.no_values());
                if (RARELY(is_new)) {
                    end_segment(old_m, old_l);
                } else {
                    scale();
                }
                before = ring;
                ring.advance();
                pack();
                mbarrier_wait(before.has_values(), before.parity);
                bool is_nothing = sight == 0;
                if (RARELY(sight == 1) && has_lost(before, memory, block)) {
                    add_lost_values(before, block);
                    is_nothing = true; // a weight that is not finite makes the row NaN, whatever is added
                }
                block = next(ring);
                if (RARELY(block < 0)) {
                    wgmma_fence();
                    add_values(before, is_nothing);
                    wgmma_commit();
                    break;
                }
                begin_turn();
                wgmma_fence();
                multiply_keys(ring);
                wgmma_commit();
                add_values(before, is_nothing);
                wgmma_commit();
                end_turn();
                wgmma_wait<1>();
                wgmma_done(s);
                release(ring.no_keys());
            }
            wgmma_wait<0>();
            wgmma_done(o);
            if (half == 0) begin_turn(); // as often as the other one has ended
        }
        if (has_early) {
            join(m, l);
            UNROLL for (int r = 0; r < 2; r++) m[r] = early_m[r], l[r] = early_l[r];
        }
        store_rows<DEPTH, false>(p, t, row, m, l, [&](int n, int e) { return o[n * 4 + e]; });
    }
};

template <int DEPTH>
DEVICE void weigh_all(const MappedParams& m) {
    SHARED_DYN(unsigned char, memory);
    Tile t;
    if (IS_REFUSED(m.p.refused) || !find(m.p, t)) return; // the whole block
    const u32 start = shared_address(memory), aligned = (start + 1023) / 1024 * 1024;
    Rings<DEPTH> ring = {aligned, 0, 0};
    if (threadIdx.x == 0) {
        tensor_prefetch(&m.q);
        tensor_prefetch(&m.k);
        tensor_prefetch(&m.v);
        Rings<DEPTH> each = ring;
        each.init();
        i32* const lost = reinterpret_cast<i32*>(memory + (aligned - start) + Rings<DEPTH>::LOST_AT);
        for (int i = 0; i < 4; i++) lost[i] = 0;
    }
    for (int i = threadIdx.x; i < 8 * LINE / 4; i += 3 * 128) reinterpret_cast<i32*>(memory + (aligned - start) + Rings<DEPTH>::ZEROS_AT)[i] = 0;
    fence_async_shared();
    BARRIER();
    if (threadIdx.x < 128) {
        registers_fewer<24>();
        if (threadIdx.x < 32) bring<DEPTH>(m, t, ring, memory + (aligned - start));
    } else {
        registers_more<240>();
        Half<DEPTH>(m.p, t, memory + (aligned - start)).run(ring, memory + (aligned - start));
    }
}
