package adamw

import (
	"math"

	"tokitai/bound"
)

const u = bound.U

var stepBounds = []bound.Form{
	{
		Output: "m", Theorem: "Adamw.adamw_m_error",
		Text: []string{"bound = 2.1*u * (|beta1*m| + |(1-beta1)*grad|) + 2^-148"},
		At: func(call *bound.Call) func(r, c int) float64 {
			s := stepsOf(call)
			return func(r, c int) float64 { return s(r, c).momentError() }
		},
	},
	{
		Output: "v", Theorem: "Adamw.adamw_v_error",
		Text: []string{"bound = 3.1*u * (|beta2*v| + (1-beta2)*grad^2) + (2 + |grad|)*2^-149"},
		At: func(call *bound.Call) func(r, c int) float64 {
			s := stepsOf(call)
			return func(r, c int) float64 { a := s(r, c); return 3.1*u*a.squares + a.lost }
		},
	},
	{
		Output: "weight", Theorem: "Adamw.adamw_weight_error", None: "delta > 1/2, or v < 0",
		Text: []string{
			"bound = 1.001 * (lr/bc1 * bound(m)/d + |q| * (7.6*u + delta)) / (1 - delta) + 2.1*u*|lr*weight_decay*weight| + 1.1*u*|weight'| + (1 + lr/bc1)*2^-148; no bound where delta > 1/2, or v < 0",
			"i = 1/sqrt(bc2),  d = sqrt(v')*i + eps,  q = lr/bc1 * m'/d,  delta = (i*sqrt((2 + |grad|)*2^-149) + 2^-149)/d,  primes mark new values",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			s, old := stepsOf(call), call.Matrix("v")
			return func(r, c int) float64 {
				a := s(r, c)
				delta := (a.inverse*math.Sqrt(a.lost) + 0x1p-149) / a.d
				if !(delta <= 0.5) || old.At(r, c) < 0 {
					return math.Inf(1)
				}
				q := a.step * a.m / a.d
				next := a.w - (q + a.decay*a.w)
				return (a.step*a.momentError()/a.d+math.Abs(q)*(7.6*u+delta))/(1-delta)*bound.More +
					2.1*u*math.Abs(a.decay*a.w) + 1.1*u*math.Abs(next) + (1+a.step)*0x1p-148
			}
		},
	},
}

// adamwStep is one element's step; m is the new first moment. magnitude is that of the two terms of m, squares that
// of the terms of v, and lost what products that underflow lose of them.
type adamwStep struct{ w, m, d, step, inverse, decay, magnitude, squares, lost float64 }

func stepsOf(call *bound.Call) func(r, c int) adamwStep {
	w, m, v, g := call.Matrix("weight"), call.Matrix("m"), call.Matrix("v"), call.Matrix("grad")
	beta1, rest1 := call.Param("beta1"), call.Param("one_minus_beta1")
	beta2, rest2 := call.Param("beta2"), call.Param("one_minus_beta2")
	step, inverse, eps, decay := call.Param("step_size"), call.Param("inverse_sqrt_bc2"), call.Param("eps"), call.Param("decay")
	return func(r, c int) adamwStep {
		s := adamwStep{w: w.At(r, c), step: step, inverse: inverse, decay: decay}
		s.m = beta1*m.At(r, c) + rest1*g.At(r, c)
		s.magnitude = math.Abs(beta1*m.At(r, c)) + math.Abs(rest1*g.At(r, c))
		s.squares = math.Abs(beta2*v.At(r, c)) + rest2*g.At(r, c)*g.At(r, c)
		s.lost = (2 + math.Abs(g.At(r, c))) * 0x1p-149
		s.d = math.Sqrt(s.squares)*inverse + eps
		return s
	}
}

func (s adamwStep) momentError() float64 { return 2.1*u*s.magnitude + 0x1p-148 }
