package router_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/router"
	"tokitai/verify/mutants"
)

// variant is a router in plain Go, with one fault or none.
type variant struct {
	parts       mutants.Parts
	isSigmoid   bool
	before      func(a, b float32, i, j int) bool // the order of biased scores; nil for that of the definition
	biasWeights bool                              // weights are those of biased scores
	byRank      bool                              // slots are in the order of ranks
	sumOfAll    bool                              // the sum is over all experts
	unscaled    bool
	firstOnly   bool // slots without an expert are not filled
}

func isBefore(a, b float32, i, j int) bool {
	isNaN := func(x float32) bool { return x != x }
	return a > b || isNaN(a) && !isNaN(b) || (a == b || isNaN(a) && isNaN(b)) && i < j
}

func (v variant) scores(x []float32) []float32 {
	s := make([]float32, len(x))
	if !v.isSigmoid {
		mutants.SoftmaxRow(v.parts, x, s)
		return s
	}
	for i, l := range x {
		e := v.parts.Exp(-float32(math.Abs(float64(l))))
		if s[i] = 1 / (1 + e); l < 0 {
			s[i] = e / (1 + e)
		}
	}
	return s
}

// choice returns the chosen experts of a token, ascending unless the variant has them by rank.
func (v variant) choice(s, bias []float32, k int) []int {
	before := v.before
	if before == nil {
		before = isBefore
	}
	order := make([]int, len(s))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch a, b := s[i]+bias[i], s[j]+bias[j]; {
		case before(a, b, i, j):
			return -1
		case before(b, a, j, i):
			return 1
		}
		return 0
	})
	chosen := order[:min(k, len(order))]
	if !v.byRank {
		slices.SortFunc(chosen, cmp.Compare[int])
	}
	return chosen
}

// gradient is the backward direction.
func (v variant) gradient(c *mutants.Call) {
	isNormalised, scale := c.Param("normalise") == 1, c.Param("scale")
	for r := range c.In("logits").Rows {
		x, dweight, dx := c.In("logits").Row(r), c.In("dweight").Row(r), c.In("dlogits").Row(r)
		s := v.scores(x)
		masked := make([]float32, len(s))
		isChosen := make([]bool, len(s))
		chosen := v.choice(s, c.In("bias").Row(0), int(c.Params[0]))
		for _, e := range chosen {
			masked[e], isChosen[e] = s[e], true
		}
		total := v.parts.Sum(masked)
		gs, share, products := make([]float32, len(s)), make([]float32, len(s)), make([]float32, len(s))
		for slot, e := range chosen {
			if slot < len(dweight) {
				gs[e] = dweight[slot]
			}
		}
		for e := range s {
			switch {
			case !isNormalised:
				share[e] = s[e]
			case isChosen[e]:
				share[e] = s[e] / total
			}
			products[e] = gs[e] * share[e]
		}
		mean := v.parts.Sum(products)
		for e := range s {
			switch {
			case !isChosen[e] && (isNormalised || v.isSigmoid):
				dx[e] = 0
			case !v.isSigmoid:
				dx[e] = scale * share[e] * (gs[e] - mean)
			default:
				small := v.parts.Exp(-float32(math.Abs(float64(x[e]))))
				slope := small / (1 + small) / (1 + small)
				if dx[e] = scale * slope * gs[e]; isNormalised {
					dx[e] = scale / total * slope * (gs[e] - mean)
				}
			}
		}
	}
}

func (v variant) body(c *mutants.Call) {
	k, isNormalised, scale := int(c.Params[0]), c.Param("normalise") == 1, c.Param("scale")
	bias, weight, expert := c.In("bias").Row(0), c.In("weight"), c.In("expert")
	for r := range weight.Rows {
		s := v.scores(c.In("logits").Row(r))
		biased := make([]float32, len(s))
		for i := range s {
			biased[i] = s[i] + bias[i]
		}
		chosen := v.choice(s, bias, k)
		from := s
		if v.biasWeights {
			from = biased
		}
		masked := make([]float32, len(s))
		for i := range s {
			if v.sumOfAll || slices.Contains(chosen, i) {
				masked[i] = from[i]
			}
		}
		factor := scale
		if v.unscaled {
			factor = 1
		}
		if isNormalised {
			factor /= v.parts.Sum(masked)
		}
		for slot := range weight.Row(r) {
			switch {
			case slot < len(chosen):
				weight.Row(r)[slot], expert.Row(r)[slot] = from[chosen[slot]]*factor, float32(chosen[slot])
			case !v.firstOnly:
				weight.Row(r)[slot], expert.Row(r)[slot] = 0, -1
			}
		}
	}
}

func sign(x float64) int {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// direction says where a bias goes: up, down, or nowhere.
type direction func(mean float64, count, columns float32, total int64) int

func towardMean(mean float64, count, _ float32, _ int64) int { return sign(mean - float64(count)) }

// moved returns a kernel that moves biases.
func moved(to direction) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		b, count, rate := c.In("bias"), c.In("count"), c.Param("rate")
		for r := range b.Rows {
			total := int64(0)
			for col := range b.Cols {
				total += int64(c.Stored[c.Position("count")].Int(r, col))
			}
			for col, n := range count.Row(r) {
				if d := to(float64(total)/float64(b.Cols), n, float32(b.Cols), total); d != 0 {
					b.Row(r)[col] += float32(d) * rate
				}
			}
		}
	}
}

// gradient is the backward direction.
func (l losses) gradient(c *mutants.Call) {
	count := c.Stored[c.Position("count")]
	for r := range c.In("logits").Rows {
		x, dx := c.In("logits").Row(r), c.In("dlogits").Row(r)
		most := slices.Max(x)
		p, f, terms := make([]float32, len(x)), make([]float32, len(x)), make([]float32, len(x))
		for i := range x {
			p[i] = l.parts.Exp(x[i] - most)
		}
		sum := l.parts.Sum(p)
		for i := range x {
			p[i] /= sum
			f[i] = float32(count.Int(0, i)) / float32(int32(c.Params[0]))
			terms[i] = f[i] * p[i]
		}
		mean, lse := l.parts.Sum(terms), most+l.parts.Log(sum)
		for i := range x {
			dx[i] = p[i] * (float32(len(x))*c.In("dbalance").Row(r)[0]*(f[i]-mean) + 2*c.In("dz").Row(r)[0]*lse)
		}
	}
}

// losses are those of balance in plain Go, with one fault or none.
type losses struct {
	parts                           mutants.Parts
	noFactor, notSquared, noMaximum bool
}

func (l losses) body(c *mutants.Call) {
	count := c.Stored[c.Position("count")]
	for r := range c.In("logits").Rows {
		x := c.In("logits").Row(r)
		most := slices.Max(x)
		e, terms := make([]float32, len(x)), make([]float32, len(x))
		for i := range x {
			e[i] = l.parts.Exp(x[i] - most)
			terms[i] = float32(count.Int(0, i)) / float32(int32(c.Params[0])) * e[i]
		}
		sum := l.parts.Sum(e)
		balance, lse := l.parts.Sum(terms)/sum, most+l.parts.Log(sum)
		if !l.noFactor {
			balance *= float32(len(x))
		}
		if l.noMaximum {
			lse -= most
		}
		z := lse * lse
		if l.notSquared {
			z = lse
		}
		c.In("balance").Row(r)[0], c.In("z").Row(r)[0] = balance, z
	}
}

func TestMutants(t *testing.T) {
	wrong, right := mutants.NewList(router.Operations), mutants.NewList(router.Operations)
	honest := mutants.Ordered(mutants.InLanes(16))
	plain := func(v variant) mutants.Plain {
		v.parts = honest
		return mutants.Plain{Body: v.body}
	}
	answer := func(edit func(c *mutants.Call)) mutants.Plain {
		return mutants.Plain{Body: mutants.Answer, Edit: edit}
	}
	for _, d := range []*def.Definition{router.SoftmaxForwardDefinition, router.SigmoidForwardDefinition} {
		isSigmoid := d == router.SigmoidForwardDefinition
		wrong.Of(d, num.F32)
		wrong.From(mutants.KernelPractice)
		wrong.Add("last-of-equals", "of equal scores the last is chosen", mutants.AnyOrder, plain(variant{isSigmoid: isSigmoid, before: func(a, b float32, i, j int) bool {
			return a > b || a != a && b == b || (a == b || a != a && b != b) && i > j
		}}))
		if isSigmoid { // a NaN makes all softmax scores NaN
			wrong.Add("nan-last", "a NaN score is never chosen", mutants.AnyOrder, plain(variant{isSigmoid: isSigmoid, before: func(a, b float32, i, j int) bool {
				return a > b || b != b && a == a || a == b && i < j
			}}))
		}
		wrong.Add("biased-weights", "the bias is part of the weights", mutants.AnyOrder, plain(variant{isSigmoid: isSigmoid, biasWeights: true}))
		wrong.Add("slots-by-rank", "slots are in the order of scores", mutants.AnyOrder, plain(variant{isSigmoid: isSigmoid, byRank: true}))
		wrong.Add("sum-of-all", "weights are normalised over all experts", mutants.AnyOrder, plain(variant{isSigmoid: isSigmoid, sumOfAll: true}))
		wrong.Add("scale-forgotten", "weights are not scaled", mutants.AnyOrder, plain(variant{isSigmoid: isSigmoid, unscaled: true}))
		wrong.Add("one-too-few", "k-1 experts are chosen", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Before: func(c *mutants.Call) error {
			c.Params[0] = max(1, c.Params[0]-1)
			return nil
		}})
		wrong.Add("empty-slot-0", "a slot without an expert names expert 0", mutants.PromisesBits, answer(func(c *mutants.Call) {
			for i, e := range c.In("expert").V {
				c.In("expert").V[i] = max(0, e)
			}
		}))
		right.Of(d, num.F32)
		right.Add("reference", "the definition itself", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer})
	}
	for _, d := range []*def.Definition{router.SoftmaxBackwardDefinition, router.SigmoidBackwardDefinition} {
		wrong.Of(d, num.F32)
		wrong.From(mutants.ZerosPass)
		wrong.Add("zeros", "every gradient is zero", mutants.AnyOrder, mutants.Edited(mutants.Zeros))
		wrong.From(mutants.KernelPractice)
		wrong.Add("bias-ignored", "experts are chosen without the bias", mutants.PromisesBits, mutants.Plain{Body: func(c *mutants.Call) {
			clear(c.In("bias").V)
			mutants.Answer(c)
		}})
		wrong.Add("slots-reversed", "gradients are read in descending order of experts", mutants.PromisesBits, mutants.Plain{Body: func(c *mutants.Call) {
			for r := range c.In("dweight").Rows {
				slices.Reverse(c.In("dweight").Row(r))
			}
			mutants.Answer(c)
		}})
		wrong.Add("normalisation-is-constant", "the sum of the chosen scores has no gradient", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Before: func(c *mutants.Call) error {
			c.Params[1] = 0
			return nil
		}})
		right.Of(d, num.F32)
		right.Add("reference", "the definition itself", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer})
	}
	balance := func(edit func(c *mutants.Call)) mutants.Plain {
		return mutants.Plain{Body: func(c *mutants.Call) {
			edit(c)
			mutants.Answer(c)
		}}
	}
	for _, d := range []*def.Definition{router.BalanceForwardDefinition, router.BalanceBackwardDefinition} {
		wrong.Of(d, num.F32)
		wrong.From(mutants.KernelPractice)
		wrong.Add("counts-reversed", "the load of an expert is that of another", mutants.PromisesBits, balance(func(c *mutants.Call) { slices.Reverse(c.In("count").V) }))
		wrong.Add("equal-loads", "all experts have the same load", mutants.PromisesBits, balance(func(c *mutants.Call) {
			for i := range c.In("count").V {
				c.In("count").V[i] = 1
			}
		}))
		wrong.Add("choices-forgotten", "counts are no shares", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Before: func(c *mutants.Call) error {
			c.Params[0] = 1
			return nil
		}})
		wrong.Add("scaled-by-half", "losses are those of half the logits", mutants.PromisesBits, balance(func(c *mutants.Call) {
			for i := range c.In("logits").V {
				c.In("logits").V[i] /= 2
			}
		}))
		right.Of(d, num.F32)
		right.Add("reference", "the definition itself", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer})
	}
	wrong.Of(router.BalanceForwardDefinition, num.F32)
	wrong.Add("factor-forgotten", "the number of experts is no factor", mutants.AnyOrder, mutants.Plain{Body: losses{parts: honest, noFactor: true}.body})
	wrong.Add("z-not-squared", "z is the logarithm itself", mutants.AnyOrder, mutants.Plain{Body: losses{parts: honest, notSquared: true}.body})
	wrong.Add("z-without-maximum", "the maximum is missing in the logarithm", mutants.AnyOrder, mutants.Plain{Body: losses{parts: honest, noMaximum: true}.body})
	wrong.Of(router.BiasDefinition, num.F32)
	for _, f := range []struct {
		name, text string
		of         direction
	}{
		{"sign-turned", "biases of busy experts rise", func(mean float64, count, _ float32, _ int64) int { return sign(float64(count) - mean) }},
		{"mean-truncated", "the mean is cut to an integer", func(mean float64, count, _ float32, _ int64) int { return sign(math.Floor(mean) - float64(count)) }},
		{"at-least", "an expert with the mean count is lowered", func(mean float64, count, _ float32, _ int64) int { return max(sign(mean-float64(count)), 0)*2 - 1 }},
		{"products-wrap", "count times experts in 32 bits", func(_ float64, count, columns float32, total int64) int {
			return sign(float64(total - int64(int32(count)*int32(columns))))
		}},
	} {
		wrong.Add(f.name, f.text, mutants.PromisesBits, mutants.Plain{Body: moved(f.of)})
	}
	right.Of(router.BiasDefinition, num.F32)
	right.Add("reference", "the definition itself", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer})
	mutants.Test(t, router.Operations, wrong.All, right.All, func(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
		return map[*def.Definition]func(*mutants.Call){
			router.SoftmaxForwardDefinition: variant{parts: p}.body,
			router.SigmoidForwardDefinition: variant{parts: p, isSigmoid: true}.body,

			router.BalanceForwardDefinition:  losses{parts: p}.body,
			router.BalanceBackwardDefinition: losses{parts: p}.gradient,
			router.BiasDefinition:            moved(towardMean),

			router.SoftmaxBackwardDefinition: variant{parts: p}.gradient,
			router.SigmoidBackwardDefinition: variant{parts: p, isSigmoid: true}.gradient,
		}
	})
}
