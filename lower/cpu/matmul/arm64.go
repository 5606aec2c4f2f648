package matmul

import (
	"unsafe"

	arm "tokitai/lower/cpu/asm/arm64"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// neonGenerator makes the functions for NEON.
type neonGenerator struct {
	*arm.Assembler
	target
}

var neonTarget = target{set: machine.NEON, lanes: 4, rows: 6, vectors: 4}

// neonFrame holds the argument of all functions.
const neonFrame = arm.X0

func newNEON() *neonGenerator {
	return &neonGenerator{Assembler: arm.New(), target: neonTarget}
}

// begin starts a function and returns its offset.
func (g *neonGenerator) begin(format string, args ...any) int {
	g.Align(64)
	g.Comment(format, args...)
	return g.Len()
}

// field loads a field of the frame.
func (g *neonGenerator) field(to arm.Reg, offset uintptr) {
	g.I(arm.LDR, to, arm.At(neonFrame, int64(offset)))
}

// load reads a vector of stored values as binary32.
func (g *neonGenerator) load(to arm.Vec, from arm.Mem, dtype num.DType) {
	switch dtype {
	case num.F16:
		g.I(arm.LDR, to.As(arm.D1), from)
		g.I(arm.FCVTL, to.As(arm.S4), to.As(arm.H4))
	case num.BF16:
		g.I(arm.LDR, to.As(arm.D1), from)
		g.I(arm.SHLL, to.As(arm.S4), to.As(arm.H4), arm.Imm(16))
	default:
		g.I(arm.LDR, to.As(arm.Q1), from)
	}
}

// multiply generates a multiplication of rows by vectors; multiplyFrame says what it does.
// adjacent says what lies side by side in the left operand, at a distance of 4 bytes.
//
// All accumulators stay in registers. Each step of the sum loads a row of b and the elements of
// a, by which the vectors are multiplied: side by side as vectors, else one by one.
func (g *neonGenerator) multiply(rows, vectors int, left adjacency, right num.DType) int {
	start := g.begin("multiply %d rows, adjacent %s, by %d vectors of %v", rows, left, vectors, right)
	const (
		a        = arm.X1
		b        = arm.X2
		aStep    = arm.X3
		bStep    = arm.X4
		steps    = arm.X5
		in       = arm.X6
		out      = arm.X7
		panel    = arm.X8
		prefetch = arm.X9
		mask     = arm.X10
		scratch  = arm.X11
		distance = arm.X12 // to row 1; those to the next rows follow
	)
	var f multiplyFrame
	acc := func(r, v int) arm.Vec { return arm.Vec(r*vectors + v) }
	rightVector := func(v int) arm.Vec { return arm.Vec(rows*vectors + v) }
	leftVector := func(i int) arm.Vec { return arm.Vec(g.registers() - 2 + i%2) }
	// leftElement loads what row r is the first to need, and returns its element.
	leftElement := func(r int) arm.Element {
		x, lane := leftVector(r/g.lanes), r%g.lanes
		switch {
		case left == stepsAdjacent && r == 0:
			x, lane = leftVector(r), 0
			g.I(arm.LDR, x.As(arm.S1), arm.At(a, 0))
		case left == stepsAdjacent:
			x, lane = leftVector(r), 0
			g.I(arm.LDR, x.As(arm.S1), arm.At(a, 0).Plus(distance+arm.Reg(r-1), 0))
		case lane == 0 && rows-r >= 4:
			g.I(arm.LDR, x.As(arm.Q1), arm.At(a, int64(4*r)))
		case lane == 0 && rows-r >= 2:
			g.I(arm.LDR, x.As(arm.D1), arm.At(a, int64(4*r)))
		case lane == 0:
			g.I(arm.LDR, x.As(arm.S1), arm.At(a, int64(4*r)))
		case lane == 2 && rows-r == 1: // three rows: two were loaded
			g.I(arm.ADD, scratch, a, arm.Imm(4*r))
			g.I(arm.LD1, x.Lane(arm.S1, lane), arm.At(scratch, 0))
		}
		return x.Lane(arm.S1, lane)
	}

	if left == stepsAdjacent && rows > 1 {
		g.field(distance, unsafe.Offsetof(f.aRow))
		for r := 2; r < rows; r++ {
			g.I(arm.ADD, distance+arm.Reg(r-1), distance+arm.Reg(r-2), distance)
		}
	}
	g.field(aStep, unsafe.Offsetof(f.aStep))
	g.field(bStep, unsafe.Offsetof(f.bStep))
	g.field(in, unsafe.Offsetof(f.in))
	g.field(out, unsafe.Offsetof(f.out))
	g.field(panel, unsafe.Offsetof(f.a))
	g.field(prefetch, unsafe.Offsetof(f.prefetch))
	g.field(mask, unsafe.Offsetof(f.mask))

	nextPanel, zero, ready, tail, single, done, last := g.Label(), g.Label(), g.Label(), g.Label(), g.Label(), g.Label(), g.Label()
	g.Bind(nextPanel)
	g.I(arm.CBZ, in, zero)
	g.eachAccumulator(rows, vectors, in, unsafe.Offsetof(f.inRow), mask, acc, arm.LDR, arm.LD1)
	g.I(arm.B, ready)
	g.Bind(zero)
	for i := range rows * vectors {
		g.I(arm.MOVI, arm.Vec(i).As(arm.S4), arm.Imm(0))
	}
	g.Bind(ready)

	g.I(arm.MOV, a, panel)
	g.field(b, unsafe.Offsetof(f.b))
	g.field(steps, unsafe.Offsetof(f.depth))
	step := func() {
		for v := range vectors {
			g.load(rightVector(v), arm.At(b, int64(v*g.lanes*right.Size())), right)
		}
		g.I(arm.ADD, b, b, bStep)
		for r := range rows {
			x := leftElement(r)
			for v := range vectors {
				g.I(arm.FMLA, acc(r, v).As(arm.S4), rightVector(v).As(arm.S4), x)
			}
		}
		g.I(arm.ADD, a, a, aStep)
	}
	loop := g.Label()
	g.I(arm.SUBS, steps, steps, arm.Imm(unroll))
	g.I(arm.BCOND, arm.LT, tail)
	g.Align(32)
	g.Bind(loop)
	g.I(arm.PRFM, arm.PLDL2KEEP, arm.At(prefetch, 0))
	g.I(arm.ADD, prefetch, prefetch, arm.Imm(prefetchBytes))
	for range unroll {
		step()
	}
	g.I(arm.SUBS, steps, steps, arm.Imm(unroll))
	g.I(arm.BCOND, arm.GE, loop)
	g.Bind(tail)
	g.I(arm.ADDS, steps, steps, arm.Imm(unroll))
	g.I(arm.BCOND, arm.EQ, done)
	g.Bind(single)
	step()
	g.I(arm.SUBS, steps, steps, arm.Imm(1))
	g.I(arm.BCOND, arm.NE, single)
	g.Bind(done)
	g.I(arm.STR, prefetch, arm.At(neonFrame, int64(unsafe.Offsetof(f.prefetch))))

	g.eachAccumulator(rows, vectors, out, unsafe.Offsetof(f.outRow), mask, acc, arm.STR, arm.ST1)
	g.field(steps, unsafe.Offsetof(f.panels))
	g.I(arm.SUBS, steps, steps, arm.Imm(1))
	g.I(arm.BCOND, arm.EQ, last)
	g.I(arm.STR, steps, arm.At(neonFrame, int64(unsafe.Offsetof(f.panels))))
	g.advance(panel, scratch, unsafe.Offsetof(f.aPanel))
	g.field(b, unsafe.Offsetof(f.b))
	g.advance(b, scratch, unsafe.Offsetof(f.bPanel))
	g.I(arm.STR, b, arm.At(neonFrame, int64(unsafe.Offsetof(f.b))))
	g.advance(out, scratch, unsafe.Offsetof(f.outPanel))
	g.I(arm.CBZ, in, nextPanel)
	g.advance(in, scratch, unsafe.Offsetof(f.inPanel))
	g.I(arm.B, nextPanel)
	g.Bind(last)
	g.I(arm.RET)
	return start
}

// advance adds a field of the frame to a register.
func (g *neonGenerator) advance(to, scratch arm.Reg, offset uintptr) {
	g.field(scratch, offset)
	g.I(arm.ADD, to, to, scratch)
}

// eachAccumulator loads all accumulators, or stores them: whole is the instruction for
// several lanes, lane the one for a single lane.
func (g *neonGenerator) eachAccumulator(rows, vectors int, base arm.Reg, rowField uintptr, mask arm.Reg, acc func(r, v int) arm.Vec, whole, lane arm.Op) {
	const (
		at    = arm.X1
		row   = arm.X2
		third = arm.X11
	)
	g.I(arm.MOV, at, base)
	g.field(row, rowField)
	for r := range rows {
		last := int64((vectors - 1) * g.lanes * 4)
		for v := range vectors - 1 {
			g.I(whole, acc(r, v).As(arm.Q1), arm.At(at, int64(v*g.lanes*4)))
		}
		// Of the last vector, the first 1 to 4 lanes.
		x := acc(r, vectors-1)
		few, one, done := g.Label(), g.Label(), g.Label()
		g.I(arm.TBZ, mask, arm.Imm(3), few)
		g.I(whole, x.As(arm.Q1), arm.At(at, last))
		g.I(arm.B, done)
		g.Bind(few)
		g.I(arm.TBZ, mask, arm.Imm(1), one)
		g.I(whole, x.As(arm.D1), arm.At(at, last))
		g.I(arm.TBZ, mask, arm.Imm(2), done)
		g.I(arm.ADD, third, at, arm.Imm(last+8))
		g.I(lane, x.Lane(arm.S1, 2), arm.At(third, 0))
		g.I(arm.B, done)
		g.Bind(one)
		g.I(whole, x.As(arm.S1), arm.At(at, last))
		g.Bind(done)
		g.I(arm.ADD, at, at, row)
	}
}
