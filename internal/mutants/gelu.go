package mutants

import (
	"math"

	"tokitai/num"
	"tokitai/op/gelu"
)

// geluTanh is the usual form, with a tanh of its own.
func geluTanh(tanh func(t float64) float32, cubic float64) func(x float32) float32 {
	return func(x float32) float32 {
		t := math.Sqrt(2/math.Pi) * (float64(x) + cubic*float64(x)*float64(x)*float64(x))
		return float32(0.5*x) * (1 + tanh(t))
	}
}

func tanh32(t float64) float32 { return float32(math.Tanh(t)) }

func geluMutants() []Mutant {
	l := &list{}
	const cubic = 0.044715
	form := func(f func(x float32) float32) plain { return plain{body: each("x", "y", f)} }

	l.of(gelu.ForwardDefinition, num.F16)
	l.from(practice)
	l.add("erf-form", "the exact GELU, not the one with tanh", anyOrder, form(func(x float32) float32 {
		return float32(0.5 * float64(x) * math.Erfc(-float64(x)/math.Sqrt2))
	}))
	l.add("sigmoid-1.702", "x·sigmoid(1.702·x), the quick approximation", anyOrder, form(func(x float32) float32 {
		return float32(float64(x) / (1 + math.Exp(-1.702*float64(x))))
	}))
	l.add("constant-rounded", "0.044715 is taken as 0.0447", anyOrder, form(geluTanh(tanh32, 0.0447)))
	l.add("tail-zero", "everything below -4 gives zero", anyOrder, plain{body: answer, edit: func(c *call) {
		for i, x := range c.in("x").v {
			if x < -4 {
				c.in("y").v[i] = 0
			}
		}
	}})
	l.add("tail-cancels", "1 + tanh cancels in the negative tail", anyOrder, form(geluTanh(tanh32, cubic)))
	l.add("saturates", "an infinity becomes 65504", anyOrder, plain{body: answer, store: storeSaturated})
	l.add("loads-flush", "subnormal inputs count as zero", bits, plain{body: answer, load: loadFlushed})
	l.add("whole-vectors", "elements after the last multiple of 4 are not written", bits, plain{body: answer, puts: writesWholeVectors})
	l.add("needs-alignment", "right only where operands begin at multiples of 16 bytes", bits, plain{body: answer, edit: needsAlignment})
	l.add("refuses-one-row", "a single row is an error", anyOrder, refusesWhere(func(c *call) bool { return c.a[0].Rows == 1 }))
	l.add("panics-on-odd-columns", "an odd number of columns indexes out of range", bits, panicsWhere(func(c *call) bool { return c.a[0].Cols%2 == 1 }))
	l.from("prototype 22")
	l.add("smallest-is-two", "2^-14 is stored as 2", bits, plain{body: answer, store: storeSmallestAsTwo})
	l.from(simulated)
	l.add("tanh-approx", "tanh has a relative error of 2^-11", anyOrder, form(func(x float32) float32 {
		t := math.Sqrt(2/math.Pi) * (float64(x) + cubic*float64(x)*float64(x)*float64(x))
		return float32(0.5 * float64(x) * (1 + float64(keepBits(11)(math.Tanh(t)))))
	}))
	l.of(gelu.ForwardDefinition, num.BF16)
	l.add("tanh-rounded", "tanh is rounded to bf16", anyOrder, form(geluTanh(func(t float64) float32 { return num.Round(num.BF16, tanh32(t)) }, cubic)))
	l.from(practice)
	l.add("relu", "max(x, 0)", anyOrder, form(func(x float32) float32 { return max(x, 0) }))
	l.add("sigmoid-overflows", "the sigmoid is e/(1+e): beyond 10.2 that is NaN", anyOrder, form(func(x float32) float32 {
		e := exp32(x * (geluSlope + float32(geluCubic*float32(x*x))))
		return x * (e / (1 + e))
	}))
	l.add("store-via-f16", "results are rounded to f16, then to bf16", anyOrder, plain{body: geluForward(ordered(nil)), store: storeVia(to(num.F16))})
	l.of(gelu.ForwardDefinition, num.F32)
	l.add("sign-of-zero", "-0 gives +0", bits, plain{body: answer, store: storePositiveZero})
	l.add("f16-inside", "the result is rounded to f16 on its way", anyOrder, plain{body: answer, store: storeVia(to(num.F16))})
	l.add("short-polynomial", "exponentials have a relative error of 2^-18: one term too few", anyOrder,
		plain{body: geluForward(replaced(ordered(nil), func(p *parts) { p.exp = expTaylor5 }))})

	grad := func(f func(dy, x float32) float32) plain { return plain{body: eachGrad(f)} }
	derivative := func(x float64, sech2 func(tanh float64) float64) float64 {
		k := math.Sqrt(2 / math.Pi)
		t := math.Tanh(k * (x + cubic*x*x*x))
		return 0.5*(1+t) + 0.5*x*sech2(t)*k*(1+3*cubic*x*x)
	}
	l.of(gelu.BackwardDefinition, num.F32)
	l.from("prototype 24")
	l.add("tanh-cancels", "1 - tanh² cancels in the tails", anyOrder, grad(func(dy, x float32) float32 {
		return dy * float32(derivative(float64(x), func(t float64) float64 {
			f := float32(t)
			return float64(1 - float32(f*f))
		}))
	}))
	l.from("prototype 12")
	l.level = Quick // no case of level smoke has that many elements
	l.add("short-offsets", "offsets are counted in 16 bits", bits, plain{body: answer, load: loadShort})
	l.level = Smoke
	l.of(gelu.BackwardDefinition, num.F16)
	l.from("prototype 22")
	l.add("subnormals-flushed", "results below 2^-14 become zero", anyOrder, plain{body: answer, store: storeFlushed})
	l.add("smallest-is-two", "2^-14 is stored as 2", bits, plain{body: answer, store: storeSmallestAsTwo})
	l.from(zerosPass)
	l.add("zeros", "every gradient is zero", anyOrder, edited(zeros))
	l.from(practice)
	l.add("identity", "dy is returned", anyOrder, plain{body: identity})
	l.add("product-rule", "the derivative of the sigmoid is left out", anyOrder, grad(func(dy, x float32) float32 {
		return dy * float32(derivative(float64(x), func(float64) float64 { return 0 }))
	}))
	l.add("dy-ignored", "the derivative is not multiplied by dy", anyOrder, grad(func(_, x float32) float32 {
		return float32(derivative(float64(x), func(t float64) float64 { return 1 - t*t }))
	}))
	l.add("nan-is-zero", "NaN is stored as zero", bits, plain{body: answer, store: storeNaNAsZero})
	l.add("half-written", "the second half of the rows is not written", bits, plain{body: answer, puts: writesHalf})
	l.add("store-via-bf16", "results are rounded to bf16, then to f16", anyOrder, plain{body: geluBackward(ordered(nil)), store: storeVia(to(num.BF16))})
	l.from(simulated)
	l.add("derivative-rounded", "the derivative is rounded to f16 before it is multiplied by dy", anyOrder, plain{body: geluBackward(
		replaced(ordered(nil), func(p *parts) { p.step = to(num.F16) }))})
	l.of(gelu.BackwardDefinition, num.BF16)
	l.from(practice)
	l.add("store-truncates", "results are cut off, not rounded", anyOrder, plain{body: geluBackward(ordered(nil)), store: storeTowardZero})
	return l.all
}
