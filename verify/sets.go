package verify

import (
	"context"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num"
	"tokitai/promise"
	"tokitai/trial"
	"tokitai/truth"
)

// A promise determines which values an output may have. The code that compares outputs asks for
// the set of an element, and does not know from which promise it follows.

// sets returns the admissible values of a tile's outputs.
type sets interface {
	at(operand, row, col int) set
}

// set holds the admissible values of one element.
type set struct {
	isOpen   bool    // every value is in the set
	isBits   bool    // it is one pattern of bits
	orNaN    bool    // NaN is in the set, besides the others
	noNumber bool    // NaN and the infinities are in the set, besides the others
	isOnGrid bool    // every honest kernel agrees on its one value
	lo, hi   uint64  // the least and the greatest value
	ints     []int32 // instead, of an int32 that may have several
	count    int64   // the number of values; 0 if it is only a class of values, such as all that are finite
	plain    *set    // the values that need no allowance of a profile; nil if all of them need none
	why      string  // what a value outside of the set contradicts; "" if it is the set itself
}

// anyInt32 is the number of values of an int32 that nothing is known of.
const anyInt32 = 1 << 32

// oneValue returns the set of one value; both zeros count as one.
func oneValue(bits uint64) set { return set{lo: bits, hi: bits, count: 1} }

// has reports whether a value is in the set.
func (s *set) has(rule trial.Rule, d num.DType, x uint64) bool {
	switch {
	case s.isOpen || s.orNaN && num.IsNaN(d, x):
		return true
	case s.noNumber && (num.IsNaN(d, x) || math.IsInf(float64(num.Value(d, x)), 0)):
		return true
	case s.ints != nil:
		return slices.Contains(s.ints, int32(x))
	case s.isBits || rule == trial.Patterns || num.IsNaN(d, s.lo):
		return rule.Same(d, x, s.lo)
	case num.IsNaN(d, x):
		return false
	}
	at := num.Index(d, x)
	return num.Index(d, s.lo) <= at && at <= num.Index(d, s.hi)
}

// answerSets has the sets of promise bits, each of which holds only the answer.
type answerSets struct{ v *view }

func (s answerSets) at(operand, row, col int) set {
	y := s.v.answer[operand].Bits64(row, col)
	return set{isBits: true, lo: y, hi: y, count: 1}
}

// enclosure returns the values that honest arithmetic may give for finite inputs.
type enclosure interface {
	// known returns the set of an element; ok is false where arithmetic may overflow or leave
	// the domain of a function, or an input is no number.
	known(operand, row, col int) (s set, ok bool)

	// errorAt returns the largest error that the set of an element admits before it is rounded.
	errorAt(operand, row, col int) float64

	// describe records properties of all sets of an output.
	describe(operand int, t *tally)
}

// boundedSets has the sets of promises ordered and stable. For copies, and for values whose sums
// are exact in every order, a set holds only the answer.
type boundedSets struct {
	v *view
	enclosure
	class *class
}

func (s boundedSets) at(operand, row, col int) set {
	if s.v.isOne(operand, row, col) {
		one := oneValue(s.v.answer[operand].Bits64(row, col))
		one.isOnGrid = s.v.isOnGrid(operand, row, col)
		return one
	}
	if known, ok := s.known(operand, row, col); ok {
		known.noNumber = s.class.mayOverflow(operand, row, col)
		known.orNaN = isAmong(s.class.alsoNaN, operand, row, col)
		return known
	}
	return s.class.at(operand, row, col)
}

// isOne reports whether every honest kernel gives the answer's value: for copies, and on a grid.
func (v *view) isOne(operand, row, col int) bool {
	return v.target.Definition.Copies() || v.isOnGrid(operand, row, col)
}

// ordered encloses what the definition's own steps give with sums in the declared order.
type ordered struct {
	*truth.Result
	d *def.Definition
	v *view
}

func (o ordered) errorAt(operand, row, col int) float64 {
	return truth.Radius(o.At(operand, row, col), o.v.exact.At(operand, row, col))
}

func (o ordered) describe(int, *tally) {}

func (o ordered) known(operand, row, col int) (set, bool) {
	if !o.At(operand, row, col).Known() {
		return set{}, false
	}
	s := set{count: o.Count(operand, row, col)}
	lo, hi := o.Between(operand, row, col)
	if s.lo, s.hi = uint64(lo), uint64(hi); o.d.Operands[operand].IsInt() && s.count > 1 {
		s.ints, s.isOpen = o.Ints(operand, row, col), s.count == anyInt32
	}
	return s, true
}

// enclosureOf returns the admissible values of a tile's outputs, for finite inputs, under the
// promise of a bounded lowering.
func (v *view) enclosureOf(ctx context.Context) (enclosure, error) {
	var err error
	if v.grid, err = v.findGrid(ctx); err != nil {
		return nil, err
	}
	if v.target.Promised() == promise.Stable {
		return v.stableOf(ctx)
	}
	return v.orderedOf(ctx, v.ordered(ctx))
}

func (v *view) orderedOf(ctx context.Context, o truth.Options) (enclosure, error) {
	rounded, err := truth.Enclose(v.target.Definition, v.inputs, o)
	return ordered{rounded, v.target.Definition, v}, err
}

// declaresFunctions reports whether the lowering declares errors of functions, by itself or by its
// profile.
func (t *Target) declaresFunctions() bool {
	l := t.Lowering
	return l.Promise.FunctionULP > 0 || len(l.Promise.Declares.Functions) > 0 || l.Promise.Declares.Profile != ""
}

// plainOf returns the enclosure that the lowering would have if it declared no functions.
func (v *view) plainOf(ctx context.Context) (enclosure, error) {
	plain := *v.target.Lowering
	plain.Promise.FunctionULP, plain.Promise.Declares.Functions, plain.Promise.Declares.Profile = 0, nil, ""
	if v.target.Promised() == promise.Stable {
		forms, err := truth.EncloseStableForms(v.target.forms(), v.inputs, plain.StableOptions(ctx, v.l.params, v.l.lossy()))
		return &stable{v: v, forms: forms, heights: v.known.(*stable).heights}, err
	}
	options := v.ordered(ctx)
	options.FunctionULP = 0
	return v.orderedOf(ctx, options)
}

// declaredError returns the error of an element that declared functions may add to that of a kernel
// which declares none.
func (v *view) declaredError(operand, row, col int) float64 {
	if v.plain == nil {
		return 0
	}
	if more := v.known.errorAt(operand, row, col) - v.plain.errorAt(operand, row, col); more > 0 && !math.IsInf(more, 0) {
		return more
	}
	return 0
}

// ordered returns the options under which the definition's own steps are enclosed, with sums in
// the declared order.
func (v *view) ordered(ctx context.Context) truth.Options {
	l := v.target.Lowering
	return truth.Options{
		Params: v.l.params, Accum: v.l.accum(), Context: ctx, Mode: truth.Rounded,
		Order: &l.Promise.Order, FunctionULP: l.Promise.FunctionULP, IsIEEE: l.Promise.IsIEEE,
	}
}
