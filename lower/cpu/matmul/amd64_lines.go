package matmul

import (
	"unsafe"

	x86 "tokitai/lower/cpu/asm/amd64"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// multiplyLines generates a multiplication of a few rows by lines, which are transposed in
// registers; multiplyFrame says what it does.
func (g *amd64Generator) multiplyLines(rows int, dtype num.DType) int {
	start := g.begin("multiply %d rows by %d lines of %v", rows, g.lanes, dtype)
	const (
		line   = x86.RAX
		a      = x86.RDX
		offset = x86.R9  // of the block in its lines
		next   = x86.R10 // the same of later lines
		steps  = x86.R11
		in     = x86.R12
		out    = x86.R13
	)
	var f multiplyFrame
	acc := func(r, _ int) x86.Vec { return x86.Vec(g.lanes + 1 + r) }
	broadcast := x86.Vec(g.registers() - 1)

	g.loadMask(unsafe.Offsetof(f.mask))
	g.mov(in, field(unsafe.Offsetof(f.in)))
	g.mov(out, field(unsafe.Offsetof(f.out)))
	zero, ready := g.Label(), g.Label()
	g.G(x86.TEST, 64, in, in)
	g.J(x86.Equal, zero)
	g.eachAccumulator(rows, 1, in, unsafe.Offsetof(f.inRow), acc, true)
	g.Jmp(ready)
	g.Bind(zero)
	for r := range rows {
		g.V(x86.VXORPS, g.width, acc(r, 0), acc(r, 0), acc(r, 0))
	}
	g.Bind(ready)
	g.mov(a, field(unsafe.Offsetof(f.a)))
	g.mov(steps, field(unsafe.Offsetof(f.depth)))
	g.mov(offset, x86.Imm(0))
	g.mov(next, field(unsafe.Offsetof(f.bStep)))

	block, whole, done := g.Label(), g.Label(), g.Label()
	mask := x86.K0
	g.G(x86.TEST, 64, steps, steps)
	g.J(x86.Equal, done)
	if g.partial {
		mask = x86.K2
		g.K(x86.KXNORW, mask, mask, mask)
	}
	g.Bind(block)
	if g.partial {
		g.G(x86.CMP, 64, steps, x86.Imm(int64(g.lanes)))
		g.J(x86.GreaterEqual, whole)
		g.K(x86.KMOVQ, mask, field(unsafe.Offsetof(f.lastSteps)))
		g.Bind(whole)
	}
	for l := range g.lanes {
		g.mov(line, field(unsafe.Offsetof(f.lines)+uintptr(8*l)))
		if dtype.IsFP8() { // blocks of 128 are too short for the processor to see that lines follow
			g.G(x86.PREFETCHT0, 8, x86.At(line, 0).Plus(next, 1))
		}
		g.load(x86.Vec(l), x86.At(line, 0).Plus(offset, 1), dtype, mask, x86.Vec(g.lanes)) // the one that transposing uses
	}
	for i, column := range g.transposeRegisters() {
		for r := range rows {
			element := x86.At(a, int32(4*(i*rows+r)))
			if g.set == machine.AVX512 {
				g.V(x86.VFMADD231PS, g.width, acc(r, 0), column, element.Broadcast())
			} else {
				g.V(x86.VBROADCASTSS, g.width, broadcast, element)
				g.V(x86.VFMADD231PS, g.width, acc(r, 0), column, broadcast)
			}
		}
		if g.partial {
			g.sub(steps, x86.Imm(1))
			g.J(x86.Equal, done)
		}
	}
	g.add(a, x86.Imm(int64(4*rows*g.lanes)))
	g.add(offset, x86.Imm(int64(g.lanes*dtype.Size())))
	g.add(next, x86.Imm(int64(g.lanes*dtype.Size())))
	if g.partial {
		g.Jmp(block)
	} else {
		g.sub(steps, x86.Imm(int64(g.lanes)))
		g.J(x86.NotEqual, block)
	}
	g.Bind(done)
	g.eachAccumulator(rows, 1, out, unsafe.Offsetof(f.outRow), acc, false)
	g.end()
	return start
}
