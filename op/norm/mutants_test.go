package norm_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/norm"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, norm.Operations, wrong(), right(), peers)
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(norm.Operations)
	l.Of(norm.SquareSumDefinition, num.F16)
	l.From(mutants.KernelPractice)
	l.Add("root", "the root of the sum is returned", mutants.AnyOrder, mutants.Edited(func(m mutants.Matrix) { m.V[0] = num.Sqrt(m.V[0]) }))
	l.Add("mean", "the mean of the squares is returned", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		c.In("total").V[0] /= float32(len(c.In("x").V))
	}})
	l.Add("sizes", "sizes are added, not squares", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		s := 0.0
		for _, v := range c.In("x").V {
			s += math.Abs(float64(v))
		}
		c.In("total").V[0] = float32(s)
	}})
	l.Add("squares-overflow", "squares are f16: from 256 on they are infinite", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		terms := make([]float32, len(c.In("x").V))
		for i, v := range c.In("x").V {
			if terms[i] = v * v; v-v == 0 && math.IsInf(float64(num.Round(num.F16, terms[i])), 0) {
				terms[i] = float32(math.Inf(1))
			}
		}
		c.In("total").V[0] = num.LaneSum(terms, 256)
	}})
	l.From(mutants.Simulated)
	l.Add("f16-accumulator", "the sum is kept in f16", mutants.AnyOrder, mutants.Plain{Body: squareSum(mutants.Rounding(mutants.To(num.F16)))})
	l.Add("last-dropped", "the last element is missing", mutants.Lanes128, mutants.Plain{Body: squareSum(func(x []float32) float32 { return num.LaneSum(x[:max(1, len(x)-1)], 128) })})
	l.From(mutants.KernelPractice)
	l.Add("nan-skipped", "NaN counts as zero", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Load: func(a num.Array, r, c int) float32 {
		if v := a.At(r, c); v == v {
			return v
		}
		return 0
	}})
	l.Of(norm.SquareSumDefinition, num.F32)
	l.Add("own-order", "the bits are promised, but the sum is sequential", mutants.PromisesBits, mutants.Plain{Body: squareSum(mutants.Ascending)})
	l.Add("workers-decide", "the sum is cut into as many parts as there are workers", mutants.AnyOrder, mutants.ByWorkers(squareSum))
	l.Add("lost-update", "of eight partial sums one is lost when there are more than 1,024 elements", mutants.AnyOrder, mutants.Plain{Body: squareSum(func(x []float32) float32 {
		s := mutants.InDouble(x)
		if n := len(x); n > 1024 {
			s -= mutants.InDouble(x[n*3/8 : n*4/8])
		}
		return s
	})})
	l.Level = mutants.Quick // no case of level smoke has that many elements
	l.Add("one-in-65536-lost", "the last of every 65,536 elements is lost", mutants.AnyOrder, mutants.Plain{Body: squareSum(func(x []float32) float32 {
		s := mutants.InDouble(x)
		for i := 1<<16 - 1; i < len(x); i += 1 << 16 {
			s -= x[i]
		}
		return s
	})})
	l.Add("nan-lost-late", "NaN counts as zero after the first 1,024 elements", mutants.AnyOrder, mutants.Plain{Body: squareSum(func(x []float32) float32 {
		x = slices.Clone(x)
		for i := 1024; i < len(x); i++ {
			if x[i] != x[i] {
				x[i] = 0
			}
		}
		return mutants.Ascending(x)
	})})
	l.Level = mutants.Smoke
	l.Add("compensated-to-nan", "a compensated sum makes NaN of an infinity", mutants.AnyOrder, mutants.Plain{Body: squareSum(compensatedToNaN)})

	l.Of(norm.TotalDefinition, num.F32)
	l.Level = mutants.Quick // no row of level smoke is that long
	l.Add("second-chunk-late", "the second chunk of 16,384 begins one element late", mutants.AnyOrder, mutants.Plain{Body: rowTotal(func(x []float32) float32 {
		s := mutants.InDouble(x)
		if len(x) > 1<<14 {
			s -= x[1<<14]
		}
		return s
	})})
	l.Level = mutants.Smoke
	l.Add("last-dropped", "the last sum is missing", mutants.Sequential, mutants.Plain{Body: rowTotal(func(x []float32) float32 { return mutants.Ascending(x[:max(1, len(x)-1)]) })})
	l.Add("own-order", "the bits are promised, but the sum is sequential", mutants.PromisesBits, mutants.Plain{Body: rowTotal(mutants.Ascending)})
	l.Add("nan-skipped", "NaN counts as zero", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Load: func(a num.Array, r, c int) float32 {
		if v := a.At(r, c); v == v {
			return v
		}
		return 0
	}})
	l.Add("rows-written-by-halves", "the second half of the totals is not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.WritesHalf})
	l.Add("bf16-accumulator", "the sum is kept in bf16", mutants.Pairwise, mutants.Plain{Body: rowTotal(mutants.Rounding(mutants.To(num.BF16)))})

	l.Of(norm.ClipDefinition, num.F32)
	l.Add("root-forgotten", "the square sum is taken for the norm", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		for i, v := range c.In("total").V {
			c.In("norm").V[i], c.In("factor").V[i] = v, clipFactor(v, c.Param("max_norm"))
		}
	}})
	l.Add("factor-above-one", "a small norm is scaled up to the limit", mutants.AnyOrder, mutants.Plain{Body: clip(func(n, limit float32) float32 { return limit / n })})
	l.Add("nan-is-one", "a NaN norm gives factor 1", mutants.PromisesBits, mutants.Plain{Body: clip(func(n, limit float32) float32 {
		if n > limit {
			return limit / n
		}
		return 1
	})})
	l.From("PyTorch clip_grad_norm_")
	l.Add("eps-added", "1e-6 is added to the norm before the division", mutants.AnyOrder, mutants.Plain{Body: clip(func(n, limit float32) float32 { return min(1, limit/(n+1e-6)) })})
	l.From(mutants.KernelPractice)
	l.Add("rough-root", "the root has 12 bits", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		clip(clipFactor)(c)
		for i, v := range c.In("total").V {
			n := mutants.KeepBits(12)(math.Sqrt(float64(v)))
			c.In("norm").V[i], c.In("factor").V[i] = n, clipFactor(n, c.Param("max_norm"))
		}
	}})
	l.Add("infinite-norm", "an infinite norm gives factor 1", mutants.PromisesBits, mutants.Plain{Body: clip(func(n, limit float32) float32 {
		if math.IsInf(float64(n), 1) {
			return 1
		}
		return clipFactor(n, limit)
	})})
	stableWrong(l)
	cheats(l)
	return l.All
}

// compensatedToNaN is Neumaier's sum, in which the error of adding an infinity is NaN.
func compensatedToNaN(x []float32) float32 {
	s, lost := float32(0), float32(0)
	for _, v := range x {
		t := s + v
		if math.Abs(float64(s)) >= math.Abs(float64(v)) {
			lost += (s - t) + v
		} else {
			lost += (v - t) + s
		}
		s = t
	}
	return s + lost
}

// squareSum adds all squares as one long sum.
func squareSum(sum func([]float32) float32) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		x := c.In("x").V
		terms := make([]float32, len(x))
		for i, v := range x {
			terms[i] = v * v
		}
		c.In("total").V[0] = sum(terms)
	}
}

// rowTotal adds up each row.
func rowTotal(sum func([]float32) float32) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		x := c.In("sums")
		for r := range x.Rows {
			c.In("total").V[r] = sum(x.Row(r))
		}
	}
}

func clip(factor func(norm, limit float32) float32) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		limit := c.Param("max_norm")
		for i, v := range c.In("total").V {
			n := num.Sqrt(v)
			c.In("norm").V[i], c.In("factor").V[i] = n, factor(n, limit)
		}
	}
}

func clipFactor(n, limit float32) float32 {
	if n <= limit {
		return 1
	}
	return limit / n
}

func right() []mutants.Mutant {
	l := mutants.NewList(norm.Operations)
	l.Of(norm.SquareSumDefinition, num.F16)
	l.Add("lanes-128", "128 lanes and a tree over all elements", mutants.Lanes128, mutants.Plain{Body: squareSum(mutants.InLanes(128))})
	l.Of(norm.SquareSumDefinition, num.F32)
	l.Add("reversed", "one sum, descending, declared as any order", mutants.AnyOrder, mutants.Plain{Body: squareSum(mutants.Descending)})
	l.Of(norm.TotalDefinition, num.F32)
	l.Add("sequential", "one sum, ascending", mutants.Sequential, mutants.Plain{Body: rowTotal(mutants.Ascending)})
	l.Of(norm.ClipDefinition, num.F32)
	l.Add("as-defined", "the definition's steps, each rounded", mutants.AnyOrder.IEEE(), mutants.Plain{Body: clip(clipFactor)})
	stableRight(l)
	return l.All
}

// peers returns plain kernels of the definitions, made of the given parts.
func peers(mutants.Parts) map[*def.Definition]func(*mutants.Call) {
	return map[*def.Definition]func(*mutants.Call){
		norm.SquareSumDefinition: squareSum(mutants.Ascending), norm.TotalDefinition: rowTotal(mutants.Ascending), norm.ClipDefinition: clip(clipFactor),
	}
}
