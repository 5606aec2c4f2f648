package isa

import (
	"fmt"
	"strings"
)

// vector prints the operands and modifiers of VOP1, VOP2, VOPC, VOP3 and VOP3P.
func (p *printer) vector(in *Instruction) {
	for _, o := range in.Results {
		p.item()
		p.WriteString(o.String())
	}
	for i, o := range in.Operands {
		p.item()
		p.WriteString(in.vectorOperand(i, o))
	}
	switch {
	case in.form.isMatrix():
		p.matrixModifiers(in)
		return
	case strings.HasPrefix(in.Name, "v_accvgpr_"):
		return
	case in.Encoding == VOP3P:
		p.packedModifiers(in)
	case in.Encoding == VOP3:
		p.selection(in)
	}
	if in.Clamp {
		p.WriteString(" clamp")
	}
	p.WriteString([...]string{"", " mul:2", " mul:4", " div:2"}[in.OutputMode])
	if in.SDWA != nil {
		p.sdwa(in)
	}
	if in.DPP != nil {
		p.dpp(in)
	}
}

// vectorOperand returns the text of an operand. It differs from that of others of its type
// where LLVM takes a constant for one of another type.
func (in *Instruction) vectorOperand(i int, o Operand) string {
	if o.Kind != Constant {
		return o.String()
	}
	switch isLong := strings.Contains(in.Name, "_f64_") || strings.Contains(in.Name, "_wmma_"); {
	case o.Words > 2 && isLong && o.Value == inline32[8]:
		return "0.15915494309189532"
	case in.form.operands[i].kind == slotLiteral:
		return fmt.Sprintf("%#x", o.literal)
	case o.Type == Mix && o.IsLiteral:
		o.Type = F16
	case in.Name == "v_ldexp_f16", strings.HasSuffix(in.Name, "_class_f16"):
		o.Type = F16
	case in.Name == "v_cndmask_b16" && o.Type == F16:
		o.Type = B16
	}
	return o.String()
}

// bits prints a modifier with a bit for each of n operands.
func (p *printer) bits(name string, bits uint8, n int) {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(bits >> i & 1)
	}
	p.printf(" %s:[%s]", name, strings.Join(list, ","))
}

// selection prints op_sel of VOP3, whose last bit is the result's. LLVM prints it beside the
// halves that it stands for.
func (p *printer) selection(in *Instruction) {
	opSel := field(in.raw, 11, 4)
	if opSel == 0 || !in.form.selectsHalves(in.family) || in.Name == "v_cndmask_b16" {
		return
	}
	n := len(in.Operands)
	bits := opSel & (1<<n - 1)
	if in.Name == "v_fmac_f16" {
		n++ // the result is an operand, too
	}
	if len(in.Results) > 0 && (in.DPP == nil || in.Results[0].Type != Mask) {
		bits |= opSel >> 3 & 1 << n
		n++
	}
	p.bits("op_sel", uint8(bits), n)
}

// hasNoSelection reports whether LLVM leaves out op_sel and op_sel_hi of a packed instruction
// whose operands are not two of 16 bits.
func (f *form) hasNoSelection() bool {
	for _, prefix := range []string{"v_dot4_", "v_dot8_", "v_wmma_f32_", "v_wmma_i32_"} {
		if strings.HasPrefix(f.name, prefix) {
			return true
		}
	}
	return false
}

func (p *printer) packedModifiers(in *Instruction) {
	n := len(in.Operands)
	all := uint8(1<<n - 1)
	selects := !in.form.hasNoSelection()
	if in.OpSel&all != 0 && selects {
		p.bits("op_sel", in.OpSel, n)
	}
	usual := all
	if in.form.isMix() {
		usual = 0
	}
	if in.OpSelHi&all != usual && selects {
		p.bits("op_sel_hi", in.OpSelHi, n)
	}
	if in.NegLo&all != 0 {
		p.bits("neg_lo", in.NegLo, n)
	}
	if in.NegHi&all != 0 {
		p.bits("neg_hi", in.NegHi, n)
	}
}

func (p *printer) matrixModifiers(in *Instruction) {
	if cbsz := field(in.raw, 8, 3); cbsz != 0 {
		p.printf(" cbsz:%d", cbsz)
	}
	if abid := field(in.raw, 11, 4); abid != 0 {
		p.printf(" abid:%d", abid)
	}
	blgp := field(in.raw, 61, 3)
	if blgp != 0 && in.architecture != "gfx90a" && strings.HasPrefix(in.Name, "v_mfma_f64_") {
		p.bits("neg", uint8(blgp), 3)
	} else if blgp != 0 {
		p.printf(" blgp:%d", blgp)
	}
}

var sdwaNames = [8]string{"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD", "invalid"}

func (p *printer) sdwa(in *Instruction) {
	isFP8 := strings.HasSuffix(in.Name, "_fp8") || strings.HasSuffix(in.Name, "_bf8") // writes all of its result
	if in.Encoding != VOPC && !isFP8 {
		p.printf(" dst_sel:%s dst_unused:%s", sdwaNames[in.SDWA.Result],
			[...]string{"UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE", "invalid"}[in.SDWA.Unused])
	}
	p.printf(" src0_sel:%s", sdwaNames[in.SDWA.Src0])
	if in.Encoding != VOP1 {
		p.printf(" src1_sel:%s", sdwaNames[in.SDWA.Src1])
	}
}

func (p *printer) dpp(in *Instruction) {
	d := in.DPP
	if d.IsDPP8 {
		list := make([]string, len(d.Lanes))
		for i, l := range d.Lanes {
			list[i] = fmt.Sprint(l)
		}
		p.printf(" dpp8:[%s]", strings.Join(list, ","))
	} else {
		p.printf(" %s row_mask:%#x bank_mask:%#x", in.control(), d.RowMask, d.BankMask)
		if d.BoundControl {
			p.WriteString(" bound_ctrl:1")
		}
	}
	if d.FetchInvalid {
		p.WriteString(" fi:1")
	}
}

// control returns the text of a DPP16 control.
func (in *Instruction) control() string {
	c := int(in.DPP.Control)
	switch {
	case c < 0x100:
		return fmt.Sprintf("quad_perm:[%d,%d,%d,%d]", c&3, c>>2&3, c>>4&3, c>>6&3)
	case 0x101 <= c && c <= 0x10f:
		return fmt.Sprintf("row_shl:%d", c&15)
	case 0x111 <= c && c <= 0x11f:
		return fmt.Sprintf("row_shr:%d", c&15)
	case 0x121 <= c && c <= 0x12f:
		return fmt.Sprintf("row_ror:%d", c&15)
	case c == 0x140:
		return "row_mirror"
	case c == 0x141:
		return "row_half_mirror"
	case in.family == GFX11 && 0x150 <= c && c <= 0x15f:
		return fmt.Sprintf("row_share:%d", c&15)
	case in.family == GFX11 && 0x160 <= c && c <= 0x16f:
		return fmt.Sprintf("row_xmask:%d", c&15)
	case in.family == GFX9 && 0x150 <= c && c <= 0x15f:
		return fmt.Sprintf("row_newbcast:%d", c&15)
	case in.family == GFX9:
		switch c {
		case 0x130:
			return "wave_shl:1"
		case 0x134:
			return "wave_rol:1"
		case 0x138:
			return "wave_shr:1"
		case 0x13c:
			return "wave_ror:1"
		case 0x142:
			return "row_bcast:15"
		case 0x143:
			return "row_bcast:31"
		}
	}
	return "/* Invalid dpp_ctrl value */"
}
