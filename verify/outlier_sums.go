package verify

import (
	"cmp"
	"math"
	"slices"

	"tokitai/num"
	"tokitai/truth"
)

// Where every element is a sum of its own, as in a matrix product, one says nothing about the error
// of another. But all are added by the same kernel, whose roundings are independent of each other.
// So the error of an element is compared with the standard deviation that rounding gives its own
// terms in usual orders (truth.Deviation), and with how large the errors of the sums beside it are
// in these units: those of its row and of its column, since a kernel may treat the last rows and
// columns differently, or if these are few, those of all.

const (
	// mostDeviations is how many standard deviations an honest error may be: that of independent
	// roundings exceeds it with a probability of 3·10⁻¹².
	mostDeviations = 7

	leastNeighbours = 32 // from which a scale is estimated
	mostNeighbours  = 64

	// mostUnsuspected is how many elements in a row that need the largest heights are found honest
	// before the rest is taken to be honest too.
	mostUnsuspected = 64
)

// ownSums finds the outliers of an output whose elements are sums of their own; it returns nil if
// they are not, or if the height of sums is declared.
func (s *stable) ownSums(operand int) map[int]outlier {
	if !s.isInferred(operand) {
		return nil
	}
	got := s.v.got[operand]
	x := &sumsOf{s: s, operand: operand, scales: map[[2]int]float64{}}
	type suspect struct {
		row, col int
		size     float64 // of its error, in units of what height 1 admits
	}
	var suspects []suspect
	isAny := false
	for r := range got.Rows {
		for c := range got.Cols {
			bits := uint32(got.Bits64(r, c))
			if s.v.isOne(operand, r, c) || s.widest().Admits(operand, r, c, 1, bits) || !s.widest().Known(operand, r, c) {
				continue
			}
			if !isAny {
				if _, isAny = x.chain(r, c); !isAny {
					return nil
				}
			}
			if off := x.errorOf(r, c); off-off == 0 {
				suspects = append(suspects, suspect{r, c, off / s.forms[0].Error(operand, r, c, 1)})
			}
		}
	}
	if !isAny {
		return nil
	}
	slices.SortStableFunc(suspects, func(a, b suspect) int { return cmp.Compare(b.size, a.size) })
	found, unsuspected := map[int]outlier{}, 0
	for _, z := range suspects {
		if o, ok := x.judge(z.row, z.col); ok {
			found[z.row*got.Cols+z.col], unsuspected = o, 0
		} else if unsuspected++; unsuspected == mostUnsuspected {
			break
		}
	}
	return found
}

// sumsOf is an output whose elements are sums of their own.
type sumsOf struct {
	s       *stable
	operand int
	scales  map[[2]int]float64 // of rows (0, r), of columns (1, c) and of the whole (2, 0)
}

// deviation returns the deviation of an element in the form in which it is largest.
func (x *sumsOf) deviation(row, col int) (most truth.Deviation, ok bool) {
	for _, form := range x.s.widest() {
		if d, known := form.Deviation(x.operand, row, col); known && (!ok || d.Most > most.Most) {
			most, ok = d, true
		}
	}
	return most, ok
}

// chain returns the largest standard deviation of an element in sequential order in any form.
func (x *sumsOf) chain(row, col int) (most float64, ok bool) {
	for _, form := range x.s.widest() {
		if d, known := form.ChainDeviation(x.operand, row, col); known {
			most, ok = max(most, d), true
		}
	}
	return most, ok
}

// errorOf returns the error of an element, that of its last rounding included.
func (x *sumsOf) errorOf(row, col int) float64 {
	got := x.s.v.got[x.operand]
	return math.Abs(float64(num.Value(got.DType, got.Bits64(row, col))) - x.s.forms[0].At(x.operand, row, col).Mid)
}

// judge returns the values that an element may have, if its own is none of them.
func (x *sumsOf) judge(row, col int) (o outlier, ok bool) {
	got := x.s.v.got[x.operand]
	d, ok := x.deviation(row, col)
	if !ok {
		return o, false
	}
	honest := math.Sqrt(mostOfModel)
	chain, _ := x.chain(row, col)
	usual := 0.0
	if scale, ok := x.scaleBeside(row, col); ok {
		usual = max(honest*d.Least, scale*chain)
	} else {
		usual = max(honest*d.Most, x.scaleOfAll()*chain)
	}
	most := max(mostDeviations*usual, 2*d.Actual) // an order in two levels has the errors of both
	exact, room := x.s.forms[0].At(x.operand, row, col), 0.0
	for _, form := range x.s.widest() {
		room = max(room, form.Error(x.operand, row, col, 0))
	}
	lo, hi := exact.Widen(0, room+most).Endpoints()
	o = outlier{uint64(num.NarrowF64(got.DType, lo)), uint64(num.NarrowF64(got.DType, hi)), contradictsSums}
	at := num.Index(got.DType, got.Bits64(row, col))
	return o, at < num.Index(got.DType, o.lo) || at > num.Index(got.DType, o.hi)
}

// scaleBeside returns how large the errors beside an element are, in units of the standard deviation of
// sequential sums; ok is false if there are too few.
func (x *sumsOf) scaleBeside(row, col int) (scale float64, ok bool) {
	got := x.s.v.got[x.operand]
	if got.DType != num.F32 { // the last rounding hides them
		return 0, false
	}
	scale = max(
		x.scale([2]int{0, row}, got.Cols, func(i int) (int, int) { return row, i }),
		x.scale([2]int{1, col}, got.Rows, func(i int) (int, int) { return i, col }))
	return scale, !math.IsInf(scale, 1)
}

// scaleOfAll returns the same for the whole output, 0 if there are too few.
func (x *sumsOf) scaleOfAll() float64 {
	got := x.s.v.got[x.operand]
	if got.DType != num.F32 {
		return 0
	}
	scale := x.scale([2]int{2, 0}, got.Rows*got.Cols, func(i int) (int, int) { return i / got.Cols, i % got.Cols })
	if math.IsInf(scale, 1) {
		return 0
	}
	return scale
}

// scale returns the scale of the errors of a row, a column or the whole, infinite if there are too few. It is found
// from the upper quartile, which few wrong elements do not move, and increased by what that may be
// off by.
func (x *sumsOf) scale(key [2]int, length int, at func(i int) (row, col int)) float64 {
	if scale, ok := x.scales[key]; ok {
		return scale
	}
	var all []float64
	for k, n := 0, min(length, mostNeighbours); k < n; k++ {
		r, c := at(k * length / n)
		if chain, ok := x.chain(r, c); ok && chain > 0 {
			if e := x.errorOf(r, c); e-e == 0 {
				all = append(all, e/chain)
			}
		}
	}
	scale := math.Inf(1)
	if n := len(all); n >= leastNeighbours {
		slices.Sort(all)
		const quartile = 1.1503 // of the magnitude of a normal value; for n values its standard error is 0.92/√n of it
		scale = all[3*n/4] / quartile * (1 + 6*0.92/math.Sqrt(float64(n)))
	}
	x.scales[key] = scale
	return scale
}

// contradictsSums says why an outlier is wrong.
const contradictsSums = "from the other sums: its error is larger than theirs, and than rounding in usual orders gives"
