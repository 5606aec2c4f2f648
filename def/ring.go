package def

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"tokitai/num"
	"tokitai/num/zpk"
)

// Ring says in what numbers a contraction sums: in Z/P^K, the integers modulo a power of a
// prime, or in binary32 if it is the zero Ring. Sums in Z/P^K are exact, so that their order
// makes no difference and a result has one admissible value.
//
// Factors in i8 are summed in Z/2^32: in the int32 accumulators of quantised inference, which
// wrap. A sum is the integer from -2^31 to 2^31-1, in two's complement. Factors in i64 are
// summed in any Z/P^K up to 2^63. A sum is the integer from 0 to P^K-1.
type Ring struct {
	P uint64
	K int
}

// accumulatorRing is the ring of factors in i8.
var accumulatorRing = Ring{2, 32}

// IsExact reports whether sums are in Z/P^K.
func (r Ring) IsExact() bool { return r != Ring{} }

// IsExact reports whether every result is an integer that is computed exactly: a contraction in a
// ring, without scales, a dispatch, or an expression of int32 alone. Nothing is rounded, and whatever
// a kernel promises, each element has one admissible value.
func (d *Definition) IsExact() bool {
	if nodes := d.Math().Nodes; len(nodes) > 0 {
		return !slices.ContainsFunc(nodes, func(n *Node) bool { return n.Type == Float })
	}
	_, isSort := d.Form.(*Sort)
	return isSort || d.Ring().IsExact() && !d.HasScales()
}

// String returns the ring as the text of a definition has it: Z/2^32.
func (r Ring) String() string { return fmt.Sprintf("Z/%d^%d", r.P, r.K) }

var ringForm = regexp.MustCompile(`\bin Z/([0-9]+)\^([0-9]+),`)

// ringIn returns the ring that a line of a definition names, or the zero Ring. A number that is
// out of range gives a ring that is refused.
func ringIn(line string) Ring {
	part := ringForm.FindStringSubmatch(line)
	if part == nil {
		return Ring{}
	}
	p, err := strconv.ParseUint(part[1], 10, 64)
	if err != nil {
		return Ring{K: 1} // p = 0 is refused
	}
	k, err := strconv.Atoi(part[2])
	if err != nil {
		k = 1 << 30 // beyond every range
	}
	return Ring{p, k}
}

// rules returns how the factors and the result of a contraction in the ring may be stored.
func (r Ring) rules(f *ContractionForm) (factors, results Rule, err error) {
	if _, err := zpk.Power(r.P, r.K); err != nil {
		return factors, results, fmt.Errorf("the ring %s: %w", r, err)
	}
	factors = f.Factors
	if factors.Like != "" || len(factors.Allowed) != 1 || factors.Allowed[0] != num.I8 && factors.Allowed[0] != num.I64 {
		return factors, results, fmt.Errorf("%s may be stored %q, want i8 or i64: it is summed in %s", f.Left, factors, r)
	}
	isScaled := f.Scales != Scales{}
	switch isNarrow := factors.Allowed[0] == num.I8; {
	case isNarrow && r != accumulatorRing:
		return factors, results, fmt.Errorf("%s is i8 and summed in %s, want %s", f.Left, r, accumulatorRing)
	case f.Accumulate || f.Groups != Groups{} || len(f.ResultDims) > 2:
		return factors, results, fmt.Errorf("a product in %s with batch axes, groups or an old result, want one product that is set", r)
	case isNarrow && isScaled:
		return factors, Only(num.F32, num.F16, num.BF16), nil
	case isNarrow:
		return factors, Only(num.I32), nil
	case isScaled:
		return factors, results, fmt.Errorf("a product of i64 with scales, which multiply sums of i8")
	}
	return factors, Only(num.I64), nil
}

// text returns how a sum is taken.
func (r Ring) text(factors num.DType) string {
	if factors == num.I8 {
		return fmt.Sprintf("in %s, as an int32", r)
	}
	return fmt.Sprintf("in %s, from 0 to %d^%d-1", r, r.P, r.K)
}
