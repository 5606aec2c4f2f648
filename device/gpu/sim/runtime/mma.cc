// The arithmetic of mma.h.
#include "mma.h"

namespace sim {

inline double power_of_two(int exponent) {
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double d;
    memcpy(&d, &bits, sizeof(d));
    return d;
}

// truncate returns a sum, truncated toward zero to binary32 with so many fractional bits; zero
// is +0.
inline float truncate(double sum, int fraction) {
    if (__builtin_fabs(sum) < 0x1p-126) {
        return (float)((double)(int64_t)(sum * power_of_two(126 + fraction)) * power_of_two(-126 - fraction));
    }
    uint64_t bits;
    memcpy(&bits, &sum, sizeof(bits));
    bits &= ~((1ull << (52 - fraction)) - 1);
    memcpy(&sum, &bits, sizeof(sum));
    return (float)sum; // exact, or infinite from 2^128 on
}

void unpack(Left& l, const Format& f) {
    l.is_special = false;
    for (int k = 0; k < f.depth; k++) {
        l.value[k] = f.value(l.pattern[k]), l.exponent[k] = f.exponent(l.pattern[k]);
        l.is_special |= f.is_special(l.pattern[k]);
    }
}

void unpack(Right& r, const Format& f, int columns) {
    memset(r.is_special, 0, sizeof(r.is_special));
    for (int k = 0; k < f.depth; k++) {
        for (int n = 0; n < columns; n++) {
            r.value[k][n] = f.value(r.pattern[k][n]), r.exponent[k][n] = f.exponent(r.pattern[k][n]);
        }
        for (int n = 0; n < columns; n++) {
            r.is_special[n / MMA_BLOCK] |= f.is_special(r.pattern[k][n]);
        }
    }
}

inline int exponent_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    int field = bits >> 23 & 255;
    return (bits << 1) == 0 ? LEAST_ALIGNMENT : (field == 0 ? 1 : field) - 127;
}

// step_slowly adds products k to k+count of a row and a column, whatever they are.
inline float step_slowly(const Format& f, const Left& l, const Right& r, int n, int k, int count, Model m, float acc) {
    float special = acc - acc != 0 ? acc : 0;
    int largest = exponent_of(acc);
    largest = largest < LEAST_ALIGNMENT ? LEAST_ALIGNMENT : largest;
    for (int i = k; i < k + count; i++) {
        uint16_t x = l.pattern[i], y = r.pattern[i][n];
        if (f.is_special(x) || f.is_special(y)) {
            special += f.single(x) * f.single(y);
        }
        int e = l.exponent[i] + r.exponent[i][n];
        largest = e > largest ? e : largest;
    }
    if (special != special) {
        uint32_t nan = 0x7fffffff; // the only NaN that the devices return
        memcpy(&special, &nan, sizeof(nan));
        return special;
    }
    if (special != 0) {
        return special;
    }
    double scale = power_of_two(m.bits - largest);
    int64_t sum = (int64_t)(acc * scale);
    for (int i = k; i < k + count; i++) {
        sum += (int64_t)(l.value[i] * r.value[i][n] * scale);
    }
    return truncate((double)sum * power_of_two(largest - m.bits), m.result);
}

// Narrow and Wide are vectors of as many values.
struct Narrow {
    static const int COUNT = 2;
    typedef double Doubles __attribute__((vector_size(16)));
    typedef float Floats __attribute__((vector_size(8)));
    typedef int Ints __attribute__((vector_size(8)));
    typedef long long Longs __attribute__((vector_size(16)));
};

struct Wide {
    static const int COUNT = 4;
    typedef double Doubles __attribute__((vector_size(32)));
    typedef float Floats __attribute__((vector_size(16)));
    typedef int Ints __attribute__((vector_size(16)));
    typedef long long Longs __attribute__((vector_size(32)));
};

// step adds L products of a row to V::COUNT accumulators, those of the columns from n on. All
// are finite. Values are exact in binary64; eight aligned products have a sum of 31 bits.
template <int L, class V>
__attribute__((always_inline)) inline void step(const Left& l, const Right& r, const short* largest, int n, int k, Model m, float* acc) {
    typedef typename V::Doubles Doubles;
    typedef typename V::Ints Ints;
    typedef typename V::Longs Longs;
    Longs exponent;
    for (int i = 0; i < V::COUNT; i++) {
        exponent[i] = largest[i];
    }
    Doubles scale, unit;
    Longs scale_bits = (m.bits - exponent + 1023) << 52, unit_bits = (exponent - m.bits + 1023) << 52;
    memcpy(&scale, &scale_bits, sizeof(scale)), memcpy(&unit, &unit_bits, sizeof(unit));
    typename V::Floats c;
    memcpy(&c, acc, sizeof(c));
    Ints old = __builtin_convertvector(__builtin_convertvector(c, Doubles) * scale, Ints);
    Doubles sum = __builtin_convertvector(old, Doubles);
    for (int begin = k; begin < k + L; begin += 8) {
        Ints part = {};
        for (int i = begin; i < begin + (L < 8 ? L : 8); i++) {
            Doubles factor;
            memcpy(&factor, &r.value[i][n], sizeof(factor));
            part += __builtin_convertvector(l.value[i] * factor * scale, Ints);
        }
        sum += __builtin_convertvector(part, Doubles);
    }
    sum *= unit;
    bool is_small = false;
    for (int i = 0; i < V::COUNT; i++) {
        is_small |= __builtin_fabs(sum[i]) < 0x1p-126;
    }
    if (__builtin_expect(is_small, 0)) {
        for (int i = 0; i < V::COUNT; i++) {
            acc[i] = truncate(sum[i], m.result);
        }
        return;
    }
    Longs kept;
    memcpy(&kept, &sum, sizeof(kept));
    kept &= ~((1ll << (52 - m.result)) - 1);
    memcpy(&sum, &kept, sizeof(sum));
    c = __builtin_convertvector(sum, typename V::Floats);
    memcpy(acc, &c, sizeof(c));
}

// align finds the exponents at which L products of a row are aligned with MMA_BLOCK accumulators.
template <int L>
__attribute__((always_inline)) inline void align(const Left& l, const Right& r, int n, int k, const float* acc, short* result) {
    typedef short Shorts __attribute__((vector_size(2 * MMA_BLOCK)));
    Shorts largest;
    for (int i = 0; i < MMA_BLOCK; i++) {
        result[i] = (short)exponent_of(acc[i]); // never below the least
    }
    memcpy(&largest, result, sizeof(largest));
    for (int i = k; i < k + L; i++) {
        Shorts e;
        memcpy(&e, &r.exponent[i][n], sizeof(e));
        e += l.exponent[i];
        largest = e > largest ? e : largest;
    }
    memcpy(result, &largest, sizeof(largest));
}

template <int L, class V>
__attribute__((always_inline)) inline void multiply_rows(const Format& f, const Left* left, int rows, const Right& right, int columns, Model m, float (*acc)[MMA_COLUMNS]) {
    for (int n = 0; n < columns; n += MMA_BLOCK) {
        for (int row = 0; row < rows; row++) {
            const Left& l = left[row];
            float* c = acc[row] + n;
            for (int k = 0; k < f.depth; k += L) {
                bool is_special = l.is_special || right.is_special[n / MMA_BLOCK];
                for (int i = 0; i < MMA_BLOCK; i++) {
                    is_special |= !(__builtin_fabsf(c[i]) <= 0x1.fffffep127f);
                }
                if (!is_special) {
                    short largest[MMA_BLOCK];
                    align<L>(l, right, n, k, c, largest);
                    for (int i = 0; i < MMA_BLOCK; i += V::COUNT) {
                        step<L, V>(l, right, largest + i, n + i, k, m, c + i);
                    }
                    continue;
                }
                for (int i = 0; i < MMA_BLOCK; i++) {
                    c[i] = step_slowly(f, l, right, n + i, k, L, m, c[i]);
                }
            }
        }
    }
}

template <int L>
void multiply_plainly(const Format& f, const Left* left, int rows, const Right& right, int columns, Model m, float (*acc)[MMA_COLUMNS]) {
    multiply_rows<L, Narrow>(f, left, rows, right, columns, m, acc);
}

#if defined(__x86_64__)
template <int L>
__attribute__((target("avx2"))) void multiply_avx2(const Format& f, const Left* left, int rows, const Right& right, int columns, Model m, float (*acc)[MMA_COLUMNS]) {
    multiply_rows<L, Wide>(f, left, rows, right, columns, m, acc);
}
#endif

template <int L>
Multiply fastest() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return multiply_avx2<L>;
#endif
    return multiply_plainly<L>;
}

void multiply_bytes(const Left* left, int rows, const Right& right, int columns, float (*acc)[MMA_COLUMNS]) {
    for (int row = 0; row < rows; row++) {
        for (int n = 0; n < columns; n++) {
            uint32_t sum;
            memcpy(&sum, &acc[row][n], sizeof(sum));
            for (int k = 0; k < 32; k++) {
                sum += (uint32_t)((int8_t)left[row].pattern[k] * (int8_t)right.pattern[k][n]);
            }
            memcpy(&acc[row][n], &sum, sizeof(sum));
        }
    }
}

Multiply multiplication(int step, int bits) {
    static const Multiply of_32 = fastest<32>(), of_16 = fastest<16>(), of_8 = fastest<8>(), of_4 = fastest<4>();
    if (bits < 1 || bits > 26) {
        return nullptr;
    }
    return step == 32 ? of_32 : step == 16 ? of_16 : step == 8 ? of_8 : step == 4 ? of_4 : nullptr;
}

} // namespace sim
