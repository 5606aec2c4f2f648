package silu

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/fn"
)

const u = bound.U

// Assumes holds the errors of functions that bounds of a [Unit] take for granted, in ulp.
var Assumes = map[*def.Function]float64{fn.ExpBoundedFunction: 1, fn.RecipBoundedFunction: 0.75}

// r is off by 3.5u ([Numbers]). Below zero a·e adds 3u and (2a+1)·2^-150; the product that is
// left adds u and 2^-150.
var forwardBounds = []bound.Form{{
	Output: "y", Assumes: Assumes,
	Text: []string{
		"bound = 5*u*y + 2^-150 for x >= 0",
		"bound = 8*u*|y| + (2*a + 3)*2^-150 for x < 0, with a = min(|x|, 128)",
	},
	At: func(call *bound.Call) func(r, c int) float64 {
		x := call.Matrix("x")
		return func(r, c int) float64 {
			v := x.At(r, c)
			n := At(v)
			if v >= 0 {
				return 5*u*n.Value() + bound.Tiny
			}
			return -8*u*n.Value() + (2*n.A+3)*bound.Tiny
		}
	},
}}

// h is off by 4.5u at most; 1 + e·h by 6.5u·e·h and u of itself, e - e·h by 4.5u·e·h and 3u of
// itself; r and two products add 5.5u.
var backwardBounds = []bound.Form{{
	Output: "dx", Assumes: Assumes, IsTighter: true, // e - e·h
	Text: []string{
		"bound = u*|dy|*r * (7 + 14*e*k) + D for x >= 0",
		"bound = u*|dy|*r*e * (9*|1 - k| + 5*k) + D for x < 0",
		"a as in silu.forward, e = exp(-a), r = 1/(1+e), k = a*r, D = (1 + (2*a + 5)*|dy|)*2^-150",
	},
	At: func(call *bound.Call) func(r, c int) float64 {
		dy, x := call.Matrix("dy"), call.Matrix("x")
		return func(r, c int) float64 {
			n, d := At(x.At(r, c)), math.Abs(dy.At(r, c))
			k, small := n.A*n.R, (1+(2*n.A+5)*d)*bound.Tiny
			if x.At(r, c) >= 0 {
				return u*d*n.R*(7+14*n.E*k) + small
			}
			return u*d*n.R*n.E*(9*math.Abs(1-k)+5*k) + small
		}
	},
}}
