package router

import (
	"math"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/tensor"
)

// scores are the unbiased scores of a row's experts, and the derivative by the logit where it is
// elementwise.
type scores struct{ score, slope def.Value }

// probabilities are the softmax of the logits, as in softmax.forward.
func probabilities(x def.Value) scores {
	e := fn.ExpNonPositive(x.Sub(def.RowMax(x).As("max"))).As("e")
	return scores{score: e.Mul(def.One.Div(def.RowSum(e).As("sum"))).As("p")}
}

// limit is where exp(-|x|) is already zero: an infinite logit gives 0 or 1.
var limit = def.Const(128)

// sigmoids are σ(x) with one exponential that cannot overflow, and its derivative e·r·r.
func sigmoids(x def.Value) scores {
	e := fn.ExpBounded(x.Abs().Min(limit).Neg()).As("e")
	r := fn.RecipBounded(def.One.Add(e)).As("r")
	small := e.Mul(r).As("small")
	return scores{score: def.Select(x.Less(def.Zero), small, r).As("s"), slope: small.Mul(r).As("slope")}
}

// choice has the experts that are kept, and the factor that makes weights of their scores.
type choice struct {
	keep, total, scale def.Value
	factor             def.Value
	isNormalised       def.Value
}

func choose(b *def.Builder, score def.Value) choice {
	bias := b.InCol("bias", def.Only(num.F32))
	k := b.IntParam("k", def.Between(1, math.MaxInt32))
	normalise := b.IntParam("normalise", def.Between(0, 1), def.Default(1))
	scale := b.Param("scale", def.MoreThan(0), def.Default(1))
	c := choice{scale: scale, keep: def.Rank(score.Add(bias)).Less(k).As("keep"), isNormalised: normalise.Equal(def.IntConst(1)).As("normalised")}
	c.total = def.RowSum(def.Select(c.keep, score, def.Zero)).As("total")
	c.factor = def.Select(c.isNormalised, scale.Div(c.total), scale).As("factor")
	return c
}

func forward(name string, of func(x def.Value) scores, formula string, special ...string) *def.Definition {
	return def.Must(def.Rowwise(name, func(b *def.Builder) {
		s := of(b.In("logits")).score
		c := choose(b, s)
		b.OutSlots("weight", def.Packed(c.keep, s.Mul(c.factor)), def.Only(num.F32))
		b.OutSlots("expert", def.Packed(c.keep, b.Col()))

		b.Formula(
			formula,
			"chosen: the k experts of a token with the largest score[t,e] + bias[e], of equal ones the lower",
			"weight = scale * score / (normalise ? sum of the chosen scores : 1), of the chosen experts in ascending order",
		)
		b.Clauses(append([]string{
			"R >= 0, C, K >= 1; leading dimensions count as rows, and rows may be strided",
			"the slots of a row are its chosen experts in ascending order; where k < K the rest have expert -1 and weight +0, where k > K only the first K are stored, and where k >= C all experts are chosen",
			"bias chooses, and does not change a weight; a NaN score or bias comes before every number",
		}, special...)...)
	}))
}

// backward divides scores by their sum before it takes the mean of the gradients by them: a single chosen expert
// then has the share 1, and nothing cancels.
func backward(name string, of func(x def.Value) scores, formula string, special ...string) *def.Definition {
	return def.Must(def.Rowwise(name, func(b *def.Builder) {
		s := of(b.In("logits"))
		c := choose(b, s.score)
		g := def.Unpacked(c.keep, b.InSlots("dweight", def.Only(num.F32))).As("g")
		share := def.Select(c.isNormalised, def.Select(c.keep, s.score.Div(c.total), def.Zero), s.score).As("share")
		mean := def.RowSum(g.Mul(share)).As("mean")
		if s.slope == (def.Value{}) {
			dx := c.scale.Mul(share).Mul(g.Sub(mean)).As("dx")
			b.Out("dlogits", def.Select(c.isNormalised, def.Select(c.keep, dx, def.Zero), dx), def.Like("logits"))
		} else {
			dx := c.factor.Mul(s.slope).Mul(g.Sub(def.Select(c.isNormalised, mean, def.Zero))).As("dx")
			b.Out("dlogits", def.Select(c.keep, dx, def.Zero), def.Like("logits"))
		}

		b.Formula(formula, "the chosen experts, their slots and weights are those of the forward operation; bias has no gradient")
		b.Clauses(append([]string{
			"R >= 0, C, K >= 1; leading dimensions count as rows, and rows may be strided",
			"a chosen expert without a slot has the gradient of weight 0",
		}, special...)...)
	}))
}

// The definitions. Scores are used unrounded; the sum over the chosen is a rowsum, in which the others are
// +0.
var (
	SoftmaxForwardDefinition = forward("router.softmax.forward", probabilities, "score[t,e] = softmax(logits[t,:])[e]",
		"a NaN or +Inf among the logits of a token, or nothing but -Inf, makes all its scores NaN: it gets the experts 0 to k-1 and NaN weights, unless bias has a NaN; no other token is affected",
		"a logit of -Inf has score 0; normalised weights are NaN where all chosen scores are 0",
		"normalised weights of a finite row are in [0, scale], up to rounding; a weight or a quotient of scale too large for binary32 is infinite, and subnormals are kept",
	)
	SigmoidForwardDefinition = forward("router.sigmoid.forward", sigmoids, "score[t,e] = sigmoid(logits[t,e])",
		"a NaN logit has a NaN score, so that its expert is chosen first, with a NaN weight, and makes all weights of its token NaN if they are normalised; no other token is affected",
		"a logit of +Inf has score 1, one of -Inf or below -104 score 0; normalised weights are NaN where all chosen scores are 0",
		"normalised weights are in [0, scale], up to rounding; a weight or a quotient of scale too large for binary32 is infinite, and subnormals are kept",
	)
	SoftmaxBackwardDefinition = backward("router.softmax.backward", probabilities, "dlogits = the derivative of sum(dweight * weight) by the logits of router.softmax.forward",
		"a NaN or +Inf among the logits of a token makes its gradients NaN, or 0 where weights are normalised and an expert is not chosen; no other token is affected",
		"where weights are normalised, an expert that is not chosen has gradient 0",
		"a result too large for its format is infinite; subnormals are kept",
		"dlogits may be logits itself; any other overlap is refused",
	)
	SigmoidBackwardDefinition = backward("router.sigmoid.backward", sigmoids, "dlogits = the derivative of sum(dweight * weight) by the logits of router.sigmoid.forward",
		"a NaN logit makes its gradient NaN, and where weights are normalised those of all chosen experts of its token; no other token is affected",
		"an expert that is not chosen has gradient 0",
		"a result too large for its format is infinite; subnormals are kept",
		"dlogits may be logits itself; any other overlap is refused",
	)
)

// Params are the numbers of a call. Start from DefaultParams.
type Params struct {
	K            int     // experts of a token
	IsNormalised bool    // weights add up to Scale
	Scale        float64 // above 0
}

// DefaultParams returns normalised weights of k experts that add up to 1.
func DefaultParams(k int) Params { return Params{K: k, IsNormalised: true, Scale: 1} }

func (p Params) values() []float64 {
	normalise := 0.0
	if p.IsNormalised {
		normalise = 1
	}
	return []float64{float64(p.K), normalise, p.Scale}
}

// SoftmaxForward chooses the experts of each row of logits by their probabilities, and computes their
// weights. weight and expert have a column for each slot.
func SoftmaxForward(q *engine.Queue, weight, expert, logits, bias *tensor.Tensor, p Params, opts ...engine.CallOption) error {
	return engine.Call(q, SoftmaxForwardDefinition, []*tensor.Tensor{logits, bias, weight, expert}, p.values(), opts...)
}

// SigmoidForward is like SoftmaxForward, with the sigmoid of each logit as its score.
func SigmoidForward(q *engine.Queue, weight, expert, logits, bias *tensor.Tensor, p Params, opts ...engine.CallOption) error {
	return engine.Call(q, SigmoidForwardDefinition, []*tensor.Tensor{logits, bias, weight, expert}, p.values(), opts...)
}

// SoftmaxBackward computes the gradient of the logits from that of the weights. dlogits may be logits
// itself.
func SoftmaxBackward(q *engine.Queue, dlogits, dweight, logits, bias *tensor.Tensor, p Params, opts ...engine.CallOption) error {
	return engine.Call(q, SoftmaxBackwardDefinition, []*tensor.Tensor{logits, bias, dweight, dlogits}, p.values(), opts...)
}

// SigmoidBackward is the gradient of SigmoidForward.
func SigmoidBackward(q *engine.Queue, dlogits, dweight, logits, bias *tensor.Tensor, p Params, opts ...engine.CallOption) error {
	return engine.Call(q, SigmoidBackwardDefinition, []*tensor.Tensor{logits, bias, dweight, dlogits}, p.values(), opts...)
}
