package softmax

import (
	"tokitai/def"
	"tokitai/fn"
	"tokitai/op"
)

// powersOfTwo is softmax with 2^x, as kernels that have no other exponential compute it.
var powersOfTwo = def.Must(def.Rowwise("softmax.forward.exp2", func(b *def.Builder) {
	x := b.In("x")
	e := fn.Exp2(x.Sub(def.RowMax(x).As("max")).Mul(def.Number("1/log(2)"))).As("e")
	sum := def.RowSum(e).As("sum")
	b.Out("y", e.Mul(def.One.Div(sum)), def.Like("x"))
}))

var forwardFormulas = []op.Formula{
	{Name: "exp2", Of: ForwardDefinition, Definition: powersOfTwo, Text: "2^((x - max) * log2 e): the argument is rounded once more, and the error is that of exp2"},
	{Name: "online", Of: ForwardDefinition, Text: "one pass that rescales the sum when the maximum grows; the sets are the definition's"},
	{
		Name: "no-maximum", Of: ForwardDefinition, Text: "exponentials of x itself",
		Refused: "exp(x) overflows from x = 89 on, where C6 promises values in [0, 1]; subtract the row's maximum",
	},
}

var backwardFormulas = []op.Formula{
	{Name: "multiplied-out", Of: BackwardDefinition, Text: "y*dy - y*dot; it admits nothing that the definition does not"},
}
