package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/device"
	"tokitai/tensor"
)

// Caller computes calls in a place of its own, such as another process: it gets them
// checked against their definitions, and chooses the lowering there. A queue on a device
// that is a Caller gives it all its calls.
type Caller interface {
	// Call computes calls in their order, and returns how many are done: all of them, or
	// those before the one that the error is about. Of that one no output has changed,
	// unless the error is a LaunchError. It keeps nothing of what it is given.
	Call(ctx context.Context, calls []RemoteCall) (done int, err error)

	// Reaches reports whether operands may lie on a device.
	Reaches(dev device.Device) bool
}

// RemoteCall is one call as a Caller is given it. Indices without a row are still among the
// operands: under BadIndex Reject it is the Caller that refuses them.
type RemoteCall struct {
	Definition *def.Definition
	Tensors    []*tensor.Tensor // in the order of the definition
	Params     []float64        // in the order of the definition
	Policy     Policy
	BadIndex   BadIndex
	Admission  Admission
	Lowering   string // the one that is demanded, or ""
}

// WithCaller lets c compute the calls.
func WithCaller(c Caller) Option { return func(s *settings) { s.caller = c } }

// reaches reports whether an operand may lie on a device.
func (q *Queue) reaches(dev device.Device, s *settings) bool {
	return dev == q.device || s.caller != nil && s.caller.Reaches(dev)
}

// remote is a checked call to be handed over; nil where it was to be checked only.
func remote(d *def.Definition, tensors []*tensor.Tensor, params []float64, s *settings) (*RemoteCall, error) {
	switch {
	case s.using != nil:
		return nil, bad(d, "lowering", s.using.Name+" is of this process", "the name of one, where calls are computed elsewhere")
	case len(s.observers) > 0:
		return nil, bad(d, "observer", "is given", "none, where calls are computed elsewhere")
	case s.checkOnly:
		return nil, nil
	}
	return &RemoteCall{
		Definition: d, Tensors: slices.Clone(tensors), Params: slices.Clone(params), // so that those of other calls need not be on the heap
		Policy: s.policy, BadIndex: s.badIndex, Admission: s.admission, Lowering: s.lowering,
	}, nil
}

func (q *Queue) callRemotely(d *def.Definition, tensors []*tensor.Tensor, params []float64, s *settings) error {
	c, err := remote(d, tensors, params, s)
	if c != nil {
		_, err = s.caller.Call(q.ctx, []RemoteCall{*c})
	}
	return err
}

// CallSpec is one of several calls, as Call takes it.
type CallSpec struct {
	Definition *def.Definition
	Tensors    []*tensor.Tensor // in the order of the definition
	Params     []float64        // in the order of the definition
}

// CallsError is what went wrong in one of several calls.
type CallsError struct {
	At      int  // which of them
	IsBegun bool // something has been written: by those before it, or by itself
	Cause   error
}

func (e *CallsError) Error() string { return fmt.Sprintf("call %d: %v", e.At, e.Cause) }

// Unwrap returns what went wrong.
func (e *CallsError) Unwrap() error { return e.Cause }

// CallAll makes calls in their order. All of them are checked before the first is made; a
// Caller gets them together. The error is a *CallsError.
func CallAll(q *Queue, calls []CallSpec, opts ...CallOption) error {
	checkOnly := append(opts[:len(opts):len(opts)], CheckOnly())
	for i, c := range calls {
		if err := Call(q, c.Definition, c.Tensors, c.Params, checkOnly...); err != nil {
			return &CallsError{At: i, Cause: err}
		}
	}
	done := 0
	var err error
	if s := q.with(opts); s.caller != nil && !s.checkOnly {
		list := make([]RemoteCall, len(calls))
		for i, c := range calls {
			one, err := remote(c.Definition, c.Tensors, c.Params, &s)
			if err != nil {
				return &CallsError{At: i, Cause: err}
			}
			list[i] = *one
		}
		done, err = s.caller.Call(q.ctx, list)
	} else {
		for ; done < len(calls) && err == nil; done++ {
			if err = Call(q, calls[done].Definition, calls[done].Tensors, calls[done].Params, opts...); err != nil {
				break
			}
		}
	}
	if err == nil {
		return nil
	}
	_, isBegun := errors.AsType[*LaunchError](err)
	return &CallsError{At: done, IsBegun: isBegun || done > 0, Cause: err}
}

// with returns the settings after applying opts.
func (q *Queue) with(opts []CallOption) settings {
	if q == nil {
		return settings{}
	}
	s := q.settings
	apply(&s, opts)
	return s
}
