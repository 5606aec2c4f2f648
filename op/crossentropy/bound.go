package crossentropy

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/fn"
)

const u = bound.U

var bounds = []bound.Form{
	{
		Output: "loss", Assumes: map[*def.Function]float64{fn.ExpNonPositiveFunction: 1, fn.LogFunction: 1},
		Text: []string{"bound = (ln C + h(C) + 3 + 3*loss)*u + 2^-148, and 0 for an ignored row"},
		At: func(call *bound.Call) func(r, c int) float64 {
			x, label := call.Matrix("logits"), call.Matrix("label")
			return func(r, _ int) float64 {
				if !counts(call, label.At(r, 0)) {
					return 0
				}
				p := bound.ProbabilitiesOf(x.Row(r))
				loss := math.Log(p.Sum) + (p.Max - x.At(r, int(label.At(r, 0))))
				return (math.Log(float64(x.Cols))+float64(bound.RowHeight(x.Cols))+3+3*loss)*u + 0x1p-148
			}
		},
	},
	{
		Output: "dlogits", Assumes: map[*def.Function]float64{fn.ExpNonPositiveFunction: 1, fn.RecipBoundedFunction: 0.75},
		Text: []string{
			"bound = |scale| * ((max - logits[r,c] + ln C + h(C) + 7)*u * p + 2.1*u*|p - onehot| + 2^-147) + 2^-149, and 0 for an ignored row",
			"p = softmax(logits)[r,c], onehot = 1 in the label's column, else 0",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			x, label, scale := call.Matrix("logits"), call.Matrix("label"), math.Abs(call.Param("scale"))
			return bound.ByRow(func(r int) func(c int) float64 {
				l := label.At(r, 0)
				if !counts(call, l) {
					return func(int) float64 { return 0 }
				}
				p := bound.ProbabilitiesOf(x.Row(r))
				return func(c int) float64 {
					gap := p.At(c)
					if c == int(l) {
						gap = 1 - gap
					}
					return scale*(p.Error(c)+2.1*u*gap+0x1p-148) + 0x1p-149
				}
			})
		},
	},
}

// counts reports whether the row of a label is not ignored.
func counts(call *bound.Call, label float64) bool {
	d := call.Definition
	C := call.Operands[d.Operand("logits")].Cols
	return label != call.Params[d.Param("ignore")] && label >= 0 && int(label) < C
}
