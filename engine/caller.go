package engine

import (
	"context"
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/device"
	"tokitai/tensor"
)

// Caller computes calls elsewhere, such as in another process, and chooses their lowerings
// there. The calls have been checked against their definitions. A queue on a device that
// is a Caller passes it all its calls.
type Caller interface {
	// Call computes calls in order and returns how many are done: all of them, or those
	// before the one that failed. The failed call has changed no output unless the error is
	// a LaunchError. Call retains nothing of its arguments.
	Call(ctx context.Context, calls []RemoteCall) (done int, err error)

	// Reaches reports whether operands may be on a device.
	Reaches(dev device.Device) bool
}

// RemoteCall is one call for a Caller. Its indices have not been checked: under BadIndex
// Reject, the Caller must reject those out of range.
type RemoteCall struct {
	Definition *def.Definition
	Tensors    []*tensor.Tensor // in the order of the definition
	Params     []float64        // in the order of the definition
	Policy     Policy
	BadIndex   BadIndex
	Admission  Admission
	Lowering   string // the demanded one, or ""
}

// WithCaller passes calls to c.
func WithCaller(c Caller) Option { return func(s *settings) { s.caller = c } }

// reaches reports whether an operand may be on a device.
func (q *Queue) reaches(dev device.Device, s *settings) bool {
	return dev == q.device || s.caller != nil && s.caller.Reaches(dev)
}

// remote returns a checked call for a Caller; nil if it was only to be checked.
func remote(d *def.Definition, tensors []*tensor.Tensor, params []float64, s *settings) (*RemoteCall, error) {
	switch {
	case s.using != nil:
		return nil, bad(d, "lowering", s.using.Name+" is of this process", "the name of one, where calls are computed elsewhere")
	case len(s.observers) > 0:
		return nil, bad(d, "observer", "is given", "none, where calls are computed elsewhere")
	case s.rule != def.FMAChain:
		return nil, bad(d, "rule", "is "+s.rule.String(), "fma, where calls are computed elsewhere")
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

// CallsError is the error of one of several calls.
type CallsError struct {
	At      int  // which of them
	IsBegun bool // outputs have changed: those of earlier calls, or its own
	Cause   error
}

func (e *CallsError) Error() string { return fmt.Sprintf("call %d: %v", e.At, e.Cause) }

// Unwrap returns what went wrong.
func (e *CallsError) Unwrap() error { return e.Cause }

// CallAll makes calls in order. It checks all of them before it makes the first, and
// passes them to a Caller together. Calls that do not depend on each other run together
// where a kernel can do that (see [ManyLauncher]), with the same results. The error is a
// *CallsError.
func CallAll(q *Queue, calls []CallSpec, opts ...CallOption) error {
	b := batches.Get().(*Batch)
	err := b.CallAll(q, calls, opts...)
	batches.Put(b)
	return err
}

// callAllRemotely passes checked calls to a Caller.
func (q *Queue) callAllRemotely(calls []CallSpec, s *settings) (done int, err error) {
	list := make([]RemoteCall, len(calls))
	for i, c := range calls {
		one, err := remote(c.Definition, c.Tensors, c.Params, s)
		if err != nil {
			return i, &CallsError{At: i, Cause: err}
		}
		list[i] = *one
	}
	return s.caller.Call(q.ctx, list)
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
