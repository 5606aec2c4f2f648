// Package prove writes proofs about the functions of definitions, and models of definitions,
// for Coq, from the nodes and constants of the definitions themselves.
//
// A script has four parts: the expansion of the function, a Coq definition per node, in
// which rnd is the rounding to binary32; lemmas with the error of its polynomial and of its
// roundings, which Coq-Interval proves; the reduction of the argument; and the theorem: the
// largest error in ulps, for every argument of the domain. The text of the function is
// hashed into the script. Change a constant, and the script is another one, whose proof fails
// unless the theorem still holds.
//
// Lemmas that know no function are in proofs/functions: Binary32.v and Patterns.v. A [Script]
// knows the shape of one family of expansions, such as the exponentials, and refuses a function
// that has another shape. What no script proves is checked over all arguments by the tests of package
// fn only; [Status] says which is which.
//
// A [Model] has a Coq definition per node of a definition, as functions of the rounding. The
// theorems about operations are about these models: proofs/Models.v shows that they are equal to
// the forms that the proofs compute with, so that a changed definition fails there.
package prove
