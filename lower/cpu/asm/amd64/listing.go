package amd64

import (
	"fmt"
	"strings"
)

// Listing returns the code as text: for each instruction its offset, its bytes, its
// name and operands in Intel syntax, and the comments recorded before it. Labels and
// constants are named L and C with their numbers.
func (a *Assembler) Listing() string {
	var b strings.Builder
	end := len(a.Code)
	if a.finished {
		end = a.codeSize
	}
	remarks := a.Remarks()
	before := func(offset int32) string {
		labels, remark := remarks(int(offset))
		for _, l := range labels {
			fmt.Fprintf(&b, "%v:\n", l)
		}
		return remark
	}
	for i := range a.records {
		r := &a.records[i]
		next := int32(end)
		if i+1 < len(a.records) {
			next = a.records[i+1].offset
		}
		remark := before(r.offset)
		line := fmt.Sprintf("%6x  %-24x  %s", r.offset, a.Code[r.offset:next], a.text(r))
		if remark != "" {
			line = fmt.Sprintf("%-80s ; %s", line, remark)
		}
		b.WriteString(line + "\n")
	}
	if remark := before(int32(end)); remark != "" {
		fmt.Fprintf(&b, "; %s\n", remark)
	}
	for n, c := range a.constants {
		if a.finished {
			fmt.Fprintf(&b, "%6x  ", c.offset)
		}
		fmt.Fprintf(&b, "C%d: % x\n", n, c.data)
	}
	return b.String()
}

// text returns an instruction in Intel syntax.
func (a *Assembler) text(r *record) string {
	var b strings.Builder
	b.WriteString(r.name())
	args := a.args[r.firstArg:][:r.args]
	for i := range args {
		if i == 0 {
			b.WriteByte(' ')
		} else {
			b.WriteString(", ")
		}
		if r.mods.rounding != 0 && args[i].kind == immArg {
			b.WriteString(r.rounding() + ", ")
		}
		b.WriteString(r.operand(&args[i], i))
		if i == 0 && r.row != 0 {
			if r.mods.mask != 0 {
				fmt.Fprintf(&b, "{k%d}", r.mods.mask)
			}
			if r.mods.zero {
				b.WriteString("{z}")
			}
		}
	}
	if r.mods.rounding != 0 && args[len(args)-1].kind != immArg {
		b.WriteString(", " + r.rounding())
	}
	return b.String()
}

func (r *record) name() string {
	switch {
	case r.op == jcc || r.op == cmov || r.op == set:
		return r.op.String() + r.mods.cond.String()
	case r.row != 0 && !r.evex && table[r.op].vexName != "":
		return table[r.op].vexName
	}
	return r.op.String()
}

// encoding returns the encoding of a vector instruction.
func (r *record) encoding() *encoding { return &table[r.op].encodings[r.row-1] }

func (r *record) rounding() string {
	return [...]string{"{rn-sae}", "{rd-sae}", "{ru-sae}", "{rz-sae}", "{sae}"}[r.mods.rounding-1]
}

// operand returns the operand at place i.
func (r *record) operand(x *arg, i int) string {
	switch x.kind {
	case regArg:
		return regName(Reg(x.reg), r.regSize(i))
	case maskArg:
		return fmt.Sprintf("k%d", x.reg)
	case vecArg:
		return fmt.Sprintf("%cmm%d", "xyz"[r.vecWidth(i)], x.reg)
	case immArg:
		if x.imm < 0 {
			return fmt.Sprintf("-%#x", -x.imm)
		}
		return fmt.Sprintf("%#x", x.imm)
	}
	if r.op == jmp || r.op == jcc || r.op == call {
		return fmt.Sprintf("L%d", x.mem.number)
	}
	s := r.memorySize(x) + x.mem.text(Width(r.width))
	if x.mem.broadcast {
		w := Width(r.width)
		s += fmt.Sprintf("{1to%d}", r.encoding().memoryBytes(w, false)/r.encoding().memoryBytes(w, true))
	}
	return s
}

// regSize returns the size in bits of the general register at place i.
func (r *record) regSize(i int) int {
	if r.row != 0 {
		if slot(r.encoding().form>>(8*i)).class() == classReg64 {
			return 64
		}
		return 32
	}
	switch {
	case i == 1 && (r.op == MOVZX8 || r.op == MOVSX8 || r.op >= ROL && r.op <= SAR):
		return 8
	case i == 1 && (r.op == MOVZX16 || r.op == MOVSX16):
		return 16
	case i == 1 && r.op == MOVSX32:
		return 32
	}
	return int(r.width)
}

// vecWidth returns the width of the vector register at place i.
func (r *record) vecWidth(i int) Width {
	w := Width(r.width)
	switch slot(r.encoding().form >> (8 * i)).class() {
	case classVecHalf:
		return max(w, 1) - 1
	case classVecQuarter:
		return max(w, 2) - 2
	case classVecEighth, classVecX:
		return X
	case classVecY:
		return Y
	}
	return w
}

// memorySize returns the size of a memory operand, as Intel syntax writes it.
func (r *record) memorySize(x *arg) string {
	bytes := int(r.width) / 8
	switch {
	case r.row != 0:
		bytes = r.encoding().memoryBytes(Width(r.width), x.mem.broadcast)
	case r.op == LEA:
		return ""
	case r.op == MOVZX8, r.op == MOVSX8:
		bytes = 1
	case r.op == MOVZX16, r.op == MOVSX16:
		bytes = 2
	case r.op == MOVSX32:
		bytes = 4
	}
	switch bytes {
	case 1:
		return "byte ptr "
	case 2:
		return "word ptr "
	case 4:
		return "dword ptr "
	case 8:
		return "qword ptr "
	}
	return fmt.Sprintf("%cmmword ptr ", "xyz"[bytes/32])
}

// text returns the address in Intel syntax. W is the width of a vector index.
func (m *Mem) text(w Width) string {
	var b strings.Builder
	b.WriteByte('[')
	switch m.kind {
	case constant:
		fmt.Fprintf(&b, "rip+C%d", m.number)
	case labelled:
		fmt.Fprintf(&b, "rip+L%d", m.number)
	case based, vectored:
		b.WriteString(regName(m.Base, 64) + "+")
		fallthrough
	case unbased:
		if m.kind == vectored {
			fmt.Fprintf(&b, "%cmm%d*%d", "xyz"[w], m.vector, m.Scale)
		} else if m.Scale != 0 {
			fmt.Fprintf(&b, "%s*%d", regName(m.Index, 64), m.Scale)
		}
	}
	s := strings.TrimSuffix(b.String(), "+")
	switch {
	case m.Disp < 0:
		s += fmt.Sprintf("-%#x", -int64(m.Disp))
	case m.Disp > 0 || m.kind == unbased:
		s += fmt.Sprintf("+%#x", m.Disp)
	}
	return s + "]"
}

// regName returns the name of the low size bits of r.
func regName(r Reg, size int) string {
	old := [...]string{"ax", "cx", "dx", "bx", "sp", "bp", "si", "di"}
	if r > RDI {
		return fmt.Sprintf("r%d%s", r, map[int]string{8: "b", 16: "w", 32: "d", 64: ""}[size])
	}
	switch size {
	case 8:
		return [...]string{"al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil"}[r]
	case 16:
		return old[r]
	case 32:
		return "e" + old[r]
	}
	return "r" + old[r]
}
