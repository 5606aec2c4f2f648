package isa

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// generator makes random instructions of the rows of a table.
type generator struct {
	*rand.Rand
	arch Architecture
}

// bits returns a number of the given number of bits, one time in three 0.
func (g *generator) bits(n int) uint64 {
	if g.IntN(3) == 0 {
		return 0
	}
	return g.Uint64() & (1<<n - 1)
}

// scalar returns the number of a scalar register that an operand of the type may begin at.
func (g *generator) scalar(t Type) uint64 {
	words := t.words(g.arch.Family)
	code := g.IntN(128)
	if g.IntN(3) > 0 {
		code = g.IntN(96)
	}
	switch {
	case words == 2:
		code &^= 1
	case words > 2:
		code &^= 3
	}
	return uint64(code)
}

// vector returns the number of a vector register. Tuples of gfx9 begin at even registers.
func (g *generator) vector(t Type) uint64 {
	v := g.IntN(220)
	if g.arch.Family == GFX9 && t.words(GFX9) > 1 {
		v &^= 1
	}
	return uint64(v)
}

// source returns a source of nine bits.
func (g *generator) source(t Type) uint64 {
	switch g.IntN(8) {
	case 0:
		return g.scalar(t)
	case 1:
		return 128 + g.Uint64N(81)
	case 2:
		return 240 + g.Uint64N(9)
	case 3:
		return 255
	case 4:
		return 235 + g.Uint64N(5)
	case 5:
		return 251 + g.Uint64N(3)
	}
	return 256 + g.vector(t)
}

// control returns a control of DPP16.
func (g *generator) control() uint64 {
	if g.IntN(2) == 0 {
		return g.Uint64N(256)
	}
	first := []uint64{0x101, 0x111, 0x121, 0x150, 0x140, 0x141}
	if g.arch.Family == GFX11 {
		first = append(first, 0x160)
	} else {
		first = append(first, 0x130, 0x134, 0x138, 0x13c, 0x142, 0x143)
	}
	c := first[g.IntN(len(first))]
	if c&15 == 1 && c < 0x140 || c >= 0x150 {
		c += g.Uint64N(15)
	}
	return c
}

// typeOf returns the type of the i-th typed operand, or B32.
func typeOf(list []slot, i int) Type {
	for _, s := range list {
		if s.kind != slotValue {
			continue
		}
		if i == 0 {
			return s.typ
		}
		i--
	}
	return B32
}

// scalarWords makes a random instruction of SOP1, SOP2, SOPC, SOPK or SOPP.
func (g *generator) scalarWords(f *form) uint64 {
	result := uint64(0)
	if len(f.results) > 0 {
		result = g.scalar(f.results[0].typ)
	}
	src := func(i int) uint64 {
		if i >= valueCount(f.operands) && !f.has(slotMessage) && !f.has(slotGPRIndex) {
			return 0
		}
		x := g.source(typeOf(f.operands, i))
		if x >= 256 {
			x = g.scalar(typeOf(f.operands, i))
		}
		return x
	}
	op := uint64(f.opcode)
	switch f.encoding {
	case SOP1:
		return 0x17d<<23 | result<<16 | op<<8 | src(0)
	case SOP2:
		return 2<<30 | op<<23 | result<<16 | src(1)<<8 | src(0)
	case SOPC:
		return 0x17e<<23 | op<<16 | src(1)<<8 | src(0)
	case SOPK:
		if len(f.results) == 0 {
			result = g.scalar(typeOf(f.operands, 0))
		}
		return 0xb<<28 | op<<23 | result<<16 | g.bits(16)
	}
	if len(f.operands) == 0 {
		return 0x17f<<23 | op<<16
	}
	return 0x17f<<23 | op<<16 | g.bits(16)
}

// shortWords makes a random short vector instruction, sometimes with DPP or SDWA.
func (g *generator) shortWords(f *form) []uint32 {
	src0 := g.source(typeOf(f.operands, 0))
	var extra []uint32
	switch g.IntN(6) {
	case 0:
		src0 = sourceDPP16
		modifiers := g.bits(4)
		for i, s := range f.operands {
			if !s.typ.isFloat() {
				modifiers &^= 3 << (2 * i)
			}
		}
		extra = []uint32{uint32(g.bits(8)<<24 | modifiers<<20 | g.bits(2)<<18 | g.control()<<8 | g.vector(typeOf(f.operands, 0)))}
	case 1:
		if g.arch.Family == GFX11 {
			src0 = sourceDPP8 + g.Uint64N(2)
			extra = []uint32{g.Uint32()&^255 | uint32(g.vector(B32))}
		} else {
			src0 = sourceSDWA
			x := uint64(g.Uint32())
			for _, at := range []int{8, 16, 24} { // no selection is 7
				if x>>at&7 == 7 {
					x &^= 1 << at
				}
			}
			if x>>11&3 == 3 && f.encoding != VOPC {
				x &^= 1 << 11
			}
			switch f.encoding {
			case VOP1:
				x &= 1<<24 - 1
			case VOPC:
				x &^= 1 << 8 // the result's register is even
			}
			extra = []uint32{uint32(x)}
		}
	}
	result, src1 := uint64(0), uint64(0)
	if len(f.results) > 0 && f.results[0].typ != Mask {
		result = g.vector(f.results[0].typ)
		if f.results[0].register == SGPR {
			result = g.scalar(f.results[0].typ)
		}
	}
	if valueCount(f.operands) > 1 {
		src1 = g.vector(typeOf(f.operands, 1))
	}
	if len(f.operands) == 0 {
		src0, extra = 0, nil
	}
	op := uint64(f.opcode)
	w := op<<25 | result<<17 | src1<<9 | src0
	switch f.encoding {
	case VOP1:
		w = 0x3f<<25 | result<<17 | op<<9 | src0
	case VOPC:
		w = 0x3e<<25 | op<<17 | src1<<9 | src0
	}
	return append([]uint32{uint32(w)}, extra...)
}

// longWords makes a random instruction of VOP3 or VOP3P.
func (g *generator) longWords(f *form, e Encoding) []uint32 {
	op := uint64(f.opcode)
	if f.encoding != e {
		op += uint64(vop3Base(g.arch.Family, f.encoding))
	}
	var x uint64
	switch {
	case e == VOP3P && g.arch.Family == GFX11:
		x = 0xcc<<24 | g.bits(1)<<15 | g.bits(4)<<11 | g.bits(3)<<8
	case e == VOP3P:
		x = 0x1a7<<23 | g.bits(1)<<15 | g.bits(4)<<11 | g.bits(3)<<8
	default:
		x = 0x34 << 26
		if g.arch.Family == GFX11 {
			x = 0x35 << 26
		}
		x |= g.bits(1)<<15 | g.bits(3)<<8
		for i, s := range f.operands {
			if s.typ.is16() {
				x |= g.bits(1) << (11 + i)
			}
		}
		if len(f.results) > 0 && f.results[0].typ.is16() {
			x |= g.bits(1) << 14
		}
	}
	x |= op<<16 | g.bits(2)<<59 | g.bits(3)<<61
	if strings.HasPrefix(f.name, "v_accvgpr_") { // no modifiers
		x &^= 0xff<<8 | 31<<59
	}
	if e == VOP3P && g.IntN(2) == 0 { // integers have no signs to change
		x &^= 7<<8 | 7<<61
	}
	if e == VOP3 { // only floating-point numbers have modifiers
		for i := range 3 {
			if !typeOf(f.operands, i).isFloat() {
				x &^= 1<<(8+i) | 1<<(61+i)
			}
		}
		if len(f.results) == 0 || !f.results[0].typ.isFloat() {
			x &^= 3 << 59
		}
		if g.IntN(2) == 0 {
			x &^= 1 << 15
		}
	}
	var extra []uint32
	for i := range valueCount(f.operands) {
		src := g.source(typeOf(f.operands, i))
		isMatrix := f.isMatrix() || strings.HasPrefix(f.name, "v_wmma_") || strings.HasPrefix(f.name, "v_accvgpr_")
		if isMatrix && g.IntN(4) > 0 {
			src = 256 + g.vector(B64) // most take nothing else
		}
		if src == sourceLiteral && g.arch.Family == GFX9 {
			src = 128 // LLVM crashes
		}
		if i == 0 && g.arch.Family == GFX11 {
			switch g.IntN(6) {
			case 0:
				src = sourceDPP16
				extra = []uint32{uint32(g.bits(8)<<24 | g.bits(2)<<18 | g.control()<<8 | g.vector(B32))}
			case 1:
				src = sourceDPP8 + g.Uint64N(2)
				extra = []uint32{g.Uint32()&^255 | uint32(g.vector(B32))}
			}
		}
		x |= src << (32 + 9*i)
	}
	for i, r := range f.results {
		switch {
		case i == 1:
			x = x&^(0x7f<<8) | g.scalar(Mask)<<8
		case r.typ == Mask || r.register == SGPR:
			x |= g.scalar(r.typ)
		default:
			x |= g.vector(r.typ)
		}
	}
	return append(halves(x), extra...)
}

// pairWords makes a random pair.
func (g *generator) pairWords(f *form) []uint32 {
	other := []uint64{3, 4, 8, 10}[g.IntN(4)]
	first, second := other, uint64(f.opcode)
	if f.opcode < 14 && g.IntN(2) == 0 {
		first, second = second, first
	}
	hasSecondSource := func(op uint64) uint64 {
		if op == 8 {
			return 0
		}
		return 255
	}
	src := func() uint64 { return g.source(F32) }
	low := 0x32<<26 | first<<22 | second<<17 | g.Uint64()&hasSecondSource(first)<<9 | src()
	high := g.Uint64()<<24 | g.Uint64N(128)<<17 | g.Uint64()&hasSecondSource(second)<<9 | src()
	return []uint32{uint32(low), uint32(high)}
}

// fields are the registers of a random access to memory: 0 where the row has none.
type fields struct{ result, data0, data1, address uint64 }

func (g *generator) fields(f *form) (x fields) {
	if len(f.results) > 0 {
		x.result = g.vector(f.results[0].typ)
	}
	if valueCount(f.operands) > 0 {
		x.data0 = g.vector(typeOf(f.operands, 0))
	}
	if valueCount(f.operands) > 1 {
		x.data1 = g.vector(typeOf(f.operands, 1))
	}
	if f.has(slotAddress) {
		x.address = g.vector(B64)
	}
	return x
}

// oneIn returns 1 one time in n, and else 0.
func (g *generator) oneIn(n int) uint64 {
	if g.IntN(n) == 0 {
		return 1
	}
	return 0
}

// scalarMemoryWords makes a random instruction of SMEM.
func (g *generator) scalarMemoryWords(f *form) uint64 {
	x := uint64(0x30 << 26)
	if g.arch.Family == GFX11 {
		x = 0x3d << 26
	}
	x |= uint64(f.opcode) << 18
	hasData := len(f.results) > 0 || f.has(slotOffset)
	if hasData {
		x |= g.scalar(typeOf(slices.Concat(f.results, f.operands), 0)) << 6
	}
	if !f.has(slotOffset) {
		return x
	}
	x |= g.scalar(B128) >> 1
	if g.arch.Family == GFX11 {
		register := []uint64{124, g.Uint64N(105)}[g.IntN(2)]
		return x | g.bits(2)<<13 | g.bits(21)<<32 | register<<57
	}
	x |= g.bits(1) << 16
	switch g.IntN(3) {
	case 0:
		return x | 1<<17 | g.bits(21)<<32
	case 1:
		return x | 1<<17 | 1<<14 | g.bits(21)<<32 | g.Uint64N(100)<<57
	}
	return x | g.Uint64N(100)<<32
}

// shareWords makes a random instruction of DS.
func (g *generator) shareWords(f *form) uint64 {
	r := g.fields(f)
	x := uint64(0x36<<26) | r.address<<32 | r.data0<<40 | r.data1<<48 | r.result<<56
	if f.name != "ds_nop" {
		x |= g.bits(16)
	}
	gds := g.oneIn(10)
	if f.has(slotGDS) {
		gds = 1
	}
	if g.arch.Family == GFX11 {
		return x | uint64(f.opcode)<<18 | gds<<17
	}
	return x | uint64(f.opcode)<<17 | gds<<16 | g.oneIn(5)<<25
}

// flatWords makes a random instruction of FLAT, GLOBAL or SCRATCH.
func (g *generator) flatWords(f *form) uint64 {
	r := g.fields(f)
	segment := map[Encoding]uint64{FLAT: 0, SCRATCH: 1, GLOBAL: 2}[f.encoding]
	offset := g.bits(13)
	if f.encoding == FLAT {
		offset &= 1<<12 - 1
	}
	x := 0x37<<26 | uint64(f.opcode)<<18 | offset | r.address<<32 | r.data0<<40
	glc := g.bits(1)
	if glc == 1 || len(f.results) > 0 && !f.results[0].optional {
		x |= r.result << 56
	}
	isScratch := f.encoding == SCRATCH
	hasBase := f.encoding != FLAT && g.IntN(2) == 0
	base := g.scalar(B64)
	if g.arch.Family == GFX11 {
		x |= segment<<16 | g.bits(1)<<13 | glc<<14 | g.bits(1)<<15
		if isScratch {
			x |= g.oneIn(2) << 55
		}
		if !hasBase {
			base = 0x7c
		}
		return x | base<<48
	}
	x |= segment<<14 | glc<<16 | g.bits(1)<<17 | g.bits(1)<<25 | g.oneIn(4)<<55
	if isScratch && g.arch.Name == "gfx942" {
		x |= g.oneIn(2) << 13
	}
	switch {
	case f.encoding == FLAT:
		base = 0
	case !hasBase:
		base = 0x7f
	}
	return x | base<<48
}

// bufferWords makes a random instruction of MUBUF.
func (g *generator) bufferWords(f *form) uint64 {
	x := 0x38<<26 | uint64(f.opcode)<<18
	if len(f.operands) == 0 {
		if g.arch.Name == "gfx942" {
			x |= g.bits(1)<<14 | g.bits(1)<<15 | g.bits(1)<<17
		}
		return x
	}
	r := g.fields(f)
	offset := []uint64{g.scalar(B32), 128 + g.Uint64N(81), 240 + g.Uint64N(9)}[g.IntN(3)]
	x |= g.bits(12) | g.scalar(B128)>>2<<48 | offset<<56 | max(r.result, r.data0)&^1<<40 | g.bits(1)<<14
	mode := g.bits(2)
	if mode != 0 {
		x |= g.vector(B64) << 32
	}
	if g.arch.Family == GFX11 {
		return x | mode<<54 | g.bits(1)<<12 | g.bits(1)<<13
	}
	return x | mode<<12 | g.bits(1)<<15 | g.bits(1)<<17 | g.oneIn(4)<<55
}

// halves returns the two words of an instruction of 64 bits.
func halves(x uint64) []uint32 { return []uint32{uint32(x), uint32(x >> 32)} }

// literal returns a literal. One in two could be an inline constant, which LLVM marks, though
// not always for packed types. None is the code of one, which LLVM would take it for in
// v_fmaak.
func (g *generator) literal(f *form) uint32 {
	isPacked := func(s slot) bool { return s.typ == BF16 || s.typ >= B96 && s.typ != Mix }
	if g.IntN(2) == 0 || slices.ContainsFunc(f.operands, isPacked) {
		return g.Uint32() | 0x10100
	}
	small := uint32(g.IntN(80) - 16)
	return []uint32{small, uint32(inline32[g.IntN(9)]), uint32(inline16[g.IntN(9)])}[g.IntN(3)]
}

// words makes a random instruction of an encoding's row, and random words behind it, which
// are literals where the instruction has one.
func (g *generator) words(f *form, e Encoding) []uint32 {
	var w []uint32
	switch e {
	case SOP1, SOP2, SOPC, SOPK, SOPP:
		w = []uint32{uint32(g.scalarWords(f))}
	case VOP1, VOP2, VOPC:
		w = g.shortWords(f)
	case VOP3, VOP3P:
		w = g.longWords(f, e)
	case VOPD:
		w = g.pairWords(f)
	case SMEM:
		w = halves(g.scalarMemoryWords(f))
	case DS:
		w = halves(g.shareWords(f))
	case MUBUF:
		w = halves(g.bufferWords(f))
	default:
		w = halves(g.flatWords(f))
	}
	return append(w, g.literal(f), g.Uint32())
}
