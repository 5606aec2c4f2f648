package valu

import (
	"fmt"

	"tokitai/amdgpu/isa"
)

// Packed instructions compute the two halves of their result from halves of their operands:
// op_sel and op_sel_hi select those of the lower and of the upper result, neg_lo and neg_hi
// change their signs.

// modifiers are those of VOP3P.
type modifiers struct{ opSel, opSelHi, negLo, negHi uint8 }

// modifiersOf returns an instruction's; those of a packed instruction in another encoding
// (v_pk_fmac_f16) are the default.
func modifiersOf(in *isa.Instruction) modifiers {
	if in.Encoding != isa.VOP3P {
		return modifiers{opSelHi: 7}
	}
	return modifiers{in.OpSel, in.OpSelHi, in.NegLo, in.NegHi}
}

// addPacked adds a packed operation on halves of the given format, nil for integers: what one
// half of the result is, the function of the operation named one says.
func (t *table) addPacked(name, one string, typ Type, f *format) *Op {
	scalar := t.ops[one]
	width, sign := uint(16), uint64(0)
	if typ.Words() == 2 {
		width = 32
	}
	if f != nil {
		sign = f.sign
	}
	sources := make([]Type, len(scalar.Sources))
	for i := range sources {
		sources[i] = typ
	}
	field := uint64(1)<<width - 1
	op := t.add(name, typ, sources, nil)
	op.bind = func(in *isa.Instruction) (Func, error) {
		m := modifiersOf(in)
		if f == nil && m.negLo|m.negHi != 0 {
			return nil, fmt.Errorf("%s: neg of integers", name)
		}
		part := func(x uint64, operand int, upper, negative uint8) uint64 {
			if upper>>operand&1 != 0 {
				x >>= width
			}
			x &= field
			if negative>>operand&1 != 0 {
				x ^= sign
			}
			return x
		}
		slow, err := op.bindLanes(in, func(l *lane, a, b, c uint64) uint64 {
			lo := scalar.lane(l, part(a, 0, m.opSel, m.negLo), part(b, 1, m.opSel, m.negLo), part(c, 2, m.opSel, m.negLo))
			hi := scalar.lane(l, part(a, 0, m.opSelHi, m.negHi), part(b, 1, m.opSelHi, m.negHi), part(c, 2, m.opSelHi, m.negHi))
			return lo | hi<<width
		})
		if err != nil || typ != PKF32 || in.Clamp {
			return slow, err
		}
		return either(fastPair(m, len(sources), pairLoops[one]), slow), nil
	}
	return op
}

// pairLoops has the loops over words that make up packed instructions of binary32.
var pairLoops = map[string]func(d, a, b, c []uint32){
	"v_add_f32": func(d, a, b, _ []uint32) { addWords(d, a, b, 0) },
	"v_mul_f32": func(d, a, b, _ []uint32) { mulWords(d, a, b) },
	"v_fma_f32": fmaWords,
}

// fastPair returns the function that computes the two halves of a pair of binary32 by a loop
// over words, in the plain mode.
func fastPair(m modifiers, operands int, loop func(d, a, b, c []uint32)) func(c *Call) bool {
	return func(c *Call) bool {
		if !c.Mode.isPlain32() {
			return false
		}
		n := c.Lanes
		half := func(d []uint32, upper, negative uint8) {
			var s [3][]uint32
			for k := range operands {
				s[k] = c.Source[k][upper>>k&1][:n]
				if negative>>k&1 != 0 {
					changed := c.scratch[k][:n]
					for i, x := range s[k] {
						changed[i] = x ^ 1<<31
					}
					s[k] = changed
				}
			}
			loop(d, s[0], s[1], s[2])
		}
		lo := c.scratch[3][:n] // the upper half may read the register that the lower one is stored in
		half(lo, m.opSel, m.negLo)
		half(c.Result[1][:n], m.opSelHi, m.negHi)
		copy(c.Result[0][:n], lo)
		return true
	}
}

func (t *table) definePacked() {
	for _, name := range []string{"add", "mul", "min", "max", "fma"} {
		t.addPacked("v_pk_"+name+"_f16", "v_"+name+"_f16", PKF16, half)
	}
	fmac := t.addPacked("v_pk_fmac_f16", "v_fma_f16", PKF16, half)
	fmac.Sources, fmac.ReadsResult = fmac.Sources[:2], true
	infix := ""
	if t.family == isa.GFX11 {
		infix = "nc_"
	}
	for _, op := range []struct {
		name, one string
		typ       Type
	}{
		{"v_pk_add_u16", "v_add_" + infix + "u16", PKU16},
		{"v_pk_add_i16", "v_add_" + infix + "i16", PKI16},
		{"v_pk_sub_u16", "v_sub_" + infix + "u16", PKU16},
		{"v_pk_sub_i16", "v_sub_" + infix + "i16", PKI16},
		{"v_pk_mad_u16", "v_mad_u16", PKU16},
		{"v_pk_mad_i16", "v_mad_i16", PKI16},
		{"v_pk_mul_lo_u16", "v_mul_lo_u16", PKU16},
		{"v_pk_min_u16", "v_min_u16", PKU16},
		{"v_pk_min_i16", "v_min_i16", PKI16},
		{"v_pk_max_u16", "v_max_u16", PKU16},
		{"v_pk_max_i16", "v_max_i16", PKI16},
		{"v_pk_lshlrev_b16", "v_lshlrev_b16", PKB16},
		{"v_pk_lshrrev_b16", "v_lshrrev_b16", PKB16},
		{"v_pk_ashrrev_i16", "v_ashrrev_i16", PKI16},
	} {
		t.addPacked(op.name, op.one, op.typ, nil)
	}
	if t.family == isa.GFX9 {
		for _, name := range []string{"add", "mul", "fma"} {
			t.addPacked("v_pk_"+name+"_f32", "v_"+name+"_f32", PKF32, single)
		}
		t.add("v_pk_mov_b32", PKB32, []Type{PKB32, PKB32}, nil).bind = bindPackedMove
	}
	t.defineDots()
}

// bindPackedMove binds v_pk_mov_b32: op_sel selects the word of each operand that is moved.
func bindPackedMove(in *isa.Instruction) (Func, error) {
	a, b := in.OpSel&1, in.OpSel>>1&1
	return func(c *Call) {
		lo, hi := c.Source[0][a], c.Source[1][b]
		for i := range c.Lanes {
			x, y := lo[i], hi[i]
			c.Result[0][i], c.Result[1][i] = x, y
		}
	}, nil
}

// defineDots adds the dot products of integers.
func (t *table) defineDots() {
	type dot struct {
		name     string
		width    uint
		a, b     bool // signed
		fields   Type
		sum      Type
		inPlace  bool // the sum is the old result
		byNegate bool // neg_lo says which operand is signed
	}
	dots := []dot{
		{name: "v_dot4_u32_u8", width: 8, fields: PKU8, sum: U32},
		{name: "v_dot8_u32_u4", width: 4, fields: PKU4, sum: U32},
	}
	if t.family == isa.GFX11 {
		dots = append(dots,
			dot{name: "v_dot4_i32_iu8", width: 8, fields: PKI8, sum: I32, byNegate: true},
			dot{name: "v_dot8_i32_iu4", width: 4, fields: PKI4, sum: I32, byNegate: true})
	} else {
		dots = append(dots,
			dot{name: "v_dot2_u32_u16", width: 16, fields: PKU16, sum: U32},
			dot{name: "v_dot2_i32_i16", width: 16, fields: PKI16, sum: I32, a: true, b: true},
			dot{name: "v_dot4_i32_i8", width: 8, fields: PKI8, sum: I32, a: true, b: true},
			dot{name: "v_dot8_i32_i4", width: 4, fields: PKI4, sum: I32, a: true, b: true},
			dot{name: "v_dot2c_i32_i16", width: 16, fields: PKI16, sum: I32, a: true, b: true, inPlace: true},
			dot{name: "v_dot4c_i32_i8", width: 8, fields: PKI8, sum: I32, a: true, b: true, inPlace: true},
			dot{name: "v_dot8c_i32_i4", width: 4, fields: PKI4, sum: I32, a: true, b: true, inPlace: true})
	}
	for _, d := range dots {
		sources := []Type{d.fields, d.fields}
		if !d.inPlace {
			sources = append(sources, d.sum)
		}
		op := t.add(d.name, d.sum, sources, nil)
		op.ReadsResult = d.inPlace
		op.bind = func(in *isa.Instruction) (Func, error) {
			aSigned, bSigned := d.a, d.b
			if d.byNegate {
				aSigned, bSigned = in.NegLo&1 != 0, in.NegLo&2 != 0
			}
			return op.bindLanes(in, func(l *lane, a, b, c uint64) uint64 {
				sum := int64(c)
				if d.sum == I32 {
					sum = i32(c)
				}
				for i := uint(0); i < 32; i += d.width {
					sum += field(a, i, d.width, aSigned) * field(b, i, d.width, bSigned)
				}
				if d.sum == I32 {
					return l.signed(sum, 32)
				}
				return l.unsigned(sum, 32)
			})
		}
	}
}

// field returns bits of x, sign-extended where it is signed.
func field(x uint64, at, width uint, signed bool) int64 {
	v := int64(x >> at & (1<<width - 1))
	if signed {
		v = v << (64 - width) >> (64 - width)
	}
	return v
}

// defineMixed adds the instructions that take operands of binary16 and binary32: op_sel_hi says
// which are binary16, op_sel which half of the register they take, neg_lo and neg_hi are the
// sign's change and the absolute value.
func (t *table) defineMixed() {
	three := []Type{Mix, Mix, Mix}
	for _, op := range []*Op{
		t.add("v_fma_mix_f32", F32, three, nil),
		t.add("v_fma_mixlo_f16", F16, three, nil),
		t.add("v_fma_mixhi_f16", F16, three, nil),
	} {
		narrow := op.Result == F16
		op.bind = func(in *isa.Instruction) (Func, error) {
			m := modifiersOf(in)
			mixed := func(l *lane, x uint64, operand int) uint64 {
				if m.opSelHi>>operand&1 != 0 {
					x = l.reformat(half, single, x>>(16*(m.opSel>>operand&1))&0xffff, toNearest)
				}
				if m.negHi>>operand&1 != 0 {
					x &^= single.sign
				}
				if m.negLo>>operand&1 != 0 {
					x ^= single.sign
				}
				return x
			}
			slow, err := op.bindLanes(in, func(l *lane, a, b, c uint64) uint64 {
				r := l.fma(single, mixed(l, a, 0), mixed(l, b, 1), mixed(l, c, 2), 0)
				if narrow {
					r = l.reformat(single, half, r, l.mode.Round64)
				}
				return r
			})
			if err != nil || in.Clamp || in.OutputMode != 0 {
				return slow, err
			}
			return either(fastMix(m, narrow), slow), nil
		}
	}
}
