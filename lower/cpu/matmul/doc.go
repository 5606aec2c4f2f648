// Package matmul lowers contractions to machine code that is generated for this
// processor.
//
// Every element of a result is a chain of fused multiply-adds in ascending order of the
// summed index, rounded once at the end: model fma. Vectors run across the columns of the
// result, so each lane is one such chain, and a block of the summed index leaves its
// accumulators in binary32 for the next block. Neither blocks nor tiles nor the number of
// workers can change a bit.
//
// A micro-kernel holds a few rows by a few vectors of accumulators in registers. It reads
// the left operand by broadcasts and the right operand by vectors, from any two strides
// each, so the same code multiplies packed panels and operands where they lie. Panels hold
// binary32: f16 and bf16 are widened while they are packed. kernel.go describes the
// pieces of code and what they are called with; the files for amd64 and arm64 generate
// them; plan.go decides how a product is cut; job.go runs it.
package matmul
