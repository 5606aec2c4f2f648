// Package amd64 assembles machine code for amd64 at run time: the vector
// instructions of AVX2, FMA and F16C in VEX encoding, those of AVX-512 (F, BW, DQ, VL)
// in EVEX encoding, and the general instructions that loops need.
//
// It encodes what it is given and decides nothing: which instructions a processor
// has, which registers are free and how code is called is for others to know. The
// vector instructions are rows of a table (vectortable.go); general.go has the others.
//
//	a := amd64.New()
//	loop := a.Label()
//	a.Bind(loop)
//	a.V(amd64.VADDPS, amd64.Z, amd64.Vec(0), amd64.Vec(0), amd64.At(amd64.RSI, 0))
//	a.G(amd64.ADD, 64, amd64.RSI, amd64.Imm(64))
//	a.G(amd64.DEC, 64, amd64.RCX)
//	a.J(amd64.NotEqual, loop)
//	a.Ret()
//	code, err := a.Finish()
//
// Errors are collected: the first one is what Finish returns.
package amd64

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"tokitai/lower/cpu/asm"
)

// Assembler collects the instructions of one piece of code.
type Assembler struct {
	// VEXOnly makes an instruction that needs EVEX an error.
	VEXOnly bool

	asm.Base[Label]

	fixups    []fixup
	constants []constantData
	shared    map[string]int32 // number of the constant with this alignment and data
	records   []record
	args      []arg // of all records
	codeSize  int   // once the constants are placed
	finished  bool
}

// Label is a place in the code.
type Label int32

func (l Label) String() string { return fmt.Sprintf("L%d", int32(l)) }

// fixup is a displacement of 32 bits that is not known yet: from end, which the
// processor counts from, to a label or a constant.
type fixup struct {
	at, end int32
	target  Mem
}

type constantData struct {
	data   []byte
	align  int
	offset int32
}

// record is what Listing needs of an instruction.
type record struct {
	offset   int32
	firstArg int32
	args     uint8
	width    uint8 // Width, or the operand size in bits
	op       Op
	row      uint8 // 1 + that of a vector instruction's encoding
	mods     modifiers
	evex     bool
}

// New returns an empty Assembler.
func New() *Assembler { return &Assembler{} }

// Address returns l as a memory operand.
func (a *Assembler) Address(l Label) Mem {
	a.Knows(l)
	return Mem{kind: labelled, number: int32(l)}
}

// Constant returns data as a memory operand. It is placed after the code at a
// multiple of align, a power of two up to 64; equal constants share their place.
func (a *Assembler) Constant(data []byte, align int) Mem {
	if align < 1 || align > 64 || align&(align-1) != 0 {
		a.Fail(fmt.Errorf("constant: alignment %d, want a power of two up to 64", align))
		return Mem{kind: constant, number: -1}
	}
	key := string(append([]byte{byte(align)}, data...))
	n, ok := a.shared[key]
	if !ok {
		if a.shared == nil {
			a.shared = make(map[string]int32)
		}
		n = int32(len(a.constants))
		a.constants = append(a.constants, constantData{data: []byte(key[1:]), align: align})
		a.shared[key] = n
	}
	return Mem{kind: constant, number: n}
}

// Float32 returns the constant x, four bytes.
func (a *Assembler) Float32(x float32) Mem { return a.Uint32(math.Float32bits(x)) }

// Uint32 returns the constant x, four bytes.
func (a *Assembler) Uint32(x uint32) Mem {
	return a.Constant(binary.LittleEndian.AppendUint32(nil, x), 4)
}

// Uint64 returns the constant x, eight bytes.
func (a *Assembler) Uint64(x uint64) Mem {
	return a.Constant(binary.LittleEndian.AppendUint64(nil, x), 8)
}

// Finish resolves labels, appends the constants and returns the code, or the first
// error of all. The code must be loaded at an address that is a multiple of 64.
func (a *Assembler) Finish() ([]byte, error) {
	if a.Err() != nil {
		return nil, a.Err()
	}
	if a.finished {
		return a.Code, nil
	}
	a.codeSize = len(a.Code)
	for i := range a.constants {
		c := &a.constants[i]
		for len(a.Code)%c.align != 0 {
			a.Code = append(a.Code, 0xCC) // int3
		}
		c.offset = int32(len(a.Code))
		a.Code = append(a.Code, c.data...)
	}
	if len(a.Code) > math.MaxInt32 {
		a.Fail(fmt.Errorf("code of %d bytes, want at most %d", len(a.Code), math.MaxInt32))
		return nil, a.Err()
	}
	for _, f := range a.fixups {
		var to int32
		switch {
		case f.target.kind == constant && f.target.number >= 0:
			to = a.constants[f.target.number].offset
		case f.target.kind == labelled && a.Place(Label(f.target.number)) != asm.Unbound:
			to = a.Place(Label(f.target.number))
		default:
			a.Fail(fmt.Errorf("label L%d is not bound", f.target.number))
			return nil, a.Err()
		}
		binary.LittleEndian.PutUint32(a.Code[f.at:], uint32(to+f.target.Disp-f.end))
	}
	a.finished = true
	return a.Code, nil
}

// V assembles a vector instruction, operands in Intel's order: the destination first.
// VEX is used where it can encode the instruction, EVEX otherwise.
func (a *Assembler) V(op Op, w Width, operands ...Operand) {
	a.begin()
	mods, args, err := a.decode(operands)
	if err == nil {
		err = a.vector(op, w, args, mods)
	}
	if err != nil {
		a.Fail(fmt.Errorf("%s, width %v: %w", op, w, err))
	}
}

// K assembles an instruction on mask registers.
func (a *Assembler) K(op Op, operands ...Operand) { a.V(op, X, operands...) }

// begin starts an instruction.
func (a *Assembler) begin() {
	if a.finished {
		a.Fail(fmt.Errorf("code is finished"))
	}
	if a.records == nil {
		a.Code = make([]byte, 0, 1<<13)
		a.records = make([]record, 0, 1<<10)
		a.args = make([]arg, 0, 3<<10)
	}
}

// decode appends the operands to a.args and returns them and the modifiers.
func (a *Assembler) decode(operands []Operand) (modifiers, []arg, error) {
	var mods modifiers
	first := len(a.args)
	for _, o := range operands {
		switch o := o.(type) {
		case Vec:
			if o > 31 {
				return mods, nil, fmt.Errorf("vector register %d, want at most 31", o)
			}
			a.args = append(a.args, arg{kind: vecArg, reg: uint8(o)})
		case Reg:
			if o > R15 {
				return mods, nil, fmt.Errorf("general register %d, want at most %d", o, R15)
			}
			a.args = append(a.args, arg{kind: regArg, reg: uint8(o)})
		case Mask:
			if o > K7 {
				return mods, nil, fmt.Errorf("mask register %d, want at most %d", o, K7)
			}
			a.args = append(a.args, arg{kind: maskArg, reg: uint8(o)})
		case Imm:
			a.args = append(a.args, arg{kind: immArg, imm: int64(o)})
		case Mem:
			if err := o.check(); err != nil {
				return mods, nil, err
			}
			a.args = append(a.args, arg{kind: memArg, mem: o})
		case Masking:
			if o.mask > K7 {
				return mods, nil, fmt.Errorf("mask register %d, want at most %d", o.mask, K7)
			}
			mods.mask, mods.zero = o.mask, o.zero
		case Rounding:
			if o > SAE {
				return mods, nil, fmt.Errorf("rounding %d, want at most %d", o, SAE)
			}
			mods.rounding = uint8(o) + 1
		default:
			return mods, nil, errors.New("unknown operand") // its type would make all operands escape
		}
	}
	return mods, a.args[first:], nil
}

// record keeps what Listing needs of an instruction that began at start and has
// the operands last decoded.
func (a *Assembler) record(r record, start, args int) {
	r.offset, r.firstArg, r.args = int32(start), int32(len(a.args)-args), uint8(args)
	a.records = append(a.records, r)
}
