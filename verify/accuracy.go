package verify

import (
	"context"
	"math"

	"tokitai/num"
	"tokitai/truth"
)

// accuracy holds the errors of outputs against the real-number result, for the cases in which
// they are measured.
type accuracy struct {
	Elements   int64 `json:"elements,omitempty"`
	Misrounded int64 `json:"misrounded,omitempty"`
	Undecided  int64 `json:"undecided,omitempty"` // whose correct rounding is not known
	Undefined  int64 `json:"undefined,omitempty"` // not finite, where the truth is
	Lost       int64 `json:"lost,omitempty"`      // of these, those whose correct rounding is finite
	WorstError worst `json:"worst_error"`
	WorstShare worst `json:"worst_share"` // of what is promised

	Errors ulps    `json:"errors,omitempty"`
	Bias   moments `json:"bias"` // steps from the correct rounding away from zero

	// Declared is the sum, over the outputs that Bias counts, of the errors that declared functions
	// may add, in ulps.
	Declared float64 `json:"declared,omitempty"`
}

// worst is the place where a figure was largest.
type worst struct {
	IsSeen  bool    `json:"is_seen,omitempty"`
	Value   float64 `json:"value,omitempty"`
	Operand int     `json:"operand,omitempty"`
	Row     int     `json:"row,omitempty"`
	Col     int     `json:"col,omitempty"`
	Got     uint64  `json:"got,omitempty"`
	Truth   string  `json:"truth,omitempty"`

	DType num.DType `json:"dtype,omitempty"` // of the output
}

func (a *accuracy) add(b *accuracy) {
	a.Elements += b.Elements
	a.Misrounded += b.Misrounded
	a.Undecided += b.Undecided
	a.Undefined += b.Undefined
	a.Lost += b.Lost
	a.Errors.add(b.Errors)
	a.Bias.add(b.Bias)
	a.Declared += b.Declared
	a.WorstError.add(b.WorstError)
	a.WorstShare.add(b.WorstShare)
}

func (w *worst) add(o worst) {
	if o.IsSeen && (!w.IsSeen || o.Value > w.Value) {
		*w = o
	}
}

// enclosed holds the truth about a tile's outputs.
type enclosed struct {
	exact    *truth.Result
	promised *truth.Result           // what the definition's own arithmetic may give
	correct  map[int]*truth.Rounding // by output, of those that are measured
}

// enclose encloses the truth about a tile's outputs, to measure accuracy.
func (v *view) enclose(ctx context.Context, withBig bool) (*enclosed, error) {
	d := v.target.Definition
	o := truth.Options{Params: v.l.params, Accum: v.l.accum(), Context: ctx, Mode: truth.Rounded}
	e := &enclosed{exact: v.exact, correct: map[int]*truth.Rounding{}}
	var err error
	if e.promised, err = truth.Enclose(d, v.inputs, o); err != nil {
		return nil, err
	}
	for i := range d.Operands {
		if !v.target.isJudged(i) || !v.target.isMeasured(v.l.c.Formats, i) {
			continue
		}
		if !withBig {
			e.correct[i] = e.exact.Decide(i)
		} else if e.correct[i], err = e.exact.Round(i); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// isMeasured reports whether an output's accuracy is reported: if it is stored in the
// target's format, or if no output is. An int32 is right or wrong and has no error in ulps.
func (t *Target) isMeasured(formats []num.DType, output int) bool {
	if !formats[output].IsFloat() {
		return false
	}
	for i := range t.Definition.Operands {
		if t.isJudged(i) && formats[i] == t.DType {
			return formats[output] == t.DType
		}
	}
	return true
}

// measure compares one element with the truth. An element whose set is widened may be biased.
func (v *view) measure(a *accuracy, i, r, c int, x uint64, isWidened bool) {
	d := v.got[i].DType
	b := v.truth.exact.At(i, r, c)
	value := float64(num.Value(d, x))
	if !b.Known() {
		return
	}
	a.Elements++
	k, correct := r*v.got[i].Cols+c, v.truth.correct[i]
	switch correct.State[k] {
	case truth.Undecided:
		a.Undecided++
	case truth.ByFloat64, truth.ByBig:
		if num.Distance(d, x, uint64(correct.Bits[k])) != 0 {
			a.Misrounded++
		}
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		if a.Undefined++; correct.State[k] != truth.Undecided && num.Distance(d, x, uint64(correct.Bits[k])) != 0 {
			a.Lost++
		}
		return
	}
	lo, hi := b.Bounds()
	distance := max(hi-value, value-lo)
	note := func(w *worst, figure float64) {
		if figure > w.Value || !w.IsSeen {
			at := v.at.operands[i]
			*w = worst{Value: figure, Operand: i, Row: at.Row + r, Col: at.Col + c, Got: x, Truth: truthText(v.exact, d, i, r, c), DType: d, IsSeen: true}
		}
	}
	inULPs := distance / num.ULP(d, b.Mid)
	a.Errors.count(inULPs)
	note(&a.WorstError, inULPs)
	if p := v.truth.promised.At(i, r, c); p.Known() {
		note(&a.WorstShare, distance/(num.ULP(d, value)/2+truth.Radius(p, b)))
	}
	// Among subnormals, and where results underflow, honest errors are biased: numbers there
	// are only a few ulps large, so that fewer of them lie just above a value than below.
	if isWidened || math.Abs(b.Mid) < num.ULP(d, 0)/num.ULP(d, 1) {
		return
	}
	if correct.State[k] != truth.Undecided {
		steps := float64(num.Index(d, x) - num.Index(d, correct.Bits[k]))
		a.Bias.count(math.Copysign(steps, steps*b.Mid))
		a.Declared += v.declaredError(i, r, c) / num.ULP(d, b.Mid)
	}
}
