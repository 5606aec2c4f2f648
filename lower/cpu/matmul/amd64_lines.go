package matmul

import (
	"encoding/binary"
	"unsafe"

	x86 "tokitai/lower/cpu/asm/amd64"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// The registers of a multiplication by lines. Those of vectors are the block, as many as lanes, one more to transpose it, and then the
// accumulators.
const (
	lineAt     = x86.RAX
	lineLeft   = x86.RDX
	lineOffset = x86.R9  // of the block in its lines
	lineNext   = x86.R10 // the same of later lines
	lineSteps  = x86.R11
	lineIn     = x86.R12
	lineOut    = x86.R13
)

// multiplyLines generates a multiplication of a few rows by lines, which are transposed in
// registers; multiplyFrame says what it does.
func (g *amd64Generator) multiplyLines(rows int, dtype num.DType) int {
	start := g.begin("multiply %d rows by %d lines of %v", rows, g.lanes, dtype)
	var f multiplyFrame
	acc := func(r, _ int) x86.Vec { return g.lineSum(r) }
	g.loadMask(unsafe.Offsetof(f.mask))
	g.mov(lineIn, field(unsafe.Offsetof(f.in)))
	g.mov(lineOut, field(unsafe.Offsetof(f.out)))
	zero, ready := g.Label(), g.Label()
	g.G(x86.TEST, 64, lineIn, lineIn)
	g.J(x86.Equal, zero)
	g.eachAccumulator(rows, 1, lineIn, unsafe.Offsetof(f.inRow), acc, true)
	g.Jmp(ready)
	g.Bind(zero)
	for r := range rows {
		g.V(x86.VXORPS, g.width, acc(r, 0), acc(r, 0), acc(r, 0))
	}
	g.Bind(ready)
	g.mov(lineLeft, field(unsafe.Offsetof(f.a)))
	g.mov(lineSteps, field(unsafe.Offsetof(f.depth)))
	g.mov(lineOffset, x86.Imm(0))
	g.mov(lineNext, field(unsafe.Offsetof(f.bStep)))

	done := g.Label()
	g.wholeBlocks(rows, dtype)
	if g.partial || dtype == num.BF16 {
		g.lastBlocks(rows, dtype, done)
	}
	g.Bind(done)
	g.eachAccumulator(rows, 1, lineOut, unsafe.Offsetof(f.outRow), acc, false)
	g.end()
	return start
}

// lineSum returns the accumulator of a row.
func (g *amd64Generator) lineSum(row int) x86.Vec { return x86.Vec(g.lanes + 1 + row) }

// wholeBlocks generates the loop over blocks of as many steps as a line has in a vector. Values of bf16 are
// transposed in pairs of steps: either is a binary32 once the other is gone.
func (g *amd64Generator) wholeBlocks(rows int, dtype num.DType) {
	steps, stored := g.lanes, dtype
	if dtype == num.BF16 {
		steps, stored = 2*g.lanes, num.F32
	}
	loop, done := g.Label(), g.Label()
	g.G(x86.CMP, 64, lineSteps, x86.Imm(int64(steps)))
	g.J(x86.Less, done)
	g.Bind(loop)
	g.loadLines(stored, x86.K0, true)
	columns, spare := g.transposeRegisters()
	for i, column := range columns {
		if dtype != num.BF16 {
			g.multiplyColumn(rows, i, column)
			continue
		}
		g.V(x86.VPSLLD, g.width, spare, column, x86.Imm(16))
		g.multiplyColumn(rows, 2*i, spare)
		g.V(x86.VPANDD, g.width, column, column, g.repeated(binary.LittleEndian.AppendUint32(nil, 0xffff0000), g.width))
		g.multiplyColumn(rows, 2*i+1, column)
	}
	g.nextBlock(rows, steps, dtype)
	g.sub(lineSteps, x86.Imm(int64(steps)))
	g.G(x86.CMP, 64, lineSteps, x86.Imm(int64(steps)))
	g.J(x86.GreaterEqual, loop)
	g.Bind(done)
}

// lastBlocks generates the multiplication of what whole blocks leave, and goes to done.
func (g *amd64Generator) lastBlocks(rows int, dtype num.DType, done x86.Label) {
	var f multiplyFrame
	block, whole := g.Label(), g.Label()
	mask := x86.K0
	g.G(x86.TEST, 64, lineSteps, lineSteps)
	g.J(x86.Equal, done)
	if g.partial {
		mask = x86.K2
		g.K(x86.KXNORW, mask, mask, mask)
	}
	g.Bind(block)
	if g.partial {
		g.G(x86.CMP, 64, lineSteps, x86.Imm(int64(g.lanes)))
		g.J(x86.GreaterEqual, whole)
		g.K(x86.KMOVQ, mask, field(unsafe.Offsetof(f.lastSteps)))
		g.Bind(whole)
	}
	g.loadLines(dtype, mask, false)
	columns, _ := g.transposeRegisters()
	for i, column := range columns {
		g.multiplyColumn(rows, i, column)
		if g.partial {
			g.sub(lineSteps, x86.Imm(1))
			g.J(x86.Equal, done)
		}
	}
	if g.partial {
		g.nextBlock(rows, g.lanes, dtype)
		g.Jmp(block)
	}
}

// loadLines loads a block, those steps of it that the mask selects if there is one. It can fetch the same block of later
// lines into the second-level cache: lines are too short, or too many, for the processor to see what will be read.
func (g *amd64Generator) loadLines(dtype num.DType, mask x86.Mask, fetches bool) {
	var f multiplyFrame
	for l := range g.lanes {
		g.mov(lineAt, field(unsafe.Offsetof(f.lines)+uintptr(8*l)))
		if fetches {
			g.G(x86.PREFETCHT1, 8, x86.At(lineAt, 0).Plus(lineNext, 1))
		}
		g.load(x86.Vec(l), x86.At(lineAt, 0).Plus(lineOffset, 1), dtype, mask, x86.Vec(g.lanes)) // the one that transposing uses
	}
}

// multiplyColumn adds the products of a step of a block.
func (g *amd64Generator) multiplyColumn(rows, step int, column x86.Vec) {
	broadcast := x86.Vec(g.registers() - 1)
	for r := range rows {
		element := x86.At(lineLeft, int32(4*(step*rows+r)))
		if g.set == machine.AVX512 {
			g.V(x86.VFMADD231PS, g.width, g.lineSum(r), column, element.Broadcast())
		} else {
			g.V(x86.VBROADCASTSS, g.width, broadcast, element)
			g.V(x86.VFMADD231PS, g.width, g.lineSum(r), column, broadcast)
		}
	}
}

// nextBlock moves on by some steps.
func (g *amd64Generator) nextBlock(rows, steps int, dtype num.DType) {
	g.add(lineLeft, x86.Imm(int64(4*rows*steps)))
	g.add(lineOffset, x86.Imm(int64(steps*dtype.Size())))
	g.add(lineNext, x86.Imm(int64(steps*dtype.Size())))
}
