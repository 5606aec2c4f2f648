package isa

import "fmt"

// register returns an operand of the given type in the registers from index.
func (d *decoder) register(k Kind, index int, t Type) Operand {
	return Operand{Kind: k, Index: index, Words: t.words(d.family), Type: t}
}

// vector returns a VGPR operand from the eight bits of its field. In the short forms of gfx11,
// the highest bit of a 16-bit operand selects the half of one of the first 128 registers.
func (d *decoder) vector(bits int, t Type, short bool) Operand {
	o := d.register(VGPR, bits, t)
	if d.family == GFX11 && t.is16() {
		o.Half = Low
		if short {
			if bits >= 128 {
				o.Half = High
			}
			o.Index = bits & 127
		}
	}
	return o
}

// source returns the operand that the nine bits of a source field stand for, or the eight bits
// of a scalar instruction's.
func (d *decoder) source(code int, t Type, short bool) (Operand, error) {
	switch {
	case code >= 256:
		return d.vector(code-256, t, short), nil
	case code < 128:
		return d.scalar(code, t)
	}
	o := Operand{Kind: Constant, Words: t.words(d.family), Type: t}
	switch {
	case code <= 192:
		o.Value = t.inlineInteger(d.family, code-128)
	case code <= 208:
		o.Value = t.inlineInteger(d.family, 192-code)
	case 240 <= code && code <= 248:
		o.Value = t.inlineFloat(d.family, code-240)
	case code == sourceLiteral:
		return d.literalOperand(t)
	default:
		k, ok := specialSources[code]
		if !ok {
			return o, fmt.Errorf("encoding %s: %s: source %d: unknown", d.in.Encoding, d.in.Name, code)
		}
		o.Kind = k
	}
	return o, nil
}

var specialSources = map[int]Kind{
	235: SharedBase, 236: SharedLimit, 237: PrivateBase, 238: PrivateLimit, 239: PopsExitingWaveID,
	251: VCCZ, 252: ExecZ, 253: SCC, 254: LDSDirect,
}

// scalar returns the scalar register with the given number, which is also a result's.
func (d *decoder) scalar(code int, t Type) (Operand, error) {
	o := d.register(SGPR, code, t)
	last := 105
	null, m0 := 124, 125
	if d.family == GFX9 {
		last, null, m0 = 101, -1, 124
	}
	switch {
	case code <= last:
		return o, nil
	case code == 102 || code == 103:
		o.Kind, o.Index = FlatScratch, code-102
	case code == 104 || code == 105:
		o.Kind, o.Index = XNACKMask, code-104
	case code == 106:
		o.Kind, o.Index = VCC, 0
	case code == 107:
		o.Kind, o.Index = VCCHigh, 0
	case 108 <= code && code <= 123:
		o.Kind, o.Index = TTMP, code-108
	case code == null:
		o.Kind, o.Index = Null, 0
	case code == m0:
		o.Kind, o.Index = M0, 0
	case code == 126:
		o.Kind, o.Index = Exec, 0
	case code == 127:
		o.Kind, o.Index = ExecHigh, 0
	default:
		return o, fmt.Errorf("encoding %s: %s: scalar register %d: unknown", d.in.Encoding, d.in.Name, code)
	}
	return o, nil
}

// literalOperand returns the literal behind an instruction.
func (d *decoder) literalOperand(t Type) (Operand, error) {
	if err := d.readLiteral(); err != nil {
		return Operand{}, err
	}
	return Operand{Kind: Constant, Words: t.words(d.family), Type: t,
		Value: t.literal(d.literal), IsLiteral: true, literal: d.literal}, nil
}

func (d *decoder) result(o Operand, err error) error {
	d.in.Results = append(d.in.Results, o)
	return err
}

func (d *decoder) operand(o Operand, err error) error {
	d.in.Operands = append(d.in.Operands, o)
	return err
}

// validate reports registers that do not exist, such as the second of a pair that begins at
// the last register.
func (in *Instruction) validate() error {
	for _, list := range [][]Operand{in.Results, in.Operands} {
		for i := range list {
			if !list[i].exists(in.family) {
				return fmt.Errorf("encoding %s: %s: %s: no such registers", in.Encoding, in.Name, list[i].base())
			}
		}
	}
	if in.Second != nil {
		return in.Second.validate()
	}
	return nil
}

// exists reports whether the operand's registers do.
func (o *Operand) exists(f Family) bool {
	switch o.Kind {
	case VGPR, AGPR:
		return o.Index+o.Words <= 256
	case SGPR:
		if f == GFX11 {
			return o.Index+o.Words <= 106
		}
		return o.Index+o.Words <= 102
	case TTMP:
		return o.Index+o.Words <= 16
	case FlatScratch, XNACKMask:
		return o.Index+o.Words <= 2
	case VCC, Exec:
		return o.Words <= 2
	case VCCHigh, ExecHigh, M0:
		return o.Words == 1
	}
	return true
}
