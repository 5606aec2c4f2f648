package gpu

import (
	"errors"
	"testing"

	"tokitai/device/gpu/driver"
)

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

// TestEarlyLaunches starts kernels early only after another of their call, and only on
// devices that can.
func TestEarlyLaunches(t *testing.T) {
	for _, startsEarly := range []bool{true, false} {
		for _, hasEarly := range []bool{true, false} {
			table := noop()
			properties, early := table.Properties, 0
			table.Properties = func(index int) (driver.Properties, error) {
				p, err := properties(index)
				p.StartsEarly = startsEarly
				return p, err
			}
			if hasEarly {
				table.LaunchEarly = func(driver.Function, [3]uint32, [3]uint32, uint32, driver.Stream, []byte) error {
					early++
					return nil
				}
			}
			d, err := Open(table, 0, Options{})
			if err != nil {
				t.Fatal(err)
			}
			kernel := load(t, d, "mix")
			first := Launch{Function: kernel, Grid: one, Block: warp, IsEarly: true}
			plain := Launch{Function: kernel, Grid: one, Block: warp}
			if err := queue(t, d).Run(&Call{Launches: []Launch{first, plain, first}}, nil); err != nil {
				t.Fatal(err)
			}
			want := 0
			if startsEarly && hasEarly {
				want = 1
			}
			if early != want {
				t.Errorf("a device that starts early (%v) with a driver that launches early (%v): got %d early launches, want %d", startsEarly, hasEarly, early, want)
			}
		}
	}
}

// TestEncodeTensorMap: the driver encodes in the device's context, whichever thread asks, and
// nothing is allocated.
func TestEncodeTensorMap(t *testing.T) {
	table := noop()
	d, err := Open(table, 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var m driver.TensorMap
	if err := d.EncodeTensorMap(nil, &m); err == nil {
		t.Error("a driver without tensor maps encodes one")
	}
	isCurrent := false
	table.SetCurrent = func(driver.Context) error { isCurrent = true; return nil }
	table.EncodeTensorMap = func([]byte, *driver.TensorMap) error {
		if !isCurrent {
			return errors.New("no current context")
		}
		return nil
	}
	if n := testing.AllocsPerRun(10, func() {
		isCurrent = false
		err = d.EncodeTensorMap(nil, &m)
	}); n != 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
}
