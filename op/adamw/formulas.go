package adamw

import (
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
)

// form returns a mode with an update of its own.
func form(mode Mode, name string, update func(b *def.Builder, w def.Value) def.Value) *def.Definition {
	return def.Must(def.Rowwise(mode.Definition().Name+"."+name, func(b *def.Builder) {
		switch mode {
		case Master:
			next := update(b, b.In("weight", def.Only(num.F32)))
			b.Out("weight", next)
			b.Out("copy", next, def.Only(num.F16, num.BF16))
		case Stochastic:
			next := update(b, b.In("weight", def.Only(num.F16, num.BF16)))
			word := b.Random(b.IntParam("seed_low"), b.IntParam("seed_high"),
				b.IntParam("tensor", def.Between(0, math.MaxInt32)), b.IntParam("t", def.Between(1, math.MaxInt32)))
			b.Out("weight", next.StochasticRound(def.StorageOf("weight"), word.As("word")))
		default:
			b.Out("weight", update(b, b.In("weight")))
		}
	}))
}

// lerp moves m toward grad, and decays the weight by a factor before the step.
func lerp(b *def.Builder, w def.Value) def.Value {
	m, v, g := b.In("m", def.Only(num.F32)), b.In("v", def.Only(num.F32)), b.In("grad")
	share, size := def.Between(0, 1), def.AtLeast(0)
	_, rest1 := b.Param("beta1", share), b.Param("one_minus_beta1", share)
	beta2, rest2 := b.Param("beta2", share), b.Param("one_minus_beta2", share)
	stepSize, inverse := b.Param("step_size", size), b.Param("inverse_sqrt_bc2", size)
	eps, decay := b.Param("eps", size), b.Param("decay", size)

	newM := m.Add(rest1.Mul(g.Sub(m))).As("new_m")
	newV := beta2.Mul(v).Add(rest2.Mul(g).Mul(g)).As("new_v")
	d := newV.Sqrt().Mul(inverse).Add(eps).As("d")
	b.Out("m", newM)
	b.Out("v", newV)
	return w.Mul(def.One.Sub(decay)).Sub(stepSize.Mul(newM.Div(d))).As("new_weight")
}

var formulas = func() (list []op.Formula) {
	for mode := range Mode(len(modeNames)) {
		list = append(list, op.Formula{
			// A weight that is decayed to nothing does not depend on the old one, and yet is as
			// far off as the difference of the two.
			Name: "subtracted", Of: mode.Definition(), Definition: form(mode, "subtracted", update), IsUsual: true,
			Text: "weight - (step + lr*weight_decay*weight): the definition's own form, whose steps round relative to the weight even where the decay cancels it",
		}, op.Formula{
			Name: "lerp", Of: mode.Definition(), Definition: form(mode, "lerp", lerp), IsUsual: true,
			Text: "m + (1-beta1)*(grad - m), and the weight times 1 - lr*weight_decay before the step: beta1 is then 1 less the rounded 1-beta1",
		})
	}
	return list
}()
