package matmul

import (
	"bytes"
	"encoding/binary"
	"math"
	"unsafe"

	x86 "tokitai/lower/cpu/asm/amd64"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// amd64Generator makes the functions for an instruction set of amd64.
type amd64Generator struct {
	*x86.Assembler
	target
	width x86.Width
}

var amd64Targets = map[machine.Set]target{
	machine.AVX512: {set: machine.AVX512, lanes: 16, rows: 14, vectors: 2, partial: true, lineRows: 14},
	machine.AVX2:   {set: machine.AVX2, lanes: 8, rows: 6, vectors: 2, lineRows: 6},
}

// The registers that all functions use alike. RDI is the frame.
const (
	frame = x86.RDI

	lastLanes = x86.K1 // mask of the last vector
	isNaN     = x86.K3 // while FP8 is loaded
)

func newAMD64(set machine.Set) *amd64Generator {
	g := &amd64Generator{Assembler: x86.New(), target: amd64Targets[set], width: x86.Z}
	if set == machine.AVX2 {
		g.VEXOnly, g.width = true, x86.Y
	}
	return g
}

// begin starts a function and returns its offset.
func (g *amd64Generator) begin(format string, args ...any) int {
	g.Align(64)
	g.Comment(format, args...)
	return g.Len()
}

func (g *amd64Generator) end() {
	g.VZeroUpper()
	g.Ret()
}

// field returns a field of the frame.
func field(offset uintptr) x86.Mem { return x86.At(frame, int32(offset)) }

func (g *amd64Generator) mov(to, from x86.Operand)  { g.G(x86.MOV, 64, to, from) }
func (g *amd64Generator) add(to, by x86.Operand)    { g.G(x86.ADD, 64, to, by) }
func (g *amd64Generator) sub(to, by x86.Operand)    { g.G(x86.SUB, 64, to, by) }
func (g *amd64Generator) lea(to x86.Reg, m x86.Mem) { g.G(x86.LEA, 64, to, m) }

// load reads a vector of stored values as binary32, the lanes that the mask selects if
// there is one. Other lanes are zero. It uses temp for FP8.
func (g *amd64Generator) load(to x86.Vec, from x86.Mem, dtype num.DType, mask x86.Mask, temp x86.Vec) {
	masked := func(op x86.Op, width x86.Width) {
		if mask == x86.K0 {
			g.V(op, width, to, from)
		} else {
			g.V(op, width, to, from, x86.Zero(mask))
		}
	}
	half := g.width - 1 // of 16 bits for each lane
	switch dtype {
	case num.F16:
		masked(x86.VCVTPH2PS, g.width)
	case num.BF16:
		masked(x86.VPMOVZXWD, g.width)
		g.V(x86.VPSLLD, g.width, to, to, x86.Imm(16))
	case num.E5M2: // the upper byte of an f16
		masked(x86.VPMOVZXBW, half)
		g.V(x86.VPSLLW, half, to, to, x86.Imm(8))
		g.V(x86.VCVTPH2PS, g.width, to, to)
	case num.E4M3:
		// Exponent and fraction in the places of those of f16 are 2^-8 of the value, also of
		// subnormals. The largest pattern is NaN.
		masked(x86.VPMOVSXBW, half)
		g.V(x86.VPSLLW, half, to, to, x86.Imm(7))
		g.V(x86.VPANDD, half, to, to, g.words(0xbfff))
		g.V(x86.VPSLLW, half, temp, to, x86.Imm(1)) // without the sign
		if g.partial {
			g.V(x86.VPCMPEQW, half, isNaN, temp, g.words(0x7f00))
			g.V(x86.VPADDW, half, to, to, g.words(0x4000), x86.Merge(isNaN))
		} else {
			g.V(x86.VPCMPEQW, half, temp, temp, g.words(0x7f00))
			g.V(x86.VPORD, half, to, to, temp)
		}
		g.V(x86.VCVTPH2PS, g.width, to, to)
		g.V(x86.VMULPS, g.width, to, to, g.repeated(binary.LittleEndian.AppendUint32(nil, math.Float32bits(256)), g.width))
	default:
		masked(x86.VMOVUPS, g.width)
	}
}

// words returns a constant with x for each lane.
func (g *amd64Generator) words(x uint16) x86.Mem {
	return g.repeated(binary.LittleEndian.AppendUint16(nil, x), g.width-1)
}

// repeated returns a constant that fills a vector.
func (g *amd64Generator) repeated(x []byte, width x86.Width) x86.Mem {
	return g.Constant(bytes.Repeat(x, width.Bytes()/len(x)), width.Bytes())
}

// loadMask sets lastLanes from a field of the frame.
func (g *amd64Generator) loadMask(offset uintptr) {
	if g.partial {
		g.K(x86.KMOVQ, lastLanes, field(offset))
	}
}

// unroll is the number of steps in an iteration of a loop over the summed index.
const unroll = prefetchSteps

// multiply generates a multiplication of rows by vectors; multiplyFrame says what it does.
// adjacent says what lies side by side in the left operand, at a distance of 4 bytes.
//
// All accumulators stay in registers. Each step of the sum loads a row of b and, row by
// row, one broadcast element of a.
func (g *amd64Generator) multiply(rows, vectors int, left adjacency, right num.DType) int {
	start := g.begin("multiply %d rows, adjacent %s, by %d vectors of %v", rows, left, vectors, right)
	const (
		low      = x86.RAX // a, rows 0 to 6, or all of them if they are adjacent
		high     = x86.RCX // a, rows 7 to 13
		b        = x86.RDX
		distance = x86.RBX // between rows of a, or steps
		triple   = x86.RSI // three times that
		fivefold = x86.R8
		bStep    = x86.R10
		steps    = x86.R11
		in       = x86.R12
		out      = x86.R13
		panel    = x86.R15
		prefetch = frame // inside the loop
		perBase  = 7     // rows that one base register reaches
	)
	var f multiplyFrame
	acc := func(r, v int) x86.Vec { return x86.Vec(r*vectors + v) }
	rightVector := func(v int) x86.Vec { return x86.Vec(rows*vectors + v) }
	leftVector := func(r int) x86.Vec { return x86.Vec(g.registers() - 2 + r%2) }
	// rowAt returns m plus the distance to row n, up to 6.
	rowAt := func(m x86.Mem, n int) x86.Mem {
		switch n {
		case 1, 2, 4:
			return m.Plus(distance, uint8(n))
		case 3, 6:
			return m.Plus(triple, uint8(n/3))
		case 5:
			return m.Plus(fivefold, 1)
		}
		return m
	}
	hasHigh := left == stepsAdjacent && rows > perBase
	element := func(r, step int) x86.Mem {
		switch {
		case left == rowsAdjacent:
			return x86.At(low, int32(4*r))
		case r < perBase:
			return rowAt(x86.At(low, int32(4*step)), r)
		}
		return rowAt(x86.At(high, int32(4*step)), r-perBase)
	}
	// A broadcast in the operand of a multiply-add takes a slot less to issue than one on
	// its own, but a load for each vector: at two vectors, half of the rows balance that.
	// With an index it would take two slots.
	embedded := func(r int) bool {
		return g.set == machine.AVX512 && left == rowsAdjacent && (vectors == 1 || vectors == 2 && r%2 == 1)
	}
	step := func(i int) {
		for v := range vectors {
			mask := x86.K0
			if v == vectors-1 && g.partial {
				mask = lastLanes
			}
			from := x86.At(b, int32(v*g.lanes*right.Size()))
			if i == 1 {
				from = from.Plus(bStep, 1)
			}
			g.load(rightVector(v), from, right, mask, leftVector(0))
		}
		for r := range rows {
			if embedded(r) {
				for v := range vectors {
					g.V(x86.VFMADD231PS, g.width, acc(r, v), rightVector(v), element(r, i).Broadcast())
				}
				continue
			}
			g.V(x86.VBROADCASTSS, g.width, leftVector(r), element(r, i))
			for v := range vectors {
				g.V(x86.VFMADD231PS, g.width, acc(r, v), rightVector(v), leftVector(r))
			}
		}
		if left == rowsAdjacent {
			g.add(low, distance)
		}
	}
	if left == rowsAdjacent {
		g.mov(distance, field(unsafe.Offsetof(f.aStep)))
	} else {
		g.mov(distance, field(unsafe.Offsetof(f.aRow)))
		g.lea(fivefold, x86.At(distance, 0).Plus(distance, 4))
	}
	g.lea(triple, x86.At(distance, 0).Plus(distance, 2))
	g.mov(bStep, field(unsafe.Offsetof(f.bStep)))
	g.mov(in, field(unsafe.Offsetof(f.in)))
	g.mov(out, field(unsafe.Offsetof(f.out)))
	g.mov(panel, field(unsafe.Offsetof(f.a)))
	g.loadMask(unsafe.Offsetof(f.mask))

	nextPanel, zero, ready, last, noInput := g.Label(), g.Label(), g.Label(), g.Label(), g.Label()
	g.Bind(nextPanel)
	g.G(x86.TEST, 64, in, in)
	g.J(x86.Equal, zero)
	g.eachAccumulator(rows, vectors, in, unsafe.Offsetof(f.inRow), acc, true)
	g.Jmp(ready)
	g.Bind(zero)
	for i := range rows * vectors {
		g.V(x86.VXORPS, g.width, x86.Vec(i), x86.Vec(i), x86.Vec(i))
	}
	g.Bind(ready)

	g.mov(low, panel)
	if hasHigh {
		g.lea(high, x86.At(panel, 0).Plus(triple, 2))
		g.add(high, distance)
	}
	g.mov(b, field(unsafe.Offsetof(f.b)))
	g.mov(steps, field(unsafe.Offsetof(f.depth)))
	g.G(x86.PUSH, 64, frame)
	g.mov(prefetch, field(unsafe.Offsetof(f.prefetch)))
	loop, second, done := g.Label(), g.Label(), g.Label()
	g.G(x86.TEST, 64, steps, steps)
	g.J(x86.Equal, done)
	g.G(x86.TEST, 64, steps, x86.Imm(1))
	g.J(x86.Equal, loop)
	g.add(steps, x86.Imm(1)) // an odd number: begin with the second step of an iteration
	g.sub(b, bStep)
	if left == stepsAdjacent {
		g.sub(low, x86.Imm(4))
	}
	if hasHigh {
		g.sub(high, x86.Imm(4))
	}
	g.Jmp(second)
	g.Align(32)
	g.Bind(loop)
	g.G(x86.PREFETCHT1, 8, x86.At(prefetch, 0))
	g.add(prefetch, x86.Imm(prefetchBytes))
	step(0)
	g.Bind(second)
	step(1)
	if left == stepsAdjacent {
		g.add(low, x86.Imm(4*unroll))
	}
	if hasHigh {
		g.add(high, x86.Imm(4*unroll))
	}
	g.lea(b, x86.At(b, 0).Plus(bStep, unroll))
	g.sub(steps, x86.Imm(unroll))
	g.J(x86.NotEqual, loop)
	g.Bind(done)
	g.mov(low, prefetch)
	g.G(x86.POP, 64, frame)
	g.mov(field(unsafe.Offsetof(f.prefetch)), low)

	g.eachAccumulator(rows, vectors, out, unsafe.Offsetof(f.outRow), acc, false)
	g.mov(steps, field(unsafe.Offsetof(f.panels)))
	g.sub(steps, x86.Imm(1))
	g.J(x86.Equal, last)
	g.mov(field(unsafe.Offsetof(f.panels)), steps)
	g.add(panel, field(unsafe.Offsetof(f.aPanel)))
	g.mov(b, field(unsafe.Offsetof(f.b)))
	g.add(b, field(unsafe.Offsetof(f.bPanel)))
	g.mov(field(unsafe.Offsetof(f.b)), b)
	g.add(out, field(unsafe.Offsetof(f.outPanel)))
	g.G(x86.TEST, 64, in, in)
	g.J(x86.Equal, noInput)
	g.add(in, field(unsafe.Offsetof(f.inPanel)))
	g.Bind(noInput)
	g.Jmp(nextPanel)
	g.Bind(last)
	g.end()
	return start
}

// eachAccumulator loads all accumulators from memory, or stores them.
func (g *amd64Generator) eachAccumulator(rows, vectors int, base x86.Reg, rowField uintptr, acc func(r, v int) x86.Vec, load bool) {
	const (
		at  = x86.RAX
		row = x86.RCX
	)
	mask := x86.Vec(g.registers() - 1) // of sets without mask registers
	if !g.partial {
		g.mov(at, field(unsafe.Offsetof(multiplyFrame{}.maskLanes)))
		g.V(x86.VMOVUPS, g.width, mask, x86.At(at, 0))
	}
	g.mov(at, base)
	g.mov(row, field(rowField))
	for r := range rows {
		for v := range vectors {
			memory, x, isLast := x86.At(at, int32(v*g.lanes*4)), acc(r, v), v == vectors-1
			switch {
			case isLast && !g.partial && load:
				g.V(x86.VMASKMOVPS, g.width, x, mask, memory)
			case isLast && !g.partial:
				g.V(x86.VMASKMOVPS, g.width, memory, mask, x)
			case isLast && load:
				g.V(x86.VMOVUPS, g.width, x, memory, x86.Zero(lastLanes))
			case isLast:
				g.V(x86.VMOVUPS, g.width, memory, x, x86.Merge(lastLanes))
			case load:
				g.V(x86.VMOVUPS, g.width, x, memory)
			default:
				g.V(x86.VMOVUPS, g.width, memory, x)
			}
		}
		g.add(at, row)
	}
}
