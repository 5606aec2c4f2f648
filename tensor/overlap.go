package tensor

import (
	"slices"

	"tokitai/num"
)

// Relation says how two tensors share memory.
type Relation uint8

const (
	Disjoint    Relation = iota // no byte in common
	Identical                   // the same address, dtype, rows, columns and strides
	Overlapping                 // some bytes in common, but not Identical
)

func (r Relation) String() string {
	switch r {
	case Disjoint:
		return "disjoint"
	case Identical:
		return "identical"
	case Overlapping:
		return "overlapping"
	}
	return "Relation(?)"
}

// Overlap returns how two tensors share memory. It is exact, so that two blocks of
// columns of one matrix are Disjoint, and so are interleaved heads of queries and keys. The
// exception is views whose strides have little in common: where comparing them would take
// thousands of steps, they are Overlapping if their address ranges overlap. A nil tensor is
// Disjoint from everything.
func Overlap(a, b *Tensor) Relation {
	if a == nil || b == nil || a.buffer == nil || a.buffer != b.buffer || a.Len() == 0 || b.Len() == 0 {
		return Disjoint
	}
	if a.offset == b.offset && a.dtype == b.dtype && a.rows == b.rows && a.cols == b.cols && slices.Equal(a.lead, b.lead) {
		return Identical
	}
	if a.offset+a.span() <= b.offset || b.offset+b.span() <= a.offset {
		return Disjoint
	}
	x, y := a.stripes(), b.stripes()
	budget := overlapBudget
	if meet(x.axes[:x.count], y.axes[:y.count], x.width, y.width, a.offset-b.offset, &budget) {
		return Overlapping
	}
	return Disjoint
}

// overlapBudget is the number of steps that Overlap takes.
const overlapBudget = 4096

// stripes are the bytes of a tensor: width bytes at each index of the axes, whose strides
// are in bytes and descend.
type stripes struct {
	axes  [maxLead]num.Axis
	count int
	width int64
}

// stripes returns the tensor's contiguous runs as stripes.
func (t *Tensor) stripes() (s stripes) {
	axes, width := t.runs()
	size := t.dtype.Size()
	s.width = int64(width) * int64(size)
	for _, x := range axes {
		if x.Stride == 0 {
			continue // the same bytes again
		}
		i := s.count
		for ; i > 0 && s.axes[i-1].Stride < x.Stride*size; i-- {
			s.axes[i] = s.axes[i-1]
		}
		s.axes[i] = num.Axis{Size: x.Size, Stride: x.Stride * size}
		s.count++
	}
	return s
}

// meet reports whether x and y have a byte in common, if x begins delta bytes after y.
//
// For an index i of x and j of y along the largest stride, the address ranges of what
// remains of x and y overlap for few values of i - j. x and y have a byte in common if the
// remainders do for one of these.
func meet(x, y []num.Axis, xWidth, yWidth, delta int64, budget *int) bool {
	if *budget--; *budget < 0 {
		return true
	}
	if delta <= -spanOf(x, xWidth) || delta >= spanOf(y, yWidth) {
		return false
	}
	if len(x) == 0 && len(y) == 0 {
		return true
	}
	s := 0
	if len(x) > 0 {
		s = x[0].Stride
	}
	if len(y) > 0 {
		s = max(s, y[0].Stride)
	}
	xCount, yCount := 1, 1
	if len(x) > 0 && x[0].Stride == s {
		xCount, x = x[0].Size, x[1:]
	}
	if len(y) > 0 && y[0].Stride == s {
		yCount, y = y[0].Size, y[1:]
	}
	// -span(x) < delta + d·s < span(y)
	stride := int64(s)
	first := max(1-int64(yCount), floorDiv(-spanOf(x, xWidth)-delta, stride)+1)
	last := min(int64(xCount)-1, -floorDiv(delta-spanOf(y, yWidth), stride)-1)
	for d := first; d <= last; d++ {
		if meet(x, y, xWidth, yWidth, delta+d*stride, budget) {
			return true
		}
	}
	return false
}

// floorDiv returns a/b rounded down, for b > 0.
func floorDiv(a, b int64) int64 {
	if a%b < 0 {
		return a/b - 1
	}
	return a / b
}
