package engine_test

import (
	"bytes"
	"errors"
	"testing"

	"tokitai/backend/gpu"
	"tokitai/backend/gputest"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// onGPUs runs a test on a simulator and on a GPU.
func onGPUs(t *testing.T, test func(t *testing.T, dev *gpu.Device)) {
	t.Run("sim", func(t *testing.T) { test(t, gputest.NeedsSim(t, 32)) })
	t.Run("cuda", func(t *testing.T) { test(t, gputest.NeedsCUDA(t)) })
}

func queueOn(t testing.TB, dev device.Device, opts ...engine.Option) *engine.Queue {
	t.Helper()
	q, err := engine.NewQueue(dev, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// twoLabels has two operands of indices, and every kind of kernel.
var twoLabels = def.Must(def.Rowwise("two_labels", func(b *def.Builder) {
	x, ignore := b.In("x"), b.IntParam("ignore")
	first, second := b.InIndex("first"), b.InIndex("second", ignore)
	sum := def.RowSum(x)
	b.Out("y", x.Sub(sum), def.Like("x"))
	b.OutRow("picked", x.At(first).Add(def.Select(second.Equal(ignore), def.One, x.At(second))), def.Only(num.F32))
	b.OutCol("columns", def.ColSum(x.Mul(sum)), def.Only(num.F32))
	b.OutScalar("total", def.TotalSum(x), def.Only(num.F32))
}))

// filled is a tensor of one value.
func filled(t testing.TB, dev device.Device, dtype num.DType, value float32, shape ...int) *tensor.Tensor {
	t.Helper()
	n := 1
	for _, s := range shape {
		n *= s
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = value
	}
	x, err := tensor.FromFloat32(dev, dtype, values, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// rejected is a call of each kind of definition, on outputs that it would change.
func rejected(t testing.TB, dev device.Device, d *def.Definition, first, second []int32) engine.Args {
	t.Helper()
	in := func(dtype num.DType, shape ...int) *tensor.Tensor { return filled(t, dev, dtype, 1.5, shape...) }
	out := func(dtype num.DType, shape ...int) *tensor.Tensor { return filled(t, dev, dtype, 77, shape...) }
	index := func(values []int32) *tensor.Tensor {
		x, err := tensor.FromInt32(dev, values, len(values))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	n := len(first)
	switch d {
	case rows:
		return engine.Args{"index": index(first), "table": in(num.F16, 4, 40), "out": out(num.F16, n, 40)}
	case sums:
		return engine.Args{"index": index(first), "rows": in(num.F16, n, 40), "result": out(num.F32, 4, 40)}
	}
	return engine.Args{"x": in(num.F16, n, 4), "first": index(first), "second": index(second), "y": out(num.F16, n, 4), "picked": out(num.F32, n),
		"columns": out(num.F32, 4), "total": out(num.F32)}
}

// TestRejectOnDevice: the error of a bad index is the CPU's, comes from waiting, and
// nothing has been written; calls before and after it compute.
func TestRejectOnDevice(t *testing.T) {
	params := engine.WithParams(engine.Params{"ignore": -100})
	many := func(bad map[int]int32) []int32 {
		list := make([]int32, 3000) // more than there are threads, and for sums than a chunk
		for i, v := range bad {
			list[i] = v
		}
		return list
	}
	onGPUs(t, func(t *testing.T, dev *gpu.Device) {
		q := queueOn(t, dev, engine.WithAdmission(engine.Off))
		host := newQueue(t, engine.WithAdmission(engine.Off))
		for _, x := range []struct {
			d             *def.Definition
			first, second []int32
			want          string
		}{
			{rows, []int32{0, 3, 4, -1}, nil, "rows: index[2] is 4, want 0 to 3"},
			{rows, many(map[int]int32{2999: -2147483648, 1300: 2147483647}), nil, "rows: index[1300] is 2147483647, want 0 to 3"},
			{sums, many(map[int]int32{2999: -2147483648}), nil, "sums: index[2999] is -2147483648, want 0 to 3"},
			{sums, []int32{4, 1}, nil, "sums: index[0] is 4, want 0 to 3"},
			{twoLabels, []int32{0, 1, 2}, []int32{-100, 3, -1}, "two_labels: second[2] is -1, want 0 to 3 or -100 (ignore)"},
			{twoLabels, []int32{0, -100, 2}, []int32{-100, 3, 4}, "two_labels: first[1] is -100, want 0 to 3"},
		} {
			opts := []engine.CallOption{}
			if x.d == twoLabels {
				opts = append(opts, params)
			}
			args, good := rejected(t, dev, x.d, x.first, x.second), rejected(t, dev, x.d, []int32{1, 2, 3}, []int32{1, 2, 3})
			before := contents(args)
			run := func(args engine.Args) error { return engine.Run(q, x.d, args, opts...) }
			if err := errors.Join(run(good), run(args), run(good)); err != nil {
				t.Fatalf("%s: %v", x.want, err)
			}
			err := q.Wait()
			if _, ok := err.(*engine.IndexError); !ok || err.Error() != x.want {
				t.Errorf("got %v\nwant %s", err, x.want)
			}
			if err := q.Wait(); err != nil {
				t.Errorf("%s is told twice: %v", x.want, err)
			}
			if err := engine.Run(host, x.d, rejected(t, host.Device(), x.d, x.first, x.second), opts...); err == nil || err.Error() != x.want {
				t.Errorf("the CPU: got %v\nwant %s", err, x.want)
			}
			wantUnchanged(t, x.want, before, args)
			for name, raw := range contents(good) {
				if o := &x.d.Operands[x.d.Operand(name)]; o.IsOut && bytes.Contains(raw, mustBytes(t, filled(t, dev, good[name].DType(), 77, 1))) {
					t.Errorf("%s: a call with good indices has not written %s", x.d.Name, name)
				}
			}
			// Calls that wait for their result return the error themselves.
			bad := rejected(t, dev, x.d, x.first, x.second)
			if err := engine.Run(q, x.d, bad, append(opts, engine.CheckOnly())...); err == nil || err.Error() != x.want {
				t.Errorf("only checked: got %v\nwant %s", err, x.want)
			}
			if _, err := engine.Eval(q, x.d, bad, opts...); err == nil || err.Error() != x.want {
				t.Errorf("evaluated: got %v\nwant %s", err, x.want)
			}
			if err := errors.Join(engine.Run(q, x.d, bad, append(opts, engine.WithBadIndex(engine.Skip))...), q.Wait()); err != nil {
				t.Errorf("%s, skipped: %v", x.want, err)
			}
		}
	})
}

// TestRejectIsTold until it is taken: by later calls once it is known, of any operation,
// on this queue alone; not by the tests of a kernel that is first used then.
func TestRejectIsTold(t *testing.T) {
	const want = "rows: index[1] is 9, want 0 to 3"
	onGPUs(t, func(t *testing.T, dev *gpu.Device) {
		q, other := queueOn(t, dev, engine.WithAdmission(engine.Off)), queueOn(t, dev, engine.WithAdmission(engine.Off))
		call := func(q *engine.Queue, index ...int32) error {
			return engine.Run(q, rows, rejected(t, dev, rows, index, nil))
		}
		if err := errors.Join(call(q, 1, 9), call(q, 1, 2), call(other, 3)); err != nil {
			t.Fatal(err)
		}
		// A kernel that is admitted meanwhile.
		x, y := filled(t, dev, num.F16, 1, 2, 3), filled(t, dev, num.F16, 0, 2, 3)
		if err := engine.Run(q.With(engine.WithAdmission(engine.SelfTest)), flat, engine.Args{"x": x, "y": y}); err != nil {
			t.Fatalf("admission: %v", err)
		}
		if err := other.Wait(); err != nil {
			t.Errorf("the other queue: %v", err)
		}
		if err := q.Wait(); err == nil || err.Error() != want {
			t.Errorf("waiting: got %v, want %s", err, want)
		}
		if err := errors.Join(call(q, 1), q.Wait()); err != nil {
			t.Errorf("after it was taken: %v", err)
		}
		if err := errors.Join(call(q, 1), call(q, 0, 9), call(q, 9)); err != nil {
			t.Fatal(err)
		}
		if err := q.Close(); err == nil || err.Error() != want+"\nrows: index[0] is 9, want 0 to 3" {
			t.Errorf("closing: got %v", err)
		}
		if err := q.Wait(); !errors.Is(err, device.ErrClosed) {
			t.Errorf("a closed queue: %v", err)
		}
	})
}

// TestRejectIsKnown by later calls when an event is seen to be done, with its own type.
func TestRejectIsKnown(t *testing.T) {
	onGPUs(t, func(t *testing.T, dev *gpu.Device) {
		q := queueOn(t, dev, engine.WithAdmission(engine.Off))
		if err := engine.Run(q, rows, rejected(t, dev, rows, []int32{1, 9}, nil)); err != nil {
			t.Fatal(err)
		}
		e, err := q.DeviceQueue().Record()
		if err != nil {
			t.Fatal(err)
		}
		for !e.Done() {
		}
		x, y := filled(t, dev, num.F16, 1, 2, 3), filled(t, dev, num.F16, 0, 2, 3)
		for range 2 {
			err := engine.Run(q, flat, engine.Args{"x": x, "y": y})
			if _, ok := err.(*engine.IndexError); !ok {
				t.Errorf("a later call: got %v", err)
			}
		}
		if _, ok := e.Wait(t.Context()).(*engine.IndexError); !ok {
			t.Errorf("the event: got %v", err)
		}
		if err := errors.Join(engine.Run(q, flat, engine.Args{"x": x, "y": y}), q.Wait()); err != nil {
			t.Errorf("after it was taken: %v", err)
		}
	})
}
