package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"

	"tokitai/device"
	"tokitai/num"
)

// floats are the dtypes of real values.
const floats = "f16, bf16, f32, e4m3 or e5m2"

// FromFloat32 returns a tensor with the given values in row-major order, each
// rounded once to d, to nearest even.
func FromFloat32(dev device.Device, d num.DType, values []float32, shape ...int) (*Tensor, error) {
	const op = "tensor.FromFloat32"
	if d.IsInteger() {
		return nil, &device.ArgumentError{Op: op, Operand: "dtype", Got: "is " + d.String(), Want: floats}
	}
	t, err := allocateFor(op, dev, d, "values", len(values), 1, shape)
	if err != nil {
		return nil, err
	}
	return filled(t, t.setFloat32s(op, values))
}

// FromInt32 returns a tensor of dtype I32 with the given values in row-major
// order.
func FromInt32(dev device.Device, values []int32, shape ...int) (*Tensor, error) {
	return fromInts("tensor.FromInt32", dev, values, shape)
}

// FromInts returns a tensor of dtype I8, I32 or I64 with the given values in row-major
// order.
func FromInts[T int8 | int32 | int64](dev device.Device, values []T, shape ...int) (*Tensor, error) {
	return fromInts("tensor.FromInts", dev, values, shape)
}

func fromInts[T int8 | int32 | int64](op string, dev device.Device, values []T, shape []int) (*Tensor, error) {
	t, err := allocateFor(op, dev, formatOf[T](), "values", len(values), 1, shape)
	if err != nil {
		return nil, err
	}
	return filled(t, setInts(t, op, values))
}

// formatOf returns the format that stores integers of type T.
func formatOf[T int8 | int32 | int64]() num.DType {
	switch any(T(0)).(type) {
	case int8:
		return num.I8
	case int32:
		return num.I32
	}
	return num.I64
}

// FromBytes returns a tensor with the given stored values: little-endian,
// row-major, without gaps.
func FromBytes(dev device.Device, d num.DType, raw []byte, shape ...int) (*Tensor, error) {
	const op = "tensor.FromBytes"
	t, err := allocateFor(op, dev, d, "bytes", len(raw), d.Size(), shape)
	if err != nil {
		return nil, err
	}
	return filled(t, t.setBytes(op, raw))
}

// allocateFor returns a new tensor, to be filled with the given number of values
// or bytes, of which an element takes perElem. It checks the number first.
func allocateFor(op string, dev device.Device, d num.DType, operand string, given, perElem int, shape []int) (*Tensor, error) {
	elems, err := countElements(op, d, shape)
	if err != nil {
		return nil, err
	}
	if err := checkCount(op, operand, given, elems*perElem, d, shape); err != nil {
		return nil, err
	}
	return allocate(op, dev, d, elems, shape)
}

func checkCount(op, operand string, given, want int, d num.DType, shape []int) error {
	if given != want {
		return &device.ArgumentError{Op: op, Operand: operand, Got: fmt.Sprintf("have length %d", given),
			Want: fmt.Sprintf("%d for %v %v", want, d, shape)}
	}
	return nil
}

// filled returns t, or closes it if filling it failed.
func filled(t *Tensor, err error) (*Tensor, error) {
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// SetFloat32s writes all elements, each rounded once to the dtype.
func (t *Tensor) SetFloat32s(values []float32) error {
	return t.setFloat32s("tensor.SetFloat32s", values)
}

// SetInt32s writes all elements of a tensor of dtype I32.
func (t *Tensor) SetInt32s(values []int32) error { return setInts(t, "tensor.SetInt32s", values) }

// SetBytes writes all elements, given as they are stored, without gaps.
func (t *Tensor) SetBytes(raw []byte) error { return t.setBytes("tensor.SetBytes", raw) }

func (t *Tensor) setFloat32s(op string, values []float32) error {
	if err := t.checkValues(op, floats, t.isFloat(), len(values)); err != nil {
		return err
	}
	return t.encode(op, func(dst []byte) {
		switch t.dtype {
		case num.F16:
			for i, v := range values {
				binary.LittleEndian.PutUint16(dst[2*i:], num.F32ToF16(v))
			}
		case num.BF16:
			for i, v := range values {
				binary.LittleEndian.PutUint16(dst[2*i:], num.F32ToBF16(v))
			}
		case num.F32:
			for i, v := range values {
				binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
			}
		case num.E4M3, num.E5M2:
			for i, v := range values {
				dst[i] = uint8(num.Narrow(t.dtype, v))
			}
		}
	})
}

func setInts[T int8 | int32 | int64](t *Tensor, op string, values []T) error {
	if err := t.checkValues(op, formatOf[T]().String(), t.isOf(formatOf[T]()), len(values)); err != nil {
		return err
	}
	return t.encode(op, func(dst []byte) {
		switch values := any(values).(type) {
		case []int8:
			for i, v := range values {
				dst[i] = uint8(v)
			}
		case []int32:
			for i, v := range values {
				binary.LittleEndian.PutUint32(dst[4*i:], uint32(v))
			}
		case []int64:
			for i, v := range values {
				binary.LittleEndian.PutUint64(dst[8*i:], uint64(v))
			}
		}
	})
}

// encode calls fill to write the elements without gaps: in place if possible,
// else to a copy.
func (t *Tensor) encode(op string, fill func([]byte)) error {
	defer runtime.KeepAlive(t) // if t were collected, its memory could be reused
	if t.IsContiguous() {
		if memory := t.memory(); memory != nil {
			fill(memory)
			return nil
		}
	}
	raw := make([]byte, t.Len()*t.dtype.Size())
	fill(raw)
	return t.setBytes(op, raw)
}

func (t *Tensor) setBytes(op string, raw []byte) error {
	if err := Check(op, "tensor", t); err != nil {
		return err
	}
	if err := t.checkWritable(op); err != nil {
		return err
	}
	if err := checkCount(op, "bytes", len(raw), t.Len()*t.dtype.Size(), t.dtype, t.shape); err != nil {
		return err
	}
	return t.eachRun(op, raw, t.buffer.CopyIn)
}

// Float32s returns the values of a tensor of a floating-point dtype, exactly.
func (t *Tensor) Float32s() ([]float32, error) {
	defer runtime.KeepAlive(t)
	raw, err := t.read("tensor.Float32s", floats, t.isFloat())
	if err != nil {
		return nil, err
	}
	values := make([]float32, t.Len())
	switch t.dtype {
	case num.F16:
		for i := range values {
			values[i] = num.F16ToF32(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	case num.BF16:
		for i := range values {
			values[i] = num.BF16ToF32(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	case num.F32:
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	case num.E4M3:
		num.E4M3sToF32s(values, raw[:len(values)])
	case num.E5M2:
		num.E5M2sToF32s(values, raw[:len(values)])
	}
	return values, nil
}

// Int32s returns the values of a tensor of dtype I32.
func (t *Tensor) Int32s() ([]int32, error) {
	defer runtime.KeepAlive(t)
	raw, err := t.read("tensor.Int32s", num.I32.String(), t.isOf(num.I32))
	if err != nil {
		return nil, err
	}
	values := make([]int32, t.Len())
	for i := range values {
		values[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return values, nil
}

// Ints returns the values of a tensor of dtype I8, I32 or I64.
func (t *Tensor) Ints() ([]int64, error) {
	defer runtime.KeepAlive(t)
	raw, err := t.read("tensor.Ints", "i8, i32 or i64", t != nil && t.dtype.IsInteger())
	if err != nil {
		return nil, err
	}
	values := make([]int64, t.Len())
	a := num.Array{DType: t.dtype, Rows: 1, Cols: len(values), Stride: len(values), Data: raw}
	for i := range values {
		values[i] = a.Integer(0, i)
	}
	return values, nil
}

// Bytes returns a copy of the elements as they are stored: little-endian,
// row-major, without gaps.
func (t *Tensor) Bytes() ([]byte, error) {
	const op = "tensor.Bytes"
	if err := Check(op, "tensor", t); err != nil {
		return nil, err
	}
	raw := make([]byte, t.Len()*t.dtype.Size())
	if err := t.eachRun(op, raw, t.buffer.CopyOut); err != nil {
		return nil, err
	}
	return raw, nil
}

// checkWritable returns an error if elements of t share memory.
func (t *Tensor) checkWritable(op string) error {
	if t.IsBroadcast() {
		return &device.ArgumentError{Op: op, Operand: "tensor", Got: fmt.Sprintf("repeats elements: shape %v, strides %v", t.shape, t.strides),
			Want: "memory of its own for every element"}
	}
	return nil
}

// read returns the elements without gaps: the tensor's memory if possible, else a
// copy.
func (t *Tensor) read(op, want string, isWanted bool) ([]byte, error) {
	if err := t.checkValues(op, want, isWanted, t.Len()); err != nil {
		return nil, err
	}
	if t.IsContiguous() {
		if memory := t.memory(); memory != nil {
			return memory, nil
		}
	}
	raw := make([]byte, t.Len()*t.dtype.Size())
	return raw, t.eachRun(op, raw, t.buffer.CopyOut)
}

// eachRun calls move for each contiguous run of elements with the corresponding
// part of raw, which holds all elements without gaps.
func (t *Tensor) eachRun(op string, raw []byte, move func(offset int64, part []byte) error) error {
	if t.Len() == 0 {
		return nil
	}
	size := t.dtype.Size()
	axes, elems := t.runs()
	width := elems * size
	for i := range t.Len() / elems {
		if err := move(t.offset+int64(offsetOf(axes, i))*int64(size), raw[i*width:(i+1)*width]); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
	}
	return nil
}

// CopyFrom copies the values of src, which must have the same dtype and shape. It
// may be on another device or have another row stride. Copying a tensor to itself
// is allowed; any other overlap is an error.
func (t *Tensor) CopyFrom(src *Tensor) error {
	const op = "tensor.CopyFrom"
	if err := Check(op, "tensor", t); err != nil {
		return err
	}
	if err := Check(op, "source", src); err != nil {
		return err
	}
	if err := t.checkWritable(op); err != nil {
		return err
	}
	if src.dtype != t.dtype {
		return &device.ArgumentError{Op: op, Operand: "source", Got: fmt.Sprintf("has dtype %v", src.dtype), Want: t.dtype.String()}
	}
	if !slices.Equal(src.shape, t.shape) {
		return &device.ArgumentError{Op: op, Operand: "source", Got: fmt.Sprintf("has shape %v", src.shape), Want: fmt.Sprint(t.shape)}
	}
	if t.Len() == 0 {
		return nil
	}
	switch Overlap(t, src) {
	case Identical:
		return nil
	case Overlapping:
		return &device.ArgumentError{Op: op, Operand: "source", Got: "overlaps the tensor", Want: "the tensor itself or separate memory"}
	}
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(src)
	if from, to := src.memory(), t.memory(); from != nil && to != nil {
		size := t.dtype.Size()
		for r := range t.rows {
			copy(to[t.rowOffset(r)*size:][:t.cols*size], from[src.rowOffset(r)*size:])
		}
		return nil
	}
	raw, err := src.Bytes()
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return t.setBytes(op, raw)
}

// isFloat and isOf report of what dtype t is; a nil tensor is of none.
func (t *Tensor) isFloat() bool         { return t != nil && t.dtype.IsFloat() }
func (t *Tensor) isOf(d num.DType) bool { return t != nil && t.dtype == d }

// checkValues returns an error unless t is of a wanted dtype and holds n values.
func (t *Tensor) checkValues(op, want string, isWanted bool, n int) error {
	if err := Check(op, "tensor", t); err != nil {
		return err
	}
	if !isWanted {
		return &device.ArgumentError{Op: op, Operand: "tensor", Got: fmt.Sprintf("has dtype %v", t.dtype), Want: want}
	}
	return checkCount(op, "values", n, t.Len(), t.dtype, t.shape)
}
