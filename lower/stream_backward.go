package lower

import (
	"math"

	"tokitai/def"
	"tokitai/num"
)

// BackwardParts are the steps of a stream's gradients as definitions, for a tile of queries of one
// head and a block of keys. A program that computes them one after another computes the gradients, but
// for rows of what is not visible, which its sums must leave out.
type BackwardParts struct {
	Products *def.Definition // s[M,N] = q[M,D]·k[N,D]ᵀ, for scores, and for gradients of weights
	Body     *def.Definition
	Delta    *def.Definition // of rows of the gradient and the mean

	// Gradients takes what the body reads, gradients of weights, and of each row the logarithm of its
	// weights and its delta. It gives the weights and the gradients of scores, as values are stored. The
	// first definition is for blocks of which every query sees every key.
	Gradients [2]*def.Definition

	Queries *def.Definition // dq[M,D] = ds[M,N]·k[N,D]
	Keys    *def.Definition // dk[N,D] += ds[M,N]ᵀ·q[M,D], and dv likewise
	Finite  *def.Definition // a NaN for each row that has a NaN or an infinity
	Base    *def.Definition // the gradient of the base, of the base, the logarithm and delta; nil without a base
}

// BackwardPartsOf returns the steps of a stream's gradients whose values are stored in a format.
func BackwardPartsOf(f *def.StreamBackward, dtype num.DType) (p BackwardParts, err error) {
	f32, stored := def.Only(num.F32), def.Only(dtype)
	e := f.Weights(dtype)
	origin := func(lse def.Value) def.Value {
		return def.Select(lse.Equal(def.Const(math.Inf(-1))), def.Const(0), lse)
	}
	rowwise := func(build func(b *def.Builder)) *def.Definition {
		d, failed := def.Rowwise("part", build)
		if err == nil {
			err = failed
		}
		return d
	}
	p.Body = f.Body
	p.Products = must(&err, def.ContractionForm{
		Left: "q", Right: "k", Result: "s", LeftDims: []string{"M", "D"}, RightDims: []string{"N", "D"}, ResultDims: []string{"M", "N"}, TransposeRight: true,
	})
	p.Queries = must(&err, def.ContractionForm{
		Left: "ds", Right: "k", Result: "dq", LeftDims: []string{"M", "N"}, RightDims: []string{"N", "D"}, ResultDims: []string{"M", "D"},
	})
	p.Keys = must(&err, def.ContractionForm{
		Left: "ds", Right: "q", Result: "dk", LeftDims: []string{"M", "N"}, RightDims: []string{"M", "D"}, ResultDims: []string{"N", "D"}, TransposeLeft: true, Accumulate: true,
	})
	p.Delta = rowwise(func(b *def.Builder) {
		b.OutRow("delta", def.RowSum(b.In("do", stored).Mul(b.In("o", stored))), f32)
	})
	for isPartial := range p.Gradients {
		p.Gradients[isPartial] = rowwise(func(b *def.Builder) {
			_, t, visible, slope := applyBody(b, &f.Stream)
			dp, z := b.In("dp", f32), origin(b.InRow("lse", f32))
			x := t.Sub(z)
			if isPartial == 1 {
				x = def.Select(visible, x, def.Zero) // results below the normal numbers take a processor long
			}
			weight := e.Of(x)
			gradient := weight.Mul(dp.Sub(b.InRow("delta", f32))).Mul(slope)
			if isPartial == 1 {
				weight, gradient = def.Select(visible, weight, def.Zero), def.Select(visible, gradient, def.Zero)
			}
			b.Out("p", weight, stored)
			b.Out("ds", gradient, stored)
		})
	}
	p.Finite = rowwise(finite(dtype))
	if f.HasBase() {
		p.Base = rowwise(func(b *def.Builder) {
			base, lse, delta := b.In("base", f32), b.In("lse", f32), b.In("delta", f32)
			b.Out("dbase", e.Of(base.Sub(origin(lse))).Mul(delta).Neg().Mul(def.Number("log(2)")), f32)
		})
	}
	return p, err
}
