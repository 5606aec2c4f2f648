// The models mma(L,F) and mma(L,F,R) of num/mma.go, for matrices, and products of bytes, which are exact. Models: steps of L products, each
// exact, aligned at the largest exponent of products and accumulator or at -133, truncated to
// F fractional bits there; the exact sum is truncated to binary32, or to R fractional bits.
#ifndef TOKITAI_MMA_H
#define TOKITAI_MMA_H

#include <stdint.h>
#include <string.h>

#include "sim.h" // after the system's headers: it hides what follows

namespace sim {

const int MMA_DEPTH = 32;      // products of an instruction, at most
const int MMA_COLUMNS = 256;   // at most
const int MMA_BLOCK = 8;       // columns that are computed at once
const int LEAST_ALIGNMENT = -133;
const short NO_EXPONENT = -10000; // of a zero: the sum of two is no short's least value

// Model is the fractional bits of a step, of the aligned terms and of the result.
struct Model {
    int bits, result;
};

enum FormatName { F16, BF16, E4M3, E5M2, I8 };

// Format is how factors are stored.
struct Format {
    int fraction, bias, width; // width without the sign
    int special;               // the least pattern of infinities and NaN
    int depth;                 // products of an instruction
    explicit Format(FormatName name) {
        static const Format all[] = {{10, 15, 15, 0x7c00, 16}, {7, 127, 15, 0x7f80, 16}, {3, 7, 7, 0x7f, 32}, {2, 15, 7, 0x7c, 32}, {0, 0, 7, 0x100, 32}};
        *this = all[name];
    }
    Format(int fraction, int bias, int width, int special, int depth) : fraction(fraction), bias(bias), width(width), special(special), depth(depth) {}
    int magnitude(uint16_t pattern) const { return pattern & ((1 << width) - 1); }
    int sign(uint16_t pattern) const { return pattern >> width; }
    int field(uint16_t pattern) const { return magnitude(pattern) >> fraction; }
    bool is_special(uint16_t pattern) const { return magnitude(pattern) >= special; }

    // Zeros take no part in the maximum; subnormals count with the least exponent.
    short exponent(uint16_t pattern) const {
        int e = field(pattern);
        return magnitude(pattern) == 0 ? NO_EXPONENT : (short)((e == 0 ? 1 : e) - bias);
    }

    // The value of a finite pattern. A subnormal number of binary64 with the same fraction,
    // times a power of two, needs no case of its own.
    double value(uint16_t pattern) const {
        uint64_t bits = (uint64_t)magnitude(pattern) << (52 - fraction) | (uint64_t)sign(pattern) << 63;
        double d;
        memcpy(&d, &bits, sizeof(d));
        return d * (bias == 127 ? 0x1p896 : bias == 15 ? 0x1p1008 : 0x1p1016);
    }

    float single(uint16_t pattern) const {
        if (!is_special(pattern)) {
            return (float)value(pattern);
        }
        uint32_t bits = (uint32_t)sign(pattern) << 31 | 0x7f800000u | (uint32_t)(pattern & ((1 << fraction) - 1)) << (23 - fraction);
        float f;
        memcpy(&f, &bits, sizeof(f));
        return f;
    }
};

// Left is rows of the left factor, Right columns of the right one. Both are unpacked once and
// used for many products.
struct Left {
    uint16_t pattern[MMA_DEPTH];
    double value[MMA_DEPTH];
    short exponent[MMA_DEPTH];
    bool is_special;
};

struct Right {
    uint16_t pattern[MMA_DEPTH][MMA_COLUMNS];
    double value[MMA_DEPTH][MMA_COLUMNS];
    short exponent[MMA_DEPTH][MMA_COLUMNS];
    bool is_special[MMA_COLUMNS / MMA_BLOCK];
};

void unpack(Left& l, const Format& f);
void unpack(Right& r, const Format& f, int columns);

// Multiply adds the products of rows and columns to acc.
typedef void (*Multiply)(const Format& f, const Left* left, int rows, const Right& right, int columns, Model m, float (*acc)[MMA_COLUMNS]);

// multiply_bytes adds the products of rows and columns in i8 to acc, whose patterns are those of int32 that wrap.
void multiply_bytes(const Left* left, int rows, const Right& right, int columns, float (*acc)[MMA_COLUMNS]);

// multiplication returns what multiplies by a model, or null if the simulator does not know it.
Multiply multiplication(int step, int bits);

} // namespace sim

#endif
