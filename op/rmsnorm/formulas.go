package rmsnorm

import (
	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
)

// distribute returns dx as rstd·t - b·x, with one slope b a row, and the terms of dgamma. An element
// takes two products and a difference.
func distribute(b *def.Builder, dy, x, gamma, rstd def.Value) (dx, terms def.Value) {
	t := dy.Mul(gamma).As("t")
	c := def.RowSum(t.Mul(x)).As("c")
	slope := c.Mul(rstd).Mul(rstd).Mul(rstd).Div(b.Columns()).As("slope")
	return rstd.Mul(t).Sub(slope.Mul(x)), dy.Mul(x).Mul(rstd)
}

var linear = def.Must(def.Rowwise("rmsnorm.backward.linear", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	gamma := b.InCol("gamma", def.Like("dy").Or(num.F32))
	rstd := b.InRow("rstd", def.Only(num.F32))

	dx, terms := distribute(b, dy, x, gamma, rstd)
	b.Out("dx", dx, def.Like("dy"))
	b.OutCol("dgamma", def.ColSum(terms), def.Like("gamma"))
}))

var residualLinear = def.Must(def.Rowwise("rmsnorm.residual.backward.linear", func(b *def.Builder) {
	dy, dsum, sum := b.In("dy"), b.In("dsum", def.Like("dy")), b.In("sum", def.Like("dy"))
	gamma := b.InCol("gamma", def.Like("dy").Or(num.F32))
	rstd := b.InRow("rstd", def.Only(num.F32))

	dx, terms := distribute(b, dy, sum, gamma, rstd)
	b.Out("dx", dx.Add(dsum), def.Like("dy"))
	b.OutCol("dgamma", def.ColSum(terms), def.Like("gamma"))
}))

// scaleFirst multiplies rstd by gamma first.
var scaleFirst = def.Must(def.Rowwise("rmsnorm.forward.scale_first", func(b *def.Builder) {
	x := b.In("x")
	gamma := b.InCol("gamma", def.Like("x").Or(num.F32))
	rstd := inverse(b, x, b.Param("eps", def.AtLeast(0), def.Default(DefaultEps)))
	b.Out("y", x.Mul(rstd.Mul(gamma)), def.Like("x"))
	b.OutRow("rstd", rstd, def.Only(num.F32))
}))

var residualScaleFirst = def.Must(def.Rowwise("rmsnorm.residual.forward.scale_first", func(b *def.Builder) {
	x := b.In("x")
	residual := b.In("residual", def.Like("x"))
	gamma := b.InCol("gamma", def.Like("x").Or(num.F32))
	eps := b.Param("eps", def.AtLeast(0), def.Default(DefaultEps))
	total := x.Add(residual).Round(def.StorageOf("x")).As("total")
	rstd := inverse(b, total, eps)
	b.Out("sum", total, def.Like("x"))
	b.Out("y", total.Mul(rstd.Mul(gamma)), def.Like("x"))
	b.OutRow("rstd", rstd, def.Only(num.F32))
}))

var forwardFormulas = []op.Formula{
	{Name: "normalized-first", Of: ForwardDefinition, Text: "(x*rstd)*gamma: the definition's own form"},
	{Name: "scale-first", Of: ForwardDefinition, Definition: scaleFirst, Text: "x*(rstd*gamma)"},
}

var residualForwardFormulas = []op.Formula{
	{Name: "normalized-first", Of: ResidualForwardDefinition, Text: "(sum*rstd)*gamma: the definition's own form"},
	{Name: "scale-first", Of: ResidualForwardDefinition, Definition: residualScaleFirst, Text: "sum*(rstd*gamma)"},
}

var backwardFormulas = []op.Formula{
	{Name: "linear", Of: BackwardDefinition, Definition: linear, Text: "rstd*t - b*x with b = rstd^3 * sum t*x / C of the row, and dgamma = sum dy*x*rstd"},
}

var residualBackwardFormulas = []op.Formula{
	{Name: "linear", Of: ResidualBackwardDefinition, Definition: residualLinear, Text: "rstd*t - b*sum + dsum with b = rstd^3 * sum over c of t*sum / C of the row, and dgamma = sum over r of dy*sum*rstd"},
}
