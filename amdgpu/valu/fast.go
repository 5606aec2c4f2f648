package valu

// Loops over all lanes for the instructions that kernels execute most. Each computes what the
// function of a lane computes, which the tests compare; a loop of floating-point numbers
// returns false, before it stores anything, in a mode that it does not have.

// words1 returns the lanes of a word of the first operand and of the result.
func words1(c *Call) (a, d []uint32) {
	n := c.Lanes
	return c.Source[0][0][:n], c.Result[0][:n]
}

// words2 and words3 are words1 for two and three operands.
func words2(c *Call) (a, b, d []uint32) {
	n := c.Lanes
	return c.Source[0][0][:n], c.Source[1][0][:n], c.Result[0][:n]
}

func words3(c *Call) (a, b, s, d []uint32) {
	n := c.Lanes
	return c.Source[0][0][:n], c.Source[1][0][:n], c.Source[2][0][:n], c.Result[0][:n]
}

// integerLoops has the loops of instructions that do not depend on the mode.
var integerLoops = map[string]func(c *Call) bool{
	"v_mov_b32": func(c *Call) bool {
		a, d := words1(c)
		copy(d, a)
		return true
	},
	"v_mov_b16": func(c *Call) bool {
		a, d := words1(c)
		d = d[:len(a)]
		for i, x := range a {
			d[i] = x & 0xffff
		}
		return true
	},
	"v_mov_b64": func(c *Call) bool {
		n := c.Lanes
		var lo Register // the upper word may be stored where the lower one is read, and the reverse
		copy(lo[:n], c.Source[0][0][:n])
		copy(c.Result[1][:n], c.Source[0][1][:n])
		copy(c.Result[0][:n], lo[:n])
		return true
	},
	"v_not_b32": func(c *Call) bool {
		a, d := words1(c)
		d = d[:len(a)]
		for i, x := range a {
			d[i] = ^x
		}
		return true
	},
	"v_and_b32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x & b[i]
		}
		return true
	},
	"v_or_b32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x | b[i]
		}
		return true
	},
	"v_xor_b32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x ^ b[i]
		}
		return true
	},
	"v_lshlrev_b32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = b[i] << (x & 31)
		}
		return true
	},
	"v_lshrrev_b32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = b[i] >> (x & 31)
		}
		return true
	},
	"v_ashrrev_i32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = uint32(int32(b[i]) >> (x & 31))
		}
		return true
	},
	"v_add_u32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x + b[i]
		}
		return true
	},
	"v_sub_u32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x - b[i]
		}
		return true
	},
	"v_subrev_u32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = b[i] - x
		}
		return true
	},
	"v_mul_lo_u32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x * b[i]
		}
		return true
	},
	"v_mul_hi_u32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = uint32(uint64(x) * uint64(b[i]) >> 32)
		}
		return true
	},
	"v_mul_u32_u24": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x & 0xffffff * (b[i] & 0xffffff)
		}
		return true
	},
	"v_min_u32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = min(x, b[i])
		}
		return true
	},
	"v_max_u32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = max(x, b[i])
		}
		return true
	},
	"v_add3_u32": func(c *Call) bool {
		a, b, s, d := words3(c)
		b, s, d = b[:len(a)], s[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x + b[i] + s[i]
		}
		return true
	},
	"v_or3_b32": func(c *Call) bool {
		a, b, s, d := words3(c)
		b, s, d = b[:len(a)], s[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x | b[i] | s[i]
		}
		return true
	},
	"v_xor3_b32": func(c *Call) bool {
		a, b, s, d := words3(c)
		b, s, d = b[:len(a)], s[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x ^ b[i] ^ s[i]
		}
		return true
	},
	"v_and_or_b32": func(c *Call) bool {
		a, b, s, d := words3(c)
		b, s, d = b[:len(a)], s[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x&b[i] | s[i]
		}
		return true
	},
	"v_lshl_or_b32": func(c *Call) bool {
		a, b, s, d := words3(c)
		b, s, d = b[:len(a)], s[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x<<(b[i]&31) | s[i]
		}
		return true
	},
	"v_lshl_add_u32": func(c *Call) bool {
		a, b, s, d := words3(c)
		b, s, d = b[:len(a)], s[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x<<(b[i]&31) + s[i]
		}
		return true
	},
	"v_bfe_u32": func(c *Call) bool {
		a, b, s, d := words3(c)
		b, s, d = b[:len(a)], s[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x >> (b[i] & 31) & (1<<(s[i]&31) - 1)
		}
		return true
	},
	"v_bfi_b32": func(c *Call) bool {
		a, b, s, d := words3(c)
		b, s, d = b[:len(a)], s[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = x&b[i] | ^x&s[i]
		}
		return true
	},
	"v_alignbit_b32": func(c *Call) bool {
		a, b, s, d := words3(c)
		b, s, d = b[:len(a)], s[:len(a)], d[:len(a)]
		for i, x := range a {
			d[i] = uint32((uint64(x)<<32 | uint64(b[i])) >> (s[i] & 31))
		}
		return true
	},
	"v_cndmask_b32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		in := c.In
		for i, x := range a {
			m := -uint32(in & 1)
			d[i] = x&^m | b[i]&m
			in >>= 1
		}
		return true
	},
	"v_add_co_u32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		var out uint64
		for i, x := range a {
			sum := uint64(x) + uint64(b[i])
			d[i] = uint32(sum)
			out |= sum >> 32 << (i & 63)
		}
		c.Out = out
		return true
	},
	"v_addc_co_u32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		var out uint64
		in := c.In
		for i, x := range a {
			sum := uint64(x) + uint64(b[i]) + in&1
			in >>= 1
			d[i] = uint32(sum)
			out |= sum >> 32 << (i & 63)
		}
		c.Out = out
		return true
	},
	"v_sub_co_u32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		var out uint64
		for i, x := range a {
			difference := uint64(x) - uint64(b[i])
			d[i] = uint32(difference)
			out |= difference >> 63 << (i & 63)
		}
		c.Out = out
		return true
	},
	"v_subb_co_u32": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		var out uint64
		in := c.In
		for i, x := range a {
			difference := uint64(x) - uint64(b[i]) - in&1
			in >>= 1
			d[i] = uint32(difference)
			out |= difference >> 63 << (i & 63)
		}
		c.Out = out
		return true
	},
	"v_mad_u64_u32": func(c *Call) bool {
		a, b, lo, d := words3(c)
		b, lo, d = b[:len(a)], lo[:len(a)], d[:len(a)]
		hi, high := c.Source[2][1][:len(a)], c.Result[1][:len(a)]
		var out uint64
		for i, x := range a {
			s := uint64(hi[i])<<32 | uint64(lo[i])
			r := uint64(x)*uint64(b[i]) + s
			if r < s {
				out |= 1 << (i & 63)
			}
			d[i], high[i] = uint32(r), uint32(r>>32)
		}
		c.Out = out
		return true
	},
	"v_lshl_add_u64": func(c *Call) bool {
		a, b, s, d := words3(c)
		b, s, d = b[:len(a)], s[:len(a)], d[:len(a)]
		aHigh, sHigh, high := c.Source[0][1][:len(a)], c.Source[2][1][:len(a)], c.Result[1][:len(a)]
		for i, x := range a {
			r := (uint64(aHigh[i])<<32|uint64(x))<<(b[i]&7) + (uint64(sHigh[i])<<32 | uint64(s[i]))
			d[i], high[i] = uint32(r), uint32(r>>32)
		}
		return true
	},
	"v_lshlrev_b64": func(c *Call) bool {
		a, b, d := words2(c)
		b, d = b[:len(a)], d[:len(a)]
		bHigh, high := c.Source[1][1][:len(a)], c.Result[1][:len(a)]
		for i, x := range a {
			r := (uint64(bHigh[i])<<32 | uint64(b[i])) << (x & 63)
			d[i], high[i] = uint32(r), uint32(r>>32)
		}
		return true
	},
}

// fastAliases has the other names of operations that have a loop.
var fastAliases = map[string]string{
	"v_add_nc_u32":        "v_add_u32",
	"v_sub_nc_u32":        "v_sub_u32",
	"v_subrev_nc_u32":     "v_subrev_u32",
	"v_add_co_ci_u32":     "v_addc_co_u32",
	"v_sub_co_ci_u32":     "v_subb_co_u32",
	"v_fmac_f32":          "v_fma_f32",
	"v_fmaak_f32":         "v_fma_f32",
	"v_fmamk_f32":         "v_fma_f32",
	"v_fmac_f64":          "v_fma_f64",
	"v_accvgpr_read_b32":  "v_mov_b32",
	"v_accvgpr_write_b32": "v_mov_b32",
	"v_accvgpr_mov_b32":   "v_mov_b32",
}

func (t *table) addFastLoops() {
	for name, op := range t.ops {
		if alias, ok := fastAliases[name]; ok {
			name = alias
		}
		if loop, ok := integerLoops[name]; ok {
			op.fast = loop
		} else if loop, ok := floatLoops[name]; ok {
			op.fast = loop
		}
	}
	t.addFastComparisons()
}
