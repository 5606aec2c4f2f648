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

	// Gradients takes exponents, what is seen, slopes, gradients of weights, and of each row the logarithm
	// of its weights and its delta. It gives the weights and the gradients of scores, as values are stored.
	Gradients *def.Definition

	Queries *def.Definition // dq[M,D] = ds[M,N]·k[N,D]
	Keys    *def.Definition // dk[N,D] += ds[M,N]ᵀ·q[M,D], and dv likewise
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
	p.Gradients = rowwise(func(b *def.Builder) {
		t := b.In("t", f32)
		seen := inputOf(b, "seen", bodyOutput(f, 1).Extent, def.Only(num.I32)).NotEqual(def.IntConst(0))
		slope := inputOf(b, "h", bodyOutput(f, f.Slope()).Extent, f32)
		dp := b.In("dp", f32)
		z := origin(b.InRow("lse", f32))
		weight := e.Of(t.Sub(z))
		gradient := weight.Mul(dp.Sub(b.InRow("delta", f32))).Mul(slope)
		b.Out("p", def.Select(seen, weight, def.Const(0)), stored)
		b.Out("ds", def.Select(seen, gradient, def.Const(0)), stored)
	})
	if f.HasBase() {
		p.Base = rowwise(func(b *def.Builder) {
			base, lse, delta := b.In("base", f32), b.In("lse", f32), b.In("delta", f32)
			b.Out("dbase", e.Of(base.Sub(origin(lse))).Mul(delta).Neg().Mul(def.Number("log(2)")), f32)
		})
	}
	return p, err
}

// bodyOutput returns an output of the body as an operand.
func bodyOutput(f *def.StreamBackward, i int) *def.Operand { return &f.Body.Operands[len(f.Reads)+i] }

// inputOf declares an input of an extent.
func inputOf(b *def.Builder, name string, e def.Extent, rule def.Rule) def.Value {
	switch e {
	case def.PerRow:
		return b.InRow(name, rule)
	case def.PerColumn:
		return b.InCol(name, rule)
	}
	return b.In(name, rule)
}
