package model

import (
	"math"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
)

// Definitions of networks that are no operations of their own: sums, and products with weights
// that are stored as checkpoints have them, [out, in].
var (
	// Add is the sum of two values.
	Add = def.Must(def.Rowwise("model.add", func(b *def.Builder) {
		b.Out("y", b.In("a").Add(b.In("b", def.Like("a"))), def.Like("a"))
		b.Formula("y = a + b")
	}))

	// Widen and Round bring a value to binary32 and to 16 bits. Nothing is lost by the first.
	Widen = def.Must(def.Rowwise("model.widen", func(b *def.Builder) {
		b.Out("y", b.In("x", def.Only(num.F16, num.BF16)), def.Only(num.F32))
		b.Formula("y = x")
	}))
	RoundBF16 = def.Must(def.Rowwise("model.round.bf16", func(b *def.Builder) {
		b.Out("y", b.In("x", def.Only(num.F32)), def.Only(num.BF16))
		b.Formula("y = x, rounded once to bf16")
	}))

	// Bias adds a vector to every row, and BiasBackward sums the rows of its gradient.
	Bias = def.Must(def.Rowwise("model.bias", func(b *def.Builder) {
		b.Out("y", b.In("x").Add(b.InCol("b", def.Like("x"))), def.Like("x"))
		b.Formula("y[r,c] = x[r,c] + b[c]")
	}))
	BiasBackward = def.Must(def.Rowwise("model.bias.backward", func(b *def.Builder) {
		b.OutCol("db", def.ColSum(b.In("dy")), def.Like("dy"))
		b.Formula("db[c] = sum over r of dy[r,c]")
	}))

	// Multiply is the product of two values, element by element.
	Multiply = def.Must(def.Rowwise("model.multiply", func(b *def.Builder) {
		b.Out("y", b.In("a").Mul(b.In("b", def.Like("a"))), def.Like("a"))
		b.Formula("y = a * b")
	}))
	MultiplyBackward = def.Must(def.Rowwise("model.multiply.backward", func(b *def.Builder) {
		dy := b.In("dy")
		x, y := b.In("a", def.Like("dy")), b.In("b", def.Like("dy"))
		b.Out("da", dy.Mul(y), def.Like("dy"))
		b.Out("db", dy.Mul(x), def.Like("dy"))
		b.Formula("da = dy * b", "db = dy * a")
	}))

	// Entropy is that of the softmax of each row, in nats.
	Entropy = def.Must(def.Rowwise("model.entropy", func(b *def.Builder) {
		x := b.In("x")
		z := x.Sub(def.RowMax(x)).As("z")
		e := fn.Exp(z).As("e")
		s := def.RowSum(e).As("s")
		b.OutRow("h", fn.Log(s).Sub(def.RowSum(e.Mul(z)).Div(s)), def.Only(num.F32))
		b.Formula("h[r] = -sum over c of p[r,c] * ln(p[r,c]), p = softmax(x[r,:])")
	}))

	// Top keeps the k largest values of each row, of equal ones the first, and counts for each column the rows that keep it.
	Top = def.Must(def.Rowwise("model.top", func(b *def.Builder) {
		x := b.In("x")
		isKept := def.Rank(x).Less(b.IntParam("k", def.Between(1, math.MaxInt32))).As("kept")
		b.Out("y", def.Select(isKept, x, def.Zero), def.Like("x"))
		b.OutCol("count", def.ColSum(def.Select(isKept, def.IntConst(1), def.IntConst(0))), def.Only(num.I32))
		b.Formula("y[r,c] = x[r,c] if it is one of the k largest of row r, else 0", "count[c] = the rows in which it is")
	}))
	TopBackward = def.Must(def.Rowwise("model.top.backward", func(b *def.Builder) {
		dy, x := b.In("dy"), b.In("x", def.Like("dy"))
		isKept := def.Rank(x).Less(b.IntParam("k", def.Between(1, math.MaxInt32))).As("kept")
		b.Out("dx", def.Select(isKept, dy, def.Zero), def.Like("dy"))
		b.Formula("dx[r,c] = dy[r,c] if x[r,c] is one of the k largest of row r, else 0")
	}))

	// SquaredError is the loss of rows of numbers, with its gradient times scale. A target that is NaN does not count.
	SquaredError = def.Must(def.Rowwise("model.squared.error", func(b *def.Builder) {
		y := b.In("y", def.Only(num.F32))
		target := b.In("target", def.Only(num.F32))
		scale := b.Param("scale")
		d := def.Select(target.Equal(target), y.Sub(target), def.Zero).As("d")
		b.OutRow("loss", def.RowSum(d.Mul(d)), def.Only(num.F32))
		b.Out("dy", d.Add(d).Mul(scale), def.Only(num.F32))
		b.Formula("loss[r] = sum over c of d[r,c]^2, d = y - target, or 0 where the target is NaN", "dy = 2 * d * scale")
	}))

	// Scale multiplies by a number.
	Scale = def.Must(def.Rowwise("model.scale", func(b *def.Builder) {
		b.Out("y", b.In("x").Mul(b.Param("factor")), def.Like("x"))
		b.Formula("y = x * factor")
	}))
	ScaleBackward = def.Must(def.Rowwise("model.scale.backward", func(b *def.Builder) {
		b.Out("dx", b.In("dy").Mul(b.Param("factor")), def.Like("dy"))
		b.Formula("dx = dy * factor")
	}))

	// Cap bounds values smoothly. Its gradient has the derivative 1 - tanh^2 as 4e/(1+e)^2 with
	// e = exp(-2|x|/cap), where nothing cancels.
	Cap = def.Must(def.Rowwise("model.cap", func(b *def.Builder) {
		x, limit := b.In("x"), b.Param("cap", def.MoreThan(0))
		b.Out("y", fn.Tanh(x.Div(limit)).Mul(limit), def.Like("x"))
		b.Formula("y = cap * tanh(x / cap)")
	}))
	CapBackward = def.Must(def.Rowwise("model.cap.backward", func(b *def.Builder) {
		dy, x, limit := b.In("dy"), b.In("x", def.Like("dy")), b.Param("cap", def.MoreThan(0))
		e := fn.ExpBounded(x.Div(limit).Abs().Min(def.Const(64)).Mul(def.Const(-2))).As("e")
		r := def.One.Div(def.One.Add(e)).As("r")
		b.Out("dx", dy.Mul(def.Const(4).Mul(e).Mul(r.Mul(r))), def.Like("dy"))
		b.Formula("dx = dy * (1 - tanh(x / cap)^2)")
	}))

	// RMSNorm1 is rmsnorm.forward scaled by 1+gamma instead of gamma.
	RMSNorm1 = def.Must(def.Rowwise("model.rmsnorm1", func(b *def.Builder) {
		x := b.In("x")
		gamma := b.InCol("gamma", def.Like("x").Or(num.F32))
		eps := b.Param("eps", def.AtLeast(0))
		square := def.RowSum(x.Mul(x)).Div(b.Columns()).As("square")
		rstd := def.One.Div(square.Add(eps).Sqrt()).As("inverse")
		b.Out("y", x.Mul(rstd).Mul(def.One.Add(gamma)), def.Like("x"))
		b.OutRow("rstd", rstd, def.Only(num.F32))
		b.Formula("rstd[r] = 1 / sqrt(sum x[r,c]^2 / C + eps)", "y[r,c] = x[r,c] * rstd[r] * (1 + gamma[c])")
	}))
	RMSNorm1Backward = def.Must(def.Rowwise("model.rmsnorm1.backward", func(b *def.Builder) {
		dy, x := b.In("dy"), b.In("x", def.Like("dy"))
		gamma := b.InCol("gamma", def.Like("dy").Or(num.F32))
		rstd := b.InRow("rstd", def.Only(num.F32))
		xhat, t := x.Mul(rstd).As("xhat"), dy.Mul(def.One.Add(gamma)).As("t")
		k := def.RowSum(t.Mul(xhat)).Div(b.Columns()).As("k")
		b.Out("dx", def.FMA(xhat.Neg(), k, t).Mul(rstd), def.Like("dy"))
		b.OutCol("dgamma", def.ColSum(dy.Mul(xhat)), def.Like("gamma"))
		b.Formula(
			"xhat[r,c] = x[r,c] * rstd[r],  t[r,c] = dy[r,c] * (1 + gamma[c])",
			"dx[r,c] = (t[r,c] - xhat[r,c] * sum t[r,c]*xhat[r,c]/C) * rstd[r]",
			"dgamma[c] = sum over r of dy[r,c] * xhat[r,c]",
		)
	}))

	// Linear multiplies the rows of x by a weight [out, in]; LinearX and LinearW are its gradients.
	Linear = def.Must(def.Contraction("model.linear", def.ContractionForm{
		Left: "x", LeftDims: []string{"M", "K"}, Right: "w", RightDims: []string{"N", "K"}, TransposeRight: true,
		Result: "y", ResultDims: []string{"M", "N"},
		Formula: []string{"y[m,n] = sum over k of x[m,k] * w[n,k]"},
	}))
	LinearX = def.Must(def.Contraction("model.linear.x", def.ContractionForm{
		Left: "dy", LeftDims: []string{"M", "N"}, Right: "w", RightDims: []string{"N", "K"},
		Result: "dx", ResultDims: []string{"M", "K"},
		Formula: []string{"dx[m,k] = sum over n of dy[m,n] * w[n,k]"},
	}))
	LinearW = def.Must(def.Contraction("model.linear.w", def.ContractionForm{
		Left: "dy", LeftDims: []string{"M", "N"}, TransposeLeft: true, Right: "x", RightDims: []string{"M", "K"},
		Result: "dw", ResultDims: []string{"N", "K"},
		Formula: []string{"dw[n,k] = sum over m of dy[m,n] * x[m,k]"},
	}))

	// Grouped is Linear with a weight for each group of rows, those of an expert; GroupedX and GroupedW are
	// its gradients.
	Grouped = def.Must(def.Contraction("model.grouped", def.ContractionForm{
		Left: "x", LeftDims: []string{"M", "K"}, Right: "w", RightDims: []string{"E", "N", "K"}, TransposeRight: true,
		Result: "y", ResultDims: []string{"M", "N"}, Groups: groups,
		Formula: []string{"y[m,n] = sum over k of x[m,k] * w[e,n,k], offsets[e] <= m < offsets[e+1]"},
	}))
	GroupedX = def.Must(def.Contraction("model.grouped.x", def.ContractionForm{
		Left: "dy", LeftDims: []string{"M", "N"}, Right: "w", RightDims: []string{"E", "N", "K"},
		Result: "dx", ResultDims: []string{"M", "K"}, Groups: groups,
		Formula: []string{"dx[m,k] = sum over n of dy[m,n] * w[e,n,k], offsets[e] <= m < offsets[e+1]"},
	}))
	GroupedW = def.Must(def.Contraction("model.grouped.w", def.ContractionForm{
		Left: "dy", LeftDims: []string{"M", "N"}, TransposeLeft: true, Right: "x", RightDims: []string{"M", "K"},
		Result: "dw", ResultDims: []string{"E", "N", "K"}, Groups: groups,
		Formula: []string{"dw[e,n,k] = sum over m of dy[m,n] * x[m,k], offsets[e] <= m < offsets[e+1]"},
	}))
)

// groups divides the rows by expert.
var groups = def.Groups{Number: "E", Of: "M", Offsets: "offsets"}
