// Runs divide and square_root as they are compiled for AMD GPUs on this processor, whose own
// results are correctly rounded, with approximations off by up to one unit in the last
// place, as AMD's documents allow.
//
// Requires  arithmetic.h: the functions, from prelude.h
// Usage     amd_arithmetic STRIDE, of the fractions that are tried

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned u32;
typedef unsigned long long u64;

static inline u32 bits_of(float x) {
    u32 b;
    memcpy(&b, &x, 4);
    return b;
}

static inline float float_of(u32 b) {
    float x;
    memcpy(&x, &b, 4);
    return x;
}

// ---- the instructions ----

static int variation; // units in the last place by which approximations are off

static inline double power_of_two(int n) {
    u64 b = (u64)(1023 + n) << 52;
    double x;
    memcpy(&x, &b, 8);
    return x;
}

static inline bool is_finite(float x) { return (bits_of(x) & 0x7f800000u) != 0x7f800000u; }

// Products by powers of two are exact in binary64, and rounded once.
static inline float ldexp_instruction(float x, int n) {
    if (n < -400) n = -400;
    return n > 400 ? (float)(x * power_of_two(400)) : (float)(x * power_of_two(n));
}

static inline int frexp_exp_instruction(float x) {
    if (x == 0.0f || !is_finite(x)) return 0;
    double d = x;
    u64 b;
    memcpy(&b, &d, 8);
    return (int)(b >> 52 & 0x7ff) - 1022;
}

static inline float frexp_mant_instruction(float x) {
    if (x == 0.0f || !is_finite(x)) return x;
    return (float)(x * power_of_two(-frexp_exp_instruction(x)));
}

// Returns a value near the exact one that is within one unit of it, given its residual.
static inline float rcp_instruction(float x) {
    float nearest = 1.0f / x;
    if (!variation || x == 0.0f || !is_finite(x) || !is_finite(nearest)) return nearest;
    float varied = float_of(bits_of(nearest) + variation);
    double unit = power_of_two(frexp_exp_instruction(nearest) - 24);
    return fabs(1.0 - (double)varied * x) <= unit * fabs((double)x) ? varied : nearest;
}

static inline float sqrt_instruction(float x) {
    float nearest = sqrtf(x);
    if (!variation || !(x > 0.0f) || !is_finite(x)) return nearest;
    float varied = float_of(bits_of(nearest) + variation);
    double unit = power_of_two(frexp_exp_instruction(nearest) - 24);
    return fabs(sqrt((double)x) - varied) <= unit ? varied : nearest;
}

static inline float div_fixup_instruction(float quotient, float divisor, float dividend) {
    if (dividend != dividend || divisor != divisor) return NAN;
    bool is_negative = (bits_of(divisor) ^ bits_of(dividend)) >> 31;
    float magnitude = fabsf(quotient);
    if (divisor == 0.0f || !is_finite(dividend)) {
        if (dividend == 0.0f || !is_finite(divisor)) return NAN;
        magnitude = INFINITY;
    } else if (dividend == 0.0f || !is_finite(divisor)) {
        magnitude = 0.0f;
    }
    return is_negative ? -magnitude : magnitude;
}

#define __builtin_amdgcn_rcpf rcp_instruction
#define __builtin_amdgcn_sqrtf sqrt_instruction
#define __builtin_amdgcn_ldexpf ldexp_instruction
#define __builtin_amdgcn_frexp_expf frexp_exp_instruction
#define __builtin_amdgcn_frexp_mantf frexp_mant_instruction
#define __builtin_amdgcn_div_fixupf div_fixup_instruction
#define DEVICE static inline
#define INFINITE float_of(0x7f800000u)
#include "arithmetic.h"

// ---- comparisons ----

static u64 tried, wrong;

static void compare(const char* what, float a, float b, float got, float want) {
    tried++;
    if (bits_of(got) == bits_of(want) || (got != got && want != want)) return;
    if (!wrong++) printf("%s of %a and %a, approximation off by %d: got %a, want %a\n", what, a, b, variation, got, want);
}

static void try_quotient(float a, float b) {
    for (variation = -1; variation <= 1; variation++) compare("quotient", a, b, divide(a, b), a / b);
}

static void try_root(float x) {
    for (variation = -1; variation <= 1; variation++) compare("square root", x, x, square_root(x), sqrtf(x));
}

static u64 state = 1;

static u32 random_word() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (u32)(state >> 32);
}

// A dividend whose quotient by b is next to halfway between two results with so many bits.
static float hard_dividend(float b, int bits) {
    u32 odd = (random_word() >> (32 - bits) | 1u << (bits - 1)) * 2 + 1;
    return (float)((double)b * odd);
}

static void quotients(u32 stride) {
    for (u32 fraction = random_word() % stride; fraction < 1u << 23; fraction += stride) {
        float b = float_of(0x3f800000u | fraction);
        for (int i = 0; i < 2; i++) {
            try_quotient(float_of(0x3f800000u | random_word() >> 9), b);
            try_quotient(hard_dividend(b, 24), b);
        }
        // Subnormal results of 1 to 23 bits, and none.
        int bits = (int)(random_word() % 25);
        float a = bits == 0 ? b : hard_dividend(b, bits > 24 ? 24 : bits);
        int exponent = (int)(random_word() % 120);
        float divisor = (float)(b * power_of_two(exponent));
        try_quotient((float)(a * power_of_two(exponent - 150)), divisor);
        try_quotient(float_of(bits_of((float)(a * power_of_two(exponent - 150))) + 1), divisor);
        try_quotient(float_of(0x7f7fffffu - (random_word() & 7)), (float)(b * power_of_two(-(int)(random_word() % 3)))); // near overflow
    }
    // The divisors of which the reciprocal is hardest.
    for (u32 i = 0; i < 1u << 23; i += stride) {
        try_quotient(float_of(0x3f800000u | i), float_of(0x3fffffffu));
        try_quotient(float_of(0x3f800000u | i), float_of(0x3f800000u));
        try_quotient(float_of(i), float_of(0x3fffffffu));
    }
    for (u32 i = 0; i < (1u << 25) / stride; i++) try_quotient(float_of(random_word()), float_of(random_word()));
    const u32 special[] = {0, 1, 2, 3, 0x400000, 0x7fffff, 0x800000, 0x800001, 0xffffff, 0x1000000, 0x3effffff, 0x3f000000, 0x3f7fffff, 0x3f800000, 0x3f800001,
                           0x3fffffff, 0x40000000, 0x7e7fffff, 0x7e800000, 0x7effffff, 0x7f000000, 0x7f7fffff, 0x7f800000, 0x7fc00000};
    for (u32 a : special)
        for (u32 b : special)
            for (u32 sign = 0; sign < 4; sign++) try_quotient(float_of(a | sign << 31), float_of(b | sign >> 1 << 31));
}

static void roots(u32 stride) {
    for (u32 i = random_word() % stride; i < 1u << 24; i += stride) {
        try_root(float_of(0x3f800000u + i)); // two binades: their square roots have all fractions
        try_root(float_of(i));               // zero, subnormals, the smallest normals
        try_root(float_of(0x7f800000u - i)); // infinity, the largest
    }
    try_root(NAN);
    try_root(-0.0f);
    try_root(-1.0f);
    try_root(-INFINITY);
}

int main(int argc, char** argv) {
    u32 stride = argc > 1 ? (u32)atoi(argv[1]) : 1;
    quotients(stride);
    roots(stride);
    printf("%llu tried, %llu wrong\n", tried, wrong);
    return wrong ? 1 : 0;
}
