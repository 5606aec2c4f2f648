package sample

import (
	"math"
	"slices"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
)

const u = bound.U

// tooClose is the condition without a bound: another token has another logprob.
const tooClose = "rounding decides which token is taken: two of the kept have scores that are too close, or a mass or exp(z) is too close to a limit"

// The bound is that of the loss in op/crossentropy, which is -logprob.
var bounds = []bound.Form{{
	Output: "logprob", Assumes: map[*def.Function]float64{fn.ExpNonPositiveFunction: 1, fn.LogFunction: 1, fn.Log1pFunction: 1},
	Text: []string{"bound = (ln C + h(C) + 3 + 3*|logprob|)*u + 2^-148", "no bound where " + tooClose},
	None: tooClose, IsTighter: true,
	At: func(call *bound.Call) func(r, c int) float64 {
		x, rows := call.Matrix("logits"), rowsOf(call)
		return func(r, _ int) float64 {
			t := rows(r)
			if t.isOpen {
				return math.Inf(1)
			}
			p := bound.ProbabilitiesOf(x.Row(r))
			logprob := x.At(r, t.token) - p.Max - math.Log(p.Sum)
			return (math.Log(float64(x.Cols))+float64(bound.RowHeight(x.Cols))+3+3*math.Abs(logprob))*u + 0x1p-148
		}
	},
}}

// row is what a row gives, in binary64.
type row struct {
	token  int
	isOpen bool // rounding may take another token
}

// rowsOf returns the rows of a call, of finite logits.
func rowsOf(call *bound.Call) func(r int) row {
	operand := func(name string) *num.Array { return &call.Operands[call.Definition.Operand(name)] }
	word := func(name string) uint32 { return uint32(int32(call.Params[call.Definition.Param(name)])) }
	seed, use := uint64(word("seed_low"))|uint64(word("seed_high"))<<32, word("use")
	x := call.Matrix("logits")
	sequence, position, topK := operand("sequence"), operand("position"), operand("top_k")
	temperature, topP, minP := operand("temperature"), operand("top_p"), operand("min_p")
	last, of := -1, row{}
	return func(r int) row {
		if r != last {
			s := settings64{
				temperature: float64(temperature.At(r, 0)), topK: int(topK.Int(r, 0)), topP: float64(topP.At(r, 0)), minP: float64(minP.At(r, 0)),
				word: func(c int) uint32 {
					return num.Philox(seed, [4]uint32{uint32(c) >> 2, uint32(sequence.Int(r, 0)), uint32(position.Int(r, 0)), use})[c&3]
				},
			}
			last, of = r, s.draw(x.Row(r))
		}
		return of
	}
}

type settings64 struct {
	temperature, topP, minP float64
	topK                    int
	word                    func(c int) uint32
}

// draw takes a token. A quotient z has two roundings. exp(z) is off by the error of z and one ulp, which is
// at most 2u. v has one rounding, so E = -ln(1-v) is off by u*v/(1-v) at most, twice that where 1-v is as small as its error, and
// by one ulp; the noise -ln(E) is off by the relative error of E and one ulp, and the score has one more rounding.
func (s *settings64) draw(x []float64) (t row) {
	most := slices.Max(x)
	t.token = slices.Index(x, most)
	if !(s.temperature > 0) || math.IsInf(most, 0) || most != most {
		return t
	}
	order := make([]int, len(x))
	z, e, off := make([]float64, len(x)), make([]float64, len(x)), make([]float64, len(x)) // off: of e
	for c := range x {
		order[c] = c
		z[c] = math.Inf(-1)
		if d := x[c] - most; !math.IsInf(float64(float32(d)), -1) { // a difference may overflow
			z[c] = d / min(s.temperature, math.MaxFloat32)
		}
		if e[c] = math.Exp(z[c]); z[c] != 0 {
			off[c] = bound.More*e[c]*(2*-max(z[c], -200)+2)*u + 0x1p-148
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case x[a] > x[b]:
			return -1
		case x[a] < x[b]:
			return 1
		}
		return 0
	})
	if s.topK >= 1 {
		order = order[:min(s.topK, len(order))]
	}
	if !(s.topP >= 1) {
		order = s.nucleus(order, e, off, &t.isOpen)
	}
	best, least := math.Inf(-1), math.Inf(-1) // the largest score, and what it is at least
	type end struct {
		c int
		v float64
	}
	var ends []end // what scores are at most
	for _, c := range slices.Sorted(slices.Values(order)) {
		if limit := min(s.minP, 1); limit > 0 {
			t.isOpen = t.isOpen || off[c] > 0 && math.Abs(e[c]-limit) <= off[c]
			if e[c] < limit {
				continue
			}
		}
		v := min((float64(s.word(c))+0.5)*0x1p-32, 1-0x1p-24)
		E := -math.Log1p(-v)
		noise := -math.Log(E)
		score := z[c] + noise
		if math.IsInf(score, -1) {
			continue
		}
		far := bound.More*(2*u*math.Abs(z[c])+2*(2*u*v/(1-v)/E+2*u)+2*u*math.Abs(noise)+u*math.Abs(score)) + 0x1p-147
		ends = append(ends, end{c, score + far})
		if score > best {
			best, least, t.token = score, score-far, c
		}
	}
	for _, of := range ends {
		t.isOpen = t.isOpen || of.c != t.token && of.v >= least
	}
	return t
}

// nucleus returns the first of the tokens in an order that top_p keeps. A mass is off by one and by 2^30 times the
// error of exp(z), so sums are off by at most all of that together.
func (s *settings64) nucleus(order []int, e, off []float64, isOpen *bool) []int {
	share := 0.0
	if s.topP > 0 {
		share = math.RoundToEven(0x1p31*s.topP) / 0x1p31
	}
	var total, far float64
	for _, c := range order {
		total += math.RoundToEven(0x1p30 * e[c])
		if off[c] > 0 {
			far += 0x1p30*off[c] + 1
		}
	}
	limit, before := max(1, math.Floor(total*share)), 0.0
	for i, c := range order {
		sum := before + math.RoundToEven(0x1p30*e[c])
		if sum >= limit {
			*isOpen = *isOpen || sum-limit <= 2*far && share > 0 || i > 0 && limit-before <= 2*far+1
			return order[:i+1]
		}
		before = sum
	}
	return order
}
