package wave

import (
	"encoding/binary"
	"fmt"
	"strings"

	"tokitai/amdgpu/isa"
)

// scalarLoads has the numbers of words that scalar loads read, by the suffixes of both families.
var scalarLoads = map[string]int{
	"b32": 1, "b64": 2, "b128": 4, "b256": 8, "b512": 16,
	"dword": 1, "dwordx2": 2, "dwordx4": 4, "dwordx8": 8, "dwordx16": 16,
}

// scalarMemory translates loads into scalar registers. The lowest two bits of an address are
// ignored, as in hardware.
func (t *translator) scalarMemory(in *isa.Instruction) (Step, error) {
	switch in.Name {
	case "s_dcache_inv", "s_dcache_wb", "s_dcache_inv_vol", "s_dcache_wb_vol", "s_gl1_inv":
		return func(w *Wave) {}, nil
	}
	suffix, ok := strings.CutPrefix(in.Name, "s_load_")
	words, isKnown := scalarLoads[suffix]
	if !ok || !isKnown {
		return nil, errUnknown
	}
	if len(in.Results) != 1 || len(in.Operands) < 1 {
		return nil, fmt.Errorf("%d results and %d operands, want 1 and at least 1", len(in.Results), len(in.Operands))
	}
	base, err := t.place(in.Operands[0])
	if err != nil {
		return nil, err
	}
	var offsets []int
	for _, o := range in.Operands[1:] {
		if o.Kind == isa.Off || o.Kind == isa.Null || o.Kind == isa.None {
			continue
		}
		at, err := t.place(o)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, at)
	}
	result := in.Results[0]
	result.Words = words
	d, isExec, err := t.result(result)
	if err != nil {
		return nil, err
	}
	if isExec {
		return nil, fmt.Errorf("a load cannot have exec as its result")
	}
	immediate := uint64(in.Immediate)
	site := t.site()
	return func(w *Wave) {
		address := w.pair(base) + immediate
		for _, at := range offsets {
			address += uint64(w.S[at])
		}
		p, err := w.global(site, address&^3, 4*words, false)
		if err != nil {
			w.fail(-1, err)
			return
		}
		s := w.S[d : d+words]
		for i := range s {
			s[i] = binary.LittleEndian.Uint32(p[4*i:])
		}
	}, nil
}
