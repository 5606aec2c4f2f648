// The tensor-core dialect: matrix instructions, asynchronous copies, barriers in memory and
// clusters of blocks. A kernel that needs it includes it after prelude.h.
//
// Platforms  CUDA, where every function is one instruction or a few: sm_80 for those above
//            the line "Hopper", sm_90a for those below; the simulator, where
//            sim_tensorcore.h has the same names
// Addresses  in shared memory are u32, from shared_address
#ifndef TOKITAI_TENSORCORE_H
#define TOKITAI_TENSORCORE_H

#if defined(TOKITAI_SIM)
#include "sim_tensorcore.h"
#else

DEVICE u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }

// ---- copies from memory to shared memory, in groups ----

// Copies the first bytes of 16, and zeros for the others.
DEVICE void copy_async_16(u32 to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most LEFT of this thread's groups are under way.
template <int LEFT>
DEVICE void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// ---- matrices of 8x8 elements of 16 bits between shared memory and a warp's registers ----

// Lane l gives the address of row l % 8 of matrix l / 8.
DEVICE void load_matrix_4(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

DEVICE void load_matrix_4_transposed(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

// ---- a warp's product of 16x16 and 16x8 elements, added to d ----

DEVICE void mma_16_8_16_f16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

DEVICE void mma_16_8_16_bf16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// 32 products of i8 a result, in sums that wrap.
DEVICE void mma_16_8_32_i8(i32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Waits until as many threads have met the barrier of this number; 0 is BARRIER's.
DEVICE void named_barrier(int number, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory"); }

// Comes to that barrier for others to meet, and goes on.
DEVICE void named_barrier_arrive(int number, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory"); }

// ---- Hopper ----

DEVICE void store_matrix_4(u32 at, const u32 (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

DEVICE void shared_store_2(u32 at, float x, float y) { asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(x), "f"(y) : "memory"); }

// Orders this thread's ordinary accesses to shared memory before the accesses of copies and
// matrix instructions.
DEVICE void fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Keeps the first count of eight elements of 16 bits, and sets the others to zero.
DEVICE void shared_keep_8(u32 at, int count) {
    UNROLL for (int i = 0; i < 8; i++)
        if (i >= count) asm volatile("st.shared.u16 [%0], %1;" ::"r"(at + 2 * i), "h"((u16)0) : "memory");
}

// A kernel of which a multiprocessor has one block of THREADS.
#define KERNEL_ALONE(NAME, THREADS) extern "C" __global__ void __launch_bounds__(THREADS, 1) NAME
// The same, in clusters of BLOCKS.
#define KERNEL_CLUSTER(NAME, THREADS, BLOCKS) extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS, 1) NAME
// The one parameter of a kernel that contains tensor maps.
#define GRID_CONSTANT const __grid_constant__

DEVICE u32 cluster_rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

DEVICE void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Registers of each thread of a warpgroup, whose threads all meet this.
template <int COUNT>
DEVICE void registers_more() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT>
DEVICE void registers_fewer() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// ---- barriers in shared memory ----

DEVICE void mbarrier_init(u32 at, u32 arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory"); }

// Makes initialised barriers visible to copies and to the cluster; a cluster barrier follows.
DEVICE void mbarrier_fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Arrives, and adds bytes to those that copies still have to bring.
DEVICE void mbarrier_expect(u32 at, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}

DEVICE void mbarrier_arrive(u32 at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }

// Arrives at the barrier that lies at the same address in another block of the cluster.
DEVICE void mbarrier_arrive_at(u32 at, u32 block) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(at), "r"(block) : "memory");
}

// Waits until the phase of this parity is complete.
DEVICE void mbarrier_wait(u32 at, u32 parity) {
    u32 is_complete;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(is_complete) : "r"(at), "r"(parity) : "memory");
    } while (!is_complete);
}

// ---- tensor maps: boxes of a tensor between memory and shared memory ----

struct alignas(64) TensorMap {
    u64 opaque[16]; // which the driver encodes
};

DEVICE void tensor_prefetch(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

// Copies the box at a place, whose first index is that along memory. Elements outside of the
// tensor are zero. The bytes of the whole box count at the barrier.
DEVICE void tensor_load(u32 to, const TensorMap* map, u32 barrier, i32 c0, i32 c1) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(map), "r"(barrier), "r"(c0), "r"(c1) : "memory");
}

DEVICE void tensor_load(u32 to, const TensorMap* map, u32 barrier, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to), "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}

// The same for every block of the cluster that has a bit in blocks: the box and its bytes
// arrive at the same addresses in each.
DEVICE void tensor_load_multicast(u32 to, const TensorMap* map, u32 barrier, u16 blocks, i32 c0, i32 c1) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5}], [%2], %3;" ::"r"(to), "l"(map), "r"(barrier), "h"(blocks), "r"(c0), "r"(c1) : "memory");
}

DEVICE void tensor_load_multicast(u32 to, const TensorMap* map, u32 barrier, u16 blocks, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(to), "l"(map), "r"(barrier), "h"(blocks), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}

// Elements outside of the tensor are not stored.
DEVICE void tensor_store(const TensorMap* map, u32 from, i32 c0, i32 c1) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from), "r"(c0), "r"(c1) : "memory");
}

DEVICE void tensor_store(const TensorMap* map, u32 from, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4) {
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map), "r"(from), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}

DEVICE void tensor_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but LEFT of this thread's committed stores have read their shared memory.
template <int LEFT>
DEVICE void tensor_store_wait() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}

// ---- a warpgroup's products of matrices in shared memory ----

// The descriptor of an operand in shared memory whose lines of 128 bytes are swizzled: the
// 16-byte pieces of line l lie at piece ^ l % 8. Lines hold 64 elements along the summed
// index, eight lines lie in `group` bytes, and so on; or, TRANSPOSEd, 64 elements along the
// other index, one line for each summed index, and `next` bytes from one 64 to the next. A
// TRANSPOSEd operand of 32 may have lines of 64 bytes, whose pieces lie at piece ^ l / 2 % 4.
DEVICE u64 wgmma_descriptor(u32 at, u32 next, u32 group, int line = 128) {
    return (u64)(at >> 4 & 0x3fffu) | (u64)(next >> 4 & 0x3fffu) << 16 | (u64)(group >> 4 & 0x3fffu) << 32 | (line == 64 ? 2ull : 1ull) << 62;
}

// Between writes of accumulators and the first product that uses them.
DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most LEFT of the warpgroup's groups are under way.
template <int LEFT>
DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// Accumulators after a wait for their products: nothing that uses them comes before it.
template <int COUNT>
DEVICE void wgmma_done(float (&d)[COUNT]) {
    UNROLL for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(d[i])::"memory");
}

template <int COUNT>
DEVICE void wgmma_done(i32 (&d)[COUNT]) {
    UNROLL for (int i = 0; i < COUNT; i++) asm volatile("" : "+r"(d[i])::"memory");
}

// Returns what it is given. What follows from it is computed where it is used: before a loop, it would take registers from the accumulators.
DEVICE u64 computed_here(u64 x) {
    asm volatile("" : "+l"(x));
    return x;
}
DEVICE int computed_here(int x) {
    asm volatile("" : "+r"(x));
    return x;
}

// Returns what all lanes of a warp are given alike. What follows from it is computed once for the warp, as descriptors of wgmma have to be.
DEVICE u32 uniform(u32 x) { return __shfl_sync(0xffffffffu, x, 0); }
DEVICE u64 uniform(u64 x) { return (u64)uniform((u32)(x >> 32)) << 32 | uniform((u32)x); }

// d += a·b, or d = a·b unless accumulate: 64 rows, N columns, 16 summed, or 32 of FP8. Of the warpgroup's
// thread t, d[4j + i] lies in row t / 32 · 16 + t % 32 / 4 + i / 2 · 8, column 8j + t % 4 · 2 + i % 2.
#define WGMMA_32(REGISTER, TYPES, MORE) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\nwgmma.mma_async.sync.aligned.m64n32" TYPES " {" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
    "}, %16, %17, p" MORE ";\n}" : \
    REGISTER(d[0]), REGISTER(d[1]), REGISTER(d[2]), REGISTER(d[3]), REGISTER(d[4]), REGISTER(d[5]), REGISTER(d[6]), REGISTER(d[7]), \
    REGISTER(d[8]), REGISTER(d[9]), REGISTER(d[10]), REGISTER(d[11]), REGISTER(d[12]), REGISTER(d[13]), REGISTER(d[14]), REGISTER(d[15]) \
    : "l"(a), "l"(b), "r"(accumulate), "n"(TRANSPOSE_A ? 1 : 0), "n"(TRANSPOSE_B ? 1 : 0))

#define WGMMA_64(REGISTER, TYPES, MORE) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64" TYPES " {" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
    "}, %32, %33, p" MORE ";\n}" : \
    REGISTER(d[0]), REGISTER(d[1]), REGISTER(d[2]), REGISTER(d[3]), REGISTER(d[4]), REGISTER(d[5]), REGISTER(d[6]), REGISTER(d[7]), \
    REGISTER(d[8]), REGISTER(d[9]), REGISTER(d[10]), REGISTER(d[11]), REGISTER(d[12]), REGISTER(d[13]), REGISTER(d[14]), REGISTER(d[15]), \
    REGISTER(d[16]), REGISTER(d[17]), REGISTER(d[18]), REGISTER(d[19]), REGISTER(d[20]), REGISTER(d[21]), REGISTER(d[22]), REGISTER(d[23]), \
    REGISTER(d[24]), REGISTER(d[25]), REGISTER(d[26]), REGISTER(d[27]), REGISTER(d[28]), REGISTER(d[29]), REGISTER(d[30]), REGISTER(d[31]) \
    : "l"(a), "l"(b), "r"(accumulate), "n"(TRANSPOSE_A ? 1 : 0), "n"(TRANSPOSE_B ? 1 : 0))

#define WGMMA_128(REGISTER, TYPES, MORE) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128" TYPES " {" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
    "}, %64, %65, p" MORE ";\n}" : \
    REGISTER(d[0]), REGISTER(d[1]), REGISTER(d[2]), REGISTER(d[3]), REGISTER(d[4]), REGISTER(d[5]), REGISTER(d[6]), REGISTER(d[7]), \
    REGISTER(d[8]), REGISTER(d[9]), REGISTER(d[10]), REGISTER(d[11]), REGISTER(d[12]), REGISTER(d[13]), REGISTER(d[14]), REGISTER(d[15]), \
    REGISTER(d[16]), REGISTER(d[17]), REGISTER(d[18]), REGISTER(d[19]), REGISTER(d[20]), REGISTER(d[21]), REGISTER(d[22]), REGISTER(d[23]), \
    REGISTER(d[24]), REGISTER(d[25]), REGISTER(d[26]), REGISTER(d[27]), REGISTER(d[28]), REGISTER(d[29]), REGISTER(d[30]), REGISTER(d[31]), \
    REGISTER(d[32]), REGISTER(d[33]), REGISTER(d[34]), REGISTER(d[35]), REGISTER(d[36]), REGISTER(d[37]), REGISTER(d[38]), REGISTER(d[39]), \
    REGISTER(d[40]), REGISTER(d[41]), REGISTER(d[42]), REGISTER(d[43]), REGISTER(d[44]), REGISTER(d[45]), REGISTER(d[46]), REGISTER(d[47]), \
    REGISTER(d[48]), REGISTER(d[49]), REGISTER(d[50]), REGISTER(d[51]), REGISTER(d[52]), REGISTER(d[53]), REGISTER(d[54]), REGISTER(d[55]), \
    REGISTER(d[56]), REGISTER(d[57]), REGISTER(d[58]), REGISTER(d[59]), REGISTER(d[60]), REGISTER(d[61]), REGISTER(d[62]), REGISTER(d[63]) \
    : "l"(a), "l"(b), "r"(accumulate), "n"(TRANSPOSE_A ? 1 : 0), "n"(TRANSPOSE_B ? 1 : 0))

#define WGMMA_192(REGISTER, TYPES, MORE) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\nwgmma.mma_async.sync.aligned.m64n192" TYPES " {" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
    "}, %96, %97, p" MORE ";\n}" : \
    REGISTER(d[0]), REGISTER(d[1]), REGISTER(d[2]), REGISTER(d[3]), REGISTER(d[4]), REGISTER(d[5]), REGISTER(d[6]), REGISTER(d[7]), \
    REGISTER(d[8]), REGISTER(d[9]), REGISTER(d[10]), REGISTER(d[11]), REGISTER(d[12]), REGISTER(d[13]), REGISTER(d[14]), REGISTER(d[15]), \
    REGISTER(d[16]), REGISTER(d[17]), REGISTER(d[18]), REGISTER(d[19]), REGISTER(d[20]), REGISTER(d[21]), REGISTER(d[22]), REGISTER(d[23]), \
    REGISTER(d[24]), REGISTER(d[25]), REGISTER(d[26]), REGISTER(d[27]), REGISTER(d[28]), REGISTER(d[29]), REGISTER(d[30]), REGISTER(d[31]), \
    REGISTER(d[32]), REGISTER(d[33]), REGISTER(d[34]), REGISTER(d[35]), REGISTER(d[36]), REGISTER(d[37]), REGISTER(d[38]), REGISTER(d[39]), \
    REGISTER(d[40]), REGISTER(d[41]), REGISTER(d[42]), REGISTER(d[43]), REGISTER(d[44]), REGISTER(d[45]), REGISTER(d[46]), REGISTER(d[47]), \
    REGISTER(d[48]), REGISTER(d[49]), REGISTER(d[50]), REGISTER(d[51]), REGISTER(d[52]), REGISTER(d[53]), REGISTER(d[54]), REGISTER(d[55]), \
    REGISTER(d[56]), REGISTER(d[57]), REGISTER(d[58]), REGISTER(d[59]), REGISTER(d[60]), REGISTER(d[61]), REGISTER(d[62]), REGISTER(d[63]), \
    REGISTER(d[64]), REGISTER(d[65]), REGISTER(d[66]), REGISTER(d[67]), REGISTER(d[68]), REGISTER(d[69]), REGISTER(d[70]), REGISTER(d[71]), \
    REGISTER(d[72]), REGISTER(d[73]), REGISTER(d[74]), REGISTER(d[75]), REGISTER(d[76]), REGISTER(d[77]), REGISTER(d[78]), REGISTER(d[79]), \
    REGISTER(d[80]), REGISTER(d[81]), REGISTER(d[82]), REGISTER(d[83]), REGISTER(d[84]), REGISTER(d[85]), REGISTER(d[86]), REGISTER(d[87]), \
    REGISTER(d[88]), REGISTER(d[89]), REGISTER(d[90]), REGISTER(d[91]), REGISTER(d[92]), REGISTER(d[93]), REGISTER(d[94]), REGISTER(d[95]) \
    : "l"(a), "l"(b), "r"(accumulate), "n"(TRANSPOSE_A ? 1 : 0), "n"(TRANSPOSE_B ? 1 : 0))

#define WGMMA_256(REGISTER, TYPES, MORE) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\nwgmma.mma_async.sync.aligned.m64n256" TYPES " {" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127" \
    "}, %128, %129, p" MORE ";\n}" : \
    REGISTER(d[0]), REGISTER(d[1]), REGISTER(d[2]), REGISTER(d[3]), REGISTER(d[4]), REGISTER(d[5]), REGISTER(d[6]), REGISTER(d[7]), \
    REGISTER(d[8]), REGISTER(d[9]), REGISTER(d[10]), REGISTER(d[11]), REGISTER(d[12]), REGISTER(d[13]), REGISTER(d[14]), REGISTER(d[15]), \
    REGISTER(d[16]), REGISTER(d[17]), REGISTER(d[18]), REGISTER(d[19]), REGISTER(d[20]), REGISTER(d[21]), REGISTER(d[22]), REGISTER(d[23]), \
    REGISTER(d[24]), REGISTER(d[25]), REGISTER(d[26]), REGISTER(d[27]), REGISTER(d[28]), REGISTER(d[29]), REGISTER(d[30]), REGISTER(d[31]), \
    REGISTER(d[32]), REGISTER(d[33]), REGISTER(d[34]), REGISTER(d[35]), REGISTER(d[36]), REGISTER(d[37]), REGISTER(d[38]), REGISTER(d[39]), \
    REGISTER(d[40]), REGISTER(d[41]), REGISTER(d[42]), REGISTER(d[43]), REGISTER(d[44]), REGISTER(d[45]), REGISTER(d[46]), REGISTER(d[47]), \
    REGISTER(d[48]), REGISTER(d[49]), REGISTER(d[50]), REGISTER(d[51]), REGISTER(d[52]), REGISTER(d[53]), REGISTER(d[54]), REGISTER(d[55]), \
    REGISTER(d[56]), REGISTER(d[57]), REGISTER(d[58]), REGISTER(d[59]), REGISTER(d[60]), REGISTER(d[61]), REGISTER(d[62]), REGISTER(d[63]), \
    REGISTER(d[64]), REGISTER(d[65]), REGISTER(d[66]), REGISTER(d[67]), REGISTER(d[68]), REGISTER(d[69]), REGISTER(d[70]), REGISTER(d[71]), \
    REGISTER(d[72]), REGISTER(d[73]), REGISTER(d[74]), REGISTER(d[75]), REGISTER(d[76]), REGISTER(d[77]), REGISTER(d[78]), REGISTER(d[79]), \
    REGISTER(d[80]), REGISTER(d[81]), REGISTER(d[82]), REGISTER(d[83]), REGISTER(d[84]), REGISTER(d[85]), REGISTER(d[86]), REGISTER(d[87]), \
    REGISTER(d[88]), REGISTER(d[89]), REGISTER(d[90]), REGISTER(d[91]), REGISTER(d[92]), REGISTER(d[93]), REGISTER(d[94]), REGISTER(d[95]), \
    REGISTER(d[96]), REGISTER(d[97]), REGISTER(d[98]), REGISTER(d[99]), REGISTER(d[100]), REGISTER(d[101]), REGISTER(d[102]), REGISTER(d[103]), \
    REGISTER(d[104]), REGISTER(d[105]), REGISTER(d[106]), REGISTER(d[107]), REGISTER(d[108]), REGISTER(d[109]), REGISTER(d[110]), REGISTER(d[111]), \
    REGISTER(d[112]), REGISTER(d[113]), REGISTER(d[114]), REGISTER(d[115]), REGISTER(d[116]), REGISTER(d[117]), REGISTER(d[118]), REGISTER(d[119]), \
    REGISTER(d[120]), REGISTER(d[121]), REGISTER(d[122]), REGISTER(d[123]), REGISTER(d[124]), REGISTER(d[125]), REGISTER(d[126]), REGISTER(d[127]) \
    : "l"(a), "l"(b), "r"(accumulate), "n"(TRANSPOSE_A ? 1 : 0), "n"(TRANSPOSE_B ? 1 : 0))

template <int N, bool IS_BF16, bool TRANSPOSE_A, bool TRANSPOSE_B>
DEVICE void wgmma_64_N_16(float (&d)[N / 2], u64 a, u64 b, i32 accumulate) {
    static_assert(N == 32 || N == 64 || N == 128 || N == 192 || N == 256, "no wgmma of so many columns");
    if constexpr (N == 256 && IS_BF16) WGMMA_256("+f", "k16.f32.bf16.bf16", ", 1, 1, %131, %132");
    if constexpr (N == 256 && !IS_BF16) WGMMA_256("+f", "k16.f32.f16.f16", ", 1, 1, %131, %132");
    if constexpr (N == 192 && IS_BF16) WGMMA_192("+f", "k16.f32.bf16.bf16", ", 1, 1, %99, %100");
    if constexpr (N == 192 && !IS_BF16) WGMMA_192("+f", "k16.f32.f16.f16", ", 1, 1, %99, %100");
    if constexpr (N == 128 && IS_BF16) WGMMA_128("+f", "k16.f32.bf16.bf16", ", 1, 1, %67, %68");
    if constexpr (N == 128 && !IS_BF16) WGMMA_128("+f", "k16.f32.f16.f16", ", 1, 1, %67, %68");
    if constexpr (N == 64 && IS_BF16) WGMMA_64("+f", "k16.f32.bf16.bf16", ", 1, 1, %35, %36");
    if constexpr (N == 64 && !IS_BF16) WGMMA_64("+f", "k16.f32.f16.f16", ", 1, 1, %35, %36");
    if constexpr (N == 32 && IS_BF16) WGMMA_32("+f", "k16.f32.bf16.bf16", ", 1, 1, %19, %20");
    if constexpr (N == 32 && !IS_BF16) WGMMA_32("+f", "k16.f32.f16.f16", ", 1, 1, %19, %20");
}

// The same with a in registers: of the warpgroup's thread t, a[i] is the pair in row t / 32 · 16 + t % 32 / 4 + i % 2 · 8, at
// t % 4 · 2 + i / 2 · 8 along the summed index. They change only after the product is over.
#define WGMMA_REGISTERS_64(TYPE) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
    "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}" : \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
    "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
    "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
    "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) \
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(TRANSPOSE_B ? 1 : 0))

#define WGMMA_REGISTERS_96(TYPE) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %53, 0;\nwgmma.mma_async.sync.aligned.m64n96k16.f32." TYPE "." TYPE " {" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
    "}, {%48, %49, %50, %51}, %52, p, 1, 1, %54;\n}" : \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
    "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
    "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
    "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
    "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
    "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]) \
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(TRANSPOSE_B ? 1 : 0))

#define WGMMA_REGISTERS_128(TYPE) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
    "}, {%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}" : \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
    "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
    "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
    "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
    "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
    "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
    "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
    "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]) \
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(TRANSPOSE_B ? 1 : 0))

template <int N, bool IS_BF16, bool TRANSPOSE_B>
DEVICE void wgmma_64_N_16(float (&d)[N / 2], const u32 (&a)[4], u64 b, i32 accumulate) {
    static_assert(N == 64 || N == 96 || N == 128, "no wgmma of so many columns");
    if constexpr (N == 128 && IS_BF16) WGMMA_REGISTERS_128("bf16");
    if constexpr (N == 128 && !IS_BF16) WGMMA_REGISTERS_128("f16");
    if constexpr (N == 96 && IS_BF16) WGMMA_REGISTERS_96("bf16");
    if constexpr (N == 96 && !IS_BF16) WGMMA_REGISTERS_96("f16");
    if constexpr (N == 64 && IS_BF16) WGMMA_REGISTERS_64("bf16");
    if constexpr (N == 64 && !IS_BF16) WGMMA_REGISTERS_64("f16");
}

// The same in shared memory for FP8, whose lines are 128 elements along the summed index.
template <int N, bool IS_E5M2>
DEVICE void wgmma_64_N_32(float (&d)[N / 2], u64 a, u64 b, i32 accumulate) {
    static_assert(N == 64 || N == 128 || N == 256, "no wgmma of so many columns");
    const bool TRANSPOSE_A = false, TRANSPOSE_B = false; // what is not named in the text is not used
    if constexpr (N == 256 && IS_E5M2) WGMMA_256("+f", "k32.f32.e5m2.e5m2", ", 1, 1");
    if constexpr (N == 256 && !IS_E5M2) WGMMA_256("+f", "k32.f32.e4m3.e4m3", ", 1, 1");
    if constexpr (N == 128 && IS_E5M2) WGMMA_128("+f", "k32.f32.e5m2.e5m2", ", 1, 1");
    if constexpr (N == 128 && !IS_E5M2) WGMMA_128("+f", "k32.f32.e4m3.e4m3", ", 1, 1");
    if constexpr (N == 64 && IS_E5M2) WGMMA_64("+f", "k32.f32.e5m2.e5m2", ", 1, 1");
    if constexpr (N == 64 && !IS_E5M2) WGMMA_64("+f", "k32.f32.e4m3.e4m3", ", 1, 1");
}

// The same for i8, with sums that wrap.
template <int N>
DEVICE void wgmma_64_N_32_i8(i32 (&d)[N / 2], u64 a, u64 b, i32 accumulate) {
    static_assert(N == 64 || N == 128 || N == 256, "no wgmma of so many columns");
    const bool TRANSPOSE_A = false, TRANSPOSE_B = false;
    if constexpr (N == 256) WGMMA_256("+r", "k32.s32.s8.s8", "");
    if constexpr (N == 128) WGMMA_128("+r", "k32.s32.s8.s8", "");
    if constexpr (N == 64) WGMMA_64("+r", "k32.s32.s8.s8", "");
}

#endif

#endif
