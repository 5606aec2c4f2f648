package sample

import (
	"math"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/op"
)

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{{
	Name: "sample", Summary: "draws a token from each row of logits, by temperature, top-k, top-p and min-p",
	Usual:       map[string]int{"C": 128256},
	Definitions: []*def.Definition{Definition}, Bounds: bounds, Clauses: clauses,
	Params: []op.Param{
		{Name: "seed", Default: "0", Help: "seed of the random words"},
		{Name: "use", Default: "0", Help: "number of this draw at its position"},
	},
	Run: run, Derive: derive, Settings: settings,
	Data: []op.Data{
		kind("plain", steady(1), 0, 1, 0),
		kind("nucleus", op.Between(0, 2), 50, 0.9, 0),
		kind("greedy", steady(0), 0, 1, 0),
		kind("min-p", steady(0.7), 0, 1, 0x1p-5),
	},
	Patterns: []op.Pattern{
		pattern("ties", map[string]op.Element{"logits": few, "temperature": steady(0)}, topK(0)),
		pattern("ties-drawn", map[string]op.Element{"logits": few, "temperature": steady(1), "top_p": op.Between(0, 1)}, topK(7)),
		pattern("flat", map[string]op.Element{"logits": steady(2), "temperature": steady(1), "top_p": steady(0.5), "min_p": steady(0)}, topK(0)),
		pattern("one-dominates", map[string]op.Element{"logits": oneHuge, "temperature": steady(1), "top_p": steady(0.999), "min_p": steady(0)}, topK(0)),
		pattern("hot", map[string]op.Element{"temperature": steady(float32(math.Inf(1))), "top_p": steady(1), "min_p": steady(0)}, topK(0)),
		pattern("cold", map[string]op.Element{"temperature": steady(0x1p-149), "top_p": steady(1), "min_p": steady(0)}, topK(0)),
		pattern("nucleus", map[string]op.Element{"logits": op.Scaled(3), "temperature": steady(0.75), "top_p": op.Between(0, 1), "min_p": steady(0)}, topK(0)),
		pattern("min-p", map[string]op.Element{"logits": op.Scaled(3), "temperature": steady(1), "top_p": steady(1), "min_p": op.Between(0, 1)}, topK(0)),
		pattern("top-k", map[string]op.Element{"temperature": steady(1), "top_p": steady(1), "min_p": steady(0)}, func(g *gen.Generator, _, _ int) int64 { return int64(g.Below(40)) - 2 }),
		pattern("top-k-hot", map[string]op.Element{"temperature": steady(4096), "top_p": steady(1), "min_p": steady(0)}, func(g *gen.Generator, _, _ int) int64 { return 1 + int64(g.Below(4)) }),
		pattern("masked", map[string]op.Element{"logits": masked, "temperature": steady(1), "top_p": op.Between(0, 2), "min_p": steady(0)}, topK(0)),
		pattern("settings", map[string]op.Element{"temperature": setting, "top_p": setting, "min_p": setting}, topK(5)),
	},
}}

func steady(v float32) op.Element { return func(*gen.Generator, int, int) float32 { return v } }

func topK(k int64) op.Integer { return func(*gen.Generator, int, int) int64 { return k } }

// few has few values, so that many are equal.
func few(g *gen.Generator, _, _ int) float32 { return float32(g.Below(3)) - 1 }

func oneHuge(g *gen.Generator, r, c int) float32 {
	if c == r%7 {
		return 12
	}
	return g.Normal()
}

// masked has logits of -Inf, as a grammar leaves them.
func masked(g *gen.Generator, _, _ int) float32 {
	if g.Below(2) == 0 {
		return float32(math.Inf(-1))
	}
	return g.Normal()
}

// setting has the ends of what a setting may be.
func setting(g *gen.Generator, _, _ int) float32 {
	ends := [...]float32{0, 1, -1, 0x1p-149, 0x1p-30, 0.5, 2, 0x1p127, float32(math.Inf(1)), float32(math.NaN())}
	return ends[g.Below(len(ends))]
}

func kind(name string, temperature op.Element, k, topP, minP float32) op.Data {
	return op.Data{
		Name: name, Definition: Definition, Sizes: map[string]int{"R": 64, "C": 1024}, Params: Words{Seed: 1}.values(),
		Values: map[string]op.Element{
			"logits": op.Scaled(3), "temperature": temperature, "top_k": steady(k), "top_p": steady(topP), "min_p": steady(minP),
			"sequence": func(_ *gen.Generator, r, _ int) float32 { return float32(r / 8) }, "position": func(_ *gen.Generator, r, _ int) float32 { return float32(r % 8) },
		},
	}
}

func pattern(name string, values map[string]op.Element, k op.Integer) op.Pattern {
	return op.Pattern{
		Name: name, Definition: Definition, Params: Words{Seed: 0x0123456789abcdef, Use: 3}.values(), Values: values,
		Integers: map[string]op.Integer{"top_k": k},
	}
}

func settings(g *gen.Generator) engine.Params {
	return engine.Params{"seed": float64(g.Below(1 << 40)), "use": float64(g.Below(8))}
}

// derive computes the parameters of the definition from seed and use.
func derive(d *def.Definition, given engine.Params) (engine.Params, error) {
	for name := range given {
		if name != "seed" && name != "use" {
			return nil, &device.ArgumentError{Op: d.Name, Operand: name, Got: "is no parameter", Want: "seed and use"}
		}
	}
	seed, use := given["seed"], given["use"]
	if !(seed >= 0 && seed <= 1<<53 && seed == math.Trunc(seed)) {
		return nil, &device.ArgumentError{Op: d.Name, Operand: "seed", Got: "is out of range", Want: "an integer from 0 to 2^53"}
	}
	if !(use >= math.MinInt32 && use <= math.MaxInt32 && use == math.Trunc(use)) {
		return nil, &device.ArgumentError{Op: d.Name, Operand: "use", Got: "is out of range", Want: "an int32"}
	}
	return named(Words{Seed: uint64(seed), Use: int32(use)}), nil
}

func named(w Words) engine.Params {
	all := engine.Params{}
	for i, v := range w.values() {
		all[Definition.Params[i].Name] = v
	}
	return all
}

func run(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.CallOption) (engine.Args, error) {
	w := Words{Seed: v.Uint("seed"), Use: int32(v.Int("use", math.MinInt32, math.MaxInt32))}
	if v.Err() != nil {
		return nil, v.Err()
	}
	return op.Eval(q, Definition, in, named(w), opts...)
}
