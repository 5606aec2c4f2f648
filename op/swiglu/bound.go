package swiglu

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/fn"
)

const u = bound.U

var assumes = map[*def.Function]float64{fn.ExpBoundedFunction: 1, fn.RecipBoundedFunction: 0.75}

var forwardBounds = []bound.Form{
	{
		Output: "y", Assumes: assumes,
		Text: []string{
			"bound = 6*u*|y| + (1 + |up|)*2^-150 for gate >= 0",
			"bound = 9*u*|y| + (1 + (2*a + 3)*|up|)*2^-150 for gate < 0, with a = min(|gate|, 128)",
		},
		At: func(call *bound.Call) func(r, c int) float64 { return productWithSilu(call, "up") },
	},
}

var backwardBounds = []bound.Form{
	{
		Output: "dgate", Assumes: assumes, IsTighter: true, // e - e·h
		Text: []string{
			"bound = u*|dy*up|*r * (8 + 15*e*k) + D for gate >= 0",
			"bound = u*|dy*up|*r*e * (10*|1 - k| + 5*k) + D for gate < 0",
			"a as in swiglu.forward, e = exp(-a), r = 1/(1+e), k = a*r, D = (1 + |dy| + (2*a + 5)*|dy*up|)*2^-150",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			dy, gate, up := call.Matrix("dy"), call.Matrix("gate"), call.Matrix("up")
			return func(r, c int) float64 {
				g := partsOf(gate.At(r, c))
				d := math.Abs(dy.At(r, c) * up.At(r, c))
				small := (1 + math.Abs(dy.At(r, c)) + (2*g.a+5)*d) * bound.Tiny
				k := g.a * g.r
				if gate.At(r, c) >= 0 {
					return u*d*g.r*(8+15*g.e*k) + small
				}
				return u*d*g.r*g.e*(10*math.Abs(1-k)+5*k) + small
			}
		},
	},
	{
		Output: "dup", Assumes: assumes,
		Text: []string{
			"bound = 6*u*|dup| + (1 + |dy|)*2^-150 for gate >= 0",
			"bound = 9*u*|dup| + (1 + (2*a + 3)*|dy|)*2^-150 for gate < 0",
		},
		At: func(call *bound.Call) func(r, c int) float64 { return productWithSilu(call, "dy") },
	},
}

// productWithSilu bounds silu(gate) times another operand. e is off by 2u and 2^-149, so r by
// 2u·e/(1+e) + 2.5u, which is at most 3.5u. Below zero a·e adds 3u and (2a+1)·2^-150; the two
// products that are left add 2u, and 2^-150 each.
func productWithSilu(call *bound.Call, factor string) func(r, c int) float64 {
	gate, f := call.Matrix("gate"), call.Matrix(factor)
	return func(r, c int) float64 {
		g, d := partsOf(gate.At(r, c)), math.Abs(f.At(r, c))
		if gate.At(r, c) >= 0 {
			return 6*u*gate.At(r, c)*g.r*d + (1+d)*bound.Tiny
		}
		return 9*u*g.a*g.e*g.r*d + (1+(2*g.a+3)*d)*bound.Tiny
	}
}

type part struct{ a, e, r float64 }

// partsOf are the quantities of the definition. h is off by 4.5u at most; 1 + e·h by
// 6.5u·e·h and u of itself, e - e·h by 4.5u·e·h and 3u of itself; r and three products add
// 6.5u.
func partsOf(gate float64) (g part) {
	g.a = min(math.Abs(gate), 128)
	g.e = math.Exp(-g.a)
	g.r = 1 / (1 + g.e)
	return g
}
