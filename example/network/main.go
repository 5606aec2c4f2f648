// Command network composes calls into a network and trains it: two layers, with an activation of
// their own, from .def files, learn to tell letters apart.
package main

import (
	_ "embed"
	"fmt"
	"log"

	"tokitai"
	"tokitai/def"
	"tokitai/model"
	"tokitai/op/crossentropy"
	"tokitai/op/embedding"
	"tokitai/op/sgd"
)

const letters, width = 8, 3

// soft is x/sqrt(1+x*x), and softBackward its gradient. Names tell which operand is which.
var (
	//go:embed soft.def
	softText string
	//go:embed soft_backward.def
	softBackwardText string

	soft, softBackward = must(def.Parse(softText)), must(def.Parse(softBackwardText))
)

func main() {
	q := tokitai.CPU()
	b := model.NewBuilder()
	letter := b.Input("letter", tokitai.I32, letters)
	x := b.Call("embed", embedding.ForwardDefinition, nil, letter, b.Weight("table", tokitai.F32, letters, width))[0]
	y := b.Call("soft", soft, nil, x)[0]
	logits := b.Call("head", model.Linear, nil, y, b.Weight("head", tokitai.F32, letters, width))[0]
	end := b.Call("loss", crossentropy.Definition, model.Params{"scale": model.Number(1. / letters)}, logits, letter)
	b.Keep(end[0])
	gradients := b.Backward(logits, end[1], map[*def.Definition]model.Rule{soft: {Backward: []*def.Definition{softBackward}}})
	program := must(b.Program())
	in := must(model.NewInstance(q, program, nil))
	defer in.Close()

	check(in.Tensor("letter").SetInt32s([]int32{0, 1, 2, 3, 4, 5, 6, 7}))
	for k, name := range []string{"table", "head"} {
		values := make([]float32, letters*width)
		for i := range values {
			values[i] = float32((i*i*7+i*3+k)%19-9) / 32
		}
		check(in.Tensor(name).SetFloat32s(values))
	}
	step := must(q.Record(func(q *tokitai.Queue) error {
		check(in.Run(q, nil))
		for name, gradient := range gradients {
			buffer := must(tokitai.New(q, tokitai.F32, letters, width))
			check(sgd.Step(q, sgd.Update{Weight: in.Tensor(name), Buffer: buffer, Grad: in.Tensor(gradient.Value().Name), Hyper: sgd.Hyper{LR: 0.5, Momentum: 0.9}}))
		}
		return nil
	}))
	defer step.Close()
	for i := range 201 {
		check(step.Run(q))
		if i%100 == 0 {
			fmt.Printf("step %d: loss %.4f\n", i, mean(must(in.Tensor("loss.loss").Float32s())))
		}
	}
	fmt.Println(len(program.Calls), "calls")
}

func mean(values []float32) float64 {
	sum := 0.0
	for _, v := range values {
		sum += float64(v)
	}
	return sum / float64(len(values))
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
