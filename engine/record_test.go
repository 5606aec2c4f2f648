package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"tokitai/backend/cpu"
	"tokitai/backend/cuda"
	"tokitai/backend/gputest"
	"tokitai/def"
	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/driver"
	driverless "tokitai/device/gpu/gputest"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/norm"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// model is what a step of training works on: an embedding whose rows are pulled towards
// their softmax.
type model struct {
	index, out, y, grad *tensor.Tensor
	state               adamw.State
}

func newModel(t testing.TB, dev device.Device) *model {
	t.Helper()
	const words, width = 6, 40
	must := func(x *tensor.Tensor, err error) *tensor.Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	values := make([]float32, words*width)
	for i := range values {
		values[i] = float32(i*i%37)/7 - 2
	}
	return &model{
		index: must(tensor.FromInt32(dev, []int32{3, 0, 5, 3}, 4)),
		out:   must(tensor.New(dev, num.BF16, 4, width)),
		y:     must(tensor.New(dev, num.BF16, 4, width)),
		grad:  must(tensor.New(dev, num.BF16, words, width)),
		state: adamw.State{
			Weight: must(tensor.FromFloat32(dev, num.BF16, values, words, width)),
			M:      must(tensor.New(dev, num.F32, words, width)),
			V:      must(tensor.New(dev, num.F32, words, width)),
		},
	}
}

// gradient computes a gradient: of a gather, a rowwise definition and a scatter-add, which
// needs scratch memory.
func (m *model) gradient(q *engine.Queue) error {
	if err := embedding.Forward(q, m.out, m.index, m.state.Weight); err != nil {
		return err
	}
	if err := softmax.Forward(q, m.y, m.out); err != nil {
		return err
	}
	return embedding.Backward(q, m.grad, m.index, m.y)
}

// update is the rest of step t, whose learning rate is another for each.
func (m *model) update(q *engine.Queue, t int) error {
	hyper := adamw.DefaultHyper
	hyper.LR = 0.1 / float64(t)
	return adamw.Step(q, adamw.Update{Mode: adamw.Stochastic, State: m.state, Grad: m.grad, Hyper: hyper, T: t, Random: adamw.Random{Seed: 0x123456789abcdef0, Tensor: 3}})
}

func (m *model) step(q *engine.Queue, t int) error {
	return errors.Join(m.gradient(q), m.update(q, t))
}

func (m *model) bits(t testing.TB) []byte {
	t.Helper()
	var all []byte
	for _, x := range []*tensor.Tensor{m.out, m.y, m.grad, m.state.Weight, m.state.M, m.state.V} {
		all = append(all, mustBytes(t, x)...)
	}
	return all
}

// recordingQueues are queues on which recordings are tested.
func recordingQueues(t *testing.T) map[string]*engine.Queue {
	t.Helper()
	queues := map[string]*engine.Queue{"cpu": newQueue(t)}
	for _, width := range testlevel.Pick([]int{32}, []int{32, 64}) {
		q, err := engine.NewQueue(gputest.NeedsSim(t, width), engine.WithAdmission(engine.Off)) // others test that
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.Close() })
		queues[q.Device().Name()] = q
	}
	return queues
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantRejection(t testing.TB, what string, err error, target error, text string) {
	t.Helper()
	if !errors.Is(err, target) || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("%s: got %v, want %v with %q", what, err, target, text)
	}
}

// TestRecording runs 100 steps of training by calls and by a recording whose learning rate,
// step number and random words change with each run: they have the same bits after every step.
func TestRecording(t *testing.T) {
	for name, q := range recordingQueues(t) {
		t.Run(name, func(t *testing.T) {
			plain, recorded := newModel(t, q.Device()), newModel(t, q.Device())
			before := recorded.bits(t)
			rec, err := q.Record(func(q *engine.Queue) error { return recorded.step(q, 1) })
			must(t, err)
			defer rec.Close()
			if rec.Len() != 4 {
				t.Errorf("%d calls, want 4", rec.Len())
			}
			if !bytes.Equal(recorded.bits(t), before) {
				t.Fatal("recording has run something")
			}
			for i := 1; i <= 100; i++ {
				must(t, plain.step(q, i))
				if i > 1 {
					must(t, rec.Update(func(q *engine.Queue) error { return recorded.update(q, i) }))
				}
				must(t, rec.Run(q))
				must(t, q.Wait())
				if !bytes.Equal(recorded.bits(t), plain.bits(t)) {
					t.Fatalf("step %d: the recording's bits are not those of the calls", i)
				}
			}
			same := recorded.bits(t)
			must(t, rec.Run(q))
			must(t, plain.step(q, 100))
			if !bytes.Equal(recorded.bits(t), plain.bits(t)) || bytes.Equal(recorded.bits(t), same) {
				t.Error("a run without an update is not the last step again")
			}
		})
	}
}

// An update may leave out calls, and makes no change if it fails or names others.
func TestRecordingUpdate(t *testing.T) {
	q := newQueue(t)
	m, other := newModel(t, q.Device()), newModel(t, q.Device())
	rec, err := q.Record(func(q *engine.Queue) error { return errors.Join(m.update(q, 1), m.gradient(q), m.update(q, 1)) })
	must(t, err)
	defer rec.Close()
	plain := newModel(t, q.Device())
	check := func(what string, first, second int) {
		t.Helper()
		must(t, rec.Run(q))
		must(t, errors.Join(plain.update(q, first), plain.gradient(q), plain.update(q, second)))
		if !bytes.Equal(m.bits(t), plain.bits(t)) {
			t.Errorf("%s: the steps were not %d and %d", what, first, second)
		}
	}
	check("as recorded", 1, 1)
	must(t, rec.Update(func(q *engine.Queue) error { return m.update(q, 7) }))
	check("the first of two", 7, 1)
	must(t, rec.Update(func(q *engine.Queue) error { return errors.Join(m.update(q, 7), m.update(q, 9)) }))
	check("both", 7, 9)
	must(t, rec.Update(func(q *engine.Queue) error { return errors.Join(m.gradient(q), m.update(q, 2)) }))
	check("the one after others", 7, 2)
	view, err := m.state.Weight.Reshape(m.state.Weight.Shape()...)
	must(t, err)
	must(t, rec.Update(func(q *engine.Queue) error {
		renamed := *m
		renamed.state.Weight = view
		return renamed.update(q, 3)
	}))
	check("by another name of the same memory", 3, 2)
	must(t, rec.Update(func(q *engine.Queue) error { return nil }))
	check("nothing", 3, 2)
	must(t, rec.Update(func(q *engine.Queue) error { return errors.Join(m.update(q, 4), m.update(q, 5), m.gradient(q)) }))
	check("another order", 4, 5)
	must(t, rec.Update(func(q *engine.Queue) error { return errors.Join(m.gradient(q), m.update(q, 2), m.update(q, 3)) }))
	check("from the middle on, and then the first", 3, 2)

	errOwn := errors.New("of its own")
	for what, c := range map[string]struct {
		update func(q *engine.Queue) error
		target error
		text   string
	}{
		"its own error":  {func(q *engine.Queue) error { return errors.Join(m.update(q, 50), errOwn) }, errOwn, ""},
		"other tensors":  {func(q *engine.Queue) error { return errors.Join(m.update(q, 50), other.update(q, 50)) }, device.ErrBadArgument, "adamw.step.stochastic: call is not among the recorded calls"},
		"more calls":     {func(q *engine.Queue) error { return errors.Join(m.update(q, 50), m.update(q, 51), m.update(q, 52)) }, device.ErrBadArgument, "and no more often"},
		"other options":  {func(q *engine.Queue) error { return m.update(q.With(engine.WithLowering("cpu.reference")), 50) }, device.ErrBadArgument, "not among"},
		"a bad argument": {func(q *engine.Queue) error { return m.update(q, 0) }, device.ErrBadArgument, "lr is +Inf"},
		"waiting":        {func(q *engine.Queue) error { return errors.Join(m.update(q, 50), q.Wait()) }, device.ErrBadArgument, "queue is recording"},
	} {
		wantRejection(t, what, rec.Update(c.update), c.target, c.text)
		check("after "+what, 3, 2)
	}
	wantRejection(t, "no function", rec.Update(nil), device.ErrBadArgument, "function is nil")
}

// The memory of tensors that are closed while calls are recorded belongs to the recording.
// Updates make others like them.
func TestRecordingTemporaries(t *testing.T) {
	for name, q := range recordingQueues(t) {
		t.Run(name, func(t *testing.T) {
			m, plain := newModel(t, q.Device()), newModel(t, q.Device())
			step := func(m *model, q *engine.Queue, number int) error {
				// The softmax of a softmax, with a temporary in between.
				between, err := tensor.New(q.Device(), num.BF16, m.out.Shape()...)
				if err != nil {
					return err
				}
				defer between.Close()
				return errors.Join(
					embedding.Forward(q, m.out, m.index, m.state.Weight),
					softmax.Forward(q, between, m.out),
					softmax.Forward(q, m.y, between),
					embedding.Backward(q, m.grad, m.index, m.y),
					m.update(q, number),
				)
			}
			warm := newModel(t, q.Device())
			defer runtime.KeepAlive([]*model{m, plain, warm}) // or their memory is given back meanwhile
			must(t, errors.Join(step(warm, q, 1), q.Wait()))  // the memory that a queue keeps
			before := usedBytes(q)
			rec, err := q.Record(func(q *engine.Queue) error { return step(m, q, 1) })
			must(t, err)
			var others []*tensor.Tensor // which must not be given the temporary's memory
			for i := 1; i <= 4; i++ {
				x, err := tensor.New(q.Device(), num.BF16, m.out.Shape()...)
				must(t, err)
				others = append(others, x)
				must(t, rec.Update(func(q *engine.Queue) error { return step(m, q, i) }))
				must(t, errors.Join(rec.Run(q), step(plain, q, i), q.Wait()))
				if !bytes.Equal(m.bits(t), plain.bits(t)) {
					t.Fatalf("run %d has other bits than the calls", i)
				}
			}
			must(t, rec.Close())
			for i, x := range others {
				if got := mustBytes(t, x); !bytes.Equal(got, make([]byte, len(got))) {
					t.Errorf("the recording has written to tensor %d", i)
				}
				x.Close()
			}
			if got := usedBytes(q); got != before {
				t.Errorf("%d bytes are in use after the recording is closed, %d before it was made", got, before)
			}
		})
	}
	q := newQueue(t)
	adopted, err := q.Device().(*cpu.Device).Adopt(mustAligned(256))
	must(t, err)
	x, err := tensor.At(adopted, 0, num.F32, 8, 8, 8)
	must(t, err)
	_, err = q.Record(func(q *engine.Queue) error {
		defer x.Close()
		return softmax.Forward(q, x, x)
	})
	wantRejection(t, "memory that cannot be kept", err, device.ErrClosed, "softmax.forward: x is closed")
}

// A recording that is dropped without Close gives back its memory when it is collected.
func TestRecordingIsCollected(t *testing.T) {
	q := noOpQueue(t)
	m := newModel(t, q.Device())
	defer runtime.KeepAlive(m)
	before := usedBytes(q)
	_, err := q.Record(func(q *engine.Queue) error {
		between, err := tensor.New(q.Device(), num.BF16, m.out.Shape()...)
		must(t, err)
		defer between.Close()
		return errors.Join(softmax.Forward(q, between, m.out), softmax.Forward(q, m.y, between), embedding.Backward(q, m.grad, m.index, m.y))
	})
	must(t, err)
	if usedBytes(q) == before {
		t.Error("the recording keeps nothing: the test shows nothing")
	}
	for range 1000 {
		runtime.GC()
		if usedBytes(q) == before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d bytes are in use, %d before the recording", usedBytes(q), before)
}

// usedBytes is the memory that a GPU cannot give to other tensors.
func usedBytes(q *engine.Queue) int64 {
	if dev, ok := q.Device().(interface{ Usage() gpu.Usage }); ok {
		return dev.Usage().HeldBytes - dev.Usage().CachedBytes
	}
	return 0
}

// mustAligned returns memory that a device can adopt.
func mustAligned(bytes int) []byte {
	raw := make([]byte, bytes+cpuAlignment)
	return raw[cpuAlignment-int(uintptr(unsafe.Pointer(&raw[0]))%cpuAlignment):][:bytes]
}

const cpuAlignment = 64

// Indices are checked by every run, and not when they are recorded.
func TestRecordingChecksIndices(t *testing.T) {
	for name, q := range recordingQueues(t) {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, q.Device())
			set := func(values ...int32) {
				t.Helper()
				raw := make([]byte, 0, 16)
				for _, v := range values {
					raw = append(raw, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
				}
				must(t, m.index.Buffer().CopyIn(0, raw))
			}
			set(0, 9, 1, -1)
			rec, err := q.Record(m.gradient)
			must(t, err)
			defer rec.Close()
			refused := func(what string, q *engine.Queue) {
				t.Helper()
				before := mustBytes(t, m.grad)
				err := rec.Run(q)
				if err == nil {
					err = q.Wait()
				}
				index, ok := errors.AsType[*engine.IndexError](err)
				if !ok || index.Position != 1 || index.Value != 9 || index.Bound != 6 {
					t.Errorf("%s: got %v", what, err)
				}
				if !bytes.Equal(mustBytes(t, m.grad), before) {
					t.Errorf("%s: a rejected call has written", what)
				}
			}
			refused("the first run", q)
			set(0, 5, 1, 2)
			must(t, errors.Join(rec.Run(q), q.Wait()))
			good := mustBytes(t, m.grad)
			set(0, 9, 1, 2)
			refused("a later run", q)
			set(0, 5, 1, 2)
			must(t, errors.Join(rec.Run(q), q.Wait()))
			set(0, 9, 1, 2)
			if !bytes.Equal(mustBytes(t, m.grad), good) {
				t.Error("a run after a rejected one has other bits")
			}
			all, err := q.Record(func(q *engine.Queue) error {
				return engine.CallAll(q, []engine.CallSpec{{Definition: embedding.ForwardDefinition, Tensors: []*tensor.Tensor{m.index, m.state.Weight, m.out}}})
			})
			must(t, err)
			must(t, all.Close())
			skips, err := q.With(engine.WithBadIndex(engine.Skip)).Record(m.gradient)
			must(t, err)
			defer skips.Close()
			set(0, 9, 1, 2)
			must(t, errors.Join(skips.Run(q), q.Wait()))
		})
	}
}

// A closed tensor makes runs fail before anything is written; so does a closed recording.
func TestRecordingClosed(t *testing.T) {
	for name, q := range recordingQueues(t) {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, q.Device())
			rec, err := q.Record(func(q *engine.Queue) error { return m.step(q, 1) })
			must(t, err)
			before := mustBytes(t, m.state.Weight)
			m.grad.Close()
			wantRejection(t, "a closed tensor", rec.Run(q), device.ErrClosed, "dweight is closed")
			if !bytes.Equal(mustBytes(t, m.state.Weight), before) {
				t.Error("a run with a closed tensor has written")
			}
			wantRejection(t, "an update with a closed tensor", rec.Update(func(q *engine.Queue) error { return m.update(q, 2) }), device.ErrClosed, "grad is closed")
			must(t, errors.Join(rec.Close(), rec.Close()))
			wantRejection(t, "a closed recording", rec.Run(q), device.ErrClosed, "recording is closed")
			wantRejection(t, "an update of it", rec.Update(func(q *engine.Queue) error { return nil }), device.ErrClosed, "recording is closed")
		})
	}
}

func TestRecordRefuses(t *testing.T) {
	q := newQueue(t)
	m := newModel(t, q.Device())
	wrong := func(what string, err error, text string) {
		t.Helper()
		wantRejection(t, what, err, device.ErrBadArgument, text)
	}
	record := func(f func(q *engine.Queue) error) error {
		rec, err := q.Record(f)
		if rec != nil && err != nil {
			t.Error("a recording and an error")
		}
		return err
	}
	wrong("no function", record(nil), "function is nil")
	wrong("no calls", record(func(*engine.Queue) error { return m.update(q, 1) }), "function makes no calls")
	errOwn := errors.New("of its own")
	wantRejection(t, "an error", record(func(q *engine.Queue) error { return errors.Join(m.update(q, 1), errOwn) }), errOwn, "")
	wrong("a wrong call", record(func(q *engine.Queue) error { return softmax.Forward(q, m.y, m.grad) }), "softmax.forward: y has shape")
	wrong("overlap", record(func(q *engine.Queue) error { return embedding.Forward(q, m.state.Weight, m.index, m.state.Weight) }), "embedding.forward")
	wrong("waiting", record(func(q *engine.Queue) error { return q.Wait() }), "engine.Queue.Wait: queue is recording")
	wrong("closing", record(func(q *engine.Queue) error { return q.Close() }), "engine.Queue.Close: queue is recording")
	wrong("a result", record(func(q *engine.Queue) error {
		_, err := engine.Eval(q, softmax.ForwardDefinition, engine.Args{"x": m.out})
		return err
	}), "softmax.forward: queue is recording")
	wrong("a recording", record(func(q *engine.Queue) error {
		_, err := q.Record(m.gradient)
		return err
	}), "engine.Queue.Record: queue is recording")
	wrong("an observer", record(func(q *engine.Queue) error { return m.update(q.With(engine.WithObserver(watcher{})), 1) }), "observer is given")
	_, err := (*engine.Queue)(nil).Record(m.gradient)
	wrong("no queue", err, "queue is nil")

	var kept *engine.Queue
	rec, err := q.Record(func(q *engine.Queue) error {
		kept = q
		return errors.Join(engine.Call(q, softmax.ForwardDefinition, []*tensor.Tensor{m.out, m.y}, nil, engine.CheckOnly()), m.update(q, 1))
	})
	must(t, err)
	defer rec.Close()
	if rec.Len() != 1 {
		t.Errorf("%d calls, want 1: one was only checked", rec.Len())
	}
	wrong("a queue that is kept", m.update(kept, 1), "was for a recording that has been made")
	wrong("running it while recording", record(rec.Run), "engine.Recording.Run: queue is recording")
	wrong("another device", rec.Run(newQueue(t)), "queue is on cpu")
	wrong("a nil recording", (*engine.Recording)(nil).Run(q), "recording is nil")
	wrong("an update of a nil recording", (*engine.Recording)(nil).Update(m.gradient), "recording is nil")
	wrong("no queue to run on", rec.Run(nil), "queue is nil")
	must(t, (*engine.Recording)(nil).Close())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wantRejection(t, "a context that has ended", rec.Run(q.WithContext(ctx)), context.Canceled, "")
}

type watcher struct{}

func (watcher) Before(*engine.Record) error { return nil }
func (watcher) After(*engine.Record, error) {}

// A kernel that may do more than submit work to its queue is launched by every run, in its
// place among the others, and its indices are checked on the host.
func TestRecordingOfOtherKernels(t *testing.T) {
	sim := recordingQueues(t)["sim"]
	m := newModel(t, sim.Device())
	launches := 0
	own := engine.Using(&engine.Lowering{
		Name: "own", Device: "sim",
		Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
			return engine.KernelFunc(func(l *engine.Launch) error { // ones, whatever the input
				launches++
				return l.Buffers[len(l.Buffers)-1].CopyIn(0, bytes.Repeat([]byte{0x80, 0x3f}, 160))
			}), nil
		},
	})
	rec, err := sim.Record(func(q *engine.Queue) error {
		return errors.Join(
			embedding.Forward(q, m.out, m.index, m.state.Weight),
			embedding.Forward(q, m.out, m.index, m.state.Weight, own),
			softmax.Forward(q, m.y, m.out),
			softmax.Forward(q, m.out, m.y, own),
			embedding.Backward(q, m.grad, m.index, m.out),
		)
	})
	must(t, err)
	defer rec.Close()
	if launches != 0 {
		t.Errorf("recording has launched %d kernels", launches)
	}
	for i := range 2 {
		must(t, errors.Join(rec.Run(sim), sim.Wait()))
		if launches != 2*(i+1) {
			t.Errorf("%d launches after run %d", launches, i)
		}
		if got := mustFloats(t, m.y); got[0] != got[159] || got[0] == 0 {
			t.Errorf("softmax of ones begins with %v and ends with %v", got[0], got[159])
		}
		if got := mustFloats(t, m.grad); got[0] != 1 || got[3*40] != 2 {
			t.Errorf("the sums of ones are %v and %v", got[0], got[3*40])
		}
	}
	must(t, m.index.Buffer().CopyIn(0, []byte{9}))
	wantRejection(t, "indices", rec.Run(sim), device.ErrBadArgument, "embedding.forward: index[0] is 9")
}

// A recording of calls that are computed elsewhere passes them on together.
func TestRecordingElsewhere(t *testing.T) {
	other := &elsewhere{fail: -1}
	q := newQueue(t)
	away := q.With(engine.WithCaller(other))
	m, plain := newModel(t, cpu.Queue().Device()), newModel(t, cpu.Queue().Device())
	x := matrix(t, q, num.F32, 2, 8)
	y := matrix(t, q, num.F32, 2, 8)
	rec, err := q.Record(func(q *engine.Queue) error {
		return errors.Join(m.step(q.With(engine.WithCaller(other)), 1), gelu.Forward(q, y, x))
	})
	must(t, err)
	defer rec.Close()
	for i := 1; i <= 3; i++ {
		must(t, rec.Update(func(q *engine.Queue) error { return m.update(q.With(engine.WithCaller(other)), i) }))
		must(t, rec.Run(away))
		must(t, plain.step(cpu.Queue(), i))
		if !bytes.Equal(m.bits(t), plain.bits(t)) {
			t.Fatalf("run %d has other bits than the calls", i)
		}
	}
	list := []engine.CallSpec{{Definition: softmax.ForwardDefinition, Tensors: []*tensor.Tensor{x, y}}}
	all, err := away.Record(func(q *engine.Queue) error { return engine.CallAll(q, list) })
	must(t, err)
	must(t, all.Close())
	if len(other.lists) != 3 || len(other.lists[0]) != 4 {
		t.Errorf("%d lists of calls, want 3 of 4", len(other.lists))
	}
	other.fail = 2
	wantRejection(t, "a failure", rec.Run(q), errElsewhere, "recorded call 2")
}

// Calls that are made together are one launch of the recording too, with tables that have the
// parameters of each, and give the bits that they give one by one on the CPU.
func TestRecordingOfMany(t *testing.T) {
	shapes := [][]int{{3, 40}, {7}, {2, 5, 8}, {16}, {1, 33}}
	type trained struct {
		optimizer *adamw.Optimizer
		weights   []*tensor.Tensor
		grads     []*tensor.Tensor
		total     *tensor.Tensor
	}
	newTrained := func(q *engine.Queue) *trained {
		x := &trained{}
		var parameters []adamw.Parameter
		for i, shape := range shapes {
			n := 1
			for _, size := range shape {
				n *= size
			}
			values := make([]float32, n)
			for k := range values {
				values[k] = float32(k*k%41)/16 - 1
			}
			w, err := tensor.FromFloat32(q.Device(), num.BF16, values, shape...)
			must(t, err)
			g, err := tensor.FromFloat32(q.Device(), num.BF16, values, shape...)
			must(t, err)
			x.weights, x.grads = append(x.weights, w), append(x.grads, g)
			parameters = append(parameters, adamw.Parameter{Weight: w, LRScale: 1 / float64(i+1)})
		}
		var err error
		x.total, err = tensor.New(q.Device(), num.F32)
		must(t, err)
		x.optimizer, err = adamw.New(q, adamw.Options{Mode: adamw.Stochastic, Hyper: adamw.DefaultHyper, Seed: 7}, parameters)
		must(t, err)
		return x
	}
	step := func(q *engine.Queue, x *trained) error {
		x.optimizer.SetLR(0.5 / float64(x.optimizer.Steps()+1))
		return errors.Join(x.optimizer.StepAll(q, x.grads), norm.SquareSum(q, x.total, x.weights))
	}
	one := func(q *engine.Queue, x *trained, i, number int) error {
		m, v := x.optimizer.Moments(i)
		hyper := adamw.DefaultHyper
		hyper.LR, hyper.WeightDecay = 0.5/12*(1/float64(i+1)), 0
		return adamw.Step(q, adamw.Update{Mode: adamw.Stochastic, State: adamw.State{Weight: x.weights[i], M: m, V: v}, Grad: x.grads[i],
			Hyper: hyper, T: number, Random: adamw.Random{Seed: 7, Tensor: int32(i)}})
	}
	bits := func(x *trained) (all []byte) {
		for _, y := range append(x.weights, x.total) {
			all = append(all, mustBytes(t, y)...)
		}
		return all
	}
	for name, q := range recordingQueues(t) {
		t.Run(name, func(t *testing.T) {
			recorded, plain := newTrained(q), newTrained(cpu.Queue())
			rec, err := q.Record(func(q *engine.Queue) error { return step(q, recorded) })
			must(t, err)
			defer rec.Close()
			if want := 2*len(shapes) + 1; rec.Len() != want {
				t.Errorf("%d calls, want %d", rec.Len(), want)
			}
			for i := 1; i <= 12; i++ {
				if i > 1 {
					must(t, rec.Update(func(q *engine.Queue) error { return step(q, recorded) }))
				}
				must(t, errors.Join(rec.Run(q), step(cpu.Queue(), plain)))
				if i%4 == 0 && !bytes.Equal(bits(recorded), bits(plain)) {
					t.Fatalf("step %d has other bits than the CPU's calls", i)
				}
			}
			// One of the many alone is step 50, the others are step 12 again.
			must(t, rec.Update(func(q *engine.Queue) error { return one(q, recorded, 0, 50) }))
			must(t, rec.Run(q))
			for i := range shapes {
				must(t, one(cpu.Queue(), plain, i, []int{50, 12}[min(i, 1)]))
			}
			must(t, norm.SquareSum(cpu.Queue(), plain.total, plain.weights))
			if !bytes.Equal(bits(recorded), bits(plain)) {
				t.Error("with one of many changed, the bits are others than the CPU's")
			}
			must(t, q.Wait())
		})
	}

	// On a GPU there are fewer kernels than calls.
	table := driverless.NoOp()
	nodes := 0
	table.NewGraph = func(list []driver.Node) (driver.Graph, error) {
		nodes = len(list)
		return 1, nil
	}
	dev, err := gpu.Open(table, 0, gpu.Options{})
	must(t, err)
	defer dev.Close()
	q, err := engine.NewQueue(cuda.New(dev), engine.WithAdmission(engine.Off))
	must(t, err)
	x := newTrained(q)
	rec, err := q.Record(func(q *engine.Queue) error { return step(q, x) })
	must(t, err)
	defer rec.Close()
	if nodes == 0 || nodes >= rec.Len() {
		t.Errorf("%d calls are %d nodes of a graph", rec.Len(), nodes)
	}
}

// Several goroutines run and update recordings that share tensors, on queues of their own.
func TestRecordingConcurrently(t *testing.T) {
	for name, q := range recordingQueues(t) {
		t.Run(name, func(t *testing.T) {
			m, y := newModel(t, q.Device()), newModel(t, q.Device())
			rec, err := q.Record(func(q *engine.Queue) error { return m.step(q, 1) })
			must(t, err)
			defer rec.Close()
			own, err := q.Record(func(q *engine.Queue) error { return errors.Join(softmax.Forward(q, y.y, y.out), m.update(q, 1)) })
			must(t, err)
			defer own.Close()
			var group sync.WaitGroup
			for i := range 4 {
				mine, err := engine.NewQueue(q.Device(), engine.WithAdmission(engine.Off))
				must(t, err)
				group.Go(func() {
					defer mine.Close()
					for k := range 5 {
						r := rec
						if name != "cpu" && (i+k)%2 == 1 { // the CPU does not order calls of different goroutines
							r = own
						}
						if err := errors.Join(r.Update(func(q *engine.Queue) error { return m.update(q, 1+i) }), r.Run(mine), mine.Wait()); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			for _, v := range mustFloats(t, m.state.M) {
				if math.IsNaN(float64(v)) {
					t.Fatal("a NaN: calls that share tensors ran at the same time")
				}
			}
		})
	}
}

func mustFloats(t testing.TB, x *tensor.Tensor) []float32 {
	t.Helper()
	values, err := x.Float32s()
	must(t, err)
	return values
}

func TestRunsAllocateNothing(t *testing.T) {
	if isRaceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	for name, q := range map[string]*engine.Queue{"cpu": newQueue(t), "gpu": noOpQueue(t)} {
		m := newModel(t, q.Device())
		rec, err := q.Record(func(q *engine.Queue) error { return m.step(q, 1) })
		must(t, err)
		i := 0
		update := func(q *engine.Queue) error { i++; return m.update(q, i) }
		once := func() {
			if err := errors.Join(rec.Update(update), rec.Run(q)); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 { // the memory that is kept
			once()
		}
		if n := testing.AllocsPerRun(100, once); n != 0 {
			t.Errorf("%s: %v allocations a run, want none", name, n)
		}
		must(t, rec.Close())
	}
}
