package mutants

import (
	"math"

	"tokitai/num"
	"tokitai/op/norm"
)

func normMutants() []Mutant {
	l := &list{}
	l.of(norm.SquareSumDefinition, num.F16)
	l.from(practice)
	l.add("root", "the root of the sum is returned", anyOrder, edited(func(m matrix) { m.v[0] = num.Sqrt(m.v[0]) }))
	l.add("mean", "the mean of the squares is returned", anyOrder, plain{body: answer, edit: func(c *call) {
		c.in("total").v[0] /= float32(len(c.in("x").v))
	}})
	l.add("sizes", "sizes are added, not squares", anyOrder, plain{body: func(c *call) {
		s := 0.0
		for _, v := range c.in("x").v {
			s += math.Abs(float64(v))
		}
		c.in("total").v[0] = float32(s)
	}})
	l.add("squares-overflow", "squares are f16: from 256 on they are infinite", anyOrder, plain{body: func(c *call) {
		terms := make([]float32, len(c.in("x").v))
		for i, v := range c.in("x").v {
			if terms[i] = v * v; v-v == 0 && math.IsInf(float64(num.Round(num.F16, terms[i])), 0) {
				terms[i] = float32(math.Inf(1))
			}
		}
		c.in("total").v[0] = num.LaneSum(terms, 256)
	}})
	l.from(simulated)
	l.add("f16-accumulator", "the sum is kept in f16", anyOrder, plain{body: squareSum(rounding(to(num.F16)))})
	l.add("last-dropped", "the last element is missing", lanes128, plain{body: squareSum(func(x []float32) float32 { return num.LaneSum(x[:max(1, len(x)-1)], 128) })})
	l.from(practice)
	l.add("nan-skipped", "NaN counts as zero", bits, plain{body: answer, load: func(a num.Array, r, c int) float32 {
		if v := a.At(r, c); v == v {
			return v
		}
		return 0
	}})
	l.of(norm.SquareSumDefinition, num.F32)
	l.add("own-order", "the bits are promised, but the sum is sequential", bits, plain{body: squareSum(ascending)})
	l.add("workers-decide", "the sum is cut into as many parts as there are workers", anyOrder, byWorkers(squareSum))
	l.add("lost-update", "of eight partial sums one is lost when there are more than 1,024 elements", anyOrder, plain{body: squareSum(func(x []float32) float32 {
		s := inDouble(x)
		if n := len(x); n > 1024 {
			s -= inDouble(x[n*3/8 : n*4/8])
		}
		return s
	})})

	l.of(norm.TotalDefinition, num.F32)
	l.add("last-dropped", "the last sum is missing", sequential, plain{body: rowTotal(func(x []float32) float32 { return ascending(x[:max(1, len(x)-1)]) })})
	l.add("own-order", "the bits are promised, but the sum is sequential", bits, plain{body: rowTotal(ascending)})
	l.add("nan-skipped", "NaN counts as zero", bits, plain{body: answer, load: func(a num.Array, r, c int) float32 {
		if v := a.At(r, c); v == v {
			return v
		}
		return 0
	}})
	l.add("rows-written-by-halves", "the second half of the totals is not written", bits, plain{body: answer, puts: writesHalf})
	l.add("bf16-accumulator", "the sum is kept in bf16", pairwise, plain{body: rowTotal(rounding(to(num.BF16)))})

	l.of(norm.ClipDefinition, num.F32)
	l.add("root-forgotten", "the square sum is taken for the norm", anyOrder, plain{body: answer, edit: func(c *call) {
		for i, v := range c.in("total").v {
			c.in("norm").v[i], c.in("factor").v[i] = v, clipFactor(v, c.param("max_norm"))
		}
	}})
	l.add("factor-above-one", "a small norm is scaled up to the limit", anyOrder, plain{body: clip(func(n, limit float32) float32 { return limit / n })})
	l.add("nan-is-one", "a NaN norm gives factor 1", bits, plain{body: clip(func(n, limit float32) float32 {
		if n > limit {
			return limit / n
		}
		return 1
	})})
	l.from("PyTorch clip_grad_norm_")
	l.add("eps-added", "1e-6 is added to the norm before the division", anyOrder, plain{body: clip(func(n, limit float32) float32 { return min(1, limit/(n+1e-6)) })})
	l.from(practice)
	l.add("rough-root", "the root has 12 bits", anyOrder, plain{body: func(c *call) {
		clip(clipFactor)(c)
		for i, v := range c.in("total").v {
			n := keepBits(12)(math.Sqrt(float64(v)))
			c.in("norm").v[i], c.in("factor").v[i] = n, clipFactor(n, c.param("max_norm"))
		}
	}})
	l.add("infinite-norm", "an infinite norm gives factor 1", bits, plain{body: clip(func(n, limit float32) float32 {
		if math.IsInf(float64(n), 1) {
			return 1
		}
		return clipFactor(n, limit)
	})})
	return l.all
}
