// Package promise names what a kernel promises about its results, and holds what its author
// declares about the arithmetic inside.
//
// There are three promises. Under [Bits] every output has the reference's bits. Under
// [Ordered] every output is one that the definition's own steps give in correctly rounded
// binary32, with sums in a declared order. Under [Stable] every output is as close to the exact
// result as a kernel comes that is written in any form, if each of its inputs, function
// results and sums has a small relative error (package truth, stable.go, has the inequality).
//
// A [Declaration] widens the sets of admissible results by exactly what it says. Kernels that
// declare nothing are held to the strictest reading.
package promise

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/num"
)

// Name is a promise.
type Name uint8

const (
	// Default is Bits for a lowering that is not bounded, Ordered for one that takes the
	// definition's own steps (engine.Lowering.IsIEEE), and Stable for any other.
	Default Name = iota
	Bits
	Ordered
	Stable
)

var names = []string{"default", "bits", "ordered", "stable"}

// Names lists the promises that can be chosen.
func Names() []string { return slices.Clone(names[1:]) }

func (n Name) String() string { return names[n] }

// Parse returns the promise of a name.
func Parse(name string) (Name, error) {
	if i := slices.Index(names, name); i > 0 {
		return Name(i), nil
	}
	return Default, fmt.Errorf("promise %q: want %s", name, strings.Join(names[1:], ", "))
}

// Declaration is what an author says about the arithmetic of a kernel. The zero value says
// nothing.
type Declaration struct {
	// Profile names a family of kernels, whose functions have known errors and some of
	// whose operations have allowances; "" is the profile of no family.
	Profile string

	// Formula names the form in which the operation is computed, where that makes a
	// difference that no rounding explains; "" is the definition's own.
	Formula string

	// Functions has the worst errors of functions by name: exp, exp2, expm1, log, log2,
	// log1p, tanh, sigmoid, erf, sin, cos, sqrt, rsqrt, recip, div. A function that is
	// not listed has the error that the profile says.
	Functions map[string]Error

	// Roundings has the formats to which values that the definition names are rounded, such
	// as p to bf16, besides the roundings of the definition.
	Roundings map[string]num.DType

	// FlushesSubnormals says that subnormal results, and subnormal inputs, may become zeros.
	FlushesSubnormals bool

	// RawParams says that the kernel computes the definition's parameters from those that
	// people set (of AdamW: lr, t) in binary32.
	RawParams bool

	// Omits lists outputs that the kernel does not write.
	Omits []string
}

// Error is the worst error of a function: ULPs + ULPsPerX·|x| units in the last place of the
// true value, or Relative of it, whichever is set; a subnormal value is within as many of the
// smallest.
type Error struct {
	ULPs, ULPsPerX float64
	Relative       float64
}
