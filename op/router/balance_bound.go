package router

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/fn"
)

var balanceAssumes = map[*def.Function]float64{fn.ExpNonPositiveFunction: 1, fn.LogFunction: 1}

// The bounds of balance. An exponential is off by (max - logit + 2)*u; the mean of max - logit by probabilities is
// at most ln C, so the sum is off by (ln C + h(C) + 2)*u. A load has three roundings.
var (
	balanceForwardBounds = []bound.Form{
		{
			Output: "balance", Assumes: map[*def.Function]float64{fn.ExpNonPositiveFunction: 1}, IsTighter: true,
			Text: []string{
				"bound = C * (sum of |f|*p*(max - logits + ln C + 2*h(C) + 12))*u + C*(1 + sum of |f|)*2^-145",
				"p = softmax(logits[t,:]), f = count / choices",
			},
			At: func(call *bound.Call) func(r, c int) float64 {
				t := tokensOf(call)
				return func(r, _ int) float64 {
					p := t.at(r)
					size := bound.Sum(t.cols, func(c int) float64 { return math.Abs(t.f[c]) * p.At(c) * (p.Max - t.x.At(r, c) + t.lnC + 2*t.h + 12) })
					return bound.More*float64(t.cols)*size*u + t.tiny
				}
			},
		},
		{
			Output: "z", Assumes: balanceAssumes, IsTighter: true,
			Text: []string{"bound = 2*|lse|*D + D^2 + u*z + 2^-149, D = (ln C + h(C) + 2 + 2*(lse - max) + |lse|)*u, lse = ln(sum of exp(logits[t,:]))"},
			At: func(call *bound.Call) func(r, c int) float64 {
				t := tokensOf(call)
				return func(r, _ int) float64 {
					lse, off := t.lse(r)
					return bound.More*(2*math.Abs(lse)*off+off*off+u*lse*lse) + 0x1p-149
				}
			},
		},
	}
	balanceBackwardBounds = []bound.Form{{
		Output: "dlogits", Assumes: balanceAssumes, IsTighter: true,
		Text: []string{
			"bound = p*(|g|*(3*u*|f| + M + 4*u*|f - m|) + 2*u*|w| + 2*|dz|*D + u*|y|) + p*|y|*(d + u) + (1 + |g|)*(1 + |y|)*C*(1 + sum of |f|)*2^-145",
			"p = softmax(logits[t,:]), d = (max - logits + ln C + h(C) + 7)*u its error, f = count / choices, m = sum of f*p, M = sum of |f|*p*(d + (h(C) + 4)*u)",
			"g = C*dbalance, w = 2*dz*lse, y = g*(f - m) + w; lse and D as for z",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			t := tokensOf(call)
			dbalance, dz := call.Matrix("dbalance"), call.Matrix("dz")
			return bound.ByRow(func(r int) func(c int) float64 {
				p := t.at(r)
				lse, off := t.lse(r)
				d := func(c int) float64 { return (p.Max - t.x.At(r, c) + t.lnC + t.h + 7) * u }
				mean := bound.Sum(t.cols, func(c int) float64 { return t.f[c] * p.At(c) })
				M := bound.Sum(t.cols, func(c int) float64 { return math.Abs(t.f[c]) * p.At(c) * (d(c) + (t.h+4)*u) })
				g, w := float64(t.cols)*dbalance.At(r, 0), 2*dz.At(r, 0)*lse
				return func(c int) float64 {
					y := g*(t.f[c]-mean) + w
					inner := math.Abs(g)*(3*u*math.Abs(t.f[c])+M+4*u*math.Abs(t.f[c]-mean)) + 2*u*math.Abs(w) + 2*math.Abs(dz.At(r, 0))*off + u*math.Abs(y)
					return bound.More*p.At(c)*(inner+math.Abs(y)*(d(c)+u)) + (1+math.Abs(g))*(1+math.Abs(y))*t.tiny
				}
			})
		},
	}}
	biasBounds = []bound.Form{{
		Output: "bias", Text: []string{"bound = u*|bias|, of the new bias"},
		At: func(call *bound.Call) func(r, c int) float64 {
			bias, rate := call.Matrix("bias"), call.Param("rate")
			return func(r, c int) float64 { return u * (math.Abs(bias.At(r, c)) + rate) }
		},
	}}
)

// tokens are the logits and loads of a call, in binary64.
type tokens struct {
	x            bound.Matrix
	f            []float64
	cols         int
	lnC, h, tiny float64
}

func tokensOf(call *bound.Call) *tokens {
	t := &tokens{x: call.Matrix("logits")}
	count := &call.Operands[call.Definition.Operand("count")]
	sum := 1.0
	for c := range count.Cols {
		t.f = append(t.f, float64(count.Int(0, c))/call.Params[call.Definition.Param("choices")])
		sum += math.Abs(t.f[c])
	}
	t.cols = t.x.Cols
	t.lnC, t.h = math.Log(float64(t.cols)), float64(bound.RowHeight(t.cols))
	t.tiny = float64(t.cols) * sum * 0x1p-145
	return t
}

func (t *tokens) at(r int) bound.Probabilities { return bound.ProbabilitiesOf(t.x.Row(r)) }

// lse returns ln of the sum of a row's exponentials, and its error.
func (t *tokens) lse(r int) (lse, off float64) {
	p := t.at(r)
	log := math.Log(p.Sum)
	return p.Max + log, (t.lnC + t.h + 2 + 2*log + math.Abs(p.Max+log)) * u * bound.More
}
