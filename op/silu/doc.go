// Package silu computes the sigmoid linear unit, also called swish, and its gradient.
//
//	y  = x * sigmoid(x) = x / (1 + exp(-x))
//	dx = dy * (s + x*s*(1-s)),  s = sigmoid(x)
//
// # How it is computed
//
// With a = |x| and one exponential that cannot overflow,
//
//	e = exp(-a),  r = 1/(1+e)
//	y = x*r for x >= 0,  -(a*e)*r for x < 0
//
// and with h = r*a the gradient is dy times
//
//	r*fma(e, h, 1) for x >= 0,  r*fma(-e, h, e) for x < 0
//
// where only the zero of the derivative, near x = -1.28, cancels. a is limited to 128, where e
// is already zero, so that infinities do not give 0*Inf. Arithmetic is binary32, and the result
// is rounded once when it is stored. Package swiglu computes with the same [Unit]: with an up of
// 1 its results are these.
//
// # silu.forward
//
//	y = x * sigmoid(x) = x / (1 + exp(-x))
//
//	operand  shape  dtypes        note
//	x        any    f16 bf16 f32
//	y        any    as x          fully written; may be x itself
//
//	C1  any shape; rows may be strided
//	C2  NaN gives NaN
//	C3  +Inf gives +Inf, -Inf gives -0
//	C4  +0 gives +0, -0 gives -0
//	C5  x >= 17 gives x itself, x <= -104 gives -0
//	C6  y has the sign of x and is not larger, so nothing overflows; subnormals are kept, and a subnormal x gives x/2, or one of its two neighbours if x/2 is not in the format
//	C7  y may be x itself; any other overlap is refused
//
// # silu.backward
//
//	dx = dy * (s + x*s*(1-s)),  s = sigmoid(x)
//
//	operand  shape  dtypes        note
//	dy       any    f16 bf16 f32
//	x        any    as dy
//	dx       any    as dy         fully written; may be dy or x itself
//
//	C1  any shape; rows may be strided
//	C2  a NaN in dy or x gives NaN
//	C3  x = +Inf gives dy, x = -Inf gives a zero with the sign of dy, for finite dy
//	C4  an infinite dy gives an infinity with the sign of the result, or NaN where the derivative is zero
//	C5  x = +0 and x = -0 give dy/2
//	C6  x >= 20 gives dy itself, x <= -104 a zero with the sign of dy, for finite dy
//	C7  the derivative is in [-0.1, 1.1], so only a dy near the end of its range overflows, to an infinity; subnormals are kept
//	C8  dx may be dy or x itself; any other overlap is refused
package silu
