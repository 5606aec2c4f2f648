package matmul

import (
	"unsafe"

	arm "tokitai/lower/cpu/asm/arm64"
	"tokitai/num"
)

// widen generates the function that widens rows of a few vectors; moveFrame says what it
// does.
func (g *neonGenerator) widen(vectors int, dtype num.DType, _ bool) int {
	start := g.begin("widen %d vectors of %v", vectors, dtype)
	const (
		from      = arm.X1
		to        = arm.X2
		fromStep  = arm.X3
		toStep    = arm.X4
		rows      = arm.X5
		fromFirst = arm.X6
		toFirst   = arm.X7
		times     = arm.X8
		fromNext  = arm.X9
		toNext    = arm.X10
		depth     = arm.X11
	)
	var f moveFrame
	g.field(fromFirst, unsafe.Offsetof(f.from))
	g.field(toFirst, unsafe.Offsetof(f.to))
	g.field(fromStep, unsafe.Offsetof(f.fromStep))
	g.field(toStep, unsafe.Offsetof(f.toStep))
	g.field(depth, unsafe.Offsetof(f.depth))
	g.field(times, unsafe.Offsetof(f.times))
	g.field(fromNext, unsafe.Offsetof(f.fromNext))
	g.field(toNext, unsafe.Offsetof(f.toNext))
	again, next := g.Label(), g.Label()
	g.Bind(next)
	g.I(arm.MOV, from, fromFirst)
	g.I(arm.MOV, to, toFirst)
	g.I(arm.MOV, rows, depth)
	g.Bind(again)
	for v := range vectors {
		g.load(arm.Vec(v), arm.At(from, int64(v*g.lanes*dtype.Size())), dtype)
	}
	g.I(arm.ADD, from, from, fromStep)
	for v := range vectors {
		g.I(arm.STR, arm.Vec(v).As(arm.Q1), arm.At(to, int64(v*g.lanes*4)))
	}
	g.I(arm.ADD, to, to, toStep)
	g.I(arm.SUBS, rows, rows, arm.Imm(1))
	g.I(arm.BCOND, arm.NE, again)
	g.I(arm.ADD, fromFirst, fromFirst, fromNext)
	g.I(arm.ADD, toFirst, toFirst, toNext)
	g.I(arm.SUBS, times, times, arm.Imm(1))
	g.I(arm.BCOND, arm.NE, next)
	g.I(arm.RET)
	return start
}

// transpose generates the function that transposes blocks of lanes × lanes in registers;
// moveFrame says what it does. The depth is a multiple of the lanes.
func (g *neonGenerator) transpose(dtype num.DType) int {
	start := g.begin("transpose %v", dtype)
	const (
		to     = arm.X1
		toStep = arm.X2
		steps  = arm.X3
		line   = arm.X4 // the first; the others follow
	)
	var f moveFrame
	g.field(to, unsafe.Offsetof(f.to))
	g.field(toStep, unsafe.Offsetof(f.toStep))
	g.field(steps, unsafe.Offsetof(f.depth))
	for l := range g.lanes {
		g.field(line+arm.Reg(l), unsafe.Offsetof(f.from)+uintptr(8*l))
	}
	block := g.Label()
	g.Bind(block)
	for l := range g.lanes {
		g.load(arm.Vec(l), arm.At(line+arm.Reg(l), 0), dtype)
		g.I(arm.ADD, line+arm.Reg(l), line+arm.Reg(l), arm.Imm(g.lanes*dtype.Size()))
	}
	// Pairs of rows, then pairs of pairs: afterwards registers 0, 1, 2, 3 hold the columns.
	g.V(arm.TRN1, arm.S4, arm.V4, arm.V0, arm.V1)
	g.V(arm.TRN2, arm.S4, arm.V5, arm.V0, arm.V1)
	g.V(arm.TRN1, arm.S4, arm.V6, arm.V2, arm.V3)
	g.V(arm.TRN2, arm.S4, arm.V7, arm.V2, arm.V3)
	g.V(arm.TRN1, arm.D2, arm.V0, arm.V4, arm.V6)
	g.V(arm.TRN1, arm.D2, arm.V1, arm.V5, arm.V7)
	g.V(arm.TRN2, arm.D2, arm.V2, arm.V4, arm.V6)
	g.V(arm.TRN2, arm.D2, arm.V3, arm.V5, arm.V7)
	for column := range g.lanes {
		g.I(arm.STR, arm.Vec(column).As(arm.Q1), arm.At(to, 0))
		g.I(arm.ADD, to, to, toStep)
	}
	g.I(arm.SUBS, steps, steps, arm.Imm(g.lanes))
	g.I(arm.BCOND, arm.GT, block)
	g.I(arm.RET)
	return start
}

// narrow generates the function that rounds rows to the stored format; moveFrame says
// what it does. The count is a multiple of the lanes.
func (g *neonGenerator) narrow(dtype num.DType) int {
	start := g.begin("narrow to %v", dtype)
	const (
		from     = arm.X1
		to       = arm.X2
		fromRow  = arm.X3
		toRow    = arm.X4
		rows     = arm.X5
		columns  = arm.X6
		fromStep = arm.X7
		toStep   = arm.X8
		count    = arm.X9
	)
	var f moveFrame
	g.field(fromRow, unsafe.Offsetof(f.from))
	g.field(toRow, unsafe.Offsetof(f.to))
	g.field(rows, unsafe.Offsetof(f.depth))
	g.field(fromStep, unsafe.Offsetof(f.fromStep))
	g.field(toStep, unsafe.Offsetof(f.toStep))
	g.field(count, unsafe.Offsetof(f.count))
	if dtype == num.BF16 {
		g.constant(neonHalfBelow, 0x7fff)
		g.constant(neonQuietNaN, 0x7fc00000)
	}
	row, column := g.Label(), g.Label()
	g.Bind(row)
	g.I(arm.MOV, from, fromRow)
	g.I(arm.MOV, to, toRow)
	g.I(arm.MOV, columns, count)
	g.Bind(column)
	g.I(arm.LDR, arm.V0.As(arm.Q1), arm.PostIndex(from, int64(g.lanes*4)))
	g.round(dtype)
	stored := arm.D1
	if dtype == num.F32 {
		stored = arm.Q1
	}
	g.I(arm.STR, arm.V0.As(stored), arm.PostIndex(to, int64(g.lanes*dtype.Size())))
	g.I(arm.SUBS, columns, columns, arm.Imm(g.lanes))
	g.I(arm.BCOND, arm.NE, column)
	g.I(arm.ADD, fromRow, fromRow, fromStep)
	g.I(arm.ADD, toRow, toRow, toStep)
	g.I(arm.SUBS, rows, rows, arm.Imm(1))
	g.I(arm.BCOND, arm.NE, row)
	g.I(arm.RET)
	return start
}

// round rounds the values of register 0 to a format, once, to nearest even.
func (g *neonGenerator) round(dtype num.DType) {
	switch dtype {
	case num.F16:
		g.I(arm.FCVTN, arm.V0.As(arm.H4), arm.V0.As(arm.S4))
	case num.BF16:
		// x + 0x7fff + the last bit that stays; NaN becomes 0x7fc0.
		const sum, isNumber = arm.V1, arm.V2
		g.I(arm.SHL, sum.As(arm.S4), arm.V0.As(arm.S4), arm.Imm(15))
		g.I(arm.USHR, sum.As(arm.S4), sum.As(arm.S4), arm.Imm(31))
		g.V(arm.ADD, arm.S4, sum, sum, neonHalfBelow)
		g.V(arm.ADD, arm.S4, sum, sum, arm.V0)
		g.V(arm.FCMEQ, arm.S4, isNumber, arm.V0, arm.V0)
		g.V(arm.BIF, arm.B16, sum, neonQuietNaN, isNumber)
		g.I(arm.SHRN, arm.V0.As(arm.H4), sum.As(arm.S4), arm.Imm(16))
	}
}

// constant sets all lanes of a register.
func (g *neonGenerator) constant(to arm.Vec, bits uint32) {
	const scratch = arm.X1
	g.MovImm(scratch.W(), uint64(bits))
	g.I(arm.DUP, to.As(arm.S4), scratch.W())
}

// The registers that rounding to bf16 keeps its constants in.
const (
	neonHalfBelow = arm.V30 // 0x7fff
	neonQuietNaN  = arm.V31 // 0x7fc00000
)
