package swiglu

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/op/silu"
	"tokitai/tensor"
)

// ForwardDefinition is silu(gate)·up.
var ForwardDefinition = def.Must(def.Rowwise("swiglu.forward", func(b *def.Builder) {
	gate, up := b.In("gate"), b.In("up", def.Like("gate"))
	b.Out("y", silu.Of(gate).Value().Mul(up), def.Like("gate"))

	b.Formula("y = silu(gate) * up,  silu(g) = g * sigmoid(g) = g / (1 + exp(-g))")
	b.Clauses(
		"any shape; rows may be strided",
		"a NaN in gate or up gives NaN",
		"gate = +Inf gives an infinity with the sign of up, or NaN where up is zero; gate = -Inf gives a zero with the sign of -up, for finite up",
		"an infinite up gives an infinity with the sign of gate*up, or NaN where gate is zero or so far below zero that silu(gate) is: from -104 on",
		"a zero gate gives a zero with the sign of gate*up, for finite up",
		"gate >= 17 gives gate*up, gate <= -104 a zero with the sign of -up, for finite up",
		"a y too large for its format is infinite; subnormals are kept",
		"y may be gate or up itself; any other overlap is refused",
	)
}))

// BackwardDefinition is dy·up·silu' and dy·silu.
var BackwardDefinition = def.Must(def.Rowwise("swiglu.backward", func(b *def.Builder) {
	dy, gate, up := b.In("dy"), b.In("gate", def.Like("dy")), b.In("up", def.Like("dy"))
	unit := silu.Of(gate)
	b.Out("dgate", dy.Mul(up.Mul(unit.Slope())), def.Like("dy"))
	b.Out("dup", dy.Mul(unit.Value()), def.Like("dy"))

	b.Usually(expanded, derivativeFirst)
	b.Formula(
		"dgate = dy * up * (s + gate*s*(1-s)),  s = sigmoid(gate)",
		"dup   = dy * gate * s",
	)
	b.Clauses(
		"any shape; rows may be strided",
		"a NaN in dy or gate gives NaN in both, one in up in dgate",
		"gate = +Inf gives dgate = dy*up, and in dup an infinity with the sign of dy, or NaN where dy is zero; gate = -Inf gives zeros, with the signs of dy*up and of -dy; all for finite dy and up",
		"an infinite dy gives infinities with the signs of the results, or NaN where silu or its derivative is zero, and in dgate where up is; an infinite up the same in dgate",
		"a zero gate gives dgate = dy*up/2, and in dup a zero with the sign of dy*gate, for finite dy and up",
		"gate >= 20 gives dgate = dy*up and dup = dy*gate; gate <= -104 gives zeros, with the signs of dy*up and of -dy; all for finite dy and up",
		"the derivative of silu is in [-0.1, 1.1]; results too large for their format are infinite, and up times the derivative counts as infinite where binary32 has no such number; subnormals are kept",
		"dgate and dup may each be dy, gate or up itself, but not both the same; any other overlap is refused",
	)
}))

// Forward computes y from gate and up. y may be either of them.
func Forward(q *engine.Queue, y, gate, up *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, ForwardDefinition, []*tensor.Tensor{gate, up, y}, nil, opts...)
}

// Backward computes dgate and dup from dy and the forward operation's inputs. Each of the two
// may be one of the three.
func Backward(q *engine.Queue, dgate, dup, dy, gate, up *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BackwardDefinition, []*tensor.Tensor{dy, gate, up, dgate, dup}, nil, opts...)
}
