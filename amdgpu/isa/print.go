package isa

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// String returns the instruction's assembly as LLVM's disassembler prints it.
func (in Instruction) String() string {
	var p printer
	p.instruction(&in)
	if in.Second != nil {
		p.WriteString(" :: ")
		p.instruction(in.Second)
	}
	return p.String()
}

// printer builds the text of an instruction.
type printer struct {
	strings.Builder
	count int // operands printed
}

// item begins the next operand.
func (p *printer) item() {
	if p.count == 0 {
		p.WriteByte(' ')
	} else {
		p.WriteString(", ")
	}
	p.count++
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(&p.Builder, format, args...) }

func (p *printer) instruction(in *Instruction) {
	p.count = 0
	if in.Encoding == VOPD {
		p.WriteString("v_dual_" + strings.TrimPrefix(in.Name, "v_"))
	} else {
		p.WriteString(in.Name + in.suffix)
	}
	if in.form == nil {
		p.plain(in)
		return
	}
	switch in.Encoding {
	case SOP1, SOP2, SOPC, SOPK, SOPP:
		p.scalar(in)
	case SMEM:
		p.scalarMemory(in)
	case VOPD:
		p.pairHalf(in)
	case DS, FLAT, GLOBAL, SCRATCH, MUBUF:
		p.memory(in)
	default:
		p.vector(in)
	}
}

// plain prints the operands of an instruction that was not decoded.
func (p *printer) plain(in *Instruction) {
	for _, list := range [][]Operand{in.Results, in.Operands} {
		for _, o := range list {
			p.item()
			p.WriteString(o.String())
		}
	}
}

// pairHalf prints the operands of half a pair, without vcc, which is implied.
func (p *printer) pairHalf(in *Instruction) {
	p.item()
	p.WriteString(in.Results[0].String())
	for i, o := range in.Operands {
		if o.Kind != VCC || o.Type != Mask {
			p.item()
			p.WriteString(in.vectorOperand(i, o))
		}
	}
}

// String returns the operand as LLVM prints it.
func (o Operand) String() string {
	text := o.base()
	if o.Abs {
		text = "|" + text + "|"
	}
	switch {
	case o.Neg && o.Kind == Constant && !o.Abs && !strings.HasPrefix(text, "lit("):
		text = "neg(" + text + ")"
	case o.Neg:
		text = "-" + text
	}
	if o.Sext {
		text = "sext(" + text + ")"
	}
	return text
}

// kindNames are the names of operands that are not numbered. The second is of their lower
// half, where they have one.
var kindNames = map[Kind][2]string{
	VCC: {"vcc", "vcc_lo"}, VCCHigh: {"vcc_hi", "vcc_hi"}, Exec: {"exec", "exec_lo"},
	ExecHigh: {"exec_hi", "exec_hi"}, M0: {"m0", "m0"}, SCC: {"src_scc", "src_scc"},
	Null: {"null", "null"}, VCCZ: {"src_vccz", "src_vccz"}, ExecZ: {"src_execz", "src_execz"},
	Off: {"off", "off"}, LDSDirect: {"src_lds_direct", "src_lds_direct"},
	SharedBase: {"src_shared_base", "src_shared_base"}, SharedLimit: {"src_shared_limit", "src_shared_limit"},
	PrivateBase: {"src_private_base", "src_private_base"}, PrivateLimit: {"src_private_limit", "src_private_limit"},
	PopsExitingWaveID: {"src_pops_exiting_wave_id", "src_pops_exiting_wave_id"},
	FlatScratch:       {"flat_scratch", "flat_scratch_lo"}, XNACKMask: {"xnack_mask", "xnack_mask_lo"},
}

// base returns the operand without neg, abs and sext.
func (o Operand) base() string {
	switch o.Kind {
	case SGPR:
		return o.registers("s")
	case VGPR:
		return o.registers("v") + [...]string{Whole: "", Low: ".l", High: ".h"}[o.Half]
	case AGPR:
		return o.registers("a")
	case TTMP:
		return o.registers("ttmp")
	case Constant:
		return o.constant()
	case HwReg:
		return fmt.Sprintf("hwreg(%d)", o.Value)
	case FlatScratch, XNACKMask:
		if o.Index == 1 {
			return kindNames[o.Kind][0] + "_hi"
		}
	}
	names, ok := kindNames[o.Kind]
	switch {
	case !ok:
		return "none"
	case o.Words == 1:
		return names[1]
	}
	return names[0]
}

// registers returns a register, or a range of them in brackets.
func (o Operand) registers(letter string) string {
	if o.Words <= 1 {
		return letter + strconv.Itoa(o.Index)
	}
	return fmt.Sprintf("%s[%d:%d]", letter, o.Index, o.Index+o.Words-1)
}

var inlineNames = [9]string{"0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494"}

// constant returns a constant: an inline one in decimal, a literal in hexadecimal.
func (o Operand) constant() string {
	if o.IsLiteral {
		return o.literalText()
	}
	if text, ok := o.Type.inlineText(o.Value, o.Words); ok {
		return text
	}
	return fmt.Sprintf("%#x", o.Value)
}

// inlineText returns the text of an inline constant, and whether the pattern is one.
func (t Type) inlineText(x uint64, words int) (string, bool) {
	n := int64(int32(x))
	patterns := &inline32
	switch {
	case t == BF16:
		n, patterns = int64(int16(x)), &inlineBF
	case t.is16():
		n, patterns = int64(int16(x)), &inline16
	case t == PkF16:
		patterns = &inline16
	case t == PkBF16:
		patterns = &inlineBF
	case words == 2 && t != PkF32 && t != PkB32:
		n, patterns = int64(x), &inline64
	}
	if -16 <= n && n <= 64 {
		return strconv.FormatInt(n, 10), true
	}
	i := slices.Index(patterns[:], x)
	switch {
	case i < 0 || t.is16() && !t.isFloat(): // LLVM prints an integer's float constants as patterns
		return "", false
	case i == 8 && patterns == &inline64:
		return "0.15915494309189532", true
	}
	return inlineNames[i], true
}

// literalText returns the text of a literal, which LLVM marks if an inline constant would do.
func (o Operand) literalText() string {
	x, t := o.literal, o.Type
	if x == 0 { // the operand was not decoded, or the literal is 0
		x = uint32(o.Value)
		if t == F64 {
			x = uint32(o.Value >> 32)
		}
	}
	shown := x
	switch {
	case t == F64:
		if text, ok := t.inlineText(o.Value, o.Words); ok {
			return text
		}
		return fmt.Sprintf("%#x", x)
	case t.is64():
		if x <= 64 {
			return fmt.Sprintf("lit(%#x)", x)
		}
		return fmt.Sprintf("%#x", x)
	case o.Words > 2:
		return fmt.Sprintf("%#x", x)
	case t == F16:
		shown = x & 0xffff
	case t.is16() && t != BF16:
		shown = x & 0xffff
		t = B32
	}
	pattern := uint64(x)
	if t.is16() {
		pattern &= 0xffff
	}
	if _, ok := t.inlineText(pattern, o.Words); ok {
		return fmt.Sprintf("lit(%#x)", x)
	}
	return fmt.Sprintf("%#x", shown)
}
