package mutants

import (
	"math"

	"tokitai/num"
	"tokitai/op/adamw"
)

// adamWith is AdamW with some of its numbers changed.
func adamWith(change func(a *adamStep)) plain {
	return plain{body: adam(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		change(&a)
		return a.step(w, m, v, g)
	})}
}

func adamwMutants() []Mutant {
	l := &list{}
	stepping := func(step func(a adamStep, w, m, v, g float32) (nw, nm, nv float32)) plain {
		return plain{body: adam(step)}
	}

	l.of(adamw.InPlaceDefinition, num.F16)
	l.from(practice)
	l.add("betas-swapped", "beta1 and beta2 are exchanged", bits, adamWith(func(a *adamStep) {
		a.beta1, a.beta2, a.rest1, a.rest2 = a.beta2, a.beta1, a.rest2, a.rest1
	}))
	l.add("no-bias-correction", "v is not corrected for its start at zero", anyOrder, adamWith(func(a *adamStep) { a.inverse = 1 }))
	l.add("coupled-decay", "the decay is added to the gradient, as in Adam with L2", anyOrder, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		g += a.decay * w
		a.decay = 0
		return a.step(w, m, v, g)
	}))
	l.add("rate-squared", "the learning rate is applied twice", anyOrder, adamWith(func(a *adamStep) { a.stepSize *= a.stepSize }))
	l.add("no-decay", "weights do not decay", anyOrder, adamWith(func(a *adamStep) { a.decay = 0 }))
	l.add("no-eps", "eps is left out", anyOrder, adamWith(func(a *adamStep) { a.eps = 0 }))
	l.add("old-moment", "the step is taken with the m of the step before", anyOrder, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, nv := a.step(w, m, v, g)
		d := num.Sqrt(nv)*a.inverse + a.eps
		return w - (a.stepSize*(m/d) + a.decay*w), nm, nv
	}))
	l.add("gradient-not-squared", "v is the mean of the gradients' sizes", anyOrder, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, _ := a.step(w, m, v, g)
		nv := a.beta2*v + a.rest2*float32(math.Abs(float64(g)))
		d := num.Sqrt(nv)*a.inverse + a.eps
		return w - (a.stepSize*(nm/d) + a.decay*w), nm, nv
	}))
	l.add("uphill", "the step goes up, not down", bits, adamWith(func(a *adamStep) { a.stepSize = -a.stepSize }))
	l.from(simulated)
	l.add("eps-inside", "eps is added under the root", anyOrder, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, nv := a.step(w, m, v, g)
		d := num.Sqrt(nv*a.inverse*a.inverse + a.eps)
		return w - (a.stepSize*(nm/d) + a.decay*w), nm, nv
	}))
	l.add("moment-rounded", "m is rounded to f16 before it is used", anyOrder, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, nv := a.step(w, m, v, g)
		d := num.Sqrt(nv)*a.inverse + a.eps
		return w - (a.stepSize*(num.Round(num.F16, nm)/d) + a.decay*w), nm, nv
	}))
	l.add("f16-state", "m and v are kept in f16", anyOrder, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		nw, nm, nv := a.step(w, num.Round(num.F16, m), num.Round(num.F16, v), g)
		return nw, num.Round(num.F16, nm), num.Round(num.F16, nv)
	}))
	l.add("store-truncates", "the new weight is cut off, not rounded", anyOrder, plain{body: adam(adamStep.step), store: func(d num.DType, v float32) uint32 {
		if d == num.F32 {
			return num.Narrow(d, v)
		}
		return storeTowardZero(d, v)
	}})
	l.of(adamw.InPlaceDefinition, num.F32)
	l.from("prototype 4")
	l.add("six-digits", "m and v pass through text with six digits", anyOrder, plain{body: adam(adamStep.step), store: storeText})
	l.from(practice)
	l.add("rest-in-binary32", "1-beta is computed from the rounded beta", anyOrder, adamWith(func(a *adamStep) {
		a.rest1, a.rest2 = 1-a.beta1, 1-a.beta2
	}))
	l.add("decay-after", "the decay is that of the new weight", bits, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		decay := a.decay
		a.decay = 0
		nw, nm, nv := a.step(w, m, v, g)
		return nw - float32(decay*nw), nm, nv
	}))
	l.add("weights-only", "m and v are not written", bits, plain{body: answer, puts: firstOutput})
	l.of(adamw.InPlaceDefinition, num.BF16)
	l.add("weight-kept", "the weight does not move", anyOrder, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, nv := a.step(w, m, v, g)
		return w, nm, nv
	}))

	inCopy := func(c *call, change func(copy matrix)) { change(c.in("copy")) }
	l.of(adamw.MasterDefinition, num.F16)
	l.from(practice)
	l.add("copy-of-the-old", "the copy is that of the old weight", bits, plain{body: func(c *call) {
		old := append([]float32{}, c.in("weight").v...)
		answer(c)
		copy(c.in("copy").v, old)
	}})
	l.add("weight-from-copy", "the weight is rounded like its copy: updates are lost", anyOrder, plain{body: answer, edit: func(c *call) {
		i := c.position("copy")
		for k, v := range c.x[i].v {
			c.in("weight").v[k] = num.Round(c.a[i].DType, v)
		}
	}})
	l.add("copy-truncated", "the copy is cut off, not rounded", anyOrder, plain{body: adam(adamStep.step), store: func(d num.DType, v float32) uint32 {
		if d == num.F32 {
			return num.Narrow(d, v)
		}
		return storeTowardZero(d, v)
	}})
	l.add("copy-not-written", "the copy is not written", bits, plain{body: answer, puts: func(c *call, i, _, _ int) bool { return i != c.position("copy") }})
	l.add("copy-tail", "the copy's last row is not written", bits, plain{body: answer, puts: func(c *call, i, r, _ int) bool {
		return i != c.position("copy") || r < c.a[i].Rows-1
	}})
	l.from(simulated)
	l.add("copy-via-8-bits", "the copy is rounded to 8 bits first", anyOrder, plain{body: answer, edit: func(c *call) {
		inCopy(c, func(m matrix) {
			for i, v := range m.v {
				m.v[i] = keepBits(8)(float64(v))
			}
		})
	}})

	words := func(word func(c *call, e uint64) uint32) plain {
		return plain{body: answer, edit: func(c *call) {
			w, d := c.in("weight"), c.a[c.position("weight")].DType
			for i, v := range w.v {
				w.v[i] = num.StochasticRound(d, v, word(c, uint64(i)))
			}
		}}
	}
	seed := func(c *call) uint64 {
		return uint64(uint32(int32(c.params[8]))) | uint64(uint32(int32(c.params[9])))<<32
	}
	number := func(c *call, i int) uint32 { return uint32(int32(c.params[i])) }
	l.of(adamw.StochasticDefinition, num.BF16)
	l.from(practice)
	l.add("nearest", "weights are rounded to nearest", bits, plain{body: answer})
	l.add("counter-off-by-one", "every element takes its neighbour's random word", bits, words(func(c *call, e uint64) uint32 {
		return num.RandomWord(seed(c), number(c, 10), number(c, 11), e+1)
	}))
	l.add("word-for-four", "four elements share a random word", bits, words(func(c *call, e uint64) uint32 {
		return num.RandomWord(seed(c), number(c, 10), number(c, 11), e&^3)
	}))
	l.add("half-seed", "the seed's upper half is ignored", bits, words(func(c *call, e uint64) uint32 {
		return num.RandomWord(seed(c)&math.MaxUint32, number(c, 10), number(c, 11), e)
	}))
	l.add("step-ignored", "every step takes the same random words", bits, words(func(c *call, e uint64) uint32 {
		return num.RandomWord(seed(c), number(c, 10), 1, e)
	}))
	l.add("tensor-ignored", "every tensor takes the same random words", bits, words(func(c *call, e uint64) uint32 {
		return num.RandomWord(seed(c), 0, number(c, 11), e)
	}))
	l.add("eight-random-bits", "only 8 random bits decide", bits, words(func(c *call, e uint64) uint32 {
		return num.RandomWord(seed(c), number(c, 10), number(c, 11), e) &^ 0xffffff
	}))
	l.of(adamw.StochasticDefinition, num.F16)
	l.add("always-down", "weights are cut off", bits, words(func(*call, uint64) uint32 { return math.MaxUint32 }))
	l.add("row-counter", "random words are counted from the beginning of each row", bits, words(func(c *call, e uint64) uint32 {
		return num.RandomWord(seed(c), number(c, 10), number(c, 11), e%uint64(c.a[0].Cols))
	}))
	return l.all
}
