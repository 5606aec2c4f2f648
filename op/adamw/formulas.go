package adamw

import (
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
)

// lerp returns a mode in which m moves toward grad, v toward its square, and the weight is
// decayed by a factor before the step.
func lerp(mode Mode) *def.Definition {
	own := mode.Definition()
	return def.Must(def.Rowwise(own.Name+".lerp", func(b *def.Builder) {
		var w def.Value
		switch mode {
		case Master:
			w = b.In("weight", def.Only(num.F32))
		case Stochastic:
			w = b.In("weight", def.Only(num.F16, num.BF16))
		default:
			w = b.In("weight")
		}
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
		next := w.Mul(def.One.Sub(decay)).Sub(stepSize.Mul(newM.Div(d))).As("new_weight")
		switch mode {
		case Stochastic:
			word := b.Random(b.IntParam("seed_low"), b.IntParam("seed_high"),
				b.IntParam("tensor", def.Between(0, math.MaxInt32)), b.IntParam("t", def.Between(1, math.MaxInt32)))
			b.Out("weight", next.StochasticRound(def.StorageOf("weight"), word.As("word")))
		case Master:
			b.Out("weight", next)
			b.Out("copy", next, def.Only(num.F16, num.BF16))
		default:
			b.Out("weight", next)
		}
	}))
}

var formulas = func() (list []op.Formula) {
	for mode := range Mode(len(modeNames)) {
		list = append(list, op.Formula{
			Name: "lerp", Of: mode.Definition(), Definition: lerp(mode), IsUsual: true,
			Text: "m + (1-beta1)*(grad - m), and the weight times 1 - lr*weight_decay before the step: beta1 is then 1 less the rounded 1-beta1",
		})
	}
	return list
}()
