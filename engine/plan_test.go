package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/reference"
	"tokitai/tensor"
)

// TestCanceledFirstCall: a call whose context ends while its kernel is compiled returns,
// and so does one that waits for it; the kernel is compiled all the same, once.
func TestCanceledFirstCall(t *testing.T) {
	q := cpu.Queue()
	x, err := tensor.FromFloat32(q.Device(), num.F16, []float32{1, 2, 3, 4}, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	y, err := tensor.New(q.Device(), num.F16, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	var compiled atomic.Int32
	compiling, goOn := make(chan struct{}), make(chan struct{})
	good := engine.Lowerings(cpu.Backend, softmax.ForwardDefinition)[0]
	slow := &engine.Lowering{
		Name: "cpu.slow", Device: "cpu", Class: good.Class,
		Compile: func(dev device.Device, d *def.Definition, dtypes []num.DType, class int) (engine.Kernel, error) {
			compiled.Add(1)
			close(compiling)
			<-goOn
			return good.Compile(dev, d, dtypes, class)
		},
	}
	call := func(ctx context.Context) error {
		return engine.Call(q.WithContext(ctx), softmax.ForwardDefinition, []*tensor.Tensor{x, y}, nil, engine.Using(slow))
	}
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error)
	go func() { results <- call(ctx) }()
	<-compiling
	go func() { results <- call(ctx) }()
	cancel()
	for range 2 {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it was canceled", err)
		}
	}
	close(goOn)
	if err := call(t.Context()); err != nil {
		t.Error(err)
	}
	if n := compiled.Load(); n != 1 {
		t.Errorf("compiled %d times, want once", n)
	}
}

// TestSuitsAndYields: a call that names no lowering passes by those that cannot compute it
// and those that leave it to others; a call that names one has it, unless it cannot.
func TestSuitsAndYields(t *testing.T) {
	q := newQueue(t)
	var ran []string
	named := func(name string) *engine.Lowering {
		return lowering(name, func(d *def.Definition, l *engine.Launch) error {
			ran = append(ran, name)
			return reference.Run(d, l.Arrays(), reference.Options{})
		})
	}
	wide, large, any := named("cpu.wide"), named("cpu.large"), named("cpu.any")
	errNarrow := errors.New("a row has an odd number of columns")
	wide.Suits = func(_ device.Device, _ *def.Definition, c *lower.Call) error {
		if c.Operands[0].Cols%2 == 1 {
			return errNarrow
		}
		return nil
	}
	large.Yields = func(_ *def.Definition, c *lower.Call) bool { return c.Operands[0].Rows < 8 }
	setLowerings(q, new(def.Product), wide, large, any)
	for _, row := range []struct {
		m, k int
		name string
		want string // that runs; "" if the call is refused
	}{
		{3, 4, "", "cpu.wide"},
		{9, 5, "", "cpu.large"},
		{3, 5, "", "cpu.any"},
		{3, 5, "cpu.large", "cpu.large"}, // it yields, but is named
		{3, 5, "cpu.wide", ""},
	} {
		var opts []engine.CallOption
		if row.name != "" {
			opts = append(opts, engine.WithLowering(row.name))
		}
		a, b, c := matrix(t, q, num.F16, row.m, row.k), matrix(t, q, num.F16, row.k, 6), matrix(t, q, num.F16, row.m, 6)
		ran = nil
		err := gemm.Forward(q.With(engine.WithAdmission(engine.Off)), c, a, b, opts...)
		if row.want == "" {
			if unsuited, ok := errors.AsType[*engine.UnsuitedError](err); !ok || !errors.Is(unsuited, errNarrow) || len(ran) > 0 {
				t.Errorf("%d rows, %d summed, %q: got %v, ran %v", row.m, row.k, row.name, err, ran)
			}
			continue
		}
		if err != nil || !slices.Equal(ran, []string{row.want}) {
			t.Errorf("%d rows, %d summed, %q: %v ran, %v, want %s", row.m, row.k, row.name, ran, err, row.want)
		}
	}
}
