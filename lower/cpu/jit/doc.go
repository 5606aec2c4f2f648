// Package jit compiles rowwise definitions to machine code when they are first needed:
// AVX-512, AVX2 or NEON. Results have the bits of the reference and of the interpreter in
// lower/cpu, which stays as its twin and as the fallback.
//
// Package lower plans what is computed where. Here the blocks of a plan become
// instructions over vectors (select.go, and expand.go for what no processor has), the
// values get registers (allocate.go), and the passes become loops in one function that
// computes a range of rows (generate.go). A target knows the instructions of one processor
// (target.go; x86.go, neon.go). Code finds everything it needs in the memory of its worker
// (layout.go). A job divides a call into ranges for the workers and keeps calls into code
// short (job.go).
//
// Start with [Compile].
package jit
