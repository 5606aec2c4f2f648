package wave

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"tokitai/amdgpu/isa"
)

func TestSaveExec(t *testing.T) {
	// Each operation on one bit of the operand and one of exec.
	operations := map[string]func(a, exec uint64) uint64{
		"and": func(a, exec uint64) uint64 { return a * exec }, "or": func(a, exec uint64) uint64 { return (a + exec + 1) / 2 },
		"xor": func(a, exec uint64) uint64 { return (a + exec) % 2 }, "nand": func(a, exec uint64) uint64 { return 1 - a*exec },
		"nor": func(a, exec uint64) uint64 { return (1 - a) * (1 - exec) }, "xnor": func(a, exec uint64) uint64 { return (a + exec + 1) % 2 },
		"andn1": func(a, exec uint64) uint64 { return (1 - a) * exec }, "andn2": func(a, exec uint64) uint64 { return a * (1 - exec) },
		"orn1": func(a, exec uint64) uint64 { return 1 - a*(1-exec) }, "orn2": func(a, exec uint64) uint64 { return 1 - exec*(1-a) },
	}
	newNames := map[string]string{"andn1": "and_not0", "andn2": "and_not1", "orn1": "or_not0", "orn2": "or_not1"}
	r := rand.New(rand.NewPCG(15, 16))
	both(t, func(t *testing.T, family isa.Family) {
		lanes := family.Lanes()
		for name, f := range operations {
			for _, form := range []string{"saveexec", "wrexec"} {
				if form == "wrexec" && name != "andn1" && name != "andn2" {
					continue
				}
				if family == isa.GFX11 && newNames[name] != "" {
					name = newNames[name]
				}
				for _, a := range append(masks(r, lanes), values(r, 0)...) {
					for _, exec := range masks(r, lanes) {
						in := isa.Instruction{Encoding: isa.SOP1, Name: fmt.Sprintf("s_%s_%s_b%d", name, form, lanes),
							Results: []isa.Operand{sgpr(4, lanes/32)}, Operands: []isa.Operand{sgpr(2, lanes/32)}}
						w, err := execute(t, family, nil, func(w *Wave) { w.setPair(2, a); w.SetExec(exec) }, in)
						if err != nil {
							t.Fatal(err)
						}
						var want uint64
						for i := range lanes {
							want |= f(a>>i&1, exec>>i&1) << i
						}
						saved := exec
						if form == "wrexec" {
							saved = want
						}
						if w.Exec != want || w.pair(execAt) != want || w.SCC != (want != 0) || w.read(4, lanes == 64) != saved {
							t.Fatalf("%s %#x, exec %#x: got exec %#x, scc %v, saved %#x, want %#x", in.Name, a, exec, w.Exec, w.SCC, w.read(4, lanes == 64), want)
						}
					}
				}
			}
		}
	})
}

// TestExecAsResult writes exec by an ordinary instruction.
func TestExecAsResult(t *testing.T) {
	l := launchText(t, "gfx942", `
	s_mov_b64 exec, 0x12345678
	s_mov_b32 exec_hi, 0xff
	s_bfm_b32 exec_lo, 4, 4
	v_mov_b32 v1, 1
	s_endpgm`)
	g, err := runGroup(t, l, func(w *Wave) { w.V[1] = Register{} })
	if err != nil {
		t.Fatal(err)
	}
	w := g.Waves[0]
	for lane, x := range w.V[1] {
		if want := uint32(uint64(0xff000000f0) >> lane & 1); x != want {
			t.Errorf("lane %d: got %d, want %d", lane, x, want)
		}
	}
}

func TestBranches(t *testing.T) {
	for name, condition := range map[string][2]string{ // what to do so that it is taken, and so that it is not
		"s_branch":         {"s_nop 0", ""},
		"s_cbranch_scc0":   {"s_cmp_eq_u32 0, 1", "s_cmp_eq_u32 0, 0"},
		"s_cbranch_scc1":   {"s_cmp_eq_u32 0, 0", "s_cmp_eq_u32 0, 1"},
		"s_cbranch_vccz":   {"s_mov_b64 vcc, 0", "s_mov_b64 vcc, 4"},
		"s_cbranch_vccnz":  {"s_mov_b64 vcc, 4", "s_mov_b64 vcc, 0"},
		"s_cbranch_execz":  {"s_mov_b64 exec, 0", "s_mov_b64 exec, 1"},
		"s_cbranch_execnz": {"s_mov_b64 exec, 1", "s_mov_b64 exec, 0"},
	} {
		for i, text := range condition {
			if text == "" {
				continue
			}
			l := launchText(t, "gfx942", fmt.Sprintf("s_mov_b32 s0, 0\n%s\n%s skip\ns_mov_b32 s0, 1\nskip:\ns_endpgm", text, name))
			g, err := runGroup(t, l, nil)
			if err != nil || g.Waves[0].S[0] != uint32(i) {
				t.Errorf("%s after %s: s0 is %d, want %d, %v", name, text, g.Waves[0].S[0], i, err)
			}
		}
	}
	// A loop that multiplies by adding, backwards branch.
	l := launchText(t, "gfx1100", `
	s_mov_b32 s0, 0
	s_mov_b32 s1, 7
	again:
	s_add_u32 s0, s0, 13
	s_sub_u32 s1, s1, 1
	s_cmp_lg_u32 s1, 0
	s_cbranch_scc1 again
	s_endpgm`)
	if g, err := runGroup(t, l, nil); err != nil || g.Waves[0].S[0] != 7*13 {
		t.Errorf("got %d, %v, want 91", g.Waves[0].S[0], err)
	}
}

// TestCalls calls a function twice by its address, and once by a distance.
func TestCalls(t *testing.T) {
	l := launchText(t, "gfx942", `
	s_mov_b32 s0, 1
	s_getpc_b64 s[2:3]
	here:
	s_add_u32 s2, s2, double-here
	s_addc_u32 s3, s3, 0
	s_mov_b64 s[6:7], s[2:3]
	s_swappc_b64 s[4:5], s[2:3]
	s_swappc_b64 s[6:7], s[6:7]
	s_add_u32 s0, s0, 1
	s_call_b64 s[4:5], double
	s_endpgm
	double:
	s_lshl_b32 s0, s0, 1
	s_cmp_eq_u32 s0, 4
	s_cbranch_scc1 second
	s_setpc_b64 s[4:5]
	second:
	s_setpc_b64 s[6:7]`)
	l.CodeAddress = 0x9_8765_4300
	g, err := runGroup(t, l, nil)
	if err != nil || g.Waves[0].S[0] != 10 {
		t.Errorf("got %d, %v, want 10", g.Waves[0].S[0], err)
	}
}

func TestModeRegister(t *testing.T) {
	l := launchText(t, "gfx1100", `
	s_getreg_b32 s0, hwreg(HW_REG_MODE)
	s_round_mode 0x6
	s_denorm_mode 0x9
	s_getreg_b32 s1, hwreg(HW_REG_MODE, 0, 8)
	s_movk_i32 s5, 0x35
	s_setreg_b32 hwreg(HW_REG_MODE, 2, 4), s5
	s_getreg_b32 s2, hwreg(HW_REG_MODE, 0, 16)
	s_setreg_imm32_b32 hwreg(HW_REG_MODE, 8, 2), 1
	s_getreg_b32 s3, hwreg(HW_REG_MODE, 4, 6)
	s_endpgm`)
	l.Mode = Mode{Round32: 1, Round64: 2, Denorm32: 3, Denorm64: 0, DX10Clamp: false, IEEE: true}
	g, err := runGroup(t, l, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := g.Waves[0]
	// Fields from bit 0: round32, round64, denorm32, denorm64 of two bits, then dx10_clamp and ieee.
	for i, want := range []uint32{1 | 2<<2 | 3<<4 | 1<<9, 0x96, 0x200 | 0x96&^0x3c | 5<<2, 0b01_10_01} {
		if w.S[i] != want {
			t.Errorf("s%d is %#x, want %#x", i, w.S[i], want)
		}
	}
	if want := (Mode{Round32: 2, Round64: 1, Denorm32: 1, Denorm64: 2, DX10Clamp: true}); w.call.Mode != want {
		t.Errorf("got mode %+v, want %+v", w.call.Mode, want)
	}
}

func TestScalarLoads(t *testing.T) {
	memory := make([]byte, 256)
	for i := range memory {
		memory[i] = byte(i*i + 3)
	}
	for _, c := range []struct{ architecture, text string }{
		{"gfx1100", "s_load_b32 s20, s[2:3], 0x4\ns_load_b64 s[22:23], s[2:3], s4\ns_load_b128 s[24:27], s[2:3], s4 offset:0x8\ns_load_b256 s[28:35], s[2:3], -0x10\ns_load_b512 s[36:51], s[2:3], 0x20\ns_endpgm"},
		{"gfx942", "s_load_dword s20, s[2:3], 0x4\ns_load_dwordx2 s[22:23], s[2:3], s4\ns_load_dwordx4 s[24:27], s[2:3], s4 offset:0x8\ns_load_dwordx8 s[28:35], s[2:3], -0x10\ns_load_dwordx16 s[36:51], s[2:3], 0x20\ns_endpgm"},
	} {
		l := launchText(t, c.architecture, c.text)
		l.Memory = Blocks{{Address: globalBase, Bytes: memory, IsReadOnly: true}}
		g, err := runGroup(t, l, func(w *Wave) { w.setPair(2, globalBase+64); w.S[4] = 50 })
		if err != nil {
			t.Fatal(err)
		}
		for _, load := range []struct{ register, at, words int }{{20, 68, 1}, {22, 64 + 48, 2}, {24, 64 + 56, 4}, {28, 48, 8}, {36, 96, 16}} {
			for i := range load.words {
				if got, want := g.Waves[0].S[load.register+i], binary.LittleEndian.Uint32(memory[load.at+4*i:]); got != want {
					t.Errorf("%s: s%d is %#x, want %#x", c.architecture, load.register+i, got, want)
				}
			}
		}
	}
}

func TestScalarRelativeMoves(t *testing.T) {
	l := launchText(t, "gfx1100", `
	s_mov_b32 m0, 4
	s_movrels_b32 s20, s2
	s_movreld_b32 s21, s3
	s_movrels_b64 s[30:31], s[2:3]
	s_movreld_b64 s[32:33], s[8:9]
	s_endpgm`)
	g, err := runGroup(t, l, func(w *Wave) {
		for i := range 40 {
			w.S[i] = uint32(100 + i)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int]uint32{20: 106, 25: 103, 30: 106, 31: 107, 36: 108, 37: 109} {
		if got := g.Waves[0].S[at]; got != want {
			t.Errorf("s%d is %d, want %d", at, got, want)
		}
	}
}

// TestApertures reads a private and a shared variable by flat addresses made from the apertures.
func TestApertures(t *testing.T) {
	for _, text := range []string{
		"s_mov_b64 s[0:1], src_shared_base\ns_mov_b64 s[2:3], src_private_base\n",
		"s_getreg_b32 s1, hwreg(HW_REG_SH_MEM_BASES, 16, 16)\ns_lshl_b32 s1, s1, 16\ns_getreg_b32 s3, hwreg(HW_REG_SH_MEM_BASES, 0, 16)\ns_lshl_b32 s3, s3, 16\n",
	} {
		l := launchText(t, "gfx942", text+`
	v_mov_b32 v1, 8
	v_mov_b32 v2, 42
	ds_write_b32 v1, v2
	v_mov_b32 v3, 43
	scratch_store_dword off, v3, off offset:12
	v_mov_b32 v4, 8
	v_mov_b32 v5, s1
	flat_load_dword v6, v[4:5]
	v_mov_b32 v4, 12
	v_mov_b32 v5, s3
	flat_load_dword v7, v[4:5]
	s_endpgm`)
		l.LDS, l.Private = 16, 16
		g, err := runGroup(t, l, nil)
		if err != nil {
			t.Fatal(err)
		}
		for lane := range 64 {
			if a, b := g.Waves[0].V[6][lane], g.Waves[0].V[7][lane]; a != 42 || b != 43 {
				t.Fatalf("lane %d: got %d and %d, want 42 and 43", lane, a, b)
			}
		}
	}
}

// TestScalarFloats runs the floating-point instructions of RDNA 3.5's scalar unit.
func TestScalarFloats(t *testing.T) {
	l := launchText(t, "gfx1150", `
	s_add_f32 s10, s0, s1
	s_mul_f32 s11, s0, 2.0
	s_fmac_f32 s12, s0, s1
	s_fmaak_f32 s13, s0, s1, 0x41200000
	s_cvt_f32_i32 s14, s2
	s_cvt_u32_f32 s15, s0
	s_cvt_f16_f32 s16, s1
	s_cvt_hi_f32_f16 s17, s3
	s_cvt_pk_rtz_f16_f32 s18, s0, s1
	s_floor_f32 s19, s4
	s_min_f32 s20, s0, s1
	s_add_f16 s21, s3, 1.0
	s_cmp_lt_f32 s1, s0
	s_cselect_b32 s22, 1, 0
	s_cmp_nge_f32 s0, s1
	s_cselect_b32 s23, 1, 0
	s_endpgm`)
	f := math.Float32bits
	g, err := runGroup(t, l, func(w *Wave) {
		w.S[0], w.S[1], w.S[2], w.S[3], w.S[4] = f(3), f(-5), uint32(0xfffffff9), 0xc5003c00, f(-2.5)
		w.S[12] = f(100)
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint32{f(-2), f(6), f(85), f(-5), f(-7), 3, 0xc500, f(-5), 0xc500<<16 | 0x4200, f(-3), f(-5), 0x4000, 1, 0} {
		if got := g.Waves[0].S[10+i]; got != want {
			t.Errorf("s%d is %#x, want %#x", 10+i, got, want)
		}
	}
}
