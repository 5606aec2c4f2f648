package jit

import . "tokitai/lower/cpu/asm/amd64"

// swap exchanges lanes at a distance.
func (t *x86) swap(d, a Vec, distance int) {
	switch {
	case distance == 8:
		t.vec(VSHUFF32X4, d, a, a, Imm(0x4e))
	case distance == 4 && t.isWide:
		t.vec(VSHUFF32X4, d, a, a, Imm(0xb1))
	case distance == 4:
		t.vec(VPERM2F128, d, a, a, Imm(0x01))
	case distance == 2:
		t.vec(VPERMILPS, d, a, Imm(0x4e))
	default:
		t.vec(VPERMILPS, d, a, Imm(0xb1))
	}
}

// tree adds up the lanes of a row sum as neighbours: first vectors with vectors, level by
// level, then within the last one.
func (t *x86) tree(d Vec, sum int) {
	size := int32(t.width.Bytes())
	x, y, order := t.scratch(0), t.scratch(1), t.scratch(2)
	level, pair, done := t.Label(), t.Label(), t.Label()
	t.G(MOV, 64, RSI, t.at(t.l.sums[sum]))
	t.G(MOV, 64, RDX, t.at(wordVectors))
	if t.isWide {
		t.vec(VMOVUPS, order, t.Constant(quadwords(0, 2, 4, 6, 1, 3, 5, 7), 64))
	}
	t.Bind(level)
	t.G(SHR, 64, RDX, Imm(1))
	t.J(Equal, done)
	t.G(MOV, 64, RAX, RSI)
	t.G(MOV, 64, R8, RSI)
	t.G(MOV, 64, RCX, RDX)
	t.Bind(pair)
	t.vec(VMOVUPS, x, At(RAX, 0))
	if t.isWide {
		t.vec(VMOVUPS, d, At(RAX, size))
		t.vec(VSHUFPS, y, x, d, Imm(0x88))
		t.vec(VSHUFPS, x, x, d, Imm(0xdd))
		t.vec(VADDPS, x, y, x)
		t.vec(VPERMPD, x, order, x)
	} else {
		t.vec(VHADDPS, x, x, At(RAX, size))
		t.vec(VPERMQ, x, x, Imm(0xd8))
	}
	t.vec(VMOVUPS, At(R8, 0), x)
	t.G(ADD, 64, RAX, Imm(int64(2*size)))
	t.G(ADD, 64, R8, Imm(int64(size)))
	t.G(DEC, 64, RCX)
	t.J(NotEqual, pair)
	t.Jmp(level)
	t.Bind(done)
	t.vec(VMOVUPS, d, At(RSI, 0))
	for distance := 1; distance < t.lanes(); distance *= 2 {
		t.swap(x, d, distance)
		t.vec(VADDPS, d, d, x)
	}
}

// quadwords returns eight numbers as a vector.
func quadwords(x ...byte) []byte {
	b := make([]byte, 8*len(x))
	for i, v := range x {
		b[8*i] = v
	}
	return b
}

func (t *x86) stream(on bool) { t.streams = on }

// function implements target.
func (t *x86) function(name string) int {
	t.Align(16)
	t.Comment("function %s", name)
	return t.Len()
}

// endFunction implements target.
func (t *x86) endFunction() {
	if t.streams {
		t.SFence()
	}
	t.VZeroUpper()
	t.Ret()
}

// rows implements target.
func (t *x86) rows(body func()) {
	again := t.Label()
	t.Bind(again)
	body()
	for i := range t.l.arrays {
		if a := &t.l.arrays[i]; a.stride != 0 {
			t.G(MOV, 64, RAX, t.at(a.stride))
			t.G(ADD, 64, t.at(a.pointer), RAX)
		}
	}
	t.G(SUB, 64, t.at(wordRows), Imm(1))
	t.J(NotEqual, again)
}

// loop implements target.
func (t *x86) loop(arrays, sums, next []int, isPart bool) {
	t.pointers, t.sums, t.hasSums, t.next = map[int]Reg{}, map[int]Reg{}, len(sums) > 0, map[int]Reg{}
	free := pointerRegs[:]
	for _, s := range sums {
		if len(free) > 0 {
			t.sums[s], free = free[0], free[1:]
			t.G(MOV, 64, t.sums[s], t.at(t.l.sums[s]))
		}
	}
	for _, a := range arrays {
		if len(free) > 0 {
			t.pointers[a], free = free[0], free[1:]
			t.G(MOV, 64, t.pointers[a], t.at(t.l.arrays[a].pointer))
		}
	}
	for _, a := range next {
		if len(free) > 0 {
			t.next[a], free = free[0], free[1:]
			t.G(MOV, 64, t.next[a], t.at(t.l.arrays[a].pointer))
			t.G(ADD, 64, t.next[a], t.at(t.l.arrays[a].stride))
		}
	}
	if isPart {
		t.G(MOV, 64, RCX, t.at(wordFirst))
	} else {
		t.G(XOR, 32, RCX, RCX)
	}
}

// fetch makes the instructions that fetch the next row's part of a turn into the cache.
func (t *x86) fetch(vectors int) {
	for a := range t.l.arrays {
		r, ok := t.next[a]
		if !ok {
			continue
		}
		size := t.l.arrays[a].format.Size()
		for at := 0; at < vectors*t.lanes()*size; at += cacheLine {
			t.G(PREFETCHT1, 8, At(r, int32(at)).Plus(RCX, uint8(size)))
		}
	}
}

const cacheLine = 64

// turns implements target.
func (t *x86) turns(vectors int, body func()) {
	again, done := t.Label(), t.Label()
	step := Imm(int64(vectors * t.lanes()))
	left := func() {
		t.G(LEA, 64, RAX, At(RCX, int32(step)))
		t.G(CMP, 64, RAX, t.at(wordCols))
	}
	left()
	t.J(Above, done)
	t.Align(16)
	t.Bind(again)
	t.lane()
	t.fetch(vectors)
	body()
	t.G(ADD, 64, RCX, step)
	left()
	t.J(BelowEqual, again)
	t.Bind(done)
}

// lane sets the lane of the loop's column.
func (t *x86) lane() {
	if t.hasSums {
		t.G(MOV, 64, RDX, RCX)
		t.G(AND, 64, RDX, t.at(wordMask))
	}
}

// tail implements target.
func (t *x86) tail(body func(mode)) {
	again, done := t.Label(), t.Label()
	t.G(MOV, 64, RAX, t.at(wordCols))
	t.G(SUB, 64, RAX, RCX)
	t.J(Equal, done)
	t.Bind(again)
	t.lane()
	if t.isWide {
		t.G(MOV, 32, RSI, Imm(-1))
		t.G(BZHI, 32, RSI, RSI, RAX)
		t.K(KMOVW, tailMask, RSI)
		body(masked)
	} else {
		body(single)
		t.G(INC, 64, RCX)
		t.G(CMP, 64, RCX, t.at(wordCols))
		t.J(NotEqual, again)
	}
	t.Bind(done)
}
