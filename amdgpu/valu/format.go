package valu

import (
	"math"
	"math/big"

	"tokitai/num"
)

// The rounding modes of the MODE register.
const (
	toNearest = iota
	upward
	downward
	towardZero
)

// format is a binary floating-point format. Values are patterns in the low bits of a uint64.
type format struct {
	significand uint // stored bits of the significand
	bias        int

	sign, inf, quiet, leastNormal, one uint64
}

func newFormat(width, significand uint) *format {
	bias := 1<<(width-significand-2) - 1
	return &format{
		significand: significand,
		bias:        bias,
		sign:        1 << (width - 1),
		inf:         uint64(2*bias+1) << significand,
		quiet:       1 << (significand - 1),
		leastNormal: 1 << significand,
		one:         uint64(bias) << significand,
	}
}

var (
	half   = newFormat(16, 10)
	single = newFormat(32, 23)
	double = newFormat(64, 52)
)

// nan returns the NaN that an invalid operation gives.
func (f *format) nan() uint64 { return f.inf | f.quiet }

func (f *format) isNaN(x uint64) bool       { return x&^f.sign > f.inf }
func (f *format) isSignaling(x uint64) bool { return f.isNaN(x) && x&f.quiet == 0 }
func (f *format) isInf(x uint64) bool       { return x&^f.sign == f.inf }
func (f *format) isZero(x uint64) bool      { return x&^f.sign == 0 }
func (f *format) isSubnormal(x uint64) bool { return !f.isZero(x) && x&^f.sign < f.leastNormal }
func (f *format) exponent(x uint64) int     { return int(x &^ f.sign >> f.significand) }

// float returns the value of a pattern, exactly. The sign of a NaN and its payload may be lost.
func (f *format) float(x uint64) float64 {
	switch f {
	case half:
		return float64(num.F16ToF32(uint16(x)))
	case single:
		return float64(math.Float32frombits(uint32(x)))
	}
	return math.Float64frombits(x)
}

// round rounds a value that is not NaN to the format. The value is exact, or rounded to odd:
// binary64 has at least two bits more than the narrower formats, so that the last one decides
// ties and directions (Boldo and Melquiond 2008). A binary64 is returned as it is.
func (f *format) round(v float64, mode uint8) uint64 {
	bits := math.Float64bits(v)
	switch {
	case f == double:
		return bits
	case f == single && mode == toNearest:
		return uint64(math.Float32bits(float32(v)))
	}
	var sign uint64
	if bits>>63 != 0 {
		sign = f.sign
	}
	if v == 0 {
		return sign
	}
	exponent, m := int(bits>>52&0x7ff), bits&(1<<52-1)
	if exponent == 0x7ff {
		return sign | f.inf
	}
	if exponent == 0 {
		exponent = 1
	} else {
		m |= 1 << 52
	}
	e := exponent - 1023 + f.bias // the exponent as the format stores it
	if e >= 2*f.bias+1 {
		return sign | f.overflow(sign != 0, mode)
	}
	drop := 52 - f.significand
	if e <= 0 {
		drop += uint(1 - e)
		e = 1
	}
	drop = min(drop, 63)
	kept, rest, tie := m>>drop, m&(1<<drop-1), uint64(1)<<(drop-1)
	r := uint64(e-1)<<f.significand + kept
	switch mode {
	case toNearest:
		if rest > tie || rest == tie && kept&1 != 0 {
			r++
		}
	case upward:
		if rest != 0 && sign == 0 {
			r++
		}
	case downward:
		if rest != 0 && sign != 0 {
			r++
		}
	}
	return sign | r // the infinity if rounding has carried into it
}

// overflow returns the magnitude that a value beyond the format's range becomes.
func (f *format) overflow(negative bool, mode uint8) uint64 {
	if mode == towardZero || mode == upward && negative || mode == downward && !negative {
		return f.inf - 1
	}
	return f.inf
}

// oddSum returns x + y rounded to odd. Neither sum nor error may overflow or underflow.
func oddSum(x, y float64) float64 {
	s := x + y
	if s == 0 || math.IsInf(s, 0) || math.IsNaN(s) {
		return s
	}
	t := s - x
	e := (x - (s - t)) + (y - t)
	bits := math.Float64bits(s)
	if e != 0 && bits&1 == 0 {
		if (e > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
	}
	return math.Float64frombits(bits)
}

// round64 rounds an exact value that is not zero to binary64.
func round64(exact *big.Float, mode uint8) float64 {
	r, accuracy := exact.Float64() // to nearest even, subnormal numbers included
	if accuracy == big.Exact || mode == toNearest {
		return r
	}
	negative := exact.Sign() < 0
	if math.IsInf(r, 0) {
		return math.Copysign(math.Float64frombits(double.overflow(negative, mode)), r)
	}
	up := mode == upward || mode == towardZero && negative
	switch {
	case up && accuracy == big.Below:
		return math.Nextafter(r, math.Inf(1))
	case !up && accuracy == big.Above:
		return math.Nextafter(r, math.Inf(-1))
	}
	return r
}

// exactly returns x·y + z without rounding; all are finite.
func exactly(x, y, z float64) *big.Float {
	const enough = 4400 // bits from 2**-2148 to 2**2048, and some
	wide := func(v float64) *big.Float { return new(big.Float).SetPrec(enough).SetFloat64(v) }
	p := wide(x)
	return p.Add(p.Mul(p, wide(y)), wide(z))
}

// fma64 returns (x·y + z)·2**n with one rounding. None of x, y and z is NaN.
func fma64(x, y, z float64, n int, mode uint8) float64 {
	if n == 0 && mode == toNearest || math.IsInf(x, 0) || math.IsInf(y, 0) || math.IsInf(z, 0) {
		return math.FMA(x, y, z)
	}
	exact := exactly(x, y, z)
	if exact.Sign() == 0 {
		return zeroSum(math.Signbit(x) != math.Signbit(y), math.Signbit(z), mode)
	}
	return round64(exact.SetMantExp(exact, n), mode)
}

// mul64 returns x·y. Neither is NaN.
func mul64(x, y float64, mode uint8) float64 {
	if mode == toNearest || x == 0 || y == 0 || math.IsInf(x, 0) || math.IsInf(y, 0) {
		return x * y
	}
	return round64(exactly(x, y, 0), mode)
}

// zeroSum returns the zero that two terms of the given signs add up to.
func zeroSum(x, y bool, mode uint8) float64 {
	if x && y || x != y && mode == downward {
		return math.Copysign(0, -1)
	}
	return 0
}
