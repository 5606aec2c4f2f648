package swiglu

import (
	"tokitai/def"
	"tokitai/op"
)

// expanded multiplies dy by up first, and has σ(g) and σ(−g).
var expanded = def.Must(def.Rowwise("swiglu.backward.expanded", func(b *def.Builder) {
	dy, gate, up := b.In("dy"), b.In("gate", def.Like("dy")), b.In("up", def.Like("dy"))
	a, e, r := parts(gate)
	isNegative := gate.Less(def.Zero).As("neg")
	small := e.Mul(r).As("small")
	s := def.Select(isNegative, small, r).As("s")
	rest := def.Select(isNegative, r, small).As("rest")
	product := a.Mul(s).Mul(rest).As("product")
	b.Out("dgate", dy.Mul(up).Mul(s.Add(def.Select(isNegative, product.Neg(), product))), def.Like("dy"))
	b.Out("dup", dy.Mul(silu(isNegative, gate, a, e, r)), def.Like("dy"))
}))

// derivativeFirst multiplies dy by the derivative, and then by up.
var derivativeFirst = def.Must(def.Rowwise("swiglu.backward.derivative_first", func(b *def.Builder) {
	dy, gate, up := b.In("dy"), b.In("gate", def.Like("dy")), b.In("up", def.Like("dy"))
	a, e, r := parts(gate)
	isNegative := gate.Less(def.Zero).As("neg")
	b.Out("dgate", dy.Mul(derivative(isNegative, a, e, r)).Mul(up), def.Like("dy"))
	b.Out("dup", dy.Mul(silu(isNegative, gate, a, e, r)), def.Like("dy"))
}))

var forwardFormulas = []op.Formula{
	{Name: "sigmoid", Of: ForwardDefinition, Text: "gate*sigmoid(gate)*up, or gate/(1 + exp(-gate))*up: the definition's own form"},
}

var backwardFormulas = []op.Formula{
	{Name: "factored", Of: BackwardDefinition, Text: "dy*(up*s*(1 + gate*(1-s))) with s = sigmoid(gate) and 1-s = sigmoid(-gate): the definition's own form"},
	{Name: "expanded", Of: BackwardDefinition, Definition: expanded, Text: "dy*up*(s + gate*s*sigmoid(-gate))"},
	{Name: "derivative-first", Of: BackwardDefinition, Definition: derivativeFirst, Text: "dy*s*(1 + gate*sigmoid(-gate))*up"},
}
