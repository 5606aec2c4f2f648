package norm_test

import (
	"math"

	"tokitai/num"
	"tokitai/op/norm"
	"tokitai/verify/mutants"
)

// Kernels that promise to be stable: norms in the forms in which people write them, and sums
// that lose terms or digits.

// scaledSquares divides by the largest element before it squares, and multiplies at the end.
func scaledSquares(c *mutants.Call) {
	x := c.In("x").V
	largest := float32(0)
	for _, v := range x {
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	if largest == 0 || largest != largest || math.IsInf(float64(largest), 0) {
		c.In("total").V[0] = largest
		return
	}
	_, e := math.Frexp(float64(largest))
	scale := math.Ldexp(1, -e) // a power of two: nothing is rounded
	terms := make([]float32, len(x))
	for i, v := range x {
		scaled := float32(float64(v) * scale)
		terms[i] = scaled * scaled
	}
	c.In("total").V[0] = float32(float64(num.LaneSum(terms, 64)) / scale / scale)
}

// inBlocks adds up blocks, and then their sums one after another.
func inBlocks(width int) func([]float32) float32 {
	return func(x []float32) float32 {
		s := float32(0)
		for at := 0; at < len(x); at += width {
			s += num.LaneSum(x[at:min(at+width, len(x))], 64)
		}
		return s
	}
}

// fused adds squares without rounding them.
func fused(c *mutants.Call) {
	var lanes [8]float32
	for i, v := range c.In("x").V {
		lanes[i%8] = num.FMA(v, v, lanes[i%8])
	}
	c.In("total").V[0] = num.LaneSum(lanes[:], 8)
}

func stableRight(l *mutants.List) {
	d := norm.SquareSumDefinition
	for _, k := range []struct {
		name, text string
		body       func(c *mutants.Call)
	}{
		{"scaled", "squares are scaled by a power of two and the sum is scaled back", scaledSquares},
		{"blocks", "blocks of 1,024, then their sums one after another", squareSum(inBlocks(1024))},
		{"pairwise", "halves of halves", squareSum(mutants.InPairs)},
		{"compensated", "Kahan's sum", squareSum(mutants.Compensated)},
		{"binary64", "the sum in binary64", squareSum(mutants.InDouble)},
		{"fused", "fused multiply-adds in eight lanes", fused},
	} {
		l.AddAll(d, k.name, k.text, mutants.Stable, mutants.Plain{Body: k.body})
	}
	t := norm.TotalDefinition
	l.AddAll(t, "pairwise", "halves of halves", mutants.Stable, mutants.Plain{Body: rowTotal(mutants.InPairs)})
	l.AddAll(t, "compensated", "Kahan's sum", mutants.Stable, mutants.Plain{Body: rowTotal(mutants.Compensated)})
	c := norm.ClipDefinition
	l.AddAll(c, "reciprocal", "max_norm times the reciprocal of the norm", mutants.Stable, mutants.Plain{Body: clip(func(n, limit float32) float32 {
		if n <= limit {
			return 1
		}
		return limit * (1 / n)
	})})
	l.AddAll(c, "fast-division", "the quotient within 2 ulps, declared", mutants.Declaring("div=2ulp"), mutants.Plain{Body: clip(func(n, limit float32) float32 {
		if n <= limit {
			return 1
		}
		return min(1, mutants.FastDivide(2)(limit, n))
	})})
}

func stableWrong(l *mutants.List) {
	d := norm.SquareSumDefinition
	l.From(mutants.KernelPractice)
	l.Of(d, num.F32)
	add := func(name, fault string, sum func([]float32) float32) {
		l.Add(name, fault, mutants.Stable, mutants.Plain{Body: squareSum(sum)})
	}
	add("one-in-4096-lost", "the last of every 4,096 squares is not in the sum", mutants.WithoutEvery(4096, inBlocks(1024)))
	add("one-in-4096-twice", "the last of every 4,096 squares is counted twice", func(x []float32) float32 {
		s := inBlocks(1024)(x)
		for i := 4095; i < len(x); i += 4096 {
			s += x[i]
		}
		return s
	})
	add("blocks-in-bf16", "sums of blocks of 256 meet as bf16", func(x []float32) float32 {
		s := float32(0)
		for at := 0; at < len(x); at += 256 {
			s += num.Round(num.BF16, num.LaneSum(x[at:min(at+256, len(x))], 64))
		}
		return s
	})
	add("truncating", "every addition cuts off instead of rounding", func(x []float32) float32 {
		s := float32(0)
		for _, v := range x {
			s = mutants.TowardZero(float64(s) + float64(v))
		}
		return s
	})
	add("tail-beyond-blocks", "beyond 1,024 elements only whole blocks of 64 count", func(x []float32) float32 {
		if len(x) > 1024 {
			x = x[:len(x)/64*64]
		}
		return inBlocks(1024)(x)
	})
	l.Add("root-squared", "the square of the rounded norm", mutants.Stable, mutants.Plain{Body: squareSum(inBlocks(1024)), Edit: func(c *mutants.Call) {
		n := num.Round(num.BF16, num.Sqrt(c.In("total").V[0]))
		c.In("total").V[0] = n * n
	}})
	l.Of(d, num.F16)
	l.Add("f16-squares", "squares are rounded to f16 before they are added", mutants.Stable, mutants.Plain{Body: func(c *mutants.Call) {
		x := c.In("x").V
		terms := make([]float32, len(x))
		for i, v := range x {
			terms[i] = num.Round(num.F16, v*v)
		}
		c.In("total").V[0] = num.LaneSum(terms, 64)
	}})
	l.Of(norm.ClipDefinition, num.F32)
	l.Add("rsqrt-of-16-bits", "the factor is max_norm·rsqrt(total) with 16 bits", mutants.Stable, mutants.Plain{Body: func(c *mutants.Call) {
		clip(clipFactor)(c)
		for i, v := range c.In("total").V {
			if f := c.In("factor").V[i]; f > 0 && f < 1 {
				c.In("factor").V[i] = min(1, c.Param("max_norm")*mutants.KeepBits(16)(1/math.Sqrt(float64(v))))
			}
		}
	}})
	l.Add("infinite-norm-kept", "an infinite norm gives factor 1", mutants.Stable, mutants.Plain{Body: clip(func(n, limit float32) float32 {
		if math.IsInf(float64(n), 1) {
			return 1
		}
		return clipFactor(n, limit)
	})})
	l.Add("soft", "the factor is max_norm/(norm + max_norm)", mutants.Stable, mutants.Plain{Body: clip(func(n, limit float32) float32 { return limit / (n + limit) })})
	l.Need(mutants.Quick, "one-in-4096-lost", "one-in-4096-twice", "truncating")
}

// cheats adds kernels that are right only where somebody looks.
func cheats(l *mutants.List) {
	l.From(mutants.KernelPractice)
	l.Of(norm.SquareSumDefinition, num.F32)
	l.AddCheats(mutants.Answer, "cache-by-address", "cache-by-both-ends", "input-as-scratch", "offsets-in-f32", "listed-shapes", "5000-calls")
}
