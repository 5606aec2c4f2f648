// Package exact computes sums and dot products of stored values exactly and rounds
// them once.
//
//	Round     init + Σ a[k]*b[k], correctly rounded to a storage format
//	Float64   the same in plain float64, with a bound of its error and Σ|a[k]*b[k]|
//	Big       the same as an exact big.Float
//	SumF16    an exact accumulator of up to 2^39 stored values, fast for f16
//
// Products of two binary32 numbers are exact in float64 (48 bits, exponents between
// -298 and 256), so only additions can round. Round tries methods in order of cost and
// stops at the first that determines the result:
//
//  1. float64 with the bound of its error. If all terms are integer multiples of one
//     unit and Σ|terms| is at most 2^53 units, there was no error at all.
//  2. a float64 sum and a sum of integers modulo 2^64: one knows the high part, the
//     other the low part, together they are the exact integer.
//  3. double-double: every addition's error is kept.
//  4. math/big.
//
// On ordinary data step 1 decides all f16 and bf16 results and 99 of 100 f32 results.
// Reading order: product.go, round.go, twoadic.go, doubledouble.go.
package exact
