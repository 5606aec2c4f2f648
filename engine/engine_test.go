package engine_test

import (
	"testing"
	"unsafe"

	"tokitai/device/cpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/tensor"
)

// newQueue is a queue on a device of its own, so that no other test has made its plans.
func newQueue(t testing.TB, opts ...engine.Option) *engine.Queue {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	q, err := engine.NewQueue(dev, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// matrix is a tensor of ordinary values, or of zeros if it is of integers.
func matrix(t testing.TB, q *engine.Queue, dtype num.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(q.Device(), dtype, shape...)
	if err != nil {
		t.Fatal(err)
	}
	if dtype == num.I32 {
		return x
	}
	g := gen.New("matrix")
	a, _ := x.Array()
	for r := range a.Rows {
		for c := range a.Cols {
			a.Set(r, c, g.Ordinary())
		}
	}
	return x
}

func indices(t testing.TB, q *engine.Queue, values ...int32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromInt32(q.Device(), values, len(values))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func mustBytes(t testing.TB, x *tensor.Tensor) []byte {
	t.Helper()
	raw, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// recorder is an observer that remembers what it saw.
type recorder struct {
	before, after int
	refuse        error
	record        *engine.Record
	err           error
}

func (o *recorder) Before(r *engine.Record) error {
	o.before++
	o.record = r
	return o.refuse
}

func (o *recorder) After(_ *engine.Record, err error) {
	o.after++
	o.err = err
}

func (o *recorder) lowering() string {
	if o.record == nil {
		return "none"
	}
	return o.record.Lowering.Name
}

// unsafeBytes is memory some bytes away from p, as code that is not Go would reach it.
func unsafeBytes(p *byte, offset, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(p), offset)), n)
}
