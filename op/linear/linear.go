package linear

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/tensor"
)

// product is A·Bᵀ: B has a row for each column of the result, as the weights of a layer have.
var product = def.ContractionForm{
	Left: "A", LeftDims: []string{"M", "K"},
	Right: "B", RightDims: []string{"N", "K"}, TransposeRight: true,
	Result: "sum", ResultDims: []string{"M", "N"},
}

// ResidualDefinition is X + A·Bᵀ. The product is rounded to the format of Y before it is added, so that the bits are
// those of a product that is stored and then added.
var ResidualDefinition = def.Must(def.FusedOf("linear.residual.forward", func(b *def.FusedBuilder) {
	sum := b.Product(product)
	x := b.In("X", []string{"M", "N"}, def.Like("A"))
	b.Out("Y", x.Add(sum.Round(def.StorageOf("Y")).As("product")), def.Like("A"))

	b.Formula("Y[m,n] = X[m,n] + (sum over k of A[m,k] * B[n,k])")
	b.Clauses(
		"M >= 0, N, K >= 1; leading dimensions count as rows, and the rows of every operand may be strided",
		"by the rule fma: acc = fma(A, B, acc), the summed index ascending from +0; acc is rounded to the format of Y, X is added, and the sum is rounded to it again",
		"NaN, 0 times an infinity, or infinities of both signs in a sum or in the addition give NaN; other infinities give that infinity",
		"the result may not overlap the operands; the operands may be the same tensor",
		"subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and so are a product and a result that are too large for their format",
	)
}))

// Residual computes Y = X + A·Bᵀ.
func Residual(q *engine.Queue, y, x, a, b *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, ResidualDefinition, []*tensor.Tensor{a, b, x, y}, nil, opts...)
}
