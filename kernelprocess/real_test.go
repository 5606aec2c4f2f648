//go:build unix

package kernelprocess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/alone"
	"tokitai/internal/await"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/all"
	"tokitai/op/embedding"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

func newTensor(t testing.TB, dev device.Device, d num.DType, raw []byte, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromBytes(dev, d, raw, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func randomTensor(t testing.TB, dev device.Device, g *rand.Rand, shape ...int) *tensor.Tensor {
	t.Helper()
	n := 1
	for _, size := range shape {
		n *= size
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(g.NormFloat64())
	}
	x, err := tensor.FromFloat32(dev, num.F32, values, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func bytesOf(t testing.TB, x *tensor.Tensor) []byte {
	t.Helper()
	raw, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// elementsOf are an array's elements without gaps.
func elementsOf(a num.Array) (raw []byte) {
	for r := range a.Rows {
		raw = append(raw, a.Row(r)...)
	}
	return raw
}

// TestEveryDefinition computes every definition in every choice of formats, here and in a
// process, with tensors of every kind.
func TestEveryDefinition(t *testing.T) {
	d := openDevice(t, Options{})
	here := cpu.Queue().Device()
	var seen []*def.Definition
	for _, o := range all.Operations {
		for _, definition := range o.Definitions {
			if slices.Contains(seen, definition) {
				continue
			}
			seen = append(seen, definition)
			choices := definition.Formats()
			choices = testlevel.Pick(choices[:1], choices)
			for _, formats := range choices {
				for _, c := range engine.SelfTestCases(definition, formats) {
					want := compute(t, definition, c, []device.Device{here})
					for _, devices := range [][]device.Device{{here}, {d}, {d.Resident()}, {here, d, d.Resident()}} {
						got := compute(t, definition, c, devices, Isolated(d))
						for i := range got {
							if !bytes.Equal(got[i], want[i]) {
								t.Errorf("%s %v %s on %v: %s differs", definition.Name, formats, c.Name, devices, definition.Operands[i].Name)
							}
						}
					}
					if testlevel.Current() == testlevel.Smoke {
						break
					}
				}
			}
		}
	}
	if s := d.Stats(); s.Deaths != 0 || s.InlineBytes == 0 || s.SharedBytes == 0 {
		t.Errorf("got %+v", s)
	}
}

// compute runs a case on tensors that lie on the devices in turn, and returns all of them.
func compute(t *testing.T, definition *def.Definition, c engine.SelfTestCase, devices []device.Device, opts ...engine.CallOption) (results [][]byte) {
	t.Helper()
	var tensors []*tensor.Tensor
	for i, a := range c.Operands {
		tensors = append(tensors, newTensor(t, devices[i%len(devices)], a.DType, elementsOf(a), definition.Operands[i].Shape(&a)...))
	}
	opts = append(opts, engine.WithBadIndex(engine.Skip))
	if err := engine.Call(cpu.Queue(), definition, tensors, c.Params, opts...); err != nil {
		t.Fatalf("%s %s on %v: %v", definition.Name, c.Name, devices, err)
	}
	for _, x := range tensors {
		results = append(results, bytesOf(t, x))
		x.Close()
	}
	return results
}

// TestLarge takes tensors that go through staging memory, with gaps between their rows.
func TestLarge(t *testing.T) {
	d := openDevice(t, Options{})
	here := cpu.Queue().Device()
	g := rand.New(rand.NewPCG(1, 2))
	whole := randomTensor(t, here, g, 600, 1200)
	part := func(dev device.Device) (all, view *tensor.Tensor) {
		all = newTensor(t, dev, num.F32, bytesOf(t, whole), 600, 1200)
		view, err := all.Slice(3, 590, 7, 1100)
		if err != nil {
			t.Fatal(err)
		}
		return all, view
	}
	x, xView := part(here)
	want, wantView := part(here)
	if err := softmax.Forward(cpu.Queue(), wantView, xView); err != nil {
		t.Fatal(err)
	}
	for _, dx := range []device.Device{here, d, d.Resident()} {
		for _, dy := range []device.Device{here, d, d.Resident()} {
			source, sourceView := part(dx)
			got, gotView := part(dy)
			if err := softmax.Forward(cpu.Queue(), gotView, sourceView, Isolated(d)); err != nil {
				t.Fatalf("%v to %v: %v", source, got, err)
			}
			if !bytes.Equal(bytesOf(t, got), bytesOf(t, want)) || !bytes.Equal(bytesOf(t, source), bytesOf(t, x)) {
				t.Errorf("%v to %v: got other bytes than here", source, got)
			}
			source.Close()
			got.Close()
		}
	}
	if err := softmax.Forward(cpu.Queue(), xView, xView, Isolated(d)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytesOf(t, x), bytesOf(t, want)) {
		t.Error("in place: got other bytes than here")
	}
}

// Errors of calls read as they do here.
func TestErrorsAsHere(t *testing.T) {
	d := openDevice(t, Options{})
	q, err := engine.NewQueue(d)
	if err != nil {
		t.Fatal(err)
	}
	call := func(q *engine.Queue, opts ...engine.CallOption) error {
		dev := q.Device()
		table, err := tensor.New(dev, num.F32, 4, 8)
		if err != nil {
			t.Fatal(err)
		}
		y, err := tensor.New(dev, num.F32, 3, 8)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := tensor.FromInt32(dev, []int32{0, 9, 2}, 3)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			for _, v := range bytesOf(t, y) {
				if v != 0 {
					t.Error("a refused call has written")
				}
			}
		}()
		return embedding.Forward(q, y, ids, table, opts...)
	}
	for _, opts := range [][]engine.CallOption{nil, {engine.WithLowering("cpu.nothing")}} {
		want := call(cpu.Queue(), opts...)
		for _, got := range []error{call(q, opts...), call(cpu.Queue(), append(opts, Isolated(d))...)} {
			if got == nil || want == nil || got.Error() != want.Error() || fmt.Sprintf("%T", got) != fmt.Sprintf("%T", want) {
				t.Errorf("got %T %v, want %T %v", got, got, want, want)
			}
		}
	}
	if _, ok := errors.AsType[*engine.IndexError](call(q)); !ok {
		t.Error("no IndexError")
	}
	if s := d.Stats(); s.Deaths != 0 {
		t.Errorf("got %+v, want no death", s)
	}
}

// TestManyCallers has 64 callers with data of their own, some of whom lose patience.
func TestManyCallers(t *testing.T) {
	d := openDevice(t, Options{MaxInFlight: 16})
	const callers, rounds = 64, 40
	var work sync.WaitGroup
	for id := range callers {
		work.Go(func() {
			g := rand.New(rand.NewPCG(uint64(id), 7))
			for round := range rounds {
				cols := 1 + g.IntN(3000)
				dev := []device.Device{cpu.Queue().Device(), d, d.Resident()}[g.IntN(3)]
				x := randomTensor(t, dev, g, 2, cols)
				y := randomTensor(t, dev, g, 2, cols)
				want := newTensor(t, cpu.Queue().Device(), num.F32, bytesOf(t, y), 2, cols)
				ctx, cancel := context.WithCancel(t.Context())
				if g.IntN(3) == 0 {
					time.AfterFunc(time.Duration(g.IntN(2000))*time.Microsecond, cancel)
				}
				err := softmax.Forward(cpu.Queue().WithContext(ctx), y, x, Isolated(d))
				cancel()
				_, mayBeHalf := errors.AsType[*engine.LaunchError](err)
				switch {
				case err == nil:
					if err := softmax.Forward(cpu.Queue(), want, newTensor(t, cpu.Queue().Device(), num.F32, bytesOf(t, x), 2, cols)); err != nil {
						t.Error(err)
					}
				case !errors.Is(err, context.Canceled):
					t.Errorf("caller %d, round %d: %v", id, round, err)
				}
				if !mayBeHalf && !bytes.Equal(bytesOf(t, y), bytesOf(t, want)) {
					t.Errorf("caller %d, round %d: got another answer than one's own (after %v)", id, round, err)
				}
				x.Close()
				y.Close()
			}
		})
	}
	work.Wait()
	if s := d.Stats(); s.Deaths != 0 || s.InFlight > 16 {
		t.Errorf("got %+v, want no death", s)
	}
	waitFor(t, "all is answered", func() bool { return d.Stats().InFlight == 0 })
	if _, used := d.memory.usage(); used != d.Stats().ArenaBytes {
		t.Errorf("handles of %d bytes are left", used-d.Stats().ArenaBytes)
	}
	for _, a := range d.memory.arenas {
		if a.users != 0 || len(a.free) != 1 {
			t.Errorf("arena %d has %d users and %d free parts, want none and 1", a.id, a.users, len(a.free))
		}
	}
}

// Shared memory survives a process, memory in the process does not.
func TestMemoryAcrossDeaths(t *testing.T) {
	d := openDevice(t, Options{})
	g := rand.New(rand.NewPCG(3, 4))
	x := randomTensor(t, d, g, 4, 100)
	held := randomTensor(t, d.Resident(), g, 4, 100)
	y, err := tensor.New(d, num.F32, 4, 100)
	if err != nil {
		t.Fatal(err)
	}
	want := newTensor(t, cpu.Queue().Device(), num.F32, bytesOf(t, x), 4, 100)
	if err := softmax.Forward(cpu.Queue(), want, want); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		q, err := engine.NewQueue(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := softmax.Forward(q, y, x); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytesOf(t, y), bytesOf(t, want)) {
			t.Fatal("got other bytes than here")
		}
		deaths := d.Stats().Deaths
		syscall.Kill(d.PID(), syscall.SIGKILL)
		waitFor(t, "the process is dead", func() bool { return d.Stats().Deaths > deaths })
		if err := softmax.Forward(q, y, held); !errors.Is(err, ErrStateLost) {
			t.Errorf("got %v, want %v", err, ErrStateLost)
		}
		if _, err := held.Bytes(); !errors.Is(err, ErrStateLost) {
			t.Errorf("got %v, want %v", err, ErrStateLost)
		}
	}
	if s := d.Stats(); s.Restarts != 2 {
		t.Errorf("got %d restarts, want 2", s.Restarts)
	}
}

func TestOptimizer(t *testing.T) {
	d := openDevice(t, Options{})
	shapes := [][]int{{7, 33}, {1, 5}, {64, 64}, {1, 1}, {300, 1000}}
	for range 20 {
		shapes = append(shapes, []int{3, 17})
	}
	for _, mode := range []adamw.Mode{adamw.InPlace, adamw.Stochastic} {
		var want [][]byte
		for _, dev := range []device.Device{cpu.Queue().Device(), d, d.Resident()} {
			q, err := engine.NewQueue(dev)
			if err != nil {
				t.Fatal(err)
			}
			dtype := num.F32
			if mode == adamw.Stochastic {
				dtype = num.BF16
			}
			g := rand.New(rand.NewPCG(5, 6))
			var parameters []adamw.Parameter
			for _, shape := range shapes {
				x := randomTensor(t, cpu.Queue().Device(), g, shape...)
				values, err := x.Float32s()
				if err != nil {
					t.Fatal(err)
				}
				w, err := tensor.FromFloat32(dev, dtype, values, shape...)
				if err != nil {
					t.Fatal(err)
				}
				parameters = append(parameters, adamw.Parameter{Weight: w, LRScale: 1, WeightDecay: 0.1})
			}
			h := adamw.DefaultHyper
			h.LR = 0.01
			o, err := adamw.New(q, adamw.Options{Mode: mode, Hyper: h, Seed: 9}, parameters)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				var grads []*tensor.Tensor
				for _, shape := range shapes {
					grads = append(grads, randomTensor(t, cpu.Queue().Device(), g, shape...))
				}
				if err := o.StepAll(q, grads); err != nil && dev != cpu.Queue().Device() {
					t.Fatal(err)
				}
			}
			var got [][]byte
			for i, p := range parameters {
				m, v := o.Moments(i)
				for _, x := range []*tensor.Tensor{p.Weight, m, v} {
					got = append(got, bytesOf(t, x))
				}
			}
			if want == nil {
				want = got
			}
			for i := range got {
				if !bytes.Equal(got[i], want[i]) {
					t.Errorf("%v on %s: tensor %d differs", mode, dev.Name(), i)
				}
			}
			o.Close()
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	d := openDevice(t, Options{MemoryLimit: 8 << 20})
	for _, dev := range []device.Device{d, d.Resident()} {
		b, err := dev.Alloc(6 << 20)
		if err != nil {
			t.Fatal(err)
		}
		_, err = dev.Alloc(6 << 20)
		full, ok := errors.AsType[*device.OutOfMemoryError](err)
		if !ok || full.Asked != 6<<20 || full.Free != 2<<20 || full.Device != "process:cpu" {
			t.Errorf("got %v, want out of memory with 2 MiB free", err)
		}
		b.Close()
		if b, err = dev.Alloc(6 << 20); err != nil {
			t.Errorf("after Close: %v", err)
		} else {
			b.Close()
		}
	}
	if _, err := d.Alloc(1 << 62); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("got %v, want out of memory", err)
	}
	if _, err := d.Alloc(0); !errors.Is(err, device.ErrBadArgument) {
		t.Errorf("got %v, want a bad argument", err)
	}
}

// Where there is no room for shared memory, or none at all, tensors go in frames.
func TestNoSharedMemory(t *testing.T) {
	d := openDevice(t, Options{})
	d.memory.limit = 1 << 20 // of this side alone
	g := rand.New(rand.NewPCG(8, 9))
	x := randomTensor(t, cpu.Queue().Device(), g, 600, 1000)
	y := newTensor(t, cpu.Queue().Device(), num.F32, bytesOf(t, x), 600, 1000)
	want := newTensor(t, cpu.Queue().Device(), num.F32, bytesOf(t, x), 600, 1000)
	if err := softmax.Forward(cpu.Queue(), want, x); err != nil {
		t.Fatal(err)
	}
	if err := softmax.Forward(cpu.Queue(), y, x, Isolated(d)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytesOf(t, y), bytesOf(t, want)) {
		t.Error("got other bytes than here")
	}
	if s := d.Stats(); s.SharedBytes != 0 || s.InlineBytes != 2*600*1000*4 {
		t.Errorf("got %+v, want all in frames", s)
	}
	if _, err := d.Alloc(2 << 20); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("got %v, want out of memory", err)
	}
}

func TestMaxFrame(t *testing.T) {
	d := openDevice(t, Options{MaxFrame: 1 << 12, Inline: true})
	if err := ask(t.Context(), d, 1, 2000); !errors.Is(err, device.ErrBadArgument) {
		t.Errorf("got %v, want a refusal", err)
	}
	if d.Stats().Deaths != 0 {
		t.Error("the process died of it")
	}
	// Where memory can be shared nothing needs a long frame.
	d = openDevice(t, Options{MaxFrame: 1 << 12})
	here := cpu.Queue()
	x, want := randomTensor(t, here.Device(), rand.New(rand.NewPCG(3, 4)), 40, 50), randomTensor(t, here.Device(), rand.New(rand.NewPCG(3, 4)), 40, 50)
	if err := errors.Join(softmax.Forward(here, x, x, Isolated(d)), softmax.Forward(here, want, want)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytesOf(t, x), bytesOf(t, want)) {
		t.Error("got other bytes than here")
	}
}

// stop stops a process, and waits until it has stopped, where that can be seen.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	waitFor(t, "the process has stopped", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, after, _ := bytes.Cut(text, []byte(") "))
		return err == nil && bytes.HasPrefix(after, []byte("T"))
	})
}

// TestHangBeforeTheCall stops a process that then is told of new memory: the call is given
// up before it is sent, and the process is found out all the same.
func TestHangBeforeTheCall(t *testing.T) {
	d := openDevice(t, Options{HangAfter: 200 * time.Millisecond})
	q, err := engine.NewQueue(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := ask(t.Context(), d, 1, 4); errors.Is(err, ErrDied) {
		t.Fatal(err)
	}
	x := randomTensor(t, d, rand.New(rand.NewPCG(1, 2)), 4, 4)
	stop(t, d.PID())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := softmax.Forward(q.WithContext(ctx), x, x); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want the deadline's error", err)
	}
	waitFor(t, "the process is dead", func() bool { return d.Stats().Deaths == 1 })
	if err := softmax.Forward(q, x, x); err != nil {
		t.Errorf("the next process: %v", err)
	}
}

func TestOpen(t *testing.T) {
	p, err := NewPool(Options{})
	if err != nil {
		t.Fatal(err)
	}
	open := func(name, group string) *Device {
		d, err := p.Open(name, group)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a, again, other := open("cpu", "a"), open("cpu", "a"), open("cpu", "b")
	if a != again || a == other || a.PID() != 0 {
		t.Error("want one device for each pair, and no process yet")
	}
	if a.Name() != "process:cpu" || a.Kind() != "process" || a.Group() != "a" {
		t.Errorf("got %s, %s, %s", a.Name(), a.Kind(), a.Group())
	}
	for _, d := range []*Device{a, other} {
		x, err := tensor.New(d, num.F32, 1, 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := softmax.Forward(cpu.Queue(), x, x, Isolated(d)); err != nil {
			t.Fatal(err)
		}
	}
	if a.PID() == 0 || a.PID() == other.PID() || a.Describe().Name == "" {
		t.Errorf("got processes %d and %d, want two", a.PID(), other.PID())
	}
	if all := p.Stats(); len(all) != 2 || all[0].Group != "a" || all[0].KernelTime == 0 || all[0].WireTime == 0 || all[0].SharedBytes != 32 {
		t.Errorf("got %+v", all)
	}
	x, err := tensor.New(a, num.F32, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	held, err := tensor.New(a.Resident(), num.F32, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	q, err := engine.NewQueue(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if renewed := open("cpu", "a"); renewed == a {
		t.Error("a closed device is opened again as it was")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	_, openErr := p.Open("cpu", "a")
	_, allocErr := a.Alloc(4)
	_, heldErr := a.Resident().Alloc(4)
	_, queueErr := a.NewQueue()
	_, readErr := x.Float32s()
	_, heldReadErr := held.Float32s()
	for what, err := range map[string]error{
		"open": openErr, "alloc": allocErr, "resident alloc": heldErr, "queue": queueErr, "wait": q.Wait(), "read": readErr, "resident read": heldReadErr,
		"call": softmax.Forward(cpu.Queue(), x, x, Isolated(a)), "ordinary call": ask(t.Context(), a, 1, 4),
	} {
		if !errors.Is(err, device.ErrClosed) {
			t.Errorf("%s: got %v, want %v", what, err, device.ErrClosed)
		}
	}
	if _, err := NewPool(Options{HangAfter: -1}); !errors.Is(err, device.ErrBadArgument) {
		t.Errorf("got %v, want a bad argument", err)
	}
	if _, err := openDevice(t, Options{}).pool.Open("gpu", ""); !errors.Is(err, device.ErrNoDevice) {
		t.Errorf("got %v, want no device", err)
	}
}

// TestLeaks opens, kills and closes many times.
func TestLeaks(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	rounds := testlevel.Pick(10, 100)
	count := func() (descriptors, children int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		lists, err := filepath.Glob("/proc/self/task/*/children")
		if err != nil || len(lists) == 0 {
			t.Skip("children cannot be counted")
		}
		for _, list := range lists {
			pids, err := os.ReadFile(list)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			children += len(bytes.Fields(pids))
		}
		return len(fds), children
	}
	round := func() {
		p, err := NewPool(Options{Backoff: time.Microsecond, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		d, err := p.Open("cpu", "")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			x, err := tensor.New(d, num.F32, 1, 4)
			if err != nil {
				t.Fatal(err)
			}
			y, err := tensor.New(d.Resident(), num.F32, 1, 4)
			if err != nil {
				t.Fatal(err)
			}
			if err := softmax.Forward(cpu.Queue(), y, x, Isolated(d)); err != nil {
				t.Fatal(err)
			}
			deaths := d.Stats().Deaths
			syscall.Kill(d.PID(), syscall.SIGKILL)
			x.Close()
			y.Close()
			waitFor(t, "the process is dead", func() bool { return d.Stats().Deaths > deaths })
		}
		p.Close()
	}
	round()
	fds, children := count()
	goroutines := runtime.NumGoroutine()
	for range rounds {
		round()
	}
	waitFor(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines })
	if f, c := count(); f > fds || c != children { // what earlier tests dropped may be collected meanwhile
		t.Errorf("got %d descriptors and %d children, want at most %d and %d as before", f, c, fds, children)
	}
}

// TestChaos kills processes all the time: whoever gets an answer gets a right one.
func TestChaos(t *testing.T) {
	d := openDevice(t, Options{Retries: 2, MaxDeaths: 1 << 20, Backoff: time.Microsecond, MaxBackoff: time.Microsecond, HangAfter: 100 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	var good atomic.Int64
	for id := range 12 {
		work.Go(func() {
			g := rand.New(rand.NewPCG(uint64(id), 8))
			for ctx.Err() == nil {
				kind, cols := g.IntN(3), 1+g.IntN(1000)<<g.IntN(9)
				dev := []device.Device{cpu.Queue().Device(), d, d.Resident()}[kind]
				x := randomTensor(t, cpu.Queue().Device(), g, 2, cols)
				there, err := tensor.FromBytes(dev, num.F32, bytesOf(t, x), 2, cols)
				if err == nil {
					var y *tensor.Tensor
					if y, err = tensor.New(dev, num.F32, 2, cols); err == nil {
						patience, stop := context.WithCancel(context.Background())
						if g.IntN(2) == 0 {
							time.AfterFunc(time.Duration(g.IntN(100))*time.Millisecond, stop)
						}
						if err = softmax.Forward(cpu.Queue().WithContext(patience), y, there, Isolated(d)); err == nil {
							var got []byte
							if got, err = y.Bytes(); err == nil {
								if err := softmax.Forward(cpu.Queue(), x, x); err != nil {
									t.Error(err)
								}
								if !bytes.Equal(got, bytesOf(t, x)) {
									t.Error("got another answer than one's own")
								}
							}
						}
						stop()
						y.Close()
					}
					there.Close()
				}
				switch {
				case err == nil:
					good.Add(1)
				case errors.Is(err, ErrDied), errors.Is(err, ErrStateLost), errors.Is(err, context.Canceled):
				default:
					t.Error(err)
				}
			}
		})
	}
	for range 10 {
		before := good.Load()
		more := 1 + rand.Int64N(20)
		waitFor(t, "there are answers", func() bool { return good.Load() >= before+more })
		if pid := d.PID(); pid != 0 {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	cancel()
	work.Wait()
	t.Logf("%d answers: %+v", good.Load(), d.Stats())
	waitFor(t, "all is answered", func() bool { return d.Stats().InFlight == 0 })
	d.memory.mu.Lock()
	defer d.memory.mu.Unlock()
	for _, a := range d.memory.arenas {
		if a.users != 0 || len(a.free) != 1 {
			t.Errorf("arena %d has %d users and %d free parts, want none and 1", a.id, a.users, len(a.free))
		}
	}
}

// TestPatience has a request given up behind one that is waited for, and takes longer than
// a process may hang: its turn has not come, and nobody is killed.
func TestPatience(t *testing.T) {
	const hangAfter = 20 * time.Millisecond
	gate := newGate(t)
	d := fakeDevice(t, gate.role(), Options{HangAfter: hangAfter})
	answer := make(chan error)
	go func() { answer <- ask(context.Background(), d, 1, 4) }()
	waitFor(t, "the call is in flight", func() bool { return d.Stats().InFlight == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := ask(ctx, d, 2, 4); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	conn := d.child.conn
	watch := func() (timer *time.Timer) { // of the request that was given up; another one each time it is looked at
		conn.mu.Lock()
		defer conn.mu.Unlock()
		for _, r := range conn.pending {
			if r.isAbandoned {
				timer = r.hang
			}
		}
		return timer
	}
	for range 3 {
		before := watch()
		waitFor(t, "the request is looked at", func() bool { now := watch(); return now != nil && now != before || d.Stats().Deaths != 0 })
	}
	if deaths := d.Stats().Deaths; deaths != 0 {
		t.Errorf("%d processes died", deaths)
	}
	gate.open()
	if err := <-answer; err != nil {
		t.Errorf("a call that was waited for: %v", err)
	}
}

// TestResetEndsDelay wakes a call that waits for its process to be started again.
func TestResetEndsDelay(t *testing.T) {
	d := openDevice(t, Options{Backoff: time.Hour})
	here := cpu.Queue()
	x := randomTensor(t, here.Device(), rand.New(rand.NewPCG(1, 2)), 4, 4)
	run := func() error { return softmax.Forward(here, x, x, Isolated(d)) }
	if err := run(); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(d.PID(), syscall.SIGKILL)
	waitFor(t, "the process is dead", func() bool { return d.Stats().Deaths == 1 && d.PID() == 0 })
	answer := make(chan error)
	go func() { answer <- run() }()
	waitFor(t, "the call waits for the start", func() bool { return await.IsBlocked("select", "kernelprocess.(*core).start") })
	d.Reset()
	select {
	case err := <-answer:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the call still waits")
	}
}

// TestCauseOfLostMemory uses memory in the very moment in which its process ends: the error
// has the process's end for its cause all the same.
func TestCauseOfLostMemory(t *testing.T) {
	d := openDevice(t, Options{Backoff: time.Millisecond, MaxBackoff: time.Millisecond, MaxDeaths: 1000})
	for range 20 {
		x, err := tensor.New(d.Resident(), num.F32, 4, 4)
		if err != nil {
			t.Fatal(err)
		}
		c, err := d.running(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		syscall.Kill(d.PID(), syscall.SIGKILL)
		for c.conn.cause() == nil { // without a pause: the end of the stream comes before all else
		}
		if _, err := x.Bytes(); !errors.Is(err, ErrStateLost) || !errors.Is(err, ErrDied) {
			t.Fatalf("got %v, want lost memory with a death as the cause", err)
		}
		x.Close()
	}
}
