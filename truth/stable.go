package truth

import (
	"context"
	"fmt"
	"math"
	"sort"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/promise"
)

// The promise stable does not depend on the form in which a kernel is written. It allows for
// the errors of the inputs, the functions and the sums that the definition's mathematics has,
// each as large as an honest kernel in any form may make it, and for nothing else. With y the
// exact result, v the stored one, RN the rounding to the storage format and u = 2^-24,
//
//	RN(y-B) <= v <= RN(y+B)
//
//	B = u·( k·|y| + k·Σ_j |dy/dx_j|·|x_j| + Σ_f k_f·|dy/df|·|f| + Σ_s h_s·|dy/ds|·Σ|terms of s| )
//	    + absolute terms + second order
//
//   - k is 4. x_j runs over all elements, of all real inputs, that y depends on. dy/dx_j is the
//     total derivative of the real function, so that a shift that cancels, such as the maximum in
//     softmax, does not count. An input of 0 adds nothing. Parameters of the call and constants
//     are exact; with Declaration.RawParams parameters count like inputs.
//   - f runs over the results of functions, square roots and quotients; dy/df is the derivative
//     with respect to that value. k_f is twice the error in ulps that is declared, or that of the
//     profile: 2 ulps for functions (or the error of the definition's own function, or
//     StableOptions.FunctionULP, if larger), half an ulp for roots and quotients. Error.ULPsPerX
//     counts the magnitude of the function's argument.
//   - s runs over the sums over rows, columns and whole tensors. h_s is the number of additions in
//     a chain: the height of the declared order for n terms, n-1 if there is none, or less where
//     the methods of Stable are asked about less. The factor of Σ|terms| is
//     min(h·u/(1-h·u), (n-1)·u).
//   - The terms of a sum may be differences, such as x - first in LayerNorm. A kernel may sum the
//     parts instead, and subtract later what is the same for all terms. So such a term counts with
//     the larger of its own magnitude and those of its parts that differ between columns, and such
//     a sum with k additions at least (stable_split.go).
//   - A rounding of the definition to a storage format, and one that is declared for a value that
//     the definition names, adds the error of that rounding: 2^-11 of the value for f16, 2^-8 for
//     bf16, twice that for a stochastic one, and half of the format's smallest number, twice.
//   - A rounding to the format of an output that holds the result is no such error: it is part of
//     the function, which jumps there (stored.go). What follows takes the stored value like an
//     input, with k units of its own. Of a sum, difference or product of two inputs, the value that
//     is stored is certain.
//   - An output that is rounded stochastically when it is stored is rounded by the definition's own
//     random word, which makes it a monotonic function of the value before: the ends of the set are
//     y-B and y+B, rounded to binary32 and then by that word.
//   - Absolute terms: k·2^-150·|dy/dv| for every product, quotient and fused multiply-add v, twice
//     that for a scale node, and n·2^-150·|dy/dv| if v is a sum of n > k terms divided or multiplied
//     by a value that is the same for all of them, since a kernel may divide the terms; for a product
//     of three factors or more k·2^-150·|dy/dv| times the factors above 1, but for two, since a kernel
//     may begin with these two;
//     |dy/df|·max(k_f·2^-150, 1/MaxFloat32) for functions, because a value whose reciprocal
//     overflows may be lost, as in x/(1+exp(-t)). If subnormals may be flushed,
//     2^-126 takes the place of 2^-150 and of 1/MaxFloat32, and subnormal inputs may be 0. Then
//     StableOptions.Allow.
//   - Second order: the derivatives, and the magnitudes that they are multiplied by, are the
//     largest over enclosures of all values that the perturbed computation may have (stable_box.go).
//     With slopes D taken over these, the differences of all nodes from their exact values satisfy
//     Δ = DΔ + e, where e has the errors listed above. So B bounds every computation whose errors
//     are these, and is no linear estimate. Coq has not checked this argument.
//
// An element is unknown if an intermediate value exceeds a sixteenth of the largest number, since
// other forms may overflow there.
//
// The result is intersected with the enclosure of the perturbed values itself. Where a
// derivative does not exist, at a comparison, a rounding to an integer or a root of 0 that the
// errors leave undecided, the value there counts as an error of its own, as large as its
// enclosure.
//
// Comparisons of inputs, and of what is computed from them without rounding, are exact. A
// gather is exact. Matrix products and scatter-adds have the sets of mode Rounded: the usual
// gamma(h)·Σ|a·b|. So do outputs that hold int32. A sum in a ring is exact; only its rounding to
// binary32 and the products by scales have errors.

// StableOptions configures EncloseStable.
type StableOptions struct {
	Params []float64 // in the order of Definition.Params
	Accum  def.Accum // contractions

	// Order is the order of every sum; it limits the heights. The zero value is any order.
	Order def.Order

	// FunctionULP is the least error of functions, in ulps.
	FunctionULP float64

	// CountSteps adds the rounding of every sum, difference and product of the definition:
	// u·|dy/dv|·|v| for each such value v. It is for definitions that state a form in which the
	// operation is computed, not its mathematics alone. Declared roundings of values that such a
	// definition does not name are left out.
	CountSteps bool

	// Declares has the declared roundings, flushed subnormals and raw parameters, and the
	// errors of functions if Errors is nil.
	Declares promise.Declaration

	// Errors returns the error of a function by name (promise.Declaration.Functions), as
	// declared or else that of the profile; nil stands for the errors that Declares lists and
	// those of no profile.
	Errors func(function string) promise.Error

	// Allow returns an additional absolute error that is allowed for one element of an output,
	// given by the position of its operand; nil allows none.
	Allow func(operand, row, col int) float64

	// Context ends an evaluation early, with its error; nil never ends.
	Context context.Context
}

// sumKind distinguishes the sums of a rowwise definition, which differ in length.
type sumKind int

const (
	rowSums sumKind = iota
	columnSums
	totalSums
	sumKinds
)

// Stable holds the results that the promise stable admits for every element of every output.
type Stable struct {
	call    *call
	o       StableOptions
	outputs map[int]*stableOutput // by operand, of rowwise definitions
	shapes  [sumKinds]shape       // of the sums that there are
	sums    *stableSums           // instead, of other definitions
	ints    *Result               // of mode Rounded, if an output holds int32
}

// stableOutput holds one output, row after row. The error of an element is
// fixed + Σ slopes·shape.factor, without the last rounding of y and StableOptions.Allow.
type stableOutput struct {
	exact  []ball.Ball
	box    []ball.Ball // of all perturbed values, at the largest heights
	fixed  []float64
	slopes [sumKinds][]float64 // Σ |dy/ds|·Σ|terms of s|; nil without such sums
	words  []uint32            // by which a value is rounded when it is stored; nil if it is rounded to nearest
	joint  []jointSum          // of an output with many elements in a row, by the sums over the row
	terms  []float64           // of an output of column sums that are not too large, row after row
}

// EncloseStable returns the results that the promise stable admits for d on its operands, in
// the order of Definition.Operands. Inputs must not change while the result is in use.
func EncloseStable(d *def.Definition, operands []num.Array, o StableOptions) (*Stable, error) {
	k, err := newCall(d, operands, Options{
		Params: o.Params, Accum: o.Accum, Order: &o.Order, FunctionULP: o.FunctionULP, Mode: Exact, Context: o.Context,
	})
	if err != nil {
		return nil, err
	}
	if err := o.Order.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	if d.IsExact() {
		return nil, fmt.Errorf("%s: results are exact, and admit one value each: promise bits", d.Name)
	}
	s := &Stable{o: o, call: k}
	return s, k.form.encloseStable(s)
}

// index returns the position of an element in its output.
func (s *Stable) index(operand, row, col int) int { return row*s.call.operands[operand].Cols + col }

// Known reports whether an element has a set. It has none where the exact result is unknown, or
// where the perturbed computation may overflow or leave the domain of a function.
func (s *Stable) Known(operand, row, col int) bool {
	switch i := s.index(operand, row, col); {
	case s.sums != nil:
		return s.sums.at(i, row, col, math.MaxInt).Known()
	case s.outputs[operand] == nil:
		return true
	default:
		return s.outputs[operand].exact[i].Known() && s.outputs[operand].box[i].Known()
	}
}

// MostHeight returns the largest height of any sum, from which on sets do not grow.
func (s *Stable) MostHeight() int {
	if s.sums != nil {
		return s.sums.mostHeight()
	}
	h := 0
	for _, z := range s.shapes {
		h = max(h, z.height())
	}
	return h
}

// Error returns B for an element, with sums of at most the given height.
func (s *Stable) Error(operand, row, col, height int) float64 {
	i := s.index(operand, row, col)
	if s.sums != nil {
		return Radius(s.sums.at(i, row, col, height), s.sums.exact(i, row, col))
	}
	z := s.outputs[operand]
	if z == nil {
		return 0
	}
	b := z.fixed[i]
	for kind, slopes := range z.slopes {
		if slopes != nil {
			b += float64(slopes[i] * s.shapes[kind].factorAt(height))
		}
	}
	m := math.Abs(z.exact[i].Mid) + z.exact[i].Rad
	return float64((b+float64(stableFactor*unit*(m+b)))*(1+0x1p-48)) + s.allowed(operand, row, col)
}

func (s *Stable) allowed(operand, row, col int) float64 {
	if s.o.Allow == nil {
		return 0
	}
	return s.o.Allow(operand, row, col)
}

// ends returns the ends of an element's set before they are stored, rounded to odd.
func (s *Stable) ends(operand, row, col, height int) (lo, hi float64) {
	i := s.index(operand, row, col)
	if s.sums != nil {
		return s.sums.at(i, row, col, height).Widen(0, s.allowed(operand, row, col)).Endpoints()
	}
	z := s.outputs[operand]
	lo, hi = z.box[i].Widen(stableFactor*unit, s.allowed(operand, row, col)).Endpoints()
	if b := s.Error(operand, row, col, height); b <= math.MaxFloat64 {
		l, h := z.exact[i].Widen(0, b).Endpoints()
		lo, hi = max(lo, l), min(hi, h)
	}
	return lo, hi
}

// Between returns the first and the last stored value that an element may have, with sums of
// at most the given height, which the order and the number of terms limit.
func (s *Stable) Between(operand, row, col, height int) (lo, hi uint32) {
	if s.isInt(operand) {
		return s.ints.Between(operand, row, col)
	}
	d := s.call.operands[operand].DType
	l, h := s.ends(operand, row, col, height)
	if z := s.outputs[operand]; z != nil && z.words != nil {
		word := z.words[s.index(operand, row, col)]
		stored := func(end float64) uint32 { return num.Narrow(d, num.StochasticRound(d, float32(end), word)) }
		return stored(l), stored(h)
	}
	return num.NarrowF64(d, l), num.NarrowF64(d, h)
}

// Admits reports whether an element may have a stored value, with sums of at most the given
// height. NaN is never admitted, nor is anything for an unknown element.
func (s *Stable) Admits(operand, row, col, height int, bits uint32) bool {
	if s.isInt(operand) {
		return s.ints.Admits(operand, row, col, bits)
	}
	d := s.call.operands[operand].DType
	if num.IsNaN(d, bits) || !s.Known(operand, row, col) {
		return false
	}
	lo, hi := s.Between(operand, row, col, height)
	k := num.Index(d, bits)
	return num.Index(d, lo) <= k && k <= num.Index(d, hi)
}

// Count returns the number of values that Admits accepts for a known element; zeros count
// once.
func (s *Stable) Count(operand, row, col, height int) int64 {
	if s.isInt(operand) {
		return s.ints.Count(operand, row, col)
	}
	lo, hi := s.Between(operand, row, col, height)
	return num.Distance(s.call.operands[operand].DType, lo, hi) + 1
}

// Height returns the least height of sums with which an element may have a stored value; ok
// is false if there is none.
func (s *Stable) Height(operand, row, col int, bits uint32) (least int, ok bool) {
	most := s.MostHeight()
	if !s.Admits(operand, row, col, most, bits) {
		return 0, false
	}
	return sort.Search(most, func(h int) bool { return s.Admits(operand, row, col, h, bits) }), true
}

// Ints returns the possible values of an element of an int32 output, ascending.
func (s *Stable) Ints(operand, row, col int) []int32 { return s.ints.Ints(operand, row, col) }

func (s *Stable) isInt(operand int) bool { return s.call.d.Operands[operand].IsInt() }

// At returns the enclosure of the exact result. For an int32 it is the hull of its possible
// values.
func (s *Stable) At(operand, row, col int) ball.Ball {
	i := s.index(operand, row, col)
	switch {
	case s.isInt(operand):
		return s.ints.At(operand, row, col)
	case s.sums != nil:
		return s.sums.exact(i, row, col)
	}
	return s.outputs[operand].exact[i]
}

// Exact returns the result of Enclose in mode Exact, which EncloseStable computes as well. It is
// nil if an output holds int32.
func (s *Stable) Exact() *Result {
	k := *s.call
	k.Options = Options{Params: k.Params, Accum: k.Accum, Context: k.Context, Mode: Exact}
	r := &Result{call: &k, sets: make([][]set, len(k.d.Operands)), enclosures: make([][]ball.Ball, len(k.d.Operands))}
	switch {
	case s.ints != nil:
		return nil
	case s.sums != nil:
		at := s.sums.form.result()
		cols := k.operands[at].Cols
		r.enclosures[at] = make([]ball.Ball, len(s.sums.sums))
		for i := range r.enclosures[at] {
			r.enclosures[at][i] = s.sums.exact(i, i/cols, i%cols)
		}
	}
	for i, z := range s.outputs {
		r.enclosures[i] = z.exact
	}
	return r
}
