
// Tiles of gradients of streams: what their kernels on tensor cores share. A block computes rows of one side, keys or places of
// queries, from tiles of the other side that come by.

const int OWN = 128, OTHERS = 64, BLOCK = 128, SEGMENT = 1024; // rows of a block, and of what comes by
#define LOWEST (-INFINITE) // the exponent of nothing

// What a block computes, and where the rows are.
struct Tile {
    int first_query, queries; // of the sequence
    int first_key, keys;
    int place;                // of the first query
    const i32* table;         // none: no keys lie in pages
    int first;                // of the block's own rows, in the sequence: keys, or places of queries
    int group, shared, head;
};

DEVICE float origin(float largest) { return largest == LOWEST ? 0.0f : largest; }

DEVICE int round_down(int x, int step) { return x & -step; } // step is a power of two

// Finds the sequence and the tile of a slot. A sequence whose rows begin at f has the slots from f/OWN plus its number on.
template <bool OF_KEYS>
DEVICE bool find(const Params& p, Tile& t, int slot) {
    const i32* const starts = OF_KEYS ? p.kstart : p.qstart;
    const i64 stride = OF_KEYS ? p.kstart_stride : p.qstart_stride;
    int low = 0, high = (int)p.sequences;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (starts[middle * stride] / OWN + middle <= slot) low = middle;
        else high = middle;
    }
    t.first_query = p.qstart[low * p.qstart_stride];
    t.queries = p.qstart[(low + 1) * p.qstart_stride] - t.first_query;
    find_keys(p, t, low);
    t.place = t.keys - t.queries;
    t.first = (slot - (OF_KEYS ? t.first_key : t.first_query) / OWN - low) * OWN + (OF_KEYS ? 0 : t.place);
    return t.first < t.keys;
}

// What the body says of a place of a query and a key. Outside of what there is, it is computed from what there is.
DEVICE bool look_at(const Params& p, const Tile& t, int query, int key, float score, float& exponent, float& slope) {
    int q = query < t.place ? t.place : query < t.keys ? query : t.keys - 1, k = key < t.keys ? key : t.keys - 1;
    i32 is_visible;
    float sink;
    body(p, t, (i64)t.first_query + q - t.place, (i64)t.first_key + k, score, q, k, exponent, is_visible, sink, slope);
    return is_visible && q == query && k == key;
}

// Reads lse and delta of a query, zeros where there is none.
DEVICE void read_numbers(const Params& p, const Tile& t, int query, float& lse, float& delta) {
    const bool is_in = query >= t.place && query < t.keys;
    const i64 token = (i64)t.first_query + query - t.place, heads = p.groups * p.shared;
    lse = is_in ? origin(p.lse[token * p.lse_token + t.group * p.lse_group + t.shared]) : 0.0f;
    delta = is_in ? p.delta[token * heads + t.head] : 0.0f;
}

// Stores the lane's rows of a block, `first` and eight further in the sequence, of which those from low to high are there. x_at(n, e) are the
// sums of the eight columns n: in the first row those with e of 0 and 1, in the other 2 and 3.
template <int DEPTH, bool ANY_ADDRESS, class At>
DEVICE void store_sums(const Params& p, int first, Element* to, i64 stride, int low, int high, float scale, const At& x_at) {
    UNROLL for (int r = 0; r < 2; r++) {
        const int q = first + r * 8, lane = threadIdx.x % 32;
        const bool is_in = q >= low && q < high;
        Element* const own = to + (i64)q * stride;
        UNROLL for (int n = 0; n < DEPTH / 8; n += 4) {
            u32 w[4];
            UNROLL for (int k = 0; k < 4; k++) w[k] = NARROW_PAIR(fused(x_at(n + k, r * 2), scale, 0.0f), fused(x_at(n + k, r * 2 + 1), scale, 0.0f));
            transpose_4(w); // eight neighbours
            const int c = (n + lane % 4) * 8;
            if (!ANY_ADDRESS && is_in && c + 8 <= p.depth) {
                *reinterpret_cast<uint4_aligned*>(own + c) = uint4_aligned{w[0], w[1], w[2], w[3]};
            } else {
                UNROLL for (int j = 0; j < 8; j++)
                    if (is_in && c + j < p.depth) own[c + j] = (Element)(w[j / 2] >> 16 * (j % 2));
            }
        }
    }
}

// Where the gradients of rows lie, counted as in the sequence.
DEVICE Element* dk_of(const Params& p, const Tile& t) { return p.dk + (i64)t.first_key * p.dk_token + t.group * p.dk_group; }

DEVICE Element* dv_of(const Params& p, const Tile& t) { return p.dv + (i64)t.first_key * p.dv_token + t.group * p.dv_group; }

DEVICE Element* dq_of(const Params& p, const Tile& t) {
    return p.dq + (i64)(t.first_query - t.place) * p.dq_token + t.group * p.dq_group + t.shared * p.dq_head;
}

// What the rows of a tile and those from first to last of the other side see of each other: 0 nothing, 2 all of it, 1 anything.
DEVICE int seen(const Params& p, const Tile& t, int query, int query_end, int key, int key_end) {
    const int low = query < t.place ? t.place : query, high = query_end < t.keys ? query_end : t.keys, end = key_end < t.keys ? key_end : t.keys;
    if (low >= high || key >= end) return 0;
    const int sight = sight_of(p, low, high - 1, key, end - 1, t.head, t.head);
    return sight == 2 && (low > query || high < query_end || end < key_end) ? 1 : sight;
}

struct Backward {
    Params p;
    float* sums; // of a block's keys and values, for each thread
};

// ---- what comes by for dk and dv

// Adds sums to those that are there, if there are any.
DEVICE void add_to(Quad* to, bool is_there, const float (&x)[4]) {
    Quad sum = is_there ? *to : Quad{{0.0f, 0.0f, 0.0f, 0.0f}};
    UNROLL for (int e = 0; e < 4; e++) sum.v[e] = sum.v[e] + x[e];
    *to = sum;
}

// The head and the tile of queries that come by, or none.
struct Visit {
    int head, first;
};

DEVICE void choose_head(const Params& p, Tile& t, int of_group) {
    t.shared = of_group;
    t.head = t.group * (int)p.shared + of_group;
}

// The next visit from the given one on, whose head becomes the tile's.
DEVICE Visit next_visit(const Params& p, Tile& t, Visit v) {
    for (; v.head < (int)p.shared; v.head++, v.first = round_down(t.place, OTHERS)) {
        choose_head(p, t, v.head);
        for (; v.first < t.keys; v.first += 32 * OTHERS) {
            const int own = v.first + threadIdx.x % 32 * OTHERS;
            u32 found = (u32)__ballot_sync(0xffffffffu, own < t.keys && seen(p, t, own, own + OTHERS, t.first, t.first + OWN) != 0);
            if (found == 0) continue;
            UNROLL for (int i = 16; i > 0; i /= 2)
                if ((found & ((1u << i) - 1)) == 0) found >>= i, v.first += i * OTHERS;
            return v;
        }
    }
    return v;
}

// ---- what comes by for dq

// The last half of a block of keys, from the given one on in the order of the sums, of which the tile may see something: blocks descend,
// their halves ascend. Halves are numbered by that order.
DEVICE int key_of(int number, int last_block) { return (last_block - number / 2) * BLOCK + number % 2 * OTHERS; }

DEVICE int next_half(const Params& p, const Tile& t, int number, int last_block) {
    const int count = 2 * (last_block + 1);
    for (; number < count; number += 32) {
        const int own = number + threadIdx.x % 32, key = key_of(own, last_block);
        u32 found = (u32)__ballot_sync(0xffffffffu, own < count && key < t.keys && seen(p, t, t.first, t.first + OWN, key, key + OTHERS) != 0);
        if (found == 0) continue;
        UNROLL for (int i = 16; i > 0; i /= 2)
            if ((found & ((1u << i) - 1)) == 0) found >>= i, number += i;
        return number;
    }
    return count;
}
