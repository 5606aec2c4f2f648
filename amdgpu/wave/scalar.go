package wave

import (
	"fmt"
	"math/bits"
	"strings"

	"tokitai/amdgpu/isa"
)

// scalarStep translates instructions of the scalar unit.
func (t *translator) scalarStep(in *isa.Instruction) (Step, error) {
	if step, err := t.control(in); step != nil || err != nil {
		return step, err
	}
	if step, err := t.saveExec(in); step != nil || err != nil {
		return step, err
	}
	if compare, ok := compares[in.Name]; ok {
		return t.compare(in, compare)
	}
	if f, ok := words[in.Name]; ok {
		return t.word(in, f)
	}
	if f, ok := longs[in.Name]; ok {
		return t.long(in, f)
	}
	if step, err := t.scalarFloat(in); step != nil || err != nil {
		return step, err
	}
	return nil, errUnknown
}

// readsResult has the instructions whose result is also their second operand.
var readsResult = map[string]bool{
	"s_cmov_b32": true, "s_cmov_b64": true, "s_cmovk_i32": true, "s_addk_i32": true, "s_mulk_i32": true,
	"s_bitset0_b32": true, "s_bitset1_b32": true, "s_bitset0_b64": true, "s_bitset1_b64": true,
}

// arguments returns the places in S of an instruction's first two operands. The constant of
// SOPK comes first, and a result that is read comes last; a missing operand is 0.
func (t *translator) arguments(in *isa.Instruction) (operands [2]isa.Operand, at [2]int, before Step, err error) {
	var all []isa.Operand
	if in.Encoding == isa.SOPK {
		if strings.HasPrefix(in.Name, "s_cmpk_") {
			all = append(all, in.Operands...)
		}
		all = append(all, isa.Operand{Kind: isa.Constant, Words: 1, Value: uint64(uint32(in.Immediate))})
	} else {
		all = append(all, in.Operands...)
	}
	if readsResult[in.Name] && len(in.Results) == 1 {
		all = append(all, in.Results[0])
	}
	if len(all) == 0 || len(all) > 2 {
		return operands, at, nil, fmt.Errorf("%d operands, want 1 or 2", len(all))
	}
	for len(all) < 2 {
		all = append(all, isa.Operand{Kind: isa.Constant, Words: 1})
	}
	var steps [2]Step
	for i := range at {
		operands[i] = all[i]
		if at[i], steps[i], err = t.source(all[i], i); err != nil {
			return operands, at, nil, err
		}
	}
	if steps[0] != nil || steps[1] != nil {
		before = join(steps[:]...)
	}
	return operands, at, before, nil
}

// single returns the place of the only result.
func (t *translator) single(in *isa.Instruction) (at int, after Step, err error) {
	if len(in.Results) != 1 {
		return 0, nil, fmt.Errorf("%d results, want 1", len(in.Results))
	}
	at, isExec, err := t.result(in.Results[0])
	if isExec {
		after = (*Wave).loadExec
	}
	return at, after, err
}

// word translates an instruction on 32 bits.
func (t *translator) word(in *isa.Instruction, f func(w *Wave, a, b uint32) uint32) (Step, error) {
	_, at, before, err := t.arguments(in)
	if err != nil {
		return nil, err
	}
	d, after, err := t.single(in)
	a, b := at[0], at[1]
	if in.Name == "s_mov_b32" || in.Name == "s_movk_i32" {
		return join(before, func(w *Wave) { w.S[d] = w.S[a] }, after), err
	}
	return join(before, func(w *Wave) { w.S[d] = f(w, w.S[a], w.S[b]) }, after), err
}

// long translates an instruction with an operand or a result of 64 bits.
func (t *translator) long(in *isa.Instruction, f func(w *Wave, a, b uint64) uint64) (Step, error) {
	operands, at, before, err := t.arguments(in)
	if err != nil {
		return nil, err
	}
	d, after, err := t.single(in)
	if err != nil {
		return nil, err
	}
	a, b := at[0], at[1]
	isLongA, isLongB := operands[0].Words == 2, operands[1].Words == 2
	if in.Results[0].Words != 2 {
		return join(before, func(w *Wave) { w.S[d] = uint32(f(w, w.read(a, isLongA), w.read(b, isLongB))) }, after), nil
	}
	return join(before, func(w *Wave) { w.setPair(d, f(w, w.read(a, isLongA), w.read(b, isLongB))) }, after), nil
}

// read returns a scalar register, or two of them.
func (w *Wave) read(at int, isLong bool) uint64 {
	if isLong {
		return w.pair(at)
	}
	return uint64(w.S[at])
}

// compare translates an instruction whose only result is scc.
func (t *translator) compare(in *isa.Instruction, f func(a, b uint64) bool) (Step, error) {
	operands, at, before, err := t.arguments(in)
	a, b := at[0], at[1]
	isLongA, isLongB := operands[0].Words == 2, operands[1].Words == 2
	return join(before, func(w *Wave) { w.SCC = f(w.read(a, isLongA), w.read(b, isLongB)) }), err
}

// compares has the comparisons, by name. SOPK's zero-extend the constant where unsigned, which
// the decoder does.
var compares = map[string]func(a, b uint64) bool{
	"s_cmp_eq_u64":  func(a, b uint64) bool { return a == b },
	"s_cmp_lg_u64":  func(a, b uint64) bool { return a != b },
	"s_bitcmp0_b32": func(a, b uint64) bool { return a>>(b&31)&1 == 0 },
	"s_bitcmp1_b32": func(a, b uint64) bool { return a>>(b&31)&1 == 1 },
	"s_bitcmp0_b64": func(a, b uint64) bool { return a>>(b&63)&1 == 0 },
	"s_bitcmp1_b64": func(a, b uint64) bool { return a>>(b&63)&1 == 1 },
	"s_cmp_eq_i32":  func(a, b uint64) bool { return a == b },
	"s_cmp_lg_i32":  func(a, b uint64) bool { return a != b },
	"s_cmp_gt_i32":  func(a, b uint64) bool { return int32(a) > int32(b) },
	"s_cmp_ge_i32":  func(a, b uint64) bool { return int32(a) >= int32(b) },
	"s_cmp_lt_i32":  func(a, b uint64) bool { return int32(a) < int32(b) },
	"s_cmp_le_i32":  func(a, b uint64) bool { return int32(a) <= int32(b) },
	"s_cmp_eq_u32":  func(a, b uint64) bool { return a == b },
	"s_cmp_lg_u32":  func(a, b uint64) bool { return a != b },
	"s_cmp_gt_u32":  func(a, b uint64) bool { return a > b },
	"s_cmp_ge_u32":  func(a, b uint64) bool { return a >= b },
	"s_cmp_lt_u32":  func(a, b uint64) bool { return a < b },
	"s_cmp_le_u32":  func(a, b uint64) bool { return a <= b },
}

func init() {
	for _, relation := range []string{"eq", "lg", "gt", "ge", "lt", "le"} {
		for _, typ := range []string{"i32", "u32"} {
			compares["s_cmpk_"+relation+"_"+typ] = compares["s_cmp_"+relation+"_"+typ]
		}
	}
	for name, f := range words {
		if other, ok := gfx11Name(name); ok {
			words[other] = f
		}
	}
	for name, f := range longs {
		if other, ok := gfx11Name(name); ok {
			longs[other] = f
		}
	}
}

// gfx11Name returns gfx11's name of an instruction that the tables have under gfx9's.
func gfx11Name(name string) (string, bool) {
	for _, pair := range [][2]string{
		{"s_andn2_", "s_and_not1_"}, {"s_orn2_", "s_or_not1_"}, {"s_ff1_", "s_ctz_"},
		{"s_flbit_i32_b32", "s_clz_i32_u32"}, {"s_flbit_i32_b64", "s_clz_i32_u64"},
		{"s_flbit_i32_i64", "s_cls_i32_i64"},
	} {
		if rest, ok := strings.CutPrefix(name, pair[0]); ok {
			return pair[1] + rest, true
		}
	}
	if name == "s_flbit_i32" {
		return "s_cls_i32", true
	}
	return "", false
}

// nonzero sets scc to whether the result is not 0, and returns the result.
func nonzero[T uint32 | uint64](w *Wave, result T) T {
	w.SCC = result != 0
	return result
}

// or returns a count, or -1 where nothing was found.
func or[T uint32 | uint64](isFound bool, count int) T {
	if !isFound {
		return T(0xffffffff)
	}
	return T(count)
}

// choose sets scc to isFirst, and returns a if it holds.
func choose(w *Wave, isFirst bool, a, b uint32) uint32 {
	w.SCC = isFirst
	if isFirst {
		return a
	}
	return b
}

// words has the instructions on 32 bits, by name; an instruction with one operand ignores b.
var words = map[string]func(w *Wave, a, b uint32) uint32{
	"s_mov_b32":     func(w *Wave, a, b uint32) uint32 { return a },
	"s_movk_i32":    func(w *Wave, a, b uint32) uint32 { return a },
	"s_cmov_b32":    selectWord,
	"s_cmovk_i32":   selectWord,
	"s_cselect_b32": selectWord,

	"s_add_u32":  func(w *Wave, a, b uint32) uint32 { return carryOut(w, a, b, 0) },
	"s_addc_u32": func(w *Wave, a, b uint32) uint32 { return carryOut(w, a, b, flag(w.SCC)) },
	"s_sub_u32":  func(w *Wave, a, b uint32) uint32 { return borrowOut(w, a, b, 0) },
	"s_subb_u32": func(w *Wave, a, b uint32) uint32 { return borrowOut(w, a, b, flag(w.SCC)) },
	"s_add_i32":  addSigned,
	"s_addk_i32": addSigned,
	"s_sub_i32": func(w *Wave, a, b uint32) uint32 {
		d := a - b
		w.SCC = (a^b)&(a^d)>>31 != 0
		return d
	},
	"s_mul_i32":    func(w *Wave, a, b uint32) uint32 { return a * b },
	"s_mulk_i32":   func(w *Wave, a, b uint32) uint32 { return a * b },
	"s_mul_hi_u32": func(w *Wave, a, b uint32) uint32 { return uint32(uint64(a) * uint64(b) >> 32) },
	"s_mul_hi_i32": func(w *Wave, a, b uint32) uint32 { return uint32(int64(int32(a)) * int64(int32(b)) >> 32) },
	"s_absdiff_i32": func(w *Wave, a, b uint32) uint32 {
		d := int32(a - b) // which wraps around, as documented
		return nonzero(w, uint32(max(d, -d)))
	},
	"s_abs_i32": func(w *Wave, a, b uint32) uint32 {
		return nonzero(w, uint32(max(int32(a), -int32(a))))
	},

	"s_min_i32": func(w *Wave, a, b uint32) uint32 { return choose(w, int32(a) < int32(b), a, b) },
	"s_min_u32": func(w *Wave, a, b uint32) uint32 { return choose(w, a < b, a, b) },
	"s_max_i32": func(w *Wave, a, b uint32) uint32 {
		return choose(w, int32(a) >= int32(b), a, b)
	},
	"s_max_u32": func(w *Wave, a, b uint32) uint32 { return choose(w, a >= b, a, b) },

	"s_and_b32":   func(w *Wave, a, b uint32) uint32 { return nonzero(w, a&b) },
	"s_or_b32":    func(w *Wave, a, b uint32) uint32 { return nonzero(w, a|b) },
	"s_xor_b32":   func(w *Wave, a, b uint32) uint32 { return nonzero(w, a^b) },
	"s_andn2_b32": func(w *Wave, a, b uint32) uint32 { return nonzero(w, a&^b) },
	"s_orn2_b32":  func(w *Wave, a, b uint32) uint32 { return nonzero(w, a|^b) },
	"s_nand_b32":  func(w *Wave, a, b uint32) uint32 { return nonzero(w, ^(a & b)) },
	"s_nor_b32":   func(w *Wave, a, b uint32) uint32 { return nonzero(w, ^(a | b)) },
	"s_xnor_b32":  func(w *Wave, a, b uint32) uint32 { return nonzero(w, ^(a ^ b)) },
	"s_not_b32":   func(w *Wave, a, b uint32) uint32 { return nonzero(w, ^a) },

	"s_lshl_b32":      func(w *Wave, a, b uint32) uint32 { return nonzero(w, a<<(b&31)) },
	"s_lshr_b32":      func(w *Wave, a, b uint32) uint32 { return nonzero(w, a>>(b&31)) },
	"s_ashr_i32":      func(w *Wave, a, b uint32) uint32 { return nonzero(w, uint32(int32(a)>>(b&31))) },
	"s_lshl1_add_u32": func(w *Wave, a, b uint32) uint32 { return shiftAdd(w, a, b, 1) },
	"s_lshl2_add_u32": func(w *Wave, a, b uint32) uint32 { return shiftAdd(w, a, b, 2) },
	"s_lshl3_add_u32": func(w *Wave, a, b uint32) uint32 { return shiftAdd(w, a, b, 3) },
	"s_lshl4_add_u32": func(w *Wave, a, b uint32) uint32 { return shiftAdd(w, a, b, 4) },

	"s_bfm_b32": func(w *Wave, a, b uint32) uint32 { return (1<<(a&31) - 1) << (b & 31) },
	"s_bfe_u32": func(w *Wave, a, b uint32) uint32 { return nonzero(w, a>>(b&31)&uint32(lowBits(b>>16&127))) },
	"s_bfe_i32": func(w *Wave, a, b uint32) uint32 {
		return nonzero(w, uint32(signExtend(uint64(int64(int32(a))>>(b&31)), b>>16&127)))
	},

	"s_brev_b32":      func(w *Wave, a, b uint32) uint32 { return bits.Reverse32(a) },
	"s_bcnt0_i32_b32": func(w *Wave, a, b uint32) uint32 { return nonzero(w, uint32(bits.OnesCount32(^a))) },
	"s_bcnt1_i32_b32": func(w *Wave, a, b uint32) uint32 { return nonzero(w, uint32(bits.OnesCount32(a))) },
	"s_ff0_i32_b32":   func(w *Wave, a, b uint32) uint32 { return or[uint32](^a != 0, bits.TrailingZeros32(^a)) },
	"s_ff1_i32_b32":   func(w *Wave, a, b uint32) uint32 { return or[uint32](a != 0, bits.TrailingZeros32(a)) },
	"s_flbit_i32_b32": func(w *Wave, a, b uint32) uint32 { return or[uint32](a != 0, bits.LeadingZeros32(a)) },
	"s_flbit_i32": func(w *Wave, a, b uint32) uint32 {
		differing := a ^ uint32(int32(a)>>31)
		return or[uint32](differing != 0, bits.LeadingZeros32(differing))
	},
	"s_sext_i32_i8":  func(w *Wave, a, b uint32) uint32 { return uint32(int32(int8(a))) },
	"s_sext_i32_i16": func(w *Wave, a, b uint32) uint32 { return uint32(int32(int16(a))) },
	"s_bitset0_b32":  func(w *Wave, a, old uint32) uint32 { return old &^ (1 << (a & 31)) },
	"s_bitset1_b32":  func(w *Wave, a, old uint32) uint32 { return old | 1<<(a&31) },
	"s_quadmask_b32": func(w *Wave, a, b uint32) uint32 { return nonzero(w, uint32(quadMask(uint64(a)))) },
	"s_wqm_b32":      func(w *Wave, a, b uint32) uint32 { return nonzero(w, uint32(wholeQuads(uint64(a)))) },

	"s_pack_ll_b32_b16": func(w *Wave, a, b uint32) uint32 { return a&0xffff | b<<16 },
	"s_pack_lh_b32_b16": func(w *Wave, a, b uint32) uint32 { return a&0xffff | b&0xffff0000 },
	"s_pack_hh_b32_b16": func(w *Wave, a, b uint32) uint32 { return a>>16 | b&0xffff0000 },
	"s_pack_hl_b32_b16": func(w *Wave, a, b uint32) uint32 { return a>>16 | b<<16 },
}

// longs has the instructions with an operand or a result of 64 bits, by name.
var longs = map[string]func(w *Wave, a, b uint64) uint64{
	"s_mov_b64":     func(w *Wave, a, b uint64) uint64 { return a },
	"s_cmov_b64":    selectLong,
	"s_cselect_b64": selectLong,

	"s_and_b64":   func(w *Wave, a, b uint64) uint64 { return nonzero(w, a&b) },
	"s_or_b64":    func(w *Wave, a, b uint64) uint64 { return nonzero(w, a|b) },
	"s_xor_b64":   func(w *Wave, a, b uint64) uint64 { return nonzero(w, a^b) },
	"s_andn2_b64": func(w *Wave, a, b uint64) uint64 { return nonzero(w, a&^b) },
	"s_orn2_b64":  func(w *Wave, a, b uint64) uint64 { return nonzero(w, a|^b) },
	"s_nand_b64":  func(w *Wave, a, b uint64) uint64 { return nonzero(w, ^(a & b)) },
	"s_nor_b64":   func(w *Wave, a, b uint64) uint64 { return nonzero(w, ^(a | b)) },
	"s_xnor_b64":  func(w *Wave, a, b uint64) uint64 { return nonzero(w, ^(a ^ b)) },
	"s_not_b64":   func(w *Wave, a, b uint64) uint64 { return nonzero(w, ^a) },

	"s_lshl_b64": func(w *Wave, a, b uint64) uint64 { return nonzero(w, a<<(b&63)) },
	"s_lshr_b64": func(w *Wave, a, b uint64) uint64 { return nonzero(w, a>>(b&63)) },
	"s_ashr_i64": func(w *Wave, a, b uint64) uint64 { return nonzero(w, uint64(int64(a)>>(b&63))) },

	"s_bfm_b64": func(w *Wave, a, b uint64) uint64 { return (1<<(a&63) - 1) << (b & 63) },
	"s_bfe_u64": func(w *Wave, a, b uint64) uint64 { return nonzero(w, a>>(b&63)&lowBits(uint32(b>>16&127))) },
	"s_bfe_i64": func(w *Wave, a, b uint64) uint64 {
		return nonzero(w, signExtend(uint64(int64(a)>>(b&63)), uint32(b>>16&127)))
	},

	"s_brev_b64":      func(w *Wave, a, b uint64) uint64 { return bits.Reverse64(a) },
	"s_bcnt0_i32_b64": func(w *Wave, a, b uint64) uint64 { return nonzero(w, uint64(bits.OnesCount64(^a))) },
	"s_bcnt1_i32_b64": func(w *Wave, a, b uint64) uint64 { return nonzero(w, uint64(bits.OnesCount64(a))) },
	"s_ff0_i32_b64":   func(w *Wave, a, b uint64) uint64 { return or[uint64](^a != 0, bits.TrailingZeros64(^a)) },
	"s_ff1_i32_b64":   func(w *Wave, a, b uint64) uint64 { return or[uint64](a != 0, bits.TrailingZeros64(a)) },
	"s_flbit_i32_b64": func(w *Wave, a, b uint64) uint64 { return or[uint64](a != 0, bits.LeadingZeros64(a)) },
	"s_flbit_i32_i64": func(w *Wave, a, b uint64) uint64 {
		differing := a ^ uint64(int64(a)>>63)
		return or[uint64](differing != 0, bits.LeadingZeros64(differing))
	},
	"s_bitset0_b64":  func(w *Wave, a, old uint64) uint64 { return old &^ (1 << (a & 63)) },
	"s_bitset1_b64":  func(w *Wave, a, old uint64) uint64 { return old | 1<<(a&63) },
	"s_quadmask_b64": func(w *Wave, a, b uint64) uint64 { return nonzero(w, quadMask(a)) },
	"s_wqm_b64":      func(w *Wave, a, b uint64) uint64 { return nonzero(w, wholeQuads(a)) },
	"s_bitreplicate_b64_b32": func(w *Wave, a, b uint64) uint64 {
		var d uint64
		for i := range 32 {
			d |= a >> i & 1 * 3 << (2 * i)
		}
		return d
	},
}

func (w *Wave) isGFX11() bool { return w.Group.launch.Code.Family == isa.GFX11 }

func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

func selectWord(w *Wave, a, b uint32) uint32 {
	if w.SCC {
		return a
	}
	return b
}

func selectLong(w *Wave, a, b uint64) uint64 {
	if w.SCC {
		return a
	}
	return b
}

func carryOut(w *Wave, a, b, carry uint32) uint32 {
	d, out := bits.Add32(a, b, carry)
	w.SCC = out != 0
	return d
}

func borrowOut(w *Wave, a, b, borrow uint32) uint32 {
	d, out := bits.Sub32(a, b, borrow)
	w.SCC = out != 0
	return d
}

// addSigned adds; scc tells of a signed overflow.
func addSigned(w *Wave, a, b uint32) uint32 {
	d := a + b
	w.SCC = (a^d)&(b^d)>>31 != 0
	return d
}

func shiftAdd(w *Wave, a, b uint32, shift int) uint32 {
	d := uint64(a)<<shift + uint64(b)
	w.SCC = d>>32 != 0
	return uint32(d)
}

// lowBits returns a mask of n bits, all 64 from 64 on.
func lowBits(n uint32) uint64 { return 1<<n - 1 }

// signExtend returns the signed number in the low n bits.
func signExtend(v uint64, n uint32) uint64 {
	if n == 0 || n > 64 {
		if n == 0 {
			return 0
		}
		return v
	}
	return uint64(int64(v<<(64-n)) >> (64 - n))
}

// quadMask has bit i set where any of the bits 4i to 4i+3 is.
func quadMask(v uint64) uint64 {
	var d uint64
	for i := range 16 {
		if v>>(4*i)&15 != 0 {
			d |= 1 << i
		}
	}
	return d
}

// wholeQuads sets all four bits of each quad that has a bit set.
func wholeQuads(v uint64) uint64 {
	var d uint64
	for i := range 16 {
		if v>>(4*i)&15 != 0 {
			d |= 15 << (4 * i)
		}
	}
	return d
}
