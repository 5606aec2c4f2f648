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
// declare nothing are held to the strictest reading. A [Profile] holds the errors that the
// functions of a family of kernels are documented to have; form.go says how the error of one
// function counts for another that it stands for.
package promise

import (
	"fmt"
	"slices"
	"strings"
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
