package cpu

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"tokitai/device"
)

func open(t testing.TB, o Options) *Device {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
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

func TestAllocAlignedAndZero(t *testing.T) {
	d := open(t, Options{})
	for size := int64(1); size < 1000; size += 7 {
		b := alloc(t, d, size)
		m := b.Memory()
		if address := uintptr(unsafe.Pointer(&m[0])); address%Alignment != 0 {
			t.Fatalf("%d bytes: address %#x is not a multiple of %d", size, address, Alignment)
		}
		if int64(len(m)) != size || int64(cap(m)) != size || b.Bytes() != size {
			t.Fatalf("%d bytes: len %d, cap %d, Bytes %d", size, len(m), cap(m), b.Bytes())
		}
		if !bytes.Equal(m, make([]byte, size)) {
			t.Fatalf("%d bytes: not zero", size)
		}
		for i := range m {
			m[i] = 0xff // a neighbour or a reused block would show it
		}
		if size%2 == 0 {
			b.Close()
		}
	}
}

// Only address space is taken until the pages are touched.
func TestAllocBeyond32Bits(t *testing.T) {
	const size = 1<<32 + 1<<16
	d := open(t, Options{MemoryLimit: 8 << 30})
	b := alloc(t, d, size)
	defer b.Close()
	if err := b.CopyIn(size-3, []byte{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if err := b.CopyOut(size-4, got); err != nil || !bytes.Equal(got, []byte{0, 1, 2, 3}) {
		t.Fatalf("the last bytes are %v, %v, want 0 1 2 3", got, err)
	}
}

func TestAllocRefuses(t *testing.T) {
	d := open(t, Options{MemoryLimit: 1000})
	for _, size := range []int64{0, -1, math.MinInt64} {
		if b, err := d.Alloc(size); b != nil || !errors.Is(err, device.ErrBadArgument) {
			t.Errorf("Alloc(%d) = %v, %v, want a bad argument", size, b, err)
		}
	}
	alloc(t, d, 600)
	for _, size := range []int64{401, 1 << 40, math.MaxInt64} {
		b, err := d.Alloc(size)
		var oom *device.OutOfMemoryError
		if b != nil || !errors.As(err, &oom) || !errors.Is(err, device.ErrOutOfMemory) {
			t.Fatalf("Alloc(%d) = %v, %v, want out of memory", size, b, err)
		}
		if oom.Asked != size || oom.Free != 400 {
			t.Errorf("Alloc(%d): asked %d, free %d, want free 400", size, oom.Asked, oom.Free)
		}
	}
	alloc(t, d, 400)
	if u := d.Usage(); u.LiveBytes != 1000 || u.Blocks != 2 {
		t.Errorf("refused allocations were counted: %+v", u)
	}
}

// Sizes that no address space holds are an error too, where no limit is known.
func TestAllocBeyondAddressSpace(t *testing.T) {
	d := open(t, Options{MemoryLimit: math.MaxInt64})
	for _, size := range []int64{1 << 50, math.MaxInt64 - 63, math.MaxInt64} {
		if b, err := d.Alloc(size); b != nil || !errors.Is(err, device.ErrOutOfMemory) {
			t.Errorf("Alloc(%d) = %v, %v, want out of memory", size, b, err)
		}
	}
	if u := d.Usage(); u.LiveBytes != 0 || u.Blocks != 0 {
		t.Errorf("refused allocations were counted: %+v", u)
	}
}

func TestDefaultLimitIsTheMachine(t *testing.T) {
	d := open(t, Options{})
	if got, want := d.Usage().LimitBytes, machineMemory(); want != 0 && got != want {
		t.Errorf("limit %d, want the machine's %d", got, want)
	}
	if runtime.GOOS == "linux" && machineMemory() < 1<<20 {
		t.Errorf("the machine's memory is %d bytes", machineMemory())
	}
}

func TestUsage(t *testing.T) {
	d := open(t, Options{MemoryLimit: 1 << 20})
	a := alloc(t, d, 100)
	b := alloc(t, d, 30)
	if got, want := d.Usage(), (Usage{LiveBytes: 130, PeakBytes: 130, Blocks: 2, LimitBytes: 1 << 20}); got != want {
		t.Errorf("two open: %+v, want %+v", got, want)
	}
	a.Close()
	a.Close()
	c := alloc(t, d, 10)
	if got, want := d.Usage(), (Usage{LiveBytes: 40, PeakBytes: 130, Blocks: 2, LimitBytes: 1 << 20}); got != want {
		t.Errorf("one closed twice, one more open: %+v, want %+v", got, want)
	}
	b.Close()
	c.Close()
	if got, want := d.Usage(), (Usage{PeakBytes: 130, LimitBytes: 1 << 20}); got != want {
		t.Errorf("all closed: %+v, want %+v", got, want)
	}
}

// patience is how long a test waits for what should come: after that something hangs.
const patience = 5 * time.Minute

// eventually waits for what the collector does on goroutines of its own.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%s: not so after %v", what, patience)
		}
		runtime.GC()
	}
}

func TestDroppedBufferIsCountedBack(t *testing.T) {
	d := open(t, Options{})
	kept := alloc(t, d, 1<<10)
	alloc(t, d, 1<<16)
	eventually(t, "dropped without Close, not live", func() bool { return d.Usage().LiveBytes == 1<<10 })
	if u := d.Usage(); u.Blocks != 1 {
		t.Errorf("%d blocks, want the one kept", u.Blocks)
	}
	runtime.KeepAlive(kept)
}

func TestClosedMemoryIsUnreachable(t *testing.T) {
	d := open(t, Options{})
	b := alloc(t, d, 1<<16)
	b.Close()
	held := func() int64 {
		d.memory.mu.Lock()
		defer d.memory.mu.Unlock()
		return d.memory.held
	}
	eventually(t, "closed, collected", func() bool { return held() == 0 })
	if u := d.Usage(); u.LiveBytes != 0 || u.Blocks != 0 {
		t.Errorf("closed and collected was counted back twice: %+v", u)
	}
	runtime.KeepAlive(b)
}

// Blocks one after the other, each as large as the limit, must not pile up in
// the runtime until it collects of its own accord.
func TestLimitHoldsForTheProcess(t *testing.T) {
	const limit = 64 << 20
	d := open(t, Options{MemoryLimit: limit})
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 8 {
		b := alloc(t, d, limit)
		b.Close()
	}
	runtime.ReadMemStats(&after)
	if collections := after.NumGC - before.NumGC; collections < 7 {
		t.Errorf("8 blocks as large as the limit took %d collections, want one for each but the first", collections)
	}
}

func TestCopy(t *testing.T) {
	d := open(t, Options{})
	b := alloc(t, d, 10)
	if err := b.CopyIn(3, []byte{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if err := b.CopyIn(10, nil); err != nil {
		t.Errorf("nothing at the end: %v", err)
	}
	got := make([]byte, 5)
	if err := b.CopyOut(2, got); err != nil || !bytes.Equal(got, []byte{0, 1, 2, 3, 0}) {
		t.Errorf("CopyOut = %v, %v", got, err)
	}
	before := bytes.Clone(b.Memory())
	for _, c := range []struct {
		offset int64
		n      int
	}{{-1, 1}, {8, 3}, {11, 0}, {10, 1}, {math.MaxInt64, 1}, {math.MinInt64, 1}, {0, 11}} {
		part := bytes.Repeat([]byte{9}, c.n)
		if err := b.CopyIn(c.offset, part); !errors.Is(err, device.ErrBadArgument) {
			t.Errorf("CopyIn of %d at %d: %v, want a bad argument", c.n, c.offset, err)
		}
		if err := b.CopyOut(c.offset, part); !errors.Is(err, device.ErrBadArgument) {
			t.Errorf("CopyOut of %d at %d: %v, want a bad argument", c.n, c.offset, err)
		}
		if !bytes.Equal(part, bytes.Repeat([]byte{9}, c.n)) {
			t.Errorf("a refused CopyOut of %d at %d wrote", c.n, c.offset)
		}
	}
	if !bytes.Equal(b.Memory(), before) {
		t.Error("a refused CopyIn wrote")
	}
	err := b.CopyIn(8, make([]byte, 3))
	if want := "cpu: copy in: got 3 bytes at offset 8, want a part of the buffer's 10"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func TestUseAfterClose(t *testing.T) {
	d := open(t, Options{})
	closedItself, closedWithDevice := alloc(t, d, 8), alloc(t, d, 8)
	q, err := d.NewQueue()
	if err != nil {
		t.Fatal(err)
	}
	if closedItself.Closed() {
		t.Error("closed before Close")
	}
	closedItself.Close()
	check := func(what string, b *Buffer) {
		t.Helper()
		if err := b.CopyIn(0, []byte{1}); !errors.Is(err, device.ErrClosed) {
			t.Errorf("%s: CopyIn: %v", what, err)
		}
		if err := b.CopyOut(0, []byte{1}); !errors.Is(err, device.ErrClosed) {
			t.Errorf("%s: CopyOut: %v", what, err)
		}
		if b.Memory() != nil || !b.Closed() || b.Bytes() != 8 || b.Device() != device.Device(d) || b.Close() != nil {
			t.Errorf("%s: memory %v, closed %v, %d bytes", what, b.Memory(), b.Closed(), b.Bytes())
		}
	}
	check("closed itself", closedItself)
	if closedWithDevice.Closed() {
		t.Error("closing one buffer closed another")
	}

	d.Close()
	if err := d.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	check("device closed", closedWithDevice)
	if b, err := d.Alloc(8); b != nil || !errors.Is(err, device.ErrClosed) {
		t.Errorf("Alloc on a closed device: %v, %v", b, err)
	}
	if q, err := d.NewQueue(); q != nil || !errors.Is(err, device.ErrClosed) {
		t.Errorf("NewQueue on a closed device: %v, %v", q, err)
	}
	if err := q.Wait(t.Context()); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Wait on a queue of a closed device: %v", err)
	}
	if err := d.Pool().Run(t.Context(), 3, new(counter)); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Run on a closed device: %v", err)
	}
	if !strings.Contains(d.Describe().Architecture, runtime.GOARCH) || d.Name() != "cpu" || d.Kind() != "cpu" {
		t.Error("a closed device no longer says what it was")
	}
}

func TestNilDevice(t *testing.T) {
	var d *Device
	if _, err := d.Alloc(8); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Alloc: %v", err)
	}
	if _, err := d.NewQueue(); !errors.Is(err, device.ErrClosed) {
		t.Errorf("NewQueue: %v", err)
	}
	if err := d.Pool().Run(t.Context(), 1, new(counter)); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Run: %v", err)
	}
	if d.Close() != nil || d.Usage() != (Usage{}) || d.Pool().Workers() != 0 || d.Describe().Units != 0 {
		t.Error("a nil device is not empty")
	}
}

func TestMemoryFromManyGoroutines(t *testing.T) {
	d := open(t, Options{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				b, err := d.Alloc(int64(64 + i))
				if err != nil {
					t.Error(err)
					return
				}
				m := b.(*Buffer).Memory()
				wg.Go(func() { b.Close() })
				for k := range m {
					m[k] = byte(g) // must stay ours while the other goroutine closes
				}
				for k := range m {
					if m[k] != byte(g) {
						t.Errorf("memory changed under its holder")
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if u := d.Usage(); u.LiveBytes != 0 || u.Blocks != 0 {
		t.Errorf("all closed: %+v", u)
	}
}
