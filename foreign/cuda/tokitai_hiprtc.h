// What hipcc includes before every source and hipRTC lacks: constants of the C library, and
// bf16, for which hipRTC needs a file of ROCm's.
#ifndef TOKITAI_HIPRTC_H
#define TOKITAI_HIPRTC_H

#include "tokitai_hip_names.h"

#ifndef INFINITY
#define INFINITY __builtin_huge_valf()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif
#ifndef HUGE_VALF
#define HUGE_VALF INFINITY
#endif
#ifndef FLT_MAX
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#endif
#ifndef INT_MAX
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif

// __hip_bfloat16 is rounded to nearest, ties to even, after each operation.
struct __hip_bfloat16 {
    unsigned short data;
    __hip_bfloat16() = default;
    __device__ __hip_bfloat16(float x) {
        unsigned b = __builtin_bit_cast(unsigned, x);
        data = (b & 0x7fffffffu) > 0x7f800000u ? 0x7fff : (unsigned short)((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
    }
    __device__ operator float() const { return __builtin_bit_cast(float, (unsigned)data << 16); }
    __device__ friend __hip_bfloat16 operator+(__hip_bfloat16 a, __hip_bfloat16 b) { return (float)a + (float)b; }
    __device__ friend __hip_bfloat16 operator-(__hip_bfloat16 a, __hip_bfloat16 b) { return (float)a - (float)b; }
    __device__ friend __hip_bfloat16 operator*(__hip_bfloat16 a, __hip_bfloat16 b) { return (float)a * (float)b; }
    __device__ friend __hip_bfloat16 operator/(__hip_bfloat16 a, __hip_bfloat16 b) { return (float)a / (float)b; }
    __device__ __hip_bfloat16& operator+=(__hip_bfloat16 b) { return *this = *this + b; }
    __device__ __hip_bfloat16& operator-=(__hip_bfloat16 b) { return *this = *this - b; }
    __device__ __hip_bfloat16& operator*=(__hip_bfloat16 b) { return *this = *this * b; }
};
static inline __device__ __hip_bfloat16 __float2bfloat16(float x) { return x; }
static inline __device__ float __bfloat162float(__hip_bfloat16 x) { return x; }

#endif
