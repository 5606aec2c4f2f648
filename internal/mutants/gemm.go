package mutants

import (
	"math"
	"slices"

	"tokitai/num"
	"tokitai/op/gemm"
)

func gemmMutants() []Mutant {
	l := &list{}
	dots := func(f dot) plain { return plain{body: contraction(f)} }
	honest := contraction(products(inLanes(16)))

	l.of(gemm.ForwardDefinition, num.F16)
	l.from("prototype 13")
	l.add("whole-tiles", "columns after the last multiple of 16 are not written", bits, plain{body: contraction(fused), puts: writesWholeTiles})
	l.add("whole-row-tiles", "rows after the last multiple of 16 are not written", anyOrder, plain{body: honest, puts: wholeRowTiles})
	l.from(zerosPass)
	l.add("zeros", "every result is zero", anyOrder, dots(func([]float32, []float32, float32, bool) float32 { return 0 }))
	l.from(simulated)
	l.add("f16-accumulator", "the sum is kept in f16", lanes16, dots(products(rounding(to(num.F16)))))
	l.add("22-bit-accumulator", "the accumulator has 22 bits", lanes16, dots(products(roundingLanes(keepBits(22)))))
	l.add("truncating-sequential", "every addition cuts off instead of rounding", sequential, dots(products(func(x []float32) float32 {
		s := float32(0)
		for _, v := range x {
			s = towardZero(float64(s) + float64(v))
		}
		return s
	})))
	l.add("truncating-lanes", "every addition cuts off instead of rounding, in 16 lanes", lanes16, dots(products(roundingLanes(towardZero))))
	l.add("store-truncates", "results are cut off, not rounded", lanes16, plain{body: honest, store: storeTowardZero})
	l.add("store-via-bf16", "results are rounded to bf16, then stored", lanes16, plain{body: honest, store: storeVia(to(num.BF16))})
	l.add("store-via-13-bits", "results are rounded to 13 bits, then stored", lanes16, plain{body: honest, store: storeVia(to13Bits)})
	l.add("split-f16-partials", "the two halves of K meet as f16", lanes16, dots(func(a, b []float32, _ float32, _ bool) float32 {
		h := len(a) / 2
		half := func(a, b []float32) float32 { return num.Round(num.F16, products(inLanes(16))(a, b, 0, false)) }
		return half(a[:h], b[:h]) + half(a[h:], b[h:])
	}))
	l.add("split-drops-last", "the last product is missing everywhere", lanes16, dots(func(a, b []float32, _ float32, _ bool) float32 {
		n := max(1, len(a)-1)
		return products(inLanes(16))(a[:n], b[:n], 0, false)
	}))
	l.add("one-product-missing", "one product is missing in one result", lanes16, plain{body: func(c *call) {
		m, n := c.x[2].rows/2, c.x[2].cols/3
		contractionAt(func(r, col int, a, b []float32, _ float32, _ bool) float32 {
			if r == m && col == n {
				a = slices.Clone(a)
				a[len(a)/2] = 0
			}
			return products(inLanes(16))(a, b, 0, false)
		})(c)
	}})
	l.from(practice)
	l.add("first-product-dropped", "the first product is missing everywhere", anyOrder, dots(func(a, b []float32, _ float32, _ bool) float32 {
		return fused(a[min(1, len(a)-1):], b[min(1, len(a)-1):], 0, false)
	}))
	l.add("zeros-skipped", "products with a zero are skipped: 0 times infinity is lost", bits, dots(func(a, b []float32, acc float32, _ bool) float32 {
		for k := range a {
			if a[k] != 0 && b[k] != 0 {
				acc = num.FMA(a[k], b[k], acc)
			}
		}
		return acc
	}))
	l.add("square-not-transposed", "a square B is read transposed", anyOrder, plain{body: func(c *call) {
		if b := c.x[1]; b.rows == b.cols {
			c.x[1] = transposed(b)
		}
		honest(c)
	}})
	l.add("result-transposed", "a square result is written transposed", bits, plain{body: answer, edit: func(c *call) {
		if r := c.x[2]; r.rows == r.cols {
			c.x[2] = transposed(r)
		}
	}})
	l.add("leading-dimension", "the rows of the operands are read as if they had no gaps", bits, plain{body: answer, load: loadPacked})
	l.add("saturates", "a result too large is the largest number", bits, plain{body: answer, store: storeSaturated})
	l.add("256-products", "no more than 256 products are added", anyOrder, dots(func(a, b []float32, _ float32, _ bool) float32 {
		n := min(256, len(a))
		return products(ascending)(a[:n], b[:n], 0, false)
	}))
	l.add("nan-where-hard", "results that are large or tiny are NaN", anyOrder, plain{body: honest, edit: func(c *call) { c.computed(nanWhere) }})
	l.from(twiceWrong)
	l.add("one-doubled", "one element is twice what it should be", lanes16, plain{body: honest, edit: func(c *call) { c.computed(doubled) }})
	l.from("Wafer.ai")
	l.add("workers-decide", "K is split among the workers", anyOrder, byWorkers(func(sum func([]float32) float32) func(*call) { return contraction(products(sum)) }))
	l.from("pygpubench#7")
	l.add("nothing-written", "nothing is written", bits, plain{body: answer, puts: writesNothing})
	l.of(gemm.ForwardDefinition, num.BF16)
	l.from(simulated)
	l.add("bf16-accumulator", "the sum is kept in bf16", lanes16, dots(products(rounding(to(num.BF16)))))
	l.of(gemm.ForwardDefinition, num.F32)
	l.from(practice)
	l.add("tf32", "operands are cut to ten bits of fraction", anyOrder, plain{body: honest, load: loadTF32})
	l.add("own-order", "the bits are promised, but 16 lanes are added", bits, plain{body: honest})
	l.add("alpha", "the result is multiplied by 1 + 2^-10", anyOrder, plain{body: honest, edit: func(c *call) {
		for i := range c.x[2].v {
			c.x[2].v[i] *= 1 + 0x1p-10
		}
	}})
	l.add("order-alternates", "every other call adds up backwards", anyOrder, alternating(contraction(products(ascending)), contraction(products(descending))))

	old := func(f func(sum, old float32) float32) plain {
		return dots(func(a, b []float32, was float32, _ bool) float32 { return f(products(ascending)(a, b, 0, false), was) })
	}
	l.of(gemm.ForwardAccumulateDefinition, num.F16)
	l.add("old-ignored", "the old result is overwritten", anyOrder, old(func(s, _ float32) float32 { return s }))
	l.add("added-twice", "the product is added twice", anyOrder, old(func(s, was float32) float32 { return was + 2*s }))
	l.add("old-twice", "the old result is added twice", anyOrder, old(func(s, was float32) float32 { return 2*was + s }))
	l.from(simulated)
	l.add("product-rounded", "the product is rounded to f16 before the old result is added", lanes16, dots(func(a, b []float32, was float32, _ bool) float32 {
		return was + num.Round(num.F16, products(inLanes(16))(a, b, 0, false))
	}))
	l.of(gemm.ForwardAccumulateDefinition, num.F32)
	l.from(practice)
	l.add("old-last", "the bits are promised, but the old result is added at the end", bits, dots(func(a, b []float32, was float32, _ bool) float32 {
		return fused(a, b, 0, false) + was
	}))

	l.of(gemm.GradADefinition, num.F16)
	l.add("not-transposed", "a square B is not transposed", anyOrder, plain{body: func(c *call) {
		if b := c.x[1]; b.rows == b.cols {
			c.x[1] = transposed(b)
		}
		honest(c)
	}})
	l.add("sign", "the gradient has the wrong sign", bits, edited(negated))
	l.from(zerosPass)
	l.add("zeros", "every gradient is zero", anyOrder, edited(zeros))
	l.from(simulated)
	l.add("f16-accumulator", "the sum is kept in f16", lanes16, dots(products(rounding(to(num.F16)))))
	l.add("store-truncates", "results are cut off, not rounded", lanes16, plain{body: honest, store: storeTowardZero})
	l.from(practice)
	l.add("clears-infinity", "an infinite result is NaN", anyOrder, plain{body: honest, edit: func(c *call) {
		for i, v := range c.x[2].v {
			if math.IsInf(float64(v), 0) {
				c.x[2].v[i] = float32(math.NaN())
			}
		}
	}})
	l.of(gemm.GradAAccumulateDefinition, num.F16)
	l.add("old-ignored", "the old gradient is overwritten", anyOrder, old(func(s, _ float32) float32 { return s }))
	l.add("added-twice", "the product is added twice", anyOrder, old(func(s, was float32) float32 { return was + 2*s }))
	l.add("whole-row-tiles", "rows after the last multiple of 16 are not written", bits, plain{body: answer, puts: wholeRowTiles})
	l.from(tenCalls)
	l.add("ten-calls", "right for ten calls, then one element is doubled", bits, after(10, plain{body: answer}, doubled))

	l.of(gemm.GradBDefinition, num.BF16)
	l.from(twiceWrong)
	l.add("one-doubled", "one element is twice what it should be", anyOrder, edited(doubled))
	l.from(practice)
	l.add("rows-halved", "the first half of the rows of A and dC counts", anyOrder, dots(func(a, b []float32, _ float32, _ bool) float32 {
		n := (len(a) + 1) / 2
		return products(ascending)(a[:n], b[:n], 0, false)
	}))
	l.add("mean", "the gradient is divided by M", anyOrder, dots(func(a, b []float32, _ float32, _ bool) float32 {
		return products(ascending)(a, b, 0, false) / float32(len(a))
	}))
	l.from(simulated)
	l.add("bf16-accumulator", "the sum is kept in bf16", anyOrder, dots(products(rounding(to(num.BF16)))))
	l.from(practice)
	l.add("input-changed", "the left operand's last element is overwritten", anyOrder, plain{body: honest, after: changesInput})
	l.of(gemm.GradBAccumulateDefinition, num.BF16)
	l.add("old-ignored", "the old gradient is overwritten", anyOrder, old(func(s, _ float32) float32 { return s }))
	l.from("unsloth, gradient accumulation")
	l.add("averaged", "old and new gradient are averaged", anyOrder, old(func(s, was float32) float32 { return (s + was) / 2 }))
	l.from(practice)
	l.add("old-rounded-away", "the old gradient is kept in 4 bits", anyOrder, old(func(s, was float32) float32 { return s + keepBits(4)(float64(was)) }))
	l.add("stale", "the outputs of the call before are returned", bits, stale(plain{body: answer}))
	return l.all
}
