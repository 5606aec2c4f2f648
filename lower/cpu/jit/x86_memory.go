package jit

import (
	. "tokitai/lower/cpu/asm/amd64"
	"tokitai/num"
)

// element returns the memory of an array at the position of the loop.
func (t *x86) element(array, size int, at position) Mem {
	r, ok := t.pointers[array]
	if !ok {
		r = RAX
		t.G(MOV, 64, r, t.at(t.l.arrays[array].pointer))
	}
	return At(r, int32(at.copy*t.lanes()*size)).Plus(RCX, uint8(size))
}

func (t *x86) sumPointer(sum int) Reg {
	r, ok := t.sums[sum]
	if !ok {
		r = RAX
		t.G(MOV, 64, r, t.at(t.l.sums[sum]))
	}
	return r
}

// loadArray makes a vector of an array's elements.
func (t *x86) loadArray(d Vec, in *instruction, at position) {
	m := t.element(in.array, in.format.Size(), at)
	switch {
	case at.mode == single:
		t.loadOne(d, m, in.format, in.isInt)
	case in.isInt && in.format.Size() == 2 && at.mode == masked:
		t.vec(VPMOVZXWD, d, m, Zero(tailMask))
	case in.isInt && in.format.Size() == 2:
		t.vec(VPMOVZXWD, d, m)
	case in.format == num.F16 && at.mode == masked:
		t.V(VMOVDQU16, Y, d, m, Zero(tailMask))
		t.vec(VCVTPH2PS, d, d)
	case in.format == num.F16:
		t.vec(VCVTPH2PS, d, m)
	case in.format == num.BF16 && at.mode == masked:
		t.vec(VPMOVZXWD, d, m, Zero(tailMask))
		t.vec(VPSLLD, d, d, Imm(16))
	case in.format == num.BF16:
		t.vec(VPMOVZXWD, d, m)
		t.vec(VPSLLD, d, d, Imm(16))
	case at.mode == masked:
		t.vec(VMOVUPS, d, m, Zero(tailMask))
	default:
		t.vec(VMOVUPS, d, m)
	}
}

// loadOne makes a vector of one element, or of its pattern.
func (t *x86) loadOne(d Vec, m Mem, format num.DType, isPattern bool) {
	switch {
	case isPattern && format.Size() == 2:
		t.vec(VPBROADCASTW, d, m)
		t.vec(VPSRLD, d, d, Imm(16))
	case format == num.F16:
		t.V(VPBROADCASTW, t.width-1, d, m)
		t.vec(VCVTPH2PS, d, d)
	case format == num.BF16:
		t.vec(VPBROADCASTW, d, m)
		t.vec(VPSLLD, d, d, Imm(16))
	default:
		t.vec(VBROADCASTSS, d, m)
	}
}

// isStreamed reports whether an array is stored past the caches.
func (t *x86) isStreamed(array int) bool {
	return t.streams && t.l.arrays[array].kind == operandArray
}

// storeArray stores a vector into an array.
func (t *x86) storeArray(a Vec, in *instruction, at position) {
	m := t.element(in.array, in.format.Size(), at)
	s := t.scratch(0)
	half := t.width - 1
	switch {
	case at.mode == single:
		t.storeOne(a, m, in.format)
	case in.format == num.F16 && at.mode == masked:
		t.vec(VCVTPS2PH, m, a, Imm(0), Merge(tailMask))
	case in.format == num.F16 && t.isStreamed(in.array):
		t.vec(VCVTPS2PH, s, a, Imm(0))
		t.V(VMOVNTDQ, half, m, s)
	case in.format == num.F16:
		t.vec(VCVTPS2PH, m, a, Imm(0))
	case in.format == num.BF16:
		t.storeHigh(m, a, in.array, at.mode)
	case at.mode == masked:
		t.vec(VMOVUPS, m, a, Merge(tailMask))
	case t.isStreamed(in.array):
		t.vec(VMOVNTPS, m, a)
	default:
		t.vec(VMOVUPS, m, a)
	}
}

// storeHigh stores the high halves of lanes, which are bf16.
func (t *x86) storeHigh(m Mem, a Vec, array int, how mode) {
	s := t.scratch(0)
	half := t.width - 1
	move := VMOVDQU32
	if t.isStreamed(array) {
		move = VMOVNTDQ
	}
	switch {
	case t.isWide && how == masked:
		t.vec(VPSRLD, s, a, Imm(16))
		t.vec(VPMOVDW, m, s, Merge(tailMask))
	case t.isWide:
		t.vec(VMOVDQU32, t.scratch(1), t.Constant(oddWords(), 64))
		t.vec(VPERMW, s, t.scratch(1), a)
		t.V(move, half, m, s)
	default:
		t.vec(VPSRLD, s, a, Imm(16))
		t.V(VEXTRACTF128, Y, t.scratch(1), s, Imm(1))
		t.V(VPACKUSDW, X, s, s, t.scratch(1))
		t.V(move, half, m, s)
	}
}

// oddWords returns the numbers of the high halves of lanes, as words.
func oddWords() []byte {
	b := make([]byte, 64)
	for i := range 16 {
		b[2*i] = byte(2*i + 1)
	}
	return b
}

// storeOne stores the first lane.
func (t *x86) storeOne(a Vec, m Mem, format num.DType) {
	s := t.scratch(0)
	switch format {
	case num.F16:
		t.V(VCVTPS2PH, X, s, a, Imm(0))
		t.V(VPEXTRW, X, m, s, Imm(0))
	case num.BF16:
		t.V(VPSRLD, X, s, a, Imm(16))
		t.V(VPEXTRW, X, m, s, Imm(0))
	default:
		t.V(VMOVSS, X, m, a)
	}
}

// loadAt makes a vector of the element at an index, or zeros if it is outside.
func (t *x86) loadAt(d, index Vec, in *instruction) {
	t.V(VMOVD, X, RAX, index)
	t.loadInside(d, in)
}

// loadPartner makes a vector of the elements in the other columns of pairs. A vector begins with a
// pair, and lanes outside the row are zeros.
func (t *x86) loadPartner(d Vec, in *instruction, at position) {
	if at.mode != single {
		t.loadArray(d, in, at)
		t.swap(d, d, 1)
		return
	}
	t.G(MOV, 64, RAX, RCX)
	t.G(XOR, 64, RAX, Imm(1))
	t.loadInside(d, in)
}

// loadInside makes a vector of the element in column RAX, or zeros if it is outside the row.
func (t *x86) loadInside(d Vec, in *instruction) {
	outside, done := t.Label(), t.Label()
	t.G(CMP, 64, RAX, t.at(wordCols)) // a negative index is a large one
	t.J(AboveEqual, outside)
	t.G(MOV, 64, RSI, t.at(t.l.arrays[in.array].pointer))
	t.loadOne(d, At(RSI, 0).Plus(RAX, uint8(in.format.Size())), in.format, in.isInt)
	t.Jmp(done)
	t.Bind(outside)
	t.vec(VPXORD, d, d, d)
	t.Bind(done)
}

// findRow points an array at a row of a table, or at zeros if there is no such row.
func (t *x86) findRow(index Vec, in *instruction) {
	table, outside, done := t.l.tables[int(in.imm)], t.Label(), t.Label()
	t.V(VMOVD, X, RAX, index)
	t.G(CMP, 64, RAX, t.at(table.rows)) // a negative index is a large one
	t.J(AboveEqual, outside)
	t.G(IMUL, 64, RAX, t.at(table.stride))
	t.G(ADD, 64, RAX, t.at(table.pointer))
	t.Jmp(done)
	t.Bind(outside)
	t.G(MOV, 64, RAX, t.at(t.l.zeros))
	t.Bind(done)
	t.G(MOV, 64, t.at(t.l.arrays[in.array].pointer), RAX)
}

// column makes the numbers of columns. The copies of an unrolled loop follow each other:
// they share the number of the first column.
func (t *x86) column(d Vec, at position) {
	first := t.scratch(2)
	if at.mode == single {
		first = d
	}
	switch {
	case at.copy > 0:
	case t.isWide:
		t.vec(VPBROADCASTD, first, RCX)
	default:
		t.V(VMOVD, X, first, RCX)
		t.vec(VPBROADCASTD, first, first)
	}
	if at.mode == single {
		return
	}
	numbers := make([]byte, 4*t.lanes())
	for i := range t.lanes() {
		numbers[4*i] = byte(at.copy*t.lanes() + i)
	}
	t.vec(VPADDD, d, first, t.Constant(numbers, 64))
}

// addLane adds a vector to the lanes of a row sum.
func (t *x86) addLane(sum int, a Vec, at position) {
	if n := t.l.sumLanes; n == 0 || n >= t.lanes() || at.mode == single {
		t.addTo(At(t.sumPointer(sum), int32(4*t.l.laneOf(at.copy, t.lanes()))).Plus(RDX, 4), a, at.mode, false)
		return
	}
	// Half a vector is all lanes. The copies of an unrolled loop follow each other: the first one loads
	// the sums, and all of them leave them in memory.
	s, part, sums := t.scratch(0), t.scratch(1), t.scratch(2)
	lanes := At(t.sumPointer(sum), 0)
	if at.copy == 0 {
		t.V(VMOVUPS, Y, sums, lanes)
	}
	if at.mode == masked {
		t.vec(VMOVAPS, part, a, Zero(tailMask)) // a lane is never -0
		a = part
	}
	t.vec(VEXTRACTF64X4, s, a, Imm(1))
	t.V(VADDPS, Y, sums, sums, a)
	t.V(VADDPS, Y, sums, sums, s)
	t.V(VMOVUPS, Y, lanes, sums)
}

// addTo adds a vector to memory, as floats or as integers.
func (t *x86) addTo(m Mem, a Vec, how mode, isInt bool) {
	s, plus := t.scratch(0), VADDPS
	if isInt {
		plus = VPADDD
	}
	switch {
	case how == whole:
		t.vec(plus, s, a, m)
		t.vec(VMOVUPS, m, s)
	case how == masked:
		t.vec(plus, s, a, m, Zero(tailMask))
		t.vec(VMOVUPS, m, s, Merge(tailMask))
	case isInt:
		t.V(VMOVSS, X, s, m)
		t.V(VPADDD, X, s, a, s)
		t.V(VMOVSS, X, m, s)
	default:
		t.V(VADDSS, X, s, a, m)
		t.V(VMOVSS, X, m, s)
	}
}
