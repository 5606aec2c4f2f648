package adamw

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op"
	"tokitai/tensor"
)

var params = []op.Param{
	{Name: "lr", Help: "learning rate"},
	{Name: "beta1", Default: "0.9", Help: "decay of m"},
	{Name: "beta2", Default: "0.999", Help: "decay of v"},
	{Name: "eps", Default: "1e-8", Help: "added to the root of v"},
	{Name: "weight_decay", Default: "0.01", Help: "pull of the weights to zero"},
	{Name: "t", Help: "number of this step, from 1"},
	{Name: "mode", Default: "inplace", Help: "inplace, master (f32 weights, 16-bit copy) or stochastic"},
	{Name: "seed", Default: "0", Help: "of mode stochastic"},
	{Name: "tensor", Default: "0", Help: "number of the tensor in its model, in mode stochastic"},
	{Name: "copy", Default: "f16", Help: "dtype of the copy in mode master: f16 or bf16"},
}

// Operations are what this package offers to the program and the documents.
var Operations = []*op.Operation{
	{
		Name: "adamw.step", Summary: "one step of AdamW on one tensor",
		Definitions: []*def.Definition{InPlaceDefinition, MasterDefinition, StochasticDefinition},
		Params:      params, Run: runStep,
		Data: []op.Data{
			data("step 10", 10), data("step 1", 1),
		},
	},
	{
		Name: "adamw.step_all", Summary: "one step of AdamW on all tensors of a model, named NAME.weight, NAME.m, NAME.v, NAME.grad",
		Definitions: []*def.Definition{InPlaceDefinition, MasterDefinition, StochasticDefinition},
		Params:      slices.DeleteFunc(slices.Clone(params), func(p op.Param) bool { return p.Name == "tensor" }),
		Run:         runStepAll,
	},
}

func data(name string, t int) op.Data {
	h := DefaultHyper
	h.LR = 1e-3
	p := h.params(t)
	return op.Data{
		Name: name, Definition: InPlaceDefinition, Sizes: map[string]int{"R": 64, "C": 1024}, Params: p[:],
		Values: map[string]op.Element{
			"weight": op.Scaled(0.02), "m": op.Scaled(0x1p-8), "v": op.AbsScaled(0x1p-14), "grad": op.Scaled(0x1p-7),
		},
	}
}

func readHyper(v *op.Values) (h Hyper, t int, mode Mode) {
	h = Hyper{LR: v.Float("lr"), Beta1: v.Float("beta1"), Beta2: v.Float("beta2"), Eps: v.Float("eps"), WeightDecay: v.Float("weight_decay")}
	t = int(v.Int("t", math.MinInt64, math.MaxInt64))
	mode, err := ParseMode(v.Text("mode"))
	if err != nil {
		v.Fail(err)
	}
	return h, t, mode
}

func runStep(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.Option) (engine.Args, error) {
	h, t, mode := readHyper(v)
	r := Random{Seed: v.Uint("seed"), Tensor: int32(v.Int("tensor", 0, math.MaxInt32))}
	if v.Err() != nil {
		return nil, v.Err()
	}
	d := mode.Definition()
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if i := d.Operand(name); i < 0 || !d.Operands[i].IsIn {
			return nil, &tensor.BadArgument{Op: d.Name, Operand: name, Got: "is no input", Want: "weight, m, v and grad"}
		}
	}
	return runOne(q, mode, in, h, t, r, v, opts)
}

// runOne steps copies of weight, m and v.
func runOne(q *engine.Queue, mode Mode, in engine.Args, h Hyper, t int, r Random, v *op.Values, opts []engine.Option) (engine.Args, error) {
	results := engine.Args{}
	d := mode.Definition()
	for _, name := range []string{"weight", "m", "v", "grad"} {
		if in[name] == nil {
			return nil, &tensor.BadArgument{Op: d.Name, Operand: name, Got: "is missing", Want: "weight, m, v and grad"}
		}
		if name == "grad" {
			break
		}
		c, err := tensor.New(q.Device(), in[name].DType(), in[name].Shape()...)
		if err != nil {
			return nil, err
		}
		if err := c.CopyFrom(in[name]); err != nil {
			return nil, err
		}
		results[name] = c
	}
	if mode == Master {
		dtype, err := num.ParseDType(v.Text("copy"))
		if err != nil {
			return nil, &tensor.BadArgument{Op: d.Name, Operand: "copy", Got: fmt.Sprintf("is %q", v.Text("copy")), Want: "f16 or bf16"}
		}
		if results["copy"], err = tensor.New(q.Device(), dtype, in["weight"].Shape()...); err != nil {
			return nil, err
		}
	}
	s := State{Weight: results["weight"], M: results["m"], V: results["v"], Copy: results["copy"]}
	if err := Step(q, mode, s, in["grad"], h, t, r, opts...); err != nil {
		return nil, err
	}
	return results, q.Wait()
}

// runStepAll groups tensors by the part of their name before the last dot, and
// numbers the groups in the order of their names.
func runStepAll(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.Option) (engine.Args, error) {
	h, t, mode := readHyper(v)
	seed := v.Uint("seed")
	if v.Err() != nil {
		return nil, v.Err()
	}
	groups := map[string]engine.Args{}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		dot := strings.LastIndexByte(name, '.')
		if role := name[dot+1:]; dot < 1 || !slices.Contains([]string{"weight", "m", "v", "grad"}, role) {
			return nil, &tensor.BadArgument{Op: stepAll, Operand: name, Got: "is no input", Want: "NAME.weight, NAME.m, NAME.v or NAME.grad"}
		}
		if groups[name[:dot]] == nil {
			groups[name[:dot]] = engine.Args{}
		}
		groups[name[:dot]][name[dot+1:]] = in[name]
	}
	if len(groups) == 0 {
		return nil, &tensor.BadArgument{Op: stepAll, Operand: "input", Got: "has no tensors", Want: "NAME.weight, NAME.m, NAME.v and NAME.grad"}
	}
	results := engine.Args{}
	for i, name := range slices.Sorted(maps.Keys(groups)) {
		out, err := runOne(q, mode, groups[name], h, t, Random{Seed: seed, Tensor: int32(i)}, v, opts)
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", name, err)
		}
		for role, x := range out {
			results[name+"."+role] = x
		}
	}
	return results, nil
}
