package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"tokitai/device"
)

// refusal tells which call was refused by which of its checks.
type refusal [4]int64

func (r refusal) Error() string { return fmt.Sprintf("call %d, check %d", r[0], r[1]) }

type checker struct{}

func (checker) Refusal(word uint64, facts [4]int64) error { return refusal(facts) }

// checkedCall is a call of one kernel, which sets some of its words.
type checkedCall struct {
	call Call
	set  int // which word, and those after it; -1 sets none
	into *Buffer
}

// Place points the kernel at the word.
func (c *checkedCall) Place(_, words uint64) {
	dst := c.into.Pointer()
	if c.set >= 0 {
		dst = words + uint64(c.set)*wordBytes
	}
	binary.LittleEndian.PutUint64(c.call.Launches[0].Params, dst)
}

type checking struct {
	d      *Device
	f      *fake
	kernel *Function
	into   *Buffer
}

func newChecking(t testing.TB, o Options) *checking {
	f := newFake()
	d := openFake(t, f, o)
	return &checking{d: d, f: f, kernel: load(t, d, "mix"), into: alloc(t, d, 64)}
}

// run makes a numbered call with some checks. Check number set is the first that refuses it, if set is not negative.
func (x *checking) run(q *Queue, number, checks, set int) error {
	c := &checkedCall{set: set, into: x.into}
	c.call.Uses = []Use{{x.into, true}}
	c.call.Launches = []Launch{{Function: x.kernel, Grid: one, Block: warp, Params: mixParams(0, x.into.Pointer(), (checks-max(set, 0))*wordBytes, 1)}}
	for i := range checks {
		c.call.Checks = append(c.call.Checks, Check{By: checker{}, Facts: [4]int64{int64(number), int64(i)}})
	}
	return q.Run(&c.call, c)
}

func (x *checking) must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t testing.TB, what string, err error, want string) {
	t.Helper()
	got := "nil"
	if err != nil {
		got = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

// TestRefusedCall is known by waiting, or when an event is seen to be done; it is told by
// every call until Wait has told it.
func TestRefusedCall(t *testing.T) {
	x := newChecking(t, Options{})
	q, other := queue(t, x.d), queue(t, x.d)
	ctx, canceled := context.Background(), context.Context(nil)
	canceled, cancel := context.WithCancel(ctx)
	cancel()

	x.must(t, x.run(q, 1, 1, -1))
	x.must(t, x.run(q, 2, 1, 0))
	x.must(t, x.run(q, 3, 1, -1)) // nobody knows yet
	x.must(t, x.run(other, 4, 1, -1))
	wantError(t, "a wait that is given up", q.Wait(canceled), "context canceled")
	wantError(t, "waiting for another queue", other.Wait(ctx), "nil")
	wantError(t, "waiting", q.Wait(ctx), "call 2, check 0")
	wantError(t, "waiting again", q.Wait(ctx), "nil")

	x.must(t, x.run(q, 5, 2, 1))
	early, err := q.Record()
	x.must(t, err)
	x.must(t, x.run(q, 6, 3, 2))
	late, err := q.Record()
	x.must(t, err)
	x.f.streams[q.stream].runTo(x.f.events[early.(*Event).claim.event].position)
	if !early.Done() || late.Done() {
		t.Fatal("the first call alone should be done")
	}
	for range 2 {
		wantError(t, "a call after an event that is done", x.run(q, 7, 1, -1), "call 5, check 1")
	}
	wantError(t, "a call without checks", q.Launch(x.kernel, one, warp, 0, nil), "call 5, check 1")
	x.must(t, x.run(other, 8, 1, 0))
	wantError(t, "the first event", early.Wait(ctx), "call 5, check 1")
	wantError(t, "the first event again", early.Wait(ctx), "nil")
	x.must(t, x.run(q, 9, 1, 0))
	wantError(t, "the second event", late.Wait(ctx), "call 6, check 2")
	wantError(t, "closing", q.Close(), "call 9, check 0")
	if err := q.Wait(ctx); !errors.Is(err, device.ErrClosed) {
		t.Errorf("a closed queue: %v", err)
	}
	wantError(t, "the other queue", other.Wait(ctx), "call 8, check 0")
	x.must(t, x.run(other, 10, 1, 0))
	x.must(t, x.d.Close())
	x.f.checkEmpty(t)
}

// TestRefusedCalls are all told, in their order, each by the first of its checks; also
// when all work has been waited for by others.
func TestRefusedCalls(t *testing.T) {
	x := newChecking(t, Options{})
	q := queue(t, x.d)
	x.must(t, x.run(q, 1, 2, 1))
	x.must(t, x.run(q, 2, 2, -1))
	x.must(t, x.run(q, 3, 2, 0))
	x.must(t, x.d.Trim())
	wantError(t, "two of three", q.Wait(context.Background()), "call 1, check 1; call 3, check 0")
	if _, ok := errors.AsType[refusal](errors.Join(q.Wait(context.Background()), q.Close())); ok {
		t.Error("told twice")
	}
}

// TestManyChecks has more of them on their way than there are words, and words that were
// set before.
func TestManyChecks(t *testing.T) {
	x := newChecking(t, Options{})
	q := queue(t, x.d)
	var want, got []string
	tell := func(err error) {
		if err != nil {
			got = append(got, strings.Split(err.Error(), "\n")...)
		}
	}
	const calls = 2 * checkWords
	for i := 1; i <= calls; i++ {
		checks, set := 1+i%3, -1
		if i%5 != 0 {
			set = i % checks
			want = append(want, fmt.Sprintf("call %d, check %d", i, set))
		}
		for err := x.run(q, i, checks, set); err != nil; err = x.run(q, i, checks, set) { // the queue has run out of words
			if _, ok := errors.AsType[refusal](err); !ok {
				t.Fatal(err)
			}
			tell(q.Wait(context.Background()))
		}
		if i%1000 == 0 {
			tell(q.Wait(context.Background()))
		}
	}
	tell(q.Wait(context.Background()))
	if g, w := strings.Join(got, "; "), strings.Join(want, "; "); g != w {
		t.Errorf("got %s\nwant %s", g, w)
	}
}

// TestRefusedUnwaited: a queue that nobody waits for tells by its calls, when the device
// has come so far and the host has asked.
func TestRefusedUnwaited(t *testing.T) {
	x := newChecking(t, Options{})
	q := queue(t, x.d)
	x.must(t, x.run(q, 1, 1, 0))
	for i := range 3 * watchCalls { // the device is slow
		x.must(t, x.run(q, 2+i, 1, -1))
	}
	x.f.streams[q.stream].runTo(len(x.f.streams[q.stream].work))
	var err error
	for i := 0; err == nil && i <= watchCalls; i++ {
		err = x.run(q, 100+i, 1, -1)
	}
	wantError(t, "a later call", err, "call 1, check 0")
	wantError(t, "waiting", q.Wait(context.Background()), "call 1, check 0")
	for i := range 3 * watchCalls {
		x.must(t, x.run(q, 200+i, 1, -1))
		if i == 5 {
			x.must(t, q.Wait(context.Background()))
		}
	}
	x.must(t, q.Close())
	made := len(x.d.made)
	for i := range 5 { // a queue gives back what it needed for this
		q := queue(t, x.d)
		x.must(t, x.run(q, i, 1, -1))
		x.must(t, q.Close())
	}
	if len(x.d.made) != made {
		t.Errorf("%d events were made anew", len(x.d.made)-made)
	}
	x.must(t, x.d.Close())
	x.f.checkEmpty(t)
}

// TestRefusedUnchecked: calls that have nothing to check tell of others too.
func TestRefusedUnchecked(t *testing.T) {
	x := newChecking(t, Options{})
	q := queue(t, x.d)
	x.must(t, x.run(q, 1, 1, 0))
	var err error
	for i := 0; err == nil && i <= 3*watchCalls; i++ {
		x.f.streams[q.stream].runTo(len(x.f.streams[q.stream].work))
		err = x.run(q, 2+i, 0, -1)
	}
	wantError(t, "a later call", err, "call 1, check 0")
}

// TestRefusedAtOnce: a queue that waits after each call tells by the call itself.
func TestRefusedAtOnce(t *testing.T) {
	x := newChecking(t, Options{Sync: true})
	q := queue(t, x.d)
	x.must(t, x.run(q, 1, 1, -1))
	wantError(t, "the call", x.run(q, 2, 1, 0), "call 2, check 0")
	x.must(t, x.run(q, 3, 1, -1))
	x.must(t, q.Wait(context.Background()))
}
