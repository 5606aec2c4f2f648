// dq, dk, dv, dbase = the gradients of a stream (weigh.cu) from d_o, that of its mean o
//
// Operands  q, o, d_o, dq (tokens, groups, heads of a group, depth), k, v, dk, dv (keys, groups, depth) in one format; lse,
//           dbase (tokens, groups, heads of a group) f32; starts of sequences, i32; rows strided. What body reads is in Params too.
// Numerics  rule weigh_backward of the definition: all sums of products are chains of fused products, ascending
// Schedule  three launches. Deltas: a warp for each query and head. Queries: a block of 256 threads has TILE queries of a head,
//           and takes blocks of keys, descending. Keys: a block has TILE keys of a group, for gradients of keys or of values,
//           and takes tiles of queries, head after head. A thread has 4 rows, 8 of the others, and COLUMNS columns of the
//           sums; weights or gradients of scores pass through shared memory, with bits for what is visible. No two
//           blocks write to one place. Heads of more than 16 COLUMNS columns are divided among blocks.

const int TILE = 64, WIDE = 128, SEGMENT = 1024;
const int CHUNK = 16;       // depth of the factors of products in shared memory
const int PITCH = WIDE + 8; // of a row of factors of sums
#define LOWEST (-INFINITE)

// Where a block's rows are.
struct Tile {
    i64 first, rows;      // queries, from the first of the tile on
    i64 place;            // of the first in its sequence
    i64 first_key, keys;  // of the sequence
    i64 begin, end;       // its queries
    const i32* table;
    i64 group, shared, head;
};

DEVICE float origin(float sum) { return sum == LOWEST ? 0.0f : sum; }

// Finds the sequence of a slot, and the first of the slot's tokens. A sequence that begins at token f has the slots from f/TILE
// plus its number on.
DEVICE i64 find_slot(const i32* starts, i64 stride, i64 sequences, i64 slot, i64& first) {
    i64 low = 0, high = sequences;
    while (high - low > 1) {
        i64 middle = (low + high) / 2;
        if (starts[middle * stride] / TILE + middle <= slot) low = middle;
        else high = middle;
    }
    i64 begin = starts[low * stride];
    first = begin + (slot - begin / TILE - low) * TILE;
    return low;
}

DEVICE void enter(const Params& p, Tile& t, i64 sequence) {
    find_keys(p, t, (int)sequence);
    t.begin = p.qstart[sequence * p.qstart_stride];
    t.end = p.qstart[(sequence + 1) * p.qstart_stride];
}

DEVICE void choose_head(const Params& p, Tile& t, i64 head) {
    t.head = head;
    t.group = head / p.shared;
    t.shared = head % p.shared;
}

// Finds a tile of queries.
DEVICE bool find_queries(const Params& p, Tile& t) {
    i64 heads = p.groups * p.shared;
    enter(p, t, find_slot(p.qstart, p.qstart_stride, p.sequences, blockIdx.x / heads, t.first));
    choose_head(p, t, blockIdx.x % heads);
    t.rows = t.end - t.first < TILE ? t.end - t.first : TILE;
    t.place = t.keys - (t.end - t.first);
    return t.rows > 0;
}

DEVICE i64 delta_at(const Params& p, const Tile& t, i64 token) { return (token * p.groups + t.group) * p.shared + t.shared; }
DEVICE float lse_at(const Params& p, const Tile& t, i64 token) { return p.lse[token * p.lse_token + t.group * p.lse_group + t.shared]; }

// Rows of an operand.
struct Rows {
    const Element* first;
    i64 stride, count;
};

// Computes the products of TILE rows and WIDE others, zeros where there are none.
DEVICE void dots(const Rows& a, const Rows& b, i64 depth, float* factors, float (&s)[4][8]) {
    float* const left = factors;                 // [CHUNK][TILE]
    float* const right = factors + CHUNK * TILE; // [CHUNK][WIDE]
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 8; j++) s[i][j] = 0.0f;
    for (i64 d = 0; d < depth; d += CHUNK) {
        int n = depth - d < CHUNK ? (int)(depth - d) : CHUNK;
        BARRIER();
        for (int e = threadIdx.x; e < TILE * CHUNK; e += 256) {
            int row = e / CHUNK, c = e % CHUNK;
            left[c * TILE + row] = row < a.count && c < n ? LOAD(a.first + row * a.stride + d + c) : 0.0f;
        }
        for (int e = threadIdx.x; e < WIDE * CHUNK; e += 256) {
            int row = e / CHUNK, c = e % CHUNK;
            right[c * WIDE + row] = row < b.count && c < n ? LOAD(b.first + row * b.stride + d + c) : 0.0f;
        }
        BARRIER();
        for (int c = 0; c < n; c++) {
            float x[4], y[8];
            UNROLL for (int i = 0; i < 4; i++) x[i] = left[c * TILE + ty * 4 + i];
            UNROLL for (int j = 0; j < 8; j++) y[j] = right[c * WIDE + tx * 8 + j];
            UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 8; j++) s[i][j] = fused(x[i], y[j], s[i][j]);
        }
    }
}

// Adds rows of an operand to TILE sums, each times its factor, where it is visible.
template <int COLUMNS>
DEVICE void add_rows(const Rows& a, i64 depth, const float* weights, const u16* seen, float* factors, float (&sums)[4][COLUMNS]) {
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, WIDTH = 16 * COLUMNS, AT_ONCE = 16;
    for (int first = 0; first < a.count; first += AT_ONCE) {
        BARRIER();
        for (int e = threadIdx.x; e < AT_ONCE * WIDTH; e += 256) {
            int row = e / WIDTH, c = e % WIDTH;
            i64 column = (i64)blockIdx.y * WIDTH + c;
            factors[e] = first + row < a.count && column < depth ? LOAD(a.first + (first + row) * a.stride + column) : 0.0f;
        }
        BARRIER();
        for (int row = 0; row < AT_ONCE; row++) {
            float x[COLUMNS];
            UNROLL for (int c = 0; c < COLUMNS; c++) x[c] = factors[row * WIDTH + tx + 16 * c];
            UNROLL for (int i = 0; i < 4; i++) {
                if (!(seen[(ty * 4 + i) * 16 + (first + row) / 8] >> (first + row) % 8 & 1)) continue;
                float w = weights[(ty * 4 + i) * PITCH + first + row];
                UNROLL for (int c = 0; c < COLUMNS; c++) sums[i][c] = fused(w, x[c], sums[i][c]);
            }
        }
    }
}

// Writes the factors of sums of a thread's rows, and bits for what is visible: gradients of scores, or weights if is_weight. Rows
// are those of queries, or of keys if BY_KEY; the others are of the other kind. Keys are those from first on.
template <bool BY_KEY>
DEVICE void differentiate(const Params& p, const Tile& t, i64 first, i64 count, bool is_weight, float (&s)[4][8], float (&dp)[4][8], float* weights, u16* seen) {
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    ROLLED for (int i = 0; i < 4; i++) { // compilers take long for the body of a stream
        u32 bits = 0;
        UNROLL for (int j = 0; j < 8; j++) {
            const i64 row = BY_KEY ? tx * 8 + j : ty * 4 + i, key = BY_KEY ? ty * 4 + i : tx * 8 + j;
            if (row >= t.rows || key >= count) continue;
            float exponent, base, slope;
            i32 is_visible;
            body(p, t, t.first + row, t.first_key + first + key, s[0][j], (i32)(t.place + row), (i32)(first + key), exponent, is_visible, base, slope);
            if (!is_visible) continue;
            bits |= 1u << j;
            float weight = power(exponent - origin(lse_at(p, t, t.first + row)));
            float gradient = (weight * (dp[0][j] - p.delta[delta_at(p, t, t.first + row)])) * slope;
            weights[(ty * 4 + i) * PITCH + tx * 8 + j] = ROUND(is_weight ? weight : gradient);
        }
        seen[(ty * 4 + i) * 16 + tx] = (u16)bits;
        UNROLL for (int next = 0; next < 3; next++) // registers have no index
            UNROLL for (int j = 0; j < 8; j++) s[next][j] = s[next + 1][j], dp[next][j] = dp[next + 1][j];
    }
}

template <int COLUMNS>
DEVICE void clear(float (&x)[4][COLUMNS]) {
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int c = 0; c < COLUMNS; c++) x[i][c] = 0.0f;
}

template <int COLUMNS>
DEVICE void add(float (&x)[4][COLUMNS], const float (&y)[4][COLUMNS]) {
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int c = 0; c < COLUMNS; c++) x[i][c] = x[i][c] + y[i][c];
}

template <int COLUMNS>
DEVICE void queries(const Params& p) {
    SHARED(float, weights, TILE * PITCH);
    SHARED(float, factors, CHUNK * (TILE + WIDE));
    SHARED(u16, seen, TILE * 16);
    Tile t;
    if (IS_REFUSED(p.refused) || !find_queries(p, t)) return;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    Rows q = {p.q + t.first * p.q_token + t.group * p.q_group + t.shared * p.q_head, p.q_token, t.rows};
    Rows d_o = {p.d_o + t.first * p.d_o_token + t.group * p.d_o_group + t.shared * p.d_o_head, p.d_o_token, t.rows};
    float sums[4][COLUMNS], part[4][COLUMNS];
    clear(sums);
    for (i64 block = (t.keys - 1) / WIDE * WIDE; block >= 0 && t.keys > 0; block -= WIDE) {
        i64 count = t.keys - block < WIDE ? t.keys - block : WIDE;
        if (sight_of(p, t.place, t.place + t.rows - 1, block, block + count - 1, t.head, t.head) == 0) continue;
        Rows k = {k_at(p, t, (int)block), p.k_token, count}, v = {v_at(p, t, (int)block), p.v_token, count};
        float s[4][8], dp[4][8];
        dots(q, k, p.depth, factors, s);
        dots(d_o, v, p.depth, factors, dp);
        differentiate<false>(p, t, block, count, false, s, dp, weights, seen);
        clear(part);
        add_rows<COLUMNS>(k, p.depth, weights, seen, factors, part); // which begins with a barrier
        add(sums, part);
    }
    float scale = scale_of(p);
    UNROLL for (int i = 0; i < 4; i++) {
        i64 row = ty * 4 + i;
        if (row >= t.rows) continue;
        UNROLL for (int c = 0; c < COLUMNS; c++) {
            i64 column = (i64)blockIdx.y * 16 * COLUMNS + tx + 16 * c;
            if (column >= p.depth) continue;
            STORE(p.dq + (t.first + row) * p.dq_token + t.group * p.dq_group + t.shared * p.dq_head + column, fused(sums[i][c], scale, 0.0f));
        }
    }
}

// Computes the gradients of a tile of keys, or of their values if blockIdx.z is 1.
template <int COLUMNS>
DEVICE void keys(const Params& p) {
    SHARED(float, weights, TILE * PITCH);
    SHARED(float, factors, CHUNK * (TILE + WIDE));
    SHARED(u16, seen, TILE * 16);
    const bool is_value = blockIdx.z == 1;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    if (IS_REFUSED(p.refused)) return;
    Tile t;
    i64 first_key;
    enter(p, t, find_slot(p.kstart, p.kstart_stride, p.sequences, blockIdx.x / p.groups, first_key));
    const i64 first = first_key - t.first_key;
    const i64 count = t.keys - first < TILE ? t.keys - first : TILE;
    if (count <= 0) return;
    t.group = blockIdx.x % p.groups;
    Rows k = {k_at(p, t, (int)first), p.k_token, count}, v = {v_at(p, t, (int)first), p.v_token, count};
    float sums[4][COLUMNS], part[4][COLUMNS];
    clear(sums);
    for (i64 head = t.group * p.shared; head < (t.group + 1) * p.shared; head++) {
        choose_head(p, t, head);
        clear(part);
        for (t.first = t.begin; t.first < t.end; t.first += t.rows) {
            t.place = t.keys - (t.end - t.first);
            t.rows = WIDE - (t.place & (WIDE - 1)); // a tile ends where the place is a multiple of WIDE
            if (t.rows > t.end - t.first) t.rows = t.end - t.first;
            if (sight_of(p, t.place, t.place + t.rows - 1, first, first + count - 1, t.head, t.head) != 0) {
                Rows q = {p.q + t.first * p.q_token + t.group * p.q_group + t.shared * p.q_head, p.q_token, t.rows};
                Rows d_o = {p.d_o + t.first * p.d_o_token + t.group * p.d_o_group + t.shared * p.d_o_head, p.d_o_token, t.rows};
                float s[4][8], dp[4][8];
                dots(k, q, p.depth, factors, s);
                clear(dp);
                if (!is_value) dots(v, d_o, p.depth, factors, dp);
                differentiate<true>(p, t, first, count, is_value, s, dp, weights, seen);
                Rows of = is_value ? d_o : q;
                add_rows<COLUMNS>(of, p.depth, weights, seen, factors, part); // which begins with a barrier
            }
            if (t.first + t.rows == t.end || ((t.place + t.rows) & (SEGMENT - 1)) == 0) {
                add(sums, part);
                clear(part);
            }
        }
    }
    float scale = scale_of(p);
    UNROLL for (int i = 0; i < 4; i++) {
        i64 key = ty * 4 + i;
        if (key >= count) continue;
        UNROLL for (int c = 0; c < COLUMNS; c++) {
            i64 column = (i64)blockIdx.y * 16 * COLUMNS + tx + 16 * c;
            if (column >= p.depth) continue;
            if (is_value) STORE(p.dv + (t.first_key + first + key) * p.dv_token + t.group * p.dv_group + column, sums[i][c]);
            else STORE(p.dk + (t.first_key + first + key) * p.dk_token + t.group * p.dk_group + column, fused(sums[i][c], scale, 0.0f));
        }
    }
}

KERNEL(ENTRY_QUERIES_2, 256)(const Params p) { queries<2>(p); }
KERNEL(ENTRY_QUERIES_4, 256)(const Params p) { queries<4>(p); }
KERNEL(ENTRY_QUERIES_8, 256)(const Params p) { queries<8>(p); }
KERNEL(ENTRY_KEYS_2, 256)(const Params p) { keys<2>(p); }
KERNEL(ENTRY_KEYS_4, 256)(const Params p) { keys<4>(p); }
KERNEL(ENTRY_KEYS_8, 256)(const Params p) { keys<8>(p); }
