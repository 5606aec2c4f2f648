package isa

import (
	"errors"
	"fmt"
)

// data returns a register of vector memory's data, which is an AGPR where acc is set.
func (d *decoder) data(index int, t Type, acc bool) Operand {
	if acc {
		return d.register(AGPR, index, t)
	}
	return d.register(VGPR, index, t)
}

func (d *decoder) ds(x uint64) error {
	opcode, acc := field(x, 18, 8), false
	if d.family == GFX9 {
		opcode, acc = field(x, 17, 8), field(x, 25, 1) == 1
	}
	f, err := d.begin(DS, opcode)
	if err != nil {
		return err
	}
	d.in.GDS = f.has(slotGDS) || d.family == GFX11 && field(x, 17, 1) == 1
	for _, s := range f.results {
		d.in.Results = append(d.in.Results, d.data(field(x, 56, 8), s.typ, acc))
	}
	d.in.Immediate = int64(field(x, 0, 16))
	from := 40 // data0, then data1
	for _, s := range f.operands {
		switch s.kind {
		case slotAddress:
			d.in.Operands = append(d.in.Operands, d.data(field(x, 32, 8), B32, acc && d.in.GDS))
		case slotOffsets:
			d.in.Immediate, d.in.Immediate2 = int64(field(x, 0, 8)), int64(field(x, 8, 8))
		case slotValue:
			d.in.Operands = append(d.in.Operands, d.data(field(x, from, 8), s.typ, acc))
			from += 8
		}
	}
	return nil
}

// flat decodes an access to memory by addresses in vector registers.
func (d *decoder) flat(x uint64) error {
	segment, noBase := field(x, 16, 2), 0x7c
	glc, acc, scratchAddress := field(x, 14, 1) == 1, false, field(x, 55, 1) == 1
	if d.family == GFX9 {
		segment, noBase = field(x, 14, 2), 0x7f
		glc, acc = field(x, 16, 1) == 1, field(x, 55, 1) == 1
		scratchAddress = field(x, 13, 1) == 1
	}
	e := []Encoding{FLAT, SCRATCH, GLOBAL, encodings}[segment]
	if e == encodings {
		return errors.New("encoding FLAT: segment 3: unknown")
	}
	f, err := d.begin(e, field(x, 18, 7))
	if err != nil {
		return err
	}
	if d.arch == "gfx90a" && field(x, 13, 1) == 1 {
		return fmt.Errorf("encoding %s: %s: to LDS: not decoded", e, f.name)
	}
	d.in.Glc = glc
	d.in.Immediate = signed(field(x, 0, 13), 13)
	if e == FLAT {
		d.in.Immediate = int64(field(x, 0, 12))
	}
	for _, s := range f.results {
		if !s.optional || glc {
			d.in.Results = append(d.in.Results, d.data(field(x, 56, 8), s.typ, acc))
		}
	}
	base := Operand{Kind: Off}
	if code := field(x, 48, 7); e != FLAT && code != noBase {
		t := B64
		if e == SCRATCH {
			t = B32
		}
		if base, err = d.scalar(code, t); err != nil {
			return err
		}
	}
	if e == SCRATCH && d.arch == "gfx90a" {
		scratchAddress = base.Kind == Off
	}
	for _, s := range f.operands {
		var o Operand
		switch s.kind {
		case slotAddress:
			t := B64
			if e == SCRATCH || base.Kind != Off {
				t = B32
			}
			o = d.register(VGPR, field(x, 32, 8), t)
			if e == SCRATCH && !scratchAddress {
				o = Operand{Kind: Off}
			}
		case slotBase:
			o = base
		default:
			o = d.data(field(x, 40, 8), s.typ, acc)
		}
		d.in.Operands = append(d.in.Operands, o)
	}
	return nil
}

// mubuf decodes an access to a buffer, whose descriptor is in four scalar registers.
func (d *decoder) mubuf(x uint64) error {
	opcode := field(x, 18, 8)
	offen, idxen, acc := 54, 55, false
	if d.family == GFX9 {
		opcode = field(x, 18, 7)
		offen, idxen, acc = 12, 13, field(x, 55, 1) == 1
	}
	f, err := d.begin(MUBUF, opcode)
	if err != nil {
		return err
	}
	if d.family == GFX9 && field(x, 16, 1) == 1 {
		return fmt.Errorf("encoding MUBUF: %s: to LDS: not decoded", f.name)
	}
	d.in.Glc = field(x, 14, 1) == 1
	d.in.Immediate = int64(field(x, 0, 12))
	data := field(x, 40, 8)
	for _, s := range f.results {
		if !s.optional || d.in.Glc {
			d.in.Results = append(d.in.Results, d.data(data, s.typ, acc))
		}
	}
	for _, s := range f.operands {
		if s.kind != slotBuffer {
			d.in.Operands = append(d.in.Operands, d.data(data, s.typ, acc))
			continue
		}
		address := Operand{Kind: Off}
		switch field(x, offen, 1) + field(x, idxen, 1) {
		case 1:
			address = d.register(VGPR, field(x, 32, 8), B32)
		case 2:
			address = d.register(VGPR, field(x, 32, 8), B64)
		}
		d.in.Operands = append(d.in.Operands, address)
		if err := d.operand(d.scalar(field(x, 48, 5)<<2, B128)); err != nil {
			return err
		}
		offset := field(x, 56, 8)
		if offset == sourceLiteral {
			return fmt.Errorf("encoding MUBUF: %s: takes no literal", f.name)
		}
		if err := d.operand(d.source(offset, B32, false)); err != nil {
			return err
		}
	}
	return nil
}
