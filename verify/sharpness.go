package verify

import (
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num"
	"tokitai/promise"
)

// A wide set says little. An element is decided if its set has at most mostValues values, or at
// most mostWideValues in f32, which has 2^13 or 2^16 values for each value of a 16-bit format. To be
// accepted, a kernel needs a share of leastDecided decided elements of every output, on the
// operation's own kinds of data or in all cases.
//
// A definition may itself call coarse functions, such as the short powers of two of attention in 16
// bits, whose errors every set has. There the set may have as many values more as the definition
// promises: what the author declares beside that still counts in full.
//
// Every carefully written kernel reaches one half, in whatever form it is written, and no kernel
// does whose errors are as large as those of a narrower format (docs/promises.md has the
// figures).
const (
	mostValues     = 16
	mostWideValues = 256
	leastDecided   = 0.5

	coarseULPs = 4 // above the errors of all usual functions
)

// isDecided reports whether a set is small enough for its element to be decided.
func (v *view) isDecided(s *set, operand, row, col int) bool {
	most := int64(mostValues)
	if v.got[operand].DType == num.F32 {
		most = mostWideValues
	}
	return s.count <= most || s.count <= most+v.coarse(operand, row, col)
}

// coarse returns how many values the definition's promise admits for an element, 0 if none of its
// functions is coarse, or if the promise is not computed.
func (v *view) coarse(operand, row, col int) int64 {
	if v.truth == nil || !v.target.hasCoarseFunctions() || !v.truth.promised.At(operand, row, col).Known() {
		return 0
	}
	lo, hi := v.truth.promised.Between(operand, row, col)
	d := v.got[operand].DType
	return num.Index(d, uint64(hi)) - num.Index(d, uint64(lo)) + 1
}

// hasCoarseFunctions reports whether the definition calls a coarse function.
func (t *Target) hasCoarseFunctions() bool {
	return slices.ContainsFunc(t.Definition.FunctionsFor(t.DType), func(f *def.Function) bool { return f.ULPs > coarseULPs })
}

// closeness counts the values of a format that numpy.allclose considers equal to y: those within
// 1e-2 + 1e-2·|y| of it.
func closeness(d num.DType, y float64) int64 {
	const relative, absolute = 1e-2, 1e-2
	room := absolute + float64(relative*math.Abs(y))
	lo, hi := num.NarrowF64(d, y-room), num.NarrowF64(d, y+room)
	first, last := num.Index(d, lo), num.Index(d, hi)
	if float64(num.Widen(d, lo)) < y-room {
		first++
	}
	if float64(num.Widen(d, hi)) > y+room {
		last--
	}
	return max(last-first+1, 0)
}

// tally summarises the sets of one output of a bounded kernel.
type tally struct {
	Known   int64   `json:"known"`            // elements with a set, be it of all values
	Decided int64   `json:"decided"`          // of these, those with a small one
	Values  float64 `json:"values"`           // in all sets
	Length  int     `json:"length,omitempty"` // of the longest sum, where heights were inferred
	Height  int     `json:"height,omitempty"` // the least that admits every element, where it was inferred
	Spread  moments `json:"spread"`           // of the heights that elements need, in standard deviations of honest sums
	Sums    int     `json:"sums,omitempty"`   // that are independent of each other
}

func (t *tally) add(u *tally) {
	t.Known += u.Known
	t.Decided += u.Decided
	t.Values += u.Values
	t.Length, t.Height = max(t.Length, u.Length), max(t.Height, u.Height)
	t.Spread.add(u.Spread)
	t.Sums += u.Sums
}

// countSet counts the set of an element of a bounded output.
func (v *view) countSet(j *judgement, t *tally, s *set, operand, row, col int) {
	d := v.got[operand].DType
	if s.isOnGrid {
		j.OnGrid++
	}
	switch {
	case s.isOpen:
		j.Unspecified++
		if v.target.Promised() == promise.Stable && v.exact.At(operand, row, col).Known() {
			t.Known++ // but not decided: the declaration admits every value
		}
		return
	case s.count == 0:
		return
	}
	j.Admissible.count(s.count)
	if t.Known++; v.isDecided(s, operand, row, col) {
		t.Decided++
	}
	t.Values += float64(s.count)
	if b := v.exact.At(operand, row, col); d.IsFloat() && b.Known() {
		j.AllClose.count(closeness(d, b.Mid))
	}
}

// sizes counts admissible sets by size: exactly up to a limit, by powers of two beyond.
type sizes struct {
	N     int64           `json:"n"`
	Sum   float64         `json:"sum"`
	Worst int64           `json:"worst"`
	Over  int64           `json:"over_one"`
	Small map[int64]int64 `json:"small,omitempty"` // number of sets by size, or by the power of two below it
}

const exactSizes = 256

func (s *sizes) count(n int64) {
	s.N++
	s.Sum += float64(n)
	s.Worst = max(s.Worst, n)
	if n > 1 {
		s.Over++
		if s.Small == nil {
			s.Small = map[int64]int64{}
		}
		s.Small[bucket(n)]++
	}
}

func bucket(n int64) int64 {
	if n <= exactSizes {
		return n
	}
	return int64(math.Ldexp(1, math.Ilogb(float64(n))))
}

func (s *sizes) add(t sizes) {
	s.N += t.N
	s.Sum += t.Sum
	s.Worst = max(s.Worst, t.Worst)
	s.Over += t.Over
	for size, n := range t.Small {
		if s.Small == nil {
			s.Small = map[int64]int64{}
		}
		s.Small[size] += n
	}
}

// median returns the median size; beyond the limit, the power of two below it.
func (s *sizes) median() float64 {
	left := s.N/2 - (s.N - s.Over)
	if left < 0 {
		return 1
	}
	for _, size := range sortedKeys(s.Small) {
		if left -= s.Small[size]; left < 0 {
			return float64(size)
		}
	}
	return float64(s.Worst)
}
