package tensor

// Relation says how two tensors share memory.
type Relation uint8

const (
	Disjoint    Relation = iota // no byte in common
	Identical                   // the same address, dtype, rows, columns and stride
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
// columns of one matrix are Disjoint. The exception is two strided tensors with
// different strides: these are Overlapping whenever their address ranges overlap.
// A nil tensor is Disjoint from everything.
func Overlap(a, b *Tensor) Relation {
	if a == nil || b == nil || a.buffer == nil || a.buffer != b.buffer {
		return Disjoint
	}
	if a.offset == b.offset && a.dtype == b.dtype && a.rows == b.rows && a.cols == b.cols && a.stride == b.stride {
		return Identical
	}
	if a.offset+a.span() <= b.offset || b.offset+b.span() <= a.offset {
		return Disjoint
	}
	x, y := a.stripes(), b.stripes()
	if x.count == 1 {
		x.stride = y.stride
	}
	if y.count == 1 {
		y.stride = x.stride
	}
	if x.stride != y.stride || x.meets(y) {
		return Overlapping
	}
	return Disjoint
}

// stripes are the bytes [start + i*stride, start + i*stride + width) for
// 0 <= i < count.
type stripes struct {
	start, width, stride, count int64
}

// stripes returns the tensor's rows as stripes; a contiguous tensor is one stripe.
func (t *Tensor) stripes() stripes {
	if t.IsContiguous() {
		return stripes{start: t.offset, width: t.span(), stride: t.span(), count: 1}
	}
	size := int64(t.dtype.Size())
	return stripes{start: t.offset, width: int64(t.cols) * size, stride: int64(t.stride) * size, count: int64(t.rows)}
}

// meets reports whether x and y have a byte in common. They must have the same
// stride, and their address ranges must overlap.
//
// Modulo the stride, x covers [0, x.width) and y covers [m, m + y.width). If these
// have a byte in common, so would some stripe of x and some stripe of y if both
// went on forever. As the address ranges overlap, two of the existing stripes do.
func (x stripes) meets(y stripes) bool {
	m := (y.start - x.start) % x.stride
	if m < 0 {
		m += x.stride
	}
	return m < x.width || m+y.width > x.stride
}
