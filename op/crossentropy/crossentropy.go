package crossentropy

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/tensor"
)

// DefaultIgnore is the label of a row that does not count.
const DefaultIgnore = -100

// Definition subtracts the maximum from the label's logit before log Σ is added, so
// that nothing cancels.
var Definition = def.Must(def.Rowwise("crossentropy", func(b *def.Builder) {
	x := b.In("logits")
	ignore := b.IntParam("ignore", def.Default(DefaultIgnore))
	label := b.InIndex("label", ignore)
	scale := b.Param("scale", def.Finite(), def.Default(1))

	max := def.RowMax(x).As("max")
	e := fn.ExpNonPositive(x.Sub(max)).As("e")
	sum := def.RowSum(e).As("sum")
	loss := fn.Log(sum).Sub(x.At(label).Sub(max)).As("nll")
	p := e.Mul(def.One.Div(sum)).As("p")
	hot := def.Select(b.Col().Equal(label), def.One, def.Zero).As("onehot")

	counts := func(v def.Value) def.Value {
		return def.Select(label.Equal(ignore), def.Zero, def.Select(label.Inside(), v, def.Zero))
	}
	b.OutRow("loss", counts(loss), def.Only(num.F32))
	b.Out("dlogits", counts(scale.Mul(p.Sub(hot))), def.Like("logits"))

	b.Formula(
		"loss[r]      = log sum exp(logits[r,c] - max) - (logits[r,label] - max)",
		"dlogits[r,c] = scale * (softmax(logits)[r,c] - (c == label))",
	)
	b.Clauses(
		"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided",
		"a row whose label is ignore has loss +0 and dlogits +0, whatever its logits are",
		"any other label outside 0..C-1 is refused, and nothing is written; with bad_index=skip its row is ignored",
		"a NaN or +Inf in a row that is not ignored makes its loss and dlogits NaN",
		"-Inf gives dlogits 0; as the label's logit it gives loss +Inf and dlogits -scale; a row of -Inf alone gives NaN",
		"scale is finite, also as binary32",
		"loss is at least +0, and +Inf for finite logits only where logits[r,label] - max overflows",
		"dlogits is between -|scale| and |scale|; a value too large for its format is infinite, and subnormals are kept",
		"+0 and -0 are the same logit",
		"dlogits may be logits itself; any other overlap is refused",
	)
}))

// Params are the numbers of a call. Start from DefaultParams: the zero value is
// legal, but makes every gradient zero and ignores the rows with label 0.
type Params struct {
	Scale  float64 // of the gradient: 1 for the plain one, 1/R for that of the mean; 0 makes it zero
	Ignore int32   // label of the rows that do not count, usually DefaultIgnore
}

// DefaultParams are scale 1 and label -100.
var DefaultParams = Params{Scale: 1, Ignore: DefaultIgnore}

// Run computes the loss of every row and the gradient of its logits. dlogits may
// be logits itself.
func Run(q *engine.Queue, loss, dlogits, logits, label *tensor.Tensor, p Params, opts ...engine.CallOption) error {
	return engine.Call(q, Definition, []*tensor.Tensor{logits, label, loss, dlogits}, []float64{float64(p.Ignore), p.Scale}, opts...)
}
