package num

import "math"

// format holds the parameters of a floating-point format.
type format struct {
	fraction int    // stored bits of the significand
	emin     int    // exponent of the smallest normal value and of all subnormals
	emax     int    // exponent of the largest finite value
	sign     uint32 // the sign bit
	last     uint32 // the largest pattern that is not a NaN: +Inf, or the largest finite value if there is no infinity
	largest  uint32 // the largest finite value
	nan      uint32 // the canonical NaN: quiet, positive
}

var (
	f16Format  = format{fraction: 10, emin: -14, emax: 15, sign: 1 << 15, last: 0x7c00, largest: 0x7bff, nan: 0x7e00}
	bf16Format = format{fraction: 7, emin: -126, emax: 127, sign: 1 << 15, last: 0x7f80, largest: 0x7f7f, nan: 0x7fc0}
	f32Format  = format{fraction: 23, emin: -126, emax: 127, sign: 1 << 31, last: 0x7f800000, largest: 0x7f7fffff, nan: 0x7fc00000}
	e4m3Format = format{fraction: 3, emin: -6, emax: 8, sign: 1 << 7, last: 0x7e, largest: 0x7e, nan: 0x7f}
	e5m2Format = format{fraction: 2, emin: -14, emax: 15, sign: 1 << 7, last: 0x7c, largest: 0x7b, nan: 0x7e}
)

// format returns the parameters of d. It panics if d is not a floating-point format.
func (d DType) format() *format {
	switch d {
	case F16:
		return &f16Format
	case BF16:
		return &bf16Format
	case F32:
		return &f32Format
	case E4M3:
		return &e4m3Format
	case E5M2:
		return &e5m2Format
	}
	panic("num: " + d.String() + " is not a floating-point format")
}

// magnitude returns a pattern without its sign.
func (f *format) magnitude(bits uint32) uint32 { return bits & (f.sign - 1) }

// round returns the pattern nearest to x, ties to even. It rounds with one addition:
// with 2^E the binade of |x|, but never below emin, the binary64 sum
// 2^(E+52-fraction) + |x| has its last bit where f has its own. What rounds beyond the
// largest finite value becomes infinite, or NaN in a format without infinities: the
// pattern that follows the largest value in either case.
func (f *format) round(x float64) uint32 {
	b := math.Float64bits(x)
	sign := uint32(b>>63) * f.sign
	if x != x {
		return sign | f.nan | uint32(b>>(52-f.fraction))&(1<<f.fraction-1)
	}
	e := max(int(b>>52&0x7ff)-1023, f.emin)
	if e > f.emax {
		return sign | f.largest + 1
	}
	magic := uint64(e+52-f.fraction+1023) << 52
	sum := math.Abs(x) + math.Float64frombits(magic)
	units := uint32(math.Float64bits(sum) - magic) // hidden bit included
	return sign | min(uint32(e-f.emin)<<f.fraction+units, f.largest+1)
}

// IsNaN reports whether a pattern of d is a NaN. That of an integer never is.
func IsNaN[P Pattern](d DType, bits P) bool {
	if d.IsInteger() {
		return false
	}
	f := d.format()
	return f.magnitude(uint32(bits)) > f.last
}

// Canonical returns the canonical NaN of d for every NaN, and any other pattern
// unchanged. Patterns must be made canonical before they are compared or hashed.
func Canonical[P Pattern](d DType, bits P) P {
	if IsNaN(d, bits) {
		return P(d.format().nan)
	}
	return bits
}
