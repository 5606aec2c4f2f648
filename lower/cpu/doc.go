// Package cpu lowers definitions to programs for the host's processor, in plain
// Go. The results have the bits of the reference for every shape, stride,
// alignment and number of workers.
//
// A rowwise definition becomes a vector program: each row goes, in chunks that
// fit the first-level cache, through a short list of instructions, each a tight
// loop over slices (primitive.go). Package lower plans what is computed where;
// compile.go turns its steps into instructions, run.go executes them. A contraction packs its operands into panels and carries
// its accumulators over blocks of the summed index (contraction.go); gathers and
// scatter-adds are in table.go.
//
// The package owns programs and primitives. It knows neither memory nor threads:
// a [Job] is a number of independent items that anyone may run, in any order, on
// any number of workers.
package cpu
