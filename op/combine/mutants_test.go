package combine_test

import (
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/combine"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, combine.Operations, wrong(), right(), peers)
}

// sumsBody is a kernel that adds the terms of an element as sum does; take returns the row of a place, or
// -1 for none.
func sumsBody(take func(v, rows int) int, sum func(values, weights []float32) float32) mutants.Plain {
	return mutants.Plain{Body: func(c *mutants.Call) {
		table, out := c.Operands[1], c.Operands[len(c.Operands)-1]
		choices := len(c.Index) / out.Rows
		for q := range out.Rows {
			var rows []int
			var weights []float32
			for s := range choices {
				if v := take(int(c.Index[q*choices+s]), table.Rows); v >= 0 {
					rows, weights = append(rows, v), append(weights, 1)
					if len(c.Operands) == 4 {
						weights[len(weights)-1] = c.Operands[2].Row(q)[s]
					}
				}
			}
			for col := range out.Row(q) {
				values := make([]float32, len(rows))
				for i, v := range rows {
					values[i] = table.Row(v)[col]
				}
				out.Row(q)[col] = sum(values, weights)
			}
		}
	}}
}

// peers returns plain kernels of the rowwise definition, made of the given parts.
func peers(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
	return map[*def.Definition]func(*mutants.Call){combine.BackwardDefinition: func(c *mutants.Call) {
		o, dy, weight, do, dweight := c.In("o"), c.In("dy"), c.In("weight"), c.In("do"), c.In("dweight")
		for r := range o.Rows {
			terms := make([]float32, o.Cols)
			for i, v := range dy.Row(r) {
				do.Row(r)[i] = p.Step(v * weight.Row(r)[0])
				terms[i] = p.Step(v * o.Row(r)[i])
			}
			dweight.Row(r)[0] = p.Sum(terms)
		}
	}}
}

func chain(values, weights []float32) float32 {
	z := float32(0)
	for i, v := range values {
		z = num.FMA(weights[i], v, z)
	}
	return z
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(combine.Operations)
	l.From(mutants.KernelPractice)
	l.Of(combine.ForwardDefinition, num.BF16)
	l.Add("rounded-products", "products are rounded to bf16 before they are added", mutants.PromisesBits, sumsBody(mutants.RowOf, func(values, weights []float32) float32 {
		z := float32(0)
		for i, v := range values {
			z += num.Round(num.BF16, weights[i]*v)
		}
		return z
	}))
	l.Add("bf16-accumulator", "the sum is kept in bf16, as additions into the output do", mutants.PromisesBits, sumsBody(mutants.RowOf, func(values, weights []float32) float32 {
		z := float32(0)
		for i, v := range values {
			z = num.Round(num.BF16, num.FMA(weights[i], v, z))
		}
		return z
	}))
	l.Add("last-choice", "the last choice is left out", mutants.AnyOrder, sumsBody(mutants.RowOf, func(values, weights []float32) float32 {
		return chain(values[:max(1, len(values)-1)*min(1, len(values))], weights)
	}))
	l.Of(combine.ForwardDefinition, num.F32)
	l.Add("descending", "choices are added from the last to the first", mutants.PromisesBits, sumsBody(mutants.RowOf, func(values, weights []float32) float32 {
		z := float32(0)
		for i := len(values) - 1; i >= 0; i-- {
			z = num.FMA(weights[i], values[i], z)
		}
		return z
	}))
	l.Add("not-fused", "products are rounded to f32", mutants.PromisesBits, sumsBody(mutants.RowOf, func(values, weights []float32) float32 {
		z := float32(0)
		for i, v := range values {
			z += float32(weights[i] * v)
		}
		return z
	}))
	l.Add("bad-place-clamped", "a bad place reads the nearest row", mutants.PromisesBits, sumsBody(func(v, rows int) int { return max(0, min(v, rows-1)) }, chain))
	l.Add("normalised", "the sum is divided by that of the weights", mutants.PromisesBits, sumsBody(mutants.RowOf, func(values, weights []float32) float32 {
		sum := float32(0)
		for _, w := range weights {
			sum += w
		}
		return chain(values, weights) / sum
	}))
	l.Of(combine.PermuteBackwardDefinition, num.F16)
	l.Add("mean", "the mean instead of the sum", mutants.AnyOrder, sumsBody(mutants.RowOf, func(values, weights []float32) float32 {
		return chain(values, weights) / float32(max(1, len(values)))
	}))
	l.Add("last-wins", "the last row instead of the sum, as writes without atomics give", mutants.PromisesBits, sumsBody(mutants.RowOf, func(values, _ []float32) float32 {
		if len(values) == 0 {
			return 0
		}
		return values[len(values)-1]
	}))
	l.Add("bad-place-wraps", "a bad place is taken modulo the rows", mutants.PromisesBits, sumsBody(func(v, rows int) int { return ((v % rows) + rows) % rows }, chain))
	l.Of(combine.PermuteBackwardDefinition, num.F32)
	l.Add("descending", "rows are added from the last to the first", mutants.PromisesBits, sumsBody(mutants.RowOf, func(values, _ []float32) float32 { return mutants.Descending(values) }))
	l.Of(combine.PermuteDefinition, num.F16)
	l.Add("negative-source", "source -1 reads the last row", mutants.PromisesBits, mutants.Gather(func(v, rows int) int {
		if v < 0 {
			v += rows
		}
		return mutants.RowOf(v, rows)
	}))
	l.Add("bad-source-wraps", "a bad source is taken modulo the rows", mutants.PromisesBits, mutants.Gather(func(v, rows int) int { return ((v % rows) + rows) % rows }))
	l.Add("short-offsets", "rows are counted in 8 bits", mutants.PromisesBits, mutants.Gather(func(v, rows int) int { return mutants.RowOf(int(int8(v)), rows) }))
	canonical := mutants.Gather(mutants.RowOf)
	canonical.Store = func(d num.DType, v float32) uint32 { return num.Canonical(d, num.Narrow(d, v)) }
	l.Add("nan-canonical", "a NaN loses its pattern", mutants.PromisesBits, canonical)
	l.Of(combine.BackwardDefinition, num.BF16)
	l.Add("first-weight", "all rows have the weight of the first", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		for r := range c.Operands[3].Rows {
			for i := range c.Operands[3].Row(r) {
				c.Operands[3].Row(r)[i] = c.Operands[1].Row(r)[i] * c.Operands[2].Row(0)[0]
			}
		}
	}})
	l.Add("store-truncates", "results are cut off, not rounded", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreTowardZero})
	l.Add("weighted-dweight", "the gradient of a weight has the weight in it", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		for r := range c.Operands[4].Rows {
			c.Operands[4].Row(r)[0] *= c.Operands[2].Row(r)[0]
		}
	}})
	l.Add("dweight-of-do", "the gradient of a weight comes from the rounded do", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		for r := range c.Operands[4].Rows {
			sum := float32(0)
			for i, v := range c.Operands[3].Row(r) {
				sum += num.Round(num.BF16, v) * c.Operands[0].Row(r)[i]
			}
			c.Operands[4].Row(r)[0] = sum / c.Operands[2].Row(r)[0]
		}
	}})
	return l.All
}

func right() []mutants.Mutant {
	l := mutants.NewList(combine.Operations)
	l.Of(combine.ForwardDefinition, num.BF16)
	l.Add("chain", "the definition, column by column", mutants.PromisesBits, sumsBody(mutants.RowOf, chain))
	l.Of(combine.PermuteBackwardDefinition, num.F32)
	l.Add("any-order", "rows are added from the last to the first, declared as any order", mutants.AnyOrder, sumsBody(mutants.RowOf, func(values, _ []float32) float32 {
		return mutants.Descending(values)
	}))
	l.Of(combine.PermuteDefinition, num.F16)
	l.Add("copy", "a plain copy", mutants.PromisesBits, mutants.Gather(mutants.RowOf))
	return l.All
}
