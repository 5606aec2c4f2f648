package trial

import (
	"errors"
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/device"
	"tokitai/num"
	"tokitai/tensor"
)

// Placed is memory on a device for operands of one layout.
type Placed struct {
	d       *def.Definition
	blocks  []*block        // layouts, without memory
	places  []int           // by operand: the one in whose memory it is
	buffers []device.Buffer // by operand; an output in the place of an input has the input's
}

// Place allocates memory on a device and copies the operands there.
func (x *Operands) Place(dev device.Device) (*Placed, error) {
	p := &Placed{d: x.Definition, places: slices.Clone(x.places), buffers: make([]device.Buffer, len(x.blocks))}
	for i, b := range x.blocks {
		p.blocks = append(p.blocks, &block{array: b.array, start: b.start})
		p.blocks[i].array.Data = nil
		if p.places[i] != i {
			continue
		}
		buffer, err := dev.Alloc(int64(len(b.memory)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("operand %s: %w", x.Definition.Operands[i].Name, err), p.Close())
		}
		p.buffers[i] = buffer
	}
	for i, place := range p.places {
		p.buffers[i] = p.buffers[place]
	}
	if err := p.Write(x); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Write copies operands of the same layout to the device.
func (p *Placed) Write(x *Operands) error {
	for i := range p.blocks {
		if p.places[i] != i {
			continue
		}
		if err := p.WriteOperand(x, i); err != nil {
			return err
		}
	}
	return nil
}

// WriteOperand copies operand i to the device, with its guards.
func (p *Placed) WriteOperand(x *Operands, i int) error {
	if b := x.blocks[i]; b.start != p.blocks[i].start || int64(len(b.memory)) != p.buffers[i].Bytes() {
		return fmt.Errorf("operand %s is not laid out like the memory on %s: got %d bytes, the first element at %d, want %d and %d", p.d.Operands[i].Name,
			p.buffers[i].Device().Name(), len(b.memory), b.start, p.buffers[i].Bytes(), p.blocks[i].start)
	}
	return p.buffers[i].CopyIn(0, x.blocks[i].memory)
}

// Read copies everything back: operands of the same layout, out of the kernel's reach.
func (p *Placed) Read() (*Operands, error) {
	x := &Operands{Definition: p.d, blocks: make([]*block, len(p.blocks)), places: slices.Clone(p.places)}
	for i := range p.blocks {
		if p.places[i] != i {
			continue
		}
		memory := make([]byte, p.buffers[i].Bytes())
		if err := p.buffers[i].CopyOut(0, memory); err != nil {
			return nil, err
		}
		x.blocks[i] = p.blocks[i].in(memory)
	}
	x.share()
	return x, nil
}

// At returns where operand i is: its buffer, the offset of its first element in bytes, and
// its layout. The array's Data is the memory itself where the host can address it, else
// nil.
func (p *Placed) At(i int) (b device.Buffer, offset int64, a num.Array) {
	b, offset, a = p.buffers[i], int64(p.blocks[i].start), p.blocks[i].array
	if host, ok := b.(device.HostBuffer); ok {
		if memory := host.Memory(); memory != nil {
			end := offset + int64(spanBytes(a))
			a.Data = memory[offset:end:end]
		}
	}
	return b, offset, a
}

// Tensors returns the operands as tensors, which are valid until the memory is closed.
func (p *Placed) Tensors() ([]*tensor.Tensor, error) {
	tensors := make([]*tensor.Tensor, len(p.blocks))
	for i := range p.blocks {
		b, offset, a := p.At(i)
		shape, stride := shapeOf(&p.d.Operands[i], a)
		t, err := tensor.At(b, offset, a.DType, stride, shape...)
		if err != nil {
			return nil, err
		}
		tensors[i] = t
	}
	return tensors, nil
}

// shapeOf returns the shape and the row stride of the tensor whose matrix an operand is:
// values per row or per column are a vector.
func shapeOf(o *def.Operand, a num.Array) (shape []int, stride int) {
	if len(o.Dims) < 2 {
		return []int{a.Rows * a.Cols}, a.Rows * a.Cols
	}
	return []int{a.Rows, a.Cols}, a.Stride
}

// Close gives the memory back. Closing twice is allowed.
func (p *Placed) Close() error {
	var errs []error
	for i, b := range p.buffers {
		if b != nil && p.places[i] == i {
			errs = append(errs, b.Close())
		}
	}
	return errors.Join(errs...)
}
