package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// Instance is a program with memory on the device of a queue.
type Instance struct {
	program *Program
	tensors map[string]*tensor.Tensor // by the names of values
	calls   []boundCall
	owned   []*tensor.Tensor
}

// boundCall is a call with its tensors.
type boundCall struct {
	call    *Call
	tensors []*tensor.Tensor
	params  []float64
}

// Variables gives the variables of a program's parameters for a run.
type Variables map[string]float64

// NewInstance allocates memory for the values of a program but those that are given, by name.
func NewInstance(q *engine.Queue, p *Program, given map[string]*tensor.Tensor) (*Instance, error) {
	in := &Instance{program: p, tensors: maps.Clone(given)}
	if in.tensors == nil {
		in.tensors = map[string]*tensor.Tensor{}
	}
	if err := in.allocate(q); err != nil {
		in.Close()
		return nil, err
	}
	if err := in.bind(); err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// With returns the same instance with other tensors for some values, such as where gradients go.
// It shares all other memory with in, which owns it.
func (in *Instance) With(given map[string]*tensor.Tensor) (*Instance, error) {
	other := &Instance{program: in.program, tensors: maps.Clone(in.tensors)}
	maps.Copy(other.tensors, given)
	return other, other.bind()
}

func (in *Instance) allocate(q *engine.Queue) error {
	make := func(d num.DType, shape ...int) (*tensor.Tensor, error) {
		t, err := tensor.New(q.Device(), d, shape...)
		if err == nil {
			in.owned = append(in.owned, t)
		}
		return t, err
	}
	var buffers []*tensor.Tensor
	for _, bytes := range in.program.Buffers {
		t, err := make(num.F32, int(bytes+3)/4)
		if err != nil {
			return err
		}
		buffers = append(buffers, t)
	}
	for _, v := range in.program.Values {
		if in.tensors[v.Name] != nil {
			continue
		}
		var t *tensor.Tensor
		var err error
		if at, isShared := in.program.buffer[v]; isShared {
			t, err = tensor.At(buffers[at].Buffer(), 0, v.DType, v.Shape[len(v.Shape)-1], v.Shape...)
		} else {
			t, err = make(v.DType, v.Shape...)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
		in.tensors[v.Name] = t
	}
	return nil
}

// bind makes the views that the calls use.
func (in *Instance) bind() error {
	for _, c := range in.program.Calls {
		b := boundCall{call: c, params: make([]float64, len(c.Params))}
		for _, r := range c.Operands {
			t, err := r.view(in.tensors[r.value.Name])
			if err != nil {
				return fmt.Errorf("%s: %s: %w", c.Name, r, err)
			}
			b.tensors = append(b.tensors, t)
		}
		in.calls = append(in.calls, b)
	}
	return nil
}

// Tensor returns the tensor of a value, or nil. That of a result that is not kept holds it only
// until another value needs the memory.
func (in *Instance) Tensor(name string) *tensor.Tensor { return in.tensors[name] }

// Run makes the calls in order. On a queue of Record they are recorded, and in an update of that
// recording they take new variables.
func (in *Instance) Run(q *engine.Queue, v Variables) error {
	for i := range in.calls {
		if err := in.RunCall(q, i, v); err != nil {
			return err
		}
	}
	return nil
}

// RunOnce makes the calls whose results depend on weights alone, if the program makes them apart: they last until the weights change.
func (in *Instance) RunOnce(q *engine.Queue) error {
	for i, b := range in.calls {
		if in.program.IsOnce(b.call) {
			if err := in.RunCall(q, i, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// RunRest makes the calls that RunOnce does not make.
func (in *Instance) RunRest(q *engine.Queue, v Variables) error {
	for i, b := range in.calls {
		if !in.program.IsOnce(b.call) {
			if err := in.RunCall(q, i, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// RunVarying makes only the calls whose parameters have variables: an update of a recording needs
// no others.
func (in *Instance) RunVarying(q *engine.Queue, v Variables) error {
	for i := range in.calls {
		if slices.ContainsFunc(in.calls[i].call.Params, func(p Param) bool { return p.Variable != "" }) {
			if err := in.RunCall(q, i, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// RunCall makes one call, by its number in the program.
func (in *Instance) RunCall(q *engine.Queue, i int, v Variables, opts ...engine.CallOption) error {
	b := &in.calls[i]
	for k, p := range b.call.Params {
		b.params[k] = p.Number
		if p.Variable != "" {
			value, ok := v[p.Variable]
			if !ok {
				return fmt.Errorf("%s: the variable %s is not given", b.call.Name, p.Variable)
			}
			b.params[k] = value
		}
	}
	if err := engine.Call(q, b.call.Definition, b.tensors, b.params, opts...); err != nil {
		return fmt.Errorf("%s: %w", b.call.Name, err)
	}
	return nil
}

// Operands returns the tensors of a call, by its number in the program, in the order of its definition.
// The caller must not modify the slice.
func (in *Instance) Operands(i int) []*tensor.Tensor { return in.calls[i].tensors }

// Close frees the memory that NewInstance allocated.
func (in *Instance) Close() error {
	if in == nil {
		return nil
	}
	var errs []error
	for _, t := range in.owned {
		errs = append(errs, t.Close())
	}
	in.owned = nil
	return errors.Join(errs...)
}
