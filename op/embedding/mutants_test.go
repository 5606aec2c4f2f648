package embedding_test

import (
	"sync/atomic"
	"testing"

	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, embedding.Operations, wrong(), right(), nil)
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(embedding.Operations)
	honest := mutants.Gather(mutants.RowOf)
	changed := func(change func(k *mutants.Plain)) mutants.Plain {
		k := honest
		change(&k)
		return k
	}
	isBad := func(c *mutants.Call, q int) bool { return mutants.RowOf(int(c.Index[q]), c.Stored[1].Rows) < 0 }

	l.Of(embedding.ForwardDefinition, num.F16)
	l.From("prototype 9")
	l.Add("bad-index-not-written", "the row of a bad index keeps what was there", mutants.PromisesBits, changed(func(k *mutants.Plain) {
		k.Puts = func(c *mutants.Call, _, q, _ int) bool { return !isBad(c, q) }
	}))
	l.From("prototype 10")
	l.Add("write-beyond", "one element behind the last is written", mutants.PromisesBits, changed(func(k *mutants.Plain) { k.After = mutants.WritesBeyond }))
	l.From("prototype 12")
	l.Add("short-offsets", "rows of the table are counted in 8 bits", mutants.PromisesBits, mutants.Gather(func(v, rows int) int { return mutants.RowOf(int(int8(v)), rows) }))
	l.From(mutants.KernelPractice)
	l.Add("bad-index-wraps", "a bad index is taken modulo the rows", mutants.PromisesBits, mutants.Gather(func(v, rows int) int { return ((v % rows) + rows) % rows }))
	l.Add("negative-index", "index -1 reads the last row", mutants.PromisesBits, mutants.Gather(func(v, rows int) int {
		if v < 0 {
			v += rows
		}
		return mutants.RowOf(v, rows)
	}))
	l.Add("bad-index-clamped", "a bad index reads the nearest row", mutants.PromisesBits, mutants.Gather(func(v, rows int) int { return max(0, min(v, rows-1)) }))
	l.Add("last-column", "the last column is not written", mutants.PromisesBits, changed(func(k *mutants.Plain) {
		k.Puts = func(c *mutants.Call, _, _, col int) bool { return col < max(1, c.Stored[2].Cols-1) }
	}))
	l.Add("zero-added", "+0 is added: -0 becomes +0", mutants.PromisesBits, changed(func(k *mutants.Plain) { k.Store = mutants.StorePositiveZero }))
	l.Add("nan-canonical", "a NaN loses its pattern", mutants.PromisesBits, changed(func(k *mutants.Plain) {
		k.Store = func(d num.DType, v float32) uint32 { return num.Canonical(d, num.Narrow(d, v)) }
	}))
	l.Of(embedding.ForwardDefinition, num.F32)
	l.Add("via-f16", "values pass through f16", mutants.PromisesBits, changed(func(k *mutants.Plain) { k.Store = mutants.StoreVia(mutants.To(num.F16)) }))
	l.From(mutants.TwiceWrong)
	l.Add("one-doubled", "one element is twice what it should be", mutants.PromisesBits, changed(func(k *mutants.Plain) {
		k.After = func(c *mutants.Call) {
			a := c.Stored[2]
			a.Set(a.Rows/2, a.Cols/2, 2*a.At(a.Rows/2, a.Cols/2))
		}
	}))
	l.Of(embedding.ForwardDefinition, num.BF16)
	l.From(mutants.KernelPractice)
	l.Add("stride-ignored", "rows of the output are written without gaps", mutants.PromisesBits, changed(func(k *mutants.Plain) {
		k.Before = func(c *mutants.Call) error {
			c.Stored[2].Stride = c.Stored[2].Cols
			return nil
		}
	}))

	scattered := func(sum func([]float32) float32) mutants.Plain { return mutants.Plain{Body: mutants.Scatter(sum)} }
	l.Of(embedding.BackwardDefinition, num.F16)
	l.From("prototype 8")
	l.Add("f16-atomics", "every addition rounds to f16", mutants.AnyOrder, scattered(mutants.Rounding(mutants.To(num.F16))))
	l.From(mutants.KernelPractice)
	l.Add("f32-sum", "the sum is kept in f32, not exact", mutants.PromisesBits, scattered(mutants.Ascending))
	l.Add("last-wins", "of the rows with the same index only the last counts", mutants.AnyOrder, scattered(func(x []float32) float32 { return x[len(x)-1] }))
	l.Add("64-duplicates", "no more than 64 rows of an index count", mutants.AnyOrder, scattered(func(x []float32) float32 { return mutants.Ascending(x[:min(64, len(x))]) }))
	l.Add("lost-update", "of two neighbouring queries with the same index one is lost", mutants.AnyOrder, mutants.Plain{Body: mutants.Exactly, Before: loseNeighbours})
	l.Add("bad-index-wraps", "a bad index is taken modulo the rows", mutants.PromisesBits, mutants.Plain{Body: func(c *mutants.Call) {
		for q, v := range c.Index {
			rows := int32(c.Stored[2].Rows)
			c.Index[q] = ((v % rows) + rows) % rows
		}
		mutants.Exactly(c)
	}})
	l.Add("rows-not-cleared", "a row that no index names keeps what was there", mutants.PromisesBits, mutants.Plain{Body: mutants.Exactly, Puts: isNamed})
	l.Add("mean", "the mean is taken, not the sum", mutants.AnyOrder, scattered(func(x []float32) float32 { return mutants.InDouble(x) / float32(len(x)) }))
	l.Add("saturates", "a sum too large is 65504", mutants.PromisesBits, mutants.Plain{Body: mutants.Exactly, Store: func(d num.DType, v float32) uint32 { return mutants.StoreSaturated(d, v) }})
	l.Of(embedding.BackwardDefinition, num.BF16)
	l.From(mutants.Simulated)
	l.Add("bf16-atomics", "every addition rounds to bf16", mutants.AnyOrder, scattered(mutants.Rounding(mutants.To(num.BF16))))
	l.Of(embedding.BackwardDefinition, num.F32)
	l.From(mutants.KernelPractice)
	l.Add("order-alternates", "every other call adds up backwards, as atomics do", mutants.AnyOrder, mutants.Alternating(mutants.Scatter(mutants.Ascending), mutants.Scatter(mutants.Descending)))
	l.Level = mutants.Quick // no case of level smoke has that many
	l.Add("queries-in-16-bits", "queries are counted in 16 bits: those from 65,536 on are lost", mutants.AnyOrder, mutants.Plain{Body: mutants.Scatter(mutants.InPairs), Before: func(c *mutants.Call) error {
		i := c.Position("index")
		c.Stored[i] = c.Stored[i].Clone()
		for q := 1 << 16; q < c.Stored[i].Rows; q++ {
			c.Stored[i].SetBits(q, 0, ^uint32(0))
		}
		return nil
	}})
	l.Level = mutants.Smoke
	l.From(mutants.ZerosPass)
	l.Add("zeros", "every gradient is zero", mutants.AnyOrder, scattered(func([]float32) float32 { return 0 }))

	l.Of(embedding.AccumulateDefinition, num.F16)
	l.From(mutants.KernelPractice)
	l.Add("old-ignored", "the old value is overwritten", mutants.AnyOrder, scattered(func(x []float32) float32 { return mutants.InDouble(x[1:]) }))
	l.Add("added-twice", "the sum is added twice", mutants.AnyOrder, scattered(func(x []float32) float32 { return 2*mutants.InDouble(x[1:]) + x[0] }))
	l.Add("old-per-duplicate", "the old value is added once for every row", mutants.AnyOrder, scattered(func(x []float32) float32 {
		return mutants.InDouble(x[1:]) + float32(len(x)-1)*x[0]
	}))
	l.Add("rows-cleared", "a row that no index names is cleared", mutants.PromisesBits, mutants.Plain{Body: mutants.Exactly, Edit: func(c *mutants.Call) {
		for r := range c.Operands[2].Rows {
			if !isNamed(c, 2, r, 0) {
				clear(c.Operands[2].Row(r))
			}
		}
	}})
	l.From("prototype 8")
	l.Add("f16-atomics", "every addition rounds to f16", mutants.AnyOrder, scattered(mutants.Rounding(mutants.To(num.F16))))
	l.Of(embedding.AccumulateDefinition, num.F32)
	l.From("unsloth, gradient accumulation")
	l.Add("calls-counted", "from the second call on, sums are divided by the number of calls", mutants.PromisesBits, mutants.Stateful(func() func(*mutants.Call) error {
		var calls atomic.Int64
		return mutants.Plain{Body: mutants.Exactly, Edit: func(c *mutants.Call) {
			if n := calls.Add(1); n > 1 {
				for i := range c.Operands[2].V {
					c.Operands[2].V[i] /= float32(n)
				}
			}
		}}.Run
	}))
	stableWrong(l)
	cheats(l)
	return l.All
}

// loseNeighbours gives the first of two neighbouring equal indices no row.
func loseNeighbours(c *mutants.Call) error {
	i := c.Position("index")
	c.Stored[i] = c.Stored[i].Clone()
	for q := range c.Stored[i].Rows - 1 {
		if c.Stored[i].Int(q, 0) == c.Stored[i].Int(q+1, 0) {
			c.Stored[i].SetBits(q, 0, ^uint32(0))
		}
	}
	return nil
}

// isNamed reports whether an index names the row of the result.
func isNamed(c *mutants.Call, _, r, _ int) bool {
	for _, v := range c.Index {
		if int(v) == r {
			return true
		}
	}
	return false
}

func right() []mutants.Mutant {
	l := mutants.NewList(embedding.Operations)
	l.Of(embedding.BackwardDefinition, num.F16)
	l.Add("sequential", "one f32 sum, ascending", mutants.Sequential, mutants.Plain{Body: mutants.Scatter(mutants.Ascending)})
	l.Add("reversed", "one f32 sum, descending, declared as any order", mutants.AnyOrder, mutants.Plain{Body: mutants.Scatter(mutants.Descending)})
	l.Of(embedding.BackwardDefinition, num.BF16)
	l.Add("pairwise", "halves of halves", mutants.Pairwise, mutants.Plain{Body: mutants.Scatter(mutants.InPairs)})
	l.Of(embedding.AccumulateDefinition, num.F32)
	l.Add("sequential", "one sum, ascending, the old value first", mutants.Sequential, mutants.Plain{Body: mutants.Scatter(mutants.Ascending)})
	l.Of(embedding.ForwardDefinition, num.F16)
	l.Add("copy", "a plain copy", mutants.PromisesBits, mutants.Gather(mutants.RowOf))
	stableRight(l)
	return l.All
}
