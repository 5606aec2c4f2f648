package gemm_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/trial"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, gemm.Operations, wrong(), right(), nil)
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(gemm.Operations)
	dots := func(f mutants.Dot) mutants.Plain { return mutants.Plain{Body: mutants.Contraction(f)} }
	honest := mutants.Contraction(mutants.Products(mutants.InLanes(16)))

	l.Of(gemm.ForwardDefinition, num.F16)
	l.From("prototype 13")
	l.Add("whole-tiles", "columns after the last multiple of 16 are not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Contraction(mutants.Fused), Puts: mutants.WritesWholeTiles})
	l.Add("whole-row-tiles", "rows after the last multiple of 16 are not written", mutants.AnyOrder, mutants.Plain{Body: honest, Puts: mutants.WholeRowTiles})
	l.From(mutants.ZerosPass)
	l.Add("zeros", "every result is zero", mutants.AnyOrder, dots(func([]float32, []float32, float32, bool) float32 { return 0 }))
	l.From(mutants.Simulated)
	l.Add("f16-accumulator", "the sum is kept in f16", mutants.Lanes16, dots(mutants.Products(mutants.Rounding(mutants.To(num.F16)))))
	l.Add("22-bit-accumulator", "the accumulator has 22 bits", mutants.Lanes16, dots(mutants.Products(mutants.RoundingLanes(mutants.KeepBits(22)))))
	l.Add("truncating-sequential", "every addition cuts off instead of rounding", mutants.Sequential, dots(mutants.Products(func(x []float32) float32 {
		s := float32(0)
		for _, v := range x {
			s = mutants.TowardZero(float64(s) + float64(v))
		}
		return s
	})))
	l.Add("truncating-lanes", "every addition cuts off instead of rounding, in 16 lanes", mutants.Lanes16, dots(mutants.Products(mutants.RoundingLanes(mutants.TowardZero))))
	l.Add("store-truncates", "results are cut off, not rounded", mutants.Lanes16, mutants.Plain{Body: honest, Store: mutants.StoreTowardZero})
	l.Add("store-via-bf16", "results are rounded to bf16, then stored", mutants.Lanes16, mutants.Plain{Body: honest, Store: mutants.StoreVia(mutants.To(num.BF16))})
	l.Add("store-via-13-bits", "results are rounded to 13 bits, then stored", mutants.Lanes16, mutants.Plain{Body: honest, Store: mutants.StoreVia(mutants.To13Bits)})
	l.Add("split-f16-partials", "the two halves of K meet as f16", mutants.Lanes16, dots(func(a, b []float32, _ float32, _ bool) float32 {
		h := len(a) / 2
		half := func(a, b []float32) float32 {
			return num.Round(num.F16, mutants.Products(mutants.InLanes(16))(a, b, 0, false))
		}
		return half(a[:h], b[:h]) + half(a[h:], b[h:])
	}))
	l.Add("split-drops-last", "the last product is missing everywhere", mutants.Lanes16, dots(func(a, b []float32, _ float32, _ bool) float32 {
		n := max(1, len(a)-1)
		return mutants.Products(mutants.InLanes(16))(a[:n], b[:n], 0, false)
	}))
	l.Add("one-product-missing", "one product is missing in one result", mutants.Lanes16, mutants.Plain{Body: func(c *mutants.Call) {
		m, n := c.Operands[2].Rows/2, c.Operands[2].Cols/3
		mutants.ContractionAt(func(r, col int, a, b []float32, _ float32, _ bool) float32 {
			if r == m && col == n {
				a = slices.Clone(a)
				a[len(a)/2] = 0
			}
			return mutants.Products(mutants.InLanes(16))(a, b, 0, false)
		})(c)
	}})
	l.From(mutants.KernelPractice)
	l.Add("first-product-dropped", "the first product is missing everywhere", mutants.AnyOrder, dots(func(a, b []float32, _ float32, _ bool) float32 {
		return mutants.Fused(a[min(1, len(a)-1):], b[min(1, len(a)-1):], 0, false)
	}))
	l.Add("zeros-skipped", "products with a zero are skipped: 0 times infinity is lost", mutants.PromisesBits, dots(func(a, b []float32, acc float32, _ bool) float32 {
		for k := range a {
			if a[k] != 0 && b[k] != 0 {
				acc = num.FMA(a[k], b[k], acc)
			}
		}
		return acc
	}))
	l.Add("square-not-transposed", "a square B is read transposed", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		if b := c.Operands[1]; b.Rows == b.Cols {
			c.Operands[1] = mutants.Transposed(b)
		}
		honest(c)
	}})
	l.Add("result-transposed", "a square result is written transposed", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		if r := c.Operands[2]; r.Rows == r.Cols {
			c.Operands[2] = mutants.Transposed(r)
		}
	}})
	l.Add("leading-dimension", "the rows of the operands are read as if they had no gaps", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Load: mutants.LoadPacked})
	l.Add("saturates", "a result too large is the largest number", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreSaturated})
	l.Add("256-products", "no more than 256 products are added", mutants.AnyOrder, dots(func(a, b []float32, _ float32, _ bool) float32 {
		n := min(256, len(a))
		return mutants.Products(mutants.Ascending)(a[:n], b[:n], 0, false)
	}))
	l.Add("nan-where-hard", "results that are large or tiny are NaN", mutants.AnyOrder, mutants.Plain{Body: honest, Edit: func(c *mutants.Call) { c.Computed(mutants.NanWhere) }})
	l.From(mutants.TwiceWrong)
	l.Add("one-doubled", "one element is twice what it should be", mutants.Lanes16, mutants.Plain{Body: honest, Edit: func(c *mutants.Call) { c.Computed(mutants.Doubled) }})
	l.From("Wafer.ai")
	l.Add("workers-decide", "K is split among the workers", mutants.AnyOrder, mutants.ByWorkers(func(sum func([]float32) float32) func(*mutants.Call) {
		return mutants.Contraction(mutants.Products(sum))
	}))
	l.From("pygpubench#7")
	l.Add("nothing-written", "nothing is written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.WritesNothing})
	l.Of(gemm.ForwardDefinition, num.BF16)
	l.From(mutants.Simulated)
	l.Add("bf16-accumulator", "the sum is kept in bf16", mutants.Lanes16, dots(mutants.Products(mutants.Rounding(mutants.To(num.BF16)))))
	l.Of(gemm.ForwardDefinition, num.F32)
	l.From(mutants.KernelPractice)
	l.Add("tf32", "operands are cut to ten bits of fraction", mutants.AnyOrder, mutants.Plain{Body: honest, Load: mutants.LoadTF32})
	l.Add("own-order", "the bits are promised, but 16 lanes are added", mutants.PromisesBits, mutants.Plain{Body: honest})
	l.Add("alpha", "the result is multiplied by 1 + 2^-10", mutants.AnyOrder, mutants.Plain{Body: honest, Edit: func(c *mutants.Call) {
		for i := range c.Operands[2].V {
			c.Operands[2].V[i] *= 1 + 0x1p-10
		}
	}})
	l.Level = mutants.Quick // no case of level smoke has that many products
	l.Add("terms-in-16-bits", "products are counted in 16 bits: the first 65,536 are lost", mutants.AnyOrder, dots(func(a, b []float32, old float32, accumulate bool) float32 {
		n := len(a) >> 16 << 16
		return mutants.Products(mutants.InLanes(16))(a[n:], b[n:], old, accumulate)
	}))
	l.Add("identity-copies", "the product with an identity matrix is a copy: 0 times infinity is lost", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		honest(c)
		if a := c.In("A"); a.Rows == a.Cols && isIdentity(a) {
			copy(c.In("C").V, c.In("B").V)
		}
	}})
	l.Level = mutants.Smoke
	l.Add("zero-blocks-skipped", "blocks of eight zeros are skipped, unless the whole row is zero: 0 times infinity is lost", mutants.AnyOrder, dots(withoutZeroBlocks))
	l.Add("order-alternates", "every other call adds up backwards", mutants.AnyOrder, mutants.Alternating(mutants.Contraction(mutants.Products(mutants.Ascending)), mutants.Contraction(mutants.Products(mutants.Descending))))

	old := func(f func(sum, old float32) float32) mutants.Plain {
		return dots(func(a, b []float32, was float32, _ bool) float32 {
			return f(mutants.Products(mutants.Ascending)(a, b, 0, false), was)
		})
	}
	l.Of(gemm.ForwardAccumulateDefinition, num.F16)
	l.Add("old-ignored", "the old result is overwritten", mutants.AnyOrder, old(func(s, _ float32) float32 { return s }))
	l.Add("added-twice", "the product is added twice", mutants.AnyOrder, old(func(s, was float32) float32 { return was + 2*s }))
	l.Add("old-twice", "the old result is added twice", mutants.AnyOrder, old(func(s, was float32) float32 { return 2*was + s }))
	l.From(mutants.Simulated)
	l.Add("product-rounded", "the product is rounded to f16 before the old result is added", mutants.Lanes16, dots(func(a, b []float32, was float32, _ bool) float32 {
		return was + num.Round(num.F16, mutants.Products(mutants.InLanes(16))(a, b, 0, false))
	}))
	l.Of(gemm.ForwardAccumulateDefinition, num.F32)
	l.From(mutants.KernelPractice)
	l.Add("old-last", "the bits are promised, but the old result is added at the end", mutants.PromisesBits, dots(func(a, b []float32, was float32, _ bool) float32 {
		return mutants.Fused(a, b, 0, false) + was
	}))

	l.Of(gemm.GradADefinition, num.F16)
	l.Add("not-transposed", "a square B is not transposed", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		if b := c.Operands[1]; b.Rows == b.Cols {
			c.Operands[1] = mutants.Transposed(b)
		}
		honest(c)
	}})
	l.Add("sign", "the gradient has the wrong sign", mutants.PromisesBits, mutants.Edited(mutants.Negated))
	l.From(mutants.ZerosPass)
	l.Add("zeros", "every gradient is zero", mutants.AnyOrder, mutants.Edited(mutants.Zeros))
	l.From(mutants.Simulated)
	l.Add("f16-accumulator", "the sum is kept in f16", mutants.Lanes16, dots(mutants.Products(mutants.Rounding(mutants.To(num.F16)))))
	l.Add("store-truncates", "results are cut off, not rounded", mutants.Lanes16, mutants.Plain{Body: honest, Store: mutants.StoreTowardZero})
	l.From(mutants.KernelPractice)
	l.Add("clears-infinity", "an infinite result is NaN", mutants.AnyOrder, mutants.Plain{Body: honest, Edit: func(c *mutants.Call) {
		for i, v := range c.Operands[2].V {
			if math.IsInf(float64(v), 0) {
				c.Operands[2].V[i] = float32(math.NaN())
			}
		}
	}})
	l.Of(gemm.GradAAccumulateDefinition, num.F16)
	l.Add("old-ignored", "the old gradient is overwritten", mutants.AnyOrder, old(func(s, _ float32) float32 { return s }))
	l.Add("added-twice", "the product is added twice", mutants.AnyOrder, old(func(s, was float32) float32 { return was + 2*s }))
	l.Add("whole-row-tiles", "rows after the last multiple of 16 are not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.WholeRowTiles})
	l.From(mutants.TenCalls)
	l.Add("ten-calls", "right for ten calls, then one element is doubled", mutants.PromisesBits, mutants.After(10, mutants.Plain{Body: mutants.Answer}, mutants.Doubled))

	l.Of(gemm.GradBDefinition, num.BF16)
	l.From(mutants.TwiceWrong)
	l.Add("one-doubled", "one element is twice what it should be", mutants.AnyOrder, mutants.Edited(mutants.Doubled))
	l.From(mutants.KernelPractice)
	l.Add("rows-halved", "the first half of the rows of A and dC counts", mutants.AnyOrder, dots(func(a, b []float32, _ float32, _ bool) float32 {
		n := (len(a) + 1) / 2
		return mutants.Products(mutants.Ascending)(a[:n], b[:n], 0, false)
	}))
	l.Add("mean", "the gradient is divided by M", mutants.AnyOrder, dots(func(a, b []float32, _ float32, _ bool) float32 {
		return mutants.Products(mutants.Ascending)(a, b, 0, false) / float32(len(a))
	}))
	l.From(mutants.Simulated)
	l.Add("bf16-accumulator", "the sum is kept in bf16", mutants.AnyOrder, dots(mutants.Products(mutants.Rounding(mutants.To(num.BF16)))))
	l.From(mutants.KernelPractice)
	l.Add("input-changed", "the left operand's last element is overwritten", mutants.AnyOrder, mutants.Plain{Body: honest, After: mutants.ChangesInput})
	l.Of(gemm.GradBAccumulateDefinition, num.BF16)
	l.Add("old-ignored", "the old gradient is overwritten", mutants.AnyOrder, old(func(s, _ float32) float32 { return s }))
	l.From("unsloth, gradient accumulation")
	l.Add("averaged", "old and new gradient are averaged", mutants.AnyOrder, old(func(s, was float32) float32 { return (s + was) / 2 }))
	l.From(mutants.KernelPractice)
	l.Add("old-rounded-away", "the old gradient is kept in 4 bits", mutants.AnyOrder, old(func(s, was float32) float32 { return s + mutants.KeepBits(4)(float64(was)) }))
	l.Add("stale", "the outputs of the call before are returned", mutants.PromisesBits, mutants.Stale(mutants.Plain{Body: mutants.Answer}))

	for i, p := range []*def.Definition{
		gemm.BatchedForwardDefinition, gemm.BatchedForwardAccumulateDefinition, gemm.BatchedGradADefinition,
		gemm.BatchedGradAAccumulateDefinition, gemm.BatchedGradBDefinition, gemm.BatchedGradBAccumulateDefinition,
	} {
		l.Of(p, num.FloatDTypes[i%3])
		l.Add("first-left-matrix", "every product has the first matrix on the left", mutants.PromisesBits, mutants.Plain{Body: mutants.FusedStack(func(h int) (int, int) { return 0, h })})
		l.Add("next-right-matrix", "every product has the next matrix on the right", mutants.PromisesBits, mutants.Plain{Body: mutants.FusedStack(func(h int) (int, int) { return h, h + 1 })})
		l.Add("last-matrix-missing", "the last of several matrices is not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: func(c *mutants.Call, operand, r, _ int) bool {
			a := c.Stored[operand]
			return a.Matrices() == 1 || r < a.Rows-a.Rows/a.Matrices()
		}})
		l.Add("batch-strides-ignored", "matrices are read as if they followed each other", mutants.PromisesBits, mutants.Plain{Body: mutants.Contraction(mutants.Fused), Load: mutants.LoadPackedStack})
		if p.Accumulates() {
			l.Add("old-ignored", "the old result is overwritten", mutants.AnyOrder, old(func(s, _ float32) float32 { return s }))
		}
	}
	for i, c := range []mutants.Promise{mutants.PromisesBits, mutants.Stable} {
		l.Of(gemm.BatchedForwardDefinition, num.FloatDTypes[i])
		l.Add("repeated-left-matrix", "where all matrices on the left are one memory, every product has the first matrix on the right", c, mutants.Plain{Body: func(c *mutants.Call) {
			of := func(h int) (int, int) { return h, h }
			if a := c.Stored[0]; a.Matrices() > 1 && a.Batch.Axes[0].Stride == 0 {
				of = func(h int) (int, int) { return h, 0 }
			}
			mutants.FusedStack(of)(c)
		}})
	}
	wrongGroups(l)
	wrongFP8(l)
	wrongExact(l)
	stableWrong(l)
	cheats(l)
	return l.All
}

// wrongGroups adds kernels that divide rows into groups in another way than the offsets say.
func wrongGroups(l *mutants.List) {
	// divided computes with offsets that change has changed, brought into order between 0 and M.
	divided := func(change func(offsets []int)) mutants.Plain {
		return mutants.Plain{Body: func(c *mutants.Call) {
			i := c.Position("offsets")
			stored := &c.Stored[i]
			offsets := make([]int, stored.Rows)
			for g := range offsets {
				offsets[g] = int(stored.Int(g, 0))
			}
			change(offsets)
			changed := num.NewArray(num.I32, stored.Rows, 1)
			trial.FillOffsets(changed, int(stored.Int(stored.Rows-1, 0)), func(g int) int { return offsets[g] })
			c.Stored[i] = changed
			mutants.Contraction(mutants.Fused)(c)
		}}
	}
	inner := func(change func(begin, rows int) int) func(offsets []int) {
		return func(offsets []int) {
			rows := offsets[len(offsets)-1]
			for g := 1; g < len(offsets)-1; g++ {
				offsets[g] = max(0, min(change(offsets[g], rows), rows))
			}
		}
	}
	for i, d := range []*def.Definition{gemm.GroupedForwardDefinition, gemm.GroupedGradADefinition, gemm.GroupedGradBDefinition} {
		l.Of(d, num.FloatDTypes[i])
		l.From(mutants.KernelPractice)
		l.Add("end-included", "a group has the first row of the next one too", mutants.PromisesBits, divided(inner(func(begin, _ int) int { return begin + 1 })))
		l.Add("groups-of-16", "groups begin at multiples of 16, as if their rows had been padded", mutants.AnyOrder, divided(inner(func(begin, _ int) int { return begin / 16 * 16 })))
		l.Add("ends-of-16", "groups end at multiples of 16: the rows that pad them are those of the next ones", mutants.AnyOrder, divided(inner(func(begin, _ int) int { return (begin + 15) / 16 * 16 })))
		l.Add("equal-groups", "all groups have as many rows", mutants.AnyOrder, divided(func(offsets []int) {
			rows := offsets[len(offsets)-1]
			for g := range offsets {
				offsets[g] = rows * g / (len(offsets) - 1)
			}
		}))
		if !d.Product().TransposeLeft {
			l.Add("next-matrix", "every group has the matrix of the next", mutants.PromisesBits, mutants.Plain{Body: mutants.FusedStack(func(g int) (int, int) { return g, g + 1 })})
			l.Add("first-matrix", "every group has the first matrix", mutants.AnyOrder, mutants.Plain{Body: mutants.FusedStack(func(int) (int, int) { return 0, 0 })})
			l.Add("empty-matrix", "the group after one without rows has that one's matrix", mutants.PromisesBits, mutants.Plain{Body: func(c *mutants.Call) {
				mutants.FusedStack(func(g int) (int, int) {
					if g > 0 && isEmpty(c, g-1) {
						return g, g - 1
					}
					return g, g
				})(c)
			}})
			l.Add("last-row-not-written", "the last row of every group is not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: func(c *mutants.Call, operand, r, _ int) bool {
				return r+1 != int(c.Stored[3].Int(groupOf(c, r)+1, 0))
			}})
			l.Add("stops-at-empty", "groups after one without rows are not computed", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Puts: func(c *mutants.Call, operand, r, _ int) bool {
				return !emptyBefore(c, groupOf(c, r))
			}})
			l.Add("last-group-missing", "the rows of the last of several groups are not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: func(c *mutants.Call, operand, r, _ int) bool {
				offsets := &c.Stored[3]
				return offsets.Rows == 2 || r < int(offsets.Int(offsets.Rows-2, 0))
			}})
			continue
		}
		matrixOf := func(c *mutants.Call, operand, r int) int {
			result := &c.Stored[operand]
			return r / (result.Rows / result.Matrices())
		}
		l.Add("no-rows-not-written", "the matrix of a group without rows is not written", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Puts: func(c *mutants.Call, operand, r, _ int) bool {
			return !isEmpty(c, matrixOf(c, operand, r))
		}})
		l.Add("stops-at-empty", "groups after one without rows are not computed", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: func(c *mutants.Call, operand, r, _ int) bool {
			return !emptyBefore(c, matrixOf(c, operand, r))
		}})
		l.Add("last-row-missing", "the last row of every group is missing", mutants.AnyOrder, mutants.Plain{Body: mutants.Contraction(func(a, b []float32, old float32, accumulate bool) float32 {
			n := max(0, len(a)-1)
			return mutants.Fused(a[:n], b[:n], old, accumulate)
		})})
	}
}

// isEmpty reports whether group g of a call has no rows.
func isEmpty(c *mutants.Call, g int) bool {
	offsets := &c.Stored[3]
	return offsets.Int(g, 0) == offsets.Int(g+1, 0)
}

// emptyBefore reports whether a group before group g has no rows.
func emptyBefore(c *mutants.Call, g int) bool {
	for before := range g {
		if isEmpty(c, before) {
			return true
		}
	}
	return false
}

// groupOf returns the group of row r.
func groupOf(c *mutants.Call, r int) int {
	offsets := &c.Stored[3]
	for g := range offsets.Rows - 1 {
		if r < int(offsets.Int(g+1, 0)) {
			return g
		}
	}
	panic("a row of no group")
}

func right() []mutants.Mutant {
	l := mutants.NewList(gemm.Operations)
	l.Of(gemm.ForwardDefinition, num.F16)
	for _, o := range mutants.Orders {
		l.Add(o.Name, o.Text, o.Promise, mutants.Plain{Body: mutants.Contraction(mutants.Products(o.Sum))})
	}
	l.Add("compensated", "Kahan's sum", mutants.Pairwise, mutants.Plain{Body: mutants.Contraction(mutants.Products(mutants.Compensated))})
	l.Of(gemm.ForwardDefinition, num.F32)
	l.Add("fused", "fused multiply-adds, ascending", mutants.Sequential, mutants.Plain{Body: mutants.Contraction(mutants.Fused)})
	l.Add("not-fused", "products rounded, ascending", mutants.Sequential, mutants.Plain{Body: mutants.Contraction(mutants.Products(mutants.Ascending))})
	l.Of(gemm.GradADefinition, num.BF16)
	l.Add("lanes-16", "16 lanes and a tree", mutants.Lanes16, mutants.Plain{Body: mutants.Contraction(mutants.Products(mutants.InLanes(16)))})
	l.Of(gemm.BatchedForwardDefinition, num.BF16)
	l.Add("fused", "fused multiply-adds, matrix by matrix", mutants.PromisesBits, mutants.Plain{Body: mutants.Contraction(mutants.Fused)})
	l.Of(gemm.GroupedForwardDefinition, num.BF16)
	l.Add("fused", "fused multiply-adds, group by group", mutants.PromisesBits, mutants.Plain{Body: mutants.Contraction(mutants.Fused)})
	l.Of(gemm.GroupedGradBDefinition, num.F16)
	l.Add("lanes-16", "16 lanes and a tree", mutants.Lanes16, mutants.Plain{Body: mutants.Contraction(mutants.Products(mutants.InLanes(16)))})
	l.Of(gemm.FP8ForwardDefinition, num.E4M3)
	l.Add("lanes-16", "16 lanes and a tree", mutants.Lanes16, mutants.Plain{Body: mutants.Contraction(mutants.Products(mutants.InLanes(16))), Edit: mutants.Scale})
	l.Add("pairs", "pairwise", mutants.AnyOrder, mutants.Plain{Body: mutants.Contraction(mutants.Products(mutants.InPairs)), Edit: mutants.Scale})
	l.Of(gemm.FP8ForwardDefinition, num.E5M2)
	l.Add("scaled-factors", "the scales are multiplied into the factors", mutants.Stable, mutants.Plain{Body: func(c *mutants.Call) {
		mutants.ContractionAt(func(m, n int, a, b []float32, _ float32, _ bool) float32 {
			left, right := make([]float32, len(a)), make([]float32, len(b))
			for k := range a {
				left[k], right[k] = a[k]*c.In("scale_a").V[m], b[k]*c.In("scale_b").V[n]
			}
			return mutants.Fused(left, right, 0, false)
		})(c)
	}})
	l.Of(gemm.GradBAccumulateDefinition, num.F16)
	l.Add("old-last", "the old result is added at the end", mutants.AnyOrder, mutants.Plain{Body: mutants.Contraction(func(a, b []float32, old float32, _ bool) float32 {
		return mutants.Products(mutants.InPairs)(a, b, 0, false) + old
	})})
	rightExact(l)
	stableRight(l)
	return l.All
}

func isIdentity(a mutants.Matrix) bool {
	for r := range a.Rows {
		for i, v := range a.Row(r) {
			if (v != 1 || i != r) && (v != 0 || i == r) {
				return false
			}
		}
	}
	return true
}

// withoutZeroBlocks leaves out aligned blocks of eight zeros of a row that is not zero.
func withoutZeroBlocks(a, b []float32, old float32, accumulate bool) float32 {
	isZero := func(x []float32) bool { return !slices.ContainsFunc(x, func(v float32) bool { return v != 0 }) }
	if isZero(a) {
		return mutants.Fused(a, b, old, accumulate)
	}
	var left, right []float32
	for at := 0; at < len(a); at += 8 {
		if end := min(at+8, len(a)); end < at+8 || !isZero(a[at:end]) {
			left, right = append(left, a[at:end]...), append(right, b[at:end]...)
		}
	}
	return mutants.Fused(left, right, old, accumulate)
}

// scaledBody returns a kernel that computes sums and scales them.
func scaledBody(f mutants.Dot, scale func(c *mutants.Call, sum float32, m, n int) float32) mutants.Plain {
	return mutants.Plain{Body: func(c *mutants.Call) {
		mutants.ContractionAt(func(m, n int, a, b []float32, _ float32, _ bool) float32 {
			return scale(c, f(a, b, 0, false), m, n)
		})(c)
	}}
}

func wrongFP8(l *mutants.List) {
	scale := func(f func(sum, row, col float32) float32) mutants.Plain {
		return scaledBody(mutants.Fused, func(c *mutants.Call, sum float32, m, n int) float32 {
			return f(sum, c.In("scale_a").V[m], c.In("scale_b").V[n])
		})
	}
	loads := func(pattern uint32, value float32) func(a num.Array, r, c int) float32 {
		return func(a num.Array, r, c int) float32 {
			if a.DType.IsFP8() && a.Bits(r, c)&0x7f == pattern {
				return value
			}
			return a.At(r, c)
		}
	}
	l.Of(gemm.FP8ForwardDefinition, num.E4M3)
	l.From(mutants.KernelPractice)
	l.Add("scales-first", "the bits are promised, but the scales are multiplied with each other first", mutants.PromisesBits, scale(func(sum, row, col float32) float32 {
		return sum * float32(row*col)
	}))
	l.Add("column-first", "the bits are promised, but the scale of the column is multiplied first", mutants.PromisesBits, scale(func(sum, row, col float32) float32 {
		return float32(sum*col) * row
	}))
	l.Add("row-scale-missing", "the scales of the rows are not used", mutants.AnyOrder, scale(func(sum, _, col float32) float32 { return sum * col }))
	l.Add("column-scale-missing", "the scales of the columns are not used", mutants.AnyOrder, scale(func(sum, row, _ float32) float32 { return sum * row }))
	l.Add("scale-of-the-tile", "all rows of a tile of 16 have the scale of the first", mutants.AnyOrder, scaledBody(mutants.Fused, func(c *mutants.Call, sum float32, m, n int) float32 {
		return float32(sum*c.In("scale_a").V[m/16*16]) * c.In("scale_b").V[n]
	}))
	l.Add("scales-exchanged", "rows have the scales of columns where there are as many", mutants.AnyOrder, scaledBody(mutants.Fused, func(c *mutants.Call, sum float32, m, n int) float32 {
		if c.Operands[3].Rows == c.Operands[4].Rows {
			m, n = n, m
		}
		return float32(sum*c.In("scale_a").V[m]) * c.In("scale_b").V[n]
	}))
	l.Add("sum-in-f16", "the sum is rounded to f16 before it is scaled", mutants.AnyOrder, scale(func(sum, row, col float32) float32 {
		return float32(num.Round(num.F16, sum)*row) * col
	}))
	l.Add("nan-is-480", "NaN is read as the number that its pattern would be", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Load: loads(0x7f, 480)})
	l.From("DeepSeek-V3")
	l.Add("14-bit-accumulator", "sums have the 14 bits of a tensor core", mutants.AnyOrder, mutants.Plain{Edit: mutants.Scale, Body: mutants.Contraction(func(a, b []float32, _ float32, _ bool) float32 {
		x, y := make([]uint32, len(a)), make([]uint32, len(b))
		for k := range a {
			x[k], y[k] = num.Narrow(num.E4M3, a[k]), num.Narrow(num.E4M3, b[k])
		}
		return num.MMA{L: 32, F: 13, R: 13}.Dot(num.E4M3, x, y, 0)
	})})
	l.Of(gemm.FP8ForwardDefinition, num.E5M2)
	l.From(mutants.KernelPractice)
	l.Add("infinity-is-largest", "infinities are read as the largest number", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Load: func(a num.Array, r, c int) float32 {
		v := a.At(r, c)
		if a.DType.IsFP8() && math.IsInf(float64(v), 0) {
			return float32(math.Copysign(num.MaxFinite(a.DType), float64(v)))
		}
		return v
	}})
	l.Add("bits-of-e4m3", "patterns are read as e4m3", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Load: func(a num.Array, r, c int) float32 {
		if a.DType.IsFP8() {
			return num.Widen(num.E4M3, a.Bits(r, c))
		}
		return a.At(r, c)
	}})
	l.Add("leading-dimension", "the rows of the operands are read as if they had no gaps", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Load: mutants.LoadPacked})
}
