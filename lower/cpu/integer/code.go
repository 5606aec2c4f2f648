package integer

import (
	"unsafe"

	asm "tokitai/lower/cpu/asm/amd64"
	"tokitai/lower/cpu/machine"
)

// blockRows is the number of rows of a register block.
const blockRows = 6

// block is the argument of the micro-kernel. Generated code knows the offsets of its fields. It is
// this loop, where a strip has n columns:
//
//	for w := range words {
//		for r := range blockRows {
//			for c := range n {
//				sums[r*n+c] += dot(left[w*blockRows+r], right[w*n+c])
//			}
//		}
//	}
type block struct {
	left  *uint32
	right *uint32
	sums  *int32
	words int
}

// Registers of the generated code.
const (
	frame     = asm.RDI
	left      = asm.RSI
	right     = asm.RCX
	sums      = asm.R9
	wordsLeft = asm.R11
)

// newKernel generates a micro-kernel.
func newKernel(set machine.Set, isVNNI bool) (*kernel, error) {
	k := &kernel{set: set, isVNNI: isVNNI, vectors: 4, perWord: 2}
	a, width := asm.New(), asm.Z
	if set == machine.AVX2 {
		a.VEXOnly, width, k.vectors = true, asm.Y, 2
	}
	if isVNNI {
		k.perWord = 4
	}
	k.lanes = width.Bytes() / 4
	k.generate(a, width)
	text, err := a.Finish()
	if err != nil {
		return nil, err
	}
	k.listing = a.Listing
	k.code, err = machine.Load(text)
	return k, err
}

// generate writes the micro-kernel. The first registers hold the sums, row by row.
func (k *kernel) generate(a *asm.Assembler, width asm.Width) {
	var b block
	vector, row := int32(width.Bytes()), int32(k.cols()*4)
	sum := func(r, v int) asm.Vec { return asm.Vec(r*k.vectors + v) }
	columns := asm.Vec(blockRows * k.vectors) // k.vectors of the right operand
	factor := columns + asm.Vec(k.vectors)    // of the left operand
	product := factor + 1                     // of pairs

	for _, field := range []struct {
		register asm.Reg
		offset   uintptr
	}{{left, unsafe.Offsetof(b.left)}, {right, unsafe.Offsetof(b.right)}, {sums, unsafe.Offsetof(b.sums)}, {wordsLeft, unsafe.Offsetof(b.words)}} {
		a.G(asm.MOV, 64, field.register, asm.At(frame, int32(field.offset)))
	}
	each := func(do func(r, v int, at asm.Mem)) {
		for r := range blockRows {
			for v := range k.vectors {
				do(r, v, asm.At(sums, int32(r)*row+int32(v)*vector))
			}
		}
	}
	each(func(r, v int, at asm.Mem) { a.V(asm.VMOVDQU32, width, sum(r, v), at) })
	next := a.Label()
	a.Align(16)
	a.Bind(next)
	for v := range k.vectors {
		a.V(asm.VMOVDQU32, width, columns+asm.Vec(v), asm.At(right, int32(v)*vector))
	}
	for r := range blockRows {
		a.V(asm.VPBROADCASTD, width, factor, asm.At(left, int32(4*r)))
		for v := range k.vectors {
			if k.isVNNI {
				a.V(asm.VPDPBUSD, width, sum(r, v), columns+asm.Vec(v), factor)
				continue
			}
			a.V(asm.VPMADDWD, width, product, columns+asm.Vec(v), factor)
			a.V(asm.VPADDD, width, sum(r, v), sum(r, v), product)
		}
	}
	a.G(asm.ADD, 64, left, asm.Imm(4*blockRows))
	a.G(asm.ADD, 64, right, asm.Imm(row))
	a.G(asm.DEC, 64, wordsLeft)
	a.J(asm.NotEqual, next)
	each(func(r, v int, at asm.Mem) { a.V(asm.VMOVDQU32, width, at, sum(r, v)) })
	a.VZeroUpper()
	a.Ret()
}
