package isa

import (
	"fmt"
	"strings"
)

// scalar prints SOP1, SOP2, SOPC, SOPK and SOPP.
func (p *printer) scalar(in *Instruction) {
	for _, o := range in.Results {
		p.item()
		p.WriteString(o.String())
	}
	next := 0
	for _, s := range in.form.operands {
		text := ""
		raw := int(in.raw & 0xffff)
		switch s.kind {
		case slotDecimal:
			text = small(raw)
		case slotVersion:
			text = version(raw)
		case slotHex, slotSigned16, slotUnsigned16:
			text = fmt.Sprintf("%#x", raw)
		case slotOptional:
			if raw == 0 {
				continue
			}
			text = fmt.Sprint(raw)
		case slotBranch:
			text = fmt.Sprint(raw)
		case slotWaitcnt:
			text = waitcnt(in.family, raw)
		case slotDelay:
			text = delay(raw)
		case slotDepctr:
			text = depctr(raw)
		case slotMessage:
			text = message(in.family, int(in.Immediate))
		case slotGPRIndex:
			text = gprIndex(int(in.Immediate))
		case slotHwreg:
			text = hwreg(in.family, in.architecture, int(in.Operands[next].Value))
			next++
		case slotLiteral:
			text = in.scalarLiteral(in.Operands[next])
			next++
		default:
			text = in.scalarOperand(in.Operands[next])
			next++
		}
		p.item()
		p.WriteString(text)
	}
}

// small returns a constant in decimal if it could be an inline one.
func small(x int) string {
	if x <= 64 {
		return fmt.Sprint(x)
	}
	return fmt.Sprintf("%#x", x)
}

// scalarOperand returns the text of an operand. LLVM prints all of the literal of SOP1's 16-bit
// operands, and the float constants of a comparison of binary16 as patterns.
func (in *Instruction) scalarOperand(o Operand) string {
	if o.Kind == Constant && o.Type == F16 {
		switch {
		case in.Encoding == SOP1 && o.IsLiteral:
			o.Type = B32
		case in.Encoding == SOPC:
			o.Type = B16
		}
	}
	return o.String()
}

// scalarLiteral returns the text of a literal that the instruction always has. LLVM takes that
// of s_setreg_imm32_b32 for an inline constant where it could be one.
func (in *Instruction) scalarLiteral(o Operand) string {
	if in.Encoding == SOPK {
		o.IsLiteral = false
		return o.String()
	}
	return fmt.Sprintf("%#x", o.literal)
}

// scalarMemory prints SMEM.
func (p *printer) scalarMemory(in *Instruction) {
	f := in.form
	isAtomic := len(f.results) > 0 && f.results[0].optional
	if !isAtomic {
		for _, o := range in.Results {
			p.item()
			p.WriteString(o.String())
		}
	}
	next := 0
	for _, s := range f.operands {
		switch s.kind {
		case slotSmall:
			p.item()
			p.WriteString(small(int(in.Immediate2)))
		case slotOffset:
			p.item()
			p.scalarOffset(in, in.Operands[next])
			next++
		default:
			p.item()
			p.WriteString(in.Operands[next].String())
			next++
		}
	}
	if valueCount(f.results)+valueCount(f.operands) < 2 { // caches are not bypassed
		return
	}
	if in.Glc {
		p.WriteString(" glc")
	}
	if in.family == GFX11 && field(in.raw, 13, 1) == 1 {
		p.WriteString(" dlc")
	}
}

func (p *printer) scalarOffset(in *Instruction, register Operand) {
	switch {
	case register.Kind != Off:
		p.WriteString(register.String())
		if in.Immediate != 0 || in.family == GFX9 && field(in.raw, 17, 1) == 1 {
			p.printf(" offset:%#x", in.Immediate)
		}
	case in.Immediate == 0 && in.family == GFX11:
		p.WriteString("null")
	default:
		p.printf("%#x", in.Immediate)
	}
}

// counter is a part of the constant of s_waitcnt or s_waitcnt_depctr.
type counter struct {
	name       string
	low, width int
}

func waitcnt(f Family, x int) string {
	counters := []counter{{"vmcnt", 10, 6}, {"expcnt", 0, 3}, {"lgkmcnt", 4, 6}}
	if f == GFX9 {
		counters = []counter{{"vmcnt", 0, 4}, {"expcnt", 4, 3}, {"lgkmcnt", 8, 4}}
	}
	var all, some []string
	for _, c := range counters {
		n, highest := field(uint32(x), c.low, c.width), 1<<c.width-1
		if f == GFX9 && c.name == "vmcnt" {
			n |= x >> 14 & 3 << 4
			highest = 63
		}
		text := fmt.Sprintf("%s(%d)", c.name, n)
		all = append(all, text)
		if n != highest {
			some = append(some, text)
		}
	}
	if len(some) == 0 {
		some = all
	}
	return strings.Join(some, " ")
}

func depctr(x int) string {
	counters := []counter{{"hold_cnt", 7, 1}, {"sa_sdst", 0, 1}, {"va_vdst", 12, 4}, {"va_sdst", 9, 3},
		{"va_ssrc", 8, 1}, {"va_vcc", 1, 1}, {"vm_vsrc", 2, 3}}
	if x&0x60 != 0 {
		return fmt.Sprintf("%#x", x)
	}
	var all, some []string
	for _, c := range counters {
		n := field(uint32(x), c.low, c.width)
		text := fmt.Sprintf("depctr_%s(%d)", c.name, n)
		all = append(all, text)
		if n != 1<<c.width-1 {
			some = append(some, text)
		}
	}
	if len(some) == 0 {
		some = all
	}
	return strings.Join(some, " ")
}

func delay(x int) string {
	ids := []string{"NO_DEP", "VALU_DEP_1", "VALU_DEP_2", "VALU_DEP_3", "VALU_DEP_4", "TRANS32_DEP_1", "TRANS32_DEP_2",
		"TRANS32_DEP_3", "FMA_ACCUM_CYCLE_1", "SALU_CYCLE_1", "SALU_CYCLE_2", "SALU_CYCLE_3"}
	skips := []string{"SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"}
	name := func(names []string, kind string, n int) string {
		if n < len(names) {
			return names[n]
		}
		return "/* invalid " + kind + " value */"
	}
	var parts []string
	if n := x & 15; n != 0 {
		parts = append(parts, "instid0("+name(ids, "instid", n)+")")
	}
	if n := x >> 4 & 7; n != 0 {
		parts = append(parts, "instskip("+name(skips, "instskip", n)+")")
	}
	if n := x >> 7 & 15; n != 0 {
		parts = append(parts, "instid1("+name(ids, "instid", n)+")")
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, " | ")
}

// version returns the constant of s_version, which marks code for tools.
func version(x int) string {
	names := map[int]string{0: "UC_VERSION_GFX7", 4: "UC_VERSION_GFX10", 6: "UC_VERSION_GFX11", 9: "UC_VERSION_GFX12"}
	number := x & 0x1fff
	text, ok := names[number]
	switch {
	case number > 0xff:
		return fmt.Sprintf("%#x", x)
	case !ok:
		text = fmt.Sprint(number)
	}
	for i, name := range []string{"W64", "W32", "MDP"} {
		if x>>(13+i)&1 == 1 {
			if strings.Contains(text, "|") {
				text = "(" + text + ")"
			}
			text += "|UC_VERSION_" + name + "_BIT"
		}
	}
	return text
}

func gprIndex(x int) string {
	if x > 15 {
		return fmt.Sprintf("%#x", x)
	}
	var parts []string
	for i, name := range []string{"SRC0", "SRC1", "SRC2", "DST"} {
		if x>>i&1 == 1 {
			parts = append(parts, name)
		}
	}
	return "gpr_idx(" + strings.Join(parts, ",") + ")"
}

var hardwareRegisters = map[Family]map[int]string{
	GFX11: {1: "MODE", 2: "STATUS", 3: "TRAPSTS", 5: "GPR_ALLOC", 6: "LDS_ALLOC", 7: "IB_STS",
		15: "SH_MEM_BASES", 18: "PERF_SNAPSHOT_PC_LO", 19: "PERF_SNAPSHOT_PC_HI", 20: "FLAT_SCR_LO",
		21: "FLAT_SCR_HI", 23: "HW_ID1", 24: "HW_ID2", 27: "PERF_SNAPSHOT_DATA", 29: "SHADER_CYCLES"},
	GFX9: {1: "MODE", 2: "STATUS", 3: "TRAPSTS", 4: "HW_ID", 5: "GPR_ALLOC", 6: "LDS_ALLOC", 7: "IB_STS",
		15: "SH_MEM_BASES", 16: "TBA_LO", 17: "TBA_HI", 18: "TMA_LO", 19: "TMA_HI", 20: "XCC_ID",
		21: "SQ_PERF_SNAPSHOT_DATA", 22: "SQ_PERF_SNAPSHOT_DATA1", 23: "SQ_PERF_SNAPSHOT_PC_LO",
		24: "SQ_PERF_SNAPSHOT_PC_HI"},
}

func hwreg(f Family, arch string, x int) string {
	id, offset, size := x&63, x>>6&31, x>>11&31+1
	name := fmt.Sprint(id)
	if n, ok := hardwareRegisters[f][id]; ok && (arch != "gfx90a" || id < 20) {
		name = "HW_REG_" + n
	}
	if offset == 0 && size == 32 {
		return "hwreg(" + name + ")"
	}
	return fmt.Sprintf("hwreg(%s, %d, %d)", name, offset, size)
}

var messages = map[Family]map[int]string{
	GFX11: {1: "INTERRUPT", 2: "HS_TESSFACTOR", 3: "DEALLOC_VGPRS", 5: "STALL_WAVE_GEN", 6: "HALT_WAVES",
		9: "GS_ALLOC_REQ", 128: "RTN_GET_DOORBELL", 129: "RTN_GET_DDID", 130: "RTN_GET_TMA",
		131: "RTN_GET_REALTIME", 132: "RTN_SAVE_WAVE", 133: "RTN_GET_TBA", 134: "RTN_GET_TBA_TO_PC"},
	GFX9: {1: "INTERRUPT", 2: "GS", 3: "GS_DONE", 4: "SAVEWAVE", 5: "STALL_WAVE_GEN", 6: "HALT_WAVES",
		7: "ORDERED_PS_DONE", 8: "EARLY_PRIM_DEALLOC", 9: "GS_ALLOC_REQ", 10: "GET_DOORBELL", 15: "SYSMSG"},
}

var (
	geometryOperations = [...]string{"GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT"}
	systemOperations   = [...]string{"", "SYSMSG_OP_ECC_ERR_INTERRUPT", "SYSMSG_OP_REG_RD", "SYSMSG_OP_HOST_TRAP_ACK",
		"SYSMSG_OP_TTRACE_PC"}
)

func message(f Family, x int) string {
	if f == GFX11 {
		id := x & 0xff
		if name, ok := messages[f][id]; ok {
			return "sendmsg(MSG_" + name + ")"
		}
		if id == x {
			return fmt.Sprintf("sendmsg(%d, 0, 0)", id)
		}
		return fmt.Sprint(x)
	}
	id, operation, stream := x&15, x>>4&7, x>>8&3
	name, ok := messages[f][id]
	isGeometry := name == "GS" || name == "GS_DONE"
	switch {
	case isGeometry && operation == 0 && name == "GS_DONE" && stream == 0:
		return "sendmsg(MSG_GS_DONE, GS_OP_NOP)"
	case isGeometry && 0 < operation && operation < len(geometryOperations):
		return fmt.Sprintf("sendmsg(MSG_%s, %s, %d)", name, geometryOperations[operation], stream)
	case name == "SYSMSG" && 0 < operation && operation < len(systemOperations) && stream == 0:
		return fmt.Sprintf("sendmsg(MSG_SYSMSG, %s)", systemOperations[operation])
	case ok && !isGeometry && name != "SYSMSG" && operation == 0 && stream == 0:
		return "sendmsg(MSG_" + name + ")"
	case id|operation<<4|stream<<8 == x:
		return fmt.Sprintf("sendmsg(%d, %d, %d)", id, operation, stream)
	}
	return fmt.Sprint(x)
}
