package amd64

import (
	"fmt"
	"math"
)

// Operand is an operand of an instruction, Vec, Reg, Mask, Mem or Imm, or one of
// the modifiers that EVEX adds: Merge, Zero and Rounding.
type Operand interface{ operand() }

// Reg is a general register. Its size comes from the instruction.
type Reg uint8

// The general registers, in the order of their encoding.
const (
	RAX Reg = iota
	RCX
	RDX
	RBX
	RSP
	RBP
	RSI
	RDI
	R8
	R9
	R10
	R11
	R12
	R13
	R14
	R15
)

// Vec is a vector register, 0 to 31. Those above 15 need EVEX.
type Vec uint8

// Mask is a mask register. As the mask of an instruction, K0 means no mask.
type Mask uint8

// The mask registers.
const (
	K0 Mask = iota
	K1
	K2
	K3
	K4
	K5
	K6
	K7
)

// Imm is an immediate operand.
type Imm int64

// Width is the width of a vector instruction.
type Width uint8

// The widths of vectors: 128, 256 and 512 bits.
const (
	X Width = iota
	Y
	Z
)

// Bytes returns the number of bytes in a vector of width w.
func (w Width) Bytes() int { return 16 << w }

func (w Width) String() string {
	if w > Z {
		return fmt.Sprintf("Width(%d)", uint8(w))
	}
	return "XYZ"[w:][:1]
}

// Mem is a memory operand: Base + Index·Scale + Disp. Without a scale there is no
// index. At, Indexed, Assembler.Constant and Assembler.Address return one.
type Mem struct {
	Base  Reg
	Index Reg
	Scale uint8
	Disp  int32

	kind      memKind
	vector    uint8 // the index, if it is a vector register
	broadcast bool
	number    int32 // of the constant or the label
}

type memKind uint8

const (
	based    memKind = iota // Base, and Index if Scale is set
	unbased                 // Index·Scale + Disp
	vectored                // Base + vector·Scale + Disp
	constant                // the address of a constant
	labelled                // the address of a label
)

// At returns the memory at base + disp.
func At(base Reg, disp int32) Mem { return Mem{Base: base, Disp: disp} }

// Indexed returns the memory at index·scale + disp, which has no base.
func Indexed(index Reg, scale uint8, disp int32) Mem {
	return Mem{Index: index, Scale: scale, Disp: disp, kind: unbased}
}

// Plus returns m with index·scale added to its address. Scale is 1, 2, 4 or 8.
func (m Mem) Plus(index Reg, scale uint8) Mem {
	m.Index, m.Scale = index, scale
	return m
}

// PlusVec returns the memory that a gather or a scatter addresses: that at m's
// address + index·scale, for each element of index.
func (m Mem) PlusVec(index Vec, scale uint8) Mem {
	m.vector, m.Scale, m.kind = uint8(index), scale, vectored
	return m
}

// Offset returns m with disp added to its address.
func (m Mem) Offset(disp int32) Mem {
	m.Disp += disp
	return m
}

// Broadcast returns m as one element that is read into all elements of the operand.
func (m Mem) Broadcast() Mem {
	m.broadcast = true
	return m
}

// Rounding is the rounding mode that an instruction on registers brings along.
type Rounding uint8

// The rounding modes. All of them suppress exceptions; SAE does no more than that.
const (
	RN  Rounding = iota // to nearest, ties to even
	RD                  // down
	RU                  // up
	RZ                  // toward zero
	SAE                 // as the instruction rounds otherwise
)

// Masking says how an instruction treats the elements of its destination that its
// mask does not select. Merge and Zero return one.
type Masking struct {
	mask Mask
	zero bool
}

// Merge returns the masking that keeps the elements that k does not select.
func Merge(k Mask) Masking { return Masking{k, false} }

// Zero returns the masking that clears the elements that k does not select.
func Zero(k Mask) Masking { return Masking{k, true} }

func (Reg) operand()      {}
func (Vec) operand()      {}
func (Mask) operand()     {}
func (Imm) operand()      {}
func (Mem) operand()      {}
func (Rounding) operand() {}
func (Masking) operand()  {}

// arg is an operand as instructions are recorded.
type arg struct {
	kind argKind
	reg  uint8 // number of the register
	imm  int64
	mem  Mem
}

type argKind uint8

const (
	noArg argKind = iota
	regArg
	vecArg
	maskArg
	immArg
	memArg
)

func (k argKind) String() string {
	return [...]string{"nothing", "a general register", "a vector register", "a mask register", "an immediate", "memory"}[k]
}

// modifiers are what EVEX adds to an instruction, and the condition of a general one.
type modifiers struct {
	mask     Mask
	zero     bool
	rounding uint8 // Rounding + 1
	cond     Cond  // of a general instruction
}

// check returns an error if m cannot be encoded.
func (m *Mem) check() error {
	switch m.Scale {
	case 0, 1, 2, 4, 8:
	default:
		return fmt.Errorf("scale %d, want 1, 2, 4 or 8", m.Scale)
	}
	switch {
	case m.Base > R15 || m.Index > R15:
		return fmt.Errorf("general register %d, want at most %d", max(m.Base, m.Index), R15)
	case m.vector > 31:
		return fmt.Errorf("vector register %d, want at most 31", m.vector)
	case m.kind <= unbased && m.Scale != 0 && m.Index == RSP:
		return fmt.Errorf("index rsp cannot be encoded")
	case m.kind >= constant && m.Scale != 0:
		return fmt.Errorf("an address relative to the code has no index")
	case m.kind == unbased && m.Scale == 0, m.kind == vectored && m.Scale == 0:
		return fmt.Errorf("scale 0, want 1, 2, 4 or 8")
	}
	return nil
}

func fitsInt8(x int64) bool  { return x == int64(int8(x)) }
func fitsInt32(x int64) bool { return x >= math.MinInt32 && x <= math.MaxInt32 }
