// Package isa decodes the machine code of AMD's GPUs: gfx11, whose waves have 32 lanes, and
// gfx90a and gfx942, whose waves have 64.
//
// An instruction is decoded from its binary encoding by the tables of opcodes in gfx9.txt and
// gfx11.txt (table.go explains their rows), and printed as LLVM's disassembler prints it. The
// tables have every opcode of the scalar, vector, matrix, DS, FLAT, GLOBAL, SCRATCH and MUBUF
// instructions; the encodings of graphics (MIMG, MTBUF, EXP, VINTERP, LDSDIR) are named by an
// error. What an instruction does is package wave's part.
//
// Start with Lookup and Decode.
package isa

import (
	"fmt"
	"slices"
)

// Family is a group of architectures with the same encodings.
type Family uint8

// The families.
const (
	GFX9  Family = iota // gfx90a, gfx942: CDNA, waves of 64
	GFX11               // gfx1100 and its relatives: RDNA 3, waves of 32
)

// Lanes returns the number of lanes of the family's waves, as our kernels are compiled.
func (f Family) Lanes() int {
	if f == GFX11 {
		return 32
	}
	return 64
}

// Encoding is the form of an instruction.
type Encoding uint8

// The encodings.
const (
	SOP1 Encoding = iota
	SOP2
	SOPK
	SOPC
	SOPP
	SMEM
	VOP1
	VOP2
	VOP3 // of any vector instruction in its long form
	VOP3P
	VOPC
	VOPD // two instructions in one
	DS
	FLAT
	GLOBAL
	SCRATCH
	MUBUF
	encodings // how many there are
)

var encodingNames = [encodings]string{"SOP1", "SOP2", "SOPK", "SOPC", "SOPP", "SMEM", "VOP1", "VOP2",
	"VOP3", "VOP3P", "VOPC", "VOPD", "DS", "FLAT", "GLOBAL", "SCRATCH", "MUBUF"}

func (e Encoding) String() string {
	if e >= encodings {
		return fmt.Sprintf("encoding %d", uint8(e))
	}
	return encodingNames[e]
}

func parseEncoding(name string) (Encoding, error) {
	if i := slices.Index(encodingNames[:], name); i >= 0 {
		return Encoding(i), nil
	}
	return 0, fmt.Errorf("encoding %q: unknown", name)
}

// Instruction is a decoded instruction.
type Instruction struct {
	Offset   uint64 // of its first byte, counted from where Decode's base is
	Size     int    // in bytes
	Encoding Encoding

	// Name is LLVM's mnemonic without the suffix of an encoding: "v_add_f32",
	// "global_load_b32" (gfx11), "global_load_dword" (gfx9). The halves of a pair have their
	// own names without "dual_": "v_fmac_f32".
	Name string

	// Results and Operands are in the order of the assembly's text. A carry or a comparison's
	// result is a result, a carry that is read is an operand, also where the text or the
	// encoding has them implied (vcc, scc and exec are not listed where they are always
	// implied, as for s_add_u32 and v_cmpx).
	//
	// A result that is also read, such as that of v_fmac_f32, is only a result, and v_swap_b32's
	// second register only an operand. Memory:
	// the operands of a load are the address (a VGPR or a pair), then the base (SGPRs, or Off);
	// a store has its data after the address, as in the text. SMEM's are the base and the
	// register that is added to it, or Off. A buffer's are the address or Off, the four SGPRs
	// of the descriptor and the scalar offset, after a store's data.
	Results  []Operand
	Operands []Operand

	// Immediate is the constant of SOPP and SOPK, sign-extended where the instruction says so,
	// or the offset of an access to memory. Offsets of DS instructions with two offsets are
	// Immediate and Immediate2. A branch's is the difference in bytes between its target and
	// the end of the instruction.
	Immediate, Immediate2 int64

	Clamp      bool
	OutputMode uint8 // omod: 0, or the result is multiplied by 2 (1), 4 (2) or divided by 2 (3)

	// OpSel, OpSelHi, NegLo and NegHi are VOP3P's, bit i for operand i; op_sel of VOP3 too, whose
	// bit 3 is the result's, unless the operand's Half says it all. The operands of v_fma_mix_f32
	// and its relatives have Neg and Abs instead of NegLo and NegHi.
	OpSel, OpSelHi, NegLo, NegHi uint8

	DPP  *DPP  // of an instruction that takes its first operand from other lanes
	SDWA *SDWA // of gfx9's selection of bytes and halves

	// Glc is set where an atomic returns what was there before.
	Glc bool

	GDS bool // of DS: accesses the global data share

	Second *Instruction // of a pair

	form         *form  // nil if the instruction was not decoded
	suffix       string // of the encoding: "_e32", "_e64", "_dpp", "_e64_dpp", "_sdwa"
	raw          uint64 // first eight bytes
	family       Family
	architecture string
}

// Kind is the kind of an operand.
type Kind uint8

// The kinds.
const (
	None     Kind = iota
	SGPR          // Index is its number
	VGPR          // Index is its number
	AGPR          // gfx9: Index is its number
	Constant      // Value is its pattern
	VCC           // all of it, or its lower half where Words is 1
	VCCHigh
	Exec
	ExecHigh
	M0
	SCC
	Null      // reads 0; what is written is lost
	VCCZ      // tells whether vcc is 0
	ExecZ     // tells whether exec is 0
	Off       // no base address
	LDSDirect // not emulated
	PopsExitingWaveID
	SharedBase  // src_shared_base
	SharedLimit // src_shared_limit
	PrivateBase
	PrivateLimit
	FlatScratch // gfx9: the pair
	XNACKMask   // gfx9
	TTMP        // Index is its number
	HwReg       // Value is the encoded number, offset and width
)

// Half selects 16 bits of a register.
type Half uint8

// The halves.
const (
	Whole Half = iota // the instruction takes all of it, or the lower half if it takes 16 bits
	Low               // v0.l
	High              // v0.h
)

// Operand is a register, several consecutive ones, or a constant.
type Operand struct {
	Kind  Kind
	Index int
	Words int // 32-bit registers: 1 for 16-bit operands too
	Half  Half
	Type  Type // what the instruction takes it for

	// Value is a constant's pattern as the instruction reads it, as wide as Words and the
	// type say: the inline constant 1.0 is 0x3c00 for an operand of binary16, 0x3f800000 of
	// binary32 and 0x3ff0000000000000 of binary64. A literal of 32 bits is the upper half of a
	// binary64, sign-extended for i64 and zero-extended for other types of 64 bits.
	Value     uint64
	IsLiteral bool // not an inline constant; for printing
	literal   uint32

	Neg, Abs, Sext bool
}

// DPP is a selection of lanes.
type DPP struct {
	Control      uint16   // DPP16's: quad_perm, row_shl, row_ror, row_share …
	Lanes        [8]uint8 // DPP8's
	IsDPP8       bool
	RowMask      uint8
	BankMask     uint8
	BoundControl bool // bound_ctrl:1: a lane without a source reads 0; otherwise it keeps its result
	FetchInvalid bool // fi:1
}

// SDWA is a selection of a byte or a half of the result and of each operand.
type SDWA struct {
	Result, Src0, Src1 uint8 // 0–3 BYTE_0…3, 4 WORD_0, 5 WORD_1, 6 DWORD
	Unused             uint8 // 0 UNUSED_PAD, 1 UNUSED_SEXT, 2 UNUSED_PRESERVE
}
