package valu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tokitai/amdgpu/isa"
)

// run executes one lane's values in all lanes and returns lane 5's result and mask bit.
func run(t *testing.T, family isa.Family, in *isa.Instruction, mode Mode, carry bool, operands ...uint64) (uint64, bool) {
	t.Helper()
	op, ok := Lookup(family, in.Name)
	if !ok {
		t.Fatalf("%s: unknown", in.Name)
	}
	f, err := op.Bind(in)
	if err != nil {
		t.Fatal(err)
	}
	var row [3]uint64
	copy(row[:], operands)
	rows := make([][3]uint64, family.Lanes())
	for i := range rows {
		rows[i] = row
	}
	var result uint64
	var bit bool
	execution{family, op, f, mode, 0}.results(rows, func(int) bool { return carry }, func(row int, r uint64, out bool) {
		if row == 5 {
			result, bit = r, out
		}
	})
	return result, bit
}

// TestKnownResults has results that AMD's documents, or what compilers rely on, fix.
func TestKnownResults(t *testing.T) {
	const (
		one, two, minusZero, inf, nan = 0x3f800000, 0x40000000, 0x80000000, 0x7f800000, 0x7fc00000
		minus2to80                    = 0xe7800000 // -2**80
		tiny                          = 0x00000001
	)
	tests := []struct {
		name     string
		mode     func(m *Mode)
		in       isa.Instruction
		carry    bool
		operands []uint64
		want     uint64
		out      bool
	}{
		// A product that is -0, plus +0, is +0 (and -0 with an addend of -0).
		{name: "v_fma_mixlo_f16", operands: []uint64{minusZero, one, 0}, want: 0},
		{name: "v_fma_mixlo_f16", operands: []uint64{minusZero, one, minusZero}, want: 0x8000},
		{name: "v_fma_mixlo_f16", operands: []uint64{0x80000001, 0x00000001, 0}, want: 0x8000}, // fma gives -2**-298, which rounds to -0
		{name: "v_fma_f32", operands: []uint64{minusZero, one, 0}, want: 0},
		{name: "v_mul_f32", operands: []uint64{minusZero, one}, want: minusZero},
		// v_fma_mixlo_f16 rounds to binary32 first: 1 + 2**-11 + 2**-25 is a tie there, and a tie again.
		{name: "v_fma_mixlo_f16", operands: []uint64{one, 0x3f801000, 0x33000000}, want: 0x3c00},
		// One rounding of a fused product.
		{name: "v_fma_f32", operands: []uint64{0x3f800001, 0x3f800001, 0xbf800002}, want: 0x28800000},
		{name: "v_fma_f32", operands: []uint64{0x1a000100, 0x19fffe00, 0x00400001}, want: 0x00400001},
		// NaNs: the first one, made quiet; an invalid operation gives the default.
		{name: "v_add_f32", operands: []uint64{0x7f800005, 0xffc00001}, want: 0x7fc00005},
		{name: "v_add_f32", operands: []uint64{one, 0xff800001}, want: 0xffc00001},
		{name: "v_mul_f32", operands: []uint64{inf, 0}, want: nan},
		{name: "v_sub_f32", operands: []uint64{inf, inf}, want: nan},
		// Extremes leave a NaN out and tell zeros apart.
		{name: "v_max_f32", operands: []uint64{nan, two}, want: two},
		{name: "v_min_f32", operands: []uint64{two, nan}, want: two},
		{name: "v_max_f32", operands: []uint64{minusZero, 0}, want: 0},
		{name: "v_min_f32", operands: []uint64{0, minusZero}, want: minusZero},
		{name: "v_max_f32", operands: []uint64{two, 0x7f800001}, want: 0x7fc00001},
		{name: "v_med3_f32", operands: []uint64{nan, two, one}, want: one},
		// Integers saturate, NaNs become 0.
		{name: "v_cvt_u32_f32", operands: []uint64{minus2to80}, want: 0},
		{name: "v_cvt_i32_f32", operands: []uint64{minus2to80}, want: 0x80000000},
		{name: "v_cvt_u32_f32", operands: []uint64{inf}, want: 0xffffffff},
		{name: "v_cvt_i32_f32", operands: []uint64{nan}, want: 0},
		{name: "v_cvt_u32_f32", operands: []uint64{0x4f800000}, want: 0xffffffff},
		{name: "v_cvt_u32_f32", operands: []uint64{0x4f7fffff}, want: 0xffffff00},
		{name: "v_cvt_f16_f32", operands: []uint64{0x477ff000}, want: 0x7c00}, // 65520
		{name: "v_cvt_f16_f32", operands: []uint64{0x477fefff}, want: 0x7bff},
		{name: "v_cvt_f16_f32", mode: func(m *Mode) { m.Round64 = 3 }, operands: []uint64{0x477ff000}, want: 0x7bff},
		{name: "v_cvt_f16_f32", mode: func(m *Mode) { m.Denorm64 = 0 }, operands: []uint64{0x33800000}, want: 0}, // 2**-24
		// Flushing.
		{name: "v_add_f32", mode: func(m *Mode) { m.Denorm32 = 0 }, operands: []uint64{tiny, minusZero}, want: 0},
		{name: "v_cmp_eq_f32", mode: func(m *Mode) { m.Denorm32 = 0 }, operands: []uint64{tiny, 0}, out: true},
		{name: "v_cmp_eq_f32", operands: []uint64{tiny, 0}, out: false},
		{name: "v_rcp_f32", operands: []uint64{tiny}, want: inf},
		{name: "v_rcp_f32", operands: []uint64{0x7f000001}, want: 0},
		{name: "v_sqrt_f32", operands: []uint64{0x80000001}, want: minusZero},
		// A rounded difference from the integer below stays under 1.
		{name: "v_fract_f32", operands: []uint64{0x80000001}, want: 0x3f7fffff},
		// Shifts take the low bits of their amount.
		{name: "v_lshlrev_b32", operands: []uint64{33, 1}, want: 2},
		{name: "v_bfe_u32", operands: []uint64{0xffffffff, 4, 0}, want: 0},
		{name: "v_bfe_i32", operands: []uint64{0x80, 4, 4}, want: 0xfffffff8},
		// The steps of a division: scale, multiply-add, fix up.
		{name: "v_div_scale_f32", operands: []uint64{one, one, 0x7f7fffff}, want: 0x5f800000, out: true},
		{name: "v_div_scale_f32", operands: []uint64{one, 0x7f000000, one}, want: one, out: true},
		{name: "v_div_scale_f32", operands: []uint64{0x7f000000, 0x7f000000, one}, want: 0x5f000000, out: true},
		{name: "v_div_scale_f32", operands: []uint64{0x00800000, one, 0x00800000}, want: 0x20800000},
		{name: "v_div_scale_f32", operands: []uint64{two, one, two}, want: two},
		// The boundaries: exponents 96 apart, a numerator's exponent of 23, a denominator's of 253.
		{name: "v_div_scale_f32", operands: []uint64{one, one, 0x6f800000}, want: 0x5f800000, out: true},
		{name: "v_div_scale_f32", operands: []uint64{one, one, 0x6f000000}, want: one},
		{name: "v_div_scale_f32", operands: []uint64{0x0b800000, 0x0b800000, 0x0b800000}, want: 0x2b800000},
		{name: "v_div_scale_f32", operands: []uint64{0x0c000000, 0x0c000000, 0x0c000000}, want: 0x0c000000},
		{name: "v_div_scale_f32", operands: []uint64{0x7e800001, 0x7e800001, 0x7e800001}, want: 0x5e800001},
		{name: "v_div_scale_f32", operands: []uint64{0x7e800000, 0x7e800000, 0x7e800000}, want: 0x7e800000},
		{name: "v_div_scale_f32", operands: []uint64{one, 0x7e000000, one}, want: one},                                 // 2**-125
		{name: "v_div_scale_f32", operands: []uint64{one, 0x7e800000, one}, want: one},                                 // 2**-126
		{name: "v_div_scale_f32", operands: []uint64{0x3f000000, 0x7e800000, 0x3f000000}, want: 0x5f000000, out: true}, // 2**-127: the numerator
		{name: "v_div_scale_f32", operands: []uint64{0x3f000000, 0x7e000000, 0x3f000000}, want: 0x3f000000},            // 2**-126
		{name: "v_div_scale_f32", operands: []uint64{0x3f000000, 0x7e000001, 0x3f000000}, want: 0x5f000000, out: true}, // just below it
		{name: "v_div_scale_f64", operands: []uint64{0x3ff0000000000000, 0x3ff0000000000000, 0x6ff0000000000000}, want: 0x47f0000000000000, out: true},
		{name: "v_div_scale_f64", operands: []uint64{0x3ff0000000000000, 0x3ff0000000000000, 0x6fe0000000000000}, want: 0x3ff0000000000000},
		{name: "v_div_scale_f64", operands: []uint64{0x0350000000000000, 0x0350000000000000, 0x0350000000000000}, want: 0x0b50000000000000},
		{name: "v_div_scale_f64", operands: []uint64{0x0360000000000000, 0x0360000000000000, 0x0360000000000000}, want: 0x0360000000000000},
		{name: "v_div_fmas_f32", carry: true, operands: []uint64{one, one, two}, want: 0x60400000},  // 3·2**64
		{name: "v_div_fmas_f32", carry: true, operands: []uint64{one, one, one}, want: 0x20000000},  // 2·2**-64
		{name: "v_div_fmas_f32", carry: false, operands: []uint64{one, one, two}, want: 0x40400000}, // 3
		{name: "v_div_fixup_f32", operands: []uint64{one, 0, 0}, want: 0xffc00000},
		{name: "v_div_fixup_f32", operands: []uint64{one, inf, inf}, want: 0xffc00000},
		{name: "v_div_fixup_f32", operands: []uint64{nan, tiny, 0xff7fffff}, want: 0xff800000},
		// The first bits of 2/π.
		{name: "v_trig_preop_f64", operands: []uint64{0x3ff0000000000000, 0}, want: 0x3fe45f306dc9c882},
		{name: "v_trig_preop_f64", operands: []uint64{1078 << 52, 0}, want: 0x3fc17cc1b727220a}, // without the first one
		// Clamp: a NaN becomes 0 where the mode says so.
		{name: "v_add_f32", in: isa.Instruction{Clamp: true}, operands: []uint64{two, one}, want: one},
		{name: "v_add_f32", in: isa.Instruction{Clamp: true}, operands: []uint64{minusZero, minusZero}, want: 0},
		{name: "v_add_f32", in: isa.Instruction{Clamp: true}, operands: []uint64{nan, one}, want: 0},
		{name: "v_add_f32", in: isa.Instruction{Clamp: true}, mode: func(m *Mode) { m.DX10Clamp = false }, operands: []uint64{nan, one}, want: nan},
		{name: "v_cvt_f16_f32", in: isa.Instruction{Clamp: true}, operands: []uint64{two}, want: 0x3c00},
		{name: "v_add_f64", in: isa.Instruction{Clamp: true}, operands: []uint64{0xbff0000000000000, 0}, want: 0},
		{name: "v_pk_add_f16", in: isa.Instruction{Encoding: isa.VOP3P, OpSelHi: 7, Clamp: true}, operands: []uint64{0x40003800, 0x3c00b400}, want: 0x3c003400},
		{name: "v_pk_add_f32", in: isa.Instruction{Encoding: isa.VOP3P, OpSelHi: 7, Clamp: true}, operands: []uint64{two<<32 | one, 0xc0000000}, want: one << 32},
		{name: "v_cvt_pkrtz_f16_f32", in: isa.Instruction{Clamp: true}, operands: []uint64{two, 0xbf800000}, want: 0x3c00},
		// Omod: where neither IEEE's rules nor subnormal results are on.
		{name: "v_add_f32", in: isa.Instruction{OutputMode: 1}, operands: []uint64{one, one}, want: two},
		{name: "v_add_f32", in: isa.Instruction{OutputMode: 1}, mode: omodOn, operands: []uint64{one, one}, want: 0x40800000},
		{name: "v_add_f32", in: isa.Instruction{OutputMode: 1}, mode: func(m *Mode) { m.Denorm32 = 0 }, operands: []uint64{one, one}, want: two},
		{name: "v_add_f32", in: isa.Instruction{OutputMode: 1}, mode: func(m *Mode) { m.IEEE = false }, operands: []uint64{one, one}, want: two},
		{name: "v_add_f32", in: isa.Instruction{OutputMode: 2}, mode: omodOn, operands: []uint64{one, one}, want: 0x41000000},
		{name: "v_add_f32", in: isa.Instruction{OutputMode: 3}, mode: omodOn, operands: []uint64{one, one}, want: one},
		{name: "v_add_f32", in: isa.Instruction{OutputMode: 3, Clamp: true}, mode: omodOn, operands: []uint64{two, two}, want: one},
		{name: "v_add_f32", in: isa.Instruction{OutputMode: 1}, mode: omodOn, operands: []uint64{minusZero, minusZero}, want: 0},
		{name: "v_add_f32", in: isa.Instruction{OutputMode: 3}, mode: omodOn, operands: []uint64{0x00800000, 0}, want: 0},
		{name: "v_add_f32", in: isa.Instruction{OutputMode: 2}, mode: omodOn, operands: []uint64{0xff000000, 0}, want: 0xff800000},
		// Integers saturate by clamp.
		{name: "v_add_co_u32", in: isa.Instruction{Clamp: true}, operands: []uint64{0xffffffff, 2}, want: 0xffffffff, out: true},
		{name: "v_sub_co_u32", in: isa.Instruction{Clamp: true}, operands: []uint64{1, 2}, want: 0, out: true},
		{name: "v_mad_i32_i24", in: isa.Instruction{Clamp: true}, operands: []uint64{0x7fffff, 0x7fffff, 0}, want: 0x7fffffff},
		{name: "v_mad_u16", in: isa.Instruction{Clamp: true}, operands: []uint64{0xffff, 2, 0}, want: 0xffff},
		{name: "v_mad_i16", in: isa.Instruction{Clamp: true}, operands: []uint64{0x8000, 2, 0}, want: 0x8000},
		{name: "v_pk_add_u16", in: isa.Instruction{Encoding: isa.VOP3P, OpSelHi: 7, Clamp: true}, operands: []uint64{0xffff0001, 0x00020001}, want: 0xffff0002},
		{name: "v_dot4_u32_u8", in: isa.Instruction{Encoding: isa.VOP3P, OpSelHi: 7, Clamp: true}, operands: []uint64{0xff, 0xff, 0xffffffff}, want: 0xffffffff},
	}
	for label, family := range families {
		for i, test := range tests {
			_, is9 := Lookup(isa.GFX9, test.name)
			if _, ok := Lookup(family, test.name); !ok && is9 {
				continue // gfx11 does not have it
			}
			t.Run(fmt.Sprintf("%s/%s/%d", label, test.name, i), func(t *testing.T) {
				mode := plainMode
				if test.mode != nil {
					test.mode(&mode)
				}
				in := test.in
				in.Name = test.name
				if strings.Contains(test.name, "mix") {
					in.Encoding = isa.VOP3P
				}
				got, out := run(t, family, &in, mode, test.carry, test.operands...)
				op, _ := Lookup(family, test.name)
				if got != test.want || (op.Carry || op.Result == Mask) && out != test.out {
					t.Errorf("%#x, %+v: got %#x, mask %t; want %#x, mask %t", test.operands, mode, got, out, test.want, test.out)
				}
			})
		}
	}
}

func omodOn(m *Mode) { m.IEEE, m.Denorm32 = false, 0 }

// TestPackedModifiers tries all selections of halves and all signs of packed instructions.
func TestPackedModifiers(t *testing.T) {
	for label, family := range families {
		for _, test := range []struct {
			name, one string
			width     uint
			y         layout
		}{{"v_pk_fma_f16", "v_fma_f16", 16, layout16}, {"v_pk_fma_f32", "v_fma_f32", 32, layout32},
			{"v_pk_add_f32", "v_add_f32", 32, layout32}, {"v_pk_mad_u16", "v_mad_u16", 16, layout16}} {
			op, ok := Lookup(family, test.name)
			if !ok {
				continue
			}
			one := oracleOf(family, test.one)
			r := rand.New(rand.NewPCG(5, 6))
			rows := inputs(op, r, 60)
			field := uint64(1)<<test.width - 1
			for range 40 {
				in := &isa.Instruction{Name: test.name, Encoding: isa.VOP3P, OpSel: uint8(r.IntN(8)), OpSelHi: uint8(r.IntN(8))}
				if op.Sources[0].IsFloat() {
					in.NegLo, in.NegHi = uint8(r.IntN(8)), uint8(r.IntN(8))
				}
				f, err := op.Bind(in)
				if err != nil {
					t.Fatal(err)
				}
				half := func(m machine, v [3]uint64, upper, negative uint8) uint64 {
					for k := range v {
						v[k] = v[k] >> (test.width * uint(upper>>k&1)) & field
						if negative>>k&1 != 0 {
							v[k] ^= test.y.signBit()
						}
					}
					x, _ := one(m, v[0], v[1], v[2])
					return x
				}
				compareRows(t, execution{family, op, f, plainMode, 0}, rows, plain(func(m machine, a, b, c uint64) uint64 {
					v := [3]uint64{a, b, c}
					return half(m, v, in.OpSel, in.NegLo) | half(m, v, in.OpSelHi, in.NegHi)<<test.width
				}))
				if t.Failed() {
					t.Fatalf("%s: %s with %+v", label, test.name, in)
				}
			}
		}
	}
}

// TestMixedModifiers tries all selections, signs and absolute values of v_fma_mix.
func TestMixedModifiers(t *testing.T) {
	for label, family := range families {
		for _, name := range []string{"v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16"} {
			op, _ := Lookup(family, name)
			r := rand.New(rand.NewPCG(7, 8))
			rows := inputs(op, r, 50)
			for range 40 {
				in := &isa.Instruction{Name: name, Encoding: isa.VOP3P, OpSel: uint8(r.IntN(8)), OpSelHi: uint8(r.IntN(8)),
					NegLo: uint8(r.IntN(8)), NegHi: uint8(r.IntN(8))}
				f, err := op.Bind(in)
				if err != nil {
					t.Fatal(err)
				}
				compareRows(t, execution{family, op, f, plainMode, 0}, rows, plain(func(m machine, a, b, c uint64) uint64 {
					v := [3]uint64{a, b, c}
					for k := range v {
						if in.OpSelHi>>k&1 != 0 {
							v[k] = m.convertOracle(layout16, layout32, v[k]>>(16*(in.OpSel>>k&1))&0xffff, 0)
						}
						if in.NegHi>>k&1 != 0 {
							v[k] &= math.MaxInt32
						}
						if in.NegLo>>k&1 != 0 {
							v[k] ^= 1 << 31
						}
					}
					x := m.fmaOracle(layout32, v[0], v[1], v[2], 0)
					if name != "v_fma_mix_f32" {
						x = m.convertOracle(layout32, layout16, x, 0)
					}
					return x
				}))
				if t.Failed() {
					t.Fatalf("%s: %s with %+v", label, name, in)
				}
			}
		}
	}
}

// TestPackedMove tries v_pk_mov_b32's selections, with the result in the operands' registers.
func TestPackedMove(t *testing.T) {
	op, _ := Lookup(isa.GFX9, "v_pk_mov_b32")
	for opSel := range uint8(4) {
		f, err := op.Bind(&isa.Instruction{Name: op.Name, Encoding: isa.VOP3P, OpSel: opSel, OpSelHi: 7})
		if err != nil {
			t.Fatal(err)
		}
		var v [2]Register
		for i := range v[0] {
			v[0][i], v[1][i] = uint32(i), uint32(1000+i)
		}
		source := [2]*Register{&v[0], &v[1]}
		f(&Call{Lanes: 64, Source: [3][2]*Register{source, source}, Result: source})
		for i := range v[0] {
			want := [2]uint32{uint32(i) + 1000*uint32(opSel&1), uint32(i) + 1000*uint32(opSel>>1)}
			if got := [2]uint32{v[0][i], v[1][i]}; got != want {
				t.Fatalf("op_sel %d, lane %d: got %d, want %d", opSel, i, got, want)
			}
		}
	}
}

// TestSignedDots tries neg_lo of v_dot4_i32_iu8, which says which operand is signed.
func TestSignedDots(t *testing.T) {
	for signs, want := range map[uint8]int32{0: 255 * 254, 1: -254, 2: -2 * 255, 3: 2} {
		got, _ := run(t, isa.GFX11, &isa.Instruction{Name: "v_dot4_i32_iu8", Encoding: isa.VOP3P, NegLo: signs, OpSelHi: 7}, plainMode, false, 0xff, 0xfe, 0)
		if int32(got) != want {
			t.Errorf("neg_lo %d: got %d, want %d", signs, int32(got), want)
		}
	}
}

// TestBindErrors checks that modifiers an instruction does not have are errors.
func TestBindErrors(t *testing.T) {
	for _, test := range []struct {
		in   isa.Instruction
		want string
	}{
		{isa.Instruction{Name: "v_and_b32", OutputMode: 1}, "v_and_b32: omod 1, but the result is not one floating-point number"},
		{isa.Instruction{Name: "v_pk_add_f16", Encoding: isa.VOP3P, OutputMode: 2}, "v_pk_add_f16: omod 2"},
		{isa.Instruction{Name: "v_pk_add_u16", Encoding: isa.VOP3P, NegLo: 1}, "v_pk_add_u16: neg of integers"},
	} {
		op, _ := Lookup(isa.GFX11, test.in.Name)
		if _, err := op.Bind(&test.in); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.in.Name, err, test.want)
		}
	}
}

// TestTables checks what the tables say about each operation.
func TestTables(t *testing.T) {
	for label, family := range families {
		for name, op := range tables[family] {
			if op.Name != name || len(sourceTypes(op)) > 3 || len(sourceTypes(op)) == 0 {
				t.Errorf("%s: %s: %+v", label, name, op)
			}
			if op.Result.Is16() == (op.Placement == WholeRegister) && family == isa.GFX11 {
				t.Errorf("%s: %s has placement %d", label, name, op.Placement)
			}
		}
		if op, ok := Lookup(family, "v_dual_fmac_f32"); !ok || op.Name != "v_fmac_f32" || !op.ReadsResult {
			t.Errorf("%s: v_dual_fmac_f32: %+v", label, op)
		}
		if _, ok := Lookup(family, "v_nonsense_f32"); ok {
			t.Errorf("%s: v_nonsense_f32 is known", label)
		}
	}
	if _, ok := Lookup(isa.Family(7), "v_add_f32"); ok {
		t.Error("a family that does not exist has v_add_f32")
	}
	for name, want := range map[string]Placement{"v_add_f16": WholeRegister, "v_mac_f16": OneHalf, "v_fma_mixlo_f16": OneHalf, "v_fma_mixhi_f16": UpperHalf} {
		if op, _ := Lookup(isa.GFX9, name); op.Placement != want {
			t.Errorf("gfx9: %s: got placement %d, want %d", name, op.Placement, want)
		}
	}
}
