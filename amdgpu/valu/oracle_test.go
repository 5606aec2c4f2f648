package valu

import (
	"math/big"

	"tokitai/amdgpu/isa"
)

// The tests compute every result a second time: floating-point numbers as exact fractions that
// are rounded by their definition, integers by AMD's formulas.

// layout is a floating-point format by the numbers of its bits.
type layout struct{ exponent, fraction uint }

var (
	layout16 = layout{5, 10}
	layout32 = layout{8, 23}
	layout64 = layout{11, 52}
)

// layoutOf returns the layout that a mnemonic's suffix names.
func layoutOf(suffix string) layout {
	switch suffix {
	case "f16":
		return layout16
	case "f32":
		return layout32
	}
	return layout64
}

func (y layout) signBit() uint64  { return 1 << (y.exponent + y.fraction) }
func (y layout) infinity() uint64 { return (1<<y.exponent - 1) << y.fraction }
func (y layout) quietBit() uint64 { return 1 << (y.fraction - 1) }

// value is a number, an infinity or a NaN.
type value struct {
	pattern             uint64
	nan, signaling, inf bool
	negative            bool
	fraction            *big.Rat // the number, nil if there is none
	subnormal, zero     bool
}

// decode takes a pattern apart, flushing a subnormal number where flush is set.
func (y layout) decode(pattern uint64, flush bool) value {
	v := value{pattern: pattern, negative: pattern&y.signBit() != 0}
	e := pattern >> y.fraction & (1<<y.exponent - 1)
	f := pattern & (1<<y.fraction - 1)
	switch {
	case e == 1<<y.exponent-1 && f != 0:
		v.nan, v.signaling = true, f>>(y.fraction-1) == 0
		return v
	case e == 1<<y.exponent-1:
		v.inf = true
		return v
	}
	v.subnormal = e == 0 && f != 0
	if v.subnormal && flush {
		v.subnormal, f, v.pattern = false, 0, pattern&y.signBit()
	}
	v.zero = e == 0 && f == 0
	bias := 1<<(y.exponent-1) - 1
	exponent := int(e) - bias - int(y.fraction)
	if e == 0 {
		exponent++
	} else {
		f |= 1 << y.fraction
	}
	v.fraction = times2(new(big.Rat).SetInt(new(big.Int).SetUint64(f)), exponent)
	if v.negative {
		v.fraction.Neg(v.fraction)
	}
	return v
}

// times2 returns r·2**n.
func times2(r *big.Rat, n int) *big.Rat {
	p := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(max(n, -n))))
	if n < 0 {
		return p.Quo(r, p)
	}
	return p.Mul(r, p)
}

// floorLog2 returns the exponent e with 2**e <= r < 2**(e+1), for r > 0.
func floorLog2(r *big.Rat) int {
	e := r.Num().BitLen() - r.Denom().BitLen()
	if r.Cmp(times2(big.NewRat(1, 1), e)) < 0 {
		e--
	}
	return e
}

// encode rounds a number to the format; zero is negative where a zero's sign says so.
func (y layout) encode(r *big.Rat, mode uint8, negativeZero bool) uint64 {
	if r.Sign() == 0 {
		if negativeZero {
			return y.signBit()
		}
		return 0
	}
	negative := r.Sign() < 0
	magnitude := new(big.Rat).Abs(r)
	bias := 1<<(y.exponent-1) - 1
	e := max(floorLog2(magnitude), 1-bias)
	scaled := times2(magnitude, int(y.fraction)-e) // in units of the last place
	n, rest := new(big.Int).QuoRem(scaled.Num(), scaled.Denom(), new(big.Int))
	twice := new(big.Int).Lsh(rest, 1).Cmp(scaled.Denom())
	up := false
	switch mode {
	case 0:
		up = twice > 0 || twice == 0 && n.Bit(0) == 1
	case 1:
		up = rest.Sign() != 0 && !negative
	case 2:
		up = rest.Sign() != 0 && negative
	}
	if up {
		n.Add(n, big.NewInt(1))
	}
	pattern := n.Uint64()
	if e > 1-bias || pattern>>y.fraction != 0 {
		pattern += uint64(e+bias-1) << y.fraction
	}
	if e > bias || pattern >= y.infinity() {
		pattern = y.infinity()
		if mode == 3 || mode == 1 && negative || mode == 2 && !negative {
			pattern--
		}
	}
	if negative {
		pattern |= y.signBit()
	}
	return pattern
}

// machine is the mode and the family that an oracle computes for.
type machine struct {
	family isa.Family
	mode   Mode
	in     bool // the lane's carry or condition
}

func (m machine) rounding(y layout) uint8 {
	if y == layout32 {
		return m.mode.Round32
	}
	return m.mode.Round64
}

func (m machine) denormals(y layout) uint8 {
	if y == layout32 {
		return m.mode.Denorm32
	}
	return m.mode.Denorm64
}

func (m machine) decode(y layout, pattern uint64) value {
	return y.decode(pattern, m.denormals(y)&1 == 0)
}

// flush replaces a subnormal result where the mode says so.
func (m machine) flush(y layout, pattern uint64) uint64 {
	if m.denormals(y)&2 == 0 && y.decode(pattern, false).subnormal {
		return pattern & y.signBit()
	}
	return pattern
}

func (m machine) round(y layout, r *big.Rat, negativeZero bool) uint64 {
	return m.flush(y, y.encode(r, m.rounding(y), negativeZero))
}

// fmaOracle returns (a·b + c)·2**n.
func (m machine) fmaOracle(y layout, x, z, w uint64, n int) uint64 {
	a, b, c := m.decode(y, x), m.decode(y, z), m.decode(y, w)
	for _, v := range []value{a, b, c} {
		if v.nan {
			return v.pattern | y.quietBit()
		}
	}
	invalid := y.infinity() | y.quietBit()
	productNegative := a.negative != b.negative
	if a.inf || b.inf {
		if a.zero || b.zero || c.inf && c.negative != productNegative {
			return invalid
		}
		return signed(y, productNegative, y.infinity())
	}
	if c.inf {
		return c.pattern
	}
	sum := new(big.Rat).Mul(a.fraction, b.fraction)
	sum.Add(sum, c.fraction)
	negativeZero := productNegative && c.negative
	if productNegative != c.negative {
		negativeZero = m.rounding(y) == 2
	}
	return m.round(y, times2(sum, n), negativeZero)
}

func signed(y layout, negative bool, magnitude uint64) uint64 {
	if negative {
		return magnitude | y.signBit()
	}
	return magnitude
}

func (m machine) mulOracle(y layout, x, z uint64) uint64 {
	a, b := m.decode(y, x), m.decode(y, z)
	for _, v := range []value{a, b} {
		if v.nan {
			return v.pattern | y.quietBit()
		}
	}
	negative := a.negative != b.negative
	switch {
	case (a.inf || b.inf) && (a.zero || b.zero):
		return y.infinity() | y.quietBit()
	case a.inf || b.inf:
		return signed(y, negative, y.infinity())
	}
	return m.round(y, new(big.Rat).Mul(a.fraction, b.fraction), negative)
}

// addOracle is a·1 + b with a zero's sign that of an addition, which is the same.
func (m machine) addOracle(y layout, x, z uint64) uint64 {
	one := y.encode(big.NewRat(1, 1), 0, false)
	return m.fmaOracle(y, x, one, z, 0)
}

// extremeOracle returns the smaller or the larger value by AMD's pseudocode of the family.
func (m machine) extremeOracle(y layout, isMax bool, x, z uint64) uint64 {
	a, b := m.decode(y, x), m.decode(y, z)
	if m.mode.IEEE && a.signaling {
		return a.pattern | y.quietBit()
	}
	if m.mode.IEEE && b.signaling {
		return b.pattern | y.quietBit()
	}
	first, second := a, b // gfx9 asks for a's NaN first, gfx11 for b's
	if m.family == isa.GFX11 {
		first, second = b, a
	}
	if first.nan {
		return m.flushNumber(y, second)
	}
	if second.nan {
		return m.flushNumber(y, first)
	}
	order := compareValues(a, b)
	if order == 0 && a.zero { // -0 is less than +0
		switch {
		case a.negative && !b.negative:
			order = -1
		case !a.negative && b.negative:
			order = 1
		}
	}
	if (order < 0) != isMax {
		return m.flush(y, a.pattern)
	}
	return m.flush(y, b.pattern)
}

func (m machine) flushNumber(y layout, v value) uint64 {
	if v.nan {
		return v.pattern
	}
	return m.flush(y, v.pattern)
}

// compareValues compares two that are not NaN.
func compareValues(a, b value) int {
	rank := func(v value) int {
		switch {
		case !v.inf:
			return 0
		case v.negative:
			return -1
		}
		return 1
	}
	if ra, rb := rank(a), rank(b); ra != 0 || rb != 0 {
		return ra - rb
	}
	return a.fraction.Cmp(b.fraction)
}
