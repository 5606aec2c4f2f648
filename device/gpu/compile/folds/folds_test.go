package folds

import (
	"strings"
	"testing"
)

// TestRules has, for every rule, instructions that it must find, and beside them similar ones
// that are right, in the spelling of both families.
func TestRules(t *testing.T) {
	for _, x := range []struct {
		text string
		why  string // part of it; "" if the instruction is right
	}{
		{"v_fma_mixlo_f16 v1, v2, v3, 0 op_sel_hi:[0,0,0]", "−0 becomes +0"},
		{"v_fma_mixhi_f16 v1, v2, v3, v4", "−0 becomes +0"},
		{"v_mad_mixlo_f16 v1, v2, v3, v4", "−0 becomes +0"},
		{"v_fma_mix_f32 v1, v2, v3, v4 op_sel_hi:[1,0,0]", ""}, // of f16 values, which are widened
		{"v_mad_mix_f32 v1, v2, v3, v4", "flushed"},
		{"v_mad_f32 v1, v2, v3, v4", "flushed"},
		{"v_mac_f32_e32 v1, v2, v3", "flushed"},
		{"v_madak_f32 v1, v2, v3, 0x4f800000", "flushed"},
		{"v_mad_u32_u24 v1, v2, v3, v4", ""},
		{"v_mad_u64_u32 v[0:1], s[0:1], v2, v3, v[4:5]", ""},
		{"v_fma_f32 v1, v2, v3, v4", ""},
		{"v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]", ""},
		{"v_mul_legacy_f32 v1, v2, v3", "products by zero"},
		{"v_dual_mul_dx9_zero_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5", "products by zero"},
		{"v_dual_mov_b32 v4, v5 :: v_dual_mul_dx9_zero_f32 v1, v2, v3", "products by zero"},
		{"v_fma_legacy_f32 v1, v2, v3, v4", "products by zero"},
		{"v_pk_fma_f16 v1, v2, v3, v4", "binary16 at once"},
		{"v_fmac_f16_e32 v1.l, v2.l, v3.l", "binary16 at once"},
		{"v_mul_f16_e32 v1.l, v2.l, v3.l", ""},
		{"v_dot2_f32_f16 v1, v2, v3, v4", "sum of products"},
		{"v_dual_dot2acc_f32_f16 v1, v2, v3 :: v_dual_mov_b32 v4, v5", "sum of products"},
		{"v_dot2acc_f32_f16_e32 v1, v2, v3", "sum of products"},
		{"v_dot4_i32_i8 v1, v2, v3, v4", ""},
		{"v_exp_f32_e32 v1, v2", "approximation"},
		{"v_log_f16_e32 v1, v2", "approximation"},
		{"v_rsq_f32_e32 v1, v2", "approximation"},
		{"v_sqrt_f64_e32 v[0:1], v[2:3]", "approximation"},
		{"v_rcp_f16_e32 v1, v2", "approximation"},
		{"v_s_rcp_f16 s1, s2", "approximation"},
		{"v_rcp_f32_e32 v1, v2", ""},
		{"v_rcp_iflag_f32_e32 v1, v2", ""},
		{"v_frexp_exp_i32_f32_e32 v1, v2", ""},
		{"v_ldexp_f32 v1, v2, v3", ""},
		{"v_div_scale_f32 v1, vcc, v2, v3, v2", "reciprocal"},
		{"v_div_fmas_f32 v1, v2, v3, v4", "reciprocal"},
		{"v_div_fixup_f32 v1, v2, v3, v4", ""},
		{"v_max_f32_e32 v1, 0, v2", "NaN"},
		{"v_min_f32_e64 v1, v2, |v3|", "NaN"},
		{"v_pk_max_f16 v1, v2, v3", "NaN"},
		{"v_max_f32_e32 v1, v2, v2", ""},
		{"v_pk_max_f16 v1, v2, v2 op_sel_hi:[1,1]", ""},
		{"v_max_u32_e32 v1, v2, v3", ""},
		{"v_max_num_f32_e32 v1, v2, v3", "NaN"},
		{"v_dual_max_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5", "NaN"},
		{"v_med3_f32 v1, v2, 0, 1.0", "NaN"},
		{"v_med3_u32 v1, v2, v3, v4", ""},
		{"v_minmax_f32 v1, v2, v3, v4", "NaN"},
		{"v_maxmin_f16 v1, v2, v3, v4", "NaN"},
		{"v_max3_f32 v1, v2, v3, v4", "NaN"},
		{"v_maximum3_f32 v1, v2, v3, v4", ""},
		{"v_fract_f32_e32 v1, v2", "below 1"},
		{"v_cvt_pkrtz_f16_f32 v1, v2, v3", "round to nearest"},
		{"v_cvt_pk_rtz_f16_f32_e32 v1, v2, v3", "round to nearest"},
		{"v_cvt_pknorm_i16_f32 v1, v2, v3", "round to nearest"},
		{"v_cvt_pk_norm_i16_f32 v1, v2, v3", "round to nearest"},
		{"v_cvt_f16_f32_e32 v1.l, v2", ""},
		{"v_cvt_pk_u16_u32 v1, v2, v3", ""},
		{"v_add_f32_e64 v1, v2, v3 mul:2", "scaled"},
		{"v_mul_f32_e64 v1, |v2|, v3 div:2", "scaled"},
		{"v_add_f32_e64 v1, v2, v3 clamp", "clamped to"},
		{"v_add_u32_e64 v1, v2, v3 clamp", ""},
		{"v_cvt_f32_f16_sdwa v1, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1", ""},
		{"s_denorm_mode 0xf", "how it rounds"},
		{"s_round_mode 0x3", "how it rounds"},
		{"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3", "how it rounds"},
		{"s_setreg_b32 hwreg(HW_REG_MODE), s4", "how it rounds"},
		{"s_setreg_imm32_b32 hwreg(HW_REG_SCHED_MODE, 0, 2), 2", ""},
		{"s_mov_b32 s1, 0x4f800000", ""},
	} {
		found := Find("kernel:\n\t" + x.text + " ; as clang writes it\n")
		found = append(found, Find("0000000000001900 <kernel>:\n\t"+x.text+"   // 000000001900: 7E000280\n")...)
		switch {
		case x.why == "" && len(found) > 0:
			t.Errorf("%s is right, found %v", x.text, found)
		case x.why != "" && (len(found) != 2 || !strings.Contains(found[0].Why, x.why) || found[0].Kernel != "kernel" || found[1].Kernel != "kernel" || found[0].Line != 2):
			t.Errorf("%s: found %v, want %q twice", x.text, found, x.why)
		}
	}
}

// TestModes wants the modes of a descriptor.
func TestModes(t *testing.T) {
	const good = ".amdhsa_kernel k\n\t\t.amdhsa_float_round_mode_32 0\n\t\t.amdhsa_float_round_mode_16_64 0\n\t\t.amdhsa_float_denorm_mode_32 3\n\t\t.amdhsa_float_denorm_mode_16_64 3\n"
	if found := Find(good); len(found) > 0 {
		t.Error(found)
	}
	for _, change := range [][2]string{{"round_mode_32 0", "round_mode_32 3"}, {"round_mode_16_64 0", "round_mode_16_64 1"}, {"denorm_mode_32 3", "denorm_mode_32 0"}, {"denorm_mode_16_64 3", "denorm_mode_16_64 1"}} {
		if found := Find(strings.Replace(good, change[0], change[1], 1)); len(found) != 1 {
			t.Errorf("%s: found %v, want one", change[1], found)
		}
	}
	if found := Find("<k>:\n\tv_exp_f32_e32 v1, v2\n"); len(found) != 1 || found[0].Kernel != "k" {
		t.Errorf("without addresses: found %v", found)
	}
}

// TestAsm tells instructions of asm statements from others.
func TestAsm(t *testing.T) {
	var asm, names []string
	for i := range Instructions("k:\n\tv_mov_b32_e32 v0, v1\n\t;;#ASMSTART\n\tv_fma_f32 v0, v1, v2, v3 ; fused\n\t;;#ASMEND\n\tv_dual_mul_f32 v0, v1, v2 :: v_dual_fmac_f32 v3, v4, v5\n.LBB0_1:\n\ts_endpgm\n") {
		names = append(names, i.Name)
		if i.IsAsm {
			asm = append(asm, i.Name)
		}
		if i.Kernel != "k" {
			t.Errorf("%v: got kernel %q, want k", i, i.Kernel)
		}
	}
	if got := strings.Join(names, " "); got != "v_mov_b32 v_fma_f32 v_mul_f32 v_fmac_f32 s_endpgm" || strings.Join(asm, " ") != "v_fma_f32" {
		t.Errorf("got %s, of which asm %v", got, asm)
	}
}
