// The simulator's side of tensorcore.h: the same names, implemented by runtime/tensorcore.cc.
//
// Whatever is asynchronous happens as late as it may, and its destination is filled with ones,
// NaN in every format, as soon as it is asked for: whoever reads too early, and whoever
// overwrites too early, computes NaN. What a GPU leaves undefined and the simulator sees is an
// error that names the line: a barrier that was not initialised, an arrival too many, an
// operand that is still being loaded, bytes that were written without fence_async_shared.
//
// TOKITAI_MMA_STEP and TOKITAI_MMA_BITS are the model mma(L,F) of the matrix instructions in
// f16 and bf16; that of FP8 is mma(32,13,13).
#ifndef TOKITAI_SIM_TENSORCORE_H
#define TOKITAI_SIM_TENSORCORE_H

#ifndef TOKITAI_MMA_STEP
#define TOKITAI_MMA_STEP 16
#define TOKITAI_MMA_BITS 25
#endif

#pragma GCC diagnostic ignored "-Wpsabi"

#define KERNEL_ALONE(NAME, THREADS) SIM_KERNEL(NAME, THREADS, 1)
#define KERNEL_CLUSTER(NAME, THREADS, BLOCKS) SIM_KERNEL(NAME, THREADS, BLOCKS)
#define GRID_CONSTANT const

// A TensorMap's words: device/gpu/sim writes them.
struct alignas(64) TensorMap {
    u64 opaque[16];
};

namespace sim {

// Where is the place of a call.
struct Where {
    const char* file;
    int line;
};

// Operands of a warp's instructions, as one lane has them.
struct Matrices {
    u32 at;
    u32* r;
};

struct Product {
    void* d;
    const u32 *a, *b;
    int format; // as of Wgmma
    int step, bits;
};

struct Wgmma {
    float* d; // patterns of int32 for i8
    u64 a, b;
    int columns;
    int format; // 0 f16, 1 bf16, 2 e4m3, 3 e5m2, 4 i8
    bool transposes_a, transposes_b, accumulates;
    int step, bits, result; // the model mma(step,bits,result)
    const u32* left;        // a in registers, or null
};

SIM_INTERNAL u32 shared_address(const void* at, Where where);
SIM_INTERNAL void copy_async_16(u32 to, const void* from, int bytes, Where where);
SIM_INTERNAL void copy_async_commit();
SIM_INTERNAL void copy_async_wait(int left);
SIM_INTERNAL void load_matrix_4(Matrices m, bool is_transposed, Where where);
SIM_INTERNAL void store_matrix_4(Matrices m, Where where);
SIM_INTERNAL void shared_store(u32 at, const void* from, u32 bytes, Where where);
SIM_INTERNAL void multiply(Product p, Where where);
SIM_INTERNAL void named_barrier(int number, int threads, Where where);
SIM_INTERNAL void named_barrier_arrive(int number, int threads, Where where);
SIM_INTERNAL void fence_async_shared();
SIM_INTERNAL u32 cluster_rank();
SIM_INTERNAL void cluster_barrier(Where where);
SIM_INTERNAL void set_registers(int count, Where where);
SIM_INTERNAL void mbarrier_init(u32 at, u32 arrivals, Where where);
SIM_INTERNAL void mbarrier_fence_init();
SIM_INTERNAL void mbarrier_arrive(u32 at, u32 block, u32 bytes, Where where);
SIM_INTERNAL void mbarrier_wait(u32 at, u32 parity, Where where);
SIM_INTERNAL void tensor_load(u32 to, const TensorMap* map, u32 barrier, u32 blocks, int rank, const i32* at, Where where);
SIM_INTERNAL void tensor_store(const TensorMap* map, u32 from, int rank, const i32* at, Where where);
SIM_INTERNAL void tensor_store_commit();
SIM_INTERNAL void tensor_store_wait(int left, Where where);
SIM_INTERNAL void wgmma_fence();
SIM_INTERNAL void wgmma(const Wgmma& w, Where where);
SIM_INTERNAL void wgmma_commit();
SIM_INTERNAL void wgmma_wait(int left, Where where);

} // namespace sim

// The last parameters of each function are the place of its call.
#define SIM_WHERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define SIM_HERE (sim::Where{file, line})

DEVICE u32 shared_address(const void* at, SIM_WHERE) { return sim::shared_address(at, SIM_HERE); }

DEVICE void copy_async_16(u32 to, const void* from, int bytes, SIM_WHERE) { sim::copy_async_16(to, from, bytes, SIM_HERE); }
DEVICE void copy_async_commit() { sim::copy_async_commit(); }

template <int LEFT>
DEVICE void copy_async_wait() {
    sim::copy_async_wait(LEFT);
}

DEVICE void load_matrix_4(u32 (&r)[4], u32 at, SIM_WHERE) { sim::load_matrix_4({at, r}, false, SIM_HERE); }
DEVICE void load_matrix_4_transposed(u32 (&r)[4], u32 at, SIM_WHERE) { sim::load_matrix_4({at, r}, true, SIM_HERE); }
DEVICE void store_matrix_4(u32 at, const u32 (&r)[4], SIM_WHERE) { sim::store_matrix_4({at, const_cast<u32*>(r)}, SIM_HERE); }

DEVICE void shared_store_2(u32 at, float x, float y, SIM_WHERE) {
    float pair[2] = {x, y};
    sim::shared_store(at, pair, sizeof(pair), SIM_HERE);
}

DEVICE void shared_keep_8(u32 at, int count, SIM_WHERE) {
    const u16 zero = 0;
    for (int i = count < 0 ? 0 : count; i < 8; i++) sim::shared_store(at + 2 * i, &zero, sizeof(zero), SIM_HERE);
}

DEVICE void mma_16_8_16_f16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], SIM_WHERE) {
    sim::multiply({d, a, b, 0, TOKITAI_MMA_STEP, TOKITAI_MMA_BITS}, SIM_HERE);
}
DEVICE void mma_16_8_16_bf16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], SIM_WHERE) {
    sim::multiply({d, a, b, 1, TOKITAI_MMA_STEP, TOKITAI_MMA_BITS}, SIM_HERE);
}
DEVICE void mma_16_8_32_i8(i32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2], SIM_WHERE) {
    sim::multiply({d, a, b, 4, TOKITAI_MMA_STEP, TOKITAI_MMA_BITS}, SIM_HERE);
}

DEVICE void named_barrier(int number, int threads, SIM_WHERE) { sim::named_barrier(number, threads, SIM_HERE); }
DEVICE void named_barrier_arrive(int number, int threads, SIM_WHERE) { sim::named_barrier_arrive(number, threads, SIM_HERE); }
DEVICE void fence_async_shared() { sim::fence_async_shared(); }

DEVICE u32 cluster_rank() { return sim::cluster_rank(); }
DEVICE void cluster_barrier(SIM_WHERE) { sim::cluster_barrier(SIM_HERE); }

template <int COUNT>
DEVICE void registers_more(SIM_WHERE) {
    sim::set_registers(COUNT, SIM_HERE);
}

template <int COUNT>
DEVICE void registers_fewer(SIM_WHERE) {
    sim::set_registers(COUNT, SIM_HERE);
}

DEVICE void mbarrier_init(u32 at, u32 arrivals, SIM_WHERE) { sim::mbarrier_init(at, arrivals, SIM_HERE); }
DEVICE void mbarrier_fence_init() { sim::mbarrier_fence_init(); }
DEVICE void mbarrier_expect(u32 at, u32 bytes, SIM_WHERE) { sim::mbarrier_arrive(at, sim::cluster_rank(), bytes, SIM_HERE); }
DEVICE void mbarrier_arrive(u32 at, SIM_WHERE) { sim::mbarrier_arrive(at, sim::cluster_rank(), 0, SIM_HERE); }
DEVICE void mbarrier_arrive_at(u32 at, u32 block, SIM_WHERE) { sim::mbarrier_arrive(at, block, 0, SIM_HERE); }
DEVICE void mbarrier_wait(u32 at, u32 parity, SIM_WHERE) { sim::mbarrier_wait(at, parity, SIM_HERE); }

DEVICE void tensor_prefetch(const TensorMap*) {}

DEVICE void tensor_load(u32 to, const TensorMap* map, u32 barrier, i32 c0, i32 c1, SIM_WHERE) {
    i32 at[5] = {c0, c1};
    sim::tensor_load(to, map, barrier, 0, 2, at, SIM_HERE);
}
DEVICE void tensor_load(u32 to, const TensorMap* map, u32 barrier, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4, SIM_WHERE) {
    i32 at[5] = {c0, c1, c2, c3, c4};
    sim::tensor_load(to, map, barrier, 0, 5, at, SIM_HERE);
}
DEVICE void tensor_load_multicast(u32 to, const TensorMap* map, u32 barrier, u16 blocks, i32 c0, i32 c1, SIM_WHERE) {
    i32 at[5] = {c0, c1};
    sim::tensor_load(to, map, barrier, blocks | 1u << 16, 2, at, SIM_HERE);
}
DEVICE void tensor_load_multicast(u32 to, const TensorMap* map, u32 barrier, u16 blocks, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4, SIM_WHERE) {
    i32 at[5] = {c0, c1, c2, c3, c4};
    sim::tensor_load(to, map, barrier, blocks | 1u << 16, 5, at, SIM_HERE);
}
DEVICE void tensor_store(const TensorMap* map, u32 from, i32 c0, i32 c1, SIM_WHERE) {
    i32 at[5] = {c0, c1};
    sim::tensor_store(map, from, 2, at, SIM_HERE);
}
DEVICE void tensor_store(const TensorMap* map, u32 from, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4, SIM_WHERE) {
    i32 at[5] = {c0, c1, c2, c3, c4};
    sim::tensor_store(map, from, 5, at, SIM_HERE);
}
DEVICE void tensor_store_commit() { sim::tensor_store_commit(); }

template <int LEFT>
DEVICE void tensor_store_wait(SIM_WHERE) {
    sim::tensor_store_wait(LEFT, SIM_HERE);
}

DEVICE u64 wgmma_descriptor(u32 at, u32 next, u32 group, int line = 128) {
    return (u64)(at >> 4 & 0x3fffu) | (u64)(next >> 4 & 0x3fffu) << 16 | (u64)(group >> 4 & 0x3fffu) << 32 | (line == 64 ? 2ull : 1ull) << 62;
}

DEVICE void wgmma_fence() { sim::wgmma_fence(); }
DEVICE void wgmma_commit() { sim::wgmma_commit(); }

template <int LEFT>
DEVICE void wgmma_wait(SIM_WHERE) {
    sim::wgmma_wait(LEFT, SIM_HERE);
}

template <class T, int COUNT>
DEVICE void wgmma_done(T (&)[COUNT]) {}

DEVICE u64 computed_here(u64 x) { return x; }
DEVICE int computed_here(int x) { return x; }
DEVICE u32 uniform(u32 x) { return x; }
DEVICE u64 uniform(u64 x) { return x; }

template <int N, bool IS_BF16, bool TRANSPOSE_A, bool TRANSPOSE_B>
DEVICE void wgmma_64_N_16(float (&d)[N / 2], u64 a, u64 b, i32 accumulate, SIM_WHERE) {
    static_assert(N % 8 == 0 && N >= 8 && N <= 256, "no wgmma of so many columns");
    sim::wgmma({d, a, b, N, IS_BF16, TRANSPOSE_A, TRANSPOSE_B, accumulate != 0, TOKITAI_MMA_STEP, TOKITAI_MMA_BITS, 23, nullptr}, SIM_HERE);
}

template <int N, bool IS_BF16, bool TRANSPOSE_B>
DEVICE void wgmma_64_N_16(float (&d)[N / 2], const u32 (&a)[4], u64 b, i32 accumulate, SIM_WHERE) {
    static_assert(N % 8 == 0 && N >= 8 && N <= 256, "no wgmma of so many columns");
    sim::wgmma({d, 0, b, N, IS_BF16, false, TRANSPOSE_B, accumulate != 0, TOKITAI_MMA_STEP, TOKITAI_MMA_BITS, 23, a}, SIM_HERE);
}

template <int N, bool IS_E5M2>
DEVICE void wgmma_64_N_32(float (&d)[N / 2], u64 a, u64 b, i32 accumulate, SIM_WHERE) {
    static_assert(N % 8 == 0 && N >= 8 && N <= 256, "no wgmma of so many columns");
    sim::wgmma({d, a, b, N, IS_E5M2 ? 3 : 2, false, false, accumulate != 0, 32, 13, 13, nullptr}, SIM_HERE);
}

template <int N>
DEVICE void wgmma_64_N_32_i8(i32 (&d)[N / 2], u64 a, u64 b, i32 accumulate, SIM_WHERE) {
    static_assert(N % 8 == 0 && N >= 8 && N <= 256, "no wgmma of so many columns");
    sim::wgmma({reinterpret_cast<float*>(d), a, b, N, 4, false, false, accumulate != 0, 32, 13, 13, nullptr}, SIM_HERE);
}

#endif
