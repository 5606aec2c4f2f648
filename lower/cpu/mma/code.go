package mma

import (
	"bytes"
	"encoding/binary"
	"math"
	"unsafe"

	asm "tokitai/lower/cpu/asm/amd64"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// Registers of the generated code.
const (
	frame          = asm.RDI // steps
	left           = asm.RSI
	leftExponents  = asm.RDX
	right          = asm.RCX
	rightExponents = asm.R8
	acc            = asm.R9
	rows           = asm.R10
	stepsLeft      = asm.R11
	accRow         = asm.RAX
	rowsLeft       = asm.RBX
)

// Vector registers. Pairs have the strip's even columns in the first register and its odd
// columns in the second.
const (
	accs      = asm.Vec(0)
	scales    = asm.Vec(2)
	sums      = asm.Vec(4)
	products  = asm.Vec(6)
	largest   = asm.Vec(8) // exponents
	exponents = asm.Vec(9)
	factor    = asm.Vec(10)
)

// generator writes the steps of one model in vectors. AVX2 and AVX-512 have the same
// instructions for everything but truncation.
type generator struct {
	*asm.Assembler
	width    asm.Width
	truncate asm.Op
	num.MMA
}

// newGenerator returns a generator for one of AVX2 and AVX512.
func newGenerator(m num.MMA, set machine.Set) *generator {
	g := &generator{Assembler: asm.New(), width: asm.Z, truncate: asm.VRNDSCALEPD, MMA: m}
	if set == machine.AVX2 {
		g.width, g.truncate, g.VEXOnly = asm.Y, asm.VROUNDPD, true
	}
	return g
}

// lanes returns the number of columns of a strip: as many as a vector has exponents.
func (g *generator) lanes() int { return g.width.Bytes() / 4 }

// v writes a vector instruction.
func (g *generator) v(op asm.Op, operands ...asm.Operand) { g.V(op, g.width, operands...) }

// all returns a vector of equal integers.
func (g *generator) all(x int32) asm.Mem {
	element := binary.LittleEndian.AppendUint32(nil, uint32(x))
	return g.Constant(bytes.Repeat(element, g.width.Bytes()/4), g.width.Bytes())
}

// all64 returns a vector of equal patterns of 64 bits.
func (g *generator) all64(x uint64) asm.Mem {
	element := binary.LittleEndian.AppendUint64(nil, x)
	return g.Constant(bytes.Repeat(element, g.width.Bytes()/8), g.width.Bytes())
}

// allFloats returns a vector of equal binary64 values.
func (g *generator) allFloats(x float64) asm.Mem { return g.all64(math.Float64bits(x)) }

// function writes the function that takes steps.
func (g *generator) function() {
	var s steps
	for _, field := range []struct {
		register asm.Reg
		offset   uintptr
	}{
		{left, unsafe.Offsetof(s.left)}, {leftExponents, unsafe.Offsetof(s.leftExponents)},
		{right, unsafe.Offsetof(s.right)}, {rightExponents, unsafe.Offsetof(s.rightExponents)},
		{acc, unsafe.Offsetof(s.acc)}, {rows, unsafe.Offsetof(s.rows)}, {stepsLeft, unsafe.Offsetof(s.steps)},
	} {
		g.G(asm.MOV, 64, field.register, asm.At(frame, int32(field.offset)))
	}
	nextStep, nextRow := g.Label(), g.Label()
	vector := int32(g.width.Bytes())
	g.Bind(nextStep)
	g.G(asm.MOV, 64, accRow, acc)
	g.G(asm.MOV, 64, rowsLeft, rows)
	g.Bind(nextRow)
	g.step()
	g.G(asm.ADD, 64, left, asm.Imm(8*g.L))
	g.G(asm.ADD, 64, leftExponents, asm.Imm(4*g.L))
	g.G(asm.ADD, 64, accRow, asm.Imm(2*vector))
	g.G(asm.DEC, 64, rowsLeft)
	g.J(asm.NotEqual, nextRow)
	g.G(asm.ADD, 64, right, asm.Imm(2*vector*int32(g.L)))
	g.G(asm.ADD, 64, rightExponents, asm.Imm(vector*int32(g.L)))
	g.G(asm.DEC, 64, stepsLeft)
	g.J(asm.NotEqual, nextStep)
	g.VZeroUpper()
	g.Ret()
}

// step writes one step of one row of accumulators. stepGo does the same for one element.
func (g *generator) step() {
	g.align()
	g.sum()
	g.round()
}

// align sets scales to 2^(F-e), where e is the largest exponent, and loads accs.
func (g *generator) align() {
	vector := int32(g.width.Bytes())

	g.Comment("exponents of the accumulators: 0 for zeros, -126 and more for others, both + %d", accBias)
	for i := range asm.Vec(2) {
		g.v(asm.VMOVUPD, accs+i, asm.At(accRow, int32(i)*vector))
		g.v(asm.VPADDQ, products+i, accs+i, accs+i)                    // without the sign
		g.v(asm.VPSRLQ, products+i, products+i, asm.Imm(fraction64+1)) // the exponent's field
	}
	g.v(asm.VPSLLQ, products+1, products+1, asm.Imm(32))
	g.v(asm.VPOR, largest, products, products+1)
	g.v(asm.VPSLLD, exponents, largest, asm.Imm(1)) // beyond every limit unless it is zero
	g.v(asm.VPMINSD, exponents, exponents, g.all(-126+accBias))
	g.v(asm.VPMAXSD, largest, largest, exponents)
	g.v(asm.VPMINSD, largest, largest, g.all(infExponent+accBias))
	g.v(asm.VPSUBD, largest, largest, g.all(accBias))

	g.Comment("the largest exponent")
	g.v(asm.VPMAXSD, largest, largest, g.all(leastAlignment))
	for i := range int32(g.L) {
		g.v(asm.VPBROADCASTD, exponents, asm.At(leftExponents, 4*i))
		g.v(asm.VPADDD, exponents, exponents, asm.At(rightExponents, i*vector))
		g.v(asm.VPMAXSD, largest, largest, exponents)
	}

	g.Comment("scales")
	g.v(asm.VMOVDQU32, exponents, g.all(int32(bias64+g.F)))
	g.v(asm.VPSUBD, exponents, exponents, largest)
	g.v(asm.VPSLLD, exponents, exponents, asm.Imm(fraction64-32))
	g.v(asm.VPSLLQ, scales, exponents, asm.Imm(32))
	g.v(asm.VPAND, scales+1, exponents, g.all64(0xffffffff<<32))
}

// sum sets sums to the sum of all terms.
func (g *generator) sum() {
	vector := int32(g.width.Bytes())
	g.Comment("the terms")
	for i := range asm.Vec(2) {
		g.v(asm.VMULPD, sums+i, accs+i, g.allFloats(1/accScale))
		g.v(asm.VMULPD, sums+i, sums+i, scales+i)
		g.v(g.truncate, sums+i, sums+i, asm.Imm(towardZero))
	}
	for k := range int32(g.L) {
		g.v(asm.VBROADCASTSD, factor, asm.At(left, 8*k))
		for i := range asm.Vec(2) {
			g.v(asm.VMULPD, products+i, factor, asm.At(right, (2*k+int32(i))*vector))
			g.v(asm.VMULPD, products+i, products+i, scales+i)
			g.v(g.truncate, products+i, products+i, asm.Imm(towardZero))
			g.v(asm.VADDPD, sums+i, sums+i, products+i)
		}
	}
}

// round sets the accumulators to the sums, truncated.
func (g *generator) round() {
	vector, z := int32(g.width.Bytes()), roundingOf(g.MMA)
	g.Comment("the sums, truncated to binary32")
	for i := range asm.Vec(2) {
		g.v(asm.VPAND, sums+i, sums+i, g.all64(^z.extraBits))
		g.v(asm.VMOVUPD, products+i, g.all64((bias64+z.unitBias)<<fraction64))
		g.v(asm.VPSUBQ, products+i, products+i, scales+i) // accScale in units / scale
		g.v(asm.VMULPD, sums+i, sums+i, products+i)
		g.v(g.truncate, sums+i, sums+i, asm.Imm(towardZero))
		g.v(asm.VMULPD, sums+i, sums+i, g.allFloats(z.unit*overflow))
		g.v(asm.VMULPD, sums+i, sums+i, g.allFloats(1/overflow))
		g.v(asm.VMOVUPD, asm.At(accRow, int32(i)*vector), sums+i)
	}
}

// towardZero is the immediate of a truncation, with no exception for what is cut off.
const towardZero = 3 | 8
