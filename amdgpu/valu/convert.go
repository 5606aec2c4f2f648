package valu

import (
	"math"

	"tokitai/amdgpu/isa"
)

// toInteger truncates to an integer in [lo, hi]: a NaN becomes 0, a number beyond the range the
// nearest end of it.
func (l *lane) toInteger(f *format, x uint64, lo, hi float64) uint64 {
	x = l.operand(f, x)
	if f.isNaN(x) {
		return 0
	}
	return uint64(int64(max(lo, min(hi, math.Trunc(f.float(x))))))
}

// reformat converts between formats.
func (l *lane) reformat(from, to *format, x uint64, mode uint8) uint64 {
	x = l.operand(from, x)
	if from.isNaN(x) {
		payload := x & (from.quiet - 1)
		if from.significand > to.significand {
			payload >>= from.significand - to.significand
		} else {
			payload <<= to.significand - from.significand
		}
		if x&from.sign != 0 {
			payload |= to.sign
		}
		return payload | to.nan()
	}
	return l.result(to, to.round(from.float(x), mode))
}

// normalized returns the integer nearest to x·scale, x limited to [least, 1].
func (l *lane) normalized(f *format, x uint64, least, scale float64) uint64 {
	x = l.operand(f, x)
	if f.isNaN(x) {
		return 0
	}
	return uint64(uint16(int32(math.RoundToEven(max(least, min(1, f.float(x))) * scale))))
}

// pair returns the function that applies one to two operands and packs the results of 16 bits.
func pair(one func(l *lane, x uint64) uint64) laneFunc {
	return func(l *lane, a, b, _ uint64) uint64 { return one(l, a)&0xffff | one(l, b)&0xffff<<16 }
}

// fromInteger converts an integer that binary64 holds exactly.
func (l *lane) fromInteger(f *format, v float64) uint64 {
	return l.result(f, f.round(v, l.rounding(f)))
}

const (
	maxU32 = math.MaxUint32
	minI32 = math.MinInt32
	maxI32 = math.MaxInt32
)

func (t *table) defineConversions() {
	f16, f32, f64 := []Type{F16}, []Type{F32}, []Type{F64}

	t.add("v_cvt_f32_f16", F32, f16, func(l *lane, a, _, _ uint64) uint64 { return l.reformat(half, single, a, toNearest) })
	t.add("v_cvt_f16_f32", F16, f32, func(l *lane, a, _, _ uint64) uint64 { return l.reformat(single, half, a, l.mode.Round64) })
	t.add("v_cvt_f64_f32", F64, f32, func(l *lane, a, _, _ uint64) uint64 { return l.reformat(single, double, a, toNearest) })
	t.add("v_cvt_f32_f64", F32, f64, func(l *lane, a, _, _ uint64) uint64 { return l.reformat(double, single, a, l.mode.Round32) })

	for _, from := range []struct {
		name string
		f    *format
		typ  Type
	}{{"f32", single, F32}, {"f64", double, F64}} {
		t.add("v_cvt_i32_"+from.name, I32, []Type{from.typ}, func(l *lane, a, _, _ uint64) uint64 {
			return uint64(uint32(l.toInteger(from.f, a, minI32, maxI32)))
		})
		t.add("v_cvt_u32_"+from.name, U32, []Type{from.typ}, func(l *lane, a, _, _ uint64) uint64 {
			return l.toInteger(from.f, a, 0, maxU32)
		})
		t.add("v_cvt_"+from.name+"_i32", from.typ, []Type{I32}, func(l *lane, a, _, _ uint64) uint64 {
			return l.fromInteger(from.f, float64(int32(a)))
		})
		t.add("v_cvt_"+from.name+"_u32", from.typ, []Type{U32}, func(l *lane, a, _, _ uint64) uint64 {
			return l.fromInteger(from.f, float64(uint32(a)))
		})
	}
	t.add("v_cvt_i16_f16", I16, f16, func(l *lane, a, _, _ uint64) uint64 {
		return uint64(uint16(l.toInteger(half, a, math.MinInt16, math.MaxInt16)))
	})
	t.add("v_cvt_u16_f16", U16, f16, func(l *lane, a, _, _ uint64) uint64 { return l.toInteger(half, a, 0, math.MaxUint16) })
	t.add("v_cvt_f16_i16", F16, []Type{I16}, func(l *lane, a, _, _ uint64) uint64 { return l.fromInteger(half, float64(int16(a))) })
	t.add("v_cvt_f16_u16", F16, []Type{U16}, func(l *lane, a, _, _ uint64) uint64 { return l.fromInteger(half, float64(uint16(a))) })
	for byte := range 4 {
		t.add("v_cvt_f32_ubyte"+string(rune('0'+byte)), F32, []Type{U32}, func(l *lane, a, _, _ uint64) uint64 {
			return l.fromInteger(single, float64(uint8(a>>(8*byte))))
		})
	}
	t.add("v_cvt_off_f32_i4", F32, []Type{U32}, func(l *lane, a, _, _ uint64) uint64 {
		return l.fromInteger(single, float64(int8(a<<4)>>4)/16)
	})

	rpi, flr := "v_cvt_rpi_i32_f32", "v_cvt_flr_i32_f32"
	normI32, normU32 := "v_cvt_pknorm_i16_f32", "v_cvt_pknorm_u16_f32"
	normI16, normU16 := "v_cvt_pknorm_i16_f16", "v_cvt_pknorm_u16_f16"
	rtz := "v_cvt_pkrtz_f16_f32"
	if t.family == isa.GFX11 {
		rpi, flr = "v_cvt_nearest_i32_f32", "v_cvt_floor_i32_f32"
		normI32, normU32 = "v_cvt_pk_norm_i16_f32", "v_cvt_pk_norm_u16_f32"
		normI16, normU16 = "v_cvt_pk_norm_i16_f16", "v_cvt_pk_norm_u16_f16"
		rtz = "v_cvt_pk_rtz_f16_f32"
		t.add("v_cvt_i32_i16", I32, []Type{I16}, func(_ *lane, a, _, _ uint64) uint64 { return uint64(uint32(int16(a))) })
		t.add("v_cvt_u32_u16", U32, []Type{U16}, func(_ *lane, a, _, _ uint64) uint64 { return a })
		t.add("v_cvt_pk_i16_f32", PKI16, []Type{F32, F32}, pair(func(l *lane, x uint64) uint64 {
			return l.toInteger(single, x, math.MinInt16, math.MaxInt16)
		}))
		t.add("v_cvt_pk_u16_f32", PKU16, []Type{F32, F32}, pair(func(l *lane, x uint64) uint64 {
			return l.toInteger(single, x, 0, math.MaxUint16)
		}))
	}
	rounded := func(round func(float64) float64) laneFunc {
		return func(l *lane, a, _, _ uint64) uint64 {
			a = l.operand(single, a)
			if single.isNaN(a) {
				return 0
			}
			return uint64(uint32(int64(max(minI32, min(maxI32, round(single.float(a)))))))
		}
	}
	t.add(rpi, I32, f32, rounded(func(v float64) float64 { return math.Floor(v + 0.5) }))
	t.add(flr, I32, f32, rounded(math.Floor))

	snorm := func(f *format) func(*lane, uint64) uint64 {
		return func(l *lane, x uint64) uint64 { return l.normalized(f, x, -1, math.MaxInt16) }
	}
	unorm := func(f *format) func(*lane, uint64) uint64 {
		return func(l *lane, x uint64) uint64 { return l.normalized(f, x, 0, math.MaxUint16) }
	}
	t.add(normI32, PKI16, []Type{F32, F32}, pair(snorm(single)))
	t.add(normU32, PKU16, []Type{F32, F32}, pair(unorm(single)))
	t.add(normI16, PKI16, []Type{F16, F16}, pair(snorm(half)))
	t.add(normU16, PKU16, []Type{F16, F16}, pair(unorm(half)))
	t.add("v_cvt_norm_i16_f16", I16, f16, func(l *lane, a, _, _ uint64) uint64 { return snorm(half)(l, a) })
	t.add("v_cvt_norm_u16_f16", U16, f16, func(l *lane, a, _, _ uint64) uint64 { return unorm(half)(l, a) })

	t.add(rtz, PKF16, []Type{F32, F32}, pair(func(l *lane, x uint64) uint64 { return l.reformat(single, half, x, towardZero) }))
	t.add("v_cvt_pk_i16_i32", PKI16, []Type{I32, I32}, pair(func(_ *lane, x uint64) uint64 {
		return uint64(uint16(max(math.MinInt16, min(math.MaxInt16, int32(x)))))
	}))
	t.add("v_cvt_pk_u16_u32", PKU16, []Type{U32, U32}, pair(func(_ *lane, x uint64) uint64 { return min(x, math.MaxUint16) }))
	t.add("v_cvt_pk_u8_f32", U32, []Type{F32, U32, U32}, func(l *lane, a, b, c uint64) uint64 {
		shift := b & 3 * 8
		return c&^(0xff<<shift) | l.toInteger(single, a, 0, math.MaxUint8)<<shift
	})
	t.add("v_sat_pk_u8_i16", B16, []Type{PKI16}, func(_ *lane, a, _, _ uint64) uint64 {
		saturate := func(v int16) uint64 { return uint64(max(0, min(math.MaxUint8, v))) }
		return saturate(int16(a)) | saturate(int16(a>>16))<<8
	})
	t.add("v_pack_b32_f16", PKF16, []Type{F16, F16}, pair(func(l *lane, x uint64) uint64 { return l.result(half, l.operand(half, x)) }))
}
