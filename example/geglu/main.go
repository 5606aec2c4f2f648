// Command geglu defines an operation that tokitai does not ship, GEGLU with the gate
// normalised to mean square 1, runs it on the CPU, and compares the result with the
// reference, bit for bit.
package main

import (
	"fmt"
	"log"

	"tokitai"
	"tokitai/def"
	"tokitai/fn"
)

// GEGLU gates one half of a layer with GELU of the other, whose rows are first scaled to
// mean square 1.
var GEGLU = def.Must(def.Rowwise("geglu", func(b *def.Builder) {
	gate, up, eps := b.In("gate"), b.In("up", def.Like("gate")), b.Param("eps")
	meanSquare := def.RowSum(gate.Mul(gate)).Div(b.Columns())
	x := gate.Mul(fn.Rsqrt(meanSquare.Add(eps))).As("x")
	cdf := def.Half.Mul(def.One.Add(fn.Erf(x.Mul(def.Number("sqrt(1/2)")))))
	b.Out("y", x.Mul(cdf).Mul(up), def.Like("gate"))
}))

func main() {
	q := tokitai.CPU()
	gate := must(tokitai.FromFloat32(q, tokitai.F16, []float32{3, -4, 0, 0, 1, 1, 1, 1}, 2, 4))
	up := must(tokitai.FromFloat32(q, tokitai.F16, []float32{1, 2, 3, 4, 1, 2, 3, 4}, 2, 4))
	params := tokitai.WithParams(tokitai.Params{"eps": 1e-6})

	gated := must(tokitai.Eval(q, GEGLU, tokitai.Args{"gate": gate, "up": up}, params))
	fmt.Println("geglu", must(gated["y"].Float32s()))

	y := must(tokitai.New(q, tokitai.F16, 2, 4)) // Run writes where it is told, Eval makes room itself
	slow := q.With(tokitai.WithLowering("cpu.reference"))
	if err := tokitai.Run(slow, GEGLU, tokitai.Args{"gate": gate, "up": up, "y": y}, params); err != nil {
		log.Fatal(err)
	}
	fmt.Println("same bits as the reference:", string(must(gated["y"].Bytes())) == string(must(y.Bytes())))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
