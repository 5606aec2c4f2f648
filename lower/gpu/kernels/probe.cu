// A matrix instruction on many tiles: D = C + A·B, one tile per block
//
// Operands  tiles one after the other: M rows of A and N columns of B, 32 bytes along k each; MxN elements of C
//           and of D in f32, row by row
// Numerics  what the instruction computes: package verify finds the model that it follows
// Requires  for FAMILY 0 (mma.sync) sm_80, for FP8 sm_89; for FAMILY 1 (wgmma) sm_90a; tensorcore.h

typedef unsigned char Byte;

struct Params {
    const Byte* a;
    const Byte* b;
    const float* c;
    float* d;
};

const int BYTES = 32; // along k

#if FAMILY == 0

#if FORMAT == 0
#define MULTIPLY_ADD mma_16_8_16_f16
#elif FORMAT == 1
#define MULTIPLY_ADD mma_16_8_16_bf16
#else

// 32 products of FP8.
DEVICE void MULTIPLY_ADD(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32." FACTORS "." FACTORS ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif

KERNEL(probe_tiles, 32)(const Params p) {
    int lane = threadIdx.x, group = lane / 4, quad = lane % 4;
    const Byte* a = p.a + (i64)blockIdx.x * 16 * BYTES + group * BYTES + quad * 4;
    const Byte* b = p.b + (i64)blockIdx.x * 8 * BYTES + group * BYTES + quad * 4;
    i64 at = (i64)blockIdx.x * 16 * 8 + group * 8 + quad * 2;
    u32 left[4], right[2];
    float d[4];
    UNROLL for (int i = 0; i < 4; i++) {
        left[i] = *(const u32*)(a + i % 2 * 8 * BYTES + i / 2 * 16);
        d[i] = p.c[at + i / 2 * 8 * 8 + i % 2];
    }
    UNROLL for (int i = 0; i < 2; i++) right[i] = *(const u32*)(b + i * 16);
    MULTIPLY_ADD(d, left, right);
    UNROLL for (int i = 0; i < 4; i++) p.d[at + i / 2 * 8 * 8 + i % 2] = d[i];
}

#else

const int LINE = 128; // of shared memory, of which BYTES are used

// Copies 64 rows to lines of shared memory, whose pieces of 16 bytes are swizzled.
DEVICE void copy_rows(u32 to, const Byte* from) {
    int row = threadIdx.x / 2, piece = threadIdx.x % 2;
    copy_async_16(to + row * LINE + (piece ^ row % 8) * 16, from + row * BYTES + piece * 16, 16);
}

KERNEL_ALONE(probe_tiles, 128)(const Params p) {
    SHARED_DYN(Byte, memory);
    u32 left = (shared_address(memory) + 1023) / 1024 * 1024, right = left + 64 * LINE;
    copy_rows(left, p.a + (i64)blockIdx.x * 64 * BYTES);
    copy_rows(right, p.b + (i64)blockIdx.x * 64 * BYTES);
    copy_async_commit();
    copy_async_wait<0>();
    fence_async_shared();
    BARRIER(); // every thread's rows are there before the product reads them

    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    i64 at = (i64)blockIdx.x * 64 * 64 + (warp * 16 + lane / 4) * 64 + lane % 4 * 2;
    float d[32];
    UNROLL for (int i = 0; i < 32; i++) d[i] = p.c[at + i / 2 % 2 * 8 * 64 + i / 4 * 8 + i % 2];
    u64 a = wgmma_descriptor(left, LINE, 8 * LINE), b = wgmma_descriptor(right, LINE, 8 * LINE);
    wgmma_fence();
#if FORMAT >= 2
    wgmma_64_N_32<64, FORMAT == 3>(d, a, b, 1);
#else
    wgmma_64_N_16<64, FORMAT == 1, false, false>(d, a, b, 1);
#endif
    wgmma_commit();
    wgmma_wait<0>();
    UNROLL for (int i = 0; i < 32; i++) p.d[at + i / 2 % 2 * 8 * 64 + i / 4 * 8 + i % 2] = d[i];
}

#endif
