package rope

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// DefaultEps is added to the mean square of a head.
const DefaultEps = 1e-6

// angles declares the positions and the tables of cosines and sines, and returns those of each
// element.
func angles(b *def.Builder) (c, s def.Value) {
	position := b.InIndexOf("position", "P")
	cos, sin := b.InTable("cos", "P", def.Only(num.F32)), b.InTable("sin", "P", def.Only(num.F32))
	return cos.At(position).As("c"), sin.At(position).As("s")
}

// rotate turns pairs by an angle. The first product of a sum is exact, the second is rounded.
func rotate(a, b, c, s def.Value) (y1, y2 def.Value) {
	return def.FMA(a, c, b.Mul(s).Neg()), def.FMA(a, s, b.Mul(c))
}

// rotateBack turns pairs by the opposite angle: rotate with -s in the place of s, to the bit.
func rotateBack(a, b, c, s def.Value) (y1, y2 def.Value) {
	return def.FMA(a, c, b.Mul(s)), def.FMA(a.Neg(), s, b.Mul(c))
}

const (
	rowsClause     = "R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided, so that x1 and x2 may be the halves of one tensor; position has one value for each row"
	positionClause = "a position below 0 or from P on is refused before anything is written; where bad indices are skipped, c and s of its row are +0"
	tableClause    = "cos and sin are used as given: they need not belong to an angle; a NaN or an infinity in them counts as one in the products that it is part of"
)

// ForwardDefinition turns pairs of numbers by the angles of their positions.
var ForwardDefinition = def.Must(def.Rowwise("rope.forward", func(b *def.Builder) {
	x1, x2 := b.In("x1"), b.In("x2", def.Like("x1"))
	c, s := angles(b)
	y1, y2 := rotate(x1, x2, c, s)
	b.Out("y1", y1, def.Like("x1"))
	b.Out("y2", y2, def.Like("x1"))

	b.Formula(
		"y1[r,i] = x1[r,i]*c - x2[r,i]*s,  c = cos[position[r],i],  s = sin[position[r],i]",
		"y2[r,i] = x1[r,i]*s + x2[r,i]*c",
	)
	b.Clauses(
		rowsClause,
		positionClause,
		tableClause,
		"a NaN in x1 or x2 gives NaN in both results of the pair",
		"an infinity in x1 or x2 makes each result of the pair infinite, or NaN: where c or s is zero, or where infinities of opposite signs meet",
		"where c is 1 and s is a zero, as at position 0, finite pairs stay as they are, except that a zero may change its sign",
		"subnormals are kept, and a result too large for its format is infinite",
		"y1 and y2 may each be x1 or x2 itself, but not both the same; any other overlap is refused",
	)
}))

// BackwardDefinition turns the gradients of the results back.
var BackwardDefinition = def.Must(def.Rowwise("rope.backward", func(b *def.Builder) {
	dy1, dy2 := b.In("dy1"), b.In("dy2", def.Like("dy1"))
	c, s := angles(b)
	dx1, dx2 := rotateBack(dy1, dy2, c, s)
	b.Out("dx1", dx1, def.Like("dy1"))
	b.Out("dx2", dx2, def.Like("dy1"))

	b.Formula(
		"dx1[r,i] = dy1[r,i]*c + dy2[r,i]*s,  c = cos[position[r],i],  s = sin[position[r],i]",
		"dx2[r,i] = dy2[r,i]*c - dy1[r,i]*s",
	)
	b.Clauses(
		"the results are those of rope.forward with -sin in the place of sin, bit for bit",
		"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided; position has one value for each row",
		positionClause,
		"dx1 and dx2 may each be dy1 or dy2 itself, but not both the same; any other overlap is refused",
	)
}))

// NormForwardDefinition normalizes the 2C elements of a head to mean square 1, scales them by
// column, and turns them. One row sum has the squares of both halves.
var NormForwardDefinition = def.Must(def.Rowwise("rope.norm.forward", func(b *def.Builder) {
	x1, x2 := b.In("x1"), b.In("x2", def.Like("x1"))
	gamma1, gamma2 := b.InCol("gamma1", def.Like("x1").Or(num.F32)), b.InCol("gamma2", def.Like("gamma1"))
	c, s := angles(b)
	eps := b.Param("eps", def.AtLeast(0), def.Default(DefaultEps))
	square := def.RowSum(def.FMA(x1, x1, x2.Mul(x2))).Div(b.Columns().Mul(def.Two)).As("square")
	rstd := def.One.Div(square.Add(eps).Sqrt()).As("inverse")
	y1, y2 := rotate(x1.Mul(rstd).Mul(gamma1).As("h1"), x2.Mul(rstd).Mul(gamma2).As("h2"), c, s)
	b.Out("y1", y1, def.Like("x1"))
	b.Out("y2", y2, def.Like("x1"))
	b.OutRow("rstd", rstd, def.Only(num.F32))

	b.Formula(
		"rstd[r] = 1 / sqrt(sum over i of (x1[r,i]^2 + x2[r,i]^2) / (2*C) + eps)",
		"h1[r,i] = x1[r,i]*rstd[r]*gamma1[i],  h2[r,i] = x2[r,i]*rstd[r]*gamma2[i]",
		"y1[r,i] = h1*c - h2*s,  y2[r,i] = h1*s + h2*c,  c = cos[position[r],i],  s = sin[position[r],i]",
	)
	b.Clauses(
		rowsClause,
		"eps is finite, also as binary32, and at least 0",
		positionClause,
		"h1 and h2 are not rounded to a storage format before they are turned",
		"a NaN in a row of x1 or x2 makes the rows of y1 and y2 and its rstd NaN",
		"an infinity in a row of x1 or x2, or a sum of squares that overflows, gives rstd +0, and NaN in the pairs that have the infinity",
		"eps 0 as binary32 and a mean square of 0, or one that underflows to it, give rstd +Inf, and results that are infinite or NaN",
		"a NaN or an infinity in gamma1 or gamma2 makes its column of y1 and y2 NaN or infinite, and reaches nothing else",
		"subnormals are kept, and a result too large for its format is infinite",
		"y1 and y2 may each be x1 or x2 itself, but not both the same; any other overlap is refused",
	)
}))

// NormBackwardDefinition takes rstd as the forward operation stored it.
var NormBackwardDefinition = def.Must(def.Rowwise("rope.norm.backward", func(b *def.Builder) {
	dy1, dy2 := b.In("dy1"), b.In("dy2", def.Like("dy1"))
	x1, x2 := b.In("x1", def.Like("dy1")), b.In("x2", def.Like("dy1"))
	gamma1, gamma2 := b.InCol("gamma1", def.Like("dy1").Or(num.F32)), b.InCol("gamma2", def.Like("gamma1"))
	rstd := b.InRow("rstd", def.Only(num.F32))
	c, s := angles(b)

	g1, g2 := rotateBack(dy1, dy2, c, s)
	g1, g2 = g1.As("g1"), g2.As("g2")
	xhat1, xhat2 := x1.Mul(rstd).As("xhat1"), x2.Mul(rstd).As("xhat2")
	t1, t2 := g1.Mul(gamma1).As("u1"), g2.Mul(gamma2).As("u2")
	k := def.RowSum(def.FMA(t1, xhat1, t2.Mul(xhat2))).Div(b.Columns().Mul(def.Two)).As("k")
	b.Out("dx1", def.FMA(xhat1.Neg(), k, t1).Mul(rstd), def.Like("dy1"))
	b.Out("dx2", def.FMA(xhat2.Neg(), k, t2).Mul(rstd), def.Like("dy1"))
	b.OutCol("dgamma1", def.ColSum(g1.Mul(xhat1)), def.Like("gamma1"))
	b.OutCol("dgamma2", def.ColSum(g2.Mul(xhat2)), def.Like("gamma1"))

	b.Formula(
		"g1[r,i] = dy1[r,i]*c + dy2[r,i]*s,  g2[r,i] = dy2[r,i]*c - dy1[r,i]*s,  c = cos[position[r],i],  s = sin[position[r],i]",
		"xhat = x*rstd[r],  u = g*gamma, both of each half,  k[r] = sum over i of (u1[r,i]*xhat1[r,i] + u2[r,i]*xhat2[r,i]) / (2*C)",
		"dx1[r,i] = (u1[r,i] - xhat1[r,i]*k[r])*rstd[r],  dx2[r,i] = (u2[r,i] - xhat2[r,i]*k[r])*rstd[r]",
		"dgamma1[i] = sum over r of g1[r,i]*xhat1[r,i],  dgamma2[i] = sum over r of g2[r,i]*xhat2[r,i]",
	)
	b.Clauses(
		rowsClause,
		positionClause,
		"a NaN in a row of dy1, dy2, x1, x2 or rstd makes the rows of dx1 and dx2 NaN, one in gamma1 or gamma2 all of them",
		"a NaN in a column of dy1 or dy2, or of x1 or x2 times rstd, makes dgamma1 or dgamma2 NaN there: of both, or of that half",
		"an infinity in a row of dy1, dy2, x1, x2 or rstd makes the rows of dx1 and dx2 infinite or NaN",
		"rstd is used as given: a finite one need not belong to x1 and x2, and rstd 0 makes the rows of dx1 and dx2 zeros",
		"subnormals are kept; results that overflow are infinite, and a sum that overflows counts as an infinity in its row or column",
		"dx1 and dx2 may each be dy1, dy2, x1 or x2 itself, but not both the same; any other overlap is refused",
	)
}))

// Params are the numbers of a call of NormForward. Start from DefaultParams: the zero value
// is legal, has eps 0, and makes a row of zeros NaN.
type Params struct {
	Eps float64 // added to the mean square; at least 0, usually DefaultEps
}

// DefaultParams is eps 1e-6.
var DefaultParams = Params{Eps: DefaultEps}

// Forward computes y1 and y2, which may be x1 and x2 themselves.
func Forward(q *engine.Queue, y1, y2, x1, x2, position, cos, sin *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, ForwardDefinition, []*tensor.Tensor{x1, x2, position, cos, sin, y1, y2}, nil, opts...)
}

// Backward computes the gradients of x1 and x2 from those of y1 and y2, which they may replace.
func Backward(q *engine.Queue, dx1, dx2, dy1, dy2, position, cos, sin *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BackwardDefinition, []*tensor.Tensor{dy1, dy2, position, cos, sin, dx1, dx2}, nil, opts...)
}

// NormForward computes y1 and y2, which may be x1 and x2 themselves, and the rstd that
// NormBackward needs.
func NormForward(q *engine.Queue, y1, y2, rstd, x1, x2, gamma1, gamma2, position, cos, sin *tensor.Tensor, p Params, opts ...engine.CallOption) error {
	return engine.Call(q, NormForwardDefinition, []*tensor.Tensor{x1, x2, gamma1, gamma2, position, cos, sin, y1, y2, rstd}, []float64{p.Eps}, opts...)
}

// NormBackward computes the gradients of x1, x2, gamma1 and gamma2.
func NormBackward(q *engine.Queue, dx1, dx2, dgamma1, dgamma2, dy1, dy2, x1, x2, gamma1, gamma2, rstd, position, cos, sin *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, NormBackwardDefinition, []*tensor.Tensor{dy1, dy2, x1, x2, gamma1, gamma2, rstd, position, cos, sin, dx1, dx2, dgamma1, dgamma2}, nil, opts...)
}
