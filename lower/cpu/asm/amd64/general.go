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

// Cond is a condition of J, Cmov and Set.
type Cond uint8

// The conditions, in the order of their encoding. Above and Below compare unsigned
// integers, Greater and Less signed ones.
const (
	Overflow Cond = iota
	NotOverflow
	Below
	AboveEqual
	Equal
	NotEqual
	BelowEqual
	Above
	Sign
	NotSign
	Parity
	NotParity
	Less
	GreaterEqual
	LessEqual
	Greater
)

var condNames = [16]string{"o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g"}

func (c Cond) String() string {
	if c > Greater {
		return fmt.Sprintf("Cond(%d)", uint8(c))
	}
	return condNames[c]
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
	start := len(a.code)
	if err == nil {
		size, err = a.general(op, size, args)
	}
	if err != nil {
		a.fail(fmt.Errorf("%s, %d bits: %w", op, size, err))
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
			a.code = append(a.code, 0x41)
		}
		a.code = append(a.code, 0x50|uint8(op-PUSH)<<3|args[0].reg&7)
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
			a.code = append(a.code, byte(imm>>(8*i)))
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
	a.code = append(a.code, row.opcode)
	a.modRM(f, 0)
	return nil
}

// legacy emits an instruction without VEX: prefixes, opcode, ModRM and what follows it.
// Low are the operands of 8 bits.
func (a *Assembler) legacy(size int, prefix uint8, escape int, opcode, reg uint8, rm *arg, low []arg) {
	if size == 16 {
		a.code = append(a.code, 0x66)
	}
	if prefix != 0 {
		a.code = append(a.code, prefix)
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
		a.code = append(a.code, 0x40|rex)
	}
	if escape == 0x0F {
		a.code = append(a.code, 0x0F)
	}
	a.code = append(a.code, opcode)
	a.modRM(fields{reg: reg, rm: rm}, 0)
}

// short emits an opcode that holds a register.
func (a *Assembler) short(size int, opcode, reg uint8) {
	if size == 16 {
		a.code = append(a.code, 0x66)
	}
	rex := reg >> 3
	if size == 64 {
		rex |= 8
	}
	if rex != 0 || size == 8 && reg >= 4 {
		a.code = append(a.code, 0x40|rex)
	}
	a.code = append(a.code, opcode|reg&7)
}

// accumulator emits an opcode that implies rax.
func (a *Assembler) accumulator(size int, opcode uint8) {
	switch size {
	case 16:
		a.code = append(a.code, 0x66)
	case 64:
		a.code = append(a.code, 0x48)
	}
	a.code = append(a.code, opcode)
}

// immediate emits an immediate of the operand's size, 32 bits at most, and moves the
// end of the instruction that began before it.
func (a *Assembler) immediate(imm int64, size int) {
	at := int32(len(a.code))
	for i := range min(size, 32) / 8 {
		a.code = append(a.code, byte(imm>>(8*i)))
	}
	if n := len(a.fixups); n > 0 && a.fixups[n-1].end == at {
		a.fixups[n-1].end = int32(len(a.code))
	}
}

// Jmp assembles a jump to l.
func (a *Assembler) Jmp(l Label) { a.branch(jmp, 0, l, 0xEB, 0xE9) }

// J assembles a jump to l if c holds.
func (a *Assembler) J(c Cond, l Label) {
	if c > Greater {
		a.fail(fmt.Errorf("j: unknown condition %d", c))
		return
	}
	a.branch(jcc, c, l, 0x70|uint8(c), 0x80|uint8(c))
}

// Call assembles a call of the code at l.
func (a *Assembler) Call(l Label) { a.branch(call, 0, l, 0, 0xE8) }

// branch assembles a jump: the short one if l is bound and near.
func (a *Assembler) branch(op Op, c Cond, l Label, short, near uint8) {
	a.begin()
	if !a.known(l) {
		return
	}
	start := len(a.code)
	m := Mem{kind: labelled, number: int32(l)}
	a.args = append(a.args, arg{kind: memArg, mem: m})
	if to := a.labels[l]; short != 0 && to != unbound && start+2-int(to) <= 128 {
		a.code = append(a.code, short, byte(int(to)-start-2))
	} else {
		if op == jcc {
			a.code = append(a.code, 0x0F)
		}
		a.code = append(a.code, near)
		at := int32(len(a.code))
		a.fixups = append(a.fixups, fixup{at: at, end: at + 4, target: m})
		a.code = append(a.code, 0, 0, 0, 0)
	}
	a.record(record{op: op, mods: modifiers{cond: c}}, start, 1)
}

// JmpReg assembles a jump to the address in r.
func (a *Assembler) JmpReg(r Reg) {
	a.begin()
	_, args, err := a.decode([]Operand{r})
	if err != nil {
		a.fail(fmt.Errorf("jmp: %w", err))
		return
	}
	start := len(a.code)
	a.legacy(32, 0, 0, 0xFF, 4, &args[0], nil)
	a.record(record{op: jmp, width: 64}, start, 1)
}

// Cmov assembles a move of 16, 32 or 64 bits from src, a register or memory, if c holds.
func (a *Assembler) Cmov(c Cond, size int, dst Reg, src Operand) {
	a.begin()
	_, args, err := a.decode([]Operand{dst, src})
	if err == nil && (c > Greater || size != 16 && size != 32 && size != 64) {
		err = fmt.Errorf("condition %v, size %d; want a size of 16, 32 or 64", c, size)
	}
	if sh := shape(args); err == nil && sh != "rr" && sh != "rm" {
		err = wrongOperands(sh)
	}
	if err != nil {
		a.fail(fmt.Errorf("cmov: %w", err))
		return
	}
	start := len(a.code)
	a.legacy(size, 0, 0x0F, 0x40|uint8(c), args[0].reg, &args[1], nil)
	a.record(record{op: cmov, width: uint8(size), mods: modifiers{cond: c}}, start, 2)
}

// Set assembles the write of a byte that is 1 if c holds and 0 otherwise.
func (a *Assembler) Set(c Cond, dst Operand) {
	a.begin()
	_, args, err := a.decode([]Operand{dst})
	if err == nil && c > Greater {
		err = fmt.Errorf("unknown condition %d", c)
	}
	if sh := shape(args); err == nil && sh != "r" && sh != "m" {
		err = wrongOperands(sh)
	}
	if err != nil {
		a.fail(fmt.Errorf("set: %w", err))
		return
	}
	start := len(a.code)
	a.legacy(8, 0, 0x0F, 0x90|uint8(c), 0, &args[0], args)
	a.record(record{op: set, width: 8, mods: modifiers{cond: c}}, start, 1)
}

// Ret assembles a return.
func (a *Assembler) Ret() { a.bytes(ret, 0xC3) }

// VZeroUpper assembles VZEROUPPER.
func (a *Assembler) VZeroUpper() { a.bytes(vzeroupper, 0xC5, 0xF8, 0x77) }

// SFence assembles SFENCE, which orders non-temporal stores before later ones.
func (a *Assembler) SFence() { a.bytes(sfence, 0x0F, 0xAE, 0xF8) }

// RepMovsb assembles REP MOVSB: RCX bytes from RSI to RDI.
func (a *Assembler) RepMovsb() { a.bytes(repMovsb, 0xF3, 0xA4) }

// RepStosb assembles REP STOSB: RCX bytes of AL to RDI.
func (a *Assembler) RepStosb() { a.bytes(repStosb, 0xF3, 0xAA) }

// Ud2 assembles an instruction that is invalid on purpose.
func (a *Assembler) Ud2() { a.bytes(ud2, 0x0F, 0x0B) }

func (a *Assembler) bytes(op Op, b ...byte) {
	a.begin()
	start := len(a.code)
	a.code = append(a.code, b...)
	a.record(record{op: op}, start, 0)
}

// nops are the recommended no-ops of 1 to 9 bytes.
var nops = [...]string{
	"\x90", "\x66\x90", "\x0F\x1F\x00", "\x0F\x1F\x40\x00", "\x0F\x1F\x44\x00\x00", "\x66\x0F\x1F\x44\x00\x00",
	"\x0F\x1F\x80\x00\x00\x00\x00", "\x0F\x1F\x84\x00\x00\x00\x00\x00", "\x66\x0F\x1F\x84\x00\x00\x00\x00\x00",
}

// Nop assembles no-ops of n bytes altogether.
func (a *Assembler) Nop(n int) {
	for n > 0 {
		k := min(n, len(nops))
		a.bytes(nop, []byte(nops[k-1])...)
		n -= k
	}
}

// Align assembles no-ops up to the next multiple of n, a power of two up to 64.
func (a *Assembler) Align(n int) {
	if n < 1 || n > 64 || n&(n-1) != 0 {
		a.fail(fmt.Errorf("align: %d, want a power of two up to 64", n))
		return
	}
	a.Nop(-len(a.code) & (n - 1))
}
