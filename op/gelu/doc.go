// Package gelu computes the Gaussian error linear unit in its tanh approximation,
// and by erf, without approximation, and the gradients of both.
//
//	y  = x/2 * (1 + tanh(t/2)) = x * sigmoid(t),  t = 2*sqrt(2/pi) * (x + 0.044715*x^3)
//	dx = dy * (sigmoid(t) + x*sigmoid(t)*(1-sigmoid(t))*dt/dx)
//
//	y  = x * Phi(x) = x/2 * (1 + erf(x/sqrt(2)))
//	dx = dy * (Phi(x) + x*exp(-x^2/2)/sqrt(2*pi))
//
// # How it is computed
//
// The expression with tanh is not used. For negative x, 1 + tanh cancels, and so
// does 1 - tanh^2 in the gradient: below x = -5 only rounding errors are left. The
// logistic form has no such difference. With a = |x| and one exponential that
// cannot overflow,
//
//	e = exp(-t(a)),  r = 1/(1+e)
//	sigmoid(t) = r for x >= 0,  e*r for x < 0
//	sigmoid(t) * (1 - sigmoid(t)) = e*r*r
//
// and with h = r*a*dt/da the gradient is dy times
//
//	r*(1 + e*h) for x >= 0,  r*(e - e*h) for x < 0
//
// where only the zero of the derivative, near x = -0.75, cancels. a is limited to
// 11, where e is already zero, so that large numbers and infinities do not give
// 0*Inf. Arithmetic is binary32, and the result is rounded once when it is stored.
// The error before that is the error of t, some 3 roundings of a number up to 100 in
// the far tail, plus a few roundings. The tests check this bound for every f16 and
// bf16 input against an enclosure of the truth.
//
// 1 + erf cancels for negative x in the same way. With erfcx(z) = exp(z^2)*(1 - erf(z)), which is
// smooth and has no zero,
//
//	e = exp(-a^2/2),  w = erfcx(a/sqrt(2))/2
//	Phi(x) = 1 - e*w for x >= 0,  e*w for x < 0
//
// and with m = a/sqrt(2*pi) - w the gradient is dy times
//
//	1 + e*m for x >= 0,  -e*m for x < 0
//
// Here a is limited to 15. The error is that of a^2/2, one rounding of a number up to 112, plus some
// 14 roundings.
//
// # gelu.forward
//
//	y = x * sigmoid(t),  t = 2*sqrt(2/pi) * (x + 0.044715*x^3)
//	  = x/2 * (1 + tanh(t/2))
//
//	operand  shape  dtypes        note
//	x        any    f16 bf16 f32
//	y        any    as x          fully written; may be x itself
//
//	C1  any shape; rows may be strided
//	C2  NaN gives NaN
//	C3  +Inf gives +Inf, -Inf gives -0
//	C4  +0 gives +0, -0 gives -0
//	C5  x >= 5 gives x itself, x <= -11 gives -0
//	C6  y has the sign of x and is not larger, so nothing overflows; subnormals are kept, and a subnormal x gives x/2, or one of its two neighbours if x/2 is not in the format
//	C7  y may be x itself; any other overlap is refused
//
// # gelu.backward
//
//	dx = dy * (sigmoid(t) + x*sigmoid(t)*(1-sigmoid(t))*dt/dx),  t = 2*sqrt(2/pi) * (x + 0.044715*x^3)
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
//	C6  x >= 5.5 gives dy itself, x <= -11 a zero with the sign of dy, for finite dy
//	C7  the derivative is in [-0.13, 1.13], so only a dy near the end of its range overflows, to an infinity; subnormals are kept
//	C8  dx may be dy or x itself; any other overlap is refused
//
// # gelu.erf.forward
//
//	y = x * Phi(x) = x/2 * (1 + erf(x/sqrt(2)))
//
//	operand  shape  dtypes        note
//	x        any    f16 bf16 f32
//	y        any    as x          fully written; may be x itself
//
//	C1  any shape; rows may be strided
//	C2  NaN gives NaN
//	C3  +Inf gives +Inf, -Inf gives -0
//	C4  +0 gives +0, -0 gives -0
//	C5  x >= 5.5 gives x itself, x <= -14.5 gives -0
//	C6  y has the sign of x and is not larger, so nothing overflows; subnormals are kept, and a subnormal x gives x/2, or one of its two neighbours if x/2 is not in the format
//	C7  y may be x itself; any other overlap is refused
//
// # gelu.erf.backward
//
//	dx = dy * (Phi(x) + x*phi(x)),  Phi(x) = (1 + erf(x/sqrt(2)))/2,  phi(x) = exp(-x^2/2)/sqrt(2*pi)
//
//	operand  shape  dtypes        note
//	dy       any    f16 bf16 f32
//	x        any    as dy
//	dx       any    as dy         fully written; may be dy or x itself
//
//	C1  any shape; rows may be strided
//	C2  a NaN in dy or x gives NaN
//	C3  x = +Inf gives dy, x = -Inf gives a zero with the sign of -dy, for finite dy
//	C4  an infinite dy gives an infinity with the sign of the result, or NaN where the derivative is zero
//	C5  x = +0 and x = -0 give dy/2
//	C6  x >= 6 gives dy itself, x <= -14.5 a zero with the sign of -dy, for finite dy
//	C7  the derivative is in [-0.13, 1.13], so only a dy near the end of its range overflows, to an infinity; subnormals are kept
//	C8  dx may be dy or x itself; any other overlap is refused
package gelu
