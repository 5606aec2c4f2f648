package wave

import (
	"fmt"
	"strings"

	"tokitai/amdgpu/isa"
	"tokitai/amdgpu/valu"
)

// scalarFloat translates the floating-point instructions of RDNA 3.5's scalar unit. They are
// those of the vector unit on one lane: s_add_f32 is v_add_f32. It returns neither a step nor an
// error for others.
func (t *translator) scalarFloat(in *isa.Instruction) (Step, error) {
	name := "v_" + strings.TrimPrefix(in.Name, "s_")
	isUpper := name == "v_cvt_hi_f32_f16"
	if isUpper {
		name = "v_cvt_f32_f16"
	}
	op, ok := valu.Lookup(t.family, name)
	if !ok || len(op.Sources) != len(in.Operands) || !strings.Contains(name, "_f32") && !strings.Contains(name, "_f16") {
		return nil, nil
	}
	run, err := op.Bind(in)
	if err != nil {
		return nil, err
	}
	var places []int
	var before Step
	for i, o := range in.Operands {
		at, materialise, err := t.source(o, i)
		if err != nil {
			return nil, err
		}
		places = append(places, at)
		before = addStep(before, materialise)
	}
	isComparison := op.Result == valu.Mask
	d, after := 0, Step(nil)
	if !isComparison {
		if d, after, err = t.single(in); err != nil {
			return nil, err
		}
		if op.ReadsResult {
			places = append(places, d)
		}
	}
	if len(places) > len(valu.Call{}.Source) || op.Result.Words() > 1 {
		return nil, fmt.Errorf("%d sources and %d words of the result, want at most 3 and 1", len(places), op.Result.Words())
	}
	return join(before, func(w *Wave) {
		c := &w.call
		for i, at := range places {
			r := &w.temporary[sourceTemporary+i]
			r[0] = w.S[at]
			if isUpper {
				r[0] >>= 16
			}
			c.Source[i][0] = r
		}
		c.Result[0] = &w.temporary[resultTemporary]
		run(c)
		if isComparison {
			w.SCC = c.Out&1 != 0
		} else {
			w.S[d] = c.Result[0][0]
		}
	}, after), nil
}
