package gelu_test

import (
	"math"

	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/verify/mutants"
)

// heldByErf is element by element, held at ±15, beyond which y is x or zero.
func heldByErf(f func(x float32) float32) mutants.Plain {
	return mutants.Plain{Body: mutants.Each("x", "y", func(x float32) float32 {
		switch {
		case x > 15:
			return x
		case x < -15:
			return float32(math.Copysign(0, -1))
		}
		return f(x)
	})}
}

func heldGradient(f func(dy, x float32) float32) mutants.Plain {
	return mutants.Plain{Body: mutants.EachGrad(func(dy, x float32) float32 {
		return f(dy, max(-15, min(x, 15)))
	})}
}

// erfParts are a, e and w of the definition.
func erfParts(p mutants.Parts, x float32) (a, e, w float32) {
	a = min(float32(math.Abs(float64(x))), 15)
	e = p.Step(p.Exp(-0.5 * p.Step(a*a)))
	z := float64(a) / math.Sqrt2
	return a, e, p.Step(float32(0.5 * math.Exp(z*z) * math.Erfc(z)))
}

func erfForwardBody(p mutants.Parts) func(*mutants.Call) {
	return mutants.Each("x", "y", func(x float32) float32 {
		a, e, w := erfParts(p, x)
		if x < 0 {
			return -p.Step(a*e) * w
		}
		return x * p.Step(num.FMA(-e, w, 1))
	})
}

func erfBackwardBody(p mutants.Parts) func(*mutants.Call) {
	return mutants.EachGrad(func(dy, x float32) float32 {
		a, e, w := erfParts(p, x)
		m := p.Step(num.FMA(a, float32(1/math.Sqrt(2*math.Pi)), -w))
		if x < 0 {
			return dy * -p.Step(e*m)
		}
		return dy * p.Step(num.FMA(e, m, 1))
	})
}

// sumForm is x/2·(1 + erf(x/√2)), as PyTorch has it.
func sumForm(x float32) float32 {
	return x * float32(0.5*(1+float32(math.Erf(float64(x*float32(math.Sqrt(0.5)))))))
}

func sumGradient(dy, x float32) float32 {
	cdf := 0.5 * (1 + float32(math.Erf(float64(x*float32(math.Sqrt(0.5))))))
	pdf := mutants.Exp32(-0.5*float32(x*x)) * float32(1/math.Sqrt(2*math.Pi))
	return dy * (cdf + float32(x*pdf))
}

func cdf(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
func pdf(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }

// inBinary64 returns kernels of the value and of dy times a slope, computed in binary64.
func inBinary64(f func(x float64) float64) mutants.Plain {
	return heldByErf(func(x float32) float32 { return float32(f(float64(x))) })
}

func slopeInBinary64(f func(x float64) float64) mutants.Plain {
	return heldGradient(func(dy, x float32) float32 { return float32(float64(dy) * f(float64(x))) })
}

func erfWrong(l *mutants.List) {
	d, b := gelu.ErfForwardDefinition, gelu.ErfBackwardDefinition
	l.From(mutants.KernelPractice)
	l.Of(d, num.F16)
	l.Add("tanh-form", "the approximation by tanh", mutants.AnyOrder, inBinary64(func(x float64) float64 {
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}))
	l.Add("sigmoid-1.702", "x·sigmoid(1.702·x), the quick approximation", mutants.AnyOrder, inBinary64(func(x float64) float64 { return x / (1 + math.Exp(-1.702*x)) }))
	l.Add("no-root", "erf of x, not of x/√2", mutants.AnyOrder, inBinary64(func(x float64) float64 { return 0.5 * x * math.Erfc(-x) }))
	l.Add("tail-zero", "everything below -4 gives zero", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		for i, x := range c.In("x").V {
			if x < -4 {
				c.In("y").V[i] = 0
			}
		}
	}})
	l.Add("whole-vectors", "elements after the last multiple of 4 are not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.WritesWholeVectors})
	l.Of(d, num.BF16)
	l.Add("five-terms", "the polynomial of Abramowitz and Stegun for erf, off by 1.5·10^-7", mutants.Stable, heldByErf(func(x float32) float32 {
		z := math.Abs(float64(x)) / math.Sqrt2
		t := 1 / (1 + 0.3275911*z)
		rest := t * (0.254829592 + t*(-0.284496736+t*(1.421413741+t*(-1.453152027+t*1.061405429)))) * math.Exp(-z*z)
		return float32(0.5 * float64(x) * (1 + math.Copysign(1-rest, float64(x))))
	}))
	l.Of(d, num.F32)
	l.Add("sign-of-zero", "-0 gives +0", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Store: mutants.StorePositiveZero})
	l.Add("short-polynomial", "exponentials have a relative error of 2^-18: one term too few", mutants.AnyOrder,
		mutants.Plain{Body: erfForwardBody(mutants.Replaced(mutants.Ordered(nil), func(p *mutants.Parts) { p.Exp = mutants.ExpTaylor5 }))})
	l.From("PyTorch, gelu")
	l.AddAll(d, "sum-form", "x/2·(1 + erf), which cancels in the negative tail", mutants.Stable, mutants.Plain{Body: mutants.Each("x", "y", sumForm)})

	l.From(mutants.ZerosPass)
	l.Of(b, num.F16)
	l.Add("zeros", "every gradient is zero", mutants.AnyOrder, mutants.Edited(mutants.Zeros))
	l.From(mutants.KernelPractice)
	l.Add("product-rule", "the density is left out", mutants.AnyOrder, slopeInBinary64(cdf))
	l.Add("x-missing", "the density is not multiplied by x", mutants.AnyOrder, slopeInBinary64(func(x float64) float64 { return cdf(x) + pdf(x) }))
	l.Add("another-density", "the density lacks the 1/√2", mutants.AnyOrder, slopeInBinary64(func(x float64) float64 { return cdf(x) + math.Sqrt2*x*pdf(x) }))
	l.Add("of-tanh", "the derivative of the approximation by tanh", mutants.AnyOrder, slopeInBinary64(func(x float64) float64 {
		k := math.Sqrt(2 / math.Pi)
		t := math.Tanh(k * (x + 0.044715*x*x*x))
		return 0.5*(1+t) + 0.5*x*(1-t*t)*k*(1+3*0.044715*x*x)
	}))
	l.Of(b, num.BF16)
	l.Add("store-truncates", "results are cut off, not rounded", mutants.AnyOrder, mutants.Plain{Body: erfBackwardBody(mutants.Ordered(nil)), Store: mutants.StoreTowardZero})
	l.From("PyTorch, gelu")
	l.Of(b, num.F32)
	l.Add("sum-form", "the derivative through 1 + erf, which cancels in the negative tail", mutants.Stable, mutants.Plain{Body: mutants.EachGrad(sumGradient)})
}

func erfRight(l *mutants.List) {
	d, b := gelu.ErfForwardDefinition, gelu.ErfBackwardDefinition
	l.Of(d, num.F32)
	l.Add("library-exp", "exponential and erfc of another library, steps as defined", mutants.AnyOrder.IEEE(), mutants.Plain{Body: erfForwardBody(mutants.Ordered(nil))})
	l.Of(b, num.BF16)
	l.Add("library-exp", "exponential and erfc of another library", mutants.AnyOrder, mutants.Plain{Body: erfBackwardBody(mutants.Ordered(nil))})
	l.AddAll(d, "erfc", "x/2·erfc(-x/√2), its argument rounded", mutants.Stable, heldByErf(func(x float32) float32 {
		return float32(0.5*x) * float32(math.Erfc(float64(-x*float32(math.Sqrt(0.5)))))
	}))
	for _, dtype := range []num.DType{num.F16, num.F32} {
		l.Of(d, dtype)
		l.Add("sum-torch", "x/2·(1 + erf), under the profile torch", mutants.Declaring("profile=torch"), heldByErf(sumForm))
		l.Of(b, dtype)
		l.Add("sum-torch", "the derivative through 1 + erf, under the profile torch", mutants.Declaring("profile=torch"), heldGradient(sumGradient))
	}
	l.AddAll(b, "expanded", "dy·Φ + dy·x·φ, Φ by erfc", mutants.Stable, heldGradient(func(dy, x float32) float32 {
		c := float32(0.5 * math.Erfc(float64(-x*float32(math.Sqrt(0.5)))))
		p := mutants.Exp32(-0.5*float32(x*x)) * float32(1/math.Sqrt(2*math.Pi))
		return float32(dy*c) + float32(dy*float32(x*p))
	}))
}
