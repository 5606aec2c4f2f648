package wave

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"tokitai/amdgpu/isa"
)

// dppControls has the patterns of AMD's documents: the source of each lane of a row, or -1 for
// none, in words of the document rather than of the encoding.
func dppSource(control uint16, lane, lanes int) int {
	row := lane / 16 * 16
	for n := 1; n < 16; n++ {
		switch control {
		case 0x100 + uint16(n): // row_shl: lanes shift left, so each reads one to the right
			if lane%16+n < 16 {
				return lane + n
			}
			return -1
		case 0x110 + uint16(n):
			if lane%16 >= n {
				return lane - n
			}
			return -1
		case 0x120 + uint16(n):
			return row + (lane%16+16-n)%16
		}
	}
	for n := range 16 {
		switch control {
		case 0x150 + uint16(n):
			return row + n
		case 0x160 + uint16(n):
			return row + (lane % 16) ^ n
		}
	}
	switch control {
	case 0x130:
		if lane+1 < lanes {
			return lane + 1
		}
	case 0x134:
		if lane+1 < lanes {
			return lane + 1
		}
		return 0
	case 0x138:
		if lane > 0 {
			return lane - 1
		}
	case 0x13c:
		if lane > 0 {
			return lane - 1
		}
		return lanes - 1
	case 0x140:
		return row + 15 - lane%16
	case 0x141:
		return lane/8*8 + 7 - lane%8
	case 0x142:
		if row > 0 {
			return row - 1
		}
	case 0x143:
		if lane >= 32 {
			return 31
		}
	}
	if control < 0x100 {
		return lane/4*4 + [4]int{int(control % 4), int(control / 4 % 4), int(control / 16 % 4), int(control / 64)}[lane%4]
	}
	return -1
}

func TestDPP(t *testing.T) {
	controls := []uint16{0x1b, 0xe4, 0x4e, 0x00, 0xff, 0x130, 0x134, 0x138, 0x13c, 0x140, 0x141, 0x142, 0x143}
	for n := range uint16(16) {
		controls = append(controls, 0x150+n, 0x160+n)
		if n > 0 {
			controls = append(controls, 0x100+n, 0x110+n, 0x120+n)
		}
	}
	both(t, func(t *testing.T, family isa.Family) {
		name := "v_add_u32"
		if family == isa.GFX11 {
			name = "v_add_nc_u32"
		}
		for _, control := range controls {
			for variant := range 8 {
				dpp := &isa.DPP{Control: control, RowMask: 15, BankMask: 15, BoundControl: variant&1 != 0, FetchInvalid: variant&2 != 0}
				if variant&4 != 0 {
					dpp.RowMask, dpp.BankMask = 0xa, 0x7
				}
				in := isa.Instruction{Encoding: isa.VOP2, Name: name, Results: []isa.Operand{vgpr(0, 1)}, Operands: []isa.Operand{vgpr(1, 1), vgpr(2, 1)}, DPP: dpp}
				forMasks(t, family, in, nil, func(w *Wave, before []Register, exec uint64, lane int) (uint32, uint32) {
					source := dppSource(control, lane, w.Lanes)
					var x uint32
					isValid := source >= 0 && (dpp.FetchInvalid || exec>>source&1 == 1)
					if isValid {
						x = before[1][source]
					}
					isMasked := dpp.RowMask>>(lane/16)&1 == 0 || dpp.BankMask>>(lane%16/4)&1 == 0
					if isMasked || !isValid && !dpp.BoundControl {
						return w.V[0][lane], before[0][lane]
					}
					return w.V[0][lane], x + before[2][lane]
				})
			}
		}
	})
	for _, fetchInvalid := range []bool{false, true} {
		lanes := [8]uint8{7, 0, 3, 3, 1, 5, 2, 6}
		in := isa.Instruction{Encoding: isa.VOP1, Name: "v_mov_b32", Results: []isa.Operand{vgpr(0, 1)}, Operands: []isa.Operand{vgpr(1, 1)},
			DPP: &isa.DPP{IsDPP8: true, Lanes: lanes, FetchInvalid: fetchInvalid, RowMask: 15, BankMask: 15}}
		forMasks(t, isa.GFX11, in, nil, func(w *Wave, before []Register, exec uint64, lane int) (uint32, uint32) {
			source := lane/8*8 + int(lanes[lane%8])
			if !fetchInvalid && exec>>source&1 == 0 {
				return w.V[0][lane], 0
			}
			return w.V[0][lane], before[1][source]
		})
	}
}

// TestComparisonDPP checks that lanes without a source have a clear bit.
func TestComparisonDPP(t *testing.T) {
	in := isa.Instruction{Encoding: isa.VOPC, Name: "v_cmp_eq_u32", Results: []isa.Operand{{Kind: isa.VCC, Words: 1}},
		Operands: []isa.Operand{vgpr(1, 1), vgpr(2, 1)}, DPP: &isa.DPP{Control: 0x111, RowMask: 15, BankMask: 15}}
	same := func(w *Wave, _ *rand.Rand) { w.V[1], w.V[2] = Register{}, Register{} }
	forMasks(t, isa.GFX11, in, same, func(w *Wave, _ []Register, exec uint64, lane int) (uint32, uint32) {
		return uint32(w.VCC() >> lane & 1), flag(lane%16 > 0 && exec>>(lane-1)&1 == 1)
	})
}

func TestReadAndWriteLane(t *testing.T) {
	both(t, func(t *testing.T, family isa.Family) {
		for _, lane := range []uint32{0, 5, 31, 33, 63, 64, 0xffffffff} {
			w, err := execute(t, family, nil, func(w *Wave) {
				randomRegisters(rand.New(rand.NewPCG(1, 1)), w, 2)
				w.S[3], w.S[4] = lane, 0xabcd
				w.SetExec(0)
			}, isa.Instruction{Encoding: isa.VOP3, Name: "v_readlane_b32", Results: []isa.Operand{sgpr(1, 1)}, Operands: []isa.Operand{vgpr(0, 1), sgpr(3, 1)}},
				isa.Instruction{Encoding: isa.VOP3, Name: "v_writelane_b32", Results: []isa.Operand{vgpr(1, 1)}, Operands: []isa.Operand{sgpr(4, 1), sgpr(3, 1)}})
			if err != nil {
				t.Fatal(err)
			}
			at := int(lane) % w.Lanes
			if at < 0 {
				at += w.Lanes
			}
			if w.S[1] != w.V[0][at] || w.V[1][at] != 0xabcd {
				t.Errorf("lane %d: got %#x and %#x, want %#x and 0xabcd", lane, w.S[1], w.V[1][at], w.V[0][at])
			}
		}
		first := isa.Instruction{Encoding: isa.VOP1, Name: "v_readfirstlane_b32", Results: []isa.Operand{sgpr(1, 1)}, Operands: []isa.Operand{vgpr(0, 1)}}
		for _, exec := range []uint64{1, 6, 1 << 31, 0} {
			w, err := execute(t, family, nil, func(w *Wave) {
				randomRegisters(rand.New(rand.NewPCG(1, 1)), w, 2)
				w.SetExec(exec)
			}, first)
			if want := w.V[0][bits.TrailingZeros64(exec)%64]; err != nil || w.S[1] != want {
				t.Errorf("exec %#x: got %#x, %v, want %#x", exec, w.S[1], err, want)
			}
		}
	})
}

func TestCountBelow(t *testing.T) {
	both(t, func(t *testing.T, family isa.Family) {
		for i, name := range []string{"v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32"} {
			in := isa.Instruction{Encoding: isa.VOP3, Name: name, Results: []isa.Operand{vgpr(0, 1)}, Operands: []isa.Operand{vgpr(1, 1), vgpr(2, 1)}}
			forMasks(t, family, in, nil, func(w *Wave, before []Register, _ uint64, lane int) (uint32, uint32) {
				count := before[2][lane]
				for below := range lane {
					if below/32 == i {
						count += before[1][lane] >> (below % 32) & 1
					}
				}
				return w.V[0][lane], count
			})
		}
	})
}

func TestPermuteLanes(t *testing.T) {
	const low, high = 0xfedcba98, 0x01234567
	for i, name := range []string{"v_permlane16_b32", "v_permlanex16_b32"} {
		for selection := range uint8(4) {
			in := isa.Instruction{Encoding: isa.VOP3, Name: name, Results: []isa.Operand{vgpr(0, 1)}, OpSel: selection,
				Operands: []isa.Operand{vgpr(1, 1), {Kind: isa.Constant, Words: 1, Value: low}, sgpr(2, 1)}}
			forMasks(t, isa.GFX11, in, func(w *Wave, _ *rand.Rand) { w.S[2] = high }, func(w *Wave, before []Register, exec uint64, lane int) (uint32, uint32) {
				row := (lane/16 + i) % 2 * 16
				nibbles := uint64(high)<<32 | low
				source := row + int(nibbles>>(lane%16*4)%16)
				switch {
				case selection&1 != 0 || exec>>source&1 != 0:
					return w.V[0][lane], before[1][source]
				case selection&2 != 0:
					return w.V[0][lane], 0
				}
				return w.V[0][lane], before[0][lane]
			})
		}
	}
	for _, isForward := range []bool{false, true} {
		name := "ds_bpermute_b32"
		if isForward {
			name = "ds_permute_b32"
		}
		both(t, func(t *testing.T, family isa.Family) {
			in := isa.Instruction{Encoding: isa.DS, Name: name, Results: []isa.Operand{vgpr(0, 1)}, Operands: []isa.Operand{vgpr(1, 1), vgpr(2, 1)}, Immediate: 8}
			forMasks(t, family, in, nil, func(w *Wave, before []Register, exec uint64, lane int) (uint32, uint32) {
				target := func(lane int) int { return int((before[1][lane] + 8) / 4 % uint32(w.Lanes)) }
				if !isForward {
					if j := target(lane); exec>>j&1 == 1 {
						return w.V[0][lane], before[2][j]
					}
					return w.V[0][lane], 0
				}
				var want uint32
				for j := range w.Lanes {
					if exec>>j&1 == 1 && target(j) == lane {
						want = before[2][j]
					}
				}
				return w.V[0][lane], want
			})
		})
	}
	for pattern, source := range map[int64]func(lane int) int{
		0x041f: func(lane int) int { return lane ^ 1 },                 // xor 1
		0x401f: func(lane int) int { return lane ^ 16 },                // xor 16
		0x0018: func(lane int) int { return lane / 8 * 8 },             // and 0x18: the first of eight
		0x00f8: func(lane int) int { return lane/8*8 + 7 },             // and 0x18, or 7
		0x801b: func(lane int) int { return lane/4*4 + 3 - lane%4 },    // a reversed quad
		0xc060: func(lane int) int { return lane/32*32 + (lane+3)%32 }, // rotated by 3
		0xc460: func(lane int) int { return lane/32*32 + (lane+29)%32 },
	} {
		both(t, func(t *testing.T, family isa.Family) {
			in := isa.Instruction{Encoding: isa.DS, Name: "ds_swizzle_b32", Results: []isa.Operand{vgpr(0, 1)}, Operands: []isa.Operand{vgpr(1, 1)}, Immediate: pattern}
			forMasks(t, family, in, nil, func(w *Wave, before []Register, exec uint64, lane int) (uint32, uint32) {
				if j := source(lane); exec>>j&1 == 1 {
					return w.V[0][lane], before[1][j]
				}
				return w.V[0][lane], 0
			})
		})
	}
}

func TestMoves(t *testing.T) {
	both(t, func(t *testing.T, family isa.Family) {
		swap := isa.Instruction{Encoding: isa.VOP1, Name: "v_swap_b32", Results: []isa.Operand{vgpr(0, 1)}, Operands: []isa.Operand{vgpr(1, 1)}}
		for i := range 2 {
			forMasks(t, family, swap, nil, func(w *Wave, before []Register, _ uint64, lane int) (uint32, uint32) {
				return w.V[i][lane], before[1-i][lane]
			})
		}
		for name, places := range map[string][2]int{"v_movrels_b32": {2, 6}, "v_movreld_b32": {7, 1}, "v_movrelsd_b32": {7, 6}} {
			in := isa.Instruction{Encoding: isa.VOP1, Name: name, Results: []isa.Operand{vgpr(2, 1)}, Operands: []isa.Operand{vgpr(1, 1)}}
			forMasks(t, family, in, func(w *Wave, _ *rand.Rand) { w.S[m0At] = 5 }, func(w *Wave, before []Register, _ uint64, lane int) (uint32, uint32) {
				return w.V[places[0]][lane], before[places[1]][lane]
			})
		}
	})
	accumulator := isa.Operand{Kind: isa.AGPR, Index: 3, Words: 1}
	for _, in := range []isa.Instruction{
		{Encoding: isa.VOP3P, Name: "v_accvgpr_write_b32", Results: []isa.Operand{accumulator}, Operands: []isa.Operand{vgpr(1, 1)}},
		{Encoding: isa.VOP3P, Name: "v_accvgpr_read_b32", Results: []isa.Operand{vgpr(1, 1)}, Operands: []isa.Operand{accumulator}},
		{Encoding: isa.VOP1, Name: "v_accvgpr_mov_b32", Results: []isa.Operand{{Kind: isa.AGPR, Index: 1, Words: 1}}, Operands: []isa.Operand{accumulator}},
	} {
		at := func(o isa.Operand) int {
			if o.Kind == isa.AGPR {
				return AccumulatorBase + o.Index
			}
			return o.Index
		}
		forMasks(t, isa.GFX9, in, func(w *Wave, r *rand.Rand) {
			for lane := range w.Lanes {
				w.V[AccumulatorBase+3][lane] = r.Uint32()
			}
		}, func(w *Wave, before []Register, _ uint64, lane int) (uint32, uint32) {
			return w.V[at(in.Results[0])][lane], before[at(in.Operands[0])][lane]
		})
	}
}
