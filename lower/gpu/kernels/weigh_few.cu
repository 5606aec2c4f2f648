
// Few queries of each sequence, as tokens are generated.
//
// Schedule  a block takes a segment of the keys of a sequence, and 16 rows: queries and heads that share a head of keys,
//           so that keys and values are read once. First each of its eight warps computes the scores of one block of keys,
//           and copies its keys ahead for itself alone. Then the warps exchange maxima,
//           and weights by shared memory; and each computes some columns of the weighed sums, from values that all copy,
//           behind their keys, so that memory is never idle.
//           What a segment gives lies in memory. A second kernel joins the segments of each row, ascending.
//           A block goes on to other segments: how many there are, only the device knows.

typedef u32 MAY_ALIAS u32_alias;

const int ROWS = 16, EACH = 8;                     // keys of a warp in a stage of the ring, which has those of all warps
const int LINE = SEGMENT * 2 + 16;                 // bytes of a row of weights: eight rows lie in different banks
const float LEFT_OUT = -1.0f;                      // the sum of weights of a segment of which a row sees nothing
static_assert(SEGMENT / KEYS == WARPS && EACH * WARPS == 64, "a warp has a block of keys");

struct Few {
    Params p;
    float *sums, *parts; // of rows and segments: m and l, and the weighed sum
    i64 rows, segments, items, ring;
};

// A segment of a sequence, and 16 of its rows.
struct Part {
    Tile t; // all queries of the sequence
    int segment, tile, total; // rows of the sequence

    // Which row of the sequence a row of the tile is; behind the last row it is the last.
    DEVICE int row_of(int r) const { return tile * ROWS + r < total ? tile * ROWS + r : total - 1; }

    // The tile of a row alone, as body reads it.
    DEVICE Tile tile_of(const Params& p, int n) const {
        Tile own = t;
        const int shared = (int)p.shared;
        own.first = t.first + n / shared;
        own.place = t.place + n / shared;
        own.shared = n % shared;
        own.head = t.group * shared + own.shared;
        return own;
    }
};

// What body says of the row of a tile of one row, and a key.
DEVICE bool look_at(const Params& p, const Tile& own, int key, float score, float& exponent, float& base) {
    const int k = key < own.keys ? key : own.keys - 1;
    i32 is_visible;
    body(p, own, own.first, own.first_key + k, score, own.place, k, exponent, is_visible, base);
    return is_visible && key < own.keys;
}

// Finds the sequence and the segment of an item. It reports whether there is anything to compute.
DEVICE bool find_item(const Few& f, i64 item, Part& x) {
    const Params& p = f.p;
    const int sequence = (int)(item / p.groups % p.sequences);
    x.segment = (int)(item / p.groups / p.sequences);
    x.t.group = (int)(item % p.groups);
    x.t.first = p.qstart[sequence * p.qstart_stride];
    x.t.rows = p.qstart[(sequence + 1) * p.qstart_stride] - x.t.first;
    find_keys(p, x.t, sequence);
    x.t.place = x.t.keys - x.t.rows;
    x.total = x.t.rows * (int)p.shared;
    return x.t.rows > 0 && (x.segment == 0 || x.segment * SEGMENT < x.t.keys);
}

// The first item from `item` on, in steps of the grid, that has something to compute.
DEVICE i64 next_item(const Few& f, i64 item) {
    for (; item < f.items; item += (i64)32 * gridDim.x) {
        const i64 own = item + (i64)(threadIdx.x % 32) * gridDim.x;
        Part x;
        u32 found = (u32)__ballot_sync(0xffffffffu, own < f.items && find_item(f, own, x));
        if (found == 0) continue;
        for (; (found & 1u) == 0; found >>= 1) item += gridDim.x;
        return item;
    }
    return f.items;
}

template <int DEPTH, bool ANY_ADDRESS>
struct Decoder {
    typedef SharedRows<DEPTH, THREADS> Rows; // of keys and values
    static const int STEPS = DEPTH / 16, PIECES = DEPTH / 8, PITCH = DEPTH * 2, STAGE = EACH * WARPS * PITCH;
    static const int OWN = PIECES > WARPS ? 2 : 1;   // columns of eight of a warp
    static const int STAGES = SEGMENT / (EACH * WARPS); // of a segment
    static_assert(PIECES <= OWN * WARPS, "too many columns");

    // In shared memory: for each block of keys of the segment, and each row.
    struct Marks {
        float top[WARPS][ROWS], factor[WARPS][ROWS], sum[WARPS][ROWS];
        const Element *keys[SEGMENT / 16], *values[SEGMENT / 16]; // where 16 of each begin, which lie in one page
        i32 sights[WARPS];
    };

    const Few& f;
    const Params& p;
    const Part& x;
    const int lane, warp, row, column;
    const int piece; // of eight elements that the thread copies
    unsigned char* const memory;
    Marks* const marks;
    int width;                      // elements of the piece
    i64 key_offset, value_offset;   // of what the thread copies, from the first of 16 keys
    u32 ring_at, weights_at;
    int first, blocks; // of keys: the first block that any row may see, and the number up to the last
    bool is_whole;     // these blocks, and their rows
    Tile own[2];       // rows row and row + 8
    float m[2], l[2], o[OWN][4];

    DEVICE Decoder(const Few& f, const Part& x, unsigned char* memory, Marks* marks)
        : f(f), p(f.p), x(x), lane(threadIdx.x % 32), warp(threadIdx.x / 32), row(lane / 4), column(lane % 4 * 2), piece(lane % PIECES), memory(memory), marks(marks) {
        width = (int)p.depth - piece * 8;
        width = width < 0 ? 0 : width < 8 ? width : 8;
        key_offset = lane / PIECES * p.k_token + piece * 8;
        value_offset = (warp % 2 * EACH + lane / PIECES) * p.v_token + piece * 8; // the warp's eight of 16
        ring_at = shared_address(memory);
        weights_at = ring_at + (int)f.ring * STAGE;
        UNROLL for (int r = 0; r < 2; r++) own[r] = x.tile_of(p, x.row_of(row + r * 8));
    }

    DEVICE void await_copies() const {
        if (f.ring == 8) copy_async_wait<6>();
        else copy_async_wait<2>();
    }

    // Begins to copy eight elements, of which `count` exist.
    DEVICE void copy(int slot, int at_row, const Element* from, int count) const {
        const u32 to = slot * STAGE + Rows::place(at_row, piece);
        if (!ANY_ADDRESS) {
            copy_async_16(ring_at + to, from, count * 2);
        } else {
            Group16 g = fetch16(from, count);
            *reinterpret_cast<uint4_aligned*>(memory + to) = uint4_aligned{g.w[0], g.w[1], g.w[2], g.w[3]};
        }
    }

    // Begins to copy a stage of the keys of the warp's block, the first eight of 16 or the others. Behind the last stage
    // come the values of the segment: of each 64 the warp's eight, to where only its own keys have been.
    DEVICE void copy_stage(int stage, bool is_first) const {
        const bool is_key = stage < KEYS / EACH;
        const int key = first + (is_key ? warp * KEYS + stage * EACH : ((stage - KEYS / EACH) * WARPS + warp) * EACH), i = (key & (SEGMENT - 1)) / 16;
        const Element* from = is_key ? marks->keys[i] + (is_first ? key_offset : key_offset + EACH * p.k_token) : marks->values[i] + value_offset;
        if (is_key || stage < KEYS / EACH + blocks * 2) copy_eight(stage, key, from, is_key ? p.k_token : p.v_token);
        copy_async_commit();
    }

    DEVICE void copy_values(int stage) const { copy_stage(stage + KEYS / EACH, false); }

    DEVICE void copy_eight(int stage, int key, const Element* from, i64 token) const {
        const int r = lane / PIECES, slot = stage & ((int)f.ring - 1);
        if (!ANY_ADDRESS && is_whole) { // a copy of less than 16 bytes takes a dozen instructions
            UNROLL for (int i = 0; i < EACH; i += 32 / PIECES) {
                copy(slot, warp * EACH + r + i, from, 8);
                from += 32 / PIECES * token;
            }
            return;
        }
        UNROLL for (int i = 0; i < EACH; i += 32 / PIECES) {
            const bool is_in = key + r + i < x.t.keys && width > 0;
            copy(slot, warp * EACH + r + i, is_in ? from : p.q, is_in ? width : 0);
            from += 32 / PIECES * token;
        }
    }

    // Finds the blocks that the rows may see.
    DEVICE void find_blocks() {
        const int shared = (int)p.shared, begin = x.segment * SEGMENT, block = begin + lane * KEYS;
        int sight = 0;
        if (lane < WARPS && block < x.t.keys) {
            const int end = block + KEYS < x.t.keys ? block + KEYS : x.t.keys;
            sight = sight_of(p, x.t.place + x.tile * ROWS / shared, x.t.place + x.row_of(ROWS - 1) / shared, block, end - 1, x.t.group * shared,
                             x.t.group * shared + shared - 1);
            if (sight == 2 && end < block + KEYS) sight = 1;
        }
        u32 found = (u32)__ballot_sync(0xffffffffu, sight != 0);
        first = begin;
        blocks = 0;
        if (found != 0) {
            for (; (found & 1u) == 0; found >>= 1) first += KEYS;
            for (; found != 0; found >>= 1) blocks++;
        }
        is_whole = first + blocks * KEYS <= x.t.keys && p.depth == DEPTH;
        if (warp == 0) {
            if (block >= first && block < first + blocks * KEYS) marks->sights[(block - first) / KEYS] = sight;
            for (int i = lane; i < SEGMENT / 16; i += 32)
                if (begin + i * 16 < x.t.keys) {
                    const i32 page = page_of(p, x.t, begin + i * 16);
                    marks->keys[i] = k_in(p, x.t, page, begin + i * 16);
                    marks->values[i] = v_in(p, x.t, page, begin + i * 16);
                }
        }
        BARRIER();
    }

    // Two neighbours of a query.
    DEVICE u32 query_pair(const Element* from, int c) const {
        if (!ANY_ADDRESS && c + 2 <= p.depth) return *reinterpret_cast<const u32_alias*>(from + c);
        return (c < p.depth ? (u32)from[c] : 0u) | (c + 1 < p.depth ? (u32)from[c + 1] << 16 : 0u);
    }

    // Exponents of scores; those of keys that a row does not see are -Inf.
    template <bool IS_CLEAR>
    DEVICE void take_exponents(float (&t)[4], int n) const {
        UNROLL for (int e = 0; e < 4; e++) {
            float exponent, base;
            const bool is_visible = look_at(p, own[e / 2], first + warp * KEYS + n * EACH + column + e % 2, t[e], exponent, base);
            t[e] = IS_CLEAR || is_visible ? exponent : LOWEST;
        }
    }

    // The exponents of the warp's block of keys: s[n] has those of keys n*8 + column and the next one. The loop is rolled, and
    // s in memory: unrolled, instructions would come from memory more slowly than keys.
    DEVICE void take_keys(Quad (&s)[KEYS / EACH]) {
        u32 query[STEPS][4];
        ROLLED for (int i = 0; i < f.ring - 1; i++) copy_stage(i, i % 2 == 0);
        UNROLL for (int r = 0; r < 2; r++) {
            const Element* from = p.q + (i64)own[r].first * p.q_token + own[r].group * p.q_group + own[r].shared * p.q_head;
            UNROLL for (int k = 0; k < STEPS; k++) {
                query[k][r] = query_pair(from, k * 16 + column);
                query[k][r + 2] = query_pair(from, k * 16 + column + 8);
            }
        }
        const u32 mine = Rows::place(warp * EACH + lane % 8, lane / 8);
        const bool is_clear = marks->sights[warp] == 2;
        float top[2] = {LOWEST, LOWEST};
        ROLLED for (int n = 0; n < KEYS / EACH; n++) {
            await_copies();
            WARP_BARRIER(); // these keys have arrived, and no lane reads those before
            copy_stage(n + (int)f.ring - 1, n % 2 == 1); // the ring has an even number of stages
            float t[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            const u32 at = ring_at + (n & ((int)f.ring - 1)) * STAGE;
            UNROLL for (int k = 0; k < STEPS; k += 2) {
                u32 w[4];
                load_matrix_4(w, at + (mine ^ k * 32));
                u32 low[2] = {w[0], w[1]}, high[2] = {w[2], w[3]};
                MULTIPLY_ADD(t, query[k], low);
                MULTIPLY_ADD(t, query[k + 1], high);
            }
            if (is_clear) take_exponents<true>(t, n);
            else take_exponents<false>(t, n);
            UNROLL for (int e = 0; e < 4; e++) top[e / 2] = larger(top[e / 2], t[e]);
            s[n] = Quad{{t[0], t[1], t[2], t[3]}};
        }
        UNROLL for (int r = 0; r < 2; r++) {
            top[r] = larger(top[r], SHFL_XOR(top[r], 1, 32));
            top[r] = larger(top[r], SHFL_XOR(top[r], 2, 32));
            if (lane % 4 == 0) marks->top[warp][row + r * 8] = top[r];
        }
    }

    // The weights of the warp's block, and what they make of what is carried.
    DEVICE void weigh_keys(const Quad (&s)[KEYS / EACH]) const {
        float z[2], lanes[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        UNROLL for (int r = 0; r < 2; r++) {
            float before = m[r];
            for (int k = 0; k < warp; k++) before = larger(before, marks->top[k][row + r * 8]);
            z[r] = origin(larger(before, marks->top[warp][row + r * 8]));
            if (lane % 4 == 0) marks->factor[warp][row + r * 8] = power(before - z[r]);
        }
        ROLLED for (int n = 0; n < KEYS / EACH; n++) {
            Quad t = s[n];
            UNROLL for (int e = 0; e < 4; e++) {
                t.v[e] = power(t.v[e] - z[e / 2]);
                lanes[e] = lanes[e] + t.v[e];
            }
            UNROLL for (int r = 0; r < 2; r++)
                *reinterpret_cast<u32_alias*>(memory + (weights_at - ring_at) + (row + r * 8) * LINE + (warp * KEYS + n * EACH + column) * 2) =
                    NARROW_PAIR(t.v[r * 2], t.v[r * 2 + 1]);
        }
        UNROLL for (int r = 0; r < 2; r++) {
            float w = lanes[r * 2] + lanes[r * 2 + 1];
            w = w + SHFL_XOR(w, 1, 32);
            w = w + SHFL_XOR(w, 2, 32);
            if (lane % 4 == 0) marks->sum[warp][row + r * 8] = w;
        }
    }

    // Adds the products of 16 keys.
    DEVICE void multiply(int key, bool is_clear, const u32 (&weights)[4], const u32 (&w)[4]) {
        if (!is_clear && in_any_lane((not_finite(w[0]) | not_finite(w[1]) | not_finite(w[2]) | not_finite(w[3])) != 0)) {
            float none[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            multiply_rows([&](int r, int key) {
                float exponent, base;
                return look_at(p, x.tile_of(p, x.row_of(r)), key, 0.0f, exponent, base);
            }, key, weights, w, o[0], OWN == 2 ? o[OWN - 1] : none);
            return;
        }
        u32 low[2] = {w[0], w[1]}, high[2] = {w[2], w[3]};
        MULTIPLY_ADD(o[0], weights, low);
        if (OWN == 2) MULTIPLY_ADD(o[OWN - 1], weights, high);
    }

    DEVICE void take_values() {
        const u32 mine = OWN == 2 ? Rows::place(lane % 16, warp * 2 + lane / 16) : Rows::place(lane, warp % PIECES);
        const u32 weights_of_lane = weights_at + lane % 16 * LINE + lane / 16 * 16;
        ROLLED for (int stage = 0; stage < blocks * 2; stage++) {
            await_copies();
            BARRIER(); // these values have arrived, and the weights; nobody reads the values before
            copy_values(stage + (int)f.ring - 1);
            if (warp * OWN >= PIECES) continue;
            const u32 at = ring_at + (stage & ((int)f.ring - 1)) * STAGE;
            const int block = stage / 2;
            const bool is_clear = marks->sights[block] == 2;
            if (stage % 2 == 0)
                UNROLL for (int n = 0; n < OWN; n++)
                    UNROLL for (int e = 0; e < 4; e++) o[n][e] = o[n][e] * marks->factor[block][row + e / 2 * 8];
            UNROLL for (int k = 0; k < 4; k++) {
                u32 weights[4], w[4];
                load_matrix_4(weights, weights_of_lane + (stage * EACH * WARPS + k * 16) * 2);
                if (OWN == 2) {
                    load_matrix_4_transposed(w, at + mine + k * 16 * PITCH);
                } else {
                    load_matrix_4_transposed(w, at + mine + k / 2 * 32 * PITCH);
                    if (k % 2 == 1) w[0] = w[2], w[1] = w[3];
                    w[2] = w[3] = 0u;
                }
                multiply(first + stage * EACH * WARPS + k * 16, is_clear, weights, w);
            }
        }
    }

    DEVICE void store() const {
        UNROLL for (int r = 0; r < 2; r++) {
            if (x.tile * ROWS + row + r * 8 >= x.total) continue;
            const i64 at = (((i64)own[r].first * p.groups + own[r].group) * p.shared + own[r].shared) * f.segments + x.segment;
            if (warp == 0 && lane % 4 == 0) f.sums[at * 2] = m[r], f.sums[at * 2 + 1] = l[r];
            if (warp * OWN < PIECES)
                UNROLL for (int n = 0; n < OWN; n++)
                    UNROLL for (int e = 0; e < 2; e++) f.parts[at * DEPTH + (warp * OWN + n) * 8 + column + e] = o[n][r * 2 + e];
        }
    }

    DEVICE void compute() {
        UNROLL for (int n = 0; n < OWN; n++) UNROLL for (int e = 0; e < 4; e++) o[n][e] = 0.0f;
        find_blocks();
        UNROLL for (int r = 0; r < 2; r++) {
            m[r] = LOWEST;
            l[r] = blocks > 0 ? 0.0f : LEFT_OUT;
            if (HAS_BASE && x.segment == 0) {
                float exponent;
                look_at(p, own[r], 0, 0.0f, exponent, m[r]);
                l[r] = 1.0f;
            }
        }
        if (blocks > 0) {
            Quad s[KEYS / EACH];
            if (warp < blocks) take_keys(s);
            else
                ROLLED for (int i = 0; i < f.ring - 1; i++) copy_values(i);
            BARRIER(); // the maxima of all blocks are known
            if (warp < blocks) weigh_keys(s);
            take_values();
            UNROLL for (int r = 0; r < 2; r++)
                for (int k = 0; k < blocks; k++) {
                    m[r] = larger(m[r], marks->top[k][row + r * 8]);
                    l[r] = fused(l[r], marks->factor[k][row + r * 8], marks->sum[k][row + r * 8]);
                }
            copy_async_wait<0>();
        }
        store();
        BARRIER(); // before the next segment takes the memory
    }
};

template <int DEPTH, bool ANY_ADDRESS>
DEVICE void weigh_few(const Few& f) {
    typedef Decoder<DEPTH, ANY_ADDRESS> D;
    SHARED_DYN(unsigned char, memory);
    SHARED(typename D::Marks, marks, 1);
    START_NEXT(); // which waits for the parts
    if (IS_REFUSED(f.p.refused)) return;
    ROLLED for (i64 item = next_item(f, blockIdx.x); item < f.items; item = next_item(f, item + gridDim.x)) {
        Part x;
        find_item(f, item, x);
        ROLLED for (x.tile = blockIdx.y; x.tile * ROWS < x.total; x.tile += gridDim.y) D(f, x, memory, marks).compute();
    }
}

// Joins the segments of rows, a thread for each column.
template <int DEPTH>
DEVICE void join_segments(const Few& f) {
    const Params& p = f.p;
    const i64 row = (i64)blockIdx.x * (THREADS / DEPTH) + threadIdx.x / DEPTH;
    const int c = threadIdx.x % DEPTH;
    const i64 token = row / (p.groups * p.shared), group = row / p.shared % p.groups, shared = row % p.shared;
    int low = 0, high = (int)p.sequences;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (p.qstart[middle * p.qstart_stride] <= token) low = middle;
        else high = middle;
    }
    Tile t;
    find_keys(p, t, low);
    AWAIT_PREVIOUS(); // the launch may be early, and has read only what nobody writes
    if (IS_REFUSED(p.refused) || row >= f.rows) return;
    float m = LOWEST, l = 0.0f, o = 0.0f;
    bool is_first = true;
    for (i64 s = 0; s == 0 || s * SEGMENT < t.keys; s++) {
        const i64 at = row * f.segments + s;
        const float next_m = f.sums[at * 2], next_l = f.sums[at * 2 + 1], next = f.parts[at * DEPTH + c];
        if (next_l == LEFT_OUT) continue;
        if (is_first) {
            m = next_m, l = next_l, o = next;
        } else {
            const Joint joint(m, l, next_m, next_l);
            o = joint.join(o, next);
        }
        is_first = false;
    }
    const bool is_empty = l == 0.0f, is_lost = !(m < INFINITE);
    const float nan = float_of(0x7fc00000u), y = is_empty ? 0.0f : is_lost ? nan : fused(o, divide(1.0f, l), 0.0f);
    if (c < p.depth) p.o[token * p.o_token + group * p.o_group + shared * p.o_head + c] = (Element)(NARROW_PAIR(y, y) & 0xffffu);
    if (c == 0) p.lse[token * p.lse_token + group * p.lse_group + shared] = is_empty ? LOWEST : is_lost ? nan : m + logarithm(l);
}
