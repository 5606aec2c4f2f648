package softmax_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, softmax.Operations, wrong(), right(), peers)
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(softmax.Operations)
	forward := func(p mutants.Parts) mutants.Plain { return mutants.Plain{Body: softmaxForward(p)} }
	reference := mutants.Plain{Body: mutants.Answer}
	with := func(k mutants.Plain, change func(*mutants.Plain)) mutants.Plain {
		change(&k)
		return k
	}

	l.Of(softmax.ForwardDefinition, num.F16)
	l.From("prototype 5")
	l.Add("exp-rounded", "exponentials are rounded to f16 before they are divided", mutants.Lanes16,
		forward(mutants.Replaced(mutants.Ordered(mutants.InLanes(16)), func(p *mutants.Parts) {
			p.Exp = func(x float32) float32 { return num.Round(num.F16, mutants.Exp32(x)) }
		})))
	l.From(mutants.Simulated)
	l.Add("sum-rounded", "the sum is rounded to f16", mutants.Lanes16,
		forward(mutants.Replaced(mutants.Ordered(mutants.InLanes(16)), func(p *mutants.Parts) {
			p.Sum = func(x []float32) float32 { return num.Round(num.F16, num.LaneSum(x, 16)) }
		})))
	l.Add("column-dropped", "the last column is missing in the sum", mutants.Lanes16,
		forward(mutants.Replaced(mutants.Ordered(mutants.InLanes(16)), func(p *mutants.Parts) {
			p.Sum = func(x []float32) float32 { return num.LaneSum(x[:max(1, len(x)-1)], 16) }
		})))
	l.Add("f16-accumulator", "the sum is kept in f16", mutants.AnyOrder, forward(mutants.Ordered(mutants.Rounding(mutants.To(num.F16)))))
	l.Add("store-truncates", "results are cut off, not rounded", mutants.Lanes16, mutants.Plain{Body: softmaxForward(mutants.Ordered(mutants.InLanes(16))), Store: mutants.StoreTowardZero})
	l.Add("store-via-bf16", "results are rounded to bf16, then to f16", mutants.Lanes16, mutants.Plain{Body: softmaxForward(mutants.Ordered(mutants.InLanes(16))), Store: mutants.StoreVia(mutants.To(num.BF16))})
	l.Add("store-via-13-bits", "results are rounded to 13 bits, then to f16", mutants.Pairwise, mutants.Plain{Body: softmaxForward(mutants.Ordered(mutants.InPairs)), Store: mutants.StoreVia(mutants.To13Bits)})
	l.From(mutants.ZerosPass)
	l.Add("zeros", "every result is zero", mutants.AnyOrder, mutants.Edited(mutants.Zeros))
	l.From(mutants.KernelPractice)
	l.Add("no-maximum", "the maximum is not subtracted: exponentials overflow", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		x, y := c.In("x"), c.In("y")
		for r := range x.Rows {
			s := float32(0)
			for i, v := range x.Row(r) {
				y.Row(r)[i] = mutants.Exp32(v)
				s += y.Row(r)[i]
			}
			for i := range y.Row(r) {
				y.Row(r)[i] /= s
			}
		}
	}})
	l.Add("base-2", "2 to the power of x instead of e", mutants.AnyOrder,
		forward(mutants.Replaced(mutants.Ordered(mutants.Ascending), func(p *mutants.Parts) { p.Exp = func(x float32) float32 { return float32(math.Exp2(float64(x))) } })))
	l.Add("wrong-axis", "columns add up to 1, not rows", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		x, y := c.In("x"), c.In("y")
		for i := range x.Cols {
			column := x.Column(i)
			mutants.SoftmaxRow(mutants.Ordered(mutants.Ascending), column, column)
			for r, v := range column {
				y.Row(r)[i] = v
			}
		}
	}})
	l.Add("online-without-rescaling", "a new maximum does not rescale the sum so far", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		x, y := c.In("x"), c.In("y")
		for r := range x.Rows {
			m, s := float32(math.Inf(-1)), float32(0)
			for _, v := range x.Row(r) {
				m = max(m, v)
				s += mutants.Exp32(v - m)
			}
			for i, v := range x.Row(r) {
				y.Row(r)[i] = mutants.Exp32(v-m) / s
			}
		}
	}})
	l.Add("nan-skipped", "a NaN counts as an element that is not there", mutants.PromisesBits, mutants.Plain{
		Body: mutants.Answer,
		Load: func(a num.Array, r, c int) float32 {
			if v := a.At(r, c); v == v {
				return v
			}
			return float32(math.Inf(-1))
		},
	})
	l.Add("masked-row-zeros", "a row of -Inf gives zeros, not NaN", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		x, y := c.In("x"), c.In("y")
		for r := range x.Rows {
			if math.IsInf(float64(mutants.Maximum(x.Row(r))), -1) {
				clear(y.Row(r))
			}
		}
	}})
	l.Add("block-of-1024", "columns beyond 1,024 are not in the sum", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		x, y := c.In("x"), c.In("y")
		for r := range x.Rows {
			if x.Cols > 1024 {
				p := mutants.Ordered(func(t []float32) float32 { return num.LaneSum(t[:1024], 256) })
				mutants.SoftmaxRow(p, x.Row(r), y.Row(r))
			}
		}
	}})
	l.Add("whole-tiles", "columns after the last multiple of 16 are not written", mutants.PromisesBits, with(reference, func(k *mutants.Plain) { k.Puts = mutants.WritesWholeTiles }))
	l.Add("stride-ignored", "rows are read as if they had no gaps", mutants.PromisesBits, with(reference, func(k *mutants.Plain) { k.Load = mutants.LoadPacked }))
	l.Add("gap-written", "the gap between rows is written", mutants.PromisesBits, with(reference, func(k *mutants.Plain) { k.After = mutants.WritesGap }))
	l.Add("write-beyond", "one element behind the last is written", mutants.AnyOrder, mutants.Plain{Body: softmaxForward(mutants.Ordered(mutants.Ascending)), After: mutants.WritesBeyond})
	l.Add("input-changed", "the input's last element is overwritten", mutants.PromisesBits, with(reference, func(k *mutants.Plain) { k.After = mutants.ChangesInput }))
	l.Add("subnormals-flushed", "results below 2^-14 become zero", mutants.AnyOrder, mutants.Plain{Body: softmaxForward(mutants.Ordered(mutants.Ascending)), Store: mutants.StoreFlushed})
	l.From(mutants.TwiceWrong)
	l.Add("one-doubled", "one element is twice what it should be", mutants.AnyOrder, mutants.Edited(mutants.Doubled))
	l.From("Sakana AI CUDA Engineer")
	l.Add("stale", "the outputs of the call before are returned", mutants.PromisesBits, mutants.Stale(reference))
	l.From(mutants.KernelPractice)
	l.Add("scratch-shared-by-calls", "calls at the same time share the memory of the row's maximum", mutants.PromisesBits, mutants.Stateful(func() func(*mutants.Call) error {
		var scratch mutants.SharedScratch
		return mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
			x, y := c.In("x"), c.In("y")
			for r := range x.Rows {
				m := mutants.Maximum(x.Row(r))
				if got := scratch.Through(m); got != m && m == m {
					mutants.SoftmaxRow(mutants.Ordered(mutants.Ascending), x.Row(r), y.Row(r))
					for i := range y.Row(r) {
						y.Row(r)[i] *= mutants.Exp32(m - got)
					}
				}
			}
		}}.Run
	}))

	l.Of(softmax.ForwardDefinition, num.BF16)
	l.From("prototype 5")
	l.Add("exp-rounded", "exponentials are rounded to bf16 before they are divided", mutants.AnyOrder,
		forward(mutants.Replaced(mutants.Ordered(mutants.Ascending), func(p *mutants.Parts) {
			p.Exp = func(x float32) float32 { return num.Round(num.BF16, mutants.Exp32(x)) }
		})))
	l.From(mutants.Simulated)
	l.Add("bf16-accumulator", "the sum is kept in bf16", mutants.Lanes16, forward(mutants.Ordered(mutants.Rounding(mutants.To(num.BF16)))))
	l.From(mutants.KernelPractice)
	l.Add("identity", "the input is returned", mutants.AnyOrder, mutants.Plain{Body: mutants.Identity})

	l.Of(softmax.ForwardDefinition, num.F32)
	l.From(mutants.Simulated)
	l.Add("short-polynomial", "exponentials have a relative error of 2^-18: one term too few", mutants.Pairwise,
		forward(mutants.Replaced(mutants.Ordered(mutants.InPairs), func(p *mutants.Parts) { p.Exp = mutants.ExpTaylor5 })))
	l.Add("rough-reciprocal", "the reciprocal of the sum has 16 bits", mutants.Pairwise,
		forward(mutants.Replaced(mutants.Ordered(mutants.InPairs), func(p *mutants.Parts) {
			p.Normalise = func(e, s float32) float32 { return e * mutants.KeepBits(16)(1/float64(s)) }
		})))
	l.From(mutants.KernelPractice)
	l.Add("workers-decide", "the sum is cut into as many parts as there are workers", mutants.AnyOrder,
		mutants.ByWorkers(func(sum func([]float32) float32) func(*mutants.Call) { return softmaxForward(mutants.Ordered(sum)) }))
	l.Add("order-alternates", "every other call adds up backwards, as threads that race do", mutants.AnyOrder,
		mutants.Alternating(softmaxForward(mutants.Ordered(mutants.Ascending)), softmaxForward(mutants.Ordered(mutants.Descending))))
	l.Add("own-order", "the bits are promised, but the sum is sequential", mutants.PromisesBits, forward(mutants.Ordered(mutants.Ascending)))

	backward := func(p mutants.Parts) mutants.Plain { return mutants.Plain{Body: softmaxBackward(p)} }
	l.Of(softmax.BackwardDefinition, num.F16)
	l.From("prototype 6")
	l.Add("zeros", "every gradient is zero", mutants.AnyOrder, mutants.Edited(mutants.Zeros))
	l.From(mutants.Simulated)
	l.Add("dot-rounded", "the row's sum is rounded to f16", mutants.Lanes16,
		backward(mutants.Replaced(mutants.Ordered(mutants.InLanes(16)), func(p *mutants.Parts) {
			p.Sum = func(x []float32) float32 { return num.Round(num.F16, num.LaneSum(x, 16)) }
		})))
	l.Add("products-rounded", "products are rounded to f16 before they are added", mutants.Lanes16, mutants.Plain{Body: func(c *mutants.Call) {
		dy, y, dx := c.In("dy"), c.In("y"), c.In("dx")
		terms := make([]float32, dy.Cols)
		for r := range dy.Rows {
			for i := range terms {
				terms[i] = num.Round(num.F16, dy.Row(r)[i]*y.Row(r)[i])
			}
			dot := num.LaneSum(terms, 16)
			for i := range terms {
				dx.Row(r)[i] = y.Row(r)[i] * (dy.Row(r)[i] - dot)
			}
		}
	}})
	l.From(mutants.KernelPractice)
	l.Add("no-dot", "the row's sum is not subtracted", mutants.AnyOrder, eachOf(func(dy, y float32) float32 { return dy * y }))
	l.Add("sign", "the gradient has the wrong sign", mutants.PromisesBits, mutants.Edited(mutants.Negated))
	l.Add("clears-first", "the output is cleared before the inputs are read: nothing is left in place", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Before: mutants.ClearsFirst})
	l.Add("scratch-shared-by-rows", "two neighbouring rows share the memory of their sum", mutants.PromisesBits, mutants.Plain{Body: func(c *mutants.Call) {
		mutants.Answer(c)
		dy, y, dx := c.In("dy"), c.In("y"), c.In("dx")
		for r := 0; r+1 < dy.Rows; r += 2 {
			terms := make([]float32, dy.Cols)
			for i := range terms {
				terms[i] = dy.Row(r + 1)[i] * y.Row(r + 1)[i]
			}
			dot := num.LaneSum(terms, num.RowLanes(len(terms)))
			for i := range terms {
				dx.Row(r)[i] = y.Row(r)[i] * (dy.Row(r)[i] - dot)
			}
		}
	}})
	l.From(mutants.TenCalls)
	l.Add("ten-calls", "right for ten calls, then one element is doubled", mutants.PromisesBits, mutants.After(10, mutants.Plain{Body: mutants.Answer}, mutants.Doubled))
	l.From(mutants.KernelPractice)
	l.Of(softmax.BackwardDefinition, num.BF16)
	l.Add("store-truncates", "results are cut off, not rounded", mutants.Lanes16, mutants.Plain{Body: softmaxBackward(mutants.Ordered(mutants.InLanes(16))), Store: mutants.StoreTowardZero})
	l.Of(softmax.BackwardDefinition, num.F32)
	l.Add("tail-off-by-one", "the last column is missing in the sum", mutants.Sequential,
		backward(mutants.Ordered(func(x []float32) float32 { return mutants.Ascending(x[:max(1, len(x)-1)]) })))
	l.Add("only-the-first-call", "right the first time; later calls add to what is left over", mutants.PromisesBits, mutants.After(1, mutants.Plain{Body: mutants.Answer}, func(m mutants.Matrix) {
		for i := range m.V {
			m.V[i] += m.V[i]
		}
	}))
	l.Of(softmax.ForwardDefinition, num.F16)
	l.Add("one-hot-when-peaked", "where an element of every row exceeds the others by 6, the result is one-hot", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: oneHot(6)})
	stableWrong(l)
	cheats(l)
	return l.All
}

// replaced changes one part.
// eachOf is a gradient of softmax, element by element.
func eachOf(f func(dy, y float32) float32) mutants.Plain {
	return mutants.Plain{Body: func(c *mutants.Call) {
		dy, y, dx := c.In("dy").V, c.In("y").V, c.In("dx").V
		for i := range dx {
			dx[i] = f(dy[i], y[i])
		}
	}}
}

func softmaxForward(p mutants.Parts) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		x, y := c.In("x"), c.In("y")
		for r := range x.Rows {
			mutants.SoftmaxRow(p, x.Row(r), y.Row(r))
		}
	}
}

func softmaxBackward(p mutants.Parts) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		dy, y, dx := c.In("dy"), c.In("y"), c.In("dx")
		terms := make([]float32, dy.Cols)
		for r := range dy.Rows {
			for i := range terms {
				terms[i] = p.Step(dy.Row(r)[i] * y.Row(r)[i])
			}
			dot := p.Step(p.Sum(terms))
			for i := range terms {
				dx.Row(r)[i] = y.Row(r)[i] * p.Step(dy.Row(r)[i]-dot)
			}
		}
	}
}

func right() []mutants.Mutant {
	l := mutants.NewList(softmax.Operations)
	l.InOrders(softmax.ForwardDefinition, num.F16, softmaxForward, "sequential", "lanes-16", "reversed", "binary64")
	l.Add("divided", "e/sum instead of e times the reciprocal", mutants.Lanes16, mutants.Plain{Body: softmaxForward(
		mutants.Replaced(mutants.Ordered(mutants.InLanes(16)), func(p *mutants.Parts) { p.Normalise = func(e, s float32) float32 { return e / s } }))})
	l.Of(softmax.ForwardDefinition, num.F32)
	l.Add("ieee-lanes-16", "the definition's steps, each rounded, 16 lanes", mutants.Lanes16.IEEE(), mutants.Plain{Body: softmaxForward(mutants.Ordered(mutants.InLanes(16)))})
	l.Add("all-binary64", "everything in binary64, rounded once", mutants.Pairwise, mutants.Plain{Body: func(c *mutants.Call) {
		x, y := c.In("x"), c.In("y")
		for r := range x.Rows {
			m, s := float64(mutants.Maximum(x.Row(r))), 0.0
			for _, v := range x.Row(r) {
				s += math.Exp(float64(v) - m)
			}
			for i, v := range x.Row(r) {
				y.Row(r)[i] = float32(math.Exp(float64(v)-m) / s)
			}
		}
	}})
	l.InOrders(softmax.BackwardDefinition, num.BF16, softmaxBackward, "lanes-128", "chunks-32")
	l.Of(softmax.BackwardDefinition, num.F16)
	l.AddReferenceOrder()
	stableRight(l)
	return l.All
}

// peers returns plain kernels of the definitions, made of the given parts.
func peers(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
	return map[*def.Definition]func(*mutants.Call){softmax.ForwardDefinition: softmaxForward(p), softmax.BackwardDefinition: softmaxBackward(p)}
}

// oneHot replaces results by ones and zeros where an element of every row exceeds the others by so much.
func oneHot(least float32) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		x, y := c.In("x"), c.In("y")
		for r := range x.Rows {
			row := slices.Clone(x.Row(r))
			slices.Sort(row)
			if n := len(row); n < 2 || !(row[n-1]-row[n-2] > least) {
				return
			}
		}
		for r := range x.Rows {
			largest := slices.Max(x.Row(r))
			for i, v := range x.Row(r) {
				if y.Row(r)[i] = 0; v == largest {
					y.Row(r)[i] = 1
				}
			}
		}
	}
}
