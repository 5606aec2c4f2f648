// Package relu2 computes squared rectified linear units and their gradient.
//
//	y  = max(x, 0)^2
//	dx = dy * 2 * max(x, 0)
//
// Arithmetic is binary32: the maximum and its double are exact, the product is rounded once, and
// the result once more when it is stored. Nothing is selected, so a NaN in dy reaches dx where x
// is negative; PyTorch's relu masks it there.
//
// # relu2.forward
//
//	y = max(x, 0)^2
//
//	operand  shape  dtypes        note
//	x        any    f16 bf16 f32
//	y        any    as x          fully written; may be x itself
//
//	C1  any shape; rows may be strided
//	C2  NaN gives NaN, +Inf gives +Inf, -Inf gives +0
//	C3  x <= 0 gives +0, also for -0
//	C4  a square too large for its format is infinite; subnormals are kept
//	C5  y may be x itself; any other overlap is refused
//
// # relu2.backward
//
//	dx = dy * 2 * max(x, 0)
//
//	operand  shape  dtypes        note
//	dy       any    f16 bf16 f32
//	x        any    as dy
//	dx       any    as dy         fully written; may be dy or x itself
//
//	C1  any shape; rows may be strided
//	C2  a NaN in dy or x gives NaN, also a NaN in dy where x <= 0
//	C3  x = +Inf gives an infinity with the sign of dy, or NaN where dy is zero
//	C4  an infinite dy gives an infinity with its sign for x > 0, and NaN for x <= 0, where the derivative is zero
//	C5  x <= 0 gives a zero with the sign of dy, also for -Inf and both zeros, for finite dy
//	C6  a dx too large for its format is infinite, and so is 2*x where binary32 has no such number: from x = 2^127 on; subnormals are kept
//	C7  dx may be dy or x itself; any other overlap is refused
package relu2
