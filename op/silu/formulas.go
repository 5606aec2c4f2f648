package silu

import (
	"tokitai/def"
	"tokitai/op"
)

// expanded has σ(x) and σ(−x).
var expanded = def.Must(def.Rowwise("silu.backward.expanded", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	b.Out("dx", dy.Mul(Of(x).ExpandedSlope()), def.Like("dy"))
}))

var forwardFormulas = []op.Formula{
	{Name: "sigmoid", Of: ForwardDefinition, Text: "x*sigmoid(x), or x/(1 + exp(-x)): the definition's own form"},
}

var backwardFormulas = []op.Formula{
	{Name: "factored", Of: BackwardDefinition, Text: "dy*(s*(1 + x*(1-s))) with s = sigmoid(x) and 1-s = sigmoid(-x): the definition's own form"},
	{Name: "expanded", Of: BackwardDefinition, Definition: expanded, Text: "dy*(s + x*s*sigmoid(-x))"},
}
