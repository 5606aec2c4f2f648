package arm64

import "fmt"

// fault is why a row does not take its operands. The zero fault is none.
type fault struct {
	what string // empty if the operands are of other kinds
	got  any
	want string
	bad  bool
}

var mismatch = fault{bad: true}

func outside(what string, got any, want string) fault { return fault{what, got, want, true} }

func (f fault) Error() string { return fmt.Sprintf("%s %v, want %s", f.what, f.got, f.want) }

// encoder encodes one instruction by one row.
type encoder struct {
	t    Arrangement // T, or E if the row has no T
	word uint32
	x    int8 // whether general registers are X: 1, W: -1, unknown: 0
}

// encode returns the instruction's bits. A label's bits are left out: the assembler knows
// them when everything is placed.
func (c *compiled) encode(operands []Operand) (uint32, fault) {
	if len(operands) != len(c.slots) {
		return 0, mismatch
	}
	e := encoder{word: c.bits}
	if c.set != 0 {
		t, ok := c.arrangement(operands)
		if !ok {
			return 0, mismatch
		}
		e.t = t
		e.word |= c.size.sizeBits(t)
	}
	for i, s := range c.slots {
		var f fault
		switch {
		case s.kind <= elementReg:
			f = e.general(s, operands[i])
		case s.kind <= listTable:
			f = e.vector(s, operands[i])
		case s.kind <= immFloatABC:
			f = e.immediate(s, operands[i])
		case s.kind <= prefetchOp:
			f = e.modifier(s, operands[i])
		case s.kind <= memPostReg:
			f = e.memory(s, operands[i], c.size, c.accessBytes(operands))
		default:
			if _, ok := operands[i].(Label); !ok {
				f = mismatch
			}
		}
		if f.bad {
			return 0, f
		}
	}
	return e.word, fault{}
}

// arrangement returns the arrangement that the operands say T, or else E, is.
func (c *compiled) arrangement(operands []Operand) (Arrangement, bool) {
	var lane Arrangement
	isLane := false
	for i, s := range c.slots {
		switch s.kind {
		case viewT, viewTwice:
			v, ok := operands[i].(View)
			return v.T, ok && c.set.has(v.T)
		case listT, listOne:
			l, ok := operands[i].(List)
			return l.T, ok && c.set.has(l.T)
		case laneIndex, laneList:
			l, ok := operands[i].(Element)
			lane, isLane = l.T, ok
		}
	}
	return lane, isLane && c.set.has(lane)
}

func (e *encoder) general(s slot, o Operand) fault {
	r, ok := o.(Reg)
	if !ok || r&^lowerHalf > SP {
		return mismatch
	}
	whole := int8(1)
	if r.isW() {
		whole = -1
	}
	switch s.kind {
	case generalReg:
		if e.x == -whole {
			return mismatch
		}
		e.x = whole
		if whole > 0 {
			e.word |= 1 << 31
		}
	case bitReg:
		e.x = whole
	case xReg:
		ok = whole > 0
	case wReg:
		ok = whole < 0
	case elementReg:
		ok = (e.t.size() == 3) == (whole > 0)
	}
	if !ok || s.sp && r&^lowerHalf == XZR || !s.sp && r&^lowerHalf == SP {
		return mismatch
	}
	e.word |= r.number() << s.pos
	return fault{}
}

func (e *encoder) vector(s slot, o Operand) fault {
	switch s.kind {
	case laneIndex, laneSecond, laneFloat, laneList:
		return e.lane(s, o)
	case listT, listOne, listTable:
		return e.list(s, o)
	}
	v, ok := o.(View)
	want := e.t
	switch s.kind {
	case viewWide:
		want = e.t.wide()
	case viewScalar:
		want = e.t.element()
	case viewFixed:
		want = s.fixed
	}
	if !ok || v.T != want || v.Reg > V31 {
		return mismatch
	}
	e.word |= uint32(v.Reg) << s.pos
	if s.kind == viewTwice {
		e.word |= uint32(v.Reg) << 16
	}
	return fault{}
}

func (e *encoder) lane(s slot, o Operand) fault {
	l, ok := o.(Element)
	if !ok || l.T != e.t.element() || l.Reg > V31 {
		return mismatch
	}
	size, index := l.T.size(), uint32(l.Index)
	if index >= 16>>size {
		return outside("element", index, fmt.Sprintf("at most %d", 16>>size-1))
	}
	e.word |= uint32(l.Reg) << s.pos
	switch s.kind {
	case laneIndex:
		e.word |= (index<<1 | 1) << size << 16
	case laneSecond:
		e.word |= index << size << 11
	case laneFloat: // the index is H:L for binary32, H for binary64
		index <<= size - 2
		e.word |= index>>1<<11 | index&1<<21
	case laneList: // the index is Q:S:size, above the size's own bits
		bits := index << size
		e.word |= bits>>3<<30 | bits>>2&1<<12 | bits&3<<10 | min(size, 2)<<14
		if size == 3 {
			e.word |= 1 << 10
		}
	}
	return fault{}
}

// listOpcodes are the bits of LD1 and ST1 for 1 to 4 registers.
var listOpcodes = [...]uint32{1: 0x7000, 2: 0xa000, 3: 0x6000, 4: 0x2000}

func (e *encoder) list(s slot, o Operand) fault {
	l, ok := o.(List)
	want := e.t
	if s.kind == listTable {
		want = B16
	}
	if !ok || l.T != want || l.First > V31 {
		return mismatch
	}
	if most := 4; l.N < 1 || l.N > most || s.kind == listOne && l.N != 1 {
		if s.kind == listOne {
			most = 1
		}
		return outside("registers in the list", l.N, fmt.Sprintf("1 to %d", most))
	}
	switch s.kind {
	case listT:
		e.word |= uint32(l.First) | listOpcodes[l.N]
	case listOne:
		e.word |= uint32(l.First)
	case listTable:
		e.word |= uint32(l.First)<<5 | uint32(l.N-1)<<13
	}
	return fault{}
}

func (e *encoder) modifier(s slot, o Operand) fault {
	switch s.kind {
	case condAt12, condInverted, condSuffix:
		c, ok := o.(Cond)
		if !ok || c > AL {
			return mismatch
		}
		switch s.kind {
		case condAt12:
			e.word |= uint32(c) << 12
		case condInverted:
			if c == AL {
				return mismatch
			}
			e.word |= uint32(c^1) << 12
		case condSuffix:
			e.word |= uint32(c)
		}
		return fault{}
	case prefetchOp:
		p, ok := o.(Prefetch)
		if !ok || p > 31 {
			return mismatch
		}
		e.word |= uint32(p)
		return fault{}
	}
	m, ok := o.(Mod)
	if !ok {
		return mismatch
	}
	amount := uint32(m.Amount)
	switch s.kind {
	case modShift:
		if m.kind > asr {
			return mismatch
		}
		if amount >= e.regBits() {
			return outside("shift", amount, fmt.Sprintf("less than %d", e.regBits()))
		}
		e.word |= uint32(m.kind)<<22 | amount<<10
	case modExtend:
		if m.kind < uxtw {
			return mismatch
		}
		if amount > 4 {
			return outside("shift", amount, "at most 4")
		}
		e.word |= extendOption(m.kind)<<13 | amount<<10
	case modLSL16:
		if m.kind != lsl || amount%16 != 0 || amount >= e.regBits() {
			return outside("shift", amount, "a multiple of 16 in the register")
		}
		e.word |= amount / 16 << 21
	case modLSL8:
		if m.kind != lsl || amount%8 != 0 || amount >= 8<<e.t.size() {
			return outside("shift", amount, "a multiple of 8 in the element")
		}
		e.word |= amount / 8 << 13
	}
	return fault{}
}

// regBits returns the bits of the instruction's general registers.
func (e *encoder) regBits() uint32 {
	if e.x > 0 {
		return 64
	}
	return 32
}

func extendOption(k modKind) uint32 {
	switch k {
	case uxtw:
		return 2
	case sxtw:
		return 6
	}
	return 3 // lsl, of an X register
}

// memory encodes a memory operand of an instruction that accesses so many bytes in all.
func (e *encoder) memory(s slot, o Operand, size sizing, bytes int64) fault {
	m, ok := o.(Mem)
	if !ok || m.base.isW() || m.base == XZR || m.base > SP {
		return mismatch
	}
	e.word |= m.base.number() << 5
	isIndexed := s.kind == memIndexed || s.kind == memPostReg
	if isIndexed != m.hasIndex() || isIndexed && (m.disp != 0 || m.index&^lowerHalf >= XZR) {
		return mismatch
	}
	mode := offset
	switch s.kind {
	case memPost9, memPost7, memPostBytes, memPostReg:
		mode = postIndex
	case memPre9, memPre7:
		mode = preIndex
	}
	if m.mode != mode {
		return mismatch
	}
	scale := size.bytes(e.t)
	switch s.kind {
	case memBase:
		if m.disp != 0 {
			return outside("displacement", m.disp, "0")
		}
	case memU12:
		if m.disp < 0 || m.disp&(1<<scale-1) != 0 || m.disp>>scale > 4095 {
			return outside("displacement", m.disp, fmt12[scale])
		}
		e.word |= uint32(m.disp>>scale) << 10
	case memS9, memPost9, memPre9:
		if m.disp < -256 || m.disp > 255 {
			return outside("displacement", m.disp, "-256 to 255")
		}
		e.word |= uint32(m.disp) & 0x1ff << 12
	case memS7, memPost7, memPre7:
		if n := m.disp >> scale; m.disp&(1<<scale-1) != 0 || n < -64 || n > 63 {
			return outside("displacement", m.disp, fmt7[scale])
		}
		e.word |= uint32(m.disp>>scale) & 0x7f << 15
	case memIndexed:
		amount := uint32(m.mod.Amount)
		if amount != 0 && amount != scale {
			return outside("shift", amount, fmt.Sprintf("0 or %d", scale))
		}
		if (m.mod.kind >= uxtw) != m.index.isW() {
			return mismatch
		}
		e.word |= m.index.number()<<16 | extendOption(m.mod.kind)<<13
		if amount != 0 {
			e.word |= 1 << 12
		}
	case memPostBytes:
		if m.disp != bytes {
			return outside("increment", m.disp, fmt.Sprintf("the %d bytes accessed", bytes))
		}
	case memPostReg:
		if m.index.isW() {
			return mismatch
		}
		e.word |= m.index.number() << 16
	}
	return fault{}
}

// The displacements by log2 of the bytes accessed.
var (
	fmt12 = [...]string{"0 to 4095", "an even number in 0 to 8190", "a multiple of 4 in 0 to 16380", "a multiple of 8 in 0 to 32760", "a multiple of 16 in 0 to 65520"}
	fmt7  = [...]string{2: "a multiple of 4 in -256 to 252", 3: "a multiple of 8 in -512 to 504", 4: "a multiple of 16 in -1024 to 1008"}
)

// accessBytes returns the bytes that the list or the element of LD1, LD1R and ST1 has in memory.
func (c *compiled) accessBytes(operands []Operand) int64 {
	switch o := operands[0].(type) {
	case List:
		if c.slots[0].kind == listOne {
			return 1 << o.T.size()
		}
		return int64(o.N) * int64(o.T.bytes())
	case Element:
		return 1 << o.T.size()
	}
	return 0
}
