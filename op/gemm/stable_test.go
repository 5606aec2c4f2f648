package gemm_test

import (
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/verify/mutants"
)

// Kernels that promise to be stable: products summed as libraries do, and accumulators and
// algorithms that are not componentwise stable.

// blocked carries the sum from block to block of K.
func blocked(width int) mutants.Dot {
	return func(a, b []float32, old float32, accumulate bool) float32 {
		s := float32(0)
		for at := 0; at < len(a); at += width {
			end := min(at+width, len(a))
			s += mutants.Fused(a[at:end], b[at:end], 0, false)
		}
		if accumulate {
			s += old
		}
		return s
	}
}

// splitK adds the parts of K of several processors in a tree.
func splitK(parts int) mutants.Dot {
	return func(a, b []float32, old float32, accumulate bool) float32 {
		sums := make([]float32, parts)
		for i := range sums {
			from, to := len(a)*i/parts, len(a)*(i+1)/parts
			sums[i] = mutants.Fused(a[from:to], b[from:to], 0, false)
		}
		s := mutants.InPairs(sums)
		if accumulate {
			s += old
		}
		return s
	}
}

// inBinary64 is a sum of exact products in binary64.
func inBinary64(a, b []float32, old float32, accumulate bool) float32 {
	s := 0.0
	if accumulate {
		s = float64(old)
	}
	for k := range a {
		s += float64(float64(a[k]) * float64(b[k]))
	}
	return float32(s)
}

func stableRight(l *mutants.List) {
	dots := []struct {
		name, text string
		f          mutants.Dot
	}{
		{"blocked", "sums of blocks of 64, one after another", blocked(64)},
		{"split-k", "four parts of K in a tree", splitK(4)},
		{"kahan", "Kahan's sum of rounded products", mutants.Products(mutants.Compensated)},
		{"exact-products", "exact products added in binary64, rounded once", inBinary64},
		{"pairs", "halves of halves", mutants.Products(mutants.InPairs)},
		{"fused-chain", "one chain of fused multiply-adds", mutants.Fused},
		{"rounded-chain", "rounded products, one after another", mutants.Products(mutants.Ascending)},
	}
	for _, k := range dots {
		l.AddAll(gemm.ForwardDefinition, k.name, k.text, mutants.Stable, mutants.Plain{Body: mutants.Contraction(k.f)})
	}
	for i, d := range []*def.Definition{gemm.ForwardAccumulateDefinition, gemm.GradADefinition, gemm.GradAAccumulateDefinition, gemm.GradBDefinition, gemm.BatchedForwardDefinition, gemm.BatchedGradBAccumulateDefinition} {
		l.Of(d, num.FloatDTypes[i%3])
		k := dots[i%4]
		l.Add(k.name, k.text, mutants.Stable, mutants.Plain{Body: mutants.Contraction(k.f)})
	}
}

// strassen computes a product of two matrices with seven products of halves, where their
// sizes are even.
func strassen(c *mutants.Call) {
	a, b, result := c.Operands[0], c.Operands[1], c.Operands[2]
	m, k, n := a.Rows/2, a.Cols/2, b.Cols/2
	if a.Rows%2+a.Cols%2+b.Cols%2 > 0 {
		mutants.Contraction(mutants.Fused)(c)
		return
	}
	quarter := func(x mutants.Matrix, i, j, rows, cols int) mutants.Matrix {
		q := mutants.NewMatrix(rows, cols)
		for r := range rows {
			copy(q.Row(r), x.Row(i*rows + r)[j*cols:(j+1)*cols])
		}
		return q
	}
	sum := func(x, y mutants.Matrix, sign float32) mutants.Matrix {
		z := mutants.NewMatrix(x.Rows, x.Cols)
		for i := range z.V {
			z.V[i] = x.V[i] + sign*y.V[i]
		}
		return z
	}
	product := func(x, y mutants.Matrix) mutants.Matrix {
		z, t := mutants.NewMatrix(x.Rows, y.Cols), mutants.Transposed(y)
		for r := range z.Rows {
			for i := range z.Cols {
				z.Row(r)[i] = mutants.Fused(x.Row(r), t.Row(i), 0, false)
			}
		}
		return z
	}
	a11, a12, a21, a22 := quarter(a, 0, 0, m, k), quarter(a, 0, 1, m, k), quarter(a, 1, 0, m, k), quarter(a, 1, 1, m, k)
	b11, b12, b21, b22 := quarter(b, 0, 0, k, n), quarter(b, 0, 1, k, n), quarter(b, 1, 0, k, n), quarter(b, 1, 1, k, n)
	m1 := product(sum(a11, a22, 1), sum(b11, b22, 1))
	m2 := product(sum(a21, a22, 1), b11)
	m3 := product(a11, sum(b12, b22, -1))
	m4 := product(a22, sum(b21, b11, -1))
	m5 := product(sum(a11, a12, 1), b22)
	m6 := product(sum(a21, a11, -1), sum(b11, b12, 1))
	m7 := product(sum(a12, a22, -1), sum(b21, b22, 1))
	put := func(x mutants.Matrix, i, j int) {
		for r := range m {
			copy(result.Row(i*m + r)[j*n:(j+1)*n], x.Row(r))
		}
	}
	put(sum(sum(m1, m4, 1), sum(m7, m5, -1), 1), 0, 0)
	put(sum(m3, m5, 1), 0, 1)
	put(sum(m2, m4, 1), 1, 0)
	put(sum(sum(m1, m2, -1), sum(m3, m6, 1), 1), 1, 1)
}

// from makes a Dot wrong only where K is at least n.
func from(n int, wrong, right mutants.Dot) mutants.Dot {
	return func(a, b []float32, old float32, accumulate bool) float32 {
		if len(a) < n {
			return right(a, b, old, accumulate)
		}
		return wrong(a, b, old, accumulate)
	}
}

// upTo makes a Dot wrong only where K is at most n.
func upTo(n int, wrong, right mutants.Dot) mutants.Dot { return from(n+1, right, wrong) }

// parts splits x into numbers of the format, the largest part first.
func parts(d num.DType, n int, x float32) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = num.Round(d, x)
		if x -= list[i]; x != x {
			x = 0
		}
	}
	return list
}

// emulated multiplies f32 as sums of numbers with fewer bits, without the products of small
// parts.
func emulated(split func(float32) []float32, most int) mutants.Dot {
	return func(a, b []float32, _ float32, _ bool) float32 {
		s := float32(0)
		for k := range a {
			for i, x := range split(a[k]) {
				for j, y := range split(b[k]) {
					if i+j <= most {
						s = num.FMA(x, y, s)
					}
				}
			}
		}
		return s
	}
}

func stableWrong(l *mutants.List) {
	d := gemm.ForwardDefinition
	dots := func(f mutants.Dot) mutants.Plain { return mutants.Plain{Body: mutants.Contraction(f)} }
	honest := blocked(64)
	l.From(mutants.KernelPractice)
	l.Of(d, num.F16)
	f16Sum := mutants.Products(mutants.Rounding(mutants.To(num.F16)))
	for _, n := range []int{16, 32, 64} {
		l.Add(map[int]string{16: "f16-up-to-16", 32: "f16-up-to-32", 64: "f16-up-to-64"}[n],
			map[int]string{16: "the sum is kept in f16 for K up to 16", 32: "the sum is kept in f16 for K up to 32", 64: "the sum is kept in f16 for K up to 64"}[n],
			mutants.Stable, dots(upTo(n, f16Sum, honest)))
	}
	l.Add("f16-chunks-of-16", "every 16 products are added as f16, and these sums in f32", mutants.Stable, dots(func(a, b []float32, _ float32, _ bool) float32 {
		s := float32(0)
		for at := 0; at < len(a); at += 16 {
			end := min(at+16, len(a))
			s += f16Sum(a[at:end], b[at:end], 0, false)
		}
		return s
	}))
	l.Add("f16-pairs", "every two products are added as f16, and these sums in f32", mutants.Stable, dots(func(a, b []float32, _ float32, _ bool) float32 {
		s := float32(0)
		for at := 0; at < len(a); at += 2 {
			end := min(at+2, len(a))
			s += num.Round(num.F16, mutants.Fused(a[at:end], b[at:end], 0, false))
		}
		return s
	}))
	l.Add("store-via-12-bits", "results are rounded to 12 bits, then stored", mutants.Stable, mutants.Plain{Body: mutants.Contraction(honest), Store: mutants.StoreVia(func(v float32) float32 { return mutants.KeepBits(12)(float64(v)) })})
	l.Add("one-in-4096-lost", "the last of every 4,096 products is lost", mutants.Stable, dots(mutants.Products(mutants.WithoutEvery(4096, mutants.InLanes(32)))))
	l.Add("split-remainder", "K beyond 1,024 is split in four, and the remainder of the division is lost", mutants.Stable, dots(func(a, b []float32, _ float32, _ bool) float32 {
		if len(a) > 1024 {
			a, b = a[:len(a)/4*4], b[:len(a)/4*4]
		}
		return splitK(4)(a, b, 0, false)
	}))
	l.Add("bias-added", "2^-13 of the result is added to it", mutants.Stable, mutants.Plain{Body: mutants.Contraction(honest), Edit: func(c *mutants.Call) {
		for i, v := range c.Operands[2].V {
			c.Operands[2].V[i] = v + v*0x1p-13
		}
	}})
	l.Of(d, num.BF16)
	l.Add("bf16-blocks", "sums of blocks of 64 meet as bf16", mutants.Stable, dots(func(a, b []float32, _ float32, _ bool) float32 {
		s := float32(0)
		for at := 0; at < len(a); at += 64 {
			end := min(at+64, len(a))
			s = num.Round(num.BF16, s+mutants.Fused(a[at:end], b[at:end], 0, false))
		}
		return s
	}))
	l.Of(d, num.F32)
	l.Add("strassen", "Strassen's seven products: small results have the errors of large ones", mutants.Stable, mutants.Plain{Body: strassen})
	l.Level = mutants.Quick // no case of level smoke has square matrices of that size
	l.Add("strassen-from-64", "Strassen's seven products where every size is even and at least 64", mutants.Stable, mutants.Plain{Body: func(c *mutants.Call) {
		if a, b := c.Operands[0], c.Operands[1]; min(a.Rows, a.Cols, b.Cols) >= 64 {
			strassen(c)
			return
		}
		mutants.Contraction(mutants.Fused)(c)
	}})
	l.Level = mutants.Smoke
	l.Add("tf32-three-products", "factors of two parts of 11 bits, three products", mutants.Stable, dots(emulated(func(x float32) []float32 {
		high := mutants.KeepBits(11)(float64(x))
		if x-x != 0 {
			return []float32{x}
		}
		return []float32{high, mutants.KeepBits(11)(float64(x - high))}
	}, 1)))
	l.Add("bf16-three-products", "factors of two parts of 8 bits, three products", mutants.Stable, dots(emulated(func(x float32) []float32 {
		if x-x != 0 {
			return []float32{x}
		}
		return parts(num.BF16, 2, x)
	}, 1)))
	l.Add("undeclared-flush", "subnormal results are zeros, not declared", mutants.Stable, mutants.Plain{Body: mutants.Contraction(honest), Store: mutants.StoreFlushed})
	l.Add("fixed-point", "the rows of A are 16-bit integers with one scale", mutants.Stable, mutants.Plain{Body: func(c *mutants.Call) {
		a := c.Operands[0]
		for r := range a.Rows {
			largest := 0.0
			for _, v := range a.Row(r) {
				largest = max(largest, math.Abs(float64(v)))
			}
			if scale := largest / 32767; scale > 0 && !math.IsInf(scale, 0) {
				for i, v := range a.Row(r) {
					a.Row(r)[i] = float32(math.Round(float64(v)/scale) * scale)
				}
			}
		}
		mutants.Contraction(honest)(c)
	}})
	l.Of(gemm.GradBDefinition, num.F32)
	l.Add("one-in-4096-lost", "the last of every 4,096 products is lost", mutants.Stable, dots(mutants.Products(mutants.WithoutEvery(4096, mutants.InLanes(32)))))
	l.Of(gemm.ForwardAccumulateDefinition, num.BF16)
	l.Add("old-in-f16", "the old result passes through f16", mutants.Stable, dots(func(a, b []float32, old float32, _ bool) float32 {
		return honest(a, b, num.Round(num.F16, old), true)
	}))
	l.Need(mutants.Quick, "one-in-4096-lost", "split-remainder")
}

// cheats adds kernels that are right only where somebody looks.
func cheats(l *mutants.List) {
	l.From(mutants.KernelPractice)
	l.Of(gemm.ForwardDefinition, num.F16)
	l.AddCheats(mutants.Answer, "cache-by-address", "cache-by-both-ends", "looks-alike", "input-as-scratch", "garbage-times-zero", "already-there", "knows-the-guards", "listed-shapes", "50-calls", "5000-calls", "cancelled-half-way", "inputs-apart", "written-later", "many-workers", "cache-by-64-samples", "shared-scratch", "far-offsets-in-32-bits", "long-in-all-axes")
}
