package optest

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/num"
	"tokitai/tensor"
	"tokitai/trial"
)

// OK ends the test if there is an error.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Vector returns a tensor of rank 1 on the shared CPU queue's device, each value rounded to
// d.
func Vector(t testing.TB, d num.DType, values ...float32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromFloat32(cpu.Queue().Device(), d, values, len(values))
	OK(t, err)
	return x
}

// Matrix returns a tensor of rank 2 with the given number of rows.
func Matrix(t testing.TB, d num.DType, rows int, values ...float32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromFloat32(cpu.Queue().Device(), d, values, rows, len(values)/rows)
	OK(t, err)
	return x
}

// Ints returns an int32 tensor of rank 1.
func Ints(t testing.TB, values ...int32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromInt32(cpu.Queue().Device(), values, len(values))
	OK(t, err)
	return x
}

// Garbage returns a tensor whose contents a call must overwrite.
func Garbage(t testing.TB, d num.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	return garbage(t, cpu.Queue().Device(), d, shape...)
}

func garbage(t testing.TB, dev device.Device, d num.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(dev, d, shape...)
	OK(t, err)
	OK(t, x.SetBytes(bytes.Repeat([]byte{trial.GuardByte}, x.Len()*d.Size())))
	return x
}

// Patterns returns a tensor of rank 1 with the given bit patterns.
func Patterns(t testing.TB, d num.DType, patterns ...uint32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromBytes(cpu.Queue().Device(), d, arrayOf(d, patterns).Data, len(patterns))
	OK(t, err)
	return x
}

// All returns a tensor of shape [rows, n/rows] with n consecutive bit patterns.
func All(t testing.TB, d num.DType, first uint32, n, rows int) *tensor.Tensor {
	t.Helper()
	a := num.NewArray(d, 1, n)
	trial.FillBits(a, func(_, c int) uint32 { return first + uint32(c) })
	x, err := tensor.FromBytes(cpu.Queue().Device(), d, a.Data, rows, n/rows)
	OK(t, err)
	return x
}

// Every returns all 65,536 patterns of a 16-bit format.
func Every(t testing.TB, d num.DType) *tensor.Tensor {
	t.Helper()
	return All(t, d, 0, 1<<16, 1)
}

// Sample returns one f32 in 16,411 of [low, high], of either sign, and both ends.
func Sample(t testing.TB, low, high float32) *tensor.Tensor {
	t.Helper()
	var values []float32
	for u := math.Float32bits(low); u <= math.Float32bits(high); u += 16411 {
		values = append(values, math.Float32frombits(u), -math.Float32frombits(u))
	}
	return Vector(t, num.F32, append(values, low, -low, high, -high)...)
}

// Filled returns a tensor like x with one value everywhere.
func Filled(t testing.TB, x *tensor.Tensor, v float32) *tensor.Tensor {
	t.Helper()
	y, err := tensor.FromFloat32(cpu.Queue().Device(), x.DType(), slices.Repeat([]float32{v}, x.Len()), x.Shape()...)
	OK(t, err)
	return y
}

// Bits returns the bit patterns of a tensor in row-major order.
func Bits(t testing.TB, x *tensor.Tensor) []uint32 {
	t.Helper()
	a := contents(t, x)
	bits := make([]uint32, x.Len())
	for i := range bits {
		bits[i] = a.Bits(0, i)
	}
	return bits
}

// contents returns the elements of a tensor in one row.
func contents(t testing.TB, x *tensor.Tensor) num.Array {
	t.Helper()
	raw, err := x.Bytes()
	OK(t, err)
	return num.Array{DType: x.DType(), Rows: 1, Cols: x.Len(), Stride: x.Len(), Data: raw}
}

// Floats returns the values of a tensor.
func Floats(t testing.TB, x *tensor.Tensor) []float32 {
	t.Helper()
	v, err := x.Float32s()
	OK(t, err)
	return v
}

// Want compares a tensor with values, each rounded to its format.
func Want(t testing.TB, what string, x *tensor.Tensor, values ...float32) {
	t.Helper()
	want := make([]uint32, len(values))
	for i, v := range values {
		want[i] = num.Narrow(x.DType(), v)
	}
	compare(t, what, x.DType(), Bits(t, x), want)
}

// WantBits compares a tensor with bit patterns.
func WantBits(t testing.TB, what string, x *tensor.Tensor, want ...uint32) {
	t.Helper()
	compare(t, what, x.DType(), Bits(t, x), want)
}

// SameBits compares two tensors.
func SameBits(t testing.TB, what string, x, want *tensor.Tensor) {
	t.Helper()
	if f := trial.Values.Difference(what, contents(t, x), contents(t, want)); f != nil {
		t.Errorf("%s: %v", x.DType(), f)
	}
}

// compare reports the first element that differs, every NaN being one value.
func compare(t testing.TB, what string, d num.DType, got, want []uint32) {
	t.Helper()
	if f := trial.Values.Difference(what, arrayOf(d, got), arrayOf(d, want)); f != nil {
		t.Errorf("%s: %v", d, f)
	}
}

// arrayOf returns an array of one row with the given patterns.
func arrayOf(d num.DType, patterns []uint32) num.Array {
	a := num.NewArray(d, 1, len(patterns))
	trial.FillBits(a, func(_, c int) uint32 { return patterns[c] })
	return a
}
