// The checking pass: the first index without a row, before the operation runs. Each
// operand of indices has a word, which begins as ones: the position of the first bad
// index in its upper half, the value there in its lower.

struct PREFIX_check_params {
    const i32* index;
    u64* found;
    i64 stride, count, bound;
    i32 except, has_except; // one more value that is allowed
};

KERNEL(PREFIX_check, 256)(const PREFIX_check_params p) {
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < p.count; i += (i64)gridDim.x * 256) {
        i32 v = p.index[i * p.stride];
        if ((v >= 0 && v < p.bound) || (p.has_except && v == p.except)) continue;
        ATOMIC_MIN(p.found, (u64)i << 32 | (u32)v);
        return; // the thread's other positions come later
    }
}

// Whether the call was refused: then nothing is written. Without a checking pass there
// are no words.
DEVICE bool PREFIX_is_refused(const u64* found) {
    if (found == nullptr) return false;
    for (int i = 0; i < INDEX_OPERANDS; i++)
        if (found[i] != ~(u64)0) return true;
    return false;
}
