package child

import (
	"cmp"
	"slices"

	"tokitai/device"
	host "tokitai/device/cpu"
	"tokitai/kernelprocess/protocol"
	"tokitai/tensor"
)

// mirror is a copy, in device memory, of the part of an arena that holds operands of one
// request, for a device that cannot address the arena. Operands that overlap share one.
type mirror struct {
	arena    uint32
	from, to int64 // bytes of the arena
	isRead   bool
	buffer   device.Buffer
}

// outline is memory whose size alone is known.
type outline struct {
	device.Buffer
	bytes int64
}

func (o outline) Bytes() int64 { return o.bytes }

// mirror copies the operands of calls from arenas to the device.
func (s *server) mirror(b *batch) error {
	var parts []*mirror
	for i := range s.steps {
		st := &s.steps[i]
		for k := range st.call.Operands {
			o := &st.call.Operands[k]
			t := &o.Tensor
			if t.Place != protocol.InArena {
				continue
			}
			a, err := s.arena(t.Arena)
			if err != nil {
				return err
			}
			size := int64(len(a.region.Bytes()))
			there, err := tensor.At(outline{bytes: size}, t.Offset, t.DType, t.Stride, t.Shape...)
			if err != nil {
				return s.inCall(i, named(st, o, err))
			}
			parts = append(parts, &mirror{
				arena: t.Arena, isRead: st.Operands[st.slots[k]].IsIn,
				from: t.Offset &^ (host.Alignment - 1), to: min(aligned(t.Offset+span(there)), size),
			})
		}
	}
	slices.SortFunc(parts, func(x, y *mirror) int { return cmp.Or(cmp.Compare(x.arena, y.arena), cmp.Compare(x.from, y.from)) })
	for _, p := range parts {
		if n := len(b.mirrors); n > 0 && b.mirrors[n-1].arena == p.arena && p.from < b.mirrors[n-1].to {
			last := b.mirrors[n-1]
			last.to, last.isRead = max(last.to, p.to), true // what the one does not write the other may
			continue
		}
		b.mirrors = append(b.mirrors, p)
	}
	for _, m := range b.mirrors {
		bytes := m.to - m.from
		if err := s.hold(b, bytes); err != nil {
			return err
		}
		buffer, err := s.device.Alloc(bytes)
		if err != nil {
			return err
		}
		m.buffer, b.owned = buffer, append(b.owned, buffer)
		if m.isRead {
			if err := buffer.CopyIn(0, s.arenas[m.arena].region.Bytes()[m.from:m.to]); err != nil {
				return err
			}
		}
	}
	return nil
}

// span returns the number of bytes from the first element of a tensor to the end of its last.
func span(t *tensor.Tensor) int64 {
	return (int64(t.Rows()-1)*int64(t.RowStride()) + int64(t.Cols())) * int64(t.DType().Size())
}

// inMirror returns an operand in its mirror.
func (b *batch) inMirror(t *protocol.Tensor) (*tensor.Tensor, error) {
	i, isStart := slices.BinarySearchFunc(b.mirrors, t, func(m *mirror, t *protocol.Tensor) int {
		return cmp.Or(cmp.Compare(m.arena, t.Arena), cmp.Compare(m.from, t.Offset))
	})
	if !isStart {
		i--
	}
	m := b.mirrors[i]
	return tensor.At(m.buffer, t.Offset-m.from, t.DType, t.Stride, t.Shape...)
}

// copyBack copies the outputs of the first calls from mirrors to arenas, without the gaps
// between rows.
func (s *server) copyBack(b *batch, calls int) error {
	if len(b.mirrors) == 0 {
		return nil
	}
	for i := range calls {
		st := &s.steps[i]
		for k := range st.call.Operands {
			t := &st.call.Operands[k].Tensor
			if t.Place != protocol.InArena || !st.Operands[st.slots[k]].IsOut {
				continue
			}
			if err := s.copyRows(t, st.tensors[st.slots[k]]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *server) copyRows(t *protocol.Tensor, from *tensor.Tensor) error {
	to := s.arenas[t.Arena].region.Bytes()[t.Offset:][:span(from)]
	if from.IsContiguous() {
		return from.Buffer().CopyOut(from.Offset(), to)
	}
	packed, err := from.Bytes()
	if err != nil {
		return err
	}
	row, stride := from.Cols()*from.DType().Size(), from.RowStride()*from.DType().Size()
	for r := range from.Rows() {
		copy(to[r*stride:], packed[r*row:(r+1)*row])
	}
	return nil
}
