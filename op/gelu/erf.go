package gelu

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/tensor"
)

// GELU without approximation is x·Φ(x), Φ(x) = ½(1 + erf(x/√2)). For negative x that sum cancels. With
//
//	a = |x|, e = exp(−a²/2), w = ½·erfcx(a/√2)
//
// Φ(−a) = e·w is a product. a is held at 15, where e is already zero: so the largest numbers and
// the infinities give x, or −0, instead of NaN.
var (
	rootHalf  = def.Number("sqrt(1/2)")
	density   = def.Number("1/sqrt(2*pi)") // φ(0)
	minusHalf = def.Const(-0.5)
	erfLimit  = def.Const(15)
)

// erfParts are what both directions need.
func erfParts(x def.Value) (a, e, w def.Value) {
	a = x.Abs().Min(erfLimit).As("a")
	e = fn.ExpBounded(a.Mul(a).Mul(minusHalf)).As("e")
	w = fn.ErfcxBounded(a.Mul(rootHalf)).Mul(def.Half).As("w")
	return
}

// ErfForwardDefinition is x·Φ(x).
var ErfForwardDefinition = def.Must(def.Rowwise("gelu.erf.forward", func(b *def.Builder) {
	x := b.In("x")
	a, e, w := erfParts(x)
	b.Out("y", def.Select(x.Less(def.Zero), a.Mul(e).Mul(w).Neg(), x.Mul(def.FMA(e.Neg(), w, def.One))), def.Like("x"))

	b.Formula("y = x * Phi(x) = x/2 * (1 + erf(x/sqrt(2)))")
	b.Clauses(
		"any shape; rows may be strided",
		"NaN gives NaN",
		"+Inf gives +Inf, -Inf gives -0",
		"+0 gives +0, -0 gives -0",
		"x >= 5.5 gives x itself, x <= -14.5 gives -0",
		"y has the sign of x and is not larger, so nothing overflows; subnormals are kept, and a subnormal x gives x/2, or one of its two neighbours if x/2 is not in the format",
		"y may be x itself; any other overlap is refused",
	)
}))

// ErfBackwardDefinition is dy·(Φ + x·φ), with φ = e/√(2π). Only the zero of the derivative cancels:
//
//	m = a/√(2π) − w
//	x ≥ 0: 1 + e·m      x < 0: −e·m
var ErfBackwardDefinition = def.Must(def.Rowwise("gelu.erf.backward", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	a, e, w := erfParts(x)
	m := def.FMA(a, density, w.Neg()).As("m")
	b.Out("dx", dy.Mul(def.Select(x.Less(def.Zero), e.Mul(m).Neg(), def.FMA(e, m, def.One))), def.Like("dy"))

	b.Usually(erfExpanded)
	b.Formula("dx = dy * (Phi(x) + x*phi(x)),  Phi(x) = (1 + erf(x/sqrt(2)))/2,  phi(x) = exp(-x^2/2)/sqrt(2*pi)")
	b.Clauses(
		"any shape; rows may be strided",
		"a NaN in dy or x gives NaN",
		"x = +Inf gives dy, x = -Inf gives a zero with the sign of -dy, for finite dy",
		"an infinite dy gives an infinity with the sign of the result, or NaN where the derivative is zero",
		"x = +0 and x = -0 give dy/2",
		"x >= 6 gives dy itself, x <= -14.5 a zero with the sign of -dy, for finite dy",
		"the derivative is in [-0.13, 1.13], so only a dy near the end of its range overflows, to an infinity; subnormals are kept",
		"dx may be dy or x itself; any other overlap is refused",
	)
}))

// ErfForward computes y from x, without the approximation by tanh. They may be the same tensor.
func ErfForward(q *engine.Queue, y, x *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, ErfForwardDefinition, []*tensor.Tensor{x, y}, nil, opts...)
}

// ErfBackward computes dx from dy and the input of ErfForward. dx may be either of them.
func ErfBackward(q *engine.Queue, dx, dy, x *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, ErfBackwardDefinition, []*tensor.Tensor{dy, x, dx}, nil, opts...)
}
