package wave

import (
	"testing"

	"tokitai/amdgpu/isa"
)

// BenchmarkStep measures one instruction of 32 lanes, with operand fetch and merge.
func BenchmarkStep(b *testing.B) {
	v := func(i int) isa.Operand { return vgpr(i, 1) }
	vv := []isa.Operand{v(1), v(2)}
	constant := isa.Operand{Kind: isa.Constant, Words: 1, Value: 0x3f800000}
	mask := isa.Operand{Kind: isa.VCC, Words: 1}
	one := []isa.Operand{v(0)}
	for _, c := range []struct {
		name string
		in   isa.Instruction
	}{
		{"v_add_f32/vv", isa.Instruction{Encoding: isa.VOP2, Name: "v_add_f32", Results: one, Operands: vv}},
		{"v_mul_f32/sv", isa.Instruction{Encoding: isa.VOP2, Name: "v_mul_f32", Results: one, Operands: []isa.Operand{sgpr(3, 1), v(2)}}},
		{"v_mul_f32/cv", isa.Instruction{Encoding: isa.VOP2, Name: "v_mul_f32", Results: one, Operands: []isa.Operand{constant, v(2)}}},
		{"v_fmac_f32/vv", isa.Instruction{Encoding: isa.VOP2, Name: "v_fmac_f32", Results: one, Operands: vv}},
		{"v_fma_f32/vvv", isa.Instruction{Encoding: isa.VOP3, Name: "v_fma_f32", Results: one, Operands: []isa.Operand{v(1), v(2), v(3)}}},
		{"v_and_b32/vv", isa.Instruction{Encoding: isa.VOP2, Name: "v_and_b32", Results: one, Operands: vv}},
		{"v_lshlrev_b32/cv", isa.Instruction{Encoding: isa.VOP2, Name: "v_lshlrev_b32", Results: one, Operands: []isa.Operand{{Kind: isa.Constant, Words: 1, Value: 3}, v(2)}}},
		{"v_cndmask_b32/vv", isa.Instruction{Encoding: isa.VOP2, Name: "v_cndmask_b32", Results: one, Operands: []isa.Operand{v(1), v(2), mask}}},
		{"v_cmp_gt_f32/vv", isa.Instruction{Encoding: isa.VOPC, Name: "v_cmp_gt_f32", Results: []isa.Operand{mask}, Operands: vv}},
		{"v_add_co_u32/vv", isa.Instruction{Encoding: isa.VOP3, Name: "v_add_co_u32", Results: []isa.Operand{v(0), mask}, Operands: vv}},
		{"v_cvt_f16_f32", isa.Instruction{Encoding: isa.VOP1, Name: "v_cvt_f16_f32", Results: one, Operands: vv[:1]}},
		{"v_mov_b32", isa.Instruction{Encoding: isa.VOP1, Name: "v_mov_b32", Results: one, Operands: vv[:1]}},
		{"v_mul_lo_u32", isa.Instruction{Encoding: isa.VOP3, Name: "v_mul_lo_u32", Results: one, Operands: vv}},
		{"s_add_u32", isa.Instruction{Encoding: isa.SOP2, Name: "s_add_u32", Results: []isa.Operand{sgpr(1, 1)}, Operands: []isa.Operand{sgpr(2, 1), sgpr(3, 1)}}},
		{"global_load_b32", isa.Instruction{Encoding: isa.GLOBAL, Name: "global_load_b32", Results: one, Operands: []isa.Operand{v(8), sgpr(4, 2)}}},
		{"global_load_b128", isa.Instruction{Encoding: isa.GLOBAL, Name: "global_load_b128", Results: []isa.Operand{vgpr(12, 4)}, Operands: []isa.Operand{vgpr(8, 2), {Kind: isa.Off}}}},
		{"ds_load_b32", isa.Instruction{Encoding: isa.DS, Name: "ds_load_b32", Results: one, Operands: []isa.Operand{v(8)}}},
	} {
		for _, exec := range []struct {
			name string
			mask uint64
		}{{"full", 1<<32 - 1}, {"half", 0x55555555}} {
			b.Run(c.name+"/exec="+exec.name, func(b *testing.B) {
				code, err := Translate(isa.GFX11, []isa.Instruction{c.in})
				if err != nil {
					b.Fatal(err)
				}
				g, err := (&Launch{Code: code, Memory: Blocks{{Address: 0x1000, Bytes: make([]byte, 4096)}}, Threads: 32, Registers: 16, LDS: 4096,
					Mode: Mode{Denorm32: 3, Denorm64: 3, IEEE: true, DX10Clamp: true}}).resetGroup()
				if err != nil {
					b.Fatal(err)
				}
				w := g.Waves[0]
				w.SetExec(exec.mask)
				w.setPair(4, 0x1000)
				for i := range 32 {
					w.V[1][i], w.V[2][i], w.V[0][i] = 0x3f800000+uint32(i)<<8, 0x3f000000, 0
					w.V[8][i], w.V[9][i] = uint32(16*i), 0
					if c.in.Operands[0].Words == 2 {
						w.V[8][i] += 0x1000
					}
				}
				step := code.Steps[0]
				for b.Loop() {
					step(w)
				}
				if w.fault != nil {
					b.Fatal(w.fault)
				}
			})
		}
	}
}
