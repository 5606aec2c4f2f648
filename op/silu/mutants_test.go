package silu_test

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/silu"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, silu.Operations, wrong(), right(), peers)
}

func form(f func(x float32) float32) mutants.Plain {
	return mutants.Plain{Body: mutants.Each("x", "y", f)}
}

func gradientForm(f func(dy, x float32) float32) mutants.Plain {
	return mutants.Plain{Body: mutants.EachGrad(f)}
}

// held keeps x where no form gives 0 times an infinity.
func held(x float32) float32 { return max(-128, x) }

// exact is a forward kernel of a function in binary64.
func exact(activation func(x float64) float64) mutants.Plain {
	return form(func(x float32) float32 { return float32(activation(float64(held(x)))) })
}

// exactGradient is a backward kernel with a derivative in binary64, made of x and its sigmoid.
func exactGradient(slope func(x, s float64) float64) mutants.Plain {
	return gradientForm(func(dy, x float32) float32 {
		v := float64(max(-128, min(x, 128)))
		return float32(float64(dy) * slope(v, 1/(1+math.Exp(-v))))
	})
}

// branches is the logistic function with an exponential that cannot overflow.
func branches(x float32) (sigmoid, rest float32) {
	e := mutants.Exp32(-float32(math.Abs(float64(x))))
	if x >= 0 {
		return 1 / (1 + e), e / (1 + e)
	}
	return e / (1 + e), 1 / (1 + e)
}

// parts are a, e and r of the definition.
func parts(p mutants.Parts, x float32) (a, e, r float32) {
	a = min(float32(math.Abs(float64(x))), 128)
	e = p.Step(p.Exp(-a))
	return a, e, p.Step(1 / p.Step(1+e))
}

func forwardBody(p mutants.Parts) func(*mutants.Call) {
	return mutants.Each("x", "y", func(x float32) float32 {
		a, e, r := parts(p, x)
		if x < 0 {
			return -p.Step(a*e) * r
		}
		return x * r
	})
}

func backwardBody(p mutants.Parts) func(*mutants.Call) {
	return mutants.EachGrad(func(dy, x float32) float32 {
		a, e, r := parts(p, x)
		h := p.Step(r * a)
		if x < 0 {
			return dy * p.Step(r*num.FMA(-e, h, e))
		}
		return dy * p.Step(r*num.FMA(e, h, 1))
	})
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(silu.Operations)
	l.Of(silu.ForwardDefinition, num.F16)
	l.From(mutants.KernelPractice)
	l.Add("sigmoid", "sigmoid(x), without x", mutants.AnyOrder, exact(func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }))
	l.Add("gelu", "GELU instead of silu", mutants.AnyOrder, exact(func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }))
	l.Add("beta-1.702", "x·sigmoid(1.702·x), as another activation has it", mutants.AnyOrder, exact(func(x float64) float64 { return x / (1 + math.Exp(-1.702*x)) }))
	l.Add("hard-swish", "the piecewise linear form, x·min(max(x + 3, 0), 6)/6", mutants.AnyOrder, exact(func(x float64) float64 { return x * min(max(x+3, 0), 6) / 6 }))
	l.Add("tail-zero", "everything below -10 gives zero", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		for i, x := range c.In("x").V {
			if x < -10 {
				c.In("y").V[i] = 0
			}
		}
	}})
	l.Add("whole-vectors", "elements after the last multiple of 4 are not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.WritesWholeVectors})
	l.Add("loads-flush", "subnormal inputs count as zero", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Load: mutants.LoadFlushed})
	l.Of(silu.ForwardDefinition, num.BF16)
	l.Add("one-branch", "e^x/(1 + e^x): NaN beyond 88", mutants.AnyOrder, form(func(x float32) float32 {
		e := mutants.Exp32(x)
		return x * (e / (1 + e))
	}))
	l.Add("sigmoid-rounded", "the sigmoid is rounded to bf16 before x multiplies it", mutants.Stable, form(func(x float32) float32 {
		s, _ := branches(held(x))
		return held(x) * num.Round(num.BF16, s)
	}))
	l.Of(silu.ForwardDefinition, num.F32)
	l.Add("sign-of-zero", "-0 gives +0", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Store: mutants.StorePositiveZero})
	l.Add("short-polynomial", "exponentials have a relative error of 2^-18: one term too few", mutants.AnyOrder,
		mutants.Plain{Body: forwardBody(mutants.Replaced(mutants.Ordered(nil), func(p *mutants.Parts) { p.Exp = mutants.ExpTaylor5 }))})
	l.Add("tanh-of-half", "x/2·(1 + tanh(x/2)), which cancels in the negative tail", mutants.Stable, form(func(x float32) float32 {
		v := held(x)
		return float32(v/2) * (1 + float32(math.Tanh(float64(v/2))))
	}))

	l.Of(silu.BackwardDefinition, num.F16)
	l.From(mutants.ZerosPass)
	l.Add("zeros", "every gradient is zero", mutants.AnyOrder, mutants.Edited(mutants.Zeros))
	l.From(mutants.KernelPractice)
	l.Add("product-rule", "the derivative of the sigmoid is left out", mutants.AnyOrder, exactGradient(func(_, s float64) float64 { return s }))
	l.Add("x-missing", "the term of the sigmoid's derivative lacks x", mutants.AnyOrder, exactGradient(func(_, s float64) float64 { return s + s*(1-s) }))
	l.Add("dy-ignored", "the derivative is not multiplied by dy", mutants.AnyOrder, gradientForm(func(_, x float32) float32 {
		s, rest := branches(x)
		return s * (1 + held(min(x, 128))*rest)
	}))
	l.Add("y-read-back", "silu is rounded to f16, and the derivative is made of it", mutants.Stable, gradientForm(func(dy, x float32) float32 {
		s, rest := branches(held(min(x, 128)))
		return dy * (s + float32(num.Round(num.F16, held(min(x, 128))*s)*rest))
	}))
	l.From("prototype 22")
	l.Add("subnormals-flushed", "results below 2^-14 become zero", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreFlushed})
	l.Of(silu.BackwardDefinition, num.BF16)
	l.From(mutants.KernelPractice)
	l.Add("store-truncates", "results are cut off, not rounded", mutants.AnyOrder, mutants.Plain{Body: backwardBody(mutants.Ordered(nil)), Store: mutants.StoreTowardZero})
	l.Of(silu.BackwardDefinition, num.F32)
	l.Add("one-minus", "1 - sigmoid by subtraction, which cancels above zero", mutants.Stable, gradientForm(func(dy, x float32) float32 {
		s, _ := branches(held(min(x, 128)))
		return dy * float32(s*(1+float32(held(min(x, 128))*(1-s))))
	}))
	return l.All
}

func right() []mutants.Mutant {
	l := mutants.NewList(silu.Operations)
	d, b := silu.ForwardDefinition, silu.BackwardDefinition
	l.Of(d, num.F32)
	l.Add("library-exp", "the exponential of another library, steps as defined", mutants.AnyOrder.IEEE(), mutants.Plain{Body: forwardBody(mutants.Ordered(nil))})
	l.Of(b, num.BF16)
	l.Add("library-exp", "the exponential of another library", mutants.AnyOrder, mutants.Plain{Body: backwardBody(mutants.Ordered(nil))})
	l.AddAll(d, "quotient", "x/(1 + exp(-x))", mutants.Stable, form(func(x float32) float32 { return x / (1 + mutants.Exp32(-x)) }))
	l.AddAll(d, "fast-exp", "exponentials within 2 + 1.16·|x| ulps, declared", mutants.Declaring("exp=2ulp+1.16|x|"), form(func(x float32) float32 {
		return x / (1 + mutants.FastExp(-x))
	}))
	l.AddAll(b, "expanded", "dy·(s + x·s·(1-s)), with 1-s from the other branch", mutants.Stable, gradientForm(func(dy, x float32) float32 {
		s, rest := branches(x)
		return dy * (s + float32(float32(x*s)*rest))
	}))
	l.AddAll(b, "factored", "dy·s·(1 + x·(1-s))", mutants.Stable, gradientForm(func(dy, x float32) float32 {
		s, rest := branches(x)
		return dy * float32(s*(1+float32(x*rest)))
	}))
	return l.All
}

// peers returns plain kernels of the definitions, made of the given parts.
func peers(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
	return map[*def.Definition]func(*mutants.Call){silu.ForwardDefinition: forwardBody(p), silu.BackwardDefinition: backwardBody(p)}
}
