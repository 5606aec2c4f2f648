package adamw_test

import (
	"math"

	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/verify/mutants"
)

// Kernels that promise to be stable: AdamW in the forms in which people write it, and steps
// that are a little wrong.

// stepOf is a step with moments and a weight of its own form.
type stepOf func(a adamStep, w, m, v, g float32) (nw, nm, nv float32)

// lerp moves from one number to the other, as PyTorch does: from the nearer one.
func lerp(from, to, by float32) float32 {
	if by < 0.5 {
		return from + float32(by*(to-from))
	}
	return to - float32((to-from)*(1-by))
}

// torchStep takes the steps of PyTorch's own kernel: decay first, then m and v, then the step
// size times m, and the quotient last.
func torchStep(a adamStep, w, m, v, g float32) (nw, nm, nv float32) {
	w = w * (1 - a.decay)
	nm = float32(m*a.beta1) + float32(a.rest1*g)
	nv = float32(v*a.beta2) + float32(float32(a.rest2*g)*g)
	d := num.Sqrt(nv)/(1/a.inverse) + a.eps
	return w - float32(a.stepSize*nm)/d, nm, nv
}

// lerpStep has an m that moves toward the gradient, which it squares before it scales.
func lerpStep(a adamStep, w, m, v, g float32) (nw, nm, nv float32) {
	nm = lerp(m, g, a.rest1)
	nv = num.FMA(v, a.beta2, float32(a.rest2*float32(g*g)))
	d := float32(num.Sqrt(nv)*a.inverse) + a.eps
	return w - (float32(a.stepSize*(nm/d)) + float32(a.decay*w)), nm, nv
}

// reciprocalStep multiplies by 1/d.
func reciprocalStep(a adamStep, w, m, v, g float32) (nw, nm, nv float32) {
	nm = num.FMA(a.rest1, g, float32(a.beta1*m))
	nv = num.FMA(float32(a.rest2*g), g, float32(a.beta2*v))
	r := 1 / num.FMA(num.Sqrt(nv), a.inverse, a.eps)
	return num.FMA(-a.stepSize, float32(nm*r), num.FMA(-a.decay, w, w)), nm, nv
}

// binary64Step computes in binary64 and rounds once.
func binary64Step(a adamStep, w, m, v, g float32) (nw, nm, nv float32) {
	m64 := float64(a.beta1)*float64(m) + float64(a.rest1)*float64(g)
	v64 := float64(a.beta2)*float64(v) + float64(a.rest2)*float64(g)*float64(g)
	d := math.Sqrt(v64)*float64(a.inverse) + float64(a.eps)
	return float32(float64(w) - (float64(a.stepSize)*(m64/d) + float64(a.decay)*float64(w))), float32(m64), float32(v64)
}

func stableRight(l *mutants.List) {
	for _, form := range []struct {
		name, text string
		c          mutants.Promise
		step       stepOf
	}{
		{"torch-order", "PyTorch's order: weight·(1 - lr·decay) first, then m and v, then (step_size·m)/d", mutants.Stable, torchStep},
		{"lerp", "m + (1-beta)·(grad - m), (1-beta)·(grad·grad)", mutants.Stable, lerpStep},
		{"reciprocal", "fused multiply-adds, and the reciprocal of the denominator", mutants.Stable, reciprocalStep},
		{"fast-division", "quotients within 2 ulps, declared", mutants.Declaring("div=2ulp"), func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
			_, nm, nv := a.step(w, m, v, g)
			d := float32(num.Sqrt(nv)*a.inverse) + a.eps
			return w - (float32(a.stepSize*mutants.FastDivide(2)(nm, d)) + float32(a.decay*w)), nm, nv
		}},
		{"fast-root", "the root within 1 ulp, declared", mutants.Declaring("sqrt=1ulp"), func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
			_, nm, nv := a.step(w, m, v, g)
			d := float32(mutants.FastSqrt(1)(nv)*a.inverse) + a.eps
			return w - (float32(a.stepSize*(nm/d)) + float32(a.decay*w)), nm, nv
		}},
	} {
		l.AddAll(adamw.InPlaceDefinition, form.name, form.text, form.c, mutants.Plain{Body: adam(form.step)})
	}
	l.AddAll(adamw.MasterDefinition, "torch-order", "PyTorch's order", mutants.Stable, mutants.Plain{Body: adam(torchStep)})
	l.AddAll(adamw.StochasticDefinition, "torch-order", "PyTorch's order, rounded by the definition's random words", mutants.Stable, rounding(adam(torchStep), ownWord))
	l.AddAll(adamw.MasterDefinition, "binary64", "everything in binary64, rounded once", mutants.Stable, mutants.Plain{Body: adam(binary64Step)})
}

func stableWrong(l *mutants.List) {
	d := adamw.InPlaceDefinition
	add := func(name, fault string, step stepOf) {
		l.Add(name, fault, mutants.Stable, mutants.Plain{Body: adam(step)})
	}
	l.From(mutants.KernelPractice)
	l.Of(d, num.F32)
	add("decay-omitted", "the weight is not multiplied by 1 - lr·decay", func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		a.decay = 0
		return torchStep(a, w, m, v, g)
	})
	add("decay-larger", "the decay is larger by 2^-10", func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		a.decay *= 1 + 0x1p-10
		return torchStep(a, w, m, v, g)
	})
	add("square-of-mean", "v takes the square of the new m, not of the gradient", func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, _ := a.step(w, m, v, g)
		nv := float32(a.beta2*v) + float32(float32(a.rest2*nm)*nm)
		return w - (float32(a.stepSize*(nm/(float32(num.Sqrt(nv)*a.inverse)+a.eps))) + float32(a.decay*w)), nm, nv
	})
	add("eps-scaled", "eps is divided by the root of bc2 too", func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, nv := a.step(w, m, v, g)
		return w - (float32(a.stepSize*(nm/((num.Sqrt(nv)+a.eps)*a.inverse))) + float32(a.decay*w)), nm, nv
	})
	add("old-v", "the denominator has the v of the step before", func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, nv := a.step(w, m, v, g)
		return w - (float32(a.stepSize*(nm/(float32(num.Sqrt(v)*a.inverse)+a.eps))) + float32(a.decay*w)), nm, nv
	})
	add("gradient-held", "gradients beyond 1 are held at 1", func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		return a.step(w, m, v, max(-1, min(g, 1)))
	})
	add("amsgrad", "v never becomes smaller", func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, nv := a.step(w, m, v, g)
		nv = max(nv, v)
		return w - (float32(a.stepSize*(nm/(float32(num.Sqrt(nv)*a.inverse)+a.eps))) + float32(a.decay*w)), nm, nv
	})
	add("rsqrt-of-12-bits", "1/sqrt(v) has 12 bits, not declared", func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, nv := a.step(w, m, v, g)
		if !(nv > 0) || math.IsInf(float64(nv), 0) {
			return a.step(w, m, v, g)
		}
		d := float32(1/mutants.KeepBits(12)(1/math.Sqrt(float64(nv)))*a.inverse) + a.eps
		return w - (float32(a.stepSize*(nm/d)) + float32(a.decay*w)), nm, nv
	})
	add("nesterov", "the step looks ahead", func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		_, nm, nv := a.step(w, m, v, g)
		ahead := float32(a.beta1*nm) + float32(a.rest1*g)
		return w - (float32(a.stepSize*(ahead/(float32(num.Sqrt(nv)*a.inverse)+a.eps))) + float32(a.decay*w)), nm, nv
	})
	add("zero-gradient-skipped", "an element whose gradient is zero keeps weight and moments", func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		if g == 0 {
			return w, m, v
		}
		return a.step(w, m, v, g)
	})
	l.Of(d, num.BF16)
	add("update-in-bf16", "the update is rounded to bf16 before it is subtracted", func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		nw, nm, nv := a.step(w, m, v, g)
		return w - num.Round(num.BF16, w-nw), nm, nv
	})
	add("gradient-in-f16", "the gradient passes through f16", func(a adamStep, w, m, v, g float32) (float32, float32, float32) {
		return a.step(w, m, v, num.Round(num.F16, g))
	})
	l.Of(adamw.MasterDefinition, num.F16)
	l.Add("copy-of-decayed", "the copy has the decay but not the step", mutants.Stable, mutants.Plain{Body: func(c *mutants.Call) {
		a, old := adamParams(c), append([]float32{}, c.In("weight").V...)
		adam(torchStep)(c)
		for i, w := range old {
			c.In("copy").V[i] = w - a.decay*w
		}
	}})
	l.Of(adamw.StochasticDefinition, num.BF16)
	for _, k := range []struct {
		name, fault string
		word        wordOf
	}{
		{"neighbours-word", "every element takes its neighbour's random word", neighboursWord},
		{"first-words", "every step takes the same random words", firstStepsWord},
		{"short-words", "only 8 random bits decide", shortWord},
		{"always-down", "weights are cut off", func(*mutants.Call, uint64) uint32 { return math.MaxUint32 }},
		{"other-end", "a word rounds up where it should round down", func(c *mutants.Call, e uint64) uint32 { return ^ownWord(c, e) }},
	} {
		l.Add(k.name, k.fault, mutants.Stable, rounding(adam(torchStep), k.word))
	}
	l.Add("to-nearest", "weights are rounded to nearest", mutants.Stable, mutants.Plain{Body: adam(torchStep)})
}

// cheats adds kernels that are right only where somebody looks.
func cheats(l *mutants.List) {
	l.From(mutants.KernelPractice)
	l.Of(adamw.InPlaceDefinition, num.F32)
	l.AddCheats(mutants.Answer, "input-as-scratch", "listed-shapes", "50-calls", "offsets-in-f32", "many-workers", "cancelled-half-way", "cache-by-64-samples")
}
