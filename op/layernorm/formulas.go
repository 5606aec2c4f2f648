package layernorm

import (
	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
)

// textbook is LayerNorm with the mean of x itself: the same function of the real numbers, but
// its sum is one of terms as large as x, not of differences.
var textbook = def.Must(def.Rowwise("layernorm.forward.two_pass", func(b *def.Builder) {
	x := b.In("x")
	gamma, beta := b.InCol("gamma", def.Like("x").Or(num.F32)), b.InCol("beta", def.Like("gamma"))
	eps, n := b.Param("eps", def.AtLeast(0), def.Default(DefaultEps)), b.Columns()

	mean := def.RowSum(x).Div(n).As("average")
	centred := x.Sub(mean).As("centred")
	variance := def.RowSum(centred.Mul(centred)).Div(n).As("variance")
	rstd := def.One.Div(variance.Add(eps).Sqrt()).As("inverse")
	b.Out("y", def.FMA(centred.Mul(rstd), gamma, beta), def.Like("x"))
	b.OutRow("mean", mean, def.Only(num.F32))
	b.OutRow("rstd", rstd, def.Only(num.F32))
}))

var forwardFormulas = []op.Formula{
	{Name: "shifted", Of: ForwardDefinition, Text: "the mean of the differences to the row's first element, then the variance around it: the definition's own form"},
	{Name: "two-pass", Of: ForwardDefinition, Definition: textbook, IsUsual: true, Text: "the mean of x, then the variance around it, as in textbooks"},
	{Name: "welford", Of: ForwardDefinition, Definition: textbook, Text: "mean and sum of squares updated with every element; the sets are those of two-pass, since both have errors relative to sums of x"},
	{
		Name: "mean-of-squares", Of: ForwardDefinition, Text: "the mean of the squares less the square of the mean",
		Refused: "E[x^2] - mean^2 cancels: with a mean of 1000 standard deviations nothing of the variance is left, and it may be negative; use two-pass, shifted or welford",
	},
}

var backwardFormulas = []op.Formula{
	{Name: "distributed", Of: BackwardDefinition, Text: "rstd multiplied into the sum; it admits nothing that the definition does not"},
}
