package verify

import (
	"math"
	"slices"

	"tokitai/evidence"
	"tokitai/num"
)

// ulps counts errors by powers of two, for a histogram: first those that are 0, then those up
// to evidence.LeastBin, then up to twice that, and so on.
type ulps []int64

// leastExponent and mostExponent are those of evidence.LeastBin and evidence.MostBin.
var (
	leastExponent = math.Ilogb(evidence.LeastBin)
	mostExponent  = math.Ilogb(evidence.MostBin)
)

// count counts an error, which must not be negative.
func (u *ulps) count(x float64) { u.at(binOf(x), 1) }

// binOf returns the position of the least bound that is at least x.
func binOf(x float64) int {
	if x == 0 {
		return 0
	}
	fraction, exponent := math.Frexp(x)
	if fraction == 0.5 { // a power of two is its own bound
		exponent--
	}
	return 1 + min(max(exponent, leastExponent), mostExponent) - leastExponent
}

// at adds n errors to a bin.
func (u *ulps) at(bin int, n int64) {
	if bin >= len(*u) {
		*u = append(*u, make([]int64, bin+1-len(*u))...)
	}
	(*u)[bin] += n
}

func (u *ulps) add(v ulps) {
	for bin, n := range v {
		u.at(bin, n)
	}
}

// bins returns the bins that are not empty.
func (u ulps) bins() []evidence.Bin {
	var list []evidence.Bin
	for i, n := range u {
		switch {
		case n == 0:
		case i == 0:
			list = append(list, evidence.Bin{Outputs: n})
		default:
			list = append(list, evidence.Bin{UpTo: math.Ldexp(1, leastExponent+i-1), Outputs: n})
		}
	}
	return list
}

// misses are the outputs outside of their sets.
type misses struct {
	Ulps      ulps  `json:"ulps,omitempty"`      // by the distance from the nearest admissible value
	Undefined int64 `json:"undefined,omitempty"` // those without one
}

func (m *misses) add(o misses) {
	m.Ulps.add(o.Ulps)
	m.Undefined += o.Undefined
}

// count counts a value outside of its set.
func (m *misses) count(s *set, d num.DType, x uint64) {
	if n, ok := s.distance(d, x); ok {
		m.Ulps.count(float64(n))
	} else {
		m.Undefined++
	}
}

// distance returns how many values of the format a value outside of the set is away from it; ok
// is false if either is not a finite number, if the set is not an interval, or if only the sign
// of a zero differs.
func (s *set) distance(d num.DType, x uint64) (n int64, ok bool) {
	if !d.IsFloat() || s.ints != nil {
		return 0, false
	}
	for _, bits := range []uint64{x, s.lo, s.hi} {
		if value := float64(num.Value(d, bits)); math.IsNaN(value) || math.IsInf(value, 0) {
			return 0, false
		}
	}
	at := num.Index(d, x)
	n = max(num.Index(d, s.lo)-at, at-num.Index(d, s.hi), 0)
	return n, n > 0
}

// setHistogram counts the outputs by their errors.
func setHistogram(r *evidence.Report, total *judgement) {
	if total.Elements == 0 {
		return
	}
	set := slices.Clone(total.Misses.Ulps)
	set.at(0, total.Elements-total.Unspecified-total.Waived-total.Mismatches)
	r.Histogram = &evidence.Histogram{
		Set: set.bins(), SetUndefined: total.Misses.Undefined,
		Truth: total.Accuracy.Errors.bins(), Own: total.Own.Errors.bins(),
	}
}
