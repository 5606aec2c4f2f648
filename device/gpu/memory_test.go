package gpu

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"tokitai/device"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
)

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
	for limit := time.Now().Add(5 * time.Minute); d.Usage().Blocks != 1 && time.Now().Before(limit); time.Sleep(time.Millisecond) {
		runtime.GC()
	}
	if u := d.Usage(); u.Blocks != 1 || u.LiveBytes != 512 {
		t.Errorf("dropped without Close: %+v", u)
	}
	runtime.KeepAlive(kept)
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
