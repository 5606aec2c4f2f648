package gpu

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
)

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
