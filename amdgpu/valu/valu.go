// Package valu computes the vector arithmetic of AMD's GPUs: what VOP1, VOP2, VOP3, VOP3P
// and VOPC instructions make of their operands, for all lanes of a wave at once.
//
// It knows values, not registers' numbers: package wave fetches the operands, calls a Func,
// and stores the results in the lanes that are active. The semantics are those of AMD's
// documents of the instruction sets (RDNA 3, CDNA 2 and CDNA 3).
//
// Package wave applies neg, abs and sext of VOP1, VOP2, VOP3 and VOPC, and the selections of
// DPP, of SDWA and of halves: a 16-bit operand arrives in the lower half of its register (the
// upper half is ignored). Package valu applies op_sel, op_sel_hi, neg_lo and neg_hi of VOP3P,
// whose operands arrive as whole registers, and clamp and omod of every encoding.
//
// Where the documents leave something open, or cannot be meant:
//
//   - Arithmetic on NaNs returns the first NaN operand, made quiet; an invalid operation returns
//     the positive quiet NaN without a payload (v_div_fixup: the negative one, as documented).
//   - v_div_scale scales the denominator of a subnormal quotient down, v_div_fmas scales by
//     2**±64 (binary64: 2**±128) as the quotient's exponent says and rounds once, and
//     v_div_fixup returns an overflow where the quotient is lost: LLVM's division, which is
//     correctly rounded, rests on these.
//   - v_fma_mixlo_f16 and v_fma_mixhi_f16 round to binary32, then to binary16, as documented.
//   - v_fract returns less than 1, and v_rndne keeps the sign of a zero, as LLVM takes them to.
//   - Dot products of floating-point numbers are left out: how they round is not documented.
//
// Instructions that move values between lanes or registers (v_readlane_b32, v_mbcnt_lo_u32_b32,
// v_permlane16_b32, v_movrels_b32, v_swap_b32 …) are package wave's.
package valu

import "tokitai/amdgpu/isa"

// Register is one register of all lanes.
type Register [64]uint32

// Mode is the part of the MODE register that arithmetic depends on.
type Mode struct {
	Round32, Round64   uint8 // 0 to nearest even, 1 up, 2 down, 3 toward zero; 64 is also of binary16
	Denorm32, Denorm64 uint8 // bit 0 set: operands are kept; bit 1 set: results are kept
	IEEE, DX10Clamp    bool
}

// Type is the type of an operand or a result.
type Type uint8

// The types. Types of 64 bits and the packed pairs of 32 bits take two registers, all others
// one. B types are bits without a meaning; neg and abs act on their sign bit as on that of a
// floating-point number of that width (v_cndmask_b32).
const (
	NoType Type = iota
	Mask        // one bit per lane: a carry, a condition, a comparison's result
	B16
	I16
	U16
	F16
	BF16
	B32
	I32
	U32
	F32
	B64
	I64
	U64
	F64
	PKB16 // two of 16 bits in a register; VOP3P's, unless the instruction is a conversion
	PKI16
	PKU16
	PKF16
	PKBF16
	PKB32 // two registers
	PKF32
	PKI8 // four of 8 bits in a register
	PKU8
	PKI4 // eight of 4 bits in a register
	PKU4
	Mix // of v_fma_mix_f32 and its relatives: F32, or a half that is F16, as op_sel_hi says
)

// Words returns the number of registers that a value of the type takes, 0 for a Mask.
func (t Type) Words() int {
	switch t {
	case NoType, Mask:
		return 0
	case B64, I64, U64, F64, PKB32, PKF32:
		return 2
	}
	return 1
}

// Is16 reports whether the type has 16 bits, so that it takes one half of a register.
func (t Type) Is16() bool { return t >= B16 && t <= BF16 }

// IsFloat reports whether neg, abs, clamp and omod act on values of the type as on
// floating-point numbers.
func (t Type) IsFloat() bool {
	switch t {
	case F16, BF16, F32, F64, PKF16, PKBF16, PKF32, Mix:
		return true
	}
	return false
}

// Placement says which bits of the result's register a result of 16 bits is stored in.
type Placement uint8

// The placements.
const (
	// WholeRegister stores 32 bits: the upper half is cleared. Where the instruction selects
	// the upper half (gfx9's op_sel), the lower half is kept instead.
	WholeRegister Placement = iota
	// OneHalf stores the half that the instruction selects, the lower one by default, and
	// keeps the other.
	OneHalf
	// UpperHalf stores the upper half and keeps the lower one (v_fma_mixhi_f16).
	UpperHalf
)

// Op describes an instruction.
type Op struct {
	Name string

	// Sources has the types of the instruction's operands, in the order of
	// isa.Instruction.Operands. A Mask among them is passed as Call.In, the others in order
	// as Call.Source.
	Sources []Type

	Result    Type // Mask for comparisons: the result is Call.Out
	Placement Placement

	Carry       bool // a lane mask is a second result: Call.Out
	ReadsResult bool // the result's old value is one more source, after Sources (v_fmac_f32)
	ReadsVCC    bool // vcc is read without being an operand, as Call.In (v_div_fmas_f32)
	WritesExec  bool // a comparison whose result goes to exec (v_cmpx)

	lane laneFunc           // computes one lane
	fast func(c *Call) bool // computes all lanes, or returns false to leave it to lane
	bind func(in *isa.Instruction) (Func, error)
}

// Call holds the operands and the results of one execution of an instruction. Words of a value
// are in the order of the registers: the lower one first.
type Call struct {
	Lanes int // 32 or 64
	Mode  Mode
	Seed  uint64 // varies results that AMD documents only within an error; 0 is the nearest value

	Source [3][2]*Register // as many as Op.Sources has besides masks, and the old result
	In     uint64          // the mask that is read

	// Result's registers may be those of sources: a Func reads all words of a lane before it
	// stores that lane. All lanes below Lanes are stored; a result of 16 bits has zeros above it.
	Result [2]*Register
	Out    uint64 // the mask, of operations that compute one: bits of all lanes below Lanes, zero above

	scratch [4]Register // of loops that compute in steps
}

// Func computes the results of all lanes.
type Func func(c *Call)

// Lookup returns the operation with isa's name ("v_add_f32", without an encoding's suffix),
// or false if valu does not have it. The prefix v_dual_ of a pair's halves is allowed.
func Lookup(family isa.Family, name string) (*Op, bool) {
	if int(family) >= len(tables) {
		return nil, false
	}
	op, ok := tables[family][trimDual(name)]
	return op, ok
}

// Bind returns the function for an instruction, with its modifiers applied: clamp, omod and
// those of VOP3P. It returns an error for modifiers that the operation does not have.
func (op *Op) Bind(in *isa.Instruction) (Func, error) { return op.bind(in) }
