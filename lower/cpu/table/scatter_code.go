package table

import (
	"unsafe"

	. "tokitai/lower/cpu/asm/amd64"
	"tokitai/num"
)

// scatterFrame is the argument of a scatter-add's code: count rows of the result, and
// cols columns of each.
type scatterFrame struct {
	rows         unsafe.Pointer // what is summed
	rowStride    int            // strides are in bytes
	result       unsafe.Pointer
	resultStride int
	first        unsafe.Pointer // where the queries of each row of the result begin, uint32; and one more
	queries      unsafe.Pointer // by row of the result, uint32; and prefetchMost more
	count        int            // rows of the result, at least 1
	cols         int
	bytes        int    // cols columns of the result
	limit        int    // of queries: the code skips rows with more
	ahead        int    // bytes of queries that rows are prefetched ahead
	mask         uint64 // of the columns after the last whole vector of the sums
	byteMask     uint64 // of the bytes after the last whole vector of the result
}

// totalsFrame is the argument of the code that adds queries to totals in memory.
type totalsFrame struct {
	rows      unsafe.Pointer
	rowStride int
	totals    unsafe.Pointer // binary32, or binary64 for rows of f16
	queries   unsafe.Pointer
	count     int // of queries, at least 1
	cols      int
	mask      uint64
	ahead     int
}

// Rows are prefetched as many queries ahead as make up prefetchBytes, prefetchMost at most.
const (
	prefetchBytes = 1 << 12
	prefetchMost  = 16
)

// chunkBytes is the size of a chunk's queries.
const chunkBytes = 4 * 64

// sums emits sums of rows of one format into a result of another.
type sums struct {
	*generator
	rows, result num.DType
	accumulate   bool
	exact        bool // in binary64, without chunks
	lanes        int  // elements of one vector of sums
	unroll       int
	stream       bool
	ahead        uintptr // of the frame's field
}

func newSums(g *generator, rows, result num.DType, accumulate bool) *sums {
	s := &sums{generator: g, rows: rows, result: result, accumulate: accumulate, exact: rows == num.F16}
	s.lanes, s.unroll = g.width.Bytes()/4, 4
	if g.evex {
		s.unroll = 8
	}
	if s.exact {
		s.lanes, s.unroll = s.lanes/2, 2*s.unroll
	}
	return s
}

// scatter emits the sums of all rows with few queries, and zeros or nothing for rows
// without, and returns the entry.
func (s *sums) scatter(stream bool) int {
	a := s.a
	entry := a.Len()
	var f scatterFrame
	s.stream, s.ahead = stream, unsafe.Offsetof(f.ahead)
	field := func(offset uintptr) Mem { return At(RDI, int32(offset)) }
	a.Comment("scatter-add of %s into %s: %s", s.rows, s.result, stores(stream))
	a.G(MOV, 64, RSI, field(unsafe.Offsetof(f.rows)))
	a.G(MOV, 64, R8, field(unsafe.Offsetof(f.rowStride)))
	a.G(MOV, 64, RDX, field(unsafe.Offsetof(f.result)))
	a.G(MOV, 64, R10, field(unsafe.Offsetof(f.first)))
	if s.evex {
		a.K(KMOVQ, K1, field(unsafe.Offsetof(f.mask)))
		a.K(KMOVQ, K2, field(unsafe.Offsetof(f.byteMask)))
	}
	row, next, empty := a.Label(), a.Label(), a.Label()
	a.Bind(row)
	a.Comment("the row's queries: R12 to R13")
	a.G(MOV, 32, R12, At(R10, 0))
	a.G(MOV, 32, R13, At(R10, 4))
	a.G(ADD, 64, R10, Imm(4))
	a.G(MOV, 64, RAX, R13)
	a.G(SUB, 64, RAX, R12)
	a.J(Equal, empty)
	a.G(CMP, 64, RAX, field(unsafe.Offsetof(f.limit)))
	a.J(Above, next)
	a.G(MOV, 64, RAX, field(unsafe.Offsetof(f.queries)))
	a.G(LEA, 64, R12, At(RAX, 0).Plus(R12, 4))
	a.G(LEA, 64, R13, At(RAX, 0).Plus(R13, 4))
	a.G(MOV, 64, R11, field(unsafe.Offsetof(f.cols)))
	s.columns(s.lanes, s.unroll, func(p part, n int) {
		for i := range n {
			s.begin(p, i)
		}
		s.add(p, n)
		for i := range n {
			s.end(p, i, n)
		}
	})
	a.Jmp(next)
	a.Bind(empty)
	if !s.accumulate {
		a.G(MOV, 64, R11, field(unsafe.Offsetof(f.bytes)))
		s.zeros(RDX, stream)
	}
	a.Bind(next)
	a.G(ADD, 64, RDX, field(unsafe.Offsetof(f.resultStride)))
	a.G(DEC, 64, field(unsafe.Offsetof(f.count)))
	a.J(NotEqual, row)
	s.leave(stream)
	return entry
}

// totals emits the addition of queries to totals in memory, and returns the entry.
func (s *sums) totals() int {
	a := s.a
	entry := a.Len()
	var f totalsFrame
	s.ahead = unsafe.Offsetof(f.ahead)
	field := func(offset uintptr) Mem { return At(RDI, int32(offset)) }
	a.Comment("totals of %s", s.rows)
	a.G(MOV, 64, RSI, field(unsafe.Offsetof(f.rows)))
	a.G(MOV, 64, R8, field(unsafe.Offsetof(f.rowStride)))
	a.G(MOV, 64, RDX, field(unsafe.Offsetof(f.totals)))
	a.G(MOV, 64, R12, field(unsafe.Offsetof(f.queries)))
	a.G(MOV, 64, R13, field(unsafe.Offsetof(f.count)))
	a.G(LEA, 64, R13, At(R12, 0).Plus(R13, 4))
	a.G(MOV, 64, R11, field(unsafe.Offsetof(f.cols)))
	load, scalar, size := VMOVUPS, VMOVSS, uint8(4)
	if s.exact {
		load, scalar, size = VMOVUPD, VMOVSD, 8
	}
	if s.evex {
		a.K(KMOVQ, K1, field(unsafe.Offsetof(f.mask)))
	}
	s.columns(s.lanes, s.unroll, func(p part, n int) {
		where := func(i int) Mem { return At(RDX, int32(i*s.width.Bytes())).Plus(RBX, size) }
		for i := range n {
			switch p {
			case whole:
				a.V(load, s.width, Vec(i), where(i))
			case masked:
				a.V(load, s.width, Vec(i), where(i), Zero(K1))
			case single:
				a.V(scalar, X, Vec(i), where(i))
			}
		}
		s.add(p, n)
		for i := range n {
			switch p {
			case whole:
				a.V(load, s.width, where(i), Vec(i))
			case masked:
				a.V(load, s.width, where(i), Vec(i), Merge(K1))
			case single:
				a.V(scalar, X, where(i), Vec(i))
			}
		}
	})
	s.leave(false)
	return entry
}

// add emits the addition of the queries R12 to R13 to totals 0 to n-1. Chunks are summed
// in n to 2n-1; exact sums have none.
func (s *sums) add(p part, n int) {
	a := s.a
	chunk, query := a.Label(), a.Label()
	into := n
	a.G(MOV, 64, RAX, R12)
	a.Bind(chunk)
	end := R13
	if s.exact {
		into = 0
	} else {
		end = R15
		a.G(LEA, 64, R15, At(RAX, chunkBytes))
		a.G(CMP, 64, R15, R13)
		a.Cmov(Above, 64, R15, R13)
		for i := range n {
			a.V(VXORPS, X, Vec(n+i), Vec(n+i), Vec(n+i))
		}
	}
	a.Align(32)
	a.Bind(query)
	a.G(MOV, 32, RCX, At(RAX, 0))
	a.G(IMUL, 64, RCX, R8)
	a.G(ADD, 64, RCX, RSI)
	prefetch := p == whole
	if prefetch {
		a.G(MOV, 64, R9, At(RDI, int32(s.ahead)))
		a.G(MOV, 32, R9, At(RAX, 0).Plus(R9, 1))
		a.G(IMUL, 64, R9, R8)
		a.G(ADD, 64, R9, RSI)
	}
	bytes := s.lanes * s.rows.Size()
	for i := range n {
		if prefetch && i*bytes%64 == 0 {
			a.G(PREFETCHT0, 8, At(R9, int32(i*bytes)).Plus(RBX, uint8(s.rows.Size())))
		}
		s.addOne(p, Vec(into+i), At(RCX, int32(i*bytes)).Plus(RBX, uint8(s.rows.Size())), Vec(into+n+i%4))
	}
	a.G(ADD, 64, RAX, Imm(4))
	a.G(CMP, 64, RAX, end)
	a.J(Below, query)
	if s.exact {
		return
	}
	for i := range n {
		a.V(VADDPS, s.width, Vec(i), Vec(i), Vec(n+i))
	}
	a.G(CMP, 64, RAX, R13)
	a.J(Below, chunk)
}

// addOne emits the addition of a vector of elements from memory to sum.
func (s *sums) addOne(p part, sum Vec, from Mem, temp Vec) {
	a := s.a
	if s.rows == num.F32 {
		switch p {
		case whole:
			a.V(VADDPS, s.width, sum, sum, from)
		case masked:
			a.V(VADDPS, s.width, sum, sum, from, Merge(K1))
		case single:
			a.V(VADDSS, X, sum, sum, from)
		}
		return
	}
	w := s.load(p, s.rows, temp, from)
	if s.exact {
		w = s.widen(p, temp, w)
		a.V(VADDPD, w, sum, sum, temp)
		return
	}
	a.V(VADDPS, w, sum, sum, temp)
}

// load emits the load of elements, widened to binary32, and returns the width of the
// vector that they fill. A single element may go through R9.
func (s *sums) load(p part, d num.DType, x Vec, from Mem) Width {
	a := s.a
	w := s.width
	if s.exact {
		w--
	}
	var zero []Operand
	if p == masked {
		zero = []Operand{Zero(K1)}
	}
	if p == single {
		w = X
		switch d {
		case num.F32:
			a.V(VMOVSS, X, x, from)
			return w
		default:
			a.G(MOVZX16, 32, R9, from)
			a.V(VMOVD, X, x, R9)
		}
		if d == num.F16 {
			a.V(VCVTPH2PS, X, x, x)
		} else {
			a.V(VPSLLD, X, x, x, Imm(16))
		}
		return w
	}
	switch d {
	case num.F32:
		a.V(VMOVUPS, w, append([]Operand{x, from}, zero...)...)
	case num.F16:
		a.V(VCVTPH2PS, w, append([]Operand{x, from}, zero...)...)
	default:
		a.V(VPMOVZXWD, w, append([]Operand{x, from}, zero...)...)
		a.V(VPSLLD, w, x, x, Imm(16))
	}
	return w
}

// widen emits the conversion of binary32 to binary64 and returns its width.
func (s *sums) widen(p part, x Vec, w Width) Width {
	if p != single {
		w++
	}
	s.a.V(VCVTPS2PD, w, x, x)
	return w
}

// to returns where vector i of the result is.
func (s *sums) to(i int) Mem {
	size := s.result.Size()
	return At(RDX, int32(i*s.lanes*size)).Plus(RBX, uint8(size))
}

// begin emits what total i begins with: zero, or the old value. An exact sum takes an old
// value of f16 so, which is a term like the others.
func (s *sums) begin(p part, i int) {
	x := Vec(i)
	if !s.accumulate || s.exact && s.result != num.F16 {
		s.a.V(VXORPS, X, x, x, x)
		return
	}
	w := s.load(p, s.result, x, s.to(i))
	if s.exact { // zero and −0 begin a sum alike
		w = s.widen(p, x, w)
		zero := Vec(s.unroll)
		s.a.V(VXORPS, X, zero, zero, zero)
		s.a.V(VADDPD, w, x, x, zero)
	}
}

// end emits the rounding and the store of total i, with temporaries from n on.
func (s *sums) end(p part, i, n int) {
	a := s.a
	x, w := Vec(i), s.width
	if p == single {
		w = X
	}
	if s.exact {
		if s.accumulate && s.result != num.F16 {
			s.addOld(p, x, i, Vec(n), w)
		}
		if s.result != num.F32 {
			s.odd(x, Vec(n), w)
		}
		a.V(VCVTPD2PS, w, x, x)
		if w > X {
			w--
		}
	}
	s.store(p, x, s.to(i), Vec(n), w)
}

// addOld emits the addition of the old value to an exact sum, rounded to odd in
// binary64: it then rounds to any narrower format as the exact sum does.
func (s *sums) addOld(p part, x Vec, i int, temp Vec, w Width) {
	a := s.a
	old, sum, t, e := temp, temp+1, temp+2, temp+3
	s.widen(p, old, s.load(p, s.result, old, s.to(i)))
	a.V(VADDPD, w, sum, old, x)
	a.V(VSUBPD, w, t, sum, old)
	a.V(VSUBPD, w, e, sum, t)
	a.V(VSUBPD, w, e, old, e)
	a.V(VSUBPD, w, x, x, t)
	a.V(VADDPD, w, e, e, x) // the error of sum, exactly
	zero, one := old, s.qwords(1)
	a.V(VXORPS, X, zero, zero, zero)
	a.V(VXORPS, w, t, sum, e)
	const notEqual = 0x0C // and not NaN
	if s.evex {
		a.V(VPSRAQ, w, t, t, Imm(63))
		a.V(VPORQ, w, t, t, one) // 1 away from zero, −1 toward it
		a.V(VCMPPD, w, K3, e, zero, Imm(notEqual))
		a.V(VPTESTNMQ, w, K3, sum, one, Merge(K3))
		a.V(VMOVUPD, w, x, sum)
		a.V(VPADDQ, w, x, sum, t, Merge(K3))
		return
	}
	a.V(VPCMPGTQ, w, t, zero, t)
	a.V(VPOR, w, t, t, one)
	a.V(VCMPPD, w, e, e, zero, Imm(notEqual))
	a.V(VPAND, w, t, t, e)
	a.V(VPAND, w, e, sum, one)
	a.V(VPCMPEQQ, w, e, e, zero)
	a.V(VPAND, w, t, t, e)
	a.V(VPADDQ, w, x, sum, t)
}

// odd emits the rounding of binary64 to odd in binary32's 24 bits: the bits that it does
// not have are cleared, and the last that it has is set if any of them was.
func (s *sums) odd(x, t Vec, w Width) {
	lost := s.qwords(1<<29 - 1)
	s.a.V(VPAND, w, t, x, lost)
	s.a.V(VPADDQ, w, t, t, lost)
	s.a.V(VPOR, w, x, x, t)
	s.a.V(VPAND, w, x, x, s.qwords(^uint64(1<<29-1)))
}

// store emits the rounding of binary32 to the result's format and its store.
func (s *sums) store(p part, x Vec, to Mem, t Vec, w Width) {
	a := s.a
	switch s.result {
	case num.F32:
		switch {
		case p == single:
			a.V(VMOVSS, X, to, x)
		case p == masked:
			a.V(VMOVUPS, w, to, x, Merge(K1))
		case s.stream:
			a.V(VMOVNTPS, w, to, x)
		default:
			a.V(VMOVUPS, w, to, x)
		}
		return
	case num.F16:
		switch {
		case p == masked:
			a.V(VCVTPS2PH, w, to, x, Imm(0), Merge(K1))
			return
		case p == whole && !s.stream:
			a.V(VCVTPS2PH, w, to, x, Imm(0))
			return
		}
		a.V(VCVTPS2PH, w, t, x, Imm(0))
	default:
		s.narrow(x, t, w)
		switch {
		case s.evex && p == masked:
			a.V(VPMOVDW, w, to, t, Merge(K1))
			return
		case s.evex:
			a.V(VPMOVDW, w, t, t)
		default:
			a.V(VPACKUSDW, w, t, t, t)
			if w == Y {
				a.V(VPERMQ, Y, t, t, Imm(0x08))
			}
		}
	}
	// The elements lie in the lower half of t.
	switch {
	case p == single:
		a.V(VPEXTRW, X, to, t, Imm(0))
	case w == X:
		a.V(VMOVQ, X, to, t)
	case s.stream:
		a.V(VMOVNTDQ, w-1, to, t)
	default:
		a.V(VMOVDQU, w-1, to, t)
	}
}

// narrow emits the rounding of binary32 to bfloat16, in the lower half of each element
// of t. It uses t+1 and t+2.
func (s *sums) narrow(x, t Vec, w Width) {
	a := s.a
	const unordered = 3
	a.V(VPSRLD, w, t, x, Imm(16))
	a.V(VPAND, w, t, t, s.dwords(1))
	a.V(VPADDD, w, t, t, x)
	a.V(VPADDD, w, t, t, s.dwords(0x7fff))
	a.V(VPSRLD, w, t, t, Imm(16))
	if s.evex {
		a.V(VCMPPS, w, K3, x, x, Imm(unordered))
		a.V(VPSRLD, w, t, x, Imm(16), Merge(K3))
		a.V(VPORD, w, t, t, s.dwords(0x40), Merge(K3))
		return
	}
	a.V(VPSRLD, w, t+1, x, Imm(16))
	a.V(VPOR, w, t+1, t+1, s.dwords(0x40))
	a.V(VCMPPS, w, t+2, x, x, Imm(unordered))
	a.V(VBLENDVPS, w, t, t, t+1, t+2)
}
