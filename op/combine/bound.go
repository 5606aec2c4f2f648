package combine

import (
	"math"

	"tokitai/bound"
)

const u = bound.U

var forwardBounds = []bound.Form{{
	Output: "y",
	Text:   []string{"bound = g(S) * sum |weight*o| + S*2^-150*(1 + g(S))"},
	At:     func(call *bound.Call) func(r, c int) float64 { return chain(call, "o", "weight") },
}}

var permuteBackwardBounds = []bound.Form{{
	Output: "dx",
	Text:   []string{"bound = g(S) * sum |drows| + S*2^-150*(1 + g(S))"},
	At:     func(call *bound.Call) func(r, c int) float64 { return chain(call, "drows", "") },
}}

// chain bounds a sum of S steps: each term passes through at most S roundings, and each step may
// underflow once.
func chain(call *bound.Call, table, weight string) func(r, c int) float64 {
	place, rows := call.Matrix("place"), call.Matrix(table)
	var w bound.Matrix
	if weight != "" {
		w = call.Matrix(weight)
	}
	n := place.Cols
	return func(r, c int) float64 {
		sum := 0.0
		for s := range n {
			v := int(place.At(r, s))
			if v < 0 || v >= rows.Rows {
				continue
			}
			term := math.Abs(rows.At(v, c))
			if weight != "" {
				term *= math.Abs(w.At(r, s))
			}
			sum += term
		}
		return bound.Gamma(n)*sum + float64(n)*bound.Tiny*(1+bound.Gamma(n))
	}
}

var permuteBounds = []bound.Form{{
	Output: "rows",
	Text:   []string{"bound = 0, and rows is the truth itself: bits are copied"},
	At:     func(*bound.Call) func(r, c int) float64 { return func(int, int) float64 { return 0 } },
}}

var backwardBounds = []bound.Form{
	{
		Output: "do",
		Text:   []string{"bound = u*|do| + 2^-150"},
		At: func(call *bound.Call) func(r, c int) float64 {
			dy, weight := call.Matrix("dy"), call.Matrix("weight")
			return func(r, c int) float64 { return u*math.Abs(dy.At(r, c)*weight.At(r, 0)) + bound.Tiny }
		},
	},
	{
		Output: "dweight",
		Text: []string{
			"bound = g(h + 1) * sum |dy*o| + (1 + g(h)) * C * 2^-150",
			"h is the height of the row sum",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			dy, o := call.Matrix("dy"), call.Matrix("o")
			h := bound.RowHeight(o.Cols)
			return func(r, _ int) float64 {
				sum := bound.Sum(o.Cols, func(c int) float64 { return math.Abs(dy.At(r, c) * o.At(r, c)) })
				return bound.Gamma(h+1)*sum + (1+bound.Gamma(h))*float64(o.Cols)*bound.Tiny
			}
		},
	},
}
