package gelu

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/fn"
)

const u = bound.U

var forwardBounds = []bound.Form{
	{
		Output: "y", Theorem: "Joined.gelu_forward_closed", Assumes: map[*def.Function]float64{fn.ExpBoundedFunction: 1, fn.RecipBoundedFunction: 0.75},
		Text: []string{
			"bound = 6*u*y + 2^-150 for x >= 0",
			"bound = (4*t + 7)*u*|y| + 2^-144 for x < 0, with t = 2*sqrt(2/pi) * (a + 0.044715*a^3), a = min(|x|, 11)",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			x := call.Matrix("x")
			return func(r, c int) float64 {
				v := x.At(r, c)
				g := geluParts(v)
				if v >= 0 {
					return 6*u*v*g.r + bound.Tiny
				}
				return (4*g.t+7)*u*g.a*g.e*g.r + 0x1p-144
			}
		},
	},
}

var backwardBounds = []bound.Form{
	{
		Output: "dx", Theorem: "Joined.gelu_backward_closed", Assumes: map[*def.Function]float64{fn.ExpBoundedFunction: 1, fn.RecipBoundedFunction: 0.75}, IsTighter: true, // e - e·h
		Text: []string{
			"bound = u*|dy|*r * (8*(1 + e*k) + (4*t + 12)*e*k) + (1 + |dy|)*2^-138 for x >= 0",
			"bound = u*|dy|*r*e * ((4*t + 10)*|1 - k| + 10*k) + (1 + |dy|)*2^-138 for x < 0",
			"t and a as in gelu.forward, e = exp(-t), r = 1/(1+e), k = r*a * 2*sqrt(2/pi) * (1 + 0.134145*a^2)",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			dy, x := call.Matrix("dy"), call.Matrix("x")
			return func(r, c int) float64 {
				g, d := geluParts(x.At(r, c)), math.Abs(dy.At(r, c))
				k := g.r * g.a * geluSlope * (1 + 0.134145*g.a*g.a)
				small := (1 + d) * 0x1p-138
				if x.At(r, c) >= 0 {
					return u*d*g.r*(8*(1+g.e*k)+(4*g.t+12)*g.e*k) + small
				}
				return u*d*g.r*g.e*((4*g.t+10)*math.Abs(1-k)+10*k) + small
			}
		},
	},
}

const geluSlope = 1.5957691216057308 // 2·√(2/π)

type geluPart struct{ a, t, e, r float64 }

// geluParts are the quantities of the definition. With rounded constants a²'s
// polynomial is off by 3u, t by 4u, e by (4t+2)u, r by (4t+2)u·e/(1+e) + 2.5u, and
// t·e/(1+e) is at most 0.279.
func geluParts(x float64) (g geluPart) {
	g.a = min(math.Abs(x), 11)
	g.t = geluSlope * (g.a + 0.044715*g.a*g.a*g.a)
	g.e = math.Exp(-g.t)
	g.r = 1 / (1 + g.e)
	return g
}
