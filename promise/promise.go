// Package promise names what a kernel promises about its results, and holds what its author
// declares about the arithmetic inside.
//
// There are three promises. Under [Bits] every output has the reference's bits. Under
// [Ordered] every output is one that the definition's own steps give in correctly rounded
// binary32, with sums in a declared order. Under [Stable] every output is as close to the exact
// result as that of some kernel, in any form, whose inputs, function results and sums each have
// a small relative error (package truth, stable.go, has the inequality).
//
// A [Declaration] widens the sets of admissible results by exactly what it says. Kernels that
// declare nothing are held to the strictest reading. A [Profile] holds the errors that the
// functions of a family of kernels are documented to have.
//
// Kernels need not call the functions that the definition calls: exp(x) may be exp2(x·log2 e),
// a quotient a product with a reciprocal, the logistic function (1+tanh(x/2))/2. The sets rest
// on this rule ([Declaration.Error]): the error of a function of the definition is the widest of
//
//   - its own: declared, or else that of the profile;
//   - that of every form that computes it through a function whose error is declared, which is
//     the sum of the effects of the parts' errors and of the form's own roundings on the result
//     (form.go lists the forms, with proofs);
//   - in a named profile, unless it is declared itself: that of a quotient as a product with a
//     reciprocal, and of square roots through reciprocal ones.
//
// So tanh=2^-11 gives the definition of GELU, which calls exp and a reciprocal, an absolute
// error of 2^-10 of exp and of 2^-12 of the reciprocal, and every kernel through such a tanh is
// admitted. [Declaration.Check] refuses a function that occurs in no form of the definition's
// functions.
package promise

import (
	"fmt"
	"slices"
	"strings"
)

// Name is a promise.
type Name uint8

const (
	// Default leaves it open: a lowering then promises Bits.
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
