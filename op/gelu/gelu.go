package gelu

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/tensor"
)

// With t = 2·√(2/π)·(x + 0.044715·x³), GELU is x·σ(t), since ½(1 + tanh(t/2)) is the
// logistic function σ(t). The form through tanh cancels where x is negative;
// this one does not:
//
//	a = |x|, e = exp(−t(a)), r = 1/(1+e)
//	σ(t(x)) = r for x ≥ 0, e·r for x < 0
//
// a is held at 11, where t is 112 and e is already zero: so the largest numbers and the
// infinities give x, or −0, instead of NaN.
var (
	slope = def.Number("2*sqrt(2/pi)")
	cubic = def.Number("2*sqrt(2/pi)*0.044715")
	// t'(a) = slope + tripleCubic·a²
	tripleCubic = def.Number("6*sqrt(2/pi)*0.044715")
	limit       = def.Const(11)
)

// parts are what both directions need.
func parts(x def.Value) (a, square, e, r def.Value) {
	a = x.Abs().Min(limit).As("a")
	square = a.Mul(a).As("a2")
	t := a.Mul(def.FMA(cubic, square, slope)).As("t")
	e = fn.ExpBounded(t.Neg()).As("e")
	r = fn.RecipBounded(def.One.Add(e)).As("r")
	return
}

// ForwardDefinition is x·σ(t).
var ForwardDefinition = def.Must(def.Rowwise("gelu.forward", func(b *def.Builder) {
	x := b.In("x")
	a, _, e, r := parts(x)
	b.Out("y", def.Select(x.Less(def.Zero), a.Mul(e).Neg(), x).Mul(r), def.Like("x"))

	b.Formula("y = x * sigmoid(t),  t = 2*sqrt(2/pi) * (x + 0.044715*x^3)", "  = x/2 * (1 + tanh(t/2))")
	b.Clauses(
		"any shape; rows may be strided",
		"NaN gives NaN",
		"+Inf gives +Inf, -Inf gives -0",
		"+0 gives +0, -0 gives -0",
		"x >= 5 gives x itself, x <= -11 gives -0",
		"y has the sign of x and is not larger, so nothing overflows; subnormals are kept, and a subnormal x gives x/2, or one of its two neighbours if x/2 is not in the format",
		"y may be x itself; any other overlap is refused",
	)
}))

// BackwardDefinition is dy·(σ + x·σ(1−σ)·t'), with σ(1−σ) = e·r·r. Factored so
// that only the zero of the derivative cancels:
//
//	h = r·a·t'(a)
//	x ≥ 0: r·(1 + e·h)      x < 0: r·(e − e·h)
var BackwardDefinition = def.Must(def.Rowwise("gelu.backward", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	a, square, e, r := parts(x)
	h := r.Mul(a.Mul(def.FMA(tripleCubic, square, slope))).As("h")
	isNegative := x.Less(def.Zero).As("neg")
	first := def.Select(isNegative, e, def.One)
	second := def.Select(isNegative, e.Neg(), e)
	b.Out("dx", dy.Mul(r.Mul(def.FMA(second, h, first))), def.Like("dy"))

	b.Usually(expanded)
	b.Formula("dx = dy * (sigmoid(t) + x*sigmoid(t)*(1-sigmoid(t))*dt/dx),  t = 2*sqrt(2/pi) * (x + 0.044715*x^3)")
	b.Clauses(
		"any shape; rows may be strided",
		"a NaN in dy or x gives NaN",
		"x = +Inf gives dy, x = -Inf gives a zero with the sign of dy, for finite dy",
		"an infinite dy gives an infinity with the sign of the result, or NaN where the derivative is zero",
		"x = +0 and x = -0 give dy/2",
		"x >= 5.5 gives dy itself, x <= -11 a zero with the sign of dy, for finite dy",
		"the derivative is in [-0.13, 1.13], so only a dy near the end of its range overflows, to an infinity; subnormals are kept",
		"dx may be dy or x itself; any other overlap is refused",
	)
}))

// Forward computes y from x. They may be the same tensor.
func Forward(q *engine.Queue, y, x *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, ForwardDefinition, []*tensor.Tensor{x, y}, nil, opts...)
}

// Backward computes dx from dy and the forward operation's input. dx may be
// either of them.
func Backward(q *engine.Queue, dx, dy, x *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BackwardDefinition, []*tensor.Tensor{dy, x, dx}, nil, opts...)
}
