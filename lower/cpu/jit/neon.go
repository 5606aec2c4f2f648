package jit

import (
	"fmt"

	. "tokitai/lower/cpu/asm/arm64"
	"tokitai/num"
)

// neon makes instructions of arm64. Instructions on vectors take registers alone.
//
// X0 holds the address of the worker's memory. In a loop, X1 holds the column, X2 the address of its
// lane relative to the first one, X5 the number of columns and X6 the lanes of a row sum less
// one; the other registers hold pointers to the arrays at the loop's column, as far as they go. X3 and X4 are
// free for single instructions.
//
// Outputs are never stored past the caches: a core sees by itself that whole lines are
// written.
type neon struct {
	*Assembler
	l        *layout
	arrays   []int       // of the loop
	pointers map[int]Reg // by array: the element at the loop's column
	sums     map[int]Reg // by row sum: the first lane
	hasSums  bool
}

// neonPointers are the registers that may hold pointers: X18 and X28 to X30 belong to
// others.
var neonPointers = [...]Reg{X7, X8, X9, X10, X11, X12, X13, X14, X15, X16, X17, X19, X20, X21, X22, X23, X24, X25, X26, X27}

func newNEON(l *layout) *neon { return &neon{Assembler: New(), l: l} }

func (t *neon) lanes() int { return 4 }

func (t *neon) stream(bool) {}

func (t *neon) roundsHigh() bool { return false }

// vectorBytes is the size of a vector.
const vectorBytes = 16

// registers leaves two for sequences of instructions.
func (t *neon) registers() int { return 30 }

// scratch returns one of the two registers that belong to no value.
func (t *neon) scratch(i int) Vec { return Vec(t.registers() + i) }

// folds implements target.
func (t *neon) folds(*instruction, [4]bool) (stays [4]bool) { return stays }

// writesEarly implements target.
func (t *neon) writesEarly(opcode) bool { return false }

func (t *neon) word(p place) Mem { return At(X0, int64(p)) }

func (t *neon) load(dst int, from place) { t.I(LDR, Vec(dst).As(Q1), t.word(from)) }
func (t *neon) save(to place, src int)   { t.I(STR, Vec(src).As(Q1), t.word(to)) }
func (t *neon) note(text string)         { t.Comment("%s", text) }

func (t *neon) move(dst, src int) {
	if dst != src {
		t.V(MOV, B16, Vec(dst), Vec(src))
	}
}

// carry implements target. Where one element is in all lanes, so is the state.
func (t *neon) carry(dst, src int, _ mode) { t.move(dst, src) }

// neonOps are the operations that are one instruction.
var neonOps = map[opcode]struct {
	op Op
	t  Arrangement
}{
	opAdd: {FADD, S4}, opSub: {FSUB, S4}, opMul: {FMUL, S4}, opDiv: {FDIV, S4}, opSqrt: {FSQRT, S4},
	opMin: {FMIN, S4}, opMax: {FMAX, S4}, opMinOf: {FMIN, S4}, opMaxOf: {FMAX, S4}, opRint: {FRINTN, S4},
	opIntAdd: {ADD, S4}, opIntSub: {SUB, S4}, opIntMul: {MUL, S4},
	opAnd: {AND, B16}, opAndNot: {BIC, B16}, opOr: {ORR, B16}, opXor: {EOR, B16},
	opShl: {USHL, S4}, opIntToFloat: {SCVTF, S4}, opFloatToInt: {FCVTZS, S4},
}

// neonShifts are the shifts by a constant.
var neonShifts = map[opcode]Op{opShlBy: SHL, opShrBy: SSHR, opShrUBy: USHR}

// emit implements target.
func (t *neon) emit(in *instruction, dst int, args [4]argument, at position) {
	d := Vec(dst)
	reg := func(i int) Vec { return Vec(args[i].register) }
	if x, ok := neonOps[in.op]; ok {
		regs := []Vec{d, reg(0)}
		if in.args[1] != none {
			regs = append(regs, reg(1))
		}
		t.V(x.op, x.t, regs...)
		return
	}
	s := t.scratch(0)
	switch in.op {
	case opMove:
		t.move(dst, args[0].register)
	case opFMA:
		t.fma(d, reg(0), reg(1), reg(2))
	case opAddOnce:
		b := reg(1)
		if at.mode == single {
			b = s
			t.I(LDR, s.As(Q1), t.Constant([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, vectorBytes))
			t.V(AND, B16, s, s, reg(1))
		}
		t.V(ADD, S4, d, reg(0), b)
	case opShr, opShrU: // a shift to the left by less than nothing
		op := SSHL
		if in.op == opShrU {
			op = USHL
		}
		t.V(NEG, S4, s, reg(1))
		t.V(op, S4, d, reg(0), s)
	case opShlBy, opShrBy, opShrUBy:
		if in.imm == 0 {
			t.move(dst, args[0].register)
			return
		}
		t.I(neonShifts[in.op], d.As(S4), reg(0).As(S4), Imm(in.imm))
	case opMulHigh: // the products of the lower and the upper lanes, and their upper halves
		t.I(UMULL, s.As(D2), reg(0).As(S2), reg(1).As(S2))
		t.I(UMULL2, t.scratch(1).As(D2), reg(0).As(S4), reg(1).As(S4))
		t.V(UZP2, S4, d, s, t.scratch(1))
	case opRoundF16:
		t.I(FCVTN, s.As(H4), reg(0).As(S4))
		t.I(FCVTL, d.As(S4), s.As(H4))
	case opMask:
		if t.compare(d, in.pred, reg(0), reg(1)) {
			t.V(MVN, B16, d, d)
		}
	case opSelect:
		t.choose(d, reg(2), reg(3), func(mask Vec) bool { return t.compare(mask, in.pred, reg(0), reg(1)) })
	case opBlend:
		t.choose(d, reg(1), reg(2), func(mask Vec) bool {
			t.I(CMLT, mask.As(S4), reg(0).As(S4), Imm(0))
			return false
		})
	case opLoad:
		t.loadArray(d, in, at)
	case opStore:
		t.storeArray(reg(0), in, at)
	case opLoadOne:
		t.I(LDR, X3, t.word(t.l.arrays[in.array].pointer))
		t.loadOne(d, X3, in.format, in.isInt)
	case opStoreOne:
		t.I(LDR, X3, t.word(t.l.arrays[in.array].pointer))
		t.storeOne(reg(0), X3, in.format)
	case opLoadPartner:
		t.loadPartner(d, in, at)
	case opLoadAt:
		t.loadAt(d, reg(0), in)
	case opFindRow:
		t.findRow(reg(0), in)
	case opColumn:
		t.column(d, at)
	case opAddTo:
		t.addTo(t.element(in.array, 4), at.copy*t.lanes(), reg(0), at.mode, in.isInt)
	case opAddLane:
		t.addTo(t.laneAddress(int(in.imm)), t.l.laneOf(at.copy, t.lanes()), reg(0), at.mode, false)
	case opSwap:
		t.swap(d, reg(0), int(in.imm))
	case opTree:
		t.tree(d, int(in.imm))
	default:
		panic("jit: no instruction for " + in.op.String())
	}
}

// fma makes d = a·b + c. The instruction adds to its destination.
func (t *neon) fma(d, a, b, c Vec) {
	switch d {
	case c:
		t.V(FMLA, S4, d, a, b)
	case a, b:
		s := t.scratch(0)
		t.move(int(s), int(c))
		t.V(FMLA, S4, s, a, b)
		t.move(int(d), int(s))
	default:
		t.move(int(d), int(c))
		t.V(FMLA, S4, d, a, b)
	}
}

// compare makes a mask of ones and zeros. It reports whether the mask is of the opposite
// predicate.
func (t *neon) compare(d Vec, p predicate, a, b Vec) (isInverted bool) {
	switch p {
	case less:
		t.V(FCMGT, S4, d, b, a)
	case lessEqual:
		t.V(FCMGE, S4, d, b, a)
	case equal, notEqual:
		t.V(FCMEQ, S4, d, a, b)
	case intLess:
		t.V(CMGT, S4, d, b, a)
	case intLessEqual:
		t.V(CMGE, S4, d, b, a)
	case intEqual, intNotEqual:
		t.V(CMEQ, S4, d, a, b)
	case belowUnsigned:
		t.V(CMHI, S4, d, b, a)
	}
	return p == notEqual || p == intNotEqual
}

// choose makes d = mask ? yes : no. The function makes the mask, and reports whether it is
// the opposite. Which instruction fits depends on the register that d shares.
func (t *neon) choose(d, yes, no Vec, mask func(Vec) bool) {
	m := t.scratch(0)
	if d != yes && d != no {
		m = d
	}
	if mask(m) {
		yes, no = no, yes
	}
	switch d {
	case m:
		t.V(BSL, B16, d, yes, no)
	case no:
		t.V(BIT, B16, d, yes, m)
	default:
		t.V(BIF, B16, d, no, m)
	}
}

// swap exchanges lanes at a distance.
func (t *neon) swap(d, a Vec, distance int) {
	if distance == 1 {
		t.V(REV64, S4, d, a)
		return
	}
	t.I(EXT, d.As(B16), a.As(B16), a.As(B16), Imm(8))
}

// tree adds up the lanes of a row sum as neighbours: first vectors with vectors, level by
// level, then within the last one.
func (t *neon) tree(d Vec, sum int) {
	const from, to, vectors, pairs, first = X7, X8, X9, X10, X11 // no loop runs
	x, y := t.scratch(0), t.scratch(1)
	level, pair, done := t.Label(), t.Label(), t.Label()
	t.I(LDR, first, t.word(t.l.sums[sum]))
	t.I(LDR, vectors, t.word(wordVectors))
	t.Bind(level)
	t.I(LSR, vectors, vectors, Imm(1))
	t.I(CBZ, vectors, done)
	t.I(MOV, from, first)
	t.I(MOV, to, first)
	t.I(MOV, pairs, vectors)
	t.Bind(pair)
	t.I(LDP, x.As(Q1), y.As(Q1), PostIndex(from, 2*vectorBytes))
	t.V(FADDP, S4, x, x, y)
	t.I(STR, x.As(Q1), PostIndex(to, vectorBytes))
	t.I(SUBS, pairs, pairs, Imm(1))
	t.I(BCOND, NE, pair)
	t.I(B, level)
	t.Bind(done)
	t.I(LDR, d.As(Q1), At(first, 0))
	t.V(FADDP, S4, d, d, d)
	t.V(FADDP, S4, d, d, d)
}

// function implements target.
func (t *neon) function(name string) int {
	t.Align(16)
	t.Comment("function %s", name)
	return t.Len()
}

// endFunction implements target.
func (t *neon) endFunction() { t.I(RET) }

// rows implements target.
func (t *neon) rows(body func()) {
	again := t.Label()
	t.Bind(again)
	body()
	for i := range t.l.arrays {
		if a := &t.l.arrays[i]; a.stride != 0 {
			t.I(LDR, X3, t.word(a.pointer))
			t.I(LDR, X4, t.word(a.stride))
			t.I(ADD, X3, X3, X4)
			t.I(STR, X3, t.word(a.pointer))
		}
	}
	t.I(LDR, X3, t.word(wordRows))
	t.I(SUBS, X3, X3, Imm(1))
	t.I(STR, X3, t.word(wordRows))
	t.I(BCOND, NE, again)
}

// loop implements target.
func (t *neon) loop(arrays, sums, _ []int, isPart bool) {
	t.arrays, t.pointers, t.sums, t.hasSums = arrays, map[int]Reg{}, map[int]Reg{}, len(sums) > 0
	free := neonPointers[:]
	if isPart {
		t.I(LDR, X1, t.word(wordFirst))
	} else {
		t.I(MOVZ, X1, Imm(0))
	}
	for _, s := range sums {
		if len(free) > 0 {
			t.sums[s], free = free[0], free[1:]
			t.I(LDR, t.sums[s], t.word(t.l.sums[s]))
		}
	}
	for _, a := range arrays {
		if len(free) > 0 {
			t.pointers[a], free = free[0], free[1:]
			t.I(LDR, t.pointers[a], t.word(t.l.arrays[a].pointer))
			if isPart {
				t.I(ADD, t.pointers[a], t.pointers[a], X1, Lsl(t.l.arrays[a].format.Size()/2)) // log2 of 2 or 4
			}
		}
	}
	t.I(LDR, X5, t.word(wordCols))
	if t.hasSums {
		t.I(LDR, X6, t.word(wordMask))
	}
}

// clear implements target.
func (t *neon) clear(sum int) {
	zero, again := t.scratch(0), t.Label()
	t.I(MOVI, zero.As(S4), Imm(0))
	t.I(LDR, X3, t.word(t.l.sums[sum]))
	t.I(LDR, X4, t.word(wordVectors))
	t.Bind(again)
	t.I(STR, zero.As(Q1), PostIndex(X3, vectorBytes))
	t.I(SUBS, X4, X4, Imm(1))
	t.I(BCOND, NE, again)
}

// turns implements target.
func (t *neon) turns(vectors int, body func()) {
	again, done := t.Label(), t.Label()
	elements := vectors * t.lanes()
	t.I(ADD, X3, X1, Imm(elements))
	t.I(CMP, X3, X5)
	t.I(BCOND, HI, done)
	t.Align(16)
	t.Bind(again)
	t.lane()
	body()
	t.advance(elements)
	t.I(ADD, X3, X1, Imm(elements))
	t.I(CMP, X3, X5)
	t.I(BCOND, LS, again)
	t.Bind(done)
}

// advance moves the loop on.
func (t *neon) advance(elements int) {
	t.I(ADD, X1, X1, Imm(elements))
	for _, a := range t.arrays {
		if r, ok := t.pointers[a]; ok {
			t.I(ADD, r, r, Imm(elements*t.l.arrays[a].format.Size()))
		}
	}
}

// lane sets the lane of the loop's column.
func (t *neon) lane() {
	if t.hasSums {
		t.I(AND, X2, X1, X6)
		t.I(LSL, X2, X2, Imm(2))
	}
}

// tail implements target.
func (t *neon) tail(body func(mode)) {
	again, done := t.Label(), t.Label()
	t.I(CMP, X1, X5)
	t.I(BCOND, EQ, done)
	t.Bind(again)
	t.lane()
	body(single)
	t.advance(1)
	t.I(CMP, X1, X5)
	t.I(BCOND, NE, again)
	t.Bind(done)
}

// element returns a register that points to an array's element at the loop's column.
func (t *neon) element(array, size int) Reg {
	if r, ok := t.pointers[array]; ok {
		return r
	}
	t.I(LDR, X3, t.word(t.l.arrays[array].pointer))
	t.I(ADD, X3, X3, X1, Lsl(size/2)) // log2 of 2 or 4
	return X3
}

// laneAddress returns a register that points to the lane of the loop's column.
func (t *neon) laneAddress(sum int) Reg {
	first, ok := t.sums[sum]
	if !ok {
		first = X3
		t.I(LDR, X3, t.word(t.l.sums[sum]))
	}
	t.I(ADD, X3, first, X2)
	return X3
}

// loadArray makes a vector of an array's elements.
func (t *neon) loadArray(d Vec, in *instruction, at position) {
	p := t.element(in.array, in.format.Size())
	if at.mode == single {
		t.loadOne(d, p, in.format, in.isInt)
		return
	}
	m := At(p, int64(at.copy*t.lanes()*in.format.Size()))
	if in.format.Size() == 4 {
		t.I(LDR, d.As(Q1), m)
		return
	}
	t.I(LDR, d.As(D1), m)
	t.widen(d, in.format, in.isInt)
}

// widen makes binary32 of the 16-bit numbers in the lower half of a register, or extends their
// patterns by zeros.
func (t *neon) widen(d Vec, format num.DType, isPattern bool) {
	if format == num.F16 && !isPattern {
		t.I(FCVTL, d.As(S4), d.As(H4))
		return
	}
	t.I(SHLL, d.As(S4), d.As(H4), Imm(16))
	if isPattern {
		t.I(USHR, d.As(S4), d.As(S4), Imm(16))
	}
}

// loadOne makes a vector of one element, or of its pattern.
func (t *neon) loadOne(d Vec, p Reg, format num.DType, isPattern bool) {
	if format.Size() == 4 {
		t.I(LD1R, d.List(S4, 1), At(p, 0))
		return
	}
	t.I(LD1R, d.List(H4, 1), At(p, 0))
	t.widen(d, format, isPattern)
}

// narrow returns a register with the 16-bit numbers that a vector is stored as.
func (t *neon) narrow(a Vec, format num.DType) Vec {
	s := t.scratch(0)
	if format == num.F16 {
		t.I(FCVTN, s.As(H4), a.As(S4))
	} else {
		t.I(SHRN, s.As(H4), a.As(S4), Imm(16))
	}
	return s
}

// storeArray stores a vector into an array.
func (t *neon) storeArray(a Vec, in *instruction, at position) {
	p := t.element(in.array, in.format.Size())
	if at.mode == single {
		t.storeOne(a, p, in.format)
		return
	}
	m := At(p, int64(at.copy*t.lanes()*in.format.Size()))
	if in.format.Size() == 4 {
		t.I(STR, a.As(Q1), m)
		return
	}
	t.I(STR, t.narrow(a, in.format).As(D1), m)
}

// storeOne stores the first lane.
func (t *neon) storeOne(a Vec, p Reg, format num.DType) {
	if format.Size() == 4 {
		t.I(STR, a.As(S1), At(p, 0))
		return
	}
	t.I(STR, t.narrow(a, format).As(H1), At(p, 0))
}

// loadAt makes a vector of the element at an index, or zeros if it is outside.
func (t *neon) loadAt(d, index Vec, in *instruction) {
	t.I(UMOV, X3.W(), index.Lane(S1, 0))
	t.loadInside(d, in)
}

// loadPartner makes a vector of the elements in the other columns of pairs. A vector begins with a
// pair.
func (t *neon) loadPartner(d Vec, in *instruction, at position) {
	if at.mode != single {
		t.loadArray(d, in, at)
		t.swap(d, d, 1)
		return
	}
	t.I(EOR, X3, X1, Imm(1))
	t.loadInside(d, in)
}

// loadInside makes a vector of the element in column X3, or zeros if it is outside the row.
func (t *neon) loadInside(d Vec, in *instruction) {
	outside, done := t.Label(), t.Label()
	t.I(LDR, X4, t.word(wordCols))
	t.I(CMP, X3, X4) // a negative index is a large one
	t.I(BCOND, HS, outside)
	t.I(LDR, X4, t.word(t.l.arrays[in.array].pointer))
	t.I(ADD, X3, X4, X3, Lsl(in.format.Size()/2))
	t.loadOne(d, X3, in.format, in.isInt)
	t.I(B, done)
	t.Bind(outside)
	t.I(MOVI, d.As(S4), Imm(0))
	t.Bind(done)
}

// findRow points an array at a row of a table, or at zeros if there is no such row.
func (t *neon) findRow(index Vec, in *instruction) {
	table, outside, done := t.l.tables[int(in.imm)], t.Label(), t.Label()
	t.I(UMOV, X3.W(), index.Lane(S1, 0))
	t.I(LDR, X4, t.word(table.rows))
	t.I(CMP, X3, X4) // a negative index is a large one
	t.I(BCOND, HS, outside)
	t.I(LDR, X4, t.word(table.stride))
	t.I(MUL, X3, X3, X4)
	t.I(LDR, X4, t.word(table.pointer))
	t.I(ADD, X4, X4, X3)
	t.I(B, done)
	t.Bind(outside)
	t.I(LDR, X4, t.word(t.l.zeros))
	t.Bind(done)
	t.I(STR, X4, t.word(t.l.arrays[in.array].pointer))
}

// column makes the numbers of columns.
func (t *neon) column(d Vec, at position) {
	t.I(DUP, d.As(S4), X1.W())
	if at.mode == single {
		return
	}
	numbers := make([]byte, vectorBytes)
	for i := range t.lanes() {
		numbers[4*i] = byte(at.copy*t.lanes() + i)
	}
	t.I(LDR, t.scratch(0).As(Q1), t.Constant(numbers, vectorBytes))
	t.V(ADD, S4, d, d, t.scratch(0))
}

// addTo adds a vector to memory, or its first lane, as floats or as integers.
func (t *neon) addTo(p Reg, element int, a Vec, how mode, isInt bool) {
	s, plus := t.scratch(0), FADD
	if isInt {
		plus = ADD
	}
	if how == single {
		t.I(LDR, s.As(S1), At(p, 0))
		if isInt { // the other lanes do not matter
			t.V(plus, S4, s, a, s)
		} else {
			t.V(plus, S1, s, a, s)
		}
		t.I(STR, s.As(S1), At(p, 0))
		return
	}
	m := At(p, int64(4*element))
	t.I(LDR, s.As(Q1), m)
	t.V(plus, S4, s, a, s)
	t.I(STR, s.As(Q1), m)
}

// finish implements target.
func (t *neon) finish() ([]byte, error) {
	code, err := t.Finish()
	if err != nil {
		return nil, fmt.Errorf("jit: %w", err)
	}
	return code, nil
}

func (t *neon) listing() string { return t.Listing() }
