package swiglu

import (
	"tokitai/def"
	"tokitai/op"
	"tokitai/op/silu"
)

// expanded multiplies dy by up first, and has σ(g) and σ(−g).
var expanded = def.Must(def.Rowwise("swiglu.backward.expanded", func(b *def.Builder) {
	dy, gate, up := b.In("dy"), b.In("gate", def.Like("dy")), b.In("up", def.Like("dy"))
	unit := silu.Of(gate)
	b.Out("dgate", dy.Mul(up).Mul(unit.ExpandedSlope()), def.Like("dy"))
	b.Out("dup", dy.Mul(unit.Value()), def.Like("dy"))
}))

// derivativeFirst multiplies dy by the derivative, and then by up.
var derivativeFirst = def.Must(def.Rowwise("swiglu.backward.derivative_first", func(b *def.Builder) {
	dy, gate, up := b.In("dy"), b.In("gate", def.Like("dy")), b.In("up", def.Like("dy"))
	unit := silu.Of(gate)
	b.Out("dgate", dy.Mul(unit.Slope()).Mul(up), def.Like("dy"))
	b.Out("dup", dy.Mul(unit.Value()), def.Like("dy"))
}))

var forwardFormulas = []op.Formula{
	{Name: "sigmoid", Of: ForwardDefinition, Text: "gate*sigmoid(gate)*up, or gate/(1 + exp(-gate))*up: the definition's own form"},
}

var backwardFormulas = []op.Formula{
	{Name: "factored", Of: BackwardDefinition, Text: "dy*(up*s*(1 + gate*(1-s))) with s = sigmoid(gate) and 1-s = sigmoid(-gate): the definition's own form"},
	{Name: "expanded", Of: BackwardDefinition, Definition: expanded, Text: "dy*up*(s + gate*s*sigmoid(-gate))"},
	{Name: "derivative-first", Of: BackwardDefinition, Definition: derivativeFirst, Text: "dy*s*(1 + gate*sigmoid(-gate))*up"},
}
