package wave

import (
	"math"
	"math/rand/v2"
	"testing"

	"tokitai/amdgpu/isa"
)

// masks returns patterns of exec: full, empty, single lanes, halves and random ones.
func masks(r *rand.Rand, lanes int) []uint64 {
	all := ^uint64(0) >> (64 - lanes)
	list := []uint64{all, 0, 1, 1 << (lanes - 1), all >> (lanes / 2), 0x5555555555555555 & all}
	for range 6 {
		list = append(list, r.Uint64()&all)
	}
	return list
}

// randomRegisters fills the first n registers and returns a copy of all.
func randomRegisters(r *rand.Rand, w *Wave, n int) []Register {
	for i := range n {
		for lane := range w.V[i] {
			w.V[i][lane] = r.Uint32()
		}
	}
	return append([]Register{}, w.V...)
}

// step runs one instruction with random registers for each mask, and calls check for each
// lane, with the registers from before; lanes that are off must not have changed.
func forMasks(t *testing.T, family isa.Family, in isa.Instruction, prepare func(w *Wave, r *rand.Rand), check func(w *Wave, before []Register, exec uint64, lane int) (got, want uint32)) {
	t.Helper()
	code, err := Translate(family, []isa.Instruction{in})
	if err != nil {
		t.Fatalf("%s: %v", in.Name, err)
	}
	r := rand.New(rand.NewPCG(7, 8))
	g, err := (&Launch{Code: code, Memory: Blocks{}, Threads: family.Lanes(), Registers: 16, LDS: 1024,
		Mode: Mode{Denorm32: 3, Denorm64: 3, IEEE: true, DX10Clamp: true}}).resetGroup()
	if err != nil {
		t.Fatal(err)
	}
	w := g.Waves[0]
	for _, exec := range masks(r, w.Lanes) {
		randomRegisters(r, w, 16)
		if prepare != nil {
			prepare(w, r)
		}
		before := append([]Register{}, w.V...)
		w.SetExec(exec)
		code.Steps[0](w)
		if w.fault != nil {
			t.Fatal(w.fault)
		}
		for lane := range w.Lanes {
			if exec>>lane&1 == 0 {
				for i := range w.V {
					if w.V[i][lane] != before[i][lane] {
						t.Fatalf("%s with exec %#x: lane %d is off, but v%d changed", in.Name, exec, lane, i)
					}
				}
				continue
			}
			if got, want := check(w, before, exec, lane); got != want {
				t.Fatalf("%s with exec %#x, lane %d: got %#x, want %#x", in.Name, exec, lane, got, want)
			}
		}
	}
}

func TestVectorOperands(t *testing.T) {
	one := []isa.Operand{vgpr(0, 1)}
	add := func(a, b isa.Operand) isa.Instruction {
		return isa.Instruction{Encoding: isa.VOP2, Name: "v_xor_b32", Results: one, Operands: []isa.Operand{a, b}}
	}
	both(t, func(t *testing.T, family isa.Family) {
		setScalars := func(w *Wave, r *rand.Rand) {
			for i := range 100 {
				w.S[i] = r.Uint32()
			}
			w.S[vccAt], w.S[vccAt+1], w.S[m0At] = r.Uint32(), r.Uint32(), r.Uint32()
			w.SCC = r.IntN(2) == 0
		}
		for _, c := range []struct {
			o    isa.Operand
			want func(w *Wave) uint32
		}{
			{sgpr(7, 1), func(w *Wave) uint32 { return w.S[7] }},
			{isa.Operand{Kind: isa.VCC, Words: 1}, func(w *Wave) uint32 { return w.S[vccAt] }},
			{isa.Operand{Kind: isa.VCCHigh, Words: 1}, func(w *Wave) uint32 { return w.S[vccAt+1] }},
			{isa.Operand{Kind: isa.M0, Words: 1}, func(w *Wave) uint32 { return w.S[m0At] }},
			{isa.Operand{Kind: isa.Exec, Words: 1}, func(w *Wave) uint32 { return uint32(w.Exec) }},
			{isa.Operand{Kind: isa.ExecHigh, Words: 1}, func(w *Wave) uint32 { return uint32(w.Exec >> 32) }},
			{isa.Operand{Kind: isa.SCC, Words: 1}, func(w *Wave) uint32 { return flag(w.SCC) }},
			{isa.Operand{Kind: isa.ExecZ, Words: 1}, func(w *Wave) uint32 { return flag(w.Exec == 0) }},
			{isa.Operand{Kind: isa.Null, Words: 1}, func(w *Wave) uint32 { return 0 }},
			{isa.Operand{Kind: isa.Constant, Words: 1, Value: 0xfffffff0}, func(w *Wave) uint32 { return 0xfffffff0 }},
		} {
			forMasks(t, family, add(c.o, vgpr(2, 1)), setScalars, func(w *Wave, before []Register, _ uint64, lane int) (uint32, uint32) {
				return w.V[0][lane], c.want(w) ^ before[2][lane]
			})
		}
		// The result's register is also an operand's.
		forMasks(t, family, add(vgpr(0, 1), vgpr(1, 1)), nil, func(w *Wave, before []Register, _ uint64, lane int) (uint32, uint32) {
			return w.V[0][lane], before[0][lane] ^ before[1][lane]
		})
		// A pair whose lower word is the result's upper one.
		shift := isa.Instruction{Encoding: isa.VOP3, Name: "v_lshlrev_b64", Results: []isa.Operand{vgpr(3, 2)}, Operands: []isa.Operand{vgpr(1, 1), vgpr(2, 2)}}
		for word := range 2 {
			forMasks(t, family, shift, nil, func(w *Wave, before []Register, _ uint64, lane int) (uint32, uint32) {
				x := (uint64(before[2][lane]) | uint64(before[3][lane])<<32) << (before[1][lane] & 63)
				return w.V[3+word][lane], uint32(x >> (32 * word))
			})
		}
	})
}

func TestModifiers(t *testing.T) {
	float := func(w *Wave, r *rand.Rand) {
		for lane := range w.Lanes {
			w.V[1][lane], w.V[2][lane] = math.Float32bits(float32(r.NormFloat64())), math.Float32bits(float32(r.NormFloat64()))
		}
	}
	both(t, func(t *testing.T, family isa.Family) {
		for i := range 16 {
			a, b := vgpr(1, 1), vgpr(2, 1)
			a.Neg, a.Abs, b.Neg, b.Abs = i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0
			in := isa.Instruction{Encoding: isa.VOP3, Name: "v_sub_f32", Results: []isa.Operand{vgpr(0, 1)}, Operands: []isa.Operand{a, b}}
			forMasks(t, family, in, float, func(w *Wave, before []Register, _ uint64, lane int) (uint32, uint32) {
				x, y := float64(math.Float32frombits(before[1][lane])), float64(math.Float32frombits(before[2][lane]))
				if a.Abs {
					x = math.Abs(x)
				}
				if a.Neg {
					x = -x
				}
				if b.Abs {
					y = math.Abs(y)
				}
				if b.Neg {
					y = -y
				}
				return w.V[0][lane], math.Float32bits(float32(x - y))
			})
		}
		// neg of 64 bits changes the sign, which is in the upper word.
		a := vgpr(2, 2)
		a.Neg = true
		zero := isa.Operand{Kind: isa.Constant, Words: 2, Value: 0x8000000000000000}
		in := isa.Instruction{Encoding: isa.VOP3, Name: "v_add_f64", Results: []isa.Operand{vgpr(0, 2)}, Operands: []isa.Operand{a, zero}}
		finite := func(w *Wave, r *rand.Rand) {
			for lane := range w.Lanes {
				x := math.Float64bits(r.NormFloat64())
				w.V[2][lane], w.V[3][lane] = uint32(x), uint32(x>>32)
			}
		}
		forMasks(t, family, in, finite, func(w *Wave, before []Register, _ uint64, lane int) (uint32, uint32) {
			return w.V[1][lane], before[3][lane] ^ 1<<31
		})
	})
}

// TestMixedSigns checks neg and abs of an instruction whose operands are halves or words.
func TestMixedSigns(t *testing.T) {
	l := launchText(t, "gfx1100", `
	v_fma_mix_f32 v4, -v1, |v2|, -|v3| op_sel_hi:[0,0,0]
	v_fma_mix_f32 v5, -v6, |v6|, v3 op_sel:[1,0,0] op_sel_hi:[1,1,0]
	v_fma_mixhi_f16 v7, v1, -v2, v3 op_sel_hi:[0,0,0]
	s_endpgm`)
	g, err := runGroup(t, l, func(w *Wave) {
		for lane := range w.Lanes {
			w.V[1][lane], w.V[2][lane], w.V[3][lane] = math.Float32bits(3), math.Float32bits(-5), math.Float32bits(7)
			w.V[6][lane] = 0x4000<<16 | 0xc200 // 2 and -3
			w.V[7][lane] = 0x1234
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	w := g.Waves[0]
	for register, want := range map[int]uint32{4: math.Float32bits(-3*5 - 7), 5: math.Float32bits(-2*3 + 7), 7: 0x4d80<<16 | 0x1234} {
		if got := w.V[register][9]; got != want {
			t.Errorf("v%d is %#x, want %#x", register, got, want)
		}
	}
}

func TestHalves(t *testing.T) {
	// gfx11: every combination of halves of v_and_b16 keeps the other half of the result.
	for i := range 8 {
		half := func(bit int) isa.Half { return isa.Half(1 + i>>bit&1) }
		a, b, d := vgpr(1, 1), vgpr(2, 1), vgpr(0, 1)
		a.Half, b.Half, d.Half = half(0), half(1), half(2)
		in := isa.Instruction{Encoding: isa.VOP3, Name: "v_and_b16", Results: []isa.Operand{d}, Operands: []isa.Operand{a, b}}
		forMasks(t, isa.GFX11, in, nil, func(w *Wave, before []Register, _ uint64, lane int) (uint32, uint32) {
			get := func(r, bit int) uint16 {
				return [2]uint16{uint16(before[r][lane]), uint16(before[r][lane] >> 16)}[i>>bit&1]
			}
			x := [2]uint16{uint16(before[0][lane]), uint16(before[0][lane] >> 16)}
			x[i>>2&1] = get(1, 0) & get(2, 1)
			return w.V[0][lane], uint32(x[0]) | uint32(x[1])<<16
		})
	}
	// gfx9: the lower half as the result clears the upper one, op_sel selects operands.
	for selection := range uint8(16) {
		in := isa.Instruction{Encoding: isa.VOP3, Name: "v_mad_u16", Results: []isa.Operand{vgpr(0, 1)},
			Operands: []isa.Operand{vgpr(1, 1), vgpr(2, 1), vgpr(3, 1)}, OpSel: selection}
		forMasks(t, isa.GFX9, in, nil, func(w *Wave, before []Register, _ uint64, lane int) (uint32, uint32) {
			var x [3]uint32
			for i := range x {
				x[i] = before[1+i][lane] >> (16 * (selection >> i & 1)) & 0xffff
			}
			sum := (x[0]*x[1] + x[2]) & 0xffff
			if selection>>3 == 0 {
				return w.V[0][lane], sum
			}
			return w.V[0][lane], before[0][lane]&0xffff | sum<<16
		})
	}
}

func TestSDWA(t *testing.T) {
	pick := func(x uint32, selection uint8, isSigned bool) uint32 {
		switch {
		case selection < 4:
			b := [4]byte{byte(x), byte(x >> 8), byte(x >> 16), byte(x >> 24)}[selection]
			if isSigned {
				return uint32(int32(int8(b)))
			}
			return uint32(b)
		case selection < 6:
			h := [2]uint16{uint16(x), uint16(x >> 16)}[selection-4]
			if isSigned {
				return uint32(int32(int16(h)))
			}
			return uint32(h)
		}
		return x
	}
	for result := range uint8(7) {
		for source := range uint8(7) {
			for unused := range uint8(3) {
				a, b := vgpr(1, 1), vgpr(2, 1)
				a.Sext, b.Sext = source&1 == 0, result&1 == 0
				in := isa.Instruction{Encoding: isa.VOP2, Name: "v_add_u32", Results: []isa.Operand{vgpr(0, 1)}, Operands: []isa.Operand{a, b},
					SDWA: &isa.SDWA{Result: result, Src0: source, Src1: (source + 3) % 7, Unused: unused}}
				forMasks(t, isa.GFX9, in, nil, func(w *Wave, before []Register, _ uint64, lane int) (uint32, uint32) {
					sum := pick(before[1][lane], source, a.Sext) + pick(before[2][lane], (source+3)%7, b.Sext)
					if result == 6 {
						return w.V[0][lane], sum
					}
					first, width := 8*int(result), 8
					if result >= 4 {
						first, width = 16*int(result-4), 16
					}
					var want uint32
					for bit := range 32 {
						var set uint32
						switch {
						case bit >= first && bit < first+width:
							set = sum >> (bit - first) & 1
						case unused == 1 && bit >= first+width:
							set = sum >> (width - 1) & 1
						case unused == 2:
							set = before[0][lane] >> bit & 1
						}
						want |= set << bit
					}
					return w.V[0][lane], want
				})
			}
		}
	}
}

func TestMasks(t *testing.T) {
	both(t, func(t *testing.T, family isa.Family) {
		words := family.Lanes() / 32
		for _, where := range []isa.Operand{{Kind: isa.VCC, Words: words}, sgpr(6, words)} {
			// A comparison clears the bits of lanes that are off, and a carry does too.
			compare := isa.Instruction{Encoding: isa.VOP3, Name: "v_cmp_lt_u32", Results: []isa.Operand{where}, Operands: []isa.Operand{vgpr(1, 1), vgpr(2, 1)}}
			name, nameIn := "v_add_co_u32", "v_addc_co_u32"
			if family == isa.GFX11 {
				nameIn = "v_add_co_ci_u32"
			}
			carry := isa.Instruction{Encoding: isa.VOP3, Name: name, Results: []isa.Operand{vgpr(0, 1), where}, Operands: []isa.Operand{vgpr(1, 1), vgpr(2, 1)}}
			get := func(w *Wave) uint64 {
				at := 6
				if where.Kind == isa.VCC {
					at = vccAt
				}
				return w.read(at, words == 2)
			}
			noise := func(w *Wave, r *rand.Rand) {
				w.setPair(6, r.Uint64())
				w.setPair(vccAt, r.Uint64())
			}
			forMasks(t, family, compare, noise, func(w *Wave, before []Register, exec uint64, lane int) (uint32, uint32) {
				if get(w)&^exec != 0 {
					t.Fatalf("bits of lanes that are off: %#x with exec %#x", get(w), exec)
				}
				return uint32(get(w) >> lane & 1), flag(before[1][lane] < before[2][lane])
			})
			forMasks(t, family, carry, noise, func(w *Wave, before []Register, exec uint64, lane int) (uint32, uint32) {
				sum := uint64(before[1][lane]) + uint64(before[2][lane])
				if get(w)&^exec != 0 || uint32(get(w)>>lane&1) != uint32(sum>>32) {
					t.Fatalf("carries %#x with exec %#x", get(w), exec)
				}
				return w.V[0][lane], uint32(sum)
			})
			var in uint64
			chain := isa.Instruction{Encoding: isa.VOP3, Name: nameIn, Results: []isa.Operand{vgpr(0, 1), where}, Operands: []isa.Operand{vgpr(1, 1), vgpr(2, 1), where}}
			forMasks(t, family, chain, func(w *Wave, r *rand.Rand) { noise(w, r); in = get(w) }, func(w *Wave, before []Register, exec uint64, lane int) (uint32, uint32) {
				sum := uint64(before[1][lane]) + uint64(before[2][lane]) + in>>lane&1
				if uint32(get(w)>>lane&1) != uint32(sum>>32) {
					t.Fatalf("carries %#x with exec %#x", get(w), exec)
				}
				return w.V[0][lane], uint32(sum)
			})
		}
		// v_cmpx writes exec, on gfx9 also its other result.
		compare := isa.Instruction{Encoding: isa.VOPC, Name: "v_cmpx_lt_u32", Operands: []isa.Operand{vgpr(1, 1), vgpr(2, 1)}}
		if family == isa.GFX9 {
			compare.Results = []isa.Operand{{Kind: isa.VCC, Words: 2}}
		}
		var vcc uint64
		forMasks(t, family, compare, func(w *Wave, r *rand.Rand) { w.setPair(vccAt, r.Uint64()); vcc = w.pair(vccAt) }, func(w *Wave, before []Register, exec uint64, lane int) (uint32, uint32) {
			if w.Exec&^exec != 0 || w.Exec != w.pair(execAt) || family == isa.GFX9 && w.pair(vccAt) != w.Exec || family == isa.GFX11 && w.pair(vccAt) != vcc {
				t.Fatalf("exec %#x became %#x, vcc is %#x", exec, w.Exec, w.pair(vccAt))
			}
			return uint32(w.Exec >> lane & 1), flag(before[1][lane] < before[2][lane])
		})
	})
}

// TestPairs checks VOPD where halves read each other's results.
func TestPairs(t *testing.T) {
	half := func(name string, d int, sources ...int) *isa.Instruction {
		in := &isa.Instruction{Encoding: isa.VOPD, Name: name, Results: []isa.Operand{vgpr(d, 1)}}
		for _, s := range sources {
			in.Operands = append(in.Operands, vgpr(s, 1))
		}
		return in
	}
	for _, c := range []struct{ d, a, e, b int }{
		{0, 2, 1, 3}, // apart
		{0, 2, 1, 0}, // the second reads the first's result
		{0, 1, 1, 3}, // the first reads the second's result
		{0, 1, 1, 0}, // a swap
	} {
		in := *half("v_mov_b32", c.d, c.a)
		in.Second = half("v_add_nc_u32", c.e, c.b, 5)
		for i := range 2 {
			forMasks(t, isa.GFX11, in, nil, func(w *Wave, before []Register, _ uint64, lane int) (uint32, uint32) {
				if i == 0 {
					return w.V[c.d][lane], before[c.a][lane]
				}
				return w.V[c.e][lane], before[c.b][lane] + before[5][lane]
			})
		}
	}
}
