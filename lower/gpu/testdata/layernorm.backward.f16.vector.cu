// layernorm.backward, vector access
//   xhat[r,c] = (x[r,c] - mean[r]) * rstd[r],  t[r,c] = dy[r,c] * gamma[c]
//   dx[r,c]   = (t[r,c] - sum t[r,c]/C - xhat[r,c] * sum t[r,c]*xhat[r,c]/C) * rstd[r]
//   dgamma[c] = sum over r of dy[r,c] * xhat[r,c],  dbeta[c] = sum over r of dy[r,c]
//
// Operands    dy f16, x f16, gamma f16, mean f32, rstd f32, dx f16, dgamma f16, dbeta f16
// Definition  sha256 24ff34a22e6f4b0c35004a120a22285aac40a2c12bf6e1a6bd9db51e51b29b4d

struct layernorm_backward_params {
    const f16* dy;
    i64 dy_stride;
    const f16* x;
    i64 x_stride;
    const f16* gamma;
    const f32* mean;
    i64 mean_stride;
    const f32* rstd;
    i64 rstd_stride;
    f16* dx;
    i64 dx_stride;
    f16* dgamma;
    f16* dbeta;
    i64 rows;
    float* column_lanes; // scratch: lanes of column sums, padded columns each
    i64 lanes; // that are not empty
    i64 lane_step;
    i64 padded;
    u32 cols;
    float column_count; // cols as a number
    u32 slots; // groups of a thread in shared memory
    float row_count;
};

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Values that later passes need are kept in registers, G groups of eight
// elements per thread, and the next row is prefetched during the last pass. STEPS rows of a
// block are consecutive terms of a lane of column sums: the terms go through shared memory,
// where the thread that owns a column of the lane adds them in order.
template <int T, int ROWS, int G, int STEPS, bool WHOLE>
DEVICE void layernorm_backward_fused(const layernorm_backward_params& p) {
    SHARED(float, scratch, 2 * 2 * ROWS * T / 32);
    int turn = 0;
    START_NEXT(); // which adds up the lanes
    SHARED_DYN(Quad, terms);
    const bool SENT = WHOLE && T >= 32; // inputs go through shared memory
    uint4_aligned* const sent = reinterpret_cast<uint4_aligned*>(terms + (ROWS > 1 ? 2 * G * 2 * ROWS * T : 0)) + threadIdx.x;
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    const f16* const gamma_at = p.gamma + t * 8;
    const u32 owned = G >= STEPS ? G / STEPS : 1; // groups of columns of a lane
    float t19_lane[owned][8];
    UNROLL for (u32 o = 0; o < owned; o++) fill(t19_lane[o], 0.0f);
    float t20_lane[owned][8];
    UNROLL for (u32 o = 0; o < owned; o++) fill(t20_lane[o], 0.0f);
    Group16 dy_kept[G];
    Group16 x_kept[G];
    float mean_8_next = 0;
    float rstd_10_next = 0;
    const i64 of_slot = slot / STEPS + slot % STEPS * p.lane_step;
    {
        const i64 row = (i64)blockIdx.x * (ROWS / STEPS) + of_slot;
        const u32 columns = row < p.rows ? p.cols : 0;
        const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
        const f16* const x_at = p.x + row * p.x_stride + t * 8;
        if constexpr (SENT) {
            UNROLL for (u32 g = 0; g < G; g++) {
                const u32 c = g * (T * 8) + t * 8;
                send16(sent + (g * 2 + 0) * (ROWS * T), ROWS * T, dy_at + g * (T * 8), (WHOLE ? 0 : c) < columns);
                send16(sent + (g * 2 + 1) * (ROWS * T), ROWS * T, x_at + g * (T * 8), (WHOLE ? 0 : c) < columns);
            }
            staging_commit();
        } else {
            UNROLL for (u32 g = 0; g < G; g++) {
                const u32 c = g * (T * 8) + t * 8;
                dy_kept[g] = fetch16_whole(dy_at + g * (T * 8), (WHOLE ? 0 : c) < columns);
                x_kept[g] = fetch16_whole(x_at + g * (T * 8), (WHOLE ? 0 : c) < columns);
            }
        }
        if (row < p.rows) mean_8_next = load_f32(p.mean + row * p.mean_stride);
        if (row < p.rows) rstd_10_next = load_f32(p.rstd + row * p.rstd_stride);
    }
    for (i64 first = (i64)blockIdx.x * (ROWS / STEPS); first < p.rows; first += STEPS * p.lane_step) {
        const bool here = WHOLE || first + of_slot < p.rows;
        const i64 row = here ? first + of_slot : first;
        const u32 columns = here ? p.cols : 0;
        const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
        const f16* const x_at = p.x + row * p.x_stride + t * 8;
        f16* const dx_at = p.dx + row * p.dx_stride + t * 8;
        const float mean_8 = mean_8_next;
        const float rstd_10 = rstd_10_next;
        if constexpr (SENT) {
            staging_wait<0>();
            UNROLL for (u32 g = 0; g < G; g++) {
                dy_kept[g] = staged16(sent + (g * 2 + 0) * (ROWS * T), ROWS * T);
                x_kept[g] = staged16(sent + (g * 2 + 1) * (ROWS * T), ROWS * T);
            }
            const i64 row = first + STEPS * p.lane_step + of_slot;
            const u32 columns = row < p.rows ? p.cols : 0;
            const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
            const f16* const x_at = p.x + row * p.x_stride + t * 8;
            UNROLL for (u32 g = 0; g < G; g++) {
                const u32 c = g * (T * 8) + t * 8;
                send16(sent + (g * 2 + 0) * (ROWS * T), ROWS * T, dy_at + g * (T * 8), (WHOLE ? 0 : c) < columns);
                send16(sent + (g * 2 + 1) * (ROWS * T), ROWS * T, x_at + g * (T * 8), (WHOLE ? 0 : c) < columns);
            }
            staging_commit();
            if (row < p.rows) mean_8_next = load_f32(p.mean + row * p.mean_stride);
            if (row < p.rows) rstd_10_next = load_f32(p.rstd + row * p.rstd_stride);
            WARP_BARRIER(); // compilers would send the next row after the first pass
        }

        // pass 1: rowsum(t), rowsum(t12)
        float t3_lane[8];
        fill(t3_lane, 0.0f);
        float t13_lane[8];
        fill(t13_lane, 0.0f);
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                const Group16 gamma_group = fetch16_vector(gamma_at + g * (T * 8), 8);
                UNROLL for (int j = 0; j < 8; j++) {
                    const float dy_0 = get_f16(dy_kept[g], j);
                    const float gamma_1 = get_f16(gamma_group, j);
                    const float t_2 = dy_0 * gamma_1;
                    const float x_7 = get_f16(x_kept[g], j);
                    const float t9 = x_7 - mean_8;
                    const float xhat_11 = t9 * rstd_10;
                    const float t12 = t_2 * xhat_11;
                    t3_lane[j] = WHOLE && g == 0 ? t_2 : t3_lane[j] + t_2;
                    t13_lane[j] = WHOLE && g == 0 ? t12 : t13_lane[j] + t12;
                }
            }
        }
        float t3 = threads_sum<T < 32 ? T : 32>(tree_from_terms(t3_lane));
        float t13 = threads_sum<T < 32 ? T : 32>(tree_from_terms(t13_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 2 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = t3;
            if (t % 32 == 0) part[1 * parts + t / 32] = t13;
            BARRIER(); // all parts are written
            t3 = threads_sum<parts>(part[0 * parts + t % parts]);
            t13 = threads_sum<parts>(part[1 * parts + t % parts]);
            turn ^= 1;
        }
        const float a_5 = pinned(WHOLE ? t3 * (1.0f / (T * 8 * G)) : divide(t3, p.column_count));
        const float c_14 = pinned(WHOLE ? t13 * (1.0f / (T * 8 * G)) : divide(t13, p.column_count));

        // pass 2: colsum(t18), colsum(dy), store dx
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                if (G > 1) renew(dy_kept[g]);
                if (G > 1) renew(x_kept[g]);
                const Group16 gamma_group = fetch16_vector(gamma_at + g * (T * 8), 8);
                float dx_out[8];
                float t19_terms[8];
                float t20_terms[8];
                UNROLL for (int j = 0; j < 8; j++) {
                    const float dy_0 = get_f16(dy_kept[g], j);
                    const float x_7 = get_f16(x_kept[g], j);
                    const float gamma_1 = get_f16(gamma_group, j);
                    const float t_2 = dy_0 * gamma_1;
                    const float t6 = t_2 - a_5;
                    const float t9 = x_7 - mean_8;
                    const float xhat_11 = t9 * rstd_10;
                    const float t15 = xhat_11 * c_14;
                    const float t16 = t6 - t15;
                    const float t17 = t16 * rstd_10;
                    const float t18 = dy_0 * xhat_11;
                    t19_terms[j] = t18;
                    t20_terms[j] = dy_0;
                    dx_out[j] = t17;
                }
                put16_vector(dx_at + g * (T * 8), 8, group_f16(dx_out));
                if constexpr (ROWS == 1) add_own(t19_lane[g], t19_terms);
                else put_terms(terms + ((slot * 2 + 0) * G + g) * 2 * T + t, T, t19_terms);
                if constexpr (ROWS == 1) add_own(t20_lane[g], t20_terms);
                else put_terms(terms + ((slot * 2 + 1) * G + g) * 2 * T + t, T, t20_terms);
            }
            {
                const i64 row = first + STEPS * p.lane_step + of_slot;
                const u32 columns = row < p.rows ? p.cols : 0;
                if constexpr (SENT) {
                } else {
                    const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
                    const f16* const x_at = p.x + row * p.x_stride + t * 8;
                    dy_kept[g] = fetch16_whole(dy_at + g * (T * 8), (WHOLE ? 0 : c) < columns);
                    x_kept[g] = fetch16_whole(x_at + g * (T * 8), (WHOLE ? 0 : c) < columns);
                    if (g == 0) {
                        if (row < p.rows) mean_8_next = load_f32(p.mean + row * p.mean_stride);
                        if (row < p.rows) rstd_10_next = load_f32(p.rstd + row * p.rstd_stride);
                    }
                }
            }
        }
        if constexpr (ROWS > 1) {
            BARRIER(); // all terms are written
            UNROLL for (u32 o = 0; o < owned; o++) {
                const u32 unit = o * ROWS * T + threadIdx.x, lane = unit / (G * T), g = unit / T % G, of = unit % T;
                const u32 c = (g * T + of) * 8;
                if (lane < ROWS / STEPS && (WHOLE || c < p.cols)) {
                    UNROLL for (u32 step = 0; step < STEPS; step++) {
                        if (WHOLE || first + lane + step * p.lane_step < p.rows) {
                            add_terms(t19_lane[o], terms + (((lane * STEPS + step) * 2 + 0) * G + g) * 2 * T + of, T);
                            add_terms(t20_lane[o], terms + (((lane * STEPS + step) * 2 + 1) * G + g) * 2 * T + of, T);
                        }
                    }
                }
            }
            BARRIER(); // all terms are added, they may be overwritten
        }
    }
    UNROLL for (u32 o = 0; o < owned; o++) {
        const u32 unit = o * ROWS * T + threadIdx.x, lane = unit / (G * T), g = unit / T % G, of = unit % T;
        const u32 c = (g * T + of) * 8;
        if (lane < ROWS / STEPS && (WHOLE || c < p.cols)) {
            const i64 at = (i64)blockIdx.x * (ROWS / STEPS) + lane;
            if (at < p.lanes) {
                put32_vector(p.column_lanes + (0 * p.lanes + at) * p.padded + c, 8, group_f32(t19_lane[o]));
                put32_vector(p.column_lanes + (1 * p.lanes + at) * p.padded + c, 8, group_f32(t20_lane[o]));
            }
        }
    }
}

KERNEL_BLOCKS(layernorm_backward_rows8_fused1, 64, 8)(const layernorm_backward_params p) { layernorm_backward_fused<8, 8, 1, 4, false>(p); }
KERNEL_BLOCKS(layernorm_backward_rows16_fused1, 128, 4)(const layernorm_backward_params p) { layernorm_backward_fused<16, 8, 1, 4, false>(p); }
KERNEL_BLOCKS(layernorm_backward_rows32_fused1_whole, 128, 4)(const layernorm_backward_params p) { layernorm_backward_fused<32, 4, 1, 4, true>(p); }
KERNEL_BLOCKS(layernorm_backward_rows32_fused1, 128, 4)(const layernorm_backward_params p) { layernorm_backward_fused<32, 4, 1, 4, false>(p); }
KERNEL_BLOCKS(layernorm_backward_rows32_fused4_whole, 128, 4)(const layernorm_backward_params p) { layernorm_backward_fused<32, 4, 4, 4, true>(p); }
KERNEL_BLOCKS(layernorm_backward_rows32_fused4, 128, 4)(const layernorm_backward_params p) { layernorm_backward_fused<32, 4, 4, 4, false>(p); }
KERNEL_BLOCKS(layernorm_backward_rows128_fused4_whole, 256, 2)(const layernorm_backward_params p) { layernorm_backward_fused<128, 2, 4, 2, true>(p); }
KERNEL_BLOCKS(layernorm_backward_rows128_fused4, 256, 2)(const layernorm_backward_params p) { layernorm_backward_fused<128, 2, 4, 2, false>(p); }

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Inputs are in shared memory, each thread in its own words, G groups of eight
// elements; the next row is prefetched where this one is read for the last time. Computed
// values that later passes need are kept in registers.
template <int T, int ROWS, int G, bool WHOLE>
DEVICE void layernorm_backward_staged(const layernorm_backward_params& p) {
    SHARED(float, scratch, 2 * 2 * ROWS * T / 32);
    int turn = 0;
    SHARED_DYN(uint4_aligned, stage);
    const bool TAKE = G * 8 <= 16; // inputs go to registers as soon as they arrive
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    const f16* const gamma_at = p.gamma + t * 8;
    for (u32 n = 0; n < p.slots; n++) {
        const i64 row = (i64)blockIdx.x + (n < G ? 0 : gridDim.x);
        const u32 g = n < G ? n : n - G;
        if (row < p.rows) {
            const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
            const f16* const x_at = p.x + row * p.x_stride + t * 8;
            send16(stage + (n * 2 + 0) * T + t, T, dy_at + g * (T * 8), WHOLE || g * (T * 8) + t * 8 < p.cols);
            send16(stage + (n * 2 + 1) * T + t, T, x_at + g * (T * 8), WHOLE || g * (T * 8) + t * 8 < p.cols);
        }
        if (n == G - 1) staging_commit();
    }
    staging_commit();
    u32 base = 0; // the slot of the row's first group
    for (i64 first = blockIdx.x; first < p.rows; first += gridDim.x, base = slot_of(base, G, p.slots)) {
        const bool here = true;
        const i64 row = first;
        const u32 columns = here ? p.cols : 0;
        const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
        const f16* const x_at = p.x + row * p.x_stride + t * 8;
        f16* const dx_at = p.dx + row * p.dx_stride + t * 8;
        const float mean_8 = load_f32(p.mean + row * p.mean_stride);
        const float rstd_10 = load_f32(p.rstd + row * p.rstd_stride);
        staging_wait<1>();
        Group16 dy_kept[TAKE ? G : 1];
        Group16 x_kept[TAKE ? G : 1];
        if constexpr (TAKE) {
            if (p.slots == 2 * G) staging_commit();
            UNROLL for (u32 g = 0; g < G; g++) {
                dy_kept[g] = staged16(stage + (slot_of(base, g, p.slots) * 2 + 0) * T + t, T);
                x_kept[g] = staged16(stage + (slot_of(base, g, p.slots) * 2 + 1) * T + t, T);
                const bool is_next = g + p.slots < 2 * G;
                const i64 row = first + (i64)gridDim.x * (is_next ? 1 : 2);
                if (row < p.rows) {
                    const u32 slot = slot_of(base, g, p.slots);
                    const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
                    const f16* const x_at = p.x + row * p.x_stride + t * 8;
                    const u32 of_row = g + p.slots - (is_next ? G : 2 * G);
                    send16(stage + (slot * 2 + 0) * T + t, T, dy_at + of_row * (T * 8), WHOLE || of_row * (T * 8) + t * 8 < p.cols);
                    send16(stage + (slot * 2 + 1) * T + t, T, x_at + of_row * (T * 8), WHOLE || of_row * (T * 8) + t * 8 < p.cols);
                }
                if (g + p.slots == 2 * G - 1) staging_commit();
            }
            staging_commit();
        }

        // pass 1: rowsum(t), rowsum(t12)
        float t3_lane[8];
        fill(t3_lane, 0.0f);
        float t13_lane[8];
        fill(t13_lane, 0.0f);
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                renew(dy_kept[TAKE ? g : 0]);
                const Group16 dy_group = TAKE ? dy_kept[TAKE ? g : 0] : staged16(stage + (slot_of(base, g, p.slots) * 2 + 0) * T + t, T);
                const Group16 gamma_group = fetch16_vector(gamma_at + g * (T * 8), 8);
                renew(x_kept[TAKE ? g : 0]);
                const Group16 x_group = TAKE ? x_kept[TAKE ? g : 0] : staged16(stage + (slot_of(base, g, p.slots) * 2 + 1) * T + t, T);
                UNROLL for (int j = 0; j < 8; j++) {
                    const float dy_0 = get_f16(dy_group, j);
                    const float gamma_1 = get_f16(gamma_group, j);
                    const float t_2 = dy_0 * gamma_1;
                    const float x_7 = get_f16(x_group, j);
                    const float t9 = x_7 - mean_8;
                    const float xhat_11 = t9 * rstd_10;
                    const float t12 = t_2 * xhat_11;
                    t3_lane[j] = WHOLE && g == 0 ? t_2 : t3_lane[j] + t_2;
                    t13_lane[j] = WHOLE && g == 0 ? t12 : t13_lane[j] + t12;
                }
            }
        }
        float t3 = threads_sum<T < 32 ? T : 32>(tree_from_terms(t3_lane));
        float t13 = threads_sum<T < 32 ? T : 32>(tree_from_terms(t13_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 2 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = t3;
            if (t % 32 == 0) part[1 * parts + t / 32] = t13;
            BARRIER(); // all parts are written
            t3 = threads_sum<parts>(part[0 * parts + t % parts]);
            t13 = threads_sum<parts>(part[1 * parts + t % parts]);
            turn ^= 1;
        }
        const float a_5 = pinned(WHOLE ? t3 * (1.0f / (T * 8 * G)) : divide(t3, p.column_count));
        const float c_14 = pinned(WHOLE ? t13 * (1.0f / (T * 8 * G)) : divide(t13, p.column_count));

        // pass 2: store dx
        if (!TAKE && p.slots == 2 * G) staging_commit();
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                renew(dy_kept[TAKE ? g : 0]);
                const Group16 dy_group = TAKE ? dy_kept[TAKE ? g : 0] : staged16(stage + (slot_of(base, g, p.slots) * 2 + 0) * T + t, T);
                renew(x_kept[TAKE ? g : 0]);
                const Group16 x_group = TAKE ? x_kept[TAKE ? g : 0] : staged16(stage + (slot_of(base, g, p.slots) * 2 + 1) * T + t, T);
                const Group16 gamma_group = fetch16_vector(gamma_at + g * (T * 8), 8);
                float dx_out[8];
                UNROLL for (int j = 0; j < 8; j++) {
                    const float dy_0 = get_f16(dy_group, j);
                    const float x_7 = get_f16(x_group, j);
                    const float gamma_1 = get_f16(gamma_group, j);
                    const float t_2 = dy_0 * gamma_1;
                    const float t6 = t_2 - a_5;
                    const float t9 = x_7 - mean_8;
                    const float xhat_11 = t9 * rstd_10;
                    const float t15 = xhat_11 * c_14;
                    const float t16 = t6 - t15;
                    const float t17 = t16 * rstd_10;
                    dx_out[j] = t17;
                }
                put16_vector(dx_at + g * (T * 8), 8, group_f16(dx_out));
            }
            if (!TAKE) {
                const bool is_next = g + p.slots < 2 * G;
                const i64 row = first + (i64)gridDim.x * (is_next ? 1 : 2);
                if (row < p.rows) {
                    const u32 slot = slot_of(base, g, p.slots);
                    const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
                    const f16* const x_at = p.x + row * p.x_stride + t * 8;
                    const u32 of_row = g + p.slots - (is_next ? G : 2 * G);
                    send16(stage + (slot * 2 + 0) * T + t, T, dy_at + of_row * (T * 8), WHOLE || of_row * (T * 8) + t * 8 < p.cols);
                    send16(stage + (slot * 2 + 1) * T + t, T, x_at + of_row * (T * 8), WHOLE || of_row * (T * 8) + t * 8 < p.cols);
                }
                if (g + p.slots == 2 * G - 1) staging_commit();
            }
        }
        if (!TAKE) staging_commit();
    }
}

KERNEL_BLOCKS(layernorm_backward_rows1024_staged2_whole, 1024, 1)(const layernorm_backward_params p) { layernorm_backward_staged<1024, 1, 2, true>(p); }
KERNEL_BLOCKS(layernorm_backward_rows1024_staged2, 1024, 1)(const layernorm_backward_params p) { layernorm_backward_staged<1024, 1, 2, false>(p); }
KERNEL_BLOCKS(layernorm_backward_rows1024_staged4_whole, 1024, 1)(const layernorm_backward_params p) { layernorm_backward_staged<1024, 1, 4, true>(p); }
KERNEL_BLOCKS(layernorm_backward_rows1024_staged4, 1024, 1)(const layernorm_backward_params p) { layernorm_backward_staged<1024, 1, 4, false>(p); }

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Inputs that fit are in shared memory, each thread in its own words, G groups of
// eight elements; the next row is prefetched where this one is read for the last time. All
// other values are read and computed again.
template <int T, int ROWS, int G, bool WHOLE>
DEVICE void layernorm_backward_partly(const layernorm_backward_params& p) {
    SHARED(float, scratch, 2 * 2 * ROWS * T / 32);
    int turn = 0;
    SHARED_DYN(uint4_aligned, stage);
    const bool TAKE = G * 4 <= 16; // inputs go to registers as soon as they arrive
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    const f16* const gamma_at = p.gamma + t * 8;
    for (u32 n = 0; n < p.slots; n++) {
        const i64 row = (i64)blockIdx.x + (n < G ? 0 : gridDim.x);
        const u32 g = n < G ? n : n - G;
        if (row < p.rows) {
            const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
            send16(stage + (n * 1 + 0) * T + t, T, dy_at + g * (T * 8), WHOLE || g * (T * 8) + t * 8 < p.cols);
        }
        if (n == G - 1) staging_commit();
    }
    staging_commit();
    u32 base = 0; // the slot of the row's first group
    for (i64 first = blockIdx.x; first < p.rows; first += gridDim.x, base = slot_of(base, G, p.slots)) {
        const bool here = true;
        const i64 row = first;
        const u32 columns = here ? p.cols : 0;
        const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
        const f16* const x_at = p.x + row * p.x_stride + t * 8;
        f16* const dx_at = p.dx + row * p.dx_stride + t * 8;
        const float mean_8 = load_f32(p.mean + row * p.mean_stride);
        const float rstd_10 = load_f32(p.rstd + row * p.rstd_stride);
        staging_wait<1>();
        Group16 dy_kept[TAKE ? G : 1];
        if constexpr (TAKE) {
            if (p.slots == 2 * G) staging_commit();
            UNROLL for (u32 g = 0; g < G; g++) {
                dy_kept[g] = staged16(stage + (slot_of(base, g, p.slots) * 1 + 0) * T + t, T);
                const bool is_next = g + p.slots < 2 * G;
                const i64 row = first + (i64)gridDim.x * (is_next ? 1 : 2);
                if (row < p.rows) {
                    const u32 slot = slot_of(base, g, p.slots);
                    const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
                    const u32 of_row = g + p.slots - (is_next ? G : 2 * G);
                    send16(stage + (slot * 1 + 0) * T + t, T, dy_at + of_row * (T * 8), WHOLE || of_row * (T * 8) + t * 8 < p.cols);
                }
                if (g + p.slots == 2 * G - 1) staging_commit();
            }
            staging_commit();
        }

        // pass 1: rowsum(t), rowsum(t12)
        float t3_lane[8];
        fill(t3_lane, 0.0f);
        float t13_lane[8];
        fill(t13_lane, 0.0f);
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                renew(dy_kept[TAKE ? g : 0]);
                const Group16 dy_group = TAKE ? dy_kept[TAKE ? g : 0] : staged16(stage + (slot_of(base, g, p.slots) * 1 + 0) * T + t, T);
                const Group16 gamma_group = fetch16_vector(gamma_at + g * (T * 8), 8);
                const Group16 x_group = fetch16_vector(x_at + g * (T * 8), 8);
                UNROLL for (int j = 0; j < 8; j++) {
                    const float dy_0 = get_f16(dy_group, j);
                    const float gamma_1 = get_f16(gamma_group, j);
                    const float t_2 = dy_0 * gamma_1;
                    const float x_7 = get_f16(x_group, j);
                    const float t9 = x_7 - mean_8;
                    const float xhat_11 = t9 * rstd_10;
                    const float t12 = t_2 * xhat_11;
                    t3_lane[j] = WHOLE && g == 0 ? t_2 : t3_lane[j] + t_2;
                    t13_lane[j] = WHOLE && g == 0 ? t12 : t13_lane[j] + t12;
                }
            }
        }
        float t3 = threads_sum<T < 32 ? T : 32>(tree_from_terms(t3_lane));
        float t13 = threads_sum<T < 32 ? T : 32>(tree_from_terms(t13_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 2 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = t3;
            if (t % 32 == 0) part[1 * parts + t / 32] = t13;
            BARRIER(); // all parts are written
            t3 = threads_sum<parts>(part[0 * parts + t % parts]);
            t13 = threads_sum<parts>(part[1 * parts + t % parts]);
            turn ^= 1;
        }
        const float a_5 = pinned(WHOLE ? t3 * (1.0f / (T * 8 * G)) : divide(t3, p.column_count));
        const float c_14 = pinned(WHOLE ? t13 * (1.0f / (T * 8 * G)) : divide(t13, p.column_count));

        // pass 2: store dx
        if (!TAKE && p.slots == 2 * G) staging_commit();
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                renew(dy_kept[TAKE ? g : 0]);
                const Group16 dy_group = TAKE ? dy_kept[TAKE ? g : 0] : staged16(stage + (slot_of(base, g, p.slots) * 1 + 0) * T + t, T);
                const Group16 gamma_group = fetch16_vector(gamma_at + g * (T * 8), 8);
                const Group16 x_group = fetch16_vector(x_at + g * (T * 8), 8);
                float dx_out[8];
                UNROLL for (int j = 0; j < 8; j++) {
                    const float dy_0 = get_f16(dy_group, j);
                    const float gamma_1 = get_f16(gamma_group, j);
                    const float t_2 = dy_0 * gamma_1;
                    const float t6 = t_2 - a_5;
                    const float x_7 = get_f16(x_group, j);
                    const float t9 = x_7 - mean_8;
                    const float xhat_11 = t9 * rstd_10;
                    const float t15 = xhat_11 * c_14;
                    const float t16 = t6 - t15;
                    const float t17 = t16 * rstd_10;
                    dx_out[j] = t17;
                }
                put16_vector(dx_at + g * (T * 8), 8, group_f16(dx_out));
            }
            if (!TAKE) {
                const bool is_next = g + p.slots < 2 * G;
                const i64 row = first + (i64)gridDim.x * (is_next ? 1 : 2);
                if (row < p.rows) {
                    const u32 slot = slot_of(base, g, p.slots);
                    const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
                    const u32 of_row = g + p.slots - (is_next ? G : 2 * G);
                    send16(stage + (slot * 1 + 0) * T + t, T, dy_at + of_row * (T * 8), WHOLE || of_row * (T * 8) + t * 8 < p.cols);
                }
                if (g + p.slots == 2 * G - 1) staging_commit();
            }
        }
        if (!TAKE) staging_commit();
    }
}

KERNEL_BLOCKS(layernorm_backward_rows1024_partly8_whole, 1024, 1)(const layernorm_backward_params p) { layernorm_backward_partly<1024, 1, 8, true>(p); }
KERNEL_BLOCKS(layernorm_backward_rows1024_partly8, 1024, 1)(const layernorm_backward_params p) { layernorm_backward_partly<1024, 1, 8, false>(p); }

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Values that later passes need are kept in registers, G groups of eight
// elements per thread.
template <int T, int ROWS, int G, bool WHOLE>
DEVICE void layernorm_backward_registers(const layernorm_backward_params& p) {
    SHARED(float, scratch, 2 * 2 * ROWS * T / 32);
    int turn = 0;
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    const f16* const gamma_at = p.gamma + t * 8;
    for (i64 first = (i64)blockIdx.x * ROWS; first < p.rows; first += (i64)gridDim.x * ROWS) {
        if (WHOLE && ROWS > 1 && first + slot >= p.rows) break; // no thread of the warp has a row
        const bool here = WHOLE || ROWS == 1 || first + slot < p.rows;
        const i64 row = here ? first + slot : first;
        const u32 columns = here ? p.cols : 0;
        const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
        const f16* const x_at = p.x + row * p.x_stride + t * 8;
        f16* const dx_at = p.dx + row * p.dx_stride + t * 8;
        const float mean_8 = load_f32(p.mean + row * p.mean_stride);
        const float rstd_10 = load_f32(p.rstd + row * p.rstd_stride);
        Group16 dy_kept[G];
        Group16 x_kept[G];

        // pass 1: rowsum(t), rowsum(t12)
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            dy_kept[g] = fetch16_whole(dy_at + g * (T * 8), WHOLE || c < columns);
            x_kept[g] = fetch16_whole(x_at + g * (T * 8), WHOLE || c < columns);
        }
        float t3_lane[8];
        fill(t3_lane, 0.0f);
        float t13_lane[8];
        fill(t13_lane, 0.0f);
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                const Group16 gamma_group = fetch16_vector(gamma_at + g * (T * 8), 8);
                UNROLL for (int j = 0; j < 8; j++) {
                    const float dy_0 = get_f16(dy_kept[g], j);
                    const float gamma_1 = get_f16(gamma_group, j);
                    const float t_2 = dy_0 * gamma_1;
                    const float x_7 = get_f16(x_kept[g], j);
                    const float t9 = x_7 - mean_8;
                    const float xhat_11 = t9 * rstd_10;
                    const float t12 = t_2 * xhat_11;
                    t3_lane[j] = WHOLE && g == 0 ? t_2 : t3_lane[j] + t_2;
                    t13_lane[j] = WHOLE && g == 0 ? t12 : t13_lane[j] + t12;
                }
            }
        }
        float t3 = threads_sum<T < 32 ? T : 32>(tree_from_terms(t3_lane));
        float t13 = threads_sum<T < 32 ? T : 32>(tree_from_terms(t13_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 2 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = t3;
            if (t % 32 == 0) part[1 * parts + t / 32] = t13;
            BARRIER(); // all parts are written
            t3 = threads_sum<parts>(part[0 * parts + t % parts]);
            t13 = threads_sum<parts>(part[1 * parts + t % parts]);
            turn ^= 1;
        }
        const float a_5 = pinned(WHOLE ? t3 * (1.0f / (T * 8 * G)) : divide(t3, p.column_count));
        const float c_14 = pinned(WHOLE ? t13 * (1.0f / (T * 8 * G)) : divide(t13, p.column_count));

        // pass 2: store dx
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + t * 8;
            if (WHOLE || c < columns) {
                if (G > 1) renew(dy_kept[g]);
                if (G > 1) renew(x_kept[g]);
                const Group16 gamma_group = fetch16_vector(gamma_at + g * (T * 8), 8);
                float dx_out[8];
                UNROLL for (int j = 0; j < 8; j++) {
                    const float dy_0 = get_f16(dy_kept[g], j);
                    const float x_7 = get_f16(x_kept[g], j);
                    const float gamma_1 = get_f16(gamma_group, j);
                    const float t_2 = dy_0 * gamma_1;
                    const float t6 = t_2 - a_5;
                    const float t9 = x_7 - mean_8;
                    const float xhat_11 = t9 * rstd_10;
                    const float t15 = xhat_11 * c_14;
                    const float t16 = t6 - t15;
                    const float t17 = t16 * rstd_10;
                    dx_out[j] = t17;
                }
                put16_vector(dx_at + g * (T * 8), 8, group_f16(dx_out));
            }
        }
    }
}

KERNEL_BLOCKS(layernorm_backward_rows8_registers1_whole, 128, 8)(const layernorm_backward_params p) { layernorm_backward_registers<8, 16, 1, true>(p); }
KERNEL_BLOCKS(layernorm_backward_rows8_registers1, 128, 8)(const layernorm_backward_params p) { layernorm_backward_registers<8, 16, 1, false>(p); }
KERNEL_BLOCKS(layernorm_backward_rows16_registers1_whole, 128, 8)(const layernorm_backward_params p) { layernorm_backward_registers<16, 8, 1, true>(p); }
KERNEL_BLOCKS(layernorm_backward_rows16_registers1, 128, 8)(const layernorm_backward_params p) { layernorm_backward_registers<16, 8, 1, false>(p); }
KERNEL(layernorm_backward_rows32_registers8_whole, 64)(const layernorm_backward_params p) { layernorm_backward_registers<32, 2, 8, true>(p); }
KERNEL(layernorm_backward_rows32_registers8, 64)(const layernorm_backward_params p) { layernorm_backward_registers<32, 2, 8, false>(p); }
KERNEL(layernorm_backward_rows128_registers8_whole, 128)(const layernorm_backward_params p) { layernorm_backward_registers<128, 1, 8, true>(p); }
KERNEL(layernorm_backward_rows128_registers8, 128)(const layernorm_backward_params p) { layernorm_backward_registers<128, 1, 8, false>(p); }

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Values that later passes need are kept in shared memory, each thread in its
// own words.
template <int T, int ROWS>
DEVICE void layernorm_backward_shared(const layernorm_backward_params& p) {
    SHARED(float, scratch, 2 * 2 * ROWS * T / 32);
    int turn = 0;
    SHARED_DYN(u32, kept);
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    const f16* const gamma_at = p.gamma + t * 8;
    for (i64 first = (i64)blockIdx.x * ROWS; first < p.rows; first += (i64)gridDim.x * ROWS) {
        const bool here = ROWS == 1 || first + slot < p.rows;
        const i64 row = here ? first + slot : first;
        const u32 columns = here ? p.cols : 0;
        const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
        const f16* const x_at = p.x + row * p.x_stride + t * 8;
        f16* const dx_at = p.dx + row * p.dx_stride + t * 8;
        const float mean_8 = load_f32(p.mean + row * p.mean_stride);
        const float rstd_10 = load_f32(p.rstd + row * p.rstd_stride);

        // pass 1: rowsum(t), rowsum(t12)
        float t3_lane[8];
        fill(t3_lane, 0.0f);
        float t13_lane[8];
        fill(t13_lane, 0.0f);
        UNROLL_TWICE for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            const Group16 dy_group = fetch16_vector(dy_at + g * (T * 8), 8);
            UNROLL for (int i = 0; i < 4; i++) kept[(g * 8 + 0 + i) * T + t] = dy_group.w[i];
            const Group16 gamma_group = fetch16_vector(gamma_at + g * (T * 8), 8);
            const Group16 x_group = fetch16_vector(x_at + g * (T * 8), 8);
            UNROLL for (int i = 0; i < 4; i++) kept[(g * 8 + 4 + i) * T + t] = x_group.w[i];
            UNROLL for (int j = 0; j < 8; j++) {
                const float dy_0 = get_f16(dy_group, j);
                const float gamma_1 = get_f16(gamma_group, j);
                const float t_2 = dy_0 * gamma_1;
                const float x_7 = get_f16(x_group, j);
                const float t9 = x_7 - mean_8;
                const float xhat_11 = t9 * rstd_10;
                const float t12 = t_2 * xhat_11;
                t3_lane[j] = t3_lane[j] + t_2;
                t13_lane[j] = t13_lane[j] + t12;
            }
        }
        float t3 = threads_sum<T < 32 ? T : 32>(tree(t3_lane));
        float t13 = threads_sum<T < 32 ? T : 32>(tree(t13_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 2 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = t3;
            if (t % 32 == 0) part[1 * parts + t / 32] = t13;
            BARRIER(); // all parts are written
            t3 = threads_sum<parts>(part[0 * parts + t % parts]);
            t13 = threads_sum<parts>(part[1 * parts + t % parts]);
            turn ^= 1;
        }
        const float a_5 = divide(t3, p.column_count);
        const float c_14 = divide(t13, p.column_count);

        // pass 2: store dx
        UNROLL_TWICE for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            Group16 dy_group;
            UNROLL for (int i = 0; i < 4; i++) dy_group.w[i] = kept[(g * 8 + 0 + i) * T + t];
            Group16 x_group;
            UNROLL for (int i = 0; i < 4; i++) x_group.w[i] = kept[(g * 8 + 4 + i) * T + t];
            const Group16 gamma_group = fetch16_vector(gamma_at + g * (T * 8), 8);
            float dx_out[8];
            UNROLL for (int j = 0; j < 8; j++) {
                const float dy_0 = get_f16(dy_group, j);
                const float x_7 = get_f16(x_group, j);
                const float gamma_1 = get_f16(gamma_group, j);
                const float t_2 = dy_0 * gamma_1;
                const float t6 = t_2 - a_5;
                const float t9 = x_7 - mean_8;
                const float xhat_11 = t9 * rstd_10;
                const float t15 = xhat_11 * c_14;
                const float t16 = t6 - t15;
                const float t17 = t16 * rstd_10;
                dx_out[j] = t17;
            }
            put16_vector(dx_at + g * (T * 8), 8, group_f16(dx_out));
        }
    }
}

KERNEL_BLOCKS(layernorm_backward_rows1024_shared, 1024, 1)(const layernorm_backward_params p) { layernorm_backward_shared<1024, 1>(p); }

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Every pass reads the row.
template <int T, int ROWS>
DEVICE void layernorm_backward_reread(const layernorm_backward_params& p) {
    SHARED(float, scratch, 2 * 2 * ROWS * T / 32);
    int turn = 0;
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    const f16* const gamma_at = p.gamma + t * 8;
    for (i64 first = (i64)blockIdx.x * ROWS; first < p.rows; first += (i64)gridDim.x * ROWS) {
        const bool here = ROWS == 1 || first + slot < p.rows;
        const i64 row = here ? first + slot : first;
        const u32 columns = here ? p.cols : 0;
        const f16* const dy_at = p.dy + row * p.dy_stride + t * 8;
        const f16* const x_at = p.x + row * p.x_stride + t * 8;
        f16* const dx_at = p.dx + row * p.dx_stride + t * 8;
        const float mean_8 = load_f32(p.mean + row * p.mean_stride);
        const float rstd_10 = load_f32(p.rstd + row * p.rstd_stride);

        // pass 1: rowsum(t), rowsum(t12)
        float t3_lane[8];
        fill(t3_lane, 0.0f);
        float t13_lane[8];
        fill(t13_lane, 0.0f);
        UNROLL_TWICE for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            const Group16 dy_group = fetch16_vector(dy_at + g * (T * 8), 8);
            const Group16 gamma_group = fetch16_vector(gamma_at + g * (T * 8), 8);
            const Group16 x_group = fetch16_vector(x_at + g * (T * 8), 8);
            UNROLL for (int j = 0; j < 8; j++) {
                const float dy_0 = get_f16(dy_group, j);
                const float gamma_1 = get_f16(gamma_group, j);
                const float t_2 = dy_0 * gamma_1;
                const float x_7 = get_f16(x_group, j);
                const float t9 = x_7 - mean_8;
                const float xhat_11 = t9 * rstd_10;
                const float t12 = t_2 * xhat_11;
                t3_lane[j] = t3_lane[j] + t_2;
                t13_lane[j] = t13_lane[j] + t12;
            }
        }
        float t3 = threads_sum<T < 32 ? T : 32>(tree(t3_lane));
        float t13 = threads_sum<T < 32 ? T : 32>(tree(t13_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 2 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = t3;
            if (t % 32 == 0) part[1 * parts + t / 32] = t13;
            BARRIER(); // all parts are written
            t3 = threads_sum<parts>(part[0 * parts + t % parts]);
            t13 = threads_sum<parts>(part[1 * parts + t % parts]);
            turn ^= 1;
        }
        const float a_5 = divide(t3, p.column_count);
        const float c_14 = divide(t13, p.column_count);

        // pass 2: store dx
        UNROLL_TWICE for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            const Group16 dy_group = fetch16_vector(dy_at + g * (T * 8), 8);
            const Group16 gamma_group = fetch16_vector(gamma_at + g * (T * 8), 8);
            const Group16 x_group = fetch16_vector(x_at + g * (T * 8), 8);
            float dx_out[8];
            UNROLL for (int j = 0; j < 8; j++) {
                const float dy_0 = get_f16(dy_group, j);
                const float gamma_1 = get_f16(gamma_group, j);
                const float t_2 = dy_0 * gamma_1;
                const float t6 = t_2 - a_5;
                const float x_7 = get_f16(x_group, j);
                const float t9 = x_7 - mean_8;
                const float xhat_11 = t9 * rstd_10;
                const float t15 = xhat_11 * c_14;
                const float t16 = t6 - t15;
                const float t17 = t16 * rstd_10;
                dx_out[j] = t17;
            }
            put16_vector(dx_at + g * (T * 8), 8, group_f16(dx_out));
        }
    }
}

KERNEL_BLOCKS(layernorm_backward_rows1024_reread, 1024, 1)(const layernorm_backward_params p) { layernorm_backward_reread<1024, 1>(p); }

// Lanes of column sums: row r is in lane r mod 2048, 512 or 256, each lane summed in
// ascending order by the thread that owns eight of its columns.
KERNEL(layernorm_backward_column_lanes, 256)(const layernorm_backward_params p) {
    const i64 groups = p.padded / 8;
    for (i64 q = blockIdx.x * 256LL + threadIdx.x; q < p.lanes * groups; q += gridDim.x * 256LL) {
        const i64 lane = quotient(q, groups);
        const u32 c = (u32)(q - lane * groups) * 8;
        const int n = 8;
        float t19_lane[8];
        fill(t19_lane, 0.0f);
        float t20_lane[8];
        fill(t20_lane, 0.0f);
        for (i64 row = lane; row < p.rows; row += p.lane_step) {
            const float mean_8 = load_f32(p.mean + row * p.mean_stride);
            const float rstd_10 = load_f32(p.rstd + row * p.rstd_stride);
            const Group16 dy_group = fetch16_vector(p.dy + row * p.dy_stride + c, n);
            const Group16 x_group = fetch16_vector(p.x + row * p.x_stride + c, n);
            UNROLL for (int j = 0; j < 8; j++) {
                const float dy_0 = get_f16(dy_group, j);
                const float x_7 = get_f16(x_group, j);
                const float t9 = x_7 - mean_8;
                const float xhat_11 = t9 * rstd_10;
                const float t18 = dy_0 * xhat_11;
                t19_lane[j] = t19_lane[j] + t18;
                t20_lane[j] = t20_lane[j] + dy_0;
            }
        }
        UNROLL for (int j = 0; j < 8; j++) p.column_lanes[(0 * p.lanes + lane) * p.padded + c + j] = t19_lane[j];
        UNROLL for (int j = 0; j < 8; j++) p.column_lanes[(1 * p.lanes + lane) * p.padded + c + j] = t20_lane[j];
    }
}

// Outputs per column, eight columns per block: adds up neighbouring lanes, then computes
// and stores what follows from the sums.
KERNEL(layernorm_backward_columns, 1024)(const layernorm_backward_params p) {
    AWAIT_PREVIOUS(); // the launch may be early
    SHARED(float, part, 2 * 256 * 8);
    const u32 chunks = (u32)((p.lanes + 7) / 8);
    u32 all = 1;
    while (all < chunks) all *= 2;
    const u32 x = threadIdx.x % 8, y = threadIdx.x / 8, height = blockDim.x / 8;
    for (i64 first = blockIdx.x * 8LL; first < p.cols; first += gridDim.x * 8LL) {
        const u32 c = (u32)first + x;
        const bool here = c < p.cols;
        // eight neighbouring lanes each, then pairs of neighbours
        for (u32 i = y; i < all; i += height) {
            float t19_lane[8]; // colsum(t18)
            UNROLL for (u32 j = 0; j < 8; j++) t19_lane[j] = here && 8 * i + j < p.lanes ? p.column_lanes[(0 * p.lanes + 8 * i + j) * p.padded + c] : 0.0f;
            part[(0 * 256 + i) * 8 + x] = tree(t19_lane);
            float t20_lane[8]; // colsum(dy)
            UNROLL for (u32 j = 0; j < 8; j++) t20_lane[j] = here && 8 * i + j < p.lanes ? p.column_lanes[(1 * p.lanes + 8 * i + j) * p.padded + c] : 0.0f;
            part[(1 * 256 + i) * 8 + x] = tree(t20_lane);
        }
        BARRIER(); // all chunks are written
        for (u32 d = 1; d < all; d *= 2) {
            for (u32 i = 2 * d * y; i < all; i += 2 * d * height) {
                part[(0 * 256 + i) * 8 + x] = part[(0 * 256 + i) * 8 + x] + part[(0 * 256 + i + d) * 8 + x];
                part[(1 * 256 + i) * 8 + x] = part[(1 * 256 + i) * 8 + x] + part[(1 * 256 + i + d) * 8 + x];
            }
            BARRIER(); // this level is complete
        }
        const float t19 = part[0 * 256 * 8 + x];
        const float t20 = part[1 * 256 * 8 + x];
        BARRIER(); // all threads have read the sums, part may be overwritten
        if (here && y == 0) {
            store_f16(p.dgamma + c, t19);
            store_f16(p.dbeta + c, t20);
        }
    }
}
