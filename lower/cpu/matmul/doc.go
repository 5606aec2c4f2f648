// Package matmul lowers contractions to machine code that is generated for this
// processor.
//
// Every element of a result is a chain of fused multiply-adds in ascending order of the
// summed index, rounded once at the end: rule fma. Vectors run across the columns of the
// result, so each lane is one such chain, and a block of the summed index leaves its
// accumulators in binary32 for the next block. Neither blocks nor tiles nor the number of
// workers can change a bit.
//
// A micro-kernel holds a few rows by a few vectors of accumulators in registers. It reads
// the left operand by broadcasts and the right operand by vectors, at any distance, so the
// same code multiplies packed panels and operands where they lie. Panels hold binary32: f16
// and bf16 are widened while they are packed. Few rows are also multiplied by lines of a
// right operand that lies transposed in memory, in blocks that are transposed in registers.
//
// FP8 is widened in registers, as 16 bits are, but for arm64. Products with scales, and those of FP8
// that are stored in 16 bits, are converted around those that the code computes (converted.go).
//
// Start with plan.go, which decides how a product is cut. job.go runs products that share
// nothing, region.go large ones whose packed operands all workers share, and tile.go what
// both consist of. kernel.go describes the functions that are generated and what they are
// called with; generate.go and the files of each architecture generate them.
package matmul
