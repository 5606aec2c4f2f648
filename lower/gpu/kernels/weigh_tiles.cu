// Tiles of streams: what their kernels on tensor cores share that have a block for each tile.

const int TILE = 128, KEYS = 128, SEGMENT = 1024;
#define LOWEST (-INFINITE) // the exponent of nothing

// Where a thread's rows are.
struct Tile {
    int first, rows;    // queries, from the first of the tile on
    int place;          // of the first in its sequence
    int first_key, keys; // of the sequence
    const i32* table;   // its pages, if there are pages
    int group, shared, head;
};

DEVICE float origin(float largest) { return largest == LOWEST ? 0.0f : largest; }

// Finds the tile of a slot. A sequence that begins at query f has the slots from f/TILE plus its number on.
DEVICE bool find(const Params& p, Tile& t) {
    const int heads = (int)(p.groups * p.shared), slot = gridDim.x / heads - 1 - blockIdx.x / heads;
    int low = 0, high = (int)p.sequences;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (p.qstart[middle * p.qstart_stride] / TILE + middle <= slot) low = middle;
        else high = middle;
    }
    const int begin = p.qstart[low * p.qstart_stride], end = p.qstart[(low + 1) * p.qstart_stride];
    t.first = begin + (slot - begin / TILE - low) * TILE;
    t.rows = end - t.first < TILE ? end - t.first : TILE;
    find_keys(p, t, low);
    t.place = t.keys - (end - t.first);
    t.head = blockIdx.x % heads;
    t.group = t.head / (int)p.shared;
    t.shared = t.head % (int)p.shared;
    return t.rows > 0;
}

// The factors by which two sides of a row are joined, and what m and l become on the left.
struct Joint {
    float a, b;

    DEVICE Joint(float& m, float& l, float right_m, float right_l) {
        float largest = larger(m, right_m), z = origin(largest);
        a = power(m - z);
        b = power(right_m - z);
        m = largest;
        l = fused(l, a, right_l * b);
    }
    DEVICE float join(float left, float right) const { return fused(left, a, right * b); }
};

// What the body says of a row of the tile and a key of the sequence. Beyond the last of either it
// is computed from those.
DEVICE bool look_at(const Params& p, const Tile& t, int row, int key, float score, float& exponent, float& base) {
    int q = row < t.rows ? row : t.rows - 1, k = key < t.keys ? key : t.keys - 1;
    i32 is_visible;
    body(p, t, t.first + q, t.first_key + k, score, t.place + q, k, exponent, is_visible, base);
    return is_visible && key < t.keys;
}

// What the rows from first to last of a tile see of `count` keys from `key` on, one of which exists: 0 nothing, 2 all of it, 1 anything.
DEVICE int seen(const Params& p, const Tile& t, int first, int last, int key, int count) {
    int end = key + count < t.keys ? key + count : t.keys;
    int sight = sight_of(p, t.place + first, t.place + last, key, end - 1, t.head, t.head);
    return sight == 2 && end < key + count ? 1 : sight;
}

// The first block of keys from `block` on of which the tile may see something, or one behind the last key.
DEVICE int next_seen(const Params& p, const Tile& t, int block) {
    if (block < t.keys && seen(p, t, 0, t.rows - 1, block, KEYS) != 0) return block; // most often
    for (; block < t.keys; block += 32 * KEYS) { // keys are fewer than 2^31 - 32 KEYS: memory would not hold them
        int own = block + threadIdx.x % 32 * KEYS;
        u32 found = (u32)__ballot_sync(0xffffffffu, own < t.keys && seen(p, t, 0, t.rows - 1, own, KEYS) != 0);
        if (found == 0) continue;
        UNROLL for (int i = 16; i > 0; i /= 2)
            if ((found & ((1u << i) - 1)) == 0) found >>= i, block += i * KEYS;
        return block;
    }
    return t.keys;
}

// Stores the results of a lane's rows, `first` and eight further. o_at(n, e) are the weighed sums of the eight columns n: in the first
// row those with e of 0 and 1, in the other 2 and 3.
template <int DEPTH, bool ANY_ADDRESS, class At>
DEVICE void store_rows(const Params& p, const Tile& t, int first, const float (&m)[2], const float (&l)[2], const At& o_at) {
    UNROLL for (int r = 0; r < 2; r++) {
        const int q = first + r * 8, lane = threadIdx.x % 32;
        const bool is_in = q < t.rows, is_empty = l[r] == 0.0f, is_lost = !(m[r] < INFINITE);
        const float inverse = divide(1.0f, l[r]), nan = float_of(0x7fc00000u);
        Element* const to = p.o + (i64)(t.first + q) * p.o_token + t.group * p.o_group + t.shared * p.o_head;
        UNROLL for (int n = 0; n < DEPTH / 8; n += 4) {
            u32 w[4];
            UNROLL for (int k = 0; k < 4; k++) {
                float x = fused(o_at(n + k, r * 2), inverse, 0.0f), y = fused(o_at(n + k, r * 2 + 1), inverse, 0.0f);
                w[k] = is_empty ? 0u : is_lost ? NARROW_PAIR(nan, nan) : NARROW_PAIR(x, y);
            }
            transpose_4(w); // eight neighbours
            const int c = (n + lane % 4) * 8;
            if (!ANY_ADDRESS && is_in && c + 8 <= p.depth) {
                *reinterpret_cast<uint4_aligned*>(to + c) = uint4_aligned{w[0], w[1], w[2], w[3]};
            } else {
                UNROLL for (int j = 0; j < 8; j++)
                    if (is_in && c + j < p.depth) to[c + j] = (Element)(w[j / 2] >> 16 * (j % 2));
            }
        }
        if (is_in && lane % 4 == 0)
            p.lse[(i64)(t.first + q) * p.lse_token + t.group * p.lse_group + t.shared] = is_empty ? LOWEST : is_lost ? nan : m[r] + logarithm(l[r]);
    }
}
