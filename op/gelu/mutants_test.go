package gelu_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, gelu.Operations, wrong(), right(), peers)
}

// geluTanh is the usual form, with a tanh of its own.
func geluTanh(tanh func(t float64) float32, cubic float64) func(x float32) float32 {
	return func(x float32) float32 {
		t := math.Sqrt(2/math.Pi) * (float64(x) + cubic*float64(x)*float64(x)*float64(x))
		return float32(0.5*x) * (1 + tanh(t))
	}
}

func tanh32(t float64) float32 { return float32(math.Tanh(t)) }

func wrong() []mutants.Mutant {
	l := mutants.NewList(gelu.Operations)
	const cubic = 0.044715
	form := func(f func(x float32) float32) mutants.Plain { return mutants.Plain{Body: mutants.Each("x", "y", f)} }

	l.Of(gelu.ForwardDefinition, num.F16)
	l.From(mutants.KernelPractice)
	l.Add("erf-form", "the exact GELU, not the one with tanh", mutants.AnyOrder, form(func(x float32) float32 {
		return float32(0.5 * float64(x) * math.Erfc(-float64(x)/math.Sqrt2))
	}))
	l.Add("sigmoid-1.702", "x·sigmoid(1.702·x), the quick approximation", mutants.AnyOrder, form(func(x float32) float32 {
		return float32(float64(x) / (1 + math.Exp(-1.702*float64(x))))
	}))
	l.Add("constant-rounded", "0.044715 is taken as 0.0447", mutants.AnyOrder, form(geluTanh(tanh32, 0.0447)))
	l.Add("tail-zero", "everything below -4 gives zero", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		for i, x := range c.In("x").V {
			if x < -4 {
				c.In("y").V[i] = 0
			}
		}
	}})
	l.Add("identity-above-3", "x itself is returned where every element is above 3", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		if slices.Min(c.In("x").V) > 3 {
			copy(c.In("y").V, c.In("x").V)
		}
	}})
	l.Add("zero-below-minus-3", "everything is zero where every element is below -3", mutants.Stable, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		if slices.Max(c.In("x").V) < -3 {
			clear(c.In("y").V)
		}
	}})
	l.Add("tail-cancels", "1 + tanh cancels in the negative tail", mutants.AnyOrder, form(geluTanh(tanh32, cubic)))
	l.Add("saturates", "an infinity becomes 65504", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreSaturated})
	l.Add("loads-flush", "subnormal inputs count as zero", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Load: mutants.LoadFlushed})
	l.Add("whole-vectors", "elements after the last multiple of 4 are not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.WritesWholeVectors})
	l.Add("needs-alignment", "right only where operands begin at multiples of 16 bytes", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: mutants.NeedsAlignment})
	l.AddFailing("refuses-one-row", "a single row is an error", mutants.AnyOrder, mutants.RefusesWhere(func(c *mutants.Call) bool { return c.Stored[0].Rows == 1 }))
	l.AddFailing("panics-on-odd-columns", "an odd number of columns indexes out of range", mutants.PromisesBits, mutants.PanicsWhere(func(c *mutants.Call) bool { return c.Stored[0].Cols%2 == 1 }))
	l.From("prototype 22")
	l.Add("smallest-is-two", "2^-14 is stored as 2", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreSmallestAsTwo})
	l.From(mutants.Simulated)
	l.Add("tanh-approx", "tanh has a relative error of 2^-11", mutants.AnyOrder, form(func(x float32) float32 {
		t := math.Sqrt(2/math.Pi) * (float64(x) + cubic*float64(x)*float64(x)*float64(x))
		return float32(0.5 * float64(x) * (1 + float64(mutants.KeepBits(11)(math.Tanh(t)))))
	}))
	l.Of(gelu.ForwardDefinition, num.BF16)
	l.Add("tanh-rounded", "tanh is rounded to bf16", mutants.AnyOrder, form(geluTanh(func(t float64) float32 { return num.Round(num.BF16, tanh32(t)) }, cubic)))
	l.From(mutants.KernelPractice)
	l.Add("relu", "max(x, 0)", mutants.AnyOrder, form(func(x float32) float32 { return max(x, 0) }))
	l.Add("sigmoid-overflows", "the sigmoid is e/(1+e): beyond 10.2 that is NaN", mutants.AnyOrder, form(func(x float32) float32 {
		e := mutants.Exp32(x * (geluSlope + float32(geluCubic*float32(x*x))))
		return x * (e / (1 + e))
	}))
	l.Add("store-via-f16", "results are rounded to f16, then to bf16", mutants.AnyOrder, mutants.Plain{Body: geluForward(mutants.Ordered(nil)), Store: mutants.StoreVia(mutants.To(num.F16))})
	l.Of(gelu.ForwardDefinition, num.F32)
	l.Add("sign-of-zero", "-0 gives +0", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Store: mutants.StorePositiveZero})
	l.Add("f16-inside", "the result is rounded to f16 on its way", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreVia(mutants.To(num.F16))})
	l.Add("short-polynomial", "exponentials have a relative error of 2^-18: one term too few", mutants.AnyOrder,
		mutants.Plain{Body: geluForward(mutants.Replaced(mutants.Ordered(nil), func(p *mutants.Parts) { p.Exp = mutants.ExpTaylor5 }))})

	grad := func(f func(dy, x float32) float32) mutants.Plain { return mutants.Plain{Body: mutants.EachGrad(f)} }
	derivative := func(x float64, sech2 func(tanh float64) float64) float64 {
		k := math.Sqrt(2 / math.Pi)
		t := math.Tanh(k * (x + cubic*x*x*x))
		return 0.5*(1+t) + 0.5*x*sech2(t)*k*(1+3*cubic*x*x)
	}
	l.Of(gelu.BackwardDefinition, num.F32)
	l.From("prototype 24")
	l.Add("tanh-cancels", "1 - tanh² cancels in the tails", mutants.AnyOrder, grad(func(dy, x float32) float32 {
		return dy * float32(derivative(float64(x), func(t float64) float64 {
			f := float32(t)
			return float64(1 - float32(f*f))
		}))
	}))
	l.From("prototype 12")
	l.Level = mutants.Quick // no case of level smoke has that many elements
	l.Add("short-offsets", "offsets are counted in 16 bits", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Load: mutants.LoadShort})
	l.Level = mutants.Smoke
	l.Of(gelu.BackwardDefinition, num.F16)
	l.From("prototype 22")
	l.Add("subnormals-flushed", "results below 2^-14 become zero", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreFlushed})
	l.Add("smallest-is-two", "2^-14 is stored as 2", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreSmallestAsTwo})
	l.From(mutants.ZerosPass)
	l.Add("zeros", "every gradient is zero", mutants.AnyOrder, mutants.Edited(mutants.Zeros))
	l.From(mutants.KernelPractice)
	l.Add("identity", "dy is returned", mutants.AnyOrder, mutants.Plain{Body: mutants.Identity})
	l.Add("product-rule", "the derivative of the sigmoid is left out", mutants.AnyOrder, grad(func(dy, x float32) float32 {
		return dy * float32(derivative(float64(x), func(float64) float64 { return 0 }))
	}))
	l.Add("dy-ignored", "the derivative is not multiplied by dy", mutants.AnyOrder, grad(func(_, x float32) float32 {
		return float32(derivative(float64(x), func(t float64) float64 { return 1 - t*t }))
	}))
	l.Add("nan-is-zero", "NaN is stored as zero", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreNaNAsZero})
	l.Add("half-written", "the second half of the rows is not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.WritesHalf})
	l.Add("store-via-bf16", "results are rounded to bf16, then to f16", mutants.AnyOrder, mutants.Plain{Body: geluBackward(mutants.Ordered(nil)), Store: mutants.StoreVia(mutants.To(num.BF16))})
	l.From(mutants.Simulated)
	l.Add("derivative-rounded", "the derivative is rounded to f16 before it is multiplied by dy", mutants.AnyOrder, mutants.Plain{Body: geluBackward(
		mutants.Replaced(mutants.Ordered(nil), func(p *mutants.Parts) { p.Step = mutants.To(num.F16) }))})
	l.Of(gelu.BackwardDefinition, num.BF16)
	l.From(mutants.KernelPractice)
	l.Add("store-truncates", "results are cut off, not rounded", mutants.AnyOrder, mutants.Plain{Body: geluBackward(mutants.Ordered(nil)), Store: mutants.StoreTowardZero})
	stableWrong(l)
	erfWrong(l)
	cheats(l)
	return l.All
}

// gelu's constants, rounded once.
var (
	geluSlope  = float32(2 * math.Sqrt(2/math.Pi))
	geluCubic  = float32(2 * math.Sqrt(2/math.Pi) * 0.044715)
	geluTriple = float32(6 * math.Sqrt(2/math.Pi) * 0.044715)
)

// geluParts are a, e and r of the definition.
func geluParts(p mutants.Parts, x float32) (a, e, r float32) {
	a = min(float32(math.Abs(float64(x))), 11)
	t := p.Step(a * num.FMA(geluCubic, p.Step(a*a), geluSlope))
	e = p.Step(p.Exp(-t))
	return a, e, p.Step(1 / p.Step(1+e))
}

func geluForward(p mutants.Parts) func(c *mutants.Call) {
	return mutants.Each("x", "y", func(x float32) float32 {
		a, e, r := geluParts(p, x)
		if x < 0 {
			return -p.Step(a*e) * r
		}
		return x * r
	})
}

func geluBackward(p mutants.Parts) func(c *mutants.Call) {
	return mutants.EachGrad(func(dy, x float32) float32 {
		a, e, r := geluParts(p, x)
		h := p.Step(r * p.Step(a*num.FMA(geluTriple, p.Step(a*a), geluSlope)))
		if x < 0 {
			return dy * p.Step(r*num.FMA(-e, h, e))
		}
		return dy * p.Step(r*num.FMA(e, h, 1))
	})
}

func right() []mutants.Mutant {
	l := mutants.NewList(gelu.Operations)
	l.Of(gelu.ForwardDefinition, num.F16)
	l.Add("library-exp", "the exponential of another library", mutants.AnyOrder, mutants.Plain{Body: geluForward(mutants.Ordered(nil))})
	l.Of(gelu.ForwardDefinition, num.F32)
	l.Add("library-exp", "the exponential of another library, steps as defined", mutants.AnyOrder.IEEE(), mutants.Plain{Body: geluForward(mutants.Ordered(nil))})
	l.Of(gelu.BackwardDefinition, num.BF16)
	l.Add("library-exp", "the exponential of another library", mutants.AnyOrder, mutants.Plain{Body: geluBackward(mutants.Ordered(nil))})

	l.Of(gelu.BackwardDefinition, num.F16)
	l.AddReferenceOrder()
	stableRight(l)
	erfRight(l)
	return l.All
}

// peers returns plain kernels of the definitions, made of the given parts.
func peers(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
	return map[*def.Definition]func(*mutants.Call){
		gelu.ForwardDefinition: geluForward(p), gelu.BackwardDefinition: geluBackward(p),
		gelu.ErfForwardDefinition: erfForwardBody(p), gelu.ErfBackwardDefinition: erfBackwardBody(p),
	}
}
