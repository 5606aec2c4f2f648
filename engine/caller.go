package engine

import (
	"context"
	"slices"

	"tokitai/def"
	"tokitai/device"
	"tokitai/tensor"
)

// Caller computes calls in a place of its own, such as another process: it gets them
// checked against their definitions, and chooses the lowering there. A queue on a device
// that is a Caller gives it all its calls.
type Caller interface {
	// Call computes. On an error no output has changed, unless the error is a LaunchError.
	// It keeps nothing of what it is given.
	Call(ctx context.Context, c *RemoteCall) error

	// Reaches reports whether operands may lie on a device.
	Reaches(dev device.Device) bool
}

// RemoteCall is what a Caller is given. Indices without a row are still among the
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

// callRemotely hands a checked call over.
func (q *Queue) callRemotely(d *def.Definition, tensors []*tensor.Tensor, params []float64, s *settings) error {
	switch {
	case s.using != nil:
		return bad(d, "lowering", s.using.Name+" is of this process", "the name of one, where calls are computed elsewhere")
	case len(s.observers) > 0:
		return bad(d, "observer", "is given", "none, where calls are computed elsewhere")
	case s.checkOnly:
		return nil
	}
	return s.caller.Call(q.ctx, &RemoteCall{
		Definition: d, Tensors: slices.Clone(tensors), Params: slices.Clone(params), // so that those of other calls need not be on the heap
		Policy: s.policy, BadIndex: s.badIndex, Admission: s.admission, Lowering: s.lowering,
	})
}
