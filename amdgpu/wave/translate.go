package wave

import (
	"fmt"

	"tokitai/amdgpu/isa"
)

// translator builds the steps of one kernel.
type translator struct {
	family     isa.Family
	code       *Code
	constants  map[constant]int // places in S
	registers  map[uint32]*Register
	broadcasts map[int]int // numbers of a scalar register's broadcast
	sites      int         // memory instructions so far
}

type constant struct {
	value uint64
	words int
}

// Translate builds the steps of a kernel. The instructions are in the order of their offsets
// and have no gaps. The error for an instruction that is not known names it and its offset.
func Translate(family isa.Family, instructions []isa.Instruction) (*Code, error) {
	t := &translator{
		family:     family,
		code:       &Code{Family: family, Instructions: instructions, numbers: map[uint64]int{}},
		constants:  map[constant]int{},
		registers:  map[uint32]*Register{},
		broadcasts: map[int]int{},
	}
	for i := range instructions {
		t.code.numbers[instructions[i].Offset] = i
	}
	t.code.Steps = make([]Step, 0, len(instructions)+1)
	for i := range instructions {
		in := &instructions[i]
		step, err := t.step(in)
		if err != nil {
			return nil, fmt.Errorf("%s at offset %#x: %w", in.Name, in.Offset, err)
		}
		t.code.Steps = append(t.code.Steps, step)
	}
	t.code.Steps = append(t.code.Steps, func(w *Wave) { w.fail(-1, errPastEnd) })
	t.code.broadcasts = len(t.broadcasts)
	return t.code, nil
}

var (
	errUnknown = fmt.Errorf("the emulator does not know this instruction")
	errPastEnd = fmt.Errorf("execution runs past the end of the code")
)

func (t *translator) step(in *isa.Instruction) (Step, error) {
	switch in.Encoding {
	case isa.SOP1, isa.SOP2, isa.SOPC, isa.SOPK, isa.SOPP:
		return t.scalarStep(in)
	case isa.SMEM:
		return t.scalarMemory(in)
	case isa.VOP1, isa.VOP2, isa.VOP3, isa.VOP3P, isa.VOPC:
		return t.vector(in)
	case isa.VOPD:
		return t.pair(in)
	case isa.DS:
		return t.localData(in)
	case isa.FLAT, isa.GLOBAL, isa.SCRATCH:
		return t.flat(in)
	case isa.MUBUF:
		return t.buffer(in)
	}
	return nil, errUnknown
}

// constant returns the place of a constant in S.
func (t *translator) constant(value uint64, words int) int {
	key := constant{value, words}
	at, ok := t.constants[key]
	if !ok {
		at = ConstantsAt + len(t.code.constants)
		t.constants[key] = at
		t.code.constants = append(t.code.constants, uint32(value))
		if words > 1 {
			t.code.constants = append(t.code.constants, uint32(value>>32))
		}
	}
	return at
}

// source returns the place in S of a scalar operand. An operand that is no register, such as
// scc, is brought there by before, at the place for operand i.
func (t *translator) source(o isa.Operand, i int) (at int, before Step, err error) {
	flag := func(get func(w *Wave) bool) (int, Step, error) {
		at := conditionAt + 2*i
		return at, func(w *Wave) {
			w.S[at] = 0
			if get(w) {
				w.S[at] = 1
			}
		}, nil
	}
	switch o.Kind {
	case isa.Constant, isa.Null:
		return t.constant(constantValue(o), max(o.Words, 1)), nil, nil
	case isa.SharedBase, isa.SharedLimit, isa.PrivateBase, isa.PrivateLimit:
		return t.constant(constantValue(o), 2), nil, nil
	case isa.SCC:
		return flag(func(w *Wave) bool { return w.SCC })
	case isa.VCCZ:
		return flag(func(w *Wave) bool { return w.VCC() == 0 })
	case isa.ExecZ:
		return flag(func(w *Wave) bool { return w.Exec == 0 })
	}
	at, err = t.place(o)
	return at, nil, err
}

// place returns the place in S of scalar registers.
func (t *translator) place(o isa.Operand) (int, error) {
	last := vccAt - 1
	if t.family == isa.GFX9 {
		last = flatScratchAt - 1
	}
	switch o.Kind {
	case isa.SGPR:
		if o.Index < 0 || o.Index+max(o.Words, 1)-1 > last {
			return 0, fmt.Errorf("s%d with %d words: the last scalar register is s%d", o.Index, o.Words, last)
		}
		return o.Index, nil
	case isa.VCC:
		return vccAt, nil
	case isa.VCCHigh:
		return vccAt + 1, nil
	case isa.Exec:
		return execAt, nil
	case isa.ExecHigh:
		return execAt + 1, nil
	case isa.M0:
		return m0At, nil
	case isa.FlatScratch:
		return flatScratchAt + o.Index&1, nil
	case isa.XNACKMask:
		return xnackMaskAt + o.Index&1, nil
	case isa.TTMP:
		if o.Index < 0 || o.Index+max(o.Words, 1) > m0At-ttmpAt {
			return 0, fmt.Errorf("ttmp%d with %d words: the last is ttmp15", o.Index, o.Words)
		}
		return ttmpAt + o.Index, nil
	}
	return 0, fmt.Errorf("an operand of kind %d cannot be a scalar operand", o.Kind)
}

// result returns the place in S of a scalar result, and whether it is in exec.
func (t *translator) result(o isa.Operand) (at int, isExec bool, err error) {
	if o.Kind == isa.Null {
		return discardAt, false, nil
	}
	at, err = t.place(o)
	return at, at+max(o.Words, 1) > execAt && at < discardAt, err
}

// join returns a step that executes those that are not nil, in order.
func join(steps ...Step) Step {
	var all []Step
	for _, s := range steps {
		if s != nil {
			all = append(all, s)
		}
	}
	switch len(all) {
	case 1:
		return all[0]
	case 2:
		first, second := all[0], all[1]
		return func(w *Wave) { first(w); second(w) }
	}
	return func(w *Wave) {
		for _, s := range all {
			s(w)
		}
	}
}
