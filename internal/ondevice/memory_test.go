package ondevice

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"testing"

	"tokitai/backend/cpu"
	backendgpu "tokitai/backend/gpu"
	"tokitai/backend/gputest"
	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/driver"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// lines is what another process writes, for whoever asks.
type lines struct {
	mu      sync.Mutex
	written bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written.String()
}

// freeBytes asks the driver.
func freeBytes(t *testing.T, table *driver.Table, index int) int64 {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	context := got[driver.Context](t)(table.Retain(index))
	must(t, table.SetCurrent(context))
	free, _, err := table.MemoryInfo()
	must(t, errors.Join(err, table.Release(index)))
	return free
}

// limited opens the chosen device with a limit: in the simulator always, as its memory
// is the machine's.
func limited(t *testing.T, limit int64) (*backendgpu.Device, *driver.Table, int) {
	t.Helper()
	table, index := gputest.NeedsTable(t)
	return gputest.NeedsWith(t, table, index, gpu.Options{MemoryLimit: limit}), table, index
}

// checkSoftmax computes on a device and compares with the CPU.
func checkSoftmax(dev device.Device) error {
	c, err := softmaxCall()
	if err != nil {
		return err
	}
	q, err := engine.NewQueue(dev)
	if err != nil {
		return err
	}
	got, err := c.hashOn(q)
	if err != nil {
		return errors.Join(err, q.Close())
	}
	want, err := c.hashOn(cpu.Queue())
	if err == nil && got != want {
		err = errors.New("the device's softmax has not the CPU's bits")
	}
	return errors.Join(err, q.Close())
}

func softmaxCall() (*call, error) {
	for _, s := range someShipped() {
		if s.d == softmax.ForwardDefinition {
			return s.newCall(middling())
		}
	}
	panic("ondevice: no softmax")
}

// TestOutOfMemory takes all the memory there is: the error says what was asked and what
// was free, the account is right at every step, the device goes on, and what is given
// back can be had again.
func TestOutOfMemory(t *testing.T) {
	dev, _, _ := limited(t, choose(int64(64<<20), 0))
	must(t, checkSoftmax(dev)) // programs are loaded, and have the memory that they need
	must(t, dev.Trim())
	start := dev.Usage()
	if start.LiveBytes != 0 || start.HeldBytes != 0 || start.Blocks != 0 || start.CachedBytes != 0 {
		t.Fatalf("before anything is taken: %+v", start)
	}
	var list []device.Buffer
	var live int64
	piece := choose(int64(10<<20), 8<<30)
	var last *device.OutOfMemoryError
	for piece >= choose(int64(4<<10), 2<<20) {
		b, err := dev.Alloc(piece)
		if err != nil {
			oom, ok := errors.AsType[*device.OutOfMemoryError](err)
			if !ok || !errors.Is(err, device.ErrOutOfMemory) || oom.Asked != piece || oom.Free < 0 || oom.Device != dev.Name() {
				t.Fatalf("%d bytes after %d: %v", piece, live, err)
			}
			last = oom
			piece /= 2
			continue
		}
		list = append(list, b)
		live += piece
		if u := dev.Usage(); u.LiveBytes != live || u.PeakBytes < live || u.Blocks != len(list) || u.HeldBytes < live || u.CachedBytes != 0 {
			t.Fatalf("%d bytes in %d buffers, the account says %+v", live, len(list), u)
		}
	}
	t.Logf("%d MiB in %d buffers, then: %v", live>>20, len(list), last)

	// One piece stays, so that the others are cached and yet in the way.
	for _, b := range list[1:] {
		must(t, b.Close())
	}
	must(t, checkSoftmax(dev))
	must(t, list[0].Close())
	if u := dev.Usage(); u.LiveBytes != 0 || u.Blocks != 0 || u.PeakBytes < live || u.HeldBytes != u.CachedBytes {
		t.Errorf("all is closed, the account says %+v", u)
	}
	// Nearly all at once: what is cached has to make room.
	whole := got[device.Buffer](t)(dev.Alloc(live / 100 * 98))
	if u := dev.Usage(); u.LiveBytes != whole.Bytes() || u.CachedBytes != 0 {
		t.Errorf("one buffer, the account says %+v", u)
	}
	must(t, errors.Join(whole.Close(), dev.Trim()))
	if u := dev.Usage(); u.HeldBytes != 0 || u.CachedBytes != 0 {
		t.Errorf("all is given back, the account says %+v", u)
	}
}

// fillUp takes what is left within a device's limit; release gives it back.
func fillUp(t *testing.T, dev *backendgpu.Device) (release func()) {
	t.Helper()
	var list []device.Buffer
	for piece := dev.Usage().LimitBytes; piece > 0; {
		b, err := dev.Alloc(piece)
		switch {
		case err == nil:
			list = append(list, b)
		case errors.Is(err, device.ErrOutOfMemory):
			piece /= 2
		default:
			t.Fatal(err)
		}
	}
	return func() {
		for _, b := range list {
			must(t, b.Close())
		}
	}
}

// TestFirstCallWithoutMemory: a lowering that cannot be tested for lack of memory is
// not inadmissible for ever.
func TestFirstCallWithoutMemory(t *testing.T) {
	dev, _, _ := limited(t, choose(int64(8<<20), 1<<30))
	q := newQueue(t, dev)
	c := got[*call](t)(softmaxCall())
	tensors := got[[]*tensor.Tensor](t)(c.tensors(dev, nil))
	release := fillUp(t, dev)
	if err := engine.Call(q, c.d, tensors, c.params); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("no memory is left: %v", err)
	}
	release()
	must(t, engine.Call(q, c.d, tensors, c.params))
	must(t, checkSoftmax(dev))
}

// TestMemoryLimit runs operations within a limit, and one whose scratch memory does not
// fit.
func TestMemoryLimit(t *testing.T) {
	dev, _, _ := limited(t, choose(int64(4<<20), 1<<30))
	eachOf(t, choose(someShipped()[:2], inF16()), func(s shipped) error {
		_, err := repeat(dev, s, middling(), 2)
		return err
	})
	if u := dev.Usage(); u.HeldBytes > u.LimitBytes || u.PeakBytes == 0 {
		t.Errorf("%+v", u)
	}
	must(t, dev.Trim())

	q := newQueue(t, dev)
	rows := choose(4<<10, 1<<20)
	index := got[*tensor.Tensor](t)(tensor.New(dev, num.I32, rows))
	dout := got[*tensor.Tensor](t)(tensor.New(dev, num.F16, rows, 8))
	dweight := got[*tensor.Tensor](t)(tensor.New(dev, num.F16, 3, 8))
	must(t, errors.Join(embedding.Backward(q, dweight, index, dout), q.Wait(), dev.Trim()))
	release := fillUp(t, dev)
	if err := embedding.Backward(q, dweight, index, dout); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("scratch memory that does not fit: %v", err)
	}
	release()
	must(t, errors.Join(embedding.Backward(q, dweight, index, dout), q.Wait()))
}

// TestTwoHandles: what one handle of a device holds the other does not get, and says so.
func TestTwoHandles(t *testing.T) {
	table, index := gputest.NeedsTable(t)
	if isSimulated() {
		t.Skip("needs a GPU: a simulated one's memory is most of the machine's, and takes long to fill")
	}
	one, other := gputest.NeedsWith(t, table, index, gpu.Options{}), gputest.NeedsWith(t, table, index, gpu.Options{})
	free := freeBytes(t, table, index)
	held := got[device.Buffer](t)(one.Alloc(free / 10 * 6))
	_, err := other.Alloc(free / 10 * 6)
	oom, ok := errors.AsType[*device.OutOfMemoryError](err)
	if !ok || oom.Asked != free/10*6 || oom.Free > free-held.Bytes() || oom.Free <= 0 {
		t.Errorf("60%% twice: %v", err)
	}
	if u := other.Usage(); u.LiveBytes != 0 || u.HeldBytes != 0 {
		t.Errorf("the other handle has nothing, its account says %+v", u)
	}
	must(t, checkSoftmax(other))
	must(t, one.Close())
	b := got[device.Buffer](t)(other.Alloc(free / 10 * 6))
	must(t, b.Close())
	must(t, checkSoftmax(other))
}

// TestCloseReturnsMemory opens, uses and closes a device again and again: the driver
// has the same memory free each time. Nothing else may use the GPU meanwhile.
func TestCloseReturnsMemory(t *testing.T) {
	table, index := gputest.NeedsTable(t)
	_, err := table.Retain(index) // the context, whose own memory stays taken
	must(t, err)
	defer table.Release(index)
	var first int64
	before := freeBytes(t, table, index)
	for round := range choose(2, 4) {
		dev, err := gpu.Open(table, index, gpu.Options{})
		must(t, err)
		must(t, checkSoftmax(gputest.Join(dev)))
		for _, size := range []int64{1, 1000, 1 << 20, 3<<20 + 1, choose(int64(5<<20), 5<<30)} {
			b := got[device.Buffer](t)(dev.Alloc(size))
			must(t, b.CopyIn(0, []byte{1}))
			if round%2 == 0 {
				must(t, b.Close()) // cached, or open, when the device is closed
			}
		}
		must(t, dev.Close())
		if u := dev.Usage(); u.LiveBytes != 0 || u.HeldBytes != 0 || u.Blocks != 0 {
			t.Errorf("closed, the account says %+v", u)
		}
		free := freeBytes(t, table, index)
		if round == 0 {
			first = free // the driver keeps what it needed for its first programs
			t.Logf("%d bytes were free before, %d are after the first round", before, free)
		} else if free != first {
			t.Errorf("round %d: %d bytes are free, %d were after the first", round, free, first)
		}
	}
}
