package answer

import (
	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
)

// Summary reads rows of logits once, for what every answer needs of them: the largest and its token, the
// logarithm of the sum that makes logprobs, and the words of the checksum that package checksum gives for the row alone.
// A logprob is (logit - max) - logsum, both differences rounded to f32: that of package sample.
var Summary = def.Must(def.Rowwise("answer.summary", func(b *def.Builder) {
	x := b.In("logits")
	isInt, isFloat := def.Only(num.I32), def.Only(num.F32)
	most := def.RowMax(x).As("max")
	b.OutRow("largest", def.RowArgMax(x), isInt)
	b.OutRow("max", most, isFloat)
	b.OutRow("logsum", fn.Log(def.RowSum(fn.ExpNonPositive(x.Sub(most))).As("sum")), isFloat)

	constant := func(v uint32) def.Value { return def.IntConst(int32(v)) }
	fold := func(x def.Value, by int32) def.Value { return x.IXor(x.ShrU(by)) }
	key := b.Col().IMul(constant(0x9e3779b1)).IAdd(constant(0x27d4eb2f)).As("key")
	m := key.IOr(constant(1)).As("m")
	h := fold(fold(x.Stored().IXor(key), 16).IMul(constant(0x85ebca6b)), 15).As("h")
	b.OutRow("word0", def.RowSum(h.IMul(m)), isInt)
	b.OutRow("word1", def.RowSum(h.UMulHigh(m)), isInt)

	b.Formula(
		"largest, max = the first largest logit of the row, and where it is",
		"logsum = ln(sum of exp(logits - max))",
		"word0, word1 = the checksum of the row",
	)
}))
