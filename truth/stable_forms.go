package truth

import (
	"tokitai/def"
	"tokitai/num"
)

// StableForms holds the results that the promise stable admits for a definition in several
// forms: those that one of them admits. Each form's set is an interval around the same exact
// result, so that together they are one too.
type StableForms []*Stable

// EncloseStableForms returns the results that the promise stable admits for any of the forms.
func EncloseStableForms(forms []*def.Definition, operands []num.Array, o StableOptions) (StableForms, error) {
	var z StableForms
	for _, d := range forms {
		s, err := EncloseStable(d, operands, o)
		if err != nil {
			return nil, err
		}
		z = append(z, s)
	}
	return z, nil
}

// Allowing returns the same results with an absolute error that is allowed besides
// (StableOptions.Allow).
func (z StableForms) Allowing(allow func(operand, row, col int) float64) StableForms {
	wider := make(StableForms, len(z))
	for i, s := range z {
		more := *s
		more.o.Allow = allow
		wider[i] = &more
	}
	return wider
}

// Exact returns the exact enclosure of a definition if it is one of the forms and that was computed
// on the way (Stable.Exact), else nil.
func (z StableForms) Exact(d *def.Definition) *Result {
	for _, s := range z {
		if s.call.d == d {
			return s.Exact()
		}
	}
	return nil
}

// Known reports whether an element has a set. It has none where a form may overflow.
func (z StableForms) Known(operand, row, col int) bool {
	for _, s := range z {
		if !s.Known(operand, row, col) {
			return false
		}
	}
	return true
}

// MostHeight returns the largest height of any sum, from which on sets do not grow.
func (z StableForms) MostHeight() int {
	h := 0
	for _, s := range z {
		h = max(h, s.MostHeight())
	}
	return h
}

// Between returns the first and the last stored value that an element may have, with sums of at
// most the given height.
func (z StableForms) Between(operand, row, col, height int) (lo, hi uint32) {
	d := z[0].call.operands[operand].DType
	lo, hi = z[0].Between(operand, row, col, height)
	if z[0].isInt(operand) {
		return lo, hi
	}
	for _, s := range z[1:] {
		l, h := s.Between(operand, row, col, height)
		if num.Index(d, l) < num.Index(d, lo) {
			lo = l
		}
		if num.Index(d, h) > num.Index(d, hi) {
			hi = h
		}
	}
	return lo, hi
}

// Count returns the number of values of an element that is known; zeros count once.
func (z StableForms) Count(operand, row, col, height int) int64 {
	if z[0].isInt(operand) {
		return z[0].Count(operand, row, col, height)
	}
	lo, hi := z.Between(operand, row, col, height)
	return num.Distance(z[0].call.operands[operand].DType, lo, hi) + 1
}

// Admits reports whether a form admits a stored value for an element, with sums of at most the
// given height.
func (z StableForms) Admits(operand, row, col, height int, bits uint32) bool {
	for _, s := range z {
		if s.Admits(operand, row, col, height, bits) {
			return true
		}
	}
	return false
}

// Height returns the least height of sums with which a form admits a stored value; ok is false if
// there is none.
func (z StableForms) Height(operand, row, col int, bits uint32) (least int, ok bool) {
	for _, s := range z {
		if h, admits := s.Height(operand, row, col, bits); admits && (!ok || h < least) {
			least, ok = h, true
		}
	}
	return least, ok
}

// Ints returns the possible values of an element of an int32 output, ascending. They are those
// of comparisons, on which forms agree.
func (z StableForms) Ints(operand, row, col int) []int32 { return z[0].Ints(operand, row, col) }
