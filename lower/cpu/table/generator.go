package table

import (
	"bytes"
	"encoding/binary"
	"fmt"

	. "tokitai/lower/cpu/asm/amd64"
	"tokitai/lower/cpu/machine"
)

// generator emits what all code of this package needs: loops over columns, and zeros.
// RDI is the frame throughout and RBX counts columns or bytes.
type generator struct {
	a     *Assembler
	width Width
	evex  bool
}

func newGenerator(set machine.Set) (*generator, error) {
	switch set {
	case machine.AVX512:
		return &generator{a: New(), width: Z, evex: true}, nil
	case machine.AVX2:
		a := New()
		a.VEXOnly = true
		return &generator{a: a, width: Y}, nil
	}
	return nil, fmt.Errorf("no tables for instruction set %s", set)
}

// part is how many elements a step of a loop handles.
type part int

const (
	whole  part = iota // whole vectors
	masked             // the elements that K1 selects
	single             // one element
)

// columns emits a loop over elements 0 to R11 with body for n vectors of lanes elements
// at a time, then for half as many and so on to one, then for the rest. N is a power of
// two. Body may use RAX and finds in RBX the first element.
func (g *generator) columns(lanes, n int, body func(p part, n int)) {
	a := g.a
	a.G(XOR, 32, RBX, RBX)
	for m := n; m > 0; m /= 2 {
		loop, end := a.Label(), a.Label()
		a.Bind(loop)
		a.G(LEA, 64, RAX, At(RBX, int32(m*lanes)))
		a.G(CMP, 64, RAX, R11)
		a.J(Above, end)
		body(whole, m)
		a.G(ADD, 64, RBX, Imm(int64(m*lanes)))
		if m == n { // others run once at most
			a.Jmp(loop)
		}
		a.Bind(end)
	}
	loop, end := a.Label(), a.Label()
	a.Bind(loop)
	a.G(CMP, 64, RBX, R11)
	a.J(AboveEqual, end)
	if g.evex {
		body(masked, 1)
	} else {
		body(single, 1)
		a.G(ADD, 64, RBX, Imm(1))
		a.Jmp(loop)
	}
	a.Bind(end)
}

// span emits a loop over bytes 0 to R11, whose number is even, with body for n vectors,
// then for one, then for the rest: under the mask K2 or in pieces of 8 and 2 bytes.
// Body finds in RBX the first byte and in size the bytes of a piece, or 0 for vectors.
func (g *generator) span(n int, body func(p part, n, size int)) {
	a := g.a
	a.G(XOR, 32, RBX, RBX)
	step := func(bytes int, body func()) {
		loop, end := a.Label(), a.Label()
		a.Align(32)
		a.Bind(loop)
		a.G(LEA, 64, RAX, At(RBX, int32(bytes)))
		a.G(CMP, 64, RAX, R11)
		a.J(Above, end)
		body()
		a.G(ADD, 64, RBX, Imm(int64(bytes)))
		a.Jmp(loop)
		a.Bind(end)
	}
	step(n*g.width.Bytes(), func() { body(whole, n, 0) })
	step(g.width.Bytes(), func() { body(whole, 1, 0) })
	if !g.evex {
		step(8, func() { body(single, 1, 8) })
		step(2, func() { body(single, 1, 2) })
		return
	}
	end := a.Label()
	a.G(CMP, 64, RBX, R11)
	a.J(AboveEqual, end)
	body(masked, 1, 0)
	a.Bind(end)
}

// zeros emits the clearing of R11 bytes from base.
func (g *generator) zeros(base Reg, stream bool) {
	a := g.a
	a.V(VXORPS, X, Vec(0), Vec(0), Vec(0))
	a.G(XOR, 32, RCX, RCX)
	g.span(4, func(p part, n, size int) {
		for i := range n {
			to := At(base, int32(i*g.width.Bytes())).Plus(RBX, 1)
			switch {
			case p == masked:
				a.V(VMOVDQU8, Z, to, Vec(0), Merge(K2))
			case p == single:
				a.G(MOV, 8*size, to, RCX)
			case stream:
				a.V(VMOVNTDQ, g.width, to, Vec(0))
			default:
				a.V(VMOVDQU, g.width, to, Vec(0))
			}
		}
	})
}

// stores names the stores of a function.
func stores(stream bool) string {
	if stream {
		return "non-temporal stores"
	}
	return "stores through the caches"
}

// leave emits the end of a function.
func (g *generator) leave(stream bool) {
	if stream {
		g.a.SFence()
	}
	g.a.VZeroUpper()
	g.a.Ret()
}

// dwords returns a constant vector of one value.
func (g *generator) dwords(x uint32) Mem {
	return g.a.Constant(bytes.Repeat(binary.LittleEndian.AppendUint32(nil, x), g.width.Bytes()/4), g.width.Bytes())
}

// qwords returns a constant vector of one value.
func (g *generator) qwords(x uint64) Mem {
	return g.a.Constant(bytes.Repeat(binary.LittleEndian.AppendUint64(nil, x), g.width.Bytes()/8), g.width.Bytes())
}
