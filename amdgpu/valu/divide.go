package valu

import "math"

// The three instructions that surround a quotient's Newton steps.

// divScale returns the denominator or the numerator (a is one of them) of c/b, scaled so that
// the steps neither overflow nor lose bits; l.out tells that the quotient is then scaled, which
// divFMAs undoes.
//
// AMD's pseudocode scales a large denominator of a subnormal quotient up, beyond the format's
// range. Here it is scaled down, as the quotient needs.
func (l *lane) divScale(f *format, a, b, c uint64) uint64 {
	a, b, c = l.operand(f, a), l.operand(f, b), l.operand(f, c)
	scale, apart, tiny := 64, 96, 23
	if f == double {
		scale, apart, tiny = 128, 768, 53
	}
	// Most quotients are far from all special cases.
	eb, ec := f.exponent(b), f.exponent(c)
	if top := 2*f.bias + 1; eb > 0 && eb < top-2 && ec > tiny && ec < top && ec-eb < apart && ec-eb > 2-f.bias {
		return a
	}
	if f.isZero(b) || f.isZero(c) {
		return f.nan()
	}
	isNumber := !f.isNaN(b) && !f.isInf(b) && !f.isNaN(c) && !f.isInf(c)
	huge := isNumber && f.isHuge(b)
	subnormal := isNumber && f.quotientIsSubnormal(c, b)
	n := 0
	switch {
	case ec-eb >= apart:
		l.out = true
		if a == b {
			n = scale
		}
	case f.isSubnormal(b):
		n = scale
	case huge && subnormal:
		l.out = true
		if a == b {
			n = -scale
		}
	case huge:
		n = -scale
	case subnormal:
		l.out = true
		if a == c {
			n = scale
		}
	case ec <= tiny:
		n = scale
	}
	if n == 0 {
		return a
	}
	return l.ldexp(f, a, n)
}

// isHuge reports whether the reciprocal of a number is subnormal.
func (f *format) isHuge(x uint64) bool { return x&^f.sign > uint64(2*f.bias-1)<<f.significand }

// quotientIsSubnormal reports whether c/b is subnormal before it is rounded.
func (f *format) quotientIsSubnormal(c, b uint64) bool {
	mc, ec := math.Frexp(math.Abs(f.float(c)))
	mb, eb := math.Frexp(math.Abs(f.float(b)))
	least := 1 - f.bias
	return ec-eb < least || ec-eb == least && mc < mb
}

// divFMAs returns a·b + c, scaled back where divScale has scaled the quotient c: up if c is at
// least 2, down otherwise, with one rounding.
func (l *lane) divFMAs(f *format, a, b, c uint64) uint64 {
	n := 0
	if l.in {
		n = 64
		if f == double {
			n = 128
		}
		if f.exponent(c) <= f.bias {
			n = -n
		}
	}
	return l.fma(f, a, b, c, n)
}

// divFixup corrects the special cases of the computed quotient a = c/b. A quotient that the steps lost in an overflow (a NaN) is an overflow; AMD's pseudocode
// does not say so, but quotients beyond the format's range need it.
func (l *lane) divFixup(f *format, a, b, c uint64) uint64 {
	b, c = l.operand(f, b), l.operand(f, c)
	if f.isNaN(c) {
		return c | f.quiet
	}
	if f.isNaN(b) {
		return b | f.quiet
	}
	sign := (b ^ c) & f.sign
	mode := l.rounding(f)
	far := 150
	if f == double {
		far = 1075
	}
	switch {
	case f.isZero(b) && f.isZero(c) || f.isInf(b) && f.isInf(c):
		return f.sign | f.nan()
	case f.isZero(b) || f.isInf(c):
		return sign | f.inf
	case f.isInf(b) || f.isZero(c):
		return sign
	case f == half:
		return sign | a&^f.sign
	case f.exponent(c)-f.exponent(b) < -far:
		if mode == upward && sign == 0 || mode == downward && sign != 0 {
			return l.result(f, sign|1)
		}
		return sign
	case f.isNaN(a):
		return sign | f.overflow(sign != 0, mode)
	}
	return sign | a&^f.sign
}

func (t *table) defineDivision(suffix string, f *format, typ Type) {
	three := []Type{typ, typ, typ}
	t.add("v_div_fixup_"+suffix, typ, three, func(l *lane, a, b, c uint64) uint64 { return l.divFixup(f, a, b, c) })
	if f == half {
		return
	}
	t.add("v_div_scale_"+suffix, typ, three, func(l *lane, a, b, c uint64) uint64 { return l.divScale(f, a, b, c) }).Carry = true
	t.add("v_div_fmas_"+suffix, typ, three, func(l *lane, a, b, c uint64) uint64 { return l.divFMAs(f, a, b, c) }).ReadsVCC = true
}
