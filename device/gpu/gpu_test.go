package gpu

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tokitai/device"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
)

func openFake(t testing.TB, f *fake, o Options) *Device {
	t.Helper()
	d, err := Open(f.table(), 0, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		f.check(t)
	})
	return d
}

func alloc(t testing.TB, d *Device, size int64) *Buffer {
	t.Helper()
	b, err := d.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	return b.(*Buffer)
}

func queue(t testing.TB, d *Device) *Queue {
	t.Helper()
	q, err := d.NewQueueWith(QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func load(t testing.TB, d *Device, entry string) *Function {
	t.Helper()
	m, err := d.Load(compile.Source{Name: entry, Text: "text"}, entry)
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Entry(entry)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var (
	one  = [3]uint32{1, 1, 1}
	warp = [3]uint32{32, 1, 1}
)

// runMix launches dst = 31·dst + src + k.
func runMix(q *Queue, f *Function, dst, src *Buffer, k int) error {
	n := int(min(dst.Bytes(), src.Bytes()))
	return q.Run(&Call{Uses: []Use{{dst, true}, {src, false}},
		Launches: []Launch{{Function: f, Grid: one, Block: warp, Params: mixParams(dst.Pointer(), src.Pointer(), n, k)}}}, nil)
}

func TestDevice(t *testing.T) {
	d := openFake(t, newFake(), Options{})
	kind, id, err := device.ParseName(d.Name())
	if index, notIndex := device.ParseIndex(id); err != nil || notIndex != nil || kind != d.Kind() || index != d.Index() {
		t.Errorf("ParseName(%q) = %q, %q, %v", d.Name(), kind, id, err)
	}
	if got := d.Describe(); got.Name != "fake" || got.Architecture != "sm_00" || got.Units != 2 || got.Driver != "fake" || got.MemoryBytes != 1<<30 {
		t.Errorf("Describe() = %+v", got)
	}
	if _, err := Open(newFake().table(), 0, Options{MemoryLimit: -1}); !errors.Is(err, device.ErrBadArgument) {
		t.Errorf("a limit of -1: %v", err)
	}
	f := newFake()
	f.fail["NewStream"] = &driver.Error{Call: "stream", Text: "refused"}
	if _, err := Open(f.table(), 0, Options{}); err == nil {
		t.Error("a device without a stream was opened")
	}
	f.checkEmpty(t)
}

// Random calls on several queues, whose buffers are closed and whose memory is used
// again, give what the same calls give one after the other: every pair of queues is
// ordered by what they share, or the lazy device runs them in the wrong order.
func TestQueuesAreOrdered(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := newFake()
		d := openFake(t, f, Options{})
		kernel := load(t, d, "mix")
		queues := []*Queue{queue(t, d), queue(t, d), queue(t, d)}
		const n = 48
		type pair struct {
			buffer *Buffer
			want   []byte
		}
		var pairs []*pair
		fresh := func() *pair { return &pair{alloc(t, d, n), make([]byte, n)} }
		for range 4 {
			pairs = append(pairs, fresh())
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		verify := func(p *pair) {
			t.Helper()
			got := make([]byte, n)
			must(p.buffer.CopyOut(0, got))
			if !bytes.Equal(got, p.want) {
				t.Fatalf("seed %d: got %x, want %x", seed, got[:8], p.want[:8])
			}
		}
		for step := range 80 {
			q := queues[r.IntN(len(queues))]
			a, b := pairs[r.IntN(len(pairs))], pairs[r.IntN(len(pairs))]
			switch k := r.IntN(12); {
			case k < 6:
				must(runMix(q, kernel, a.buffer, b.buffer, step))
				mix(a.want, slices.Clone(b.want), byte(step))
			case k == 6:
				must(q.Copy(a.buffer, 8, b.buffer, 0, 16))
				copy(a.want[8:24], slices.Clone(b.want[:16]))
			case k == 7:
				must(q.Fill(a.buffer, 4, 8, byte(step)))
				copy(a.want[4:12], bytes.Repeat([]byte{byte(step)}, 8))
			case k == 8:
				data := []byte{byte(step), 1, 2, 3}
				must(a.buffer.CopyIn(3, data))
				copy(a.want[3:], data)
				clear(data) // the caller's again
			case k == 9:
				verify(a)
			case k == 10:
				must(a.buffer.Close())
				*a = *fresh()
			case k == 11:
				must(q.Close())
				i := slices.Index(queues, q)
				queues[i] = queue(t, d)
			}
		}
		for _, p := range pairs {
			verify(p)
		}
		must(d.Close())
		f.checkEmpty(t)
	}
}

// Queues come and go while others stay: these do not remember them.
func TestClosedQueueIsForgotten(t *testing.T) {
	d := openFake(t, newFake(), Options{})
	stays, kernel, a := queue(t, d), load(t, d, "mix"), alloc(t, d, 8)
	for range 3 {
		q := queue(t, d)
		if err := errors.Join(runMix(q, kernel, a, a, 1), runMix(stays, kernel, a, a, 1), q.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(stays.waited); n > 1 || len(d.queues) != 2 {
		t.Errorf("%d queues are remembered by one, %d by the device", n, len(d.queues))
	}
}

// TestSyncVariable: a value that means nothing is refused, not ignored.
func TestSyncVariable(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "1": true} {
		t.Setenv("TOKITAI_SYNC", value)
		if d := openFake(t, newFake(), Options{}); d.options.Sync != want {
			t.Errorf("TOKITAI_SYNC=%q: waits after each call: %t", value, d.options.Sync)
		}
	}
	t.Setenv("TOKITAI_SYNC", "yes")
	if _, err := Open(newFake().table(), 0, Options{}); !errors.Is(err, device.ErrBadArgument) || !strings.Contains(err.Error(), `TOKITAI_SYNC="yes", want 0 or 1`) {
		t.Errorf("TOKITAI_SYNC=yes: %v", err)
	}
}

func TestUseAfterClose(t *testing.T) {
	d := openFake(t, newFake(), Options{})
	q, kernel := queue(t, d), load(t, d, "mix")
	a, b := alloc(t, d, 100), alloc(t, d, 100)
	a.Close()
	for what, err := range map[string]error{
		"copy in": a.CopyIn(0, []byte{1}), "copy out": a.CopyOut(0, make([]byte, 1)),
		"run": runMix(q, kernel, b, a, 1), "fill": q.Fill(a, 0, 1, 0), "copy": q.Copy(b, 0, a, 0, 1),
	} {
		if !errors.Is(err, device.ErrClosed) {
			t.Errorf("%s of a closed buffer: %v", what, err)
		}
	}
	kernel.module.Close()
	if err := runMix(q, kernel, b, b, 1); !errors.Is(err, device.ErrClosed) || kernel.module.Close() != nil {
		t.Errorf("a kernel of a closed module: %v", err)
	}
	if errors.Join(q.Close(), q.Close()) != nil {
		t.Error("closing a queue twice is an error")
	}
	if err := q.Launch(kernel, one, warp, 0, nil); !errors.Is(err, device.ErrClosed) {
		t.Errorf("launch on a closed queue: %v", err)
	}
	if err := q.Wait(t.Context()); !errors.Is(err, device.ErrClosed) {
		t.Errorf("wait on a closed queue: %v", err)
	}
}

func TestRunRefuses(t *testing.T) {
	d, elsewhere := openFake(t, newFake(), Options{}), openFake(t, newFake(), Options{})
	q, kernel, foreign := queue(t, d), load(t, d, "mix"), load(t, elsewhere, "mix")
	mine, theirs := alloc(t, d, 8), alloc(t, elsewhere, 8)
	ok := Launch{Function: kernel, Grid: one, Block: warp}
	with := func(change func(*Launch)) []Launch {
		l := ok
		change(&l)
		return []Launch{ok, l}
	}
	for _, c := range []struct {
		uses     []Use
		launches []Launch
		text     string
	}{
		{[]Use{{mine, true}, {nil, false}}, []Launch{ok}, "nil buffer"},
		{[]Use{{theirs, false}}, []Launch{ok}, "a buffer of cuda:0"},
		{nil, with(func(l *Launch) { l.Function = nil }), "nil function"},
		{nil, with(func(l *Launch) { l.Function = foreign }), "a function of"},
		{nil, with(func(l *Launch) { l.Grid[1] = 0 }), "a grid of [1 0 1]"},
		{nil, with(func(l *Launch) { l.Grid[1] = 65536 }), "a grid of"},
		{nil, with(func(l *Launch) { l.Grid[0] = 1 << 31 }), "a grid of"},
		{nil, with(func(l *Launch) { l.Block[2] = 0 }), "blocks of [32 1 0]"},
		{nil, with(func(l *Launch) { l.Block[1] = 33 }), "want 1 to 1024 threads"},
		{nil, with(func(l *Launch) { l.Block = [3]uint32{1 << 31, 1 << 31, 4} }), "blocks of"},
		{nil, with(func(l *Launch) { l.Shared = 100<<10 + 1 }), "102401 bytes of shared memory, want at most 102400"},
		{nil, with(func(l *Launch) { l.Params = make([]byte, 4097) }), "4097 bytes of parameters"},
	} {
		before := d.sequence
		err := q.Run(&Call{Uses: c.uses, Launches: c.launches}, nil)
		if !errors.Is(err, device.ErrBadArgument) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("got %v, want %q", err, c.text)
		}
		if d.sequence != before {
			t.Errorf("%s: something ran", c.text)
		}
	}
	if _, err := d.Load(compile.Source{Name: "x"}, "absent"); err == nil {
		t.Error("a module without the entry was loaded")
	}
	if _, err := kernel.module.Entry("other"); !errors.Is(err, device.ErrBadArgument) || !strings.Contains(err.Error(), "one of mix") {
		t.Errorf("an entry that was not asked for: %v", err)
	}
}

// Dynamic shared memory is asked for, each size once: a kernel's static memory counts too.
func TestSharedMemoryIsPermitted(t *testing.T) {
	f := newFake()
	table := f.table()
	var asked []int
	table.SetShared = func(_ driver.Function, n int) error {
		asked = append(asked, n)
		return nil
	}
	d, err := Open(table, 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	q, kernel := queue(t, d), load(t, d, "mix")
	for _, n := range []uint32{0, 48 << 10, 50 << 10, 49 << 10, 60 << 10} {
		if err := q.Launch(kernel, one, warp, n, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(asked, []int{48 << 10, 50 << 10, 60 << 10}) {
		t.Errorf("asked for %v", asked)
	}
}

var errFault = &driver.Error{Call: "sync", Code: 700, Name: "CUDA_ERROR_ILLEGAL_ADDRESS", Text: "an illegal memory access was encountered", Class: driver.Lost}

func TestWaitHonoursTheContext(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{})
	q, kernel := queue(t, d), load(t, d, "mix")
	if err := q.Launch(kernel, one, warp, 0, nil); err != nil {
		t.Fatal(err)
	}
	e, err := q.Record()
	if err != nil || e.Done() {
		t.Fatalf("an event of work that nobody waits for is reached: %v", err)
	}
	// The lazy device does not move while it is only asked.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := q.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's own error", err)
	}
	if err := e.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's own error", err)
	}
	if err := e.Wait(context.Background()); err != nil || !e.Done() {
		t.Errorf("waited for: %v", err)
	}
	if err := e.Wait(ctx); err != nil {
		t.Errorf("an event that is reached, with a context that is done: %v", err)
	}
	made := len(d.made)
	for range 100 {
		if err := errors.Join(q.Launch(kernel, one, warp, 0, nil), q.Wait(context.Background())); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.made) > made+1 {
		t.Errorf("%d events were made for 100 waits", len(d.made)-made)
	}
}

func TestTimer(t *testing.T) {
	d := openFake(t, newFake(), Options{})
	q, kernel := queue(t, d), load(t, d, "mix")
	timer, err := q.NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := timer.Elapsed(t.Context()); !errors.Is(err, device.ErrBadArgument) {
		t.Errorf("before Stop: %v", err)
	}
	err = errors.Join(q.Launch(kernel, one, warp, 0, nil), timer.Start(), q.Launch(kernel, one, warp, 0, nil), q.Launch(kernel, one, warp, 0, nil), timer.Stop())
	got, elapsedErr := timer.Elapsed(context.Background())
	if err != nil || elapsedErr != nil || got != 2*time.Millisecond {
		t.Errorf("got %v, %v, %v, want one millisecond for each launch between", got, err, elapsedErr)
	}
	made := len(d.made)
	for range 3 {
		timer.Close()
		timer.Close()
		if timer, err = q.NewTimer(); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.made) != made {
		t.Errorf("%d events were made for timers that were closed", len(d.made)-made)
	}
}

func TestConcurrentUseAndClose(t *testing.T) {
	for range 20 {
		f := newFake()
		d := openFake(t, f, Options{})
		kernel := load(t, d, "mix")
		shared := alloc(t, d, 64)
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				q, err := d.NewQueueWith(QueueOptions{Sync: i == 0})
				for step := 0; err == nil && step < 200; step++ {
					var b device.Buffer
					if b, err = d.Alloc(64); err != nil {
						break
					}
					err = errors.Join(runMix(q, kernel, b.(*Buffer), shared, step), b.CopyIn(0, []byte{1}), q.Wait(context.Background()), b.CopyOut(0, make([]byte, 64)), b.Close())
				}
				if err != nil && !errors.Is(err, device.ErrClosed) {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Millisecond)
		shared.Close()
		d.Close()
		all.Wait()
		f.checkEmpty(t)
	}
}
