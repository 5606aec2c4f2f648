package layernorm

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// DefaultEps is added to the variance.
const DefaultEps = 1e-5

// ForwardDefinition takes the mean of the differences to the row's first element,
// and the variance of what is left: two passes, so that a mean far from zero
// costs no digits.
var ForwardDefinition = def.Must(def.Rowwise("layernorm.forward", func(b *def.Builder) {
	x := b.In("x")
	gamma, beta := b.InCol("gamma", def.Like("x").Or(num.F32)), b.InCol("beta", def.Like("gamma"))
	eps, n := b.Param("eps", def.AtLeast(0), def.Default(DefaultEps)), b.Columns()

	first := x.At(def.IntConst(0)).As("first")
	shifted := x.Sub(first).As("shifted")
	shift := def.RowSum(shifted).Div(n).As("shift")
	centred := shifted.Sub(shift).As("centred")
	variance := def.RowSum(centred.Mul(centred)).Div(n).As("variance")
	rstd := def.One.Div(variance.Add(eps).Sqrt()).As("inverse")
	b.Out("y", def.FMA(centred.Mul(rstd), gamma, beta), def.Like("x"))
	b.OutRow("mean", first.Add(shift), def.Only(num.F32))
	b.OutRow("rstd", rstd, def.Only(num.F32))

	b.Usually(textbook, scaleAndShift)
	b.Formula(
		"mean[r] = sum x[r,c] / C",
		"rstd[r] = 1 / sqrt(sum (x[r,c] - mean[r])^2 / C + eps)",
		"y[r,c]  = (x[r,c] - mean[r]) * rstd[r] * gamma[c] + beta[c]",
	)
	b.Clauses(
		"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided",
		"eps is finite, also as binary32, and at least 0",
		"a NaN or an infinity in a row of x makes the row of y and its rstd NaN, and its mean NaN or infinite",
		"a constant row of finite x gives beta where gamma is finite and eps > 0 as binary32, up to the sign of a zero",
		"a variance that overflows gives rstd +0 and y = beta; differences to the row's first element, or their sum, that overflow give y = NaN",
		"eps 0 as binary32 and a variance of 0, or one that underflows to it, give rstd +Inf, and y infinite or NaN",
		"a NaN or an infinity in gamma or beta makes its column of y NaN or infinite, and reaches nothing else",
		"subnormals are kept, and a y too large for its format is infinite",
		"y may be x itself; any other overlap is refused",
	)
}))

// BackwardDefinition takes mean and rstd as the forward operation stored them.
var BackwardDefinition = def.Must(def.Rowwise("layernorm.backward", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	gamma := b.InCol("gamma", def.Like("dy").Or(num.F32))
	mean, rstd := b.InRow("mean", def.Only(num.F32)), b.InRow("rstd", def.Only(num.F32))
	n := b.Columns()

	xhat := x.Sub(mean).Mul(rstd).As("xhat")
	t := dy.Mul(gamma).As("t")
	a := def.RowSum(t).Div(n).As("a")
	c := def.RowSum(t.Mul(xhat)).Div(n).As("c")
	b.Out("dx", t.Sub(a).Sub(xhat.Mul(c)).Mul(rstd), def.Like("dy"))
	b.OutCol("dgamma", def.ColSum(dy.Mul(xhat)), def.Like("gamma"))
	b.OutCol("dbeta", def.ColSum(dy), def.Like("gamma"))

	b.Usually(linear, distributed)
	b.Formula(
		"xhat[r,c] = (x[r,c] - mean[r]) * rstd[r],  t[r,c] = dy[r,c] * gamma[c]",
		"dx[r,c]   = (t[r,c] - sum t[r,c]/C - xhat[r,c] * sum t[r,c]*xhat[r,c]/C) * rstd[r]",
		"dgamma[c] = sum over r of dy[r,c] * xhat[r,c],  dbeta[c] = sum over r of dy[r,c]",
	)
	b.Clauses(
		"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided",
		"a NaN in a row of dy, x, mean or rstd makes the row of dx NaN, one in gamma all of dx",
		"a NaN in a column of dy or of xhat makes dgamma NaN there, one in dy dbeta too",
		"an infinity in a row of dy, x, mean or rstd makes the row of dx infinite or NaN, one in gamma all of dx",
		"an infinity in a column of dy or of xhat makes dgamma infinite or NaN there, one in dy dbeta too",
		"mean and rstd are used as given: a finite rstd need not belong to x, and rstd 0 makes the row of dx zeros",
		"subnormals are kept; results that overflow are infinite, and a sum that overflows counts as an infinity in its row or column",
		"dx may be dy or x itself; any other overlap is refused",
	)
}))

// Params are the numbers of a forward call. Start from DefaultParams: the zero value
// is legal, has eps 0, and makes a constant row NaN.
type Params struct {
	Eps float64 // added to the variance; at least 0, usually DefaultEps
}

// DefaultParams is eps 1e-5.
var DefaultParams = Params{Eps: DefaultEps}

// Forward computes y, and the mean and rstd that Backward needs. y may be x itself.
func Forward(q *engine.Queue, y, mean, rstd, x, gamma, beta *tensor.Tensor, p Params, opts ...engine.CallOption) error {
	return engine.Call(q, ForwardDefinition, []*tensor.Tensor{x, gamma, beta, y, mean, rstd}, []float64{p.Eps}, opts...)
}

// Backward computes the gradients. dx may be dy or x.
func Backward(q *engine.Queue, dx, dgamma, dbeta, dy, x, gamma, mean, rstd *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BackwardDefinition, []*tensor.Tensor{dy, x, gamma, mean, rstd, dx, dgamma, dbeta}, nil, opts...)
}
