package promise

import (
	"math"
	"strconv"
	"strings"
)

// Error is the worst error of a function at x, with the true value y:
//
//	(ULPs + ULPsPerX·|x|)·ulp(y) + Relative·|y| + Absolute
//
// The unit in the last place is that of binary32, at least the smallest subnormal.
type Error struct {
	ULPs, ULPsPerX     float64
	Relative, Absolute float64
}

// unit is half a unit in the last place of 1, the unit roundoff of binary32.
const unit = 0x1p-24

// CorrectlyRounded is the error of a result that is rounded once.
var CorrectlyRounded = Error{ULPs: 0.5}

// String returns the error as a declaration states it, such as 2ulp+1.16|x|.
func (e Error) String() string {
	var terms []string
	add := func(v float64, text, unit string) {
		if v != 0 {
			terms = append(terms, text+unit)
		}
	}
	add(e.ULPs, plain(e.ULPs), "ulp")
	add(e.ULPsPerX, plain(e.ULPsPerX), "|x|")
	add(e.Relative, power(e.Relative), "")
	add(e.Absolute, power(e.Absolute), "abs")
	if terms == nil {
		return "0ulp"
	}
	return strings.Join(terms, "+")
}

func plain(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// power formats v as a power of two with at most three digits after the point, if it is one.
func power(v float64) string {
	exponent := math.Round(1000*math.Log2(v)) / 1000
	if math.Exp2(exponent) == v && !math.IsInf(v, 0) {
		return "2^" + plain(exponent)
	}
	return plain(v)
}

func (e Error) plus(f Error) Error {
	return Error{e.ULPs + f.ULPs, e.ULPsPerX + f.ULPsPerX, e.Relative + f.Relative, e.Absolute + f.Absolute}
}

// widest returns an error that neither e nor f exceeds.
func widest(e, f Error) Error {
	return Error{max(e.ULPs, f.ULPs), max(e.ULPsPerX, f.ULPsPerX), max(e.Relative, f.Relative), max(e.Absolute, f.Absolute)}
}
