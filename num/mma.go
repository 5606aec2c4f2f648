package num

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
)

// MMA is the model of a tensor core's multiply-and-accumulate, f16, bf16 or FP8 into
// binary32. One step takes L products at once, and rounds like no IEEE
// operation:
//
//   - A product is exact and unnormalised: its exponent is the sum of its
//     factors' exponents, its significand lies in [1,4), or below 1 where a
//     factor is subnormal, since a subnormal counts with its format's minimum
//     exponent. So does a subnormal accumulator.
//   - Products and accumulator are aligned at the largest of their exponents,
//     or at -133 if that is larger; zeros take no part in the maximum. Each is
//     truncated toward zero to F fractional bits there, and the sum of what is
//     left is exact.
//   - The sum is truncated toward zero to binary32, or to a format with fewer
//     fractional bits, R of them, into the subnormals if need be; from 2^128 on it is infinite, while a part of it may pass beyond. A
//     zero is +0 whatever the signs.
//   - A NaN, 0·Inf, or infinities of both signs give NaN; otherwise an infinity
//     gives that infinity.
//
// A longer sum is a chain of steps in ascending order. Its results are biased
// toward zero.
//
// mma(16,25) is the mma.sync of an H200, and its wgmma, for f16 and bf16: the tests compare
// the model with a million of its results. mma(32,13,13) is its wgmma for FP8.
type MMA struct {
	L int // products per step, at most 32
	F int // fractional bits kept at the largest exponent, at most 32
	R int // fractional bits of a step's result, at most 23; 0 for the 23 of binary32
}

// String returns the model's name: mma(16,25), or mma(32,13,13) if R is not 0.
func (m MMA) String() string {
	if m.R == 0 {
		return fmt.Sprintf("mma(%d,%d)", m.L, m.F)
	}
	return fmt.Sprintf("mma(%d,%d,%d)", m.L, m.F, m.R)
}

const (
	// leastAlignment is where sums of tiny bf16 products are aligned when the
	// accumulator is zero, as measured; f16 products are never so small.
	leastAlignment = -133

	deviceNaN = 0x7fffffff // the only NaN that the devices return
)

// Dot adds the products of a and b, patterns of d, to acc in steps of L. A last
// short step is filled with zeros, which changes nothing.
func (m MMA) Dot(d DType, a, b []uint32, acc float32) float32 {
	for len(a) > m.L {
		acc = m.Step(d, a[:m.L], b[:m.L], acc)
		a, b = a[m.L:], b[m.L:]
	}
	return m.Step(d, a, b, acc)
}

// Step adds at most L products of a and b, patterns of d, to acc.
func (m MMA) Step(d DType, a, b []uint32, acc float32) float32 {
	if !d.IsFloat() || d == F32 || len(a) != len(b) || len(a) > m.L {
		panic(fmt.Sprintf("num: %v step of %d by %d factors of %v", m, len(a), len(b), d))
	}
	f := d.format()
	var products [32]term
	c := f32Format.unpack(math.Float32bits(acc))
	largest := leastAlignment
	if c.significand != 0 {
		largest = max(largest, c.exponent)
	}
	special := float32(0)
	if acc-acc != 0 {
		special = acc
	}
	for i := range a {
		x, y := f.unpack(a[i]), f.unpack(b[i])
		p := term{x.significand * y.significand, x.exponent + y.exponent}
		if f.magnitude(a[i]) > f.largest || f.magnitude(b[i]) > f.largest {
			special += float32(Widen(d, a[i]) * Widen(d, b[i]))
		}
		if p.significand != 0 {
			largest = max(largest, p.exponent)
		}
		products[i] = p
	}
	if special != special {
		return math.Float32frombits(deviceNaN)
	}
	if special != 0 {
		return special
	}

	unit := largest - m.F // the exponent of the last bit kept
	sum := align(c.significand, c.exponent-f32Format.fraction-unit)
	for _, p := range products[:len(a)] {
		sum += align(p.significand, p.exponent-2*f.fraction-unit)
	}
	return truncate(sum, unit, cmp.Or(m.R, f32Format.fraction))
}

// term is significand·2^exponent, with the binary point of the significand left
// to the caller.
type term struct {
	significand int64
	exponent    int
}

// unpack reads a pattern that is finite.
func (f *format) unpack(pattern uint32) term {
	e := int(f.magnitude(pattern) >> (f.fraction & 31))
	s := int64(pattern & (1<<(f.fraction&31) - 1))
	if e > 0 {
		s |= 1 << (f.fraction & 31)
		e--
	}
	if pattern&f.sign != 0 {
		s = -s
	}
	return term{s, e + f.emin}
}

// align returns s·2^shift, truncated toward zero.
func align(s int64, shift int) int64 {
	if shift >= 0 {
		return s << shift
	}
	if s < 0 {
		return -(-s >> -shift)
	}
	return s >> -shift
}

// truncate returns sum·2^unit, truncated toward zero to binary32 with so many fractional
// bits.
func truncate(sum int64, unit, fraction int) float32 {
	if sum == 0 {
		return 0
	}
	magnitude := uint64(max(sum, -sum))
	e := unit + bits.Len64(magnitude) - 1
	if e > f32Format.emax {
		return float32(math.Inf(int(sum>>63 | 1)))
	}
	last := max(e, f32Format.emin) - fraction
	kept := align(sum, unit-last)
	return float32(math.Ldexp(float64(kept), last))
}
