// Package arm64 assembles A64 machine code at run time: general instructions and NEON.
//
// An [Assembler] appends instructions, resolves labels and places constants behind the
// code:
//
//	a := arm64.New()
//	loop := a.Label()
//	a.Bind(loop)
//	a.I(arm64.LDR, arm64.V0.As(arm64.Q1), arm64.PostIndex(arm64.X1, 16))
//	a.V(arm64.FADD, arm64.S4, arm64.V0, arm64.V0, arm64.V1)
//	a.I(arm64.SUBS, arm64.X2, arm64.X2, arm64.Imm(1))
//	a.I(arm64.BCOND, arm64.NE, loop)
//	a.I(arm64.RET)
//	code, err := a.Finish()
//
// Instructions are rows of a table (general.go, vector.go, memory.go): a mnemonic, the form of its
// operands as the architecture manual writes it, and the fixed bits. form.go reads the forms.
// An operand that no row of the mnemonic takes is an error, which Finish returns.
//
// The package knows encodings and nothing else: which registers to use, and what for, is
// up to the caller.
package arm64
