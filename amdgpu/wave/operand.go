package wave

import (
	"fmt"

	"tokitai/amdgpu/isa"
	"tokitai/amdgpu/valu"
)

// broadcast is a scalar register in all lanes, kept until the register changes.
type broadcast struct {
	value   uint32
	isValid bool
	lanes   Register
}

// spread returns the scalar register at a place of S in all lanes.
func (w *Wave) spread(number, at int) *Register {
	b := &w.broadcasts[number]
	if v := w.S[at]; b.value != v || !b.isValid {
		b.fill(v, w.Lanes)
	}
	return &b.lanes
}

func (b *broadcast) fill(v uint32, lanes int) {
	b.value, b.isValid = v, true
	for i := range b.lanes[:lanes&127] {
		b.lanes[i] = v
	}
}

// operandKind says where a vector instruction finds a word of an operand.
type operandKind uint8

const (
	inVector operandKind = iota
	inScalar
	isConstant
)

// word is one register of an operand of a vector instruction.
type word struct {
	kind     operandKind
	index    int // of the vector register, or of the scalar register in S
	spread   int // number of the broadcast
	constant *Register
}

// fetch returns the word in all lanes. What it returns is only read.
func (o *word) fetch(w *Wave) *Register {
	switch o.kind {
	case inVector:
		return &w.V[o.index]
	case inScalar:
		return w.spread(o.spread, o.index)
	}
	return o.constant
}

// vectorSource resolves an operand of a vector instruction into its words.
func (t *translator) vectorSource(o isa.Operand, words, i int) (found [2]word, before Step, err error) {
	switch o.Kind {
	case isa.VGPR, isa.AGPR:
		at, err := t.vectorRegister(o, words)
		for k := range words {
			found[k] = word{kind: inVector, index: at + k}
		}
		return found, nil, err
	case isa.Constant, isa.Null, isa.SharedBase, isa.SharedLimit, isa.PrivateBase, isa.PrivateLimit:
		value := constantValue(o)
		for k := range words {
			found[k] = word{kind: isConstant, constant: t.constantRegister(uint32(value >> (32 * k)))}
		}
		return found, nil, nil
	}
	at, before, err := t.source(o, i)
	for k := range words {
		number, ok := t.broadcasts[at+k]
		if !ok {
			number = len(t.broadcasts)
			t.broadcasts[at+k] = number
		}
		found[k] = word{kind: inScalar, index: at + k, spread: number}
	}
	return found, before, err
}

// constantRegister returns a register that is only read and holds a constant in all lanes.
func (t *translator) constantRegister(value uint32) *Register {
	r := t.registers[value]
	if r == nil {
		r = new(Register)
		for lane := range r {
			r[lane] = value
		}
		t.registers[value] = r
	}
	return r
}

// constantValue returns the pattern of an operand that is always the same.
func constantValue(o isa.Operand) uint64 {
	switch o.Kind {
	case isa.SharedBase:
		return sharedAperture << 32
	case isa.SharedLimit:
		return sharedAperture<<32 | 0xffffffff
	case isa.PrivateBase:
		return privateAperture << 32
	case isa.PrivateLimit:
		return privateAperture<<32 | 0xffffffff
	case isa.Null:
		return 0
	}
	return o.Value
}

// vectorRegister returns the number in V of the first of several registers.
func (t *translator) vectorRegister(o isa.Operand, words int) (int, error) {
	if o.Kind != isa.VGPR && o.Kind != isa.AGPR || o.Index < 0 || o.Index+words > AccumulatorBase {
		return 0, fmt.Errorf("an operand of kind %d with index %d and %d words is no vector register", o.Kind, o.Index, words)
	}
	if o.Kind == isa.AGPR {
		t.code.accumulators = max(t.code.accumulators, o.Index+words)
		return AccumulatorBase + o.Index, nil
	}
	t.code.registers = max(t.code.registers, o.Index+words)
	return o.Index, nil
}

// vectorOperand is an operand with the change that is made to it in each lane.
type vectorOperand struct {
	words  [2]word
	count  int
	change *change // nil for none: of the upper word, or the only one
}

// vectorOperand resolves an operand of the given type, with its modifiers.
func (t *translator) vectorOperand(in *isa.Instruction, o isa.Operand, typ valu.Type, i int) (vectorOperand, Step, error) {
	v := vectorOperand{count: typ.Words()}
	var before Step
	var err error
	if v.words, before, err = t.vectorSource(o, v.count, i); err != nil {
		return v, nil, err
	}
	c := change{keep: ^uint32(0)}
	if in.SDWA != nil && i < 2 {
		selection := [2]uint8{in.SDWA.Src0, in.SDWA.Src1}[i]
		if selection > 6 || selection < 6 && v.count != 1 {
			return v, nil, fmt.Errorf("operand %d: SDWA selection %d of %d words", i, selection, v.count)
		}
		c.shift, c.width = selectedBits(selection)
		c.isSigned = o.Sext
	} else if typ.Is16() && o.Kind != isa.Constant && isUpperHalf(in, o, i) {
		// Constants of 16 bits have no halves.
		c.shift = 16
	}
	// The modifiers of VOP3P are valu's.
	if in.Encoding != isa.VOP3P && (o.Neg || o.Abs) {
		sign := signBit(typ)
		if sign == 0 {
			return v, nil, fmt.Errorf("operand %d: neg or abs of a value without a sign", i)
		}
		if o.Abs {
			c.keep = ^sign
		}
		if o.Neg {
			c.flip = sign
		}
	}
	if c != (change{keep: ^uint32(0)}) {
		v.change = &c
	}
	return v, before, nil
}

// isUpperHalf reports whether operand i of 16 bits, or the result as operand 3, is the upper
// half of its register.
func isUpperHalf(in *isa.Instruction, o isa.Operand, i int) bool {
	return o.Half == isa.High || o.Half == isa.Whole && in.Encoding == isa.VOP3 && in.OpSel>>i&1 != 0
}

// signBit returns the sign bit in the upper word of a value.
func signBit(typ valu.Type) uint32 {
	switch typ {
	case valu.B16, valu.F16, valu.BF16, valu.I16, valu.U16:
		return 0x8000
	case valu.B32, valu.F32, valu.I32, valu.U32, valu.B64, valu.F64, valu.I64, valu.U64:
		return 0x80000000
	}
	return 0
}

// change is what modifiers and selections make of a register, in this order: a shift to the
// right, a selection of the lowest bits, abs and neg.
type change struct {
	shift    uint32
	width    uint32 // 0 for all bits
	isSigned bool
	keep     uint32 // all bits but the sign, for abs
	flip     uint32 // the sign, for neg
}

// apply stores the changed lanes in out, which may be in.
func (c *change) apply(in, out *Register, lanes int) {
	shift, keep, flip := c.shift&31, c.keep, c.flip
	if c.width == 0 {
		for i, x := range in[:lanes&127] {
			out[i] = x>>shift&keep ^ flip
		}
		return
	}
	for i, x := range in[:lanes&127] {
		v := uint64(x >> shift)
		if c.isSigned {
			v = signExtend(v, c.width)
		} else {
			v &= lowBits(c.width)
		}
		out[i] = uint32(v)&keep ^ flip
	}
}

// selectedBits returns the place and the width of an SDWA selection; the width is 0 for all of
// a register.
func selectedBits(selection uint8) (shift, width uint32) {
	switch {
	case selection < 4:
		return 8 * uint32(selection), 8
	case selection < 6:
		return 16 * uint32(selection-4), 16
	}
	return 0, 0
}
