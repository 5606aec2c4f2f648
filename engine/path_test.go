package engine_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	backends "tokitai/backend/all"
	"tokitai/backend/cpu"
	"tokitai/backend/cuda"
	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/gputest"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/crossentropy"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// typedCalls is a call of every operation, on small tensors that it may use again.
func typedCalls(t testing.TB, q *engine.Queue) map[string]func() error {
	t.Helper()
	half := func() *tensor.Tensor { return matrix(t, q, num.F16, 4, 40) }
	x, y, dx := half(), half(), half()
	square, product := matrix(t, q, num.F16, 40, 40), half()
	row, column := func() *tensor.Tensor { return matrix(t, q, num.F32, 4) }, func() *tensor.Tensor { return matrix(t, q, num.F16, 40) }
	mean, rstd, loss, gamma, beta, dgamma, dbeta := row(), row(), row(), column(), column(), column(), column()
	label, index := indices(t, q, 1, 2, 3, 0), indices(t, q, 3, 3, 0, 1)
	state := adamw.State{Weight: half(), M: matrix(t, q, num.F32, 4, 40), V: matrix(t, q, num.F32, 4, 40)}
	hyper := adamw.DefaultHyper
	total := matrix(t, q, num.F32)
	xs := []*tensor.Tensor{x}
	named := engine.Args{"y": y, "mean": mean, "rstd": rstd, "x": x, "gamma": gamma, "beta": beta}
	options := []engine.CallOption{engine.WithPolicy(engine.Same), engine.WithParams(engine.Params{"eps": 1e-6})}
	return map[string]func() error{
		"softmax.forward":    func() error { return softmax.Forward(q, y, x) },
		"softmax.backward":   func() error { return softmax.Backward(q, dx, x, y) },
		"gelu.forward":       func() error { return gelu.Forward(q, y, x) },
		"gelu.backward":      func() error { return gelu.Backward(q, dx, y, x) },
		"layernorm.forward":  func() error { return layernorm.Forward(q, y, mean, rstd, x, gamma, beta, layernorm.DefaultParams) },
		"layernorm.backward": func() error { return layernorm.Backward(q, dx, dgamma, dbeta, y, x, gamma, mean, rstd) },
		"crossentropy":       func() error { return crossentropy.Run(q, loss, dx, x, label, crossentropy.DefaultParams) },
		"gemm.forward":       func() error { return gemm.Forward(q, product, x, square) },
		"embedding.forward":  func() error { return embedding.Forward(q, y, index, x) },
		"embedding.backward": func() error { return embedding.Backward(q, y, index, x) },
		"adamw.step":         func() error { return adamw.Step(q, adamw.Update{State: state, Grad: x, Hyper: hyper, T: 1}) },
		"norm.square_sum":    func() error { return norm.SquareSum(q, total, xs) },
		"by name":            func() error { return engine.Run(q, layernorm.ForwardDefinition, named) },
		"with options":       func() error { return engine.Run(q, layernorm.ForwardDefinition, named, options...) },
	}
}

// noOpQueue is a queue on a GPU that does nothing.
func noOpQueue(t testing.TB) *engine.Queue {
	t.Helper()
	dev, err := gpu.Open(gputest.NoOp(), 0, gpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	q, err := engine.NewQueue(cuda.New(dev), engine.WithAdmission(engine.Off)) // there are no answers to be right
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestCallsAllocateNothing holds once a plan exists.
func TestCallsAllocateNothing(t *testing.T) {
	if isRaceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	for device, q := range map[string]*engine.Queue{
		"cpu": newQueue(t), "gpu": noOpQueue(t),
	} {
		for name, call := range typedCalls(t, q) {
			for range 3 { // the plan, then the memory that calls keep
				if err := call(); err != nil {
					t.Fatal(err)
				}
			}
			if n := testing.AllocsPerRun(100, func() { call() }); n != 0 {
				t.Errorf("%s: %s: %v allocations a call, want none", device, name, n)
			}
		}
	}
}

// BenchmarkLaunch is what a call on a GPU costs in Go: its driver's functions do nothing.
func BenchmarkLaunch(b *testing.B) {
	calls := typedCalls(b, noOpQueue(b))
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		b.Run("op="+name, func(b *testing.B) {
			call := calls[name]
			b.ReportAllocs()
			for b.Loop() {
				if err := call(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRun is what a run of 50 recorded calls costs in Go, and a run of calls that have all
// got other parameters.
func BenchmarkRun(b *testing.B) {
	q := noOpQueue(b)
	const calls = 50
	grad := matrix(b, q, num.BF16, 4, 40)
	var states []adamw.State
	for range calls {
		states = append(states, adamw.State{Weight: matrix(b, q, num.BF16, 4, 40), M: matrix(b, q, num.F32, 4, 40), V: matrix(b, q, num.F32, 4, 40)})
	}
	number := 0
	step := func(q *engine.Queue) error {
		number++
		hyper := adamw.DefaultHyper
		hyper.LR = 1 / float64(number)
		for i, s := range states {
			if err := adamw.Step(q, adamw.Update{Mode: adamw.Stochastic, State: s, Grad: grad, Hyper: hyper, T: number, Random: adamw.Random{Tensor: int32(i)}}); err != nil {
				return err
			}
		}
		return nil
	}
	recording, err := q.Record(step)
	if err != nil {
		b.Fatal(err)
	}
	defer recording.Close()
	for name, run := range map[string]func() error{
		"calls":  func() error { return step(q) },
		"run":    func() error { return recording.Run(q) },
		"update": func() error { return errors.Join(recording.Update(step), recording.Run(q)) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := run(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*calls), "ns/call")
		})
	}
}

// TestCallsTakeNoLock makes calls while someone else makes plans.
func TestCallsTakeNoLock(t *testing.T) {
	q := newQueue(t)
	calls := typedCalls(t, q)
	for _, call := range calls {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	private.Adding(q).Lock()
	done := make(chan error, len(calls)+1)
	go func() {
		for _, call := range calls {
			done <- call()
		}
	}()
	for range calls {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(5 * time.Minute):
			t.Fatal("a call whose plan exists waits for plans being made")
		}
	}
	x := matrix(t, q, num.BF16, 2, 3) // has no plan yet
	go func() { done <- softmax.Forward(q, x, x) }()
	select {
	case <-done:
		t.Error("a call whose plan does not exist did not wait: the test shows nothing")
	case <-time.After(20 * time.Millisecond):
	}
	private.Adding(q).Unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	for _, p := range []engine.Policy{engine.Fast, engine.Same} {
		if got, err := engine.ParsePolicy(p.String()); got != p || err != nil {
			t.Errorf("%s: got %v, %v", p, got, err)
		}
	}
	for _, b := range []engine.BadIndex{engine.Reject, engine.Skip} {
		if got, err := engine.ParseBadIndex(b.String()); got != b || err != nil {
			t.Errorf("%s: got %v, %v", b, got, err)
		}
	}
	for _, a := range []engine.Admission{engine.SelfTest, engine.Off} {
		if got, err := engine.ParseAdmission(a.String()); got != a || err != nil {
			t.Errorf("%s: got %v, %v", a, got, err)
		}
	}
	for want, err := range map[string]error{
		`policy "x": want fast or same`:        second(engine.ParsePolicy("x")),
		`bad_index "": want reject or skip`:    second(engine.ParseBadIndex("")),
		`admission "On": want selftest or off`: second(engine.ParseAdmission("On")),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestOpen(t *testing.T) {
	for _, name := range []string{"cpu", "auto"} {
		dev, err := backends.Open(name)
		if err != nil || dev.Name() != "cpu" {
			t.Errorf("%s: got %v, %v", name, dev, err)
			continue
		}
		dev.Close()
	}
	var none *device.NoDeviceError
	if _, err := backends.Open("cuda:0"); !errors.As(err, &none) {
		t.Errorf("cuda:0: got %v, want a NoDeviceError", err)
	}
	if _, err := backends.Open("abacus"); err == nil {
		t.Error("an unknown name is opened")
	}
	if first, again := cpu.Queue(), cpu.Queue(); first != again || first.Device().Name() != "cpu" {
		t.Error("the shared queue is not shared")
	}
	q := newQueue(t)
	if err := q.Wait(); err != nil {
		t.Error(err)
	}
	if err := q.Close(); err != nil || !errors.Is(q.Wait(), device.ErrClosed) {
		t.Errorf("a closed queue waits: %v, %v", err, q.Wait())
	}
}

// Parameters that a call by name leaves out have their defaults, whatever the call before
// had.
func TestRunTakesDefaults(t *testing.T) {
	q := newQueue(t)
	scaled := func(opts ...engine.CallOption) float32 {
		t.Helper()
		loss, dx := matrix(t, q, num.F32, 1), matrix(t, q, num.F32, 1, 2)
		args := engine.Args{"logits": matrix(t, q, num.F32, 1, 2), "label": indices(t, q, 0), "loss": loss, "dlogits": dx}
		if err := engine.Run(q, crossentropy.Definition, args, opts...); err != nil {
			t.Fatal(err)
		}
		values, err := dx.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		return values[1]
	}
	plain := scaled()
	for range 3 {
		if got := scaled(engine.WithParams(engine.Params{"scale": 8})); got != 8*plain {
			t.Errorf("with scale 8 the gradient is %v times what it is with the default, want 8", got/plain)
		}
		if got := scaled(); got != plain || plain == 0 {
			t.Errorf("without a scale the gradient is %v, then %v", plain, got)
		}
	}
}
