package amd64

import (
	"math/rand/v2"
	"testing"
)

// randomMem returns memory with an addressing mode of any kind. Unit is the size of
// the operand, from which displacements are made that compress and that do not.
func randomMem(r *rand.Rand, unit int) Mem {
	disps := []int32{0, 1, -1, 127, -128, 128, -129, 1 << 20, -1 << 31, int32(unit), -int32(unit), int32(127 * unit), int32(-128 * unit), int32(128 * unit), int32(-129 * unit), int32(unit) + 1}
	m := At(Reg(r.IntN(16)), disps[r.IntN(len(disps))])
	switch r.IntN(4) {
	case 0:
		m = m.Plus(Reg([]int{0, 1, 2, 3, 5, 6, 7, 8, 12, 13, 15}[r.IntN(11)]), 1<<r.IntN(4))
	case 1:
		if r.IntN(4) == 0 {
			m = Indexed(Reg(8*r.IntN(2)+r.IntN(4)), 1<<r.IntN(4), m.Disp)
		}
	}
	return m
}

func (s slot) random(r *rand.Rand, top int, unit int, memory, vectors bool) Operand {
	switch s.class() {
	case classReg32, classReg64:
		if !memory || s&orMem == 0 {
			return Reg(r.IntN(16))
		}
	case classMask:
		if !memory || s&orMem == 0 {
			return Mask(r.IntN(8))
		}
	case classVSIB:
		return At(Reg(r.IntN(16)), []int32{0, 4, 128, 1 << 20, -4}[r.IntN(5)]).PlusVec(Vec(r.IntN(top)), 1<<r.IntN(4))
	case classNone:
		if s.place() == inImm {
			return Imm(r.IntN(256))
		}
	default:
		if !memory || s&orMem == 0 {
			return Vec(r.IntN(top))
		}
	}
	return randomMem(r, unit)
}

// instances calls f with random operands of every row, width and kind of operand.
func instances(r *rand.Rand, each int, f func(op Op, w Width, operands []Operand)) {
	for op := range Op(numVector) {
		for i := range table[op].encodings {
			e := &table[op].encodings[i]
			for w := X; w <= Z; w++ {
				for _, evex := range []bool{false, true} {
					if evex && (e.flags&inEVEX == 0 || e.allows(w, nil, modifiers{mask: 1}) != nil && e.flags&noMask == 0 || w == X && e.flags&noX != 0 || w == Y && e.flags&noY != 0 || w == Z && e.flags&noZ != 0) {
						continue
					}
					if !evex && (e.flags&inVEX == 0 || !e.allowsVEX(w)) {
						continue
					}
					for n := range each {
						f(op, w, e.instance(r, w, evex, n))
					}
				}
			}
		}
	}
}

func (e *encoding) instance(r *rand.Rand, w Width, evex bool, n int) []Operand {
	top := 16
	if evex {
		top = 32
	}
	var operands []Operand
	hasMem := false
	for i := 0; i < 4 && e.form>>(8*i) != 0; i++ {
		s := slot(e.form >> (8 * i))
		o := s.random(r, top, e.memoryBytes(w, false), n%2 == 1, true)
		if m, ok := o.(Mem); ok {
			hasMem = true
			if evex && e.flags&(b32|b64) != 0 && r.IntN(2) == 0 {
				o = m.Broadcast()
			}
		}
		operands = append(operands, o)
	}
	if e.flags&mustMask != 0 { // the destination and the index of a gather must differ
		for i := range operands {
			if v, ok := operands[i].(Vec); ok {
				operands[i] = v &^ 1
			}
			if m, ok := operands[i].(Mem); ok {
				m.vector |= 1
				operands[i] = m
			}
		}
	} else if e.form == gatherVEX {
		operands[0] = Vec(3*r.IntN(5) + 1)
		m := operands[1].(Mem)
		m.vector = uint8(3 * r.IntN(5))
		operands[1], operands[2] = m, Vec(3*r.IntN(5)+2)
	}
	if evex {
		_, toVec := operands[0].(Vec)
		switch {
		case e.flags&noMask != 0:
		case e.flags&mustMask != 0:
			operands = append(operands, Merge(Mask(1+r.IntN(7))))
		case r.IntN(3) == 0:
			operands = append(operands, Merge(Mask(1+r.IntN(7))))
		case r.IntN(2) == 0 && toVec:
			operands = append(operands, Zero(Mask(1+r.IntN(7))))
		}
		if !hasMem && (w == Z || e.flags&noZ != 0) && r.IntN(2) == 0 {
			switch {
			case e.flags&er != 0:
				operands = append(operands, Rounding(r.IntN(4)))
			case e.flags&sae != 0:
				operands = append(operands, SAE)
			}
		}
	}
	return operands
}

func TestVectorsAgainstGNU(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	a := New()
	instances(r, 24, func(op Op, w Width, operands []Operand) {
		a.V(op, w, operands...)
		if a.Err() != nil {
			t.Fatalf("%v", a.Err())
		}
	})
	compareGNU(t, a)
}
