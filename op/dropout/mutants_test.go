package dropout_test

import (
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/dropout"
	"tokitai/verify/mutants"
)

// draw is the kernel with some of its parts changed.
type draw struct {
	number func(c *mutants.Call, e uint64) uint64 // of element e in flat order
	word   func(e uint64, words [4]uint32) uint32
	keeps  func(word, threshold uint32) bool
	value  func(x, scale float32) float32
	drop   func(x float32) float32
	swap   bool // the words of the tensor and of the step are exchanged
}

func word(c *mutants.Call, name string) uint32 {
	return uint32(int32(c.Params[c.Definition.Param(name)]))
}

func wide(c *mutants.Call, name string) uint64 {
	return uint64(word(c, name+"_low")) | uint64(word(c, name+"_high"))<<32
}

func (k draw) body(c *mutants.Call) {
	d := c.Definition
	x, y := c.In(d.Operands[0].Name), c.In(d.Operands[1].Name)
	scale, threshold := c.Param("scale"), word(c, "threshold")
	for i, v := range x.V {
		e := wide(c, "first") + uint64(i)
		if k.number != nil {
			e = k.number(c, uint64(i))
		}
		tensor, step := word(c, "tensor"), word(c, "step")
		if k.swap {
			tensor, step = step, tensor
		}
		words := num.Philox(wide(c, "seed"), [4]uint32{uint32(e >> 2), uint32(e >> 34), tensor, step})
		w := words[e%4]
		if k.word != nil {
			w = k.word(e, words)
		}
		isKept := w >= threshold
		if k.keeps != nil {
			isKept = k.keeps(w, threshold)
		}
		switch {
		case scale == 0:
			y.V[i] = 0
		case !isKept && k.drop != nil:
			y.V[i] = k.drop(v)
		case !isKept:
			y.V[i] = 0
		case k.value != nil:
			y.V[i] = k.value(v, scale)
		default:
			y.V[i] = v * scale
		}
	}
}

func (k draw) plain() mutants.Plain { return mutants.Plain{Body: k.body} }

func TestMutants(t *testing.T) {
	wrong := mutants.NewList(dropout.Operations)
	for _, d := range []*def.Definition{dropout.ForwardDefinition, dropout.BackwardDefinition} {
		wrong.Of(d, num.F16)
		wrong.From(mutants.KernelPractice)
		add := func(name, what string, k draw) { wrong.Add(name, what, mutants.PromisesBits, k.plain()) }
		add("dropped-by-product", "a dropped element is multiplied by zero: NaN stays, and zeros have signs", draw{drop: func(x float32) float32 { return x * 0 }})
		add("numbers-from-zero", "the number of the first element is ignored", draw{number: func(_ *mutants.Call, e uint64) uint64 { return e }})
		add("numbers-of-32-bits", "numbers of elements wrap at 2^32", draw{number: func(c *mutants.Call, e uint64) uint64 { return uint64(uint32(wide(c, "first") + e)) }})
		add("first-word-of-four", "each block of random words gives its first word to four elements", draw{word: func(_ uint64, w [4]uint32) uint32 { return w[0] }})
		add("signed-comparison", "the word and the threshold are compared as signed numbers", draw{keeps: func(w, threshold uint32) bool { return int32(w) >= int32(threshold) }})
		add("the-other-way-round", "the elements that are dropped are kept", draw{keeps: func(w, threshold uint32) bool { return w < threshold }})
		add("words-of-24-bits", "the word and the threshold are compared as binary32", draw{keeps: func(w, threshold uint32) bool { return float32(w) >= float32(threshold) }})
		add("strictly-above", "a word that equals the threshold is dropped", draw{keeps: func(w, threshold uint32) bool { return w > threshold }})
		add("tensor-and-step-swapped", "the numbers of the tensor and of the step change places", draw{swap: true})
		add("not-scaled", "elements that are kept are not scaled", draw{value: func(x, _ float32) float32 { return x }})
		add("scale-of-16-bits", "the scale is rounded to the format of the tensor", draw{value: func(x, scale float32) float32 { return x * num.Round(num.F16, scale) }})
	}

	right := mutants.NewList(dropout.Operations)
	right.Of(dropout.ForwardDefinition, num.F16)
	right.Add("by-mask", "a dropped element is masked bit by bit", mutants.PromisesBits, draw{drop: func(float32) float32 { return 0 }}.plain())
	right.Add("complement", "the complement of the word is compared", mutants.PromisesBits, draw{keeps: func(w, threshold uint32) bool { return ^w <= ^threshold }}.plain())

	mutants.Test(t, dropout.Operations, wrong.All, right.All, func(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
		body := draw{value: func(x, scale float32) float32 { return p.Step(x * scale) }}.body
		return map[*def.Definition]func(*mutants.Call){dropout.ForwardDefinition: body, dropout.BackwardDefinition: body}
	})
}
