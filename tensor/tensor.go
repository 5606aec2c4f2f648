// Package tensor provides tensors: values of one storage format with a shape, in
// the memory of a device.
//
// A tensor is row-major. Whatever its rank, it can also be used as a matrix: Cols
// is the last dimension, Rows the product of the others, and RowStride the
// distance between rows. So a block of columns of a larger matrix is a tensor
// too. A tensor of rank 1 is one row; of rank 0, one element.
//
// The last dimension is contiguous; the others may have any strides: Permute reorders
// them, and Expand repeats them. If the rows of such a view are not all the same distance
// apart, it cannot be used as one matrix: its RowStride is 0, and operations on matrices
// refuse it. Products with batch axes take it.
//
// The package knows how and where values are stored, and whether two tensors
// share memory. It knows no operation, and its only arithmetic is to round values
// when they are stored. tensor/file reads and writes files.
//
// Start with New and FromFloat32. view.go has the views, errors.go the error for
// bad arguments, which operations use too.
package tensor

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"tokitai/device"
	"tokitai/num"
)

// Tensor is a tensor on a device. Its dtype, shape and location never change.
// Methods are safe for concurrent use, except that the caller must order reads
// and writes of the values.
//
// No method panics on a nil or closed tensor: those that return an error return
// an ArgumentError, and the accessors of a nil tensor return zero values.
type Tensor struct {
	buffer  device.Buffer
	host    device.HostBuffer // the same buffer if the host can address it, else nil
	at      uint64            // the buffer's device address, 0 if the host can address the buffer
	dtype   num.DType
	shape   []int
	strides []int // in elements, by dimension; the last is 1; those of size 1 are arbitrary
	rows    int
	cols    int
	stride  int        // elements from one row to the next; cols if rows is 1; 0 if they do not fold
	lead    []num.Axis // all dimensions but the last, merged if they fold
	offset  int64      // bytes from the buffer's start
	isView  bool       // the buffer belongs to another tensor
	closed  atomic.Bool
}

// maxLead is the largest number of leading axes that a tensor may have once those that
// fold are merged: the batch axes of a num.Array, and its rows.
const maxLead = num.MaxBatchAxes + 1

// New returns a tensor of zeros. A size may be 0, as the rows of an empty batch are; an empty
// shape makes a scalar.
func New(dev device.Device, d num.DType, shape ...int) (*Tensor, error) {
	const op = "tensor.New"
	elems, err := countElements(op, d, shape)
	if err != nil {
		return nil, err
	}
	return allocate(op, dev, d, elems, shape)
}

// allocate returns a new tensor whose shape has been checked.
func allocate(op string, dev device.Device, d num.DType, elems int, shape []int) (*Tensor, error) {
	if dev == nil {
		return nil, &device.ArgumentError{Op: op, Operand: "device", Got: "is nil"}
	}
	buffer, err := dev.Alloc(max(1, int64(elems)*int64(d.Size()))) // a tensor without elements has an address too
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	t := &Tensor{dtype: d}
	t.setBuffer(buffer)
	t.setShape(shape)
	return t, nil
}

// setBuffer sets the buffer that holds t.
func (t *Tensor) setBuffer(b device.Buffer) {
	t.buffer = b
	switch b := b.(type) {
	case device.HostBuffer:
		t.host = b
	case device.AddressedBuffer:
		t.at = b.Pointer()
	}
}

// countElements returns the number of elements of a shape. It returns an error
// for an unknown dtype, a size below 0, or a byte count that overflows.
func countElements(op string, d num.DType, shape []int) (int, error) {
	if d.Size() == 0 {
		return 0, &device.ArgumentError{Op: op, Operand: "dtype", Got: "is " + d.String(), Want: "f16, bf16, f32, e4m3, e5m2 or i32"}
	}
	limit := uint64(math.MaxInt / d.Size())
	elems := uint64(1)
	for _, n := range shape {
		if n < 0 {
			return 0, &device.ArgumentError{Op: op, Operand: "shape", Got: fmt.Sprintf("is %v", shape), Want: "no size below 0"}
		}
		high, low := bits.Mul64(elems, uint64(n))
		if high != 0 || low > limit {
			return 0, &device.ArgumentError{Op: op, Operand: "shape", Got: fmt.Sprintf("is %v", shape),
				Want: fmt.Sprintf("at most %d elements of %v", limit, d)}
		}
		elems = low
	}
	return int(elems), nil
}

// setShape sets t's shape to a copy of shape, contiguous.
func (t *Tensor) setShape(shape []int) { t.setRows(shape, 0) }

// setRows sets t's shape to a copy of shape, with the given row stride; 0 stands for
// contiguous rows.
func (t *Tensor) setRows(shape []int, stride int) {
	strides := make([]int, len(shape))
	next := 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = next
		next *= shape[i]
		if i == len(shape)-1 && stride > 0 {
			next = stride
		}
	}
	t.setStrides(slices.Clone(shape), strides)
}

// setStrides sets t's shape and strides, and what follows from them.
func (t *Tensor) setStrides(shape, strides []int) {
	t.shape, t.strides, t.lead = shape, strides, nil
	t.rows, t.cols = 1, 1
	last := len(shape) - 1
	if slices.Contains(shape, 0) { // no element is apart from another
		t.rows, t.cols = 1, shape[last]
		for _, n := range shape[:last] {
			t.rows *= n
		}
		t.stride = max(1, t.cols)
		t.lead = []num.Axis{{Size: t.rows, Stride: t.stride}}
		return
	}
	if last >= 0 {
		t.cols = shape[last]
	}
	for i := range max(last, 0) {
		t.rows *= shape[i]
		if shape[i] == 1 {
			continue
		}
		if n := len(t.lead); n > 0 && t.lead[n-1].Stride == shape[i]*strides[i] {
			t.lead[n-1] = num.Axis{Size: t.lead[n-1].Size * shape[i], Stride: strides[i]}
		} else {
			t.lead = append(t.lead, num.Axis{Size: shape[i], Stride: strides[i]})
		}
	}
	switch {
	case len(t.lead) == 0:
		t.stride = t.cols
	case len(t.lead) == 1 && t.lead[0].Stride >= t.cols:
		t.stride = t.lead[0].Stride
	default:
		t.stride = 0
	}
}

// Close frees the memory, unless t is a view. Views of a closed tensor are closed
// with it. Closing twice, or closing a nil tensor, is allowed.
func (t *Tensor) Close() error {
	if t == nil || t.closed.Swap(true) || t.isView || t.buffer == nil {
		return nil
	}
	return t.buffer.Close()
}

// DType returns the storage format.
func (t *Tensor) DType() num.DType {
	if t == nil {
		return num.NoDType
	}
	return t.dtype
}

// Shape returns the sizes, outermost first. The caller must not modify the slice.
func (t *Tensor) Shape() []int {
	if t == nil {
		return nil
	}
	return t.shape
}

// Rank returns the number of dimensions.
func (t *Tensor) Rank() int { return len(t.Shape()) }

// Rows returns the product of all dimensions but the last; 1 for ranks 0 and 1.
func (t *Tensor) Rows() int {
	if t == nil {
		return 0
	}
	return t.rows
}

// Cols returns the last dimension; 1 for rank 0.
func (t *Tensor) Cols() int {
	if t == nil {
		return 0
	}
	return t.cols
}

// Strides returns the strides of the dimensions in elements, outermost first; the stride
// of a dimension that Expand repeats is 0. The caller must not modify the slice.
func (t *Tensor) Strides() []int {
	if t == nil {
		return nil
	}
	return t.strides
}

// Folds reports whether the tensor can be used as one matrix of strided rows.
func (t *Tensor) Folds() bool { return t != nil && t.stride > 0 }

// IsBroadcast reports whether elements share memory, as those of an expanded dimension
// do. Such a tensor is read only.
func (t *Tensor) IsBroadcast() bool {
	return t != nil && slices.ContainsFunc(t.lead, func(a num.Axis) bool { return a.Stride == 0 })
}

// RowStride returns the number of elements from the start of one row to the next: at
// least Cols, exactly Cols if there is only one row, and 0 if the tensor does not fold
// into a matrix.
func (t *Tensor) RowStride() int {
	if t == nil {
		return 0
	}
	return t.stride
}

// Len returns the number of elements.
func (t *Tensor) Len() int {
	if t == nil {
		return 0
	}
	return t.rows * t.cols
}

// IsContiguous reports whether there are no gaps between the rows.
func (t *Tensor) IsContiguous() bool { return t != nil && (t.stride == t.cols || t.Len() == 0) }

// Buffer returns the buffer that holds the tensor, and perhaps others.
func (t *Tensor) Buffer() device.Buffer {
	if t == nil {
		return nil
	}
	return t.buffer
}

// Offset returns the offset of the first element in the buffer, in bytes.
func (t *Tensor) Offset() int64 {
	if t == nil {
		return 0
	}
	return t.offset
}

// Pointer returns the device address of the first element, or 0 if the host can address
// it.
func (t *Tensor) Pointer() uint64 {
	if t == nil || t.at == 0 {
		return 0
	}
	return t.at + uint64(t.offset)
}

// Device returns the device that holds the tensor.
func (t *Tensor) Device() device.Device {
	if t == nil || t.buffer == nil {
		return nil
	}
	return t.buffer.Device()
}

// String describes the tensor without its values: "f16 [4 8] on cpu".
func (t *Tensor) String() string {
	switch {
	case t == nil:
		return "nil tensor"
	case t.buffer == nil:
		return "empty tensor"
	}
	text := fmt.Sprintf("%v %v on %s", t.dtype, t.shape, t.Device().Name())
	switch {
	case !t.Folds():
		text += fmt.Sprintf(", strides %v", t.strides)
	case !t.IsContiguous():
		text += fmt.Sprintf(", row stride %d", t.stride)
	}
	if t.isClosed() {
		text += ", closed"
	}
	return text
}

// Array returns the tensor as a num.Array, with batch axes if it does not fold. Its data
// is the tensor's memory, not a copy, valid while t is reachable and open. It returns false
// if the host cannot address that memory, or if t is nil or closed.
func (t *Tensor) Array() (num.Array, bool) {
	memory := t.memory()
	if memory == nil {
		return num.Array{}, false
	}
	a := num.Array{DType: t.dtype, Rows: t.rows, Cols: t.cols, Stride: t.stride, Data: memory}
	if !t.Folds() {
		inner := len(t.lead) - 1
		a.Stride = t.lead[inner].Stride
		if a.Stride < t.cols { // of matrices of one row
			inner, a.Stride = len(t.lead), t.cols
		}
		for _, axis := range t.lead[:inner] {
			a.Batch.Append(axis.Size, axis.Stride) // there is room: checked
		}
	}
	return a, true
}

// memory returns the memory from the first element to the last, gaps included, or
// nil if the host cannot address it.
func (t *Tensor) memory() []byte {
	if t == nil || t.host == nil || t.closed.Load() {
		return nil
	}
	memory := t.host.Memory()
	if memory == nil {
		return nil
	}
	return memory[t.offset : t.offset+t.span()]
}

// span returns the number of bytes from the first element to the end of the last.
func (t *Tensor) span() int64 {
	return spanOf(t.lead, int64(t.cols)) * int64(t.dtype.Size())
}

// spanOf returns the number of elements from the first to the end of the last one, gaps
// included, of axes over runs of width elements.
func spanOf(axes []num.Axis, width int64) int64 {
	for i := range axes {
		if axes[i].Size == 0 || width == 0 {
			return 0
		}
	}
	for i := range axes {
		width += int64(axes[i].Size-1) * int64(axes[i].Stride)
	}
	return width
}

// rowOffset returns the offset of row r, in elements.
func (t *Tensor) rowOffset(r int) int { return offsetOf(t.lead, r) }

// offsetOf returns the offset of the i-th index of the axes, the last axis fastest, in
// elements.
func offsetOf(axes []num.Axis, i int) int {
	at := 0
	for k := len(axes) - 1; k >= 0; k-- {
		at += i % axes[k].Size * axes[k].Stride
		i /= axes[k].Size
	}
	return at
}

// runs returns the contiguous runs of memory: width elements for each index of the axes.
func (t *Tensor) runs() (axes []num.Axis, width int) {
	axes, width = t.lead, t.cols
	if n := len(axes); n > 0 && axes[n-1].Stride == width {
		axes, width = axes[:n-1], width*axes[n-1].Size
	}
	return axes, width
}

// isClosed reports whether t is closed. The zero Tensor counts as closed.
func (t *Tensor) isClosed() bool {
	return t.buffer == nil || t.closed.Load() || t.buffer.Closed()
}
