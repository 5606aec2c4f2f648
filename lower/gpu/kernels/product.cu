// Which product and which tile of its result a block computes: common to the kernels of matrix products.

#if HAS_AXES
// Where an operand's matrices begin: product i lies at index i / divisor mod size of each axis.
struct Walk {
    i64 divisor[MAX_AXES], size[MAX_AXES], stride[MAX_AXES]; // stride 0 for axes that it does not have
};
#endif

struct Params {
    const Input* left;
    const Input* right;
    Output* result;
    i64 left_stride, right_stride, result_stride;
    i64 rows, cols, depth;     // of the product
    i64 tile_rows, tile_cols;  // how many tiles there are
    i32 left_vector, right_vector, result_vector; // rows begin at multiples of 16 bytes
    i32 pad;
#if HAS_AXES
    Walk left_walk, right_walk, result_walk;
#endif
#if GROUPED
    const i32* offsets; // groups + 1 of them
    i64 groups, per_group; // products of a group
    const u64* refused; // null, or what the checking pass found
#endif
};

// Tiles are taken in bands of eight rows of tiles, down each column of a band, so
// that blocks that run together share their operands in the cache.
DEVICE void tile_of(const Params& p, i64 index, i64* tile_row, i64* tile_col) {
    i64 per_band = 8 * p.tile_cols, band = index / per_band, rest = index - band * per_band;
    i64 tall = p.tile_rows - band * 8 < 8 ? p.tile_rows - band * 8 : 8;
    *tile_col = rest / tall;
    *tile_row = band * 8 + rest - *tile_col * tall;
}

#if HAS_AXES
DEVICE i64 matrix_at(const Walk& w, i64 product) {
    i64 at = 0;
    UNROLL for (int k = 0; k < MAX_AXES; k++) at += product / w.divisor[k] % w.size[k] * w.stride[k];
    return at;
}
#endif

#if GROUPED == 1
// The group of a slot. Group g has the slots from offsets[g] / ROWS + g on, which are enough
// for its rows (lower.GroupOf).
template <int ROWS>
DEVICE i64 group_of(const Params& p, i64 slot) {
    i64 first = 0, end = p.groups;
    while (end - first > 1) {
        i64 middle = (first + end) / 2;
        if (p.offsets[middle] / ROWS + middle <= slot) first = middle;
        else end = middle;
    }
    return first;
}
#endif

// Calls Tile::compute(product, first_row, first_col) for the block's tile of Tile::ROWS × Tile::COLS.
template <class Tile>
DEVICE void multiply(const Params& p) {
    i64 tile_row, tile_col;
#if HAS_AXES
#if GROUPED
    if (IS_REFUSED(p.refused)) return;
#endif
    Params one = p; // the block's own product
    i64 per_product = p.tile_rows * p.tile_cols, product = blockIdx.x / per_product;
    tile_of(p, blockIdx.x - product * per_product, &tile_row, &tile_col);
    i64 first_row = tile_row * Tile::ROWS;
#if GROUPED == 1 // rows
    i64 group = group_of<Tile::ROWS>(p, tile_row), begin = p.offsets[group];
    first_row = (tile_row - begin / Tile::ROWS - group) * Tile::ROWS;
    one.rows = p.offsets[group + 1] - begin;
    if (first_row >= one.rows) return; // the whole block: a slot that the group does not need
    product += group * p.per_group;
    one.left += TRANSPOSE_LEFT ? begin : begin * p.left_stride;
    one.result += begin * p.result_stride;
#elif GROUPED == 2 // the summed index
    i64 group = product / p.per_group, begin = p.offsets[group];
    one.depth = p.offsets[group + 1] - begin;
    one.left += TRANSPOSE_LEFT ? begin * p.left_stride : begin;
    one.right += TRANSPOSE_RIGHT ? begin : begin * p.right_stride;
#endif
    one.left += matrix_at(p.left_walk, product);
    one.right += matrix_at(p.right_walk, product);
    one.result += matrix_at(p.result_walk, product);
    Tile::compute(one, first_row, tile_col * Tile::COLS);
#else
    tile_of(p, blockIdx.x, &tile_row, &tile_col);
    Tile::compute(p, tile_row * Tile::ROWS, tile_col * Tile::COLS);
#endif
}
