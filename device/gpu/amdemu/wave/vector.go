package wave

import (
	"fmt"
	"math/bits"

	"tokitai/device/gpu/amdemu/isa"
	"tokitai/device/gpu/amdemu/wave/valu"
)

// broadcast is a scalar register in all lanes, kept until the register changes.
type broadcast struct {
	value   uint32
	isValid bool
	lanes   Register
}

// spread returns the scalar register at a place of S in all lanes.
func (w *Wave) spread(number, at int) *Register {
	b := &w.broadcasts[number]
	if v := w.S[at]; !b.isValid || b.value != v {
		b.value, b.isValid = v, true
		fill(&b.lanes, v)
	}
	return &b.lanes
}

func fill(r *Register, v uint32) {
	for i := range r {
		r[i] = v
	}
}

// operandKind says where a vector instruction finds a word of an operand.
type operandKind uint8

const (
	inVector operandKind = iota
	inScalar
	isConstant
)

// word is one register of an operand of a vector instruction.
type word struct {
	kind     operandKind
	index    int // of the vector register, or of the scalar register in S
	spread   int // number of the broadcast
	constant *Register
}

// fetch returns the word in all lanes. What it returns is only read.
func (o *word) fetch(w *Wave) *Register {
	switch o.kind {
	case inVector:
		return &w.V[o.index]
	case inScalar:
		return w.spread(o.spread, o.index)
	}
	return o.constant
}

// vectorSource resolves an operand of a vector instruction into its words.
func (t *translator) vectorSource(o isa.Operand, words, i int) (found [2]word, before Step, err error) {
	switch o.Kind {
	case isa.VGPR, isa.AGPR:
		at, err := t.vectorRegister(o, words)
		for k := range words {
			found[k] = word{kind: inVector, index: at + k}
		}
		return found, nil, err
	case isa.Constant, isa.Null, isa.SharedBase, isa.SharedLimit, isa.PrivateBase, isa.PrivateLimit:
		value := o.Value
		switch o.Kind {
		case isa.Null:
			value = 0
		case isa.SharedBase:
			value = sharedAperture << 32
		case isa.SharedLimit:
			value = sharedAperture<<32 | 0xffffffff
		case isa.PrivateBase:
			value = privateAperture << 32
		case isa.PrivateLimit:
			value = privateAperture<<32 | 0xffffffff
		}
		for k := range words {
			r := new(Register)
			fill(r, uint32(value>>(32*k)))
			found[k] = word{kind: isConstant, constant: r}
		}
		return found, nil, nil
	}
	at, before, err := t.source(o, i)
	for k := range words {
		number, ok := t.broadcasts[at+k]
		if !ok {
			number = len(t.broadcasts)
			t.broadcasts[at+k] = number
		}
		found[k] = word{kind: inScalar, index: at + k, spread: number}
	}
	return found, before, err
}

// vectorRegister returns the number in V of the first of several registers.
func (t *translator) vectorRegister(o isa.Operand, words int) (int, error) {
	if o.Kind != isa.VGPR && o.Kind != isa.AGPR || o.Index < 0 || o.Index+words > AccumulatorBase {
		return 0, fmt.Errorf("an operand of kind %d with index %d and %d words is no vector register", o.Kind, o.Index, words)
	}
	if o.Kind == isa.AGPR {
		t.code.accumulators = max(t.code.accumulators, o.Index+words)
		return AccumulatorBase + o.Index, nil
	}
	t.code.registers = max(t.code.registers, o.Index+words)
	return o.Index, nil
}

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

	writesMask bool
	out        maskPlace
	writesExec bool // a comparison whose mask becomes exec
	outIsExec  bool // the place of the mask is exec's
	lanes      *laneSelection
}

// vectorOperand is an operand with the changes that are made to it in each lane.
type vectorOperand struct {
	words  [2]word
	count  int
	change func(in, out *Register) // nil for none: of the upper word, or the only one
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
	run, err := op.Bind(in)
	if err != nil {
		return nil, err
	}
	a := &arithmetic{run: run, words: op.Result.Words()}
	if len(in.Operands) != len(op.Sources) {
		return nil, fmt.Errorf("%d operands, want %d", len(in.Operands), len(op.Sources))
	}
	for i, typ := range op.Sources {
		o := in.Operands[i]
		if typ == valu.Mask {
			at, before, err := t.source(o, i)
			if err != nil {
				return nil, err
			}
			a.readsMask, a.in = true, maskPlace{at, t.family == isa.GFX9 && o.Words == 2}
			a.before = addStep(a.before, before)
			continue
		}
		source, before, err := t.vectorOperand(in, o, typ, i)
		if err != nil {
			return nil, err
		}
		a.sources = append(a.sources, source)
		a.before = addStep(a.before, before)
	}
	if op.ReadsVCC {
		a.readsMask, a.in = true, maskPlace{vccAt, t.family == isa.GFX9}
	}
	results := in.Results
	if op.Result != valu.Mask && op.Result != valu.NoType {
		if len(results) == 0 {
			return nil, fmt.Errorf("has no result")
		}
		if a.result, err = t.vectorRegister(results[0], a.words); err != nil {
			return nil, err
		}
		if op.ReadsResult {
			source, _, err := t.vectorOperand(in, results[0], op.Result, len(op.Sources))
			if err != nil {
				return nil, err
			}
			a.sources = append(a.sources, source)
		}
		a.placement = resultPlacement(in, op, results[0])
		results = results[1:]
	}
	if op.Result == valu.Mask || op.Carry {
		a.writesMask = true
		a.writesExec = op.WritesExec
		switch {
		case len(results) == 1:
			at, isExec, err := t.result(results[0])
			if err != nil {
				return nil, err
			}
			a.out, a.outIsExec = maskPlace{at, t.family == isa.GFX9}, isExec
		case op.WritesExec:
			a.out = maskPlace{discardAt, true}
		default:
			return nil, fmt.Errorf("has no result for its mask")
		}
	}
	if len(a.sources) > len(valu.Call{}.Source) {
		return nil, fmt.Errorf("%d sources, want at most 3", len(a.sources))
	}
	if in.DPP != nil {
		a.lanes = newLaneSelection(in.DPP, t.family.Lanes())
	}
	if in.SDWA != nil && a.words > 0 {
		a.placement = storesSelection
		a.run = selectResult(a.run, in.SDWA)
	}
	return a, nil
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
	if !op.Result.Is16() {
		if op.Placement == valu.UpperHalf {
			return storesUpper
		}
		return storesAll
	}
	isUpper := o.Half == isa.High || o.Half == isa.Whole && in.Encoding == isa.VOP3 && in.OpSel>>3&1 != 0
	switch {
	case op.Placement == valu.UpperHalf || isUpper:
		return storesUpper
	case op.Placement == valu.OneHalf:
		return storesLower
	}
	return storesAll
}

// step returns the step that executes the instruction. Instructions without selections have
// shorter ones.
func (a *arithmetic) step() Step {
	isPlain := a.lanes == nil && a.placement == storesAll
	for _, s := range a.sources {
		isPlain = isPlain && s.change == nil
	}
	if isPlain {
		if step := a.plainStep(); step != nil {
			return step
		}
	}
	return func(w *Wave) {
		exec := a.compute(w)
		a.store(w, exec)
	}
}

// plainStep returns a step for one result of one or two words, or a mask, from sources that
// are not changed.
func (a *arithmetic) plainStep() Step {
	if a.readsMask || a.writesMask || a.words != 1 {
		return nil
	}
	for _, s := range a.sources {
		if s.count != 1 {
			return nil
		}
	}
	run, d := a.run, a.result
	finish := func(w *Wave) {
		c := &w.call
		if w.Exec == w.All {
			c.Result[0] = &w.V[d]
			run(c)
			return
		}
		c.Result[0] = &w.temporary[0]
		run(c)
		merge(&w.V[d], &w.temporary[0], w.Exec)
	}
	var s [3]word
	for i := range a.sources {
		s[i] = a.sources[i].words[0]
	}
	s0, s1, s2 := s[0], s[1], s[2]
	switch len(a.sources) {
	case 1:
		return func(w *Wave) {
			w.call.Source[0][0] = s0.fetch(w)
			finish(w)
		}
	case 2:
		return func(w *Wave) {
			w.call.Source[0][0] = s0.fetch(w)
			w.call.Source[1][0] = s1.fetch(w)
			finish(w)
		}
	case 3:
		return func(w *Wave) {
			w.call.Source[0][0] = s0.fetch(w)
			w.call.Source[1][0] = s1.fetch(w)
			w.call.Source[2][0] = s2.fetch(w)
			finish(w)
		}
	}
	return nil
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
				s.change(r, to)
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
			if a.placement == storesSelection {
				*c.Result[k] = w.V[a.result+k]
			}
		}
	}
	a.run(c)
	return exec
}

// store stores what compute left in temporary registers, and the mask.
func (a *arithmetic) store(w *Wave, exec uint64) {
	if a.words > 0 && (exec != w.All || a.placement != storesAll) {
		switch d := &w.V[a.result]; a.placement {
		case storesLower:
			mergeLower(d, &w.temporary[resultTemporary], exec)
		case storesUpper:
			mergeUpper(d, &w.temporary[resultTemporary], exec)
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

// merge stores the lanes of the mask.
func merge(d, s *Register, mask uint64) {
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		d[i&63] = s[i&63]
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
