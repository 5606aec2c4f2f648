package clib

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"tokitai/device/gpu/driver"
)

// Calls are the functions that take the same arguments in every library, each named for
// what it does.
type Calls struct {
	Alloc, Free, MemoryInfo *Function

	AllocHost *Function
	HostFlags []uintptr // arguments of AllocHost after the size
	FreeHost  *Function

	CopyIn, CopyOut, Copy, Fill *Function

	NewStream, DestroyStream, SyncStream, StreamDone, WaitEvent *Function

	NewEvent, DestroyEvent, Record, SyncEvent, EventDone, Elapsed *Function

	Load, Unload, Lookup *Function
	NotFound             int // the code of Lookup for a kernel that the program lacks

	Launch     *Function
	LastOption uintptr // what ends a list of options of Launch
}

// Flags of streams and events, the same in every library.
const (
	nonBlocking   = 1 // not ordered with the default stream, which is unused
	disableTiming = 2
)

// Fill sets the functions of a table that Calls implement.
func (l *Library[S]) Fill(t *driver.Table, c Calls) {
	t.Alloc = func(bytes int64) (driver.Pointer, error) {
		p, err := l.Create(c.Alloc, uintptr(bytes))
		return driver.Pointer(p), err
	}
	t.Free = func(p driver.Pointer) error { return l.Call1(c.Free, uintptr(p)) }
	t.MemoryInfo = func() (free, total int64, err error) {
		f := l.Frame()
		defer l.Done(f)
		f.Args[0], f.Args[1] = Address(&f.Out[0]), Address(&f.Out[1])
		err = l.Call(c.MemoryInfo, f, 2)
		return int64(f.Out[0]), int64(f.Out[1]), err
	}
	t.AllocHost = func(bytes int) ([]byte, error) {
		p, err := l.Create(c.AllocHost, append([]uintptr{uintptr(bytes)}, c.HostFlags...)...)
		if err != nil {
			return nil, err
		}
		return unsafe.Slice((*byte)(Pointer(uint64(p))), bytes), nil
	}
	t.FreeHost = func(memory []byte) error { return l.Call1(c.FreeHost, Address(&memory[0])) }

	t.CopyIn = func(dst driver.Pointer, src []byte, s driver.Stream) error {
		f := l.Frame()
		f.Args[0], f.Args[1], f.Args[2], f.Args[3] = uintptr(dst), f.Hold(src), uintptr(len(src)), uintptr(s)
		err := l.Call(c.CopyIn, f, 4)
		l.Done(f)
		return err
	}
	t.CopyOut = func(dst []byte, src driver.Pointer, s driver.Stream) error {
		f := l.Frame()
		f.Args[0], f.Args[1], f.Args[2], f.Args[3] = f.Hold(dst), uintptr(src), uintptr(len(dst)), uintptr(s)
		err := l.Call(c.CopyOut, f, 4)
		l.Done(f)
		return err
	}
	t.Copy = func(dst, src driver.Pointer, bytes int64, s driver.Stream) error {
		return l.Call4(c.Copy, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(s))
	}
	t.Fill = func(dst driver.Pointer, value byte, bytes int64, s driver.Stream) error {
		return l.Call4(c.Fill, uintptr(dst), uintptr(value), uintptr(bytes), uintptr(s))
	}

	t.NewStream = func() (driver.Stream, error) {
		s, err := l.Create(c.NewStream, nonBlocking)
		return driver.Stream(s), err
	}
	t.DestroyStream = func(s driver.Stream) error { return l.Call1(c.DestroyStream, uintptr(s)) }
	t.SyncStream = func(s driver.Stream) error { return l.Call1(c.SyncStream, uintptr(s)) }
	t.StreamDone = func(s driver.Stream) (bool, error) { return l.Query(c.StreamDone, uintptr(s)) }

	t.NewEvent = func(isTimed bool) (driver.Event, error) {
		flags := uintptr(disableTiming)
		if isTimed {
			flags = 0
		}
		e, err := l.Create(c.NewEvent, flags)
		return driver.Event(e), err
	}
	t.DestroyEvent = func(e driver.Event) error { return l.Call1(c.DestroyEvent, uintptr(e)) }
	t.Record = func(e driver.Event, s driver.Stream) error { return l.Call2(c.Record, uintptr(e), uintptr(s)) }
	t.SyncEvent = func(e driver.Event) error { return l.Call1(c.SyncEvent, uintptr(e)) }
	t.EventDone = func(e driver.Event) (bool, error) { return l.Query(c.EventDone, uintptr(e)) }
	t.WaitEvent = func(s driver.Stream, e driver.Event) error {
		return l.Call3(c.WaitEvent, uintptr(s), uintptr(e), 0)
	}
	t.Elapsed = func(start, end driver.Event) (float64, error) {
		bits, err := l.Create(c.Elapsed, uintptr(start), uintptr(end))
		return float64(math.Float32frombits(uint32(bits))), err
	}

	t.Load = func(image []byte) (driver.Module, error) {
		f := l.Frame()
		defer l.Done(f)
		f.Out[0] = 0
		f.Args[0], f.Args[1] = Address(&f.Out[0]), f.Hold(image)
		err := l.Call(c.Load, f, 2)
		return driver.Module(f.Out[0]), err
	}
	t.Unload = func(m driver.Module) error { return l.Call1(c.Unload, uintptr(m)) }
	t.Lookup = func(m driver.Module, entry string) (driver.Function, error) {
		f := l.Frame()
		defer l.Done(f)
		f.Out[0] = 0
		f.Args[0], f.Args[1], f.Args[2] = Address(&f.Out[0]), uintptr(m), f.Hold(append([]byte(entry), 0))
		err := l.Call(c.Lookup, f, 3)
		if e, ok := errors.AsType[*driver.Error](err); ok && e.Code == c.NotFound {
			e.Text = fmt.Sprintf("the program has no kernel %q", entry)
		}
		return driver.Function(f.Out[0]), err
	}
	t.Launch = func(fn driver.Function, grid, block [3]uint32, shared uint32, s driver.Stream, params []byte) error {
		return l.Launch(c.Launch, fn, grid, block, shared, s, params)
	}
	t.LaunchPacked = func(fn driver.Function, grid, block [3]uint32, shared uint32, s driver.Stream, params []byte) error {
		return l.LaunchPacked(c.Launch, c.LastOption, fn, grid, block, shared, s, params)
	}
}
