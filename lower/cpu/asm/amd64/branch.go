package amd64

import (
	"fmt"

	"tokitai/lower/cpu/asm"
)

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

// Jmp assembles a jump to l.
func (a *Assembler) Jmp(l Label) { a.branch(jmp, 0, l, 0xEB, 0xE9) }

// J assembles a jump to l if c holds.
func (a *Assembler) J(c Cond, l Label) {
	if c > Greater {
		a.Fail(fmt.Errorf("j: unknown condition %d", c))
		return
	}
	a.branch(jcc, c, l, 0x70|uint8(c), 0x80|uint8(c))
}

// Call assembles a call of the code at l.
func (a *Assembler) Call(l Label) { a.branch(call, 0, l, 0, 0xE8) }

// branch assembles a jump: the short one if l is bound and near.
func (a *Assembler) branch(op Op, c Cond, l Label, short, near uint8) {
	a.begin()
	if !a.Knows(l) {
		return
	}
	start := len(a.Code)
	m := Mem{kind: labelled, number: int32(l)}
	a.args = append(a.args, arg{kind: memArg, mem: m})
	if to := a.Place(l); short != 0 && to != asm.Unbound && start+2-int(to) <= 128 {
		a.Code = append(a.Code, short, byte(int(to)-start-2))
	} else {
		if op == jcc {
			a.Code = append(a.Code, 0x0F)
		}
		a.Code = append(a.Code, near)
		at := int32(len(a.Code))
		a.fixups = append(a.fixups, fixup{at: at, end: at + 4, target: m})
		a.Code = append(a.Code, 0, 0, 0, 0)
	}
	a.record(record{op: op, mods: modifiers{cond: c}}, start, 1)
}

// JmpReg assembles a jump to the address in r.
func (a *Assembler) JmpReg(r Reg) {
	a.begin()
	_, args, err := a.decode([]Operand{r})
	if err != nil {
		a.Fail(fmt.Errorf("jmp: %w", err))
		return
	}
	start := len(a.Code)
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
		a.Fail(fmt.Errorf("cmov: %w", err))
		return
	}
	start := len(a.Code)
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
		a.Fail(fmt.Errorf("set: %w", err))
		return
	}
	start := len(a.Code)
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
	start := len(a.Code)
	a.Code = append(a.Code, b...)
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
		a.Fail(fmt.Errorf("align: %d, want a power of two up to 64", n))
		return
	}
	a.Nop(-len(a.Code) & (n - 1))
}
