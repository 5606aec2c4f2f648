package wave

import (
	"fmt"

	"tokitai/amdgpu/isa"
)

// pair translates VOPD: both halves read their operands before either stores its result.
func (t *translator) pair(in *isa.Instruction) (Step, error) {
	if in.Second == nil {
		return nil, fmt.Errorf("has no second instruction")
	}
	first, err := t.arithmetic(in)
	if err != nil {
		return nil, err
	}
	second, err := t.arithmetic(in.Second)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Second.Name, err)
	}
	if first.words == 0 || second.words == 0 || first.writesMask || second.writesMask || first.result == second.result {
		return nil, fmt.Errorf("the halves of a pair must have one result each, in different registers")
	}
	// One after the other is right where the second does not read what the first stores.
	before := addStep(first.before, second.before)
	switch {
	case !second.reads(first.result):
		return join(before, first.step(), second.step()), nil
	case !first.reads(second.result):
		return join(before, second.step(), first.step()), nil
	}
	d := first.result
	return join(before, func(w *Wave) {
		// Both halves read before either writes, so the first one's result is kept aside.
		old := w.V[d]
		exec := first.compute(w)
		first.store(w, exec)
		w.temporary[pairTemporary] = w.V[d]
		w.V[d] = old
		exec = second.compute(w)
		second.store(w, exec)
		w.V[d] = w.temporary[pairTemporary]
	}), nil
}

const pairTemporary = 10

// reads reports whether the instruction reads a register.
func (a *arithmetic) reads(register int) bool {
	for _, s := range a.sources {
		for k := range s.count {
			if s.words[k].kind == inVector && s.words[k].index == register {
				return true
			}
		}
	}
	return false
}
