// The prelude of every kernel: names for what differs between CUDA, HIP and the
// simulator, storage formats, and the exact arithmetic of definitions. It precedes a
// kernel's source. No vendor header is used.
//
// Platforms  NVRTC and other CUDA compilers; HIP if __HIP__ is defined; the simulator if
//            TOKITAI_SIM is
// Requires   compilation without contraction or flushing of subnormals, with correctly
//            rounded division
#ifndef TOKITAI_PRELUDE_H
#define TOKITAI_PRELUDE_H

// ---- platforms ----

#if defined(TOKITAI_SIM)

#include "sim.h"
#define UNROLL
#define ROLLED
#define UNROLL_TWICE
#define KERNEL_BLOCKS(NAME, BOUND, BLOCKS) KERNEL(NAME, BOUND)
#define MAY_ALIAS __attribute__((may_alias))
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wtautological-compare"

#else

#if defined(__HIP__)

// hipRTC defines these before any source.
#undef __global__
#undef __device__
#undef __shared__
#undef __launch_bounds__
#undef __forceinline__
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim
#undef warpSize

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(BOUND, ...) __attribute__((amdgpu_flat_work_group_size(1, BOUND)))
#define __forceinline__ inline __attribute__((always_inline))
#define MAY_ALIAS __attribute__((may_alias))

struct Coordinates {
    unsigned x, y, z;
};
#define threadIdx (Coordinates{__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z()})
#define blockIdx (Coordinates{__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()})
#define blockDim (Coordinates{__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(), __builtin_amdgcn_workgroup_size_z()})
#define gridDim                                                                       \
    (Coordinates{__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(), \
                 __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(), \
                 __builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z()})
#define warpSize ((int)__builtin_amdgcn_wavefrontsize())

#define BARRIER()                                                   \
    do {                                                            \
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");      \
        __builtin_amdgcn_s_barrier();                               \
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");      \
    } while (0)
#define WARP_BARRIER()                                              \
    do {                                                            \
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");      \
        __builtin_amdgcn_wave_barrier();                            \
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");      \
    } while (0)

static __device__ __forceinline__ int lane_index() {
    return (int)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}

// Returns the value of another lane, four bytes at a time.
template <class V>
static __device__ __forceinline__ V from_lane(V value, int lane) {
    static_assert(sizeof(V) == 4 || sizeof(V) == 8, "a shuffle moves four or eight bytes");
    int words[sizeof(V) / 4];
    __builtin_memcpy(words, &value, sizeof(V));
    for (unsigned i = 0; i < sizeof(V) / 4; i++) words[i] = __builtin_amdgcn_ds_bpermute(lane * 4, words[i]);
    __builtin_memcpy(&value, words, sizeof(V));
    return value;
}

template <class V>
static __device__ __forceinline__ V shuffle_down(V value, int distance, int width) {
    int lane = lane_index();
    return from_lane(value, lane % width + distance < width ? lane + distance : lane);
}

template <class V>
static __device__ __forceinline__ V shuffle_up(V value, int distance, int width) {
    int lane = lane_index();
    return from_lane(value, lane % width >= distance ? lane - distance : lane);
}

#define SHFL_DOWN(VALUE, DISTANCE, WIDTH) shuffle_down(VALUE, DISTANCE, WIDTH)
#define SHFL_UP(VALUE, DISTANCE, WIDTH) shuffle_up(VALUE, DISTANCE, WIDTH)
#define SHFL_XOR(VALUE, DISTANCE, WIDTH) from_lane(VALUE, lane_index() ^ (DISTANCE))
#define SHFL_IDX(VALUE, LANE, WIDTH) from_lane(VALUE, lane_index() / (WIDTH) * (WIDTH) + (LANE))
#define ATOMIC_ADD(POINTER, VALUE) __atomic_fetch_add(POINTER, VALUE, __ATOMIC_RELAXED)
#define ATOMIC_MIN(POINTER, VALUE) __atomic_fetch_min(POINTER, VALUE, __ATOMIC_RELAXED)
#define ATOMIC_MAX(POINTER, VALUE) __atomic_fetch_max(POINTER, VALUE, __ATOMIC_RELAXED)

#else // CUDA

#define MAY_ALIAS
#define BARRIER() __syncthreads()
#define WARP_BARRIER() __syncwarp()
#define SHFL_DOWN(VALUE, DISTANCE, WIDTH) __shfl_down_sync(0xffffffffu, VALUE, DISTANCE, WIDTH)
#define SHFL_UP(VALUE, DISTANCE, WIDTH) __shfl_up_sync(0xffffffffu, VALUE, DISTANCE, WIDTH)
#define SHFL_XOR(VALUE, DISTANCE, WIDTH) __shfl_xor_sync(0xffffffffu, VALUE, DISTANCE, WIDTH)
#define SHFL_IDX(VALUE, LANE, WIDTH) __shfl_sync(0xffffffffu, VALUE, LANE, WIDTH)
#define ATOMIC_ADD(POINTER, VALUE) atomicAdd(POINTER, VALUE)
#define ATOMIC_MIN(POINTER, VALUE) atomicMin(POINTER, VALUE)
#define ATOMIC_MAX(POINTER, VALUE) atomicMax(POINTER, VALUE)

#endif

#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define UNROLL_TWICE _Pragma("unroll 2")
#define KERNEL(NAME, BOUND) extern "C" __global__ void __launch_bounds__(BOUND) NAME
// A kernel of which BLOCKS blocks share a multiprocessor.
#define KERNEL_BLOCKS(NAME, BOUND, BLOCKS) extern "C" __global__ void __launch_bounds__(BOUND, BLOCKS) NAME
#define SHARED(TYPE, NAME, COUNT) alignas(16) __shared__ TYPE NAME[COUNT]
#define SHARED_DYN(TYPE, NAME)                                       \
    extern __shared__ uint4_aligned dynamic_shared_memory[];         \
    TYPE* const NAME = reinterpret_cast<TYPE*>(dynamic_shared_memory)

#endif

#define DEVICE __device__ __forceinline__

typedef unsigned short f16;  // a binary16 pattern
typedef unsigned short bf16; // the upper half of a binary32 pattern
typedef signed char i8;
typedef unsigned char e4m3;  // an FP8 pattern
typedef unsigned char e5m2;  // the upper half of a binary16 pattern
typedef float f32;
typedef int i32;
typedef unsigned u32;
typedef unsigned short u16;
typedef long long i64;
typedef unsigned long long u64;

// Sixteen bytes, loaded and stored in one access.
struct alignas(16) uint4_aligned {
    u32 x, y, z, w;
} MAY_ALIAS;

// Eight bytes likewise.
struct alignas(8) Words2 {
    u32 x, y;
} MAY_ALIAS;

// A condition that is true, or false, nearly always: the compiler keeps what follows together.
#define MOSTLY(CONDITION) __builtin_expect((CONDITION), 1)
#define RARELY(CONDITION) __builtin_expect((CONDITION), 0)

// ---- patterns ----

#define INFINITE float_of(0x7f800000u)

#if defined(TOKITAI_SIM) || defined(__HIP__)

DEVICE u32 bits_of(float x) {
    u32 b;
    __builtin_memcpy(&b, &x, 4);
    return b;
}

DEVICE float float_of(u32 b) {
    float x;
    __builtin_memcpy(&x, &b, 4);
    return x;
}

#else

DEVICE u32 bits_of(float x) { return __float_as_uint(x); }
DEVICE float float_of(u32 b) { return __uint_as_float(b); }

#endif

// ---- arithmetic, each correctly rounded ----

#if defined(TOKITAI_SIM)

DEVICE float divide(float a, float b) { return a / b; }
DEVICE float square_root(float x) { return __builtin_sqrtf(x); }
DEVICE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE float round_to_integral(float x) { return __builtin_rintf(x); }

#elif defined(__HIP__)

DEVICE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE float round_to_integral(float x) { return __builtin_rintf(x); }

// The result must not depend on how the hardware approximates a reciprocal within its
// documented error, one unit in the last place. In the compiler's a / b it does, for divisors
// with all bits of the fraction set.
//
// The fractions m and n of |a| and |b| are in [1/2, 1): nothing overflows or underflows on the
// way to their quotient. The error of q is below 4 units in the last place, and after its
// correction below 1/2 + 2^-20. s is q in units of the result, in which subnormals have fewer
// bits: it is the correctly rounded quotient, or its neighbour on the side of m / n is. The
// residuals of both have at most 24 bits, so they are exact, and the smaller one decides. They
// are equal only where m / n is halfway between two subnormals; then q is exact, and s was
// rounded to even. Large quotients are scaled after that, because a quotient is rounded
// before it overflows. The last instruction handles zeros, infinities, NaN and the sign.
DEVICE float divide(float a, float b) {
    float m = __builtin_amdgcn_frexp_mantf(__builtin_fabsf(a)), n = __builtin_amdgcn_frexp_mantf(__builtin_fabsf(b));
    int exponent = __builtin_amdgcn_frexp_expf(a) - __builtin_amdgcn_frexp_expf(b);
    int e = exponent < 64 ? exponent : 64;
    float r = __builtin_amdgcn_rcpf(n), q = m * r;
    q = fused(fused(-n, q, m), r, q);
    float s = __builtin_amdgcn_ldexpf(q, e);
    float residual = fused(-n, __builtin_amdgcn_ldexpf(s, -e), m);
    float neighbour = float_of(bits_of(s) + (residual > 0.0f ? 1 : -1));
    float other = fused(-n, __builtin_amdgcn_ldexpf(neighbour, -e), m);
    s = __builtin_fabsf(other) < __builtin_fabsf(residual) ? neighbour : s;
    return __builtin_amdgcn_div_fixupf(__builtin_amdgcn_ldexpf(s, exponent - e), b, a);
}

// The instruction has an error of at most one unit in the last place: the residuals of its
// result and the two neighbours decide which is nearest. Small arguments are scaled up, so
// that no residual underflows.
DEVICE float square_root(float x) {
    bool is_small = x < 0x1p-96f;
    float a = is_small ? x * 0x1p32f : x;
    float s = __builtin_amdgcn_sqrtf(a);
    float below = float_of(bits_of(s) - 1), above = float_of(bits_of(s) + 1);
    float r = s;
    r = fused(-below, s, a) <= 0.0f ? below : r;
    r = fused(-above, s, a) > 0.0f ? above : r;
    r = is_small ? r * 0x1p-16f : r;
    return a == 0.0f || a == INFINITE ? x : r;
}

#else

DEVICE float divide(float a, float b) { return __fdiv_rn(a, b); }
DEVICE float square_root(float x) { return __fsqrt_rn(x); }
DEVICE float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE float round_to_integral(float x) { return rintf(x); }

#endif

// ---- exact ----

DEVICE float magnitude(float x) { return float_of(bits_of(x) & 0x7fffffffu); }

// NaN if either is NaN; −0 < +0.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(TOKITAI_SIM)

DEVICE float larger(float a, float b) {
    float m;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
    return m;
}

DEVICE float smaller(float a, float b) {
    float m;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
    return m;
}

#else

DEVICE float larger(float a, float b) {
    if (a > b) return a;
    if (b > a) return b;
    return a == b ? float_of(bits_of(a) & bits_of(b)) : a + b;
}

DEVICE float smaller(float a, float b) {
    if (a < b) return a;
    if (b < a) return b;
    return a == b ? float_of(bits_of(a) | bits_of(b)) : a + b;
}

#endif

// Clamp x to a limit that is neither NaN nor zero; NaN propagates.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(TOKITAI_SIM)
DEVICE float at_least(float x, float limit) { return larger(x, limit); }
DEVICE float at_most(float x, float limit) { return smaller(x, limit); }
#else
DEVICE float at_least(float x, float limit) { return x < limit ? limit : x; }
DEVICE float at_most(float x, float limit) { return limit < x ? limit : x; }
#endif

// (x·2^a)·2^(n−a), a = ⌊n/2⌋; n is rounded to integral and clamped.
DEVICE float scale(float x, float n) {
    if (n != n) return n;
    float m = round_to_integral(n);
    int k = (int)(m < -252.0f ? -252.0f : m > 254.0f ? 254.0f : m);
    int a = k >> 1;
    float half = x * float_of((u32)(a + 127) << 23);
    return half * float_of((u32)(k - a + 127) << 23);
}

// ---- int32, wrapping ----

DEVICE i32 int_add(i32 a, i32 b) { return (i32)((u32)a + (u32)b); }
DEVICE i32 int_sub(i32 a, i32 b) { return (i32)((u32)a - (u32)b); }
DEVICE i32 int_mul(i32 a, i32 b) { return (i32)((u32)a * (u32)b); }
DEVICE i32 mul_high(i32 a, i32 b) { return (i32)(u32)((u64)(u32)a * (u32)b >> 32); }
DEVICE i32 shift_left(i32 a, i32 n) { return (i32)((u32)a << (n & 31)); }
DEVICE i32 shift_right(i32 a, i32 n) { return a >> (n & 31); }
DEVICE i32 shift_right_unsigned(i32 a, i32 n) { return (i32)((u32)a >> (n & 31)); }

// Toward zero, saturating; NaN gives 0.
DEVICE i32 int_of(float x) {
    if (x != x) return 0;
    if (x >= 2147483648.0f) return 2147483647;
    if (x < -2147483648.0f) return -2147483647 - 1;
    return (i32)x;
}

// ---- storage formats: read exactly, written with one rounding to nearest even ----

#if defined(__HIP__)

DEVICE float widen_f16(u32 h) { return (float)__builtin_bit_cast(_Float16, (u16)h); }

// clang would fuse a product with its rounding to fma(a, b, +0), which is +0 where the product
// is −0, and an fma with its rounding to one instruction. Here x is hidden from it.
DEVICE u32 narrow_f16(float x) {
    asm("" : "+v"(x));
    return __builtin_bit_cast(u16, (_Float16)x);
}

#elif defined(__CUDA_ARCH__) && !defined(TOKITAI_SIM)

DEVICE float widen_f16(u32 h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((u16)h));
    return x;
}

DEVICE u32 narrow_f16(float x) {
    u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

#else

DEVICE float widen_f16(u32 h) {
    u32 sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u) return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x400u) return float_of(sign | ((rest << 13) + (112u << 23)));
    return float_of(sign | bits_of((float)rest * 0x1p-24f));
}

// One addition rounds results that are subnormal: the last bit of 0.5 + |x| has the weight
// of the last bit of binary16's subnormals.
DEVICE u32 narrow_f16(float x) {
    u32 sign = bits_of(x) >> 16 & 0x8000u, rest = bits_of(x) & 0x7fffffffu;
    if (rest > 0x7f800000u) return sign | 0x7e00u;
    if (rest >= 0x477ff000u) return sign | 0x7c00u;
    if (rest < 0x38800000u) return sign | (bits_of(float_of(rest) + 0.5f) - 0x3f000000u);
    return sign | (rest - (112u << 23) + 0xfffu + (rest >> 13 & 1u)) >> 13;
}

#endif

DEVICE float widen_bf16(u32 h) { return float_of(h << 16); }

// A pair is one word, the first element in its lower half.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(TOKITAI_SIM)

DEVICE u32 narrow_bf16(float x) {
    u16 h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

DEVICE u32 narrow_pair_f16(float low, float high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

DEVICE u32 narrow_pair_bf16(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

DEVICE u32 larger_pair_f16(u32 a, u32 b) {
    u32 m;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
    return m;
}

DEVICE u32 larger_pair_bf16(u32 a, u32 b) {
    u32 m;
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
    return m;
}

#else

DEVICE u32 narrow_bf16(float x) {
    u32 b = bits_of(x);
    if ((b & 0x7fffffffu) > 0x7f800000u) return b >> 16 | 0x40u;
    return (b + 0x7fffu + (b >> 16 & 1u)) >> 16;
}

DEVICE u32 narrow_pair_f16(float low, float high) { return narrow_f16(low) | narrow_f16(high) << 16; }
DEVICE u32 narrow_pair_bf16(float low, float high) { return narrow_bf16(low) | narrow_bf16(high) << 16; }

// Stored values are ordered as numbers: the larger of two needs no rounding.
DEVICE u32 larger_pair_f16(u32 a, u32 b) {
    return narrow_pair_f16(larger(widen_f16(a & 0xffffu), widen_f16(b & 0xffffu)), larger(widen_f16(a >> 16), widen_f16(b >> 16)));
}

DEVICE u32 larger_pair_bf16(u32 a, u32 b) {
    return narrow_pair_bf16(larger(widen_bf16(a & 0xffffu), widen_bf16(b & 0xffffu)), larger(widen_bf16(a >> 16), widen_bf16(b >> 16)));
}

#endif

// E5M2 is the upper half of binary16. E4M3 has as many bits less of exponent as it has more
// of fraction: moved into place, it is 2^-8 of its value, subnormals included.
DEVICE float widen_e5m2(u32 b) { return widen_f16(b << 8); }
DEVICE float widen_e4m3(u32 b) {
    float x = widen_f16((b & 0x80u) << 8 | (b & 0x7fu) << 7) * 256.0f;
    return (b & 0x7fu) == 0x7fu ? float_of(0x7fc00000u) : x;
}

// One addition rounds results that are subnormal, as in narrow_f16. Beyond the largest value E5M2 has an
// infinity, and E4M3 a NaN: the pattern that follows.
DEVICE u32 narrow_e4m3(float x) {
    u32 sign = bits_of(x) >> 24 & 0x80u, rest = bits_of(x) & 0x7fffffffu;
    if (rest >= 0x43f00000u) return sign | 0x7fu; // 480, an infinity or NaN
    if (rest < 0x3c800000u) return sign | (bits_of(float_of(rest) + 16384.0f) - 0x46800000u);
    return sign | (rest - (120u << 23) + 0x7ffffu + (rest >> 20 & 1u)) >> 20;
}

DEVICE u32 narrow_e5m2(float x) {
    u32 sign = bits_of(x) >> 24 & 0x80u, rest = bits_of(x) & 0x7fffffffu;
    if (rest > 0x7f800000u) return sign | 0x7eu;
    if (rest >= 0x47700000u) return sign | 0x7cu; // 61440
    if (rest < 0x38800000u) return sign | (bits_of(float_of(rest) + 128.0f) - 0x43000000u);
    return sign | (rest - (112u << 23) + 0xfffffu + (rest >> 21 & 1u)) >> 21;
}

DEVICE float widen_f32(u32 b) { return float_of(b); }
DEVICE u32 narrow_f32(float x) { return bits_of(x); }

DEVICE float load_f16(const f16* at) { return widen_f16(*at); }
DEVICE float load_bf16(const bf16* at) { return widen_bf16(*at); }
DEVICE float load_f32(const f32* at) { return *at; }
DEVICE void store_f16(f16* at, float x) { *at = (f16)narrow_f16(x); }
DEVICE void store_bf16(bf16* at, float x) { *at = (bf16)narrow_bf16(x); }
DEVICE void store_f32(f32* at, float x) { *at = x; }
DEVICE void store_e4m3(e4m3* at, float x) { *at = (e4m3)narrow_e4m3(x); }
DEVICE void store_e5m2(e5m2* at, float x) { *at = (e5m2)narrow_e5m2(x); }
DEVICE void store_i32(i32* at, i32 x) { *at = x; }

DEVICE float round_f16(float x) { return widen_f16(narrow_f16(x)); }
DEVICE float round_bf16(float x) { return widen_bf16(narrow_bf16(x)); }
DEVICE float round_f32(float x) { return x; }

// Stochastic rounding: of the neighbours lo <= |x| < hi, hi if word < q, where
// q = floor((|x|-lo) / (hi-lo) · 2^32).
DEVICE float sround_f16(float x, i32 word) {
    u32 sign = bits_of(x) & 0x80000000u, rest = bits_of(x) & 0x7fffffffu;
    if (rest > 0x477fe000u) return round_f16(x); // beyond 65504, or NaN
    if (rest >= 0x38800000u) {
        u32 lo = rest & ~0x1fffu, q = rest << 19;
        return float_of(sign | ((u32)word < q ? lo + 0x2000u : lo));
    }
    float units = float_of(rest) * 0x1p24f; // of 2^-24, exactly
    u32 lo = (u32)units, q = (u32)((units - (float)lo) * 0x1p32f);
    return float_of(sign | bits_of((float)((u32)word < q ? lo + 1u : lo) * 0x1p-24f));
}

DEVICE float sround_bf16(float x, i32 word) {
    u32 sign = bits_of(x) & 0x80000000u, rest = bits_of(x) & 0x7fffffffu;
    if (rest > 0x7f7f0000u) return round_bf16(x);
    u32 lo = rest & 0xffff0000u, q = rest << 16;
    return float_of(sign | ((u32)word < q ? lo + 0x10000u : lo));
}

DEVICE float sround_f32(float x, i32) { return x; }

// ---- launches that overlap ----

// A kernel lets the next launch start, which waits for it where it needs what it wrote.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && !defined(TOKITAI_SIM)
#define START_NEXT() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define AWAIT_PREVIOUS() asm volatile("griddepcontrol.wait;" ::: "memory")
#else
#define START_NEXT()
#define AWAIT_PREVIOUS()
#endif

// Loads a word here: compilers would move the load to its first use, and then wait for it.
#if defined(__CUDA_ARCH__) && !defined(TOKITAI_SIM)
DEVICE u64 load_early(const u64* at) {
    u64 w;
    asm volatile("ld.global.u64 %0, [%1];" : "=l"(w) : "l"(at) : "memory");
    return w;
}
#else
DEVICE u64 load_early(const u64* at) { return *at; }
#endif

// ---- groups: eight neighbouring elements of a row, owned by one thread ----

struct Group8 {
    u32 w[2]; // four patterns each
};

struct Group16 {
    u32 w[4]; // two patterns each
};

struct Group32 {
    u32 w[8];
};

DEVICE float get_f16(const Group16& g, int j) { return widen_f16(g.w[j >> 1] >> 16 * (j & 1) & 0xffffu); }
DEVICE float get_bf16(const Group16& g, int j) { return widen_bf16(g.w[j >> 1] >> 16 * (j & 1) & 0xffffu); }
DEVICE float get_f32(const Group32& g, int j) { return float_of(g.w[j]); }
DEVICE i32 get_i32(const Group32& g, int j) { return (i32)g.w[j]; }

// The patterns of elements as they are stored.
DEVICE i32 get_stored(const Group16& g, int j) { return (i32)(g.w[j >> 1] >> 16 * (j & 1) & 0xffffu); }
DEVICE i32 get_stored(const Group32& g, int j) { return (i32)g.w[j]; }
DEVICE u32 word_of(u16 x) { return x; }
DEVICE u32 word_of(f32 x) { return bits_of(x); }
DEVICE u32 word_of(i32 x) { return (u32)x; }

// The quotient of two numbers of at least 0. A division of 64 bits takes a hundred instructions.
#if defined(__AMDGCN__) // whose compiler distinguishes them itself
DEVICE i64 quotient(i64 a, i64 b) { return a / b; }
#else
DEVICE i64 quotient(i64 a, i64 b) { return (u64)(a | b) >> 32 == 0 ? (i64)((u32)a / (u32)b) : a / b; }
#endif

// Load the first n of eight elements, and zeros for the others, one element per access;
// the vector forms load whole groups in accesses of 16 bytes.
DEVICE Group16 fetch16(const u16* at, int n) {
    Group16 g;
    UNROLL for (int i = 0; i < 4; i++)
        g.w[i] = (2 * i < n ? (u32)at[2 * i] : 0u) | (2 * i + 1 < n ? (u32)at[2 * i + 1] << 16 : 0u);
    return g;
}

template <class T>
DEVICE Group32 fetch32(const T* at, int n) {
    Group32 g;
    UNROLL for (int i = 0; i < 8; i++) g.w[i] = i < n ? word_of(at[i]) : 0u;
    return g;
}

// renew hides from the compiler that a kept group has not changed: otherwise it keeps the
// widened elements as well, which takes twice the registers there are.
#if defined(TOKITAI_SIM)
#define RENEW(WORD)
#elif defined(__HIP__)
#define RENEW(WORD) asm volatile("" : "+v"(WORD))
#else
#define RENEW(WORD) asm volatile("" : "+r"(WORD))
#endif

// pinned computes x here: otherwise the compiler moves a division into every branch that
// uses it.
#if defined(TOKITAI_SIM)
DEVICE float pinned(float x) { return x; }
#elif defined(__HIP__)
DEVICE float pinned(float x) {
    asm volatile("" : "+v"(x));
    return x;
}
#else
DEVICE float pinned(float x) {
    asm volatile("" : "+f"(x));
    return x;
}
#endif

DEVICE void renew(Group16& g) {
    UNROLL for (int i = 0; i < 4; i++) RENEW(g.w[i]);
}

// Load a whole group if it is inside the row, without a branch around the access, so that
// the accesses of several groups overlap.
DEVICE Group16 fetch16_whole(const u16* at, bool is_inside) {
    uint4_aligned a;
    if (is_inside) a = *reinterpret_cast<const uint4_aligned*>(at);
    return Group16{{a.x, a.y, a.z, a.w}};
}

template <class T>
DEVICE Group32 fetch32_whole(const T* at, bool is_inside) {
    uint4_aligned a, b;
    if (is_inside) a = reinterpret_cast<const uint4_aligned*>(at)[0], b = reinterpret_cast<const uint4_aligned*>(at)[1];
    return Group32{{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

// Makes each of N groups depend on all of them, so that all loads are issued before one is
// waited for: ptxas would move a load to its first use. Grids have one row of blocks, which
// compilers do not know.
template <int N, class G>
DEVICE void load_together(G* g) {
#if defined(__CUDA_ARCH__) && !defined(TOKITAI_SIM)
    if (N == 1) return;
    u32 words = 0;
    UNROLL for (int i = 0; i < N; i++) words |= g[i].w[0];
    words &= blockIdx.y;
    UNROLL for (int i = 0; i < N; i++)
        UNROLL for (u32 j = 0; j < sizeof(G) / 4; j++) g[i].w[j] |= words;
#endif
}

DEVICE Group16 fetch16_vector(const u16* at, int n) {
    if (n < 8) return fetch16(at, n);
    uint4_aligned a = *reinterpret_cast<const uint4_aligned*>(at);
    return Group16{{a.x, a.y, a.z, a.w}};
}

template <class T>
DEVICE Group32 fetch32_vector(const T* at, int n) {
    if (n < 8) return fetch32(at, n);
    uint4_aligned a = reinterpret_cast<const uint4_aligned*>(at)[0], b = reinterpret_cast<const uint4_aligned*>(at)[1];
    return Group32{{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

// Round a group of results to a storage format.
DEVICE Group16 group_f16(const float* x) {
    Group16 g;
    UNROLL for (int i = 0; i < 4; i++) g.w[i] = narrow_pair_f16(x[2 * i], x[2 * i + 1]);
    return g;
}

DEVICE Group16 group_bf16(const float* x) {
    Group16 g;
    UNROLL for (int i = 0; i < 4; i++) g.w[i] = narrow_pair_bf16(x[2 * i], x[2 * i + 1]);
    return g;
}

DEVICE Group8 group_e4m3(const float* x) {
    Group8 g = {{0, 0}};
    UNROLL for (int i = 0; i < 8; i++) g.w[i / 4] |= narrow_e4m3(x[i]) << 8 * (i % 4);
    return g;
}

DEVICE Group8 group_e5m2(const float* x) {
    Group8 g = {{0, 0}};
    UNROLL for (int i = 0; i < 8; i++) g.w[i / 4] |= narrow_e5m2(x[i]) << 8 * (i % 4);
    return g;
}

DEVICE Group32 group_f32(const float* x) {
    Group32 g;
    UNROLL for (int i = 0; i < 8; i++) g.w[i] = bits_of(x[i]);
    return g;
}

DEVICE Group32 group_i32(const i32* x) {
    Group32 g;
    UNROLL for (int i = 0; i < 8; i++) g.w[i] = (u32)x[i];
    return g;
}

DEVICE void put8(unsigned char* at, int n, const Group8& g) {
    UNROLL for (int i = 0; i < 8; i++)
        if (i < n) at[i] = (unsigned char)(g.w[i / 4] >> 8 * (i % 4));
}

DEVICE void put16(u16* at, int n, const Group16& g) {
    UNROLL for (int i = 0; i < 8; i++)
        if (i < n) at[i] = (u16)(g.w[i >> 1] >> 16 * (i & 1));
}

DEVICE void put32(f32* at, int n, const Group32& g) {
    UNROLL for (int i = 0; i < 8; i++)
        if (i < n) at[i] = float_of(g.w[i]);
}

DEVICE void put32(i32* at, int n, const Group32& g) {
    UNROLL for (int i = 0; i < 8; i++)
        if (i < n) at[i] = (i32)g.w[i];
}

DEVICE void put8_vector(unsigned char* at, int n, const Group8& g) {
    if (n < 8) return put8(at, n, g);
    *reinterpret_cast<Words2*>(at) = Words2{g.w[0], g.w[1]};
}

DEVICE void put16_vector(u16* at, int n, const Group16& g) {
    if (n < 8) return put16(at, n, g);
    *reinterpret_cast<uint4_aligned*>(at) = uint4_aligned{g.w[0], g.w[1], g.w[2], g.w[3]};
}

template <class T>
DEVICE void put32_vector(T* at, int n, const Group32& g) {
    if (n < 8) return put32(at, n, g);
    reinterpret_cast<uint4_aligned*>(at)[0] = uint4_aligned{g.w[0], g.w[1], g.w[2], g.w[3]};
    reinterpret_cast<uint4_aligned*>(at)[1] = uint4_aligned{g.w[4], g.w[5], g.w[6], g.w[7]};
}

// The same for groups that are not accessed again soon, so that caches keep what is.
#if defined(__CUDA_ARCH__) && !defined(TOKITAI_SIM)

DEVICE uint4_aligned load_passing(const void* at) {
    uint4_aligned a;
    asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a.x), "=r"(a.y), "=r"(a.z), "=r"(a.w) : "l"(at) : "memory");
    return a;
}

DEVICE void store_passing(void* at, u32 x, u32 y, u32 z, u32 w) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

#else

DEVICE uint4_aligned load_passing(const void* at) { return *static_cast<const uint4_aligned*>(at); }
DEVICE void store_passing(void* at, u32 x, u32 y, u32 z, u32 w) { *static_cast<uint4_aligned*>(at) = uint4_aligned{x, y, z, w}; }

#endif

DEVICE Group16 fetch16_passing(const u16* at, int) {
    uint4_aligned a = load_passing(at);
    return Group16{{a.x, a.y, a.z, a.w}};
}

template <class T>
DEVICE Group32 fetch32_passing(const T* at, int) {
    uint4_aligned a = load_passing(at), b = load_passing(at + 4);
    return Group32{{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

DEVICE void put8_passing(unsigned char* at, int, const Group8& g) { *reinterpret_cast<Words2*>(at) = Words2{g.w[0], g.w[1]}; }
DEVICE void put16_passing(u16* at, int, const Group16& g) { store_passing(at, g.w[0], g.w[1], g.w[2], g.w[3]); }

template <class T>
DEVICE void put32_passing(T* at, int, const Group32& g) {
    store_passing(at, g.w[0], g.w[1], g.w[2], g.w[3]);
    store_passing(at + 4, g.w[4], g.w[5], g.w[6], g.w[7]);
}

// A group of 32 bits in two quads that are STEP elements apart, each only if it is inside the
// row: the quads of neighbouring threads are neighbours, so that a warp accesses whole lines.
template <int STEP, class T>
DEVICE Group32 fetch32_quads(const T* at, bool first, bool second) {
    uint4_aligned a, b;
    if (first) a = *reinterpret_cast<const uint4_aligned*>(at);
    if (second) b = *reinterpret_cast<const uint4_aligned*>(at + STEP);
    return Group32{{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

template <int STEP, class T>
DEVICE void put32_quads(T* at, bool second, const Group32& g) {
    *reinterpret_cast<uint4_aligned*>(at) = uint4_aligned{g.w[0], g.w[1], g.w[2], g.w[3]};
    if (second) *reinterpret_cast<uint4_aligned*>(at + STEP) = uint4_aligned{g.w[4], g.w[5], g.w[6], g.w[7]};
}

// Four values, loaded and stored in one access.
struct alignas(16) Quad {
    float v[4];
} MAY_ALIAS;

// Eight values in two quads, a step apart.
DEVICE void put_terms(Quad* at, u32 step, const float* x) {
    at[0] = Quad{{x[0], x[1], x[2], x[3]}};
    at[step] = Quad{{x[4], x[5], x[6], x[7]}};
}

// Terms of int32 are patterns of floats there.
DEVICE void put_terms(Quad* at, u32 step, const i32* x) {
    at[0] = Quad{{float_of((u32)x[0]), float_of((u32)x[1]), float_of((u32)x[2]), float_of((u32)x[3])}};
    at[step] = Quad{{float_of((u32)x[4]), float_of((u32)x[5]), float_of((u32)x[6]), float_of((u32)x[7])}};
}

DEVICE void add_terms(i32* lane, const Quad* at, u32 step) {
    Quad low = at[0], high = at[step];
    UNROLL for (int j = 0; j < 4; j++) {
        lane[j] = int_add(lane[j], (i32)bits_of(low.v[j]));
        lane[4 + j] = int_add(lane[4 + j], (i32)bits_of(high.v[j]));
    }
}

DEVICE void add_own(i32* lane, const i32* x) {
    UNROLL for (int j = 0; j < 8; j++) lane[j] = int_add(lane[j], x[j]);
}

DEVICE void add_own(float* lane, const float* x) {
    UNROLL for (int j = 0; j < 8; j++) lane[j] = lane[j] + x[j];
}

DEVICE void add_terms(float* lane, const Quad* at, u32 step) {
    Quad low = at[0], high = at[step];
    UNROLL for (int j = 0; j < 4; j++) lane[j] = lane[j] + low.v[j], lane[4 + j] = lane[4 + j] + high.v[j];
}

// A thread copies groups from global to shared memory asynchronously, or zeros where they are
// outside the row (through the L1 cache: the halves of a group of 32 bits are one sector). It
// waits for all copies but those after its last commit.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(TOKITAI_SIM)

DEVICE void send_quad(uint4_aligned* to, const void* from, bool is_inside) {
    u32 at = (u32)__cvta_generic_to_shared(to), bytes = is_inside ? 16 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
}

DEVICE void staging_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
DEVICE void staging_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#else

DEVICE void send_quad(uint4_aligned* to, const void* from, bool is_inside) {
    *to = is_inside ? *static_cast<const uint4_aligned*>(from) : uint4_aligned{0, 0, 0, 0};
}

DEVICE void staging_commit() {}
template <int N>
DEVICE void staging_wait() {}

#endif

// Returns the slot of a row's group g, its first being in slot base of so many.
DEVICE u32 slot_of(u32 base, u32 g, u32 slots) { return base + g < slots ? base + g : base + g - slots; }

DEVICE void send16(uint4_aligned* to, u32, const u16* from, bool is_inside) { send_quad(to, from, is_inside); }

template <class T>
DEVICE void send32(uint4_aligned* to, u32 step, const T* from, bool is_inside) {
    send_quad(to, from, is_inside);
    send_quad(to + step, from + 4, is_inside);
}

template <int STEP, class T>
DEVICE void send32_quads(uint4_aligned* to, u32 step, const T* from, bool first, bool second) {
    send_quad(to, from, first);
    send_quad(to + step, from + STEP, second);
}

DEVICE Group16 staged16(const uint4_aligned* at, u32) { return Group16{{at->x, at->y, at->z, at->w}}; }

DEVICE Group32 staged32(const uint4_aligned* at, u32 step) {
    uint4_aligned a = at[0], b = at[step];
    return Group32{{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

// Returns how many of the eight elements from column c on are inside a row.
DEVICE int inside(u32 c, u32 columns) { return c >= columns ? 0 : columns - c < 8u ? (int)(columns - c) : 8; }

// ---- sums: lanes that start at +0, then a tree over neighbours ----

DEVICE void fill(float* s, float v) {
    UNROLL for (int j = 0; j < 8; j++) s[j] = v;
}

DEVICE void fill(i32* s, i32 v) {
    UNROLL for (int j = 0; j < 8; j++) s[j] = v;
}

// Eight neighbouring lanes.
DEVICE float tree(const float* s) { return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])); }

// The same for lanes that start with their first terms: where all are −0, they are +0.
DEVICE float tree_from_terms(const float* s) { return tree(s) + 0.0f; }

// Sums of int32 wrap, and have no order.
DEVICE i32 tree(const i32* s) {
    u32 sum = 0;
    UNROLL for (int j = 0; j < 8; j++) sum += (u32)s[j];
    return (i32)sum;
}

DEVICE i32 tree_from_terms(const i32* s) { return tree(s); }

DEVICE float largest(const float* s) {
    return larger(larger(larger(s[0], s[1]), larger(s[2], s[3])), larger(larger(s[4], s[5]), larger(s[6], s[7])));
}

DEVICE float smallest(const float* s) {
    return smaller(smaller(smaller(s[0], s[1]), smaller(s[2], s[3])), smaller(smaller(s[4], s[5]), smaller(s[6], s[7])));
}

// The maximum of pairs of stored values, found without widening them.
DEVICE void lowest_f16(u32* pairs) {
    UNROLL for (int i = 0; i < 4; i++) pairs[i] = 0xfc00fc00u;
}

DEVICE void lowest_bf16(u32* pairs) {
    UNROLL for (int i = 0; i < 4; i++) pairs[i] = 0xff80ff80u;
}

DEVICE void enlarge_f16(u32* pairs, const Group16& g) {
    UNROLL for (int i = 0; i < 4; i++) pairs[i] = larger_pair_f16(pairs[i], g.w[i]);
}

DEVICE void enlarge_bf16(u32* pairs, const Group16& g) {
    UNROLL for (int i = 0; i < 4; i++) pairs[i] = larger_pair_bf16(pairs[i], g.w[i]);
}

DEVICE float largest_f16(const u32* pairs) {
    u32 m = larger_pair_f16(larger_pair_f16(pairs[0], pairs[1]), larger_pair_f16(pairs[2], pairs[3]));
    return larger(widen_f16(m & 0xffffu), widen_f16(m >> 16));
}

DEVICE float largest_bf16(const u32* pairs) {
    u32 m = larger_pair_bf16(larger_pair_bf16(pairs[0], pairs[1]), larger_pair_bf16(pairs[2], pairs[3]));
    return larger(widen_bf16(m & 0xffffu), widen_bf16(m >> 16));
}

// Reductions over N neighbouring threads, N at most 32; each of them gets the result. The
// groups of a butterfly are the nodes of the tree over neighbours, and the sum of two values
// does not depend on their order.
template <int N>
DEVICE float threads_sum(float v) {
    UNROLL for (int d = 1; d < N; d *= 2) v = v + SHFL_XOR(v, d, 32);
    return v;
}

// The same where a thread has two quads of lanes, and the second quads follow those of all
// N threads.
template <int N>
DEVICE float threads_sum_quads(const float* s) {
    float low = (s[0] + s[1]) + (s[2] + s[3]), high = (s[4] + s[5]) + (s[6] + s[7]);
    return threads_sum<N>(low + 0.0f) + threads_sum<N>(high + 0.0f); // as in tree_from_terms
}

template <int N>
DEVICE i32 threads_sum(i32 v) {
    UNROLL for (int d = 1; d < N; d *= 2) v = int_add(v, SHFL_XOR(v, d, 32));
    return v;
}

template <int N>
DEVICE i32 threads_sum_quads(const i32* s) {
    return threads_sum<N>(tree(s));
}

template <int N>
DEVICE float threads_max(float v) {
    UNROLL for (int d = 1; d < N; d *= 2) v = larger(v, SHFL_XOR(v, d, 32));
    return v;
}

template <int N>
DEVICE float threads_min(float v) {
    UNROLL for (int d = 1; d < N; d *= 2) v = smaller(v, SHFL_XOR(v, d, 32));
    return v;
}

// Returns the value of the one thread that has it, bit for bit, where all others have +0.
template <int N>
DEVICE float threads_one(float v) {
    u32 b = bits_of(v);
    UNROLL for (int d = 1; d < N; d *= 2) b |= SHFL_XOR(b, d, 32);
    return float_of(b);
}

// ---- the column of an extreme ----

// A thread visits its columns in ascending order: only a better value replaces an earlier
// one. NaN is the best, and zeros are equal.
DEVICE void take_larger(float& best, i32& column, float x, u32 c) {
    if (!(x <= best) && best == best) best = x, column = (i32)c;
}

DEVICE void take_smaller(float& best, i32& column, float x, u32 c) {
    if (!(x >= best) && best == best) best = x, column = (i32)c;
}

// The results of threads are compared as 64-bit keys: the better value has the larger key,
// and among equal values the lower column.
DEVICE u64 larger_key(float x, i32 column) {
    u32 b = x == 0.0f ? 0u : bits_of(x);
    u32 order = x != x ? 0xffffffffu : b & 0x80000000u ? ~b : b | 0x80000000u;
    return (u64)order << 32 | ~(u32)column;
}

DEVICE u64 smaller_key(float x, i32 column) { return larger_key(-x, column); }

DEVICE i32 column_of(u64 key) { return (i32)~(u32)key; }

template <int N>
DEVICE u64 threads_key(u64 key) {
    UNROLL for (int d = 1; d < N; d *= 2) {
        u32 high = (u32)(key >> 32), low = (u32)key;
        u64 other = (u64)SHFL_XOR(high, d, 32) << 32 | SHFL_XOR(low, d, 32);
        key = other > key ? other : key;
    }
    return key;
}

// ---- the order of a row ----

// Returns a key that is smaller for elements that come first: 0 for NaN, then larger numbers before
// smaller ones, and one key for both zeros.
DEVICE u32 order_key(float x) {
    u32 b = bits_of(x);
    if (x != x) return 0;
    if (x == 0.0f) return 0x80000000u;
    return b >> 31 ? b : 0x7fffffffu - b;
}

// The ranks of a row of eight neighbouring elements for each of T threads, which are neighbours and at
// most 32, of whom so many have columns: of equal keys the lower column comes first, so that keys of earlier columns count up
// to the own one. No key is the largest number, with which threads fill up.
template <int T>
DEVICE void ranks(i32 rank[8], const u32 key[8], u32 t, u32 threads) {
    UNROLL for (int j = 0; j < 8; j++) rank[j] = 0;
    ROLLED for (u32 from = 0; from < threads; from++) {
        u32 other[8];
        UNROLL for (int i = 0; i < 8; i++) other[i] = SHFL_IDX(key[i], (int)from, T);
        UNROLL for (int j = 0; j < 8; j++) {
            const u32 later = key[j] + (from < t ? 1 : 0), earlier = key[j] + (from <= t ? 1 : 0);
            UNROLL for (int i = 0; i < 8; i++) rank[j] += other[i] < (i < j ? earlier : later) ? 1 : 0;
        }
    }
}

// The ranks below a limit of such a row, which all threads have in common; other elements have some rank
// from the limit on. One element after another is found: all threads together compare as many numbers as
// there are columns for each, and ranks as many for each column.
template <int T>
DEVICE void ranks_below(i32 limit, i32 rank[8], const u32 key[8], u32 t, u32 threads) {
    if (limit > (i32)(2 * threads)) {
        ranks<T>(rank, key, t, threads);
        return;
    }
    u32 left = 0xff;
    UNROLL for (int j = 0; j < 8; j++) rank[j] = 0x7fffffff;
    ROLLED for (i32 r = 0; r < limit; r++) {
        u32 own = 0xffffffffu;
        UNROLL for (int j = 0; j < 8; j++) own = (left >> j & 1) && key[j] < own ? key[j] : own;
        u32 least = own;
        UNROLL for (int d = 1; d < T; d *= 2) {
            const u32 other = SHFL_XOR(least, d, 32);
            least = other < least ? other : least;
        }
        u32 first = own == least ? t : (u32)T; // the thread with the lowest column of that key
        UNROLL for (int d = 1; d < T; d *= 2) {
            const u32 other = SHFL_XOR(first, d, 32);
            first = other < first ? other : first;
        }
        bool is_open = first == t;
        UNROLL for (int j = 0; j < 8; j++) {
            const bool is_next = is_open && (left >> j & 1) && key[j] == least;
            rank[j] = is_next ? r : rank[j];
            left ^= is_next ? 1u << j : 0u;
            is_open = is_open && !is_next;
        }
    }
}

// Returns the number of bits in the masks of threads before this one, of T threads that are neighbours.
template <int T>
DEVICE u32 count_before(u32 mask, u32 t) {
    u32 own = 0;
    UNROLL for (int j = 0; j < 8; j++) own += mask >> j & 1;
    u32 sum = own;
    UNROLL for (u32 d = 1; d < T; d *= 2) {
        const u32 other = SHFL_UP(sum, d, T);
        sum += t >= d ? other : 0;
    }
    return sum - own;
}

// Returns the number of bits in the masks of T threads.
template <int T>
DEVICE u32 count_all(u32 mask) {
    i32 own = 0;
    UNROLL for (int j = 0; j < 8; j++) own += (i32)(mask >> j & 1);
    return (u32)threads_sum<T>(own);
}

// ---- random words: Philox 4x32-10 ----

DEVICE void philox(u32 word[4], u32 key0, u32 key1, u32 c0, u32 c1, u32 c2, u32 c3) {
    UNROLL for (int round = 0; round < 10; round++) {
        u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ key0;
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ key1;
        c3 = (u32)p0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    word[0] = c0;
    word[1] = c1;
    word[2] = c2;
    word[3] = c3;
}

// Returns the number of element e, a flat index, where the first has that of two words.
DEVICE u64 number_from(i32 low, i32 high, u64 e) { return ((u64)(u32)high << 32 | (u32)low) + e; }

// Returns the word of a column, by the words of its row.
DEVICE i32 random_row_word(i32 seed_low, i32 seed_high, i32 a, i32 b, i32 use, u32 c) {
    u32 w[4];
    philox(w, (u32)seed_low, (u32)seed_high, c >> 2, (u32)a, (u32)b, (u32)use);
    u32 low = c & 1 ? w[1] : w[0], high = c & 1 ? w[3] : w[2];
    return (i32)(c & 2 ? high : low);
}

// Computes the words of eight neighbouring columns from c on, a multiple of 8.
DEVICE void random_row_words(i32 word[8], i32 seed_low, i32 seed_high, i32 a, i32 b, i32 use, u32 c) {
    u32 w[8];
    philox(w, (u32)seed_low, (u32)seed_high, c >> 2, (u32)a, (u32)b, (u32)use);
    philox(w + 4, (u32)seed_low, (u32)seed_high, (c >> 2) + 1, (u32)a, (u32)b, (u32)use);
    UNROLL for (int j = 0; j < 8; j++) word[j] = (i32)w[j];
}

// Returns the word of element e, a flat index.
DEVICE i32 random_word(i32 seed_low, i32 seed_high, i32 tensor, i32 step, u64 e) {
    u32 w[4];
    philox(w, (u32)seed_low, (u32)seed_high, (u32)(e >> 2), (u32)(e >> 34), (u32)tensor, (u32)step);
    u32 low = e & 1 ? w[1] : w[0], high = e & 1 ? w[3] : w[2];
    return (i32)(e & 2 ? high : low);
}

// Computes the words of eight neighbouring elements from e on: two blocks of four, or three.
DEVICE void random_words(i32 word[8], i32 seed_low, i32 seed_high, i32 tensor, i32 step, u64 e) {
    u32 w[12];
    int skip = (int)(e & 3);
    UNROLL for (int i = 0; i < 3; i++) {
        u64 block = (e + 4 * i) >> 2; // numbers of elements wrap
        if (i < 2 || skip > 0) philox(w + 4 * i, (u32)seed_low, (u32)seed_high, (u32)block, (u32)(block >> 32), (u32)tensor, (u32)step);
        else w[8] = w[9] = w[10] = w[11] = 0;
    }
    UNROLL for (int j = 0; j < 8; j++) {
        u32 a = skip & 1 ? w[j + 1] : w[j], b = skip & 1 ? w[j + 3 < 12 ? j + 3 : 11] : w[j + 2];
        word[j] = (i32)(skip & 2 ? b : a);
    }
}

#endif
