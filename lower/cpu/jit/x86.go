package jit

import (
	"fmt"

	. "tokitai/lower/cpu/asm/amd64"
)

// x86 makes instructions of amd64: AVX2 with FMA and F16C, or AVX-512.
//
// RDI holds the address of the worker's memory, RCX the column of a loop, RDX the lane of
// that column. Pointers to arrays take the other registers, as far as they go; RAX and RSI
// are free for single instructions.
type x86 struct {
	*Assembler
	isWide   bool // AVX-512
	streams  bool // operands are stored past the caches
	l        *layout
	width    Width
	pointers map[int]Reg // by array, in a loop
	sums     map[int]Reg // by row sum: pointers to lanes
	hasSums  bool
	next     map[int]Reg // by array: pointers to the next row
}

var pointerRegs = [...]Reg{R8, R9, R10, R11, R12, R13, R15, RBX}

// tailMask is the mask of the lanes that are left of a row.
const tailMask = K7

func newX86(l *layout, isWide bool) *x86 {
	t := &x86{Assembler: New(), isWide: isWide, l: l, width: Y}
	if isWide {
		t.width = Z
	} else {
		t.VEXOnly = true
	}
	return t
}

func (t *x86) lanes() int       { return t.width.Bytes() / 4 }
func (t *x86) roundsHigh() bool { return t.isWide }

// registers leaves three for sequences of instructions.
func (t *x86) registers() int {
	if t.isWide {
		return 29
	}
	return 13
}

// scratch returns one of the three registers that belong to no value.
func (t *x86) scratch(i int) Vec { return Vec(t.registers() + i) }

// vec emits an instruction on whole vectors.
func (t *x86) vec(op Op, operands ...Operand) { t.V(op, t.width, operands...) }

func (t *x86) at(p place) Mem { return At(RDI, int32(p)) }

// operand returns a register or memory.
func (t *x86) operand(a argument) Operand {
	if a.isMemory() {
		return t.at(a.place)
	}
	return Vec(a.register)
}

// binary are the instructions with two sources, the second of which may be in memory. The
// bool says that the sources may be exchanged.
var binary = map[opcode]struct {
	op       Op
	commutes bool
}{
	opAdd: {VADDPS, true}, opSub: {VSUBPS, false}, opMul: {VMULPS, true}, opDiv: {VDIVPS, false},
	opMinOf: {VMINPS, false}, opMaxOf: {VMAXPS, false},
	opIntAdd: {VPADDD, true}, opIntSub: {VPSUBD, false}, opIntMul: {VPMULLD, true},
	opAnd: {VPANDD, true}, opOr: {VPORD, true}, opXor: {VPXORD, true},
	opShl: {VPSLLVD, false}, opShr: {VPSRAVD, false}, opShrU: {VPSRLVD, false},
}

// unary are the instructions with one source, which may be in memory.
var unary = map[opcode]Op{opSqrt: VSQRTPS, opIntToFloat: VCVTDQ2PS}

// folds implements target.
func (t *x86) folds(in *instruction, inMemory [4]bool) (stays [4]bool) {
	if b, ok := binary[in.op]; ok {
		switch {
		case inMemory[1]:
			stays[1] = true
		case b.commutes:
			stays[0] = inMemory[0]
		}
		return stays
	}
	if _, ok := unary[in.op]; ok {
		stays[0] = inMemory[0]
		return stays
	}
	switch in.op {
	case opFMA:
		for _, k := range [...]int{2, 1, 0} {
			if inMemory[k] {
				stays[k] = true
				return stays
			}
		}
	case opSelect: // b with the comparison, c with the choice
		stays[1] = inMemory[1] && in.pred != belowUnsigned && (t.isWide || in.pred < intLess)
		stays[2] = inMemory[2] && (t.isWide || !in.pred.isInverted())
	}
	return stays
}

// isInverted reports whether AVX2 finds the opposite of a predicate.
func (p predicate) isInverted() bool {
	return p == intLessEqual || p == intNotEqual || p == belowUnsigned
}

// writesEarly implements target.
func (t *x86) writesEarly(op opcode) bool {
	switch op {
	case opMin, opMax, opFloatToInt, opMulHigh, opTree, opRoundHigh:
		return true
	}
	return false
}

func (t *x86) load(dst int, from place) { t.vec(VMOVUPS, Vec(dst), t.at(from)) }
func (t *x86) save(to place, src int)   { t.vec(VMOVUPS, t.at(to), Vec(src)) }
func (t *x86) note(text string)         { t.Comment("%s", text) }

func (t *x86) move(dst, src int) {
	if dst != src {
		t.vec(VMOVAPS, Vec(dst), Vec(src))
	}
}

// carry implements target.
func (t *x86) carry(dst, src int, m mode) {
	if m == masked {
		t.vec(VMOVAPS, Vec(dst), Vec(src), Merge(tailMask))
		return
	}
	t.move(dst, src)
}

// emit implements target.
func (t *x86) emit(in *instruction, dst int, args [4]argument, at position) {
	d := Vec(dst)
	arg := func(i int) Operand { return t.operand(args[i]) }
	reg := func(i int) Vec { return Vec(args[i].register) }
	if b, ok := binary[in.op]; ok {
		if args[0].isMemory() {
			t.vec(b.op, d, reg(1), arg(0))
		} else {
			t.vec(b.op, d, reg(0), arg(1))
		}
		return
	}
	if op, ok := unary[in.op]; ok {
		t.vec(op, d, arg(0))
		return
	}
	switch in.op {
	case opMove:
		t.move(dst, args[0].register)
	case opFMA:
		t.fma(dst, args)
	case opMin, opMax:
		t.extreme(in.op == opMax, d, reg(0), reg(1))
	case opRint:
		if t.isWide {
			t.vec(VRNDSCALEPS, d, reg(0), Imm(8))
		} else {
			t.vec(VROUNDPS, d, reg(0), Imm(8))
		}
	case opAddOnce:
		b := reg(1)
		if at.mode == single {
			b = t.scratch(0)
			t.vec(VPXORD, b, b, b)
			t.vec(VBLENDPS, b, b, reg(1), Imm(1))
		}
		t.vec(VPADDD, d, reg(0), b)
	case opAndNot:
		t.vec(VPANDND, d, reg(1), reg(0))
	case opShlBy:
		t.vec(VPSLLD, d, reg(0), Imm(int64(in.imm)))
	case opShrBy:
		t.vec(VPSRAD, d, reg(0), Imm(int64(in.imm)))
	case opShrUBy:
		t.vec(VPSRLD, d, reg(0), Imm(int64(in.imm)))
	case opMulHigh:
		t.mulHigh(d, reg(0), reg(1))
	case opFloatToInt:
		t.floatToInt(d, reg(0))
	case opRoundF16:
		half := t.scratch(0)
		t.vec(VCVTPS2PH, half, reg(0), Imm(0))
		t.vec(VCVTPH2PS, d, half)
	case opRoundHigh:
		t.roundHigh(d, reg(0))
	case opMask:
		t.mask(d, in.pred, reg(0), reg(1))
	case opSelect:
		t.choose(d, in.pred, reg(0), arg(1), arg(2), reg(3))
	case opBlend:
		t.blend(dst, args)
	case opLoad:
		t.loadArray(d, in, at)
	case opStore:
		t.storeArray(reg(0), in, at)
	case opLoadOne:
		t.G(MOV, 64, RSI, t.at(t.l.arrays[in.array].pointer))
		t.loadOne(d, At(RSI, 0), in.format, in.isInt)
	case opStoreOne:
		t.G(MOV, 64, RSI, t.at(t.l.arrays[in.array].pointer))
		t.storeOne(reg(0), At(RSI, 0), in.format)
	case opLoadPartner:
		t.loadPartner(d, in, at)
	case opLoadAt:
		t.loadAt(d, reg(0), in)
	case opFindRow:
		t.findRow(reg(0), in)
	case opColumn:
		t.column(d, at)
	case opAddTo:
		t.addTo(t.element(in.array, 4, at), reg(0), at.mode, in.isInt)
	case opAddLane:
		t.addLane(int(in.imm), reg(0), at)
	case opSwap:
		t.swap(d, reg(0), int(in.imm))
	case opTree:
		t.tree(d, int(in.imm))
	default:
		panic("jit: no instruction for " + in.op.String())
	}
}

// fma makes dst = a·b + c. An instruction overwrites one of its sources.
func (t *x86) fma(dst int, args [4]argument) {
	a, b, c := args[0], args[1], args[2]
	if b.register == dst || a.isMemory() && !b.isMemory() {
		a, b = b, a // a product commutes; memory goes to b
	}
	d := Vec(dst)
	switch {
	case a.register == dst && b.isMemory():
		t.vec(VFMADD132PS, d, t.operand(c), t.operand(b))
	case a.register == dst:
		t.vec(VFMADD213PS, d, t.operand(b), t.operand(c))
	case c.isMemory():
		t.move(dst, a.register)
		t.vec(VFMADD213PS, d, t.operand(b), t.operand(c))
	default:
		t.move(dst, c.register)
		t.vec(VFMADD231PS, d, t.operand(a), t.operand(b))
	}
}

// extreme makes the minimum or maximum of any two numbers.
func (t *x86) extreme(isMax bool, d, a, b Vec) {
	if t.isWide {
		how := Imm(0b0100) // the minimum, with its sign
		if isMax {
			how = 0b0101
		}
		t.vec(VRANGEPS, d, a, b, how)
		t.vec(VCMPPS, K1, a, b, Imm(unordered))
		t.vec(VADDPS, d, a, b, Merge(K1)) // NaN
		return
	}
	// Each instruction gives its second source for two zeros; both together have the
	// bits of either. For NaN, all ones.
	op, both := VMINPS, VORPS
	if isMax {
		op, both = VMAXPS, VANDPS
	}
	s := t.scratch(0)
	t.vec(op, d, a, b)
	t.vec(op, s, b, a)
	t.vec(both, d, d, s)
	t.vec(VCMPPS, s, a, b, Imm(unordered))
	t.vec(VORPS, d, d, s)
}

// Comparisons of floats, as instructions number them.
const (
	orderedLess      = 0x11
	orderedLessEqual = 0x12
	orderedEqual     = 0x00
	unordered        = 0x03
	unorderedUnequal = 0x04
	ordered          = 0x07
	orderedGreaterEq = 0x1d
)

var floatPredicates = [...]Imm{less: orderedLess, lessEqual: orderedLessEqual, equal: orderedEqual, notEqual: unorderedUnequal}

// compareWide makes a mask register.
func (t *x86) compareWide(k Mask, p predicate, a Vec, b Operand) {
	switch p {
	case intLess:
		t.vec(VPCMPD, k, a, b, Imm(1))
	case intLessEqual:
		t.vec(VPCMPD, k, a, b, Imm(2))
	case intEqual:
		t.vec(VPCMPD, k, a, b, Imm(0))
	case intNotEqual:
		t.vec(VPCMPD, k, a, b, Imm(4))
	case belowUnsigned:
		t.vec(VPCMPUD, k, a, b, Imm(1))
	default:
		t.vec(VCMPPS, k, a, b, floatPredicates[p])
	}
}

// compareNarrow makes a vector of ones and zeros, of the opposite if the predicate is
// inverted.
func (t *x86) compareNarrow(d Vec, p predicate, a Vec, b Operand) {
	switch p {
	case intLess:
		t.vec(VPCMPGTD, d, b.(Vec), a)
	case intLessEqual: // not a > b
		t.vec(VPCMPGTD, d, a, b)
	case intEqual, intNotEqual:
		t.vec(VPCMPEQD, d, a, b)
	case belowUnsigned: // not b = min(a, b)
		t.vec(VPMINUD, t.scratch(1), a, b)
		t.vec(VPCMPEQD, d, t.scratch(1), b)
	default:
		t.vec(VCMPPS, d, a, b, floatPredicates[p])
	}
}

func (t *x86) mask(d Vec, p predicate, a, b Vec) {
	if t.isWide {
		t.compareWide(K1, p, a, b)
		t.vec(VPMOVM2D, d, K1)
		return
	}
	t.compareNarrow(d, p, a, b)
	if p.isInverted() {
		t.vec(VPCMPEQD, t.scratch(0), t.scratch(0), t.scratch(0))
		t.vec(VPXORD, d, d, t.scratch(0))
	}
}

func (t *x86) choose(d Vec, p predicate, a Vec, b, yes Operand, no Vec) {
	if t.isWide {
		t.compareWide(K1, p, a, b)
		t.vec(VBLENDMPS, d, no, yes, Merge(K1))
		return
	}
	s := t.scratch(0)
	t.compareNarrow(s, p, a, b)
	if p.isInverted() {
		t.vec(VBLENDVPS, d, yes.(Vec), no, s)
	} else {
		t.vec(VBLENDVPS, d, no, yes, s)
	}
}

// blend makes a choice by the bits of a mask.
func (t *x86) blend(dst int, args [4]argument) {
	mask, yes, no := args[0].register, args[1].register, args[2].register
	switch {
	case !t.isWide:
		t.vec(VBLENDVPS, Vec(dst), Vec(no), Vec(yes), Vec(mask))
	case dst == yes:
		t.vec(VPTERNLOGD, Vec(dst), Vec(mask), Vec(no), Imm(bitsOfFirst))
	case dst == mask:
		t.vec(VPTERNLOGD, Vec(dst), Vec(yes), Vec(no), Imm(bitsBySelf))
	default:
		t.move(dst, no)
		t.vec(VPTERNLOGD, Vec(dst), Vec(mask), Vec(yes), Imm(bitsOfThird))
	}
}

// Functions of three bits, as tables by the bits of the destination, the first and the
// second source.
const (
	bitsOfFirst = 0b11100010 // first source ? destination : second
	bitsOfThird = 0b10111000 // first source ? second : destination
	bitsBySelf  = 0b11001010 // destination ? first source : second
)

// mulHigh makes the high halves of products: those of even lanes and of odd lanes.
func (t *x86) mulHigh(d, a, b Vec) {
	even, odd := t.scratch(0), t.scratch(1)
	t.vec(VPMULUDQ, even, a, b)
	t.vec(VPSRLQ, odd, a, Imm(32))
	t.vec(VPSRLQ, d, b, Imm(32))
	t.vec(VPMULUDQ, odd, odd, d)
	t.vec(VPSRLQ, d, even, Imm(32))
	if t.isWide {
		t.G(MOV, 32, RAX, Imm(0xaaaa))
		t.K(KMOVW, K1, RAX)
		t.vec(VMOVDQA32, d, odd, Merge(K1))
	} else {
		t.vec(VBLENDPS, d, d, odd, Imm(0xaa))
	}
}

// roundHigh adds just less than half of the last place, or half if that place is odd, and
// makes a NaN of every NaN.
func (t *x86) roundHigh(d, a Vec) {
	t.vec(VPTESTMD, K1, a, t.Uint32(1<<16).Broadcast())
	t.vec(VPADDD, d, a, t.Uint32(1<<15-1).Broadcast())
	t.vec(VPADDD, d, d, t.Uint32(1).Broadcast(), Merge(K1))
	t.vec(VFIXUPIMMPS, d, a, t.Uint32(nanToNaN).Broadcast(), Imm(0))
}

// nanToNaN is the table of an instruction that looks at the class of a number: it replaces
// what belongs to a quiet or signalling NaN, the first two entries, by a NaN.
const nanToNaN = 0x33

// floatToInt rounds toward zero. The instruction gives the least integer for everything
// that does not fit.
func (t *x86) floatToInt(d, a Vec) {
	s, limit := t.scratch(0), t.scratch(1)
	t.vec(VBROADCASTSS, limit, t.Float32(1<<31))
	t.vec(VCVTTPS2DQ, d, a)
	if t.isWide {
		t.vec(VCMPPS, K1, a, limit, Imm(orderedGreaterEq))
		t.vec(VPTERNLOGD, d, d, d, Imm(0x55), Merge(K1)) // not d
		t.vec(VCMPPS, K1, a, a, Imm(ordered))
		t.vec(VMOVDQA32, d, d, Zero(K1))
		return
	}
	t.vec(VCMPPS, s, a, limit, Imm(orderedGreaterEq))
	t.vec(VPXORD, d, d, s)
	t.vec(VCMPPS, s, a, a, Imm(ordered))
	t.vec(VPANDD, d, d, s)
}

// clear implements target.
func (t *x86) clear(sum int) {
	zero := t.scratch(0)
	again := t.Label()
	t.vec(VPXORD, zero, zero, zero)
	t.G(MOV, 64, RAX, t.at(t.l.sums[sum]))
	t.G(MOV, 64, RCX, t.at(wordVectors))
	t.Bind(again)
	t.vec(VMOVUPS, At(RAX, 0), zero)
	t.G(ADD, 64, RAX, Imm(int64(t.width.Bytes())))
	t.G(DEC, 64, RCX)
	t.J(NotEqual, again)
}

// finish implements target.
func (t *x86) finish() ([]byte, error) {
	code, err := t.Finish()
	if err != nil {
		return nil, fmt.Errorf("jit: %w", err)
	}
	return code, nil
}

func (t *x86) listing() string { return t.Listing() }
