package relu2

import (
	"tokitai/def"
	"tokitai/op"
)

var (
	doubledFirst = def.Must(def.Rowwise("relu2.backward.doubled_first", func(b *def.Builder) {
		dy, x := b.In("dy"), b.In("x", def.Like("dy"))
		b.Out("dx", dy.Add(dy).Mul(x.Max(def.Zero)), def.Like("dy"))
	}))
	doubledLast = def.Must(def.Rowwise("relu2.backward.doubled_last", func(b *def.Builder) {
		dy, x := b.In("dy"), b.In("x", def.Like("dy"))
		product := dy.Mul(x.Max(def.Zero))
		b.Out("dx", product.Add(product), def.Like("dy"))
	}))
)

var backwardFormulas = []op.Formula{
	{Name: "doubled-first", Of: BackwardDefinition, Definition: doubledFirst, Text: "(2*dy)*max(x, 0)"},
	{Name: "doubled-last", Of: BackwardDefinition, Definition: doubledLast, Text: "2*(dy*max(x, 0)), the derivative of a product"},
}
