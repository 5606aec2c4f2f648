package isa

// scalarResults decodes the results of a scalar instruction, which has one at most.
func (d *decoder) scalarResults(f *form, code int) error {
	for _, s := range f.results {
		if err := d.result(d.scalar(code, s.typ)); err != nil {
			return err
		}
	}
	return nil
}

// scalarSources decodes the operands of SOP1, SOP2 and SOPC from their source fields.
func (d *decoder) scalarSources(f *form, codes ...int) error {
	for _, s := range f.operands {
		var err error
		switch s.kind {
		case slotLiteral:
			err = d.operand(d.literalOperand(f.results[0].typ))
		case slotMessage, slotGPRIndex:
			d.in.Immediate = int64(codes[0])
			codes = codes[1:]
		default:
			err = d.operand(d.source(codes[0], s.typ, false))
			codes = codes[1:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) sop1(w uint32) error {
	f, err := d.begin(SOP1, field(w, 8, 8))
	if err != nil {
		return err
	}
	if err := d.scalarResults(f, field(w, 16, 7)); err != nil {
		return err
	}
	return d.scalarSources(f, field(w, 0, 8))
}

func (d *decoder) sop2(w uint32) error {
	f, err := d.begin(SOP2, field(w, 23, 7))
	if err != nil {
		return err
	}
	if err := d.scalarResults(f, field(w, 16, 7)); err != nil {
		return err
	}
	return d.scalarSources(f, field(w, 0, 8), field(w, 8, 8))
}

func (d *decoder) sopc(w uint32) error {
	f, err := d.begin(SOPC, field(w, 16, 7))
	if err != nil {
		return err
	}
	return d.scalarSources(f, field(w, 0, 8), field(w, 8, 8))
}

func (d *decoder) sopk(w uint32) error {
	f, err := d.begin(SOPK, field(w, 23, 5))
	if err != nil {
		return err
	}
	if err := d.scalarResults(f, field(w, 16, 7)); err != nil {
		return err
	}
	constant := field(w, 0, 16)
	for _, s := range f.operands {
		var err error
		switch s.kind {
		case slotSigned16:
			d.in.Immediate = signed(constant, 16)
		case slotUnsigned16:
			d.in.Immediate = int64(constant)
		case slotBranch:
			d.in.Immediate = 4 * signed(constant, 16)
		case slotHwreg:
			err = d.operand(Operand{Kind: HwReg, Words: 1, Type: B32, Value: uint64(constant)}, nil)
		case slotLiteral:
			err = d.operand(d.literalOperand(B32))
		default:
			err = d.operand(d.scalar(field(w, 16, 7), s.typ))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) sopp(w uint32) error {
	f, err := d.begin(SOPP, field(w, 16, 7))
	if err != nil {
		return err
	}
	constant := field(w, 0, 16)
	d.in.Immediate = int64(constant)
	if f.has(slotBranch) {
		d.in.Immediate = 4 * signed(constant, 16)
	}
	return nil
}

// scalarMemory decodes an access to memory by scalar registers. The register offset is Off if
// there is none.
func (d *decoder) scalarMemory(x uint64, f *form, glc bool, offset Operand) error {
	data := field(x, 6, 7)
	d.in.Glc = glc
	for _, s := range f.results {
		if s.optional && !glc {
			continue
		}
		if err := d.result(d.scalar(data, s.typ)); err != nil {
			return err
		}
	}
	base := f.baseIndex()
	for i, s := range f.operands {
		var err error
		switch {
		case s.kind == slotOffset:
			err = d.operand(offset, nil)
		case s.kind == slotSmall:
			d.in.Immediate2 = int64(data)
		case i == base:
			err = d.operand(d.scalar(field(x, 0, 6)<<1, s.typ))
		default:
			err = d.operand(d.scalar(data, s.typ))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// baseIndex returns the index of SMEM's base among the operands: it is just before the offset.
func (f *form) baseIndex() int {
	for i, s := range f.operands {
		if s.kind == slotOffset {
			return i - 1
		}
	}
	return -1
}

func (d *decoder) smem11(x uint64) error {
	f, err := d.begin(SMEM, field(x, 18, 8))
	if err != nil {
		return err
	}
	d.in.Immediate = signed(field(x, 32, 21), 21)
	offset, err := d.scalar(field(x, 57, 7), B32)
	if err != nil {
		return err
	}
	if offset.Kind == Null {
		offset = Operand{Kind: Off}
	}
	return d.scalarMemory(x, f, field(x, 14, 1) == 1, offset)
}

func (d *decoder) smem9(x uint64) error {
	f, err := d.begin(SMEM, field(x, 18, 8))
	if err != nil {
		return err
	}
	offset := Operand{Kind: Off}
	hasConstant, hasRegister := field(x, 17, 1) == 1, field(x, 14, 1) == 1
	code := -1
	switch {
	case hasRegister:
		code = field(x, 57, 7)
	case !hasConstant: // the register is then in the constant's field
		code = field(x, 32, 7)
	}
	if hasConstant {
		d.in.Immediate = signed(field(x, 32, 21), 21)
	}
	if code >= 0 {
		if offset, err = d.scalar(code, B32); err != nil {
			return err
		}
	}
	return d.scalarMemory(x, f, field(x, 16, 1) == 1, offset)
}
