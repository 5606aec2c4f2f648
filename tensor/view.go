package tensor

import (
	"fmt"
	"slices"

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
	if _, err := countElements(op, d, shape); err != nil {
		return nil, err
	}
	t := &Tensor{dtype: d, offset: offset, isView: true}
	t.setBuffer(b)
	t.setRows(shape, stride)
	switch size := int64(d.Size()); {
	case offset < 0 || offset%size != 0:
		return nil, &device.ArgumentError{Op: op, Operand: "offset", Got: fmt.Sprintf("is %d", offset), Want: fmt.Sprintf("a multiple of %d, the size of %v", size, d)}
	case stride < t.cols:
		return nil, &device.ArgumentError{Op: op, Operand: "stride", Got: fmt.Sprintf("is %d", stride), Want: fmt.Sprintf("at least %d columns", t.cols)}
	case t.Len() == 0 && offset <= b.Bytes():
	case offset > b.Bytes() || int64(t.cols) > (b.Bytes()-offset)/size || int64(t.rows-1) > ((b.Bytes()-offset)/size-int64(t.cols))/int64(stride):
		return nil, &device.ArgumentError{Op: op, Operand: "buffer", Got: fmt.Sprintf("has %d bytes", b.Bytes()),
			Want: fmt.Sprintf("room for %v %v with row stride %d at offset %d", d, t.shape, stride, offset)}
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
		if r.lo < 0 || r.lo > r.hi || r.hi > r.n {
			return nil, &device.ArgumentError{Op: op, Operand: r.operand, Got: fmt.Sprintf("are %d to %d", r.lo, r.hi),
				Want: fmt.Sprintf("a part of 0 to %d", r.n)}
		}
	}
	v := t.view()
	v.offset += (int64(rowLo)*int64(t.strides[0]) + int64(colLo)) * int64(t.dtype.Size())
	v.setStrides([]int{rowHi - rowLo, colHi - colLo}, t.strides)
	return v, nil
}

// Reshape returns a view of t's elements, in the same order, with another shape.
// Dimensions can be split, and merged if there is no gap between them. The view shares t's
// memory and can be used until t is closed.
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
	if elems == 0 {
		v.setShape(shape)
		return v, nil
	}
	strides, ok := t.reshaped(shape)
	if !ok {
		stride := fmt.Sprintf("row stride is %d", t.stride)
		if !t.Folds() {
			stride = fmt.Sprintf("strides are %v", t.strides)
		}
		return nil, &device.ArgumentError{Op: op, Operand: "shape", Got: fmt.Sprintf("is %v", shape),
			Want: fmt.Sprintf("dimensions that do not cross a gap of %v, whose %s", t.shape, stride)}
	}
	v.setStrides(slices.Clone(shape), strides)
	return v.checked(op)
}

// reshaped returns the strides of the elements in another shape. It returns false if a
// dimension would cross a gap.
func (t *Tensor) reshaped(shape []int) (strides []int, ok bool) {
	axes := append(slices.Clone(t.lead), num.Axis{Size: t.cols, Stride: 1})
	if n := len(t.lead); n > 0 && t.lead[n-1].Stride == t.cols {
		axes = append(axes[:n-1], num.Axis{Size: t.lead[n-1].Size * t.cols, Stride: 1})
	}
	strides = make([]int, len(shape))
	at, left := len(axes)-1, axes[len(axes)-1].Size // what is left to divide of the axis
	next := 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = next
		if shape[i] == 1 {
			continue
		}
		if left == 1 {
			at--
			left, next = axes[at].Size, axes[at].Stride
			strides[i] = next
		}
		if left%shape[i] != 0 || i == len(shape)-1 && next != 1 {
			return nil, false
		}
		left /= shape[i]
		next *= shape[i]
	}
	return strides, true
}

// Permute returns the tensor with its dimensions in another order: dimension i of the
// view is dimension order[i] of t. The last dimension stays the last. The view shares the
// memory and does not own it.
//
// The heads of [batch, position, head, width] are seen as matrices, [batch, head,
// position, width], by Permute(0, 2, 1, 3).
func (t *Tensor) Permute(order ...int) (*Tensor, error) {
	const op = "tensor.Permute"
	if err := Check(op, "tensor", t); err != nil {
		return nil, err
	}
	n := len(t.shape)
	isSeen := make([]bool, n)
	ok := len(order) == n
	for i := 0; ok && i < n; i++ {
		if ok = order[i] >= 0 && order[i] < n && !isSeen[order[i]]; ok {
			isSeen[order[i]] = true
		}
	}
	if !ok || n > 0 && order[n-1] != n-1 {
		return nil, &device.ArgumentError{Op: op, Operand: "order", Got: fmt.Sprintf("is %v", order),
			Want: fmt.Sprintf("the numbers 0 to %d, the last one last", n-1)}
	}
	shape, strides := make([]int, n), make([]int, n)
	for i, from := range order {
		shape[i], strides[i] = t.shape[from], t.strides[from]
	}
	v := t.view()
	v.setStrides(shape, strides)
	return v.checked(op)
}

// Expand returns a view in which dimensions of size 1 are repeated, and leading
// dimensions added, until the tensor has the given shape. The repetitions are the same
// memory: the view is read only, and operations refuse it as an output. The last
// dimension cannot be repeated.
func (t *Tensor) Expand(shape ...int) (*Tensor, error) {
	const op = "tensor.Expand"
	if err := Check(op, "tensor", t); err != nil {
		return nil, err
	}
	if _, err := countElements(op, t.dtype, shape); err != nil {
		return nil, err
	}
	more := len(shape) - len(t.shape)
	refuse := func() (*Tensor, error) {
		return nil, &device.ArgumentError{Op: op, Operand: "shape", Got: fmt.Sprintf("is %v", shape),
			Want: fmt.Sprintf("%v with more leading dimensions, or with other sizes for those of size 1 but the last", t.shape)}
	}
	if more < 0 || len(t.shape) == 0 && more > 0 {
		return refuse()
	}
	strides := make([]int, len(shape))
	for i, n := range shape {
		switch {
		case i < more:
		case n == t.shape[i-more]:
			strides[i] = t.strides[i-more]
		case t.shape[i-more] != 1 || i == len(shape)-1:
			return refuse()
		}
	}
	v := t.view()
	v.setStrides(slices.Clone(shape), strides)
	return v.checked(op)
}

// checked returns t, or an error if it has too many strides for a num.Array, in which
// repeated rows count as matrices.
func (t *Tensor) checked(op string) (*Tensor, error) {
	n := len(t.lead)
	if n > 0 && t.lead[n-1].Stride < t.cols {
		n++
	}
	if n > maxLead {
		return nil, &device.ArgumentError{Op: op, Operand: "view", Got: fmt.Sprintf("has shape %v with strides %v", t.shape, t.strides),
			Want: fmt.Sprintf("at most %d leading dimensions that do not fold", maxLead)}
	}
	return t, nil
}

// view returns a copy of t that does not own the memory.
func (t *Tensor) view() *Tensor {
	return &Tensor{
		buffer: t.buffer, host: t.host, at: t.at, dtype: t.dtype, shape: t.shape, strides: t.strides, lead: t.lead,
		rows: t.rows, cols: t.cols, stride: t.stride, offset: t.offset, isView: true,
	}
}
