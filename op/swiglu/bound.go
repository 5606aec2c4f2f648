package swiglu

import (
	"math"

	"tokitai/bound"
	"tokitai/op/silu"
)

const u = bound.U

var forwardBounds = []bound.Form{
	{
		Output: "y", Assumes: silu.Assumes,
		Text: []string{
			"bound = 6*u*|y| + (1 + |up|)*2^-150 for gate >= 0",
			"bound = 9*u*|y| + (1 + (2*a + 3)*|up|)*2^-150 for gate < 0, with a = min(|gate|, 128)",
		},
		At: func(call *bound.Call) func(r, c int) float64 { return productWithSilu(call, "up") },
	},
}

// In dgate, h is off by 4.5u at most; 1 + e·h by 6.5u·e·h and u of itself, e - e·h by
// 4.5u·e·h and 3u of itself; r and three products add 6.5u.
var backwardBounds = []bound.Form{
	{
		Output: "dgate", Assumes: silu.Assumes, IsTighter: true, // e - e·h
		Text: []string{
			"bound = u*|dy*up|*r * (8 + 15*e*k) + D for gate >= 0",
			"bound = u*|dy*up|*r*e * (10*|1 - k| + 5*k) + D for gate < 0",
			"a as in swiglu.forward, e = exp(-a), r = 1/(1+e), k = a*r, D = (1 + |dy| + (2*a + 5)*|dy*up|)*2^-150",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			dy, gate, up := call.Matrix("dy"), call.Matrix("gate"), call.Matrix("up")
			return func(r, c int) float64 {
				g := silu.At(gate.At(r, c))
				d := math.Abs(dy.At(r, c) * up.At(r, c))
				small := (1 + math.Abs(dy.At(r, c)) + (2*g.A+5)*d) * bound.Tiny
				k := g.A * g.R
				if gate.At(r, c) >= 0 {
					return u*d*g.R*(8+15*g.E*k) + small
				}
				return u*d*g.R*g.E*(10*math.Abs(1-k)+5*k) + small
			}
		},
	},
	{
		Output: "dup", Assumes: silu.Assumes,
		Text: []string{
			"bound = 6*u*|dup| + (1 + |dy|)*2^-150 for gate >= 0",
			"bound = 9*u*|dup| + (1 + (2*a + 3)*|dy|)*2^-150 for gate < 0",
		},
		At: func(call *bound.Call) func(r, c int) float64 { return productWithSilu(call, "dy") },
	},
}

// productWithSilu bounds silu(gate) times another operand. r is off by 3.5u (silu.Numbers).
// Below zero a·e adds 3u and (2a+1)·2^-150; the two products that are left add 2u, and 2^-150
// each.
func productWithSilu(call *bound.Call, factor string) func(r, c int) float64 {
	gate, f := call.Matrix("gate"), call.Matrix(factor)
	return func(r, c int) float64 {
		g, d := silu.At(gate.At(r, c)), math.Abs(f.At(r, c))
		if gate.At(r, c) >= 0 {
			return 6*u*gate.At(r, c)*g.R*d + (1+d)*bound.Tiny
		}
		return 9*u*g.A*g.E*g.R*d + (1+(2*g.A+3)*d)*bound.Tiny
	}
}
