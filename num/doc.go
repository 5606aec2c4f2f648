// Package num owns the numbers: the storage formats f16, bf16 and f32, their
// conversions and neighbours, and the exact meaning of every arithmetic step a
// definition may take: the binary32 operations that Go does not offer with the
// guarantees needed, stochastic rounding with its random words, the shapes of
// sums, and the model of a tensor core.
//
// It knows nothing else of the project: no definitions, no tensors, no devices.
// It is plain Go on purpose, since kernels are held against these functions:
// a vector unit may be faster, but never different.
//
// All arithmetic is IEEE 754 binary32, to nearest even, subnormals kept. A
// stored value is read exactly and written with one rounding.
//
// # NaN
//
// The payload of a NaN carries no meaning. Widening keeps sign and payload, a
// signalling NaN included. Narrowing gives a quiet NaN with the sign and the
// upper payload bits. Arithmetic gives some NaN. So before patterns are compared
// or hashed, Canonical turns every NaN into the one of its format: 0x7E00 (f16),
// 0x7FC0 (bf16), 0x7FC00000 (f32). Zeros keep their sign everywhere: +0 and -0
// are different patterns, though Index counts them as one value.
//
// # Where to start
//
// DType and Array say what is stored; Widen and Narrow are the way in and out.
// arith.go is the meaning of the operations, lanes.go of sums, mma.go of
// matrix products on tensor cores, round.go and philox.go of random rounding;
// ulp.go measures how far two stored values are apart.
package num
