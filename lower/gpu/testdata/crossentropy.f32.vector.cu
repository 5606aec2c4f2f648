// crossentropy, vector access
//   loss[r]      = log sum exp(logits[r,c] - max) - (logits[r,label] - max)
//   dlogits[r,c] = scale * (softmax(logits)[r,c] - (c == label))
//
// Operands    logits f32, label i32, loss f32, dlogits f32
// Definition  sha256 cde8c54721712a93e11e4d25c623104ecbcfdbfc0def3109b858c60c63bd3835

struct crossentropy_params {
    const f32* logits;
    i64 logits_stride;
    const i32* label;
    i64 label_stride;
    f32* loss;
    i64 loss_stride;
    f32* dlogits;
    i64 dlogits_stride;
    i64 rows;
    const u64* refused; // null, or what the checking pass found
    u32 cols;
    float column_count; // cols as a number
    u32 slots; // groups of a thread in shared memory
    float row_count;
    i32 ignore;
    float scale;
};

// the checking pass of cuda.gather, cuda.scatter and cuda.rowwise
// found = min over i of (i << 32 | index[i]) where index[i] is out of range        of each index operand
//
// Operands  index (count / cols, cols) i32, rows strided; found, a word per index operand, all ones before the launch
// Numerics  none: the smallest word has the first out-of-range position, whatever the order of threads
// Schedule  256 threads per block, a grid-stride loop over positions, and a row of the grid for each operand; a thread stops at its first find
// Requires  count at most 2^32

struct crossentropy_check_operand {
    const i32* index;
    u64* found;
    i64 stride, cols, count, bound;
    i32 except, has_except; // one value that is in range besides 0 to bound-1
};

struct crossentropy_check_params {
    crossentropy_check_operand operands[1];
};

KERNEL(crossentropy_check, 256)(const crossentropy_check_params all) {
    START_NEXT(); // it waits for this pass where it reads found
    const crossentropy_check_operand& p = all.operands[blockIdx.y];
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < p.count; i += (i64)gridDim.x * 256) {
        i32 v = p.index[p.cols == 1 ? i * p.stride : i / p.cols * p.stride + i % p.cols];
        if ((v >= 0 && v < p.bound) || (p.has_except && v == p.except)) continue;
        ATOMIC_MIN(p.found, (u64)i << 32 | (u32)v);
        return; // the thread's other positions are larger
    }
}

// Waits for the checking pass and loads what it found: all ones, unless the call is refused.
// found is null without a checking pass.
DEVICE u64 crossentropy_refusal(const u64* found) {
    u64 all = ~(u64)0;
    if (found == nullptr) return all;
    AWAIT_PREVIOUS();
    UNROLL for (int i = 0; i < 1; i++) all &= load_early(found + i);
    return all;
}

// Reports whether the call is refused, so that nothing may be written.
DEVICE bool crossentropy_is_refused(const u64* found) { return crossentropy_refusal(found) != ~(u64)0; }

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Inputs are in shared memory, each thread in its own words, G groups of eight
// elements; the next row is prefetched where this one is read for the last time. Computed
// values that later passes need are kept in registers.
template <int T, int ROWS, int G, bool WHOLE>
DEVICE void crossentropy_staged(const crossentropy_params& p) {
    SHARED(float, scratch, 2 * 1 * ROWS * T / 32);
    int turn = 0;
    SHARED_DYN(uint4_aligned, stage);
    const bool TAKE = G * 8 <= 0; // inputs go to registers as soon as they arrive
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    const int STEP = 4 * (T < 32 ? T : 32); // from a thread's first quad of a group to its second
    const u32 own = t / (STEP / 4) * (STEP * 2) + t % (STEP / 4) * 4;
    for (u32 n = 0; n < p.slots; n++) {
        const i64 row = (i64)blockIdx.x + (n < G ? 0 : gridDim.x);
        const u32 g = n < G ? n : n - G;
        if (row < p.rows) {
            const f32* const logits_at = p.logits + row * p.logits_stride + own;
            send32_quads<STEP>(stage + (n * 2 + 0) * T + t, T, logits_at + g * (T * 8), WHOLE || g * (T * 8) + own < p.cols, WHOLE || g * (T * 8) + own + STEP < p.cols);
        }
        if (n == G - 1) staging_commit();
    }
    staging_commit();
    u32 base = 0; // the slot of the row's first group
    for (i64 first = blockIdx.x; first < p.rows; first += gridDim.x, base = slot_of(base, G, p.slots)) {
        const bool here = true;
        const i64 row = first;
        const u32 columns = here ? p.cols : 0;
        const f32* const logits_at = p.logits + row * p.logits_stride + own;
        f32* const dlogits_at = p.dlogits + row * p.dlogits_stride + own;
        const i32 label_0 = p.label[row * p.label_stride];
        const bool t2 = label_0 == p.ignore;
        const bool t4 = label_0 >= 0 && (u32)label_0 < p.cols;
        const float t92 = here && label_0 >= 0 && (u32)label_0 < p.cols ? load_f32(p.logits + row * p.logits_stride + label_0) : 0.0f;
        const bool t97 = label_0 == p.ignore;
        const bool t98 = label_0 >= 0 && (u32)label_0 < p.cols;
        float e_35_kept[G][8];
        staging_wait<1>();
        Group32 logits_kept[TAKE ? G : 1];
        if constexpr (TAKE) {
            if (p.slots == 2 * G) staging_commit();
            UNROLL for (u32 g = 0; g < G; g++) {
                logits_kept[g] = staged32(stage + (slot_of(base, g, p.slots) * 2 + 0) * T + t, T);
                const bool is_next = g + p.slots < 2 * G;
                const i64 row = first + (i64)gridDim.x * (is_next ? 1 : 2);
                if (row < p.rows) {
                    const u32 slot = slot_of(base, g, p.slots);
                    const f32* const logits_at = p.logits + row * p.logits_stride + own;
                    const u32 of_row = g + p.slots - (is_next ? G : 2 * G);
                    send32_quads<STEP>(stage + (slot * 2 + 0) * T + t, T, logits_at + of_row * (T * 8), WHOLE || of_row * (T * 8) + own < p.cols, WHOLE || of_row * (T * 8) + own + STEP < p.cols);
                }
                if (g + p.slots == 2 * G - 1) staging_commit();
            }
            staging_commit();
        }

        // pass 1: max = rowmax(logits)
        float max_6_lane[8];
        fill(max_6_lane, -INFINITE);
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + own;
            if (WHOLE || c < columns) {
                const bool second = WHOLE || c + STEP < columns;
                const Group32 logits_group = TAKE ? logits_kept[TAKE ? g : 0] : staged32(stage + (slot_of(base, g, p.slots) * 2 + 0) * T + t, T);
                UNROLL for (int j = 0; j < 8; j++) {
                    const float logits_5 = get_f32(logits_group, j);
                    max_6_lane[j] = larger(max_6_lane[j], (j < 4 || second ? logits_5 : -INFINITE));
                }
            }
        }
        float max_6 = threads_max<T < 32 ? T : 32>(largest(max_6_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = max_6;
            BARRIER(); // all parts are written
            max_6 = threads_max<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const float t93 = t92 - max_6;

        // pass 2: sum = rowsum(e)
        const u64 refusal = crossentropy_refusal(p.refused);
        float sum_36_lane[8];
        fill(sum_36_lane, 0.0f);
        if (!TAKE && p.slots == 2 * G) staging_commit();
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + own;
            if (WHOLE || c < columns) {
                const bool second = WHOLE || c + STEP < columns;
                const Group32 logits_group = TAKE ? logits_kept[TAKE ? g : 0] : staged32(stage + (slot_of(base, g, p.slots) * 2 + 0) * T + t, T);
                UNROLL for (int j = 0; j < 8; j++) {
                    const float logits_5 = get_f32(logits_group, j);
                    const float t7 = logits_5 - max_6;
                    const bool t10 = t7 < (-104.0f);
                    const float xc_11 = at_least(t7, (-104.0f));
                    const float t_14 = fused(xc_11, 1.442695f, 1.2583103e+07f);
                    const float n_15 = t_14 - 1.2583103e+07f;
                    const float t18 = fused(n_15, (-0.6931472f), xc_11);
                    const float r_19 = fused(n_15, 1.9046542e-09f, t18);
                    const float t21 = fused(7.490915e-23f, r_19, 4.5365904e-22f);
                    const float t23 = fused(t21, r_19, 2.2588426e-21f);
                    const float t25 = fused(t23, r_19, 9.03494e-21f);
                    const float t27 = fused(t25, r_19, 2.7105051e-20f);
                    const float t29 = fused(t27, r_19, 5.421011e-20f);
                    const float p_30 = fused(t29, r_19, 5.421011e-20f);
                    const i32 t31 = (i32)bits_of(t_14);
                    const i32 t33 = shift_left(t31, 23);
                    const float s_34 = float_of((u32)t33);
                    const float e_35 = p_30 * s_34;
                    e_35_kept[g][j] = e_35;
                    sum_36_lane[j] = WHOLE && g == 0 ? e_35 : sum_36_lane[j] + (j < 4 || second ? e_35 : 0.0f);
                }
            }
            if (!TAKE) {
                const bool is_next = g + p.slots < 2 * G;
                const i64 row = first + (i64)gridDim.x * (is_next ? 1 : 2);
                if (row < p.rows) {
                    const u32 slot = slot_of(base, g, p.slots);
                    const f32* const logits_at = p.logits + row * p.logits_stride + own;
                    const u32 of_row = g + p.slots - (is_next ? G : 2 * G);
                    send32_quads<STEP>(stage + (slot * 2 + 0) * T + t, T, logits_at + of_row * (T * 8), WHOLE || of_row * (T * 8) + own < p.cols, WHOLE || of_row * (T * 8) + own + STEP < p.cols);
                }
                if (g + p.slots == 2 * G - 1) staging_commit();
            }
        }
        if (!TAKE) staging_commit();
        float sum_36 = threads_sum_quads<STEP / 4>(sum_36_lane);
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = sum_36;
            BARRIER(); // all parts are written
            sum_36 = threads_sum<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const bool t38 = sum_36 < float_of(0x7f800000u);
        const bool t39 = 0.0f < sum_36;
        const bool small_41 = sum_36 < 1.1754944e-38f;
        const float t43 = sum_36 * 8.388608e+06f;
        const float xn_44 = small_41 ? t43 : sum_36;
        const i32 t45 = (i32)bits_of(xn_44);
        const i32 t47 = int_sub(t45, 1060439283);
        const i32 k_48 = shift_right(t47, 23);
        const i32 shift_51 = small_41 ? (-23) : 0;
        const i32 t52 = int_add(k_48, shift_51);
        const float kf_53 = (float)t52;
        const float a_55 = kf_53 * 0.69314575f;
        const i32 t56 = shift_left(k_48, 23);
        const i32 t57 = int_sub(t45, t56);
        const float t58 = float_of((u32)t57);
        const float f_60 = t58 - 1.0f;
        const float hi_61 = a_55 + f_60;
        const float t62 = f_60 * f_60;
        const float t65 = fused((-0.07619054f), f_60, 0.12912945f);
        const float t67 = fused(t65, f_60, (-0.1324807f));
        const float t69 = fused(t67, f_60, 0.14180854f);
        const float t71 = fused(t69, f_60, (-0.16608411f));
        const float t73 = fused(t71, f_60, 0.20002005f);
        const float t75 = fused(t73, f_60, (-0.2500161f));
        const float t77 = fused(t75, f_60, 0.33333325f);
        const float q_79 = fused(t77, f_60, (-0.49999988f));
        const float t81 = a_55 - hi_61;
        const float lo_82 = t81 + f_60;
        const float t83 = fused(kf_53, 1.4286068e-06f, lo_82);
        const float t84 = fused(t62, q_79, t83);
        const float y_85 = hi_61 + t84;
        const bool t86 = sum_36 == 0.0f;
        const float t89 = t86 ? float_of(0xff800000u) : float_of(0x7fc00000u);
        const float t90 = t39 ? y_85 : t89;
        const float t91 = t38 ? t90 : sum_36;
        const float nll_94 = t91 - t93;
        const float t95 = t4 ? nll_94 : 0.0f;
        const float t96 = t2 ? 0.0f : t95;
        const float t100 = pinned(divide(1.0f, sum_36));

        // pass 3: store dlogits
        if (T <= 32) WARP_BARRIER(); // all threads have read the row's elements before any is overwritten
        if (refusal != ~(u64)0) return;
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + own;
            if (WHOLE || c < columns) {
                const bool second = WHOLE || c + STEP < columns;
                float dlogits_out[8];
                UNROLL for (int j = 0; j < 8; j++) {
                    const float e_35 = e_35_kept[g][j];
                    const float p_101 = e_35 * t100;
                    const i32 t102 = (i32)(c + j + (j < 4 ? 0 : STEP - 4));
                    const bool t103 = t102 == label_0;
                    const float onehot_104 = t103 ? 1.0f : 0.0f;
                    const float t105 = p_101 - onehot_104;
                    const float t106 = p.scale * t105;
                    const float t107 = t98 ? t106 : 0.0f;
                    const float t108 = t97 ? 0.0f : t107;
                    dlogits_out[j] = t108;
                }
                put32_quads<STEP>(dlogits_at + g * (T * 8), second, group_f32(dlogits_out));
            }
        }
        if (here && t == 0) store_f32(p.loss + row * p.loss_stride, t96);
    }
}

KERNEL_BLOCKS(crossentropy_rows1024_staged2_whole, 1024, 1)(const crossentropy_params p) { crossentropy_staged<1024, 1, 2, true>(p); }
KERNEL_BLOCKS(crossentropy_rows1024_staged2, 1024, 1)(const crossentropy_params p) { crossentropy_staged<1024, 1, 2, false>(p); }
KERNEL_BLOCKS(crossentropy_rows1024_staged4_whole, 1024, 1)(const crossentropy_params p) { crossentropy_staged<1024, 1, 4, true>(p); }
KERNEL_BLOCKS(crossentropy_rows1024_staged4, 1024, 1)(const crossentropy_params p) { crossentropy_staged<1024, 1, 4, false>(p); }

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Values that later passes need are kept in registers, G groups of eight
// elements per thread.
template <int T, int ROWS, int G, bool WHOLE>
DEVICE void crossentropy_registers(const crossentropy_params& p) {
    SHARED(float, scratch, 2 * 1 * ROWS * T / 32);
    int turn = 0;
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    const int STEP = 4 * (T < 32 ? T : 32); // from a thread's first quad of a group to its second
    const u32 own = t / (STEP / 4) * (STEP * 2) + t % (STEP / 4) * 4;
    for (i64 first = (i64)blockIdx.x * ROWS; first < p.rows; first += (i64)gridDim.x * ROWS) {
        if (WHOLE && ROWS > 1 && first + slot >= p.rows) break; // no thread of the warp has a row
        const bool here = WHOLE || ROWS == 1 || first + slot < p.rows;
        const i64 row = here ? first + slot : first;
        const u32 columns = here ? p.cols : 0;
        const f32* const logits_at = p.logits + row * p.logits_stride + own;
        f32* const dlogits_at = p.dlogits + row * p.dlogits_stride + own;
        const i32 label_0 = p.label[row * p.label_stride];
        const bool t2 = label_0 == p.ignore;
        const bool t4 = label_0 >= 0 && (u32)label_0 < p.cols;
        const float t92 = here && label_0 >= 0 && (u32)label_0 < p.cols ? load_f32(p.logits + row * p.logits_stride + label_0) : 0.0f;
        const bool t97 = label_0 == p.ignore;
        const bool t98 = label_0 >= 0 && (u32)label_0 < p.cols;
        Group32 logits_kept[G];
        float e_35_kept[G][8];

        // pass 1: max = rowmax(logits)
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + own;
            logits_kept[g] = fetch32_quads<STEP>(logits_at + g * (T * 8), WHOLE || c < columns, WHOLE || c + STEP < columns);
        }
        float max_6_lane[8];
        fill(max_6_lane, -INFINITE);
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + own;
            if (WHOLE || c < columns) {
                const bool second = WHOLE || c + STEP < columns;
                UNROLL for (int j = 0; j < 8; j++) {
                    const float logits_5 = get_f32(logits_kept[g], j);
                    max_6_lane[j] = larger(max_6_lane[j], (j < 4 || second ? logits_5 : -INFINITE));
                }
            }
        }
        float max_6 = threads_max<T < 32 ? T : 32>(largest(max_6_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = max_6;
            BARRIER(); // all parts are written
            max_6 = threads_max<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const float t93 = t92 - max_6;

        // pass 2: sum = rowsum(e)
        const u64 refusal = crossentropy_refusal(p.refused);
        float sum_36_lane[8];
        fill(sum_36_lane, 0.0f);
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + own;
            if (WHOLE || c < columns) {
                const bool second = WHOLE || c + STEP < columns;
                UNROLL for (int j = 0; j < 8; j++) {
                    const float logits_5 = get_f32(logits_kept[g], j);
                    const float t7 = logits_5 - max_6;
                    const bool t10 = t7 < (-104.0f);
                    const float xc_11 = at_least(t7, (-104.0f));
                    const float t_14 = fused(xc_11, 1.442695f, 1.2583103e+07f);
                    const float n_15 = t_14 - 1.2583103e+07f;
                    const float t18 = fused(n_15, (-0.6931472f), xc_11);
                    const float r_19 = fused(n_15, 1.9046542e-09f, t18);
                    const float t21 = fused(7.490915e-23f, r_19, 4.5365904e-22f);
                    const float t23 = fused(t21, r_19, 2.2588426e-21f);
                    const float t25 = fused(t23, r_19, 9.03494e-21f);
                    const float t27 = fused(t25, r_19, 2.7105051e-20f);
                    const float t29 = fused(t27, r_19, 5.421011e-20f);
                    const float p_30 = fused(t29, r_19, 5.421011e-20f);
                    const i32 t31 = (i32)bits_of(t_14);
                    const i32 t33 = shift_left(t31, 23);
                    const float s_34 = float_of((u32)t33);
                    const float e_35 = p_30 * s_34;
                    e_35_kept[g][j] = e_35;
                    sum_36_lane[j] = WHOLE && g == 0 ? e_35 : sum_36_lane[j] + (j < 4 || second ? e_35 : 0.0f);
                }
            }
        }
        float sum_36 = threads_sum_quads<STEP / 4>(sum_36_lane);
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = sum_36;
            BARRIER(); // all parts are written
            sum_36 = threads_sum<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const bool t38 = sum_36 < float_of(0x7f800000u);
        const bool t39 = 0.0f < sum_36;
        const bool small_41 = sum_36 < 1.1754944e-38f;
        const float t43 = sum_36 * 8.388608e+06f;
        const float xn_44 = small_41 ? t43 : sum_36;
        const i32 t45 = (i32)bits_of(xn_44);
        const i32 t47 = int_sub(t45, 1060439283);
        const i32 k_48 = shift_right(t47, 23);
        const i32 shift_51 = small_41 ? (-23) : 0;
        const i32 t52 = int_add(k_48, shift_51);
        const float kf_53 = (float)t52;
        const float a_55 = kf_53 * 0.69314575f;
        const i32 t56 = shift_left(k_48, 23);
        const i32 t57 = int_sub(t45, t56);
        const float t58 = float_of((u32)t57);
        const float f_60 = t58 - 1.0f;
        const float hi_61 = a_55 + f_60;
        const float t62 = f_60 * f_60;
        const float t65 = fused((-0.07619054f), f_60, 0.12912945f);
        const float t67 = fused(t65, f_60, (-0.1324807f));
        const float t69 = fused(t67, f_60, 0.14180854f);
        const float t71 = fused(t69, f_60, (-0.16608411f));
        const float t73 = fused(t71, f_60, 0.20002005f);
        const float t75 = fused(t73, f_60, (-0.2500161f));
        const float t77 = fused(t75, f_60, 0.33333325f);
        const float q_79 = fused(t77, f_60, (-0.49999988f));
        const float t81 = a_55 - hi_61;
        const float lo_82 = t81 + f_60;
        const float t83 = fused(kf_53, 1.4286068e-06f, lo_82);
        const float t84 = fused(t62, q_79, t83);
        const float y_85 = hi_61 + t84;
        const bool t86 = sum_36 == 0.0f;
        const float t89 = t86 ? float_of(0xff800000u) : float_of(0x7fc00000u);
        const float t90 = t39 ? y_85 : t89;
        const float t91 = t38 ? t90 : sum_36;
        const float nll_94 = t91 - t93;
        const float t95 = t4 ? nll_94 : 0.0f;
        const float t96 = t2 ? 0.0f : t95;
        const float t100 = pinned(divide(1.0f, sum_36));

        // pass 3: store dlogits
        if (T <= 32) WARP_BARRIER(); // all threads have read the row's elements before any is overwritten
        if (refusal != ~(u64)0) return;
        UNROLL for (u32 g = 0; g < G; g++) {
            const u32 c = g * (T * 8) + own;
            if (WHOLE || c < columns) {
                const bool second = WHOLE || c + STEP < columns;
                float dlogits_out[8];
                UNROLL for (int j = 0; j < 8; j++) {
                    const float e_35 = e_35_kept[g][j];
                    const float p_101 = e_35 * t100;
                    const i32 t102 = (i32)(c + j + (j < 4 ? 0 : STEP - 4));
                    const bool t103 = t102 == label_0;
                    const float onehot_104 = t103 ? 1.0f : 0.0f;
                    const float t105 = p_101 - onehot_104;
                    const float t106 = p.scale * t105;
                    const float t107 = t98 ? t106 : 0.0f;
                    const float t108 = t97 ? 0.0f : t107;
                    dlogits_out[j] = t108;
                }
                put32_quads<STEP>(dlogits_at + g * (T * 8), second, group_f32(dlogits_out));
            }
        }
        if (here && t == 0) store_f32(p.loss + row * p.loss_stride, t96);
    }
}

KERNEL_BLOCKS(crossentropy_rows8_registers1_whole, 128, 8)(const crossentropy_params p) { crossentropy_registers<8, 16, 1, true>(p); }
KERNEL(crossentropy_rows8_registers1, 128)(const crossentropy_params p) { crossentropy_registers<8, 16, 1, false>(p); }
KERNEL_BLOCKS(crossentropy_rows16_registers1_whole, 128, 8)(const crossentropy_params p) { crossentropy_registers<16, 8, 1, true>(p); }
KERNEL(crossentropy_rows16_registers1, 128)(const crossentropy_params p) { crossentropy_registers<16, 8, 1, false>(p); }
KERNEL_BLOCKS(crossentropy_rows32_registers1_whole, 64, 16)(const crossentropy_params p) { crossentropy_registers<32, 2, 1, true>(p); }
KERNEL(crossentropy_rows32_registers1, 64)(const crossentropy_params p) { crossentropy_registers<32, 2, 1, false>(p); }
KERNEL_BLOCKS(crossentropy_rows32_registers4_whole, 64, 16)(const crossentropy_params p) { crossentropy_registers<32, 2, 4, true>(p); }
KERNEL(crossentropy_rows32_registers4, 64)(const crossentropy_params p) { crossentropy_registers<32, 2, 4, false>(p); }
KERNEL_BLOCKS(crossentropy_rows32_registers8_whole, 64, 8)(const crossentropy_params p) { crossentropy_registers<32, 2, 8, true>(p); }
KERNEL(crossentropy_rows32_registers8, 64)(const crossentropy_params p) { crossentropy_registers<32, 2, 8, false>(p); }
KERNEL_BLOCKS(crossentropy_rows128_registers4_whole, 128, 8)(const crossentropy_params p) { crossentropy_registers<128, 1, 4, true>(p); }
KERNEL(crossentropy_rows128_registers4, 128)(const crossentropy_params p) { crossentropy_registers<128, 1, 4, false>(p); }
KERNEL_BLOCKS(crossentropy_rows128_registers8_whole, 128, 4)(const crossentropy_params p) { crossentropy_registers<128, 1, 8, true>(p); }
KERNEL(crossentropy_rows128_registers8, 128)(const crossentropy_params p) { crossentropy_registers<128, 1, 8, false>(p); }

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Values that later passes need are kept in shared memory, each thread in its
// own words.
template <int T, int ROWS>
DEVICE void crossentropy_shared(const crossentropy_params& p) {
    SHARED(float, scratch, 2 * 1 * ROWS * T / 32);
    int turn = 0;
    SHARED_DYN(u32, kept);
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    for (i64 first = (i64)blockIdx.x * ROWS; first < p.rows; first += (i64)gridDim.x * ROWS) {
        const bool here = ROWS == 1 || first + slot < p.rows;
        const i64 row = here ? first + slot : first;
        const u32 columns = here ? p.cols : 0;
        const f32* const logits_at = p.logits + row * p.logits_stride + t * 8;
        f32* const dlogits_at = p.dlogits + row * p.dlogits_stride + t * 8;
        const i32 label_0 = p.label[row * p.label_stride];
        const bool t2 = label_0 == p.ignore;
        const bool t4 = label_0 >= 0 && (u32)label_0 < p.cols;
        const float t92 = here && label_0 >= 0 && (u32)label_0 < p.cols ? load_f32(p.logits + row * p.logits_stride + label_0) : 0.0f;
        const bool t97 = label_0 == p.ignore;
        const bool t98 = label_0 >= 0 && (u32)label_0 < p.cols;

        // pass 1: max = rowmax(logits)
        float max_6_lane[8];
        fill(max_6_lane, -INFINITE);
        UNROLL_TWICE for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            const Group32 logits_group = fetch32_vector(logits_at + g * (T * 8), 8);
            UNROLL for (int i = 0; i < 8; i++) kept[(g * 8 + 0 + i) * T + t] = logits_group.w[i];
            UNROLL for (int j = 0; j < 8; j++) {
                const float logits_5 = get_f32(logits_group, j);
                max_6_lane[j] = larger(max_6_lane[j], logits_5);
            }
        }
        float max_6 = threads_max<T < 32 ? T : 32>(largest(max_6_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = max_6;
            BARRIER(); // all parts are written
            max_6 = threads_max<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const float t93 = t92 - max_6;

        // pass 2: sum = rowsum(e)
        float sum_36_lane[8];
        fill(sum_36_lane, 0.0f);
        UNROLL_TWICE for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            Group32 logits_group;
            UNROLL for (int i = 0; i < 8; i++) logits_group.w[i] = kept[(g * 8 + 0 + i) * T + t];
            UNROLL for (int j = 0; j < 8; j++) {
                const float logits_5 = get_f32(logits_group, j);
                const float t7 = logits_5 - max_6;
                const bool t10 = t7 < (-104.0f);
                const float xc_11 = at_least(t7, (-104.0f));
                const float t_14 = fused(xc_11, 1.442695f, 1.2583103e+07f);
                const float n_15 = t_14 - 1.2583103e+07f;
                const float t18 = fused(n_15, (-0.6931472f), xc_11);
                const float r_19 = fused(n_15, 1.9046542e-09f, t18);
                const float t21 = fused(7.490915e-23f, r_19, 4.5365904e-22f);
                const float t23 = fused(t21, r_19, 2.2588426e-21f);
                const float t25 = fused(t23, r_19, 9.03494e-21f);
                const float t27 = fused(t25, r_19, 2.7105051e-20f);
                const float t29 = fused(t27, r_19, 5.421011e-20f);
                const float p_30 = fused(t29, r_19, 5.421011e-20f);
                const i32 t31 = (i32)bits_of(t_14);
                const i32 t33 = shift_left(t31, 23);
                const float s_34 = float_of((u32)t33);
                const float e_35 = p_30 * s_34;
                kept[(g * 8 + 0 + j) * T + t] = bits_of(e_35);
                sum_36_lane[j] = sum_36_lane[j] + e_35;
            }
        }
        float sum_36 = threads_sum<T < 32 ? T : 32>(tree(sum_36_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = sum_36;
            BARRIER(); // all parts are written
            sum_36 = threads_sum<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const bool t38 = sum_36 < float_of(0x7f800000u);
        const bool t39 = 0.0f < sum_36;
        const bool small_41 = sum_36 < 1.1754944e-38f;
        const float t43 = sum_36 * 8.388608e+06f;
        const float xn_44 = small_41 ? t43 : sum_36;
        const i32 t45 = (i32)bits_of(xn_44);
        const i32 t47 = int_sub(t45, 1060439283);
        const i32 k_48 = shift_right(t47, 23);
        const i32 shift_51 = small_41 ? (-23) : 0;
        const i32 t52 = int_add(k_48, shift_51);
        const float kf_53 = (float)t52;
        const float a_55 = kf_53 * 0.69314575f;
        const i32 t56 = shift_left(k_48, 23);
        const i32 t57 = int_sub(t45, t56);
        const float t58 = float_of((u32)t57);
        const float f_60 = t58 - 1.0f;
        const float hi_61 = a_55 + f_60;
        const float t62 = f_60 * f_60;
        const float t65 = fused((-0.07619054f), f_60, 0.12912945f);
        const float t67 = fused(t65, f_60, (-0.1324807f));
        const float t69 = fused(t67, f_60, 0.14180854f);
        const float t71 = fused(t69, f_60, (-0.16608411f));
        const float t73 = fused(t71, f_60, 0.20002005f);
        const float t75 = fused(t73, f_60, (-0.2500161f));
        const float t77 = fused(t75, f_60, 0.33333325f);
        const float q_79 = fused(t77, f_60, (-0.49999988f));
        const float t81 = a_55 - hi_61;
        const float lo_82 = t81 + f_60;
        const float t83 = fused(kf_53, 1.4286068e-06f, lo_82);
        const float t84 = fused(t62, q_79, t83);
        const float y_85 = hi_61 + t84;
        const bool t86 = sum_36 == 0.0f;
        const float t89 = t86 ? float_of(0xff800000u) : float_of(0x7fc00000u);
        const float t90 = t39 ? y_85 : t89;
        const float t91 = t38 ? t90 : sum_36;
        const float nll_94 = t91 - t93;
        const float t95 = t4 ? nll_94 : 0.0f;
        const float t96 = t2 ? 0.0f : t95;
        const float t100 = divide(1.0f, sum_36);

        // pass 3: store dlogits
        if (T <= 32) WARP_BARRIER(); // all threads have read the row's elements before any is overwritten
        UNROLL_TWICE for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            float dlogits_out[8];
            UNROLL for (int j = 0; j < 8; j++) {
                const float e_35 = float_of(kept[(g * 8 + 0 + j) * T + t]);
                const float p_101 = e_35 * t100;
                const i32 t102 = (i32)(c + j);
                const bool t103 = t102 == label_0;
                const float onehot_104 = t103 ? 1.0f : 0.0f;
                const float t105 = p_101 - onehot_104;
                const float t106 = p.scale * t105;
                const float t107 = t98 ? t106 : 0.0f;
                const float t108 = t97 ? 0.0f : t107;
                dlogits_out[j] = t108;
            }
            put32_vector(dlogits_at + g * (T * 8), 8, group_f32(dlogits_out));
        }
        if (here && t == 0) store_f32(p.loss + row * p.loss_stride, t96);
    }
}

KERNEL_BLOCKS(crossentropy_rows1024_shared, 1024, 1)(const crossentropy_params p) { if (!crossentropy_is_refused(p.refused)) crossentropy_shared<1024, 1>(p); }

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Every pass reads the row through shared memory, where the next groups
// arrive meanwhile, each in the place of one that was read.
template <int T, int ROWS, int SLOTS>
DEVICE void crossentropy_streamed(const crossentropy_params& p) {
    SHARED(float, scratch, 2 * 1 * ROWS * T / 32);
    int turn = 0;
    SHARED_DYN(uint4_aligned, stage);
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    const int STEP = 4 * (T < 32 ? T : 32); // from a thread's first quad of a group to its second
    const u32 own = t / (STEP / 4) * (STEP * 2) + t % (STEP / 4) * 4;
    const u32 groups = (p.cols + T * 8 - 1) / (T * 8);
    i64 sent_row = blockIdx.x;
    u32 sent_pass = 0, sent = 0;
    auto send_next = [&](u32 at) {
        if (sent_row < p.rows) {
            const i64 row = sent_row;
            const u32 c = sent * (T * 8) + own;
            send32_quads<STEP>(stage + (at * 2 + 0) * T + t, T, p.logits + row * p.logits_stride + c, c < p.cols, c + STEP < p.cols);
            if (++sent == groups) {
                sent = 0;
                if (++sent_pass == 3) sent_pass = 0, sent_row += gridDim.x;
            }
        }
        staging_commit();
    };
    for (u32 i = 0; i < SLOTS; i++) send_next(i);
    u32 at = 0;
    for (i64 first = blockIdx.x; first < p.rows; first += gridDim.x) {
        const bool here = true;
        const i64 row = first;
        const u32 columns = here ? p.cols : 0;
        const f32* const logits_at = p.logits + row * p.logits_stride + own;
        f32* const dlogits_at = p.dlogits + row * p.dlogits_stride + own;
        const i32 label_0 = p.label[row * p.label_stride];
        const bool t2 = label_0 == p.ignore;
        const bool t4 = label_0 >= 0 && (u32)label_0 < p.cols;
        const float t92 = here && label_0 >= 0 && (u32)label_0 < p.cols ? load_f32(p.logits + row * p.logits_stride + label_0) : 0.0f;
        const bool t97 = label_0 == p.ignore;
        const bool t98 = label_0 >= 0 && (u32)label_0 < p.cols;

        // pass 1: max = rowmax(logits)
        float max_6_lane[8];
        fill(max_6_lane, -INFINITE);
        ROLLED for (u32 g = 0, c = own; g < groups; g++, c += T * 8) {
            staging_wait<SLOTS - 1>();
            if (c < columns) {
                const bool second = c + STEP < columns;
                const Group32 logits_group = staged32(stage + (at * 2 + 0) * T + t, T);
                UNROLL for (int j = 0; j < 8; j++) {
                    const float logits_5 = get_f32(logits_group, j);
                    max_6_lane[j] = larger(max_6_lane[j], (j < 4 || second ? logits_5 : -INFINITE));
                }
            }
            send_next(at);
            at = at + 1 == SLOTS ? 0 : at + 1;
        }
        float max_6 = threads_max<T < 32 ? T : 32>(largest(max_6_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = max_6;
            BARRIER(); // all parts are written
            max_6 = threads_max<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const float t93 = t92 - max_6;

        // pass 2: sum = rowsum(e)
        float sum_36_lane[8];
        fill(sum_36_lane, 0.0f);
        ROLLED for (u32 g = 0, c = own; g < groups; g++, c += T * 8) {
            staging_wait<SLOTS - 1>();
            if (c < columns) {
                const bool second = c + STEP < columns;
                const Group32 logits_group = staged32(stage + (at * 2 + 0) * T + t, T);
                UNROLL for (int j = 0; j < 8; j++) {
                    const float logits_5 = get_f32(logits_group, j);
                    const float t7 = logits_5 - max_6;
                    const bool t10 = t7 < (-104.0f);
                    const float xc_11 = at_least(t7, (-104.0f));
                    const float t_14 = fused(xc_11, 1.442695f, 1.2583103e+07f);
                    const float n_15 = t_14 - 1.2583103e+07f;
                    const float t18 = fused(n_15, (-0.6931472f), xc_11);
                    const float r_19 = fused(n_15, 1.9046542e-09f, t18);
                    const float t21 = fused(7.490915e-23f, r_19, 4.5365904e-22f);
                    const float t23 = fused(t21, r_19, 2.2588426e-21f);
                    const float t25 = fused(t23, r_19, 9.03494e-21f);
                    const float t27 = fused(t25, r_19, 2.7105051e-20f);
                    const float t29 = fused(t27, r_19, 5.421011e-20f);
                    const float p_30 = fused(t29, r_19, 5.421011e-20f);
                    const i32 t31 = (i32)bits_of(t_14);
                    const i32 t33 = shift_left(t31, 23);
                    const float s_34 = float_of((u32)t33);
                    const float e_35 = p_30 * s_34;
                    sum_36_lane[j] = sum_36_lane[j] + (j < 4 || second ? e_35 : 0.0f);
                }
            }
            send_next(at);
            at = at + 1 == SLOTS ? 0 : at + 1;
        }
        float sum_36 = threads_sum_quads<STEP / 4>(sum_36_lane);
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = sum_36;
            BARRIER(); // all parts are written
            sum_36 = threads_sum<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const bool t38 = sum_36 < float_of(0x7f800000u);
        const bool t39 = 0.0f < sum_36;
        const bool small_41 = sum_36 < 1.1754944e-38f;
        const float t43 = sum_36 * 8.388608e+06f;
        const float xn_44 = small_41 ? t43 : sum_36;
        const i32 t45 = (i32)bits_of(xn_44);
        const i32 t47 = int_sub(t45, 1060439283);
        const i32 k_48 = shift_right(t47, 23);
        const i32 shift_51 = small_41 ? (-23) : 0;
        const i32 t52 = int_add(k_48, shift_51);
        const float kf_53 = (float)t52;
        const float a_55 = kf_53 * 0.69314575f;
        const i32 t56 = shift_left(k_48, 23);
        const i32 t57 = int_sub(t45, t56);
        const float t58 = float_of((u32)t57);
        const float f_60 = t58 - 1.0f;
        const float hi_61 = a_55 + f_60;
        const float t62 = f_60 * f_60;
        const float t65 = fused((-0.07619054f), f_60, 0.12912945f);
        const float t67 = fused(t65, f_60, (-0.1324807f));
        const float t69 = fused(t67, f_60, 0.14180854f);
        const float t71 = fused(t69, f_60, (-0.16608411f));
        const float t73 = fused(t71, f_60, 0.20002005f);
        const float t75 = fused(t73, f_60, (-0.2500161f));
        const float t77 = fused(t75, f_60, 0.33333325f);
        const float q_79 = fused(t77, f_60, (-0.49999988f));
        const float t81 = a_55 - hi_61;
        const float lo_82 = t81 + f_60;
        const float t83 = fused(kf_53, 1.4286068e-06f, lo_82);
        const float t84 = fused(t62, q_79, t83);
        const float y_85 = hi_61 + t84;
        const bool t86 = sum_36 == 0.0f;
        const float t89 = t86 ? float_of(0xff800000u) : float_of(0x7fc00000u);
        const float t90 = t39 ? y_85 : t89;
        const float t91 = t38 ? t90 : sum_36;
        const float nll_94 = t91 - t93;
        const float t95 = t4 ? nll_94 : 0.0f;
        const float t96 = t2 ? 0.0f : t95;
        const float t100 = divide(1.0f, sum_36);

        // pass 3: store dlogits
        if (T <= 32) WARP_BARRIER(); // all threads have read the row's elements before any is overwritten
        ROLLED for (u32 g = 0, c = own; g < groups; g++, c += T * 8) {
            staging_wait<SLOTS - 1>();
            if (c < columns) {
                const bool second = c + STEP < columns;
                const Group32 logits_group = staged32(stage + (at * 2 + 0) * T + t, T);
                float dlogits_out[8];
                UNROLL for (int j = 0; j < 8; j++) {
                    const float logits_5 = get_f32(logits_group, j);
                    const float t7 = logits_5 - max_6;
                    const bool t10 = t7 < (-104.0f);
                    const float xc_11 = at_least(t7, (-104.0f));
                    const float t_14 = fused(xc_11, 1.442695f, 1.2583103e+07f);
                    const float n_15 = t_14 - 1.2583103e+07f;
                    const float t18 = fused(n_15, (-0.6931472f), xc_11);
                    const float r_19 = fused(n_15, 1.9046542e-09f, t18);
                    const float t21 = fused(7.490915e-23f, r_19, 4.5365904e-22f);
                    const float t23 = fused(t21, r_19, 2.2588426e-21f);
                    const float t25 = fused(t23, r_19, 9.03494e-21f);
                    const float t27 = fused(t25, r_19, 2.7105051e-20f);
                    const float t29 = fused(t27, r_19, 5.421011e-20f);
                    const float p_30 = fused(t29, r_19, 5.421011e-20f);
                    const i32 t31 = (i32)bits_of(t_14);
                    const i32 t33 = shift_left(t31, 23);
                    const float s_34 = float_of((u32)t33);
                    const float e_35 = p_30 * s_34;
                    const float p_101 = e_35 * t100;
                    const i32 t102 = (i32)(c + j + (j < 4 ? 0 : STEP - 4));
                    const bool t103 = t102 == label_0;
                    const float onehot_104 = t103 ? 1.0f : 0.0f;
                    const float t105 = p_101 - onehot_104;
                    const float t106 = p.scale * t105;
                    const float t107 = t98 ? t106 : 0.0f;
                    const float t108 = t97 ? 0.0f : t107;
                    dlogits_out[j] = t108;
                }
                put32_quads<STEP>(dlogits_at + g * (T * 8), second, group_f32(dlogits_out));
            }
            send_next(at);
            at = at + 1 == SLOTS ? 0 : at + 1;
        }
        if (here && t == 0) store_f32(p.loss + row * p.loss_stride, t96);
    }
}

KERNEL_BLOCKS(crossentropy_rows1024_streamed, 1024, 1)(const crossentropy_params p) { if (!crossentropy_is_refused(p.refused)) crossentropy_streamed<1024, 1, 6>(p); }

// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with
// c / 8 mod T = t. Every pass reads the row.
template <int T, int ROWS>
DEVICE void crossentropy_reread(const crossentropy_params& p) {
    SHARED(float, scratch, 2 * 1 * ROWS * T / 32);
    int turn = 0;
    const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x % T;
    for (i64 first = (i64)blockIdx.x * ROWS; first < p.rows; first += (i64)gridDim.x * ROWS) {
        const bool here = ROWS == 1 || first + slot < p.rows;
        const i64 row = here ? first + slot : first;
        const u32 columns = here ? p.cols : 0;
        const f32* const logits_at = p.logits + row * p.logits_stride + t * 8;
        f32* const dlogits_at = p.dlogits + row * p.dlogits_stride + t * 8;
        const i32 label_0 = p.label[row * p.label_stride];
        const bool t2 = label_0 == p.ignore;
        const bool t4 = label_0 >= 0 && (u32)label_0 < p.cols;
        const float t92 = here && label_0 >= 0 && (u32)label_0 < p.cols ? load_f32(p.logits + row * p.logits_stride + label_0) : 0.0f;
        const bool t97 = label_0 == p.ignore;
        const bool t98 = label_0 >= 0 && (u32)label_0 < p.cols;

        // pass 1: max = rowmax(logits)
        float max_6_lane[8];
        fill(max_6_lane, -INFINITE);
        UNROLL_TWICE for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            const Group32 logits_group = fetch32_vector(logits_at + g * (T * 8), 8);
            UNROLL for (int j = 0; j < 8; j++) {
                const float logits_5 = get_f32(logits_group, j);
                max_6_lane[j] = larger(max_6_lane[j], logits_5);
            }
        }
        float max_6 = threads_max<T < 32 ? T : 32>(largest(max_6_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = max_6;
            BARRIER(); // all parts are written
            max_6 = threads_max<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const float t93 = t92 - max_6;

        // pass 2: sum = rowsum(e)
        float sum_36_lane[8];
        fill(sum_36_lane, 0.0f);
        UNROLL_TWICE for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            const Group32 logits_group = fetch32_vector(logits_at + g * (T * 8), 8);
            UNROLL for (int j = 0; j < 8; j++) {
                const float logits_5 = get_f32(logits_group, j);
                const float t7 = logits_5 - max_6;
                const bool t10 = t7 < (-104.0f);
                const float xc_11 = at_least(t7, (-104.0f));
                const float t_14 = fused(xc_11, 1.442695f, 1.2583103e+07f);
                const float n_15 = t_14 - 1.2583103e+07f;
                const float t18 = fused(n_15, (-0.6931472f), xc_11);
                const float r_19 = fused(n_15, 1.9046542e-09f, t18);
                const float t21 = fused(7.490915e-23f, r_19, 4.5365904e-22f);
                const float t23 = fused(t21, r_19, 2.2588426e-21f);
                const float t25 = fused(t23, r_19, 9.03494e-21f);
                const float t27 = fused(t25, r_19, 2.7105051e-20f);
                const float t29 = fused(t27, r_19, 5.421011e-20f);
                const float p_30 = fused(t29, r_19, 5.421011e-20f);
                const i32 t31 = (i32)bits_of(t_14);
                const i32 t33 = shift_left(t31, 23);
                const float s_34 = float_of((u32)t33);
                const float e_35 = p_30 * s_34;
                sum_36_lane[j] = sum_36_lane[j] + e_35;
            }
        }
        float sum_36 = threads_sum<T < 32 ? T : 32>(tree(sum_36_lane));
        if constexpr (T > 32) {
            const int parts = T / 32;
            float* const part = scratch + (turn * ROWS + slot) * 1 * parts;
            if (t % 32 == 0) part[0 * parts + t / 32] = sum_36;
            BARRIER(); // all parts are written
            sum_36 = threads_sum<parts>(part[0 * parts + t % parts]);
            turn ^= 1;
        }
        const bool t38 = sum_36 < float_of(0x7f800000u);
        const bool t39 = 0.0f < sum_36;
        const bool small_41 = sum_36 < 1.1754944e-38f;
        const float t43 = sum_36 * 8.388608e+06f;
        const float xn_44 = small_41 ? t43 : sum_36;
        const i32 t45 = (i32)bits_of(xn_44);
        const i32 t47 = int_sub(t45, 1060439283);
        const i32 k_48 = shift_right(t47, 23);
        const i32 shift_51 = small_41 ? (-23) : 0;
        const i32 t52 = int_add(k_48, shift_51);
        const float kf_53 = (float)t52;
        const float a_55 = kf_53 * 0.69314575f;
        const i32 t56 = shift_left(k_48, 23);
        const i32 t57 = int_sub(t45, t56);
        const float t58 = float_of((u32)t57);
        const float f_60 = t58 - 1.0f;
        const float hi_61 = a_55 + f_60;
        const float t62 = f_60 * f_60;
        const float t65 = fused((-0.07619054f), f_60, 0.12912945f);
        const float t67 = fused(t65, f_60, (-0.1324807f));
        const float t69 = fused(t67, f_60, 0.14180854f);
        const float t71 = fused(t69, f_60, (-0.16608411f));
        const float t73 = fused(t71, f_60, 0.20002005f);
        const float t75 = fused(t73, f_60, (-0.2500161f));
        const float t77 = fused(t75, f_60, 0.33333325f);
        const float q_79 = fused(t77, f_60, (-0.49999988f));
        const float t81 = a_55 - hi_61;
        const float lo_82 = t81 + f_60;
        const float t83 = fused(kf_53, 1.4286068e-06f, lo_82);
        const float t84 = fused(t62, q_79, t83);
        const float y_85 = hi_61 + t84;
        const bool t86 = sum_36 == 0.0f;
        const float t89 = t86 ? float_of(0xff800000u) : float_of(0x7fc00000u);
        const float t90 = t39 ? y_85 : t89;
        const float t91 = t38 ? t90 : sum_36;
        const float nll_94 = t91 - t93;
        const float t95 = t4 ? nll_94 : 0.0f;
        const float t96 = t2 ? 0.0f : t95;
        const float t100 = divide(1.0f, sum_36);

        // pass 3: store dlogits
        if (T <= 32) WARP_BARRIER(); // all threads have read the row's elements before any is overwritten
        UNROLL_TWICE for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {
            const Group32 logits_group = fetch32_vector(logits_at + g * (T * 8), 8);
            float dlogits_out[8];
            UNROLL for (int j = 0; j < 8; j++) {
                const float logits_5 = get_f32(logits_group, j);
                const float t7 = logits_5 - max_6;
                const bool t10 = t7 < (-104.0f);
                const float xc_11 = at_least(t7, (-104.0f));
                const float t_14 = fused(xc_11, 1.442695f, 1.2583103e+07f);
                const float n_15 = t_14 - 1.2583103e+07f;
                const float t18 = fused(n_15, (-0.6931472f), xc_11);
                const float r_19 = fused(n_15, 1.9046542e-09f, t18);
                const float t21 = fused(7.490915e-23f, r_19, 4.5365904e-22f);
                const float t23 = fused(t21, r_19, 2.2588426e-21f);
                const float t25 = fused(t23, r_19, 9.03494e-21f);
                const float t27 = fused(t25, r_19, 2.7105051e-20f);
                const float t29 = fused(t27, r_19, 5.421011e-20f);
                const float p_30 = fused(t29, r_19, 5.421011e-20f);
                const i32 t31 = (i32)bits_of(t_14);
                const i32 t33 = shift_left(t31, 23);
                const float s_34 = float_of((u32)t33);
                const float e_35 = p_30 * s_34;
                const float p_101 = e_35 * t100;
                const i32 t102 = (i32)(c + j);
                const bool t103 = t102 == label_0;
                const float onehot_104 = t103 ? 1.0f : 0.0f;
                const float t105 = p_101 - onehot_104;
                const float t106 = p.scale * t105;
                const float t107 = t98 ? t106 : 0.0f;
                const float t108 = t97 ? 0.0f : t107;
                dlogits_out[j] = t108;
            }
            put32_vector(dlogits_at + g * (T * 8), 8, group_f32(dlogits_out));
        }
        if (here && t == 0) store_f32(p.loss + row * p.loss_stride, t96);
    }
}

KERNEL_BLOCKS(crossentropy_rows1024_reread, 1024, 1)(const crossentropy_params p) { if (!crossentropy_is_refused(p.refused)) crossentropy_reread<1024, 1>(p); }
