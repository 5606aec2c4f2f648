package tensor

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/device/cpu"
	"tokitai/num"
)

func host(t testing.TB) *cpu.Device {
	t.Helper()
	d, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// remote is the host behind a wall: its buffers can be copied to and from, but
// not addressed. It stands for a device with memory of its own.
type remote struct{ *cpu.Device }

type remoteBuffer struct{ device.Buffer }

func (r remote) Name() string { return "remote" }

func (r remote) Alloc(bytes int64) (device.Buffer, error) {
	b, err := r.Device.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	return &remoteBuffer{b}, nil
}

func (r remote) NewQueue() (device.Queue, error) { return nil, context.Canceled }

func must(x *Tensor, err error) *Tensor {
	if err != nil {
		panic(err)
	}
	return x
}

// ramp returns a tensor of dtype F32 whose elements are 0, 1, 2, ...
func ramp(t testing.TB, dev device.Device, shape ...int) *Tensor {
	t.Helper()
	n := 1
	for _, s := range shape {
		n *= s
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	return must(FromFloat32(dev, num.F32, values, shape...))
}

func TestFolding(t *testing.T) {
	d := host(t)
	for _, c := range []struct {
		shape      []int
		rows, cols int
	}{
		{nil, 1, 1},
		{[]int{5}, 1, 5},
		{[]int{1}, 1, 1},
		{[]int{3, 4}, 3, 4},
		{[]int{2, 3, 4}, 6, 4},
		{[]int{2, 1, 3, 1}, 6, 1},
	} {
		x, err := New(d, num.BF16, c.shape...)
		if err != nil {
			t.Fatal(err)
		}
		if x.Rows() != c.rows || x.Cols() != c.cols || x.RowStride() != c.cols || x.Len() != c.rows*c.cols ||
			x.Rank() != len(c.shape) || !x.IsContiguous() || x.Offset() != 0 || x.DType() != num.BF16 {
			t.Errorf("shape %v: %d x %d, stride %d, %d elements, rank %d", c.shape, x.Rows(), x.Cols(), x.RowStride(), x.Len(), x.Rank())
		}
		if !slices.Equal(x.Shape(), c.shape) || x.Buffer().Bytes() != int64(2*x.Len()) || x.Device() != device.Device(d) {
			t.Errorf("shape %v: Shape() = %v, %d bytes", c.shape, x.Shape(), x.Buffer().Bytes())
		}
	}
}

func TestShapeIsTheTensorsOwn(t *testing.T) {
	shape := []int{2, 3}
	x := must(New(host(t), num.F32, shape...))
	shape[1] = 7
	if !slices.Equal(x.Shape(), []int{2, 3}) {
		t.Errorf("the caller's slice became the tensor's: %v", x.Shape())
	}
}

func TestNewRefuses(t *testing.T) {
	d := host(t)
	for _, c := range []struct {
		dev   device.Device
		dtype num.DType
		shape []int
		text  string
	}{
		{nil, num.F32, []int{2}, "tensor.New: device is nil"},
		{d, num.NoDType, []int{2}, "tensor.New: dtype is none, want f16, bf16, f32, e4m3, e5m2 or i32"},
		{d, num.DType(99), []int{2}, "tensor.New: dtype is DType(99), want"},
		{d, num.F32, []int{-3}, "tensor.New: shape is [-3], want no size below 0"},
		{d, num.F32, []int{math.MinInt, math.MinInt}, "want no size below 0"},
		{d, num.F32, []int{0, -1}, "want no size below 0"},
		{d, num.F32, []int{math.MaxInt}, "want at most 2305843009213693951 elements of f32"},
		{d, num.F16, []int{math.MaxInt/2 + 1}, "want at most 4611686018427387903 elements of f16"},
		{d, num.F16, []int{1 << 32, 1 << 32}, "want at most"},          // 2^64
		{d, num.F16, []int{1 << 32, 1 << 31}, "want at most"},          // 2^63
		{d, num.F16, []int{1 << 32, 1 << 32, 3}, "want at most"},       // 3 * 2^64
		{d, num.F16, []int{1<<32 + 1, 1<<32 - 1, 1}, "want at most"},   // 2^64 - 1
		{d, num.F16, []int{3037000500, 3037000500, 2}, "want at most"}, // wraps to a negative number
	} {
		x, err := New(c.dev, c.dtype, c.shape...)
		if x != nil || !errors.Is(err, ErrBadArgument) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("New(%v, %v) = %v, %v; want %q", c.dtype, c.shape, x, err, c.text)
		}
	}
}

// TestEmpty has tensors without elements, of every shape that has none, and their views.
func TestEmpty(t *testing.T) {
	d := host(t)
	whole := ramp(t, d, 4, 6)
	for name, x := range map[string]*Tensor{
		"no rows": must(New(d, num.F32, 0, 6)), "no columns": must(New(d, num.F32, 4, 0)), "a vector": must(FromInt32(d, nil, 0)),
		"a slice of rows": must(whole.Slice(2, 2, 1, 4)), "a slice at the end": must(whole.Slice(4, 4, 0, 6)), "a slice of columns": must(whole.Slice(0, 4, 6, 6)),
		"deep": must(New(d, num.F16, 3, 0, 5)), "reshaped": must(must(New(d, num.F32, 0, 6)).Reshape(5, 0, 2)), "expanded": must(whole.Expand(0, 4, 6)),
		"in a buffer": must(At(whole.Buffer(), whole.Buffer().Bytes(), num.F32, 6, 0, 6)),
	} {
		a, ok := x.Array()
		raw, err := x.Bytes()
		if x.Len() != 0 || !x.Folds() || !x.IsContiguous() || x.IsBroadcast() || !ok || a.Rows*a.Cols != 0 || err != nil || len(raw) != 0 {
			t.Errorf("%s: %v, array of %d×%d, %d bytes, %v", name, x, a.Rows, a.Cols, len(raw), err)
		}
		if err := x.SetBytes(nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := x.CopyFrom(must(New(d, x.DType(), x.Shape()...))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if Overlap(x, whole) != Disjoint {
			t.Errorf("%s overlaps another tensor", name)
		}
	}
}

func TestNewOutOfMemory(t *testing.T) {
	d, err := cpu.New(cpu.Options{MemoryLimit: 100})
	if err != nil {
		t.Fatal(err)
	}
	x, err := New(d, num.F32, 5, 6)
	var oom *device.OutOfMemoryError
	if x != nil || !errors.As(err, &oom) || oom.Asked != 120 || oom.Free != 100 || errors.Is(err, ErrBadArgument) {
		t.Errorf("New = %v, %v", x, err)
	}
	d.Close()
	if x, err := New(d, num.F32, 1); x != nil || !errors.Is(err, device.ErrClosed) {
		t.Errorf("New on a closed device = %v, %v", x, err)
	}
	var none *cpu.Device
	if x, err := New(none, num.F32, 1); x != nil || err == nil {
		t.Errorf("New on a nil device = %v, %v", x, err)
	}
}

func TestNilTensor(t *testing.T) {
	var x *Tensor
	if x.DType() != num.NoDType || x.Shape() != nil || x.Rank() != 0 || x.Rows() != 0 || x.Cols() != 0 || x.RowStride() != 0 ||
		x.Len() != 0 || x.IsContiguous() || x.Buffer() != nil || x.Device() != nil || x.Offset() != 0 || x.String() != "nil tensor" {
		t.Error("an accessor of a nil tensor is not zero")
	}
	if _, ok := x.Array(); ok {
		t.Error("a nil tensor has an Array")
	}
	if err := x.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// calls returns all methods that return an error on a tensor they cannot use.
func calls(x, other *Tensor) map[string]func() error {
	second := func(_ any, err error) error { return err }
	return map[string]func() error{
		"Slice":       func() error { return second(x.Slice(0, 1, 0, 1)) },
		"Reshape":     func() error { return second(x.Reshape(x.Shape()...)) },
		"Float32s":    func() error { return second(x.Float32s()) },
		"Int32s":      func() error { return second(x.Int32s()) },
		"Bytes":       func() error { return second(x.Bytes()) },
		"SetFloat32s": func() error { return x.SetFloat32s(make([]float32, x.Len())) },
		"SetInt32s":   func() error { return x.SetInt32s(make([]int32, x.Len())) },
		"SetBytes":    func() error { return x.SetBytes(make([]byte, x.Len()*x.DType().Size())) },
		"CopyFrom":    func() error { return x.CopyFrom(other) },
		"Check":       func() error { return Check("tensor.Check", "tensor", x) },
	}
}

func TestUnusableTensors(t *testing.T) {
	d := host(t)
	good := ramp(t, d, 2, 3)
	closed := ramp(t, d, 2, 3)
	view := must(closed.Slice(0, 2, 0, 2))
	ofClosedDevice := ramp(t, host(t), 2, 3)
	ofClosedDevice.Device().Close()
	closedView := must(good.Slice(0, 2, 0, 2))
	closedView.Close()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	for name, x := range map[string]*Tensor{
		"nil": nil, "closed": closed, "view of closed": view, "closed view": closedView, "zero value": {}, "of a closed device": ofClosedDevice,
	} {
		for call, do := range calls(x, good) {
			err := do()
			var bad *device.ArgumentError
			if !errors.Is(err, ErrBadArgument) || !errors.As(err, &bad) || bad.Op != "tensor."+call {
				t.Errorf("%s tensor: %s: %v", name, call, err)
				continue
			}
			if x == nil && !strings.Contains(err.Error(), "tensor is nil") {
				t.Errorf("%s tensor: %s: %v", name, call, err)
			}
			if x != nil && (!errors.Is(err, device.ErrClosed) || !strings.Contains(err.Error(), "tensor is closed")) {
				t.Errorf("%s tensor: %s: %v", name, call, err)
			}
		}
		if err := good.CopyFrom(x); !errors.Is(err, ErrBadArgument) || !strings.Contains(err.Error(), "source is ") {
			t.Errorf("CopyFrom a %s tensor: %v", name, err)
		}
		if _, ok := x.Array(); ok {
			t.Errorf("%s tensor: has an Array", name)
		}
		if Overlap(x, good) == Overlapping && name != "closed view" {
			t.Errorf("%s tensor: overlaps another", name)
		}
		_ = x.String()
	}
	if got, err := good.Float32s(); err != nil || !slices.Equal(got, []float32{0, 1, 2, 3, 4, 5}) {
		t.Errorf("closing a view closed its tensor: %v, %v", got, err)
	}
	if closed.Rows() != 2 || closed.Cols() != 3 || closed.DType() != num.F32 || closed.Device() == nil {
		t.Error("the accessors of a closed tensor no longer answer")
	}
}

func TestCloseGivesMemoryBack(t *testing.T) {
	d := host(t)
	x := ramp(t, d, 8, 8)
	v := must(x.Slice(0, 4, 0, 4))
	v.Close()
	if u := d.Usage(); u.LiveBytes != 256 {
		t.Errorf("closing a view: %d bytes live, want 256", u.LiveBytes)
	}
	x.Close()
	if u := d.Usage(); u.LiveBytes != 0 {
		t.Errorf("closing the tensor: %d bytes live", u.LiveBytes)
	}
}

func TestString(t *testing.T) {
	d := host(t)
	x := ramp(t, d, 2, 3)
	v := must(x.Slice(0, 2, 1, 3))
	scalar := ramp(t, d)
	for _, c := range []struct {
		x    *Tensor
		want string
	}{
		{x, "f32 [2 3] on cpu"},
		{v, "f32 [2 2] on cpu, row stride 3"},
		{scalar, "f32 [] on cpu"},
		{new(Tensor), "empty tensor"},
	} {
		if got := c.x.String(); got != c.want {
			t.Errorf("String() = %q, want %q", got, c.want)
		}
	}
	x.Close()
	if got, want := v.String(), "f32 [2 2] on cpu, row stride 3, closed"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

func TestBadArgumentText(t *testing.T) {
	for want, e := range map[string]*device.ArgumentError{
		"softmax.forward: y has shape [4 8], want [4 16] like x":              {Op: "softmax.forward", Operand: "y", Got: "has shape [4 8]", Want: "[4 16] like x"},
		"softmax.forward: x is nil":                                           {Op: "softmax.forward", Operand: "x", Got: "is nil"},
		"softmax.forward: y has shape [4 8], want [4 16] like x (softmax.C1)": {Op: "softmax.forward", Operand: "y", Got: "has shape [4 8]", Want: "[4 16] like x", Clause: "softmax.C1"},
	} {
		if e.Error() != want {
			t.Errorf("error reads %q, want %q", e, want)
		}
		if !errors.Is(e, ErrBadArgument) || errors.Is(e, device.ErrClosed) {
			t.Errorf("%q: wrong kind of error", e)
		}
	}
}

func TestArraySharesMemory(t *testing.T) {
	d := host(t)
	x := ramp(t, d, 4, 6)
	v := must(x.Slice(1, 4, 2, 5))
	a, ok := v.Array()
	if !ok || a.DType != num.F32 || a.Rows != 3 || a.Cols != 3 || a.Stride != 6 || len(a.Data) != (2*6+3)*4 {
		t.Fatalf("Array() = %+v, %v", a, ok)
	}
	for r := range 3 {
		for c := range 3 {
			if got, want := a.At(r, c), float32((r+1)*6+c+2); got != want {
				t.Errorf("element %d,%d is %v, want %v", r, c, got, want)
			}
		}
	}
	a.Set(2, 2, -1)
	if got, _ := x.Float32s(); got[3*6+4] != -1 {
		t.Error("the Array is a copy")
	}
	far := ramp(t, remote{d}, 2, 2)
	if _, ok := far.Array(); ok {
		t.Error("memory that the host cannot address has an Array")
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	d := host(t)
	x := ramp(t, d, 8, 8)
	a := must(x.Slice(0, 8, 0, 3))
	b := must(x.Slice(0, 8, 2, 8))
	y := ramp(t, d, 8, 8)
	sum := 0
	if allocs := testing.AllocsPerRun(100, func() {
		for _, v := range [...]*Tensor{x, a, b, y} {
			if Check("op", "x", v) != nil {
				t.Error("refused")
			}
			array, _ := v.Array()
			sum += len(array.Data) + v.Rows() + v.Cols() + v.RowStride() + v.Len() + v.Rank() + len(v.Shape()) + int(v.Offset()) + int(v.DType())
			if v.Device() == nil || v.Buffer() == nil || (v.IsContiguous() && v == a) {
				t.Error("wrong")
			}
		}
		if Overlap(a, b) != Overlapping || Overlap(x, y) != Disjoint || Overlap(x, x) != Identical {
			t.Error("wrong relation")
		}
		if y.CopyFrom(x) != nil {
			t.Error("copy refused")
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
