// Package truth encloses the result of a definition over the real numbers: for every
// element of every output it returns a ball that contains the exact result. It tells
// how good an answer is; package reference computes the answer.
//
// Enclose has two modes. [Exact] evaluates every node as the real operation: no
// rounding, constants as real numbers, functions by their mathematics. [Rounded]
// encloses every possible result of binary32 arithmetic, however each operation rounds:
// every node is widened by the error of its rounding, a function by its proven error, a
// sum by the height of its fixed shape. The distance between the two is the radius in
// the promise of the documents:
//
//	|y - truth| <= ulp(y)/2 + radius
//
// Mode Rounded also encloses computations that do not promise the definition's bits:
// sums in another order, functions with another error (Options.Order,
// Options.FunctionULP). Options.IsIEEE narrows the sets to the results of correctly
// rounded operations.
//
// [EncloseStable] has a mode of its own: the results of kernels in any form, as long as each
// input, function result and sum has a small relative error (promise.Stable). It evaluates a
// definition exactly and with these errors, row by row, and finds by reverse-mode
// differentiation between the two how far the errors move each output. stable.go has the
// inequality; stable_box.go the errors and the values that they lead to, stable_slope.go the
// slopes of single nodes, stable_reverse.go derivatives of a row, stable_spread.go and
// stable_pairs.go the sums of their magnitudes, stable_rows.go and stable_late.go the outputs.
//
// A rounding that a definition names counts as an error, unless an output holds the rounded value:
// then it is part of the mathematics in every mode (stored.go).
//
// Inputs are the stored values, exactly. NaN, infinities and everything computed from
// them are unknown (ball.Ball.Known). In mode Rounded so is a result whose computation
// may overflow, leave the domain of a function, or take the root of a negative number.
// Zeros have no sign here.
//
// An int32 that depends on comparisons of real numbers, such as the column of a row's
// maximum, is a set of values if these are too close to decide (integer.go). Every other int32 is
// exact, and so are sums of int32, which wrap.
//
// The package shares no code with what executes definitions. Start with Enclose.
// rounding.go has the model of a rounding, rowwise.go the evaluator, sum.go its sums,
// form.go what is evaluated of each form of definition, terms.go and contraction.go those that are
// sums of products of stored values, decide.go the rounding of
// an enclosure to a storage format, variance.go the variance of rounding errors.
package truth

import (
	"context"
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/num/exact"
)

// Mode selects what is enclosed.
type Mode uint8

const (
	Exact   Mode = iota // the result over the real numbers
	Rounded             // every result of binary32 steps, before it is stored
)

func (m Mode) String() string { return [...]string{"exact", "rounded"}[m] }

// Options configures an evaluation.
type Options struct {
	Params []float64 // in the order of Definition.Params
	Mode   Mode

	// Context ends an evaluation early, with its error. It is checked before every row;
	// nil never ends.
	Context context.Context

	// The rest is for mode Rounded.

	Accum def.Accum // contractions

	// Order is the order of every sum, and of contractions whose Model is the chain; nil
	// is the definition's own order. With a Model of tensor cores, any Order stands for all:
	// steps of the Model and binary32 additions, in any order.
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
	enclosures [][]ball.Ball     // by operand, row after row
	intervals  [][]ball.Interval // the same, instead, if operations are correctly rounded
	sets       [][]set           // of outputs that hold int32
}

// call is a definition with its operands and options.
type call struct {
	d        *def.Definition
	operands []num.Array
	form     mathematics
	Options

	// keep, if not nil, takes the terms and the exact sum of element i of a definition that is
	// not rowwise. They are then not enclosed.
	keep func(i int, p products, z exact.Product)
}

// ended returns the context's error.
func (k *call) ended() error {
	if k.Context == nil {
		return nil
	}
	return k.Context.Err()
}

// Enclose evaluates d on its operands, in the order of Definition.Operands. It writes to none of
// them: only the format and size of a pure output matter. Inputs must not change while the result
// is in use.
func Enclose(d *def.Definition, operands []num.Array, o Options) (*Result, error) {
	k, err := newCall(d, operands, o)
	if err != nil {
		return nil, err
	}
	if o.Order != nil {
		if err := o.Order.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	r := &Result{call: k, sets: make([][]set, len(d.Operands))}
	for i, operand := range d.Operands {
		if operand.IsOut && operand.IsInt() && !d.Ring().IsExact() {
			r.sets[i] = make([]set, operands[i].Rows*operands[i].Cols)
		}
	}
	if err := k.form.enclose(k, r); err != nil {
		return nil, err
	}
	return r, nil
}

// room allocates one value for every element of every float output.
func room[T any](k *call) [][]T {
	m := make([][]T, len(k.d.Operands))
	for i, operand := range k.d.Operands {
		if operand.IsOut && (!operand.IsInt() || k.d.Ring().IsExact()) {
			m[i] = make([]T, k.operands[i].Rows*k.operands[i].Cols)
		}
	}
	return m
}

func put[T any](k *call, to [][]T) func(operand, row, col int, v T) {
	return func(operand, row, col int, v T) { to[operand][row*k.operands[operand].Cols+col] = v }
}

// At returns the enclosure of one element of an output, given by the position of its
// operand. For an int32 it is the hull of its possible values.
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

// Between returns the stored values that the ends of an element's enclosure round to.
// Every number in the enclosure rounds to a value between them.
func (r *Result) Between(operand, row, col int) (lo, hi uint32) {
	return r.between(operand, row*r.call.operands[operand].Cols+col)
}

// Admits reports whether an element may have a stored value: in mode Rounded, whether
// an honest computation may give it. NaN is never admitted.
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
		return r.sets[operand][row*r.call.operands[operand].Cols+col].count()
	}
	lo, hi := r.Between(operand, row, col)
	return num.Distance(r.call.operands[operand].DType, lo, hi) + 1
}

// Ints returns the possible values of an element of an int32 output, ascending; the ends if any
// int32 is possible.
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

// Radius bounds |v - t| for every v in a ball of mode Rounded and every t in the ball of
// the same element in mode Exact; +Inf if either is unknown.
func Radius(rounded, exact ball.Ball) float64 {
	if !rounded.Known() || !exact.Known() {
		return math.Inf(1)
	}
	rlo, rhi := rounded.Bounds()
	tlo, thi := exact.Bounds()
	return max(rhi-tlo, thi-rlo) * (1 + 0x1p-52)
}
