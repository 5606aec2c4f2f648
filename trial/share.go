package trial

import "tokitai/device"

// Share makes the input b share the memory of the input a, as far as formats and sizes
// allow: all of it, or shifted by a number of rows, so that row r of b is row r+shift of a.
// The values of a stay, and so do those of b's last rows, which a does not have. It reports
// whether the inputs can share memory; a stack can only share all of it.
func (x *Operands) Share(a, b, shift int) bool {
	d := x.Definition
	for _, i := range []int{a, b} {
		if o := &d.Operands[i]; !o.IsIn || o.IsOut || x.places[i] != i || x.isReplaced(i) {
			return false
		}
	}
	from, to := x.blocks[a], x.blocks[b]
	p, q := from.array, to.array
	if a == b || p.DType != q.DType || p.Rows != q.Rows || p.Cols != q.Cols || p.Batch.Count != q.Batch.Count || shift < 0 || shift >= p.Rows || shift > 0 && p.Batch.Count > 0 {
		return false
	}
	for i, axis := range p.Batch.Axes[:p.Batch.Count] {
		if q.Batch.Axes[i].Size != axis.Size {
			return false
		}
	}
	whole := *from
	if whole.guards == HiddenGuards {
		whole.guards = GuardsOfBytes // the buffer has to hold the rows of both
	}
	shifted := whole
	shifted.start += shift * whole.step * p.DType.Size()
	whole.length += shift * whole.step
	x.blocks[a] = whole.guarded()
	copy(x.blocks[a].memory, from.memory[:from.end()])
	x.blocks[b] = shifted.in(x.blocks[a].memory)
	for r := p.Rows - shift; r < p.Rows; r++ {
		copy(x.blocks[b].array.Row(r), to.array.Row(r))
	}
	x.places[b] = a
	return true
}

// Beside allocates memory for operands of the same layout that shares the inputs with p:
// what is written, also an input that is, has memory of its own. Write leaves the shared
// inputs alone, and p must be closed last.
func (p *Placed) Beside(dev device.Device) (*Placed, error) {
	q := &Placed{d: p.d, blocks: p.blocks, places: p.places, isShared: make([]bool, len(p.blocks))}
	for i := range p.blocks {
		q.isShared[i] = true
		for k, place := range p.places {
			if place == i && p.d.Operands[k].IsOut {
				q.isShared[i] = false
			}
		}
	}
	if err := q.allocate(dev); err != nil {
		return nil, err
	}
	for i, place := range p.places {
		if q.isShared[place] {
			q.buffers[i], q.hidden[i] = p.buffers[place], p.hidden[place]
		}
	}
	return q, nil
}
