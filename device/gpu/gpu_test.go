package gpu

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
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
	if kind, index, err := device.ParseName(d.Name()); err != nil || kind != d.Kind() || index != d.Index() {
		t.Errorf("ParseName(%q) = %q, %d, %v", d.Name(), kind, index, err)
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

func TestLargeCopies(t *testing.T) {
	d := openFake(t, newFake(), Options{})
	const size = 3*chunkBytes + 12345
	b := alloc(t, d, size+2)
	data := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(data)
	if err := b.CopyIn(1, data); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, size+2)
	if err := b.CopyOut(0, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got[1:size+1], data) || got[0] != 0 || got[size+1] != 0 {
		t.Error("what came out is not what went in")
	}
	for _, c := range []struct {
		offset int64
		n      int
	}{{-1, 1}, {size + 2, 1}, {size, 3}, {math.MaxInt64, 1}, {size + 3, 0}} {
		if err := b.CopyIn(c.offset, make([]byte, c.n)); !errors.Is(err, device.ErrBadArgument) {
			t.Errorf("CopyIn of %d at %d: %v", c.n, c.offset, err)
		}
		if err := b.CopyOut(c.offset, make([]byte, c.n)); !errors.Is(err, device.ErrBadArgument) {
			t.Errorf("CopyOut of %d at %d: %v", c.n, c.offset, err)
		}
	}
	if err := b.CopyIn(size+2, nil); err != nil {
		t.Errorf("nothing at the end: %v", err)
	}
}

func TestBlockSize(t *testing.T) {
	for size := int64(1); size < 1<<40; size = size*9/8 + 1 {
		got := blockSize(size)
		if got < size || got%Alignment != 0 || got > max(size+size/8, size+Alignment) || blockSize(got) != got {
			t.Fatalf("blockSize(%d) = %d", size, got)
		}
	}
}

func TestAllocIsZeroAlsoWhenUsedAgain(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{})
	b := alloc(t, d, 1000)
	pointer := b.Pointer()
	if err := b.CopyIn(0, bytes.Repeat([]byte{7}, 1000)); err != nil {
		t.Fatal(err)
	}
	b.Close()
	again := alloc(t, d, 990)
	if again.Pointer() != pointer {
		t.Errorf("memory given back was not used again")
	}
	got := make([]byte, 990)
	if err := again.CopyOut(0, got); err != nil || !bytes.Equal(got, make([]byte, 990)) {
		t.Errorf("used again: not zero, %v", err)
	}
	if again.Bytes() != 990 || again.Device() != device.Device(d) {
		t.Errorf("%d bytes on %s", again.Bytes(), again.Device().Name())
	}
}

func TestUsage(t *testing.T) {
	d := openFake(t, newFake(), Options{MemoryLimit: 1 << 20})
	a, b := alloc(t, d, 100), alloc(t, d, 30)
	if got, want := d.Usage(), (Usage{LiveBytes: 130, PeakBytes: 130, Blocks: 2, HeldBytes: 512, LimitBytes: 1 << 20}); got != want {
		t.Errorf("two open: %+v, want %+v", got, want)
	}
	a.Close()
	a.Close()
	if got, want := d.Usage(), (Usage{LiveBytes: 30, PeakBytes: 130, Blocks: 1, CachedBytes: 256, HeldBytes: 512, LimitBytes: 1 << 20}); got != want {
		t.Errorf("one closed twice: %+v, want %+v", got, want)
	}
	b.Close()
	if err := d.Trim(); err != nil {
		t.Fatal(err)
	}
	if got, want := d.Usage(), (Usage{PeakBytes: 130, LimitBytes: 1 << 20}); got != want {
		t.Errorf("all closed, trimmed: %+v, want %+v", got, want)
	}
}

// scratchCall is a call of one kernel, which writes to its scratch memory.
type scratchCall struct {
	call Call
	at   uint64
}

func (c *scratchCall) Place(scratch, _ uint64) {
	c.at = scratch
	binary.LittleEndian.PutUint64(c.call.Launches[0].Params, scratch)
}

// TestScratch belongs to a queue as long as it is enough, and is ordered when it is used
// for something else.
func TestScratch(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{MemoryLimit: 1 << 20})
	q, other, late := queue(t, d), queue(t, d), queue(t, d)
	kernel, src := load(t, d, "mix"), alloc(t, d, 64)
	run := func(q *Queue, bytes int64) uint64 {
		t.Helper()
		c := &scratchCall{call: Call{Uses: []Use{{src, false}}, ScratchBytes: bytes,
			Launches: []Launch{{Function: kernel, Grid: one, Block: warp, Params: mixParams(0, src.Pointer(), 64, 1)}}}}
		if err := q.Run(&c.call, c); err != nil {
			t.Fatal(err)
		}
		return c.at
	}
	first := run(q, 512)
	if run(q, 200) != first || run(q, 512) != first {
		t.Error("a queue's calls use different memory")
	}
	if run(late, 512) == first {
		t.Error("two queues use the same memory")
	}
	if run(q, 4096) == first {
		t.Error("too little memory is used")
	}
	b := alloc(t, d, 512)
	if b.Pointer() != first {
		t.Fatal("memory that the queue no longer needs is not used again")
	}
	for range 2 {
		got := make([]byte, 512)
		if err := b.CopyOut(0, got); err != nil || !bytes.Equal(got, make([]byte, 512)) {
			t.Errorf("a call still writes to a buffer: %v", err)
		}
		if err := q.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	held := d.Usage().HeldBytes
	if err := d.Trim(); err != nil || d.Usage().HeldBytes != held-4096-512 {
		t.Errorf("trimmed: %d bytes are held, were %d before, %v", d.Usage().HeldBytes, held, err)
	}
	run(q, 600<<10)
	run(late, 700<<10) // the first queue's makes room
	large := &scratchCall{call: Call{ScratchBytes: 2 << 20}}
	if oom, ok := q.Run(&large.call, large).(*device.OutOfMemoryError); !ok || oom.Asked != 2<<20 {
		t.Errorf("too much: got %v", oom)
	}
	second := run(other, 1024)
	run(other, 8192)
	if run(late, 1024) != second {
		t.Fatal("memory that another queue no longer needs is not used again")
	}
	if err := late.Wait(context.Background()); err != nil || f.streams[other.stream].done == 0 {
		t.Errorf("the other queue's call was not waited for: %v", err)
	}
	cached := d.Usage().CachedBytes
	if err := other.Close(); err != nil || d.Usage().CachedBytes != cached+8192 {
		t.Errorf("a closed queue keeps its memory: %+v, %v", d.Usage(), err)
	}
}

func TestDroppedBufferIsGivenBack(t *testing.T) {
	d := openFake(t, newFake(), Options{})
	kept := alloc(t, d, 512)
	alloc(t, d, 1<<16)
	for range 500 {
		if d.Usage().Blocks == 1 {
			break
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if u := d.Usage(); u.Blocks != 1 || u.LiveBytes != 512 {
		t.Errorf("dropped without Close: %+v", u)
	}
	runtime.KeepAlive(kept)
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

func TestOutOfMemory(t *testing.T) {
	for _, limited := range []bool{false, true} {
		f := newFake()
		o := Options{}
		f.limit = 1 << 20
		if limited {
			f.limit = 1 << 30
			o.MemoryLimit = 1 << 20
		}
		d := openFake(t, f, o)
		for _, size := range []int64{0, -1, math.MinInt64} {
			if b, err := d.Alloc(size); b != nil || !errors.Is(err, device.ErrBadArgument) {
				t.Errorf("Alloc(%d) = %v, %v, want a bad argument", size, b, err)
			}
		}
		a := alloc(t, d, 600<<10)
		for _, size := range []int64{500 << 10, 1 << 40, math.MaxInt64} {
			b, err := d.Alloc(size)
			oom, ok := errors.AsType[*device.OutOfMemoryError](err)
			if b != nil || !ok || oom.Asked != size || oom.Device != "cuda:0" {
				t.Fatalf("Alloc(%d) = %v, %v, want out of memory", size, b, err)
			}
			if want := int64(1<<20) - blockSize(600<<10); oom.Free != want {
				t.Errorf("free %d, want %d", oom.Free, want)
			}
		}
		// Still usable; and what is cached makes room for what is asked.
		a.Close()
		b := alloc(t, d, 900<<10)
		b.Close()
		alloc(t, d, 600<<10)
		if u := d.Usage(); u.Blocks != 1 || u.LiveBytes != 600<<10 {
			t.Errorf("refused allocations were counted: %+v", u)
		}
	}
}

// Making room waits for the work that uses what is given back.
func TestOutOfMemoryDrains(t *testing.T) {
	f := newFake()
	f.limit = 1 << 20
	d := openFake(t, f, Options{})
	q, kernel := queue(t, d), load(t, d, "mix")
	a := alloc(t, d, 600<<10)
	if err := runMix(q, kernel, a, a, 1); err != nil {
		t.Fatal(err)
	}
	a.Close()
	alloc(t, d, 800<<10)
	if err := q.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	f.check(t) // the kernel would have met memory that is gone
}

// Queues and programs take memory too, which the driver alone knows of: what is cached is
// given back for them, and what they do not get is out of memory.
func TestDriverOutOfMemory(t *testing.T) {
	for _, call := range []string{"NewStream", "Load"} {
		f := newFake()
		d := openFake(t, f, Options{})
		alloc(t, d, 600<<10).Close()
		f.fail[call] = &driver.Error{Call: call, Class: driver.OutOfMemory}
		_, err := d.NewQueue()
		if call == "Load" {
			_, err = d.Load(compile.Source{Name: "mix.cu", Text: "mix"}, "mix")
		}
		if !errors.Is(err, device.ErrOutOfMemory) || !strings.Contains(err.Error(), "out of memory") {
			t.Errorf("%s: %v", call, err)
		}
		if u := d.Usage(); u.CachedBytes != 0 {
			t.Errorf("%s: %d bytes are cached still", call, u.CachedBytes)
		}
		delete(f.fail, call)
		queue(t, d)
		load(t, d, "mix")
	}
}

func TestCloseGivesEverythingBack(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{})
	q, kernel := queue(t, d), load(t, d, "mix")
	other := queue(t, d)
	a, b := alloc(t, d, 100), alloc(t, d, 200)
	alloc(t, d, 300).Close()
	if err := errors.Join(runMix(q, kernel, a, b, 1), runMix(other, kernel, b, a, 1), a.CopyIn(0, []byte{1})); err != nil {
		t.Fatal(err)
	}
	e, err := q.Record()
	if err != nil {
		t.Fatal(err)
	}
	timer, err := q.NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	f.checkEmpty(t)

	if err := d.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if errors.Join(a.Close(), a.Close()) != nil || q.Close() != nil || kernel.module.Close() != nil || d.Usage().Blocks != 0 {
		t.Error("closing what is closed is not quiet")
	}
	if !a.Closed() || a.Bytes() != 100 {
		t.Error("a buffer of a closed device is closed, and has its size")
	}
	if !e.Done() {
		t.Error("an event of a closed device has nothing to wait for")
	}
	_, allocErr := d.Alloc(1)
	_, queueErr := d.NewQueue()
	_, loadErr := d.Load(compile.Source{Name: "x"}, "x")
	_, recordErr := q.Record()
	_, timerErr := q.NewTimer()
	for what, err := range map[string]error{
		"alloc": allocErr, "new queue": queueErr, "load": loadErr, "record": recordErr, "new timer": timerErr,
		"start": timer.Start(), "trim": d.Trim(), "copy in": a.CopyIn(0, []byte{1}), "copy out": a.CopyOut(0, make([]byte, 1)),
		"wait": q.Wait(t.Context()), "run": runMix(q, kernel, a, b, 1), "fill": q.Fill(a, 0, 1, 0),
	} {
		if !errors.Is(err, device.ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", what, err)
		}
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

func TestLostDevice(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{})
	q, other := queue(t, d), queue(t, d)
	a := alloc(t, d, 64)
	first, second, third := load(t, d, "first"), load(t, d, "second"), load(t, d, "third")
	if err := errors.Join(runMix(q, first, a, a, 1), q.Wait(context.Background())); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(runMix(q, second, a, a, 1), runMix(other, third, a, a, 1)); err != nil {
		t.Fatal(err)
	}
	f.set("SyncEvent", errFault)
	err := other.Wait(context.Background())
	fault, ok := errors.AsType[*FaultError](err)
	if !errors.Is(err, device.ErrLost) || !ok {
		t.Fatalf("got %v, want a lost device with its fault", err)
	}
	if !slices.Equal(fault.Calls[len(fault.Calls)-2:], []string{"second", "third"}) || slices.Contains(fault.Calls, "first") {
		t.Errorf("calls not known complete: %v", fault.Calls)
	}
	if _, ok := errors.AsType[*driver.Error](err); !ok || !strings.Contains(err.Error(), "second, third") || !strings.Contains(err.Error(), "TOKITAI_SYNC=1") {
		t.Errorf("the message is %v", err)
	}

	f.isLenient = true
	f.set("SyncEvent", nil) // the device may seem to live again: it does not
	_, allocErr := d.Alloc(1)
	_, queueErr := d.NewQueue()
	_, loadErr := d.Load(compile.Source{Name: "x"}, "x")
	_, recordErr := q.Record()
	for what, later := range map[string]error{
		"alloc": allocErr, "new queue": queueErr, "load": loadErr, "record": recordErr, "trim": d.Trim(),
		"copy in": a.CopyIn(0, []byte{1}), "copy out": a.CopyOut(0, make([]byte, 1)), "wait": q.Wait(t.Context()),
		"run": runMix(q, first, a, a, 1), "unload": first.module.Close(), "close queue": q.Close(), "close": d.Close(),
	} {
		if !errors.Is(later, device.ErrLost) {
			t.Errorf("%s on a lost device: %v", what, later)
		}
	}
	if err := d.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if f.contexts != 0 {
		t.Error("the context was kept")
	}
}

// A device that waits after each call knows the culprit, whatever came before.
func TestSyncIsExact(t *testing.T) {
	t.Setenv("TOKITAI_SYNC", "1")
	for what, before := range map[string]func(d *Device, b *Buffer) error{
		"kernels":      func(*Device, *Buffer) error { return nil },
		"a new buffer": func(d *Device, _ *Buffer) error { _, err := d.Alloc(64); return err },
		"a copy in":    func(_ *Device, b *Buffer) error { return b.CopyIn(0, []byte{1}) },
	} {
		f := newFake()
		d := openFake(t, f, Options{})
		q, a := queue(t, d), alloc(t, d, 64)
		good, bad := load(t, d, "good"), load(t, d, "bad")
		if err := errors.Join(runMix(q, good, a, a, 1), before(d, a)); err != nil {
			t.Fatal(err)
		}
		f.isLenient = true
		f.set("SyncStream", errFault)
		err := runMix(q, bad, a, a, 1)
		fault, ok := errors.AsType[*FaultError](err)
		if !ok || !fault.IsExact() || fault.Calls[0] != "bad" || strings.Contains(err.Error(), "TOKITAI_SYNC") {
			t.Errorf("after %s: got %v, want the fault of bad alone", what, err)
		}
	}
}

func TestFaultListsTheLatest(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{})
	q, kernel := queue(t, d), load(t, d, "mix")
	for range remembered + 1 {
		if err := q.Launch(kernel, one, warp, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	f.isLenient = true
	f.set("SyncEvent", errFault)
	fault, ok := errors.AsType[*FaultError](q.Wait(context.Background()))
	if !ok || len(fault.Calls) != remembered || !fault.HasEarlier || fault.IsExact() {
		t.Errorf("got %+v", fault)
	}
}

// An error that is not the device's end leaves it usable.
func TestFailedCall(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{})
	q, kernel, a := queue(t, d), load(t, d, "mix"), alloc(t, d, 8)
	for _, name := range []string{"Launch", "Record", "NewEvent", "NewStream", "Load", "Fill", "CopyIn", "CopyOut", "WaitEvent"} {
		f.set(name, &driver.Error{Call: name, Text: "not today"})
		_, allocErr := d.Alloc(8)
		_, queueErr := d.NewQueue()
		_, loadErr := d.Load(compile.Source{Name: "x"}, "x")
		all := errors.Join(allocErr, queueErr, loadErr, runMix(q, kernel, a, a, 1), q.Wait(context.Background()), a.CopyIn(0, []byte{1}), a.CopyOut(0, make([]byte, 1)))
		if all == nil && name != "WaitEvent" && name != "NewEvent" || errors.Is(all, device.ErrLost) {
			t.Errorf("%s fails: %v", name, all)
		}
		f.set(name, nil)
		if err := errors.Join(runMix(q, kernel, a, a, 1), q.Wait(context.Background()), a.CopyIn(0, []byte{1})); err != nil {
			t.Errorf("%s has failed before: %v", name, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	f.checkEmpty(t)
}

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

// noop is a driver that does nothing at all.
func noop() *driver.Table {
	table := newFake().table()
	table.SetCurrent = func(driver.Context) error { return nil }
	table.Launch = func(driver.Function, [3]uint32, [3]uint32, uint32, driver.Stream, []byte) error { return nil }
	table.Record = func(driver.Event, driver.Stream) error { return nil }
	table.WaitEvent = func(driver.Stream, driver.Event) error { return nil }
	table.Fill = func(driver.Pointer, byte, int64, driver.Stream) error { return nil }
	return table
}

type launching struct {
	q, other *Queue
	call     Call
}

func newLaunching(t testing.TB) *launching {
	d, err := Open(noop(), 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := &launching{q: queue(t, d), other: queue(t, d)}
	for i := range 4 {
		l.call.Uses = append(l.call.Uses, Use{alloc(t, d, 64), i == 0})
	}
	l.call.Launches = []Launch{{Function: load(t, d, "mix"), Grid: one, Block: warp, Params: make([]byte, 96)}}
	return l
}

func TestLaunchAllocatesNothing(t *testing.T) {
	l := newLaunching(t)
	var err error
	for what, run := range map[string]func(){
		"one queue":  func() { err = l.q.Run(&l.call, nil) },
		"two queues": func() { err = errors.Join(l.q.Run(&l.call, nil), l.other.Run(&l.call, nil)) },
		"Launch":     func() { err = l.q.Launch(l.call.Launches[0].Function, one, warp, 0, l.call.Launches[0].Params) },
	} {
		if n := testing.AllocsPerRun(1000, run); n != 0 || err != nil {
			t.Errorf("%s: %v allocations, %v", what, n, err)
		}
	}
}

// What a launch costs in Go, with four buffers, is the time of this less that of the
// driver's own functions, which do nothing here.
func BenchmarkLaunch(b *testing.B) {
	l := newLaunching(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.q.Run(&l.call, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLaunchAlternating(b *testing.B) {
	l := newLaunching(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := errors.Join(l.q.Run(&l.call, nil), l.other.Run(&l.call, nil)); err != nil {
			b.Fatal(err)
		}
	}
}

func TestOpenNamedRefuses(t *testing.T) {
	for _, c := range []struct {
		kind  string
		index int
		text  string
	}{{"hip", 0, "no driver for hip"}, {"sim", 48, "32 or 64"}} {
		d, err := OpenNamed(c.kind, c.index)
		if d != nil || !errors.Is(err, device.ErrNoDevice) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("OpenNamed(%q, %d) = %v, %v", c.kind, c.index, d, err)
		}
	}
	t.Setenv("TOKITAI_CUDA", "/nowhere/libcuda.so.1")
	if d, err := OpenNamed("cuda", 3); err != nil && (!errors.Is(err, device.ErrNoDevice) || !strings.Contains(err.Error(), `"cuda:3"`)) {
		t.Errorf("OpenNamed without a driver: %v, %v", d, err)
	}
}
