package gpu

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"tokitai/device"
	"tokitai/device/gpu/driver"
)

// mixCall is the call dst = 31·dst + src + k.
func mixCall(f *Function, dst, src *Buffer, k int) *Call {
	return &Call{Uses: []Use{{dst, true}, {src, false}},
		Launches: []Launch{{Function: f, Grid: one, Block: warp, Params: mixParams(dst.Pointer(), src.Pointer(), int(dst.Bytes()), k)}}}
}

// passingCall passes src to dst through scratch memory: scratch = 31·scratch + src + 1,
// then dst = 31·dst + scratch + 1. What an earlier call left in scratch memory counts.
type passingCall struct{ call Call }

func newPassingCall(f *Function, dst, src *Buffer) *passingCall {
	n := int(dst.Bytes())
	return &passingCall{Call{Uses: []Use{{dst, true}, {src, false}}, ScratchBytes: dst.Bytes(), Launches: []Launch{
		{Function: f, Grid: one, Block: warp, Params: mixParams(0, src.Pointer(), n, 1)},
		{Function: f, Grid: one, Block: warp, Params: mixParams(dst.Pointer(), 0, n, 1)},
	}}}
}

func (c *passingCall) Place(scratch, _ uint64) {
	binary.LittleEndian.PutUint64(c.call.Launches[0].Params, scratch)
	binary.LittleEndian.PutUint64(c.call.Launches[1].Params[8:], scratch)
}

// step is a call of a sequence.
type step struct {
	call   *Call
	placer Placer
}

func newSequence(d *Device, steps ...step) (*Sequence, error) {
	s, err := d.transfers.queue.NewSequence(len(steps), func(i int, to device.Queue) error { return to.(*Queue).Run(steps[i].call, steps[i].placer) })
	if err != nil {
		return nil, err
	}
	return s.(*Sequence), nil
}

func update(s *Sequence, i int, c *Call, p Placer) error {
	return s.Update(i, func(to device.Queue) error { return to.(*Queue).Run(c, p) })
}

func mustSequence(t testing.TB, d *Device, steps ...step) *Sequence {
	t.Helper()
	s, err := newSequence(d, steps...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func contents(t testing.TB, b *Buffer) []byte {
	t.Helper()
	got := make([]byte, b.Bytes())
	if err := b.CopyOut(0, got); err != nil {
		t.Fatal(err)
	}
	return got
}

// Random sequences, run on several queues between other calls, with other parameters now
// and then, give what the same calls give one after the other. The device runs what is not
// ordered in the wrong order: nodes of a graph, and queues.
func TestSequence(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		f := newFake()
		d := openFake(t, f, Options{Sync: seed%5 == 4})
		kernel := load(t, d, "mix")
		queues := []*Queue{queue(t, d), queue(t, d), queue(t, d)}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		const n = 32
		var buffers []*Buffer
		var want [][]byte
		for range 6 {
			buffers, want = append(buffers, alloc(t, d, n)), append(want, make([]byte, n))
		}
		type made struct{ dst, src, k int }
		pick := func() made {
			c := made{r.IntN(6), r.IntN(6), r.IntN(256)}
			for c.src == c.dst {
				c.src = r.IntN(6)
			}
			return c
		}
		var calls []made
		var steps []step
		for range 1 + r.IntN(20) {
			c := pick()
			calls = append(calls, c)
			steps = append(steps, step{call: mixCall(kernel, buffers[c.dst], buffers[c.src], c.k)})
		}
		s := mustSequence(t, d, steps...)
		for _, step := range steps {
			clear(step.call.Launches[0].Params) // the sequence has a copy
		}
		for range 30 {
			q := queues[r.IntN(3)]
			switch r.IntN(4) {
			case 0:
				c := pick()
				must(runMix(q, kernel, buffers[c.dst], buffers[c.src], c.k))
				mix(want[c.dst], want[c.src], byte(c.k))
			case 1:
				i := r.IntN(len(calls))
				calls[i].k = r.IntN(256)
				must(update(s, i, mixCall(kernel, buffers[calls[i].dst], buffers[calls[i].src], calls[i].k), nil))
			default:
				must(s.Run(q))
				for _, c := range calls {
					mix(want[c.dst], want[c.src], byte(c.k))
				}
			}
		}
		for i, b := range buffers {
			if got := contents(t, b); !bytes.Equal(got, want[i]) {
				t.Fatalf("seed %d: buffer %d has % x, want % x", seed, i, got, want[i])
			}
		}
		must(s.Close())
		must(d.Close())
		f.checkEmpty(t)
	}
}

// Calls that share scratch memory do not run at the same time, neither in one sequence nor
// in two runs of it on different queues.
func TestSequenceScratch(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{})
	kernel := load(t, d, "mix")
	var steps []step
	var outputs []*Buffer
	in := alloc(t, d, 16)
	if err := in.CopyIn(0, []byte("abcdefghijklmnop")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		out := alloc(t, d, 16)
		outputs = append(outputs, out)
		c := newPassingCall(kernel, out, in)
		steps = append(steps, step{&c.call, c})
	}
	s := mustSequence(t, d, steps...)
	if s.scratch == nil || s.scratch == queue(t, d).scratch {
		t.Fatal("the sequence has no scratch memory of its own")
	}
	scratch := bytes.Repeat([]byte{0xa5}, 16) // as the fake's memory begins
	want := [3][]byte{make([]byte, 16), make([]byte, 16), make([]byte, 16)}
	for range 4 {
		if err := s.Run(queue(t, d)); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			mix(scratch, []byte("abcdefghijklmnop"), 1)
			mix(want[i], scratch, 1)
		}
	}
	for i := range want {
		if got := contents(t, outputs[i]); !bytes.Equal(got, want[i]) {
			t.Errorf("output %d is % x, want % x", i, got, want[i])
		}
	}
}

// Memory that a sequence takes, or gives back, may still be in use by other queues.
func TestSequenceMemoryIsOrdered(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{})
	kernel, early, late := load(t, d, "mix"), queue(t, d), queue(t, d)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	in, out, old := alloc(t, d, 16), alloc(t, d, 16), alloc(t, d, 16)
	must(early.Fill(old, 0, 16, 7))
	old.Close()
	c := newPassingCall(kernel, out, in)
	s := mustSequence(t, d, step{&c.call, c})
	if s.scratch != old.lease.block {
		t.Fatal("the sequence has other scratch memory than the closed buffer's")
	}
	must(s.Run(late)) // after early's fill, or it starts from other values
	scratch, want := bytes.Repeat([]byte{7}, 16), make([]byte, 16)
	mix(scratch, make([]byte, 16), 1)
	mix(want, scratch, 1)
	if got := contents(t, out); !bytes.Equal(got, want) {
		t.Errorf("the sequence got % x, want % x", got, want)
	}

	must(s.Run(late))
	must(s.Close())
	fresh := alloc(t, d, 16)
	if fresh.lease.block != old.lease.block {
		t.Fatal("the new buffer has other memory than the closed sequence's")
	}
	if got := contents(t, fresh); !bytes.Equal(got, make([]byte, 16)) {
		t.Errorf("a new buffer has % x", got)
	}
	must(late.Wait(context.Background()))
	if got := contents(t, fresh); !bytes.Equal(got, make([]byte, 16)) {
		t.Errorf("a closed sequence has written % x to a new buffer", got)
	}
}

// The order has every edge that memory calls for, by any path, no call twice, and no more
// than so many calls at a time.
func TestSequenceOrder(t *testing.T) {
	d := openFake(t, newFake(), Options{})
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 3))
		s := &sequence{device: d, scratch: &block{}}
		buffers := make([]*Buffer, 1+r.IntN(30))
		for i := range buffers {
			buffers[i] = &Buffer{device: d, lease: &lease{block: &block{}}}
		}
		n := 1 + r.IntN(60)
		for range n {
			c := recordedCall{launches: 1}
			for range 1 + r.IntN(3) {
				c.uses = append(c.uses, Use{buffers[r.IntN(len(buffers))], r.IntN(2) == 0})
			}
			if r.IntN(8) == 0 {
				c.scratchBytes = 8
			}
			s.calls = append(s.calls, c)
		}
		after := s.order()
		runsAfter := make([][]bool, n)
		for i, list := range after {
			runsAfter[i] = make([]bool, n)
			for _, before := range list {
				if runsAfter[i][before] || before >= i {
					t.Fatalf("seed %d: call %d runs after %v", seed, i, list)
				}
				runsAfter[i][before] = true
				for k, is := range runsAfter[before] {
					runsAfter[i][k] = runsAfter[i][k] || is
				}
			}
		}
		conflict := func(a, b *recordedCall) bool {
			for _, u := range a.uses {
				for _, v := range b.uses {
					if u.Buffer == v.Buffer && (u.IsWrite || v.IsWrite) {
						return true
					}
				}
			}
			return a.scratchBytes > 0 && b.scratchBytes > 0
		}
		for i := range n {
			for k := range i {
				if conflict(&s.calls[i], &s.calls[k]) && !runsAfter[i][k] {
					t.Fatalf("seed %d: call %d does not run after call %d, with which it shares memory", seed, i, k)
				}
			}
		}
		// By Dilworth, calls that may all run at the same time are as many as the chains that
		// cover all calls: the lanes. Look for more by hand.
		for range 200 {
			var together []int
			for _, i := range r.Perm(n) {
				if !slices.ContainsFunc(together, func(k int) bool { return runsAfter[max(i, k)][min(i, k)] }) {
					together = append(together, i)
				}
			}
			if len(together) > lanes {
				t.Fatalf("seed %d: calls %v may run at the same time", seed, together)
			}
		}
	}
	// Calls that share nothing fill all lanes.
	s := &sequence{device: d}
	for range 10 {
		s.calls = append(s.calls, recordedCall{launches: 1, uses: []Use{{&Buffer{device: d, lease: &lease{block: &block{}}}, true}}})
	}
	if got, want := fmt.Sprint(s.order()), "[[] [] [] [] [0] [1] [2] [3] [4] [5]]"; got != want {
		t.Errorf("independent calls: %s, want %s", got, want)
	}
}

// A sequence that the kernels refuse is told like calls that they refuse, each refused call
// once for each run, also if the sequence has more checks than a queue has words.
func TestSequenceChecks(t *testing.T) {
	for _, isSync := range []bool{false, true} {
		x := newChecking(t, Options{Sync: isSync})
		q := queue(t, x.d)
		newStep := func(number, checks, set int) step {
			c := &checkedCall{set: set, into: x.into}
			c.call.Uses = []Use{{x.into, true}}
			c.call.Launches = []Launch{{Function: x.kernel, Grid: one, Block: warp, Params: mixParams(0, x.into.Pointer(), (checks-max(set, 0))*wordBytes, 1)}}
			for i := range checks {
				c.call.Checks = append(c.call.Checks, Check{By: checker{}, Facts: [4]int64{int64(number), int64(i)}})
			}
			return step{&c.call, c}
		}
		wait := func(runs error) error {
			if runs != nil {
				return runs // of a queue that waits after each call
			}
			return q.Wait(context.Background())
		}
		s := mustSequence(t, x.d, newStep(1, 1, -1), newStep(2, 3, 1), newStep(3, 1, -1), newStep(4, 1, 0))
		good := mustSequence(t, x.d, newStep(5, 1, -1))
		wantError(t, "a sequence", wait(s.Run(q)), "call 2, check 1; call 4, check 0")
		wantError(t, "one without refusals", wait(good.Run(q)), "nil")
		wantError(t, "the first again", wait(s.Run(q)), "call 2, check 1; call 4, check 0")
		if !isSync {
			x.must(t, s.Run(q))
			x.must(t, x.run(q, 6, 1, 0))
			x.must(t, good.Run(q))
			x.must(t, s.Run(q))
			wantError(t, "two runs and a call", q.Wait(context.Background()), "call 2, check 1; call 4, check 0; call 6, check 0; call 2, check 1; call 4, check 0")
		}
		moved := newStep(7, 1, -1)
		x.must(t, update(s, 3, moved.call, moved.placer))
		wantError(t, "with a call changed", wait(s.Run(q)), "call 2, check 1")

		var many []step
		for i := range checkWords + 7 {
			set := -1
			if i%500 == 3 {
				set = 0
			}
			many = append(many, newStep(i, 1, set))
		}
		large := mustSequence(t, x.d, many...)
		for range 3 {
			wantError(t, "many checks", wait(large.Run(q)), "call 3, check 0; call 503, check 0; call 1003, check 0")
		}
	}
}

func TestSequenceRefuses(t *testing.T) {
	f := newFake()
	d, stranger := openFake(t, f, Options{}), openFake(t, newFake(), Options{})
	kernel, q := load(t, d, "mix"), queue(t, d)
	a, b, c := alloc(t, d, 16), alloc(t, d, 16), alloc(t, d, 16)
	refused := func(what string, err error, target error, text string) {
		t.Helper()
		if !errors.Is(err, target) || !bytes.Contains([]byte(err.Error()), []byte(text)) {
			t.Errorf("%s: got %v, want %v with %q", what, err, target, text)
		}
	}
	_, err := newSequence(d, step{call: &Call{Uses: []Use{{nil, true}}}})
	refused("a nil buffer", err, device.ErrBadArgument, "nil buffer")
	_, err = newSequence(d, step{call: &Call{Launches: []Launch{{Function: kernel, Block: warp}}}})
	refused("an empty grid", err, device.ErrBadArgument, "grid of [0 0 0]")
	f.set("NewGraph", &driver.Error{Call: "graph", Text: "no graph"})
	_, err = newSequence(d, step{call: mixCall(kernel, a, b, 1)})
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("no graph")) {
		t.Errorf("a driver that makes no graph: %v", err)
	}
	f.set("NewGraph", nil)

	s := mustSequence(t, d, step{call: mixCall(kernel, a, b, 1)}, step{call: mixCall(kernel, b, c, 2)})
	refused("another device", s.Run(queue(t, stranger)), device.ErrBadArgument, "a queue of another device")
	refused("another call", update(s, 0, mixCall(kernel, a, c, 1), nil), device.ErrBadArgument, "other memory or other kernels")
	wide := mixCall(kernel, a, b, 1)
	wide.Launches[0].Grid[0] = 2
	refused("another grid", update(s, 0, wide, nil), device.ErrBadArgument, "other memory or other kernels")
	refused("no call", update(s, 2, mixCall(kernel, a, c, 1), nil), device.ErrBadArgument, "one of the sequence's 2")

	two := func(to device.Queue) error {
		return errors.Join(to.(*Queue).Run(mixCall(kernel, a, b, 1), nil), to.(*Queue).Run(mixCall(kernel, b, c, 1), nil))
	}
	refused("more calls", s.Update(0, two), device.ErrBadArgument, "other memory or other kernels")
	refused("fewer calls", s.Update(0, func(device.Queue) error { return nil }), device.ErrBadArgument, "other memory or other kernels")
	refused("other work", s.Update(0, func(to device.Queue) error { return to.(*Queue).Fill(a, 0, 1, 1) }), device.ErrBadArgument, "takes nothing but calls")
	refused("a wait", s.Update(0, func(to device.Queue) error { return to.Wait(context.Background()) }), device.ErrBadArgument, "takes nothing but calls")

	refused("closing its queue", s.Update(0, func(to device.Queue) error { return to.Close() }), device.ErrBadArgument, "takes nothing but calls")

	f.set("SetNode", &driver.Error{Call: "set", Text: "not now"})
	if err := errors.Join(update(s, 1, mixCall(kernel, b, c, 3), nil), s.Run(q)); err == nil {
		t.Error("parameters that the driver does not take: the sequence ran")
	}
	f.set("SetNode", nil)
	if err := s.Run(q); err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 16)
	mix(want, make([]byte, 16), 3) // and not 2: the change was kept for the next run
	if got := contents(t, b); !bytes.Equal(got, want) {
		t.Errorf("after a failure the next run has % x, want % x", got, want)
	}

	before := contents(t, a)
	c.Close()
	refused("a closed buffer", s.Run(q), device.ErrClosed, "buffer already closed")
	if got := contents(t, a); !bytes.Equal(got, before) {
		t.Error("a sequence with a closed buffer ran in part")
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	refused("a closed sequence", s.Run(q), device.ErrClosed, "sequence already closed")
	refused("an update of one", update(s, 0, mixCall(kernel, a, b, 1), nil), device.ErrClosed, "sequence already closed")
	open := mustSequence(t, d, step{call: mixCall(kernel, a, b, 1)})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	f.checkEmpty(t)
	if err := open.Close(); err != nil {
		t.Error(err)
	}
	refused("a closed device", open.Run(q), device.ErrClosed, "closed")
}

// Kept memory of a closed buffer is not used again before it is released, and calls may use
// it.
func TestKeep(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{})
	kernel, q := load(t, d, "mix"), queue(t, d)
	a, b := alloc(t, d, 16), alloc(t, d, 16)
	release, err := a.Keep()
	if err != nil {
		t.Fatal(err)
	}
	again, err := a.Keep()
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if _, err := a.Keep(); !errors.Is(err, device.ErrClosed) {
		t.Errorf("keeping a closed buffer: %v", err)
	}
	if u := d.Usage(); u.Blocks != 1 || u.CachedBytes != 0 || u.HeldBytes != 2*Alignment {
		t.Errorf("usage %+v", u)
	}
	if err := runMix(q, kernel, b, a, 1); err != nil {
		t.Errorf("a call: %v", err)
	}
	s := mustSequence(t, d, step{call: mixCall(kernel, b, a, 1)})
	if err := s.Run(q); err != nil {
		t.Fatal(err)
	}
	release()
	release() // once is enough
	if err := s.Run(q); err != nil {
		t.Fatal(err)
	}
	again()
	if err := runMix(q, kernel, b, a, 1); !errors.Is(err, device.ErrClosed) {
		t.Errorf("a call with memory that nobody keeps: %v", err)
	}
	if err := s.Run(q); !errors.Is(err, device.ErrClosed) {
		t.Errorf("memory that nobody keeps: %v", err)
	}
	if u := d.Usage(); u.CachedBytes != Alignment {
		t.Errorf("usage after the release %+v", u)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	f.checkEmpty(t)
}

// A sequence keeps the buffers of its calls from being collected, and is itself collected
// when nothing refers to it.
func TestSequenceIsCollected(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{})
	kernel := load(t, d, "mix")
	wait := func(what string, is func() bool) {
		t.Helper()
		for range 1000 {
			runtime.GC()
			if is() {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Errorf("%s: %+v, %d sequences", what, d.Usage(), len(d.sequences))
	}
	func() {
		s := mustSequence(t, d, step{call: mixCall(kernel, alloc(t, d, 16), alloc(t, d, 16), 1)})
		alloc(t, d, 16) // is dropped
		wait("a dropped buffer stays", func() bool { return d.Usage().Blocks <= 2 })
		if n := d.Usage().Blocks; n != 2 {
			t.Errorf("%d buffers left, want the sequence's 2", n)
		}
		runtime.KeepAlive(s)
	}()
	wait("a dropped sequence stays", func() bool { return d.Usage().Blocks == 0 })
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.graphs) != 0 {
		t.Errorf("%d graphs left", len(f.graphs))
	}
}

// Runs and changes from several goroutines are ordered somehow; the race detector looks on.
func TestSequenceConcurrently(t *testing.T) {
	d := openFake(t, newFake(), Options{})
	kernel := load(t, d, "mix")
	a, b := alloc(t, d, 16), alloc(t, d, 16)
	s := mustSequence(t, d, step{call: mixCall(kernel, a, b, 1)})
	var group sync.WaitGroup
	for i := range 4 {
		q := queue(t, d)
		group.Go(func() {
			for range 50 {
				if err := errors.Join(update(s, 0, mixCall(kernel, a, b, i), nil), s.Run(q)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestSequenceAllocatesNothing(t *testing.T) {
	f := newFake()
	table := f.table()
	table.LaunchGraph = func(driver.Graph, driver.Stream) error { return nil } // the fake's allocate
	table.SetNode = func(driver.Graph, int, *driver.Node) error { return nil }
	d, err := Open(table, 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	kernel, q := load(t, d, "mix"), queue(t, d)
	a, b := alloc(t, d, 16), alloc(t, d, 16)
	s := mustSequence(t, d, step{call: mixCall(kernel, a, b, 1)}, step{call: mixCall(kernel, b, a, 1)})
	changes := []*Call{mixCall(kernel, b, a, 2), mixCall(kernel, b, a, 3)}
	i := 0
	if n := testing.AllocsPerRun(100, func() {
		i++
		err = errors.Join(update(s, 1, changes[i%2], nil), s.Run(q))
	}); n != 0 || err != nil {
		t.Errorf("a run allocates %v times, %v", n, err)
	}
}

// Each call of a sequence has a table of its own. Runs on several queues, many of them under
// way at once, have the tables that the sequence had when they were submitted.
func TestSequenceTables(t *testing.T) {
	f := newFake()
	d := openFake(t, f, Options{})
	kernel := load(t, d, "mix")
	a, b := alloc(t, d, 8), alloc(t, d, 8)
	first, second := newTableCall(kernel, a, []byte("table of")), newTableCall(kernel, b, []byte("another!"))
	s := mustSequence(t, d, step{&first.call, first}, step{&second.call, second})
	queues := []*Queue{queue(t, d), queue(t, d)}
	wantA, wantB := make([]byte, 8), make([]byte, 8)
	r := rand.New(rand.NewPCG(1, 4))
	content := []byte("table of")
	for i := range 30 {
		if i%3 > 0 { // now and then the same again
			content[r.IntN(8)] = byte(r.Uint32())
		}
		changed := newTableCall(kernel, a, slices.Clone(content))
		if err := errors.Join(update(s, 0, &changed.call, changed), s.Run(queues[i/2%2])); err != nil {
			t.Fatal(err)
		}
		mix(wantA, content, 1)
		mix(wantB, []byte("another!"), 1)
	}
	if got := contents(t, a); !bytes.Equal(got, wantA) {
		t.Errorf("with tables that change: % x, want % x", got, wantA)
	}
	if got := contents(t, b); !bytes.Equal(got, wantB) {
		t.Errorf("with one table: % x, want % x", got, wantB)
	}
	longer := newTableCall(kernel, a, []byte("a longer table"))
	if err := update(s, 0, &longer.call, longer); !errors.Is(err, device.ErrBadArgument) {
		t.Errorf("a table of another size: %v", err)
	}
	if err := update(s, 0, &first.call, nil); !errors.Is(err, device.ErrBadArgument) {
		t.Errorf("a table without a placer: %v", err)
	}
	if err := errors.Join(s.Run(queues[0]), s.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	f.checkEmpty(t)
}

// checkingCall is a call whose first launch writes the word of its check and whose second is the call dst = 31·dst + src + k.
type checkingCall struct{ call Call }

func newCheckingCall(x *checking, number int, index, dst *Buffer) *checkingCall {
	c := &checkingCall{Call{Uses: []Use{{dst, true}, {index, false}}, Indices: []*Buffer{index}, Checks: []Check{{By: checker{}, Facts: [4]int64{int64(number)}}}}}
	for _, to := range []*Buffer{nil, dst} {
		at := uint64(0)
		if to != nil {
			at = to.Pointer()
		}
		c.call.Launches = append(c.call.Launches, Launch{Function: x.kernel, Grid: one, Block: warp, Params: mixParams(at, index.Pointer(), wordBytes, 1)})
	}
	return c
}

func (c *checkingCall) Place(_, words uint64) {
	binary.LittleEndian.PutUint64(c.call.Launches[0].Params, words)
}

// A check that is the same as an earlier one, of indices that nothing has written since, runs once, before all that
// rely on it, and refuses once.
func TestSequenceSharesChecks(t *testing.T) {
	x := newChecking(t, Options{})
	q := queue(t, x.d)
	index, other := alloc(t, x.d, wordBytes), alloc(t, x.d, wordBytes)
	x.must(t, index.CopyIn(0, bytes.Repeat([]byte{7}, wordBytes)))
	var steps []step
	for _, c := range []struct {
		number int
		index  *Buffer
	}{{1, index}, {1, index}, {2, index}, {1, other}, {1, index}} {
		call := newCheckingCall(x, c.number, c.index, alloc(t, x.d, wordBytes))
		steps = append(steps, step{&call.call, call})
	}
	write := step{mixCall(x.kernel, index, other, 0), nil}
	last := newCheckingCall(x, 1, index, alloc(t, x.d, wordBytes))
	steps = append(steps, write, step{&last.call, last})
	s := mustSequence(t, x.d, steps...)
	wantCheckers := []int{-1, 0, -1, -1, 0, -1, -1}
	for i, want := range wantCheckers {
		if got := s.calls[i].checker; got != want {
			t.Errorf("the check of call %d is that of call %d, want %d", i, got, want)
		}
	}
	if len(s.checks) != 4 || len(s.launches) != 11 {
		t.Errorf("%d checks and %d launches, want 4 and 11", len(s.checks), len(s.launches))
	}
	for _, i := range []int{1, 4} {
		if after := s.nodes[s.calls[i].launch].After; !slices.Contains(after, s.calls[0].launch) {
			t.Errorf("call %d runs after %v, want after the check, launch %d", i, after, s.calls[0].launch)
		}
	}
	for range 2 {
		x.must(t, s.Run(q))
		wantError(t, "a sequence", q.Wait(context.Background()), "call 1, check 0; call 2, check 0; call 1, check 0; call 1, check 0")
	}
	x.must(t, update(s, 4, steps[4].call, steps[4].placer))
	x.must(t, s.Run(q))
	wantError(t, "after an update", q.Wait(context.Background()), "call 1, check 0; call 2, check 0; call 1, check 0; call 1, check 0")
}
