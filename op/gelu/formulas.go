package gelu

import (
	"tokitai/def"
	"tokitai/fn"
	"tokitai/op"
)

var (
	half      = def.Const(0.5)
	halfSlope = def.Number("sqrt(2/pi)")
	halfCubic = def.Number("sqrt(2/pi)*0.044715")
	// d/dx of t/2 is halfSlope + halfTriple·x²
	halfTriple = def.Number("3*sqrt(2/pi)*0.044715")
)

// tanhOf returns tanh(t/2), with the square of x. Its argument is held at 11 as in the definition:
// there tanh is 1.
func tanhOf(x def.Value) (tanh, square def.Value) {
	a := x.Min(limit).Max(limit.Neg())
	square = a.Mul(a)
	return fn.Tanh(a.Mul(def.FMA(halfCubic, square, halfSlope))).As("tanh"), square
}

// The form through tanh: x/2·(1 + tanh(t/2)). For negative x the sum cancels, and an error of
// tanh in the last place is one of y of u·|x|: all of it from x = -5.5 down.
var (
	forwardTanh = def.Must(def.Rowwise("gelu.forward.tanh", func(b *def.Builder) {
		x := b.In("x")
		tanh, _ := tanhOf(x)
		b.Out("y", x.Mul(half).Mul(def.One.Add(tanh)), def.Like("x"))
	}))
	backwardTanh = def.Must(def.Rowwise("gelu.backward.tanh", func(b *def.Builder) {
		dy, x := b.In("dy"), b.In("x", def.Like("dy"))
		tanh, square := tanhOf(x)
		slope := def.FMA(halfTriple, square, halfSlope)
		left := half.Mul(def.One.Add(tanh))
		right := half.Mul(x.Min(limit).Max(limit.Neg())).Mul(def.One.Sub(tanh.Mul(tanh))).Mul(slope)
		b.Out("dx", dy.Mul(left.Add(right)), def.Like("dy"))
	}))
)

// expanded multiplies dy into both terms of the derivative, with sigmoid(t) and sigmoid(-t).
var expanded = def.Must(def.Rowwise("gelu.backward.expanded", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	a, square, e, r := parts(x)
	isNegative := x.Less(def.Zero).As("neg")
	small := e.Mul(r).As("small")
	s := def.Select(isNegative, small, r).As("s")
	rest := def.Select(isNegative, r, small).As("rest")
	product := dy.Mul(a.Mul(s).Mul(rest)).Mul(def.FMA(tripleCubic, square, slope)).As("product")
	b.Out("dx", dy.Mul(s).Add(def.Select(isNegative, product.Neg(), product)), def.Like("dy"))
}))

var forwardFormulas = []op.Formula{
	{Name: "sigmoid", Of: ForwardDefinition, Text: "x*sigmoid(t), or x/(1 + exp(-t)): the definition's own form"},
	{Name: "tanh", Of: ForwardDefinition, Definition: forwardTanh, Text: "x/2 * (1 + tanh(t/2)), which cancels for negative x: its error is one of tanh in units of |x|, and below -5.5 nothing else is left"},
}

var backwardFormulas = []op.Formula{
	{Name: "sigmoid", Of: BackwardDefinition, Text: "dy*(s + x*s*(1-s)*dt/dx) with s = sigmoid(t); it admits nothing that the definition does not"},
	{Name: "expanded", Of: BackwardDefinition, Definition: expanded, Text: "dy*s + dy*x*s*sigmoid(-t)*dt/dx"},
	{Name: "tanh", Of: BackwardDefinition, Definition: backwardTanh, Text: "dy*((1 + tanh)/2 + x/2*(1 - tanh^2)*d(t/2)/dx): both brackets cancel, for negative and for large x"},
}
