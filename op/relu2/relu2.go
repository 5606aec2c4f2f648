package relu2

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/tensor"
)

// ForwardDefinition is max(x, 0) squared.
var ForwardDefinition = def.Must(def.Rowwise("relu2.forward", func(b *def.Builder) {
	positive := b.In("x").Max(def.Zero)
	b.Out("y", positive.Mul(positive), def.Like("x"))

	b.Formula("y = max(x, 0)^2")
	b.Clauses(
		"any shape; rows may be strided",
		"NaN gives NaN, +Inf gives +Inf, -Inf gives +0",
		"x <= 0 gives +0, also for -0",
		"a square too large for its format is infinite; subnormals are kept",
		"y may be x itself; any other overlap is refused",
	)
}))

// BackwardDefinition is dy·2·max(x, 0). The sum p + p is exact below 2^127, from where on y is
// infinite; doubled last, a subnormal dx would be off by twice as much.
var BackwardDefinition = def.Must(def.Rowwise("relu2.backward", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	positive := x.Max(def.Zero)
	b.Out("dx", dy.Mul(positive.Add(positive)), def.Like("dy"))

	b.Usually(doubledFirst, doubledLast)
	b.Formula("dx = dy * 2 * max(x, 0)")
	b.Clauses(
		"any shape; rows may be strided",
		"a NaN in dy or x gives NaN, also a NaN in dy where x <= 0",
		"x = +Inf gives an infinity with the sign of dy, or NaN where dy is zero",
		"an infinite dy gives an infinity with its sign for x > 0, and NaN for x <= 0, where the derivative is zero",
		"x <= 0 gives a zero with the sign of dy, also for -Inf and both zeros, for finite dy",
		"a dx too large for its format is infinite, and so is 2*x where binary32 has no such number: from x = 2^127 on; subnormals are kept",
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
