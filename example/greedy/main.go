// Command greedy defines the last step of greedy decoding: for each row of logits, the
// token with the largest logit, that logit, and its margin over the next one. It compares
// the results with the reference, bit for bit.
package main

import (
	"bytes"
	"fmt"
	"log"
	"math"

	"tokitai"
	"tokitai/def"
	"tokitai/num"
)

// Greedy picks the first token with the largest logit. A row with a NaN gives the
// token of the first NaN, and NaN for the other outputs, so that a broken model is seen.
var Greedy = def.Must(def.Rowwise("greedy", func(b *def.Builder) {
	logits := b.In("logits")
	best := def.RowArgMax(logits).As("best")
	top := logits.At(best).As("top")
	others := def.Select(b.Col().Equal(best), def.Const(math.Inf(-1)), logits)
	b.OutRow("token", best) // an int32
	b.OutRow("logit", top, def.Like("logits"))
	b.OutRow("margin", top.Sub(def.RowMax(others)), def.Only(num.F32))
}))

func main() {
	q := tokitai.CPU()
	nan := float32(math.NaN())
	logits := must(tokitai.FromFloat32(q, tokitai.BF16, []float32{
		0.5, 2.25, -1, 2,
		3, 1, 3, 3,
		-4, nan, 9, nan,
	}, 3, 4))

	out := must(tokitai.Eval(q, Greedy, tokitai.Args{"logits": logits}))
	fmt.Println("token ", must(out["token"].Int32s()))
	fmt.Println("logit ", must(out["logit"].Float32s()))
	fmt.Println("margin", must(out["margin"].Float32s()))

	slow := q.With(tokitai.WithLowering("cpu.reference"))
	again := must(tokitai.Eval(slow, Greedy, tokitai.Args{"logits": logits}))
	fmt.Println("same token as the reference:", bytes.Equal(must(out["token"].Bytes()), must(again["token"].Bytes())))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
