package engine_test

import (
	"testing"
	"unsafe"

	"errors"
	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
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

// Unknown settings, and queues that are closed, are refused.
func TestMisuse(t *testing.T) {
	q := newQueue(t)
	call := func(q *engine.Queue, opts ...engine.CallOption) error {
		return engine.Run(q, flat, valid(t, q)[flat], opts...)
	}
	if err := call(q, nil); err != nil {
		t.Errorf("a nil option: %v", err)
	}
	wantRefusal(t, call(q, engine.WithPolicy(77)), "flat: policy is 77, want Fast or Same")
	wantRefusal(t, call(q, engine.WithBadIndex(77)), "flat: bad_index is 77, want Reject or Skip")
	wantRefusal(t, call(q, engine.WithAdmission(77)), "flat: admission is 77, want SelfTest or Off")
	wantRefusal(t, call(q, engine.Using(nil)), "flat: lowering has no Compile, want a lowering that can be compiled")
	wantRefusal(t, engine.Run(q, &def.Definition{Name: "unbuilt"}, nil), "engine.Run: definition is empty, want one that package def built")
	again := q.With(engine.WithPolicy(engine.Same))
	args := valid(t, q)[flat]
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	for _, closed := range []*engine.Queue{q, again} {
		if err := engine.Run(closed, flat, args); !errors.Is(err, device.ErrClosed) {
			t.Errorf("a closed queue: got %v", err)
		}
	}
}

// A kernel may make calls of its own, also while it is being admitted.
func TestKernelThatCalls(t *testing.T) {
	q := newQueue(t)
	nested := &engine.Lowering{
		Name: "cpu.nested", Device: "cpu",
		Compile: func(dev device.Device, d *def.Definition, dtypes []num.DType, class int) (engine.Kernel, error) {
			inner, err := engine.Lowerings(cpu.Backend, d)[0].Compile(dev, d, dtypes, class)
			return engine.KernelFunc(func(l *engine.Launch) error {
				if err := engine.Run(q, probe, valid(t, q)[probe], engine.WithParams(probeParams)); err != nil {
					return err
				}
				return inner.Launch(l)
			}), err
		},
	}
	if err := engine.Run(q, flat, valid(t, q)[flat], engine.Using(nested)); err != nil {
		t.Fatal(err)
	}
}

// Admit reaches every class of shapes, not only that of small tensors.
func TestAdmitReachesEveryClass(t *testing.T) {
	q := newQueue(t)
	classes := map[int]bool{}
	usual := engine.Lowerings(cpu.Backend, probe)[0]
	watched := *usual
	watched.Name = "cpu.watched"
	watched.Compile = func(dev device.Device, d *def.Definition, dtypes []num.DType, class int) (engine.Kernel, error) {
		classes[class] = true
		return usual.Compile(dev, d, dtypes, class)
	}
	dtypes := make([]num.DType, len(probe.Operands))
	for i, o := range probe.Operands {
		dtypes[i] = valid(t, q)[probe][o.Name].DType()
	}
	l, err := engine.Admit(q, probe, dtypes, engine.Using(&watched))
	if err != nil || l != &watched {
		t.Fatalf("got %v, %v", l, err)
	}
	if len(classes) != 2 {
		t.Errorf("classes %v were compiled, want short and long rows", classes)
	}
	wantRefusal(t, func() error { _, err := engine.Admit(q, flat, nil); return err }(), "flat: call has 0 formats, want 2")
}

// The parameters of a typed call are its arguments.
func TestCallRefusesNamedParameters(t *testing.T) {
	q := newQueue(t)
	args := valid(t, q)[flat]
	err := engine.Call(q, flat, []*tensor.Tensor{args["x"], args["y"]}, nil, engine.WithParams(engine.Params{"nonsense": 3}))
	wantRefusal(t, err, "flat: WithParams is given, want the parameters as arguments: names are for Run and Eval")
}

// Nothing of a queue panics on one that is no queue.
func TestNoQueue(t *testing.T) {
	for _, q := range []*engine.Queue{nil, {}} {
		if err := q.Wait(); !errors.Is(err, tensor.ErrBadArgument) {
			t.Errorf("Wait: got %v", err)
		}
		if err := q.Close(); err != nil {
			t.Errorf("Close: got %v", err)
		}
		q.With(engine.WithPolicy(engine.Same)).WithContext(t.Context())
	}
}
