package crossentropy

import (
	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/op"
)

// form returns the operation with another expression for the loss, of the maximum, the sum, the
// label's logit and probability.
func form(name string, loss func(max, sum, logit, p def.Value) def.Value) *def.Definition {
	return def.Must(def.Rowwise("crossentropy."+name, func(b *def.Builder) {
		x := b.In("logits")
		ignore := b.IntParam("ignore", def.Default(DefaultIgnore))
		label := b.InIndex("label", ignore)
		scale := b.Param("scale", def.Finite(), def.Default(1))

		max := def.RowMax(x).As("max")
		e := fn.ExpNonPositive(x.Sub(max)).As("e")
		sum := def.RowSum(e).As("sum")
		p := e.Mul(def.One.Div(sum)).As("p")
		hot := def.Select(b.Col().Equal(label), def.One, def.Zero).As("onehot")
		counts := func(v def.Value) def.Value {
			return def.Select(label.Equal(ignore), def.Zero, def.Select(label.Inside(), v, def.Zero))
		}
		b.OutRow("loss", counts(loss(max, sum, x.At(label), p.At(label)).As("nll")), def.Only(num.F32))
		b.Out("dlogits", counts(scale.Mul(p.Sub(hot))), def.Like("logits"))
	}))
}

var formulas = []op.Formula{
	{Name: "shifted", Of: Definition, Text: "log sum exp(x - max) - (x[label] - max): the definition's own form"},
	{
		Name: "logsumexp", Of: Definition, Text: "(max + log sum exp(x - max)) - x[label]: its error is relative to the largest logit",
		Definition: form("logsumexp", func(max, sum, logit, _ def.Value) def.Value { return max.Add(fn.Log(sum)).Sub(logit) }),
	},
	{
		Name: "log-of-p", Of: Definition, Text: "-log of the label's probability, which is infinite where that is too small for binary32",
		Definition: form("log_of_p", func(_, _, _, p def.Value) def.Value { return fn.Log(p).Neg() }),
	},
	{Name: "online", Of: Definition, Text: "one pass that rescales the sum when the maximum grows; the sets are the definition's"},
}
