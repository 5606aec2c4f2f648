package layernorm

import (
	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
)

// ofTextbook returns LayerNorm with the mean of x itself: the same function of the real numbers, but
// its sum is one of terms as large as x, not of differences. last computes y.
func ofTextbook(name string, last func(x, mean, rstd, gamma, beta def.Value) def.Value) *def.Definition {
	return def.Must(def.Rowwise(name, func(b *def.Builder) {
		x := b.In("x")
		gamma, beta := b.InCol("gamma", def.Like("x").Or(num.F32)), b.InCol("beta", def.Like("gamma"))
		eps, n := b.Param("eps", def.AtLeast(0), def.Default(DefaultEps)), b.Columns()

		mean := def.RowSum(x).Div(n).As("average")
		centred := x.Sub(mean).As("centred")
		variance := def.RowSum(centred.Mul(centred)).Div(n).As("variance")
		rstd := def.One.Div(variance.Add(eps).Sqrt()).As("inverse")
		b.Out("y", last(x, mean, rstd, gamma, beta), def.Like("x"))
		b.OutRow("mean", mean, def.Only(num.F32))
		b.OutRow("rstd", rstd, def.Only(num.F32))
	}))
}

var (
	textbook = ofTextbook("layernorm.forward.two_pass", func(x, mean, rstd, gamma, beta def.Value) def.Value {
		return x.Sub(mean).Mul(rstd).Mul(gamma).Add(beta)
	})
	scaleAndShift = ofTextbook("layernorm.forward.scale_and_shift", func(x, mean, rstd, gamma, beta def.Value) def.Value {
		scale := rstd.Mul(gamma).As("scale")
		return x.Mul(scale).Add(beta.Sub(mean.Mul(scale)))
	})
)

// distributed multiplies rstd and 1/C into the sum.
var distributed = def.Must(def.Rowwise("layernorm.backward.distributed", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	gamma := b.InCol("gamma", def.Like("dy").Or(num.F32))
	mean, rstd := b.InRow("mean", def.Only(num.F32)), b.InRow("rstd", def.Only(num.F32))
	n := b.Columns()

	xhat := x.Sub(mean).Mul(rstd).As("xhat")
	t := dy.Mul(gamma).As("t")
	a, c := def.RowSum(t).As("a"), def.RowSum(t.Mul(xhat)).As("c")
	b.Out("dx", rstd.Div(n).Mul(n.Mul(t).Sub(a).Sub(xhat.Mul(c))), def.Like("dy"))
	b.OutCol("dgamma", def.ColSum(dy.Mul(xhat)), def.Like("gamma"))
	b.OutCol("dbeta", def.ColSum(dy), def.Like("gamma"))
}))

// linear has one slope and one offset a row, so that an element takes two products and two
// additions. It multiplies by rstd last, so that products of small numbers may be lost before.
var linear = def.Must(def.Rowwise("layernorm.backward.linear", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	gamma := b.InCol("gamma", def.Like("dy").Or(num.F32))
	mean, rstd := b.InRow("mean", def.Only(num.F32)), b.InRow("rstd", def.Only(num.F32))
	n := b.Columns()

	centred := x.Sub(mean).As("centred")
	t := dy.Mul(gamma).As("t")
	a, c := def.RowSum(t).As("a"), def.RowSum(t.Mul(centred)).As("c")
	slope := c.Mul(rstd).Mul(rstd).Mul(rstd).Div(n).As("slope")
	offset := slope.Mul(mean).Sub(a.Mul(rstd).Div(n)).As("offset")
	b.Out("dx", rstd.Mul(t).Sub(slope.Mul(x)).Add(offset), def.Like("dy"))
	b.OutCol("dgamma", def.ColSum(dy.Mul(centred).Mul(rstd)), def.Like("gamma"))
	b.OutCol("dbeta", def.ColSum(dy), def.Like("gamma"))
}))

var forwardFormulas = []op.Formula{
	{Name: "shifted", Of: ForwardDefinition, Text: "the mean of the differences to the row's first element, then the variance around it: the definition's own form"},
	{Name: "two-pass", Of: ForwardDefinition, Definition: textbook, Text: "the mean of x, then the variance around it, as in textbooks"},
	{Name: "scale-and-shift", Of: ForwardDefinition, Definition: scaleAndShift, Text: "x*(rstd*gamma) + (beta - mean*(rstd*gamma)): its error is relative to x, not to the difference"},
	{Name: "welford", Of: ForwardDefinition, Definition: textbook, Text: "mean and sum of squares updated with every element; the sets are those of two-pass, since both have errors relative to sums of x"},
	{
		Name: "shifted-elsewhere", Of: ForwardDefinition, Text: "the same as shifted with another element than the first, such as the middle one",
		Refused: "where that element is an outlier, the differences to it lose what the others have below its last place: the error is relative to the row's largest element, not to the mean size of its elements; use two-pass, shifted or welford",
	},
	{
		Name: "mean-of-squares", Of: ForwardDefinition, Text: "the mean of the squares less the square of the mean",
		Refused: "E[x^2] - mean^2 cancels: with a mean of 1000 standard deviations nothing of the variance is left, and it may be negative; use two-pass, shifted or welford",
	},
}

var backwardFormulas = []op.Formula{
	{Name: "linear", Of: BackwardDefinition, Definition: linear, Text: "rstd*t - b*x + c, with b = rstd^3 * sum t*(x - mean) / C and c = b*mean - rstd * sum t / C of the row, and dgamma = sum dy*(x - mean)*rstd: its error is relative to x, not to the difference"},
	{Name: "distributed", Of: BackwardDefinition, Definition: distributed, Text: "rstd/C * (C*t - sum t - xhat * sum t*xhat)"},
}
