package truth

import (
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"tokitai/def"
	"tokitai/num"
)

// The model of one binary32 operation, to nearest: the computed value is
// x·(1+δ) + η with |δ| <= unit, and |η| <= tiny where the exact result may lie
// between two subnormals (a product, a quotient, an FMA); sums of binary32 numbers
// are multiples of the smallest one, so an addition that ends among the subnormals
// is exact, and roots do not end there. All this as long as nothing overflows.
const (
	unit = 0x1p-24
	tiny = 0x1p-150
)

// storageError is the same model for rounding to d and back, and the largest finite
// value: relative error, absolute error. Binary32 needs no rounding.
func storageError(d num.DType) (u, eta, limit float64) {
	if d == num.F32 {
		return 0, 0, math.MaxFloat32
	}
	return num.ULP(d, 1) / 2, num.ULP(d, 0) / 2, num.MaxFinite(d)
}

// gamma bounds the relative effect of n roundings one after the other:
// (1+unit)^n - 1 <= n·unit/(1 - n·unit) (Higham 2002, lemma 3.1); +Inf if that means
// nothing.
func gamma(n int) float64 {
	x := float64(n) * unit
	if x >= 1 {
		return math.Inf(1)
	}
	return x / (1 - x) * (1 + 0x1p-50)
}

// laneHeight is how many additions that round a summand passes, at most, in a sum of
// n terms in the given number of lanes: the first term of a lane is added to +0,
// which is exact, and the lanes in use meet in a binary tree.
func laneHeight(n, lanes int) int {
	used := min(n, lanes)
	return (n+lanes-1)/lanes - 1 + bits.Len(uint(used-1))
}

// totalHeight is the same for a sum over all elements: rows of num.FlatRow, whose
// sums form a row, and so on until one is left.
func totalHeight(n int) int {
	h := 0
	for n > 1 {
		last := n % num.FlatRow
		longest := min(n, num.FlatRow)
		level := laneHeight(longest, num.RowLanes(longest))
		if last > 0 {
			level = max(level, laneHeight(last, num.RowLanes(last)))
		}
		h += level
		n = (n + num.FlatRow - 1) / num.FlatRow
	}
	return h
}

// domain is the set of arguments for which a function's error is proven.
type domain struct {
	low, high float64
	ofAbs     bool
}

func (d domain) contains(lo, hi float64) bool {
	if d.ofAbs {
		if lo <= 0 && hi >= 0 {
			lo, hi = 0, max(-lo, hi)
		} else if hi < 0 {
			lo, hi = -hi, -lo
		}
	}
	return d.low <= lo && hi <= d.high
}

var domainForm = regexp.MustCompile(`^(?:(\S+) <= )?(x|\|x\|)(?: <= (\S+))?$`)

// domainOf reads the domain of a function as it is written in its text:
// "every x", "x > 0", "x != 0", "x >= 0", "x <= 44", "-128 <= x <= 44", "2^-125 <= |x| <= 2^125".
func domainOf(f *def.Function) (domain, error) {
	d := domain{low: math.Inf(-1), high: math.Inf(1)}
	switch f.Domain {
	case "every x":
		return d, nil
	case "x != 0":
		return domain{math.SmallestNonzeroFloat64, d.high, true}, nil
	case "x >= 0":
		return domain{0, d.high, false}, nil
	case "x > 0":
		return domain{math.SmallestNonzeroFloat64, d.high, false}, nil
	}
	m := domainForm.FindStringSubmatch(f.Domain)
	if m == nil {
		return d, fmt.Errorf("function %s: its domain %q cannot be read", f.Name, f.Domain)
	}
	d.ofAbs = m[2] == "|x|"
	var err error
	if m[1] != "" {
		d.low, err = parsePower(m[1])
	}
	if m[3] != "" && err == nil {
		d.high, err = parsePower(m[3])
	}
	if err != nil {
		return d, fmt.Errorf("function %s: its domain %q cannot be read: %w", f.Name, f.Domain, err)
	}
	return d, nil
}

// parsePower reads a decimal, or a power of two such as 2^-125.
func parsePower(s string) (float64, error) {
	if e, ok := strings.CutPrefix(s, "2^"); ok {
		n, err := strconv.Atoi(e)
		return math.Ldexp(1, n), err
	}
	return strconv.ParseFloat(s, 64)
}
