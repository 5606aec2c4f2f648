package engine

import (
	"cmp"

	"tokitai/def"
	"tokitai/num"
	"tokitai/promise"
)

// Promise is what a lowering claims about its results, which the engine tests before the first
// use and package verify at length. The zero Promise claims the reference's bits, with matrix
// products accumulated by fma.
type Promise struct {
	// Name says which results are admissible: the reference's bits (Default stands for Bits),
	// or the sets of package promise. Policy Same chooses lowerings that promise bits.
	//
	// A lowering that promises Ordered gives a result that correctly rounded binary32
	// arithmetic could give if it summed in Order. If Accum is the rule of a tensor core, it
	// gives a result of that rule's steps and of binary32 additions in any order. Self-tests
	// check that every element is in the set; an element that depends on a NaN or an infinity
	// must have the reference's class.
	Name promise.Name

	// Accum is the accumulation rule of a contraction, which the reference follows.
	Accum def.Accum

	// AccumFor returns the rule if it depends on the call; nil stands for Accum. Where it is
	// set, Accum takes the same formats as the rules that it returns. Its arguments are all
	// that a rule may depend on: the device's architecture, the operands' formats, the
	// result's columns, and the length of the sums. The number of rows, strides and alignment
	// are not among them: the bits of a row must not depend on the rest of the batch.
	AccumFor func(architecture string, dtypes []num.DType, columns, length int) def.Accum

	// The rest widens or narrows the sets of Ordered and Stable.

	// Order is the order of sums; the zero Order is any.
	Order def.Order

	// Declares is what the author says about the arithmetic, besides the order of sums.
	Declares promise.Declaration

	// FunctionULP is the worst error of transcendental functions, in ulps of binary32; 0 means
	// the error that the definition promises.
	FunctionULP float64

	// IsIEEE says, under Ordered, that every step of the definition is computed with correct
	// rounding, and only the order of sums and functions differ. Results in f32 must then be in
	// a narrower set.
	IsIEEE bool
}

// Named returns the promise's name: Bits for Default.
func (p *Promise) Named() promise.Name { return cmp.Or(p.Name, promise.Bits) }

// IsBits reports whether the promise is the reference's bits.
func (p *Promise) IsBits() bool { return p.Named() == promise.Bits }

// AccumOf returns the accumulation rule for operands of the given formats and sizes, by
// the letters of the definition, on a device of an architecture.
func (p *Promise) AccumOf(architecture string, d *def.Definition, dtypes []num.DType, size func(letter string) int) def.Accum {
	if p.AccumFor == nil || !d.Multiplies() {
		return p.Accum
	}
	return p.AccumFor(architecture, dtypes, size(d.AxisOf(def.Column)), size(d.SummedOver()))
}
