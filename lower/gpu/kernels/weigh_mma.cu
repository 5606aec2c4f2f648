// */cuda.mma: streams on tensor cores
// o[t,g,j,:] = the mean of v[s,g,:] over the visible keys s of a sequence, weighed by 2 to the power of their exponents
//
// Operands  as kernels/weigh.cu, in f16 or bf16; rows at any stride, and with ANY_ADDRESS at any address
// Numerics  rule weigh of the definition: scores and weighed sums are chains of mma.sync m16n8k16, ascending. Zeros fill a
//           row up to DEPTH and a block of keys up to 128: steps of zeros change nothing, but for the sign of a zero
//           that no result shows. Keys that only some rows of a step see have the weight +0 in the others, and where
//           their values are not finite, each row is multiplied alone.
// Schedule  a block has TILE queries of a head, a warp 16 of them: their scores, weights and sums stay in its registers,
//           and the accumulators of scores become the left operand of the weighed sums as they are. Keys and values are
//           copied one block ahead, and all warps meet before each. Blocks of keys that no query of the tile sees are
//           not read, and conditions are computed only where some keys may be hidden. What earlier segments give lies in shared memory.
//           The last queries, which see most keys, come first.
// Requires  sm_80, tensorcore.h; depth <= DEPTH

const int WARPS = TILE / 16, THREADS = WARPS * 32;

template <int DEPTH, bool ANY_ADDRESS>
struct Weigher {
    static const int STEPS = DEPTH / 16, COLUMNS = DEPTH / 8, PAIRS = KEYS / 16; // along the depth; of eight; of keys
    typedef SharedRows<DEPTH, THREADS> Rows;
    static const int PITCH = Rows::PITCH, SLOT = KEYS * PITCH; // bytes of a block of keys, or of values

    const Params& p;
    const Tile& t;
    const int lane, warp, row, column; // the lane's first row in the warp's 16, and its columns of eight, two neighbours
    u32 keys_at, values_at, early;     // addresses in shared memory
    u32 query[STEPS][4];
    float s[PAIRS * 2][4], o[COLUMNS][4];
    float m[2], l[2]; // of rows row and row + 8
    bool has_early;   // segments, in shared memory: m and l, then o
    Quad* mine;

    DEVICE Weigher(const Params& p, const Tile& t)
        : p(p), t(t), lane(threadIdx.x % 32), warp(threadIdx.x / 32), row(lane / 4), column(lane % 4 * 2) {
        SHARED_DYN(unsigned char, memory);
        keys_at = shared_address(memory);
        values_at = keys_at + 2 * SLOT;
        early = values_at + 2 * SLOT;
        mine = reinterpret_cast<Quad*>(memory + 4 * SLOT) + threadIdx.x;
        has_early = false;
        clear();
    }

    DEVICE void clear() {
        UNROLL for (int r = 0; r < 2; r++) m[r] = LOWEST, l[r] = 0.0f;
        UNROLL for (int n = 0; n < COLUMNS; n++) UNROLL for (int e = 0; e < 4; e++) o[n][e] = 0.0f;
    }

    DEVICE void copy_block(int slot, int block) const {
        if (!ANY_ADDRESS && block + KEYS <= t.keys && p.depth == DEPTH) { // addresses take most of the time: the usual case has few
            const int row = threadIdx.x / Rows::PIECES, piece = threadIdx.x % Rows::PIECES;
            const u32 to = slot * SLOT + Rows::place(row, piece);
            i32 pages[KEYS / Rows::APART];
            UNROLL for (int i = 0; i < KEYS / Rows::APART; i++) pages[i] = page_of(p, t, block + row + i * Rows::APART);
            const Element *k = k_in(p, t, pages[0], block + row) + piece * 8, *v = v_in(p, t, pages[0], block + row) + piece * 8;
            UNROLL for (int i = 0; i < KEYS / Rows::APART; i++) {
                copy_async_16(keys_at + to + i * Rows::APART * PITCH, k, 16);
                copy_async_16(values_at + to + i * Rows::APART * PITCH, v, 16);
                if (i + 1 == KEYS / Rows::APART) break;
                if (IS_PAGED) {
                    k = k_in(p, t, pages[i + 1], block + row + (i + 1) * Rows::APART) + piece * 8;
                    v = v_in(p, t, pages[i + 1], block + row + (i + 1) * Rows::APART) + piece * 8;
                } else {
                    k += Rows::APART * p.k_token;
                    v += Rows::APART * p.v_token;
                }
            }
            return;
        }
        Rows::template copy<KEYS, ANY_ADDRESS>(keys_at + slot * SLOT, (int)p.depth, p.q, [&](int row) { return block + row < t.keys ? k_at(p, t, block + row) : nullptr; });
        Rows::template copy<KEYS, ANY_ADDRESS>(values_at + slot * SLOT, (int)p.depth, p.q, [&](int row) { return block + row < t.keys ? v_at(p, t, block + row) : nullptr; });
    }

    DEVICE bool look(int r, int key, float score, float& exponent, float& base) const { return look_at(p, t, warp * 16 + r, key, score, exponent, base); }

    DEVICE void begin() {
        const Element* from = p.q + (i64)t.first * p.q_token + t.group * p.q_group + t.shared * p.q_head;
        Rows::template copy<TILE, ANY_ADDRESS>(early, (int)p.depth, p.q, [&](int row) { return row < t.rows ? from + row * p.q_token : nullptr; });
        copy_async_commit();
    }

    // Reads the queries, whose place the sums of earlier segments take.
    DEVICE void read_queries() {
        UNROLL for (int k = 0; k < STEPS; k++) load_matrix_4(query[k], early + Rows::place(warp * 16 + lane % 16, k * 2 + lane / 16));
        BARRIER();
        if (HAS_BASE) {
            UNROLL for (int r = 0; r < 2; r++) {
                float exponent;
                look(row + r * 8, 0, 0.0f, exponent, m[r]);
                l[r] = 1.0f;
            }
        }
    }

    // s = the scores of a block of keys; those of pairs of eight that no row sees are zeros.
    template <bool IS_CLEAR>
    DEVICE void multiply_keys(int slot, u32 pairs) {
        const int AT_ONCE = IS_CLEAR ? PAIRS : 2; // chains
        const u32 at = keys_at + slot * SLOT, own = Rows::place(lane % 8 + lane / 16 * 8, lane / 8 % 2);
        UNROLL for (int n = 0; n < PAIRS * 2; n++) UNROLL for (int e = 0; e < 4; e++) s[n][e] = 0.0f;
        UNROLL for (int first = 0; first < PAIRS; first += AT_ONCE) {
            if (!IS_CLEAR && (pairs >> first & 3u) == 0) continue;
            UNROLL for (int k = 0; k < STEPS; k++)
                UNROLL for (int n = first; n < first + AT_ONCE; n++) {
                    u32 w[4];
                    load_matrix_4(w, at + (own ^ k * 32) + n * 16 * PITCH);
                    u32 low[2] = {w[0], w[1]}, high[2] = {w[2], w[3]};
                    MULTIPLY_ADD(s[n * 2], query[k], low);
                    MULTIPLY_ADD(s[n * 2 + 1], query[k], high);
                }
        }
    }

    // The weights of 16 keys, as the left operand of a product; they are added to the lanes of l.
    DEVICE void weigh(int k, const float (&z)[2], float (&lanes)[4], u32 (&weights)[4]) {
        UNROLL for (int n = k * 2; n < k * 2 + 2; n++)
            UNROLL for (int e = 0; e < 4; e++) {
                s[n][e] = power(s[n][e] - z[e / 2]);
                lanes[e] = lanes[e] + s[n][e];
            }
        UNROLL for (int i = 0; i < 4; i++) weights[i] = NARROW_PAIR(s[k * 2 + i / 2][i % 2 * 2], s[k * 2 + i / 2][i % 2 * 2 + 1]);
    }

    // Takes a block of keys into what is carried. IS_CLEAR: every row sees every key. Else bits say of which 16 keys
    // some row may see some, and of which every row sees all.
    template <bool IS_CLEAR>
    DEVICE void take(int slot, int block, u32 some = 0, u32 all = 0) {
        multiply_keys<IS_CLEAR>(slot, some);
        float top[2] = {m[0], m[1]}, z[2], a[2], lanes[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        UNROLL for (int n = 0; n < PAIRS * 2; n++)
            UNROLL for (int e = 0; e < 4; e++) {
                float exponent, base;
                bool is_visible = look(row + e / 2 * 8, block + n * 8 + column + e % 2, s[n][e], exponent, base);
                s[n][e] = IS_CLEAR || is_visible ? exponent : LOWEST;
            }
        UNROLL for (int n = 0; n < PAIRS * 2; n++)
            UNROLL for (int e = 0; e < 4; e++) top[e / 2] = larger(top[e / 2], s[n][e]);
        UNROLL for (int r = 0; r < 2; r++) {
            top[r] = larger(top[r], SHFL_XOR(top[r], 1, 32));
            top[r] = larger(top[r], SHFL_XOR(top[r], 2, 32));
            z[r] = origin(top[r]);
            a[r] = power(m[r] - z[r]);
            m[r] = top[r];
        }
        if (in_any_lane(!(a[0] == 1.0f && a[1] == 1.0f))) {
            UNROLL for (int n = 0; n < COLUMNS; n++) UNROLL for (int e = 0; e < 4; e++) o[n][e] = o[n][e] * a[e / 2];
        }
        const u32 at = values_at + slot * SLOT, own = Rows::place(lane % 16, lane / 16);
        UNROLL for (int k = 0; k < PAIRS; k++) {
            if (!IS_CLEAR && (some >> k & 1u) == 0) continue;
            u32 weights[4];
            weigh(k, z, lanes, weights);
            UNROLL for (int n = 0; n < COLUMNS; n += 2) {
                u32 w[4];
                load_matrix_4_transposed(w, at + (own ^ n * 16) + k * 16 * PITCH);
                if (!IS_CLEAR && (all >> k & 1u) == 0 && in_any_lane((not_finite(w[0]) | not_finite(w[1]) | not_finite(w[2]) | not_finite(w[3])) != 0)) {
                    multiply_rows([&](int r, int key) {
                        float exponent, base;
                        return look(r, key, 0.0f, exponent, base);
                    }, block + k * 16, weights, w, o[n], o[n + 1]);
                    continue;
                }
                u32 low[2] = {w[0], w[1]}, high[2] = {w[2], w[3]};
                MULTIPLY_ADD(o[n], weights, low);
                MULTIPLY_ADD(o[n + 1], weights, high);
            }
        }
        UNROLL for (int r = 0; r < 2; r++) {
            float w = lanes[r * 2] + lanes[r * 2 + 1];
            w = w + SHFL_XOR(w, 1, 32);
            w = w + SHFL_XOR(w, 2, 32);
            l[r] = fused(l[r], a[r], w);
        }
    }

    // Joins what is carried to what is in shared memory.
    DEVICE void join() {
        Quad q = mine[0];
        const Joint upper(q.v[0], q.v[2], m[0], l[0]), lower(q.v[1], q.v[3], m[1], l[1]);
        UNROLL for (int r = 0; r < 2; r++) m[r] = q.v[r], l[r] = q.v[2 + r];
        UNROLL for (int n = 0; n < COLUMNS; n++) {
            q = mine[(n + 1) * THREADS];
            UNROLL for (int e = 0; e < 4; e++) o[n][e] = (e < 2 ? upper : lower).join(q.v[e], o[n][e]);
        }
    }

    DEVICE void end_segment() {
        if (has_early) join();
        has_early = true;
        mine[0] = Quad{{m[0], m[1], l[0], l[1]}};
        UNROLL for (int n = 0; n < COLUMNS; n++) mine[(n + 1) * THREADS] = Quad{{o[n][0], o[n][1], o[n][2], o[n][3]}};
        clear();
    }
};

template <int DEPTH, bool ANY_ADDRESS>
DEVICE void weigh(const Params& p) {
    Tile t;
    if (IS_REFUSED(p.refused) || !find(p, t)) return; // the whole block
    Weigher<DEPTH, ANY_ADDRESS> w(p, t);
    w.begin();
    int block = next_seen(p, t, 0), segment = HAS_BASE ? 0 : -1;
    if (block < t.keys) w.copy_block(0, block);
    copy_async_commit();
    copy_async_wait<1>();
    BARRIER();
    w.read_queries();
    const int first = w.warp * 16, last = first + 15 < t.rows ? first + 15 : t.rows - 1; // of the warp's rows
    ROLLED for (int slot = 0; block < t.keys; slot ^= 1) {
        copy_async_wait<0>();
        BARRIER(); // this block has arrived, and nobody reads the one before
        const int next = next_seen(p, t, block + KEYS);
        if (next < t.keys) w.copy_block(slot ^ 1, next);
        copy_async_commit();
        if (segment >= 0 && block / SEGMENT != segment) w.end_segment();
        segment = block / SEGMENT;
        const int sight = first < t.rows ? seen(p, t, first, last, block, KEYS) : 0;
        if (sight == 2) {
            w.template take<true>(slot, block);
        } else if (sight == 1) {
            const int own = block + w.lane % 8 * 16, of_own = own < t.keys ? seen(p, t, first, last, own, 16) : 0;
            w.template take<false>(slot, block, (u32)__ballot_sync(0xffffffffu, of_own != 0) & 0xffu, (u32)__ballot_sync(0xffffffffu, of_own == 2) & 0xffu);
        }
        block = next;
    }
    if (w.has_early) w.join();
    store_rows<DEPTH, ANY_ADDRESS>(p, t, first + w.row, w.m, w.l, [&](int n, int e) { return w.o[n][e]; });
}
