package softmax

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/fn"
)

const u = bound.U

var forwardBounds = []bound.Form{
	{
		Output: "y", Theorem: "Joined.softmax_forward_closed", Assumes: map[*def.Function]float64{fn.ExpNonPositiveFunction: 1, fn.RecipBoundedFunction: 0.75},
		Text: []string{"bound = (max - x[r,c] + ln C + h(C) + 7)*u * y + 2^-148"},
		At: func(call *bound.Call) func(r, c int) float64 {
			x := call.Matrix("x")
			return bound.ByRow(func(r int) func(c int) float64 {
				p := bound.ProbabilitiesOf(x.Row(r))
				return func(c int) float64 { return p.Error(c) }
			})
		},
	},
}

var backwardBounds = []bound.Form{
	{
		Output: "dx",
		Text: []string{
			"bound = |y| * (g(h(C)+3)*P + 2.1*u*|dy[r,c] - dot|) + (1 + C*|y|)*2^-149",
			"P = sum |dy[r,c]*y[r,c]| over the row, dot the same sum without bars",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			dy, y := call.Matrix("dy"), call.Matrix("y")
			return bound.ByRow(func(r int) func(c int) float64 {
				g, p := dy.Row(r), y.Row(r)
				dot := bound.Sum(dy.Cols, func(c int) float64 { return g[c] * p[c] })
				abs := bound.Sum(dy.Cols, func(c int) float64 { return math.Abs(g[c] * p[c]) })
				return func(c int) float64 {
					m := math.Abs(p[c])
					return m*(bound.Gamma(bound.RowHeight(dy.Cols)+3)*abs+2.1*u*math.Abs(g[c]-dot)) + (1+float64(dy.Cols)*m)*0x1p-149
				}
			})
		},
	},
}
