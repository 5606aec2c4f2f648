package adamw

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// Parameter is one tensor of a model as an Optimizer sees it. LRScale has to be set:
// with its zero value the weight never moves.
type Parameter struct {
	Name   string         // for messages
	Weight *tensor.Tensor // f32 in mode Master, of 16 bits in mode Stochastic
	Copy   *tensor.Tensor // of 16 bits, in mode Master only

	LRScale     float64 // factor of the learning rate: 1 for the plain learning rate; 0 freezes the weight
	WeightDecay float64 // used instead of Hyper.WeightDecay; 0 is none
}

// Optimizer owns the moments of a model's tensors and counts the steps. New makes
// one; a nil or empty one has no parameters and takes no steps. It is not safe for
// concurrent use.
type Optimizer struct {
	mode       Mode
	hyper      Hyper
	seed       uint64
	parameters []Parameter
	state      []State
	owners     map[device.Buffer][]int // which parameters have memory in a buffer
	step       int
	failed     error // of a step that ended halfway

	batch  engine.Batch // of the steps
	calls  []engine.CallSpec
	memory []callMemory // of the calls
}

// Options are an Optimizer's settings.
type Options struct {
	Mode  Mode
	Hyper Hyper // its WeightDecay is not used: each Parameter has its own
	Seed  uint64
}

const stepAll = "adamw.step_all"

// New makes an optimizer with moments of zero on the queue's device.
func New(q *engine.Queue, o Options, parameters []Parameter) (*Optimizer, error) {
	if q == nil {
		return nil, &device.ArgumentError{Op: stepAll, Operand: "queue", Got: "is nil"}
	}
	if err := o.Mode.check(stepAll); err != nil {
		return nil, err
	}
	if len(parameters) == 0 {
		return nil, &device.ArgumentError{Op: stepAll, Operand: "parameters", Got: "are none", Want: "at least one"}
	}
	opt := &Optimizer{mode: o.Mode, hyper: o.Hyper, seed: o.Seed, parameters: slices.Clone(parameters), owners: map[device.Buffer][]int{}}
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

// add checks a parameter and allocates its moments.
func (o *Optimizer) add(q *engine.Queue, p Parameter) error {
	if err := o.checkTensor(q, "weight", p.Weight); err != nil {
		return err
	}
	if o.mode == Master {
		if err := o.checkTensor(q, "copy", p.Copy); err != nil {
			return err
		}
		if !slices.Equal(p.Copy.Shape(), p.Weight.Shape()) {
			return &device.ArgumentError{Op: stepAll, Operand: "copy", Got: fmt.Sprintf("has shape %v", p.Copy.Shape()), Want: fmt.Sprintf("%v like weight", p.Weight.Shape())}
		}
	} else if p.Copy != nil {
		return refuseCopy(stepAll, o.mode)
	}
	if !(p.LRScale >= 0) || p.LRScale-p.LRScale != 0 {
		return &device.ArgumentError{Op: stepAll, Operand: "lr_scale", Got: fmt.Sprintf("is %v", p.LRScale), Want: "a finite number of at least 0"}
	}
	if err := o.hyperOf(p).check(stepAll, o.mode, 1); err != nil {
		return err
	}
	i := len(o.state)
	if k, ok := o.ownerOf(p.Weight, i); ok {
		return o.overlaps("weight", k)
	}
	if k, ok := o.ownerOf(p.Copy, i); ok {
		return o.overlaps("copy", k)
	}
	s := State{Weight: p.Weight, Copy: p.Copy}
	var err error
	if s.M, err = tensor.New(q.Device(), num.F32, p.Weight.Shape()...); err == nil {
		s.V, err = tensor.New(q.Device(), num.F32, p.Weight.Shape()...)
	}
	o.state = append(o.state, s)
	for _, x := range []*tensor.Tensor{s.Weight, s.M, s.V, s.Copy} {
		if b := x.Buffer(); b != nil && !slices.Contains(o.owners[b], i) {
			o.owners[b] = append(o.owners[b], i)
		}
	}
	return err
}

func (o *Optimizer) overlaps(operand string, k int) error {
	return &device.ArgumentError{Op: stepAll, Operand: operand, Got: "overlaps " + parameterName(o.parameters[k], k), Want: "memory of its own"}
}

// checkTensor holds a tensor against the operand of that name.
func (o *Optimizer) checkTensor(q *engine.Queue, name string, x *tensor.Tensor) error {
	if err := tensor.Check(stepAll, name, x); err != nil {
		return err
	}
	if x.Device() != q.Device() {
		return &device.ArgumentError{Op: stepAll, Operand: name, Got: "is on " + x.Device().Name(), Want: q.Device().Name() + ", the queue's device"}
	}
	d := o.mode.Definition()
	if rule := d.Operands[d.Operand(name)].DTypes; !slices.Contains(rule.Allowed, x.DType()) {
		return &device.ArgumentError{Op: stepAll, Operand: name, Got: "is " + x.DType().String(), Want: rule.String() + " in mode " + o.mode.String()}
	}
	return nil
}

// ownerOf finds a parameter other than i whose memory x shares.
func (o *Optimizer) ownerOf(x *tensor.Tensor, i int) (int, bool) {
	if x == nil {
		return 0, false
	}
	for _, k := range o.owners[x.Buffer()] {
		s := o.state[k]
		for _, y := range [...]*tensor.Tensor{s.Weight, s.M, s.V, s.Copy} {
			if k != i && tensor.Overlap(x, y) != tensor.Disjoint {
				return k, true
			}
		}
	}
	return 0, false
}

// hyperOf are the numbers of one parameter's steps.
func (o *Optimizer) hyperOf(p Parameter) Hyper {
	h := o.hyper
	h.LR, h.WeightDecay = h.LR*p.LRScale, p.WeightDecay
	return h
}

// checkMade refuses an optimizer that New did not make.
func (o *Optimizer) checkMade() error {
	switch {
	case o == nil:
		return &device.ArgumentError{Op: stepAll, Operand: "optimizer", Got: "is nil", Want: "one that New made"}
	case len(o.state) == 0:
		return &device.ArgumentError{Op: stepAll, Operand: "optimizer", Got: "is empty", Want: "one that New made"}
	}
	return nil
}

// SetLR changes the learning rate of the steps to come, which check it.
func (o *Optimizer) SetLR(lr float64) {
	if o != nil {
		o.hyper.LR = lr
	}
}

// Steps is how many steps have been taken.
func (o *Optimizer) Steps() int {
	if o == nil {
		return 0
	}
	return o.step
}

// Moments are the m and v of parameter i, to be saved or loaded; nil if there is
// no such parameter.
func (o *Optimizer) Moments(i int) (m, v *tensor.Tensor) {
	if o == nil || i < 0 || i >= len(o.state) {
		return nil, nil
	}
	return o.state[i].M, o.state[i].V
}

// Restore sets the count of steps, after weights and moments have been loaded.
func (o *Optimizer) Restore(steps int) error {
	if err := o.checkMade(); err != nil {
		return err
	}
	if steps < 0 || steps >= math.MaxInt32 {
		return &device.ArgumentError{Op: stepAll, Operand: "steps", Got: fmt.Sprintf("are %d", steps), Want: "0 to 2147483646"}
	}
	o.step, o.failed = steps, nil
	return nil
}

// StepAll takes one step with a gradient for every parameter, in their order, on a GPU in
// one launch for all tensors of the same formats that are aligned and contiguous alike.
// Everything is checked before anything is written. Should a step nevertheless
// end halfway, because its context was canceled or the device failed, some
// weights have moved and others not; then StepAll refuses until Restore.
func (o *Optimizer) StepAll(q *engine.Queue, grads []*tensor.Tensor, opts ...engine.CallOption) error {
	if err := o.checkMade(); err != nil {
		return err
	}
	if o.failed != nil {
		return fmt.Errorf("%s: an earlier step ended halfway, load weights and moments and call Restore: %w", stepAll, o.failed)
	}
	if len(grads) != len(o.state) {
		return &device.ArgumentError{Op: stepAll, Operand: "grads", Got: fmt.Sprintf("are %d", len(grads)), Want: fmt.Sprintf("%d, one for each parameter", len(o.state))}
	}
	defer o.forget()
	if err := o.prepare(grads); err != nil {
		return err
	}
	err := o.batch.CallAll(q, o.calls, opts...)
	if failed, ok := errors.AsType[*engine.CallsError](err); ok {
		if failed.IsBegun {
			o.failed = failed.Cause
		}
		return o.name(failed.At, failed.Cause)
	}
	if err == nil {
		o.step++
	}
	return err
}

// prepare sets the calls of a step. It refuses what a step of one tensor cannot see: numbers
// in the name of this call, and a gradient in the memory of another parameter, which is
// written before or after it is read.
func (o *Optimizer) prepare(grads []*tensor.Tensor) error {
	if o.calls == nil {
		o.calls, o.memory = make([]engine.CallSpec, len(o.state)), make([]callMemory, len(o.state))
	}
	u := Update{Mode: o.mode, T: o.step + 1}
	var numbers [8]float64
	for i := range o.state {
		if k, ok := o.ownerOf(grads[i], i); ok {
			return o.name(i, o.overlaps("grad", k))
		}
		if h := o.hyperOf(o.parameters[i]); i == 0 || h != u.Hyper { // most parameters have the same
			if err := h.check(stepAll, o.mode, u.T); err != nil {
				return o.name(i, err)
			}
			u.Hyper, numbers = h, h.numbers(u.T).list()
		}
		u.State, u.Grad, u.Random = o.state[i], grads[i], Random{Seed: o.seed, Tensor: int32(i)}
		o.calls[i] = u.callWith(&o.memory[i], &numbers)
	}
	return nil
}

// forget lets go of the gradients.
func (o *Optimizer) forget() {
	for i := range o.memory {
		clear(o.memory[i].tensors[:])
	}
}

func (o *Optimizer) name(i int, err error) error {
	return fmt.Errorf("%s: %w", parameterName(o.parameters[i], i), err)
}

// Close gives the moments back. Closing twice, or a nil optimizer, is allowed.
func (o *Optimizer) Close() error {
	if o == nil {
		return nil
	}
	for _, s := range o.state {
		s.M.Close()
		s.V.Close()
	}
	return nil
}
