package valu

import (
	"math"

	"tokitai/num"
)

// Loops for binary16 and binary64, in the plain mode.

// halfSum adds; sign is 1<<15 for a difference. A sum or a product of two binary16 is rounded to
// binary16 as if it had not been rounded to binary32 before, which has 2·11 + 2 bits. NaNs are
// left to the function of a lane.
func halfSum(c *Call, sign uint32) bool {
	if !c.Mode.isPlain64() {
		return false
	}
	a, b, d := words2(c)
	b, d = b[:len(a)], d[:len(a)]
	for i, x := range a {
		y := b[i] ^ sign
		r := num.F16ToF32(uint16(x)) + num.F16ToF32(uint16(y))
		if r != r {
			d[i] = c.lane32((*lane).addHalf, x&0xffff, y&0xffff, 0)
			continue
		}
		d[i] = uint32(num.F32ToF16(r))
	}
	return true
}

func halfProduct(c *Call) bool {
	if !c.Mode.isPlain64() {
		return false
	}
	a, b, d := words2(c)
	b, d = b[:len(a)], d[:len(a)]
	for i, x := range a {
		r := num.F16ToF32(uint16(x)) * num.F16ToF32(uint16(b[i]))
		if r != r {
			d[i] = c.lane32((*lane).mulHalf, x&0xffff, b[i]&0xffff, 0)
			continue
		}
		d[i] = uint32(num.F32ToF16(r))
	}
	return true
}

func (l *lane) addHalf(a, b, _ uint64) uint64 { return l.add(half, a, b) }
func (l *lane) mulHalf(a, b, _ uint64) uint64 { return l.mul(half, a, b) }

// doubles computes a function of binary64, and leaves NaNs to slow.
func doubles(c *Call, operands int, f func(x, y, z float64) float64, slow func(l *lane, a, b, c uint64) uint64) bool {
	if !c.Mode.isPlain64() {
		return false
	}
	for i := range c.Lanes {
		var s [3]uint64
		for k := range operands {
			s[k] = uint64(c.Source[k][1][i])<<32 | uint64(c.Source[k][0][i])
		}
		r := math.Float64bits(f(math.Float64frombits(s[0]), math.Float64frombits(s[1]), math.Float64frombits(s[2])))
		if double.isNaN(r) {
			l := lane{mode: c.Mode}
			r = slow(&l, s[0], s[1], s[2])
		}
		c.Result[0][i], c.Result[1][i] = uint32(r), uint32(r>>32)
	}
	return true
}

func addDoubles(c *Call) bool {
	return doubles(c, 2, func(x, y, _ float64) float64 { return x + y },
		func(l *lane, a, b, _ uint64) uint64 { return l.add(double, a, b) })
}

func mulDoubles(c *Call) bool {
	return doubles(c, 2, func(x, y, _ float64) float64 { return x * y },
		func(l *lane, a, b, _ uint64) uint64 { return l.mul(double, a, b) })
}

func fmaDoubles(c *Call) bool {
	return doubles(c, 3, math.FMA, func(l *lane, a, b, c uint64) uint64 { return l.fma(double, a, b, c, 0) })
}

// fastMix returns the loop of v_fma_mix_f32 and its relatives: operands are widened into
// registers of binary32, and the sums narrowed.
func fastMix(m modifiers, narrow bool) func(c *Call) bool {
	return func(c *Call) bool {
		if !c.Mode.isPlain32() || !c.Mode.isPlain64() {
			return false
		}
		n := c.Lanes
		wide := &c.scratch
		for k := range 3 {
			from, to := c.Source[k][0][:n], wide[k][:n]
			and, xor := ^uint32(0), uint32(0)
			if m.negHi>>k&1 != 0 {
				and = 1<<31 - 1
			}
			if m.negLo>>k&1 != 0 {
				xor = 1 << 31
			}
			if m.opSelHi>>k&1 == 0 {
				for i, x := range from {
					to[i] = x&and ^ xor
				}
				continue
			}
			shift := 16 * (m.opSel >> k & 1)
			for i, x := range from {
				to[i] = math.Float32bits(num.F16ToF32(uint16(x>>shift)))&and ^ xor
			}
		}
		d := c.Result[0][:n]
		fmaWords(d, wide[0][:n], wide[1][:n], wide[2][:n])
		if narrow {
			for i, x := range d {
				d[i] = uint32(num.F32ToF16(math.Float32frombits(x)))
			}
		}
		return true
	}
}
