package answer

import (
	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/op/sample"
)

var isInt, isFloat = def.Only(num.I32), def.Only(num.F32)

// Summary reads rows of logits once, for what every answer needs of them: the largest and its token, the
// logarithm of the sum that makes logprobs, and the words of the checksum that package checksum gives for the row alone.
// A logprob is (logit - max) - logsum, both differences rounded to f32: that of package sample.
var Summary = def.Must(def.Rowwise("answer.summary", func(b *def.Builder) {
	x := b.In("logits")
	most := def.RowMax(x).As("max")
	b.OutRow("largest", def.RowArgMax(x), isInt)
	b.OutRow("max", most, isFloat)
	b.OutRow("logsum", fn.Log(def.RowSum(fn.ExpNonPositive(x.Sub(most))).As("sum")), isFloat)
	sum(b, x)
	b.Formula(
		"largest, max = the first largest logit of the row, and where it is",
		"logsum = ln(sum of exp(logits - max))",
		"word0, word1 = the checksum of the row",
	)
}))

// Draw is Summary with a token that is drawn as package sample does, with a seed of its own for each row, in the
// place of that of the largest logit.
var Draw = def.Must(def.Rowwise("answer.draw", func(b *def.Builder) {
	x := b.In("logits")
	low, high := b.InRow("seed_low", isInt), b.InRow("seed_high", isInt)
	sequence, position := b.InRow("sequence", isInt), b.InRow("position", isInt)
	temperature, topK := b.InRow("temperature", isFloat), b.InRow("top_k", isInt)
	topP, minP := b.InRow("top_p", isFloat), b.InRow("min_p", isFloat)
	word := b.RandomRow(low, high, sequence, position, def.IntConst(0)).As("word")
	row := sample.Draws(b, x, word, sample.Filters{Temperature: temperature, TopK: topK, TopP: topP, MinP: minP})
	b.OutRow("token", row.Token, isInt)
	b.OutRow("max", row.Max, isFloat)
	b.OutRow("logsum", row.LogSum, isFloat)
	sum(b, x)
	b.Formula(
		"token = the one that is drawn from the row, as sample says",
		"max = the largest logit of the row, logsum = ln(sum of exp(logits - max))",
		"word0, word1 = the checksum of the row",
	)
}))

// sum adds the words of the checksum of a row.
func sum(b *def.Builder, x def.Value) {
	constant := func(v uint32) def.Value { return def.IntConst(int32(v)) }
	fold := func(x def.Value, by int32) def.Value { return x.IXor(x.ShrU(by)) }
	key := b.Col().IMul(constant(0x9e3779b1)).IAdd(constant(0x27d4eb2f)).As("key")
	m := key.IOr(constant(1)).As("m")
	h := fold(fold(x.Stored().IXor(key), 16).IMul(constant(0x85ebca6b)), 15).As("h")
	b.OutRow("word0", def.RowSum(h.IMul(m)), isInt)
	b.OutRow("word1", def.RowSum(h.UMulHigh(m)), isInt)
}
