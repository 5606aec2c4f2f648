package trial

import (
	"errors"
	"sync"

	"tokitai/device"
)

// CanWatch returns nil if inputs can be watched on a device, or else why not: only the
// host's memory can be, on Linux.
func CanWatch(dev device.Device) error {
	if _, ok := dev.(Adopter); !ok {
		return errors.New("the system does not see what is written to the memory of " + dev.Name())
	}
	return canWatch()
}

// canWatch tries whether the system tells memory that was written, and undone, from memory
// that was not.
var canWatch = sync.OnceValue(func() error {
	r, err := newRegion(true, 1)
	if err != nil {
		return err
	}
	defer r.release()
	for _, isWritten := range []bool{false, true} {
		if err := r.fill([]byte{1}); err != nil {
			return err
		}
		if isWritten {
			r.memory[0]++
			r.memory[0]--
		} else if r.memory[0] != 1 {
			return errors.New("the system does not share files in memory")
		}
		switch got, err := r.isWritten(); {
		case err != nil:
			return err
		case got != isWritten:
			return errors.New("the system does not say which pages were written")
		}
	}
	return nil
})

// Watch moves the inputs that no output replaces to memory that notices every write, also one
// that is undone. It is called before Tensors, on a device that CanWatch.
func (p *Placed) Watch(dev device.Device, x *Operands) error {
	p.watched = make([]*region, len(p.blocks))
	for i, b := range p.blocks {
		if o := &p.d.Operands[i]; !o.IsIn || o.IsOut || !p.owns(i) || x.isReplaced(i) {
			continue
		}
		r, err := newRegion(true, b.end()+GuardBytes)
		if err != nil {
			return err
		}
		p.watched[i] = r
		buffer, err := dev.(Adopter).Adopt(r.memory[:b.end()+GuardBytes])
		if err != nil {
			return err
		}
		if err := p.buffers[i].Close(); err != nil {
			return err
		}
		p.buffers[i], p.hidden[i] = buffer, nil
		if err := p.WriteOperand(x, i); err != nil {
			return err
		}
	}
	return nil
}

// Watched returns the first of the watched inputs that was written since Write, as a breach,
// or nil.
func (p *Placed) Watched() (*Breach, error) {
	for i, r := range p.watched {
		if r == nil {
			continue
		}
		isWritten, err := r.isWritten()
		if err != nil {
			return nil, err
		}
		if isWritten {
			return &Breach{Operand: i, Reason: toInput + p.d.Operands[i].Name, Detail: "what it holds now is what it held before, but it was written meanwhile"}, nil
		}
	}
	return nil, nil
}
