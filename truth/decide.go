package truth

import (
	"fmt"
	"math/big"

	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/num/exact"
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
	cols, dtype := k.operands[operand].Cols, k.operands[operand].DType
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
	if k.d.Expression() == nil {
		return z, k.roundSums(z, open)
	}
	return z, sweep(k, ball.NewBig(0, bigPrec), open, func(_, row, col int, v ball.Big) {
		i := row*cols + col
		if z.State[i] != Undecided {
			return
		}
		lo, hi := between(dtype, v)
		var isDecided bool
		if z.Bits[i], isDecided = decide(dtype, lo, hi); isDecided {
			z.State[i] = ByBig
		}
	}, func(_, row, col int, v set) {
		if i := row*cols + col; z.State[i] == Undecided && v.isOne() {
			z.Bits[i], z.State[i] = uint32(v.one), ByBig
		}
	})
}

// roundSums rounds sums of products, which are always decided.
func (k *call) roundSums(z *Rounding, open *places) error {
	terms, err := k.termsOf()
	if err != nil {
		return err
	}
	result := k.operands[open.operand]
	for row, columns := range open.columns {
		for _, c := range columns {
			p := terms(row, c)
			i := row*result.Cols + c
			if scales := k.scalesOf(row, c); len(scales) > 0 {
				z.Bits[i] = exact.RoundBig(result.DType, multiplied(exact.Big(p.a, p.b, p.init), scales))
			} else {
				z.Bits[i], _ = exact.Round(result.DType, p.a, p.b, p.init)
			}
			z.State[i] = ByBig
		}
	}
	return nil
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
