package cpu_test

import (
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/trial"
)

// subject is a call with its answer.
type subject struct {
	*placed
	want *trial.Operands
}

// newSubjects returns calls of shipped definitions, one after the other in random formats
// and sizes, with the answers of lowerings without machine code.
func newSubjects(t *testing.T, g *gen.Generator, count int) []subject {
	t.Helper()
	definitions := shipped()
	dev := newDevice(t, 2)
	q := newQueue(t, dev)
	var list []subject
	for i := range count {
		d := definitions[i%len(definitions)]
		formats := d.Formats()
		most := 48
		if len(d.Operands[0].Dims) <= 2 && i%3 == 0 {
			most = 160 // several items, and several calls into code
		}
		p := place(t, dev, newCase(g, d, formats[g.Below(len(formats))], sized(g, d, most)))
		want, err := p.compute(q, engine.WithLowering(plainName(d)))
		if err != nil {
			t.Fatalf("%s: %v", d.Name, err)
		}
		list = append(list, subject{p, want})
	}
	return list
}

// deep calls f with at least that many frames of a kilobyte on the stack.
//
//go:noinline
func deep(frames int, f func()) (sum byte) {
	var pad [1024]byte
	if frames == 0 {
		f()
		return 0
	}
	pad[frames%len(pad)] = deep(frames-1, f) + 1
	for _, b := range pad {
		sum += b
	}
	return sum
}

// disturb has the collector run all the time, a profiler interrupt every thread often, and
// goroutines grow and shrink their stacks. Call what it returns to end that.
func disturb(t *testing.T) (end func()) {
	percent := debug.SetGCPercent(1)
	// The profiler would set a rate of 100 Hz. It says on standard error that it does not,
	// since there is one.
	runtime.SetCPUProfileRate(2000)
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		t.Log(err) // a profile of this test itself
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			var kept [][]byte
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				switch i {
				case 0:
					runtime.GC()
				case 1:
					deep(1+n%64, runtime.Gosched)
				case 2: // garbage, and memory that is used again at once
					kept = append(kept[max(0, len(kept)-20):], make([]byte, 1+n%9000))
					runtime.Gosched()
				}
			}
		})
	}
	return func() {
		close(stop)
		all.Wait()
		pprof.StopCPUProfile()
		debug.SetGCPercent(percent)
	}
}

// TestStress makes calls from many goroutines, whose code is made and given back meanwhile,
// while the garbage collector, the profiler and growing stacks interrupt them. Every result
// has the bits of the lowerings without machine code, and nothing beside it changes.
func TestStress(t *testing.T) {
	names := generated(t)
	g := gen.New("stress")
	goroutines, rounds := testlevel.Pick(6, 12, 24), testlevel.Pick(2, 8, 40)
	subjects := newSubjects(t, g, testlevel.Pick(36, 80, 200))
	shared := newDevice(t, 0)
	log := slog.New(slog.DiscardHandler)
	lasting := newQueue(t, shared, engine.WithAdmission(engine.Off), engine.WithLog(log))
	end := disturb(t)
	defer end()
	var all sync.WaitGroup
	for n := range goroutines {
		all.Go(func() {
			for round := range rounds {
				q := lasting
				if (n+round)%2 == 0 { // its plans, and their code, end with the round
					var err error
					if q, err = engine.NewQueue(shared, engine.WithAdmission(engine.Off), engine.WithLog(log)); err != nil {
						t.Error(err)
						return
					}
				}
				for i := range subjects {
					s := &subjects[(i*(n+1)+round)%len(subjects)]
					name := names[(i+n+round)%len(names)]
					var one sync.WaitGroup
					one.Go(func() { // on a stack that has to grow
						deep(i%40, func() { s.check(t, q, shared, name) })
					})
					one.Wait()
					if t.Failed() {
						return
					}
				}
			}
		})
	}
	all.Wait()
}

// check computes a subject in memory of its own.
func (s *subject) check(t *testing.T, q *engine.Queue, dev *cpu.Device, name string) {
	memory, err := s.c.Memory.Place(dev)
	if err != nil {
		t.Error(err)
		return
	}
	defer memory.Close()
	mine := &placed{Placed: memory, c: s.c}
	if mine.tensors, err = memory.Tensors(); err != nil {
		t.Error(err)
		return
	}
	got, err := mine.compute(q, engine.WithLowering(name))
	if err != nil {
		t.Errorf("%s: %v", s.c.Definition.Name, err)
		return
	}
	if text := got.Fault(s.want); text != "" {
		t.Errorf("%s by %s: %s", s.c.Definition.Name, name, text)
	}
}
