package isa

import (
	"fmt"
	"strings"
)

// isMatrix reports whether a row is of a matrix instruction of gfx9, whose fields say which
// operands are AGPRs.
func (f *form) isMatrix() bool {
	return strings.HasPrefix(f.name, "v_mfma_") || strings.HasPrefix(f.name, "v_smfmac_")
}

func (d *decoder) vop3p(x uint64) error {
	f, err := d.begin(VOP3P, field(x, 16, 7))
	if err != nil {
		return err
	}
	for _, s := range f.results {
		if err := d.vectorResult(field(x, 0, 8), s, false); err != nil {
			return err
		}
	}
	if err := d.longSources(x, f); err != nil {
		return err
	}
	if f.isMatrix() {
		d.accumulate(x)
		return nil
	}
	d.in.Clamp = field(x, 15, 1) == 1
	d.in.OpSel = uint8(field(x, 11, 3))
	d.in.OpSelHi = uint8(field(x, 59, 2) | field(x, 14, 1)<<2)
	negLo, negHi := field(x, 61, 3), field(x, 8, 3)
	if !f.isMix() {
		d.in.NegLo, d.in.NegHi = uint8(negLo), uint8(negHi)
		return nil
	}
	d.modifiers(negLo, negHi)
	d.applyModifiers()
	for i := range d.in.Operands {
		if d.in.OpSelHi>>i&1 == 1 {
			d.takeAs16(x, i)
		}
	}
	return nil
}

// isMix reports whether a row is of v_fma_mix_f32 and its relatives.
func (f *form) isMix() bool { return len(f.operands) > 0 && f.operands[0].typ == Mix }

// takeAs16 expands a constant of a mixed operation to binary16.
func (d *decoder) takeAs16(x uint64, i int) {
	o := &d.in.Operands[i]
	if o.Kind != Constant {
		return
	}
	if code := field(x, 32+9*i, 9); code >= 240 && !o.IsLiteral {
		o.Value = inline16[code-240]
	}
	o.Value &= 0xffff
	o.Type = F16
}

// accumulate turns operands of a matrix instruction into AGPRs.
func (d *decoder) accumulate(x uint64) {
	set := func(o *Operand, bit int) {
		if field(x, bit, 1) == 1 && o.Kind == VGPR {
			o.Kind = AGPR
		}
	}
	set(&d.in.Results[0], 15)
	set(&d.in.Operands[0], 59)
	set(&d.in.Operands[1], 60)
	if strings.HasPrefix(d.in.Name, "v_mfma_") { // the index of v_smfmac is never an AGPR
		set(&d.in.Operands[2], 15)
	}
}

// vopd decodes a pair of instructions. The literal is shared.
func (d *decoder) vopd(x uint64) error {
	if err := d.half(field(x, 22, 4), field(x, 0, 9), field(x, 9, 8), field(x, 56, 8)); err != nil {
		return err
	}
	first := d.in
	d.in = &Instruction{Size: first.Size}
	defer func() {
		first.Size = d.in.Size
		d.in = first
	}()
	result := field(x, 49, 7)<<1 | 1 - field(x, 56, 1) // its lowest bit differs from the other's
	if err := d.half(field(x, 17, 5), field(x, 32, 9), field(x, 41, 8), result); err != nil {
		return err
	}
	first.Second = d.in
	return nil
}

// half decodes one instruction of a pair.
func (d *decoder) half(opcode, src0, src1, result int) error {
	f, err := d.begin(VOPD, opcode)
	if err != nil {
		return err
	}
	if src0 == sourceDPP16 || src0 == sourceDPP8 || src0 == sourceDPP8Invalid {
		return fmt.Errorf("encoding VOPD: %s: source %d: unknown", f.name, src0)
	}
	if err := d.vectorResult(result, f.results[0], false); err != nil {
		return err
	}
	codes := []int{src0, 256 + src1}
	for _, s := range f.operands {
		switch {
		case s.typ == Mask:
			d.in.Operands = append(d.in.Operands, d.vccOperand())
		case s.kind == slotLiteral:
			err = d.operand(d.literalOperand(f.results[0].typ))
		default:
			err = d.vectorSource(codes[0], s, false)
			codes = codes[1:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}
