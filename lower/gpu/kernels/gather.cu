// embedding.forward/cuda.gather
// out[q,d] = table[index[q],d]        a thread copies the same columns of ROWS rows: several loads in flight
//
// Operands  index (queries) i32; table (rows, cols) and out (queries, cols) in one format, rows strided
// Numerics  none: patterns are copied; an index out of range gives +0
// Schedule  256 threads per block, along columns as far as useful, then along queries; a thread has ROWS queries
// Requires  operands and rows aligned to 16 bytes for ENTRY_VECTOR; ENTRY_ELEMENT accepts any

struct Params {
    const i32* index;
    const Element* table;
    Element* out;
    const u64* refused;
    i64 index_stride, table_stride, out_stride;
    i64 queries, rows, cols;
};

const int ROWS = 4; // of a thread

// Stores evict-first, so that rows of the table stay in the cache: some are read again.
#if defined(__CUDA_ARCH__) && !defined(TOKITAI_SIM)
DEVICE void write(uint4_aligned* at, uint4_aligned w) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w) : "memory");
}
#else
DEVICE void write(uint4_aligned* at, uint4_aligned w) { *at = w; }
#endif
DEVICE void write(Element* at, Element w) { *at = w; }

// Copies columns in units of Word, and the last ones that do not fill a word one by one.
template <class Word>
DEVICE void copy_rows(const Params& p) {
    const int PER_WORD = sizeof(Word) / sizeof(Element);
    i64 first = (i64)blockIdx.x * ROWS * blockDim.y + threadIdx.y;
    i64 step = blockDim.y * p.out_stride; // from one of a thread's rows to the next
    Element* to = p.out + first * p.out_stride;
    i32 row[ROWS]; // negative for an index out of range
    int left = 0;  // rows inside out
    UNROLL for (int i = 0; i < ROWS; i++) {
        i64 q = first + (i64)i * blockDim.y;
        row[i] = -1;
        if (q >= p.queries) continue;
        left = i + 1;
        row[i] = p.index[q * p.index_stride];
        if (row[i] >= p.rows) row[i] = -1;
    }
    if (IS_REFUSED(p.refused)) return; // here, so that this load and those of the indices overlap
    i64 words = p.cols / PER_WORD;
    for (i64 c = threadIdx.x; c < words; c += blockDim.x) {
        Word w[ROWS];
        UNROLL for (int i = 0; i < ROWS; i++) {
            w[i] = Word{};
            if (row[i] >= 0) w[i] = reinterpret_cast<const Word*>(p.table + row[i] * p.table_stride)[c];
        }
        UNROLL for (int i = 0; i < ROWS; i++)
            if (i < left) write(reinterpret_cast<Word*>(to + i * step) + c, w[i]);
    }
    for (i64 c = words * PER_WORD + threadIdx.x; c < p.cols; c += blockDim.x) {
        UNROLL for (int i = 0; i < ROWS; i++)
            if (i < left) to[i * step + c] = row[i] >= 0 ? p.table[row[i] * p.table_stride + c] : Element{};
    }
}

KERNEL(ENTRY_VECTOR, 256)(const Params p) { copy_rows<uint4_aligned>(p); }

KERNEL(ENTRY_ELEMENT, 256)(const Params p) { copy_rows<Element>(p); }
