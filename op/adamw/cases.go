package adamw

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/tensor"
)

var params = []op.Param{
	{Name: "lr", Help: "the learning rate"},
	{Name: "beta1", Default: "0.9", Help: "decay of m"},
	{Name: "beta2", Default: "0.999", Help: "decay of v"},
	{Name: "eps", Default: "1e-8", Help: "added to the square root of v"},
	{Name: "weight_decay", Default: "0.01", Help: "decoupled weight decay"},
	{Name: "t", Help: "the number of this step, from 1"},
	{Name: "mode", Default: "inplace", Help: "inplace, master (f32 weights, 16-bit copy) or stochastic"},
	{Name: "seed", Default: "0", Help: "seed of the random words, in mode stochastic only"},
	{Name: "tensor", Default: "0", Help: "number of the tensor in its model, in mode stochastic only"},
	{Name: "copy", Default: "f16", Help: "dtype of the copy, f16 or bf16, in mode master only"},
}

// Operations lists what this package offers to the program and the documents.
var Operations = []*op.Operation{
	{
		Name: "adamw.step", Summary: "one step of AdamW on one tensor",
		Definitions: []*def.Definition{InPlaceDefinition, MasterDefinition, StochasticDefinition}, Bounds: stepBounds,
		Params: params, Run: runStep, Derive: derive, Settings: drawnSettings,
		Variant: func(v *op.Values) *def.Definition {
			mode, err := ParseMode(v.Text("mode"))
			v.Fail(err)
			return mode.Definition()
		},
		Data: []op.Data{
			data("step 10", 10), data("step 1", 1),
		},
		Patterns: patterns,
		Scalings: scalings,
		Formulas: formulas,
		Clauses:  clauses, Ranges: ranges,
	},
	{
		Name: "adamw.step_all", Summary: "one step of AdamW on all tensors of a model, named NAME.weight, NAME.m, NAME.v, NAME.grad",
		Definitions: []*def.Definition{InPlaceDefinition, MasterDefinition, StochasticDefinition},
		Params:      allParams(),
		Takes: func(name string) bool {
			_, _, ok := splitName(name)
			return ok
		},
		Run: runStepAll, Clauses: clauses, Ranges: ranges,
		Several: &op.Several{
			Data: data("step 10", 10),
			Run: func(q *engine.Queue, params []float64, tensors [][]*tensor.Tensor) error {
				calls := make([]engine.CallSpec, len(tensors))
				for i := range tensors {
					calls[i] = engine.CallSpec{Definition: InPlaceDefinition, Tensors: tensors[i], Params: params}
				}
				return engine.CallAll(q, calls)
			},
		},
	},
}

// allParams are the parameters of step_all, which numbers the tensors itself.
func allParams() []op.Param {
	all := slices.DeleteFunc(slices.Clone(params), func(p op.Param) bool { return p.Name == "tensor" })
	for i := range all {
		if all[i].Name == "seed" {
			all[i].Help += "; the tensors' numbers, from 0 in the sorted order of NAME, decide them too"
		}
	}
	return all
}

func data(name string, t int) op.Data {
	h := DefaultHyper
	h.LR = 1e-3
	p := h.numbers(t).list()
	return op.Data{
		Name: name, Definition: InPlaceDefinition, Sizes: map[string]int{"R": 64, "C": 1024}, Params: p[:],
		Values: map[string]op.Element{
			"weight": op.Scaled(0.02), "m": op.Scaled(0x1p-8), "v": op.AbsScaled(0x1p-14), "grad": op.Scaled(0x1p-7),
		},
	}
}

// drawnSettings draws what people set: usual numbers, and the ends of their ranges.
func drawnSettings(g *gen.Generator) engine.Params {
	among := func(choices ...float64) float64 { return choices[g.Below(len(choices))] }
	return engine.Params{
		"lr":           among(0, 1e-8, 1e-4, 3e-4, 1e-3, 0.1, 1),
		"beta1":        among(0, 0.1, 0.5, 0.8, 0.9, 0.9, 0.95, 0.99, 1-0x1p-20),
		"beta2":        among(0, 0.5, 0.9, 0.95, 0.99, 0.999, 0.999, 1-0x1p-22),
		"eps":          among(1e-30, 1e-15, 1e-8, 1e-8, 1e-6, 1e-3, 1),
		"weight_decay": among(0, 0.01, 0.1, 1),
		"t":            among(1, 2, 10, 1000, 100_000, 1<<24+1, math.MaxInt32),
	}
}

// derive computes the parameters of a definition from lr, beta1, beta2, eps, weight_decay and
// t; those of the random words pass as they are.
func derive(d *def.Definition, given engine.Params) (engine.Params, error) {
	rest := maps.Clone(given)
	number := func(name string) float64 {
		v, ok := given[name]
		if !ok {
			v = math.NaN() // which the check refuses
		}
		delete(rest, name)
		return v
	}
	h := Hyper{LR: number("lr"), Beta1: number("beta1"), Beta2: number("beta2"), Eps: number("eps"), WeightDecay: number("weight_decay")}
	step := number("t")
	if !(step >= 1 && step <= math.MaxInt32 && step == math.Trunc(step)) {
		return nil, &device.ArgumentError{Op: d.Name, Operand: "t", Clause: d.Name + ".C2", Got: fmt.Sprintf("is %v", step), Want: "an integer from 1 to 2147483647"}
	}
	t := int(step)
	for m := InPlace; m <= Stochastic; m++ {
		if m.Definition() == d {
			if err := h.check(d.Name, m, t); err != nil {
				return nil, err
			}
		}
	}
	all := engine.Params{}
	p := h.numbers(t).list()
	for i, param := range d.Params {
		switch {
		case i < len(p):
			all[param.Name] = p[i]
		case param.Name == "t":
			all["t"] = step
		default:
			v, ok := rest[param.Name]
			if !ok {
				return nil, &device.ArgumentError{Op: d.Name, Operand: param.Name, Got: "is missing", Want: "a number"}
			}
			all[param.Name] = v
			delete(rest, param.Name)
		}
	}
	for name := range rest {
		return nil, &device.ArgumentError{Op: d.Name, Operand: name, Got: "is no parameter", Want: "lr, beta1, beta2, eps, weight_decay and t"}
	}
	return all, nil
}

// settings are what the parameters of a step say.
type settings struct {
	hyper  Hyper
	t      int
	mode   Mode
	random Random
	copy   num.DType // of mode master
}

// modeOf are the parameters that belong to one mode alone.
var modeOf = map[string]Mode{"seed": Stochastic, "tensor": Stochastic, "copy": Master}

// readSettings checks everything that the tensors do not decide.
func readSettings(operation string, v *op.Values) (s settings, err error) {
	s.hyper = Hyper{LR: v.Float("lr"), Beta1: v.Float("beta1"), Beta2: v.Float("beta2"), Eps: v.Float("eps"), WeightDecay: v.Float("weight_decay")}
	s.t = int(v.Int("t", 1, math.MaxInt32))
	if s.mode, err = ParseMode(v.Text("mode")); err != nil {
		v.Fail(op.Named(operation, err))
	}
	s.random.Seed = v.Uint("seed")
	if operation != stepAll {
		s.random.Tensor = int32(v.Int("tensor", 0, math.MaxInt32))
	}
	if s.copy, err = num.ParseDType(v.Text("copy")); err != nil || s.copy != num.F16 && s.copy != num.BF16 {
		v.Refuse("copy", "f16 or bf16")
	}
	for _, name := range slices.Sorted(maps.Keys(modeOf)) {
		if v.IsGiven(name) && s.mode != modeOf[name] {
			v.Refuse(name, fmt.Sprintf("none in mode %s: it belongs to mode %s", s.mode, modeOf[name]))
		}
	}
	if v.Err() == nil {
		v.Fail(s.hyper.check(operation, s.mode, s.t))
	}
	return s, v.Err()
}

const inputs = "weight, m, v and grad"

func runStep(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.CallOption) (engine.Args, error) {
	s, err := readSettings(InPlaceDefinition.Name, v)
	if err != nil {
		return nil, err
	}
	d := s.mode.Definition()
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if i := d.Operand(name); i < 0 || !d.Operands[i].IsIn {
			return nil, &device.ArgumentError{Op: d.Name, Operand: name, Got: "is no input", Want: inputs}
		}
	}
	return s.run(q, in, opts)
}

// run steps copies of weight, m and v.
func (s *settings) run(q *engine.Queue, in engine.Args, opts []engine.CallOption) (engine.Args, error) {
	results := engine.Args{}
	for _, name := range []string{"weight", "m", "v", "grad"} {
		if in[name] == nil {
			return nil, &device.ArgumentError{Op: InPlaceDefinition.Name, Operand: name, Got: "is missing", Want: inputs}
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
	if s.mode == Master {
		c, err := tensor.New(q.Device(), s.copy, in["weight"].Shape()...)
		if err != nil {
			return nil, err
		}
		results["copy"] = c
	}
	state := State{Weight: results["weight"], M: results["m"], V: results["v"], Copy: results["copy"]}
	if err := Step(q, Update{Mode: s.mode, State: state, Grad: in["grad"], Hyper: s.hyper, T: s.t, Random: s.random}, opts...); err != nil {
		return nil, err
	}
	return results, q.Wait()
}

// splitName divides NAME.weight into NAME and weight. It reports whether the name is one
// of an input.
func splitName(name string) (group, role string, ok bool) {
	dot := strings.LastIndexByte(name, '.')
	if dot < 1 {
		return "", "", false
	}
	group, role = name[:dot], name[dot+1:]
	return group, role, slices.Contains([]string{"weight", "m", "v", "grad"}, role)
}

// runStepAll groups tensors by the part of their name before the last dot, and
// numbers the groups in the order of their names.
func runStepAll(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.CallOption) (engine.Args, error) {
	s, err := readSettings(stepAll, v)
	if err != nil {
		return nil, err
	}
	groups := map[string]engine.Args{}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		group, role, ok := splitName(name)
		if !ok {
			return nil, &device.ArgumentError{Op: stepAll, Operand: name, Got: "is no input", Want: "NAME.weight, NAME.m, NAME.v or NAME.grad"}
		}
		if groups[group] == nil {
			groups[group] = engine.Args{}
		}
		groups[group][role] = in[name]
	}
	if len(groups) == 0 {
		return nil, &device.ArgumentError{Op: stepAll, Operand: "input", Got: "has no tensors", Want: "NAME.weight, NAME.m, NAME.v and NAME.grad"}
	}
	results := engine.Args{}
	for i, name := range slices.Sorted(maps.Keys(groups)) {
		s.random.Tensor = int32(i)
		out, err := s.run(q, groups[name], opts)
		if err != nil {
			return nil, ofGroup(name, err)
		}
		for role, x := range out {
			results[name+"."+role] = x
		}
	}
	return results, nil
}

// ofGroup gives an error about an operand the name of the tensor in its group.
func ofGroup(name string, err error) error {
	var bad *device.ArgumentError
	if !errors.As(err, &bad) || MasterDefinition.Operand(bad.Operand) < 0 {
		return fmt.Errorf("parameter %s: %w", name, err)
	}
	named := *bad
	named.Op, named.Operand = stepAll, "tensor "+name+"."+bad.Operand
	return &named
}
