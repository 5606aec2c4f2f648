package router

import (
	"math"
	"slices"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/fn"
)

const u = bound.U

var (
	softmaxAssumes = map[*def.Function]float64{fn.ExpNonPositiveFunction: 1}
	sigmoidAssumes = map[*def.Function]float64{fn.ExpBoundedFunction: 1, fn.RecipBoundedFunction: 0.75}
)

// tooClose is the condition without a bound: another choice has other weights.
const tooClose = "two scores with their biases are so close that rounding decides which is chosen, or the chosen ones are too small to divide by"

var forwardText = []string{
	"bound = (d[e] + D + (h(C) + 3)*u) * weight + (1 + f*(1 + K*weight/scale))*2^-147, without D and h where weights are not normalised",
	"d[e] = the relative error of a score, D the largest of the chosen, f = scale / sum of the chosen or scale",
	"softmax: d[e] = (max - logits[t,e] + ln C + h(C) + 7)*u; sigmoid: d[e] = 6*u",
	"no bound where " + tooClose,
}

var backwardText = []string{
	"bound = |f| * ((V + (h(C) + 1)*u)*S + (v + 4*u)*|g - m|) + small",
	"g = dweight of a chosen expert, else 0; q = score, over the sum of the chosen where weights are normalised; m = sum g*q and S = sum |g*q| (sigmoid: 0 where weights are not normalised)",
	"softmax: f = scale*q and v its error as that of a weight; sigmoid: f = slope * scale, over the sum of the chosen where weights are normalised, and v = 12*u more than that of the sum",
	"V = the largest error of the chosen q; small = (1 + scale)*(1 + |g| + S)*(1 + 1/sum of the chosen)*(C + 2)*2^-146",
	"no bound where " + tooClose,
}

var (
	softmaxForwardBounds  = []bound.Form{{Output: "weight", Assumes: softmaxAssumes, Text: forwardText, None: tooClose, At: weightBound, IsTighter: true}}
	sigmoidForwardBounds  = []bound.Form{{Output: "weight", Assumes: sigmoidAssumes, Text: forwardText, None: tooClose, At: weightBound, IsTighter: true}}
	softmaxBackwardBounds = []bound.Form{{Output: "dlogits", Assumes: softmaxAssumes, Text: backwardText, None: tooClose, At: gradientBound, IsTighter: true}}
	sigmoidBackwardBounds = []bound.Form{{Output: "dlogits", Assumes: sigmoidAssumes, Text: backwardText, None: tooClose, At: gradientBound, IsTighter: true}}
)

// row holds a token's scores and choice, in binary64.
type row struct {
	score, slope, err []float64 // err is relative; besides, a score is off by up to 2^-148
	chosen            []int     // ascending
	isChosen          []bool
	largest           float64 // err of the chosen
	total, factor     float64
	inverse           float64 // 1/total, or 1
	isNormalised      bool
	isOpen            bool // rounding may choose others
}

// rowsOf returns the tokens of a call.
func rowsOf(call *bound.Call) func(r int) *row {
	x, bias := call.Matrix("logits"), call.Matrix("bias")
	k, scale, isNormalised := int(call.Param("k")), call.Param("scale"), call.Param("normalise") == 1
	isSigmoid := call.Definition == SigmoidForwardDefinition || call.Definition == SigmoidBackwardDefinition
	last, of := -1, (*row)(nil)
	return func(r int) *row {
		if r == last {
			return of
		}
		last, of = r, newRow(x.Row(r), bias.Row(0), k, scale, isNormalised, isSigmoid)
		return of
	}
}

func newRow(x, bias []float64, k int, scale float64, isNormalised, isSigmoid bool) *row {
	n := len(x)
	t := &row{score: make([]float64, n), slope: make([]float64, n), err: make([]float64, n), isChosen: make([]bool, n), isNormalised: isNormalised}
	p := bound.ProbabilitiesOf(x)
	for c := range x {
		if isSigmoid {
			// e is off by 2u and 2^-149, 1+e by less, the reciprocal by 1.5u more; the product adds u.
			e := math.Exp(-math.Abs(x[c]))
			t.score[c], t.slope[c], t.err[c] = 1/(1+e), e/((1+e)*(1+e)), 6*u
			if x[c] < 0 {
				t.score[c] = e / (1 + e)
			}
		} else {
			t.score[c] = p.At(c)
			t.slope[c] = t.score[c]
			t.err[c] = (p.Max - x[c] + math.Log(float64(n)) + float64(bound.RowHeight(n)) + 7) * u
		}
	}
	order := make([]int, n)
	for c := range order {
		order[c] = c
	}
	key := func(c int) float64 { return t.score[c] + bias[c] }
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case key(a) > key(b):
			return -1
		case key(a) < key(b):
			return 1
		}
		return 0
	})
	k = min(k, n)
	t.chosen = slices.Clone(order[:k])
	slices.Sort(t.chosen)
	for _, c := range t.chosen {
		t.isChosen[c] = true
		t.largest = max(t.largest, t.err[c])
		t.total += t.score[c]
	}
	off := func(c int) float64 { return t.err[c]*t.score[c] + 0x1p-147 + 2*u*math.Abs(key(c)) }
	if k < n {
		least, most := math.Inf(1), math.Inf(-1)
		for c := range x {
			if t.isChosen[c] {
				least = min(least, key(c)-off(c))
			} else {
				most = max(most, key(c)+off(c))
			}
		}
		t.isOpen = !(least > most)
	}
	t.factor, t.inverse = scale, 1
	if isNormalised {
		t.factor, t.inverse = scale/t.total, 1/t.total
		t.isOpen = t.isOpen || !(t.total > 0x1p-100) // so that the absolute errors of scores stay small
	}
	return t
}

// weightBound: a weight is score·factor. The sum of the chosen scores is off by at most the largest of
// their errors and h(C) roundings, the quotient and the product add one each; one more is for the terms of second
// order, since no error exceeds 2^-14. A score that underflows is off by 2^-148, so the sum by K times that.
func weightBound(call *bound.Call) func(r, c int) float64 {
	rows, scale := rowsOf(call), call.Param("scale")
	cols := call.Matrix("logits").Cols
	return func(r, c int) float64 {
		t := rows(r)
		switch {
		case t.isOpen:
			return math.Inf(1)
		case c >= len(t.chosen):
			return 0
		}
		e := t.chosen[c]
		w := t.score[e] * t.factor
		relative := t.err[e] + 3*u
		if t.isNormalised {
			relative += t.largest + float64(bound.RowHeight(cols))*u
		}
		return relative*w + (1+t.factor*(1+float64(len(t.chosen))*w/scale))*0x1p-147
	}
}

// gradientBound: the quotient of a score by the sum of the chosen has the errors of both and one rounding; the
// products with g and their sum add h(C) + 1, the difference one, and the two products that are left one
// each. Products that underflow are off by 2^-150 each, and scores by 2^-148. The slope e·r·r is off by 2u for e,
// 3.5u for each r, and two roundings.
func gradientBound(call *bound.Call) func(r, c int) float64 {
	rows := rowsOf(call)
	dweight, scale := call.Matrix("dweight"), call.Param("scale")
	cols := call.Matrix("logits").Cols
	h := float64(bound.RowHeight(cols))
	isSigmoid := call.Definition == SigmoidBackwardDefinition
	return func(r, c int) float64 {
		t := rows(r)
		switch {
		case t.isOpen:
			return math.Inf(1)
		case !t.isChosen[c] && (t.isNormalised || isSigmoid):
			return 0
		}
		g := make([]float64, cols)
		for slot, e := range t.chosen {
			if slot < dweight.Cols {
				g[e] = dweight.At(r, slot)
			}
		}
		ofTotal := 0.0
		if t.isNormalised {
			ofTotal = t.largest + (h+1)*u
		}
		var mean, abs float64
		for e, d := range g {
			mean += d * t.score[e] * t.inverse
			abs += math.Abs(d * t.score[e] * t.inverse)
		}
		factor, v := scale*t.score[c]*t.inverse, t.err[c]+ofTotal
		if isSigmoid {
			factor, v = t.factor*t.slope[c], ofTotal+12*u
			if !t.isNormalised {
				mean, abs = 0, 0
			}
		}
		small := (1 + scale) * (1 + math.Abs(g[c]) + abs) * (1 + t.inverse) * float64(cols+2) * 0x1p-146
		return bound.More*factor*((t.largest+ofTotal+(h+1)*u)*abs+(v+4*u)*math.Abs(g[c]-mean)) + small
	}
}
