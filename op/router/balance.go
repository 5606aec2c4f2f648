package router

import (
	"math"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/tensor"
)

// loads are the shares of choices that the experts have got: integers, and one division.
func loads(b *def.Builder) def.Value {
	count := b.InCol("count", def.Only(num.I32))
	return count.IToF().Div(b.IntParam("choices", def.Between(1, math.MaxInt32)).IToF()).As("f")
}

// The definitions of balance.
var (
	BalanceForwardDefinition = def.Must(def.Rowwise("router.balance.forward", func(b *def.Builder) {
		x := b.In("logits")
		f := loads(b)
		most := def.RowMax(x).As("max")
		e := fn.ExpNonPositive(x.Sub(most)).As("e")
		sum := def.RowSum(e).As("sum")
		lse := most.Add(fn.Log(sum)).As("lse")
		b.OutRow("balance", def.RowSum(f.Mul(e)).Div(sum).Mul(b.Columns()), def.Only(num.F32))
		b.OutRow("z", lse.Mul(lse), def.Only(num.F32))

		b.Formula(
			"balance[t] = C * sum over e of f[e] * softmax(logits[t,:])[e], f = count / choices",
			"z[t] = ln(sum over e of exp(logits[t,e]))^2",
		)
		b.Clauses(
			"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided",
			"the mean of balance over the tokens is C * sum over e of f[e] * P[e], P the mean probability of an expert; it is 1 where all counts are equal and add up to choices",
			"a NaN or +Inf among the logits of a token, or nothing but -Inf, makes its balance and its z NaN; no other token is affected",
			"a logit of -Inf has probability 0",
			"a result too large for binary32 is infinite; subnormals are kept",
		)
	}))

	BalanceBackwardDefinition = def.Must(def.Rowwise("router.balance.backward", func(b *def.Builder) {
		x := b.In("logits")
		f := loads(b)
		dbalance, dz := b.InRow("dbalance", def.Only(num.F32)), b.InRow("dz", def.Only(num.F32))
		most := def.RowMax(x).As("max")
		e := fn.ExpNonPositive(x.Sub(most)).As("e")
		sum := def.RowSum(e).As("sum")
		p := e.Mul(def.One.Div(sum)).As("p")
		lse := most.Add(fn.Log(sum)).As("lse")
		mean := def.RowSum(f.Mul(p)).As("mean")
		g := dbalance.Mul(b.Columns()).As("g")
		w := dz.Add(dz).Mul(lse).As("w")
		b.Out("dlogits", p.Mul(g.Mul(f.Sub(mean)).Add(w)), def.Like("logits"))

		b.Formula(
			"dlogits = the derivative of sum(dbalance * balance) + sum(dz * z) by the logits of router.balance.forward",
			"counts have no gradient",
		)
		b.Clauses(
			"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided",
			"a NaN or +Inf among the logits of a token, or nothing but -Inf, makes its gradients NaN; no other token is affected",
			"a logit of -Inf has gradient 0, if dbalance and dz are finite",
			"a result too large for its format is infinite; subnormals are kept",
			"dlogits may be logits itself; any other overlap is refused",
		)
	}))

	// BiasDefinition compares count * C with the sum of counts, the product in 64 bits.
	BiasDefinition = def.Must(def.Rowwise("router.bias.step", func(b *def.Builder) {
		bias, count := b.In("bias", def.Only(num.F32)), b.In("count", def.Only(num.I32))
		rate := b.Param("rate", def.AtLeast(0))
		zero := def.IntConst(0)
		columns := def.RowSum(b.Col().IMul(zero).IAdd(def.IntConst(1))).As("columns")
		total := def.RowSum(count).As("total")
		high, low := count.UMulHigh(columns).As("high"), count.IMul(columns).As("low")
		isWide := def.Select(high.Equal(zero), low.Less(zero), high.Equal(high)) // 2^31 and more
		lower := def.Select(total.Less(low), bias.Sub(rate), bias)
		b.Out("bias", def.Select(isWide, bias.Sub(rate), def.Select(low.Less(total), bias.Add(rate), lower)))

		b.Formula("bias += rate * sign(mean - count), mean = the sum of a row's counts / C")
		b.Clauses(
			"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided; a row has the experts of one layer",
			"counts are compared as integers: the bias of an expert with exactly the mean count keeps its bits; counts are at least 0 and add up to less than 2^31",
			"a NaN bias gives NaN, and infinities stay",
			"a bias too large for binary32 is infinite; subnormals are kept",
		)
	}))
)

// BalanceForward computes, for each row of logits, the loss that balances the load of experts, and the loss that
// keeps logits small. count has the tokens of each expert, as a dispatch counts them, and choices is their sum.
func BalanceForward(q *engine.Queue, balance, z, logits, count *tensor.Tensor, choices int, opts ...engine.CallOption) error {
	return engine.Call(q, BalanceForwardDefinition, []*tensor.Tensor{logits, count, balance, z}, []float64{float64(choices)}, opts...)
}

// BalanceBackward computes the gradient of the logits from those of the losses. dlogits may be logits itself.
func BalanceBackward(q *engine.Queue, dlogits, dbalance, dz, logits, count *tensor.Tensor, choices int, opts ...engine.CallOption) error {
	return engine.Call(q, BalanceBackwardDefinition, []*tensor.Tensor{logits, count, dbalance, dz, dlogits}, []float64{float64(choices)}, opts...)
}

// BiasStep raises the biases of experts with fewer tokens than the mean, and lowers those of experts with more. It
// balances without a loss (arXiv:2408.15664).
func BiasStep(q *engine.Queue, bias, count *tensor.Tensor, rate float64, opts ...engine.CallOption) error {
	return engine.Call(q, BiasDefinition, []*tensor.Tensor{bias, count}, []float64{rate}, opts...)
}
