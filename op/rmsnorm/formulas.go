package rmsnorm

import (
	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
)

// linear has one slope a row, so that an element takes two products and a difference.
var linear = def.Must(def.Rowwise("rmsnorm.backward.linear", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	gamma := b.InCol("gamma", def.Like("dy").Or(num.F32))
	rstd := b.InRow("rstd", def.Only(num.F32))

	t := dy.Mul(gamma).As("t")
	c := def.RowSum(t.Mul(x)).As("c")
	slope := c.Mul(rstd).Mul(rstd).Mul(rstd).Div(b.Columns()).As("slope")
	b.Out("dx", rstd.Mul(t).Sub(slope.Mul(x)), def.Like("dy"))
	b.OutCol("dgamma", def.ColSum(dy.Mul(x).Mul(rstd)), def.Like("gamma"))
}))

// scaleFirst multiplies rstd by gamma first.
var scaleFirst = def.Must(def.Rowwise("rmsnorm.forward.scale_first", func(b *def.Builder) {
	x := b.In("x")
	gamma := b.InCol("gamma", def.Like("x").Or(num.F32))
	rstd := inverse(b, x, b.Param("eps", def.AtLeast(0), def.Default(DefaultEps)))
	b.Out("y", x.Mul(rstd.Mul(gamma)), def.Like("x"))
	b.OutRow("rstd", rstd, def.Only(num.F32))
}))

var forwardFormulas = []op.Formula{
	{Name: "normalized-first", Of: ForwardDefinition, Text: "(x*rstd)*gamma: the definition's own form"},
	{Name: "scale-first", Of: ForwardDefinition, Definition: scaleFirst, Text: "x*(rstd*gamma)"},
}

var backwardFormulas = []op.Formula{
	{Name: "linear", Of: BackwardDefinition, Definition: linear, Text: "rstd*t - b*x with b = rstd^3 * sum t*x / C of the row, and dgamma = sum dy*x*rstd"},
}
