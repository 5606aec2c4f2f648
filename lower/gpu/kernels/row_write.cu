// cache.append/cuda.row-write
// table[index[q],d] = rows[q,d], the last q of equal indices        a thread copies the same columns of ROWS rows
//
// Operands  index (queries) i32; rows (queries, cols) and table (table_rows, cols) in one format, rows strided
// Numerics  none: patterns are copied; an index out of range writes nothing
// Schedule  1. clear  the writers of the rows that indices name
//           2. claim  such a row for its last query, the largest, whatever the order of threads
//           3. copy   the rows whose query is the last; as in gather.cu
//           With few queries there is copy alone: a thread looks for later queries of the same row itself.
// Requires  fewer than 2^31 queries; operands and rows aligned to 16 bytes for ENTRY_VECTOR

struct Params {
    const i32* index;
    const Element* rows;
    Element* table;
    u32* writers; // [table_rows]: a row's last query, if it has any; or null
    const u64* refused;
    i64 index_stride, rows_stride, table_stride;
    i64 queries, table_rows, cols;
};

const int ROWS = 4; // of a thread

// Returns the row of the table that a query names, or -1.
DEVICE i32 row_of(const Params& p, i64 q) {
    i32 v = p.index[q * p.index_stride];
    return v < p.table_rows ? v : -1;
}

KERNEL(ENTRY_CLEAR, 256)(const Params p) {
    if (IS_REFUSED(p.refused)) return;
    i64 q = (i64)blockIdx.x * 256 + threadIdx.x;
    i32 v = q < p.queries ? row_of(p, q) : -1;
    if (v >= 0) ATOMIC_MIN(&p.writers[v], 0u);
}

KERNEL(ENTRY_CLAIM, 256)(const Params p) {
    if (IS_REFUSED(p.refused)) return;
    i64 q = (i64)blockIdx.x * 256 + threadIdx.x;
    i32 v = q < p.queries ? row_of(p, q) : -1;
    if (v >= 0) ATOMIC_MAX(&p.writers[v], (u32)q);
}

// Reports whether no later query names the same row.
DEVICE bool is_last(const Params& p, i64 q, i32 v) {
    if (p.writers != nullptr) return p.writers[v] == (u32)q;
    for (i64 later = q + 1; later < p.queries; later++)
        if (p.index[later * p.index_stride] == v) return false;
    return true;
}

// Copies columns in units of Word, and the last ones that do not fill a word one by one.
template <class Word>
DEVICE void copy_rows(const Params& p) {
    const int PER_WORD = sizeof(Word) / sizeof(Element);
    if (IS_REFUSED(p.refused)) return;
    i64 first = (i64)blockIdx.x * ROWS * blockDim.y + threadIdx.y;
    i32 row[ROWS]; // negative for a query that writes nothing
    UNROLL for (int i = 0; i < ROWS; i++) {
        i64 q = first + (i64)i * blockDim.y;
        row[i] = q < p.queries ? row_of(p, q) : -1;
    }
    UNROLL for (int i = 0; i < ROWS; i++)
        if (row[i] >= 0 && !is_last(p, first + (i64)i * blockDim.y, row[i])) row[i] = -1;
    const Element* from = p.rows + first * p.rows_stride;
    i64 step = blockDim.y * p.rows_stride; // from one of a thread's rows to the next
    i64 words = p.cols / PER_WORD;
    for (i64 c = threadIdx.x; c < words; c += blockDim.x) {
        Word w[ROWS];
        UNROLL for (int i = 0; i < ROWS; i++)
            if (row[i] >= 0) w[i] = reinterpret_cast<const Word*>(from + i * step)[c];
        UNROLL for (int i = 0; i < ROWS; i++)
            if (row[i] >= 0) reinterpret_cast<Word*>(p.table + row[i] * p.table_stride)[c] = w[i];
    }
    for (i64 c = words * PER_WORD + threadIdx.x; c < p.cols; c += blockDim.x) {
        UNROLL for (int i = 0; i < ROWS; i++)
            if (row[i] >= 0) p.table[row[i] * p.table_stride + c] = from[i * step + c];
    }
}

KERNEL(ENTRY_VECTOR, 256)(const Params p) { copy_rows<uint4_aligned>(p); }

KERNEL(ENTRY_ELEMENT, 256)(const Params p) { copy_rows<Element>(p); }
