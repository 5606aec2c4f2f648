
// ---- deltas: of each query and head the product of its mean and the gradient of that, densely, and the gradient of its base. 32
// threads have one.

// Returns the sum of a row of products in lanes, as the rule of rowsum has it. 32 threads share it; a thread has lanes next to
// each other.
DEVICE float sum_of_row(const Element* x, const Element* y, i64 depth) {
    const i64 lanes = depth <= 2048 ? 256 : depth <= 8192 ? 1024 : 8192;
    const int own = (int)(lanes / 32), first = (int)(threadIdx.x % 32) * own;
    float tree[9], sum = 0.0f;
    for (int lane = 0; lane < own; lane++) {
        sum = 0.0f;
        for (i64 c = first + lane; c < depth; c += lanes) sum = sum + LOAD(x + c) * LOAD(y + c);
        bool isRight = true; // the sum has a left neighbour at every level below
        UNROLL for (int level = 0; level < 9; level++) { // registers are indexed by constants
            if (isRight && lane >> level & 1) sum = tree[level] + sum;
            else if (isRight) {
                tree[level] = sum;
                isRight = false;
            }
        }
    }
    for (int step = 1; step < 32; step *= 2) sum = sum + SHFL_XOR(sum, step, 32);
    return sum;
}

KERNEL(ENTRY_DELTAS, 256)(const Params p) {
    if (IS_REFUSED(p.refused)) return;
    const i64 heads = p.groups * p.shared, all = p.qstart[p.sequences * p.qstart_stride] * heads, own = (i64)blockIdx.x * 8 + threadIdx.x / 32;
    const i64 at = own < all ? own : all - 1, token = at / heads; // all threads shuffle
    Tile t;
    t.head = (int)(at % heads);
    t.group = (int)(t.head / p.shared);
    t.shared = (int)(t.head % p.shared);
    const float delta = sum_of_row(p.d_o + token * p.d_o_token + t.group * p.d_o_group + t.shared * p.d_o_head,
                                   p.o + token * p.o_token + t.group * p.o_group + t.shared * p.o_head, p.depth);
    if (own >= all || threadIdx.x % 32 != 0) return;
    p.delta[at] = delta;
    if (HAS_BASE) {
        int low = 0, high = (int)p.sequences;
        while (high - low > 1) {
            int middle = (low + high) / 2;
            if (p.qstart[middle * p.qstart_stride] <= token) low = middle;
            else high = middle;
        }
        find_keys(p, t, low);
        float exponent, base = 0.0f, slope;
        i32 is_visible;
        body(p, t, token, t.first_key, 0.0f, (i32)(t.keys - (p.qstart[(low + 1) * p.qstart_stride] - token)), 0, exponent, is_visible, base, slope);
        float weight = power(base - origin(p.lse[token * p.lse_token + t.group * p.lse_group + t.shared]));
        p.dbase[token * p.dbase_token + t.group * p.dbase_group + t.shared] = -(weight * delta) * float_of(0x3f317218u); // log(2)
    }
}
