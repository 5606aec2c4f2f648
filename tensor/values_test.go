package tensor

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/num"
)

// Every device path gives the same bytes.
func devices(t testing.TB) map[string]device.Device {
	d := host(t)
	return map[string]device.Device{"host": d, "remote": remote{d}}
}

func TestFromFloat32RoundsOnce(t *testing.T) {
	inf := float32(math.Inf(1))
	values := []float32{
		1, -0.5, float32(math.Copysign(0, -1)), inf, -inf,
		1 + 0x1p-11,                // halfway in f16: to even, 1
		1 + 3*0x1p-11,              // halfway in f16: to even, 1 + 2^-9
		1 + 0x1p-8 + 0x1p-23,       // just above halfway in bf16
		65520,                      // f16: to infinity
		0x1p-24, 0x1p-25, 0x1p-149, // subnormal
		math.MaxFloat32,
	}
	for name, dev := range devices(t) {
		for _, c := range []struct {
			dtype num.DType
			want  []byte
		}{
			{num.F16, []byte{
				0x00, 0x3c, 0x00, 0xb8, 0x00, 0x80, 0x00, 0x7c, 0x00, 0xfc,
				0x00, 0x3c, 0x02, 0x3c, 0x04, 0x3c, 0x00, 0x7c, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x7c,
			}},
			{num.BF16, []byte{
				0x80, 0x3f, 0x00, 0xbf, 0x00, 0x80, 0x80, 0x7f, 0x80, 0xff,
				0x80, 0x3f, 0x80, 0x3f, 0x81, 0x3f, 0x80, 0x47, 0x80, 0x33, 0x00, 0x33, 0x00, 0x00, 0x80, 0x7f,
			}},
			{num.E4M3, []byte{0x38, 0xb0, 0x80, 0x7f, 0xff, 0x38, 0x38, 0x38, 0x7f, 0, 0, 0, 0x7f}},
			{num.E5M2, []byte{0x3c, 0xb8, 0x80, 0x7c, 0xfc, 0x3c, 0x3c, 0x3c, 0x7c, 0, 0, 0, 0x7c}},
		} {
			x := must(FromFloat32(dev, c.dtype, values, len(values)))
			got, err := x.Bytes()
			if err != nil || !bytes.Equal(got, c.want) {
				t.Errorf("%s: %v:\n got %x\nwant %x (%v)", name, c.dtype, got, c.want, err)
			}
			back, err := x.Float32s()
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range values {
				if want := num.Round(c.dtype, v); math.Float32bits(back[i]) != math.Float32bits(want) {
					t.Errorf("%s: %v: %v reads back as %v, want %v", name, c.dtype, v, back[i], want)
				}
			}
		}
		x := must(FromFloat32(dev, num.F32, values, len(values)))
		back, err := x.Float32s()
		for i, v := range values {
			if err != nil || math.Float32bits(back[i]) != math.Float32bits(v) {
				t.Errorf("%s: f32: %v reads back as %v, %v", name, v, back[i], err)
			}
		}
	}
}

func TestFromInt32AndBytes(t *testing.T) {
	for name, dev := range devices(t) {
		x := must(FromInt32(dev, []int32{1, -100, math.MinInt32, math.MaxInt32}, 2, 2))
		raw, err := x.Bytes()
		if want := []byte{1, 0, 0, 0, 0x9c, 0xff, 0xff, 0xff, 0, 0, 0, 0x80, 0xff, 0xff, 0xff, 0x7f}; err != nil || !bytes.Equal(raw, want) {
			t.Errorf("%s: bytes %x, want %x (%v)", name, raw, want, err)
		}
		y := must(FromBytes(dev, num.I32, raw, 4))
		if got, err := y.Int32s(); err != nil || !slices.Equal(got, []int32{1, -100, math.MinInt32, math.MaxInt32}) {
			t.Errorf("%s: Int32s() = %v, %v", name, got, err)
		}
		raw[0] = 77
		if got, _ := y.Int32s(); got[0] != 1 {
			t.Errorf("%s: the tensor kept the caller's bytes", name)
		}
	}
}

func TestFromRefuses(t *testing.T) {
	d := host(t)
	for text, do := range map[string]func() (*Tensor, error){
		"tensor.FromFloat32: values have length 3, want 4 for f16 [2 2]": func() (*Tensor, error) {
			return FromFloat32(d, num.F16, make([]float32, 3), 2, 2)
		},
		"tensor.FromFloat32: dtype is i32, want f16, bf16, f32, e4m3 or e5m2": func() (*Tensor, error) {
			return FromFloat32(d, num.I32, make([]float32, 4), 2, 2)
		},
		"tensor.FromFloat32: dtype is none": func() (*Tensor, error) { return FromFloat32(d, num.NoDType, make([]float32, 4), 4) },
		"tensor.FromFloat32: values have length 1, want 1099511627776 for f32 [1099511627776]": func() (*Tensor, error) {
			return FromFloat32(d, num.F32, make([]float32, 1), 1<<40) // before any attempt to allocate it
		},
		"tensor.FromInt32: values have length 0, want 1 for i32 []": func() (*Tensor, error) { return FromInt32(d, nil) },
		"tensor.FromBytes: bytes have length 9, want 8 for f16 [4]": func() (*Tensor, error) { return FromBytes(d, num.F16, make([]byte, 9), 4) },
		"tensor.FromBytes: device is nil":                           func() (*Tensor, error) { return FromBytes(nil, num.F16, make([]byte, 8), 4) },
	} {
		x, err := do()
		if x != nil || !errors.Is(err, ErrBadArgument) || !strings.HasPrefix(err.Error(), text) {
			t.Errorf("got %v, %v; want %q", x, err, text)
		}
	}
	if u := d.Usage(); u.PeakBytes != 0 {
		t.Errorf("refused calls allocated %d bytes", u.PeakBytes)
	}
}

func TestSetRefuses(t *testing.T) {
	d := host(t)
	x, labels := ramp(t, d, 2, 2), must(FromInt32(d, []int32{7, 8}, 2))
	before, _ := x.Bytes()
	for text, err := range map[string]error{
		"tensor.SetFloat32s: values have length 3, want 4 for f32 [2 2]":              x.SetFloat32s([]float32{9, 9, 9}),
		"tensor.SetFloat32s: tensor has dtype i32, want f16, bf16, f32, e4m3 or e5m2": labels.SetFloat32s([]float32{9, 9}),
		"tensor.SetInt32s: tensor has dtype f32, want i32":                            x.SetInt32s([]int32{9, 9, 9, 9}),
		"tensor.SetInt32s: values have length 3, want 2":                              labels.SetInt32s([]int32{9, 9, 9}),
		"tensor.SetBytes: bytes have length 15, want 16 for f32 [2 2]":                x.SetBytes(make([]byte, 15)),
		"tensor.CopyFrom: source has dtype i32, want f32":                             x.CopyFrom(labels),
		"tensor.CopyFrom: source has shape [4], want [2 2]":                           x.CopyFrom(ramp(t, d, 4)),
	} {
		if !errors.Is(err, ErrBadArgument) || !strings.HasPrefix(err.Error(), text) {
			t.Errorf("got %v; want %q", err, text)
		}
	}
	if _, err := labels.Float32s(); !errors.Is(err, ErrBadArgument) {
		t.Errorf("Float32s of i32: %v", err)
	}
	if _, err := x.Int32s(); !errors.Is(err, ErrBadArgument) {
		t.Errorf("Int32s of f32: %v", err)
	}
	after, _ := x.Bytes()
	if ints, _ := labels.Int32s(); !bytes.Equal(before, after) || !slices.Equal(ints, []int32{7, 8}) {
		t.Error("a refused call wrote")
	}
}

// A view is written and read row by row; what lies between its rows stays.
func TestStridedValues(t *testing.T) {
	for name, dev := range devices(t) {
		x := ramp(t, dev, 4, 5)
		v := must(x.Slice(1, 3, 1, 4))
		if got, err := v.Float32s(); err != nil || !slices.Equal(got, []float32{6, 7, 8, 11, 12, 13}) {
			t.Errorf("%s: Float32s() = %v, %v", name, got, err)
		}
		if err := v.SetFloat32s([]float32{-1, -2, -3, -4, -5, -6}); err != nil {
			t.Fatal(err)
		}
		want := []float32{
			0, 1, 2, 3, 4,
			5, -1, -2, -3, 9,
			10, -4, -5, -6, 14,
			15, 16, 17, 18, 19,
		}
		if got, _ := x.Float32s(); !slices.Equal(got, want) {
			t.Errorf("%s: after writing the view:\n got %v\nwant %v", name, got, want)
		}
		raw, err := v.Bytes()
		if err != nil || len(raw) != 24 {
			t.Fatalf("%s: %d bytes, %v", name, len(raw), err)
		}
		raw[3] ^= 0x80 // the sign of the first
		if err := v.SetBytes(raw); err != nil {
			t.Fatal(err)
		}
		if got, _ := x.Float32s(); got[6] != 1 || got[7] != -2 {
			t.Errorf("%s: SetBytes wrote %v", name, got)
		}
	}
}

func TestCopyFrom(t *testing.T) {
	all := devices(t)
	for to, toDevice := range all {
		for from, fromDevice := range all {
			x, y := ramp(t, fromDevice, 4, 5), ramp(t, toDevice, 3, 7)
			src := must(x.Slice(1, 3, 1, 4))
			dst := must(y.Slice(1, 3, 4, 7))
			if err := dst.CopyFrom(src); err != nil {
				t.Fatal(err)
			}
			want := []float32{
				0, 1, 2, 3, 4, 5, 6,
				7, 8, 9, 10, 6, 7, 8,
				14, 15, 16, 17, 11, 12, 13,
			}
			if got, _ := y.Float32s(); !slices.Equal(got, want) {
				t.Errorf("%s from %s:\n got %v\nwant %v", to, from, got, want)
			}
		}
	}
}

func TestCopyFromOverlap(t *testing.T) {
	x := ramp(t, host(t), 4, 6)
	slice := func(rowLo, rowHi, colLo, colHi int) *Tensor {
		return must(x.Slice(rowLo, rowHi, colLo, colHi))
	}
	if err := slice(0, 2, 0, 3).CopyFrom(slice(0, 2, 0, 3)); err != nil {
		t.Errorf("to itself: %v", err)
	}
	if err := slice(0, 2, 0, 3).CopyFrom(slice(1, 3, 0, 3)); !errors.Is(err, ErrBadArgument) {
		t.Errorf("one row further: %v", err)
	}
	if got, _ := x.Float32s(); got[0] != 0 || got[6] != 6 {
		t.Error("a refused copy wrote")
	}
	if err := slice(0, 4, 0, 3).CopyFrom(slice(0, 4, 3, 6)); err != nil {
		t.Errorf("columns beside: %v", err)
	}
	if got, _ := x.Float32s(); got[0] != 3 || got[20] != 23 {
		t.Errorf("columns beside: %v", got)
	}
}

// TestInts stores integers of each width and reads them back, exactly.
func TestInts(t *testing.T) {
	dev := host(t)
	wide := []int64{math.MinInt64, -1, 0, 1, math.MaxInt64, 1 << 40}
	x, err := FromInts(dev, wide, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := x.Ints(); err != nil || !slices.Equal(got, wide) || x.DType() != num.I64 {
		t.Errorf("int64: got %v %v, %v", x.DType(), got, err)
	}
	y, err := FromInts(dev, []int8{-128, -1, 127}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := y.Ints(); err != nil || !slices.Equal(got, []int64{-128, -1, 127}) || y.DType() != num.I8 {
		t.Errorf("int8: got %v %v, %v", y.DType(), got, err)
	}
	for _, err := range []error{y.SetInt32s([]int32{1, 2, 3}), y.SetFloat32s([]float32{1, 2, 3})} {
		if err == nil {
			t.Error("a tensor of i8 took values of another type")
		}
	}
	if _, err := (*Tensor)(nil).Ints(); err == nil {
		t.Error("no tensor has integers")
	}
}
