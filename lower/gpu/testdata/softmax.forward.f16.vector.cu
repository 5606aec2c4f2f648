// softmax.forward, vector access
//   y[r,c] = exp(x[r,c] - max) / sum exp(x[r,c] - max)
//
// Operands    x f16, y f16
// Definition  sha256 5b8ecb97e5e83a1a7f60aa9f6ec773e0bcf2fd18c2e3b1feb6d3feb46c8fba7b

struct softmax_forward_params {
    const f16* x;
    i64 x_stride;
    f16* y;
    i64 y_stride;
    i64 rows;
    u32 cols;
    float column_count; // cols as a number
    u32 slots; // groups of a thread in shared memory
    float row_count;
};

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Inputs are in shared memory, each thread in its own words, G groups of eight
// elements; the next row is prefetched where this one is read for the last time. Computed
// values that later passes need are kept in registers.
template <int T, int ROWS, int G, bool WHOLE>
DEVICE void softmax_forward_staged(const softmax_forward_params& p) {
    SHARED(float, scratch, 2 * 1 * ROWS * T / 32);
    int turn = 0;
    SHARED_DYN(uint4_aligned, stage);
    const bool TAKE = G * 4 <= 0; // inputs go to registers as soon as they arrive
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    for (u32 n = 0; n < p.slots; n++) {
        const i64 row = (i64)blockIdx.x + (n < G ? 0 : gridDim.x);
        const u32 g = n < G ? n : n - G;
        if (row < p.rows) {
            const f16* const x_at = p.x + row * p.x_stride + t * 8;
            send16(stage + (n * 1 + 0) * T + t, T, x_at + g * (T * 8), WHOLE || g * (T * 8) + t * 8 < p.cols);
        }
        if (n == G - 1) staging_commit();
    }
    staging_commit();
    u32 base = 0; // the slot of the row's first group
    for (i64 first = blockIdx.x; first < p.rows; first += gridDim.x, base = slot_of(base, G, p.slots)) {
        const bool here = true;
        const i64 row = first;
        const u32 columns = here ? p.cols : 0;
        const f16* const x_at = p.x + row * p.x_stride + t * 8;
        f16* const y_at = p.y + row * p.y_stride + t * 8;
        float e_30_kept[G][8];
        staging_wait<1>();
        Group16 x_kept[TAKE ? G : 1];
        if constexpr (TAKE) {
            if (p.slots == 2 * G) staging_commit();
            UNROLL for (u32 g = 0; g < G; g++) {
                x_kept[g] = staged16(stage + (slot_of(base, g, p.slots) * 1 + 0) * T + t, T);
                const bool is_next = g + p.slots < 2 * G;
                const i64 row = first + (i64)gridDim.x * (is_next ? 1 : 2);
                if (row < p.rows) {
                    const u32 slot = slot_of(base, g, p.slots);
                    const f16* const x_at = p.x + row * p.x_stride + t * 8;
                    const u32 of_row = g + p.slots - (is_next ? G : 2 * G);
                    send16(stage + (slot * 1 + 0) * T + t, T, x_at + of_row * (T * 8), WHOLE || of_row * (T * 8) + t * 8 < p.cols);
                }
                if (g + p.slots == 2 * G - 1) staging_commit();
            }
            staging_commit();
        }

        // pass 1: max = rowmax(x)
        u32 max_1_pairs[4];
        lowest_f16(max_1_pairs);
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                renew(x_kept[TAKE ? g : 0]);
                const Group16 x_group = TAKE ? x_kept[TAKE ? g : 0] : staged16(stage + (slot_of(base, g, p.slots) * 1 + 0) * T + t, T);
                enlarge_f16(max_1_pairs, x_group);
                UNROLL for (int j = 0; j < 8; j++) {
                    const float x_0 = get_f16(x_group, j);
                }
            }
        }
        float max_1 = threads_max<T < 32 ? T : 32>(largest_f16(max_1_pairs));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = max_1;
            BARRIER(); // all parts are written
            max_1 = threads_max<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }

        // pass 2: sum = rowsum(e)
        float sum_32_lane[8];
        fill(sum_32_lane, 0.0f);
        if (!TAKE && p.slots == 2 * G) staging_commit();
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                renew(x_kept[TAKE ? g : 0]);
                const Group16 x_group = TAKE ? x_kept[TAKE ? g : 0] : staged16(stage + (slot_of(base, g, p.slots) * 1 + 0) * T + t, T);
                UNROLL for (int j = 0; j < 8; j++) {
                    const float x_0 = get_f16(x_group, j);
                    const float t2 = x_0 - max_1;
                    const bool t5 = t2 < (-104.0f);
                    const float xc_6 = at_least(t2, (-104.0f));
                    const float t_9 = fused(xc_6, 1.442695f, 1.2583103e+07f);
                    const float n_10 = t_9 - 1.2583103e+07f;
                    const float t13 = fused(n_10, (-0.6931472f), xc_6);
                    const float r_14 = fused(n_10, 1.9046542e-09f, t13);
                    const float t16 = fused(7.490915e-23f, r_14, 4.5365904e-22f);
                    const float t18 = fused(t16, r_14, 2.2588426e-21f);
                    const float t20 = fused(t18, r_14, 9.03494e-21f);
                    const float t22 = fused(t20, r_14, 2.7105051e-20f);
                    const float t24 = fused(t22, r_14, 5.421011e-20f);
                    const float p_25 = fused(t24, r_14, 5.421011e-20f);
                    const i32 t26 = (i32)bits_of(t_9);
                    const i32 t28 = shift_left(t26, 23);
                    const float s_29 = float_of((u32)t28);
                    const float e_30 = p_25 * s_29;
                    e_30_kept[g][j] = e_30;
                    sum_32_lane[j] = WHOLE && g == 0 ? e_30 : sum_32_lane[j] + e_30;
                }
            }
            if (!TAKE) {
                const bool is_next = g + p.slots < 2 * G;
                const i64 row = first + (i64)gridDim.x * (is_next ? 1 : 2);
                if (row < p.rows) {
                    const u32 slot = slot_of(base, g, p.slots);
                    const f16* const x_at = p.x + row * p.x_stride + t * 8;
                    const u32 of_row = g + p.slots - (is_next ? G : 2 * G);
                    send16(stage + (slot * 1 + 0) * T + t, T, x_at + of_row * (T * 8), WHOLE || of_row * (T * 8) + t * 8 < p.cols);
                }
                if (g + p.slots == 2 * G - 1) staging_commit();
            }
        }
        if (!TAKE) staging_commit();
        float sum_32 = threads_sum<T < 32 ? T : 32>(tree_from_terms(sum_32_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = sum_32;
            BARRIER(); // all parts are written
            sum_32 = threads_sum<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const float t33 = pinned(divide(1.0f, sum_32));

        // pass 3: store y
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                float y_out[8];
                UNROLL for (int j = 0; j < 8; j++) {
                    const float e_30 = e_30_kept[g][j];
                    const float t34 = e_30 * t33;
                    y_out[j] = t34;
                }
                put16_vector(y_at + g * (T * 8), 8, group_f16(y_out));
            }
        }
    }
}

KERNEL_BLOCKS(softmax_forward_rows1024_staged2_whole, 1024, 1)(const softmax_forward_params p) { softmax_forward_staged<1024, 1, 2, true>(p); }
KERNEL_BLOCKS(softmax_forward_rows1024_staged2, 1024, 1)(const softmax_forward_params p) { softmax_forward_staged<1024, 1, 2, false>(p); }
KERNEL_BLOCKS(softmax_forward_rows1024_staged4_whole, 1024, 1)(const softmax_forward_params p) { softmax_forward_staged<1024, 1, 4, true>(p); }
KERNEL_BLOCKS(softmax_forward_rows1024_staged4, 1024, 1)(const softmax_forward_params p) { softmax_forward_staged<1024, 1, 4, false>(p); }

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Inputs that fit are in shared memory, each thread in its own words, G groups of
// eight elements; the next row is prefetched where this one is read for the last time. All
// other values are read and computed again.
template <int T, int ROWS, int G, bool WHOLE>
DEVICE void softmax_forward_partly(const softmax_forward_params& p) {
    SHARED(float, scratch, 2 * 1 * ROWS * T / 32);
    int turn = 0;
    SHARED_DYN(uint4_aligned, stage);
    const bool TAKE = G * 4 <= 16; // inputs go to registers as soon as they arrive
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    for (u32 n = 0; n < p.slots; n++) {
        const i64 row = (i64)blockIdx.x + (n < G ? 0 : gridDim.x);
        const u32 g = n < G ? n : n - G;
        if (row < p.rows) {
            const f16* const x_at = p.x + row * p.x_stride + t * 8;
            send16(stage + (n * 1 + 0) * T + t, T, x_at + g * (T * 8), WHOLE || g * (T * 8) + t * 8 < p.cols);
        }
        if (n == G - 1) staging_commit();
    }
    staging_commit();
    u32 base = 0; // the slot of the row's first group
    for (i64 first = blockIdx.x; first < p.rows; first += gridDim.x, base = slot_of(base, G, p.slots)) {
        const bool here = true;
        const i64 row = first;
        const u32 columns = here ? p.cols : 0;
        const f16* const x_at = p.x + row * p.x_stride + t * 8;
        f16* const y_at = p.y + row * p.y_stride + t * 8;
        staging_wait<1>();
        Group16 x_kept[TAKE ? G : 1];
        if constexpr (TAKE) {
            if (p.slots == 2 * G) staging_commit();
            UNROLL for (u32 g = 0; g < G; g++) {
                x_kept[g] = staged16(stage + (slot_of(base, g, p.slots) * 1 + 0) * T + t, T);
                const bool is_next = g + p.slots < 2 * G;
                const i64 row = first + (i64)gridDim.x * (is_next ? 1 : 2);
                if (row < p.rows) {
                    const u32 slot = slot_of(base, g, p.slots);
                    const f16* const x_at = p.x + row * p.x_stride + t * 8;
                    const u32 of_row = g + p.slots - (is_next ? G : 2 * G);
                    send16(stage + (slot * 1 + 0) * T + t, T, x_at + of_row * (T * 8), WHOLE || of_row * (T * 8) + t * 8 < p.cols);
                }
                if (g + p.slots == 2 * G - 1) staging_commit();
            }
            staging_commit();
        }

        // pass 1: max = rowmax(x)
        u32 max_1_pairs[4];
        lowest_f16(max_1_pairs);
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                renew(x_kept[TAKE ? g : 0]);
                const Group16 x_group = TAKE ? x_kept[TAKE ? g : 0] : staged16(stage + (slot_of(base, g, p.slots) * 1 + 0) * T + t, T);
                enlarge_f16(max_1_pairs, x_group);
                UNROLL for (int j = 0; j < 8; j++) {
                    const float x_0 = get_f16(x_group, j);
                }
            }
        }
        float max_1 = threads_max<T < 32 ? T : 32>(largest_f16(max_1_pairs));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = max_1;
            BARRIER(); // all parts are written
            max_1 = threads_max<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }

        // pass 2: sum = rowsum(e)
        float sum_32_lane[8];
        fill(sum_32_lane, 0.0f);
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                renew(x_kept[TAKE ? g : 0]);
                const Group16 x_group = TAKE ? x_kept[TAKE ? g : 0] : staged16(stage + (slot_of(base, g, p.slots) * 1 + 0) * T + t, T);
                UNROLL for (int j = 0; j < 8; j++) {
                    const float x_0 = get_f16(x_group, j);
                    const float t2 = x_0 - max_1;
                    const bool t5 = t2 < (-104.0f);
                    const float xc_6 = at_least(t2, (-104.0f));
                    const float t_9 = fused(xc_6, 1.442695f, 1.2583103e+07f);
                    const float n_10 = t_9 - 1.2583103e+07f;
                    const float t13 = fused(n_10, (-0.6931472f), xc_6);
                    const float r_14 = fused(n_10, 1.9046542e-09f, t13);
                    const float t16 = fused(7.490915e-23f, r_14, 4.5365904e-22f);
                    const float t18 = fused(t16, r_14, 2.2588426e-21f);
                    const float t20 = fused(t18, r_14, 9.03494e-21f);
                    const float t22 = fused(t20, r_14, 2.7105051e-20f);
                    const float t24 = fused(t22, r_14, 5.421011e-20f);
                    const float p_25 = fused(t24, r_14, 5.421011e-20f);
                    const i32 t26 = (i32)bits_of(t_9);
                    const i32 t28 = shift_left(t26, 23);
                    const float s_29 = float_of((u32)t28);
                    const float e_30 = p_25 * s_29;
                    sum_32_lane[j] = WHOLE && g == 0 ? e_30 : sum_32_lane[j] + e_30;
                }
            }
        }
        float sum_32 = threads_sum<T < 32 ? T : 32>(tree_from_terms(sum_32_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = sum_32;
            BARRIER(); // all parts are written
            sum_32 = threads_sum<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const float t33 = pinned(divide(1.0f, sum_32));

        // pass 3: store y
        if (!TAKE && p.slots == 2 * G) staging_commit();
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                renew(x_kept[TAKE ? g : 0]);
                const Group16 x_group = TAKE ? x_kept[TAKE ? g : 0] : staged16(stage + (slot_of(base, g, p.slots) * 1 + 0) * T + t, T);
                float y_out[8];
                UNROLL for (int j = 0; j < 8; j++) {
                    const float x_0 = get_f16(x_group, j);
                    const float t2 = x_0 - max_1;
                    const bool t5 = t2 < (-104.0f);
                    const float xc_6 = at_least(t2, (-104.0f));
                    const float t_9 = fused(xc_6, 1.442695f, 1.2583103e+07f);
                    const float n_10 = t_9 - 1.2583103e+07f;
                    const float t13 = fused(n_10, (-0.6931472f), xc_6);
                    const float r_14 = fused(n_10, 1.9046542e-09f, t13);
                    const float t16 = fused(7.490915e-23f, r_14, 4.5365904e-22f);
                    const float t18 = fused(t16, r_14, 2.2588426e-21f);
                    const float t20 = fused(t18, r_14, 9.03494e-21f);
                    const float t22 = fused(t20, r_14, 2.7105051e-20f);
                    const float t24 = fused(t22, r_14, 5.421011e-20f);
                    const float p_25 = fused(t24, r_14, 5.421011e-20f);
                    const i32 t26 = (i32)bits_of(t_9);
                    const i32 t28 = shift_left(t26, 23);
                    const float s_29 = float_of((u32)t28);
                    const float e_30 = p_25 * s_29;
                    const float t34 = e_30 * t33;
                    y_out[j] = t34;
                }
                put16_vector(y_at + g * (T * 8), 8, group_f16(y_out));
            }
            if (!TAKE) {
                const bool is_next = g + p.slots < 2 * G;
                const i64 row = first + (i64)gridDim.x * (is_next ? 1 : 2);
                if (row < p.rows) {
                    const u32 slot = slot_of(base, g, p.slots);
                    const f16* const x_at = p.x + row * p.x_stride + t * 8;
                    const u32 of_row = g + p.slots - (is_next ? G : 2 * G);
                    send16(stage + (slot * 1 + 0) * T + t, T, x_at + of_row * (T * 8), WHOLE || of_row * (T * 8) + t * 8 < p.cols);
                }
                if (g + p.slots == 2 * G - 1) staging_commit();
            }
        }
        if (!TAKE) staging_commit();
    }
}

KERNEL_BLOCKS(softmax_forward_rows1024_partly8_whole, 1024, 1)(const softmax_forward_params p) { softmax_forward_partly<1024, 1, 8, true>(p); }
KERNEL_BLOCKS(softmax_forward_rows1024_partly8, 1024, 1)(const softmax_forward_params p) { softmax_forward_partly<1024, 1, 8, false>(p); }

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Values that later passes need are kept in registers, G groups of eight
// elements per thread.
template <int T, int ROWS, int G, bool WHOLE>
DEVICE void softmax_forward_registers(const softmax_forward_params& p) {
    SHARED(float, scratch, 2 * 1 * ROWS * T / 32);
    int turn = 0;
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    for (i64 first = (i64)blockIdx.x * ROWS; first < p.rows; first += (i64)gridDim.x * ROWS) {
        if (WHOLE && ROWS > 1 && first + slot >= p.rows) break; // no thread of the warp has a row
        const bool here = WHOLE || ROWS == 1 || first + slot < p.rows;
        const i64 row = here ? first + slot : first;
        const u32 columns = here ? p.cols : 0;
        const f16* const x_at = p.x + row * p.x_stride + t * 8;
        f16* const y_at = p.y + row * p.y_stride + t * 8;
        Group16 x_kept[G];
        float e_30_kept[G][8];

        // pass 1: max = rowmax(x)
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            x_kept[g] = fetch16_whole(x_at + g * (T * 8), WHOLE || c < columns);
        }
        u32 max_1_pairs[4];
        lowest_f16(max_1_pairs);
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                enlarge_f16(max_1_pairs, x_kept[g]);
                UNROLL for (int j = 0; j < 8; j++) {
                    const float x_0 = get_f16(x_kept[g], j);
                }
            }
        }
        float max_1 = threads_max<T < 32 ? T : 32>(largest_f16(max_1_pairs));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = max_1;
            BARRIER(); // all parts are written
            max_1 = threads_max<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }

        // pass 2: sum = rowsum(e)
        float sum_32_lane[8];
        fill(sum_32_lane, 0.0f);
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                if (G > 1) renew(x_kept[g]);
                UNROLL for (int j = 0; j < 8; j++) {
                    const float x_0 = get_f16(x_kept[g], j);
                    const float t2 = x_0 - max_1;
                    const bool t5 = t2 < (-104.0f);
                    const float xc_6 = at_least(t2, (-104.0f));
                    const float t_9 = fused(xc_6, 1.442695f, 1.2583103e+07f);
                    const float n_10 = t_9 - 1.2583103e+07f;
                    const float t13 = fused(n_10, (-0.6931472f), xc_6);
                    const float r_14 = fused(n_10, 1.9046542e-09f, t13);
                    const float t16 = fused(7.490915e-23f, r_14, 4.5365904e-22f);
                    const float t18 = fused(t16, r_14, 2.2588426e-21f);
                    const float t20 = fused(t18, r_14, 9.03494e-21f);
                    const float t22 = fused(t20, r_14, 2.7105051e-20f);
                    const float t24 = fused(t22, r_14, 5.421011e-20f);
                    const float p_25 = fused(t24, r_14, 5.421011e-20f);
                    const i32 t26 = (i32)bits_of(t_9);
                    const i32 t28 = shift_left(t26, 23);
                    const float s_29 = float_of((u32)t28);
                    const float e_30 = p_25 * s_29;
                    e_30_kept[g][j] = e_30;
                    sum_32_lane[j] = WHOLE && g == 0 ? e_30 : sum_32_lane[j] + e_30;
                }
            }
        }
        float sum_32 = threads_sum<T < 32 ? T : 32>(tree_from_terms(sum_32_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = sum_32;
            BARRIER(); // all parts are written
            sum_32 = threads_sum<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const float t33 = pinned(divide(1.0f, sum_32));

        // pass 3: store y
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                float y_out[8];
                UNROLL for (int j = 0; j < 8; j++) {
                    const float e_30 = e_30_kept[g][j];
                    const float t34 = e_30 * t33;
                    y_out[j] = t34;
                }
                put16_vector(y_at + g * (T * 8), 8, group_f16(y_out));
            }
        }
    }
}

KERNEL_BLOCKS(softmax_forward_rows8_registers1_whole, 128, 16)(const softmax_forward_params p) { softmax_forward_registers<8, 16, 1, true>(p); }
KERNEL_BLOCKS(softmax_forward_rows8_registers1, 128, 8)(const softmax_forward_params p) { softmax_forward_registers<8, 16, 1, false>(p); }
KERNEL_BLOCKS(softmax_forward_rows16_registers1_whole, 128, 16)(const softmax_forward_params p) { softmax_forward_registers<16, 8, 1, true>(p); }
KERNEL_BLOCKS(softmax_forward_rows16_registers1, 128, 8)(const softmax_forward_params p) { softmax_forward_registers<16, 8, 1, false>(p); }
KERNEL_BLOCKS(softmax_forward_rows32_registers1_whole, 64, 32)(const softmax_forward_params p) { softmax_forward_registers<32, 2, 1, true>(p); }
KERNEL_BLOCKS(softmax_forward_rows32_registers1, 64, 16)(const softmax_forward_params p) { softmax_forward_registers<32, 2, 1, false>(p); }
KERNEL_BLOCKS(softmax_forward_rows32_registers4_whole, 64, 16)(const softmax_forward_params p) { softmax_forward_registers<32, 2, 4, true>(p); }
KERNEL_BLOCKS(softmax_forward_rows32_registers4, 64, 16)(const softmax_forward_params p) { softmax_forward_registers<32, 2, 4, false>(p); }
KERNEL_BLOCKS(softmax_forward_rows32_registers8_whole, 64, 8)(const softmax_forward_params p) { softmax_forward_registers<32, 2, 8, true>(p); }
KERNEL_BLOCKS(softmax_forward_rows32_registers8, 64, 8)(const softmax_forward_params p) { softmax_forward_registers<32, 2, 8, false>(p); }
KERNEL_BLOCKS(softmax_forward_rows128_registers4_whole, 128, 8)(const softmax_forward_params p) { softmax_forward_registers<128, 1, 4, true>(p); }
KERNEL_BLOCKS(softmax_forward_rows128_registers4, 128, 8)(const softmax_forward_params p) { softmax_forward_registers<128, 1, 4, false>(p); }
KERNEL_BLOCKS(softmax_forward_rows128_registers8_whole, 128, 4)(const softmax_forward_params p) { softmax_forward_registers<128, 1, 8, true>(p); }
KERNEL_BLOCKS(softmax_forward_rows128_registers8, 128, 4)(const softmax_forward_params p) { softmax_forward_registers<128, 1, 8, false>(p); }

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Values that later passes need are kept in shared memory, each thread in its
// own words.
template <int T, int ROWS>
DEVICE void softmax_forward_shared(const softmax_forward_params& p) {
    SHARED(float, scratch, 2 * 1 * ROWS * T / 32);
    int turn = 0;
    SHARED_DYN(u32, kept);
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    for (i64 first = (i64)blockIdx.x * ROWS; first < p.rows; first += (i64)gridDim.x * ROWS) {
        const bool here = ROWS == 1 || first + slot < p.rows;
        const i64 row = here ? first + slot : first;
        const u32 columns = here ? p.cols : 0;
        const f16* const x_at = p.x + row * p.x_stride + t * 8;
        f16* const y_at = p.y + row * p.y_stride + t * 8;

        // pass 1: max = rowmax(x)
        u32 max_1_pairs[4];
        lowest_f16(max_1_pairs);
        UNROLL_TWICE for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            const Group16 x_group = fetch16_vector(x_at + g * (T * 8), 8);
            UNROLL for (int i = 0; i < 4; i++) kept[(g * 8 + 0 + i) * T + t] = x_group.w[i];
            enlarge_f16(max_1_pairs, x_group);
            UNROLL for (int j = 0; j < 8; j++) {
                const float x_0 = get_f16(x_group, j);
            }
        }
        float max_1 = threads_max<T < 32 ? T : 32>(largest_f16(max_1_pairs));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = max_1;
            BARRIER(); // all parts are written
            max_1 = threads_max<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }

        // pass 2: sum = rowsum(e)
        float sum_32_lane[8];
        fill(sum_32_lane, 0.0f);
        UNROLL_TWICE for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            Group16 x_group;
            UNROLL for (int i = 0; i < 4; i++) x_group.w[i] = kept[(g * 8 + 0 + i) * T + t];
            UNROLL for (int j = 0; j < 8; j++) {
                const float x_0 = get_f16(x_group, j);
                const float t2 = x_0 - max_1;
                const bool t5 = t2 < (-104.0f);
                const float xc_6 = at_least(t2, (-104.0f));
                const float t_9 = fused(xc_6, 1.442695f, 1.2583103e+07f);
                const float n_10 = t_9 - 1.2583103e+07f;
                const float t13 = fused(n_10, (-0.6931472f), xc_6);
                const float r_14 = fused(n_10, 1.9046542e-09f, t13);
                const float t16 = fused(7.490915e-23f, r_14, 4.5365904e-22f);
                const float t18 = fused(t16, r_14, 2.2588426e-21f);
                const float t20 = fused(t18, r_14, 9.03494e-21f);
                const float t22 = fused(t20, r_14, 2.7105051e-20f);
                const float t24 = fused(t22, r_14, 5.421011e-20f);
                const float p_25 = fused(t24, r_14, 5.421011e-20f);
                const i32 t26 = (i32)bits_of(t_9);
                const i32 t28 = shift_left(t26, 23);
                const float s_29 = float_of((u32)t28);
                const float e_30 = p_25 * s_29;
                kept[(g * 8 + 0 + j) * T + t] = bits_of(e_30);
                sum_32_lane[j] = sum_32_lane[j] + e_30;
            }
        }
        float sum_32 = threads_sum<T < 32 ? T : 32>(tree(sum_32_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = sum_32;
            BARRIER(); // all parts are written
            sum_32 = threads_sum<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const float t33 = divide(1.0f, sum_32);

        // pass 3: store y
        UNROLL_TWICE for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            float y_out[8];
            UNROLL for (int j = 0; j < 8; j++) {
                const float e_30 = float_of(kept[(g * 8 + 0 + j) * T + t]);
                const float t34 = e_30 * t33;
                y_out[j] = t34;
            }
            put16_vector(y_at + g * (T * 8), 8, group_f16(y_out));
        }
    }
}

KERNEL_BLOCKS(softmax_forward_rows1024_shared, 1024, 1)(const softmax_forward_params p) { softmax_forward_shared<1024, 1>(p); }

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Every pass reads the row.
template <int T, int ROWS>
DEVICE void softmax_forward_reread(const softmax_forward_params& p) {
    SHARED(float, scratch, 2 * 1 * ROWS * T / 32);
    int turn = 0;
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    for (i64 first = (i64)blockIdx.x * ROWS; first < p.rows; first += (i64)gridDim.x * ROWS) {
        const bool here = ROWS == 1 || first + slot < p.rows;
        const i64 row = here ? first + slot : first;
        const u32 columns = here ? p.cols : 0;
        const f16* const x_at = p.x + row * p.x_stride + t * 8;
        f16* const y_at = p.y + row * p.y_stride + t * 8;

        // pass 1: max = rowmax(x)
        u32 max_1_pairs[4];
        lowest_f16(max_1_pairs);
        ROLLED for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            const Group16 x_group = fetch16_vector(x_at + g * (T * 8), 8);
            enlarge_f16(max_1_pairs, x_group);
            UNROLL for (int j = 0; j < 8; j++) {
                const float x_0 = get_f16(x_group, j);
            }
        }
        float max_1 = threads_max<T < 32 ? T : 32>(largest_f16(max_1_pairs));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = max_1;
            BARRIER(); // all parts are written
            max_1 = threads_max<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }

        // pass 2: sum = rowsum(e)
        float sum_32_lane[8];
        fill(sum_32_lane, 0.0f);
        ROLLED for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            const Group16 x_group = fetch16_vector(x_at + g * (T * 8), 8);
            UNROLL for (int j = 0; j < 8; j++) {
                const float x_0 = get_f16(x_group, j);
                const float t2 = x_0 - max_1;
                const bool t5 = t2 < (-104.0f);
                const float xc_6 = at_least(t2, (-104.0f));
                const float t_9 = fused(xc_6, 1.442695f, 1.2583103e+07f);
                const float n_10 = t_9 - 1.2583103e+07f;
                const float t13 = fused(n_10, (-0.6931472f), xc_6);
                const float r_14 = fused(n_10, 1.9046542e-09f, t13);
                const float t16 = fused(7.490915e-23f, r_14, 4.5365904e-22f);
                const float t18 = fused(t16, r_14, 2.2588426e-21f);
                const float t20 = fused(t18, r_14, 9.03494e-21f);
                const float t22 = fused(t20, r_14, 2.7105051e-20f);
                const float t24 = fused(t22, r_14, 5.421011e-20f);
                const float p_25 = fused(t24, r_14, 5.421011e-20f);
                const i32 t26 = (i32)bits_of(t_9);
                const i32 t28 = shift_left(t26, 23);
                const float s_29 = float_of((u32)t28);
                const float e_30 = p_25 * s_29;
                sum_32_lane[j] = sum_32_lane[j] + e_30;
            }
        }
        float sum_32 = threads_sum<T < 32 ? T : 32>(tree(sum_32_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = sum_32;
            BARRIER(); // all parts are written
            sum_32 = threads_sum<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const float t33 = divide(1.0f, sum_32);

        // pass 3: store y
        ROLLED for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            const Group16 x_group = fetch16_vector(x_at + g * (T * 8), 8);
            float y_out[8];
            UNROLL for (int j = 0; j < 8; j++) {
                const float x_0 = get_f16(x_group, j);
                const float t2 = x_0 - max_1;
                const bool t5 = t2 < (-104.0f);
                const float xc_6 = at_least(t2, (-104.0f));
                const float t_9 = fused(xc_6, 1.442695f, 1.2583103e+07f);
                const float n_10 = t_9 - 1.2583103e+07f;
                const float t13 = fused(n_10, (-0.6931472f), xc_6);
                const float r_14 = fused(n_10, 1.9046542e-09f, t13);
                const float t16 = fused(7.490915e-23f, r_14, 4.5365904e-22f);
                const float t18 = fused(t16, r_14, 2.2588426e-21f);
                const float t20 = fused(t18, r_14, 9.03494e-21f);
                const float t22 = fused(t20, r_14, 2.7105051e-20f);
                const float t24 = fused(t22, r_14, 5.421011e-20f);
                const float p_25 = fused(t24, r_14, 5.421011e-20f);
                const i32 t26 = (i32)bits_of(t_9);
                const i32 t28 = shift_left(t26, 23);
                const float s_29 = float_of((u32)t28);
                const float e_30 = p_25 * s_29;
                const float t34 = e_30 * t33;
                y_out[j] = t34;
            }
            put16_vector(y_at + g * (T * 8), 8, group_f16(y_out));
        }
    }
}

KERNEL_BLOCKS(softmax_forward_rows1024_reread, 1024, 2)(const softmax_forward_params p) { softmax_forward_reread<1024, 1>(p); }
