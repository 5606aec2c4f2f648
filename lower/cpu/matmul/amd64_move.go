package matmul

import (
	"unsafe"

	x86 "tokitai/lower/cpu/asm/amd64"
	"tokitai/num"
)

// cacheLine is the number of bytes that the processor fetches together.
const cacheLine = 64

// widen generates the function that widens rows of a few vectors; moveFrame says what it
// does.
func (g *amd64Generator) widen(vectors int, dtype num.DType, fetches bool) int {
	start := g.begin("widen %d vectors of %v", vectors, dtype)
	const (
		from      = x86.RAX
		to        = x86.RDX
		fromStep  = x86.R9
		toStep    = x86.R10
		rows      = x86.R11
		fromFirst = x86.R12
		toFirst   = x86.R13
		times     = x86.R15
		ahead     = x86.RCX
	)
	var f moveFrame
	g.mov(ahead, field(unsafe.Offsetof(f.ahead)))
	g.mov(fromFirst, field(unsafe.Offsetof(f.from)))
	g.mov(toFirst, field(unsafe.Offsetof(f.to)))
	g.mov(fromStep, field(unsafe.Offsetof(f.fromStep)))
	g.mov(toStep, field(unsafe.Offsetof(f.toStep)))
	g.mov(times, field(unsafe.Offsetof(f.times)))
	g.loadMask(unsafe.Offsetof(f.mask))
	lastLanesVector := x86.Vec(vectors + 1) // of sets without mask registers
	masksInVector := g.masks(dtype) && !g.partial
	if masksInVector {
		g.mov(from, field(unsafe.Offsetof(f.maskLanes)))
		g.V(x86.VMOVUPS, g.width, lastLanesVector, x86.At(from, 0))
	}
	row := func() {
		for at := 0; fetches && at < vectors*g.lanes*dtype.Size(); at += cacheLine {
			g.G(x86.PREFETCHT0, 8, x86.At(from, int32(at)).Plus(ahead, 1))
		}
		for v := range vectors {
			mask, at := x86.K0, x86.At(from, int32(v*g.lanes*dtype.Size()))
			if v == vectors-1 && masksInVector {
				g.V(x86.VMASKMOVPS, g.width, x86.Vec(v), lastLanesVector, at)
				continue
			}
			if v == vectors-1 && g.partial {
				mask = lastLanes
			}
			g.load(x86.Vec(v), at, dtype, mask, x86.Vec(vectors))
		}
		g.add(from, fromStep)
		for v := range vectors {
			g.V(x86.VMOVUPS, g.width, x86.At(to, int32(v*g.lanes*4)), x86.Vec(v))
		}
		g.add(to, toStep)
	}
	again := g.Label()
	g.Bind(again)
	g.mov(from, fromFirst)
	g.mov(to, toFirst)
	g.mov(rows, field(unsafe.Offsetof(f.depth)))
	g.rowLoop(rows, row)
	g.add(fromFirst, field(unsafe.Offsetof(f.fromNext)))
	g.add(toFirst, field(unsafe.Offsetof(f.toNext)))
	g.sub(times, x86.Imm(1))
	g.J(x86.NotEqual, again)
	g.end()
	return start
}

// rowLoop generates a loop of at least one iteration, four at a time.
func (g *amd64Generator) rowLoop(count x86.Reg, row func()) {
	const unroll = 4
	loop, tail, single, done := g.Label(), g.Label(), g.Label(), g.Label()
	g.sub(count, x86.Imm(unroll))
	g.J(x86.Less, tail)
	g.Bind(loop)
	for range unroll {
		row()
	}
	g.sub(count, x86.Imm(unroll))
	g.J(x86.GreaterEqual, loop)
	g.Bind(tail)
	g.add(count, x86.Imm(unroll))
	g.J(x86.Equal, done)
	g.Bind(single)
	row()
	g.sub(count, x86.Imm(1))
	g.J(x86.NotEqual, single)
	g.Bind(done)
}

// transpose generates the function that transposes blocks of lanes × lanes in registers;
// moveFrame says what it does. Without masks the depth is a multiple of the lanes.
func (g *amd64Generator) transpose(dtype num.DType) int {
	start := g.begin("transpose %v", dtype)
	const (
		line   = x86.RAX
		to     = x86.RDX
		offset = x86.R9 // of the block in its lines
		toStep = x86.R10
		steps  = x86.R11
	)
	var f moveFrame
	g.mov(to, field(unsafe.Offsetof(f.to)))
	g.mov(toStep, field(unsafe.Offsetof(f.toStep)))
	g.mov(steps, field(unsafe.Offsetof(f.depth)))
	g.mov(offset, x86.Imm(0))
	block, whole := g.Label(), g.Label()
	mask := x86.K0
	if g.partial {
		mask = lastLanes
		g.K(x86.KXNORW, lastLanes, lastLanes, lastLanes)
	}
	g.Bind(block)
	if g.partial {
		g.G(x86.CMP, 64, steps, x86.Imm(int64(g.lanes)))
		g.J(x86.GreaterEqual, whole)
		g.loadMask(unsafe.Offsetof(f.mask))
		g.Bind(whole)
	}
	for l := range g.lanes {
		g.mov(line, field(unsafe.Offsetof(f.from)+uintptr(8*l)))
		g.load(x86.Vec(l), x86.At(line, 0).Plus(offset, 1), dtype, mask, x86.Vec(g.lanes))
	}
	columns, _ := g.transposeRegisters()
	for _, column := range columns {
		g.V(x86.VMOVUPS, g.width, x86.At(to, 0), column)
		g.add(to, toStep)
	}
	g.add(offset, x86.Imm(int64(g.lanes*dtype.Size())))
	g.sub(steps, x86.Imm(int64(g.lanes)))
	g.J(x86.Greater, block)
	g.end()
	return start
}

// transposeRegisters transposes the first lanes registers, each a row of lanes elements. It
// uses one register more, and returns those of the columns in order, and the one that is left.
func (g *amd64Generator) transposeRegisters() (columns []x86.Vec, spare x86.Vec) {
	n := g.lanes
	x := make([]x86.Vec, n)
	for i := range x {
		x[i] = x86.Vec(i)
	}
	spare = x86.Vec(n)
	// pair replaces x[i] and x[j] by what two instructions make of them.
	pair := func(i, j int, first, second x86.Op, immediates ...x86.Operand) {
		with := func(to x86.Vec, op x86.Op, which int) {
			operands := []x86.Operand{to, x[i], x[j]}
			if len(immediates) > 0 {
				operands = append(operands, immediates[which])
			}
			g.V(op, g.width, operands...)
		}
		with(spare, first, 0)
		with(x[i], second, 1)
		x[i], x[j], spare = spare, x[i], x[j]
	}
	for i := 0; i < n; i += 2 {
		pair(i, i+1, x86.VUNPCKLPS, x86.VUNPCKHPS)
	}
	// Afterwards 128 bits number p of x[4i+q] hold rows 4i to 4i+3 of column 4p+q.
	for i := 0; i < n; i += 4 {
		pair(i, i+2, x86.VUNPCKLPD, x86.VUNPCKHPD)
		pair(i+1, i+3, x86.VUNPCKLPD, x86.VUNPCKHPD)
		x[i+1], x[i+2] = x[i+2], x[i+1]
	}
	columns = make([]x86.Vec, n)
	for q := range 4 {
		if n == 8 {
			pair(q, 4+q, x86.VPERM2F128, x86.VPERM2F128, x86.Imm(0x20), x86.Imm(0x31))
			columns[q], columns[4+q] = x[q], x[4+q]
			continue
		}
		even, odd := x86.Imm(0x88), x86.Imm(0xdd) // 128 bits number 0 and 2, 1 and 3
		pair(q, 4+q, x86.VSHUFF32X4, x86.VSHUFF32X4, even, odd)
		pair(8+q, 12+q, x86.VSHUFF32X4, x86.VSHUFF32X4, even, odd)
		pair(q, 8+q, x86.VSHUFF32X4, x86.VSHUFF32X4, even, odd)
		pair(4+q, 12+q, x86.VSHUFF32X4, x86.VSHUFF32X4, even, odd)
		columns[q], columns[8+q], columns[4+q], columns[12+q] = x[q], x[8+q], x[4+q], x[12+q]
	}
	return columns, spare
}

// narrow generates the function that rounds rows to the stored format; moveFrame says
// what it does. Without masks the count is a multiple of the lanes.
func (g *amd64Generator) narrow(dtype num.DType) int {
	start := g.begin("narrow to %v", dtype)
	const (
		from    = x86.RAX
		to      = x86.RDX
		fromRow = x86.RCX
		toRow   = x86.RBX
		rows    = x86.R11
		columns = x86.R12
	)
	var f moveFrame
	g.mov(fromRow, field(unsafe.Offsetof(f.from)))
	g.mov(toRow, field(unsafe.Offsetof(f.to)))
	g.mov(rows, field(unsafe.Offsetof(f.depth)))
	g.loadMask(unsafe.Offsetof(f.mask))
	if dtype == num.BF16 {
		g.V(x86.VPBROADCASTD, g.width, halfBelow, g.Uint32(0x7fff))
	}
	row, column, partial, done := g.Label(), g.Label(), g.Label(), g.Label()
	g.Bind(row)
	g.mov(from, fromRow)
	g.mov(to, toRow)
	g.mov(columns, field(unsafe.Offsetof(f.count)))
	g.sub(columns, x86.Imm(int64(g.lanes)))
	g.J(x86.Less, partial)
	g.Bind(column)
	g.round(x86.At(to, 0), x86.At(from, 0), dtype, x86.K0)
	g.add(from, x86.Imm(int64(g.lanes*4)))
	g.add(to, x86.Imm(int64(g.lanes*dtype.Size())))
	g.sub(columns, x86.Imm(int64(g.lanes)))
	g.J(x86.GreaterEqual, column)
	g.Bind(partial)
	if g.partial {
		g.add(columns, x86.Imm(int64(g.lanes)))
		g.J(x86.Equal, done)
		g.round(x86.At(to, 0), x86.At(from, 0), dtype, lastLanes)
		g.Bind(done)
	}
	g.add(fromRow, field(unsafe.Offsetof(f.fromStep)))
	g.add(toRow, field(unsafe.Offsetof(f.toStep)))
	g.sub(rows, x86.Imm(1))
	g.J(x86.NotEqual, row)
	g.end()
	return start
}

// halfBelow holds 0x7fff in each lane while values are rounded to bf16.
const halfBelow = x86.Vec(15)

// round stores a vector of binary32 values in a format, each rounded once to nearest
// even. With a mask it reads and writes the selected lanes only.
func (g *amd64Generator) round(to, from x86.Mem, dtype num.DType, mask x86.Mask) {
	const x, y, z = x86.Vec(0), x86.Vec(1), x86.Vec(2)
	store := func(op x86.Op, operands ...x86.Operand) {
		if mask != x86.K0 {
			operands = append(operands, x86.Merge(mask))
		}
		g.V(op, g.width, operands...)
	}
	g.load(x, from, num.F32, mask, x)
	switch dtype {
	case num.F16:
		store(x86.VCVTPS2PH, to, x, x86.Imm(0))
	case num.BF16:
		// x + 0x7fff + the last bit that stays. A NaN remains one: it comes from operands of
		// 16 bits or is the processor's own, and the lower half of its bits is zero.
		g.V(x86.VPSLLD, g.width, y, x, x86.Imm(15))
		g.V(x86.VPSRLD, g.width, y, y, x86.Imm(31))
		g.V(x86.VPADDD, g.width, y, y, halfBelow)
		g.V(x86.VPADDD, g.width, y, y, x)
		g.V(x86.VPSRLD, g.width, y, y, x86.Imm(16))
		if g.partial {
			store(x86.VPMOVDW, to, y)
			return
		}
		g.V(x86.VEXTRACTF32X4, g.width, z, y, x86.Imm(1))
		g.V(x86.VPACKUSDW, x86.X, y, y, z)
		g.V(x86.VMOVUPS, x86.X, to, y)
	default:
		store(x86.VMOVUPS, to, x)
	}
}
