package mutants

import (
	"math"

	"tokitai/num"
	"tokitai/op/softmax"
)

func softmaxMutants() []Mutant {
	l := &list{}
	forward := func(p parts) plain { return plain{body: softmaxForward(p)} }
	reference := plain{body: answer}
	with := func(k plain, change func(*plain)) plain {
		change(&k)
		return k
	}

	l.of(softmax.ForwardDefinition, num.F16)
	l.from("prototype 5")
	l.add("exp-rounded", "exponentials are rounded to f16 before they are divided", lanes16,
		forward(replaced(ordered(inLanes(16)), func(p *parts) { p.exp = func(x float32) float32 { return num.Round(num.F16, exp32(x)) } })))
	l.from(simulated)
	l.add("sum-rounded", "the sum is rounded to f16", lanes16,
		forward(replaced(ordered(inLanes(16)), func(p *parts) { p.sum = func(x []float32) float32 { return num.Round(num.F16, num.LaneSum(x, 16)) } })))
	l.add("column-dropped", "the last column is missing in the sum", lanes16,
		forward(replaced(ordered(inLanes(16)), func(p *parts) { p.sum = func(x []float32) float32 { return num.LaneSum(x[:max(1, len(x)-1)], 16) } })))
	l.add("f16-accumulator", "the sum is kept in f16", anyOrder, forward(ordered(rounding(to(num.F16)))))
	l.add("store-truncates", "results are cut off, not rounded", lanes16, plain{body: softmaxForward(ordered(inLanes(16))), store: storeTowardZero})
	l.add("store-via-bf16", "results are rounded to bf16, then to f16", lanes16, plain{body: softmaxForward(ordered(inLanes(16))), store: storeVia(to(num.BF16))})
	l.add("store-via-13-bits", "results are rounded to 13 bits, then to f16", pairwise, plain{body: softmaxForward(ordered(inPairs)), store: storeVia(to13Bits)})
	l.from(zerosPass)
	l.add("zeros", "every result is zero", anyOrder, edited(zeros))
	l.from(practice)
	l.add("no-maximum", "the maximum is not subtracted: exponentials overflow", anyOrder, plain{body: func(c *call) {
		x, y := c.in("x"), c.in("y")
		for r := range x.rows {
			s := float32(0)
			for i, v := range x.row(r) {
				y.row(r)[i] = exp32(v)
				s += y.row(r)[i]
			}
			for i := range y.row(r) {
				y.row(r)[i] /= s
			}
		}
	}})
	l.add("base-2", "2 to the power of x instead of e", anyOrder,
		forward(replaced(ordered(ascending), func(p *parts) { p.exp = func(x float32) float32 { return float32(math.Exp2(float64(x))) } })))
	l.add("wrong-axis", "columns add up to 1, not rows", anyOrder, plain{body: func(c *call) {
		x, y := c.in("x"), c.in("y")
		for i := range x.cols {
			column := x.column(i)
			softmaxRow(ordered(ascending), column, column)
			for r, v := range column {
				y.row(r)[i] = v
			}
		}
	}})
	l.add("online-without-rescaling", "a new maximum does not rescale the sum so far", anyOrder, plain{body: func(c *call) {
		x, y := c.in("x"), c.in("y")
		for r := range x.rows {
			m, s := float32(math.Inf(-1)), float32(0)
			for _, v := range x.row(r) {
				m = max(m, v)
				s += exp32(v - m)
			}
			for i, v := range x.row(r) {
				y.row(r)[i] = exp32(v-m) / s
			}
		}
	}})
	l.add("nan-skipped", "a NaN counts as an element that is not there", bits, plain{
		body: answer,
		load: func(a num.Array, r, c int) float32 {
			if v := a.At(r, c); v == v {
				return v
			}
			return float32(math.Inf(-1))
		},
	})
	l.add("masked-row-zeros", "a row of -Inf gives zeros, not NaN", bits, plain{body: answer, edit: func(c *call) {
		x, y := c.in("x"), c.in("y")
		for r := range x.rows {
			if math.IsInf(float64(maximum(x.row(r))), -1) {
				clear(y.row(r))
			}
		}
	}})
	l.add("block-of-1024", "columns beyond 1,024 are not in the sum", bits, plain{body: answer, edit: func(c *call) {
		x, y := c.in("x"), c.in("y")
		for r := range x.rows {
			if x.cols > 1024 {
				p := ordered(func(t []float32) float32 { return num.LaneSum(t[:1024], 256) })
				softmaxRow(p, x.row(r), y.row(r))
			}
		}
	}})
	l.add("whole-tiles", "columns after the last multiple of 16 are not written", bits, with(reference, func(k *plain) { k.puts = writesWholeTiles }))
	l.add("stride-ignored", "rows are read as if they had no gaps", bits, with(reference, func(k *plain) { k.load = loadPacked }))
	l.add("gap-written", "the gap between rows is written", bits, with(reference, func(k *plain) { k.after = writesGap }))
	l.add("write-beyond", "one element behind the last is written", anyOrder, plain{body: softmaxForward(ordered(ascending)), after: writesBeyond})
	l.add("input-changed", "the input's last element is overwritten", bits, with(reference, func(k *plain) { k.after = changesInput }))
	l.add("subnormals-flushed", "results below 2^-14 become zero", anyOrder, plain{body: softmaxForward(ordered(ascending)), store: storeFlushed})
	l.from(twiceWrong)
	l.add("one-doubled", "one element is twice what it should be", anyOrder, edited(doubled))
	l.from("Sakana AI CUDA Engineer")
	l.add("stale", "the outputs of the call before are returned", bits, stale(reference))
	l.from(practice)
	l.add("scratch-shared-by-calls", "calls at the same time share the memory of the row's maximum", bits, stateful(func() func(*call) error {
		var scratch sharedScratch
		return plain{body: answer, edit: func(c *call) {
			x, y := c.in("x"), c.in("y")
			for r := range x.rows {
				m := maximum(x.row(r))
				if got := scratch.through(m); got != m && m == m {
					softmaxRow(ordered(ascending), x.row(r), y.row(r))
					for i := range y.row(r) {
						y.row(r)[i] *= exp32(m - got)
					}
				}
			}
		}}.run
	}))

	l.of(softmax.ForwardDefinition, num.BF16)
	l.from("prototype 5")
	l.add("exp-rounded", "exponentials are rounded to bf16 before they are divided", anyOrder,
		forward(replaced(ordered(ascending), func(p *parts) { p.exp = func(x float32) float32 { return num.Round(num.BF16, exp32(x)) } })))
	l.from(simulated)
	l.add("bf16-accumulator", "the sum is kept in bf16", lanes16, forward(ordered(rounding(to(num.BF16)))))
	l.from(practice)
	l.add("identity", "the input is returned", anyOrder, plain{body: identity})

	l.of(softmax.ForwardDefinition, num.F32)
	l.from(simulated)
	l.add("short-polynomial", "exponentials have a relative error of 2^-18: one term too few", pairwise,
		forward(replaced(ordered(inPairs), func(p *parts) { p.exp = expTaylor5 })))
	l.add("rough-reciprocal", "the reciprocal of the sum has 16 bits", pairwise,
		forward(replaced(ordered(inPairs), func(p *parts) {
			p.normalise = func(e, s float32) float32 { return e * keepBits(16)(1/float64(s)) }
		})))
	l.from(practice)
	l.add("workers-decide", "the sum is cut into as many parts as there are workers", anyOrder,
		byWorkers(func(sum func([]float32) float32) func(*call) { return softmaxForward(ordered(sum)) }))
	l.add("order-alternates", "every other call adds up backwards, as threads that race do", anyOrder,
		alternating(softmaxForward(ordered(ascending)), softmaxForward(ordered(descending))))
	l.add("own-order", "the bits are promised, but the sum is sequential", bits, forward(ordered(ascending)))

	backward := func(p parts) plain { return plain{body: softmaxBackward(p)} }
	l.of(softmax.BackwardDefinition, num.F16)
	l.from("prototype 6")
	l.add("zeros", "every gradient is zero", anyOrder, edited(zeros))
	l.from(simulated)
	l.add("dot-rounded", "the row's sum is rounded to f16", lanes16,
		backward(replaced(ordered(inLanes(16)), func(p *parts) { p.sum = func(x []float32) float32 { return num.Round(num.F16, num.LaneSum(x, 16)) } })))
	l.add("products-rounded", "products are rounded to f16 before they are added", lanes16, plain{body: func(c *call) {
		dy, y, dx := c.in("dy"), c.in("y"), c.in("dx")
		terms := make([]float32, dy.cols)
		for r := range dy.rows {
			for i := range terms {
				terms[i] = num.Round(num.F16, dy.row(r)[i]*y.row(r)[i])
			}
			dot := num.LaneSum(terms, 16)
			for i := range terms {
				dx.row(r)[i] = y.row(r)[i] * (dy.row(r)[i] - dot)
			}
		}
	}})
	l.from(practice)
	l.add("no-dot", "the row's sum is not subtracted", anyOrder, eachOf(func(dy, y float32) float32 { return dy * y }))
	l.add("sign", "the gradient has the wrong sign", bits, edited(negated))
	l.add("clears-first", "the output is cleared before the inputs are read: nothing is left in place", bits, plain{body: answer, before: clearsFirst})
	l.add("scratch-shared-by-rows", "two neighbouring rows share the memory of their sum", bits, plain{body: func(c *call) {
		answer(c)
		dy, y, dx := c.in("dy"), c.in("y"), c.in("dx")
		for r := 0; r+1 < dy.rows; r += 2 {
			terms := make([]float32, dy.cols)
			for i := range terms {
				terms[i] = dy.row(r + 1)[i] * y.row(r + 1)[i]
			}
			dot := num.LaneSum(terms, num.RowLanes(len(terms)))
			for i := range terms {
				dx.row(r)[i] = y.row(r)[i] * (dy.row(r)[i] - dot)
			}
		}
	}})
	l.from(tenCalls)
	l.add("ten-calls", "right for ten calls, then one element is doubled", bits, after(10, plain{body: answer}, doubled))
	l.from(practice)
	l.of(softmax.BackwardDefinition, num.BF16)
	l.add("store-truncates", "results are cut off, not rounded", lanes16, plain{body: softmaxBackward(ordered(inLanes(16))), store: storeTowardZero})
	l.of(softmax.BackwardDefinition, num.F32)
	l.add("tail-off-by-one", "the last column is missing in the sum", sequential,
		backward(ordered(func(x []float32) float32 { return ascending(x[:max(1, len(x)-1)]) })))
	l.add("only-the-first-call", "right the first time; later calls add to what is left over", bits, after(1, plain{body: answer}, func(m matrix) {
		for i := range m.v {
			m.v[i] += m.v[i]
		}
	}))
	return l.all
}

// replaced changes one part.
func replaced(p parts, change func(*parts)) parts {
	change(&p)
	return p
}

// eachOf is a gradient of softmax, element by element.
func eachOf(f func(dy, y float32) float32) plain {
	return plain{body: func(c *call) {
		dy, y, dx := c.in("dy").v, c.in("y").v, c.in("dx").v
		for i := range dx {
			dx[i] = f(dy[i], y[i])
		}
	}}
}

// expTaylor5 reduces its argument well and ends the series after the fifth power.
func expTaylor5(x float32) float32 {
	if x != x || x < -104 {
		return exp32(x)
	}
	n := math.Round(float64(x) / math.Ln2)
	r := float64(x) - n*math.Ln2
	p := 1 + r*(1+r*(1./2+r*(1./6+r*(1./24+r/120))))
	return float32(math.Ldexp(p, int(n)))
}
