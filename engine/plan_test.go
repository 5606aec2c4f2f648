package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/softmax"
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
