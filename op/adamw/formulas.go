package adamw

import (
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
)

// lerp returns a mode as PyTorch computes it: m moves toward grad, grad is squared before it is
// scaled, the weight is decayed by a factor before the step, and the step size is multiplied by m
// before the quotient. If that product is subnormal, the quotient by a small d shows what it lost;
// where the square overflows, nothing is said about the result.
func lerp(mode Mode) *def.Definition {
	return def.Must(def.Rowwise("adamw."+modeNames[mode]+".lerp", func(b *def.Builder) {
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
		newV := beta2.Mul(v).Add(rest2.Mul(g.Mul(g))).As("new_v")
		d := newV.Sqrt().Mul(inverse).Add(eps).As("d")
		b.Out("m", newM)
		b.Out("v", newV)
		next := w.Mul(def.One.Sub(decay)).Sub(stepSize.Mul(newM).Div(d)).As("new_weight")
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
			Name: "lerp", Of: mode.Definition(), Definition: mode.Definition().UsualForms()[0],
			Text: "m + (1-beta1)*(grad - m), so that beta1 is 1 less the rounded 1-beta1; (1-beta2)*(grad*grad); the weight times 1 - lr*weight_decay, less (step_size*m)/d",
		})
	}
	return list
}()
