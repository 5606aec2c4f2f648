package verify

import (
	"slices"

	"tokitai/def"
	"tokitai/num"
	"tokitai/truth"
)

// The height of a kernel's sums is inferred from its outputs, so one wrong element would widen the
// sets until they admit it. But the elements of a row share its sums, with one error
// (truth.Joint): elements that need low sums bound the error for those that need high ones.

// mostWitnesses is how many elements of a row are asked about the errors of its sums.
const mostWitnesses = 64

// outlier has the values that the rest of a row admits for an element.
type outlier struct {
	lo, hi uint64
	why    string
}

// outliersOf returns the elements of an output that need higher sums than others, and that contradict
// these, by their place in row order.
func (s *stable) outliersOf(operand int) map[int]outlier {
	got := s.v.got[operand]
	if got.DType == num.I32 || s.forms.MostHeight() == 0 {
		return nil
	}
	if found := s.ownSums(operand); found != nil {
		return found
	}
	if s.v.target.Definition.Access() != def.AlongRows || got.Cols < 2 {
		return nil
	}
	found := map[int]outlier{}
	needs := make([]int, got.Cols)
	for r := range got.Rows {
		isAny := false
		for c := range needs {
			x := uint32(got.Bits64(r, c))
			switch needs[c] = 0; {
			case s.v.isOne(operand, r, c):
				needs[c] = -1
			case !s.widest().Admits(operand, r, c, 0, x):
				needs[c] = -1
				if h, ok := s.widest().Height(operand, r, c, x); ok {
					needs[c], isAny = h, true
				}
			}
		}
		if isAny {
			s.addOutliers(found, operand, r, needs)
		}
	}
	return found
}

// addOutliers adds the outliers of a row, given the heights that its elements need, or -1 for those
// that say nothing about sums.
func (s *stable) addOutliers(found map[int]outlier, operand, row int, needs []int) {
	got := s.v.got[operand]
	sorted := slices.DeleteFunc(slices.Clone(needs), func(h int) bool { return h < 0 })
	slices.Sort(sorted)
	usual := sorted[(len(sorted)-1)/2]
	var low []int
	for c, h := range needs {
		if h >= 0 && h <= usual {
			low = append(low, c)
		}
	}
	witnesses := make([]int, min(len(low), mostWitnesses))
	for k := range witnesses {
		witnesses[k] = low[k*len(low)/len(witnesses)]
	}
	var forms []*truth.Joint
	for _, form := range s.widest() {
		j := form.JointOf(operand, row, witnesses, func(c int) uint32 { return uint32(got.Bits64(row, c)) })
		if j == nil {
			return
		}
		forms = append(forms, j)
	}
	for c, h := range needs {
		if h <= usual {
			continue
		}
		if o, ok := contradicted(forms, got, row, c); ok {
			o.why = contradictsRow
			found[row*got.Cols+c] = o
		}
	}
}

// contradicted returns the values that the rest of a row admits for an element, in one form or
// another, if its own is none of them.
func contradicted(forms []*truth.Joint, got num.Array, row, col int) (o outlier, ok bool) {
	d := got.DType
	at := num.Index(d, got.Bits64(row, col))
	for i, form := range forms {
		lo, hi, ok := form.Between(col)
		if !ok || num.Index(d, lo) <= at && at <= num.Index(d, hi) {
			return o, false
		}
		if i == 0 || num.Index(d, lo) < num.Index(d, o.lo) {
			o.lo = uint64(lo)
		}
		if i == 0 || num.Index(d, hi) > num.Index(d, o.hi) {
			o.hi = uint64(hi)
		}
	}
	return o, true
}

// contradictsRow says why an outlier is wrong.
const contradictsRow = "from the rest of its row: the row's sums have one error, and the other elements show that it is smaller than this one needs"
