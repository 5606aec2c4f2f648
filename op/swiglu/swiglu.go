package swiglu

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/tensor"
)

// silu(g) = g·σ(g), with one exponential that cannot overflow:
//
//	a = |g|, e = exp(−a), r = 1/(1+e)
//	σ(g) = r for g ≥ 0, e·r for g < 0
//
// a is held at 128, where e is already zero: so the infinities give g, or −0, instead of
// NaN.
var limit = def.Const(128)

// parts are what both directions need.
func parts(gate def.Value) (a, e, r def.Value) {
	a = gate.Abs().Min(limit).As("a")
	e = fn.ExpBounded(a.Neg()).As("e")
	r = fn.RecipBounded(def.One.Add(e)).As("r")
	return
}

// silu is g·σ(g), rounded twice for g < 0 and once above.
func silu(isNegative, gate, a, e, r def.Value) def.Value {
	return def.Select(isNegative, a.Mul(e).Neg(), gate).Mul(r).As("silu")
}

// ForwardDefinition is silu(gate)·up.
var ForwardDefinition = def.Must(def.Rowwise("swiglu.forward", func(b *def.Builder) {
	gate, up := b.In("gate"), b.In("up", def.Like("gate"))
	a, e, r := parts(gate)
	b.Out("y", silu(gate.Less(def.Zero).As("neg"), gate, a, e, r).Mul(up), def.Like("gate"))

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

// derivative is that of silu, σ + g·σ(1−σ), with σ(1−σ) = e·r·r. Factored so that only its
// zero, near g = −1.28, cancels:
//
//	h = r·a
//	g ≥ 0: r·(1 + e·h)      g < 0: r·(e − e·h)
func derivative(isNegative, a, e, r def.Value) def.Value {
	h := r.Mul(a).As("h")
	first := def.Select(isNegative, e, def.One)
	second := def.Select(isNegative, e.Neg(), e)
	return r.Mul(def.FMA(second, h, first)).As("slope")
}

// BackwardDefinition is dy·up·silu' and dy·silu.
var BackwardDefinition = def.Must(def.Rowwise("swiglu.backward", func(b *def.Builder) {
	dy, gate, up := b.In("dy"), b.In("gate", def.Like("dy")), b.In("up", def.Like("dy"))
	a, e, r := parts(gate)
	isNegative := gate.Less(def.Zero).As("neg")
	slope := derivative(isNegative, a, e, r)
	b.Out("dgate", dy.Mul(up.Mul(slope)), def.Like("dy"))
	b.Out("dup", dy.Mul(silu(isNegative, gate, a, e, r)), def.Like("dy"))

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
