// What ordinary CUDA C++ needs to be compiled for the simulator by the host's compiler:
// qualifiers, vector types, f16 and bf16, warp and block intrinsics, atomics and mathematics.
// sim.h has threads, barriers and shuffles. What a GPU computes approximately is computed here
// with an error as large, or correctly rounded.
#ifndef TOKITAI_CUDA_H
#define TOKITAI_CUDA_H

#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <type_traits>

#include "sim.h" // after the system's headers: it hides what follows

#define __CUDACC__ 1
#define __CUDA_ARCH__ 800
#define __shared__ static __thread // all threads of a block are fibers of one thread
#define __constant__ static
#define __managed__
#define __grid_constant__
#define __align__(N) __attribute__((aligned(N)))
#define __builtin_align__(N) __attribute__((aligned(N)))
#define __maxnreg__(N)
#define __cluster_dims__(...)

typedef unsigned int uint;

// The shared memory whose size the launch gives; declarations of it become pointers to it.
extern "C" SIM_INTERNAL unsigned char tokitai_dynamic_shared[];

// ---- vector types ----

#define SIM_VECTORS(T, NAME, A2, A4)                                                                      \
    struct NAME##1 { T x; };                                                                              \
    struct alignas(A2) NAME##2 { T x, y; };                                                               \
    struct NAME##3 { T x, y, z; };                                                                        \
    struct alignas(A4) NAME##4 { T x, y, z, w; };                                                         \
    static inline NAME##1 make_##NAME##1(T x) { return NAME##1{x}; }                                      \
    static inline NAME##2 make_##NAME##2(T x, T y) { return NAME##2{x, y}; }                              \
    static inline NAME##3 make_##NAME##3(T x, T y, T z) { return NAME##3{x, y, z}; }                      \
    static inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return NAME##4{x, y, z, w}; }
SIM_VECTORS(signed char, char, 2, 4)
SIM_VECTORS(unsigned char, uchar, 2, 4)
SIM_VECTORS(short, short, 4, 8)
SIM_VECTORS(unsigned short, ushort, 4, 8)
SIM_VECTORS(int, int, 8, 16)
SIM_VECTORS(unsigned, uint, 8, 16)
SIM_VECTORS(long long, longlong, 16, 16)
SIM_VECTORS(unsigned long long, ulonglong, 16, 16)
SIM_VECTORS(float, float, 8, 16)
SIM_VECTORS(double, double, 16, 16)

// ---- bits ----

namespace sim {
template <class To, class From>
static inline To bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "other sizes");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}
} // namespace sim

static inline int __float_as_int(float x) { return sim::bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return sim::bits<unsigned>(x); }
static inline float __int_as_float(int x) { return sim::bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return sim::bits<float>(x); }
static inline long long __double_as_longlong(double x) { return sim::bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return sim::bits<double>(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
static inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (x >> i & 1u) << (31 - i);
    return r;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline int __mul24(int a, int b) { return a * b; }

// ---- f16 and bf16 ----

namespace sim {

struct Binary16 {
    static float widen(unsigned h) {
        unsigned sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
        if (rest >= 0x7c00u) return bits<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
        if (rest >= 0x400u) return bits<float>(sign | ((rest << 13) + (112u << 23)));
        return bits<float>(sign | bits<unsigned>((float)rest * 0x1p-24f));
    }
    static unsigned short narrow(float x) {
        unsigned sign = bits<unsigned>(x) >> 16 & 0x8000u, rest = bits<unsigned>(x) & 0x7fffffffu;
        if (rest > 0x7f800000u) return (unsigned short)(sign | 0x7fffu);
        if (rest >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);
        if (rest < 0x38800000u) return (unsigned short)(sign | (bits<unsigned>(bits<float>(rest) + 0.5f) - 0x3f000000u));
        return (unsigned short)(sign | (rest - (112u << 23) + 0xfffu + (rest >> 13 & 1u)) >> 13);
    }
};

struct Brain16 {
    static float widen(unsigned h) { return bits<float>(h << 16); }
    static unsigned short narrow(float x) {
        unsigned b = bits<unsigned>(x);
        if ((b & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
        return (unsigned short)((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
    }
};

// once rounds a double to a float such that rounding the float again gives what one rounding
// of the double gives: an inexact float is odd.
static inline float once(double x) {
    float f = (float)x;
    if ((double)f == x || x != x || __builtin_isinf(f)) return f;
    if (__builtin_fabs((double)f) > __builtin_fabs(x)) f = bits<float>(bits<unsigned>(f) - 1);
    return bits<float>(bits<unsigned>(f) | 1u);
}

// fused returns a·b + c of 16-bit values for one rounding to 16 bits: the product is exact, and
// an inexact sum is odd.
static inline float fused(float a, float b, float c) {
    double p = (double)a * b, s = p + c, t = s - p, error = (p - (s - t)) + (c - t);
    if (error != 0 && s == s && !__builtin_isinf(s) && !(bits<unsigned long long>(s) & 1)) {
        bool grows = (error > 0) == (s > 0);
        s = bits<double>(bits<unsigned long long>(s) + (grows ? 1 : -1));
    }
    return once(s);
}

// Small is a number of 16 bits. Arithmetic is rounded after each operation.
template <class Format>
struct Small {
    unsigned short pattern;
    Small() = default;
    template <class V, class = typename std::enable_if<std::is_arithmetic<V>::value>::type>
    Small(V v) : pattern(Format::narrow(std::is_same<V, float>::value ? (float)v : once((double)v))) {}
    operator float() const { return Format::widen(pattern); }
    static Small of(unsigned short pattern) {
        Small s;
        s.pattern = pattern;
        return s;
    }
    Small& operator+=(const Small& o) { return *this = *this + o; }
    Small& operator-=(const Small& o) { return *this = *this - o; }
    Small& operator*=(const Small& o) { return *this = *this * o; }
    Small& operator/=(const Small& o) { return *this = *this / o; }
    Small operator-() const { return of(pattern ^ 0x8000u); }
    Small operator+() const { return *this; }
    friend Small operator+(const Small& a, const Small& b) { return Small((float)a + (float)b); }
    friend Small operator-(const Small& a, const Small& b) { return Small((float)a - (float)b); }
    friend Small operator*(const Small& a, const Small& b) { return Small((float)a * (float)b); }
    friend Small operator/(const Small& a, const Small& b) { return Small((float)a / (float)b); }
    friend bool operator==(const Small& a, const Small& b) { return (float)a == (float)b; }
    friend bool operator!=(const Small& a, const Small& b) { return (float)a != (float)b; }
    friend bool operator<(const Small& a, const Small& b) { return (float)a < (float)b; }
    friend bool operator>(const Small& a, const Small& b) { return (float)a > (float)b; }
    friend bool operator<=(const Small& a, const Small& b) { return (float)a <= (float)b; }
    friend bool operator>=(const Small& a, const Small& b) { return (float)a >= (float)b; }
};

template <class S>
struct alignas(4) Pair {
    S x, y;
    Pair() = default;
    Pair(S x, S y) : x(x), y(y) {}
    friend Pair operator+(const Pair& a, const Pair& b) { return {a.x + b.x, a.y + b.y}; }
    friend Pair operator-(const Pair& a, const Pair& b) { return {a.x - b.x, a.y - b.y}; }
    friend Pair operator*(const Pair& a, const Pair& b) { return {a.x * b.x, a.y * b.y}; }
    friend Pair operator/(const Pair& a, const Pair& b) { return {a.x / b.x, a.y / b.y}; }
    Pair& operator+=(const Pair& o) { return *this = *this + o; }
    Pair& operator*=(const Pair& o) { return *this = *this * o; }
};

template <class F>
static inline Small<F> larger(Small<F> a, Small<F> b) {
    return a != a ? b : b != b ? a : (float)a == (float)b ? Small<F>::of(a.pattern & b.pattern) : (float)a > (float)b ? a : b;
}
template <class F>
static inline Small<F> smaller(Small<F> a, Small<F> b) {
    return a != a ? b : b != b ? a : (float)a == (float)b ? Small<F>::of(a.pattern | b.pattern) : (float)a < (float)b ? a : b;
}

} // namespace sim

typedef sim::Small<sim::Binary16> __half, half;
typedef sim::Small<sim::Brain16> __nv_bfloat16, nv_bfloat16;
typedef sim::Pair<__half> __half2, half2;
typedef sim::Pair<__nv_bfloat16> __nv_bfloat162, nv_bfloat162;
typedef __half __half_raw;

// Functions of both formats have one name.
#define SIM_OF_SMALL template <class F> static inline
SIM_OF_SMALL sim::Small<F> __hadd(sim::Small<F> a, sim::Small<F> b) { return a + b; }
SIM_OF_SMALL sim::Small<F> __hsub(sim::Small<F> a, sim::Small<F> b) { return a - b; }
SIM_OF_SMALL sim::Small<F> __hmul(sim::Small<F> a, sim::Small<F> b) { return a * b; }
SIM_OF_SMALL sim::Small<F> __hdiv(sim::Small<F> a, sim::Small<F> b) { return a / b; }
SIM_OF_SMALL sim::Small<F> __hneg(sim::Small<F> a) { return -a; }
SIM_OF_SMALL sim::Small<F> __habs(sim::Small<F> a) { return sim::Small<F>::of(a.pattern & 0x7fffu); }
SIM_OF_SMALL sim::Small<F> __hfma(sim::Small<F> a, sim::Small<F> b, sim::Small<F> c) { return sim::Small<F>(sim::fused(a, b, c)); }
SIM_OF_SMALL sim::Small<F> __hmax(sim::Small<F> a, sim::Small<F> b) { return sim::larger(a, b); }
SIM_OF_SMALL sim::Small<F> __hmin(sim::Small<F> a, sim::Small<F> b) { return sim::smaller(a, b); }
SIM_OF_SMALL sim::Small<F> __hmax_nan(sim::Small<F> a, sim::Small<F> b) { return a != a ? a : b != b ? b : sim::larger(a, b); }
SIM_OF_SMALL sim::Small<F> __hmin_nan(sim::Small<F> a, sim::Small<F> b) { return a != a ? a : b != b ? b : sim::smaller(a, b); }
SIM_OF_SMALL bool __heq(sim::Small<F> a, sim::Small<F> b) { return a == b; }
SIM_OF_SMALL bool __hne(sim::Small<F> a, sim::Small<F> b) { return a != b; }
SIM_OF_SMALL bool __hlt(sim::Small<F> a, sim::Small<F> b) { return a < b; }
SIM_OF_SMALL bool __hle(sim::Small<F> a, sim::Small<F> b) { return a <= b; }
SIM_OF_SMALL bool __hgt(sim::Small<F> a, sim::Small<F> b) { return a > b; }
SIM_OF_SMALL bool __hge(sim::Small<F> a, sim::Small<F> b) { return a >= b; }
SIM_OF_SMALL bool __hisnan(sim::Small<F> a) { return a != a; }
SIM_OF_SMALL int __hisinf(sim::Small<F> a) { return __builtin_isinf_sign((float)a); }
#define SIM_SMALL_FUNCTION(NAME, OF) SIM_OF_SMALL sim::Small<F> NAME(sim::Small<F> a) { return sim::Small<F>(OF((double)(float)a)); }
SIM_SMALL_FUNCTION(hexp, exp)
SIM_SMALL_FUNCTION(hexp2, exp2)
SIM_SMALL_FUNCTION(hlog, log)
SIM_SMALL_FUNCTION(hlog2, log2)
SIM_SMALL_FUNCTION(hsqrt, sqrt)
SIM_SMALL_FUNCTION(hrsqrt, 1.0 / sqrt)
SIM_SMALL_FUNCTION(hrcp, 1.0 /)
SIM_SMALL_FUNCTION(htanh, tanh)
SIM_SMALL_FUNCTION(hfloor, floor)
SIM_SMALL_FUNCTION(hceil, ceil)
SIM_SMALL_FUNCTION(hrint, rint)
#define SIM_PAIR(OP) sim::Pair<sim::Small<F>> a, sim::Pair<sim::Small<F>> b) { return {OP(a.x, b.x), OP(a.y, b.y)}
SIM_OF_SMALL sim::Pair<sim::Small<F>> __hadd2(SIM_PAIR(__hadd); }
SIM_OF_SMALL sim::Pair<sim::Small<F>> __hsub2(SIM_PAIR(__hsub); }
SIM_OF_SMALL sim::Pair<sim::Small<F>> __hmul2(SIM_PAIR(__hmul); }
SIM_OF_SMALL sim::Pair<sim::Small<F>> __h2div(SIM_PAIR(__hdiv); }
SIM_OF_SMALL sim::Pair<sim::Small<F>> __hmax2(SIM_PAIR(__hmax); }
SIM_OF_SMALL sim::Pair<sim::Small<F>> __hmin2(SIM_PAIR(__hmin); }
template <class S>
static inline sim::Pair<S> __hfma2(sim::Pair<S> a, sim::Pair<S> b, sim::Pair<S> c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
template <class S>
static inline sim::Pair<S> h2exp(sim::Pair<S> a) { return {hexp(a.x), hexp(a.y)}; }
template <class S>
static inline float __low2float(sim::Pair<S> a) { return a.x; }
template <class S>
static inline float __high2float(sim::Pair<S> a) { return a.y; }

static inline __half __float2half(float x) { return __half(x); }
static inline __half __float2half_rn(float x) { return __half(x); }
static inline __half __double2half(double x) { return __half(x); }
static inline float __half2float(__half x) { return x; }
static inline __half __int2half_rn(int x) { return __half(x); }
static inline int __half2int_rn(__half x) { return (int)rintf(x); }
static inline unsigned short __half_as_ushort(__half x) { return x.pattern; }
static inline __half __ushort_as_half(unsigned short x) { return __half::of(x); }
static inline float2 __half22float2(__half2 a) { return {a.x, a.y}; }
static inline __half2 __float22half2_rn(float2 a) { return {__half(a.x), __half(a.y)}; }
static inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
static inline __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
static inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
static inline __half2 __half2half2(__half x) { return {x, x}; }
static inline __half2 make_half2(__half x, __half y) { return {x, y}; }
static inline __half __low2half(__half2 a) { return a.x; }
static inline __half __high2half(__half2 a) { return a.y; }

static inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
static inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
static inline __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
static inline float __bfloat162float(__nv_bfloat16 x) { return x; }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.pattern; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return __nv_bfloat16::of(x); }
static inline float2 __bfloat1622float2(__nv_bfloat162 a) { return {a.x, a.y}; }
static inline __nv_bfloat162 __float22bfloat162_rn(float2 a) { return {__nv_bfloat16(a.x), __nv_bfloat16(a.y)}; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
static inline __nv_bfloat162 __float2bfloat162_rn(float x) { return {__nv_bfloat16(x), __nv_bfloat16(x)}; }
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
static inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
static inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
static inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
static inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }

// ---- mathematics ----

template <class A, class B, class = typename std::enable_if<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value>::type>
static inline typename std::common_type<A, B>::type max(A a, B b) {
    typename std::common_type<A, B>::type x = a, y = b;
    return x != x ? y : y > x ? y : x;
}
template <class A, class B, class = typename std::enable_if<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value>::type>
static inline typename std::common_type<A, B>::type min(A a, B b) {
    typename std::common_type<A, B>::type x = a, y = b;
    return x != x ? y : y < x ? y : x;
}

namespace sim {
static inline float inverse_root(float x) { return (float)(1.0 / sqrt((double)x)); }
static inline float divide_fast(float a, float b) { return fabsf(b) > 0x1p126f && fabsf(b) < INFINITY ? a * 0.0f : a / b; }
static inline float exp_fast(float x) { return exp2f(x * 1.4426950408889634f); }
static inline float log_fast(float x) { return log2f(x) * 0.6931471805599453f; }
static inline float log10_fast(float x) { return log2f(x) * 0.3010299956639812f; }
static inline float pow_fast(float a, float b) { return exp2f(b * log2f(a)); }
static inline void sine_and_cosine(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
} // namespace sim

// The C library has some of these names for itself.
#define rsqrtf sim::inverse_root
#define __expf sim::exp_fast
#define __logf sim::log_fast
#define __log2f log2f
#define __log10f sim::log10_fast
#define __exp10f(X) exp2f((X) * 3.321928094887362f)
#define __powf sim::pow_fast
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __sincosf sim::sine_and_cosine
#define __fdividef sim::divide_fast

static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float __frsqrt_rn(float x) { return sim::inverse_root(x); }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
static inline float normcdff(float x) { return (float)(0.5 * erfc(-(double)x * 0.7071067811865476)); }
static inline int __float2int_rn(float x) { return x != x ? 0 : x >= 0x1p31f ? INT_MAX : x < -0x1p31f ? INT_MIN : (int)rintf(x); }
static inline int __float2int_rz(float x) { return x != x ? 0 : x >= 0x1p31f ? INT_MAX : x < -0x1p31f ? INT_MIN : (int)x; }
static inline int __float2int_rd(float x) { return __float2int_rz(floorf(x)); }
static inline int __float2int_ru(float x) { return __float2int_rz(ceilf(x)); }
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned x) { return (float)x; }
static inline float __double2float_rn(double x) { return (float)x; }

// ---- threads ----

namespace sim {
SIM_INTERNAL void fence();
SIM_INTERNAL __attribute__((noreturn)) void fault(const char* file, int line, const char* what);

#define SIM_PLACE const char *file, int line
template <class V>
__forceinline__ V shuffle_by(Shuffle kind, SIM_PLACE, unsigned long long mask, V value, int by, int width = warpSize) {
    return shuffled(kind, mask, value, by, width, file, line);
}
__forceinline__ void warp_barrier_of(SIM_PLACE, unsigned long long mask = ALL_LANES) { warp_barrier(mask, file, line); }
static inline bool any_of(SIM_PLACE, unsigned long long mask, bool p) { return ballot(mask, p, file, line) != 0; }
static inline bool all_of(SIM_PLACE, unsigned long long mask, bool p) { return ballot(mask, !p, file, line) == 0; }

// reduced combines the values of a mask's lanes.
template <class V, class F>
static inline V reduced(SIM_PLACE, unsigned long long mask, V value, F combine) {
    V result = value;
    bool is_first = true;
    for (int lane = 0; lane < warpSize; lane++) {
        if (!(mask >> lane & 1)) continue;
        V other = shuffled(IDX, mask, value, lane, warpSize, file, line);
        result = is_first ? other : combine(result, other);
        is_first = false;
    }
    return result;
}

// Votes of a block go through words of its shared memory.
static __thread int votes[2];
static inline int block_count(SIM_PLACE, bool p) {
    barrier(file, line);
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) votes[0] = 0;
    barrier(file, line);
    atomic_add(&votes[0], (int)p, file, line);
    barrier(file, line);
    return votes[0];
}
static inline int block_threads() { return (int)(blockDim.x * blockDim.y * blockDim.z); }
} // namespace sim

#undef __syncwarp
#undef __shfl_down_sync
#undef __shfl_up_sync
#undef __shfl_xor_sync
#undef __shfl_sync
#define __syncwarp(...) sim::warp_barrier_of(__FILE__, __LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define __shfl_down_sync(...) sim::shuffle_by(sim::DOWN, __FILE__, __LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) sim::shuffle_by(sim::UP, __FILE__, __LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) sim::shuffle_by(sim::XOR, __FILE__, __LINE__, __VA_ARGS__)
#define __shfl_sync(...) sim::shuffle_by(sim::IDX, __FILE__, __LINE__, __VA_ARGS__)
#define __any_sync(MASK, P) sim::any_of(__FILE__, __LINE__, MASK, P)
#define __all_sync(MASK, P) sim::all_of(__FILE__, __LINE__, MASK, P)
#define __reduce_add_sync(MASK, V) sim::reduced(__FILE__, __LINE__, MASK, V, [](auto a, auto b) { return a + b; })
#define __reduce_max_sync(MASK, V) sim::reduced(__FILE__, __LINE__, MASK, V, [](auto a, auto b) { return a > b ? a : b; })
#define __reduce_min_sync(MASK, V) sim::reduced(__FILE__, __LINE__, MASK, V, [](auto a, auto b) { return a < b ? a : b; })
#define __syncthreads_count(P) sim::block_count(__FILE__, __LINE__, P)
#define __syncthreads_or(P) (sim::block_count(__FILE__, __LINE__, P) != 0)
#define __syncthreads_and(P) (sim::block_count(__FILE__, __LINE__, !(P)) == 0)
#define __threadfence() sim::fence()
#define __threadfence_system() sim::fence()
#define __threadfence_block() ((void)0)
#define __trap() sim::fault(__FILE__, __LINE__, "the kernel calls __trap")
#undef assert
#define assert(CONDITION) ((CONDITION) ? (void)0 : sim::fault(__FILE__, __LINE__, "the assertion " #CONDITION " fails"))
#define printf(...) ((void)fprintf(stderr, __VA_ARGS__)) // standard output belongs to the program

static inline void __nanosleep(unsigned) {}
template <class V> static inline V __ldg(const V* p) { return *p; }
template <class V> static inline V __ldcs(const V* p) { return *p; }
template <class V> static inline V __ldcg(const V* p) { return *p; }
template <class V> static inline V __ldca(const V* p) { return *p; }
template <class V> static inline void __stcs(V* p, V v) { *p = v; }
template <class V> static inline void __stcg(V* p, V v) { *p = v; }

// ---- atomics ----

namespace sim {
template <class V, class F>
__attribute__((noinline, no_sanitize("thread"))) static V updated(V* at, F next, const char* file, int line) {
    atomic_access(at, sizeof(V), file, line);
    V old, made;
    __builtin_memcpy(&old, at, sizeof(V));
    made = next(old);
    __builtin_memcpy(at, &made, sizeof(V));
    return old;
}
template <class V> struct Plain { typedef V type; }; // not deduced
#define SIM_ATOMIC(NAME, NEXT)                                                     \
    template <class V>                                                             \
    static inline V NAME(SIM_PLACE, V* at, typename Plain<V>::type v) {            \
        return updated(at, [=](V old) -> V { return NEXT; }, file, line);          \
    }
SIM_ATOMIC(add, old + v)
SIM_ATOMIC(sub, old - v)
SIM_ATOMIC(maximum, old < v ? v : old)
SIM_ATOMIC(minimum, v < old ? v : old)
SIM_ATOMIC(exchanged, v)
SIM_ATOMIC(bits_and, old& v)
SIM_ATOMIC(bits_or, old | v)
SIM_ATOMIC(bits_xor, old ^ v)
SIM_ATOMIC(incremented, old >= v ? 0 : old + 1)
SIM_ATOMIC(decremented, old == 0 || old > v ? v : old - 1)
template <class V>
static inline bool bits_equal(V a, V b) { return __builtin_memcmp(&a, &b, sizeof(V)) == 0; }
template <class V>
static inline V compared(SIM_PLACE, V* at, typename Plain<V>::type expected, typename Plain<V>::type v) {
    return updated(at, [=](V old) -> V { return bits_equal(old, expected) ? v : old; }, file, line);
}
} // namespace sim

#define atomicAdd(...) sim::add(__FILE__, __LINE__, __VA_ARGS__)
#define atomicSub(...) sim::sub(__FILE__, __LINE__, __VA_ARGS__)
#define atomicMax(...) sim::maximum(__FILE__, __LINE__, __VA_ARGS__)
#define atomicMin(...) sim::minimum(__FILE__, __LINE__, __VA_ARGS__)
#define atomicExch(...) sim::exchanged(__FILE__, __LINE__, __VA_ARGS__)
#define atomicAnd(...) sim::bits_and(__FILE__, __LINE__, __VA_ARGS__)
#define atomicOr(...) sim::bits_or(__FILE__, __LINE__, __VA_ARGS__)
#define atomicXor(...) sim::bits_xor(__FILE__, __LINE__, __VA_ARGS__)
#define atomicInc(...) sim::incremented(__FILE__, __LINE__, __VA_ARGS__)
#define atomicDec(...) sim::decremented(__FILE__, __LINE__, __VA_ARGS__)
#define atomicCAS(...) sim::compared(__FILE__, __LINE__, __VA_ARGS__)
#define atomicAdd_block atomicAdd
#define atomicAdd_system atomicAdd

// ---- calls ----

namespace sim {

// argument reads an argument of type A from position `at` on, aligned, and moves the position.
template <class A>
static inline A argument(const unsigned char* bytes, size_t& at) {
    at = (at + alignof(A) - 1) / alignof(A) * alignof(A);
    typename std::remove_cv<A>::type value;
    __builtin_memcpy(&value, bytes + at, sizeof(A));
    at += sizeof(A);
    return value;
}

// call calls a kernel with arguments laid out as in a struct.
template <class... A>
static inline void call(void (*kernel)(A...), Bytes bytes) {
    const unsigned char* data = static_cast<const unsigned char*>(bytes.data) + 8;
    size_t at = 0;
    (void)data, (void)at;
    struct Run {
        void (*kernel)(A...);
        Run(void (*kernel)(A...), A... a) { kernel(a...); }
    } run{kernel, argument<A>(data, at)...}; // in braces, which are evaluated in order
    (void)run;
}

} // namespace sim

#define SIM_FOREIGN_KERNEL(NUMBER, NAME, ...)                                                           \
    static void sim_run_##NUMBER(sim::Bytes bytes) { sim::call(&__VA_ARGS__, bytes); }                 \
    static sim::Entry sim_entry_##NUMBER(NAME, 1024, 1, sim_run_##NUMBER);

#endif
