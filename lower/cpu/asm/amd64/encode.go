package amd64

import (
	"encoding/binary"
	"fmt"
)

// vector encodes a vector instruction in the first of its encodings that can.
func (a *Assembler) vector(op Op, w Width, args []arg, mods modifiers) error {
	if op >= numVector || table[op].encodings == nil {
		return fmt.Errorf("not a vector instruction")
	}
	if w > Z {
		return fmt.Errorf("unknown width")
	}
	needEVEX := w == Z || mods != modifiers{}
	for i := range args {
		x := &args[i]
		switch x.kind {
		case vecArg:
			needEVEX = needEVEX || x.reg > 15
		case memArg:
			needEVEX = needEVEX || x.mem.broadcast || x.mem.vector > 15
		}
	}
	var reason error
	for i := range table[op].encodings {
		e := &table[op].encodings[i]
		if !e.form.matches(args) {
			continue
		}
		evex := false
		switch {
		case e.flags&inVEX != 0 && !needEVEX && e.allowsVEX(w):
		case e.flags&inEVEX == 0 && needEVEX:
			reason = fmt.Errorf("registers above 15, masks, broadcasts, rounding and 512 bits cannot be encoded in VEX, and it has no EVEX encoding")
			continue
		case e.flags&inEVEX == 0:
			reason = fmt.Errorf("it has no encoding of that width")
			continue
		case a.VEXOnly:
			reason = fmt.Errorf("it needs EVEX")
			continue
		default:
			evex = true
		}
		if evex {
			if err := e.allows(w, args, mods); err != nil {
				reason = err
				continue
			}
		}
		if err := checkImmediate(args); err != nil {
			return err
		}
		start := len(a.Code)
		if evex {
			a.emitEVEX(e, w, args, mods)
		} else {
			a.emitVEX(e, w, args)
		}
		a.record(record{op: op, width: uint8(w), row: uint8(i + 1), mods: mods, evex: evex}, start, len(args))
		return nil
	}
	if reason != nil {
		return reason
	}
	kinds := ""
	for i := range args {
		if i > 0 {
			kinds += ", "
		}
		kinds += args[i].kind.String()
	}
	return fmt.Errorf("it takes no operands such as %s", kinds)
}

func checkImmediate(args []arg) error {
	if n := len(args); n > 0 && args[n-1].kind == immArg && (args[n-1].imm < -128 || args[n-1].imm > 255) {
		return fmt.Errorf("immediate %d, want 8 bits", args[n-1].imm)
	}
	return nil
}

// matches reports whether the operands are of the kinds that f has.
func (f form) matches(args []arg) bool {
	for i := range args {
		s := slot(f >> (8 * i))
		if i >= 4 || s == 0 {
			return false
		}
		ok := false
		switch args[i].kind {
		case immArg:
			ok = s.place() == inImm
		case memArg:
			if args[i].mem.kind == vectored {
				ok = s.class() == classVSIB
			} else {
				ok = s&orMem != 0
			}
		case vecArg:
			ok = s.class() <= classVecY && s.class() != classNone
		case regArg:
			ok = s.class() == classReg32 || s.class() == classReg64
		case maskArg:
			ok = s.class() == classMask
		}
		if !ok {
			return false
		}
	}
	return len(args) == 4 || f>>(8*len(args)) == 0
}

// allowsVEX reports whether the VEX encoding has width w.
func (e *encoding) allowsVEX(w Width) bool {
	return w == X && e.flags&noX == 0 || w == Y && e.flags&noY == 0
}

// allows returns an error if the EVEX encoding does not have the width or the modifiers.
func (e *encoding) allows(w Width, args []arg, mods modifiers) error {
	if w == X && e.flags&noX != 0 || w == Y && e.flags&noY != 0 || w == Z && e.flags&noZ != 0 {
		return fmt.Errorf("it has no encoding of that width")
	}
	memory := false
	for i := range args {
		if args[i].kind != memArg {
			continue
		}
		memory = true
		if args[i].mem.broadcast && e.flags&(b32|b64) == 0 {
			return fmt.Errorf("its memory operand cannot be broadcast")
		}
	}
	switch r := Rounding(mods.rounding - 1); {
	case mods.rounding == 0:
	case memory:
		return fmt.Errorf("rounding cannot be chosen with a memory operand")
	case r == SAE && e.flags&sae == 0, r != SAE && e.flags&er == 0:
		return fmt.Errorf("its rounding cannot be chosen so")
	case w != Z && e.flags&noZ == 0:
		return fmt.Errorf("rounding can be chosen at 512 bits only")
	}
	if e.flags&mustMask != 0 && mods.mask == 0 {
		return fmt.Errorf("it needs a mask")
	}
	switch {
	case mods.zero && mods.mask == 0:
		return fmt.Errorf("k0 is no mask")
	case mods.mask == 0:
	case e.flags&noMask != 0:
		return fmt.Errorf("it takes no mask")
	case mods.zero && (e.flags&mustMask != 0 || args[0].kind != vecArg):
		return fmt.Errorf("its destination cannot be zeroed by a mask")
	}
	return nil
}

// fields are the operands by their places in the encoding.
type fields struct {
	reg, vvvv uint8
	rm        *arg
	imm       *arg
	is4       uint8
	hasIs4    bool
}

func (e *encoding) place(args []arg) (f fields) {
	f.reg = uint8(e.flags >> digitShift & 7)
	for i := range args {
		switch slot(e.form >> (8 * i)).place() {
		case inReg:
			f.reg = args[i].reg
		case inVvvv:
			f.vvvv = args[i].reg
		case inRM:
			f.rm = &args[i]
		case inImm:
			f.imm = &args[i]
		case inIs4:
			f.is4, f.hasIs4 = args[i].reg<<4, true
		}
	}
	return f
}

// extensions returns the bits of weight 8 and 16 that rm's registers have: x and b of
// the prefix, and the vector index's bit 4.
func (r *arg) extensions() (x, b, v uint8) {
	if r.kind != memArg {
		return r.reg >> 4 & 1, r.reg >> 3 & 1, 0
	}
	m := &r.mem
	switch m.kind {
	case based:
		b = uint8(m.Base) >> 3
		if m.Scale != 0 {
			x = uint8(m.Index) >> 3
		}
	case unbased:
		x = uint8(m.Index) >> 3
	case vectored:
		b, x, v = uint8(m.Base)>>3, m.vector>>3&1, m.vector>>4
	}
	return x, b, v
}

func (a *Assembler) emitVEX(e *encoding, w Width, args []arg) {
	f := e.place(args)
	opcode := e.opcode
	if e.flags&reversible != 0 && f.reg < 8 && f.rm.kind == vecArg && f.rm.reg > 7 { // saves a byte of prefix
		if opcode == 0x6F {
			opcode = 0x7F
		} else {
			opcode |= 1
		}
		f.reg, f.rm = f.rm.reg, &arg{kind: vecArg, reg: f.reg}
	}
	a.vexPrefix(e.flags, e.flags&vexW1 != 0, w == Y || e.flags&vexL1 != 0, f)
	a.Code = append(a.Code, opcode)
	a.modRM(f, 0)
}

// vexPrefix emits the prefix of two or three bytes.
func (a *Assembler) vexPrefix(flags flags, w1, l1 bool, f fields) {
	x, b, _ := f.rm.extensions()
	last := (f.vvvv^15)&15<<3 | uint8(flags&ppMask)
	if l1 {
		last |= 4
	}
	r := f.reg >> 3 & 1
	if m := flags & mapMask; m == m0F && !w1 && x == 0 && b == 0 {
		a.Code = append(a.Code, 0xC5, (r^1)<<7|last)
	} else {
		if w1 {
			last |= 0x80
		}
		a.Code = append(a.Code, 0xC4, (r^1)<<7|(x^1)<<6|(b^1)<<5|uint8(m>>mapShift), last)
	}
}

func (a *Assembler) emitEVEX(e *encoding, w Width, args []arg, mods modifiers) {
	f := e.place(args)
	x, b, v := f.rm.extensions()
	p1 := (f.reg>>3&1^1)<<7 | (x^1)<<6 | (b^1)<<5 | (f.reg>>4&1^1)<<4 | uint8(e.flags&mapMask>>mapShift)
	p2 := (f.vvvv^15)&15<<3 | 4 | uint8(e.flags&ppMask)
	if e.flags&w1 != 0 {
		p2 |= 0x80
	}
	p3 := uint8(w)<<5 | ((f.vvvv>>4|v)&1^1)<<3 | uint8(mods.mask)
	broadcast := f.rm.kind == memArg && f.rm.mem.broadcast
	switch {
	case broadcast:
		p3 |= 0x10
	case mods.rounding == uint8(SAE)+1: // the width is ignored; GNU as leaves it out
		p3 = p3&^0x60 | 0x10
	case mods.rounding != 0:
		p3 = p3&^0x60 | 0x10 | (mods.rounding-1)<<5
	}
	if mods.zero {
		p3 |= 0x80
	}
	a.Code = append(a.Code, 0x62, p1, p2, p3, e.opcode)
	a.modRM(f, e.memoryBytes(w, broadcast))
}

// memoryBytes returns the size of the memory operand, the unit of a compressed
// displacement.
func (e *encoding) memoryBytes(w Width, broadcast bool) int {
	switch {
	case broadcast && e.flags&b64 != 0:
		return 8
	case broadcast:
		return 4
	}
	switch e.tuple {
	case full:
		return w.Bytes()
	case half:
		return w.Bytes() / 2
	case quarter:
		return w.Bytes() / 4
	case eighth:
		return w.Bytes() / 8
	}
	return int(e.tuple)
}

// modRM emits ModRM, SIB, displacement and immediate. Unit is the unit of a
// displacement of 8 bits under EVEX, or 0.
func (a *Assembler) modRM(f fields, unit int) {
	reg := f.reg & 7 << 3
	fix := -1
	if f.rm.kind != memArg {
		a.Code = append(a.Code, 0xC0|reg|f.rm.reg&7)
	} else {
		fix = a.memory(reg, &f.rm.mem, unit)
	}
	if f.imm != nil {
		a.Code = append(a.Code, byte(f.imm.imm))
	}
	if f.hasIs4 {
		a.Code = append(a.Code, f.is4)
	}
	a.fixed(fix)
}

// fixed ends an instruction whose displacement at fix, if any, is not known.
func (a *Assembler) fixed(fix int) {
	if fix >= 0 {
		a.fixups[fix].end = int32(len(a.Code))
	}
}

// memory emits ModRM, SIB and displacement of a memory operand, and returns the
// number of its fixup, or -1.
func (a *Assembler) memory(reg uint8, m *Mem, unit int) int {
	switch m.kind {
	case constant, labelled:
		a.Code = append(a.Code, reg|5)
		a.fixups = append(a.fixups, fixup{at: int32(len(a.Code)), target: *m})
		a.Code = append(a.Code, 0, 0, 0, 0)
		return len(a.fixups) - 1
	case unbased:
		a.Code = append(a.Code, reg|4, scaleBits(m.Scale)|uint8(m.Index)&7<<3|5)
		a.Code = binary.LittleEndian.AppendUint32(a.Code, uint32(m.Disp))
		return -1
	}
	base := uint8(m.Base) & 7
	mod := uint8(0x80)
	disp8 := m.Disp
	switch {
	case m.Disp == 0 && base != 5:
		mod = 0
	case unit > 1:
		if m.Disp%int32(unit) == 0 && fitsInt8(int64(m.Disp)/int64(unit)) {
			mod, disp8 = 0x40, m.Disp/int32(unit)
		}
	case fitsInt8(int64(m.Disp)):
		mod = 0x40
	}
	switch {
	case m.kind == vectored:
		a.Code = append(a.Code, mod|reg|4, scaleBits(m.Scale)|m.vector&7<<3|base)
	case m.Scale != 0:
		a.Code = append(a.Code, mod|reg|4, scaleBits(m.Scale)|uint8(m.Index)&7<<3|base)
	case base == 4:
		a.Code = append(a.Code, mod|reg|4, 0x24)
	default:
		a.Code = append(a.Code, mod|reg|base)
	}
	switch mod {
	case 0x40:
		a.Code = append(a.Code, byte(disp8))
	case 0x80:
		a.Code = binary.LittleEndian.AppendUint32(a.Code, uint32(m.Disp))
	}
	return -1
}

func scaleBits(scale uint8) uint8 {
	switch scale {
	case 2:
		return 0x40
	case 4:
		return 0x80
	case 8:
		return 0xC0
	}
	return 0
}
