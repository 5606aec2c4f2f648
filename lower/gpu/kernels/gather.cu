// Rows of a table, copied by index, bit for bit. A thread copies the same columns of
// ROWS rows, so that several loads are on their way at once.

struct Params {
    const i32* index;
    const Element* table;
    Element* out;
    const u64* refused;
    i64 index_stride, table_stride, out_stride;
    i64 queries, rows, cols;
};

const int ROWS = 4;

// Columns in units of Word; the last ones, which do not fill a word, one by one.
template <class Word>
DEVICE void copy_rows(const Params& p) {
    const int PER_WORD = sizeof(Word) / sizeof(Element);
    i64 first = (i64)blockIdx.x * ROWS * blockDim.y + threadIdx.y;
    i64 step = blockDim.y * p.out_stride; // from one of a thread's rows to the next
    const Element* from[ROWS]; // null for an index without a row
    Element* to = p.out + first * p.out_stride;
    int rows = 0; // how many there are
    UNROLL for (int i = 0; i < ROWS; i++) {
        i64 q = first + (i64)i * blockDim.y;
        from[i] = nullptr;
        if (q >= p.queries) continue;
        rows = i + 1;
        i32 v = p.index[q * p.index_stride];
        if (v >= 0 && v < p.rows) from[i] = p.table + v * p.table_stride;
    }
    if (IS_REFUSED(p.refused)) return; // asked now: on its way together with the indices
    i64 words = p.cols / PER_WORD;
    for (i64 c = threadIdx.x; c < words; c += blockDim.x) {
        Word w[ROWS];
        UNROLL for (int i = 0; i < ROWS; i++) {
            w[i] = Word{};
            if (from[i] != nullptr) w[i] = reinterpret_cast<const Word*>(from[i])[c];
        }
        UNROLL for (int i = 0; i < ROWS; i++)
            if (i < rows) reinterpret_cast<Word*>(to + i * step)[c] = w[i];
    }
    for (i64 c = words * PER_WORD + threadIdx.x; c < p.cols; c += blockDim.x) {
        UNROLL for (int i = 0; i < ROWS; i++)
            if (i < rows) to[i * step + c] = from[i] != nullptr ? from[i][c] : Element{};
    }
}

KERNEL(ENTRY_VECTOR, 256)(const Params p) { copy_rows<uint4_aligned>(p); }

KERNEL(ENTRY_ELEMENT, 256)(const Params p) { copy_rows<Element>(p); }
