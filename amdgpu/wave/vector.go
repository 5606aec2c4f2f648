package wave

import (
	"fmt"
	"math/bits"

	"tokitai/amdgpu/isa"
	"tokitai/amdgpu/valu"
)

// maskPlace is where a lane mask is in S.
type maskPlace struct {
	at     int
	isLong bool
}

func (m maskPlace) get(w *Wave) uint64 { return w.read(m.at, m.isLong) }

func (m maskPlace) set(w *Wave, mask uint64) {
	if m.isLong {
		w.setPair(m.at, mask)
	} else {
		w.S[m.at] = uint32(mask)
	}
}

// arithmetic is a translated instruction whose arithmetic is package valu's.
type arithmetic struct {
	run     valu.Func
	before  Step
	sources []vectorOperand

	readsMask bool
	in        maskPlace

	words     int // of the result; 0 for a comparison
	result    int // the first register of the result in V
	placement placement
	selection *isa.SDWA // of the result

	writesMask bool
	out        maskPlace
	writesExec bool // a comparison whose mask becomes exec
	outIsExec  bool // the place of the mask is exec's
	lanes      *laneSelection
}

// placement says which bits of a result's register are stored.
type placement uint8

const (
	storesAll placement = iota
	storesLower
	storesUpper // the result is in the lower half
	storesSelection
)

// vector translates an instruction of the vector unit.
func (t *translator) vector(in *isa.Instruction) (Step, error) {
	if step, err := t.crossLane(in); step != nil || err != nil {
		return step, err
	}
	a, err := t.arithmetic(in)
	if err != nil {
		return nil, err
	}
	return join(a.before, a.step()), nil
}

// arithmetic resolves the operands of an instruction.
func (t *translator) arithmetic(in *isa.Instruction) (*arithmetic, error) {
	op, ok := valu.Lookup(t.family, in.Name)
	if !ok {
		return nil, errUnknown
	}
	run, err := op.Bind(withPackedSigns(in))
	if err != nil {
		return nil, err
	}
	a := &arithmetic{run: run, words: op.Result.Words()}
	if len(in.Operands) != len(op.Sources) {
		return nil, fmt.Errorf("%d operands, want %d", len(in.Operands), len(op.Sources))
	}
	for i, typ := range op.Sources {
		if err := t.addSource(a, in, in.Operands[i], typ, i); err != nil {
			return nil, err
		}
	}
	if op.ReadsVCC {
		a.readsMask, a.in = true, maskPlace{vccAt, t.family == isa.GFX9}
	}
	if err := t.addResults(a, in, op); err != nil {
		return nil, err
	}
	if len(a.sources) > len(valu.Call{}.Source) {
		return nil, fmt.Errorf("%d sources, want at most 3", len(a.sources))
	}
	if in.DPP != nil {
		a.lanes = newLaneSelection(in.DPP, t.family.Lanes())
	}
	if in.SDWA != nil && a.words > 0 && in.SDWA.Result < 6 {
		a.placement, a.selection = storesSelection, in.SDWA
	}
	return a, nil
}

// withPackedSigns returns an instruction of VOP3P with neg and abs of its operands as neg_lo
// and neg_hi, which are their places in the encoding: v_fma_mix_f32 and its relatives have them.
func withPackedSigns(in *isa.Instruction) *isa.Instruction {
	if in.Encoding != isa.VOP3P {
		return in
	}
	packed := *in
	for i, o := range in.Operands {
		packed.NegLo |= uint8(flag(o.Neg) << i)
		packed.NegHi |= uint8(flag(o.Abs) << i)
	}
	return &packed
}

// addSource resolves operand i.
func (t *translator) addSource(a *arithmetic, in *isa.Instruction, o isa.Operand, typ valu.Type, i int) error {
	if typ == valu.Mask {
		at, before, err := t.source(o, i)
		a.readsMask, a.in = true, maskPlace{at, t.family == isa.GFX9}
		a.before = addStep(a.before, before)
		return err
	}
	source, before, err := t.vectorOperand(in, o, typ, i)
	a.sources = append(a.sources, source)
	a.before = addStep(a.before, before)
	return err
}

// addResults resolves the results: a value, a mask or both.
func (t *translator) addResults(a *arithmetic, in *isa.Instruction, op *valu.Op) (err error) {
	results := in.Results
	if a.words > 0 {
		if len(results) == 0 {
			return fmt.Errorf("has no result")
		}
		if a.result, err = t.vectorRegister(results[0], a.words); err != nil {
			return err
		}
		a.placement = resultPlacement(in, op, results[0])
		if op.ReadsResult {
			if err := t.addSource(a, in, results[0], op.Result, 3); err != nil {
				return err
			}
		}
		results = results[1:]
	}
	if op.Result != valu.Mask && !op.Carry {
		return nil
	}
	a.writesMask, a.writesExec = true, op.WritesExec
	if len(results) == 0 && op.WritesExec {
		a.out = maskPlace{discardAt, true}
		return nil
	}
	if len(results) != 1 {
		return fmt.Errorf("%d results for a mask, want 1", len(results))
	}
	at, isExec, err := t.result(results[0])
	a.out, a.outIsExec = maskPlace{at, t.family == isa.GFX9}, isExec
	return err
}

func addStep(a, b Step) Step {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return join(a, b)
}

// resultPlacement says where a result of 16 bits is stored.
func resultPlacement(in *isa.Instruction, op *valu.Op, o isa.Operand) placement {
	switch {
	case op.Placement == valu.UpperHalf || op.Result.Is16() && isUpperHalf(in, o, 3):
		return storesUpper
	case op.Result.Is16() && op.Placement == valu.OneHalf:
		return storesLower
	}
	return storesAll
}

// step returns the step that executes the instruction. Most instructions have one result of
// one word and sources that are not changed: for them there are shorter ones.
func (a *arithmetic) step() Step {
	isPlain := a.lanes == nil && a.placement == storesAll && !a.readsMask && !a.writesMask && a.words == 1
	var s [3]word
	for i, source := range a.sources {
		isPlain = isPlain && source.change == nil && source.count == 1
		s[i] = source.words[0]
	}
	run, d, s0, s1, s2 := a.run, a.result, s[0], s[1], s[2]
	switch {
	case isPlain && len(a.sources) == 1:
		return func(w *Wave) {
			c := &w.call
			c.Source[0][0] = s0.fetch(w)
			if w.Exec == w.All {
				c.Result[0] = &w.V[d]
				run(c)
				return
			}
			runMasked(w, run, d)
		}
	case isPlain && len(a.sources) == 2:
		return func(w *Wave) {
			c := &w.call
			c.Source[0][0] = s0.fetch(w)
			c.Source[1][0] = s1.fetch(w)
			if w.Exec == w.All {
				c.Result[0] = &w.V[d]
				run(c)
				return
			}
			runMasked(w, run, d)
		}
	case isPlain && len(a.sources) == 3:
		return func(w *Wave) {
			c := &w.call
			c.Source[0][0] = s0.fetch(w)
			c.Source[1][0] = s1.fetch(w)
			c.Source[2][0] = s2.fetch(w)
			if w.Exec == w.All {
				c.Result[0] = &w.V[d]
				run(c)
				return
			}
			runMasked(w, run, d)
		}
	}
	return func(w *Wave) { a.store(w, a.compute(w)) }
}

// runMasked computes into a temporary register and stores the lanes that are on.
func runMasked(w *Wave, run valu.Func, d int) {
	w.call.Result[0] = &w.temporary[resultTemporary]
	run(&w.call)
	merge(&w.V[d], &w.temporary[resultTemporary], w.Exec)
}

// Temporary registers of a wave: two for the result, two for each source.
const (
	resultTemporary = 0
	sourceTemporary = 2
)

// compute fetches the operands and computes the result of all lanes: into the result's
// registers where every lane stores all of it, otherwise into temporary ones. It returns the
// mask of the lanes that store.
func (a *arithmetic) compute(w *Wave) uint64 {
	c := &w.call
	exec := w.Exec
	for i := range a.sources {
		s := &a.sources[i]
		for k := range s.count {
			r := s.words[k].fetch(w)
			if i == 0 && a.lanes != nil {
				to := &w.temporary[sourceTemporary+k]
				exec = a.lanes.fetch(to, r, w.Exec)
				r = to
			}
			if s.change != nil && k == s.count-1 {
				to := &w.temporary[sourceTemporary+2*i+k]
				s.change.apply(r, to, w.Lanes)
				r = to
			}
			c.Source[i][k] = r
		}
	}
	if a.readsMask {
		c.In = a.in.get(w)
	}
	for k := range a.words {
		if exec == w.All && a.placement == storesAll {
			c.Result[k] = &w.V[a.result+k]
		} else {
			c.Result[k] = &w.temporary[resultTemporary+k]
		}
	}
	a.run(c)
	return exec
}

// store stores what compute left in temporary registers, and the mask.
func (a *arithmetic) store(w *Wave, exec uint64) {
	if a.words > 0 && (exec != w.All || a.placement != storesAll) {
		d, r := &w.V[a.result], &w.temporary[resultTemporary]
		switch a.placement {
		case storesLower:
			mergeLower(d, r, exec)
		case storesUpper:
			mergeUpper(d, r, exec)
		case storesSelection:
			mergeSelection(d, r, exec, a.selection)
		default:
			for k := range a.words {
				merge(&w.V[a.result+k], &w.temporary[resultTemporary+k], exec)
			}
		}
	}
	if a.writesMask {
		mask := w.call.Out & exec
		a.out.set(w, mask)
		if a.writesExec {
			w.SetExec(mask)
		} else if a.outIsExec {
			w.loadExec()
		}
	}
}

// merge stores the lanes of the mask, run of lanes after run.
func merge(d, s *Register, mask uint64) {
	for mask != 0 {
		first := bits.TrailingZeros64(mask) & 63
		if mask>>first&2 == 0 {
			d[first] = s[first]
			mask &= mask - 1
			continue
		}
		n := bits.TrailingZeros64(^(mask >> first))
		copy(d[first:first+n], s[first:])
		if first+n == 64 {
			return
		}
		mask = mask >> (first + n) << (first + n)
	}
}

// mergeLower stores the lower halves of the lanes of the mask.
func mergeLower(d, s *Register, mask uint64) {
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m) & 63
		d[i] = d[i]&0xffff0000 | s[i]&0xffff
	}
}

// mergeUpper stores lower halves as upper ones in the lanes of the mask.
func mergeUpper(d, s *Register, mask uint64) {
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m) & 63
		d[i] = d[i]&0xffff | s[i]<<16
	}
}

// What SDWA does with the bits of the result's register that are not selected; it keeps them
// otherwise.
const (
	unusedZero = 0
	unusedSign = 1 // bits above the selection are copies of its sign, those below are 0
)

// mergeSelection stores the lowest bits of the lanes of the mask where SDWA selects.
func mergeSelection(d, s *Register, mask uint64, selection *isa.SDWA) {
	shift, width := selectedBits(selection.Result)
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m) & 63
		x := uint64(s[i]) & lowBits(width)
		switch selection.Unused {
		case unusedZero:
			d[i] = uint32(x << shift)
		case unusedSign:
			d[i] = uint32(signExtend(x, width) << shift)
		default:
			d[i] = d[i]&^uint32(lowBits(width)<<shift) | uint32(x<<shift)
		}
	}
}
