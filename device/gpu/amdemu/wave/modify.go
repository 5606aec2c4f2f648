package wave

import (
	"fmt"

	"tokitai/device/gpu/amdemu/isa"
	"tokitai/device/gpu/amdemu/wave/valu"
)

// vectorOperand resolves an operand of the given type, with its modifiers.
func (t *translator) vectorOperand(in *isa.Instruction, o isa.Operand, typ valu.Type, i int) (vectorOperand, Step, error) {
	v := vectorOperand{count: typ.Words()}
	var before Step
	var err error
	if v.words, before, err = t.vectorSource(o, v.count, i); err != nil {
		return v, nil, err
	}
	var changes []func(x uint32) uint32
	if in.SDWA != nil && i < 2 {
		selection := [2]uint8{in.SDWA.Src0, in.SDWA.Src1}[i]
		if selection > 6 || selection < 6 && v.count != 1 {
			return v, nil, fmt.Errorf("operand %d: SDWA selection %d of %d words", i, selection, v.count)
		}
		if f := selectBits(selection, o.Sext); f != nil {
			changes = append(changes, f)
		}
	} else if typ.Is16() && o.Kind != isa.Constant {
		// Constants of 16 bits have no halves.
		if o.Half == isa.High || o.Half == isa.Whole && in.Encoding == isa.VOP3 && in.OpSel>>i&1 != 0 {
			changes = append(changes, func(x uint32) uint32 { return x >> 16 })
		}
	}
	// The modifiers of VOP3P are valu's.
	if in.Encoding != isa.VOP3P {
		if sign := signBit(typ); o.Abs {
			changes = append(changes, func(x uint32) uint32 { return x &^ sign })
		}
		if sign := signBit(typ); o.Neg {
			changes = append(changes, func(x uint32) uint32 { return x ^ sign })
		}
		if (o.Abs || o.Neg) && signBit(typ) == 0 {
			return v, nil, fmt.Errorf("operand %d: neg or abs of a value without a sign", i)
		}
	}
	v.change = lanewise(changes)
	return v, before, nil
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

// lanewise returns a function that applies the changes to each lane, or nil if there are none.
func lanewise(changes []func(x uint32) uint32) func(in, out *Register) {
	switch len(changes) {
	case 0:
		return nil
	case 1:
		f := changes[0]
		return func(in, out *Register) {
			for i := range in {
				out[i] = f(in[i])
			}
		}
	}
	return func(in, out *Register) {
		*out = *in
		for _, f := range changes {
			for i := range out {
				out[i] = f(out[i])
			}
		}
	}
}

// selectBits returns a function that takes a byte or a half, or nil for all of a register.
func selectBits(selection uint8, isSigned bool) func(x uint32) uint32 {
	switch {
	case selection < 4:
		shift := 8 * uint32(selection)
		if isSigned {
			return func(x uint32) uint32 { return uint32(int32(int8(x >> shift))) }
		}
		return func(x uint32) uint32 { return x >> shift & 0xff }
	case selection < 6:
		shift := 16 * uint32(selection-4)
		if isSigned {
			return func(x uint32) uint32 { return uint32(int32(int16(x >> shift))) }
		}
		return func(x uint32) uint32 { return x >> shift & 0xffff }
	}
	return nil
}

// What SDWA does with the bits of the result's register that are not selected.
const (
	unusedZero     = 0
	unusedSign     = 1
	unusedPreserve = 2
)

// selectResult returns a function that places the result of run in the selected bits. The
// result's registers hold their old values when it is called.
func selectResult(run valu.Func, s *isa.SDWA) valu.Func {
	var shift, width uint32 = 0, 32
	switch {
	case s.Result < 4:
		shift, width = 8*uint32(s.Result), 8
	case s.Result < 6:
		shift, width = 16*uint32(s.Result-4), 16
	}
	if width == 32 {
		return run
	}
	mask := uint32(lowBits(width))
	unused := s.Unused
	return func(c *valu.Call) {
		old := *c.Result[0]
		run(c)
		d := c.Result[0]
		for i := range d {
			x := d[i] & mask
			switch unused {
			case unusedZero:
				d[i] = x << shift
			case unusedSign:
				// Bits above the selection are copies of its sign, those below are 0.
				d[i] = uint32(signExtend(uint64(x), width)) << shift
			default:
				d[i] = old[i]&^(mask<<shift) | x<<shift
			}
		}
	}
}
