package checksum

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

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{{
	Name: "checksum.forward", Summary: "digest of a tensor's bits, that of parts adding up to that of the whole",
	Definitions: []*def.Definition{ForwardDefinition, Int32Definition},
	Params:      []op.Param{{Name: "first", Default: "0", Help: "number of the first element, of a part of a tensor"}},
	Run:         run, Derive: derive, Settings: settings,
	Data: []op.Data{
		{Name: "normal", Definition: ForwardDefinition, Sizes: map[string]int{"R": 64, "C": 1024}, Params: numbers(0)},
		{Name: "int32", Definition: Int32Definition, Sizes: map[string]int{"R": 64, "C": 1024}, Params: numbers(0)},
	},
	Patterns: append(patterns(ForwardDefinition), patterns(Int32Definition)...),
	Clauses:  append(clausesOf(ForwardDefinition), clausesOf(Int32Definition)...),
}}

func clausesOf(d *def.Definition) []op.Clause {
	return op.ClausesOf(d, op.Interfaces(), op.Calculates(), op.Calculates(), op.Calculates(), op.Calculates(), op.Interfaces())
}

func patterns(d *def.Definition) []op.Pattern {
	same := func(v float32) op.Element { return func(*gen.Generator, int, int) float32 { return v } }
	sign := func(g *gen.Generator, _, _ int) float32 { return [...]float32{1, -1}[g.Below(2)] }
	of := func(name string, first uint64, v op.Element) op.Pattern {
		p := op.Pattern{Name: name, Definition: d, Params: numbers(first)}
		if v != nil {
			p.Values = map[string]op.Element{"x": v}
		}
		return p
	}
	return []op.Pattern{
		of("all-zero", 0, same(0)), of("signs", 0, sign), of("all-equal", 1, same(-3)),
		of("number-wraps", 1<<32-5, nil), of("number-high", 7<<32, nil), of("number-largest", math.MaxUint64-100, nil),
	}
}

func settings(g *gen.Generator) engine.Params {
	return engine.Params{"first": float64(g.Below(1 << 40))}
}

func derive(d *def.Definition, given engine.Params) (engine.Params, error) {
	first := given["first"]
	if !(first >= 0 && first <= 1<<53 && first == math.Trunc(first)) {
		return nil, &device.ArgumentError{Op: d.Name, Operand: "first", Got: "is out of range", Want: "an integer from 0 to 2^53"}
	}
	for name := range given {
		if name != "first" {
			return nil, &device.ArgumentError{Op: d.Name, Operand: name, Got: "is no parameter", Want: "first"}
		}
	}
	all := engine.Params{}
	for i, v := range numbers(uint64(first)) {
		all[d.Params[i].Name] = v
	}
	return all, nil
}

func run(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.CallOption) (engine.Args, error) {
	first := v.Uint("first")
	if v.Err() != nil {
		return nil, v.Err()
	}
	x := in["x"]
	if x == nil {
		return nil, &device.ArgumentError{Op: ForwardDefinition.Name, Operand: "x", Got: "is missing", Want: "a tensor"}
	}
	results := engine.Args{}
	for _, name := range []string{"word0", "word1"} {
		w, err := tensor.New(q.Device(), num.I32, 1)
		if err != nil {
			return nil, err
		}
		results[name] = w
	}
	if err := Forward(q, results["word0"], results["word1"], x, first, opts...); err != nil {
		return nil, err
	}
	return results, q.Wait()
}
