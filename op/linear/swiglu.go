package linear

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/op/silu"
	"tokitai/tensor"
)

// SwiGLUDefinition is silu(A·Gᵀ) ∘ (A·Uᵀ). Both products are rounded to the format of the results and stored, for a
// backward pass, and Y is computed from what is stored: the bits are those of two products and of swiglu.forward.
var SwiGLUDefinition = def.Must(def.FusedOf("linear.swiglu.forward", func(b *def.FusedBuilder) {
	factors := func(right, result string) def.ContractionForm {
		f := product
		f.Right, f.Result = right, result
		return f
	}
	g, u := b.Product(factors("G", "gate_sum")), b.Product(factors("U", "up_sum"))
	gate, up := g.Round(def.StorageOf("gate")).As("gate"), u.Round(def.StorageOf("up")).As("up")
	b.Out("gate", gate, def.Like("A"))
	b.Out("up", up, def.Like("A"))
	b.Out("Y", silu.Of(gate).Value().Mul(up), def.Like("A"))

	b.Formula(
		"gate[m,n] = sum over k of A[m,k] * G[n,k],  up[m,n] = sum over k of A[m,k] * U[n,k]",
		"Y = silu(gate) * up,  silu(g) = g * sigmoid(g)",
	)
	b.Clauses(
		"M >= 0, N, K >= 1; leading dimensions count as rows, and the rows of every operand may be strided",
		"by the rule fma: acc = fma(A, G, acc), the summed index ascending from +0, and likewise for U; acc is rounded to the format of gate and of up, and Y has the bits of swiglu.forward on these",
		"NaN, 0 times an infinity, or infinities of both signs in a sum give NaN, other infinities that infinity; Y is what swiglu.forward gives for such values of gate and up",
		"no result may overlap an operand or another result; the operands may be the same tensor",
		"subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and so is a result that is too large for its format",
	)
}))

// SwiGLU computes gate = A·Gᵀ, up = A·Uᵀ and Y = silu(gate) ∘ up.
func SwiGLU(q *engine.Queue, y, gate, up, a, g, u *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, SwiGLUDefinition, []*tensor.Tensor{a, g, u, gate, up, y}, nil, opts...)
}
