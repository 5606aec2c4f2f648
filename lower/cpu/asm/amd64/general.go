package amd64

import (
	"fmt"
)

// The general instructions that G assembles.
const (
	// Arithmetic and logic, in the order of their encoding: to a register or memory,
	// from a register, memory or an immediate.
	ADD Op = numVector + iota
	OR
	ADC
	SBB
	AND
	SUB
	XOR
	CMP

	TEST // a register or memory with a register or an immediate
	MOV  // the same operands as ADD, and immediates of 64 bits to registers
	LEA

	// Loads and moves that extend 8, 16 or 32 bits to the size.
	MOVZX8
	MOVZX16
	MOVSX8
	MOVSX16
	MOVSX32

	IMUL // two operands, or three with an immediate

	// One operand, a register or memory.
	NOT
	NEG
	MUL
	DIV
	INC
	DEC

	// Shifts by an immediate or, given as RCX, by CL.
	ROL
	ROR
	SHL
	SHR
	SAR

	POPCNT
	TZCNT
	LZCNT

	// Three operands: destination, a register or memory, a register.
	BZHI
	SHLX
	SHRX
	SARX
	MULX // the high half, the low half, a register or memory; the other factor is RDX
	ANDN // destination, a register, a register or memory

	PUSH
	POP

	// One operand: memory.
	PREFETCHNTA
	PREFETCHT0
	PREFETCHT1
	PREFETCHT2
	PREFETCHW

	// Those with methods of their own.
	jmp
	jcc
	call
	cmov
	set
	ret
	nop
	sfence
	vzeroupper
	repMovsb
	repStosb
	ud2

	numOps
)

var generalNames = [numOps - numVector]string{
	"add", "or", "adc", "sbb", "and", "sub", "xor", "cmp", "test", "mov", "lea",
	"movzx", "movzx", "movsx", "movsx", "movsxd", "imul",
	"not", "neg", "mul", "div", "inc", "dec", "rol", "ror", "shl", "shr", "sar",
	"popcnt", "tzcnt", "lzcnt", "bzhi", "shlx", "shrx", "sarx", "mulx", "andn", "push", "pop",
	"prefetchnta", "prefetcht0", "prefetcht1", "prefetcht2", "prefetchw",
	"jmp", "j", "call", "cmov", "set", "ret", "nop", "sfence", "vzeroupper", "rep movsb", "rep stosb", "ud2",
}

// String returns the name of the instruction in lower case.
func (op Op) String() string {
	switch {
	case op < numVector:
		return table[op].name
	case op < numOps:
		return generalNames[op-numVector]
	}
	return fmt.Sprintf("Op(%d)", uint16(op))
}

// G assembles an instruction on general registers, operands in Intel's order: the
// destination first. Size is the operand size in bits: 8, 16, 32 or 64.
func (a *Assembler) G(op Op, size int, operands ...Operand) {
	a.begin()
	mods, args, err := a.decode(operands)
	if err == nil && mods != (modifiers{}) {
		err = fmt.Errorf("it takes no modifiers")
	}
	switch size {
	case 8, 16, 32, 64:
	default:
		err = fmt.Errorf("size %d, want 8, 16, 32 or 64", size)
	}
	for i := range args {
		if x := &args[i]; x.kind == memArg && (x.mem.broadcast || x.mem.kind == vectored) {
			err = fmt.Errorf("memory is one operand, without broadcast or vector index")
		}
	}
	start := len(a.Code)
	if err == nil {
		size, err = a.general(op, size, args)
	}
	if err != nil {
		a.Fail(fmt.Errorf("%s, %d bits: %w", op, size, err))
		return
	}
	a.record(record{op: op, width: uint8(size)}, start, len(args))
}

// shape is the kinds of the operands as a number: 'r' a register, 'm' memory, 'i' an
// immediate.
func shape(args []arg) string {
	var s [3]byte
	if len(args) > len(s) {
		return "?"
	}
	for i := range args {
		switch args[i].kind {
		case regArg:
			s[i] = 'r'
		case memArg:
			s[i] = 'm'
		case immArg:
			s[i] = 'i'
		default:
			return "?"
		}
	}
	return string(s[:len(args)])
}

// general encodes an instruction and returns the size that it was encoded with.
func (a *Assembler) general(op Op, size int, args []arg) (int, error) {
	sh := shape(args)
	ok := func(shapes ...string) bool {
		for _, s := range shapes {
			if s == sh {
				return true
			}
		}
		return false
	}
	wide := uint8(1) // the opcode's bit for sizes above 8
	var low []arg    // operands of 8 bits
	if size == 8 {
		wide, low = 0, args
	}
	for i := range args {
		if args[i].kind == immArg && (op != MOV || sh != "ri") {
			if err := args[i].cut(size); err != nil {
				return size, err
			}
		}
	}
	switch {
	case op < ADD:
		return size, fmt.Errorf("not a general instruction")
	case op <= CMP:
		group := uint8(op - ADD)
		switch {
		case ok("rr", "mr"):
			a.legacy(size, 0, 0, group<<3|wide, args[1].reg, &args[0], low)
		case ok("rm"):
			a.legacy(size, 0, 0, group<<3|2|wide, args[0].reg, &args[1], low)
		case ok("ri", "mi"):
			imm := args[1].imm
			switch {
			case size != 8 && fitsInt8(imm):
				a.legacy(size, 0, 0, 0x83, group, &args[0], nil)
				a.immediate(imm, 8)
			case sh == "ri" && args[0].reg == 0:
				a.accumulator(size, group<<3|4|wide)
				a.immediate(imm, size)
			default:
				a.legacy(size, 0, 0, 0x80|wide, group, &args[0], low)
				a.immediate(imm, size)
			}
		default:
			return size, wrongOperands(sh)
		}
	case op == TEST:
		switch {
		case ok("rr", "mr"):
			a.legacy(size, 0, 0, 0x84|wide, args[1].reg, &args[0], low)
		case ok("ri") && args[0].reg == 0:
			a.accumulator(size, 0xA8|wide)
			a.immediate(args[1].imm, size)
		case ok("ri", "mi"):
			a.legacy(size, 0, 0, 0xF6|wide, 0, &args[0], low)
			a.immediate(args[1].imm, size)
		default:
			return size, wrongOperands(sh)
		}
	case op == MOV:
		return a.mov(size, wide, args, low, sh)
	case op == LEA:
		if !ok("rm") || size < 32 {
			return size, wrongOperands(sh)
		}
		a.legacy(size, 0, 0, 0x8D, args[0].reg, &args[1], nil)
	case op >= MOVZX8 && op <= MOVSX32:
		return size, a.extend(op, size, args, sh)
	case op == IMUL:
		switch {
		case size == 8:
			return size, fmt.Errorf("it has no such size")
		case ok("rr", "rm"):
			a.legacy(size, 0, 0x0F, 0xAF, args[0].reg, &args[1], nil)
		case ok("rri", "rmi") && fitsInt8(args[2].imm):
			a.legacy(size, 0, 0, 0x6B, args[0].reg, &args[1], nil)
			a.immediate(args[2].imm, 8)
		case ok("rri", "rmi"):
			a.legacy(size, 0, 0, 0x69, args[0].reg, &args[1], nil)
			a.immediate(args[2].imm, size)
		default:
			return size, wrongOperands(sh)
		}
	case op >= NOT && op <= DEC:
		if !ok("r", "m") {
			return size, wrongOperands(sh)
		}
		row := [...]struct{ opcode, digit uint8 }{{0xF6, 2}, {0xF6, 3}, {0xF6, 4}, {0xF6, 6}, {0xFE, 0}, {0xFE, 1}}[op-NOT]
		a.legacy(size, 0, 0, row.opcode|wide, row.digit, &args[0], low)
	case op >= ROL && op <= SAR:
		digit := [...]uint8{0, 1, 4, 5, 7}[op-ROL]
		switch {
		case ok("rr", "mr") && Reg(args[1].reg) == RCX:
			a.legacy(size, 0, 0, 0xD2|wide, digit, &args[0], low)
		case ok("ri", "mi") && args[1].imm >= 0 && args[1].imm < int64(size):
			if args[1].imm == 1 {
				a.legacy(size, 0, 0, 0xD0|wide, digit, &args[0], low)
			} else {
				a.legacy(size, 0, 0, 0xC0|wide, digit, &args[0], low)
				a.immediate(args[1].imm, 8)
			}
		default:
			return size, fmt.Errorf("want a count of 0 to %d or rcx", size-1)
		}
	case op >= POPCNT && op <= LZCNT:
		if !ok("rr", "rm") || size == 8 {
			return size, wrongOperands(sh)
		}
		a.legacy(size, 0xF3, 0x0F, [...]uint8{0xB8, 0xBC, 0xBD}[op-POPCNT], args[0].reg, &args[1], nil)
	case op >= BZHI && op <= ANDN:
		return size, a.bmi(op, size, args, sh)
	case op == PUSH, op == POP:
		if !ok("r") || size != 64 {
			return size, wrongOperands(sh)
		}
		if args[0].reg > 7 {
			a.Code = append(a.Code, 0x41)
		}
		a.Code = append(a.Code, 0x50|uint8(op-PUSH)<<3|args[0].reg&7)
	case op >= PREFETCHNTA && op <= PREFETCHW:
		if !ok("m") {
			return size, wrongOperands(sh)
		}
		opcode, digit := uint8(0x18), uint8(op-PREFETCHNTA)
		if op == PREFETCHW {
			opcode, digit = 0x0D, 1
		}
		a.legacy(8, 0, 0x0F, opcode, digit, &args[0], nil)
		size = 8
	default:
		return size, fmt.Errorf("not a general instruction")
	}
	return size, nil
}

func wrongOperands(shape string) error {
	return fmt.Errorf("it has no encoding with operands %q of that size (r a register, m memory, i an immediate)", shape)
}

// cut makes an immediate one of the operand's size, sign-extended from 32 bits at most.
func (x *arg) cut(size int) error {
	low := x.imm << (64 - min(size, 32)) >> (64 - min(size, 32))
	if x.imm != low && (size == 64 || x.imm != low&(1<<size-1)) {
		return fmt.Errorf("immediate %#x does not fit", x.imm)
	}
	x.imm = low
	return nil
}

func (a *Assembler) mov(size int, wide uint8, args, low []arg, sh string) (int, error) {
	switch sh {
	case "rr", "mr":
		a.legacy(size, 0, 0, 0x88|wide, args[1].reg, &args[0], low)
	case "rm":
		a.legacy(size, 0, 0, 0x8A|wide, args[0].reg, &args[1], low)
	case "mi":
		a.legacy(size, 0, 0, 0xC6|wide, 0, &args[0], nil)
		a.immediate(args[1].imm, size)
	case "ri":
		imm := args[1].imm
		if size == 64 && imm >= 0 && imm < 1<<32 {
			size = 32 // clears the upper half
		}
		if size == 64 && fitsInt32(imm) {
			a.legacy(size, 0, 0, 0xC7, 0, &args[0], nil)
			a.immediate(imm, 32)
			return size, nil
		}
		if size < 64 {
			if err := args[1].cut(size); err != nil {
				return size, err
			}
		}
		a.short(size, 0xB0|wide<<3, args[0].reg)
		for i := range size / 8 {
			a.Code = append(a.Code, byte(imm>>(8*i)))
		}
	default:
		return size, wrongOperands(sh)
	}
	return size, nil
}

func (a *Assembler) extend(op Op, size int, args []arg, sh string) error {
	row := [...]struct {
		escape int
		opcode uint8
		from   int
	}{{0x0F, 0xB6, 8}, {0x0F, 0xB7, 16}, {0x0F, 0xBE, 8}, {0x0F, 0xBF, 16}, {0, 0x63, 32}}[op-MOVZX8]
	if sh != "rr" && sh != "rm" || size <= row.from {
		return wrongOperands(sh)
	}
	var low []arg
	if row.from == 8 {
		low = args[1:]
	}
	a.legacy(size, 0, row.escape, row.opcode, args[0].reg, &args[1], low)
	return nil
}

// bmi encodes the general instructions that have a VEX prefix.
func (a *Assembler) bmi(op Op, size int, args []arg, sh string) error {
	if size < 32 {
		return fmt.Errorf("it has no such size")
	}
	var f fields
	switch op {
	case MULX, ANDN:
		if sh != "rrr" && sh != "rrm" {
			return wrongOperands(sh)
		}
		f = fields{reg: args[0].reg, vvvv: args[1].reg, rm: &args[2]}
	default:
		if sh != "rrr" && sh != "rmr" {
			return wrongOperands(sh)
		}
		f = fields{reg: args[0].reg, vvvv: args[2].reg, rm: &args[1]}
	}
	row := [...]struct {
		prefix flags
		opcode uint8
	}{{np, 0xF5}, {p66, 0xF7}, {pF2, 0xF7}, {pF3, 0xF7}, {pF2, 0xF6}, {np, 0xF2}}[op-BZHI]
	a.vexPrefix(row.prefix|m38, size == 64, false, f)
	a.Code = append(a.Code, row.opcode)
	a.modRM(f, 0)
	return nil
}

// legacy emits an instruction without VEX: prefixes, opcode, ModRM and what follows it.
// Low are the operands of 8 bits.
func (a *Assembler) legacy(size int, prefix uint8, escape int, opcode, reg uint8, rm *arg, low []arg) {
	if size == 16 {
		a.Code = append(a.Code, 0x66)
	}
	if prefix != 0 {
		a.Code = append(a.Code, prefix)
	}
	x, b, _ := rm.extensions()
	rex := reg>>3<<2 | x<<1 | b
	if size == 64 {
		rex |= 8
	}
	for i := range low {
		if low[i].kind == regArg && low[i].reg >= 4 { // spl to dil are ah to bh without
			rex |= 0x40
		}
	}
	if rex != 0 {
		a.Code = append(a.Code, 0x40|rex)
	}
	if escape == 0x0F {
		a.Code = append(a.Code, 0x0F)
	}
	a.Code = append(a.Code, opcode)
	a.modRM(fields{reg: reg, rm: rm}, 0)
}

// short emits an opcode that holds a register.
func (a *Assembler) short(size int, opcode, reg uint8) {
	if size == 16 {
		a.Code = append(a.Code, 0x66)
	}
	rex := reg >> 3
	if size == 64 {
		rex |= 8
	}
	if rex != 0 || size == 8 && reg >= 4 {
		a.Code = append(a.Code, 0x40|rex)
	}
	a.Code = append(a.Code, opcode|reg&7)
}

// accumulator emits an opcode that implies rax.
func (a *Assembler) accumulator(size int, opcode uint8) {
	switch size {
	case 16:
		a.Code = append(a.Code, 0x66)
	case 64:
		a.Code = append(a.Code, 0x48)
	}
	a.Code = append(a.Code, opcode)
}

// immediate emits an immediate of the operand's size, 32 bits at most, and moves the
// end of the instruction that began before it.
func (a *Assembler) immediate(imm int64, size int) {
	at := int32(len(a.Code))
	for i := range min(size, 32) / 8 {
		a.Code = append(a.Code, byte(imm>>(8*i)))
	}
	if n := len(a.fixups); n > 0 && a.fixups[n-1].end == at {
		a.fixups[n-1].end = int32(len(a.Code))
	}
}
