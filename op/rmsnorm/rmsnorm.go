package rmsnorm

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// DefaultEps is added to the mean square.
const DefaultEps = 1e-6

// inverse returns 1/√(mean square + eps) of rows.
func inverse(b *def.Builder, x, eps def.Value) def.Value {
	square := def.RowSum(x.Mul(x)).Div(b.Columns()).As("square")
	return def.One.Div(square.Add(eps).Sqrt()).As("inverse")
}

// ForwardDefinition scales each row by the inverse root of its mean square.
var ForwardDefinition = def.Must(def.Rowwise("rmsnorm.forward", func(b *def.Builder) {
	x := b.In("x")
	gamma := b.InCol("gamma", def.Like("x").Or(num.F32))
	rstd := inverse(b, x, b.Param("eps", def.AtLeast(0), def.Default(DefaultEps)))
	b.Out("y", x.Mul(rstd).Mul(gamma), def.Like("x"))
	b.OutRow("rstd", rstd, def.Only(num.F32))

	b.Usually(scaleFirst)
	b.Formula(
		"rstd[r] = 1 / sqrt(sum x[r,c]^2 / C + eps)",
		"y[r,c]  = x[r,c] * rstd[r] * gamma[c]",
	)
	b.Clauses(
		"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided",
		"eps is finite, also as binary32, and at least 0",
		"a NaN in a row of x makes the row of y and its rstd NaN",
		"an infinity in a row of x, or a sum of squares that overflows, gives rstd +0, and a row of zeros with the signs of x*gamma, NaN where x or gamma is infinite",
		"eps 0 as binary32 and a mean square of 0, or one that underflows to it, give rstd +Inf, and y infinite or NaN",
		"a NaN or an infinity in gamma makes its column of y NaN or infinite, and reaches nothing else",
		"subnormals are kept, and a y too large for its format is infinite",
		"y may be x itself; any other overlap is refused",
	)
}))

// ResidualForwardDefinition adds a residual first. y is computed from the sum as it is stored, so
// that the gradients find in it what was normalized.
var ResidualForwardDefinition = def.Must(def.Rowwise("rmsnorm.residual.forward", func(b *def.Builder) {
	x := b.In("x")
	residual := b.In("residual", def.Like("x"))
	gamma := b.InCol("gamma", def.Like("x").Or(num.F32))
	eps := b.Param("eps", def.AtLeast(0), def.Default(DefaultEps))
	total := x.Add(residual).Round(def.StorageOf("x")).As("total")
	rstd := inverse(b, total, eps)
	b.Out("sum", total, def.Like("x"))
	b.Out("y", total.Mul(rstd).Mul(gamma), def.Like("x"))
	b.OutRow("rstd", rstd, def.Only(num.F32))

	b.Usually(residualScaleFirst)
	b.Formula(
		"sum[r,c] = x[r,c] + residual[r,c], rounded to the format of x",
		"rstd[r]  = 1 / sqrt(sum over c of sum[r,c]^2 / C + eps)",
		"y[r,c]   = sum[r,c] * rstd[r] * gamma[c]",
	)
	b.Clauses(
		"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided",
		"eps is finite, also as binary32, and at least 0",
		"x + residual is rounded to binary32 and then to the format of x; y and rstd are those of rmsnorm.forward on that sum, bit for bit",
		"a sum of a NaN or of opposite infinities is NaN; one too large for its format is infinite",
		"a NaN in a row of sum makes the row of y and its rstd NaN",
		"an infinity in a row of sum, or a sum of squares that overflows, gives rstd +0, and a row of zeros with the signs of sum*gamma, NaN where sum or gamma is infinite",
		"eps 0 as binary32 and a mean square of 0, or one that underflows to it, give rstd +Inf, and y infinite or NaN",
		"a NaN or an infinity in gamma makes its column of y NaN or infinite, and reaches nothing else",
		"subnormals are kept, and a y too large for its format is infinite",
		"sum and y may each be x or residual itself, but not both the same; any other overlap is refused",
	)
}))

// project returns t - xhat·(mean of t·xhat), which is dx/rstd, and the terms of dgamma.
func project(b *def.Builder, dy, x, gamma, rstd def.Value) (projected, terms def.Value) {
	xhat := x.Mul(rstd).As("xhat")
	t := dy.Mul(gamma).As("t")
	c := def.RowSum(t.Mul(xhat)).Div(b.Columns()).As("c")
	return t.Sub(xhat.Mul(c)), dy.Mul(xhat)
}

// BackwardDefinition takes rstd as the forward operation stored it.
var BackwardDefinition = def.Must(def.Rowwise("rmsnorm.backward", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	gamma := b.InCol("gamma", def.Like("dy").Or(num.F32))
	rstd := b.InRow("rstd", def.Only(num.F32))

	projected, terms := project(b, dy, x, gamma, rstd)
	b.Out("dx", projected.Mul(rstd), def.Like("dy"))
	b.OutCol("dgamma", def.ColSum(terms), def.Like("gamma"))

	b.Usually(linear)
	b.Formula(
		"xhat[r,c] = x[r,c] * rstd[r],  t[r,c] = dy[r,c] * gamma[c]",
		"dx[r,c]   = (t[r,c] - xhat[r,c] * sum t[r,c]*xhat[r,c]/C) * rstd[r]",
		"dgamma[c] = sum over r of dy[r,c] * xhat[r,c]",
	)
	b.Clauses(
		"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided",
		"a NaN in a row of dy, x or rstd makes the row of dx NaN, one in gamma all of dx",
		"a NaN in a column of dy or of xhat makes dgamma NaN there",
		"an infinity in a row of dy, x or rstd makes the row of dx infinite or NaN, one in gamma all of dx",
		"an infinity in a column of dy or of xhat makes dgamma infinite or NaN there",
		"rstd is used as given: a finite one need not belong to x, and rstd 0 makes the row of dx zeros",
		"subnormals are kept; results that overflow are infinite, and a sum that overflows counts as an infinity in its row or column",
		"dx may be dy or x itself; any other overlap is refused",
	)
}))

// ResidualBackwardDefinition takes sum and rstd as rmsnorm.residual.forward stored them. The
// gradient of sum from elsewhere is added before dx is rounded.
var ResidualBackwardDefinition = def.Must(def.Rowwise("rmsnorm.residual.backward", func(b *def.Builder) {
	dy, dsum, sum := b.In("dy"), b.In("dsum", def.Like("dy")), b.In("sum", def.Like("dy"))
	gamma := b.InCol("gamma", def.Like("dy").Or(num.F32))
	rstd := b.InRow("rstd", def.Only(num.F32))

	projected, terms := project(b, dy, sum, gamma, rstd)
	b.Out("dx", def.FMA(projected, rstd, dsum), def.Like("dy"))
	b.OutCol("dgamma", def.ColSum(terms), def.Like("gamma"))

	b.Usually(residualLinear)
	b.Formula(
		"xhat[r,c] = sum[r,c] * rstd[r],  t[r,c] = dy[r,c] * gamma[c]",
		"dx[r,c]   = (t[r,c] - xhat[r,c] * sum over c of t[r,c]*xhat[r,c]/C) * rstd[r] + dsum[r,c], of x and of residual",
		"dgamma[c] = sum over r of dy[r,c] * xhat[r,c]",
	)
	b.Clauses(
		"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided",
		"a NaN in a row of dy, sum or rstd makes the row of dx NaN, one in gamma all of dx, one in dsum its own element of dx",
		"a NaN in a column of dy or of xhat makes dgamma NaN there",
		"an infinity in a row of dy, sum or rstd makes the row of dx infinite or NaN, one in gamma all of dx, one in dsum its own element of dx",
		"an infinity in a column of dy or of xhat makes dgamma infinite or NaN there",
		"rstd is used as given: a finite one need not belong to sum, and rstd 0 gives dx = dsum, up to the sign of a zero",
		"subnormals are kept; results that overflow are infinite, and a sum that overflows counts as an infinity in its row or column",
		"dx may be dy, dsum or sum itself; any other overlap is refused",
	)
}))

// Params are the numbers of a forward call. Start from DefaultParams: the zero value
// is legal, has eps 0, and makes a row of zeros NaN.
type Params struct {
	Eps float64 // added to the mean square; at least 0, usually DefaultEps
}

// DefaultParams is eps 1e-6.
var DefaultParams = Params{Eps: DefaultEps}

// Forward computes y, and the rstd that Backward needs. y may be x itself.
func Forward(q *engine.Queue, y, rstd, x, gamma *tensor.Tensor, p Params, opts ...engine.CallOption) error {
	return engine.Call(q, ForwardDefinition, []*tensor.Tensor{x, gamma, y, rstd}, []float64{p.Eps}, opts...)
}

// ForwardResidual computes sum, which is x + residual, and y and rstd of it. sum and y may each be x
// or residual.
func ForwardResidual(q *engine.Queue, sum, y, rstd, x, residual, gamma *tensor.Tensor, p Params, opts ...engine.CallOption) error {
	return engine.Call(q, ResidualForwardDefinition, []*tensor.Tensor{x, residual, gamma, sum, y, rstd}, []float64{p.Eps}, opts...)
}

// Backward computes the gradients. dx may be dy or x.
func Backward(q *engine.Queue, dx, dgamma, dy, x, gamma, rstd *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BackwardDefinition, []*tensor.Tensor{dy, x, gamma, rstd, dx, dgamma}, nil, opts...)
}

// BackwardResidual computes the gradients of ForwardResidual: dx is that of x and that of residual.
// dy is the gradient of y, dsum that of sum from where else it is used. dx may be dy, dsum or sum.
func BackwardResidual(q *engine.Queue, dx, dgamma, dy, dsum, sum, gamma, rstd *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, ResidualBackwardDefinition, []*tensor.Tensor{dy, dsum, sum, gamma, rstd, dx, dgamma}, nil, opts...)
}
