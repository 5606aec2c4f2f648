// Package norm computes the norm of all gradients of a model together: the sum of
// their squares, its square root, and the factor that clips it.
//
//	total  = sum x^2 over every element of every tensor
//	norm   = sqrt(total)
//	factor = norm > max_norm ? max_norm/norm : 1
//
// # How it is computed
//
// In binary32. Each tensor is divided into flat rows of 65,536 elements, the last
// one shorter. Each flat row is summed like the rows of a matrix, in lanes and a
// binary tree (num.RowLanes); these sums form a row that is summed in the same way,
// and so do the sums of several tensors, in the given order. The result depends on
// the sizes and the order of the tensors, but not on their shapes, row strides, the
// device or the number of threads. Sums of squares do not cancel; the error grows
// with the number of terms in one lane and the height of the trees, at most 43
// roundings of 2^-24 for up to 2^32 elements.
//
// Squares are not scaled: in bf16 and f32 an element of 2^64 or more makes the
// norm infinite and the factor 0. The caller applies the factor, perhaps as part of a
// learning rate or a loss scale.
//
// # norm.square_sum
//
//	total = sum x^2 over every element of every tensor
//
//	operand  shape  dtypes        note
//	x        any    f16 bf16 f32
//	total    one    f32           fully written
//
//	C1  at least one tensor, of any shape; rows may be strided
//	C2  NaN gives NaN; an infinity without NaN gives +Inf
//	C3  the order of the additions depends on the sizes and the order of the tensors alone
//	C4  each square is a binary32: +Inf from |x| = 2^64 on, +0 up to |x| = 2^-75; neither occurs in f16
//	C5  total is at least +0, and +Inf if the sum overflows
//	C6  total may not overlap any tensor; the tensors may overlap each other
//
// # norm.total
//
//	total[r] = sum sums[r,c]
//
//	operand  shape  dtypes  note
//	sums     R,C    f32
//	total    R      f32     fully written
//
//	C1  R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided
//	C2  the sum has the fixed order of a row sum of C columns
//	C3  NaN, or infinities of both signs, give NaN; infinities of one sign, and sums that overflow, that infinity; a zero is +0
//	C4  total may not overlap sums
//
// # norm.clip
//
//	norm = sqrt(total),  factor = norm > max_norm ? max_norm/norm : 1
//
//	operand  shape  dtypes  note
//	total    any    f32
//	norm     any    f32     fully written; may be total itself
//	factor   any    f32     fully written; may be total itself
//
//	C1  max_norm is finite and above 0, also as binary32
//	C2  NaN gives NaN; an infinite norm gives factor +0
//	C3  a norm of at most max_norm gives factor 1 exactly, and no factor is above 1
//	C4  total = -0 gives norm -0 and factor 1, a total below 0 gives NaN; subnormals are kept
//	C5  norm or factor may be total itself; any other overlap is refused
package norm
