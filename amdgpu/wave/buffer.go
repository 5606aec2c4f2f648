package wave

import (
	"fmt"
	"math/bits"
	"strings"

	"tokitai/amdgpu/isa"
)

// buffer translates MUBUF: the instructions on caches, which have no effect here, and the
// accesses to private memory by which gfx90a reaches it.
//
// Private memory is described by a resource in four scalar registers whose addresses are
// interleaved by lane, so a lane's address is that within its own part: the vector offset and
// the constant one, and the scalar offset, which counts the bytes of all lanes.
func (t *translator) buffer(in *isa.Instruction) (Step, error) {
	switch in.Name {
	case "buffer_gl0_inv", "buffer_gl1_inv", "buffer_wbl2", "buffer_invl2", "buffer_inv", "buffer_wbinvl1", "buffer_wbinvl1_vol":
		return func(w *Wave) {}, nil
	}
	a, isStore, ok := parseAccess(strings.TrimPrefix(in.Name, "buffer_"))
	if !ok || t.family != isa.GFX9 {
		return nil, errUnknown
	}
	operands := in.Operands
	registers := in.Results
	if isStore && len(operands) > 0 {
		registers, operands = operands[:1], operands[1:]
	}
	if len(registers) != 1 || len(operands) != 3 {
		return nil, fmt.Errorf("%d registers of data and %d other operands, want 1 and 3", len(registers), len(operands))
	}
	data, err := t.vectorRegister(registers[0], a.words())
	if err != nil {
		return nil, err
	}
	vector := -1
	if operands[0].Kind != isa.Off {
		if vector, err = t.vectorRegister(operands[0], 1); err != nil {
			return nil, err
		}
	}
	resource, err := t.place(operands[1])
	if err != nil {
		return nil, err
	}
	scalar, before, err := t.source(operands[2], 0)
	if err != nil {
		return nil, err
	}
	offset := uint64(in.Immediate)
	return join(before, func(w *Wave) {
		const swizzles, addsLane = 1 << 31, 1 << 23
		if w.S[resource+1]&swizzles == 0 || w.S[resource+3]&addsLane == 0 {
			w.fail(-1, fmt.Errorf("the resource is not that of private memory, the only one that is known"))
			return
		}
		base := offset + uint64(w.S[scalar])/uint64(w.Lanes)
		for on := w.Exec; on != 0; on &= on - 1 {
			lane := bits.TrailingZeros64(on) & 63
			address := base
			if vector >= 0 {
				address += uint64(w.V[vector][lane])
			}
			p, err := w.private(lane, address, a.bytes, isStore)
			if err != nil {
				w.fail(lane, err)
				return
			}
			if isStore {
				w.store(a, data, lane, p)
			} else {
				w.load(a, data, lane, p)
			}
		}
	}), nil
}
