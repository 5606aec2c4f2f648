// The elements of a row that are kept, in slots, and back
//
// Operands  keep (rows, cols) i32, x (rows, cols) and the unpacked result in 32 bits, without gaps between rows; slots (rows, count), rows strided
// Numerics  none: patterns are copied; a stored float is rounded once
// Schedule  a block of 128 threads per row, each with a run of neighbouring columns

struct ENTRY_params {
    const i32* keep;
    const u32* x;
    u32* out;
    SLOT* slots;
    const u64* refused;
    i64 slots_stride;
    i64 rows;
    u32 cols, count;
};

KERNEL(ENTRY, 128)(const ENTRY_params p) {
    SHARED(u32, sums, 128);
    if (IS_REFUSED) return;
    const u32 t = threadIdx.x, run = (p.cols + 127) / 128;
    const u32 begin = t * run < p.cols ? t * run : p.cols, end = begin + run < p.cols ? begin + run : p.cols;
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        const i32* keep = p.keep + row * p.cols;
        u32 own = 0;
        for (u32 c = begin; c < end; c++) own += keep[c] != 0;
        BARRIER(); // the sums of the row before have been read
        sums[t] = own;
        BARRIER();
        for (u32 step = 1; step < 128; step *= 2) {
            u32 before = t >= step ? sums[t - step] : 0;
            BARRIER();
            sums[t] += before;
            BARRIER();
        }
        u32 n = sums[t] - own;
        SLOT* slots = p.slots + row * p.slots_stride;
        if (IS_PACKING) {
            for (u32 c = begin; c < end && n < p.count; c++)
                if (keep[c] != 0) slots[n++] = (SLOT)NARROW(p.x[row * p.cols + c]);
            for (u32 i = sums[127] + t; i < p.count; i += 128) slots[i] = (SLOT)REST;
        } else {
            for (u32 c = begin; c < end; c++) {
                u32 v = 0;
                if (keep[c] != 0) {
                    if (n < p.count) v = WIDEN(slots[n]);
                    n++;
                }
                p.out[row * p.cols + c] = v;
            }
        }
    }
}
