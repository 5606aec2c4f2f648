package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/gputest"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/tensor"
)

// plus is a flat definition with a parameter, whose output may replace its input.
var plus = def.Must(def.Rowwise("test.plus", func(b *def.Builder) {
	b.Out("y", b.In("x", def.Only(num.F32)).Add(b.Param("by", def.AtLeast(0))), def.Only(num.F32))
}))

// watched counts how a kernel of the simulator is launched, and may break its launches of
// many calls.
type watched struct {
	engine.ManyLauncher
	*launchWatcher
}

type launchWatcher struct {
	launches []int // how many calls each had, in their order
	fails    error // of launches of many calls

	forgets, panics, joinsNone bool // what is wrong with many calls
}

func (k *watched) Launch(l *engine.Launch) error {
	k.launches = append(k.launches, 1)
	return k.ManyLauncher.Launch(l)
}

func (k *watched) Joins(c *lower.Call) bool { return !k.joinsNone && k.ManyLauncher.Joins(c) }

func (k *watched) LaunchMany(ls []*engine.Launch) error {
	k.launches = append(k.launches, len(ls))
	switch {
	case k.fails != nil:
		return k.fails
	case k.panics:
		panic("many")
	case k.forgets:
		return k.ManyLauncher.LaunchMany(ls[1:])
	}
	return k.ManyLauncher.LaunchMany(ls)
}

// take returns the launches since the last time.
func (w *launchWatcher) take() []int {
	all := w.launches
	w.launches = nil
	return all
}

// queue returns a queue on the simulator whose calls are watched.
func (w *launchWatcher) queue(t *testing.T, opts ...engine.Option) *engine.Queue {
	t.Helper()
	q, err := engine.NewQueue(gputest.NeedsSim(t, 32), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	l := *q.Device().(engine.Device).Backend().Preferred(plus)[0]
	compile := l.Compile
	l.Compile = func(dev device.Device, d *def.Definition, dtypes []num.DType, class int) (engine.Kernel, error) {
		k, err := compile(dev, d, dtypes, class)
		if err != nil {
			return nil, err
		}
		return &watched{k.(engine.ManyLauncher), w}, nil
	}
	return q.With(engine.Using(&l))
}

// memory is one tensor on a device. Tests use parts of it.
type memory struct {
	t   *testing.T
	all *tensor.Tensor
}

func newMemory(t *testing.T, q *engine.Queue) *memory {
	t.Helper()
	values := make([]float32, 4096)
	for i := range values {
		values[i] = float32(i % 251)
	}
	all, err := tensor.FromFloat32(q.Device(), num.F32, values, len(values))
	if err != nil {
		t.Fatal(err)
	}
	return &memory{t, all}
}

// part returns n elements from an element on.
func (m *memory) part(from, n int) *tensor.Tensor {
	m.t.Helper()
	x, err := tensor.At(m.all.Buffer(), int64(4*from), num.F32, n, n)
	if err != nil {
		m.t.Fatal(err)
	}
	return x
}

func (m *memory) bytes() []byte {
	m.t.Helper()
	raw, err := m.all.Bytes()
	if err != nil {
		m.t.Fatal(err)
	}
	return raw
}

// place is where a call reads and writes.
type place struct{ from, to, n int }

// calls returns calls that add by, by + 1, ….
func (m *memory) calls(by float64, places ...place) (list []engine.CallSpec) {
	m.t.Helper()
	for i, p := range places {
		list = append(list, engine.CallSpec{Definition: plus, Tensors: []*tensor.Tensor{m.part(p.from, p.n), m.part(p.to, p.n)}, Params: []float64{by + float64(i)}})
	}
	return list
}

// TestBatch compares calls that are made together with calls that are made one by one, and
// counts the launches.
func TestBatch(t *testing.T) {
	var w launchWatcher
	q := w.queue(t)
	if err := engine.CallAll(q, newMemory(t, q).calls(1, place{0, 64, 8}, place{8, 128, 8}, place{1, 257, 8}, place{9, 385, 8})); err != nil {
		t.Fatal(err)
	}
	w.take() // self-tests
	var b engine.Batch
	for _, x := range []struct {
		name   string
		places []place
		want   []int
	}{
		{"none", nil, nil},
		{"one", []place{{0, 1024, 100}}, []int{1}},
		{"apart", []place{{0, 1024, 100}, {104, 2048, 8}, {112, 2056, 1}, {116, 3072, 7}}, []int{4}},
		{"in place", []place{{0, 0, 100}, {104, 104, 8}, {112, 112, 4}}, []int{3}},
		{"the same input", []place{{0, 1024, 100}, {0, 2048, 100}, {8, 3072, 50}}, []int{3}},
		{"unaligned", []place{{1, 1024, 100}, {0, 2048, 100}, {104, 3073, 8}, {512, 3200, 64}}, []int{2, 2}},
		{"a chain", []place{{0, 1024, 100}, {1024, 2048, 100}, {2048, 3072, 100}}, []int{1, 1, 1}},
		{"written twice", []place{{0, 1024, 100}, {104, 1120, 8}, {112, 2048, 8}}, []int{1, 2}},
		{"read, then written", []place{{0, 1024, 100}, {104, 2048, 8}, {112, 2056, 8}, {512, 96, 8}}, []int{2, 2}},
		{"written in place, then read", []place{{0, 0, 100}, {400, 408, 8}, {416, 424, 8}, {96, 2048, 4}}, []int{2, 2}},
	} {
		for _, step := range []string{"first", "again"} {
			one, together := newMemory(t, q), newMemory(t, q)
			for _, c := range one.calls(0.5, x.places...) {
				if err := engine.Call(q, c.Definition, c.Tensors, c.Params); err != nil {
					t.Fatal(err)
				}
			}
			w.take()
			if err := b.CallAll(q, together.calls(0.5, x.places...)); err != nil {
				t.Fatalf("%s: %v", x.name, err)
			}
			if !bytes.Equal(one.bytes(), together.bytes()) {
				t.Errorf("%s, %s: calls together give other bits than one by one", x.name, step)
			}
			if got := w.take(); !slices.Equal(got, x.want) {
				t.Errorf("%s, %s: launches of %v calls, want %v", x.name, step, got, x.want)
			}
		}
	}
}

// TestBatchAgain repeats the calls of a Batch after changes, and checks that every change is noticed.
func TestBatchAgain(t *testing.T) {
	var w launchWatcher
	q := w.queue(t)
	m := newMemory(t, q)
	var b engine.Batch
	calls := m.calls(1, place{0, 1024, 100}, place{104, 2048, 104}, place{208, 3072, 52})
	check := func(what string, change func()) {
		t.Helper()
		change()
		if err := b.CallAll(q, calls); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for i, c := range calls {
			x, err := c.Tensors[0].Float32s()
			if err != nil {
				t.Fatal(err)
			}
			y, err := c.Tensors[1].Float32s()
			if err != nil {
				t.Fatal(err)
			}
			for k := range x {
				if y[k] != x[k]+float32(c.Params[0]) {
					t.Fatalf("%s: call %d: element %d is %v, want %v + %v", what, i, k, y[k], x[k], c.Params[0])
				}
			}
		}
	}
	refuse := func(what, want string, change, back func()) {
		t.Helper()
		change()
		before := m.bytes()
		err := b.CallAll(q, calls)
		failed, ok := errors.AsType[*engine.CallsError](err)
		if !ok || failed.At != 1 || failed.IsBegun || !strings.Contains(err.Error(), want) {
			t.Fatalf("%s: got %v, want an error of call 1 with %q", what, err, want)
		}
		alone := engine.Call(q, calls[1].Definition, calls[1].Tensors, calls[1].Params)
		if fmt.Sprint(failed.Cause) != fmt.Sprint(alone) {
			t.Errorf("%s: got %v, want the error of the call alone: %v", what, failed.Cause, alone)
		}
		if !bytes.Equal(before, m.bytes()) {
			t.Errorf("%s: refused calls have written", what)
		}
		back()
		check("after "+what, func() {})
	}
	check("first", func() {})
	check("the same", func() {})
	check("other parameters", func() { calls[1].Params[0] = 7.5 })
	check("an input moves", func() { calls[0].Tensors[0] = m.part(512, 100) })
	check("an output moves", func() { calls[2].Tensors[1] = m.part(3584, 52) })
	check("an output moves to an odd place", func() { calls[2].Tensors[1] = m.part(3585, 52) })
	check("all move", func() { calls = m.calls(2, place{4, 1028, 100}, place{108, 2052, 104}, place{212, 3076, 52}) })
	w.take()
	free := calls[2].Tensors[0]
	check("a call depends on another", func() { calls[2].Tensors[0] = m.part(2052, 52) })
	if got := w.take(); !slices.Equal(got, []int{1, 1, 1}) {
		t.Errorf("a call that has come to depend on another: launches of %v calls, want one by one", got)
	}
	check("a call no longer depends on another", func() { calls[2].Tensors[0] = free })
	if got := w.take(); !slices.Equal(got, []int{3}) {
		t.Errorf("a call that no longer depends on another: launches of %v calls, want all together", got)
	}
	check("another shape", func() { calls[0] = m.calls(1, place{0, 1024, 200})[0] })
	check("a call more", func() { calls = append(calls, m.calls(1, place{0, 4000, 3})...) })
	check("a call fewer", func() { calls = calls[1:] })

	x, y := calls[1].Tensors[0], calls[1].Tensors[1]
	refuse("a nil tensor", "x is nil", func() { calls[1].Tensors[0] = nil }, func() { calls[1].Tensors[0] = x })
	refuse("a parameter out of range", "by is -1", func() { calls[1].Params[0] = -1 }, func() { calls[1].Params[0] = 1 })
	refuse("an overlap", "y overlaps x", func() { calls[1].Tensors[1] = m.part(216, 52) }, func() { calls[1].Tensors[1] = y })
	refuse("another size", "y has shape", func() { calls[1].Tensors[1] = m.part(2048, 51) }, func() { calls[1].Tensors[1] = y })
	refuse("too few operands", "has 1 operands", func() { calls[1].Tensors = calls[1].Tensors[:1] }, func() { calls[1].Tensors = calls[1].Tensors[:2] })
	closed, err := tensor.New(q.Device(), num.F32, 52)
	if err != nil {
		t.Fatal(err)
	}
	check("another tensor", func() { calls[1].Tensors[0] = closed })
	refuse("a closed tensor", "x is closed", func() { closed.Close() }, func() { calls[1].Tensors[0] = x })
}

// TestBatchFails has a launch fail: the error says that outputs may have changed.
func TestBatchFails(t *testing.T) {
	var w launchWatcher
	q := w.queue(t)
	calls := newMemory(t, q).calls(1, place{0, 1024, 8}, place{8, 1032, 8})
	if err := engine.CallAll(q, calls); err != nil {
		t.Fatal(err)
	}
	w.fails = errors.New("no more")
	err := engine.CallAll(q, calls)
	if failed, ok := errors.AsType[*engine.CallsError](err); !ok || failed.At != 0 || !failed.IsBegun || !errors.Is(err, w.fails) {
		t.Errorf("got %v, want an error of call 0 that has begun", err)
	}
}

// TestBatchAdmission makes calls one by one where a kernel does not compute many right.
func TestBatchAdmission(t *testing.T) {
	for what, w := range map[string]*launchWatcher{
		"a call is forgotten": {forgets: true},
		"it panics":           {panics: true},
		"it joins no call":    {joinsNone: true},
	} {
		var log bytes.Buffer
		q := w.queue(t, engine.WithLog(slog.New(slog.NewTextHandler(&log, nil))))
		m, want := newMemory(t, q), newMemory(t, q)
		places := []place{{0, 1024, 8}, {8, 1032, 8}}
		for range 2 {
			w.take()
			if err := engine.CallAll(q, m.calls(1, places...)); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		if got := w.take(); !slices.Equal(got, []int{1, 1}) {
			t.Errorf("%s: launches of %v calls, want one by one", what, got)
		}
		for _, c := range want.calls(1, places...) {
			if err := engine.Call(q, c.Definition, c.Tensors, c.Params); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(m.bytes(), want.bytes()) {
			t.Errorf("%s: results differ", what)
		}
		if isWarned := strings.Contains(log.String(), "not admitted for many calls"); isWarned == w.joinsNone {
			t.Errorf("%s: the log says %q", what, log.String())
		}
	}
}

// TestBatchAllocates makes calls again: a call takes no memory of the host.
func TestBatchAllocates(t *testing.T) {
	if isRaceEnabled {
		t.Skip("under the race detector pools forget")
	}
	q := new(launchWatcher).queue(t)
	m := newMemory(t, q)
	allocations := func(n int) float64 {
		var places []place
		for i := range n {
			places = append(places, place{8 * i, 2048 + 8*i, 8})
		}
		calls := m.calls(1, places...)
		var b engine.Batch
		return testing.AllocsPerRun(20, func() {
			calls[0].Params[0]++
			if err := b.CallAll(q, calls); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocations(2), allocations(200); many > few+20 { // memory of pools may be collected
		t.Errorf("200 calls allocate %v times, 2 calls %v times", many, few)
	}
}
