package crossentropy_test

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/crossentropy"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, crossentropy.Operations, wrong(), right(), peers)
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(crossentropy.Operations)
	honest := mutants.Ordered(mutants.InLanes(16))
	param := func(change func(p []float64, c *mutants.Call)) mutants.Plain {
		return mutants.Plain{Before: func(c *mutants.Call) error { change(c.Params, c); return nil }, Body: mutants.Answer}
	}
	const ignore, scale = 0, 1 // positions of the parameters

	l.Of(crossentropy.Definition, num.F16)
	l.From(mutants.KernelPractice)
	l.Add("label-off-by-one", "the label counts from 1", mutants.PromisesBits, mutants.Plain{Body: func(c *mutants.Call) {
		for r, v := range c.Index {
			if v > 0 && v != int32(c.Params[ignore]) {
				c.Index[r]--
			}
		}
		mutants.Answer(c)
	}})
	l.Add("ignore-not-honoured", "a row to be ignored has the gradient of a row without a label", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		crossEntropy(honest, lossOf(honest))(c)
		for r, v := range c.Index {
			if v == int32(c.Params[ignore]) {
				mutants.SoftmaxRow(honest, c.In("logits").Row(r), c.In("dlogits").Row(r))
			}
		}
	}})
	l.Add("ignore-is-fixed", "-100 is ignored, whatever the parameter says", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Before: func(c *mutants.Call) error {
		c.Params[ignore] = -100
		return nil
	}})
	l.Add("masked-by-product", "an ignored row is multiplied by zero: NaN stays", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		for r, v := range c.Index {
			if v == int32(c.Params[ignore]) {
				for i, x := range c.In("logits").Row(r) {
					c.In("dlogits").Row(r)[i] = 0 * x
				}
			}
		}
	}})
	l.Add("scale-forgotten", "the gradient is not scaled", mutants.AnyOrder, param(func(p []float64, _ *mutants.Call) { p[scale] = 1 }))
	l.Add("mean", "the gradient is that of the mean", mutants.PromisesBits, param(func(p []float64, c *mutants.Call) { p[scale] /= float64(c.Stored[0].Rows) }))
	l.Add("sign", "the gradient has the wrong sign", mutants.PromisesBits, param(func(p []float64, _ *mutants.Call) { p[scale] = -p[scale] }))
	l.Add("probability-rounded", "probabilities are rounded to f16 before the label's 1 is subtracted", mutants.Lanes16, mutants.Plain{Body: crossEntropy(
		mutants.Replaced(honest, func(p *mutants.Parts) {
			p.Normalise = func(e, s float32) float32 { return num.Round(num.F16, e*(1/s)) }
		}), lossOf(honest))})
	l.Add("exp-rounded", "exponentials are rounded to f16", mutants.Lanes16, mutants.Plain{Body: crossEntropy(
		mutants.Replaced(honest, func(p *mutants.Parts) {
			p.Exp = func(x float32) float32 { return num.Round(num.F16, mutants.Exp32(x)) }
		}), lossOf(honest))})
	l.Add("loss-rounded", "the loss is rounded to f16 on its way", mutants.Lanes16, mutants.Plain{Body: crossEntropy(honest,
		func(m, sum, x float32) float32 { return num.Round(num.F16, lossOf(honest)(m, sum, x)) })})
	l.Add("log-2", "the loss is in bits", mutants.AnyOrder, mutants.Plain{Body: crossEntropy(honest, func(m, sum, x float32) float32 {
		return float32(math.Log2(float64(sum))) - (x - m)
	})})
	l.Add("negative-label-wraps", "label -1 means the last column", mutants.PromisesBits, mutants.Plain{Body: func(c *mutants.Call) {
		for r, v := range c.Index {
			if v < 0 && v != int32(c.Params[ignore]) && -int(v) <= c.Stored[0].Cols {
				c.Index[r] += int32(c.Stored[0].Cols)
			}
		}
		mutants.Answer(c)
	}})
	l.Add("ignored-row-not-written", "the gradient of an ignored row keeps what was there", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: func(c *mutants.Call, i, r, _ int) bool {
		return i != c.Position("dlogits") || c.Index[r] != int32(c.Params[ignore])
	}})
	l.Level = mutants.Quick // no case of level smoke has so many columns
	l.Add("ignored-in-16-bits", "a label is compared with the ignored one in 16 bits", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		for r, v := range c.Index {
			if uint16(v) == uint16(int32(c.Params[ignore])) {
				clear(c.In("dlogits").Row(r))
				clear(c.In("loss").Row(r))
			}
		}
	}})
	l.Level = mutants.Smoke
	l.From("Liger-Kernel#968")
	l.Add("no-gradient", "the gradient is zero", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) { mutants.Zeros(c.In("dlogits")) }})
	l.From("Liger-Kernel#507")
	l.Add("no-loss", "the loss is zero", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) { mutants.Zeros(c.In("loss")) }})
	l.From("Liger-Kernel#272")
	l.Add("loss-after-gradient", "in place the label's logit is read after it has been overwritten", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer,
		Write: func(c *mutants.Call, i int, v mutants.Matrix, k *mutants.Plain) {
			if i == c.Position("dlogits") {
				k.Put(c, i, v)
				for r, label := range c.Index { // the loss is taken last
					if label < 0 || int(label) >= v.Cols || label == int32(c.Params[ignore]) {
						continue
					}
					before, now := c.In("logits").Row(r)[label], c.Stored[c.Position("logits")].At(r, int(label))
					if loss := c.In("loss").Row(r)[0]; before != now && now == now {
						c.Stored[c.Position("loss")].Set(r, 0, loss+(before-now))
					}
				}
				return
			}
			k.Put(c, i, v)
		}})
	l.From(mutants.KernelPractice)
	l.Of(crossentropy.Definition, num.F32)
	l.Add("loss-cancels", "the maximum is added to the logarithm before the label's logit is subtracted", mutants.Lanes16, mutants.Plain{Body: crossEntropy(honest,
		func(m, sum, x float32) float32 { return m + mutants.Log32(sum) - x })})
	l.Add("f16-inside", "logits are taken as f16", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Load: func(a num.Array, r, c int) float32 { return num.Round(num.F16, a.At(r, c)) }})
	l.Of(crossentropy.Definition, num.BF16)
	l.Add("whole-vectors", "columns after the last multiple of 4 are not written", mutants.AnyOrder, mutants.Plain{Body: crossEntropy(honest, lossOf(honest)),
		Puts: func(c *mutants.Call, i, r, col int) bool {
			return c.Stored[i].Cols == 1 || mutants.WritesWholeVectors(c, i, r, col)
		}})
	l.Add("store-truncates", "results are cut off, not rounded", mutants.Lanes16, mutants.Plain{Body: crossEntropy(honest, lossOf(honest)), Store: mutants.StoreTowardZero})
	stableWrong(l)
	cheats(l)
	return l.All
}

// crossEntropy takes the loss of a row from its maximum, sum of exponentials and
// label's logit.
func crossEntropy(p mutants.Parts, loss func(m, sum, x float32) float32) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		x, losses, dx := c.In("logits"), c.In("loss"), c.In("dlogits")
		ignore, scale := int32(c.Params[0]), c.Param("scale")
		for r := range x.Rows {
			label := c.Index[r]
			if label == ignore || label < 0 || int(label) >= x.Cols {
				continue // both outputs are +0
			}
			m, sum := mutants.SoftmaxRow(p, x.Row(r), dx.Row(r))
			losses.Row(r)[0] = loss(m, sum, x.Row(r)[label])
			for i, v := range dx.Row(r) {
				if i == int(label) {
					v = p.Step(v - 1)
				}
				dx.Row(r)[i] = scale * v
			}
		}
	}
}

// lossOf is the loss of the definition.
func lossOf(p mutants.Parts) func(m, sum, x float32) float32 {
	return func(m, sum, x float32) float32 { return p.Step(p.Log(sum)) - p.Step(x-m) }
}

func right() []mutants.Mutant {
	l := mutants.NewList(crossentropy.Operations)
	body := func(p mutants.Parts) func(*mutants.Call) { return crossEntropy(p, lossOf(p)) }
	l.InOrders(crossentropy.Definition, num.F16, body, "sequential", "pairwise")
	l.AddReferenceOrder()
	l.InOrders(crossentropy.Definition, num.F32, body, "lanes-16")
	stableRight(l)
	return l.All
}

// peers returns plain kernels of the definitions, made of the given parts.
func peers(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
	return map[*def.Definition]func(*mutants.Call){crossentropy.Definition: crossEntropy(p, lossOf(p))}
}
