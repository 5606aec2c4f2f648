package relu2_test

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/relu2"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, relu2.Operations, wrong(), right(), peers)
}

func form(f func(x float32) float32) mutants.Plain {
	return mutants.Plain{Body: mutants.Each("x", "y", f)}
}

func gradientForm(f func(dy, x float32) float32) mutants.Plain {
	return mutants.Plain{Body: mutants.EachGrad(f)}
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(relu2.Operations)
	l.Of(relu2.ForwardDefinition, num.F16)
	l.From(mutants.KernelPractice)
	l.Add("not-squared", "the square is missing", mutants.AnyOrder, form(func(x float32) float32 { return max(x, 0) }))
	l.Add("negative-squared", "negative elements are squared too", mutants.AnyOrder, form(func(x float32) float32 { return x * x }))
	l.Add("halved", "max(x, 0)²/2, whose derivative is max(x, 0)", mutants.AnyOrder, form(func(x float32) float32 { return max(x, 0) * max(x, 0) / 2 }))
	l.Add("saturates", "an infinity becomes 65504", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreSaturated})
	l.Add("store-truncates", "results are cut off, not rounded", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreTowardZero})
	l.Add("whole-vectors", "elements after the last multiple of 4 are not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.WritesWholeVectors})
	l.Of(relu2.ForwardDefinition, num.BF16)
	l.Add("nan-is-zero", "a maximum that drops NaN, as fmaxf does", mutants.PromisesBits, form(func(x float32) float32 {
		if x > 0 {
			return x * x
		}
		return 0
	}))
	l.Of(relu2.ForwardDefinition, num.F32)
	l.Add("f16-inside", "the maximum is rounded to f16 before it is squared", mutants.AnyOrder, form(func(x float32) float32 {
		p := num.Round(num.F16, max(x, 0))
		return p * p
	}))

	l.Of(relu2.BackwardDefinition, num.F16)
	l.From(mutants.ZerosPass)
	l.Add("zeros", "every gradient is zero", mutants.AnyOrder, mutants.Edited(mutants.Zeros))
	l.From(mutants.KernelPractice)
	l.Add("factor-missing", "dy·max(x, 0), without the 2", mutants.AnyOrder, gradientForm(func(dy, x float32) float32 { return dy * max(x, 0) }))
	l.Add("not-masked", "2·dy·x, also where x is negative", mutants.AnyOrder, gradientForm(func(dy, x float32) float32 { return dy * (x + x) }))
	l.Add("relu-gradient", "dy where x is positive: the derivative of ReLU", mutants.AnyOrder, gradientForm(func(dy, x float32) float32 {
		if x > 0 {
			return dy
		}
		return dy * 0
	}))
	l.Add("root-of-y", "2·dy times the root of y, which f16 has rounded", mutants.Stable, gradientForm(func(dy, x float32) float32 {
		y := num.Round(num.F16, max(x, 0)*max(x, 0))
		return 2 * dy * float32(math.Sqrt(float64(y)))
	}))
	l.From("prototype 22")
	l.Add("subnormals-flushed", "results below 2^-14 become zero", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreFlushed})
	l.Of(relu2.BackwardDefinition, num.F32)
	l.From(mutants.KernelPractice)
	l.Add("sign-of-zero", "a zero has no sign", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Store: mutants.StorePositiveZero})
	return l.All
}

func right() []mutants.Mutant {
	l := mutants.NewList(relu2.Operations)
	l.AddAll(relu2.ForwardDefinition, "branch", "a branch instead of a maximum", mutants.PromisesBits, form(func(x float32) float32 {
		if x < 0 {
			return 0
		}
		return x * x
	}))
	l.AddAll(relu2.BackwardDefinition, "doubled-last", "2·(dy·max(x, 0))", mutants.Stable, gradientForm(func(dy, x float32) float32 { return 2 * (dy * max(x, 0)) }))
	l.AddAll(relu2.BackwardDefinition, "doubled-first", "(2·dy)·max(x, 0)", mutants.Stable, gradientForm(func(dy, x float32) float32 { return 2 * dy * max(x, 0) }))
	return l.All
}

// peers returns plain kernels of the definitions, made of the given parts.
func peers(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
	return map[*def.Definition]func(*mutants.Call){
		relu2.ForwardDefinition:  mutants.Each("x", "y", func(x float32) float32 { return p.Step(max(x, 0) * max(x, 0)) }),
		relu2.BackwardDefinition: mutants.EachGrad(func(dy, x float32) float32 { return p.Step(dy * p.Step(max(x, 0)+max(x, 0))) }),
	}
}
