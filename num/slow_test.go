package num

import (
	"math"
	"sort"
)

// slowFormat rounds by looking: it lists every magnitude of a narrow format in
// order, as the format's definition gives it, and takes the nearer neighbour. It
// shares neither tables nor bit tricks with what it judges. All its arithmetic
// is exact in binary64.
type slowFormat struct {
	dtype  DType
	values []float64 // values[p] is the value of pattern p; the last one is what the pattern after the largest finite value would have
	sign   uint16
	nan    uint16
}

// newSlowFormat lists a format with an exponent field of the given width and bias. A
// format without infinities, E4M3, lists all patterns but that of all ones.
func newSlowFormat(d DType, exponent, fraction, bias int, nan uint16) slowFormat {
	s := slowFormat{dtype: d, sign: 1 << (exponent + fraction), nan: nan}
	end := (1<<exponent - 1) << fraction // infinity
	if d == E4M3 {
		end = int(nan)
	}
	for p := 0; p <= end; p++ {
		e, m := p>>fraction, p%(1<<fraction)
		if e == 0 {
			s.values = append(s.values, math.Ldexp(float64(m), 1-bias-fraction))
		} else {
			s.values = append(s.values, math.Ldexp(float64(m+1<<fraction), e-bias-fraction))
		}
	}
	return s
}

// last returns the last pattern that is not a NaN.
func (s slowFormat) last() uint16 {
	if s.dtype == E4M3 {
		return uint16(len(s.values) - 2)
	}
	return uint16(len(s.values) - 1)
}

// round returns the canonical pattern nearest to x, ties to the even pattern.
func (s slowFormat) round(x float64) uint16 {
	if math.IsNaN(x) {
		return s.nan
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
	if math.Signbit(x) && uint16(p) != s.nan {
		p |= int(s.sign)
	}
	return uint16(p)
}

var slowFormats = []slowFormat{
	newSlowFormat(F16, 5, 10, 15, 0x7e00),
	newSlowFormat(BF16, 8, 7, 127, 0x7fc0),
	newSlowFormat(E4M3, 4, 3, 7, 0x7f),
	newSlowFormat(E5M2, 5, 2, 15, 0x7e),
}
