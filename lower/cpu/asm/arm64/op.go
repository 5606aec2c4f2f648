package arm64

import (
	"fmt"
	"sync"
)

// Op is a mnemonic. What an instruction does depends on its operands too: ADD has forms for
// general registers and for vectors.
type Op uint8

const (
	ADD Op = iota
	ADDS
	SUB
	SUBS
	CMP
	CMN
	NEG
	AND
	ANDS
	BIC
	ORR
	EOR
	TST
	MVN
	MOV
	MOVZ
	MOVN
	MOVK
	LSL
	LSR
	ASR
	UXTB
	UXTH
	SXTW
	CLZ
	MADD
	MSUB
	MUL
	UMULL
	SMULL
	UMULH
	UDIV
	SDIV
	CSEL
	CSINC
	CSET
	B
	BL
	BCOND // b.cond
	CBZ
	CBNZ
	TBZ
	TBNZ
	BR
	BLR
	RET
	NOP
	ADR
	MLA
	MLS
	ADDP
	CMGT
	CMGE
	CMEQ
	CMHI
	CMHS
	CMTST
	SMAX
	SMIN
	UMAX
	UMIN
	SSHL
	USHL
	ORN
	BSL
	BIT
	BIF
	ABS
	CNT
	REV64
	CMLT
	CMLE
	XTN
	XTN2
	SHLL
	SHLL2
	SHL
	SLI
	SRI
	USHR
	SSHR
	USRA
	SSRA
	SSHLL
	SSHLL2
	USHLL
	USHLL2
	SXTL
	SXTL2
	UXTL
	UXTL2
	SHRN
	SHRN2
	UMULL2
	SMULL2
	UMLAL
	UMLAL2
	UZP1
	UZP2
	ZIP1
	ZIP2
	TRN1
	TRN2
	EXT
	TBL
	TBX
	DUP
	INS
	UMOV
	MOVI
	MVNI
	ADDV
	SMAXV
	UMAXV
	UMINV
	FADD
	FSUB
	FMUL
	FDIV
	FMLA
	FMLS
	FMAX
	FMIN
	FABD
	FADDP
	FMAXP
	FMINP
	FCMEQ
	FCMGE
	FCMGT
	FACGE
	FACGT
	FABS
	FNEG
	FSQRT
	FRINTN
	FRINTM
	FRINTZ
	SCVTF
	UCVTF
	FCVTNS
	FCVTZS
	FCVTZU
	FCMLT
	FCMLE
	FCVTL
	FCVTL2
	FCVTN
	FCVTN2
	FMOV
	FMAXV
	FMINV
	FMADD
	FMSUB
	FNMADD
	FNMSUB
	FCMP
	FCSEL
	FCVT
	LDR
	LDRB
	LDRH
	LDRSH
	LDRSW
	STR
	STRB
	STRH
	PRFM
	LDP
	STP
	LDNP
	STNP
	LD1
	LD1R
	ST1

	numOps
)

// row is one form of one instruction.
type row struct {
	op   Op
	name string // the mnemonic as GNU as writes it
	form string // the operands; form.go says what the words mean
	bits uint32 // all bits that no operand sets
	size sizing
	set  arrangementSet // what T, or E, may be
}

// compiled is a row with its form parsed.
type compiled struct {
	row
	slots []slot
}

// table returns the rows of each mnemonic.
var table = sync.OnceValue(func() *[numOps][]compiled {
	var t [numOps][]compiled
	for _, rows := range [][]row{general, vector, floating, memory} {
		for _, r := range rows {
			t[r.op] = append(t[r.op], compiled{r, parseForm(r.form)})
		}
	}
	return &t
})

func (o Op) String() string {
	switch {
	case o == BCOND:
		return "b.cond"
	case o < numOps:
		return table()[o][0].name
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}
