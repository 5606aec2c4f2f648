// Package softmax turns the rows of a matrix into probabilities, and computes the
// gradient of that.
//
//	y[r,c]  = exp(x[r,c] - max) / sum exp(x[r,c] - max)
//	dx[r,c] = y[r,c] * (dy[r,c] - sum dy[r,c]*y[r,c])
//
// # How it is computed
//
// Arithmetic is binary32, and the result is rounded once when it is stored. The
// forward operation subtracts the row's maximum, so that no exponential overflows
// and the largest is exactly 1, adds the exponentials, and multiplies each of them
// by one reciprocal of the sum per row:
//
//	e = exp(x - max)        one rounding in the difference, at most 1 ulp in exp
//	y = e * (1 / sum e)     three roundings, then the one to storage
//
// Rounding e to storage before dividing, as is often done, would round twice and
// leave small probabilities only the few bits of a subnormal. The backward
// operation uses y as it was stored, because the rest of the model saw those values.
//
// The order of a sum depends on C alone (num.RowLanes), so the result depends
// neither on the device nor on the number of threads.
//
// # softmax.forward
//
//	y[r,c] = exp(x[r,c] - max) / sum exp(x[r,c] - max)
//
//	operand  shape  dtypes        note
//	x        R,C    f16 bf16 f32
//	y        R,C    as x          fully written; may be x itself
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided
//	C2  a NaN in a row makes the row NaN
//	C3  +Inf in a row makes the row NaN
//	C4  -Inf gives +0, unless the whole row is -Inf, which gives NaN
//	C5  exp(0) = 1 exactly: a row of C <= 2^24 equal finite elements gives 1/C, rounded to binary32, then to storage
//	C6  a finite row gives values in [0, 1], however far apart its elements are; small results are subnormal, and the smallest +0
//	C7  +0 and -0 give the same result, and subnormals are kept
//	C8  y may be x itself; any other overlap is refused
//
// # softmax.backward
//
//	dx[r,c] = y[r,c] * (dy[r,c] - sum dy[r,c]*y[r,c])
//
//	operand  shape  dtypes        note
//	dy       R,C    f16 bf16 f32
//	y        R,C    as dy
//	dx       R,C    as dy         fully written; may be dy or y itself
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided
//	C2  a NaN in a row of dy or y makes the row NaN
//	C3  an infinity in a row of dy or y, or a sum that overflows, makes every element of the row infinite or NaN
//	C4  y = 0 gives a zero where dy and the sum are finite; subnormals are kept, and a result too large for its format is infinite
//	C5  dx may be dy or y itself; any other overlap is refused
package softmax
