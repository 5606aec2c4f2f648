package wave

import (
	"fmt"
	"strings"

	"tokitai/amdgpu/isa"
)

// noEffect has the scalar instructions that change only timing, caches or what tools see.
var noEffect = map[string]bool{
	"s_nop": true, "s_sleep": true, "s_setprio": true, "s_clause": true, "s_delay_alu": true,
	"s_inst_prefetch": true, "s_set_inst_prefetch_distance": true, "s_wait_idle": true, "s_wait_event": true,
	"s_waitcnt": true, "s_waitcnt_depctr": true, "s_waitcnt_vscnt": true, "s_waitcnt_vmcnt": true,
	"s_waitcnt_expcnt": true, "s_waitcnt_lgkmcnt": true, "s_wakeup": true, "s_icache_inv": true,
	"s_incperflevel": true, "s_decperflevel": true, "s_ttracedata": true, "s_ttracedata_imm": true,
	"s_version": true,
}

// sendDeallocate is the message that frees a wave's registers before it ends.
const sendDeallocate = 3

// control translates instructions that change the program counter, the mode or the state of
// the wave. It returns neither a step nor an error for others.
func (t *translator) control(in *isa.Instruction) (Step, error) {
	if noEffect[in.Name] {
		return func(w *Wave) {}, nil
	}
	if strings.HasPrefix(in.Name, "s_branch") || strings.HasPrefix(in.Name, "s_cbranch_") {
		return t.branch(in)
	}
	switch in.Name {
	case "s_endpgm", "s_endpgm_saved":
		return func(w *Wave) { w.Done, w.stopped = true, true }, nil
	case "s_barrier":
		return func(w *Wave) { w.isWaiting, w.stopped = true, true }, nil
	case "s_code_end":
		return func(w *Wave) { w.fail(-1, errPastEnd) }, nil
	case "s_trap", "s_sethalt":
		err := fmt.Errorf("the kernel stops itself (%s %d)", in.Name, in.Immediate)
		return func(w *Wave) { w.fail(-1, err) }, nil
	case "s_sendmsg":
		if in.Immediate&0xff == sendDeallocate && t.family == isa.GFX11 {
			return func(w *Wave) {}, nil
		}
		return nil, fmt.Errorf("message %d: only the one that frees registers is known", in.Immediate)
	case "s_round_mode":
		bits := uint32(in.Immediate & 15)
		return func(w *Wave) { w.setMode(w.mode()&^15 | bits) }, nil
	case "s_denorm_mode":
		bits := uint32(in.Immediate&15) << 4
		return func(w *Wave) { w.setMode(w.mode()&^0xf0 | bits) }, nil
	case "s_getreg_b32", "s_setreg_b32", "s_setreg_imm32_b32":
		return t.hardwareRegister(in)
	case "s_getpc_b64", "s_setpc_b64", "s_swappc_b64", "s_call_b64":
		return t.jump(in)
	case "s_movrels_b32", "s_movrels_b64", "s_movreld_b32", "s_movreld_b64":
		return t.moveRelative(in)
	}
	return nil, nil
}

// target returns the number of the instruction that a branch goes to.
func (t *translator) target(in *isa.Instruction) (int, error) {
	offset := in.Offset + uint64(in.Size) + uint64(in.Immediate)
	number, ok := t.code.numbers[offset]
	if !ok {
		return 0, fmt.Errorf("branches to offset %#x, where no instruction begins", offset)
	}
	return number, nil
}

func (t *translator) branch(in *isa.Instruction) (Step, error) {
	to, err := t.target(in)
	if err != nil {
		return nil, err
	}
	switch in.Name {
	case "s_branch":
		return func(w *Wave) { w.PC = to }, nil
	case "s_cbranch_scc0":
		return func(w *Wave) {
			if !w.SCC {
				w.PC = to
			}
		}, nil
	case "s_cbranch_scc1":
		return func(w *Wave) {
			if w.SCC {
				w.PC = to
			}
		}, nil
	case "s_cbranch_vccz":
		return func(w *Wave) {
			if w.VCC() == 0 {
				w.PC = to
			}
		}, nil
	case "s_cbranch_vccnz":
		return func(w *Wave) {
			if w.VCC() != 0 {
				w.PC = to
			}
		}, nil
	case "s_cbranch_execz":
		return func(w *Wave) {
			if w.Exec == 0 {
				w.PC = to
			}
		}, nil
	case "s_cbranch_execnz":
		return func(w *Wave) {
			if w.Exec != 0 {
				w.PC = to
			}
		}, nil
	case "s_cbranch_cdbgsys", "s_cbranch_cdbguser", "s_cbranch_cdbgsys_or_user", "s_cbranch_cdbgsys_and_user":
		return func(w *Wave) {}, nil // no debugger is attached
	}
	return nil, errUnknown
}

// jump translates instructions that read or set the program counter as an address.
func (t *translator) jump(in *isa.Instruction) (Step, error) {
	next := in.Offset + uint64(in.Size)
	var save, load Step
	if len(in.Results) > 0 {
		d, _, err := t.result(in.Results[0])
		if err != nil {
			return nil, err
		}
		save = func(w *Wave) { w.setPair(d, w.Group.launch.CodeAddress+next) }
	}
	switch in.Name {
	case "s_call_b64":
		to, err := t.target(in)
		if err != nil {
			return nil, err
		}
		load = func(w *Wave) { w.PC = to }
	case "s_setpc_b64", "s_swappc_b64":
		if len(in.Operands) != 1 {
			return nil, fmt.Errorf("%d operands, want 1", len(in.Operands))
		}
		a, err := t.place(in.Operands[0])
		if err != nil {
			return nil, err
		}
		// The target is read before the return address is stored, which may be in the same
		// registers.
		return func(w *Wave) {
			address := w.pair(a)
			if save != nil {
				save(w)
			}
			w.jump(address)
		}, nil
	}
	return join(save, load), nil
}

// jump continues at the instruction at an address.
func (w *Wave) jump(address uint64) {
	l := w.Group.launch
	number, ok := l.Code.numbers[address-l.CodeAddress]
	if !ok {
		w.fail(-1, fmt.Errorf("jumps to address %#x, where no instruction of the kernel begins", address))
		return
	}
	w.PC = number
}

// The hardware registers that s_getreg_b32 reads.
const (
	modeRegister        = 1
	memoryBasesRegister = 15 // upper halves of the apertures' addresses
)

// mode returns the MODE register.
func (w *Wave) mode() uint32 {
	m := &w.call.Mode
	return w.modeRest | uint32(m.Round32&3) | uint32(m.Round64&3)<<2 | uint32(m.Denorm32&3)<<4 | uint32(m.Denorm64&3)<<6 |
		flag(m.DX10Clamp)<<8 | flag(m.IEEE)<<9
}

// setMode sets the MODE register.
func (w *Wave) setMode(v uint32) {
	w.modeRest = v &^ 0x3ff
	w.call.Mode = Mode{
		Round32: uint8(v & 3), Round64: uint8(v >> 2 & 3), Denorm32: uint8(v >> 4 & 3), Denorm64: uint8(v >> 6 & 3),
		DX10Clamp: v>>8&1 != 0, IEEE: v>>9&1 != 0,
	}
}

// hardwareRegister translates reads and writes of a field of a hardware register: its number
// in 6 bits, the field's offset in 5 and its width less 1 in 5.
func (t *translator) hardwareRegister(in *isa.Instruction) (Step, error) {
	var encoded uint64
	found := false
	var other []isa.Operand
	for _, o := range append(append([]isa.Operand{}, in.Results...), in.Operands...) {
		if o.Kind == isa.HwReg {
			encoded, found = o.Value, true
		} else {
			other = append(other, o)
		}
	}
	if !found {
		encoded = uint64(in.Immediate)
	}
	register, offset, width := encoded&63, encoded>>6&31, encoded>>11&31+1
	mask := uint32(lowBits(uint32(width))) << offset
	if len(other) != 1 {
		return nil, fmt.Errorf("%d operands besides the hardware register, want 1", len(other))
	}
	if in.Name == "s_getreg_b32" {
		d, isExec, err := t.result(other[0])
		if err != nil {
			return nil, err
		}
		var after Step
		if isExec {
			after = (*Wave).loadExec
		}
		switch register {
		case modeRegister:
			return join(func(w *Wave) { w.S[d] = w.mode() & mask >> offset }, after), nil
		case memoryBasesRegister:
			bases := uint32(sharedAperture | privateAperture>>16)
			return join(func(w *Wave) { w.S[d] = bases & mask >> offset }, after), nil
		}
	} else if register == modeRegister {
		a, before, err := t.source(other[0], 0)
		return join(before, func(w *Wave) { w.setMode(w.mode()&^mask | w.S[a]<<offset&mask) }), err
	}
	return nil, fmt.Errorf("hardware register %d is not known", register)
}

// saveExec translates instructions that save exec and compute a new one.
func (t *translator) saveExec(in *isa.Instruction) (Step, error) {
	operation, isSave := strings.CutSuffix(strings.TrimSuffix(strings.TrimSuffix(in.Name, "_b32"), "_b64"), "_saveexec")
	operation, isWrite := strings.CutSuffix(operation, "_wrexec")
	if !isSave && !isWrite || len(in.Operands) != 1 {
		return nil, nil
	}
	var f func(a, exec uint64) uint64
	switch strings.TrimPrefix(operation, "s_") {
	case "and":
		f = func(a, exec uint64) uint64 { return a & exec }
	case "or":
		f = func(a, exec uint64) uint64 { return a | exec }
	case "xor":
		f = func(a, exec uint64) uint64 { return a ^ exec }
	case "nand":
		f = func(a, exec uint64) uint64 { return ^(a & exec) }
	case "nor":
		f = func(a, exec uint64) uint64 { return ^(a | exec) }
	case "xnor":
		f = func(a, exec uint64) uint64 { return ^(a ^ exec) }
	case "andn1", "and_not0":
		f = func(a, exec uint64) uint64 { return ^a & exec }
	case "andn2", "and_not1":
		f = func(a, exec uint64) uint64 { return a &^ exec }
	case "orn1", "or_not0":
		f = func(a, exec uint64) uint64 { return ^a | exec }
	case "orn2", "or_not1":
		f = func(a, exec uint64) uint64 { return a | ^exec }
	default:
		return nil, nil
	}
	a, before, err := t.source(in.Operands[0], 0)
	if err != nil {
		return nil, err
	}
	d, _, err := t.single(in)
	isLong := in.Operands[0].Words == 2
	return join(before, func(w *Wave) {
		old := w.Exec
		exec := f(w.read(a, isLong), old) & w.All
		saved := old
		if isWrite {
			saved = exec
		}
		w.S[d] = uint32(saved)
		if isLong {
			w.setPair(d, saved)
		}
		w.SetExec(exec)
		w.SCC = exec != 0
	}), err
}

// moveRelative translates scalar moves whose source or result is relative to m0.
func (t *translator) moveRelative(in *isa.Instruction) (Step, error) {
	if len(in.Operands) != 1 || len(in.Results) != 1 {
		return nil, fmt.Errorf("%d operands and %d results, want 1 and 1", len(in.Operands), len(in.Results))
	}
	a, before, err := t.source(in.Operands[0], 0)
	if err != nil {
		return nil, err
	}
	d, after, err := t.single(in)
	if err != nil {
		return nil, err
	}
	isSource := strings.HasPrefix(in.Name, "s_movrels")
	isLong := strings.HasSuffix(in.Name, "_b64")
	return join(before, func(w *Wave) {
		from, to := a, d
		m0 := int(w.S[m0At])
		if isSource {
			from += m0
		} else {
			to += m0
		}
		if max(from-a, to-d) >= vccAt || max(from, to)+1 > vccAt+1 && m0 != 0 {
			w.fail(-1, fmt.Errorf("m0 is %d, beyond the scalar registers", m0))
			return
		}
		if v := w.read(from, isLong); isLong {
			w.setPair(to, v)
		} else {
			w.S[to] = uint32(v)
		}
	}, after), nil
}
