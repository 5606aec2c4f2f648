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
	// first definition is for blocks in which every query sees every key.
	//
	// Those of Replacing take the place of the scores and of the gradients of weights, rounded as values are
	// stored.
	Gradients, Replacing [2]*def.Definition

	Packed *def.Definition // s[M,N] = q[M,D]·kᵀ[D,N]

	Finite, PackedFinite *def.Definition // as those of a stream

	Queries *def.Definition // dq[M,D] = ds[M,N]·k[N,D]
	Keys    *def.Definition // dk[N,D] += ds[M,N]ᵀ·q[M,D], and dv likewise
	Adds    *def.Definition // x = x + y
	Results *def.Definition // sums times a scale, as values are stored
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
		d, failed := def.Rowwise("part", func(b *def.Builder) {
			b.Step()
			build(b)
		})
		if err == nil {
			err = failed
		}
		return d
	}
	p.Body = f.Body
	p.Products = must(&err, def.ContractionForm{
		Left: "q", Right: "k", Result: "s", LeftDims: []string{"M", "D"}, RightDims: []string{"N", "D"}, ResultDims: []string{"M", "N"}, TransposeRight: true,
	})
	p.Packed = must(&err, def.ContractionForm{
		Left: "q", Right: "k", Result: "s", LeftDims: []string{"M", "D"}, RightDims: []string{"D", "N"}, ResultDims: []string{"M", "N"},
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
	gradients := func(isPartial, replaces bool) *def.Definition {
		return rowwise(func(b *def.Builder) {
			score, t, visible, slope := applyBody(b, &f.Stream)
			dp, z := b.In("dp", f32), origin(b.InRow("lse", f32))
			x := t.Sub(z)
			if isPartial {
				x = def.Select(visible, x, def.Zero) // results below the normal numbers take a processor long
			}
			weight := e.Of(x)
			gradient := weight.Mul(dp.Sub(b.InRow("delta", f32))).Mul(slope)
			if isPartial {
				weight, gradient = def.Select(visible, weight, def.Zero), def.Select(visible, gradient, def.Zero)
			}
			switch {
			case !replaces:
				b.Out("p", weight, stored)
				b.Out("ds", gradient, stored)
				return
			case dtype != num.F32:
				weight, gradient = weight.Round(def.FixedStorage(dtype)), gradient.Round(def.FixedStorage(dtype))
			}
			b.Out(score, weight)
			b.Out("dp", gradient)
		})
	}
	p.Gradients = [2]*def.Definition{gradients(false, false), gradients(true, false)}
	p.Replacing = [2]*def.Definition{gradients(false, true), gradients(true, true)}
	p.Finite, p.PackedFinite = rowwise(finite(dtype)), rowwise(finite(num.F32))
	p.Adds = rowwise(func(b *def.Builder) {
		x := b.In("x", f32)
		b.Out("x", x.Add(b.In("y", f32)))
	})
	p.Results = rowwise(func(b *def.Builder) {
		b.Out("y", def.FMA(b.In("x", f32), b.Param("scale"), def.Zero), stored)
	})
	if f.HasBase() {
		p.Base = rowwise(func(b *def.Builder) {
			base, lse, delta := b.In("base", f32), b.In("lse", f32), b.In("delta", f32)
			b.Out("dbase", e.Of(base.Sub(origin(lse))).Mul(delta).Neg().Mul(def.Number("log(2)")), f32)
		})
	}
	return p, err
}
