package adamw

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/tensor"
)

// model is three weights with gradients.
func model(t testing.TB, mode Mode) (parameters []Parameter, grads []*tensor.Tensor) {
	t.Helper()
	g := gen.New("model")
	for i, n := range []int{5, 300, 5} {
		w, grad := make([]float32, n), make([]float32, n)
		for k := range w {
			w[k], grad[k] = g.Normal(), g.Normal()
		}
		p := Parameter{Name: []string{"embed", "", "head"}[i], LRScale: 1, WeightDecay: 0.01, Weight: optest.Vector(t, formats(mode)[0], w...)}
		if mode == Master {
			p.Copy = optest.Garbage(t, num.BF16, n)
		}
		parameters = append(parameters, p)
		grads = append(grads, optest.Vector(t, num.BF16, grad...))
	}
	return parameters, grads
}

// Steps of an optimizer are Step with t = 1, 2, …, tensor 0, 1, … and each
// parameter's own numbers.
func TestOptimizerCountsFromOne(t *testing.T) {
	for _, mode := range modes {
		parameters, grads := model(t, mode)
		parameters[1].LRScale, parameters[1].WeightDecay = 0.5, 0
		var states []State
		for _, p := range parameters {
			values := optest.Floats(t, p.Weight)
			s := state(t, mode, p.Weight.DType(), values, make([]float32, len(values)), make([]float32, len(values)))
			if mode == Master {
				s.Copy = optest.Garbage(t, num.BF16, len(values))
			}
			states = append(states, s)
		}
		o, err := New(cpu.Queue(), Options{Mode: mode, Hyper: usual(1e-2), Seed: 99}, parameters)
		optest.OK(t, err)
		for step := 1; step <= 3; step++ {
			if step == 3 {
				o.SetLR(1e-3)
			}
			optest.OK(t, o.StepAll(cpu.Queue(), grads))
			if o.Steps() != step {
				t.Errorf("%s: after step %d the optimizer counts %d", mode, step, o.Steps())
			}
			for i, s := range states {
				h := Hyper{LR: []float64{0, 1e-2, 1e-2, 1e-3}[step] * []float64{1, 0.5, 1}[i], Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: []float64{0.01, 0, 0.01}[i]}
				optest.OK(t, Step(cpu.Queue(), Update{Mode: mode, State: s, Grad: grads[i], Hyper: h, T: step, Random: Random{Seed: 99, Tensor: int32(i)}}))
				m, v := o.Moments(i)
				optest.SameBits(t, "weight", parameters[i].Weight, s.Weight)
				optest.SameBits(t, "m", m, s.M)
				optest.SameBits(t, "v", v, s.V)
				if mode == Master {
					optest.SameBits(t, "copy", parameters[i].Copy, s.Copy)
				}
			}
		}
		optest.OK(t, o.Close())
		if err := o.StepAll(cpu.Queue(), grads); !errors.Is(err, tensor.ErrBadArgument) {
			t.Errorf("%s: a step of a closed optimizer gives %v", mode, err)
		}
	}
}

// A run that is saved after two steps and restored goes on with the same bits.
func TestOptimizerRestore(t *testing.T) {
	parameters, grads := model(t, Stochastic)
	o, err := New(cpu.Queue(), Options{Mode: Stochastic, Hyper: usual(1e-2), Seed: 5}, parameters)
	optest.OK(t, err)
	for range 2 {
		optest.OK(t, o.StepAll(cpu.Queue(), grads))
	}
	restored := slices.Clone(parameters)
	for i, p := range parameters {
		restored[i].Weight = optest.Vector(t, p.Weight.DType(), optest.Floats(t, p.Weight)...)
	}
	other, err := New(cpu.Queue(), Options{Mode: Stochastic, Hyper: usual(1e-2), Seed: 5}, restored)
	optest.OK(t, err)
	for i := range parameters {
		m, v := o.Moments(i)
		otherM, otherV := other.Moments(i)
		optest.OK(t, otherM.CopyFrom(m))
		optest.OK(t, otherV.CopyFrom(v))
	}
	optest.OK(t, other.Restore(o.Steps()))
	for range 2 {
		optest.OK(t, o.StepAll(cpu.Queue(), grads))
		optest.OK(t, other.StepAll(cpu.Queue(), grads))
	}
	for i := range parameters {
		optest.SameBits(t, "weight", restored[i].Weight, parameters[i].Weight)
	}
	if other.Steps() != 4 {
		t.Errorf("the restored optimizer counts %d steps, want 4", other.Steps())
	}
	for _, steps := range []int{-1, math.MaxInt32} {
		optest.Refused(t, other.Restore(steps), "adamw.step_all", "steps", "")
	}
	if other.Steps() != 4 {
		t.Errorf("a refused Restore leaves %d steps, want 4", other.Steps())
	}
	if m, v := o.Moments(3); m != nil || v != nil {
		t.Error("there are moments of a parameter that is not there")
	}
}

func TestOptimizerRefusesParameters(t *testing.T) {
	dev, err := cpu.New(cpu.Options{Workers: 1})
	optest.OK(t, err)
	defer dev.Close()
	foreign, err := tensor.New(dev, num.F32, 5)
	optest.OK(t, err)
	closed := optest.Vector(t, num.F32, 1)
	closed.Close()
	for name, c := range map[string]struct {
		mode    Mode
		change  func(p []Parameter, o *Options)
		operand string
		clause  string
	}{
		"no weight":           {InPlace, func(p []Parameter, _ *Options) { p[1].Weight = nil }, "weight", ""},
		"a closed weight":     {InPlace, func(p []Parameter, _ *Options) { p[1].Weight = closed }, "weight", ""},
		"another device":      {InPlace, func(p []Parameter, _ *Options) { p[1].Weight = foreign }, "weight", ""},
		"an i32 weight":       {InPlace, func(p []Parameter, _ *Options) { p[1].Weight = optest.Ints(t, 1) }, "weight", ""},
		"an f16 master":       {Master, func(p []Parameter, _ *Options) { p[1].Weight = optest.Vector(t, num.F16, 1) }, "weight", ""},
		"stochastic f32":      {Stochastic, func(p []Parameter, _ *Options) { p[1].Weight = optest.Vector(t, num.F32, 1) }, "weight", ""},
		"no copy":             {Master, func(p []Parameter, _ *Options) { p[1].Copy = nil }, "copy", ""},
		"an f32 copy":         {Master, func(p []Parameter, _ *Options) { p[1].Copy = optest.Garbage(t, num.F32, 300) }, "copy", ""},
		"a short copy":        {Master, func(p []Parameter, _ *Options) { p[1].Copy = optest.Garbage(t, num.F16, 299) }, "copy", ""},
		"a copy of inplace":   {InPlace, func(p []Parameter, _ *Options) { p[1].Copy = optest.Garbage(t, num.F16, 300) }, "copy", ""},
		"a weight twice":      {InPlace, func(p []Parameter, _ *Options) { p[2].Weight = p[0].Weight }, "weight", ""},
		"a copy twice":        {Master, func(p []Parameter, _ *Options) { p[2].Copy = p[0].Copy }, "copy", ""},
		"a negative lr scale": {InPlace, func(p []Parameter, _ *Options) { p[1].LRScale = -1 }, "lr_scale", ""},
		"lr scale NaN":        {InPlace, func(p []Parameter, _ *Options) { p[1].LRScale = math.NaN() }, "lr_scale", ""},
		"decay NaN":           {InPlace, func(p []Parameter, _ *Options) { p[1].WeightDecay = math.NaN() }, "weight_decay", "adamw.step.C2"},
		"beta2 of 1":          {Master, func(_ []Parameter, o *Options) { o.Hyper.Beta2 = 1 }, "beta2", "adamw.step.master.C2"},
		"a mode beyond":       {InPlace, func(_ []Parameter, o *Options) { o.Mode = 3 }, "mode", ""},
	} {
		parameters, _ := model(t, c.mode)
		o := Options{Mode: c.mode, Hyper: usual(1e-3)}
		c.change(parameters, &o)
		_, err := New(cpu.Queue(), o, parameters)
		t.Run(name, func(t *testing.T) { optest.Refused(t, err, "adamw.step_all", c.operand, c.clause) })
	}
	_, err = New(cpu.Queue(), Options{}, nil)
	optest.Refused(t, err, "adamw.step_all", "parameters", "")
	parameters, _ := model(t, InPlace)
	_, err = New(nil, Options{}, parameters)
	optest.Refused(t, err, "adamw.step_all", "queue", "")
}

// A bad gradient is found before the first weight moves.
func TestOptimizerWritesNothingOnError(t *testing.T) {
	parameters, grads := model(t, InPlace)
	o, err := New(cpu.Queue(), Options{Hyper: usual(1e-2)}, parameters)
	optest.OK(t, err)
	optest.OK(t, o.StepAll(cpu.Queue(), grads))
	var before [][]uint32
	contents := func() (all [][]uint32) {
		for i, p := range parameters {
			m, v := o.Moments(i)
			all = append(all, optest.Bits(t, p.Weight), optest.Bits(t, m), optest.Bits(t, v))
		}
		return all
	}
	before = contents()
	short := optest.Vector(t, num.BF16, 1, 2)
	m0, _ := o.Moments(0)
	for name, c := range map[string]struct {
		grads []*tensor.Tensor
		lr    float64
	}{
		"too few":                    {grads[:1], 1e-2},
		"too many":                   {append(slices.Clone(grads), grads[0]), 1e-2},
		"none":                       {nil, 1e-2},
		"a nil one":                  {[]*tensor.Tensor{grads[0], nil, grads[2]}, 1e-2},
		"a short one":                {[]*tensor.Tensor{grads[0], grads[1], short}, 1e-2},
		"in another order":           {[]*tensor.Tensor{grads[1], grads[0], grads[2]}, 1e-2},
		"lr NaN":                     {grads, math.NaN()},
		"another parameter's weight": {[]*tensor.Tensor{parameters[2].Weight, grads[1], grads[2]}, 1e-2},
		"another parameter's m":      {[]*tensor.Tensor{grads[0], grads[1], m0}, 1e-2},
		"its own weight":             {[]*tensor.Tensor{parameters[0].Weight, grads[1], grads[2]}, 1e-2},
	} {
		o.SetLR(c.lr)
		if err := o.StepAll(cpu.Queue(), c.grads); !errors.Is(err, tensor.ErrBadArgument) {
			t.Errorf("%s: got error %v, want an ArgumentError", name, err)
		}
		if o.Steps() != 1 {
			t.Errorf("%s: the optimizer counts %d steps, want 1", name, o.Steps())
		}
		for i, bits := range contents() {
			if !slices.Equal(bits, before[i]) {
				t.Errorf("%s: tensor %d has changed", name, i)
			}
		}
	}
	o.SetLR(1e-2)
	optest.OK(t, o.StepAll(cpu.Queue(), grads))
	if slices.Equal(contents()[0], before[0]) {
		t.Error("a good step has changed nothing")
	}
}

// haltAfter cancels a context once it has seen some launches.
type haltAfter struct {
	launches int
	cancel   context.CancelFunc
}

func (h *haltAfter) Before(*engine.Record) error { return nil }
func (h *haltAfter) After(*engine.Record, error) {
	if h.launches--; h.launches == 0 {
		h.cancel()
	}
}

// A step that ends between two tensors is not taken for a whole one.
func TestOptimizerRefusesAfterHalfAStep(t *testing.T) {
	parameters, grads := model(t, InPlace)
	o, err := New(cpu.Queue(), Options{Hyper: usual(1e-2)}, parameters)
	optest.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err = o.StepAll(cpu.Queue().WithContext(ctx), grads, engine.WithObserver(&haltAfter{1, cancel}))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got error %v, want context.Canceled", err)
	}
	if o.Steps() != 0 {
		t.Errorf("the optimizer counts %d steps", o.Steps())
	}
	if err := o.StepAll(cpu.Queue(), grads); !errors.Is(err, context.Canceled) {
		t.Errorf("the next step gives %v, want the first one's error", err)
	}
	optest.OK(t, o.Restore(0))
	optest.OK(t, o.StepAll(cpu.Queue(), grads))
}

func TestOperationStepAll(t *testing.T) {
	o := optest.Operation(Operations, "adamw.step_all")
	in := engine.Args{}
	for _, name := range []string{"a", "b.c"} {
		in[name+".weight"] = optest.Vector(t, num.F32, 1)
		in[name+".m"], in[name+".v"] = optest.Vector(t, num.F32, 0), optest.Vector(t, num.F32, 0)
		in[name+".grad"] = optest.Vector(t, num.F16, 4)
	}
	given := map[string]string{"lr": "0.125", "beta1": "0.5", "beta2": "0.75", "eps": "0", "weight_decay": "0", "t": "1"}
	run := func(in engine.Args) (engine.Args, error) {
		v, err := o.NewValues(given)
		optest.OK(t, err)
		return o.Run(cpu.Queue(), in, v)
	}
	out, err := run(in)
	optest.OK(t, err)
	for _, name := range []string{"a", "b.c"} {
		optest.Want(t, "weight", out[name+".weight"], 0.875)
		optest.Want(t, "m", out[name+".m"], 2)
		optest.Want(t, "v", out[name+".v"], 4)
		optest.Want(t, "the weight that was given", in[name+".weight"], 1)
	}
	for name, bad := range map[string]engine.Args{
		"none": {}, "no role": {"weight": in["a.weight"]}, "another role": {"a.x": in["a.weight"]},
		"no grad": {"a.weight": in["a.weight"], "a.m": in["a.m"], "a.v": in["a.v"]},
	} {
		if _, err := run(bad); !errors.Is(err, tensor.ErrBadArgument) {
			t.Errorf("%s: got error %v, want an ArgumentError", name, err)
		}
	}
	_, err = run(engine.Args{"a.weight": in["a.weight"], "a.m": in["a.m"], "a.v": in["a.v"]})
	optest.Message(t, err, "adamw.step_all: tensor a.grad is missing, want weight, m, v and grad")
	in["b.c.m"] = optest.Vector(t, num.F32, 1, 2)
	_, err = run(in)
	optest.Message(t, err, "adamw.step_all: tensor b.c.m has shape [2], want [1] like weight")
	given["lr"] = "-1"
	_, err = run(in)
	optest.Refused(t, err, "adamw.step_all", "lr", "adamw.step.C2")
	given["lr"], given["mode"] = "1", "lazy"
	_, err = run(in)
	optest.Refused(t, err, "adamw.step_all", "mode", "")
}

// The numbers of the tensors, and so their random words, follow the sorted names.
func TestOperationStepAllNumbersByName(t *testing.T) {
	all, step := optest.Operation(Operations, "adamw.step_all"), optest.Operation(Operations, "adamw.step")
	const n = 300
	ones, none := slices.Repeat([]float32{1}, n), make([]float32, n)
	group := engine.Args{"weight": optest.Vector(t, num.BF16, ones...), "m": optest.Vector(t, num.F32, none...), "v": optest.Vector(t, num.F32, none...), "grad": optest.Vector(t, num.BF16, ones...)}
	given := map[string]string{"lr": "1e-3", "t": "1", "mode": "stochastic", "seed": "5"}
	in := engine.Args{}
	names := []string{"a", "b.10", "b.9"}
	for _, name := range names {
		for role, x := range group {
			in[name+"."+role] = x
		}
	}
	v, err := all.NewValues(given)
	optest.OK(t, err)
	out, err := all.Run(cpu.Queue(), in, v)
	optest.OK(t, err)
	for i, name := range names {
		given["tensor"] = strconv.Itoa(i)
		v, err := step.NewValues(given)
		optest.OK(t, err)
		want, err := step.Run(cpu.Queue(), group, v)
		optest.OK(t, err)
		optest.SameBits(t, name+".weight", out[name+".weight"], want["weight"])
	}
	if slices.Equal(optest.Bits(t, out["a.weight"]), optest.Bits(t, out["b.9.weight"])) {
		t.Error("two tensors have the same random words")
	}
}

// Nothing that New did not make panics, or takes a step.
func TestOptimizerNilAndEmpty(t *testing.T) {
	for _, o := range []*Optimizer{nil, {}} {
		optest.Refused(t, o.StepAll(cpu.Queue(), nil), "adamw.step_all", "optimizer", "")
		optest.Refused(t, o.StepAll(nil, []*tensor.Tensor{nil}), "adamw.step_all", "optimizer", "")
		optest.Refused(t, o.Restore(1), "adamw.step_all", "optimizer", "")
		o.SetLR(1)
		if o.Steps() != 0 {
			t.Errorf("there are %d steps", o.Steps())
		}
		if m, v := o.Moments(0); m != nil || v != nil {
			t.Error("there are moments")
		}
		optest.OK(t, o.Close())
	}
}

// The zero value of LRScale freezes a weight; its moments go on.
func TestOptimizerFreezes(t *testing.T) {
	parameters, grads := model(t, InPlace)
	parameters[0].LRScale = 0
	before := optest.Bits(t, parameters[0].Weight)
	o, err := New(cpu.Queue(), Options{Hyper: usual(1e-2)}, parameters)
	optest.OK(t, err)
	optest.OK(t, o.StepAll(cpu.Queue(), grads))
	optest.WantBits(t, "the frozen weight", parameters[0].Weight, before...)
	if m, _ := o.Moments(0); optest.Floats(t, m)[0] == 0 {
		t.Error("m is still 0")
	}
}

// refusing lets checks pass and stops the call that would compute.
type refusing struct{}

func (refusing) Before(*engine.Record) error { return errors.New("not now") }
func (refusing) After(*engine.Record, error) {}

// A step that was refused before anything moved can be taken again.
func TestOptimizerGoesOnWhenNothingMoved(t *testing.T) {
	parameters, grads := model(t, InPlace)
	o, err := New(cpu.Queue(), Options{Hyper: usual(1e-2)}, parameters)
	optest.OK(t, err)
	before := optest.Floats(t, parameters[0].Weight)
	if err := o.StepAll(cpu.Queue(), grads, engine.WithObserver(refusing{})); err == nil {
		t.Fatal("a refused step succeeded")
	}
	if after := optest.Floats(t, parameters[0].Weight); !slices.Equal(before, after) {
		t.Errorf("weights moved from %v to %v", before, after)
	}
	if err := o.StepAll(cpu.Queue(), grads); err != nil || o.Steps() != 1 {
		t.Errorf("the step after: %v, %d steps", err, o.Steps())
	}
}
