package softmax_test

import (
	"math"

	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/verify/mutants"
)

// Kernels that promise to be stable: softmax in the forms in which people write it, and
// forms that lose digits or overflow.

// rowwise is a softmax of rows.
func rowwise(row func(x, y []float32)) mutants.Plain {
	return mutants.Plain{Body: func(c *mutants.Call) {
		x, y := c.In("x"), c.In("y")
		for r := range x.Rows {
			row(x.Row(r), y.Row(r))
		}
	}}
}

// online is a softmax whose sum of exponentials is taken in one pass.
func online(p mutants.Parts, sum func(p mutants.Parts, x []float32) mutants.Exponentials) mutants.Plain {
	return rowwise(func(x, y []float32) {
		e := sum(p, x)
		for i, v := range x {
			y[i] = p.Step(p.Normalise(p.Step(p.Exp(v-e.Max)), e.Sum))
		}
	})
}

// gradientBody is a gradient of softmax from the row's sum.
func gradientBody(p mutants.Parts, dx func(dy, y, dot float32) float32) mutants.Plain {
	return mutants.Plain{Body: func(c *mutants.Call) {
		dy, y := c.In("dy"), c.In("y")
		terms := make([]float32, dy.Cols)
		for r := range dy.Rows {
			for i := range terms {
				terms[i] = dy.Row(r)[i] * y.Row(r)[i]
			}
			dot := p.Sum(terms)
			for i := range terms {
				c.In("dx").Row(r)[i] = dx(dy.Row(r)[i], y.Row(r)[i], dot)
			}
		}
	}}
}

func divided(p mutants.Parts) mutants.Parts {
	p.Normalise = func(e, s float32) float32 { return p.Divide(e, s) }
	return p
}

func stableRight(l *mutants.List) {
	d := softmax.ForwardDefinition
	lanes := mutants.Ordered(mutants.InLanes(32))
	with := func(change func(p *mutants.Parts)) mutants.Parts { return mutants.Replaced(lanes, change) }
	l.AddAll(d, "quotient", "e/sum, 32 lanes", mutants.Stable, mutants.Plain{Body: softmaxForward(divided(lanes))})
	l.AddAll(d, "exp2", "powers of two of (x - max)·log2 e", mutants.Stable, mutants.Plain{Body: softmaxForward(with(func(p *mutants.Parts) { p.Exp = mutants.Exp2 }))})
	l.AddAll(d, "exp2-scaled-first", "half of x·log2 e is rounded before the maximum is subtracted, and the difference doubled", mutants.Stable, rowwise(func(x, y []float32) {
		scaled := make([]float32, len(x))
		for i, v := range x {
			scaled[i] = v * float32(math.Log2E/2) // x·log2 e may overflow
		}
		m := mutants.Maximum(scaled)
		for i, v := range scaled {
			y[i] = float32(math.Exp2(float64(2 * (v - m))))
		}
		s := num.LaneSum(y, 32)
		for i := range y {
			y[i] /= s
		}
	}))
	l.AddAll(d, "exp2-fused", "powers of two of x·log2 e - max·log2 e, fused", mutants.Stable, rowwise(func(x, y []float32) {
		m := mutants.Maximum(x) * float32(math.Log2E)
		for i, v := range x {
			y[i] = float32(math.Exp2(float64(num.FMA(v, math.Log2E, -m))))
		}
		s := num.LaneSum(y, 32)
		for i := range y {
			y[i] /= s
		}
	}))
	l.AddAll(d, "online", "one pass with a running maximum", mutants.Stable, online(lanes, mutants.OneByOne))
	l.AddAll(d, "online-blocks", "one pass in blocks of 64", mutants.Stable, online(divided(lanes), mutants.InBlocks(64)))
	l.AddAll(d, "split", "four parts of the row, merged", mutants.Stable, online(lanes, mutants.InParts(4)))
	l.AddAll(d, "exp-of-log", "the exponential of (x - max) - log sum", mutants.Stable, rowwise(func(x, y []float32) {
		e := mutants.InParts(1)(lanes, x)
		for i, v := range x {
			y[i] = mutants.Exp32((v - e.Max) - mutants.Log32(e.Sum))
		}
	}))
	l.AddAll(d, "compensated", "Kahan's sum", mutants.Stable, mutants.Plain{Body: softmaxForward(mutants.Ordered(mutants.Compensated))})
	l.AddAll(d, "fast-exp", "exponentials within 2 + 1.16·|x| ulps, declared", mutants.Declaring("exp=2ulp+1.16|x|"),
		mutants.Plain{Body: softmaxForward(with(func(p *mutants.Parts) { p.Exp = mutants.FastExp }))})
	l.AddAll(d, "fast-division", "quotients within 2 ulps, declared", mutants.Declaring("div=2ulp"),
		mutants.Plain{Body: softmaxForward(divided(with(func(p *mutants.Parts) { p.Divide = mutants.FastDivide(2) })))})
	l.Of(d, num.BF16)
	l.Add("e-in-bf16", "exponentials are rounded to bf16, declared", mutants.Declaring("round(e)=bf16"),
		mutants.Plain{Body: softmaxForward(with(func(p *mutants.Parts) {
			p.Exp = func(x float32) float32 { return num.Round(num.BF16, mutants.Exp32(x)) }
		}))})
	l.Of(d, num.F32)
	l.Add("flushed", "subnormal numbers are zeros, declared", mutants.Declaring("ftz"), mutants.Plain{
		Load: func(a num.Array, r, c int) float32 { return mutants.Flush(a.At(r, c)) },
		Body: softmaxForward(with(func(p *mutants.Parts) {
			p.Step = mutants.Flush
			p.Normalise = func(e, s float32) float32 { return mutants.Flush(e / s) }
		})),
	})

	b := softmax.BackwardDefinition
	l.AddAll(b, "distributed", "y·dy - y·dot", mutants.Stable, gradientBody(lanes, func(dy, y, dot float32) float32 { return float32(y*dy) - float32(y*dot) }))
	l.AddAll(b, "distributed-fused", "y·dy - y·dot, fused", mutants.Stable, gradientBody(lanes, func(dy, y, dot float32) float32 { return num.FMA(y, dy, -float32(y*dot)) }))
	l.AddAll(b, "pairwise", "the definition's steps, pairwise", mutants.Stable, mutants.Plain{Body: softmaxBackward(mutants.Ordered(mutants.InPairs))})
	l.AddAll(b, "binary64-dot", "the row's sum in binary64", mutants.Stable, mutants.Plain{Body: softmaxBackward(mutants.Ordered(mutants.InDouble))})
	l.AddAll(b, "sequential", "one sum, ascending", mutants.Stable, mutants.Plain{Body: softmaxBackward(mutants.Ordered(mutants.Ascending))})
}

func stableWrong(l *mutants.List) {
	d := softmax.ForwardDefinition
	lanes := mutants.Ordered(mutants.InLanes(32))
	with := func(change func(p *mutants.Parts)) mutants.Plain {
		return mutants.Plain{Body: softmaxForward(mutants.Replaced(lanes, change))}
	}
	// shifted subtracts something else than the maximum.
	shifted := func(by func(x []float32) float32) mutants.Plain {
		return rowwise(func(x, y []float32) {
			m := by(x)
			for i, v := range x {
				y[i] = mutants.Exp32(v - m)
			}
			s := num.LaneSum(y, 32)
			for i := range y {
				y[i] /= s
			}
		})
	}
	l.From(mutants.KernelPractice)
	l.AddAll(d, "x-itself", "exponentials of x itself overflow beyond 88", mutants.Stable, shifted(func([]float32) float32 { return 0 }))
	// starting has a maximum that is never below the given number.
	starting := func(at float32) mutants.Plain {
		return shifted(func(x []float32) float32 { return max(mutants.Maximum(x), at) })
	}
	l.Of(d, num.F16)
	l.Add("maximum-from-minus-1e4", "the search for the maximum starts at -10000, not at -Inf", mutants.Stable, starting(-1e4))
	l.Of(d, num.BF16)
	l.Add("maximum-from-minus-1e30", "the search for the maximum starts at -1e30, not at -Inf", mutants.Stable, starting(-1e30))
	l.Of(d, num.F32)
	l.Add("maximum-from-minus-1e30", "the search for the maximum starts at -1e30, not at -Inf", mutants.Stable, starting(-1e30))
	l.Add("maximum-of-32", "the maximum is that of the first 32 columns", mutants.Stable, shifted(func(x []float32) float32 { return mutants.Maximum(x[:min(32, len(x))]) }))
	l.Add("mean-subtracted", "the mean is subtracted, not the maximum", mutants.Stable, shifted(func(x []float32) float32 { return num.LaneSum(x, 32) / float32(len(x)) }))
	l.Add("log-of-sum", "the exponential of x - (max + log sum), which loses the digits of max", mutants.Stable, rowwise(func(x, y []float32) {
		e := mutants.InParts(1)(lanes, x)
		lse := e.Max + mutants.Log32(e.Sum)
		for i, v := range x {
			y[i] = mutants.Exp32(v - lse)
		}
	}))
	l.Add("log2e-short", "log2 e is taken as 1.4427", mutants.Stable, with(func(p *mutants.Parts) {
		p.Exp = func(x float32) float32 { return float32(math.Exp2(float64(float32(x * 1.4427)))) }
	}))
	l.Add("sum-plus-eps", "1e-6 is added to the sum", mutants.Stable, with(func(p *mutants.Parts) {
		p.Normalise = func(e, s float32) float32 { return e / (s + 1e-6) }
	}))
	l.Add("one-in-4096-lost", "the last of every 4,096 terms is not in the sum", mutants.Stable, mutants.Plain{Body: softmaxForward(mutants.Ordered(mutants.WithoutEvery(4096, mutants.InLanes(32))))})
	l.Add("undeclared-exp", "exponentials within 64 ulps, not declared", mutants.Stable, with(func(p *mutants.Parts) { p.Exp = mutants.RoughExp(64) }))
	l.Add("undeclared-flush", "subnormal results are zeros, not declared", mutants.Stable, mutants.Plain{Body: softmaxForward(lanes), Store: mutants.StoreFlushed})
	l.Add("block-not-rescaled", "a block's sum is added as it is if the maximum is that of an earlier block", mutants.Stable, rowwise(func(x, y []float32) {
		m, s := float32(math.Inf(-1)), float32(0)
		for at := 0; at < len(x); at += 64 {
			block := x[at:min(at+64, len(x))]
			own := mutants.Maximum(block)
			terms := make([]float32, len(block))
			for i, v := range block {
				terms[i] = mutants.Exp32(v - own)
			}
			if next := max(m, own); s == 0 || own > m {
				s = float32(s*mutants.Exp32(m-next)) + num.LaneSum(terms, 32)
				m = next
			} else {
				s += num.LaneSum(terms, 32)
			}
		}
		for i, v := range x {
			y[i] = mutants.Exp32(v-m) / s
		}
	}))
	l.Add("parts-averaged", "the sums of two halves meet with the mean of their maxima", mutants.Stable, rowwise(func(x, y []float32) {
		a := mutants.InParts(1)(lanes, x[:(len(x)+1)/2])
		if rest := x[(len(x)+1)/2:]; len(rest) > 0 {
			b := mutants.InParts(1)(lanes, rest)
			m := (a.Max + b.Max) / 2
			a.Sum, a.Max = a.Sum*mutants.Exp32(a.Max-m)+b.Sum*mutants.Exp32(b.Max-m), m
		}
		for i, v := range x {
			y[i] = mutants.Exp32(v-a.Max) / a.Sum
		}
	}))
	l.Add("padding-counts", "a row is padded to a multiple of 16 with zeros, which count", mutants.Stable, rowwise(func(x, y []float32) {
		padded := make([]float32, (len(x)+15)/16*16)
		copy(padded, x)
		mutants.SoftmaxRow(lanes, padded, padded)
		copy(y, padded)
	}))
	l.Of(d, num.F16)
	l.Add("masked-by-constant", "-Inf is taken as -10000", mutants.Stable, mutants.Plain{Body: softmaxForward(lanes), Load: func(a num.Array, r, c int) float32 {
		return max(a.At(r, c), -10000)
	}})
	l.Add("x-times-log2e-in-f16", "x·log2 e is rounded to f16", mutants.Stable, rowwise(func(x, y []float32) {
		scaled := make([]float32, len(x))
		for i, v := range x {
			scaled[i] = num.Round(num.F16, v*float32(math.Log2E))
		}
		m := mutants.Maximum(scaled)
		for i, v := range scaled {
			y[i] = float32(math.Exp2(float64(v - m)))
		}
		s := num.LaneSum(y, 32)
		for i := range y {
			y[i] /= s
		}
	}))
	l.Add("block-sums-in-f16", "sums of blocks of 64 meet as f16", mutants.Stable, mutants.Plain{Body: softmaxForward(mutants.Ordered(func(x []float32) float32 {
		s := float32(0)
		for at := 0; at < len(x); at += 64 {
			s = num.Round(num.F16, s+num.Round(num.F16, num.LaneSum(x[at:min(at+64, len(x))], 32)))
		}
		return s
	}))})
	l.Of(d, num.BF16)
	l.Add("undeclared-e-in-bf16", "exponentials are rounded to bf16, not declared", mutants.Stable, with(func(p *mutants.Parts) {
		p.Exp = func(x float32) float32 { return num.Round(num.BF16, mutants.Exp32(x)) }
	}))
	l.Add("quotients-stored-first", "e is stored as bf16 and read again before it is divided", mutants.Stable, rowwise(func(x, y []float32) {
		m, s := mutants.SoftmaxRow(lanes, x, y)
		for i, v := range x {
			y[i] = num.Round(num.BF16, mutants.Exp32(v-m)) / s
		}
	}))

	b := softmax.BackwardDefinition
	l.Of(b, num.F32)
	l.Add("dot-of-rounded", "dot is the sum of dy times y as bf16", mutants.Stable, mutants.Plain{Body: softmaxBackward(lanes), Edit: func(c *mutants.Call) {
		dy, y := c.In("dy"), c.In("y")
		for r := range dy.Rows {
			terms := make([]float32, dy.Cols)
			for i := range terms {
				terms[i] = dy.Row(r)[i] * num.Round(num.BF16, y.Row(r)[i])
			}
			dot := num.LaneSum(terms, 32)
			for i := range terms {
				c.In("dx").Row(r)[i] = y.Row(r)[i] * (dy.Row(r)[i] - dot)
			}
		}
	}})
	l.Add("y-from-dx", "y times (1 - y) times dy: the Jacobian's diagonal alone", mutants.Stable, eachOf(func(dy, y float32) float32 { return float32(y*dy) - float32(float32(y*y)*dy) }))
	l.Of(b, num.F16)
	l.Add("one-in-4096-lost", "the last of every 4,096 products is not in the sum", mutants.Stable, mutants.Plain{Body: softmaxBackward(mutants.Ordered(mutants.WithoutEvery(4096, mutants.InLanes(32))))})
	l.Add("differences-in-f16", "dy - dot is rounded to f16", mutants.Stable, gradientBody(lanes, func(dy, y, dot float32) float32 { return y * num.Round(num.F16, dy-dot) }))
	l.Add("y-added-up", "the sum is divided by the sum of y, as if y had to be normalized again", mutants.Stable, mutants.Plain{Body: func(c *mutants.Call) {
		dy, y := c.In("dy"), c.In("y")
		for r := range dy.Rows {
			dot, all := 0.0, 0.0
			for i, v := range y.Row(r) {
				dot += float64(v) * float64(dy.Row(r)[i])
				all += float64(v)
			}
			for i, v := range y.Row(r) {
				c.In("dx").Row(r)[i] = v * (dy.Row(r)[i] - float32(dot/all))
			}
		}
	}})
	l.Need(mutants.Quick, "one-in-4096-lost")
}

// cheats adds kernels that are right only where somebody looks.
func cheats(l *mutants.List) {
	l.From(mutants.KernelPractice)
	l.Of(softmax.ForwardDefinition, num.F16)
	l.AddCheats(mutants.Answer, "cache-by-address", "cache-by-elements", "cache-by-both-ends", "looks-alike", "input-as-scratch", "garbage-times-zero", "old-output-times-zero", "already-there", "still-there", "side-by-side", "writes-nan-only", "knows-the-guards", "listed-shapes", "offsets-in-f32", "50-calls", "5000-calls", "cancelled-half-way", "ignores-cancellation", "written-later", "many-workers", "1-in-1000", "100000-calls", "one-pattern", "cache-by-64-samples", "shared-scratch")
}
