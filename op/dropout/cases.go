package dropout

import (
	"math"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/tensor"
)

var params = []op.Param{
	{Name: "keep", Help: "the probability with which an element is kept"},
	{Name: "seed", Default: "0", Help: "seed of the random words"},
	{Name: "tensor", Default: "0", Help: "number of the tensor in its model"},
	{Name: "step", Default: "0", Help: "number of the training step"},
	{Name: "first", Default: "0", Help: "number of the first element, of a part of a tensor"},
}

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	operation(ForwardDefinition, "drops elements at random and scales the others"),
	operation(BackwardDefinition, "gradient of dropout.forward, with the same random words"),
}

func operation(d *def.Definition, summary string) *op.Operation {
	in := d.Operands[0].Name
	return &op.Operation{
		Name: d.Name, Summary: summary, Definitions: []*def.Definition{d}, Bounds: bounds(d),
		Params: params, Run: run(d), Derive: derive, Settings: settings, Clauses: clausesOf(d),
		Data: []op.Data{
			{Name: "normal", Definition: d, Sizes: map[string]int{"R": 64, "C": 1024}, Params: list(d, 0.9, Words{Seed: 1})},
			{Name: "wide", Definition: d, Sizes: map[string]int{"R": 64, "C": 1024}, Params: list(d, 0.5, Words{Seed: 2}), Values: map[string]op.Element{in: op.Wide}},
		},
		Patterns: []op.Pattern{
			{Name: "half", Definition: d, Params: list(d, 0.5, Words{Seed: 0x0123456789abcdef, Tensor: 3, Step: 7})},
			{Name: "keep-all", Definition: d, Params: list(d, 1, Words{Seed: 5})},
			{Name: "keep-none", Definition: d, Params: list(d, 0, Words{Seed: 5})},
			{Name: "keep-few", Definition: d, Params: list(d, 0x1p-20, Words{Seed: 5, Tensor: -1, Step: math.MinInt32}), Values: map[string]op.Element{in: op.Scaled(0x1p-4)}},
			{Name: "word-at-threshold", Definition: d, Params: list(d, keepFrom(firstWord), Words{Seed: 9})},
			{Name: "word-below-threshold", Definition: d, Params: list(d, keepFrom(firstWord+1), Words{Seed: 9})},
			{Name: "signed-threshold", Definition: d, Params: list(d, 0.5-0x1p-32, Words{Seed: 9})},
			{Name: "number-wraps", Definition: d, Params: list(d, 0.75, Words{Seed: 9, First: 1<<32 - 5})},
			{Name: "number-largest", Definition: d, Params: list(d, 0.75, Words{Seed: math.MaxUint64, First: math.MaxUint64 - 1000})},
		},
		Scalings: []op.Scaling{
			{Name: "scaled-" + in, Definition: d, Inputs: map[string]int{in: 1}, Outputs: map[string]int{d.Operands[1].Name: 1}},
		},
	}
}

// firstWord is the word of element 0 with seed 9.
var firstWord = num.RandomWord(9, 0, 0, 0)

// keepFrom returns the probability whose threshold is a given word.
func keepFrom(threshold uint32) float64 { return (0x1p32 - float64(threshold)) / 0x1p32 }

// list returns the parameters of a definition in its order.
func list(d *def.Definition, keep float64, w Words) []float64 {
	p, err := numbers(d, keep, w)
	if err != nil {
		panic(err)
	}
	return p
}

// settings draws what people set.
func settings(g *gen.Generator) engine.Params {
	keeps := []float64{0, 1, 0.5, 0.9, 0.9, 0.99, 0.25, 0x1p-32, 1 - 0x1p-32}
	return engine.Params{
		"keep": keeps[g.Below(len(keeps))], "seed": float64(g.Below(1 << 20)), "tensor": float64(g.Below(100)),
		"step": float64(g.Below(1 << 20)), "first": float64(g.Below(1 << 40)),
	}
}

// derive computes the parameters of a definition from keep, seed, tensor, step and first.
func derive(d *def.Definition, given engine.Params) (engine.Params, error) {
	number := func(name string, least, most float64) (float64, error) {
		v, ok := given[name]
		if !ok && name != "keep" {
			return 0, nil
		}
		if !(v >= least && v <= most && v == math.Trunc(v)) {
			return 0, &device.ArgumentError{Op: d.Name, Operand: name, Got: "is out of range", Want: "an integer"}
		}
		return v, nil
	}
	for name := range given {
		if name != "keep" && name != "seed" && name != "tensor" && name != "step" && name != "first" {
			return nil, &device.ArgumentError{Op: d.Name, Operand: name, Got: "is no parameter", Want: "keep, seed, tensor, step and first"}
		}
	}
	keep, ok := given["keep"]
	if !ok {
		return nil, &device.ArgumentError{Op: d.Name, Operand: "keep", Got: "is missing", Want: "a number"}
	}
	var values [4]float64
	for i, name := range []string{"seed", "first", "tensor", "step"} {
		least, most := 0.0, float64(1<<53) // which binary64 has exactly
		if i >= 2 {
			least, most = math.MinInt32, math.MaxInt32
		}
		var err error
		if values[i], err = number(name, least, most); err != nil {
			return nil, err
		}
	}
	list, err := numbers(d, keep, Words{Seed: uint64(values[0]), First: uint64(values[1]), Tensor: int32(values[2]), Step: int32(values[3])})
	if err != nil {
		return nil, err
	}
	all := engine.Params{}
	for i := range d.Params {
		all[d.Params[i].Name] = list[i]
	}
	return all, nil
}

func run(d *def.Definition) func(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.CallOption) (engine.Args, error) {
	return func(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.CallOption) (engine.Args, error) {
		keep := v.Float("keep")
		w := Words{Seed: v.Uint("seed"), Tensor: int32(v.Int("tensor", math.MinInt32, math.MaxInt32)), Step: int32(v.Int("step", math.MinInt32, math.MaxInt32)), First: v.Uint("first")}
		if v.Err() != nil {
			return nil, v.Err()
		}
		from, to := d.Operands[0].Name, d.Operands[1].Name
		x := in[from]
		if x == nil {
			return nil, &device.ArgumentError{Op: d.Name, Operand: from, Got: "is missing", Want: "a tensor"}
		}
		for name := range in {
			if name != from {
				return nil, &device.ArgumentError{Op: d.Name, Operand: name, Got: "is no input", Want: from}
			}
		}
		y, err := tensor.New(q.Device(), x.DType(), x.Shape()...)
		if err != nil {
			return nil, err
		}
		if err := call(q, d, x, y, keep, w, opts); err != nil {
			return nil, err
		}
		return engine.Args{to: y}, q.Wait()
	}
}
