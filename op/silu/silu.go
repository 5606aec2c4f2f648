package silu

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/tensor"
)

// ForwardDefinition is x·σ(x).
var ForwardDefinition = def.Must(def.Rowwise("silu.forward", func(b *def.Builder) {
	b.Out("y", Of(b.In("x")).Value(), def.Like("x"))

	b.Formula("y = x * sigmoid(x) = x / (1 + exp(-x))")
	b.Clauses(
		"any shape; rows may be strided",
		"NaN gives NaN",
		"+Inf gives +Inf, -Inf gives -0",
		"+0 gives +0, -0 gives -0",
		"x >= 17 gives x itself, x <= -104 gives -0",
		"y has the sign of x and is not larger, so nothing overflows; subnormals are kept, and a subnormal x gives x/2, or one of its two neighbours if x/2 is not in the format",
		"y may be x itself; any other overlap is refused",
	)
}))

// BackwardDefinition is dy times the derivative of silu.
var BackwardDefinition = def.Must(def.Rowwise("silu.backward", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	b.Out("dx", dy.Mul(Of(x).Slope()), def.Like("dy"))

	b.Usually(expanded)
	b.Formula("dx = dy * (s + x*s*(1-s)),  s = sigmoid(x)")
	b.Clauses(
		"any shape; rows may be strided",
		"a NaN in dy or x gives NaN",
		"x = +Inf gives dy, x = -Inf gives a zero with the sign of dy, for finite dy",
		"an infinite dy gives an infinity with the sign of the result, or NaN where the derivative is zero",
		"x = +0 and x = -0 give dy/2",
		"x >= 20 gives dy itself, x <= -104 a zero with the sign of dy, for finite dy",
		"the derivative is in [-0.1, 1.1], so only a dy near the end of its range overflows, to an infinity; subnormals are kept",
		"dx may be dy or x itself; any other overlap is refused",
	)
}))

// Forward computes y from x. They may be the same tensor.
func Forward(q *engine.Queue, y, x *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, ForwardDefinition, []*tensor.Tensor{x, y}, nil, opts...)
}

// Backward computes dx from dy and the forward operation's input. dx may be either of them.
func Backward(q *engine.Queue, dx, dy, x *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BackwardDefinition, []*tensor.Tensor{dy, x, dx}, nil, opts...)
}
