package valu

import (
	"math"
	"math/big"

	"tokitai/num/ball"
)

// floatOracle returns the oracle of an instruction of floating-point numbers: "add" and "f32".
func floatOracle(name, suffix string) oracle {
	y := layoutOf(suffix)
	fma := plain(func(m machine, a, b, c uint64) uint64 { return m.fmaOracle(y, a, b, c, 0) })
	extreme := func(isMax bool) func(m machine, a, b uint64) uint64 {
		return func(m machine, a, b uint64) uint64 { return m.extremeOracle(y, isMax, a, b) }
	}
	low, high := extreme(false), extreme(true)
	switch name {
	case "add":
		return plain(func(m machine, a, b, _ uint64) uint64 { return m.addOracle(y, a, b) })
	case "sub":
		return plain(func(m machine, a, b, _ uint64) uint64 { return m.addOracle(y, a, b^y.signBit()) })
	case "subrev":
		return plain(func(m machine, a, b, _ uint64) uint64 { return m.addOracle(y, b, a^y.signBit()) })
	case "mul":
		return plain(func(m machine, a, b, _ uint64) uint64 { return m.mulOracle(y, a, b) })
	case "fma", "fmac", "fmaak", "fmamk", "fma_legacy":
		return fma
	case "mad", "mac", "madak", "madmk":
		return plain(func(m machine, a, b, c uint64) uint64 {
			if y == layout32 {
				m.mode.Denorm32 = 0
			}
			return m.addOracle(y, m.mulOracle(y, a, b), c)
		})
	case "mul_legacy", "mul_dx9_zero":
		return plain(func(m machine, a, b, _ uint64) uint64 { return m.legacyOracle(a, b) })
	case "fma_dx9_zero", "fmac_dx9_zero":
		return plain(func(m machine, a, b, c uint64) uint64 {
			if m.decode(y, a).zero || m.decode(y, b).zero {
				return m.flush(y, m.decode(y, c).pattern)
			}
			return m.fmaOracle(y, a, b, c, 0)
		})
	case "mad_legacy":
		return plain(func(m machine, a, b, c uint64) uint64 {
			if y == layout32 {
				m.mode.Denorm32 = 0
				return m.addOracle(y, m.legacyOracle(a, b), c)
			}
			return m.addOracle(y, m.mulOracle(y, a, b), c)
		})
	case "min":
		return plain(func(m machine, a, b, _ uint64) uint64 { return low(m, a, b) })
	case "max":
		return plain(func(m machine, a, b, _ uint64) uint64 { return high(m, a, b) })
	case "min3":
		return plain(func(m machine, a, b, c uint64) uint64 { return low(m, low(m, a, b), c) })
	case "max3":
		return plain(func(m machine, a, b, c uint64) uint64 { return high(m, high(m, a, b), c) })
	case "maxmin":
		return plain(func(m machine, a, b, c uint64) uint64 { return low(m, high(m, a, b), c) })
	case "minmax":
		return plain(func(m machine, a, b, c uint64) uint64 { return high(m, low(m, a, b), c) })
	case "med3":
		return plain(func(m machine, a, b, c uint64) uint64 {
			x, z, w := m.decode(y, a), m.decode(y, b), m.decode(y, c)
			if x.nan || z.nan || w.nan {
				return low(m, low(m, a, b), c)
			}
			top := y.decode(high(m, high(m, a, b), c), false)
			switch {
			case compareValues(top, x) == 0:
				return high(m, b, c)
			case compareValues(top, z) == 0:
				return high(m, a, c)
			}
			return high(m, a, b)
		})
	case "trunc", "floor", "ceil", "rndne":
		return plain(func(m machine, a, _, _ uint64) uint64 { return m.integralOracle(y, name, a) })
	case "fract":
		return plain(func(m machine, a, _, _ uint64) uint64 { return m.fractOracle(y, a) })
	case "frexp_mant":
		return plain(func(m machine, a, _, _ uint64) uint64 {
			v := m.decode(y, a)
			switch {
			case v.nan:
				return v.pattern | y.quietBit()
			case v.inf || v.zero:
				return v.pattern
			}
			magnitude := new(big.Rat).Abs(v.fraction)
			return signed(y, v.negative, y.encode(times2(magnitude, -floorLog2(magnitude)-1), 0, false))
		})
	case "frexp_exp_i16", "frexp_exp_i32":
		return plain(func(m machine, a, _, _ uint64) uint64 {
			v := m.decode(y, a)
			if v.nan || v.inf || v.zero {
				return 0
			}
			e := int64(floorLog2(new(big.Rat).Abs(v.fraction)) + 1)
			if y == layout16 {
				return uint64(uint16(e))
			}
			return uint64(uint32(e))
		})
	case "ldexp":
		return plain(func(m machine, a, n, _ uint64) uint64 {
			v := m.decode(y, a)
			switch {
			case v.nan:
				return v.pattern | y.quietBit()
			case v.inf || v.zero:
				return v.pattern
			}
			width := uint(32)
			if y == layout16 {
				width = 16
			}
			return m.round(y, times2(v.fraction, int(max(-5000, min(5000, s(int64(n), width))))), v.negative)
		})
	case "div_fixup", "div_fixup_legacy":
		return plain(func(m machine, a, b, c uint64) uint64 { return m.divFixupOracle(y, a, b, c) })
	case "div_fmas":
		return plain(func(m machine, a, b, c uint64) uint64 {
			n, bias := 64, uint64(127)
			if y == layout64 {
				n, bias = 128, 1023
			}
			switch {
			case !m.in:
				n = 0
			case c>>y.fraction&(1<<y.exponent-1) <= bias:
				n = -n
			}
			return m.fmaOracle(y, a, b, c, n)
		})
	case "trig_preop":
		return plain(trigOracle)
	case "div_scale":
		return func(m machine, a, b, c uint64) (uint64, bool) { return m.divScaleOracle(y, a, b, c) }
	}
	return nil
}

// trigOracle takes 53 bits of 2/π, of which the hardware has 1,201.
func trigOracle(_ machine, x, n, _ uint64) uint64 {
	one := ball.NewBig(2, 1400)
	quotient, _ := one.Div(one.Pi()).Mid().Rat(nil)
	stored := times2(integerPart(times2(quotient, 1201)), -1201)
	exponent := int(x >> 52 & 2047)
	shift := 53*int(n%32) + max(0, exponent-1077)
	whole := integerPart(times2(stored, shift+53))
	high := times2(integerPart(times2(stored, shift)), 53)
	scale := -53 - shift
	if exponent >= 1968 {
		scale += 128
	}
	return layout64.encode(times2(whole.Sub(whole, high), scale), 0, false)
}

func (m machine) legacyOracle(a, b uint64) uint64 {
	if m.decode(layout32, a).zero || m.decode(layout32, b).zero {
		return 0
	}
	return m.mulOracle(layout32, a, b)
}

// integerPart returns the largest integer that is not above r.
func integerPart(r *big.Rat) *big.Rat {
	q := new(big.Int).Div(r.Num(), r.Denom()) // Euclidean, with a positive divisor: the floor
	return new(big.Rat).SetInt(q)
}

func (m machine) integralOracle(y layout, name string, a uint64) uint64 {
	v := m.decode(y, a)
	switch {
	case v.nan:
		return v.pattern | y.quietBit()
	case v.inf || v.zero:
		return v.pattern
	}
	floor := integerPart(v.fraction)
	ceil := new(big.Rat).Neg(integerPart(new(big.Rat).Neg(v.fraction)))
	r := floor
	switch name {
	case "trunc":
		if v.negative {
			r = ceil
		}
	case "ceil":
		r = ceil
	case "rndne":
		below, above := new(big.Rat).Sub(v.fraction, floor), new(big.Rat).Sub(ceil, v.fraction)
		if c := above.Cmp(below); c < 0 || c == 0 && floor.Num().Bit(0) == 1 {
			r = ceil
		}
	}
	return y.encode(r, 0, v.negative)
}

func (m machine) fractOracle(y layout, a uint64) uint64 {
	v := m.decode(y, a)
	switch {
	case v.nan:
		return v.pattern | y.quietBit()
	case v.inf:
		return y.infinity() | y.quietBit()
	}
	difference := new(big.Rat).Sub(v.fraction, integerPart(v.fraction))
	r := m.round(y, difference, false)
	below1 := y.encode(big.NewRat(1, 1), 0, false) - 1
	return min(r, below1)
}

// divFixupOracle follows AMD's pseudocode, with an overflow for a lost quotient.
func (m machine) divFixupOracle(y layout, x, z, w uint64) uint64 {
	a, b, c := y.decode(x, false), m.decode(y, z), m.decode(y, w)
	negative := b.negative != c.negative
	tiny := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Lsh(big.NewInt(1), 2000))
	if negative {
		tiny.Neg(tiny)
	}
	exponent := func(v value) int { return int(v.pattern >> y.fraction & (1<<y.exponent - 1)) }
	switch {
	case c.nan:
		return c.pattern | y.quietBit()
	case b.nan:
		return b.pattern | y.quietBit()
	case b.zero && c.zero, b.inf && c.inf:
		return y.signBit() | y.infinity() | y.quietBit()
	case b.zero, c.inf:
		return signed(y, negative, y.infinity())
	case b.inf, c.zero:
		return signed(y, negative, 0)
	case y == layout32 && exponent(c)-exponent(b) < -150, y == layout64 && exponent(c)-exponent(b) < -1075:
		return m.round(y, tiny, negative)
	case a.nan && y != layout16:
		return m.round(y, new(big.Rat).Inv(tiny), negative)
	}
	return signed(y, negative, a.pattern&^y.signBit())
}

// divScaleOracle is AMD's pseudocode; the denominator of a subnormal quotient is scaled down.
func (m machine) divScaleOracle(y layout, x, z, w uint64) (uint64, bool) {
	a, b, c := m.decode(y, x), m.decode(y, z), m.decode(y, w)
	scale, apart, tiny := 64, 96, 23
	if y == layout64 {
		scale, apart, tiny = 128, 768, 53
	}
	exponent := func(v value) int { return int(v.pattern >> y.fraction & (1<<y.exponent - 1)) }
	leastNormal := times2(big.NewRat(1, 1), 2-1<<(y.exponent-1))
	isSubnormal := func(r *big.Rat) bool { return r.Sign() != 0 && new(big.Rat).Abs(r).Cmp(leastNormal) < 0 }
	reciprocal, quotient := new(big.Rat), new(big.Rat) // 0 unless both are numbers
	if b.fraction != nil && c.fraction != nil && !b.zero {
		reciprocal.Inv(b.fraction)
		quotient.Mul(c.fraction, reciprocal)
	}
	scaled := func(n int) uint64 {
		if a.fraction == nil {
			if a.nan {
				return a.pattern | y.quietBit()
			}
			return a.pattern
		}
		return m.round(y, times2(a.fraction, n), a.negative)
	}
	switch {
	case b.zero || c.zero:
		return y.infinity() | y.quietBit(), false
	case exponent(c)-exponent(b) >= apart:
		if a.pattern == b.pattern {
			return scaled(scale), true
		}
		return a.pattern, true
	case b.subnormal:
		return scaled(scale), false
	case isSubnormal(reciprocal) && isSubnormal(quotient):
		if a.pattern == b.pattern {
			return scaled(-scale), true
		}
		return a.pattern, true
	case isSubnormal(reciprocal):
		return scaled(-scale), false
	case isSubnormal(quotient):
		if a.pattern == c.pattern {
			return scaled(scale), true
		}
		return a.pattern, true
	case exponent(c) <= tiny:
		return scaled(scale), false
	}
	return a.pattern, false
}

// toIntegerOracle truncates and saturates.
func (m machine) toIntegerOracle(y layout, x uint64, round string, lo, hi int64) int64 {
	v := m.decode(y, x)
	switch {
	case v.nan:
		return 0
	case v.inf && v.negative:
		return lo
	case v.inf:
		return hi
	}
	r := v.fraction
	switch round {
	case "trunc":
		if r.Sign() < 0 {
			r = new(big.Rat).Neg(integerPart(new(big.Rat).Neg(r)))
		} else {
			r = integerPart(r)
		}
	case "floor":
		r = integerPart(r)
	case "half up":
		r = integerPart(new(big.Rat).Add(r, big.NewRat(1, 2)))
	}
	if r.Cmp(new(big.Rat).SetInt64(lo)) < 0 {
		return lo
	}
	if r.Cmp(new(big.Rat).SetInt64(hi)) > 0 {
		return hi
	}
	return r.Num().Int64()
}

// normOracle returns the integer nearest to x·scale, the even one of two.
func (m machine) normOracle(y layout, x uint64, lo, scale int64) uint64 {
	v := m.decode(y, x)
	r := new(big.Rat)
	switch {
	case v.nan:
	case v.inf && v.negative:
		r.SetInt64(lo)
	case v.inf:
		r.SetInt64(1)
	default:
		r.Set(v.fraction)
	}
	if r.Cmp(big.NewRat(lo, 1)) < 0 {
		r.SetInt64(lo)
	}
	if r.Cmp(big.NewRat(1, 1)) > 0 {
		r.SetInt64(1)
	}
	r.Mul(r, big.NewRat(scale, 1))
	floor := integerPart(r)
	rest := new(big.Rat).Sub(r, floor)
	if c := rest.Cmp(big.NewRat(1, 2)); c > 0 || c == 0 && floor.Num().Bit(0) == 1 {
		floor.Add(floor, big.NewRat(1, 1))
	}
	return uint64(uint16(floor.Num().Int64()))
}

// convertOracle converts between formats.
func (m machine) convertOracle(from, to layout, x uint64, mode uint8) uint64 {
	v := m.decode(from, x)
	switch {
	case v.nan:
		payload := float64(x&(from.quietBit()-1)) * math.Ldexp(1, int(to.fraction)-int(from.fraction))
		return signed(to, v.negative, to.infinity()|to.quietBit()|uint64(payload))
	case v.inf:
		return signed(to, v.negative, to.infinity())
	}
	return m.flush(to, to.encode(v.fraction, mode, v.negative))
}

// integerTo converts an integer.
func (m machine) integerTo(y layout, v int64) uint64 {
	return m.round(y, new(big.Rat).SetInt64(v), false)
}

// pairOracle packs the results of two operands.
func pairOracle(one func(m machine, x uint64) uint64) oracle {
	return plain(func(m machine, a, b, _ uint64) uint64 {
		return uint64(uint16(one(m, a))) | uint64(uint16(one(m, b)))<<16
	})
}

func (m machine) mixOracle(a, b, c uint64) uint64 { return m.fmaOracle(layout32, a, b, c, 0) }

var conversionOracles = func() map[string]oracle {
	toInteger := func(y layout, round string, lo, hi int64, width uint) oracle {
		return plain(func(m machine, a, _, _ uint64) uint64 {
			return uint64(m.toIntegerOracle(y, a, round, lo, hi)) & (1<<width - 1)
		})
	}
	fromInteger := func(y layout, f func(x uint64) int64) oracle {
		return plain(func(m machine, a, _, _ uint64) uint64 { return m.integerTo(y, f(a)) })
	}
	convert := func(from, to layout, mode func(m Mode) uint8) oracle {
		return plain(func(m machine, a, _, _ uint64) uint64 { return m.convertOracle(from, to, a, mode(m.mode)) })
	}
	norm := func(y layout, lo, scale int64) func(m machine, x uint64) uint64 {
		return func(m machine, x uint64) uint64 { return m.normOracle(y, x, lo, scale) }
	}
	towardZero := pairOracle(func(m machine, x uint64) uint64 { return m.convertOracle(layout32, layout16, x, 3) })
	round64 := func(m Mode) uint8 { return m.Round64 }
	round32 := func(m Mode) uint8 { return m.Round32 }
	narrowed := plain(func(m machine, a, b, c uint64) uint64 {
		return m.convertOracle(layout32, layout16, m.mixOracle(a, b, c), m.mode.Round64)
	})
	return map[string]oracle{
		"cvt_f32_f16": convert(layout16, layout32, round32),
		"cvt_f16_f32": convert(layout32, layout16, round64),
		"cvt_f64_f32": convert(layout32, layout64, round64),
		"cvt_f32_f64": convert(layout64, layout32, round32),
		"cvt_i32_f32": toInteger(layout32, "trunc", math.MinInt32, math.MaxInt32, 32),
		"cvt_u32_f32": toInteger(layout32, "trunc", 0, math.MaxUint32, 32),
		"cvt_i32_f64": toInteger(layout64, "trunc", math.MinInt32, math.MaxInt32, 32),
		"cvt_u32_f64": toInteger(layout64, "trunc", 0, math.MaxUint32, 32),
		"cvt_i16_f16": toInteger(layout16, "trunc", math.MinInt16, math.MaxInt16, 16),
		"cvt_u16_f16": toInteger(layout16, "trunc", 0, math.MaxUint16, 16),

		"cvt_rpi_i32_f32":     toInteger(layout32, "half up", math.MinInt32, math.MaxInt32, 32),
		"cvt_nearest_i32_f32": toInteger(layout32, "half up", math.MinInt32, math.MaxInt32, 32),
		"cvt_flr_i32_f32":     toInteger(layout32, "floor", math.MinInt32, math.MaxInt32, 32),
		"cvt_floor_i32_f32":   toInteger(layout32, "floor", math.MinInt32, math.MaxInt32, 32),

		"cvt_f32_i32":    fromInteger(layout32, func(x uint64) int64 { return s(int64(x), 32) }),
		"cvt_f32_u32":    fromInteger(layout32, func(x uint64) int64 { return int64(x) }),
		"cvt_f64_i32":    fromInteger(layout64, func(x uint64) int64 { return s(int64(x), 32) }),
		"cvt_f64_u32":    fromInteger(layout64, func(x uint64) int64 { return int64(x) }),
		"cvt_f16_i16":    fromInteger(layout16, func(x uint64) int64 { return s(int64(x), 16) }),
		"cvt_f16_u16":    fromInteger(layout16, func(x uint64) int64 { return int64(x) }),
		"cvt_f32_ubyte0": fromInteger(layout32, func(x uint64) int64 { return int64(x) % 256 }),
		"cvt_f32_ubyte1": fromInteger(layout32, func(x uint64) int64 { return int64(x) >> 8 % 256 }),
		"cvt_f32_ubyte2": fromInteger(layout32, func(x uint64) int64 { return int64(x) >> 16 % 256 }),
		"cvt_f32_ubyte3": fromInteger(layout32, func(x uint64) int64 { return int64(x) >> 24 % 256 }),
		"cvt_off_f32_i4": plain(func(m machine, a, _, _ uint64) uint64 {
			return m.round(layout32, big.NewRat(s(int64(a), 4), 16), false)
		}),
		"cvt_i32_i16": word(func(a, _, _ int64) int64 { return s(a, 16) }),
		"cvt_u32_u16": word(func(a, _, _ int64) int64 { return a }),

		"cvt_pknorm_i16_f32":  pairOracle(norm(layout32, -1, 32767)),
		"cvt_pk_norm_i16_f32": pairOracle(norm(layout32, -1, 32767)),
		"cvt_pknorm_u16_f32":  pairOracle(norm(layout32, 0, 65535)),
		"cvt_pk_norm_u16_f32": pairOracle(norm(layout32, 0, 65535)),
		"cvt_pknorm_i16_f16":  pairOracle(norm(layout16, -1, 32767)),
		"cvt_pk_norm_i16_f16": pairOracle(norm(layout16, -1, 32767)),
		"cvt_pknorm_u16_f16":  pairOracle(norm(layout16, 0, 65535)),
		"cvt_pk_norm_u16_f16": pairOracle(norm(layout16, 0, 65535)),
		"cvt_norm_i16_f16":    plain(func(m machine, a, _, _ uint64) uint64 { return m.normOracle(layout16, a, -1, 32767) }),
		"cvt_norm_u16_f16":    plain(func(m machine, a, _, _ uint64) uint64 { return m.normOracle(layout16, a, 0, 65535) }),

		"cvt_pkrtz_f16_f32":  towardZero,
		"cvt_pk_rtz_f16_f32": towardZero,
		"cvt_pk_i16_i32": pairOracle(func(_ machine, x uint64) uint64 {
			return uint64(max(-32768, min(32767, s(int64(x), 32))))
		}),
		"cvt_pk_u16_u32": pairOracle(func(_ machine, x uint64) uint64 { return min(x, 65535) }),
		"cvt_pk_i16_f32": pairOracle(func(m machine, x uint64) uint64 {
			return uint64(m.toIntegerOracle(layout32, x, "trunc", -32768, 32767))
		}),
		"cvt_pk_u16_f32": pairOracle(func(m machine, x uint64) uint64 {
			return uint64(m.toIntegerOracle(layout32, x, "trunc", 0, 65535))
		}),
		"cvt_pk_u8_f32": plain(func(m machine, a, b, c uint64) uint64 {
			bytes := []uint64{c % 256, c >> 8 % 256, c >> 16 % 256, c >> 24}
			bytes[b%4] = uint64(m.toIntegerOracle(layout32, a, "trunc", 0, 255))
			return bytes[0] + bytes[1]<<8 + bytes[2]<<16 + bytes[3]<<24
		}),
		"sat_pk_u8_i16": plain(func(_ machine, a, _, _ uint64) uint64 {
			lo, hi := s(int64(a), 16), s(int64(a>>16), 16)
			return uint64(max(0, min(255, lo)) + max(0, min(255, hi))*256)
		}),
		"pack_b32_f16": pairOracle(func(m machine, x uint64) uint64 { return m.flushNumber(layout16, m.decode(layout16, x)) }),

		"fma_mix_f32":   plain(func(m machine, a, b, c uint64) uint64 { return m.mixOracle(a, b, c) }),
		"fma_mixlo_f16": narrowed,
		"fma_mixhi_f16": narrowed,
	}
}()
