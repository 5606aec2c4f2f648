package truth_test

import (
	"tokitai/def"
	"tokitai/fn"
)

var softmax = def.Must(def.Rowwise("softmax", func(b *def.Builder) {
	x := b.In("x")
	e := fn.ExpNonPositive(x.Sub(def.RowMax(x))).As("e")
	b.Out("y", e.Mul(def.One.Div(def.RowSum(e))), def.Like("x"))
}))

var product = def.Must(def.Contraction("product", def.ContractionForm{
	Left: "a", LeftDims: [2]string{"M", "K"}, Right: "b", RightDims: [2]string{"K", "N"}, Result: "c", ResultDims: [2]string{"M", "N"},
}))
