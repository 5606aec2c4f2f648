// Package fn holds the transcendental functions that definitions use. Each is a
// [def.Function]: its mathematics, and an expansion into elementary nodes, so that
// the same bits come out on every machine. No mathematical library of any vendor
// takes part.
//
//	function         argument               worst ulp  operations  FMAs
//	exp              every x                     0.86          20     9
//
// The worst error is |result − truth| in units in the last place of the truth, over
// all arguments of the domain: every one of the 2³² patterns has been evaluated and
// compared with an enclosure of the truth (TestExhaustive), and the worst found is
// rounded up. An infinite result counts as 2¹²⁸. Reinterpreting a pattern is not
// counted as an operation; negation, which most machines fold into an FMA, is.
//
// A NaN gives NaN; its pattern carries no meaning, and no result depends on it. That
// is why integers are made only of patterns whose companion in the same product or
// FMA is NaN already.
//
// Lean variants with a smaller domain (ExpNonPositive, ExpBounded, RecipBounded) have
// the same bits as the full function inside it, or nearly: they are for expressions
// that bound their argument anyway. What they give outside is written down, not
// undefined.
//
// Read exp.go first: the reduction of the argument there recurs. Constants are in
// coefficients.go, which TestCoefficients derives again: minimax polynomials with
// binary32 coefficients by Remez' exchange (minimax_test.go).
package fn
