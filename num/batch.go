package num

// MaxBatchAxes is the largest number of batch axes of an Array.
const MaxBatchAxes = 4

// Batch is the leading axes of a stack of matrices, outermost first. The zero Batch is
// that of a single matrix. It holds its axes in place, so that an Array can be copied
// without allocating.
type Batch struct {
	Count int
	Axes  [MaxBatchAxes]Axis // the first Count of them
}

// Axis is one batch axis. A stride of 0 broadcasts: every index is the same matrix.
type Axis struct {
	Size   int
	Stride int // in elements
}

// Append adds an axis inside the others. It reports whether there was room.
func (b *Batch) Append(size, stride int) bool {
	if b.Count == MaxBatchAxes {
		return false
	}
	b.Axes[b.Count] = Axis{size, stride}
	b.Count++
	return true
}

// Len returns the number of matrices.
func (b *Batch) Len() int {
	n := 1
	for i := range b.Count {
		n *= b.Axes[i].Size
	}
	return n
}

// Offset returns the position of the first element of matrix i, in elements.
func (b *Batch) Offset(i int) int {
	at := 0
	for k := b.Count - 1; k >= 0; k-- {
		x := &b.Axes[k]
		at += i % x.Size * x.Stride
		i /= x.Size
	}
	return at
}

// IsBroadcast reports whether matrices share memory.
func (b *Batch) IsBroadcast() bool {
	for i := range b.Count {
		if b.Axes[i].Stride == 0 && b.Axes[i].Size > 1 {
			return true
		}
	}
	return false
}

// contiguous returns the same axes for matrices of n elements that follow each other.
func (b Batch) contiguous(n int) Batch {
	for k := b.Count - 1; k >= 0; k-- {
		b.Axes[k].Stride = n
		n *= b.Axes[k].Size
	}
	return b
}
