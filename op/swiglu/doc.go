// Package swiglu computes the gated linear unit with silu, as feed-forward layers of
// transformers have it, and its gradients.
//
//	y     = silu(gate) * up,  silu(g) = g * sigmoid(g)
//	dgate = dy * up * (s + gate*s*(1-s)),  s = sigmoid(gate)
//	dup   = dy * silu(gate)
//
// # How it is computed
//
// With a = |gate| and one exponential that cannot overflow,
//
//	e = exp(-a),  r = 1/(1+e)
//	silu(gate) = gate*r for gate >= 0,  -(a*e)*r for gate < 0
//	y = silu(gate)*up
//
// and with h = r*a the derivative of silu is
//
//	r*fma(e, h, 1) for gate >= 0,  r*fma(-e, h, e) for gate < 0
//	dgate = dy*(up*derivative),  dup = dy*silu(gate)
//
// where only the zero of the derivative, near gate = -1.28, cancels. a is limited to 128,
// where e is already zero, so that infinities do not give 0*Inf. Arithmetic is binary32:
// every operation above is rounded once, and the result once more when it is stored. silu
// is not rounded to the storage format before it is multiplied by up. gate and up may be
// the two halves of one matrix: rows may be strided.
//
// # swiglu.forward
//
//	y = silu(gate) * up,  silu(g) = g * sigmoid(g) = g / (1 + exp(-g))
//
//	operand  shape  dtypes        note
//	gate     any    f16 bf16 f32
//	up       any    as gate
//	y        any    as gate       fully written; may be gate or up itself
//
//	C1  any shape; rows may be strided
//	C2  a NaN in gate or up gives NaN
//	C3  gate = +Inf gives an infinity with the sign of up, or NaN where up is zero; gate = -Inf gives a zero with the sign of -up, for finite up
//	C4  an infinite up gives an infinity with the sign of gate*up, or NaN where gate is zero or so far below zero that silu(gate) is: from -104 on
//	C5  a zero gate gives a zero with the sign of gate*up, for finite up
//	C6  gate >= 17 gives gate*up, gate <= -104 a zero with the sign of -up, for finite up
//	C7  a y too large for its format is infinite; subnormals are kept
//	C8  y may be gate or up itself; any other overlap is refused
//
// # swiglu.backward
//
//	dgate = dy * up * (s + gate*s*(1-s)),  s = sigmoid(gate)
//	dup   = dy * gate * s
//
//	operand  shape  dtypes        note
//	dy       any    f16 bf16 f32
//	gate     any    as dy
//	up       any    as dy
//	dgate    any    as dy         fully written; may be dy or gate or up itself
//	dup      any    as dy         fully written; may be dy or gate or up itself
//
//	C1  any shape; rows may be strided
//	C2  a NaN in dy or gate gives NaN in both, one in up in dgate
//	C3  gate = +Inf gives dgate = dy*up, and in dup an infinity with the sign of dy, or NaN where dy is zero; gate = -Inf gives zeros, with the signs of dy*up and of -dy; all for finite dy and up
//	C4  an infinite dy gives infinities with the signs of the results, or NaN where silu or its derivative is zero, and in dgate where up is; an infinite up the same in dgate
//	C5  a zero gate gives dgate = dy*up/2, and in dup a zero with the sign of dy*gate, for finite dy and up
//	C6  gate >= 20 gives dgate = dy*up and dup = dy*gate; gate <= -104 gives zeros, with the signs of dy*up and of -dy; all for finite dy and up
//	C7  the derivative of silu is in [-0.1, 1.1]; results too large for their format are infinite, and up times the derivative counts as infinite where binary32 has no such number; subnormals are kept
//	C8  dgate and dup may each be dy, gate or up itself, but not both the same; any other overlap is refused
package swiglu
