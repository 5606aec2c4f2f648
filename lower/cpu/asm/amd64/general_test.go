package amd64

import (
	"math/rand/v2"
	"testing"
)

// generalForms are the operands that each general instruction takes: r a register,
// m memory, i an immediate, c the register of the count.
var generalForms = map[Op]struct {
	sizes []int
	forms []string
}{
	ADD: {anySize, arithmetic}, OR: {anySize, arithmetic}, ADC: {anySize, arithmetic}, SBB: {anySize, arithmetic},
	AND: {anySize, arithmetic}, SUB: {anySize, arithmetic}, XOR: {anySize, arithmetic}, CMP: {anySize, arithmetic},
	TEST:   {anySize, []string{"rr", "mr", "ri", "mi", "ai"}},
	MOV:    {anySize, []string{"rr", "mr", "rm", "ri", "mi", "rI"}},
	LEA:    {[]int{32, 64}, []string{"rm"}},
	MOVZX8: {[]int{16, 32, 64}, []string{"rr", "rm"}}, MOVZX16: {[]int{32, 64}, []string{"rr", "rm"}},
	MOVSX8: {[]int{16, 32, 64}, []string{"rr", "rm"}}, MOVSX16: {[]int{32, 64}, []string{"rr", "rm"}},
	MOVSX32: {[]int{64}, []string{"rr", "rm"}},
	IMUL:    {[]int{16, 32, 64}, []string{"rr", "rm", "rri", "rmi"}},
	NOT:     {anySize, one}, NEG: {anySize, one}, MUL: {anySize, one}, DIV: {anySize, one}, INC: {anySize, one}, DEC: {anySize, one},
	ROL: {anySize, counted}, ROR: {anySize, counted}, SHL: {anySize, counted}, SHR: {anySize, counted}, SAR: {anySize, counted},
	POPCNT: {[]int{16, 32, 64}, []string{"rr", "rm"}}, TZCNT: {[]int{16, 32, 64}, []string{"rr", "rm"}}, LZCNT: {[]int{16, 32, 64}, []string{"rr", "rm"}},
	BZHI: {[]int{32, 64}, []string{"rrr", "rmr"}}, SHLX: {[]int{32, 64}, []string{"rrr", "rmr"}},
	SHRX: {[]int{32, 64}, []string{"rrr", "rmr"}}, SARX: {[]int{32, 64}, []string{"rrr", "rmr"}},
	MULX: {[]int{32, 64}, []string{"rrr", "rrm"}}, ANDN: {[]int{32, 64}, []string{"rrr", "rrm"}},
	PUSH: {[]int{64}, []string{"r"}}, POP: {[]int{64}, []string{"r"}},
	PREFETCHNTA: {[]int{8}, []string{"m"}}, PREFETCHT0: {[]int{8}, []string{"m"}}, PREFETCHT1: {[]int{8}, []string{"m"}},
	PREFETCHT2: {[]int{8}, []string{"m"}}, PREFETCHW: {[]int{8}, []string{"m"}},
}

var (
	anySize    = []int{8, 16, 32, 64}
	arithmetic = []string{"rr", "mr", "rm", "ri", "mi", "ai"}
	one        = []string{"r", "m"}
	counted    = []string{"rc", "mc", "rn", "mn"}
)

// generalInstances calls f with random operands of every form.
func generalInstances(r *rand.Rand, each int, f func(op Op, size int, operands []Operand)) {
	for op := ADD; op < jmp; op++ {
		for _, size := range generalForms[op].sizes {
			for _, form := range generalForms[op].forms {
				for range each {
					var operands []Operand
					for _, c := range form {
						operands = append(operands, generalOperand(r, c, size))
					}
					f(op, size, operands)
				}
			}
		}
	}
}

func generalOperand(r *rand.Rand, kind rune, size int) Operand {
	switch kind {
	case 'r':
		return Reg(r.IntN(16))
	case 'a':
		return RAX
	case 'c':
		return RCX
	case 'n':
		return Imm(r.IntN(size))
	case 'm':
		return randomMem(r, 1)
	case 'I':
		return Imm(r.Uint64() >> (64 - size) >> r.IntN(size))
	}
	imms := []int64{0, 1, -1, 127, -128}
	if size > 8 {
		imms = append(imms, 128, -129, 1<<15-1, -1<<15)
	}
	if size > 16 {
		imms = append(imms, 1<<31-1, -1<<31)
	}
	return Imm(imms[r.IntN(len(imms))])
}

// program assembles every general instruction, with each of its operands.
func program(t *testing.T, each int) *Assembler {
	a := New()
	r := rand.New(rand.NewPCG(3, 4))
	generalInstances(r, each, func(op Op, size int, operands []Operand) {
		a.G(op, size, operands...)
		if a.Err() != nil {
			t.Fatalf("%v", a.Err())
		}
	})
	for c := Overflow; c <= Greater; c++ {
		for range each {
			a.Set(c, Reg(r.IntN(16)))
			a.Set(c, randomMem(r, 1))
			for _, size := range []int{16, 32, 64} {
				a.Cmov(c, size, Reg(r.IntN(16)), Reg(r.IntN(16)))
				a.Cmov(c, size, Reg(r.IntN(16)), randomMem(r, 1))
			}
		}
	}
	for reg := RAX; reg <= R15; reg++ {
		a.JmpReg(reg)
	}
	a.Ret()
	a.VZeroUpper()
	a.SFence()
	a.RepMovsb()
	a.RepStosb()
	a.Ud2()
	return a
}

func TestGeneralAgainstGNU(t *testing.T) {
	a := program(t, 12)
	if a.Err() != nil {
		t.Fatal(a.Err())
	}
	compareGNU(t, a)
}
