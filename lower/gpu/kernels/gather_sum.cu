// combine.forward/cuda.gather-sum
// out[q,d] = sum over s of weight[q,s] table[index[q,s],d]        a thread has 16 bytes of a row of out, and TERMS rows in flight
//
// Operands  index (queries, terms) i32; weight (queries, terms) f32 or as table, with WEIGHTED; table (rows, cols) and
//           out (queries, cols) in one format; rows strided
// Numerics  a chain of binary32 over s ascending from +0: a fused product, or an addition; one rounding. An index out
//           of range adds nothing.
// Schedule  256 threads per block, along columns as far as useful, then along queries. Indices and weights of TERMS
//           terms are loaded together, then the rows, then they are added in order.
// Requires  operands and rows aligned to 16 bytes for ENTRY_VECTOR; ENTRY_ELEMENT accepts any

struct Params {
    const i32* index;
    const Element* table;
    const Weight* weight; // null without weights
    Element* out;
    const u64* refused;
    i64 index_stride, table_stride, weight_stride, out_stride;
    i64 queries, rows, cols, terms;
};

const int TERMS = 4;                     // that are loaded together
const int VECTOR = 16 / sizeof(Element); // columns of 16 bytes

// N columns of a row as they are stored: one column, or 16 bytes.
template <int N>
struct Stored {
    u32 w[4];
};

template <int N>
DEVICE Stored<N> load(const Element* at) {
    if (N == 1) return Stored<N>{{PATTERN_OF(*at), 0, 0, 0}};
    uint4_aligned a;
#if defined(__CUDA_ARCH__) && !defined(TOKITAI_SIM) // no other thread of the multiprocessor is likely to read them
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a.x), "=r"(a.y), "=r"(a.z), "=r"(a.w) : "l"(at));
#else
    a = *reinterpret_cast<const uint4_aligned*>(at);
#endif
    return Stored<N>{{a.x, a.y, a.z, a.w}};
}

template <int N>
DEVICE float value_at(const Stored<N>& s, int j) {
    return WIDEN((sizeof(Element) == 4 ? s.w[j] : s.w[j >> 1] >> 16 * (j & 1) & 0xffffu));
}

// Stores evict-first: nobody reads the results soon, and rows of the table may be read again.
template <int N>
DEVICE void store(Element* at, const float* x) {
    if (N == 1) {
        *at = ELEMENT_OF(NARROW(x[0]));
        return;
    }
    u32 w[4];
    UNROLL for (int i = 0; i < 4; i++) w[i] = sizeof(Element) == 4 ? bits_of(x[i]) : NARROW_PAIR(x[N > 4 ? 2 * i : 0], x[N > 4 ? 2 * i + 1 : 0]);
#if defined(__CUDA_ARCH__) && !defined(TOKITAI_SIM)
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
#else
    *reinterpret_cast<uint4_aligned*>(at) = uint4_aligned{w[0], w[1], w[2], w[3]};
#endif
}

// TERMS terms of a query from s on: their rows, -1 for none, and weights.
struct Terms {
    i32 row[TERMS];
    float weight[TERMS];

    DEVICE void read(const Params& p, i64 q, i64 s) {
        UNROLL for (int k = 0; k < TERMS; k++) {
            row[k] = -1;
            weight[k] = 1.0f;
            if (s + k >= p.terms) continue;
            row[k] = p.index[q * p.index_stride + s + k];
            if (WEIGHTED) weight[k] = WIDEN_WEIGHT(p.weight[q * p.weight_stride + s + k]);
        }
        UNROLL for (int k = 0; k < TERMS; k++)
            if (row[k] >= p.rows) row[k] = -1;
    }
};

// Adds terms. Whether the call is refused is found out while their rows are loaded, unless that is known.
template <int N>
DEVICE void add(const Params& p, const Terms& t, i64 column, float* sum, bool& is_checked, bool& is_refused) {
    Stored<N> a[TERMS];
    UNROLL for (int k = 0; k < TERMS; k++)
        if (t.row[k] >= 0) a[k] = load<N>(p.table + t.row[k] * p.table_stride + column);
    if (!is_checked) is_refused = IS_REFUSED(p.refused);
    is_checked = true;
    UNROLL for (int k = 0; k < TERMS; k++) {
        if (t.row[k] < 0) continue;
        UNROLL for (int j = 0; j < N; j++) sum[j] = WEIGHTED ? fused(t.weight[k], value_at(a[k], j), sum[j]) : sum[j] + value_at(a[k], j);
    }
}

// Sums N columns. The first terms have been read.
template <int N>
DEVICE void sum_columns(const Params& p, const Terms& first, i64 q, i64 column, bool& is_checked, bool& is_refused) {
    float sum[N];
    UNROLL for (int j = 0; j < N; j++) sum[j] = 0.0f;
    add<N>(p, first, column, sum, is_checked, is_refused);
    for (i64 s = TERMS; s < p.terms; s += TERMS) {
        Terms t;
        t.read(p, q, s);
        add<N>(p, t, column, sum, is_checked, is_refused);
    }
    if (!is_refused) store<N>(p.out + q * p.out_stride + column, sum);
}

// Columns in groups of N, and the last ones that do not fill a group one by one.
template <int N>
DEVICE void sum_row(const Params& p) {
    i64 q = (i64)blockIdx.x * blockDim.y + threadIdx.y;
    if (q >= p.queries) return;
    Terms first;
    first.read(p, q, 0);
    bool is_checked = false, is_refused = false;
    i64 groups = p.cols / N;
    for (i64 c = threadIdx.x; c < groups; c += blockDim.x) sum_columns<N>(p, first, q, c * N, is_checked, is_refused);
    for (i64 c = groups * N + threadIdx.x; c < p.cols; c += blockDim.x) sum_columns<1>(p, first, q, c, is_checked, is_refused);
}

KERNEL(ENTRY_VECTOR, 256)(const Params p) { sum_row<VECTOR>(p); }

KERNEL(ENTRY_ELEMENT, 256)(const Params p) { sum_row<1>(p); }
