// Package num provides the storage formats f16, bf16, f32, e4m3 and e5m2 with their
// conversions and neighbours, and defines every arithmetic step of a definition:
// the binary32 operations that Go lacks or does not guarantee, stochastic rounding
// with its random words, the order of sums, and a model of tensor cores.
//
// It knows nothing else of the project: no definitions, no tensors, no devices. It
// is plain Go on purpose, since kernels are compared with these functions.
//
// All arithmetic is IEEE 754 binary32, rounded to nearest even, with subnormals.
// Reading a stored value is exact; storing one rounds once.
//
// # NaN
//
// The payload of a NaN has no meaning. Widening keeps sign and payload, also of a
// signalling NaN. Narrowing gives a quiet NaN with the sign and the upper payload
// bits. Arithmetic gives any NaN. So before patterns are compared or hashed,
// Canonical replaces every NaN by the canonical one of its format: 0x7E00 (f16),
// 0x7FC0 (bf16), 0x7FC00000 (f32), 0x7F (e4m3), 0x7E (e5m2). Zeros keep their sign everywhere: +0 and -0 are
// different patterns, although Index counts them as one value.
//
// # Where to start
//
// DType and Array describe stored values; Widen and Narrow convert them. arith.go
// defines the operations, lanes.go sums, mma.go matrix products on tensor cores,
// round.go and philox.go stochastic rounding. ulp.go measures the distance between
// stored values.
package num
