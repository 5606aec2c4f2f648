package adamw_test

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, adamw.Operations, wrong(), right(), peers)
}

// adamWith is AdamW with some of its numbers changed.
func adamWith(change func(a *adamStep)) mutants.Plain {
	return mutants.Plain{Body: adam(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		change(&a)
		return a.step(w, m, v, g)
	})}
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(adamw.Operations)
	stepping := func(step func(a adamStep, w, m, v, g float32) (nw, nm, nv float32)) mutants.Plain {
		return mutants.Plain{Body: adam(step)}
	}

	l.Of(adamw.InPlaceDefinition, num.F16)
	l.From(mutants.KernelPractice)
	l.Add("betas-swapped", "beta1 and beta2 are exchanged", mutants.PromisesBits, adamWith(func(a *adamStep) {
		a.beta1, a.beta2, a.rest1, a.rest2 = a.beta2, a.beta1, a.rest2, a.rest1
	}))
	l.Add("no-bias-correction", "v is not corrected for its start at zero", mutants.AnyOrder, adamWith(func(a *adamStep) { a.inverse = 1 }))
	l.Add("coupled-decay", "the decay is added to the gradient, as in Adam with L2", mutants.AnyOrder, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		g += a.decay * w
		a.decay = 0
		return a.step(w, m, v, g)
	}))
	l.Add("rate-squared", "the learning rate is applied twice", mutants.AnyOrder, adamWith(func(a *adamStep) { a.stepSize *= a.stepSize }))
	l.Add("no-decay", "weights do not decay", mutants.AnyOrder, adamWith(func(a *adamStep) { a.decay = 0 }))
	l.Add("no-eps", "eps is left out", mutants.AnyOrder, adamWith(func(a *adamStep) { a.eps = 0 }))
	l.Add("old-moment", "the step is taken with the m of the step before", mutants.AnyOrder, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, nv := a.step(w, m, v, g)
		d := num.Sqrt(nv)*a.inverse + a.eps
		return w - (a.stepSize*(m/d) + a.decay*w), nm, nv
	}))
	l.Add("gradient-not-squared", "v is the mean of the gradients' sizes", mutants.AnyOrder, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, _ := a.step(w, m, v, g)
		nv := a.beta2*v + a.rest2*float32(math.Abs(float64(g)))
		d := num.Sqrt(nv)*a.inverse + a.eps
		return w - (a.stepSize*(nm/d) + a.decay*w), nm, nv
	}))
	l.Add("uphill", "the step goes up, not down", mutants.PromisesBits, adamWith(func(a *adamStep) { a.stepSize = -a.stepSize }))
	l.From(mutants.Simulated)
	l.Add("eps-inside", "eps is added under the root", mutants.AnyOrder, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, nv := a.step(w, m, v, g)
		d := num.Sqrt(nv*a.inverse*a.inverse + a.eps)
		return w - (a.stepSize*(nm/d) + a.decay*w), nm, nv
	}))
	l.Add("moment-rounded", "m is rounded to f16 before it is used", mutants.AnyOrder, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, nv := a.step(w, m, v, g)
		d := num.Sqrt(nv)*a.inverse + a.eps
		return w - (a.stepSize*(num.Round(num.F16, nm)/d) + a.decay*w), nm, nv
	}))
	l.Add("f16-state", "m and v are kept in f16", mutants.AnyOrder, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		nw, nm, nv := a.step(w, num.Round(num.F16, m), num.Round(num.F16, v), g)
		return nw, num.Round(num.F16, nm), num.Round(num.F16, nv)
	}))
	l.Add("store-truncates", "the new weight is cut off, not rounded", mutants.AnyOrder, mutants.Plain{Body: adam(adamStep.step), Store: func(d num.DType, v float32) uint32 {
		if d == num.F32 {
			return num.Narrow(d, v)
		}
		return mutants.StoreTowardZero(d, v)
	}})
	l.Of(adamw.InPlaceDefinition, num.F32)
	l.From("prototype 4")
	l.Add("six-digits", "m and v pass through text with six digits", mutants.AnyOrder, mutants.Plain{Body: adam(adamStep.step), Store: mutants.StoreText})
	l.From(mutants.KernelPractice)
	l.Add("rest-in-binary32", "1-beta is computed from the rounded beta", mutants.AnyOrder, adamWith(func(a *adamStep) {
		a.rest1, a.rest2 = 1-a.beta1, 1-a.beta2
	}))
	l.Add("decay-after", "the decay is that of the new weight", mutants.PromisesBits, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		decay := a.decay
		a.decay = 0
		nw, nm, nv := a.step(w, m, v, g)
		return nw - float32(decay*nw), nm, nv
	}))
	l.Add("weights-only", "m and v are not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.FirstOutput})
	l.Of(adamw.InPlaceDefinition, num.BF16)
	l.Add("weight-kept", "the weight does not move", mutants.AnyOrder, stepping(func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, nv := a.step(w, m, v, g)
		return w, nm, nv
	}))

	inCopy := func(c *mutants.Call, change func(copy mutants.Matrix)) { change(c.In("copy")) }
	l.Of(adamw.MasterDefinition, num.F16)
	l.From(mutants.KernelPractice)
	l.Add("copy-of-the-old", "the copy is that of the old weight", mutants.PromisesBits, mutants.Plain{Body: func(c *mutants.Call) {
		old := append([]float32{}, c.In("weight").V...)
		mutants.Answer(c)
		copy(c.In("copy").V, old)
	}})
	l.Add("weight-from-copy", "the weight is rounded like its copy: updates are lost", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		i := c.Position("copy")
		for k, v := range c.Operands[i].V {
			c.In("weight").V[k] = num.Round(c.Stored[i].DType, v)
		}
	}})
	l.Add("copy-truncated", "the copy is cut off, not rounded", mutants.AnyOrder, mutants.Plain{Body: adam(adamStep.step), Store: func(d num.DType, v float32) uint32 {
		if d == num.F32 {
			return num.Narrow(d, v)
		}
		return mutants.StoreTowardZero(d, v)
	}})
	l.Of(adamw.MasterDefinition, num.BF16)
	l.Level = mutants.Quick
	l.Add("copy-by-integers", "the copy is rounded by an addition of integers: NaN becomes zero", mutants.AnyOrder, mutants.Plain{Body: adam(adamStep.step), Store: func(d num.DType, v float32) uint32 {
		if d != num.BF16 {
			return num.Narrow(d, v)
		}
		bits := math.Float32bits(v)
		return (bits + 0x7fff + bits>>16&1) >> 16
	}})
	l.Level = mutants.Smoke
	l.Of(adamw.MasterDefinition, num.F16)
	l.Add("copy-not-written", "the copy is not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: func(c *mutants.Call, i, _, _ int) bool { return i != c.Position("copy") }})
	l.Add("copy-tail", "the copy's last row is not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: func(c *mutants.Call, i, r, _ int) bool {
		return i != c.Position("copy") || r < c.Stored[i].Rows-1
	}})
	l.From(mutants.Simulated)
	l.Add("copy-via-8-bits", "the copy is rounded to 8 bits first", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		inCopy(c, func(m mutants.Matrix) {
			for i, v := range m.V {
				m.V[i] = mutants.KeepBits(8)(float64(v))
			}
		})
	}})

	words := func(word wordOf) mutants.Plain { return rounding(mutants.Answer, word) }
	l.Of(adamw.StochasticDefinition, num.BF16)
	l.From(mutants.KernelPractice)
	l.Add("nearest", "weights are rounded to nearest", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer})
	l.Add("counter-off-by-one", "every element takes its neighbour's random word", mutants.PromisesBits, words(neighboursWord))
	l.Add("word-for-four", "four elements share a random word", mutants.PromisesBits, words(func(c *mutants.Call, e uint64) uint32 {
		return ownWord(c, e&^3)
	}))
	l.Add("half-seed", "the seed's upper half is ignored", mutants.PromisesBits, words(func(c *mutants.Call, e uint64) uint32 {
		return num.RandomWord(seed(c)&math.MaxUint32, number(c, 10), number(c, 11), e)
	}))
	l.Add("step-ignored", "every step takes the same random words", mutants.PromisesBits, words(firstStepsWord))
	l.Add("tensor-ignored", "every tensor takes the same random words", mutants.PromisesBits, words(func(c *mutants.Call, e uint64) uint32 {
		return num.RandomWord(seed(c), 0, number(c, 11), e)
	}))
	l.Add("eight-random-bits", "only 8 random bits decide", mutants.PromisesBits, words(shortWord))
	l.Of(adamw.StochasticDefinition, num.F16)
	l.Add("always-down", "weights are cut off", mutants.PromisesBits, words(func(*mutants.Call, uint64) uint32 { return math.MaxUint32 }))
	l.Add("row-counter", "random words are counted from the beginning of each row", mutants.PromisesBits, words(func(c *mutants.Call, e uint64) uint32 {
		return ownWord(c, e%uint64(c.Stored[0].Cols))
	}))
	stableWrong(l)
	cheats(l)
	return l.All
}

// wordOf is the random word by which element e is rounded.
type wordOf func(c *mutants.Call, e uint64) uint32

// rounding rounds the new weights of a kernel stochastically.
func rounding(step func(c *mutants.Call), word wordOf) mutants.Plain {
	return mutants.Plain{Body: step, Edit: func(c *mutants.Call) {
		w, d := c.In("weight"), c.Stored[c.Position("weight")].DType
		for i, v := range w.V {
			w.V[i] = num.StochasticRound(d, v, word(c, uint64(i)))
		}
	}}
}

func seed(c *mutants.Call) uint64 {
	return uint64(uint32(int32(c.Params[8]))) | uint64(uint32(int32(c.Params[9])))<<32
}

func number(c *mutants.Call, i int) uint32 { return uint32(int32(c.Params[i])) }

func ownWord(c *mutants.Call, e uint64) uint32 {
	return num.RandomWord(seed(c), number(c, 10), number(c, 11), e)
}

func neighboursWord(c *mutants.Call, e uint64) uint32 { return ownWord(c, e+1) }

func firstStepsWord(c *mutants.Call, e uint64) uint32 {
	return num.RandomWord(seed(c), number(c, 10), 1, e)
}

func shortWord(c *mutants.Call, e uint64) uint32 { return ownWord(c, e) &^ 0xffffff }

// adamStep is one element of AdamW.
type adamStep struct {
	beta1, rest1, beta2, rest2, stepSize, inverse, eps, decay float32
}

func adamParams(c *mutants.Call) adamStep {
	p := func(name string) float32 { return c.Param(name) }
	return adamStep{p("beta1"), p("one_minus_beta1"), p("beta2"), p("one_minus_beta2"), p("step_size"), p("inverse_sqrt_bc2"), p("eps"), p("decay")}
}

func (a adamStep) step(w, m, v, g float32) (nw, nm, nv float32) {
	nm = float32(a.beta1*m) + float32(a.rest1*g)
	nv = float32(a.beta2*v) + float32(float32(a.rest2*g)*g)
	d := float32(num.Sqrt(nv)*a.inverse) + a.eps
	return w - (float32(a.stepSize*(nm/d)) + float32(a.decay*w)), nm, nv
}

// adam is AdamW with a step of its own.
func adam(step func(a adamStep, w, m, v, g float32) (nw, nm, nv float32)) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		a := adamParams(c)
		w, m, v, g := c.In("weight").V, c.In("m").V, c.In("v").V, c.In("grad").V
		for i := range w {
			w[i], m[i], v[i] = step(a, w[i], m[i], v[i], g[i])
		}
		if i := c.Definition.Operand("copy"); i >= 0 {
			copy(c.Operands[i].V, w)
		}
	}
}

func right() []mutants.Mutant {
	l := mutants.NewList(adamw.Operations)
	l.Of(adamw.InPlaceDefinition, num.F16)
	l.Add("fused", "the moments with fused multiply-adds", mutants.AnyOrder, mutants.Plain{Body: adam(fusedStep)})
	l.Of(adamw.InPlaceDefinition, num.F32)
	l.Add("as-defined", "the definition's steps, each rounded", mutants.AnyOrder.IEEE(), mutants.Plain{Body: adam(adamStep.step)})
	l.Of(adamw.MasterDefinition, num.BF16)
	l.Add("as-defined", "the definition's steps, each rounded", mutants.AnyOrder, mutants.Plain{Body: adam(adamStep.step)})
	stableRight(l)
	return l.All
}

// fusedStep is a step of AdamW as a compiler would contract it.
func fusedStep(a adamStep, w, m, v, g float32) (nw, nm, nv float32) {
	nm = num.FMA(a.beta1, m, float32(a.rest1*g))
	nv = num.FMA(a.beta2, v, float32(float32(a.rest2*g)*g))
	d := num.FMA(num.Sqrt(nv), a.inverse, a.eps)
	return w - num.FMA(a.stepSize, nm/d, float32(a.decay*w)), nm, nv
}

// peers returns plain kernels of the definitions, made of the given parts.
func peers(mutants.Parts) map[*def.Definition]func(*mutants.Call) {
	return map[*def.Definition]func(*mutants.Call){
		adamw.InPlaceDefinition: adam(adamStep.step), adamw.MasterDefinition: adam(adamStep.step), adamw.StochasticDefinition: adam(adamStep.step),
	}
}
