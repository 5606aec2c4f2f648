package isa

import (
	"fmt"
	"math/bits"
)

// memory prints DS, FLAT, GLOBAL, SCRATCH and MUBUF.
func (p *printer) memory(in *Instruction) {
	isAtomicBuffer := in.Encoding == MUBUF && len(in.Results) > 0 && len(in.Operands) > 3
	if !isAtomicBuffer { // its result is in the register of its data
		for _, o := range in.Results {
			p.item()
			p.WriteString(o.String())
		}
	}
	for _, o := range in.Operands {
		if in.Encoding == FLAT && o.Kind == Off {
			continue
		}
		p.item()
		p.WriteString(o.String())
	}
	switch {
	case in.Encoding == DS:
		p.dsOffset(in)
		return
	case in.Encoding == MUBUF && in.form.has(slotBuffer):
		offen, idxen := 54, 55
		if in.family == GFX9 {
			offen, idxen = 12, 13
		}
		if field(in.raw, idxen, 1) == 1 {
			p.WriteString(" idxen")
		}
		if field(in.raw, offen, 1) == 1 {
			p.WriteString(" offen")
		}
	}
	if in.Immediate != 0 && len(in.form.operands) > 0 {
		p.printf(" offset:%d", in.Immediate)
	}
	p.cache(in)
}

func (p *printer) dsOffset(in *Instruction) {
	switch {
	case in.form.has(slotOffsets):
		if in.Immediate != 0 {
			p.printf(" offset0:%d", in.Immediate)
		}
		if in.Immediate2 != 0 {
			p.printf(" offset1:%d", in.Immediate2)
		}
	case in.form.has(slotSwizzle):
		if in.Immediate != 0 {
			p.printf(" offset:%s", swizzle(int(in.Immediate)))
		}
	case in.Immediate != 0:
		p.printf(" offset:%d", in.Immediate)
	}
	if in.GDS {
		p.WriteString(" gds")
	}
}

// swizzle returns the text of ds_swizzle_b32's pattern.
func swizzle(x int) string {
	switch {
	case x >= 0xe000:
		return fmt.Sprintf("swizzle(FFT,%d)", x&31)
	case x >= 0xc000:
		return fmt.Sprintf("swizzle(ROTATE,%d,%d)", x>>10&1, x>>5&31)
	case x&0xff00 == 0x8000:
		return fmt.Sprintf("swizzle(QUAD_PERM,%d,%d,%d,%d)", x&3, x>>2&3, x>>4&3, x>>6&3)
	case x >= 0x8000:
		return fmt.Sprint(x)
	}
	and, or, xor := x&31, x>>5&31, x>>10&31
	size := 32 - and
	switch {
	case and == 31 && or == 0 && bits.OnesCount(uint(xor)) == 1:
		return fmt.Sprintf("swizzle(SWAP,%d)", xor)
	case and == 31 && or == 0 && xor > 0 && xor&(xor+1) == 0:
		return fmt.Sprintf("swizzle(REVERSE,%d)", xor+1)
	case size > 1 && size&(size-1) == 0 && or < size && xor == 0:
		return fmt.Sprintf("swizzle(BROADCAST,%d,%d)", size, or)
	}
	// What becomes of each bit of a lane's number, the highest first: 0, 1, the bit itself (p)
	// or its inverse (i).
	zeros, ones := or^xor, (and|or)^xor
	text := ""
	for i := 4; i >= 0; i-- {
		text += [...]string{"0", "p", "i", "1"}[zeros>>i&1<<1|ones>>i&1]
	}
	return fmt.Sprintf("swizzle(BITMASK_PERM,%q)", text)
}

// cache prints the bits that say which caches an access goes through.
func (p *printer) cache(in *Instruction) {
	glc, slc, third, names := 14, 12, 13, [3]string{" glc", " slc", " dlc"}
	if in.family == GFX11 && in.Encoding != MUBUF {
		slc = 15
	}
	if in.family == GFX9 {
		glc, slc, third, names = 16, 17, 25, [3]string{" sc0", " nt", " sc1"}
		if in.architecture == "gfx90a" {
			names = [3]string{" glc", " slc", " scc"}
		}
		if in.Encoding == MUBUF {
			glc, slc, third = 14, 17, 15
		}
	}
	for i, bit := range []int{glc, slc, third} {
		if bit == slc && len(in.form.operands) == 0 {
			continue // buffer_inv and its relatives have none
		}
		if field(in.raw, bit, 1) == 1 {
			p.WriteString(names[i])
		}
	}
}
