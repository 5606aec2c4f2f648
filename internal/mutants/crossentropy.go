package mutants

import (
	"math"

	"tokitai/num"
	"tokitai/op/crossentropy"
)

func crossentropyMutants() []Mutant {
	l := &list{}
	honest := ordered(inLanes(16))
	param := func(change func(p []float64, c *call)) plain {
		return plain{before: func(c *call) error { change(c.params, c); return nil }, body: answer}
	}
	const ignore, scale = 0, 1 // positions of the parameters

	l.of(crossentropy.Definition, num.F16)
	l.from(practice)
	l.add("label-off-by-one", "the label counts from 1", bits, plain{body: func(c *call) {
		for r, v := range c.index {
			if v > 0 && v != int32(c.params[ignore]) {
				c.index[r]--
			}
		}
		answer(c)
	}})
	l.add("ignore-not-honoured", "a row to be ignored has the gradient of a row without a label", anyOrder, plain{body: func(c *call) {
		crossEntropy(honest, honest.loss)(c)
		for r, v := range c.index {
			if v == int32(c.params[ignore]) {
				softmaxRow(honest, c.in("logits").row(r), c.in("dlogits").row(r))
			}
		}
	}})
	l.add("ignore-is-fixed", "-100 is ignored, whatever the parameter says", bits, plain{body: answer, before: func(c *call) error {
		c.params[ignore] = -100
		return nil
	}})
	l.add("masked-by-product", "an ignored row is multiplied by zero: NaN stays", bits, plain{body: answer, edit: func(c *call) {
		for r, v := range c.index {
			if v == int32(c.params[ignore]) {
				for i, x := range c.in("logits").row(r) {
					c.in("dlogits").row(r)[i] = 0 * x
				}
			}
		}
	}})
	l.add("scale-forgotten", "the gradient is not scaled", anyOrder, param(func(p []float64, _ *call) { p[scale] = 1 }))
	l.add("mean", "the gradient is that of the mean", bits, param(func(p []float64, c *call) { p[scale] /= float64(c.a[0].Rows) }))
	l.add("sign", "the gradient has the wrong sign", bits, param(func(p []float64, _ *call) { p[scale] = -p[scale] }))
	l.add("probability-rounded", "probabilities are rounded to f16 before the label's 1 is subtracted", lanes16, plain{body: crossEntropy(
		replaced(honest, func(p *parts) { p.normalise = func(e, s float32) float32 { return num.Round(num.F16, e*(1/s)) } }), honest.loss)})
	l.add("exp-rounded", "exponentials are rounded to f16", lanes16, plain{body: crossEntropy(
		replaced(honest, func(p *parts) { p.exp = func(x float32) float32 { return num.Round(num.F16, exp32(x)) } }), honest.loss)})
	l.add("loss-rounded", "the loss is rounded to f16 on its way", lanes16, plain{body: crossEntropy(honest,
		func(m, sum, x float32) float32 { return num.Round(num.F16, honest.loss(m, sum, x)) })})
	l.add("log-2", "the loss is in bits", anyOrder, plain{body: crossEntropy(honest, func(m, sum, x float32) float32 {
		return float32(math.Log2(float64(sum))) - (x - m)
	})})
	l.add("negative-label-wraps", "label -1 means the last column", bits, plain{body: func(c *call) {
		for r, v := range c.index {
			if v < 0 && v != int32(c.params[ignore]) && -int(v) <= c.a[0].Cols {
				c.index[r] += int32(c.a[0].Cols)
			}
		}
		answer(c)
	}})
	l.add("ignored-row-not-written", "the gradient of an ignored row keeps what was there", bits, plain{body: answer, puts: func(c *call, i, r, _ int) bool {
		return i != c.position("dlogits") || c.index[r] != int32(c.params[ignore])
	}})
	l.from("Liger-Kernel#968")
	l.add("no-gradient", "the gradient is zero", anyOrder, plain{body: answer, edit: func(c *call) { zeros(c.in("dlogits")) }})
	l.from("Liger-Kernel#507")
	l.add("no-loss", "the loss is zero", anyOrder, plain{body: answer, edit: func(c *call) { zeros(c.in("loss")) }})
	l.from("Liger-Kernel#272")
	l.add("loss-after-gradient", "in place the label's logit is read after it has been overwritten", bits, plain{body: answer,
		write: func(c *call, i int, v matrix, k *plain) {
			if i == c.position("dlogits") {
				k.put(c, i, v)
				for r, label := range c.index { // the loss is taken last
					if label < 0 || int(label) >= v.cols || label == int32(c.params[ignore]) {
						continue
					}
					before, now := c.in("logits").row(r)[label], c.a[c.position("logits")].At(r, int(label))
					if loss := c.in("loss").row(r)[0]; before != now && now == now {
						c.a[c.position("loss")].Set(r, 0, loss+(before-now))
					}
				}
				return
			}
			k.put(c, i, v)
		}})
	l.from(practice)
	l.of(crossentropy.Definition, num.F32)
	l.add("loss-cancels", "the maximum is added to the logarithm before the label's logit is subtracted", lanes16, plain{body: crossEntropy(honest,
		func(m, sum, x float32) float32 { return m + log32(sum) - x })})
	l.add("f16-inside", "logits are taken as f16", anyOrder, plain{body: answer, load: func(a num.Array, r, c int) float32 { return num.Round(num.F16, a.At(r, c)) }})
	l.of(crossentropy.Definition, num.BF16)
	l.add("whole-vectors", "columns after the last multiple of 4 are not written", anyOrder, plain{body: crossEntropy(honest, honest.loss),
		puts: func(c *call, i, r, col int) bool { return c.a[i].Cols == 1 || writesWholeVectors(c, i, r, col) }})
	l.add("store-truncates", "results are cut off, not rounded", lanes16, plain{body: crossEntropy(honest, honest.loss), store: storeTowardZero})
	return l.all
}
