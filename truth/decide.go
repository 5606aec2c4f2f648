package truth

import (
	"fmt"
	"math/big"

	"tokitai/num"
)

// State says how a rounding was determined.
type State uint8

const (
	ByFloat64 State = iota // by the float64 ball
	ByBig                  // by a ball of higher precision, or by exact summation
	Undecided              // even that contains a boundary between two values
	Unknown                // the ball is unknown
)

func (s State) String() string {
	return [...]string{"by float64", "by more digits", "undecided", "unknown"}[s]
}

// Rounding holds the correctly rounded value of every element of an output, row by
// row. Bits are valid if State is ByFloat64 or ByBig; a zero whose sign the ball does
// not determine is +0.
type Rounding struct {
	Bits  []uint32
	State []State
}

// bigPrec is the precision of the second attempt. A value that lies on a boundary
// exactly is decided if that many bits hold every intermediate result; a value
// off all boundaries stays undecided with a probability of about 2^-150.
const bigPrec = 200

// Decide rounds an output, given by the position of its operand, once to its storage
// format. It uses only the float64 enclosures; an element that they leave open is
// Undecided. In mode Rounded, an element is decided if only one stored value is admitted.
func (r *Result) Decide(operand int) *Rounding {
	a := r.call.operands[operand]
	n := a.Rows * a.Cols
	z := &Rounding{Bits: make([]uint32, n), State: make([]State, n)}
	for i := range n {
		lo, hi := r.between(operand, i)
		var isDecided bool
		switch z.Bits[i], isDecided = decide(a.DType, lo, hi); {
		case !r.isKnown(operand, i):
			z.State[i] = Unknown
		case !isDecided:
			z.State[i] = Undecided
		}
	}
	return z
}

// Round is like Decide, but evaluates elements that float64 leaves open again with more
// precision, together with only what they depend on.
func (r *Result) Round(operand int) (*Rounding, error) {
	k := r.call
	if k.Mode != Exact {
		return nil, fmt.Errorf("%s: rounding takes an enclosure of mode %s, got %s", k.d.Name, Exact, k.Mode)
	}
	cols := k.operands[operand].Cols
	z := r.Decide(operand)
	open := &places{operand: operand, columns: map[int][]int{}}
	for i, state := range z.State {
		if state == Undecided {
			open.columns[i/cols] = append(open.columns[i/cols], i%cols)
		}
	}
	if len(open.columns) == 0 {
		return z, nil
	}
	return z, k.form.round(k, z, open)
}

// multiplied returns the exact product of a finite number and binary32 numbers, which have 24
// bits each.
func multiplied(x *big.Float, by []float64) *big.Float {
	for _, y := range by {
		z := new(big.Float).SetPrec(x.Prec() + 24)
		x = z.Mul(x, big.NewFloat(y))
	}
	return x
}

// decide returns the stored value if both ends of an enclosure round to the same one.
func decide(d num.DType, lo, hi uint32) (bits uint32, isDecided bool) {
	if num.Index(d, lo) == 0 && num.Index(d, hi) == 0 && lo != hi {
		lo, hi = 0, 0
	}
	return lo, lo == hi
}
