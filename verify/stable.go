package verify

import (
	"context"
	"slices"

	bounds "tokitai/bound"
	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
	"tokitai/truth"
)

// stable encloses the results of honest kernels in any form: the definition's own, a usual one, or
// the one that the author declares. Every form's set is an interval around the truth, so their
// union is an interval too.
type stable struct {
	v       *view
	forms   truth.StableForms
	allowed truth.StableForms // the same with the profile's allowances; nil if it has none
	heights map[int]int       // of sums, by output

	outliers map[int]map[int]outlier // by output, and place in row order
}

// stableOf encloses the outputs of a tile under promise stable.
func (v *view) stableOf(ctx context.Context) (*stable, error) {
	t := v.target
	s := &stable{v: v, heights: map[int]int{}, outliers: map[int]map[int]outlier{}}
	options := t.Lowering.StableOptions(ctx, v.l.params, v.l.lossy())
	var err error
	if s.forms, err = truth.EncloseStableForms(t.forms(), v.inputs, options); err != nil {
		return nil, err
	}
	if allow := v.allowance(); allow != nil {
		s.allowed = s.forms.Allowing(allow)
	}
	v.ranges = v.rangesOf()
	for i := range t.Definition.Operands {
		if !t.isJudged(i) {
			continue
		}
		if s.heights[i] = s.heightOf(i); s.heights[i] > 0 {
			if s.outliers[i] = s.outliersOf(i); len(s.outliers[i]) > 0 {
				s.heights[i] = s.heightOf(i)
			}
		}
	}
	return s, nil
}

// forms returns the definitions whose mathematics gives the sets of promise stable: that of
// the declared form, or else the definition itself and the usual forms.
func (t *Target) forms() []*def.Definition {
	if t.Operation != nil {
		for _, f := range t.Operation.Formulas {
			if f.Of == t.Definition && f.Definition != nil && f.Name == t.Lowering.Promise.Declares.Formula {
				return []*def.Definition{f.Definition}
			}
		}
	}
	return append([]*def.Definition{t.Definition}, t.Definition.UsualForms()...)
}

// widest returns the forms with the profile's allowances, if it has any.
func (s *stable) widest() truth.StableForms {
	if s.allowed != nil {
		return s.allowed
	}
	return s.forms
}

func (s *stable) known(operand, row, col int) (set, bool) {
	known, ok := s.union(s.widest(), operand, row, col)
	if !ok {
		return set{}, false
	}
	if s.allowed != nil {
		known.plain, _ = s.plain(operand, row, col)
	}
	return known, true
}

// plain returns the set without allowances.
func (s *stable) plain(operand, row, col int) (*set, bool) {
	known, ok := s.union(s.forms, operand, row, col)
	return &known, ok
}

func (s *stable) errorAt(operand, row, col int) float64 {
	largest := 0.0
	for _, f := range s.forms {
		largest = max(largest, f.Error(operand, row, col, s.heights[operand]))
	}
	return largest
}

// union returns the values that some form admits; ok is false if a form may overflow.
func (s *stable) union(forms truth.StableForms, operand, row, col int) (u set, ok bool) {
	if !forms.Known(operand, row, col) {
		return set{}, false
	}
	if s.v.got[operand].DType == num.I32 {
		u.ints = forms.Ints(operand, row, col)
		u.lo, u.hi, u.count = uint64(uint32(u.ints[0])), uint64(uint32(u.ints[len(u.ints)-1])), forms[0].Count(operand, row, col, s.heights[operand])
		u.isOpen = u.count == anyInt32
		return u, true
	}
	lo, hi := forms.Between(operand, row, col, s.heights[operand])
	u.lo, u.hi = uint64(lo), uint64(hi)
	if o, ok := s.outliers[operand][row*s.v.got[operand].Cols+col]; ok {
		u.lo, u.hi, u.why = o.lo, o.hi, o.why
	}
	s.v.cut(&u, operand, row, col)
	return u, true
}

// cut removes the values outside of the ranges of an element, and counts the rest.
func (v *view) cut(s *set, operand, row, col int) {
	d := v.got[operand].DType
	for _, between := range v.ranges[operand] {
		lo, hi := between(row, col)
		s.cut(d, lo, hi)
	}
	s.count = num.Distance(d, s.lo, s.hi) + 1
}

// cut removes the values outside of a range, unless none would be left.
func (s *set) cut(d num.DType, lo, hi float64) {
	least, most := s.lo, s.hi
	if l := num.NarrowF64(d, lo); num.Index(d, l) > num.Index(d, least) {
		least = uint64(l)
	}
	if h := num.NarrowF64(d, hi); num.Index(d, h) < num.Index(d, most) {
		most = uint64(h)
	}
	if num.Index(d, least) <= num.Index(d, most) {
		s.lo, s.hi = least, most
	}
}

// call returns the tile as a call of the definition.
func (v *view) call() *bounds.Call {
	return &bounds.Call{Definition: v.target.Definition, Params: v.l.params, Operands: v.inputs}
}

// rangesOf returns the intervals in which every honest output lies, by operand.
func (v *view) rangesOf() map[int][]func(row, col int) (lo, hi float64) {
	t, all := v.target, map[int][]func(int, int) (float64, float64){}
	if t.Operation == nil || len(t.Lowering.Promise.Declares.Roundings) > 0 { // which ranges do not take into account
		return nil
	}
	for _, r := range t.Operation.Ranges {
		if i := t.Definition.Operand(r.Output); r.Definition == t.Definition && i >= 0 && t.mayAssume(r.Assumes) {
			all[i] = append(all[i], r.Between(v.call()))
		}
	}
	return all
}

// mayAssume reports whether functions are as accurate as ranges assume.
func (t *Target) mayAssume(functions []string) bool {
	return !slices.ContainsFunc(functions, func(f string) bool {
		e := t.Lowering.Promise.Declares.Error(f)
		return e.ULPs > 16 || e.Relative > 0x1p-20 || e.Absolute > 0x1p-20
	})
}

// allowances returns the profile's allowances for the definition.
func (t *Target) allowances() []*op.Allowance {
	var list []*op.Allowance
	if t.Operation == nil || t.Lowering.Promise.Declares.Profile == "" {
		return nil
	}
	for i := range t.Operation.Allowances {
		if a := &t.Operation.Allowances[i]; a.Definition == t.Definition && a.Profile == t.Lowering.Promise.Declares.Profile {
			list = append(list, a)
		}
	}
	return list
}

// allowance returns the error that the profile allows each element of a tile; nil if it has
// none for the definition.
func (v *view) allowance() func(operand, row, col int) float64 {
	at := map[int][]func(row, col int) float64{}
	for _, a := range v.target.allowances() {
		i := v.target.Definition.Operand(a.Output)
		at[i] = append(at[i], a.At(v.call()))
	}
	if len(at) == 0 {
		return nil
	}
	return func(operand, row, col int) float64 {
		sum := 0.0
		for _, allow := range at[operand] {
			sum += allow(row, col)
		}
		return sum
	}
}
