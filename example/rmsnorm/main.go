// Command rmsnorm defines two operations that tokitai does not ship, RMSNorm and
// SwiGLU, runs them on the CPU, and compares the results with the reference, bit for
// bit.
package main

import (
	"fmt"
	"log"

	"tokitai"
	"tokitai/def"
	"tokitai/fn"
)

// RMSNorm scales each row by the inverse root of its mean square.
var RMSNorm = def.Must(def.Rowwise("rmsnorm", func(b *def.Builder) {
	x, gamma, eps := b.In("x"), b.InCol("gamma"), b.Param("eps")
	meanSquare := def.RowSum(x.Mul(x)).Div(b.Columns())
	b.Out("y", x.Mul(fn.Rsqrt(meanSquare.Add(eps))).Mul(gamma), def.Like("x"))
}))

// SwiGLU gates one half of a layer with the other.
var SwiGLU = def.Must(def.Rowwise("swiglu", func(b *def.Builder) {
	gate, up := b.In("gate"), b.In("up", def.Like("gate"))
	b.Out("y", gate.Mul(fn.Sigmoid(gate)).Mul(up), def.Like("gate"))
}))

func main() {
	q := tokitai.CPU()
	x := must(tokitai.FromFloat32(q, tokitai.F16, []float32{3, -4, 0, 0, 1, 1, 1, 1}, 2, 4))
	gamma := must(tokitai.FromFloat32(q, tokitai.F32, []float32{1, 1, 1, 2}, 4))

	normed := must(tokitai.Eval(q, RMSNorm, tokitai.Args{"x": x, "gamma": gamma}, tokitai.WithParams(tokitai.Params{"eps": 1e-6})))
	show("rmsnorm", normed["y"])

	gated := must(tokitai.New(q, tokitai.F16, 2, 4)) // Run writes where it is told, Eval makes room itself
	if err := tokitai.Run(q, SwiGLU, tokitai.Args{"gate": x, "up": normed["y"], "y": gated}); err != nil {
		log.Fatal(err)
	}
	show("swiglu ", gated)

	slow := q.With(tokitai.WithLowering("cpu.reference"))
	again := must(tokitai.Eval(slow, RMSNorm, tokitai.Args{"x": x, "gamma": gamma}, tokitai.WithParams(tokitai.Params{"eps": 1e-6})))
	fmt.Println("same bits as the reference:", string(must(normed["y"].Bytes())) == string(must(again["y"].Bytes())))
}

func show(name string, t *tokitai.Tensor) { fmt.Println(name, must(t.Float32s())) }

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
