package codeobject

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// Relocation is a word of 64 bits in the object that a loader sets: to Value and the address that
// it loads the object at. Kernels refer to everything relative to their own address; variables
// that hold addresses need relocations.
type Relocation struct{ Address, Value uint64 }

// Types of relocations, and the bytes of one.
const (
	relocationABS64      = 3
	relocationRELATIVE64 = 13
	relocationBytes      = 24
)

// readRelocations returns what a loader has to relocate.
func (o *Object) readRelocations() ([]Relocation, error) {
	var list []Relocation
	for _, s := range o.file.Sections {
		if s.Type != elf.SHT_RELA && s.Type != elf.SHT_REL || s.Flags&elf.SHF_ALLOC == 0 || s.Size == 0 {
			continue
		}
		data, err := readAll(s.Open(), s.Size)
		switch {
		case err != nil:
			return nil, fmt.Errorf("section %s: %w", s.Name, err)
		case s.Type == elf.SHT_REL || len(data)%relocationBytes != 0:
			return nil, fmt.Errorf("section %s has relocations without addends or in part, which are not emulated", s.Name)
		}
		for at := 0; at < len(data); at += relocationBytes {
			word := func(i int) uint64 { return binary.LittleEndian.Uint64(data[at+8*i:]) }
			r, err := o.relocation(word(0), word(1), word(2))
			if err != nil {
				return nil, fmt.Errorf("section %s, relocation %d: %w", s.Name, at/relocationBytes, err)
			}
			list = append(list, r)
		}
	}
	return list, nil
}

func (o *Object) relocation(address, info, addend uint64) (Relocation, error) {
	if _, err := o.memory(address, 8, false); err != nil {
		return Relocation{}, err
	}
	switch kind := uint32(info); kind {
	case relocationRELATIVE64:
		return Relocation{address, addend}, nil
	case relocationABS64:
		symbols, err := o.file.DynamicSymbols()
		if err != nil {
			return Relocation{}, err
		}
		number := info >> 32 // from 1
		if number == 0 || number > uint64(len(symbols)) || symbols[number-1].Section == elf.SHN_UNDEF {
			return Relocation{}, errors.New("its symbol is not defined")
		}
		return Relocation{address, symbols[number-1].Value + addend}, nil
	default:
		return Relocation{}, fmt.Errorf("type %d is not emulated", kind)
	}
}
