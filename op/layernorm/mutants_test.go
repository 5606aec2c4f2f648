package layernorm_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/layernorm"
	"tokitai/verify"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, layernorm.Operations, wrong(), right(), peers)
}

// TestInfinityOfEitherSign: where an infinite gamma meets differences to the mean that are
// rounding errors, Welford's mean may give the other infinity.
func TestInfinityOfEitherSign(t *testing.T) {
	list := right()
	i := slices.IndexFunc(list, func(m mutants.Mutant) bool { return m.Name == "layernorm.forward/f32/welford" })
	m := &list[i]
	r, err := verify.Run(t.Context(), &verify.Target{Operation: m.Operation, Definition: m.Definition, Lowering: m.Lowering, DType: m.DType},
		verify.Options{Level: verify.Full, Seed: 1, Case: "special-pairs/R=172,C=187/offset=8/uneven=1/params=754"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Report.Verdict != evidence.Accepted {
		t.Errorf("%s: %s %+v", r.Report.Verdict, r.Report.Reason, r.Report.Failure)
	}
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(layernorm.Operations)
	honest := mutants.Ordered(mutants.InLanes(16))
	forward := func(inv inverse) mutants.Plain { return mutants.Plain{Body: layernormForward(honest, inv)} }

	l.Of(layernorm.ForwardDefinition, num.F16)
	l.From(mutants.Simulated)
	l.Add("unbiased-variance", "the variance is divided by C-1", mutants.Lanes16, forward(func(q, n, eps float32) float32 {
		return rstd(q, max(1, n-1), eps)
	}))
	l.Add("eps-outside", "eps is added to the root, not under it", mutants.Lanes16, forward(func(q, n, eps float32) float32 {
		return 1 / (num.Sqrt(q/n) + eps)
	}))
	l.From(mutants.KernelPractice)
	l.Add("no-eps", "eps is left out", mutants.AnyOrder, forward(func(q, n, _ float32) float32 { return rstd(q, n, 0) }))
	l.Add("eps-fixed", "eps is 1e-6, whatever the parameter says", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Before: func(c *mutants.Call) error {
		c.Params[0] = 1e-6
		return nil
	}})
	l.Add("rough-root", "1/sqrt has a relative error of 2^-12", mutants.Lanes16, forward(func(q, n, eps float32) float32 {
		return mutants.KeepBits(12)(1 / math.Sqrt(float64(q/n+eps)))
	}))
	l.Add("f16-statistics", "mean and rstd are rounded to f16 before they are used", mutants.Lanes16, mutants.Plain{Body: func(c *mutants.Call) {
		layernormForward(honest, rstd)(c)
		x, gamma, beta := c.In("x"), c.In("gamma").V, c.In("beta").V
		for r := range x.Rows {
			m, s := num.Round(num.F16, c.In("mean").V[r]), num.Round(num.F16, c.In("rstd").V[r])
			for i, v := range x.Row(r) {
				c.In("y").Row(r)[i] = num.FMA((v-m)*s, gamma[i], beta[i])
			}
		}
	}})
	l.Add("no-beta", "beta is left out", mutants.PromisesBits, mutants.Plain{Body: func(c *mutants.Call) {
		mutants.Zeros(c.In("beta"))
		mutants.Answer(c)
	}})
	l.Add("gamma-plus-one", "gamma is taken as 1 + gamma", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		for i := range c.In("gamma").V {
			c.In("gamma").V[i]++
		}
		mutants.Answer(c)
	}})
	l.Add("mean-not-written", "mean is not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: func(c *mutants.Call, i, _, _ int) bool { return i != c.Position("mean") }})
	l.Add("rstd-is-std", "rstd holds the standard deviation", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		for i, v := range c.In("rstd").V {
			c.In("rstd").V[i] = 1 / v
		}
	}})
	l.Add("block-of-1024", "columns beyond 1,024 do not count for mean and variance", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		if c.In("x").Cols > 1024 {
			p := mutants.Ordered(func(t []float32) float32 { return num.LaneSum(t[:1024], 256) })
			layernormForward(p, rstd)(c)
		}
	}})
	l.Add("f16-accumulator", "sums are kept in f16", mutants.AnyOrder, mutants.Plain{Body: layernormForward(mutants.Ordered(mutants.Rounding(mutants.To(num.F16))), rstd)})
	l.Add("scratch-too-small", "the row's copy has room for 512 elements, and later ones overwrite the first", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		y := c.In("y")
		for r := range y.Rows {
			for i := 512; i < y.Cols; i++ {
				y.Row(r)[i%512] = y.Row(r)[i]
			}
		}
	}})
	l.Of(layernorm.ForwardDefinition, num.F32)
	l.From("ggml, norm_f32")
	l.Add("one-pass-variance", "the variance is E[x²] - E[x]²", mutants.Lanes16, mutants.Plain{Body: func(c *mutants.Call) {
		x, gamma, beta := c.In("x"), c.In("gamma").V, c.In("beta").V
		n, eps := float32(x.Cols), c.Param("eps")
		for r := range x.Rows {
			squares := make([]float32, x.Cols)
			for i, v := range x.Row(r) {
				squares[i] = v * v
			}
			mean := num.LaneSum(x.Row(r), 16) / n
			s := 1 / num.Sqrt(num.LaneSum(squares, 16)/n-float32(mean*mean)+eps)
			for i, v := range x.Row(r) {
				c.In("y").Row(r)[i] = num.FMA((v-mean)*s, gamma[i], beta[i])
			}
			c.In("mean").V[r], c.In("rstd").V[r] = mean, s
		}
	}})
	l.From(mutants.KernelPractice)
	l.Add("needs-packed-rows", "right only where rows have no gaps", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: mutants.NeedsPackedRows})
	l.Of(layernorm.ForwardDefinition, num.BF16)
	l.Add("store-truncates", "results are cut off, not rounded", mutants.Lanes16, mutants.Plain{Body: layernormForward(honest, rstd), Store: mutants.StoreTowardZero})
	l.From(mutants.TwiceWrong)
	l.Add("one-doubled", "one element of every output is twice what it should be", mutants.AnyOrder, mutants.Edited(mutants.Doubled))

	l.Of(layernorm.BackwardDefinition, num.F16)
	l.From("Megatron-LM#4640")
	l.Add("lost-update", "every seventh row of a column is missing in dgamma and dbeta, as when threads race", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		dy, x := c.In("dy"), c.In("x")
		for r := 6; r < dy.Rows; r += 7 {
			for i := range dy.Cols {
				xhat := (x.Row(r)[i] - c.In("mean").V[r]) * c.In("rstd").V[r]
				c.In("dgamma").V[i] -= dy.Row(r)[i] * xhat
				c.In("dbeta").V[i] -= dy.Row(r)[i]
			}
		}
	}})
	l.From(mutants.KernelPractice)
	l.Add("gamma-beta-swapped", "dgamma and dbeta are exchanged", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		g, b := c.In("dgamma").V, c.In("dbeta").V
		for i := range g {
			g[i], b[i] = b[i], g[i]
		}
	}})
	l.Add("f16-column-sums", "dgamma and dbeta are kept in f16 while they are added", mutants.Lanes16, mutants.Plain{Body: func(c *mutants.Call) {
		layernormBackward(mutants.Ordered(mutants.Rounding(mutants.To(num.F16))))(c)
		dgamma, dbeta := slices.Clone(c.In("dgamma").V), slices.Clone(c.In("dbeta").V)
		layernormBackward(honest)(c) // everything else as it should be
		copy(c.In("dgamma").V, dgamma)
		copy(c.In("dbeta").V, dbeta)
	}})
	l.Add("no-mean-term", "the mean of t is not subtracted", mutants.AnyOrder, backwardWithout(meanTerm))
	l.Add("no-xhat-term", "the part along xhat is not subtracted", mutants.AnyOrder, backwardWithout(xhatTerm))
	l.Add("no-rstd", "dx is not multiplied by rstd", mutants.AnyOrder, backwardWithout(rstdFactor))
	l.Add("odd-row-dropped", "the last of an odd number of rows is missing in dgamma and dbeta", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		dy, x := c.In("dy"), c.In("x")
		if r := dy.Rows - 1; r%2 == 0 {
			for i := range dy.Cols {
				xhat := (x.Row(r)[i] - c.In("mean").V[r]) * c.In("rstd").V[r]
				c.In("dgamma").V[i] -= dy.Row(r)[i] * xhat
				c.In("dbeta").V[i] -= dy.Row(r)[i]
			}
		}
	}})
	l.Add("only-dx", "dgamma and dbeta are not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.FirstOutput})
	l.Of(layernorm.BackwardDefinition, num.F32)
	l.Add("not-cleared", "dgamma and dbeta are added to what is there", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Write: func(c *mutants.Call, i int, v mutants.Matrix, k *mutants.Plain) {
		if i != c.Position("dx") {
			for col := range v.V {
				v.V[col] += c.Stored[i].At(0, col)
			}
		}
		k.Put(c, i, v)
	}})
	l.Add("workers-decide", "column sums are cut into as many parts as there are workers", mutants.AnyOrder,
		mutants.ByWorkers(func(sum func([]float32) float32) func(*mutants.Call) { return layernormBackward(mutants.Ordered(sum)) }))
	l.From(mutants.TenCalls)
	l.Add("ten-calls", "right for ten calls, then one element is doubled", mutants.AnyOrder, mutants.After(10, mutants.Plain{Body: mutants.Answer}, mutants.Doubled))
	l.Of(layernorm.BackwardDefinition, num.BF16)
	l.From(mutants.KernelPractice)
	l.Add("clears-first", "outputs are cleared before the inputs are read: nothing is left in place", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Before: mutants.ClearsFirst})
	stableWrong(l)
	cheats(l)
	return l.All
}

// part is a part of layernorm's dx.
type part int

const (
	meanTerm part = iota
	xhatTerm
	rstdFactor
)

// backwardWithout leaves out a part of dx.
func backwardWithout(missing part) mutants.Plain {
	return mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		dy, x, gamma := c.In("dy"), c.In("x"), c.In("gamma").V
		n := float64(x.Cols)
		for r := range x.Rows {
			m, s := float64(c.In("mean").V[r]), float64(c.In("rstd").V[r])
			a, b, factor := 0.0, 0.0, s
			for i := range gamma {
				t := float64(dy.Row(r)[i]) * float64(gamma[i])
				a += t / n
				b += t * (float64(x.Row(r)[i]) - m) * s / n
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
				t := float64(dy.Row(r)[i]) * float64(gamma[i])
				c.In("dx").Row(r)[i] = float32((t - a - (float64(x.Row(r)[i])-m)*s*b) * factor)
			}
		}
	}}
}

// inverse is 1/sqrt(variance + eps) of a row, from the sum of squares.
type inverse func(squares, n, eps float32) float32

func rstd(squares, n, eps float32) float32 {
	return 1 / num.Sqrt(squares/n+eps)
}

func layernormForward(p mutants.Parts, inv inverse) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		x, gamma, beta := c.In("x"), c.In("gamma").V, c.In("beta").V
		y, means, rstds := c.In("y"), c.In("mean").V, c.In("rstd").V
		n, eps := float32(x.Cols), c.Param("eps")
		centred, squares := make([]float32, x.Cols), make([]float32, x.Cols)
		for r := range x.Rows {
			row := x.Row(r)
			first := row[0]
			for i, v := range row {
				centred[i] = p.Step(v - first)
			}
			shift := p.Step(p.Sum(centred) / n)
			for i, v := range centred {
				centred[i] = p.Step(v - shift)
				squares[i] = p.Step(centred[i] * centred[i])
			}
			scale := p.Step(inv(p.Sum(squares), n, eps))
			for i, v := range centred {
				y.Row(r)[i] = num.FMA(p.Step(v*scale), gamma[i], beta[i])
			}
			means[r], rstds[r] = first+shift, scale
		}
	}
}

func layernormBackward(p mutants.Parts) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		dy, x, gamma := c.In("dy"), c.In("x"), c.In("gamma").V
		mean, rstd := c.In("mean").V, c.In("rstd").V
		dx, dgamma, dbeta := c.In("dx"), c.In("dgamma").V, c.In("dbeta").V
		n := float32(x.Cols)
		products := mutants.NewMatrix(x.Rows, x.Cols)
		xhat, t, tx := make([]float32, x.Cols), make([]float32, x.Cols), make([]float32, x.Cols)
		for r := range x.Rows {
			for i := range xhat {
				xhat[i] = p.Step(p.Step(x.Row(r)[i]-mean[r]) * rstd[r])
				t[i] = p.Step(dy.Row(r)[i] * gamma[i])
				tx[i] = p.Step(t[i] * xhat[i])
				products.Row(r)[i] = p.Step(dy.Row(r)[i] * xhat[i])
			}
			a, b := p.Step(p.Sum(t)/n), p.Step(p.Sum(tx)/n)
			for i := range xhat {
				dx.Row(r)[i] = p.Step(p.Step(t[i]-a)-p.Step(xhat[i]*b)) * rstd[r]
			}
		}
		for i := range dgamma {
			dgamma[i], dbeta[i] = p.Sum(products.Column(i)), p.Sum(dy.Column(i))
		}
	}
}

func right() []mutants.Mutant {
	l := mutants.NewList(layernorm.Operations)
	forward := func(p mutants.Parts) func(*mutants.Call) { return layernormForward(p, rstd) }
	l.InOrders(layernorm.ForwardDefinition, num.F16, forward, "sequential", "lanes-16", "pairwise")
	l.AddReferenceOrder()
	l.InOrders(layernorm.ForwardDefinition, num.F32, forward, "lanes-128", "binary64")
	l.InOrders(layernorm.BackwardDefinition, num.F16, layernormBackward, "sequential", "lanes-16")
	l.AddReferenceOrder()
	l.InOrders(layernorm.BackwardDefinition, num.F32, layernormBackward, "pairwise")
	stableForward(l)
	stableBackward(l)
	return l.All
}

// peers returns plain kernels of the definitions, made of the given parts.
func peers(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
	return map[*def.Definition]func(*mutants.Call){layernorm.ForwardDefinition: layernormForward(p, rstd), layernorm.BackwardDefinition: layernormBackward(p)}
}
