package num

import (
	"math"
	"sort"
)

// slowFormat rounds by looking: it lists every magnitude of a 16-bit format in
// order, as the format's definition gives it, and takes the nearer neighbour. It
// shares neither tables nor bit tricks with what it judges. All its arithmetic
// is exact in binary64.
type slowFormat struct {
	dtype  DType
	values []float64 // values[p] is the value of pattern p; the last one, infinity's, is the power of two that rounds to it
}

func newSlowFormat(d DType) slowFormat {
	fraction, bias := 10, 15
	if d == BF16 {
		fraction, bias = 7, 127
	}
	top := 1<<(15-fraction) - 1 // the exponent field of infinity
	s := slowFormat{dtype: d}
	for p := 0; p <= top<<fraction; p++ {
		e, m := p>>fraction, p%(1<<fraction)
		if e == 0 {
			s.values = append(s.values, math.Ldexp(float64(m), 1-bias-fraction))
		} else {
			s.values = append(s.values, math.Ldexp(float64(m+1<<fraction), e-bias-fraction))
		}
	}
	return s
}

func (s slowFormat) inf() uint16 { return uint16(len(s.values) - 1) }

// round returns the canonical pattern nearest to x, ties to the even pattern.
func (s slowFormat) round(x float64) uint16 {
	if math.IsNaN(x) {
		return s.nan()
	}
	above := sort.SearchFloat64s(s.values, math.Abs(x))
	return s.nearest(x, above-1)
}

// nearest is round for an x that is not NaN, with lo the last pattern whose
// value is below |x|, or -1.
func (s slowFormat) nearest(x float64, lo int) uint16 {
	abs, p := math.Abs(x), lo
	switch {
	case lo+1 == len(s.values):
	case lo < 0:
		p = 0
	default:
		below, above := abs-s.values[lo], s.values[lo+1]-abs
		if above < below || above == below && lo%2 == 1 {
			p = lo + 1
		}
	}
	if math.Signbit(x) {
		p |= 0x8000
	}
	return uint16(p)
}

func (s slowFormat) nan() uint16 {
	if s.dtype == F16 {
		return 0x7e00
	}
	return 0x7fc0
}

var slowFormats = []slowFormat{newSlowFormat(F16), newSlowFormat(BF16)}
