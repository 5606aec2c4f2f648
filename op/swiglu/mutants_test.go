package swiglu_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/swiglu"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, swiglu.Operations, wrong(), right(), peers)
}

// form is a forward kernel, element by element.
func form(f func(gate, up float32) float32) mutants.Plain {
	return mutants.Plain{Body: func(c *mutants.Call) {
		gate, up, y := c.In("gate").V, c.In("up").V, c.In("y").V
		for i := range gate {
			y[i] = f(gate[i], up[i])
		}
	}}
}

// gradientForm is a backward kernel, element by element.
func gradientForm(f func(dy, gate, up float32) (dgate, dup float32)) mutants.Plain {
	return mutants.Plain{Body: func(c *mutants.Call) {
		dy, gate, up := c.In("dy").V, c.In("gate").V, c.In("up").V
		for i := range gate {
			c.In("dgate").V[i], c.In("dup").V[i] = f(dy[i], gate[i], up[i])
		}
	}}
}

// held keeps a gate where no form gives 0 times an infinity.
func held(gate float32) float32 { return max(-128, gate) }

// branches is the logistic function with an exponential that cannot overflow.
func branches(exp func(float32) float32, t float32) (sigmoid, rest float32) {
	if t >= 0 {
		e := exp(-t)
		return 1 / (1 + e), e / (1 + e)
	}
	e := exp(t)
	return e / (1 + e), 1 / (1 + e)
}

// parts are a, e and r of the definition.
func parts(p mutants.Parts, gate float32) (a, e, r float32) {
	a = min(float32(math.Abs(float64(gate))), 128)
	e = p.Step(p.Exp(-a))
	return a, e, p.Step(1 / p.Step(1+e))
}

func siluOf(p mutants.Parts, gate float32) float32 {
	a, e, r := parts(p, gate)
	if gate < 0 {
		return -p.Step(p.Step(a*e) * r)
	}
	return p.Step(gate * r)
}

func forwardBody(p mutants.Parts) func(*mutants.Call) {
	return form(func(gate, up float32) float32 { return siluOf(p, gate) * up }).Body
}

func backwardBody(p mutants.Parts) func(*mutants.Call) {
	return gradientForm(func(dy, gate, up float32) (dgate, dup float32) {
		a, e, r := parts(p, gate)
		h := p.Step(r * a)
		slope := p.Step(r * num.FMA(e, h, 1))
		if gate < 0 {
			slope = p.Step(r * num.FMA(-e, h, e))
		}
		return dy * p.Step(up*slope), dy * siluOf(p, gate)
	}).Body
}

// exact is a forward kernel of a function in binary64.
func exact(activation func(g float64) float64) mutants.Plain {
	return form(func(gate, up float32) float32 { return float32(activation(float64(held(gate)))) * up })
}

// exactGradient is a backward kernel with the sigmoid in binary64.
func exactGradient(f func(dy, gate, up, s float64) (dgate, dup float64)) mutants.Plain {
	return gradientForm(func(dy, gate, up float32) (dgate, dup float32) {
		g := float64(max(-128, min(gate, 128)))
		a, b := f(float64(dy), g, float64(up), 1/(1+math.Exp(-g)))
		return float32(a), float32(b)
	})
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(swiglu.Operations)
	answer := func(edit func(c *mutants.Call)) mutants.Plain {
		return mutants.Plain{Body: mutants.Answer, Edit: edit}
	}
	l.Of(swiglu.ForwardDefinition, num.F16)
	l.From(mutants.KernelPractice)
	l.Add("operands-swapped", "silu is taken of up, and gate multiplies", mutants.AnyOrder, form(func(gate, up float32) float32 {
		s, _ := branches(mutants.Exp32, held(up))
		return held(up) * s * gate
	}))
	l.Add("sigmoid-gate", "sigmoid(gate)·up, the gated linear unit without the gate itself", mutants.AnyOrder, form(func(gate, up float32) float32 {
		s, _ := branches(mutants.Exp32, gate)
		return s * up
	}))
	l.Add("gelu-gate", "GELU instead of silu", mutants.AnyOrder, exact(func(g float64) float64 { return 0.5 * g * math.Erfc(-g/math.Sqrt2) }))
	l.Add("beta-1.702", "gate·sigmoid(1.702·gate), as another activation has it", mutants.AnyOrder, exact(func(g float64) float64 { return g / (1 + math.Exp(-1.702*g)) }))
	l.Add("hard-swish", "the piecewise linear form, gate·min(max(gate + 3, 0), 6)/6", mutants.AnyOrder, exact(func(g float64) float64 { return g * min(max(g+3, 0), 6) / 6 }))
	l.Add("tail-zero", "silu is zero below -10", mutants.AnyOrder, answer(func(c *mutants.Call) {
		for i, g := range c.In("gate").V {
			if g < -10 {
				c.In("y").V[i] = 0
			}
		}
	}))
	l.Add("identity-above-6", "gate·up where every gate is above 6", mutants.AnyOrder, answer(func(c *mutants.Call) {
		if slices.Min(c.In("gate").V) > 6 {
			for i, g := range c.In("gate").V {
				c.In("y").V[i] = g * c.In("up").V[i]
			}
		}
	}))
	l.Add("half-offset", "up is read from the next column, as where halves of a matrix are one column off", mutants.PromisesBits, mutants.Plain{Body: func(c *mutants.Call) {
		up := c.In("up")
		for r := range up.Rows {
			row := up.Row(r)
			copy(row, row[1:])
		}
		mutants.Answer(c)
	}})
	l.Add("saturates", "an infinity becomes 65504", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreSaturated})
	l.Add("whole-vectors", "elements after the last multiple of 4 are not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.WritesWholeVectors})
	l.Add("loads-flush", "subnormal inputs count as zero", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Load: mutants.LoadFlushed})
	l.From("Liger, swiglu")
	l.Add("silu-rounded", "silu is rounded to f16 before it is multiplied by up", mutants.Stable, form(func(gate, up float32) float32 {
		s, _ := branches(mutants.Exp32, held(gate))
		return num.Round(num.F16, held(gate)*s) * up
	}))
	l.Of(swiglu.ForwardDefinition, num.BF16)
	l.Add("silu-rounded", "silu is rounded to bf16 before it is multiplied by up", mutants.Stable, form(func(gate, up float32) float32 {
		s, _ := branches(mutants.Exp32, held(gate))
		return num.Round(num.BF16, held(gate)*s) * up
	}))
	l.From(mutants.KernelPractice)
	l.Add("one-branch", "e^g/(1 + e^g): NaN beyond 88", mutants.AnyOrder, form(func(gate, up float32) float32 {
		e := mutants.Exp32(gate)
		return gate * (e / (1 + e)) * up
	}))
	l.Add("store-via-f16", "results are rounded to f16, then to bf16", mutants.AnyOrder, mutants.Plain{Body: forwardBody(mutants.Ordered(nil)), Store: mutants.StoreVia(mutants.To(num.F16))})
	l.Of(swiglu.ForwardDefinition, num.F32)
	l.Add("sign-of-zero", "-0 gives +0", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Store: mutants.StorePositiveZero})
	l.Add("short-polynomial", "exponentials have a relative error of 2^-18: one term too few", mutants.AnyOrder,
		mutants.Plain{Body: forwardBody(mutants.Replaced(mutants.Ordered(nil), func(p *mutants.Parts) { p.Exp = mutants.ExpTaylor5 }))})
	l.Add("undeclared-exp", "exponentials within 64 ulps, not declared", mutants.Stable, form(func(gate, up float32) float32 {
		return held(gate) / (1 + mutants.RoughExp(64)(-held(gate))) * up
	}))
	l.Add("tanh-of-half", "gate/2·(1 + tanh(gate/2)), which cancels in the negative tail", mutants.Stable, form(func(gate, up float32) float32 {
		g := held(gate)
		return float32(g/2) * (1 + float32(math.Tanh(float64(g/2)))) * up
	}))
	l.Add("product-first", "(gate·up)·sigmoid(gate), where gate·up may overflow", mutants.Stable, form(func(gate, up float32) float32 {
		s, _ := branches(mutants.Exp32, gate)
		return gate * up * s
	}))
	l.Add("table", "the sigmoid is read from a table of 4,096 values", mutants.Stable, exact(func(g float64) float64 {
		return g / (1 + math.Exp(-math.Round(max(-16, min(g, 16))*128)/128))
	}))

	l.Of(swiglu.BackwardDefinition, num.F16)
	l.From(mutants.ZerosPass)
	l.Add("zeros", "every gradient is zero", mutants.AnyOrder, mutants.Edited(mutants.Zeros))
	l.From(mutants.KernelPractice)
	l.Add("outputs-swapped", "dgate and dup are exchanged", mutants.PromisesBits, answer(func(c *mutants.Call) {
		a, b := c.In("dgate").V, c.In("dup").V
		for i := range a {
			a[i], b[i] = b[i], a[i]
		}
	}))
	l.Add("product-rule", "the derivative of the sigmoid is left out", mutants.AnyOrder, exactGradient(func(dy, gate, up, s float64) (dgate, dup float64) {
		return dy * up * s, dy * gate * s
	}))
	l.Add("up-missing", "dgate is not multiplied by up", mutants.AnyOrder, exactGradient(func(dy, gate, _, s float64) (dgate, dup float64) {
		return dy * (s + gate*s*(1-s)), dy * gate * s
	}))
	l.Add("gate-missing", "the term of the sigmoid's derivative lacks the gate", mutants.AnyOrder, exactGradient(func(dy, gate, up, s float64) (dgate, dup float64) {
		return dy * up * (s + s*(1-s)), dy * gate * s
	}))
	l.Add("dup-of-sigmoid", "dup is dy·sigmoid(gate)", mutants.AnyOrder, exactGradient(func(dy, gate, up, s float64) (dgate, dup float64) {
		return dy * up * (s + gate*s*(1-s)), dy * s
	}))
	l.Add("only-dgate", "dup is not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.FirstOutput})
	l.Add("clears-first", "outputs are cleared before the inputs are read: nothing is left in place", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Before: mutants.ClearsFirst})
	l.Add("y-read-back", "silu is rounded to f16, and dup and the derivative are made of it", mutants.Stable, gradientForm(func(dy, gate, up float32) (dgate, dup float32) {
		s, rest := branches(mutants.Exp32, held(min(gate, 128)))
		y := num.Round(num.F16, held(min(gate, 128))*s)
		return dy * up * (s + float32(y*rest)), dy * y
	}))
	l.From("prototype 22")
	l.Add("subnormals-flushed", "results below 2^-14 become zero", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreFlushed})
	l.From(mutants.Simulated)
	l.Add("derivative-rounded", "every step is rounded to f16", mutants.AnyOrder, mutants.Plain{Body: backwardBody(
		mutants.Replaced(mutants.Ordered(nil), func(p *mutants.Parts) { p.Step = mutants.To(num.F16) }))})
	l.Of(swiglu.BackwardDefinition, num.BF16)
	l.From(mutants.KernelPractice)
	l.Add("store-truncates", "results are cut off, not rounded", mutants.AnyOrder, mutants.Plain{Body: backwardBody(mutants.Ordered(nil)), Store: mutants.StoreTowardZero})
	l.Of(swiglu.BackwardDefinition, num.F32)
	l.Add("product-rounded", "dy·up is rounded to bf16", mutants.Stable, gradientForm(func(dy, gate, up float32) (dgate, dup float32) {
		s, rest := branches(mutants.Exp32, held(min(gate, 128)))
		return num.Round(num.BF16, dy*up) * float32(s*(1+float32(held(min(gate, 128))*rest))), dy * siluOf(mutants.Ordered(nil), gate)
	}))
	l.From("prototype 12")
	l.Level = mutants.Quick // no case of level smoke has that many elements
	l.Add("short-offsets", "offsets are counted in 16 bits", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Load: mutants.LoadShort})
	l.Level = mutants.Smoke
	l.From(mutants.KernelPractice)
	l.AddCheats(mutants.Answer, "cache-by-both-ends", "input-as-scratch", "garbage-times-zero", "already-there", "shared-scratch")
	return l.All
}

func right() []mutants.Mutant {
	l := mutants.NewList(swiglu.Operations)
	d, b := swiglu.ForwardDefinition, swiglu.BackwardDefinition
	l.Of(d, num.F16)
	l.Add("library-exp", "the exponential of another library", mutants.AnyOrder, mutants.Plain{Body: forwardBody(mutants.Ordered(nil))})
	l.Of(d, num.F32)
	l.Add("library-exp", "the exponential of another library, steps as defined", mutants.AnyOrder.IEEE(), mutants.Plain{Body: forwardBody(mutants.Ordered(nil))})
	l.Of(b, num.BF16)
	l.Add("library-exp", "the exponential of another library", mutants.AnyOrder, mutants.Plain{Body: backwardBody(mutants.Ordered(nil))})
	l.Of(b, num.F16)
	l.AddReferenceOrder()

	l.AddAll(d, "quotient", "gate/(1 + exp(-gate))·up", mutants.Stable, form(func(gate, up float32) float32 {
		return gate / (1 + mutants.Exp32(-gate)) * up
	}))
	l.AddAll(d, "two-branches", "gate·sigmoid(gate)·up with an exponential that cannot overflow", mutants.Stable, form(func(gate, up float32) float32 {
		s, _ := branches(mutants.Exp32, gate)
		return gate * s * up
	}))
	l.Of(d, num.F16) // whose products binary32 holds
	l.Add("product-first", "(gate·up)·sigmoid(gate)", mutants.Stable, form(func(gate, up float32) float32 {
		s, _ := branches(mutants.Exp32, gate)
		return gate * up * s
	}))
	l.AddAll(d, "fast-exp", "exponentials within 2 + 1.16·|x| ulps, declared", mutants.Declaring("exp=2ulp+1.16|x|"), form(func(gate, up float32) float32 {
		return gate / (1 + mutants.FastExp(-gate)) * up
	}))
	l.AddAll(b, "expanded", "dy·up·(s + gate·s·(1-s)), with 1-s from the other branch", mutants.Stable, gradientForm(func(dy, gate, up float32) (dgate, dup float32) {
		s, rest := branches(mutants.Exp32, gate)
		return float32(dy*up) * (s + float32(float32(gate*s)*rest)), dy * float32(gate*s)
	}))
	l.AddAll(b, "factored", "dy·s·(1 + gate·(1-s))·up", mutants.Stable, gradientForm(func(dy, gate, up float32) (dgate, dup float32) {
		s, rest := branches(mutants.Exp32, gate)
		return float32(dy*float32(s*(1+float32(gate*rest)))) * up, dy * float32(gate*s)
	}))
	return l.All
}

// peers returns plain kernels of the definitions, made of the given parts.
func peers(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
	return map[*def.Definition]func(*mutants.Call){swiglu.ForwardDefinition: forwardBody(p), swiglu.BackwardDefinition: backwardBody(p)}
}
