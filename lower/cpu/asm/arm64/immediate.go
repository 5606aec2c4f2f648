package arm64

import (
	"fmt"
	"math"
	"math/bits"
)

func (e *encoder) immediate(s slot, o Operand) fault {
	switch s.kind {
	case immZeroFloat, immFloat, immFloatABC:
		f, ok := o.(Float)
		if !ok {
			return mismatch
		}
		return e.float(s, float64(f))
	}
	i, ok := o.(Imm)
	if !ok {
		return mismatch
	}
	v := int64(i)
	elementBits := int64(8) << e.t.size()
	switch s.kind {
	case immU12:
		switch {
		case v >= 0 && v < 1<<12:
			e.word |= uint32(v) << 10
		case v >= 0 && v < 1<<24 && v&0xfff == 0:
			e.word |= uint32(v>>12)<<10 | 1<<22
		default:
			return outside("immediate", v, "0 to 4095, or a multiple of 4096 below 2^24")
		}
	case immBitmask:
		fields, ok := bitmask(uint64(v), e.regBits())
		if !ok {
			return outside("immediate", v, "a repeated run of ones")
		}
		e.word |= fields
	case immU16:
		if v < 0 || v > 0xffff {
			return outside("immediate", v, "0 to 65535")
		}
		e.word |= uint32(v) << 5
	case immLSL, immLSR:
		n := int64(e.regBits())
		if v < 0 || v >= n {
			return outside("shift", v, fmt.Sprintf("0 to %d", n-1))
		}
		immr, imms := v, n-1
		if s.kind == immLSL {
			immr, imms = -v&(n-1), n-1-v
		}
		e.word |= uint32(immr)<<16 | uint32(imms)<<10 | uint32(n/64)<<22
	case immBit:
		n := int64(e.regBits())
		if v < 0 || v >= n {
			return outside("bit", v, fmt.Sprintf("0 to %d", n-1))
		}
		e.word |= uint32(v&31)<<19 | uint32(v>>5)<<31
	case immShl:
		if v < 0 || v >= elementBits {
			return outside("shift", v, fmt.Sprintf("0 to %d", elementBits-1))
		}
		e.word |= uint32(elementBits+v) << 16
	case immShr:
		if v < 1 || v > elementBits {
			return outside("shift", v, fmt.Sprintf("1 to %d", elementBits))
		}
		e.word |= uint32(2*elementBits-v) << 16
	case immSize:
		if v != elementBits {
			return outside("shift", v, fmt.Sprint(elementBits))
		}
	case immExt:
		if n := int64(e.t.bytes()); v < 0 || v >= n {
			return outside("immediate", v, fmt.Sprintf("0 to %d", n-1))
		}
		e.word |= uint32(v) << 11
	case immZero:
		if v != 0 {
			return outside("immediate", v, "0")
		}
	case immABC:
		if v < 0 || v > 255 {
			return outside("immediate", v, "0 to 255")
		}
		e.word |= abcdefgh(uint32(v))
	case immMask:
		var mask uint32
		for i := range 8 {
			switch uint64(v) >> (8 * i) & 0xff {
			case 0:
			case 0xff:
				mask |= 1 << i
			default:
				return outside("immediate", v, "bytes that are 0 or 255")
			}
		}
		e.word |= abcdefgh(mask)
	}
	return fault{}
}

// abcdefgh places the 8 bits of an immediate.
func abcdefgh(v uint32) uint32 { return v>>5<<16 | v&31<<5 }

func (e *encoder) float(s slot, f float64) fault {
	if s.kind == immZeroFloat {
		if math.Float64bits(f) != 0 {
			return outside("immediate", f, "0.0")
		}
		return fault{}
	}
	v, ok := float8(f)
	if !ok {
		return outside("immediate", f, "±(16 to 31)/16 · 2^(-3 to 4)")
	}
	if s.kind == immFloat {
		e.word |= v << 13
	} else {
		e.word |= abcdefgh(v)
	}
	return fault{}
}

// float8 returns the 8 bits of an immediate of FMOV: sign, three bits of exponent, four of
// fraction.
func float8(f float64) (uint32, bool) {
	b := math.Float64bits(f)
	exponent := int(b>>52&0x7ff) - 1023
	if b<<16 != 0 || exponent < -3 || exponent > 4 {
		return 0, false
	}
	return uint32(b>>63<<7) | uint32(exponent-1)&7<<4 | uint32(b>>48&15), true
}

// bitmask returns the fields N, immr and imms of a logical immediate: a run of ones,
// rotated, in an element of 2 to 64 bits that is repeated.
func bitmask(v uint64, regBits uint32) (uint32, bool) {
	if regBits == 32 {
		if v>>32 != 0 {
			return 0, false
		}
		v |= v << 32
	}
	if v == 0 || v == math.MaxUint64 {
		return 0, false
	}
	size := 64
	for size > 2 && v == bits.RotateLeft64(v, size/2) {
		size /= 2
	}
	element := v & (math.MaxUint64 >> (64 - size))
	ones := bits.OnesCount64(element)
	run := uint64(1)<<ones - 1
	for r := range size {
		// The element is the run rotated right by r.
		if rotated := (run>>r | run<<(size-r)) & (math.MaxUint64 >> (64 - size)); rotated == element {
			n := uint32(size / 64)
			imms := uint32(-(size<<1))&0x3f | uint32(ones-1)
			return n<<22 | uint32(r)<<16 | imms<<10, true
		}
	}
	return 0, false
}

// MovImm sets dst to v with as few instructions as it takes: up to four.
func (a *Assembler) MovImm(dst Reg, v uint64) {
	parts := 4
	if dst.isW() {
		parts = 2
		v &= math.MaxUint32
	}
	if _, ok := bitmask(v, uint32(parts*16)); ok {
		zero := XZR
		if dst.isW() {
			zero = XZR.W()
		}
		a.I(ORR, dst, zero, Imm(v))
		return
	}
	zeros, ones := 0, 0
	for i := range parts {
		switch v >> (16 * i) & 0xffff {
		case 0:
			zeros++
		case 0xffff:
			ones++
		}
	}
	first, rest, skip := MOVZ, v, uint64(0)
	if ones > zeros {
		first, rest, skip = MOVN, ^v, 0xffff
	}
	begun := false
	for i := range parts {
		part := v >> (16 * i) & 0xffff
		if part == skip && !(i == parts-1 && !begun) {
			continue
		}
		op, value := MOVK, part
		if !begun {
			op, value = first, rest>>(16*i)&0xffff
		}
		begun = true
		if i == 0 {
			a.I(op, dst, Imm(value))
		} else {
			a.I(op, dst, Imm(value), Lsl(16*i))
		}
	}
}
