// the checking pass of cuda.gather, cuda.scatter and cuda.rowwise
// found = min over i of (i << 32 | index[i]) where index[i] is out of range        of each index operand
//
// Operands  index (count / cols, cols) i32, rows strided; found, a word per index operand, all ones before the launch
// Numerics  none: the smallest word has the first out-of-range position, whatever the order of threads
// Schedule  256 threads per block, a grid-stride loop over positions, and a row of the grid for each operand; a thread stops at its first find
// Requires  count at most 2^32

struct PREFIX_check_operand {
    const i32* index;
    u64* found;
    i64 stride, cols, count, bound;
    i32 except, has_except; // one value that is in range besides 0 to bound-1
LENGTHS_PARAMS};

struct PREFIX_check_params {
    PREFIX_check_operand operands[INDEX_OPERANDS];
};

KERNEL(PREFIX_check, 256)(const PREFIX_check_params all) {
    START_NEXT(); // it waits for this pass where it reads found
    const PREFIX_check_operand& p = all.operands[blockIdx.y];
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < p.count; i += (i64)gridDim.x * 256) {
        i32 v = p.index[p.cols == 1 ? i * p.stride : i / p.cols * p.stride + i % p.cols];
        if (IS_ALLOWED) continue;
        ATOMIC_MIN(p.found, (u64)i << 32 | (u32)v);
        return; // the thread's other positions are larger
    }
}

// Waits for the checking pass and loads what it found: all ones, unless the call is refused.
// found is null without a checking pass.
DEVICE u64 PREFIX_refusal(const u64* found) {
    u64 all = ~(u64)0;
    if (found == nullptr) return all;
    AWAIT_PREVIOUS();
    UNROLL for (int i = 0; i < INDEX_OPERANDS; i++) all &= load_early(found + i);
    return all;
}

// Reports whether the call is refused, so that nothing may be written.
DEVICE bool PREFIX_is_refused(const u64* found) { return PREFIX_refusal(found) != ~(u64)0; }
