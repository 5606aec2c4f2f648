package adamw

import (
	"fmt"

	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// Parameter is one tensor of a model as an Optimizer sees it.
type Parameter struct {
	Name   string         // for messages
	Weight *tensor.Tensor // f32 in mode Master
	Copy   *tensor.Tensor // 16-bit, in mode Master only

	LRScale     float64 // the learning rate is multiplied by it
	WeightDecay float64
}

// Optimizer owns the moments of a model's tensors and counts the steps. It is not
// safe for concurrent use.
type Optimizer struct {
	mode       Mode
	hyper      Hyper
	seed       uint64
	parameters []Parameter
	state      []State
	step       int
}

// Options are an Optimizer's settings.
type Options struct {
	Mode  Mode
	Hyper Hyper // WeightDecay stands in each Parameter
	Seed  uint64
}

const stepAll = "adamw.step_all"

// New makes an optimizer with moments of zero on the queue's device.
func New(q *engine.Queue, o Options, parameters []Parameter) (*Optimizer, error) {
	if q == nil {
		return nil, &tensor.BadArgument{Op: stepAll, Operand: "queue", Got: "is nil"}
	}
	if len(parameters) == 0 {
		return nil, &tensor.BadArgument{Op: stepAll, Operand: "parameters", Got: "are none", Want: "at least one"}
	}
	opt := &Optimizer{mode: o.Mode, hyper: o.Hyper, seed: o.Seed, parameters: append([]Parameter(nil), parameters...)}
	for i, p := range parameters {
		if err := opt.add(q, p); err != nil {
			opt.Close()
			return nil, fmt.Errorf("%s: %w", parameterName(p, i), err)
		}
	}
	return opt, nil
}

func parameterName(p Parameter, i int) string {
	if p.Name != "" {
		return "parameter " + p.Name
	}
	return fmt.Sprintf("parameter %d", i)
}

func (o *Optimizer) add(q *engine.Queue, p Parameter) error {
	if err := tensor.Check(stepAll, "weight", p.Weight); err != nil {
		return err
	}
	if !(p.LRScale >= 0) || p.LRScale-p.LRScale != 0 {
		return &tensor.BadArgument{Op: stepAll, Operand: "lr_scale", Got: fmt.Sprintf("is %v", p.LRScale), Want: "a finite number of at least 0"}
	}
	h := o.hyper
	h.WeightDecay = p.WeightDecay
	if err := h.check(stepAll, 1); err != nil {
		return err
	}
	for i, other := range o.state {
		for _, mine := range []*tensor.Tensor{p.Weight, p.Copy} {
			for _, theirs := range []*tensor.Tensor{other.Weight, other.Copy} {
				if mine != nil && tensor.Overlap(mine, theirs) != tensor.Disjoint {
					return &tensor.BadArgument{Op: stepAll, Operand: "weight", Got: "overlaps that of " + parameterName(o.parameters[i], i), Want: "memory of its own"}
				}
			}
		}
	}
	s := State{Weight: p.Weight, Copy: p.Copy}
	var err error
	if s.M, err = tensor.New(q.Device(), num.F32, p.Weight.Shape()...); err == nil {
		s.V, err = tensor.New(q.Device(), num.F32, p.Weight.Shape()...)
	}
	o.state = append(o.state, s)
	return err
}

// SetLR changes the learning rate of the steps to come.
func (o *Optimizer) SetLR(lr float64) { o.hyper.LR = lr }

// Steps is how many steps have been taken.
func (o *Optimizer) Steps() int { return o.step }

// Moments are the m and v of parameter i, to be saved.
func (o *Optimizer) Moments(i int) (m, v *tensor.Tensor) { return o.state[i].M, o.state[i].V }

// Restore sets the count of steps, after the moments have been loaded.
func (o *Optimizer) Restore(steps int) error {
	if steps < 0 {
		return &tensor.BadArgument{Op: stepAll, Operand: "t", Got: fmt.Sprintf("is %d", steps), Want: "at least 0"}
	}
	o.step = steps
	return nil
}

// StepAll takes one step with a gradient for every parameter, in their order.
// Everything is checked before anything is written.
func (o *Optimizer) StepAll(q *engine.Queue, grads []*tensor.Tensor, opts ...engine.Option) error {
	if len(grads) != len(o.state) {
		return &tensor.BadArgument{Op: stepAll, Operand: "grads", Got: fmt.Sprintf("are %d", len(grads)), Want: fmt.Sprintf("%d, one for each parameter", len(o.state))}
	}
	t := o.step + 1
	for _, checkOnly := range []bool{true, false} {
		for i := range o.state {
			h := o.hyper
			h.LR, h.WeightDecay = h.LR*o.parameters[i].LRScale, o.parameters[i].WeightDecay
			if err := o.one(q, i, grads[i], h, t, checkOnly, opts); err != nil {
				return fmt.Errorf("%s: %w", parameterName(o.parameters[i], i), err)
			}
		}
	}
	o.step = t
	return nil
}

func (o *Optimizer) one(q *engine.Queue, i int, grad *tensor.Tensor, h Hyper, t int, checkOnly bool, opts []engine.Option) error {
	if checkOnly {
		if err := h.check(stepAll, t); err != nil {
			return err
		}
		opts = append(opts[:len(opts):len(opts)], engine.CheckOnly())
	}
	return Step(q, o.mode, o.state[i], grad, h, t, Random{Seed: o.seed, Tensor: int32(i)}, opts...)
}

// Close gives the moments back.
func (o *Optimizer) Close() error {
	for _, s := range o.state {
		s.M.Close()
		s.V.Close()
	}
	return nil
}
