package valu

import (
	"math"
	"math/bits"

	"tokitai/amdgpu/isa"
)

// Integer operations saturate where clamp is set.

func (l *lane) unsigned(v int64, width uint) uint64 {
	if limit := int64(1)<<width - 1; l.clamp {
		v = max(0, min(limit, v))
	}
	return uint64(v) & (1<<width - 1)
}

func (l *lane) signed(v int64, width uint) uint64 {
	if limit := int64(1) << (width - 1); l.clamp {
		v = max(-limit, min(limit-1, v))
	}
	return uint64(v) & (1<<width - 1)
}

func i16(x uint64) int64 { return int64(int16(x)) }
func i24(x uint64) int64 { return int64(int32(x<<8) >> 8) }
func u24(x uint64) int64 { return int64(x & 0xffffff) }
func i32(x uint64) int64 { return int64(int32(x)) }

// words makes a function of 32-bit words that needs nothing else.
func words(f func(a, b, c uint32) uint32) laneFunc {
	return func(_ *lane, a, b, c uint64) uint64 { return uint64(f(uint32(a), uint32(b), uint32(c))) }
}

// halves makes a function of 16-bit words that needs nothing else.
func halves(f func(a, b, c uint16) uint16) laneFunc {
	return func(_ *lane, a, b, c uint64) uint64 { return uint64(f(uint16(a), uint16(b), uint16(c))) }
}

func median[T int16 | uint16 | int32 | uint32](a, b, c T) T {
	return max(min(a, b), min(max(a, b), c))
}

func (t *table) defineIntegers() {
	t.defineBits()
	t.defineSums()
	t.defineProducts()
	t.defineExtremes()
	t.defineShort()
	t.defineBytes()
	t.defineIntegerComparisons()
}

func (t *table) defineBits() {
	one, two, three := []Type{B32}, []Type{B32, B32}, []Type{B32, B32, B32}
	t.add("v_mov_b32", B32, one, words(func(a, _, _ uint32) uint32 { return a }))
	t.add("v_not_b32", B32, one, words(func(a, _, _ uint32) uint32 { return ^a }))
	t.add("v_bfrev_b32", B32, one, words(func(a, _, _ uint32) uint32 { return bits.Reverse32(a) }))
	t.add("v_and_b32", B32, two, words(func(a, b, _ uint32) uint32 { return a & b }))
	t.add("v_or_b32", B32, two, words(func(a, b, _ uint32) uint32 { return a | b }))
	t.add("v_xor_b32", B32, two, words(func(a, b, _ uint32) uint32 { return a ^ b }))
	t.add("v_xnor_b32", B32, two, words(func(a, b, _ uint32) uint32 { return ^(a ^ b) }))
	t.add("v_lshlrev_b32", B32, two, words(func(a, b, _ uint32) uint32 { return b << (a & 31) }))
	t.add("v_lshrrev_b32", B32, two, words(func(a, b, _ uint32) uint32 { return b >> (a & 31) }))
	t.add("v_ashrrev_i32", I32, []Type{U32, I32}, words(func(a, b, _ uint32) uint32 { return uint32(int32(b) >> (a & 31)) }))
	t.add("v_bfm_b32", B32, two, words(func(a, b, _ uint32) uint32 { return (1<<(a&31) - 1) << (b & 31) }))
	t.add("v_bfi_b32", B32, three, words(func(a, b, c uint32) uint32 { return a&b | ^a&c }))
	t.add("v_bfe_u32", U32, three, words(func(a, b, c uint32) uint32 { return a >> (b & 31) & (1<<(c&31) - 1) }))
	t.add("v_bfe_i32", I32, three, words(func(a, b, c uint32) uint32 {
		width := c & 31
		if width == 0 {
			return 0
		}
		return uint32(int32(uint32(int32(a)>>(b&31))<<(32-width)) >> (32 - width))
	}))
	t.add("v_alignbit_b32", B32, three, words(func(a, b, c uint32) uint32 {
		return uint32((uint64(a)<<32 | uint64(b)) >> (c & 31))
	}))
	t.add("v_alignbyte_b32", B32, three, words(func(a, b, c uint32) uint32 {
		return uint32((uint64(a)<<32 | uint64(b)) >> (c & 3 * 8))
	}))
	t.add("v_perm_b32", B32, three, words(permute))
	t.add("v_and_or_b32", B32, three, words(func(a, b, c uint32) uint32 { return a&b | c }))
	t.add("v_or3_b32", B32, three, words(func(a, b, c uint32) uint32 { return a | b | c }))
	t.add("v_lshl_or_b32", B32, three, words(func(a, b, c uint32) uint32 { return a<<(b&31) | c }))
	if t.family == isa.GFX11 {
		t.add("v_xor3_b32", B32, three, words(func(a, b, c uint32) uint32 { return a ^ b ^ c }))
	} else {
		t.add("v_mov_b64", B64, []Type{B64}, func(_ *lane, a, _, _ uint64) uint64 { return a })
		for _, name := range []string{"v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32"} {
			t.add(name, B32, one, words(func(a, _, _ uint32) uint32 { return a }))
		}
	}
	t.add("v_bcnt_u32_b32", U32, two, words(func(a, b, _ uint32) uint32 { return uint32(bits.OnesCount32(a)) + b }))
	// Positions of bits, -1 if there is none.
	highest, lowest, sign := "v_ffbh_u32", "v_ffbl_b32", "v_ffbh_i32"
	if t.family == isa.GFX11 {
		highest, lowest, sign = "v_clz_i32_u32", "v_ctz_i32_b32", "v_cls_i32"
	}
	t.add(highest, I32, []Type{U32}, words(func(a, _, _ uint32) uint32 {
		if a == 0 {
			return ^uint32(0)
		}
		return uint32(bits.LeadingZeros32(a))
	}))
	t.add(lowest, I32, one, words(func(a, _, _ uint32) uint32 {
		if a == 0 {
			return ^uint32(0)
		}
		return uint32(bits.TrailingZeros32(a))
	}))
	t.add(sign, I32, []Type{I32}, words(func(a, _, _ uint32) uint32 {
		if a = a ^ uint32(int32(a)>>31); a == 0 {
			return ^uint32(0)
		}
		return uint32(bits.LeadingZeros32(a))
	}))
	t.add("v_lshlrev_b64", B64, []Type{U32, B64}, func(_ *lane, a, b, _ uint64) uint64 { return b << (a & 63) })
	t.add("v_lshrrev_b64", B64, []Type{U32, B64}, func(_ *lane, a, b, _ uint64) uint64 { return b >> (a & 63) })
	t.add("v_ashrrev_i64", I64, []Type{U32, I64}, func(_ *lane, a, b, _ uint64) uint64 { return uint64(int64(b) >> (a & 63)) })
	t.add("v_cndmask_b32", B32, []Type{B32, B32, Mask}, choose)
}

// choose returns b where the condition holds, a elsewhere.
func choose(l *lane, a, b, _ uint64) uint64 {
	if l.in {
		return b
	}
	return a
}

// permute selects each byte of the result among those of a (4 to 7) and b (0 to 3), their
// signs, 0 and 0xff.
func permute(a, b, selectors uint32) uint32 {
	data := uint64(a)<<32 | uint64(b)
	var r uint32
	for i := range 4 {
		var byte uint32
		switch s := selectors >> (8 * i) & 0xff; {
		case s >= 13:
			byte = 0xff
		case s == 12:
			byte = 0
		case s >= 8:
			if data>>(16*(s-8)+15)&1 != 0 {
				byte = 0xff
			}
		default:
			byte = uint32(data >> (8 * s) & 0xff)
		}
		r |= byte << (8 * i)
	}
	return r
}

func (t *table) defineSums() {
	two, three, withCarry := []Type{U32, U32}, []Type{U32, U32, U32}, []Type{U32, U32, Mask}
	add, sub, subrev := "v_add_u32", "v_sub_u32", "v_subrev_u32"
	addI, subI := "v_add_i32", "v_sub_i32"
	addc, subb, subbrev := "v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32"
	if t.family == isa.GFX11 {
		add, sub, subrev = "v_add_nc_u32", "v_sub_nc_u32", "v_subrev_nc_u32"
		addI, subI = "v_add_nc_i32", "v_sub_nc_i32"
		addc, subb, subbrev = "v_add_co_ci_u32", "v_sub_co_ci_u32", "v_subrev_co_ci_u32"
	}
	sum := func(l *lane, a, b, _ uint64) uint64 { return l.unsigned(int64(a+b), 32) }
	difference := func(l *lane, a, b, _ uint64) uint64 { return l.unsigned(int64(a)-int64(b), 32) }
	t.add(add, U32, two, sum)
	t.add(sub, U32, two, difference)
	t.add(subrev, U32, two, func(l *lane, a, b, _ uint64) uint64 { return difference(l, b, a, 0) })
	t.add(addI, I32, []Type{I32, I32}, func(l *lane, a, b, _ uint64) uint64 { return l.signed(i32(a)+i32(b), 32) })
	t.add(subI, I32, []Type{I32, I32}, func(l *lane, a, b, _ uint64) uint64 { return l.signed(i32(a)-i32(b), 32) })

	carried := func(l *lane, v int64) uint64 {
		l.out = v < 0 || v > math.MaxUint32
		return l.unsigned(v, 32)
	}
	carry := func(l *lane) int64 {
		if l.in {
			return 1
		}
		return 0
	}
	for _, op := range []struct {
		name    string
		sources []Type
		sum     func(a, b, carry int64) int64
	}{
		{"v_add_co_u32", two, func(a, b, _ int64) int64 { return a + b }},
		{"v_sub_co_u32", two, func(a, b, _ int64) int64 { return a - b }},
		{"v_subrev_co_u32", two, func(a, b, _ int64) int64 { return b - a }},
		{addc, withCarry, func(a, b, c int64) int64 { return a + b + c }},
		{subb, withCarry, func(a, b, c int64) int64 { return a - b - c }},
		{subbrev, withCarry, func(a, b, c int64) int64 { return b - a - c }},
	} {
		t.add(op.name, U32, op.sources, func(l *lane, a, b, _ uint64) uint64 {
			return carried(l, op.sum(int64(a), int64(b), carry(l)))
		}).Carry = true
	}

	t.add("v_add3_u32", U32, three, words(func(a, b, c uint32) uint32 { return a + b + c }))
	t.add("v_lshl_add_u32", U32, three, words(func(a, b, c uint32) uint32 { return a<<(b&31) + c }))
	t.add("v_add_lshl_u32", U32, three, words(func(a, b, c uint32) uint32 { return (a + b) << (c & 31) }))
	t.add("v_xad_u32", U32, three, words(func(a, b, c uint32) uint32 { return (a ^ b) + c }))
	if t.family == isa.GFX9 {
		t.add("v_lshl_add_u64", U64, []Type{U64, U32, U64}, func(_ *lane, a, b, c uint64) uint64 { return a<<(b&7) + c })
	}
}

func (t *table) defineProducts() {
	two, three := []Type{U32, U32}, []Type{U32, U32, U32}
	signed, signed3 := []Type{I32, I32}, []Type{I32, I32, I32}
	t.add("v_mul_lo_u32", U32, two, words(func(a, b, _ uint32) uint32 { return a * b }))
	t.add("v_mul_hi_u32", U32, two, words(func(a, b, _ uint32) uint32 { return uint32(uint64(a) * uint64(b) >> 32) }))
	t.add("v_mul_hi_i32", I32, signed, func(_ *lane, a, b, _ uint64) uint64 { return uint64(uint32(i32(a) * i32(b) >> 32)) })
	t.add("v_mul_u32_u24", U32, two, func(_ *lane, a, b, _ uint64) uint64 { return uint64(uint32(u24(a) * u24(b))) })
	t.add("v_mul_i32_i24", I32, signed, func(_ *lane, a, b, _ uint64) uint64 { return uint64(uint32(i24(a) * i24(b))) })
	t.add("v_mul_hi_u32_u24", U32, two, func(_ *lane, a, b, _ uint64) uint64 { return uint64(u24(a) * u24(b) >> 32) })
	t.add("v_mul_hi_i32_i24", I32, signed, func(_ *lane, a, b, _ uint64) uint64 { return uint64(uint32(i24(a) * i24(b) >> 32)) })
	t.add("v_mad_u32_u24", U32, three, func(l *lane, a, b, c uint64) uint64 { return l.unsigned(u24(a)*u24(b)+int64(c), 32) })
	t.add("v_mad_i32_i24", I32, signed3, func(l *lane, a, b, c uint64) uint64 { return l.signed(i24(a)*i24(b)+i32(c), 32) })
	t.add("v_mad_u32_u16", U32, []Type{U16, U16, U32}, func(l *lane, a, b, c uint64) uint64 { return l.unsigned(int64(a*b+c), 32) })
	t.add("v_mad_i32_i16", I32, []Type{I16, I16, I32}, func(l *lane, a, b, c uint64) uint64 { return l.signed(i16(a)*i16(b)+i32(c), 32) })
	t.add("v_mad_u64_u32", U64, []Type{U32, U32, U64}, func(l *lane, a, b, c uint64) uint64 {
		r, carry := bits.Add64(a*b, c, 0)
		l.out = carry != 0
		return r
	}).Carry = true
	t.add("v_mad_i64_i32", I64, []Type{I32, I32, I64}, func(l *lane, a, b, c uint64) uint64 {
		p := i32(a) * i32(b)
		r := p + int64(c)
		// Bit 64 of the sum: its sign, which is not that of r after an overflow.
		overflow := (p^r)&(int64(c)^r) < 0
		l.out = (r < 0) != overflow
		return uint64(r)
	}).Carry = true
}

func (t *table) defineExtremes() {
	signed := func(f func(a, b, c int32) int32) laneFunc {
		return words(func(a, b, c uint32) uint32 { return uint32(f(int32(a), int32(b), int32(c))) })
	}
	i2, u2, i3, u3 := []Type{I32, I32}, []Type{U32, U32}, []Type{I32, I32, I32}, []Type{U32, U32, U32}
	t.add("v_min_i32", I32, i2, signed(func(a, b, _ int32) int32 { return min(a, b) }))
	t.add("v_max_i32", I32, i2, signed(func(a, b, _ int32) int32 { return max(a, b) }))
	t.add("v_min_u32", U32, u2, words(func(a, b, _ uint32) uint32 { return min(a, b) }))
	t.add("v_max_u32", U32, u2, words(func(a, b, _ uint32) uint32 { return max(a, b) }))
	t.add("v_min3_i32", I32, i3, signed(func(a, b, c int32) int32 { return min(a, b, c) }))
	t.add("v_max3_i32", I32, i3, signed(func(a, b, c int32) int32 { return max(a, b, c) }))
	t.add("v_min3_u32", U32, u3, words(func(a, b, c uint32) uint32 { return min(a, b, c) }))
	t.add("v_max3_u32", U32, u3, words(func(a, b, c uint32) uint32 { return max(a, b, c) }))
	t.add("v_med3_i32", I32, i3, signed(median[int32]))
	t.add("v_med3_u32", U32, u3, words(median[uint32]))
	if t.family == isa.GFX11 {
		t.add("v_maxmin_i32", I32, i3, signed(func(a, b, c int32) int32 { return min(max(a, b), c) }))
		t.add("v_minmax_i32", I32, i3, signed(func(a, b, c int32) int32 { return max(min(a, b), c) }))
		t.add("v_maxmin_u32", U32, u3, words(func(a, b, c uint32) uint32 { return min(max(a, b), c) }))
		t.add("v_minmax_u32", U32, u3, words(func(a, b, c uint32) uint32 { return max(min(a, b), c) }))
	}
}

// defineShort adds what works on 16 bits.
func (t *table) defineShort() {
	signed := func(f func(a, b, c int16) int16) laneFunc {
		return halves(func(a, b, c uint16) uint16 { return uint16(f(int16(a), int16(b), int16(c))) })
	}
	i2, u2, i3, u3 := []Type{I16, I16}, []Type{U16, U16}, []Type{I16, I16, I16}, []Type{U16, U16, U16}
	t.add("v_min_i16", I16, i2, signed(func(a, b, _ int16) int16 { return min(a, b) }))
	t.add("v_max_i16", I16, i2, signed(func(a, b, _ int16) int16 { return max(a, b) }))
	t.add("v_min_u16", U16, u2, halves(func(a, b, _ uint16) uint16 { return min(a, b) }))
	t.add("v_max_u16", U16, u2, halves(func(a, b, _ uint16) uint16 { return max(a, b) }))
	t.add("v_min3_i16", I16, i3, signed(func(a, b, c int16) int16 { return min(a, b, c) }))
	t.add("v_max3_i16", I16, i3, signed(func(a, b, c int16) int16 { return max(a, b, c) }))
	t.add("v_min3_u16", U16, u3, halves(func(a, b, c uint16) uint16 { return min(a, b, c) }))
	t.add("v_max3_u16", U16, u3, halves(func(a, b, c uint16) uint16 { return max(a, b, c) }))
	t.add("v_med3_i16", I16, i3, signed(median[int16]))
	t.add("v_med3_u16", U16, u3, halves(median[uint16]))
	t.add("v_lshlrev_b16", B16, []Type{U16, B16}, halves(func(a, b, _ uint16) uint16 { return b << (a & 15) }))
	t.add("v_lshrrev_b16", B16, []Type{U16, B16}, halves(func(a, b, _ uint16) uint16 { return b >> (a & 15) }))
	t.add("v_ashrrev_i16", I16, []Type{U16, I16}, halves(func(a, b, _ uint16) uint16 { return uint16(int16(b) >> (a & 15)) }))

	addU := func(l *lane, a, b, _ uint64) uint64 { return l.unsigned(int64(a+b), 16) }
	subU := func(l *lane, a, b, _ uint64) uint64 { return l.unsigned(int64(a)-int64(b), 16) }
	addI := func(l *lane, a, b, _ uint64) uint64 { return l.signed(i16(a)+i16(b), 16) }
	subI := func(l *lane, a, b, _ uint64) uint64 { return l.signed(i16(a)-i16(b), 16) }
	madU := func(l *lane, a, b, c uint64) uint64 { return l.unsigned(int64(a*b+c), 16) }
	madI := func(l *lane, a, b, c uint64) uint64 { return l.signed(i16(a)*i16(b)+i16(c), 16) }
	t.add("v_mul_lo_u16", U16, u2, func(_ *lane, a, b, _ uint64) uint64 { return a * b & 0xffff })
	t.add("v_mad_u16", U16, u3, madU)
	t.add("v_mad_i16", I16, i3, madI)
	if t.family == isa.GFX9 {
		t.add("v_add_u16", U16, u2, addU)
		t.add("v_sub_u16", U16, u2, subU)
		t.add("v_subrev_u16", U16, u2, func(l *lane, a, b, _ uint64) uint64 { return subU(l, b, a, 0) })
		t.add("v_add_i16", I16, i2, addI)
		t.add("v_sub_i16", I16, i2, subI)
		t.add("v_mad_legacy_u16", U16, u3, madU)
		t.add("v_mad_legacy_i16", I16, i3, madI)
		return
	}
	t.add("v_add_nc_u16", U16, u2, addU)
	t.add("v_sub_nc_u16", U16, u2, subU)
	t.add("v_add_nc_i16", I16, i2, addI)
	t.add("v_sub_nc_i16", I16, i2, subI)
	b1, b2 := []Type{B16}, []Type{B16, B16}
	t.add("v_mov_b16", B16, b1, halves(func(a, _, _ uint16) uint16 { return a }))
	t.add("v_not_b16", B16, b1, halves(func(a, _, _ uint16) uint16 { return ^a }))
	t.add("v_and_b16", B16, b2, halves(func(a, b, _ uint16) uint16 { return a & b }))
	t.add("v_or_b16", B16, b2, halves(func(a, b, _ uint16) uint16 { return a | b }))
	t.add("v_xor_b16", B16, b2, halves(func(a, b, _ uint16) uint16 { return a ^ b }))
	t.add("v_cndmask_b16", B16, []Type{B16, B16, Mask}, choose)
}

// defineBytes adds the sums of absolute differences.
func (t *table) defineBytes() {
	three := []Type{U32, U32, U32}
	t.add("v_sad_u8", U32, three, words(func(a, b, c uint32) uint32 { return sad(a, b, 8, false) + c }))
	t.add("v_sad_hi_u8", U32, three, words(func(a, b, c uint32) uint32 { return sad(a, b, 8, false)<<16 + c }))
	t.add("v_sad_u16", U32, three, words(func(a, b, c uint32) uint32 { return sad(a, b, 16, false) + c }))
	t.add("v_sad_u32", U32, three, words(func(a, b, c uint32) uint32 { return sad(a, b, 32, false) + c }))
	t.add("v_msad_u8", U32, three, words(func(a, b, c uint32) uint32 { return sad(a, b, 8, true) + c }))
	t.add("v_lerp_u8", U32, three, words(func(a, b, c uint32) uint32 {
		var r uint32
		for i := 0; i < 32; i += 8 {
			r |= (a>>i&0xff + b>>i&0xff + c>>i&1) >> 1 << i
		}
		return r
	}))
	for _, op := range []struct {
		name   string
		masked bool
	}{{"v_qsad_pk_u16_u8", false}, {"v_mqsad_pk_u16_u8", true}} {
		t.add(op.name, U64, []Type{U64, U32, U64}, func(_ *lane, a, b, c uint64) uint64 {
			var r uint64
			for i := range 4 {
				r |= (uint64(sad(uint32(a>>(8*i)), uint32(b), 8, op.masked)) + c>>(16*i)) & 0xffff << (16 * i)
			}
			return r
		})
	}
}

// sad returns the sum of the absolute differences of fields of the given width. Where it is
// masked, fields of b that are 0 do not count.
func sad(a, b uint32, width int, masked bool) uint32 {
	var sum uint32
	field := uint32(1<<width - 1)
	for i := 0; i < 32; i += width {
		x, y := a>>i&field, b>>i&field
		if masked && y == 0 {
			continue
		}
		sum += max(x, y) - min(x, y)
	}
	return sum
}
