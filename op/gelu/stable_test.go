package gelu_test

import (
	"math"

	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/verify/mutants"
)

// Kernels that promise to be stable: GELU in the forms in which people write it, and forms
// that cancel.

// argument is t of the definition for any sign, not held.
func argument(x float32) float32 {
	return x * num.FMA(geluCubic, x*x, geluSlope)
}

// slopeOf is the derivative of t.
func slopeOf(x float32) float32 { return num.FMA(geluTriple, x*x, geluSlope) }

// form and gradientForm are element by element, held at ±11, beyond which y is x or zero: so
// the infinities need no care.
func form(f func(x float32) float32) mutants.Plain {
	return mutants.Plain{Body: mutants.Each("x", "y", func(x float32) float32 {
		switch {
		case x > 11:
			return x
		case x < -11:
			return float32(math.Copysign(0, -1))
		}
		return f(x)
	})}
}

func gradientForm(f func(dy, x float32) float32) mutants.Plain {
	return mutants.Plain{Body: mutants.EachGrad(func(dy, x float32) float32 {
		switch {
		case x > 11:
			return dy
		case x < -11:
			return dy * 0
		}
		return f(dy, x)
	})}
}

// branches is the logistic function with an exponential that cannot overflow.
func branches(exp func(float32) float32, t float32) (sigmoid, rest float32) {
	if t >= 0 {
		e := exp(-t)
		return 1 / (1 + e), e / (1 + e)
	}
	e := exp(t)
	return e / (1 + e), 1 / (1 + e)
}

// tanhForm is x/2·(1 + tanh(t/2)), as PyTorch has it.
func tanhForm(tanh func(float32) float32) func(x float32) float32 {
	return func(x float32) float32 {
		const beta, kappa = 0.7978845608028654, 0.044715
		cube := float32(float32(x*x) * x)
		inner := float32(beta) * (x + float32(float32(kappa)*cube))
		return float32(0.5*x) * (1 + tanh(inner))
	}
}

func tanhOf(x float32) float32 { return float32(math.Tanh(float64(x))) }

// tanhGradient is the derivative of tanhForm, as PyTorch has it.
func tanhGradient(dy, x float32) float32 {
	const beta, kappa = 0.7978845608028654, 0.044715
	square := x * x
	inner := float32(beta) * (x + float32(float32(kappa)*float32(square*x)))
	t := tanhOf(inner)
	left, right := 0.5*x, 1+t
	slope := float32(beta) * (1 + float32(float32(3*kappa)*square))
	return dy * (float32(0.5*right) + float32(float32(left*(1-float32(t*t)))*slope))
}

func stableRight(l *mutants.List) {
	d := gelu.ForwardDefinition
	l.AddAll(d, "quotient", "x/(1 + exp(-t))", mutants.Stable, form(func(x float32) float32 { return x / (1 + mutants.Exp32(-argument(x))) }))
	l.AddAll(d, "two-branches", "x·sigmoid(t) with an exponential that cannot overflow", mutants.Stable, form(func(x float32) float32 {
		s, _ := branches(mutants.Exp32, argument(x))
		return x * s
	}))
	l.AddAll(d, "exp2", "x/(1 + 2^(-t·log2 e))", mutants.Stable, form(func(x float32) float32 { return x / (1 + mutants.Exp2(-argument(x))) }))
	l.AddAll(d, "cube", "t from x³, not from x²", mutants.Stable, form(func(x float32) float32 {
		t := float32(geluSlope*x) + float32(geluCubic*float32(float32(x*x)*x))
		return x / (1 + mutants.Exp32(-t))
	}))
	for _, dtype := range []num.DType{num.F16, num.F32} {
		l.Of(d, dtype)
		l.Add("tanh-torch", "x/2·(1 + tanh), under the profile torch", mutants.Declaring("profile=torch"), form(tanhForm(tanhOf)))
	}
	for _, dtype := range []num.DType{num.F16, num.BF16} {
		l.Of(d, dtype)
		l.Add("tanh-approximate", "x/2·(1 + tanh), where tanh is always too small, by up to 2^-11 of it, declared", mutants.Declaring("tanh=2^-11"), form(tanhForm(func(x float32) float32 {
			return tanhOf(x) * (1 - 0x1.fp-12)
		})))
	}
	l.AddAll(d, "fast-exp", "exponentials within 2 + 1.16·|x| ulps, declared", mutants.Declaring("exp=2ulp+1.16|x|"), form(func(x float32) float32 {
		return x / (1 + mutants.FastExp(-argument(x)))
	}))
	l.AddAll(d, "fast-division", "quotients within 2 ulps, declared", mutants.Declaring("div=2ulp"), form(func(x float32) float32 {
		return mutants.FastDivide(2)(x, 1+mutants.Exp32(-argument(x)))
	}))

	b := gelu.BackwardDefinition
	l.AddAll(b, "expanded", "dy·(s + x·s·(1-s)·t'), with 1-s from the other branch", mutants.Stable, gradientForm(func(dy, x float32) float32 {
		s, rest := branches(mutants.Exp32, argument(x))
		return dy * (s + float32(float32(float32(x*s)*rest)*slopeOf(x)))
	}))
	l.AddAll(b, "distributed", "dy·s + dy·x·s·(1-s)·t'", mutants.Stable, gradientForm(func(dy, x float32) float32 {
		s, rest := branches(mutants.Exp32, argument(x))
		return float32(dy*s) + float32(float32(dy*float32(x*s))*float32(rest*slopeOf(x)))
	}))
	l.AddAll(b, "factored", "dy·s·(1 + x·(1-s)·t')", mutants.Stable, gradientForm(func(dy, x float32) float32 {
		s, rest := branches(mutants.Exp32, argument(x))
		return dy * float32(s*(1+float32(float32(x*rest)*slopeOf(x))))
	}))
	for _, dtype := range []num.DType{num.F16, num.F32} {
		l.Of(b, dtype)
		l.Add("tanh-torch", "the derivative through tanh, under the profile torch", mutants.Declaring("profile=torch"), gradientForm(tanhGradient))
	}
	l.AddAll(b, "fast-exp", "exponentials within 2 + 1.16·|x| ulps, declared", mutants.Declaring("exp=2ulp+1.16|x|"), gradientForm(func(dy, x float32) float32 {
		s, rest := branches(mutants.FastExp, argument(x))
		return dy * float32(s*(1+float32(float32(x*rest)*slopeOf(x))))
	}))
}

func stableWrong(l *mutants.List) {
	d := gelu.ForwardDefinition
	l.From("PyTorch, gelu with tanh")
	l.AddAll(d, "tanh-form", "x/2·(1 + tanh), which cancels in the negative tail", mutants.Stable, mutants.Plain{Body: mutants.Each("x", "y", tanhForm(tanhOf))})
	l.From(mutants.KernelPractice)
	l.Of(d, num.F32)
	l.Add("one-branch", "e^t/(1 + e^t): NaN beyond 10", mutants.Stable, mutants.Plain{Body: mutants.Each("x", "y", func(x float32) float32 {
		e := mutants.Exp32(argument(x))
		return x * (e / (1 + e))
	})})
	l.Add("erf-by-five-terms", "the polynomial of Abramowitz and Stegun for erf: another function", mutants.Stable, form(func(x float32) float32 {
		z := math.Abs(float64(x)) / math.Sqrt2
		t := 1 / (1 + 0.3275911*z)
		erf := 1 - t*(0.254829592+t*(-0.284496736+t*(1.421413741+t*(-1.453152027+t*1.061405429))))*math.Exp(-z*z)
		return float32(0.5 * float64(x) * (1 + math.Copysign(erf, float64(x))))
	}))
	l.Add("held-at-6", "t is held at ±6", mutants.Stable, form(func(x float32) float32 {
		return x / (1 + mutants.Exp32(-max(-6, min(argument(x), 6))))
	}))
	l.Add("slope-of-0.8", "√(2/π) is taken as 0.7979", mutants.Stable, form(func(x float32) float32 {
		return x / (1 + mutants.Exp32(-2*0.7979*(x+float32(0.044715*x)*float32(x*x))))
	}))
	l.Add("undeclared-exp", "exponentials within 64 ulps, not declared", mutants.Stable, form(func(x float32) float32 {
		return x / (1 + mutants.RoughExp(64)(-argument(x)))
	}))
	l.Add("reciprocal-of-12-bits", "the reciprocal has 12 bits, not declared", mutants.Stable, form(func(x float32) float32 {
		return x * mutants.KeepBits(12)(1/(1+math.Exp(-float64(argument(x)))))
	}))
	l.Add("table", "the sigmoid is read from a table of 4,096 values", mutants.Stable, form(func(x float32) float32 {
		t := float64(argument(x))
		at := math.Round(max(-16, min(t, 16))*128) / 128
		return float32(float64(x) / (1 + math.Exp(-at)))
	}))
	l.Of(d, num.F16)
	l.Add("t-in-f16", "t is rounded to f16", mutants.Stable, form(func(x float32) float32 {
		return x / (1 + mutants.Exp32(-num.Round(num.F16, argument(x))))
	}))
	l.Add("square-in-f16", "x² is f16: infinite from 256 on", mutants.Stable, mutants.Plain{Body: mutants.Each("x", "y", func(x float32) float32 {
		t := x * num.FMA(geluCubic, num.Round(num.F16, x*x), geluSlope)
		return x / (1 + mutants.Exp32(-t))
	})})
	l.Add("sigmoid-in-f16", "the sigmoid is rounded to f16", mutants.Stable, form(func(x float32) float32 {
		s, _ := branches(mutants.Exp32, argument(x))
		return x * num.Round(num.F16, s)
	}))
	l.Of(d, num.BF16)
	l.Add("tanh-2^-11", "a tanh with a relative error of 2^-11, not declared", mutants.Stable, form(tanhForm(mutants.FastTanh)))

	b := gelu.BackwardDefinition
	l.From("PyTorch, gelu with tanh")
	l.AddAll(b, "tanh-form", "the derivative through 1 - tanh², which cancels in the tails", mutants.Stable, mutants.Plain{Body: mutants.EachGrad(tanhGradient)})
	l.From(mutants.KernelPractice)
	l.Of(b, num.F32)
	l.Add("one-minus-sigmoid", "1 - s by subtraction, which cancels for large x", mutants.Stable, gradientForm(func(dy, x float32) float32 {
		s, _ := branches(mutants.Exp32, argument(x))
		return dy * (s + float32(float32(float32(x*s)*(1-s))*slopeOf(x)))
	}))
	l.Add("slope-without-cubic", "t' is the slope at zero", mutants.Stable, gradientForm(func(dy, x float32) float32 {
		s, rest := branches(mutants.Exp32, argument(x))
		return dy * (s + float32(float32(float32(x*s)*rest)*geluSlope))
	}))
	l.Of(b, num.F16)
	l.Add("y-read-back", "x·s is taken from the stored y", mutants.Stable, gradientForm(func(dy, x float32) float32 {
		s, rest := branches(mutants.Exp32, argument(x))
		return dy * (s + float32(float32(num.Round(num.F16, x*s)*rest)*slopeOf(x)))
	}))
}

// cheats adds kernels that are right only where somebody looks.
func cheats(l *mutants.List) {
	l.From(mutants.KernelPractice)
	l.Of(gelu.BackwardDefinition, num.F32)
	l.AddCheats(mutants.Answer, "cache-by-both-ends", "input-as-scratch", "garbage-times-zero", "inputs-apart", "already-there", "listed-shapes", "offsets-in-f32", "1-in-1000", "ignores-cancellation", "shared-scratch", "far-offsets-in-32-bits", "4096-by-4096")
}
