package optest

import (
	"fmt"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/tensor"
)

// OK ends the test if there is an error.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Vector is a tensor of rank 1 on the shared CPU queue's device, each value
// rounded to d.
func Vector(t testing.TB, d num.DType, values ...float32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromFloat32(cpu.Queue().Device(), d, values, len(values))
	OK(t, err)
	return x
}

// Matrix is a tensor of rank 2 with as many columns as fit the values.
func Matrix(t testing.TB, d num.DType, rows int, values ...float32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromFloat32(cpu.Queue().Device(), d, values, rows, len(values)/rows)
	OK(t, err)
	return x
}

// Ints is an int32 tensor of rank 1.
func Ints(t testing.TB, values ...int32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromInt32(cpu.Queue().Device(), values, len(values))
	OK(t, err)
	return x
}

// Garbage is a tensor that holds what must be overwritten.
func Garbage(t testing.TB, d num.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(cpu.Queue().Device(), d, shape...)
	OK(t, err)
	raw := make([]byte, x.Len()*d.Size())
	for i := range raw {
		raw[i] = canary
	}
	OK(t, x.SetBytes(raw))
	return x
}

// Patterns is a tensor of rank 1 with the given stored patterns.
func Patterns(t testing.TB, d num.DType, patterns ...uint32) *tensor.Tensor {
	t.Helper()
	a := num.NewArray(d, 1, len(patterns))
	for i, p := range patterns {
		a.SetBits(0, i, p)
	}
	x, err := tensor.FromBytes(cpu.Queue().Device(), d, a.Data, len(patterns))
	OK(t, err)
	return x
}

// All is a tensor of shape [rows, n/rows] that holds n consecutive patterns.
func All(t testing.TB, d num.DType, first uint32, n, rows int) *tensor.Tensor {
	t.Helper()
	a := num.NewArray(d, 1, n)
	for i := range n {
		a.SetBits(0, i, first+uint32(i))
	}
	x, err := tensor.FromBytes(cpu.Queue().Device(), d, a.Data, rows, n/rows)
	OK(t, err)
	return x
}

// Bits are the stored patterns of a tensor in row-major order.
func Bits(t testing.TB, x *tensor.Tensor) []uint32 {
	t.Helper()
	raw, err := x.Bytes()
	OK(t, err)
	a := num.Array{DType: x.DType(), Rows: 1, Cols: x.Len(), Stride: x.Len(), Data: raw}
	bits := make([]uint32, x.Len())
	for i := range bits {
		bits[i] = a.Bits(0, i)
	}
	return bits
}

// Floats are the values of a tensor.
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

// WantBits compares a tensor with patterns.
func WantBits(t testing.TB, what string, x *tensor.Tensor, want ...uint32) {
	t.Helper()
	compare(t, what, x.DType(), Bits(t, x), want)
}

// SameBits compares two tensors.
func SameBits(t testing.TB, what string, x, want *tensor.Tensor) {
	t.Helper()
	compare(t, what, x.DType(), Bits(t, x), Bits(t, want))
}

// shownDifferences is how many places a failure lists.
const shownDifferences = 4

func compare(t testing.TB, what string, d num.DType, got, want []uint32) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s has %d elements, want %d", what, len(got), len(want))
		return
	}
	var places []string
	n := 0
	for i := range got {
		if num.Canonical(d, got[i]) == num.Canonical(d, want[i]) {
			continue
		}
		if n++; n <= shownDifferences {
			places = append(places, fmt.Sprintf("[%d] is %s, want %s", i, show(d, got[i]), show(d, want[i])))
		}
	}
	if n > 0 {
		t.Errorf("%s (%s): %d of %d differ: %s", what, d, n, len(got), strings.Join(places, "; "))
	}
}

// show is a pattern in hex and decimal.
func show(d num.DType, bits uint32) string {
	return fmt.Sprintf("0x%0*x (%v)", 2*d.Size(), bits, num.Widen(d, bits))
}
