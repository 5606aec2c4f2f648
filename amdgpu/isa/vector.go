package isa

import (
	"fmt"
	"strings"
)

// Codes of a source that say that another word follows: a literal, or one that src0 is in.
const (
	sourceDPP8        = 0xe9
	sourceDPP8Invalid = 0xea // DPP8 with fi:1
	sourceSDWA        = 0xf9
	sourceDPP16       = 0xfa
	sourceLiteral     = 0xff
)

// lanes reads the word of DPP or SDWA that src0 announces, and reports whether there is one.
// first is then the register that is src0.
func (d *decoder) lanes(src0 int) (first int, isDPP bool, err error) {
	switch {
	case src0 == sourceDPP16 && (d.family == GFX11 || d.in.Encoding != VOP3 && d.in.Encoding != VOP3P):
		w, err := d.word()
		if err != nil {
			return 0, false, err
		}
		d.in.DPP = &DPP{
			Control:      uint16(field(w, 8, 9)),
			FetchInvalid: d.family == GFX11 && field(w, 18, 1) == 1,
			BoundControl: field(w, 19, 1) == 1,
			BankMask:     uint8(field(w, 24, 4)),
			RowMask:      uint8(field(w, 28, 4)),
		}
		if d.in.Encoding != VOP3 && d.in.Encoding != VOP3P {
			d.modifiers(field(w, 20, 1)|field(w, 22, 1)<<1, field(w, 21, 1)|field(w, 23, 1)<<1)
		}
		return field(w, 0, 8), true, nil
	case d.family == GFX11 && (src0 == sourceDPP8 || src0 == sourceDPP8Invalid):
		w, err := d.word()
		if err != nil {
			return 0, false, err
		}
		d.in.DPP = &DPP{IsDPP8: true, FetchInvalid: src0 == sourceDPP8Invalid, RowMask: 15, BankMask: 15}
		for i := range d.in.DPP.Lanes {
			d.in.DPP.Lanes[i] = uint8(field(w, 8+3*i, 3))
		}
		return field(w, 0, 8), true, nil
	}
	return 0, false, nil
}

// modifiers notes neg and abs, bit i for operand i, until the operands are decoded.
func (d *decoder) modifiers(neg, abs int) { d.neg, d.abs = neg, abs }

// applyModifiers sets neg and abs of the operands.
func (d *decoder) applyModifiers() {
	for i := range d.in.Operands {
		if o := &d.in.Operands[i]; o.Type.isFloat() {
			o.Neg = d.neg>>i&1 == 1
			o.Abs = d.abs>>i&1 == 1
		}
	}
}

// vectorResult decodes a result in the field of a vector register.
func (d *decoder) vectorResult(bits int, s slot, short bool) error {
	switch s.register {
	case SGPR:
		return d.result(d.scalar(bits, s.typ))
	case AGPR:
		return d.result(d.register(AGPR, bits, s.typ), nil)
	}
	return d.result(d.vector(bits, s.typ, short), nil)
}

// vectorSource decodes a source of nine bits.
func (d *decoder) vectorSource(code int, s slot, short bool) error {
	if s.register == AGPR && code >= 256 {
		return d.operand(d.register(AGPR, code-256, s.typ), nil)
	}
	return d.operand(d.source(code, s.typ, short))
}

// vccOperand is the mask that short forms imply.
func (d *decoder) vccOperand() Operand { return d.register(VCC, 0, Mask) }

// shortVector decodes VOP1, VOP2 and VOPC.
func (d *decoder) shortVector(w uint32) error {
	e, opcode := VOP2, field(w, 25, 6)
	switch opcode {
	case 0x3f:
		e, opcode = VOP1, field(w, 9, 8)
	case 0x3e:
		e, opcode = VOPC, field(w, 17, 8)
	}
	f, err := d.begin(e, opcode)
	if err != nil {
		return err
	}
	if !f.short && len(f.operands) > 0 {
		d.in.suffix = "_e32"
	}
	src0 := field(w, 0, 9)
	if d.family == GFX9 && src0 == sourceSDWA {
		return d.sdwa(w, f)
	}
	first, isDPP, err := d.lanes(src0)
	if err != nil {
		return err
	}
	if isDPP {
		if f.has(slotLiteral) {
			return fmt.Errorf("encoding %s: %s: has no form with DPP", e, f.name)
		}
		src0 = 256 + first
		d.in.suffix = "_dpp"
		if e == VOPC {
			d.in.suffix = ""
		}
	}
	for _, s := range f.results {
		if s.typ == Mask {
			d.in.Results = append(d.in.Results, d.vccOperand())
		} else if err := d.vectorResult(field(w, 17, 8), s, true); err != nil {
			return err
		}
	}
	isFirst := true
	for _, s := range f.operands {
		switch {
		case s.typ == Mask:
			d.in.Operands = append(d.in.Operands, d.vccOperand())
		case s.kind == slotLiteral:
			err = d.operand(d.literalOperand(f.results[0].typ))
		case isFirst:
			err = d.vectorSource(src0, s, true)
			isFirst = false
		default:
			err = d.vectorSource(256+field(w, 9, 8), s, true)
		}
		if err != nil {
			return err
		}
	}
	d.applyModifiers()
	return nil
}

// sdwa decodes the short forms of gfx9 that select bytes and halves.
func (d *decoder) sdwa(w uint32, f *form) error {
	x, err := d.word()
	if err != nil {
		return err
	}
	d.in.suffix = "_sdwa"
	s := &SDWA{Result: uint8(field(x, 8, 3)), Unused: uint8(field(x, 11, 2)),
		Src0: uint8(field(x, 16, 3)), Src1: uint8(field(x, 24, 3))}
	d.in.SDWA = s
	d.in.raw |= uint64(x) << 32
	d.in.Clamp = field(x, 13, 1) == 1
	d.in.OutputMode = uint8(field(x, 14, 2))
	if f.encoding == VOPC {
		s.Result, s.Unused = 6, 0
		d.in.Clamp, d.in.OutputMode = false, 0
	}
	for _, r := range f.results {
		switch {
		case r.typ == Mask && f.encoding == VOPC && field(x, 15, 1) == 1:
			err = d.result(d.scalar(field(x, 8, 7), Mask))
		case r.typ == Mask:
			err = d.result(d.vccOperand(), nil)
		default:
			err = d.vectorResult(field(w, 17, 8), r, true)
		}
		if err != nil {
			return err
		}
	}
	codes := []int{field(x, 0, 8) + 256*(1-field(x, 23, 1)), field(w, 9, 8) + 256*(1-field(x, 31, 1))}
	for i, o := range f.operands {
		if o.typ == Mask {
			d.in.Operands = append(d.in.Operands, d.vccOperand())
			continue
		}
		if o.kind == slotLiteral || o.typ.is64() || i >= len(codes) {
			return fmt.Errorf("encoding %s: %s: has no form with SDWA", f.encoding, f.name)
		}
		if err := d.vectorSource(codes[i], o, true); err != nil {
			return err
		}
		last := &d.in.Operands[i]
		last.Sext = field(x, 19+8*i, 1) == 1
		if o.typ != PkF16 {
			last.Neg = field(x, 20+8*i, 1) == 1
			last.Abs = field(x, 21+8*i, 1) == 1
		}
	}
	return nil
}

// longSources decodes the sources of VOP3 and VOP3P.
func (d *decoder) longSources(x uint64, f *form) error {
	at := 32
	for i, s := range f.operands {
		code := field(x, at, 9)
		at += 9
		if i == 0 {
			first, isDPP, err := d.lanes(code)
			if err != nil {
				return err
			}
			if isDPP {
				code = 256 + first
				d.in.suffix = "_e64_dpp"
			}
		}
		if code == sourceLiteral && d.family == GFX9 {
			return fmt.Errorf("encoding %s: %s: takes no literal", d.in.Encoding, f.name)
		}
		if err := d.vectorSource(code, s, false); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) vop3(x uint64) error {
	f, err := d.begin(VOP3, field(x, 16, 10))
	if err != nil {
		return err
	}
	if f.encoding != VOP3 && len(f.operands) > 0 {
		d.in.suffix = "_e64"
	}
	d.in.Clamp = field(x, 15, 1) == 1
	d.in.OutputMode = uint8(field(x, 59, 2))
	abs, opSel := field(x, 8, 3), field(x, 11, 4)
	for i, s := range f.results {
		switch {
		case i == 1: // the carry of VOP3SD, in the field of abs and op_sel
			err = d.result(d.scalar(field(x, 8, 7), s.typ))
			abs, opSel = 0, 0
		case s.typ == Mask:
			err = d.result(d.scalar(field(x, 0, 8)&0x7f, s.typ))
		default:
			err = d.vectorResult(field(x, 0, 8), s, false)
		}
		if err != nil {
			return err
		}
	}
	if err := d.longSources(x, f); err != nil {
		return err
	}
	d.modifiers(field(x, 61, 3), abs)
	d.applyModifiers()
	switch {
	case !f.selectsHalves(d.family):
		opSel = 0
	case d.family == GFX11:
		opSel = d.selectHalves(opSel)
	}
	d.in.OpSel = uint8(opSel)
	return nil
}

// selectsHalves reports whether op_sel applies to an instruction of VOP3. Of gfx9's, those
// that have a short form, too, and the legacy ones always take the lower halves.
func (f *form) selectsHalves(family Family) bool {
	if family == GFX9 && (f.encoding != VOP3 || strings.Contains(f.name, "_legacy_")) {
		return false
	}
	for _, list := range [][]slot{f.results, f.operands} {
		for _, s := range list {
			if s.typ.is16() {
				return true
			}
		}
	}
	return strings.HasPrefix(f.name, "v_permlane")
}

// selectHalves turns the bits of op_sel into the halves of gfx11's 16-bit operands, and
// returns those that are left.
func (d *decoder) selectHalves(opSel int) int {
	set := func(o *Operand, bit int) {
		if !o.Type.is16() || o.Kind == Constant {
			return
		}
		if opSel>>bit&1 == 1 {
			o.Half = High
		}
		opSel &^= 1 << bit
	}
	for i := range d.in.Operands {
		set(&d.in.Operands[i], i)
	}
	if len(d.in.Results) > 0 {
		set(&d.in.Results[0], 3)
	}
	return opSel
}
