package tensor

import (
	"fmt"

	"tokitai/device"
	"tokitai/num"
)

// At returns a view of a buffer: a tensor that begins at offset, in bytes, and whose rows
// are stride elements apart. It does not own the buffer.
func At(b device.Buffer, offset int64, d num.DType, stride int, shape ...int) (*Tensor, error) {
	const op = "tensor.At"
	if b == nil {
		return nil, &device.ArgumentError{Op: op, Operand: "buffer", Got: "is nil"}
	}
	elems, err := countElements(op, d, shape)
	if err != nil {
		return nil, err
	}
	t := &Tensor{dtype: d, offset: offset, isView: true}
	t.setBuffer(b)
	t.setShape(elems, shape)
	switch size := int64(d.Size()); {
	case offset < 0 || offset%size != 0:
		return nil, &device.ArgumentError{Op: op, Operand: "offset", Got: fmt.Sprintf("is %d", offset), Want: fmt.Sprintf("a multiple of %d, the size of %v", size, d)}
	case stride < t.cols:
		return nil, &device.ArgumentError{Op: op, Operand: "stride", Got: fmt.Sprintf("is %d", stride), Want: fmt.Sprintf("at least %d columns", t.cols)}
	case offset > b.Bytes() || int64(t.cols) > (b.Bytes()-offset)/size || int64(t.rows-1) > ((b.Bytes()-offset)/size-int64(t.cols))/int64(stride):
		return nil, &device.ArgumentError{Op: op, Operand: "buffer", Got: fmt.Sprintf("has %d bytes", b.Bytes()),
			Want: fmt.Sprintf("room for %v %v with row stride %d at offset %d", d, t.shape, stride, offset)}
	}
	if t.rows > 1 {
		t.stride = stride
	}
	return t, nil
}

// Slice returns a view of rows [rowLo, rowHi) and columns [colLo, colHi) of a
// tensor of rank 2. It shares t's memory and can be used until t is closed.
func (t *Tensor) Slice(rowLo, rowHi, colLo, colHi int) (*Tensor, error) {
	const op = "tensor.Slice"
	if err := Check(op, "tensor", t); err != nil {
		return nil, err
	}
	if len(t.shape) != 2 {
		return nil, &device.ArgumentError{Op: op, Operand: "tensor", Got: fmt.Sprintf("has shape %v", t.shape), Want: "two dimensions"}
	}
	for _, r := range []struct {
		operand   string
		lo, hi, n int
	}{{"rows", rowLo, rowHi, t.rows}, {"columns", colLo, colHi, t.cols}} {
		if r.lo < 0 || r.lo >= r.hi || r.hi > r.n {
			return nil, &device.ArgumentError{Op: op, Operand: r.operand, Got: fmt.Sprintf("are %d to %d", r.lo, r.hi),
				Want: fmt.Sprintf("a non-empty part of 0 to %d", r.n)}
		}
	}
	v := t.view()
	v.rows, v.cols = rowHi-rowLo, colHi-colLo
	v.shape = []int{v.rows, v.cols}
	v.offset += (int64(rowLo)*int64(t.stride) + int64(colLo)) * int64(t.dtype.Size())
	if v.rows == 1 {
		v.stride = v.cols
	}
	return v, nil
}

// Reshape returns a view of t's elements, in the same order, with another shape.
// If t is strided, its last dimension cannot change. The view shares t's memory
// and can be used until t is closed.
func (t *Tensor) Reshape(shape ...int) (*Tensor, error) {
	const op = "tensor.Reshape"
	if err := Check(op, "tensor", t); err != nil {
		return nil, err
	}
	elems, err := countElements(op, t.dtype, shape)
	if err != nil {
		return nil, err
	}
	if elems != t.Len() {
		return nil, &device.ArgumentError{Op: op, Operand: "shape", Got: fmt.Sprintf("is %v", shape),
			Want: fmt.Sprintf("the %d elements of %v", t.Len(), t.shape)}
	}
	v := t.view()
	v.setShape(elems, shape)
	if !t.IsContiguous() {
		if v.cols != t.cols {
			return nil, &device.ArgumentError{Op: op, Operand: "shape", Got: fmt.Sprintf("is %v", v.shape),
				Want: fmt.Sprintf("the last dimension %d, as the row stride is %d", t.cols, t.stride)}
		}
		v.stride = t.stride
	}
	return v, nil
}

// view returns a copy of t that does not own the memory.
func (t *Tensor) view() *Tensor {
	return &Tensor{
		buffer: t.buffer, host: t.host, at: t.at, dtype: t.dtype, shape: t.shape,
		rows: t.rows, cols: t.cols, stride: t.stride, offset: t.offset, isView: true,
	}
}
