package wave

import (
	"fmt"
	"math/bits"

	"tokitai/amdgpu/isa"
)

// crossLaneSteps has the vector instructions that move values between lanes or registers.
var crossLaneSteps = map[string]func(t *translator, in *isa.Instruction) (Step, error){
	"v_nop":               func(*translator, *isa.Instruction) (Step, error) { return func(*Wave) {}, nil },
	"v_pipeflush":         func(*translator, *isa.Instruction) (Step, error) { return func(*Wave) {}, nil },
	"v_readlane_b32":      (*translator).readLane,
	"v_readfirstlane_b32": (*translator).readLane,
	"v_writelane_b32":     (*translator).writeLane,
	"v_mbcnt_lo_u32_b32":  (*translator).countBelow,
	"v_mbcnt_hi_u32_b32":  (*translator).countBelow,
	"v_permlane16_b32":    (*translator).permuteRow,
	"v_permlanex16_b32":   (*translator).permuteRow,
	"v_permlane64_b32":    (*translator).swapHalves,
	"v_swap_b32":          (*translator).swap,
	"v_swap_b16":          (*translator).swap,
	"v_movrels_b32":       (*translator).relative,
	"v_movreld_b32":       (*translator).relative,
	"v_movrelsd_b32":      (*translator).relative,
	"v_movrelsd_2_b32":    (*translator).relative,
	"v_swaprel_b32":       (*translator).relative,
	"v_accvgpr_read_b32":  (*translator).move,
	"v_accvgpr_read":      (*translator).move,
	"v_accvgpr_write_b32": (*translator).move,
	"v_accvgpr_write":     (*translator).move,
	"v_accvgpr_mov_b32":   (*translator).move,
}

// crossLane translates instructions that move values between lanes or registers. It returns
// neither a step nor an error for others.
func (t *translator) crossLane(in *isa.Instruction) (Step, error) {
	build, ok := crossLaneSteps[in.Name]
	if !ok {
		return nil, nil
	}
	if in.DPP != nil || in.SDWA != nil {
		return nil, fmt.Errorf("with DPP or SDWA, the emulator does not know this instruction")
	}
	return build(t, in)
}

// want returns an error unless the instruction has the given numbers of results and operands.
func want(in *isa.Instruction, results, operands int) error {
	if len(in.Results) != results || len(in.Operands) != operands {
		return fmt.Errorf("%d results and %d operands, want %d and %d", len(in.Results), len(in.Operands), results, operands)
	}
	return nil
}

// readLane translates v_readlane_b32 and v_readfirstlane_b32, which reads lane 0 where no lane
// is on.
func (t *translator) readLane(in *isa.Instruction) (Step, error) {
	isFirst := in.Name == "v_readfirstlane_b32"
	operands := 2
	if isFirst {
		operands = 1
	}
	if err := want(in, 1, operands); err != nil {
		return nil, err
	}
	source, before, err := t.vectorSource(in.Operands[0], 1, 0)
	if err != nil {
		return nil, err
	}
	d, isExec, err := t.result(in.Results[0])
	if err != nil {
		return nil, err
	}
	var after Step
	if isExec {
		after = (*Wave).loadExec
	}
	s := source[0]
	if isFirst {
		return join(before, func(w *Wave) {
			lane := 0
			if w.Exec != 0 {
				lane = bits.TrailingZeros64(w.Exec)
			}
			w.S[d] = s.fetch(w)[lane&63]
		}, after), nil
	}
	at, beforeLane, err := t.source(in.Operands[1], 1)
	return join(before, beforeLane, func(w *Wave) {
		w.S[d] = s.fetch(w)[int(w.S[at])&(w.Lanes-1)]
	}, after), err
}

func (t *translator) writeLane(in *isa.Instruction) (Step, error) {
	if err := want(in, 1, 2); err != nil {
		return nil, err
	}
	var at [2]int
	var before [2]Step
	var err error
	for i := range at {
		if at[i], before[i], err = t.source(in.Operands[i], i); err != nil {
			return nil, err
		}
	}
	d, err := t.vectorRegister(in.Results[0], 1)
	return join(before[0], before[1], func(w *Wave) {
		w.V[d][int(w.S[at[1]])&(w.Lanes-1)] = w.S[at[0]]
	}), err
}

// countBelow translates v_mbcnt: the number of bits of the first operand that belong to lanes
// below the lane, plus the second operand.
func (t *translator) countBelow(in *isa.Instruction) (Step, error) {
	if err := want(in, 1, 2); err != nil {
		return nil, err
	}
	mask, beforeMask, err := t.vectorSource(in.Operands[0], 1, 0)
	if err != nil {
		return nil, err
	}
	addend, beforeAddend, err := t.vectorSource(in.Operands[1], 1, 1)
	if err != nil {
		return nil, err
	}
	d, err := t.vectorRegister(in.Results[0], 1)
	if err != nil {
		return nil, err
	}
	shift := 0
	if in.Name == "v_mbcnt_hi_u32_b32" {
		shift = 32
	}
	return join(beforeMask, beforeAddend, func(w *Wave) {
		m, a := mask[0].fetch(w), addend[0].fetch(w)
		for on := w.Exec; on != 0; on &= on - 1 {
			lane := bits.TrailingZeros64(on) & 63
			below := uint32((uint64(1)<<lane - 1) >> shift)
			w.V[d][lane] = uint32(bits.OnesCount32(m[lane]&below)) + a[lane]
		}
	}), nil
}

// permuteRow translates v_permlane16_b32 and v_permlanex16_b32: each lane reads a lane of its
// row of 16, or of the other row of its half, that four bits of the selectors name.
func (t *translator) permuteRow(in *isa.Instruction) (Step, error) {
	if err := want(in, 1, 3); err != nil {
		return nil, err
	}
	source, before, err := t.vectorSource(in.Operands[0], 1, 0)
	if err != nil {
		return nil, err
	}
	var at [2]int
	var beforeSelector [2]Step
	for i := range at {
		if at[i], beforeSelector[i], err = t.source(in.Operands[1+i], 1+i); err != nil {
			return nil, err
		}
	}
	d, err := t.vectorRegister(in.Results[0], 1)
	if err != nil {
		return nil, err
	}
	other := 0
	if in.Name == "v_permlanex16_b32" {
		other = 16
	}
	fetchInvalid, readsZero := in.OpSel&1 != 0, in.OpSel&2 != 0
	return join(before, beforeSelector[0], beforeSelector[1], func(w *Wave) {
		from := *source[0].fetch(w)
		selectors := uint64(w.S[at[0]]) | uint64(w.S[at[1]])<<32
		for on := w.Exec; on != 0; on &= on - 1 {
			lane := bits.TrailingZeros64(on) & 63
			j := lane&^15 ^ other | int(selectors>>(4*(lane&15))&15)
			switch {
			case fetchInvalid || w.Exec>>j&1 != 0:
				w.V[d][lane] = from[j&63]
			case readsZero:
				w.V[d][lane] = 0
			}
		}
	}), nil
}

// swapHalves translates v_permlane64_b32, which has no effect but a move in waves of 32.
func (t *translator) swapHalves(in *isa.Instruction) (Step, error) {
	if err := want(in, 1, 1); err != nil {
		return nil, err
	}
	source, before, err := t.vectorSource(in.Operands[0], 1, 0)
	if err != nil {
		return nil, err
	}
	d, err := t.vectorRegister(in.Results[0], 1)
	return join(before, func(w *Wave) {
		from := *source[0].fetch(w)
		for on := w.Exec; on != 0; on &= on - 1 {
			lane := bits.TrailingZeros64(on) & 63
			w.V[d][lane] = from[(lane^32)&(w.Lanes-1)]
		}
	}), err
}

// swap translates v_swap_b32 and v_swap_b16, whose operand is also a result.
func (t *translator) swap(in *isa.Instruction) (Step, error) {
	all := append(append([]isa.Operand{}, in.Results...), in.Operands...)
	if len(all) < 2 {
		return nil, fmt.Errorf("%d registers, want 2", len(all))
	}
	var at [2]int
	var shift [2]uint32
	mask := ^uint32(0)
	if in.Name == "v_swap_b16" {
		mask = 0xffff
	}
	for i := range at {
		var err error
		if at[i], err = t.vectorRegister(all[i], 1); err != nil {
			return nil, err
		}
		if all[i].Half == isa.High {
			shift[i] = 16
		}
	}
	return func(w *Wave) {
		a, b := &w.V[at[0]], &w.V[at[1]]
		for on := w.Exec; on != 0; on &= on - 1 {
			i := bits.TrailingZeros64(on) & 63
			x, y := a[i]>>shift[0]&mask, b[i]>>shift[1]&mask
			a[i] = a[i]&^(mask<<shift[0]) | y<<shift[0]
			b[i] = b[i]&^(mask<<shift[1]) | x<<shift[1]
		}
	}, nil
}

// move translates moves between VGPRs and AGPRs.
func (t *translator) move(in *isa.Instruction) (Step, error) {
	if err := want(in, 1, 1); err != nil {
		return nil, err
	}
	source, before, err := t.vectorSource(in.Operands[0], 1, 0)
	if err != nil {
		return nil, err
	}
	d, err := t.vectorRegister(in.Results[0], 1)
	s := source[0]
	return join(before, func(w *Wave) {
		if from := s.fetch(w); w.Exec == w.All {
			w.V[d] = *from
		} else {
			merge(&w.V[d], from, w.Exec)
		}
	}), err
}

// relative translates moves whose registers are relative to m0: the source (s), the
// destination (d) or both, by the same offset or by two (_2).
func (t *translator) relative(in *isa.Instruction) (Step, error) {
	if len(in.Results) < 1 || len(in.Operands) < 1 {
		return nil, fmt.Errorf("%d results and %d operands, want 1 and 1", len(in.Results), len(in.Operands))
	}
	source, before, err := t.vectorSource(in.Operands[0], 1, 0)
	if err != nil {
		return nil, err
	}
	d, err := t.vectorRegister(in.Results[0], 1)
	if err != nil {
		return nil, err
	}
	s := source[0]
	isSource := in.Name != "v_movreld_b32"
	isResult := in.Name != "v_movrels_b32"
	isApart := in.Name == "v_movrelsd_2_b32" || in.Name == "v_swaprel_b32"
	if isSource && s.kind != inVector {
		return nil, fmt.Errorf("the source is no vector register")
	}
	return join(before, func(w *Wave) {
		m0 := w.S[m0At]
		from, to := int(m0), int(m0)
		if isApart {
			from, to = int(m0&0x3ff), int(m0>>16&0x3ff)
		}
		read, write := s, d
		if isSource {
			read.index += from
		}
		if isResult {
			write += to
		}
		if last := min(len(w.V), AccumulatorBase) - 1; isSource && read.index > last || write > last {
			w.fail(-1, fmt.Errorf("m0 is %#x, beyond the last vector register, v%d", m0, last))
			return
		}
		r := read.fetch(w)
		if in.Name == "v_swaprel_b32" {
			old := w.V[write]
			merge(&w.V[write], r, w.Exec)
			merge(&w.V[read.index], &old, w.Exec)
			return
		}
		merge(&w.V[write], r, w.Exec)
	}), nil
}
