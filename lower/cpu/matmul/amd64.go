package matmul

import (
	"unsafe"

	x86 "tokitai/lower/cpu/asm/amd64"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// generator makes the functions for one instruction set of amd64.
type generator struct {
	*x86.Assembler
	target
	width x86.Width
}

var amd64Targets = map[machine.Set]target{
	machine.AVX512: {set: machine.AVX512, lanes: 16, rows: 14, vectors: 2, partial: true},
	machine.AVX2:   {set: machine.AVX2, lanes: 8, rows: 6, vectors: 2},
}

// The registers that all functions use alike. RDI is the frame.
const (
	frame = x86.RDI

	lastLanes = x86.K1 // mask of the last vector
)

// generateAMD64 generates the code for operands of a format.
func generateAMD64(set machine.Set, dtype num.DType) (*code, error) {
	c := &code{target: amd64Targets[set], dtype: dtype, transpose: map[num.DType]int{}, narrow: map[num.DType]int{}}
	for i := range c.widen {
		c.widen[i] = map[num.DType]int{}
	}
	g := &generator{Assembler: x86.New(), target: c.target, width: x86.Z}
	if set == machine.AVX2 {
		g.VEXOnly, g.width = true, x86.Y
	}
	for rows := 1; rows <= g.rows; rows++ {
		for vectors := 1; vectors <= g.widest(rows); vectors *= 2 {
			c.packed[rows][vectors] = g.multiply(rows, vectors, num.F32)
			if dtype != num.F32 {
				c.direct[rows][vectors] = g.multiply(rows, vectors, dtype)
			}
		}
	}
	if dtype == num.F32 {
		c.direct = c.packed
	}
	for _, d := range [...]num.DType{num.F32, dtype} {
		for vectors := range c.widen {
			c.widen[vectors][d] = g.widen(vectors+1, d)
		}
		c.transpose[d] = g.transpose(d)
		c.narrow[d] = g.narrow(d)
	}
	bytes, err := g.Finish()
	if err != nil {
		return nil, err
	}
	if c.program, err = machine.Load(bytes); err != nil {
		return nil, err
	}
	c.listing = g.Listing
	return c, nil
}

// begin starts a function and returns its offset.
func (g *generator) begin(format string, args ...any) int {
	g.Align(64)
	g.Comment(format, args...)
	return g.Len()
}

func (g *generator) end() {
	g.VZeroUpper()
	g.Ret()
}

// field returns a field of the frame.
func field(offset uintptr) x86.Mem { return x86.At(frame, int32(offset)) }

func (g *generator) mov(to, from x86.Operand)  { g.G(x86.MOV, 64, to, from) }
func (g *generator) add(to, by x86.Operand)    { g.G(x86.ADD, 64, to, by) }
func (g *generator) sub(to, by x86.Operand)    { g.G(x86.SUB, 64, to, by) }
func (g *generator) lea(to x86.Reg, m x86.Mem) { g.G(x86.LEA, 64, to, m) }

// load reads a vector of stored values as binary32, the lanes that the mask selects if
// there is one. Other lanes are zero.
func (g *generator) load(to x86.Vec, from x86.Mem, dtype num.DType, mask x86.Mask) {
	masked := func(op x86.Op) {
		if mask == x86.K0 {
			g.V(op, g.width, to, from)
		} else {
			g.V(op, g.width, to, from, x86.Zero(mask))
		}
	}
	switch dtype {
	case num.F16:
		masked(x86.VCVTPH2PS)
	case num.BF16:
		masked(x86.VPMOVZXWD)
		g.V(x86.VPSLLD, g.width, to, to, x86.Imm(16))
	default:
		masked(x86.VMOVUPS)
	}
}

// loadMask sets lastLanes from a field of the frame.
func (g *generator) loadMask(offset uintptr) {
	if g.partial {
		g.K(x86.KMOVQ, lastLanes, field(offset))
	}
}

// multiply generates a multiplication of rows by vectors; multiplyFrame says what it does.
//
// All accumulators stay in registers. Each step of the sum loads a row of b and, row by
// row, one broadcast element of a.
func (g *generator) multiply(rows, vectors int, dtype num.DType) int {
	start := g.begin("multiply %d rows by %d vectors of %v", rows, vectors, dtype)
	const (
		low      = x86.RAX // a, rows 0 to 6
		high     = x86.RCX // a, rows 7 to 13
		b        = x86.RDX
		aRow     = x86.RBX
		aRow3    = x86.RSI
		aRow5    = x86.R8
		aStep    = x86.R9
		bStep    = x86.R10
		steps    = x86.R11
		in       = x86.R12
		out      = x86.R13
		panel    = x86.R15
		prefetch = frame // inside the loops over the summed index
		perBase  = 7     // rows that one base register reaches
	)
	var f multiplyFrame
	acc := func(r, v int) x86.Vec { return x86.Vec(r*vectors + v) }
	right := func(v int) x86.Vec { return x86.Vec(rows*vectors + v) }
	left := func(r int) x86.Vec { return x86.Vec(g.registers() - 2 + r%2) }
	element := func(r int) x86.Mem {
		m := x86.At(low, 0)
		if r >= perBase {
			m = x86.At(high, 0)
		}
		switch r % perBase {
		case 1:
			return m.Plus(aRow, 1)
		case 2:
			return m.Plus(aRow, 2)
		case 3:
			return m.Plus(aRow3, 1)
		case 4:
			return m.Plus(aRow, 4)
		case 5:
			return m.Plus(aRow5, 1)
		case 6:
			return m.Plus(aRow3, 2)
		}
		return m
	}

	g.mov(aRow, field(unsafe.Offsetof(f.aRow)))
	g.lea(aRow3, x86.At(aRow, 0).Plus(aRow, 2))
	g.lea(aRow5, x86.At(aRow, 0).Plus(aRow, 4))
	g.mov(aStep, field(unsafe.Offsetof(f.aStep)))
	g.mov(bStep, field(unsafe.Offsetof(f.bStep)))
	g.mov(in, field(unsafe.Offsetof(f.in)))
	g.mov(out, field(unsafe.Offsetof(f.out)))
	g.mov(panel, field(unsafe.Offsetof(f.a)))
	g.loadMask(unsafe.Offsetof(f.mask))

	nextPanel, zero, ready, tail, single, done, last, noInput := g.Label(), g.Label(), g.Label(), g.Label(), g.Label(), g.Label(), g.Label(), g.Label()
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
	if rows > perBase {
		g.lea(high, x86.At(panel, 0).Plus(aRow3, 2))
		g.add(high, aRow)
	}
	g.mov(b, field(unsafe.Offsetof(f.b)))
	g.mov(steps, field(unsafe.Offsetof(f.depth)))
	g.G(x86.PUSH, 64, frame)
	g.mov(prefetch, field(unsafe.Offsetof(f.prefetch)))
	step := func() {
		for v := range vectors {
			mask := x86.K0
			if v == vectors-1 && g.partial {
				mask = lastLanes
			}
			g.load(right(v), x86.At(b, int32(v*g.lanes*dtype.Size())), dtype, mask)
		}
		g.add(b, bStep)
		for r := range rows {
			g.V(x86.VBROADCASTSS, g.width, left(r), element(r))
			for v := range vectors {
				g.V(x86.VFMADD231PS, g.width, acc(r, v), right(v), left(r))
			}
		}
		g.add(low, aStep)
		if rows > perBase {
			g.add(high, aStep)
		}
	}
	const unroll = prefetchSteps
	loop := g.Label()
	g.sub(steps, x86.Imm(unroll))
	g.J(x86.Less, tail)
	g.Align(32)
	g.Bind(loop)
	g.G(x86.PREFETCHT1, 8, x86.At(prefetch, 0))
	g.add(prefetch, x86.Imm(prefetchBytes))
	for range unroll {
		step()
	}
	g.sub(steps, x86.Imm(unroll))
	g.J(x86.GreaterEqual, loop)
	g.Bind(tail)
	g.add(steps, x86.Imm(unroll))
	g.J(x86.Equal, done)
	g.Bind(single)
	step()
	g.sub(steps, x86.Imm(1))
	g.J(x86.NotEqual, single)
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
func (g *generator) eachAccumulator(rows, vectors int, base x86.Reg, rowField uintptr, acc func(r, v int) x86.Vec, load bool) {
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
