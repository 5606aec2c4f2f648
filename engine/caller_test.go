package engine_test

import (
	"context"
	"errors"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// elsewhere is a Caller that computes here, one call after another, and fails at one.
type elsewhere struct {
	lists [][]engine.RemoteCall
	fail  int // of a list, or -1
}

var errElsewhere = errors.New("elsewhere")

func (e *elsewhere) Reaches(device.Device) bool { return true }

func (e *elsewhere) Call(ctx context.Context, calls []engine.RemoteCall) (int, error) {
	e.lists = append(e.lists, calls)
	for i, c := range calls {
		if i == e.fail {
			return i, errElsewhere
		}
		if err := engine.Call(cpu.Queue().WithContext(ctx), c.Definition, c.Tensors, c.Params, engine.WithPolicy(c.Policy), engine.WithBadIndex(c.BadIndex)); err != nil {
			return i, err
		}
	}
	return len(calls), nil
}

// chain are calls, each of which reads what the one before wrote.
func chain(t *testing.T, n int) (calls []engine.CallSpec, last *tensor.Tensor) {
	t.Helper()
	x, err := tensor.FromFloat32(cpu.Queue().Device(), num.F32, []float32{1, 2, 3, 4}, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		y, err := tensor.New(x.Device(), num.F32, 1, 4)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, engine.CallSpec{Definition: softmax.ForwardDefinition, Tensors: []*tensor.Tensor{x, y}})
		x = y
	}
	return calls, x
}

func bitsOf(t *testing.T, x *tensor.Tensor) string {
	t.Helper()
	raw, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestCallAll(t *testing.T) {
	calls, want := chain(t, 3)
	for _, c := range calls {
		if err := engine.Call(cpu.Queue(), c.Definition, c.Tensors, nil); err != nil {
			t.Fatal(err)
		}
	}
	other := &elsewhere{fail: -1}
	for _, q := range []*engine.Queue{cpu.Queue(), cpu.Queue().With(engine.WithCaller(other), engine.WithPolicy(engine.Same))} {
		calls, got := chain(t, 3)
		if err := engine.CallAll(q, calls); err != nil {
			t.Fatal(err)
		}
		if bitsOf(t, got) != bitsOf(t, want) {
			t.Error("calls together give other bits than one after another")
		}
		// The last is wrong: none is made.
		calls, _ = chain(t, 3)
		zeros := bitsOf(t, calls[0].Tensors[1])
		calls[2].Tensors[1] = nil
		err := engine.CallAll(q, calls)
		failed, ok := errors.AsType[*engine.CallsError](err)
		if !ok || failed.At != 2 || failed.IsBegun || !errors.Is(err, tensor.ErrBadArgument) {
			t.Errorf("a bad call: %v", err)
		}
		if bitsOf(t, calls[0].Tensors[1]) != zeros {
			t.Error("calls were made though one of them is refused")
		}
	}
	if len(other.lists) != 1 || len(other.lists[0]) != 3 || other.lists[0][0].Policy != engine.Same {
		t.Errorf("the other place was given %v", other.lists)
	}
	for at, isBegun := range []bool{false, true} {
		calls, _ := chain(t, 3)
		err := engine.CallAll(cpu.Queue(), calls, engine.WithCaller(&elsewhere{fail: at}))
		if failed, ok := errors.AsType[*engine.CallsError](err); !ok || failed.At != at || failed.IsBegun != isBegun || !errors.Is(err, errElsewhere) {
			t.Errorf("a failure at %d: %v", at, err)
		}
	}
	if err := engine.CallAll(nil, calls); !errors.Is(err, tensor.ErrBadArgument) {
		t.Errorf("no queue: %v", err)
	}
	if err := engine.CallAll(cpu.Queue(), nil); err != nil {
		t.Errorf("no calls: %v", err)
	}
}

// TestCallerRefuses holds calls that cannot be made elsewhere.
func TestCallerRefuses(t *testing.T) {
	calls, _ := chain(t, 1)
	other := &elsewhere{fail: -1}
	for what, option := range map[string]engine.Option{
		"a lowering of this process": engine.Using(&engine.Lowering{Name: "mine", Device: "cpu", Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) { return nil, nil }}),
		"an observer":                engine.WithObserver(nil),
	} {
		err := engine.Call(cpu.Queue(), calls[0].Definition, calls[0].Tensors, nil, engine.WithCaller(other), option)
		if !errors.Is(err, tensor.ErrBadArgument) || len(other.lists) != 0 {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCheckOnlyElsewhere finds a bad index without asking the other place.
func TestCheckOnlyElsewhere(t *testing.T) {
	dev := cpu.Queue().Device()
	index, err := tensor.FromInt32(dev, []int32{2}, 1)
	if err != nil {
		t.Fatal(err)
	}
	weight, err := tensor.New(dev, num.F32, 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	out, err := tensor.New(dev, num.F32, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	other := &elsewhere{fail: -1}
	err = embedding.Forward(cpu.Queue(), out, index, weight, engine.WithCaller(other), engine.CheckOnly())
	if _, ok := errors.AsType[*engine.IndexError](err); !ok || len(other.lists) != 0 {
		t.Errorf("got %v and %d lists, want an IndexError and none", err, len(other.lists))
	}
}
