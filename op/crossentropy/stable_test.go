package crossentropy_test

import (
	"math"

	"tokitai/num"
	"tokitai/op/crossentropy"
	"tokitai/verify/mutants"
)

// Kernels that promise to be stable: the loss and its gradient in the forms in which people
// write them, and forms that lose digits or overflow.

// lossRow computes the loss of a row and writes its gradient.
type lossRow func(x []float32, label int, scale float32, dx []float32) (loss float32)

// rowsOf is a kernel of rows; those that are ignored give zeros.
func rowsOf(row lossRow) mutants.Plain {
	return mutants.Plain{Body: func(c *mutants.Call) {
		x, ignore := c.In("logits"), int32(c.Params[0])
		for r := range x.Rows {
			if label := c.Index[r]; label != ignore && label >= 0 && int(label) < x.Cols {
				c.In("loss").V[r] = row(x.Row(r), int(label), c.Param("scale"), c.In("dlogits").Row(r))
			}
		}
	}}
}

// bySum takes the sum of exponentials in one of the ways of package mutants.
func bySum(p mutants.Parts, sum func(p mutants.Parts, x []float32) mutants.Exponentials, loss func(m, sum, x float32) float32, gradient func(scale, p, hot float32) float32) mutants.Plain {
	return rowsOf(func(x []float32, label int, scale float32, dx []float32) float32 {
		e := sum(p, x)
		for i, v := range x {
			hot := float32(0)
			if i == label {
				hot = 1
			}
			dx[i] = gradient(scale, p.Normalise(p.Exp(v-e.Max), e.Sum), hot)
		}
		return loss(e.Max, e.Sum, x[label])
	})
}

// The gradient as the definition has it, and with the scale multiplied in.
func factored(scale, p, hot float32) float32    { return scale * (p - hot) }
func distributed(scale, p, hot float32) float32 { return float32(scale*p) - float32(scale*hot) }

func stableRight(l *mutants.List) {
	d := crossentropy.Definition
	lanes := mutants.Ordered(mutants.InLanes(32))
	divided := mutants.Replaced(lanes, func(p *mutants.Parts) { p.Normalise = func(e, s float32) float32 { return p.Divide(e, s) } })
	plain := lossOf(lanes)
	l.AddAll(d, "online", "one pass with a running maximum", mutants.Stable, bySum(lanes, mutants.OneByOne, plain, factored))
	l.AddAll(d, "online-blocks", "one pass in blocks of 128, e/sum", mutants.Stable, bySum(divided, mutants.InBlocks(128), plain, factored))
	l.AddAll(d, "split", "four parts of the row, merged", mutants.Stable, bySum(lanes, mutants.InParts(4), plain, factored))
	l.AddAll(d, "maximum-minus-logit", "(max - x) + log sum", mutants.Stable, bySum(lanes, mutants.InParts(1), func(m, s, x float32) float32 { return (m - x) + mutants.Log32(s) }, factored))
	l.AddAll(d, "negative-log-probability", "-((x - max) - log sum)", mutants.Stable, bySum(lanes, mutants.InParts(1), func(m, s, x float32) float32 { return -((x - m) - mutants.Log32(s)) }, factored))
	l.AddAll(d, "gradient-distributed", "scale·p - scale at the label", mutants.Stable, bySum(divided, mutants.InParts(1), plain, distributed))
	l.AddAll(d, "log1p", "the logarithm of 1 + the sum without its largest term", mutants.Stable, rowsOf(func(x []float32, label int, scale float32, dx []float32) float32 {
		m, s := mutants.SoftmaxRow(lanes, x, dx)
		rest, isTaken := make([]float32, 0, len(x)), false
		for _, v := range x {
			if v == m && !isTaken {
				isTaken = true
				continue
			}
			rest = append(rest, mutants.Exp32(v-m))
		}
		for i := range dx {
			if i == label {
				dx[i]--
			}
			dx[i] *= scale
		}
		if !isTaken || s != s {
			return s - s + float32(math.NaN())
		}
		return float32(math.Log1p(float64(num.LaneSum(rest, 32)))) - (x[label] - m)
	}))
	l.AddAll(d, "exp2-log2", "powers of two and logarithms to base 2", mutants.Stable, bySum(
		mutants.Replaced(lanes, func(p *mutants.Parts) { p.Exp = mutants.Exp2 }), mutants.InParts(1), func(m, s, x float32) float32 {
			return float32(float32(math.Log2(float64(s)))*float32(math.Ln2)) - (x - m)
		}, factored))
	l.AddAll(d, "fast-functions", "exp and log of a device, declared", mutants.Declaring("exp=2ulp+1.16|x|,log=2ulp"), bySum(
		mutants.Replaced(lanes, func(p *mutants.Parts) { p.Exp, p.Log = mutants.FastExp, mutants.FastLog(2) }), mutants.InParts(1), func(m, s, x float32) float32 {
			return mutants.FastLog(2)(s) - (x - m)
		}, factored))
	l.Of(d, num.BF16)
	l.Add("p-in-bf16", "probabilities are rounded to bf16, declared", mutants.Declaring("round(p)=bf16"), bySum(
		mutants.Replaced(lanes, func(p *mutants.Parts) {
			p.Normalise = func(e, s float32) float32 { return num.Round(num.BF16, e/s) }
		}), mutants.InParts(1), plain, factored))
}

func stableWrong(l *mutants.List) {
	d := crossentropy.Definition
	lanes := mutants.Ordered(mutants.InLanes(32))
	plain := lossOf(lanes)
	losing := func(loss func(m, sum, x float32) float32) mutants.Plain {
		return bySum(lanes, mutants.InParts(1), loss, factored)
	}
	l.From(mutants.KernelPractice)
	l.AddAll(d, "no-maximum", "exponentials of the logits themselves overflow beyond 88", mutants.Stable, rowsOf(func(x []float32, label int, scale float32, dx []float32) float32 {
		for i, v := range x {
			dx[i] = mutants.Exp32(v)
		}
		s := num.LaneSum(dx, 32)
		for i := range dx {
			if dx[i] /= s; i == label {
				dx[i]--
			}
			dx[i] *= scale
		}
		return mutants.Log32(s) - x[label]
	}))
	// starting has a maximum that is never below the given number.
	starting := func(at float32) mutants.Plain {
		return bySum(lanes, func(p mutants.Parts, x []float32) mutants.Exponentials {
			e := mutants.NewExponentials(p)
			e.Max = at
			e.TakeBlock(x)
			return e
		}, plain, factored)
	}
	l.Of(d, num.F16)
	l.Add("maximum-from-minus-1e4", "the search for the maximum starts at -10000, not at -Inf", mutants.Stable, starting(-1e4))
	l.Of(d, num.BF16)
	l.Add("maximum-from-minus-1e30", "the search for the maximum starts at -1e30, not at -Inf", mutants.Stable, starting(-1e30))
	l.Of(d, num.F32)
	l.Add("maximum-from-minus-1e30", "the search for the maximum starts at -1e30, not at -Inf", mutants.Stable, starting(-1e30))
	l.Add("lse-first", "(max + log sum) - x: the digits of max are lost", mutants.Stable, losing(func(m, s, x float32) float32 { return (m + mutants.Log32(s)) - x }))
	l.Add("log-of-probability", "-log(p): a probability that underflows has an infinite loss", mutants.Stable, losing(func(m, s, x float32) float32 {
		return -mutants.Log32(mutants.Exp32(x-m) / s)
	}))
	l.Add("log-with-eps", "-log(p + 1e-12)", mutants.Stable, losing(func(m, s, x float32) float32 {
		return -mutants.Log32(mutants.Exp32(x-m)/s + 1e-12)
	}))
	l.Add("loss-held-at-100", "the loss is at most 100", mutants.Stable, losing(func(m, s, x float32) float32 { return min(plain(m, s, x), 100) }))
	l.Add("log2-not-converted", "the loss is in bits beyond 1", mutants.Stable, losing(func(m, s, x float32) float32 {
		if v := plain(m, s, x); v <= 1 {
			return v
		}
		return float32(math.Log2(float64(s))) - (x - m)
	}))
	l.Add("smoothed", "labels are smoothed by 2^-16", mutants.Stable, bySum(lanes, mutants.InParts(1), plain, func(scale, p, hot float32) float32 {
		return scale * (p - hot*(1-0x1p-16))
	}))
	l.Add("one-in-4096-lost", "the last of every 4,096 terms is not in the sum", mutants.Stable, bySum(
		mutants.Ordered(mutants.WithoutEvery(4096, mutants.InLanes(32))), mutants.InParts(1), plain, factored))
	l.Add("label-of-the-block", "beyond 1,024 columns the label is looked for in the first block of 1,024", mutants.Stable, rowsOf(func(x []float32, label int, scale float32, dx []float32) float32 {
		m, s := mutants.SoftmaxRow(lanes, x, dx)
		for i := range dx {
			if i == label && label < 1024 {
				dx[i]--
			}
			dx[i] *= scale
		}
		return plain(m, s, x[label])
	}))
	l.Of(d, num.F16)
	l.Add("sum-in-f16", "the sum is kept in f16, in a tree", mutants.Stable, bySum(mutants.Ordered(mutants.RoundingTree(mutants.To(num.F16))), mutants.InParts(1), plain, factored))
	l.Add("scale-in-f16", "the scale is rounded to f16", mutants.Stable, bySum(lanes, mutants.InParts(1), plain, func(scale, p, hot float32) float32 {
		return num.Round(num.F16, scale) * (p - hot)
	}))
	l.Add("rounded-before-scaled", "p - 1 is rounded to f16 before it is scaled", mutants.Stable, bySum(lanes, mutants.InParts(1), plain, func(scale, p, hot float32) float32 {
		return scale * num.Round(num.F16, p-hot)
	}))
	l.Of(d, num.BF16)
	l.Add("undeclared-p-in-bf16", "probabilities are rounded to bf16, not declared", mutants.Stable, bySum(
		mutants.Replaced(lanes, func(p *mutants.Parts) {
			p.Normalise = func(e, s float32) float32 { return num.Round(num.BF16, e/s) }
		}), mutants.InParts(1), plain, factored))
	l.Add("difference-in-bf16", "logits minus max are rounded to bf16", mutants.Stable, bySum(
		mutants.Replaced(lanes, func(p *mutants.Parts) {
			p.Exp = func(x float32) float32 { return mutants.Exp32(num.Round(num.BF16, x)) }
		}), mutants.InParts(1), plain, factored))
	l.Need(mutants.Quick, "one-in-4096-lost", "label-of-the-block")
}

// cheats adds kernels that are right only where somebody looks.
func cheats(l *mutants.List) {
	l.From(mutants.KernelPractice)
	l.Of(crossentropy.Definition, num.F32)
	l.AddCheats(mutants.Answer, "cache-by-elements", "looks-alike", "input-as-scratch", "listed-shapes", "knows-the-guards", "5000-calls", "cancelled-half-way")
}
