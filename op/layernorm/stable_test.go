package layernorm_test

import (
	"math"

	"tokitai/num"
	"tokitai/op/layernorm"
	"tokitai/verify/mutants"
)

// Kernels that promise to be stable: LayerNorm in the forms in which people write it, and
// forms that lose digits.

// statistics returns a row's mean and variance.
type statistics func(p mutants.Parts, x []float32) (mean, variance float32)

// apply returns an element of y.
type apply func(x, mean, rstd, gamma, beta float32) float32

// normalised is LayerNorm made of the two.
func normalised(p mutants.Parts, of statistics, y apply) mutants.Plain {
	return mutants.Plain{Body: func(c *mutants.Call) {
		x, gamma, beta := c.In("x"), c.In("gamma").V, c.In("beta").V
		for r := range x.Rows {
			mean, variance := of(p, x.Row(r))
			rstd := p.Step(p.Rsqrt(p.Step(variance + c.Param("eps"))))
			for i, v := range x.Row(r) {
				c.In("y").Row(r)[i] = p.Step(y(v, mean, rstd, gamma[i], beta[i]))
			}
			c.In("mean").V[r], c.In("rstd").V[r] = mean, rstd
		}
	}}
}

// centredFirst is y as the definition has it, and the other forms of it below.
func centredFirst(x, mean, rstd, gamma, beta float32) float32 {
	return float32(float32((x-mean)*rstd)*gamma) + beta
}

func scaledFirst(x, mean, rstd, gamma, beta float32) float32 {
	return float32((x-mean)*float32(rstd*gamma)) + beta
}

// distributed multiplies x and the mean by rstd before it subtracts.
func distributed(x, mean, rstd, gamma, beta float32) float32 {
	return num.FMA(num.FMA(x, rstd, -float32(mean*rstd)), gamma, beta)
}

// slopeAndOffset has one multiply-add per element.
func slopeAndOffset(x, mean, rstd, gamma, beta float32) float32 {
	slope := rstd * gamma
	return num.FMA(x, slope, beta-float32(mean*slope))
}

// twoPasses is the mean of x, then that of the squares of the differences to it.
func twoPasses(p mutants.Parts, x []float32) (mean, variance float32) {
	n := float32(len(x))
	mean = p.Step(p.Divide(p.Sum(x), n))
	squares := make([]float32, len(x))
	for i, v := range x {
		d := p.Step(v - mean)
		squares[i] = p.Step(d * d)
	}
	return mean, p.Step(p.Divide(p.Sum(squares), n))
}

// fromFirst takes all differences to the first element, adds them and their squares in one
// pass, and corrects the variance by the square of the mean difference.
func fromFirst(p mutants.Parts, x []float32) (mean, variance float32) {
	n, first := float32(len(x)), x[0]
	d, squares := make([]float32, len(x)), make([]float32, len(x))
	for i, v := range x {
		d[i] = v - first
		squares[i] = d[i] * d[i]
	}
	sum := p.Sum(d)
	shift := sum / n
	return first + shift, max(p.Sum(squares)-float32(sum*shift), 0) / n
}

// meanOfParts corrects the mean by the mean of the differences to it.
func meanOfParts(p mutants.Parts, x []float32) (mean, variance float32) {
	n := float32(len(x))
	rough := p.Sum(x) / n
	d, squares := make([]float32, len(x)), make([]float32, len(x))
	for i, v := range x {
		d[i] = v - rough
		squares[i] = d[i] * d[i]
	}
	shift := p.Sum(d) / n
	return rough + shift, p.Sum(squares)/n - float32(shift*shift)
}

// moments are a count, a mean and the sum of squared differences to it.
type moments struct{ n, mean, squares float32 }

// take adds an element, as Welford does.
func (m *moments) take(x float32) {
	m.n++
	d := x - m.mean
	m.mean += d / m.n
	m.squares += float32(d * (x - m.mean))
}

// join adds other moments, as Chan, Golub and LeVeque do.
func (m *moments) join(o moments) {
	if o.n == 0 {
		return
	}
	n := m.n + o.n
	d := o.mean - m.mean
	m.mean += float32(d * (o.n / n))
	m.squares += o.squares + float32(d*float32(d*float32(m.n*(o.n/n)))) // d·d may overflow before its share does
	m.n = n
}

// welford takes one element after another.
func welford(_ mutants.Parts, x []float32) (mean, variance float32) {
	var m moments
	for _, v := range x {
		m.take(v)
	}
	return m.mean, m.squares / m.n
}

// welfordLanes takes every so manyth element in a lane, and joins the lanes in a tree.
func welfordLanes(width int) statistics {
	return func(_ mutants.Parts, x []float32) (mean, variance float32) {
		lanes := make([]moments, width)
		for i, v := range x {
			lanes[i%width].take(v)
		}
		for step := width / 2; step > 0; step /= 2 {
			for i := range step {
				lanes[i].join(lanes[i+step])
			}
		}
		return lanes[0].mean, lanes[0].squares / lanes[0].n
	}
}

// welfordBlocks joins the moments of blocks, each of which has been taken in two passes.
func welfordBlocks(width int) statistics {
	return func(p mutants.Parts, x []float32) (mean, variance float32) {
		var all moments
		for i := 0; i < len(x); i += width {
			block := x[i:min(i+width, len(x))]
			n := float32(len(block))
			mean, variance := twoPasses(p, block)
			if i == 0 {
				all = moments{n, mean, variance * n}
			} else {
				all.join(moments{n, mean, variance * n})
			}
		}
		return all.mean, all.squares / all.n
	}
}

// inBinary64 computes both in binary64.
func inBinary64(_ mutants.Parts, x []float32) (mean, variance float32) {
	m, n := 0.0, float64(len(x))
	for _, v := range x {
		m += float64(v)
	}
	m /= n
	s := 0.0
	for _, v := range x {
		d := float64(v) - m
		s += float64(d * d)
	}
	return float32(m), float32(s / n)
}

// meanSquareMinusSquareMean is the form that cancels where the mean is large.
func meanSquareMinusSquareMean(step func(float32) float32) statistics {
	return func(p mutants.Parts, x []float32) (mean, variance float32) {
		n, squares := float32(len(x)), make([]float32, len(x))
		for i, v := range x {
			squares[i] = step(v * v)
		}
		mean = step(p.Sum(x) / n)
		return mean, max(step(step(p.Sum(squares)/n)-step(mean*mean)), 0)
	}
}

func stableForward(l *mutants.List) {
	d := layernorm.ForwardDefinition
	lanes, pairs := mutants.Ordered(mutants.InLanes(32)), mutants.Ordered(mutants.InPairs)
	l.AddAll(d, "two-passes", "mean, then the squares of the differences to it", mutants.Stable, normalised(lanes, twoPasses, centredFirst))
	l.AddAll(d, "two-passes-scaled", "two passes, pairwise; rstd is multiplied by gamma first", mutants.Stable, normalised(pairs, twoPasses, scaledFirst))
	l.AddAll(d, "mean-corrected", "the mean and the variance are corrected by the mean of the differences", mutants.Stable, normalised(lanes, meanOfParts, centredFirst))
	l.AddAll(d, "welford", "Welford's update, one element after another", mutants.Stable, normalised(lanes, welford, centredFirst))
	l.AddAll(d, "welford-lanes", "Welford's update in 32 lanes, joined in a tree", mutants.Stable, normalised(lanes, welfordLanes(32), centredFirst))
	l.AddAll(d, "welford-blocks", "moments of blocks of 128, joined one after another", mutants.Stable, normalised(pairs, welfordBlocks(128), scaledFirst))
	l.AddAll(d, "distributed", "x times rstd, minus the mean times rstd", mutants.Stable, normalised(lanes, twoPasses, distributed))
	l.AddAll(d, "slope-and-offset", "one multiply-add per element, with slope and offset of the column", mutants.Stable, normalised(mutants.Ordered(mutants.InDouble), inBinary64, slopeAndOffset))
	l.AddAll(d, "fast-rsqrt", "1/sqrt within 2 ulp, declared", mutants.Declaring("rsqrt=2ulp"), normalised(
		mutants.Replaced(lanes, func(p *mutants.Parts) { p.Rsqrt = mutants.FastRsqrt(2) }), twoPasses, centredFirst))
	l.Of(d, num.F32)
	l.Add("fast-division", "quotients within 2 ulp, declared", mutants.Declaring("div=2ulp"), normalised(
		mutants.Replaced(lanes, func(p *mutants.Parts) {
			p.Divide = mutants.FastDivide(2)
			p.Rsqrt = func(x float32) float32 { return p.Divide(1, num.Sqrt(x)) }
		}), twoPasses, centredFirst))
	l.Add("flushed", "subnormal numbers are zeros, declared", mutants.Declaring("ftz"), flushing(normalised(
		mutants.Replaced(lanes, func(p *mutants.Parts) { p.Step = mutants.Flush }), twoPasses, centredFirst)))
}

// flushing returns the kernel with inputs that lose their subnormal numbers.
func flushing(k mutants.Plain) mutants.Plain {
	k.Load = func(a num.Array, r, c int) float32 { return mutants.Flush(a.At(r, c)) }
	return k
}

// gradient returns an element of dx from the row's sums: of t and of t·xhat, or of t·x.
func backwardBy(p mutants.Parts, row func(dy, x, gamma []float32, mean, rstd float32, dx []float32)) mutants.Plain {
	return mutants.Plain{Body: func(c *mutants.Call) {
		dy, x, gamma := c.In("dy"), c.In("x"), c.In("gamma").V
		mean, rstd := c.In("mean").V, c.In("rstd").V
		products := mutants.NewMatrix(x.Rows, x.Cols)
		for r := range x.Rows {
			row(dy.Row(r), x.Row(r), gamma, mean[r], rstd[r], c.In("dx").Row(r))
			for i, v := range x.Row(r) {
				products.Row(r)[i] = dy.Row(r)[i] * float32((v-mean[r])*rstd[r])
			}
		}
		for i := range gamma {
			c.In("dgamma").V[i], c.In("dbeta").V[i] = p.Sum(products.Column(i)), p.Sum(dy.Column(i))
		}
	}}
}

func stableBackward(l *mutants.List) {
	d := layernorm.BackwardDefinition
	lanes := mutants.Ordered(mutants.InLanes(32))
	sums := func(dy, x, gamma []float32, mean, rstd float32) (ofT, ofTX float32) {
		t, tx := make([]float32, len(x)), make([]float32, len(x))
		for i := range x {
			t[i] = dy[i] * gamma[i]
			tx[i] = t[i] * float32((x[i]-mean)*rstd)
		}
		return lanes.Sum(t), lanes.Sum(tx)
	}
	l.AddAll(d, "divided-once", "rstd times (t - (sum t + xhat·sum t·xhat)/C)", mutants.Stable, backwardBy(lanes, func(dy, x, gamma []float32, mean, rstd float32, dx []float32) {
		n := float32(len(x))
		a, b := sums(dy, x, gamma, mean, rstd)
		for i := range dx {
			xhat := (x[i] - mean) * rstd
			dx[i] = rstd * (float32(dy[i]*gamma[i]) - (a+float32(xhat*b))/n)
		}
	}))
	l.AddAll(d, "distributed", "rstd is multiplied into each of the three terms", mutants.Stable, backwardBy(lanes, func(dy, x, gamma []float32, mean, rstd float32, dx []float32) {
		n := float32(len(x))
		a, b := sums(dy, x, gamma, mean, rstd)
		a, b = a/n*rstd, b/n*rstd
		for i := range dx {
			xhat := (x[i] - mean) * rstd
			dx[i] = float32(float32(dy[i]*gamma[i])*rstd) - float32(a+float32(xhat*b))
		}
	}))
	l.AddAll(d, "linear-in-x", "dx = rstd·t + b·x + c, with b and c of the row", mutants.Stable, backwardBy(lanes, func(dy, x, gamma []float32, mean, rstd float32, dx []float32) {
		n := float32(len(x))
		a, b := sums(dy, x, gamma, mean, rstd)
		slope := -float32(float32(b*rstd)*rstd) / n
		offset := -float32(slope*mean) - float32(a*rstd)/n
		for i := range dx {
			dx[i] = float32(rstd*float32(dy[i]*gamma[i])) + float32(slope*x[i]) + offset
		}
	}))
	l.AddAll(d, "binary64-sums", "all sums in binary64", mutants.Stable, mutants.Plain{Body: layernormBackward(mutants.Ordered(mutants.InDouble))})
	l.AddAll(d, "compensated-columns", "Kahan's sums", mutants.Stable, mutants.Plain{Body: layernormBackward(mutants.Ordered(mutants.Compensated))})
}

func stableWrong(l *mutants.List) {
	d := layernorm.ForwardDefinition
	lanes := mutants.Ordered(mutants.InLanes(32))
	exact := func(x float32) float32 { return x }
	l.From("ggml, norm_f32")
	l.AddAll(d, "mean-of-squares", "the variance is E[x²] - E[x]², in f32", mutants.Stable, normalised(lanes, meanSquareMinusSquareMean(exact), centredFirst))
	l.From(mutants.KernelPractice)
	l.AddAll(d, "from-first", "one pass over the differences to the first element, which cancels where that is far from the others", mutants.Stable, normalised(lanes, fromFirst, centredFirst))
	l.Of(d, num.F16)
	l.Add("mean-of-squares-f16", "the variance is E[x²] - E[x]², in f16", mutants.Stable, normalised(
		mutants.Ordered(mutants.RoundingTree(mutants.To(num.F16))), meanSquareMinusSquareMean(mutants.To(num.F16)), centredFirst))
	l.Add("squares-rounded", "squares are rounded to f16 before they are added", mutants.Stable, normalised(
		mutants.Ordered(func(x []float32) float32 {
			terms := make([]float32, len(x))
			for i, v := range x {
				terms[i] = num.Round(num.F16, v)
			}
			return num.LaneSum(terms, 32)
		}), twoPasses, centredFirst))
	l.Add("xhat-rounded", "(x - mean)·rstd is rounded to f16 before gamma", mutants.Stable, normalised(lanes, twoPasses, func(x, mean, rstd, gamma, beta float32) float32 {
		return num.FMA(num.Round(num.F16, (x-mean)*rstd), gamma, beta)
	}))
	l.Of(d, num.BF16)
	l.Add("mean-of-squares-bf16", "the variance is E[x²] - E[x]², in bf16", mutants.Stable, normalised(
		mutants.Ordered(mutants.RoundingTree(mutants.To(num.BF16))), meanSquareMinusSquareMean(mutants.To(num.BF16)), centredFirst))
	l.Of(d, num.F32)
	l.Add("welford-count", "Welford's mean is divided by the count before the element", mutants.Stable, normalised(lanes, func(_ mutants.Parts, x []float32) (float32, float32) {
		m := moments{n: 1, mean: x[0]}
		for _, v := range x[1:] {
			d := v - m.mean
			m.mean += d / max(m.n, 1)
			m.n++
			m.squares += float32(d * (v - m.mean))
		}
		return m.mean, m.squares / m.n
	}, centredFirst))
	l.Add("lanes-not-weighted", "the moments of lanes are joined as if all had as many elements", mutants.Stable, normalised(lanes, func(_ mutants.Parts, x []float32) (float32, float32) {
		lanes := make([]moments, 8)
		for i, v := range x {
			lanes[i%8].take(v)
		}
		mean, squares := float32(0), float32(0)
		used := float32(min(len(x), 8))
		for _, m := range lanes {
			mean += m.mean / used
			squares += m.squares
		}
		for _, m := range lanes {
			d := m.mean - mean
			squares += float32(m.n * float32(d*d))
		}
		return mean, squares / float32(len(x))
	}, centredFirst))
	l.Add("join-forgets-distance", "joining moments forgets the distance of their means", mutants.Stable, normalised(lanes, func(_ mutants.Parts, x []float32) (float32, float32) {
		half := (len(x) + 1) / 2
		var a, b moments
		for i, v := range x {
			if i < half {
				a.take(v)
			} else {
				b.take(v)
			}
		}
		squares := a.squares + b.squares
		a.join(b)
		return a.mean, squares / a.n
	}, centredFirst))
	l.Add("lane-of-4096-lost", "the last element of every 4,096 is in no lane", mutants.Stable, normalised(
		mutants.Ordered(mutants.WithoutEvery(4096, mutants.InLanes(32))), twoPasses, centredFirst))
	l.Add("rough-rsqrt", "1/sqrt has a relative error of 2^-18 and nothing is declared", mutants.Stable, normalised(
		mutants.Replaced(lanes, func(p *mutants.Parts) { p.Rsqrt = mutants.FastRsqrt(64) }), twoPasses, centredFirst))
	l.Add("one-newton-step", "1/sqrt by the integer guess and one step of Newton's", mutants.Stable, normalised(
		mutants.Replaced(lanes, func(p *mutants.Parts) {
			p.Rsqrt = func(x float32) float32 {
				if !(x > 0) || math.IsInf(float64(x), 0) {
					return 1 / num.Sqrt(x)
				}
				y := math.Float32frombits(0x5f3759df - math.Float32bits(x)>>1)
				return y * (1.5 - float32(float32(0.5*x*y)*y))
			}
		}), twoPasses, centredFirst))
	l.Add("clamped-variance", "the variance is at least 1e-5, and eps is added too", mutants.Stable, normalised(lanes, func(p mutants.Parts, x []float32) (float32, float32) {
		mean, variance := twoPasses(p, x)
		return mean, max(variance, 1e-5)
	}, centredFirst))
	l.Add("eps-times-n", "eps is added to the sum of squares, not to their mean", mutants.Stable, normalised(lanes, func(p mutants.Parts, x []float32) (float32, float32) {
		mean, variance := twoPasses(p, x)
		return mean, variance + 1e-5/float32(len(x)) - 1e-5
	}, centredFirst))
	l.Add("sample-of-the-row", "mean and variance are those of every other element from 8,192 on", mutants.Stable, normalised(lanes, func(p mutants.Parts, x []float32) (float32, float32) {
		if len(x) < 8192 {
			return twoPasses(p, x)
		}
		half := make([]float32, 0, len(x)/2)
		for i := 0; i < len(x); i += 2 {
			half = append(half, x[i])
		}
		return twoPasses(p, half)
	}, centredFirst))

	b := layernorm.BackwardDefinition
	l.Of(b, num.F32)
	l.Add("rows-in-blocks-of-64", "of the last block of 64 rows only the first 63 count for dbeta", mutants.Stable, mutants.Plain{Body: func(c *mutants.Call) {
		layernormBackward(lanes)(c)
		dy := c.In("dy")
		if dy.Rows < 64 {
			return
		}
		for i := range dy.Cols {
			column := dy.Column(i)
			last := (len(column) - 1) / 64 * 64
			c.In("dbeta").V[i] = num.LaneSum(column[:min(len(column), last+63)], 32)
		}
	}})
	l.Add("t-without-gamma", "the mean of dy is taken, not that of dy·gamma", mutants.Stable, backwardBy(lanes, func(dy, x, gamma []float32, mean, rstd float32, dx []float32) {
		n := float32(len(x))
		tx := make([]float32, len(x))
		for i := range x {
			tx[i] = float32(dy[i]*gamma[i]) * float32((x[i]-mean)*rstd)
		}
		a, b := lanes.Sum(dy)/n, lanes.Sum(tx)/n
		for i := range dx {
			dx[i] = (float32(dy[i]*gamma[i]) - a - float32(float32((x[i]-mean)*rstd)*b)) * rstd
		}
	}))
	l.Need(mutants.Quick, "lane-of-4096-lost", "sample-of-the-row")
}

// cheats adds kernels that are right only where somebody looks.
func cheats(l *mutants.List) {
	l.From(mutants.KernelPractice)
	l.Of(layernorm.ForwardDefinition, num.BF16)
	l.AddCheats(mutants.Answer, "cache-by-elements", "cache-without-parameters", "looks-alike", "input-as-scratch", "garbage-times-zero", "writes-nan-only", "knows-the-guards", "listed-shapes", "offsets-in-f32", "5000-calls", "cancelled-half-way")
}
