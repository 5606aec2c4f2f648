package model

import "tokitai/def"

// Definitions of networks that are no operations of their own: sums, and products with weights
// that are stored as checkpoints have them, [out, in].
var (
	// Add is the sum of two values.
	Add = def.Must(def.Rowwise("model.add", func(b *def.Builder) {
		b.Out("y", b.In("a").Add(b.In("b", def.Like("a"))), def.Like("a"))
		b.Formula("y = a + b")
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

	// Scale multiplies by a number.
	Scale = def.Must(def.Rowwise("model.scale", func(b *def.Builder) {
		b.Out("y", b.In("x").Mul(b.Param("factor")), def.Like("x"))
		b.Formula("y = x * factor")
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
)
