// Package cpu lowers definitions to programs for any processor, in plain Go. The
// results have the bits of the reference for every shape, stride, alignment and number
// of workers.
//
// The packages below this one generate machine code instead, which is much faster: jit for
// rowwise definitions, matmul for contractions, table for gathers and scatter-adds. Their
// programs are [Program] values too. The programs of this package run where no code can be
// generated, and tests compare generated code with them.
//
// A rowwise definition becomes a vector program: each row goes, in chunks that fit the
// first-level cache, through a short list of instructions, each a tight loop over slices
// (primitive.go). Package lower plans what is computed where; compile.go turns its steps
// into instructions, run.go executes them. A contraction packs its operands into panels
// and carries its accumulators over blocks of the summed index (contraction.go); gathers
// and scatter-adds are in table.go.
//
// The package knows neither memory nor threads: a [Job] is a number of independent items
// that anyone may run, in any order, on any number of workers. Start with [Compile].
package cpu
