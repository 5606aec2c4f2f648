package valu

import (
	"math/rand/v2"
	"testing"

	"tokitai/amdgpu/isa"
)

// moderateOf returns a random value that is neither special nor subnormal.
func moderateOf(r *rand.Rand, t Type) uint64 {
	for {
		x := randomOf(r, t)
		switch {
		case t == F16 && x>>10&31-11 < 10, t == F32 && x>>23&255-100 < 50, t == Mix && x>>23&255-100 < 50, t == F64 && x>>52&2047-1000 < 50,
			t == PKF32 && x>>23&255-100 < 50 && x>>55&255-100 < 50, !t.IsFloat():
			return x
		}
	}
}

// BenchmarkOperations measures what one instruction costs in a wave of each family.
func BenchmarkOperations(b *testing.B) {
	for _, name := range []string{"v_mov_b32", "v_and_b32", "v_add_f32", "v_mul_f32", "v_fma_f32", "v_cndmask_b32",
		"v_cvt_f32_f16", "v_cvt_f16_f32", "v_cvt_f32_u32", "v_cvt_u32_f32", "v_cmp_lt_u32", "v_cmp_ngt_f32", "v_cmp_lt_i64", "v_add_co_u32", "v_mad_u64_u32",
		"v_pk_fma_f32", "v_lshl_add_u64", "v_fma_mixlo_f16", "v_rcp_f32", "v_div_scale_f32", "v_add_f64", "v_add_f16", "v_cmp_gt_f16"} {
		for _, family := range []isa.Family{isa.GFX11, isa.GFX9} {
			op, ok := Lookup(family, name)
			if !ok {
				continue
			}
			b.Run(name+"/lanes="+map[int]string{32: "32", 64: "64"}[family.Lanes()], func(b *testing.B) {
				run, err := op.Bind(instructionOf(op))
				if err != nil {
					b.Fatal(err)
				}
				r := rand.New(rand.NewPCG(1, 1))
				var words [3][2]Register
				var result [2]Register
				c := Call{Lanes: family.Lanes(), Mode: plainMode, Seed: 1, Result: [2]*Register{&result[0], &result[1]}, In: r.Uint64()}
				for k, t := range sourceTypes(op) {
					for i := range words[k][0] {
						x := moderateOf(r, t)
						words[k][0][i], words[k][1][i] = uint32(x), uint32(x>>32)
					}
					c.Source[k] = [2]*Register{&words[k][0], &words[k][1]}
				}
				for b.Loop() {
					run(&c)
				}
			})
		}
	}
}
