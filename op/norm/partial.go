package norm

import (
	"sync"

	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// partial is memory for the square sums of several tensors, and the calls that compute them.
type partial struct {
	device device.Device
	all    *tensor.Tensor // [1, n]
	calls  []engine.CallSpec
}

// partials pools partials: a training loop needs the same one at every step. Devices order
// what uses the same memory, so that one may be in use by an earlier call. A partial that is
// collected gives its memory back. The calls of a recording run later, and have their own.
var partials sync.Pool

// takePartial returns memory for the sums of n tensors. The first operand of each call is to
// be set.
func takePartial(q *engine.Queue, n int) (*partial, error) {
	if !q.IsRecording() {
		if p, ok := partials.Get().(*partial); ok {
			if p.device == q.Device() && len(p.calls) == n && tensor.Check("", "", p.all) == nil {
				return p, nil
			}
			p.all.Close()
		}
	}
	p := &partial{device: q.Device(), calls: make([]engine.CallSpec, n)}
	var err error
	if p.all, err = tensor.New(p.device, num.F32, 1, n); err != nil {
		return nil, err
	}
	memory := make([]*tensor.Tensor, 2*n)
	for i := range p.calls {
		operands := memory[2*i : 2*i+2 : 2*i+2]
		if operands[1], err = p.all.Slice(0, 1, i, i+1); err != nil {
			p.all.Close()
			return nil, err
		}
		p.calls[i] = engine.CallSpec{Definition: SquareSumDefinition, Tensors: operands}
	}
	return p, nil
}

// put lets go of the tensors and makes the memory available for reuse.
func (p *partial) put(q *engine.Queue) {
	if q.IsRecording() {
		p.all.Close() // the recording keeps it
		return
	}
	for i := range p.calls {
		p.calls[i].Tensors[0] = nil
	}
	partials.Put(p)
}
