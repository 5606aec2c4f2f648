package amd64

// encoding is one row of the table: how one form of an instruction is encoded.
type encoding struct {
	opcode uint8
	flags  flags
	tuple  tuple
	form   form
}

// instruction is a vector instruction: its name, its name in VEX if that is another,
// and its encodings. The first encoding that fits is used.
type instruction struct {
	name, vexName string
	encodings     []encoding
}

// flags are the prefix, the opcode map and the properties of an encoding.
type flags uint32

const (
	np, p66, pF3, pF2 flags = 0, 1, 2, 3 // the implied prefix
	ppMask            flags = 3

	mapShift            = 2
	m0F, m38, m3A flags = 1 << mapShift, 2 << mapShift, 3 << mapShift // the opcode map
	mapMask       flags = 3 << mapShift
)

const (
	inVEX      flags = 1 << (4 + iota)
	inEVEX           // has an EVEX encoding
	vexW1            // W is 1 in VEX
	w1               // W is 1 in EVEX
	vexL1            // L is 1 in VEX at any width
	b32              // memory can be one element of 32 bits, broadcast
	b64              // memory can be one element of 64 bits, broadcast
	er               // rounding can be chosen
	sae              // exceptions can be suppressed
	noX              // no width of 128 bits
	noY              // no width of 256 bits
	noZ              // no width of 512 bits
	noMask           // takes no mask
	mustMask         // needs a mask, and merges
	hasDigit         // ModRM.reg is the digit
	reversible       // between registers, the opcode of the store does the same

	both   = inVEX | inEVEX
	scalar = noY | noZ

	digitShift = 24
	digit2     = hasDigit | 2<<digitShift
	digit3     = hasDigit | 3<<digitShift
	digit4     = hasDigit | 4<<digitShift
	digit6     = hasDigit | 6<<digitShift
	digit7     = hasDigit | 7<<digitShift
)

// tuple is the size of a memory operand in bytes, or its part of a vector. It is the
// unit of EVEX's displacements of 8 bits.
type tuple uint8

const (
	full    tuple = 255 - iota // the whole vector
	half                       // a half of it
	quarter                    // a quarter
	eighth                     // an eighth
)

// form holds the slots of up to four operands, the first in the low byte.
type form uint32

// slot says where in an encoding an operand goes and what it may be.
type slot uint8

const (
	inReg  slot = 1 // ModRM.reg
	inVvvv slot = 2 // the prefix's vvvv
	inRM   slot = 3 // ModRM.rm
	inImm  slot = 4 // an immediate of 8 bits
	inIs4  slot = 5 // the upper four bits of an immediate
)

const (
	classNone       slot = iota << 3 // memory or an immediate
	classVec                         // a vector of the instruction's width
	classVecHalf                     // one of half of it, 128 bits at least
	classVecQuarter                  // one of a quarter
	classVecEighth                   // one of an eighth
	classVecX                        // one of 128 bits
	classVecY                        // one of 256 bits
	classReg32                       // a general register, 32 bits
	classReg64                       // a general register, 64 bits
	classMask                        // a mask register
	classVSIB                        // memory indexed by a vector

	orMem slot = 0x80 // or memory
)

func (s slot) place() slot { return s & 7 }
func (s slot) class() slot { return s & 0x78 }

// The slots of the forms.
const (
	rVec     = form(inReg | classVec)
	rHalf    = form(inReg | classVecHalf)
	rMask    = form(inReg | classMask)
	rReg32   = form(inReg | classReg32)
	vVec     = form(inVvvv | classVec)
	vMask    = form(inVvvv | classMask)
	mVec     = form(inRM | classVec | orMem)
	mVecOnly = form(inRM | classVec)
	mHalf    = form(inRM | classVecHalf | orMem)
	mQuarter = form(inRM | classVecQuarter | orMem)
	mEighth  = form(inRM | classVecEighth | orMem)
	mX       = form(inRM | classVecX | orMem)
	mY       = form(inRM | classVecY | orMem)
	mMem     = form(inRM | classNone | orMem)
	mVSIB    = form(inRM | classVSIB)
	mReg32   = form(inRM | classReg32)
	mReg64   = form(inRM | classReg64)
	mMask    = form(inRM | classMask)
	imm8     = form(inImm)
	is4      = form(inIs4 | classVec)
	mem      = form(orMem)
)

// The forms. A letter is an operand: r, v, m and i are a vector in ModRM.reg, a
// vector in vvvv, a vector or memory in ModRM.rm, and an immediate; x and y are
// vectors of 128 and 256 bits or memory in ModRM.rm; k is a mask and g a general
// register in ModRM.reg.
const (
	rm          = rVec | mVec<<8
	rmHalf      = rVec | mHalf<<8
	rmQuarter   = rVec | mQuarter<<8
	rmEighth    = rVec | mEighth<<8
	rmX         = rVec | mX<<8
	rHalfM      = rHalf | mVec<<8
	mrHalf      = mHalf | rVec<<8
	mrQuarter   = mQuarter | rVec<<8
	rmi         = rm | imm8<<16
	mriHalf     = mrHalf | imm8<<16
	rvm         = rVec | vVec<<8 | mVec<<16
	rvx         = rVec | vVec<<8 | mX<<16
	rvr         = rVec | vVec<<8 | mVecOnly<<16
	rvmi        = rvm | imm8<<24
	rvxi        = rvx | imm8<<24
	rvyi        = rVec | vVec<<8 | mY<<16 | imm8<<24
	rvm4        = rvm | is4<<24
	vri         = vVec | mVecOnly<<8 | imm8<<16
	vmi         = vVec | mVec<<8 | imm8<<16
	xri         = mX | rVec<<8 | imm8<<16
	yri         = mY | rVec<<8 | imm8<<16
	kvm         = rMask | vVec<<8 | mVec<<16
	kvmi        = kvm | imm8<<24
	kmi         = rMask | mVec<<8 | imm8<<16
	gv          = rReg32 | mVecOnly<<8
	gvi         = gv | imm8<<16
	loadRM      = rVec | mMem<<8
	storeMR     = mMem | rVec<<8
	storeMRi    = storeMR | imm8<<16
	loadRVM     = rVec | vVec<<8 | mMem<<16
	storeMVR    = mMem | vVec<<8 | rVec<<16
	gatherVEX   = rVec | mVSIB<<8 | vVec<<16
	gatherEVEX  = rVec | mVSIB<<8
	scatterEVEX = mVSIB | rVec<<8
	rmReg32     = rVec | (mReg32|mem)<<8
	mrReg32     = mReg32 | mem | rVec<<8
	rmReg64     = rVec | (mReg64|mem)<<8
	mrReg64     = mReg64 | mem | rVec<<8
	rr          = rVec | mVecOnly<<8
	rReg32_     = rVec | mReg32<<8
	rReg64      = rVec | mReg64<<8
	rvReg32i    = rVec | vVec<<8 | (mReg32|mem)<<16 | imm8<<24
	rvReg64i    = rVec | vVec<<8 | (mReg64|mem)<<16 | imm8<<24
	reg32Ri     = mReg32 | mem | rVec<<8 | imm8<<16
	reg64Ri     = mReg64 | mem | rVec<<8 | imm8<<16
	kkm         = rMask | (mMask|mem)<<8
	storeMK     = mMem | rMask<<8
	kReg32      = rMask | mReg32<<8
	kReg64      = rMask | mReg64<<8
	reg32K      = rReg32 | mMask<<8
	reg64K      = form(inReg|classReg64) | mMask<<8
	kk          = rMask | mMask<<8
	kkk         = rMask | vMask<<8 | mMask<<16
	kki         = kk | imm8<<16
	rk          = rVec | mMask<<8
	kr          = rMask | mVecOnly<<8
)
