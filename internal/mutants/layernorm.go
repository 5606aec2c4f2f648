package mutants

import (
	"math"
	"slices"

	"tokitai/num"
	"tokitai/op/layernorm"
)

func layernormMutants() []Mutant {
	l := &list{}
	honest := ordered(inLanes(16))
	forward := func(inv inverse) plain { return plain{body: layernormForward(honest, inv)} }

	l.of(layernorm.ForwardDefinition, num.F16)
	l.from(simulated)
	l.add("unbiased-variance", "the variance is divided by C-1", lanes16, forward(func(q, n, eps float32) float32 {
		return rstd(q, max(1, n-1), eps)
	}))
	l.add("eps-outside", "eps is added to the root, not under it", lanes16, forward(func(q, n, eps float32) float32 {
		return 1 / (num.Sqrt(q/n) + eps)
	}))
	l.from(practice)
	l.add("no-eps", "eps is left out", anyOrder, forward(func(q, n, _ float32) float32 { return rstd(q, n, 0) }))
	l.add("eps-fixed", "eps is 1e-6, whatever the parameter says", bits, plain{body: answer, before: func(c *call) error {
		c.params[0] = 1e-6
		return nil
	}})
	l.add("rough-root", "1/sqrt has a relative error of 2^-12", lanes16, forward(func(q, n, eps float32) float32 {
		return keepBits(12)(1 / math.Sqrt(float64(q/n+eps)))
	}))
	l.add("f16-statistics", "mean and rstd are rounded to f16 before they are used", lanes16, plain{body: func(c *call) {
		layernormForward(honest, rstd)(c)
		x, gamma, beta := c.in("x"), c.in("gamma").v, c.in("beta").v
		for r := range x.rows {
			m, s := num.Round(num.F16, c.in("mean").v[r]), num.Round(num.F16, c.in("rstd").v[r])
			for i, v := range x.row(r) {
				c.in("y").row(r)[i] = num.FMA((v-m)*s, gamma[i], beta[i])
			}
		}
	}})
	l.add("no-beta", "beta is left out", bits, plain{body: func(c *call) {
		zeros(c.in("beta"))
		answer(c)
	}})
	l.add("gamma-plus-one", "gamma is taken as 1 + gamma", anyOrder, plain{body: func(c *call) {
		for i := range c.in("gamma").v {
			c.in("gamma").v[i]++
		}
		answer(c)
	}})
	l.add("mean-not-written", "mean is not written", bits, plain{body: answer, puts: func(c *call, i, _, _ int) bool { return i != c.position("mean") }})
	l.add("rstd-is-std", "rstd holds the standard deviation", anyOrder, plain{body: answer, edit: func(c *call) {
		for i, v := range c.in("rstd").v {
			c.in("rstd").v[i] = 1 / v
		}
	}})
	l.add("block-of-1024", "columns beyond 1,024 do not count for mean and variance", bits, plain{body: answer, edit: func(c *call) {
		if c.in("x").cols > 1024 {
			p := ordered(func(t []float32) float32 { return num.LaneSum(t[:1024], 256) })
			layernormForward(p, rstd)(c)
		}
	}})
	l.add("f16-accumulator", "sums are kept in f16", anyOrder, plain{body: layernormForward(ordered(rounding(to(num.F16))), rstd)})
	l.add("scratch-too-small", "the row's copy has room for 512 elements, and later ones overwrite the first", bits, plain{body: answer, edit: func(c *call) {
		y := c.in("y")
		for r := range y.rows {
			for i := 512; i < y.cols; i++ {
				y.row(r)[i%512] = y.row(r)[i]
			}
		}
	}})
	l.of(layernorm.ForwardDefinition, num.F32)
	l.from("ggml, norm_f32")
	l.add("one-pass-variance", "the variance is E[x²] - E[x]²", lanes16, plain{body: func(c *call) {
		x, gamma, beta := c.in("x"), c.in("gamma").v, c.in("beta").v
		n, eps := float32(x.cols), c.param("eps")
		for r := range x.rows {
			squares := make([]float32, x.cols)
			for i, v := range x.row(r) {
				squares[i] = v * v
			}
			mean := num.LaneSum(x.row(r), 16) / n
			s := 1 / num.Sqrt(num.LaneSum(squares, 16)/n-float32(mean*mean)+eps)
			for i, v := range x.row(r) {
				c.in("y").row(r)[i] = num.FMA((v-mean)*s, gamma[i], beta[i])
			}
			c.in("mean").v[r], c.in("rstd").v[r] = mean, s
		}
	}})
	l.from(practice)
	l.add("needs-packed-rows", "right only where rows have no gaps", bits, plain{body: answer, edit: needsPackedRows})
	l.of(layernorm.ForwardDefinition, num.BF16)
	l.add("store-truncates", "results are cut off, not rounded", lanes16, plain{body: layernormForward(honest, rstd), store: storeTowardZero})
	l.from(twiceWrong)
	l.add("one-doubled", "one element of every output is twice what it should be", anyOrder, edited(doubled))

	l.of(layernorm.BackwardDefinition, num.F16)
	l.from("Megatron-LM#4640")
	l.add("lost-update", "every seventh row of a column is missing in dgamma and dbeta, as when threads race", anyOrder, plain{body: answer, edit: func(c *call) {
		dy, x := c.in("dy"), c.in("x")
		for r := 6; r < dy.rows; r += 7 {
			for i := range dy.cols {
				xhat := (x.row(r)[i] - c.in("mean").v[r]) * c.in("rstd").v[r]
				c.in("dgamma").v[i] -= dy.row(r)[i] * xhat
				c.in("dbeta").v[i] -= dy.row(r)[i]
			}
		}
	}})
	l.from(practice)
	l.add("gamma-beta-swapped", "dgamma and dbeta are exchanged", bits, plain{body: answer, edit: func(c *call) {
		g, b := c.in("dgamma").v, c.in("dbeta").v
		for i := range g {
			g[i], b[i] = b[i], g[i]
		}
	}})
	l.add("f16-column-sums", "dgamma and dbeta are kept in f16 while they are added", lanes16, plain{body: func(c *call) {
		layernormBackward(ordered(rounding(to(num.F16))))(c)
		dgamma, dbeta := slices.Clone(c.in("dgamma").v), slices.Clone(c.in("dbeta").v)
		layernormBackward(honest)(c) // everything else as it should be
		copy(c.in("dgamma").v, dgamma)
		copy(c.in("dbeta").v, dbeta)
	}})
	l.add("no-mean-term", "the mean of t is not subtracted", anyOrder, backwardWithout(meanTerm))
	l.add("no-xhat-term", "the part along xhat is not subtracted", anyOrder, backwardWithout(xhatTerm))
	l.add("no-rstd", "dx is not multiplied by rstd", anyOrder, backwardWithout(rstdFactor))
	l.add("odd-row-dropped", "the last of an odd number of rows is missing in dgamma and dbeta", anyOrder, plain{body: answer, edit: func(c *call) {
		dy, x := c.in("dy"), c.in("x")
		if r := dy.rows - 1; r%2 == 0 {
			for i := range dy.cols {
				xhat := (x.row(r)[i] - c.in("mean").v[r]) * c.in("rstd").v[r]
				c.in("dgamma").v[i] -= dy.row(r)[i] * xhat
				c.in("dbeta").v[i] -= dy.row(r)[i]
			}
		}
	}})
	l.add("only-dx", "dgamma and dbeta are not written", bits, plain{body: answer, puts: firstOutput})
	l.of(layernorm.BackwardDefinition, num.F32)
	l.add("not-cleared", "dgamma and dbeta are added to what is there", bits, plain{body: answer, write: func(c *call, i int, v matrix, k *plain) {
		if i != c.position("dx") {
			for col := range v.v {
				v.v[col] += c.a[i].At(0, col)
			}
		}
		k.put(c, i, v)
	}})
	l.add("workers-decide", "column sums are cut into as many parts as there are workers", anyOrder,
		byWorkers(func(sum func([]float32) float32) func(*call) { return layernormBackward(ordered(sum)) }))
	l.from(tenCalls)
	l.add("ten-calls", "right for ten calls, then one element is doubled", anyOrder, after(10, plain{body: answer}, doubled))
	l.of(layernorm.BackwardDefinition, num.BF16)
	l.from(practice)
	l.add("clears-first", "outputs are cleared before the inputs are read: nothing is left in place", bits, plain{body: answer, before: clearsFirst})
	return l.all
}

// part is a part of layernorm's dx.
type part int

const (
	meanTerm part = iota
	xhatTerm
	rstdFactor
)

// backwardWithout leaves out a part of dx.
func backwardWithout(missing part) plain {
	return plain{body: answer, edit: func(c *call) {
		dy, x, gamma := c.in("dy"), c.in("x"), c.in("gamma").v
		n := float64(x.cols)
		for r := range x.rows {
			m, s := float64(c.in("mean").v[r]), float64(c.in("rstd").v[r])
			a, b, factor := 0.0, 0.0, s
			for i := range gamma {
				t := float64(dy.row(r)[i]) * float64(gamma[i])
				a += t / n
				b += t * (float64(x.row(r)[i]) - m) * s / n
			}
			switch missing {
			case meanTerm:
				a = 0
			case xhatTerm:
				b = 0
			case rstdFactor:
				factor = 1
			}
			for i := range gamma {
				t := float64(dy.row(r)[i]) * float64(gamma[i])
				c.in("dx").row(r)[i] = float32((t - a - (float64(x.row(r)[i])-m)*s*b) * factor)
			}
		}
	}}
}
