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
#if SCALED
    const f32* row_scale; // null for none
    const f32* col_scale;
    i64 row_scale_stride, col_scale_stride;
#endif
#if FUSED
    Ends ends;
    i64 begin; // of the product's rows in the result; 0 in what the host passes
#endif
};

#if FUSED
// Ends the sums of ROWS × COLS elements that lie in shared memory, from one row and column of the product
// on: THREADS threads, four neighbours each at a time. The place says which row of the product row r of the
// sums is, and where the sums at a row and a column lie. The product has `rows` rows, which begin in the result
// at row `begin`.
template <int ROWS, int COLS, int THREADS, class Place>
DEVICE void end_block(const Params& p, i64 begin, i64 rows, const float* sums, i64 first_row, i64 first_col, int thread, Place place) {
    ROLLED for (int i = thread; i < ROWS * (COLS / 4); i += THREADS) {
        int r = i / (COLS / 4), c = i % (COLS / 4) * 4;
        i64 row = first_row + place.row(r), left = p.cols - first_col - c;
        if (row < rows && left > 0) end_sums(p.ends, sums + place.at(r, c), begin + row, first_col + c, left < 4 ? (int)left : 4);
    }
}
#endif

#if SCALED
// The sum at a row and a column of the result, times the scales of both, each product rounded.
DEVICE float scaled(const Params& p, float sum, i64 row, i64 col) {
    if (p.row_scale) sum = sum * p.row_scale[row * p.row_scale_stride];
    if (p.col_scale) sum = sum * p.col_scale[col * p.col_scale_stride];
    return sum;
}
#endif

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

// A tile of a product, and where the product lies in the operands.
struct Found {
    i64 product;
    i64 row, col;       // of the tile's first element in the product
    i64 rows, begin;    // of the product, and where they begin in the left operand and in the result
    i64 depth, k_begin; // likewise along the summed index

    // Sets the product of tile `index` of all, and the column of tiles in col, and returns the row of tiles.
    // Tiles are taken in bands of BAND rows of tiles, down each column of a band, so that blocks that run together
    // share their operands in the cache.
    template <int BAND>
    DEVICE u32 take(const Params& p, u32 tile_rows, u32 index) { // there are fewer than 2^31 tiles
        u32 tile_cols = (u32)p.tile_cols;
        product = 0;
#if HAS_AXES
        u32 per_product = tile_rows * tile_cols, whole = index / per_product;
        product = whole;
        index -= whole * per_product;
#endif
        u32 per_band = BAND * tile_cols, band = index / per_band, rest = index - band * per_band;
        u32 tall = tile_rows - band * BAND < BAND ? tile_rows - band * BAND : BAND, across = rest / tall;
        col = across;
        return band * BAND + rest - across * tall;
    }

    // Finds tile `index` of all. Returns false for a tile that its group does not need.
    template <int ROWS, int COLS, int BAND>
    DEVICE bool find(const Params& p, u32 index) {
        u32 down = take<BAND>(p, (u32)p.tile_rows, index);
        row = (i64)down * ROWS;
        col *= COLS;
        rows = p.rows;
        depth = p.depth;
        begin = k_begin = 0;
#if GROUPED == 1 // rows
        i64 group = group_of<ROWS>(p, down);
        begin = p.offsets[group];
        rows = p.offsets[group + 1] - begin;
        row = (down - begin / ROWS - group) * ROWS;
        product += group * p.per_group;
#elif GROUPED == 2 // the summed index
        i64 group = product / p.per_group;
        k_begin = p.offsets[group];
        depth = p.offsets[group + 1] - k_begin;
#endif
        return row < rows;
    }
};

// Calls Tile::compute(product, first_row, first_col) for the block's tile of Tile::ROWS × Tile::COLS.
template <class Tile>
DEVICE void multiply(const Params& p) {
#if GROUPED
    if (IS_REFUSED(p.refused)) return;
#endif
    Found found = {};
    if (!found.find<Tile::ROWS, Tile::COLS, 8>(p, blockIdx.x)) return; // the whole block
#if HAS_AXES
    Params one = p; // the block's own product
    one.rows = found.rows;
    one.depth = found.depth;
    one.left += (TRANSPOSE_LEFT ? found.begin : found.begin * p.left_stride) + (TRANSPOSE_LEFT ? found.k_begin * p.left_stride : found.k_begin);
    one.right += TRANSPOSE_RIGHT ? found.k_begin : found.k_begin * p.right_stride;
    one.result += found.begin * p.result_stride;
#if FUSED
    one.begin = found.begin;
#endif
    one.left += matrix_at(p.left_walk, found.product);
    one.right += matrix_at(p.right_walk, found.product);
    one.result += matrix_at(p.result_walk, found.product);
    Tile::compute(one, found.row, found.col);
#else
    Tile::compute(p, found.row, found.col);
#endif
}
