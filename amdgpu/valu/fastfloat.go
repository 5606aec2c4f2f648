package valu

import (
	"math"

	"tokitai/num"
)

// isPlain32 and isPlain64 report whether the mode rounds to nearest and keeps subnormal
// numbers.
func (m *Mode) isPlain32() bool { return m.Round32 == toNearest && m.Denorm32 == 3 }
func (m *Mode) isPlain64() bool { return m.Round64 == toNearest && m.Denorm64 == 3 }

// floatLoops has the loops of floating-point numbers.
var floatLoops = map[string]func(c *Call) bool{
	"v_add_f32": func(c *Call) bool {
		if !c.Mode.isPlain32() {
			return false
		}
		a, b, d := words2(c)
		addWords(d, a, b, 0)
		return true
	},
	"v_sub_f32": func(c *Call) bool {
		if !c.Mode.isPlain32() {
			return false
		}
		a, b, d := words2(c)
		addWords(d, a, b, 1<<31)
		return true
	},
	"v_subrev_f32": func(c *Call) bool {
		if !c.Mode.isPlain32() {
			return false
		}
		a, b, d := words2(c)
		addWords(d, b, a, 1<<31)
		return true
	},
	"v_mul_f32": func(c *Call) bool {
		if !c.Mode.isPlain32() {
			return false
		}
		a, b, d := words2(c)
		mulWords(d, a, b)
		return true
	},
	"v_fma_f32": func(c *Call) bool {
		if !c.Mode.isPlain32() {
			return false
		}
		a, b, s, d := words3(c)
		fmaWords(d, a, b, s)
		return true
	},
	"v_div_fmas_f32": func(c *Call) bool {
		if !c.Mode.isPlain32() || c.In&(^uint64(0)>>(64-c.Lanes)) != 0 {
			return false
		}
		a, b, s, d := words3(c)
		fmaWords(d, a, b, s)
		return true
	},
	"v_add_f16": func(c *Call) bool { return halfSum(c, 0) },
	"v_sub_f16": func(c *Call) bool { return halfSum(c, 1<<15) },
	"v_mul_f16": halfProduct,
	"v_add_f64": addDoubles,
	"v_mul_f64": mulDoubles,
	"v_fma_f64": fmaDoubles,
	"v_trunc_f32": func(c *Call) bool {
		if !c.Mode.isPlain32() {
			return false
		}
		a, d := words1(c)
		d = d[:len(a)]
		for i, x := range a {
			switch e := x >> 23 & 0xff; {
			case e < 127:
				d[i] = x & (1 << 31)
			case e < 127+23:
				d[i] = x &^ (1<<(127+23-e) - 1)
			default:
				d[i] = x
				if x&^(1<<31) > 0xff<<23 {
					d[i] |= 1 << 22
				}
			}
		}
		return true
	},
	"v_cvt_f32_f16": func(c *Call) bool {
		if c.Mode.Denorm64&1 == 0 {
			return false
		}
		a, d := words1(c)
		d = d[:len(a)]
		for i, x := range a {
			r := math.Float32bits(num.F16ToF32(uint16(x)))
			if r&^(1<<31) > 0xff<<23 {
				r |= 1 << 22
			}
			d[i] = r
		}
		return true
	},
	"v_cvt_f16_f32": func(c *Call) bool {
		if c.Mode.Denorm32&1 == 0 || !c.Mode.isPlain64() {
			return false
		}
		a, d := words1(c)
		d = d[:len(a)]
		for i, x := range a {
			d[i] = uint32(num.F32ToF16(math.Float32frombits(x)))
		}
		return true
	},
	"v_cvt_f32_u32": func(c *Call) bool {
		if c.Mode.Round32 != toNearest {
			return false
		}
		a, d := words1(c)
		d = d[:len(a)]
		for i, x := range a {
			d[i] = math.Float32bits(float32(x))
		}
		return true
	},
	"v_cvt_u32_f32": func(c *Call) bool {
		a, d := words1(c)
		d = d[:len(a)]
		for i, x := range a { // flushing subnormal operands does not matter
			switch f := math.Float32frombits(x); {
			case f >= 1<<32:
				d[i] = math.MaxUint32
			case f > 0:
				d[i] = uint32(f)
			default:
				d[i] = 0
			}
		}
		return true
	},
}

// lane32 computes one lane that a loop leaves out.
func (c *Call) lane32(f func(l *lane, a, b, c uint64) uint64, x, y, z uint32) uint32 {
	l := lane{mode: c.Mode}
	return uint32(f(&l, uint64(x), uint64(y), uint64(z)))
}
