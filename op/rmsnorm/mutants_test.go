package rmsnorm_test

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/rmsnorm"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, rmsnorm.Operations, wrong(), right(), peers)
}

// inverse is 1/sqrt(mean square + eps) of a row, from the sum of squares.
type inverse func(squares, n, eps float32) float32

func rstd(squares, n, eps float32) float32 { return 1 / num.Sqrt(squares/n+eps) }

// normalize computes y and rstd of rows.
func normalize(c *mutants.Call, p mutants.Parts, inv inverse, x mutants.Matrix) {
	gamma, y := c.In("gamma").V, c.In("y")
	squares := make([]float32, x.Cols)
	for r := range x.Rows {
		for i, v := range x.Row(r) {
			squares[i] = p.Step(v * v)
		}
		s := p.Step(inv(p.Sum(squares), float32(x.Cols), c.Param("eps")))
		for i, v := range x.Row(r) {
			y.Row(r)[i] = p.Step(v*s) * gamma[i]
		}
		c.In("rstd").V[r] = s
	}
}

func forwardBody(p mutants.Parts, inv inverse) func(c *mutants.Call) {
	return func(c *mutants.Call) { normalize(c, p, inv, c.In("x")) }
}

// withResidual normalizes what round makes of the sum.
func withResidual(p mutants.Parts, round func(d num.DType, x float32) float32) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		x, residual := c.In("x"), c.In("residual")
		sum := mutants.NewMatrix(x.Rows, x.Cols)
		for i := range x.V {
			total := x.V[i] + residual.V[i]
			c.In("sum").V[i], sum.V[i] = total, round(c.Stored[0].DType, total)
		}
		normalize(c, p, rstd, sum)
	}
}

// project calls finish with t - xhat·(mean of t·xhat) of every element, for dx, and computes dgamma.
func project(c *mutants.Call, p mutants.Parts, x mutants.Matrix, finish func(r, i int, projected, rstd float32) float32) {
	dy, gamma, s := c.In("dy"), c.In("gamma").V, c.In("rstd").V
	products := mutants.NewMatrix(x.Rows, x.Cols)
	xhat, t, tx := make([]float32, x.Cols), make([]float32, x.Cols), make([]float32, x.Cols)
	for r := range x.Rows {
		for i := range xhat {
			xhat[i] = p.Step(x.Row(r)[i] * s[r])
			t[i] = p.Step(dy.Row(r)[i] * gamma[i])
			tx[i] = p.Step(t[i] * xhat[i])
			products.Row(r)[i] = p.Step(dy.Row(r)[i] * xhat[i])
		}
		b := p.Step(p.Sum(tx) / float32(x.Cols))
		for i := range xhat {
			c.In("dx").Row(r)[i] = finish(r, i, p.Step(t[i]-p.Step(xhat[i]*b)), s[r])
		}
	}
	for i := range gamma {
		c.In("dgamma").V[i] = p.Sum(products.Column(i))
	}
}

func backwardBody(p mutants.Parts) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		project(c, p, c.In("x"), func(_, _ int, projected, rstd float32) float32 { return projected * rstd })
	}
}

// backwardWithResidual computes dx from the projection, rstd and dsum by finish.
func backwardWithResidual(p mutants.Parts, finish func(projected, rstd, dsum float32) float32) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		project(c, p, c.In("sum"), func(r, i int, projected, rstd float32) float32 {
			return finish(projected, rstd, c.In("dsum").Row(r)[i])
		})
	}
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(rmsnorm.Operations)
	lanes := mutants.Ordered(mutants.InLanes(16))
	answer := func(edit func(c *mutants.Call)) mutants.Plain {
		return mutants.Plain{Body: mutants.Answer, Edit: edit}
	}

	l.Of(rmsnorm.ForwardDefinition, num.F16)
	l.From(mutants.KernelPractice)
	l.Add("eps-outside", "eps is added to the root, not under it", mutants.Lanes16, mutants.Plain{Body: forwardBody(lanes, func(q, n, eps float32) float32 { return 1 / (num.Sqrt(q/n) + eps) })})
	l.Add("no-eps", "eps is left out", mutants.AnyOrder, mutants.Plain{Body: forwardBody(lanes, func(q, n, _ float32) float32 { return rstd(q, n, 0) })})
	l.Add("no-mean", "the sum of squares is not divided by C", mutants.AnyOrder, mutants.Plain{Body: forwardBody(lanes, func(q, _, eps float32) float32 { return rstd(q, 1, eps) })})
	l.Add("rough-root", "1/sqrt has a relative error of 2^-12", mutants.Lanes16, mutants.Plain{Body: forwardBody(lanes, func(q, n, eps float32) float32 {
		return mutants.KeepBits(12)(1 / math.Sqrt(float64(q/n+eps)))
	})})
	l.Add("centred", "the mean is subtracted, as LayerNorm does", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		x := c.In("x")
		for r := range x.Rows {
			mean := mutants.InDouble(x.Row(r)) / float32(x.Cols)
			for i := range x.Row(r) {
				x.Row(r)[i] -= mean
			}
		}
		normalize(c, lanes, rstd, x)
	}})
	l.From("Gemma, RMSNorm")
	l.Add("gamma-plus-one", "gamma is taken as 1 + gamma", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		for i := range c.In("gamma").V {
			c.In("gamma").V[i]++
		}
		mutants.Answer(c)
	}})
	l.From("Llama, RMSNorm")
	l.Add("normalized-rounded", "the normalized row is rounded to f16 before it is multiplied by gamma", mutants.Stable, mutants.Plain{Body: func(c *mutants.Call) {
		forwardBody(lanes, rstd)(c)
		x, y := c.In("x"), c.In("y")
		for r := range x.Rows {
			for i, v := range x.Row(r) {
				y.Row(r)[i] = num.Round(num.F16, v*c.In("rstd").V[r]) * c.In("gamma").V[i]
			}
		}
	}})
	l.From(mutants.KernelPractice)
	l.Add("squares-in-f16", "squares are rounded to f16: infinite from 256 on", mutants.Stable, mutants.Plain{Body: forwardBody(mutants.Ordered(mutants.Rounding(mutants.To(num.F16))), rstd)})
	l.Add("rstd-not-written", "rstd is not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.FirstOutput})
	l.Of(rmsnorm.ForwardDefinition, num.F32)
	l.Add("block-of-1024", "columns beyond 1,024 do not count for the mean square", mutants.PromisesBits, answer(func(c *mutants.Call) {
		if c.In("x").Cols > 1024 {
			forwardBody(mutants.Ordered(func(t []float32) float32 { return num.LaneSum(t[:1024], 256) }), rstd)(c)
		}
	}))

	l.Of(rmsnorm.ResidualForwardDefinition, num.BF16)
	l.From("PyTorch, addition and RMSNorm fused by a compiler")
	notRounded := func(p mutants.Parts) mutants.Plain {
		return mutants.Plain{Body: withResidual(p, func(_ num.DType, x float32) float32 { return x })}
	}
	l.Add("sum-not-rounded", "y is computed from the sum before it is rounded to storage", mutants.PromisesBits, notRounded(mutants.Ordered(func(x []float32) float32 {
		return num.LaneSum(x, num.RowLanes(len(x)))
	})))
	l.Add("sum-not-rounded-any-order", "y is computed from the sum before it is rounded to storage", mutants.AnyOrder, notRounded(lanes))
	l.Add("sum-not-rounded-stable", "y is computed from the sum before it is rounded to storage", mutants.Stable, notRounded(lanes))
	l.Add("square-of-unrounded", "rstd is that of the sum before it is rounded to storage", mutants.Stable, mutants.Plain{Body: func(c *mutants.Call) {
		notRounded(lanes).Body(c)
		gamma, s := c.In("gamma").V, c.In("rstd").V
		for r := range c.In("sum").Rows {
			for i, v := range c.In("sum").Row(r) {
				c.In("y").Row(r)[i] = num.Round(num.BF16, v) * s[r] * gamma[i]
			}
		}
	}})
	l.From("Llama, RMSNorm")
	l.Add("normalized-rounded", "the normalized row is rounded to bf16 before it is multiplied by gamma", mutants.Stable, mutants.Plain{Body: func(c *mutants.Call) {
		residualBody(lanes)(c)
		gamma, s := c.In("gamma").V, c.In("rstd").V
		for r := range c.In("sum").Rows {
			for i, v := range c.In("sum").Row(r) {
				c.In("y").Row(r)[i] = num.Round(num.BF16, num.Round(num.BF16, v)*s[r]) * gamma[i]
			}
		}
	}})
	l.From(mutants.KernelPractice)
	l.Add("ties-away", "ties of the sum are rounded away from zero", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		away := func(d num.DType, x float32) float32 { return num.Round(d, x*(1+0x1p-23)) }
		withResidual(lanes, away)(c)
		for i, v := range c.In("sum").V {
			c.In("sum").V[i] = away(num.BF16, v)
		}
	}})
	l.Add("no-residual", "the residual is not added", mutants.PromisesBits, mutants.Plain{Body: func(c *mutants.Call) {
		mutants.Zeros(c.In("residual"))
		mutants.Answer(c)
	}})
	l.Add("sum-is-y", "sum holds y", mutants.PromisesBits, answer(func(c *mutants.Call) { copy(c.In("sum").V, c.In("y").V) }))
	l.Of(rmsnorm.ResidualForwardDefinition, num.F16)
	l.Add("sum-in-bf16", "the sum is rounded to bf16 and then stored as f16", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		narrow := func(_ num.DType, x float32) float32 { return num.Round(num.F16, num.Round(num.BF16, x)) }
		withResidual(lanes, narrow)(c)
		for i, v := range c.In("sum").V {
			c.In("sum").V[i] = narrow(num.F16, v)
		}
	}})
	l.Add("added-later", "y is that of x, and the residual is added to it", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		withResidual(lanes, num.Round)(c)
		normalize(c, lanes, rstd, c.In("x"))
		for i, v := range c.In("residual").V {
			c.In("y").V[i] += v
		}
	}})
	l.Add("sum-truncated", "sum is cut off to f16, not rounded", mutants.AnyOrder, mutants.Plain{Body: withResidual(lanes, func(d num.DType, x float32) float32 {
		return num.Widen(d, mutants.StoreTowardZero(d, x))
	}), Store: mutants.StoreTowardZero})
	l.Add("clears-first", "outputs are cleared before the inputs are read: nothing is left in place", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Before: mutants.ClearsFirst})

	l.Of(rmsnorm.BackwardDefinition, num.F16)
	l.Add("no-projection", "the part along xhat is not subtracted", mutants.AnyOrder, answer(func(c *mutants.Call) {
		dy, gamma := c.In("dy"), c.In("gamma").V
		for r := range dy.Rows {
			for i, v := range dy.Row(r) {
				c.In("dx").Row(r)[i] = v * gamma[i] * c.In("rstd").V[r]
			}
		}
	}))
	l.Add("gamma-missing", "gamma is left out of the sum over the row", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		dy, x, gamma, s := c.In("dy"), c.In("x"), c.In("gamma").V, c.In("rstd").V
		backwardBody(lanes)(c)
		for r := range x.Rows {
			b := 0.0
			for i, v := range x.Row(r) {
				b += float64(dy.Row(r)[i]) * float64(v) * float64(s[r]) / float64(x.Cols)
			}
			for i, v := range x.Row(r) {
				c.In("dx").Row(r)[i] = float32((float64(dy.Row(r)[i])*float64(gamma[i]) - float64(v)*float64(s[r])*b) * float64(s[r]))
			}
		}
	}})
	l.Add("dgamma-of-x", "dgamma is the sum of dy·x, without rstd", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		backwardBody(lanes)(c)
		for i := range c.In("dgamma").V {
			products := c.In("x").Column(i)
			for r, v := range c.In("dy").Column(i) {
				products[r] *= v
			}
			c.In("dgamma").V[i] = lanes.Sum(products)
		}
	}})
	l.Add("f16-column-sums", "dgamma is kept in f16 while it is added", mutants.Lanes16, mutants.Plain{Body: func(c *mutants.Call) {
		backwardBody(mutants.Ordered(mutants.Rounding(mutants.To(num.F16))))(c)
		dgamma := append([]float32(nil), c.In("dgamma").V...)
		backwardBody(lanes)(c)
		copy(c.In("dgamma").V, dgamma)
	}})
	l.Add("only-dx", "dgamma is not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.FirstOutput})
	l.Of(rmsnorm.BackwardDefinition, num.F32)
	l.Add("not-cleared", "dgamma is added to what is there", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Write: func(c *mutants.Call, i int, v mutants.Matrix, k *mutants.Plain) {
		if i != c.Position("dx") {
			for col := range v.V {
				v.V[col] += c.Stored[i].At(0, col)
			}
		}
		k.Put(c, i, v)
	}})

	l.Of(rmsnorm.ResidualBackwardDefinition, num.BF16)
	l.From(mutants.KernelPractice)
	l.Add("no-dsum", "the gradient of the sum from elsewhere is left out", mutants.AnyOrder, mutants.Plain{Body: backwardWithResidual(lanes, func(projected, rstd, _ float32) float32 { return projected * rstd })})
	l.Add("dsum-twice", "dsum is added twice", mutants.AnyOrder, mutants.Plain{Body: backwardWithResidual(lanes, func(projected, rstd, dsum float32) float32 { return projected*rstd + 2*dsum })})
	l.Add("dsum-scaled", "dsum is multiplied by rstd, too", mutants.AnyOrder, mutants.Plain{Body: backwardWithResidual(lanes, func(projected, rstd, dsum float32) float32 { return (projected + dsum) * rstd })})
	l.From("PyTorch, backward of RMSNorm and an addition")
	l.Add("dx-rounded-first", "the gradient through the norm is rounded to bf16 before dsum is added", mutants.Stable, mutants.Plain{Body: backwardWithResidual(lanes, func(projected, rstd, dsum float32) float32 {
		return num.Round(num.BF16, projected*rstd) + dsum
	})})
	l.From(mutants.KernelPractice)
	l.Of(rmsnorm.ResidualBackwardDefinition, num.F32)
	l.Add("dsum-in-dgamma", "dgamma takes dy + dsum", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		exact := backwardWithResidual(lanes, num.FMA)
		exact(c)
		dx := append([]float32(nil), c.In("dx").V...)
		for i, v := range c.In("dsum").V {
			c.In("dy").V[i] += v
		}
		exact(c)
		copy(c.In("dx").V, dx)
	}})
	return l.All
}

func right() []mutants.Mutant {
	l := mutants.NewList(rmsnorm.Operations)
	plain := func(p mutants.Parts) func(*mutants.Call) { return forwardBody(p, rstd) }
	l.InOrders(rmsnorm.ForwardDefinition, num.F16, plain, "sequential", "lanes-16")
	l.AddReferenceOrder()
	l.InOrders(rmsnorm.ResidualForwardDefinition, num.F32, residualBody, "lanes-16")
	l.InOrders(rmsnorm.ResidualForwardDefinition, num.BF16, residualBody, "lanes-16", "sequential")
	l.InOrders(rmsnorm.ResidualBackwardDefinition, num.BF16, residualBackwardBody, "lanes-16")
	l.InOrders(rmsnorm.BackwardDefinition, num.F16, backwardBody, "lanes-16")
	l.InOrders(rmsnorm.BackwardDefinition, num.F32, backwardBody, "pairwise")

	lanes := mutants.Ordered(mutants.InLanes(32))
	l.Of(rmsnorm.ForwardDefinition, num.F32)
	l.Add("scale-first", "x·(rstd·gamma)", mutants.Stable, mutants.Plain{Body: func(c *mutants.Call) {
		forwardBody(lanes, rstd)(c)
		x := c.In("x")
		for r := range x.Rows {
			for i, v := range x.Row(r) {
				c.In("y").Row(r)[i] = v * float32(c.In("rstd").V[r]*c.In("gamma").V[i])
			}
		}
	}})
	l.Of(rmsnorm.ResidualForwardDefinition, num.BF16)
	l.Add("scale-first", "sum·(rstd·gamma), of the sum as it is stored", mutants.Stable, mutants.Plain{Body: func(c *mutants.Call) {
		residualBody(lanes)(c)
		for r := range c.In("sum").Rows {
			for i, v := range c.In("sum").Row(r) {
				c.In("y").Row(r)[i] = num.Round(num.BF16, v) * float32(c.In("rstd").V[r]*c.In("gamma").V[i])
			}
		}
	}})
	l.Of(rmsnorm.ResidualBackwardDefinition, num.F16)
	l.Add("not-fused", "the product by rstd is rounded to binary32 before dsum is added", mutants.Stable, mutants.Plain{Body: backwardWithResidual(lanes, func(projected, rstd, dsum float32) float32 { return float32(projected*rstd) + dsum })})
	return l.All
}

func residualBody(p mutants.Parts) func(*mutants.Call) { return withResidual(p, num.Round) }

func residualBackwardBody(p mutants.Parts) func(*mutants.Call) {
	return backwardWithResidual(p, num.FMA)
}

// peers returns plain kernels of the definitions, made of the given parts.
func peers(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
	return map[*def.Definition]func(*mutants.Call){
		rmsnorm.ForwardDefinition: forwardBody(p, rstd), rmsnorm.ResidualForwardDefinition: residualBody(p),
		rmsnorm.BackwardDefinition: backwardBody(p), rmsnorm.ResidualBackwardDefinition: residualBackwardBody(p),
	}
}
