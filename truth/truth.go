// Package truth encloses what a definition means over the real numbers: for every
// element of every output a ball that contains the exact result. It says how good
// an answer is, where package reference says what the answer is.
//
// One evaluator has two modes. [Exact] takes every node as the real operation: no
// rounding, constants as the real numbers that they stand for, functions by their
// mathematics. [Rounded] encloses what binary32 arithmetic may give, however each
// single operation rounds: every node is widened by what its rounding can do, a
// function by its proven error, a sum by the height of its fixed shape. The distance
// between the two is the radius in the promise that stands in the documents:
//
//	|y - truth| <= ulp(y)/2 + radius
//
// Mode Rounded also tells what a computation may give that does not promise the
// definition's bits: sums in another order, functions with another error
// (Options.Order, Options.FunctionULP). Options.IsIEEE narrows the sets down to what
// correctly rounded operations can give.
//
// Inputs are what is stored, exactly. A NaN or an infinity carries no information,
// neither does anything computed from it, and the result says so (ball.Ball.Known);
// the same holds in mode Rounded where a step may overflow, leave the domain of a
// function, or take the root of something below zero. Zeros have no sign here.
//
// An int32 that hangs on comparisons of real numbers, as the column of a row's maximum
// does, is a set of values where these are too close to call (integer.go).
//
// The package shares no code with what executes definitions. Read rounding.go for
// the model of a rounding, rowwise.go for the evaluator, sum.go for its sums, table.go
// and contraction.go for the other kinds of definition, decide.go for rounding an
// enclosure to a storage format, variance.go for how far rounding leads on average.
package truth

import (
	"context"
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
)

// Mode is what an enclosure is of.
type Mode uint8

const (
	Exact   Mode = iota // the result over the real numbers
	Rounded             // every result of binary32 steps, before it is stored
)

func (m Mode) String() string { return [...]string{"exact", "rounded"}[m] }

// Options are what an evaluation takes besides the operands.
type Options struct {
	Params []float64 // in the order of Definition.Params
	Mode   Mode

	// Context ends an evaluation early, with its error. It is looked at before every row;
	// nil never ends.
	Context context.Context

	// The rest is for mode Rounded.

	Model def.Model // contractions

	// Order is how every sum is added up, of contractions those whose Model is the
	// chain; nil is the definition's own way.
	Order *def.Order

	// FunctionULP is the worst error of functions, in ulps of binary32 from the true
	// value, where it exceeds that of the definition's own.
	FunctionULP float64

	// IsIEEE says that every elementary operation of a rowwise definition is correctly
	// rounded, never contracted, and every sum in an order that is declared as well.
	// Only functions and sums in other orders then add to an enclosure.
	IsIEEE bool
}

// Result encloses the outputs of one evaluation.
type Result struct {
	call       *call
	enclosures map[int][]ball.Ball     // by operand, row after row
	intervals  map[int][]ball.Interval // the same, instead, if operations are correctly rounded
	sets       map[int][]set           // of outputs that hold int32
}

// call is a definition with what it is evaluated on.
type call struct {
	d        *def.Definition
	operands []num.Array
	Options
}

// ended is the context's error.
func (k *call) ended() error {
	if k.Context == nil {
		return nil
	}
	return k.Context.Err()
}

// Enclose evaluates d on its operands, in the order of Definition.Operands. Nothing
// is written: of a pure output only format and size matter. Inputs must not change
// as long as the result is in use.
func Enclose(d *def.Definition, operands []num.Array, o Options) (*Result, error) {
	if len(operands) != len(d.Operands) {
		return nil, fmt.Errorf("%s: got %d operands, want %d", d.Name, len(operands), len(d.Operands))
	}
	if len(o.Params) != len(d.Params) {
		return nil, fmt.Errorf("%s: got %d parameters, want %d", d.Name, len(o.Params), len(d.Params))
	}
	if o.Order != nil {
		if err := o.Order.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	if d.Kind == def.KindContraction {
		if err := o.Model.Takes(operands[0].DType); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	k := &call{d: d, operands: operands, Options: o}
	r := &Result{call: k, sets: map[int][]set{}}
	var err error
	for i, operand := range d.Operands {
		if operand.IsOut && operand.IsInt() {
			r.sets[i] = make([]set, operands[i].Rows*operands[i].Cols)
		}
	}
	switch {
	case d.Kind != def.KindRowwise:
		r.enclosures = room[ball.Ball](k)
		err = k.encloseSums(r.enclosures[2])
	case o.Mode == Rounded && o.IsIEEE:
		r.intervals = room[ball.Interval](k)
		err = sweep(k, ball.Interval{}, nil, put(k, r.intervals), put(k, r.sets))
	default:
		r.enclosures = room[ball.Ball](k)
		err = sweep(k, ball.Ball{}, nil, put(k, r.enclosures), put(k, r.sets))
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// room has a place for every element of every output that holds floats.
func room[T any](k *call) map[int][]T {
	m := map[int][]T{}
	for i, operand := range k.d.Operands {
		if operand.IsOut && !operand.IsInt() {
			m[i] = make([]T, k.operands[i].Rows*k.operands[i].Cols)
		}
	}
	return m
}

func put[T any](k *call, to map[int][]T) func(operand, row, col int, v T) {
	return func(operand, row, col int, v T) { to[operand][row*k.operands[operand].Cols+col] = v }
}

// At is the enclosure of one element of an output, by position of its operand. Of an
// int32 it is the hull of the values that it may have.
func (r *Result) At(operand, row, col int) ball.Ball {
	i := row*r.call.operands[operand].Cols + col
	if sets := r.sets[operand]; sets != nil {
		lo, hi := sets[i].bounds()
		return ball.Ball{}.FromFloat64(float64(lo)).Hull(ball.Ball{}.FromFloat64(float64(hi)))
	}
	if r.intervals != nil {
		return r.intervals[operand][i].Ball()
	}
	return r.enclosures[operand][i]
}

// Between returns the two stored values, equal or not, between which every number
// of an element's enclosure rounds.
func (r *Result) Between(operand, row, col int) (lo, hi uint32) {
	return r.between(operand, row*r.call.operands[operand].Cols+col)
}

// Admits reports whether a stored value is one that an element may have: in mode
// Rounded, what an honest computation may give. NaN is none.
func (r *Result) Admits(operand, row, col int, bits uint32) bool {
	i, dtype := row*r.call.operands[operand].Cols+col, r.call.operands[operand].DType
	if sets := r.sets[operand]; sets != nil {
		return sets[i].contains(int32(bits))
	}
	lo, hi := r.between(operand, i)
	k := num.Index(dtype, bits)
	return r.isKnown(operand, i) && !num.IsNaN(dtype, bits) && num.Index(dtype, lo) <= k && k <= num.Index(dtype, hi)
}

// Count returns the number of values that Admits accepts for a known element; zeros
// count once.
func (r *Result) Count(operand, row, col int) int64 {
	if r.sets[operand] != nil {
		return int64(len(r.Ints(operand, row, col)))
	}
	lo, hi := r.Between(operand, row, col)
	return num.Distance(r.call.operands[operand].DType, lo, hi) + 1
}

// Ints returns the values that an element of an int32 output may have, ascending.
func (r *Result) Ints(operand, row, col int) []int32 {
	return r.sets[operand][row*r.call.operands[operand].Cols+col].values()
}

func (r *Result) isKnown(operand, i int) bool {
	if r.sets[operand] != nil {
		return true
	}
	if r.intervals != nil {
		return r.intervals[operand][i].Known()
	}
	return r.enclosures[operand][i].Known()
}

func (r *Result) between(operand, i int) (lo, hi uint32) {
	dtype := r.call.operands[operand].DType
	if sets := r.sets[operand]; sets != nil {
		least, most := sets[i].bounds()
		return uint32(least), uint32(most)
	}
	if r.intervals != nil {
		return between(dtype, r.intervals[operand][i])
	}
	return between(dtype, r.enclosures[operand][i])
}

func between[T ball.Number[T]](d num.DType, v T) (lo, hi uint32) {
	l, h := v.Endpoints()
	return num.NarrowF64(d, l), num.NarrowF64(d, h)
}

// Radius bounds |v - t| for every v in a ball of mode Rounded and every t in the
// ball of the same element in mode Exact: +Inf where either is unknown.
func Radius(rounded, exact ball.Ball) float64 {
	if !rounded.Known() || !exact.Known() {
		return math.Inf(1)
	}
	rlo, rhi := rounded.Bounds()
	tlo, thi := exact.Bounds()
	return max(rhi-tlo, thi-rlo) * (1 + 0x1p-52)
}
