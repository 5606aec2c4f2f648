// o[t,g,j,:] = the mean of v[s,g,:] over the visible keys s of a sequence, weighed by 2 to the power of their exponents
//
// Operands  q, o (tokens, groups, heads of a group, depth), k, v (keys, groups, depth) in one format; lse (tokens, groups,
//           heads of a group) f32; starts of sequences, or lengths and pages, i32; rows strided. What body reads is in Params too.
// Numerics  rule weigh of the definition: scores and weighed sums are chains of fused products, ascending
// Schedule  a block of 256 threads has TILE queries of a head; a thread has 4 of them, 8 keys of each block of keys, and
//           COLUMNS columns of the sums. Weights pass through shared memory, with a mark for keys that are not visible.
//           Blocks of keys that no query of the tile sees are not read. Heads of more than 16 COLUMNS columns are
//           divided among blocks, each of which computes all scores.

const int TILE = 64, KEYS = 128, SEGMENT = 1024, LANES = 8;
const int CHUNK = 16;           // depth of the factors of scores in shared memory
const int PITCH = KEYS + 8;     // of a row of weights
const float HIDDEN = -1.0f;     // the weight of a key that is not visible
#define LOWEST (-INFINITE) // the exponent of nothing

// Where a thread's rows are.
struct Tile {
    i64 first, rows;    // queries, from the first of the tile on
    i64 place;          // of the first in its sequence
    i64 first_key, keys; // of the sequence
    const i32* table;   // its pages, if there are pages
    i64 group, shared, head;
};

DEVICE float origin(float largest) { return largest == LOWEST ? 0.0f : largest; }

// Finds the tile of a slot. A sequence that begins at query f has the slots from f/TILE plus its number on.
DEVICE bool find(const Params& p, Tile& t) {
    i64 head = blockIdx.x % (p.groups * p.shared), slot = blockIdx.x / (p.groups * p.shared);
    i64 low = 0, high = p.sequences;
    while (high - low > 1) {
        i64 middle = (low + high) / 2;
        if (p.qstart[middle * p.qstart_stride] / TILE + middle <= slot) low = middle;
        else high = middle;
    }
    i64 begin = p.qstart[low * p.qstart_stride], end = p.qstart[(low + 1) * p.qstart_stride];
    t.first = begin + (slot - begin / TILE - low) * TILE;
    t.rows = end - t.first < TILE ? end - t.first : TILE;
    find_keys(p, t, (int)low);
    t.place = t.keys - (end - t.first);
    t.head = head;
    t.group = head / p.shared;
    t.shared = head % p.shared;
    return t.rows > 0;
}

// Adds the products of the tile's queries and a block of keys.
DEVICE void scores(const Params& p, const Tile& t, i64 block, float* factors, float (&s)[4][8]) {
    float* const left = factors;                // [CHUNK][TILE]
    float* const right = factors + CHUNK * TILE; // [CHUNK][KEYS]
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 8; j++) s[i][j] = 0.0f;
    for (i64 d = 0; d < p.depth; d += CHUNK) {
        int n = p.depth - d < CHUNK ? (int)(p.depth - d) : CHUNK;
        BARRIER();
        for (int e = threadIdx.x; e < TILE * CHUNK; e += 256) {
            int row = e / CHUNK, c = e % CHUNK;
            bool is_in = row < t.rows && c < n;
            left[c * TILE + row] = is_in ? LOAD(p.q + (t.first + row) * p.q_token + t.group * p.q_group + t.shared * p.q_head + d + c) : 0.0f;
        }
        for (int e = threadIdx.x; e < KEYS * CHUNK; e += 256) {
            int key = e / CHUNK, c = e % CHUNK;
            bool is_in = block + key < t.keys && c < n;
            right[c * KEYS + key] = is_in ? LOAD(k_at(p, t, (int)block + key) + d + c) : 0.0f;
        }
        BARRIER();
        for (int c = 0; c < n; c++) {
            float a[4], b[8];
            UNROLL for (int i = 0; i < 4; i++) a[i] = left[c * TILE + ty * 4 + i];
            UNROLL for (int j = 0; j < 8; j++) b[j] = right[c * KEYS + tx * 8 + j];
            UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 8; j++) s[i][j] = fused(a[i], b[j], s[i][j]);
        }
    }
}

// Returns the largest value of 16 neighbouring threads.
DEVICE float largest_of_row(float x) {
    x = larger(x, SHFL_XOR(x, 8, 16));
    x = larger(x, SHFL_XOR(x, 4, 16));
    x = larger(x, SHFL_XOR(x, 2, 16));
    return larger(x, SHFL_XOR(x, 1, 16));
}

// Adds the weights of every row in lanes.
DEVICE void add_weights(const float* weights, float* sums) {
    for (int first = 0; first < TILE; first += 256 / LANES) {
        int row = first + threadIdx.x / LANES, lane = threadIdx.x % LANES;
        float sum = 0.0f;
        for (int key = lane; key < KEYS; key += LANES) {
            float x = weights[row * PITCH + key];
            if (!(x < 0.0f)) sum = sum + x;
        }
        sum = sum + SHFL_XOR(sum, 1, 8);
        sum = sum + SHFL_XOR(sum, 2, 8);
        sum = sum + SHFL_XOR(sum, 4, 8);
        if (lane == 0) sums[row] = sum;
    }
}

// What is carried for a thread's four rows: the same m and l in all threads of a row.
template <int COLUMNS>
struct Carried {
    float m[4], l[4], o[4][COLUMNS];
};

// Adds the weighed values of a block of keys.
template <int COLUMNS>
DEVICE void add_values(const Params& p, const Tile& t, i64 block, const float* weights, float* factors, Carried<COLUMNS>& s) {
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, WIDTH = 16 * COLUMNS, AT_ONCE = COLUMNS > 8 ? 8 : 16;
    for (int first = 0; first < KEYS; first += AT_ONCE) {
        if (block + first >= t.keys) break;
        BARRIER();
        for (int e = threadIdx.x; e < AT_ONCE * WIDTH; e += 256) {
            int key = e / WIDTH, c = e % WIDTH;
            i64 column = (i64)blockIdx.y * WIDTH + c;
            bool is_in = block + first + key < t.keys && column < p.depth;
            factors[e] = is_in ? LOAD(v_at(p, t, (int)block + first + key) + column) : 0.0f;
        }
        BARRIER();
        for (int key = 0; key < AT_ONCE; key++) {
            float v[COLUMNS];
            UNROLL for (int c = 0; c < COLUMNS; c++) v[c] = factors[key * WIDTH + tx + 16 * c];
            UNROLL for (int i = 0; i < 4; i++) {
                float x = weights[(ty * 4 + i) * PITCH + first + key];
                if (x < 0.0f) continue;
                UNROLL for (int c = 0; c < COLUMNS; c++) s.o[i][c] = fused(x, v[c], s.o[i][c]);
            }
        }
    }
}

// Takes a block of keys into what is carried.
template <int COLUMNS>
DEVICE void take(const Params& p, const Tile& t, i64 block, float* weights, float* sums, float* factors, Carried<COLUMNS>& state) {
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    float s[4][8];
    scores(p, t, block, factors, s);
    UNROLL for (int i = 0; i < 4; i++) {
        i64 row = ty * 4 + i;
        float largest = state.m[i];
        u32 seen = 0;
        UNROLL for (int j = 0; j < 8; j++) {
            i64 key = block + tx * 8 + j;
            if (row >= t.rows || key >= t.keys) continue;
            float exponent, base;
            i32 is_visible;
            body(p, t, t.first + row, t.first_key + key, s[i][j], (i32)(t.place + row), (i32)key, exponent, is_visible, base);
            if (!is_visible) continue;
            seen |= 1u << j;
            s[i][j] = exponent;
            largest = larger(largest, exponent);
        }
        largest = largest_of_row(largest);
        float z = origin(largest), a = power(state.m[i] - z);
        state.m[i] = largest;
        UNROLL for (int j = 0; j < 8; j++) {
            s[i][j] = seen >> j & 1u ? power(s[i][j] - z) : HIDDEN;
            weights[row * PITCH + tx * 8 + j] = s[i][j];
        }
        UNROLL for (int c = 0; c < COLUMNS; c++) state.o[i][c] = state.o[i][c] * a;
        if (tx == 0) sums[TILE + row] = a; // the same in all threads of the row
    }
    BARRIER();
    add_weights(weights, sums);
    BARRIER();
    UNROLL for (int i = 0; i < 4; i++) {
        int row = ty * 4 + i;
        state.l[i] = fused(state.l[i], sums[TILE + row], sums[row]);
        if (sizeof(Element) < 4)
            UNROLL for (int j = 0; j < 8; j++) weights[row * PITCH + tx * 8 + j] = s[i][j] < 0.0f ? HIDDEN : ROUND(s[i][j]);
    }
    add_values<COLUMNS>(p, t, block, weights, factors, state); // which begins with a barrier
}

template <int COLUMNS>
DEVICE void weigh(const Params& p) {
    SHARED(float, weights, TILE * PITCH);
    SHARED(float, sums, 2 * TILE);
    SHARED(float, factors, CHUNK * (TILE + KEYS));
    Tile t;
    if (IS_REFUSED(p.refused) || !find(p, t)) return;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    Carried<COLUMNS> all, part;
    for (i64 segment = 0; segment == 0 || segment < t.keys; segment += SEGMENT) {
        UNROLL for (int i = 0; i < 4; i++) {
            part.m[i] = LOWEST;
            part.l[i] = 0.0f;
            UNROLL for (int c = 0; c < COLUMNS; c++) part.o[i][c] = 0.0f;
            if (HAS_BASE && segment == 0 && ty * 4 + i < t.rows) {
                float exponent;
                i32 is_visible;
                body(p, t, t.first + ty * 4 + i, t.first_key, 0.0f, (i32)(t.place + ty * 4 + i), 0, exponent, is_visible, part.m[i]);
                part.l[i] = 1.0f;
            }
        }
        i64 end = t.keys < segment + SEGMENT ? t.keys : segment + SEGMENT;
        for (i64 block = segment; block < end; block += KEYS) {
            i64 last = end < block + KEYS ? end - 1 : block + KEYS - 1;
            if (sight_of(p, t.place, t.place + t.rows - 1, block, last, t.head, t.head) != 0) take<COLUMNS>(p, t, block, weights, sums, factors, part);
        }
        if (segment == 0) {
            all = part;
            continue;
        }
        UNROLL for (int i = 0; i < 4; i++) {
            float largest = larger(all.m[i], part.m[i]);
            float z = origin(largest), a = power(all.m[i] - z), b = power(part.m[i] - z);
            all.m[i] = largest;
            all.l[i] = fused(all.l[i], a, part.l[i] * b);
            UNROLL for (int c = 0; c < COLUMNS; c++) all.o[i][c] = fused(all.o[i][c], a, part.o[i][c] * b);
        }
    }
    UNROLL for (int i = 0; i < 4; i++) {
        i64 row = ty * 4 + i;
        if (row >= t.rows) continue;
        bool is_empty = all.l[i] == 0.0f, is_lost = !(all.m[i] < INFINITE);
        float inverse = divide(1.0f, all.l[i]), nan = float_of(0x7fc00000u);
        UNROLL for (int c = 0; c < COLUMNS; c++) {
            i64 column = (i64)blockIdx.y * 16 * COLUMNS + tx + 16 * c;
            if (column >= p.depth) continue;
            float x = is_empty ? 0.0f : is_lost ? nan : fused(all.o[i][c], inverse, 0.0f);
            STORE(p.o + (t.first + row) * p.o_token + t.group * p.o_group + t.shared * p.o_head + column, x);
        }
        if (tx == 0 && blockIdx.y == 0) p.lse[(t.first + row) * p.lse_token + t.group * p.lse_group + t.shared] = is_empty ? LOWEST : is_lost ? nan : all.m[i] + logarithm(all.l[i]);
    }
}

KERNEL(ENTRY_2, 256)(const Params p) { weigh<2>(p); }
KERNEL(ENTRY_4, 256)(const Params p) { weigh<4>(p); }
KERNEL(ENTRY_8, 256)(const Params p) { weigh<8>(p); }
KERNEL(ENTRY_16, 256)(const Params p) { weigh<16>(p); }
