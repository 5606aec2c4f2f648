package trial

import (
	"bytes"
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
	hidden  [][]byte        // by operand: where guards are hidden, the memory around the buffer, which is its middle; otherwise nil

	isShared []bool    // by operand: its memory belongs to another Placed; nil for none
	watched  []*region // by operand: memory that notices writes, or nil; nil for none
	sparse   []*region // memory in which rows lie far apart
}

// layout returns how operand i is laid out on the device.
func (p *Placed) layout(i int) *block {
	if far := p.blocks[i].far; far != nil {
		return far
	}
	return p.blocks[i]
}

// owns reports whether operand i has memory of its own.
func (p *Placed) owns(i int) bool { return p.places[i] == i && (p.isShared == nil || !p.isShared[i]) }

// Place allocates memory on a device and copies the operands there.
func (x *Operands) Place(dev device.Device) (*Placed, error) {
	p := &Placed{d: x.Definition, places: slices.Clone(x.places)}
	for _, b := range x.blocks {
		p.blocks = append(p.blocks, b.in(nil))
	}
	if err := p.allocate(dev); err != nil {
		return nil, err
	}
	if err := p.Write(x); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Allocate allocates memory on a device for operands as New would lay them out. Sizes for
// which the device has no room are refused before the host is asked for any.
func Allocate(dev device.Device, d *def.Definition, dtypes []num.DType, sizes map[string]int, layout func(operand int) Layout) (*Placed, error) {
	p := &Placed{d: d}
	for i := range d.Operands {
		rows, cols := d.Operands[i].Matrix(sizes)
		p.places = append(p.places, i)
		p.blocks = append(p.blocks, newBlock(&d.Operands[i], dtypes[i], rows, cols, batchOf(&d.Operands[i], sizes), layoutOf(layout, i)))
	}
	if err := p.allocate(dev); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Placed) allocate(dev device.Device) error {
	p.buffers, p.hidden = make([]device.Buffer, len(p.blocks)), make([][]byte, len(p.blocks))
	for i, b := range p.blocks {
		if !p.owns(i) {
			continue
		}
		bytes, err := b.bytes()
		switch {
		case err != nil:
		case b.far != nil:
			var r *region
			if p.buffers[i], r, err = b.allocateFar(dev); r != nil {
				p.sparse = append(p.sparse, r)
			}
		default:
			p.buffers[i], p.hidden[i], err = b.allocate(dev, bytes)
		}
		if err != nil {
			p.buffers[i] = nil
			return errors.Join(fmt.Errorf("operand %s: %w", p.d.Operands[i].Name, err), p.Close())
		}
	}
	for i, place := range p.places {
		p.buffers[i] = p.buffers[place]
	}
	return nil
}

// allocate returns a buffer for the block, which takes a number of bytes; if the guards are
// hidden, also all memory around the buffer.
func (b *block) allocate(dev device.Device, bytes int64) (device.Buffer, []byte, error) {
	adopter, ok := dev.(Adopter)
	if b.guards != HiddenGuards || !ok {
		buffer, err := dev.Alloc(bytes)
		return buffer, nil, err
	}
	inside := b.start - GuardBytes + spanBytes(b.array)
	return adopt(adopter, GuardBytes, inside, int(bytes)-GuardBytes-inside)
}

// bytes returns how much memory operand i has, with its guards.
func (p *Placed) bytes(i int) int64 {
	switch b := p.blocks[i]; {
	case p.hidden[i] != nil:
		return int64(len(p.hidden[i]))
	case b.far != nil:
		return int64(b.end()) + GuardBytes
	}
	return p.buffers[i].Bytes()
}

// offset returns where the first element of operand i is in its buffer, in bytes.
func (p *Placed) offset(i int) int64 {
	if p.hidden[p.places[i]] != nil {
		return int64(p.blocks[i].start) - GuardBytes
	}
	return int64(p.blocks[i].start)
}

// read returns a copy of the memory of operand i, with its guards.
func (p *Placed) read(i int) ([]byte, error) {
	memory := make([]byte, p.bytes(i))
	switch b := p.blocks[i]; {
	case p.hidden[i] != nil:
		copy(memory, p.hidden[i])
		return memory, nil
	case b.far != nil:
		return memory, b.pieces(func(from, to int, at int64) error { return p.buffers[i].CopyOut(at, memory[from:to]) })
	}
	return memory, p.buffers[i].CopyOut(0, memory)
}

// write copies memory to that of operand i, with its guards.
func (p *Placed) write(i int, memory []byte) error {
	switch b := p.blocks[i]; {
	case p.hidden[i] != nil:
		copy(p.hidden[i], memory)
		return nil
	case b.far != nil:
		return b.pieces(func(from, to int, at int64) error { return p.buffers[i].CopyIn(at, memory[from:to]) })
	case p.watched != nil && p.watched[i] != nil:
		return p.watched[i].fill(memory)
	}
	return p.buffers[i].CopyIn(0, memory)
}

// Write copies operands of the same layout to the device.
func (p *Placed) Write(x *Operands) error {
	for i := range p.blocks {
		if !p.owns(i) {
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
	if b := x.blocks[i]; b.start != p.blocks[i].start || int64(len(b.memory)) != p.bytes(i) {
		return fmt.Errorf("operand %s is not laid out like the memory on %s: got %d bytes, the first element at %d, want %d and %d", p.d.Operands[i].Name,
			p.buffers[i].Device().Name(), len(b.memory), b.start, p.bytes(i), p.blocks[i].start)
	}
	return p.write(i, x.blocks[i].memory)
}

// Read copies everything back: operands of the same layout, out of the kernel's reach.
func (p *Placed) Read() (*Operands, error) {
	x := &Operands{Definition: p.d, blocks: make([]*block, len(p.blocks)), places: slices.Clone(p.places)}
	for i := range p.blocks {
		if p.places[i] != i {
			continue
		}
		memory, err := p.read(i)
		if err != nil {
			return nil, err
		}
		x.blocks[i] = p.blocks[i].in(memory)
	}
	x.share(p.blocks)
	return x, nil
}

// ReadOperand copies operand i back, and says which of its guards and gaps have changed.
func (p *Placed) ReadOperand(i int) (a num.Array, breach *Breach, err error) {
	memory, err := p.read(i)
	if err != nil {
		return num.Array{}, nil, err
	}
	b := p.blocks[i].in(memory)
	return b.array, b.breach(p.blocks[i].guarded(), i, p.d.Operands[i].Name, true), nil
}

// Clear fills operand i on the device with the guard byte.
func (p *Placed) Clear(i int) error {
	return p.write(i, bytes.Repeat([]byte{GuardByte}, int(p.bytes(i))))
}

// At returns where operand i is: its buffer, the offset of its first element in bytes, and
// its layout. The array's Data is the memory itself where the host can address it, else
// nil.
func (p *Placed) At(i int) (b device.Buffer, offset int64, a num.Array) {
	b, offset, a = p.buffers[i], p.offset(i), p.layout(i).array
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
		var err error
		if a.Batch.Count > 0 {
			tensors[i], err = p.layout(i).tensor(b, offset)
		} else {
			tensors[i], err = tensor.At(b, offset, a.DType, stride, shape...)
		}
		if err != nil {
			return nil, err
		}
	}
	return tensors, nil
}

// tensor returns a stack as a tensor: laid out in the order of memory, with one of what is
// repeated, then seen in the operand's own order.
func (b *block) tensor(buffer device.Buffer, offset int64) (*tensor.Tensor, error) {
	a := b.array
	n := a.Batch.Count
	whole := make([]int, n+2) // the tensor's own shape
	for i := range n {
		whole[i] = a.Batch.Axes[i].Size
	}
	whole[n], whole[n+1] = a.Rows/a.Matrices(), a.Cols
	placed, back := make([]int, n+2), make([]int, n+2)
	placed[n+1], back[n+1] = a.Cols, n+1
	for at, i := range b.order {
		placed[at], back[i] = whole[i], at
		if i < n && a.Batch.Axes[i].Stride == 0 {
			placed[at] = 1
		}
	}
	t, err := tensor.At(buffer, offset, a.DType, b.step, placed...)
	if err != nil {
		return nil, err
	}
	if t, err = t.Permute(back...); err != nil {
		return nil, err
	}
	return t.Expand(whole...)
}

// shapeOf returns the shape and the row stride of the tensor whose matrix an operand is.
// Values per row or per column are a vector, or a column if there are gaps between them.
func shapeOf(o *def.Operand, a num.Array) (shape []int, stride int) {
	if len(o.Dims) < 2 && (a.Cols > 1 || a.Stride == 1) {
		return []int{a.Rows * a.Cols}, a.Rows * a.Cols
	}
	return []int{a.Rows, a.Cols}, a.Stride
}

// Close gives the memory back. Closing twice is allowed.
func (p *Placed) Close() error {
	var errs []error
	for i, b := range p.buffers {
		if b != nil && p.owns(i) {
			errs = append(errs, b.Close())
		}
	}
	for _, r := range p.watched {
		if r != nil {
			r.release()
		}
	}
	for _, r := range p.sparse {
		r.release()
	}
	p.watched, p.sparse = nil, nil
	return errors.Join(errs...)
}
