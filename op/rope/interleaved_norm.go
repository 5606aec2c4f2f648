package rope

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// InterleavedNormForwardDefinition normalizes each head to mean square 1, scales it by column, and turns its
// pairs of neighbours.
var InterleavedNormForwardDefinition = def.Must(def.Rowwise("rope.interleaved.norm.forward", func(b *def.Builder) {
	x := b.In("x")
	gamma := b.InCol("gamma", def.Like("x").Or(num.F32))
	eps := b.Param("eps", def.AtLeast(0), def.Default(DefaultEps))
	square := def.RowSum(x.Mul(x)).Div(b.Columns()).As("square")
	rstd := def.One.Div(square.Add(eps).Sqrt()).As("inverse")
	b.Out("y", turnNeighbours(b, x.Mul(rstd).Mul(gamma).As("h"), false), def.Like("x"))
	b.OutRow("rstd", rstd, def.Only(num.F32))

	b.Formula(
		"rstd[r] = 1 / sqrt(sum over i of x[r,i]^2 / C + eps),  h[r,i] = x[r,i]*rstd[r]*gamma[i]",
		"y[r,2i] = h[r,2i]*c - h[r,2i+1]*s,  c = wave[position[r],2i],  s = wave[position[r],2i+1]",
		"y[r,2i+1] = h[r,2i]*s + h[r,2i+1]*c",
	)
	b.Clauses(
		neighboursClause,
		"eps is finite, also as binary32, and at least 0",
		wavePosition,
		"h is not rounded to a storage format before it is turned; rstd is that of rmsnorm.forward, and if x is f32, y is that of rope.interleaved.forward on the y of rmsnorm.forward, bit for bit",
		"a NaN in a row of x makes the row of y and its rstd NaN",
		"an infinity in a row of x, or a sum of squares that overflows, gives rstd +0, and NaN in the pairs that have the infinity",
		"eps 0 as binary32 and a mean square of 0, or one that underflows to it, give rstd +Inf, and results that are infinite or NaN",
		"a NaN or an infinity in gamma makes both columns of its pair NaN or infinite, and reaches nothing else",
		"subnormals are kept, and a result too large for its format is infinite",
		"y"+ownMemory,
	)
}))

// InterleavedNormBackwardDefinition takes rstd as the forward operation stored it.
var InterleavedNormBackwardDefinition = def.Must(def.Rowwise("rope.interleaved.norm.backward", func(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	gamma := b.InCol("gamma", def.Like("dy").Or(num.F32))
	rstd := b.InRow("rstd", def.Only(num.F32))

	g := turnNeighbours(b, dy, true).As("g")
	xhat := x.Mul(rstd).As("xhat")
	t := g.Mul(gamma).As("u")
	k := def.RowSum(t.Mul(xhat)).Div(b.Columns()).As("k")
	b.Out("dx", t.Sub(xhat.Mul(k)).Mul(rstd), def.Like("dy"))
	b.OutCol("dgamma", def.ColSum(g.Mul(xhat)), def.Like("gamma"))

	b.Formula(
		"g[r,2i] = dy[r,2i]*c + dy[r,2i+1]*s,  g[r,2i+1] = dy[r,2i+1]*c - dy[r,2i]*s,  c = wave[position[r],2i],  s = wave[position[r],2i+1]",
		"xhat[r,i] = x[r,i]*rstd[r],  u[r,i] = g[r,i]*gamma[i],  k[r] = sum over i of u[r,i]*xhat[r,i] / C",
		"dx[r,i] = (u[r,i] - xhat[r,i]*k[r])*rstd[r],  dgamma[i] = sum over r of g[r,i]*xhat[r,i]",
	)
	b.Clauses(
		neighboursClause,
		wavePosition,
		"if dy is f32, dx and dgamma are those of rmsnorm.backward on the dx of rope.interleaved.backward, bit for bit",
		"a NaN in a row of dy, x or rstd makes the row of dx NaN, one in gamma all of them",
		"a NaN in a column of dy makes dgamma NaN in both columns of its pair, one in a column of x in that column, one in rstd in all",
		"an infinity in a row of dy, x or rstd makes the row of dx infinite or NaN",
		"rstd is used as given: a finite one need not belong to x, and rstd 0 makes the row of dx zeros",
		"subnormals are kept; results that overflow are infinite, and a sum that overflows counts as an infinity in its row or column",
		"dx may be x itself; any other overlap is refused",
	)
}))

// InterleavedNormForward computes y, which has memory of its own, and the rstd that InterleavedNormBackward
// needs.
func InterleavedNormForward(q *engine.Queue, y, rstd, x, gamma, position, wave *tensor.Tensor, p Params, opts ...engine.CallOption) error {
	return engine.Call(q, InterleavedNormForwardDefinition, []*tensor.Tensor{x, gamma, wave, position, y, rstd}, []float64{p.Eps}, opts...)
}

// InterleavedNormBackward computes the gradients of x and gamma.
func InterleavedNormBackward(q *engine.Queue, dx, dgamma, dy, x, gamma, rstd, position, wave *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, InterleavedNormBackwardDefinition, []*tensor.Tensor{dy, x, gamma, rstd, wave, position, dx, dgamma}, nil, opts...)
}
