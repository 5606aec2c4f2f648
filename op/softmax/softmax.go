package softmax

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/tensor"
)

// ForwardDefinition divides once per row; e is used unrounded.
var ForwardDefinition = def.Must(def.Rowwise("softmax.forward", func(b *def.Builder) {
	x := b.In("x")
	e := fn.ExpNonPositive(x.Sub(def.RowMax(x).As("max"))).As("e")
	sum := def.RowSum(e).As("sum")
	b.Out("y", e.Mul(def.One.Div(sum)), def.Like("x"))

	b.Formula("y[r,c] = exp(x[r,c] - max) / sum exp(x[r,c] - max)")
	b.Clauses(
		"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided",
		"a NaN in a row makes the row NaN",
		"+Inf in a row makes the row NaN",
		"-Inf gives +0, unless the whole row is -Inf, which gives NaN",
		"exp(0) = 1 exactly: a row of C <= 2^24 equal finite elements gives 1/C, rounded to binary32, then to storage",
		"a finite row gives values in [0, 1], however far apart its elements are; small results are subnormal, and the smallest +0",
		"+0 and -0 give the same result, and subnormals are kept",
		"y may be x itself; any other overlap is refused",
	)
}))

// BackwardDefinition takes y, the result of the forward operation, as stored.
var BackwardDefinition = def.Must(def.Rowwise("softmax.backward", func(b *def.Builder) {
	dy, y := b.In("dy"), b.In("y", def.Like("dy"))
	dot := def.RowSum(dy.Mul(y)).As("dot")
	b.Out("dx", y.Mul(dy.Sub(dot)), def.Like("dy"))

	b.Formula("dx[r,c] = y[r,c] * (dy[r,c] - sum dy[r,c]*y[r,c])")
	b.Clauses(
		"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided",
		"a NaN in a row of dy or y makes the row NaN",
		"an infinity in a row of dy or y, or a sum that overflows, makes every element of the row infinite or NaN",
		"y = 0 gives a zero where dy and the sum are finite; subnormals are kept, and a result too large for its format is infinite",
		"dx may be dy or y itself; any other overlap is refused",
	)
}))

// Forward computes y from x. They may be the same tensor.
func Forward(q *engine.Queue, y, x *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, ForwardDefinition, []*tensor.Tensor{x, y}, nil, opts...)
}

// Backward computes dx from dy and the stored result y. dx may be either of them.
func Backward(q *engine.Queue, dx, dy, y *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BackwardDefinition, []*tensor.Tensor{dy, y, dx}, nil, opts...)
}
