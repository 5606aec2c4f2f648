package sample

import (
	"math"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/tensor"
)

// Definition draws one token per row. top_k and top_p keep the first tokens in the order of logits,
// so both are known by the last token that is kept, and no row is sorted.
var Definition = def.Must(def.Rowwise("sample", func(b *def.Builder) {
	isFloat, isInt := def.Only(num.F32), def.Only(num.I32)
	x := b.In("logits")
	sequence, position := b.InRow("sequence", isInt), b.InRow("position", isInt)
	temperature, topK := b.InRow("temperature", isFloat), b.InRow("top_k", isInt)
	topP, minP := b.InRow("top_p", isFloat), b.InRow("min_p", isFloat)
	word := b.RandomRow(b.IntParam("seed_low", def.Default(0)), b.IntParam("seed_high", def.Default(0)), sequence, position, b.IntParam("use", def.Default(0))).As("word")
	row := Draws(b, x, word, Filters{temperature, topK, topP, minP})
	b.OutRow("token", row.Token)
	b.OutRow("logprob", row.Logprob, isFloat)

	b.Formula(
		"z = (logits - max) / temperature; noise = -ln(-ln(1 - v)), v = (word + 1/2) / 2^32, at most 1 - 2^-24",
		"kept: the top_k largest logits; of these the fewest largest with at least the share top_p of the mass rint(2^30*exp(z)); of these exp(z) >= min_p",
		"token = the kept one with the largest z + noise, or the one with the largest logit at temperature 0",
		"logprob = logits[token] - ln(sum of exp(logits)), of the logits as they are",
	)
	b.Clauses(
		"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided",
		"column c has word c mod 4 of Philox 4x32-10 with the seed as key and the counter (c/4, sequence, position, use); a row depends on its own inputs alone, and of equal values the lower token counts everywhere",
		"top_k below 1 keeps all tokens, as one of at least C does; top_p of at least 1 keeps what top_k keeps, also tokens without mass, and one of 0 or below the largest logit alone; min_p of 0 or below keeps all, and one above 1 counts as 1",
		"temperature 0 or below takes the largest logit; one so small that quotients overflow takes one of the largest, by noise",
		"logprob depends on neither temperature nor filters",
		"a NaN temperature, top_p or min_p counts as 0",
		"a temperature of +Inf counts as the largest finite number: all tokens are equally likely whose logits are within 2^96",
		"a logit of -Inf is taken only where all logits of the row are, and has no mass",
		"where the largest logit is NaN or infinite, the token is the first NaN, or the first of the largest; logprob is NaN; no other row is affected",
	)
}))

// Filters are values of a row by which tokens are kept: three f32, and top_k, an int32.
type Filters struct{ Temperature, TopK, TopP, MinP def.Value }

// Drawn are values of a row: the token that is drawn from it, its logprob (logit - Max) - LogSum, the largest logit,
// and the logarithm of the sum of exp(logit - Max).
type Drawn struct{ Token, Logprob, Max, LogSum def.Value }

// Draws draws a token from each row of x as Definition does, by a random word per element, for other definitions
// that read logits.
func Draws(b *def.Builder, x, word def.Value, f Filters) Drawn {
	none := def.Const(-1024) // a score below that of the largest logit, which is z = 0 and noise above -3
	finite := def.Const(math.MaxFloat32)
	most := def.RowMax(x).As("max")
	d := x.Sub(most).As("d")
	z := d.Div(f.Temperature.Min(finite)).As("z") // -Inf over +Inf would be NaN
	e := fn.ExpNonPositive(z).As("e")

	// upTo returns whether an element comes no later in the order of logits than that of a column.
	upTo := func(column def.Value) def.Value {
		last := x.At(column)
		return def.Select(x.Equal(last), b.Col().LessEqual(column), last.Less(x))
	}
	all := def.IntConst(math.MaxInt32)
	one := def.IntConst(1)
	kth := def.RowKth(x, def.Select(f.TopK.Less(one), all, f.TopK).ISub(one)).As("kth")
	mass := def.Select(upTo(kth), e, def.Zero).As("mass")
	last := def.Select(def.One.LessEqual(f.TopP), kth, def.RowNucleus(x, mass, f.TopP)).As("last")
	score := def.Select(upTo(last), def.Select(e.Less(f.MinP.Min(def.One)), none, z.Add(noise(word))), none).As("score")

	// Where the largest logit is no number, or the temperature not above 0, no noise decides.
	largest := def.RowArgMax(x).As("largest")
	drawn := def.Select(def.Zero.Less(f.Temperature), def.RowArgMax(score), largest).As("drawn")
	token := def.Select(most.Abs().LessEqual(finite), drawn, largest).As("taken")
	logSum := fn.Log(def.RowSum(fn.ExpNonPositive(d)).As("sum"))
	return Drawn{token, d.At(token).Sub(logSum), most, logSum}
}

// noise returns a number of the Gumbel distribution for a random word: -ln(E), E = -ln(1-v). Small E are what
// is taken, and v has 32 bits there. v is below 1, so that the noise is finite.
func noise(word def.Value) def.Value {
	low := word.IAnd(def.IntConst(0xffff)).IToF().Add(def.Const(0.5)).Mul(def.Const(0x1p-32))
	v := def.FMA(word.ShrU(16).IToF(), def.Const(0x1p-16), low).Min(def.Const(1 - 0x1p-24)).As("v")
	return fn.Log(fn.Log1p(v.Neg()).Neg()).Neg().As("noise")
}

// Settings are tensors with one value per row of the logits. Sequence and Position are int32 and name the
// random words of the row; TopK is int32, the others are f32.
type Settings struct {
	Sequence, Position            *tensor.Tensor
	Temperature, TopK, TopP, MinP *tensor.Tensor
}

// Words choose the random words of a call, together with Sequence and Position.
type Words struct {
	Seed uint64
	Use  int32 // so that other draws at the same position have other words
}

func (w Words) values() []float64 {
	return []float64{float64(int32(w.Seed)), float64(int32(w.Seed >> 32)), float64(w.Use)}
}

// Draw draws a token for each row of logits. token is int32 and logprob f32, with one value per row.
func Draw(q *engine.Queue, token, logprob, logits *tensor.Tensor, s Settings, w Words, opts ...engine.CallOption) error {
	tensors := []*tensor.Tensor{logits, s.Sequence, s.Position, s.Temperature, s.TopK, s.TopP, s.MinP, token, logprob}
	return engine.Call(q, Definition, tensors, w.values(), opts...)
}
