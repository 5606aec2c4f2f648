package gpu

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/device/gpu/driver"
)

// library is a foreign library that fills a buffer on the fake device.
type library struct {
	f       *fake
	at      driver.Pointer
	scratch driver.Pointer
	stream  driver.Stream
	err     error
}

func (l *library) Name() string { return "fill by a library" }

func (l *library) Submit(s driver.Stream, scratch driver.Pointer) error {
	l.stream, l.scratch = s, scratch
	if l.err != nil {
		return l.err
	}
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	l.f.queue(s, func() { mix(l.f.bytes(l.at, 4), []byte{1, 2, 3, 4}, 0) })
	return nil
}

// TestForeign: a library's work is ordered with that of other queues, has scratch memory,
// and its errors are those of the call.
func TestForeign(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{})
	b := alloc(t, d, 4)
	first, second := queue(t, d), queue(t, d)
	if err := first.Fill(b, 0, 4, 1); err != nil {
		t.Fatal(err)
	}
	l := &library{f: f, at: driver.Pointer(b.Pointer())}
	call := &Call{Uses: []Use{{b, true}}, ScratchBytes: 100}
	if err := second.RunForeign(call, l); err != nil {
		t.Fatal(err)
	}
	if l.stream != second.stream || l.scratch == 0 || l.scratch != second.scratch.pointer {
		t.Errorf("submitted to stream %d with scratch memory %#x, want %d and the queue's %#x", l.stream, l.scratch, second.stream, second.scratch.pointer)
	}
	got := make([]byte, 4)
	if err := b.CopyOut(0, got); err != nil {
		t.Fatal(err)
	}
	if want := []byte{32, 33, 34, 35}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: a library's work after the fill, and the copy after both", got, want)
	}
	l.err = &driver.Error{Call: "libraryFill", Text: "no"}
	if err := second.RunForeign(call, l); err == nil || !strings.Contains(err.Error(), "cuda:0: launch: libraryFill: no") {
		t.Errorf("a library's error: %v", err)
	}
	l.err = &driver.Error{Call: "libraryFill", Text: "gone", Class: driver.Lost}
	if err := second.RunForeign(call, l); !errors.Is(err, device.ErrLost) || !strings.Contains(err.Error(), "fill by a library") {
		t.Errorf("a device lost in a library: %v, want the work named", err)
	}
}

// TestForeignIsNotRecorded: a sequence refuses the work of a library.
func TestForeignIsNotRecorded(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{})
	b := alloc(t, d, 4)
	l := &library{f: f, at: driver.Pointer(b.Pointer())}
	_, err := queue(t, d).NewSequence(1, func(_ int, to device.Queue) error {
		return to.(*Queue).RunForeign(&Call{Uses: []Use{{b, true}}}, l)
	})
	if err == nil || !strings.Contains(err.Error(), "fill by a library cannot be recorded") || l.stream != 0 {
		t.Errorf("got %v, and a submission to stream %d, want it refused", err, l.stream)
	}
}

func TestDoAndOnClose(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{})
	b := alloc(t, d, 4)
	q := queue(t, d)
	if err := q.Fill(b, 0, 4, 1); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	if err := d.Do("ask a library", func() error { return boom }); !errors.Is(err, boom) || !strings.Contains(err.Error(), "cuda:0: ask a library: boom") {
		t.Errorf("an error of a library: %v", err)
	}
	closed := 0
	err := d.OnClose(func() error {
		for s, stream := range f.streams {
			if stream.done < len(stream.work) {
				t.Errorf("called while stream %d has work to do", s)
			}
		}
		closed++
		return boom
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); !errors.Is(err, boom) || closed != 1 {
		t.Errorf("closing: %v after %d calls, want the library's error after 1", err, closed)
	}
	if err := errors.Join(d.Close()); err != nil || closed != 1 {
		t.Errorf("closing twice: %v, %d calls", err, closed)
	}
	if err := d.OnClose(func() error { return nil }); !errors.Is(err, device.ErrClosed) {
		t.Errorf("OnClose of a closed device: %v", err)
	}
	if err := d.Do("ask a library", func() error { return nil }); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Do on a closed device: %v", err)
	}
}
