// adamw.step.stochastic, vector access
//   m      = beta1*m + (1-beta1)*grad
//   v      = beta2*v + (1-beta2)*grad^2
//   weight = weight - lr*((m/bc1) / (sqrt(v/bc2) + eps) + weight_decay*weight)
//   bc1    = 1 - beta1^t,  bc2 = 1 - beta2^t
//
// Operands    weight bf16, m f32, v f32, grad bf16
// Definition  sha256 70c9cd273e851382bb7cff629e0201d15ee906926941dd55f5b8930977cd8ff7

struct adamw_step_stochastic_params {
    bf16* weight;
    i64 weight_stride;
    f32* m;
    i64 m_stride;
    f32* v;
    i64 v_stride;
    const bf16* grad;
    i64 grad_stride;
    i64 rows;
    u32 cols;
    float column_count; // cols as a number
    float row_count;
    float beta1;
    float one_minus_beta1;
    float beta2;
    float one_minus_beta2;
    float step_size;
    float inverse_sqrt_bc2;
    float eps;
    float decay;
    i32 seed_low;
    i32 seed_high;
    i32 tensor;
    i32 t;
    u32 pad;
};

// Element outputs, in flat order: the rows of operands are contiguous. A thread loads U
// groups of eight before it computes anything.
KERNEL(adamw_step_stochastic_flat, 256)(const adamw_step_stochastic_params p) {
    const i64 count = p.rows * p.cols;
    const int U = 1;
    for (i64 first = (i64)blockIdx.x * (U * 2048); first < count; first += (i64)gridDim.x * (U * 2048)) {
        if (count - first >= U * 2048) {
            Group32 m_groups[U];
            Group16 grad_groups[U];
            Group32 v_groups[U];
            Group16 weight_groups[U];
            UNROLL for (int u = 0; u < U; u++) {
                const i64 c = first + u * 2048 + threadIdx.x * 8;
                m_groups[u] = fetch32_vector(p.m + c, 8);
                grad_groups[u] = fetch16_vector(p.grad + c, 8);
                v_groups[u] = fetch32_vector(p.v + c, 8);
                weight_groups[u] = fetch16_vector(p.weight + c, 8);
            }
            load_together<U>(m_groups);
            load_together<U>(grad_groups);
            load_together<U>(v_groups);
            load_together<U>(weight_groups);
            UNROLL for (int u = 0; u < U; u++) {
                const i64 c = first + u * 2048 + threadIdx.x * 8;
                const Group32 m_group = m_groups[u];
                const Group16 grad_group = grad_groups[u];
                const Group32 v_group = v_groups[u];
                const Group16 weight_group = weight_groups[u];
                i32 word_31_group[8];
                random_words(word_31_group, p.seed_low, p.seed_high, p.tensor, p.t, (u64)(c));
                float m_out[8];
                float v_out[8];
                float weight_out[8];
                UNROLL for (int j = 0; j < 8; j++) {
                    const float m_1 = get_f32(m_group, j);
                    const float t2 = p.beta1 * m_1;
                    const float grad_4 = get_bf16(grad_group, j);
                    const float t5 = p.one_minus_beta1 * grad_4;
                    const float new_m_6 = t2 + t5;
                    const float v_8 = get_f32(v_group, j);
                    const float t9 = p.beta2 * v_8;
                    const float t11 = p.one_minus_beta2 * grad_4;
                    const float t12 = t11 * grad_4;
                    const float new_v_13 = t9 + t12;
                    const float weight_14 = get_bf16(weight_group, j);
                    const float t16 = square_root(new_v_13);
                    const float t18 = t16 * p.inverse_sqrt_bc2;
                    const float d_20 = t18 + p.eps;
                    const float t21 = divide(new_m_6, d_20);
                    const float t22 = p.step_size * t21;
                    const float t24 = p.decay * weight_14;
                    const float t25 = t22 + t24;
                    const float new_weight_26 = weight_14 - t25;
                    const i32 word_31 = word_31_group[j];
                    const float t32 = sround_bf16(new_weight_26, word_31);
                    m_out[j] = new_m_6;
                    v_out[j] = new_v_13;
                    weight_out[j] = t32;
                }
                put32_vector(p.m + c, 8, group_f32(m_out));
                put32_vector(p.v + c, 8, group_f32(v_out));
                put16_vector(p.weight + c, 8, group_bf16(weight_out));
            }
        } else {
            ROLLED for (i64 c = first + threadIdx.x * 8; c < count; c += 2048) {
                const int n = count - c < 8 ? (int)(count - c) : 8;
                const Group32 m_group = fetch32_vector(p.m + c, n);
                const Group16 grad_group = fetch16_vector(p.grad + c, n);
                const Group32 v_group = fetch32_vector(p.v + c, n);
                const Group16 weight_group = fetch16_vector(p.weight + c, n);
                i32 word_31_group[8];
                random_words(word_31_group, p.seed_low, p.seed_high, p.tensor, p.t, (u64)(c));
                float m_out[8];
                float v_out[8];
                float weight_out[8];
                UNROLL for (int j = 0; j < 8; j++) {
                    const float m_1 = get_f32(m_group, j);
                    const float t2 = p.beta1 * m_1;
                    const float grad_4 = get_bf16(grad_group, j);
                    const float t5 = p.one_minus_beta1 * grad_4;
                    const float new_m_6 = t2 + t5;
                    const float v_8 = get_f32(v_group, j);
                    const float t9 = p.beta2 * v_8;
                    const float t11 = p.one_minus_beta2 * grad_4;
                    const float t12 = t11 * grad_4;
                    const float new_v_13 = t9 + t12;
                    const float weight_14 = get_bf16(weight_group, j);
                    const float t16 = square_root(new_v_13);
                    const float t18 = t16 * p.inverse_sqrt_bc2;
                    const float d_20 = t18 + p.eps;
                    const float t21 = divide(new_m_6, d_20);
                    const float t22 = p.step_size * t21;
                    const float t24 = p.decay * weight_14;
                    const float t25 = t22 + t24;
                    const float new_weight_26 = weight_14 - t25;
                    const i32 word_31 = word_31_group[j];
                    const float t32 = sround_bf16(new_weight_26, word_31);
                    m_out[j] = new_m_6;
                    v_out[j] = new_v_13;
                    weight_out[j] = t32;
                }
                put32_vector(p.m + c, n, group_f32(m_out));
                put32_vector(p.v + c, n, group_f32(v_out));
                put16_vector(p.weight + c, n, group_bf16(weight_out));
            }
        }
    }
}

// Element outputs, in groups of eight neighbours of a row.
KERNEL(adamw_step_stochastic_elements, 256)(const adamw_step_stochastic_params p) {
    const i64 groups = ((i64)p.cols + 7) / 8;
    for (i64 q = blockIdx.x * 256LL + threadIdx.x; q < p.rows * groups; q += gridDim.x * 256LL) {
        const i64 row = quotient(q, groups);
        const u32 c = (u32)(q - row * groups) * 8;
        const int n = inside(c, p.cols);
        const Group32 m_group = fetch32_vector(p.m + row * p.m_stride + c, n);
        const Group16 grad_group = fetch16_vector(p.grad + row * p.grad_stride + c, n);
        const Group32 v_group = fetch32_vector(p.v + row * p.v_stride + c, n);
        const Group16 weight_group = fetch16_vector(p.weight + row * p.weight_stride + c, n);
        i32 word_31_group[8];
        random_words(word_31_group, p.seed_low, p.seed_high, p.tensor, p.t, (u64)(row * p.cols + c));
        float m_out[8];
        float v_out[8];
        float weight_out[8];
        UNROLL for (int j = 0; j < 8; j++) {
            const float m_1 = get_f32(m_group, j);
            const float t2 = p.beta1 * m_1;
            const float grad_4 = get_bf16(grad_group, j);
            const float t5 = p.one_minus_beta1 * grad_4;
            const float new_m_6 = t2 + t5;
            const float v_8 = get_f32(v_group, j);
            const float t9 = p.beta2 * v_8;
            const float t11 = p.one_minus_beta2 * grad_4;
            const float t12 = t11 * grad_4;
            const float new_v_13 = t9 + t12;
            const float weight_14 = get_bf16(weight_group, j);
            const float t16 = square_root(new_v_13);
            const float t18 = t16 * p.inverse_sqrt_bc2;
            const float d_20 = t18 + p.eps;
            const float t21 = divide(new_m_6, d_20);
            const float t22 = p.step_size * t21;
            const float t24 = p.decay * weight_14;
            const float t25 = t22 + t24;
            const float new_weight_26 = weight_14 - t25;
            const i32 word_31 = word_31_group[j];
            const float t32 = sround_bf16(new_weight_26, word_31);
            m_out[j] = new_m_6;
            v_out[j] = new_v_13;
            weight_out[j] = t32;
        }
        put32_vector(p.m + row * p.m_stride + c, n, group_f32(m_out));
        put32_vector(p.v + row * p.v_stride + c, n, group_f32(v_out));
        put16_vector(p.weight + row * p.weight_stride + c, n, group_bf16(weight_out));
    }
}
