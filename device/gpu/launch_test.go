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

// TestEncodeTensorMap: a driver encodes tensor maps in the device's context, and drivers
// without them refuse.
func TestEncodeTensorMap(t *testing.T) {
	table := noop()
	d, err := Open(table, 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	to := make([]byte, driver.TensorMapBytes)
	if err := d.EncodeTensorMap(to, &driver.TensorMap{}); err == nil || d.HasTensorMaps() {
		t.Errorf("a driver without tensor maps: got %v", err)
	}
	var current driver.Context
	table.SetCurrent = func(c driver.Context) error { current = c; return nil }
	table.EncodeTensorMap = func([]byte, *driver.TensorMap) error {
		if current != d.context {
			return errors.New("the context is not current")
		}
		return nil
	}
	m := &driver.TensorMap{}
	if err := d.EncodeTensorMap(to, m); err != nil {
		t.Error(err)
	}
	if n := testing.AllocsPerRun(100, func() { d.EncodeTensorMap(to, m) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	lost := errors.New("lost")
	table.SetCurrent = func(driver.Context) error { return lost }
	if err := d.EncodeTensorMap(to, m); !errors.Is(err, lost) {
		t.Errorf("without the context: got %v, want %v", err, lost)
	}
}
