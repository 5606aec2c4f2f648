// Package tensor joins a storage format and a shape to a place on a device.
//
// A tensor is row-major. Whatever its rank, it is also seen folded into a
// matrix: Cols is the last dimension, Rows the product of the others, RowStride
// the distance between rows, so that a block of columns of a larger matrix is a
// tensor too. A tensor of rank 1 is one row; of rank 0, one element.
//
// The package knows how values are stored and where, and how memory of two
// tensors relates; it knows no operation and does no arithmetic beyond the one
// rounding of values that come in. tensor/file reads and writes files.
//
// Start with New and FromFloat32; view.go has the views, errors.go the error of
// a bad argument, which operations share.
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

// Tensor is values of one dtype on one device. Its dtype, shape and place never
// change. Methods are safe from any goroutine, but reading values while
// something else writes them is the caller's to order.
//
// No method panics on a nil or closed tensor: those that return an error return
// a BadArgument, and the accessors of a nil tensor return zero values.
type Tensor struct {
	buffer device.Buffer
	host   device.HostBuffer // the buffer again where the host can address it, else nil
	dtype  num.DType
	shape  []int
	rows   int
	cols   int
	stride int   // elements from one row to the next; cols where rows is 1
	offset int64 // bytes from the buffer's start
	isView bool  // the buffer belongs to another tensor
	closed atomic.Bool
}

// New returns a tensor of zeros. All sizes are at least 1; no sizes at all make
// a scalar.
func New(dev device.Device, d num.DType, shape ...int) (*Tensor, error) {
	const op = "tensor.New"
	elems, err := countElements(op, d, shape)
	if err != nil {
		return nil, err
	}
	return allocate(op, dev, d, elems, shape)
}

// allocate makes a tensor whose shape has been checked.
func allocate(op string, dev device.Device, d num.DType, elems int, shape []int) (*Tensor, error) {
	if dev == nil {
		return nil, &device.ArgumentError{Op: op, Operand: "device", Got: "is nil"}
	}
	buffer, err := dev.Alloc(int64(elems) * int64(d.Size()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	t := &Tensor{buffer: buffer, dtype: d}
	t.host, _ = buffer.(device.HostBuffer)
	t.setShape(elems, shape)
	return t, nil
}

// countElements refuses what is no dtype, and shapes that are empty or whose size
// in bytes overflows.
func countElements(op string, d num.DType, shape []int) (int, error) {
	if d.Size() == 0 {
		return 0, &device.ArgumentError{Op: op, Operand: "dtype", Got: "is " + d.String(), Want: "f16, bf16, f32 or i32"}
	}
	limit := uint64(math.MaxInt / d.Size())
	elems := uint64(1)
	for _, n := range shape {
		if n < 1 {
			return 0, &device.ArgumentError{Op: op, Operand: "shape", Got: fmt.Sprintf("is %v", shape), Want: "every size at least 1"}
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

// setShape makes t contiguous with a copy of that shape.
func (t *Tensor) setShape(elems int, shape []int) {
	t.shape = slices.Clone(shape)
	t.cols = 1
	if len(shape) > 0 {
		t.cols = shape[len(shape)-1]
	}
	t.rows = elems / t.cols
	t.stride = t.cols
}

// Close gives the memory back; of a view, nothing but the view itself. Views of
// a closed tensor are closed with it. Closing twice, or a nil tensor, is
// allowed.
func (t *Tensor) Close() error {
	if t == nil || t.closed.Swap(true) || t.isView || t.buffer == nil {
		return nil
	}
	return t.buffer.Close()
}

// DType is the storage format.
func (t *Tensor) DType() num.DType {
	if t == nil {
		return num.NoDType
	}
	return t.dtype
}

// Shape is the sizes, outermost first. It is the tensor's own slice: read only.
func (t *Tensor) Shape() []int {
	if t == nil {
		return nil
	}
	return t.shape
}

// Rank is the number of dimensions.
func (t *Tensor) Rank() int { return len(t.Shape()) }

// Rows is the product of all dimensions but the last; 1 for ranks 0 and 1.
func (t *Tensor) Rows() int {
	if t == nil {
		return 0
	}
	return t.rows
}

// Cols is the last dimension; 1 for rank 0.
func (t *Tensor) Cols() int {
	if t == nil {
		return 0
	}
	return t.cols
}

// RowStride is the number of elements from the start of one row to the next: at
// least Cols, and Cols itself where there is one row only.
func (t *Tensor) RowStride() int {
	if t == nil {
		return 0
	}
	return t.stride
}

// Len is the number of elements.
func (t *Tensor) Len() int {
	if t == nil {
		return 0
	}
	return t.rows * t.cols
}

// IsContiguous reports whether the elements lie in memory without gaps.
func (t *Tensor) IsContiguous() bool { return t != nil && t.stride == t.cols }

// Buffer is the memory the tensor lies in, perhaps with others.
func (t *Tensor) Buffer() device.Buffer {
	if t == nil {
		return nil
	}
	return t.buffer
}

// Offset is where in the buffer the first element lies, in bytes.
func (t *Tensor) Offset() int64 {
	if t == nil {
		return 0
	}
	return t.offset
}

// Device is where the tensor lies.
func (t *Tensor) Device() device.Device {
	if t == nil || t.buffer == nil {
		return nil
	}
	return t.buffer.Device()
}

// String says what the tensor is, not what it holds: "f16 [4 8] on cpu".
func (t *Tensor) String() string {
	switch {
	case t == nil:
		return "nil tensor"
	case t.buffer == nil:
		return "empty tensor"
	}
	text := fmt.Sprintf("%v %v on %s", t.dtype, t.shape, t.Device().Name())
	if !t.IsContiguous() {
		text += fmt.Sprintf(", row stride %d", t.stride)
	}
	if t.isClosed() {
		text += ", closed"
	}
	return text
}

// Array is the tensor as the judges see it: the memory itself, not a copy, to be
// used while t is reachable and open. It is false where the host cannot address
// that memory, and for a nil or closed tensor.
func (t *Tensor) Array() (num.Array, bool) {
	memory := t.memory()
	if memory == nil {
		return num.Array{}, false
	}
	return num.Array{DType: t.dtype, Rows: t.rows, Cols: t.cols, Stride: t.stride, Data: memory}, true
}

// memory is the host's view from the first element to the last, gaps included;
// nil where there is none.
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

// span is the number of bytes from the first element to the end of the last.
func (t *Tensor) span() int64 {
	return (int64(t.rows-1)*int64(t.stride) + int64(t.cols)) * int64(t.dtype.Size())
}

// isClosed also holds for a Tensor that New did not make.
func (t *Tensor) isClosed() bool {
	return t.buffer == nil || t.closed.Load() || t.buffer.Closed()
}
