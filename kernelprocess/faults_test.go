//go:build unix

package kernelprocess

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/await"
	"tokitai/kernelprocess/protocol"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

var quiet = slog.New(slog.DiscardHandler)

// fakeDevice opens a device whose processes behave in that way.
func fakeDevice(t *testing.T, role string, o Options) *Device {
	t.Helper()
	t.Setenv(fakeVariable, role)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.Program = self
	if o.CloseGrace == 0 {
		o.CloseGrace = time.Second // some never end by themselves
	}
	return openDevice(t, o)
}

// patience is how long a test waits for what should come: after that something hangs.
const patience = 5 * time.Minute

// openDevice opens a device which has all the time that it needs, unless told otherwise.

func openDevice(t *testing.T, o Options) *Device {
	t.Helper()
	if o.Log == nil {
		o.Log = quiet
	}
	if o.Backoff == 0 {
		o.Backoff = time.Millisecond
	}
	for _, limit := range []*time.Duration{&o.CloseGrace, &o.StartTimeout, &o.HangAfter, &o.DeathWindow} {
		if *limit == 0 {
			*limit = patience
		}
	}
	p, err := NewPool(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	d, err := p.Open("cpu", t.Name())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// gate holds a fake's answers back: it lets one pass, or is opened for all.
type gate struct {
	path string
	pass chan struct{}
}

func newGate(t *testing.T) *gate {
	t.Helper()
	folder, err := os.MkdirTemp("", "gate") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{filepath.Join(folder, "gate"), make(chan struct{}, 100)}
	listener, err := net.Listen("unix", g.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		listener.Close()
		os.RemoveAll(folder)
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				<-g.pass
				conn.Close()
			}()
		}
	}()
	return g
}

func (g *gate) role() string { return "behind=" + g.path }

func (g *gate) letOnePass() { g.pass <- struct{}{} }

func (g *gate) open() { close(g.pass) }

// ask calls softmax on n ordinary values, which a fake returns as they are.
func ask(ctx context.Context, d *Device, first float32, n int) error {
	values := make([]float32, n)
	for i := range values {
		values[i] = first + float32(i)
	}
	x, err := tensor.FromFloat32(cpu.Queue().Device(), num.F32, values, 1, n)
	if err != nil {
		return err
	}
	y, err := tensor.New(cpu.Queue().Device(), num.F32, 1, n)
	if err != nil {
		return err
	}
	if err := softmax.Forward(cpu.Queue().WithContext(ctx), y, x, Isolated(d)); err != nil {
		return err
	}
	got, err := y.Float32s()
	if err != nil {
		return err
	}
	if !slices.Equal(got, values) {
		return errors.New("got another answer than one's own")
	}
	return nil
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	await.For(t, what, is)
}

func TestMisbehaviour(t *testing.T) {
	for role, want := range map[string]string{
		"garbage":     "got a frame of kind",
		"short":       "got a part of a reply and then the end, want all of it",
		"short-body":  "got a part of a reply and then the end, want all of it",
		"enormous":    "got 4611686018427387904 bytes in reply to CALL, want at most",
		"unknown":     "got a reply to request 1002, want one to a request in flight",
		"too-short":   "got 1 lowerings and 15 bytes of data in reply to CALL, want 1 and 16",
		"too-long":    "got 1 lowerings and 17 bytes of data in reply to CALL, want 1 and 16",
		"empty":       "got a malformed reply to CALL",
		"lowerings":   "got 2 lowerings",
		"kind":        "got a frame of CALL, want OK or ERROR",
		"descriptors": "got a reply with 1 descriptors, want none",
		"bad-error":   "got a malformed error",
		"long-error":  "got 1073741824 bytes in reply to CALL, want at most",
	} {
		t.Run(role, func(t *testing.T) {
			d := fakeDevice(t, role, Options{})
			err := ask(t.Context(), d, 1, 4)
			died, ok := errors.AsType[*DiedError](err)
			if !ok || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "softmax.forward: process:cpu: ") {
				t.Fatalf("got %v, want a death with %q", err, want)
			}
			if _, ok := errors.AsType[*MisbehavedError](err); !ok || died.Exit == "" || died.PID == 0 {
				t.Errorf("got %+v, want the cause, the exit and the process", died)
			}
			t.Setenv(fakeVariable, "honest")
			if err := ask(t.Context(), d, 1, 4); err != nil {
				t.Errorf("next process: %v", err)
			}
			if s := d.Stats(); s.Deaths != 1 || s.Restarts != 1 || s.Errors != 1 {
				t.Errorf("got %+v, want one death, one restart and one error", s)
			}
		})
	}
}

// A second reply to the same request must not reach the next.
func TestAnsweredTwice(t *testing.T) {
	d := fakeDevice(t, "answered", Options{})
	err := ask(t.Context(), d, 1, 4) // may return before the second reply comes
	if err != nil && !errors.Is(err, ErrDied) {
		t.Fatal(err)
	}
	waitFor(t, "the process is dead", func() bool { return d.Stats().Deaths == 1 })
}

func TestStartFailures(t *testing.T) {
	for role, want := range map[string]string{
		"silent":  "handshake timed out: got nothing within",
		"exit":    "(exit status 3); its last words: no luck today",
		"old":     "the client speaks versions 1 to 1, want 7",
		"chatter": "it misbehaved: got a frame of kind",
		"future":  "got version 9, want 1",
	} {
		t.Run(role, func(t *testing.T) {
			o := Options{}
			if role == "silent" {
				o.StartTimeout = 300 * time.Millisecond
			}
			d := fakeDevice(t, role, o)
			err := ask(t.Context(), d, 1, 4)
			died, ok := errors.AsType[*DiedError](err)
			if !ok || !died.InStart || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), died.Program) {
				t.Errorf("got %v, want a death at the start with %q", err, want)
			}
			if s := d.Stats(); s.Deaths != 1 || s.Restarts != 0 {
				t.Errorf("got %+v, want one death", s)
			}
		})
	}
	if _, err := NewPool(Options{Program: filepath.Join(t.TempDir(), "nothing")}); !errors.Is(err, ErrNoProgram) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such program: got %v", err)
	}
}

func TestKilledInRequest(t *testing.T) {
	d := fakeDevice(t, "hang", Options{})
	answer := make(chan error)
	go func() { answer <- ask(context.Background(), d, 1, 4) }()
	waitFor(t, "the process has the call", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.child != nil && len(d.child.process.LastWords()) != 0
	})
	pid := d.PID()
	syscall.Kill(pid, syscall.SIGKILL)
	err := <-answer
	died, ok := errors.AsType[*DiedError](err)
	if !ok || died.PID != pid || died.Exit != "signal: killed" || died.LastWords != "I shall think about it" || died.Cause != nil {
		t.Errorf("got %+v (%v), want pid %d, its signal and its words", died, err, pid)
	}
}

func TestClosedStream(t *testing.T) {
	d := fakeDevice(t, "close", Options{})
	if err := ask(t.Context(), d, 1, 4); !errors.Is(err, errClosedStream) || !errors.Is(err, ErrDied) {
		t.Errorf("got %v, want %v", err, errClosedStream)
	}
}

func TestHang(t *testing.T) {
	for _, role := range []string{"hang", "deaf"} {
		t.Run(role, func(t *testing.T) {
			const hangAfter = 300 * time.Millisecond
			d := fakeDevice(t, role, Options{HangAfter: hangAfter})
			if _, err := d.running(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			began := time.Now()
			if err := ask(ctx, d, 1, 4); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrDied) {
				t.Fatalf("got %v, want the deadline's error, not the process's", err)
			}
			waitFor(t, "the process is dead", func() bool { return d.Stats().Deaths == 1 })
			if took := time.Since(began); took < hangAfter {
				t.Errorf("killed after %v, want at least %v", took, hangAfter)
			}
			if !errors.Is(d.lastDeath, errHung) {
				t.Errorf("got %v, want %v", d.lastDeath, errHung)
			}
		})
	}
}

// A process that answers late is not killed, and its answer reaches nobody.
func TestLateAnswer(t *testing.T) {
	gate := newGate(t)
	d := fakeDevice(t, gate.role(), Options{})
	if _, err := d.running(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := ask(ctx, d, 1, 4); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	q, err := d.NewQueue()
	if err != nil {
		t.Fatal(err)
	}
	if e, _ := q.Record(); e.Done() {
		t.Error("the abandoned call counts as done")
	}
	gate.open()
	if err := ask(t.Context(), d, 9, 4); err != nil {
		t.Fatal(err)
	}
	if err := q.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := d.Stats(); s.Deaths != 0 || s.InFlight != 0 {
		t.Errorf("got %+v, want no death and nothing in flight", s)
	}
}

// The memory of an abandoned request is not used again until the request is answered.
func TestAbandonedMemory(t *testing.T) {
	d := fakeDevice(t, "hang", Options{})
	if _, err := d.running(t.Context()); err != nil {
		t.Fatal(err)
	}
	q, err := engine.NewQueue(d)
	if err != nil {
		t.Fatal(err)
	}
	x, err := tensor.New(d, num.F32, 1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	offset := d.own(x).extent.offset
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err = softmax.Forward(q.WithContext(ctx), x, x)
	if _, ok := errors.AsType[*engine.LaunchError](err); !ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want a LaunchError: the process may still write", err)
	}
	x.Close()
	y, err := tensor.New(d, num.F32, 1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if d.own(y).extent.offset == offset {
		t.Fatal("memory of an abandoned request was given to another tensor")
	}
	syscall.Kill(d.PID(), syscall.SIGKILL)
	waitFor(t, "the process is dead", func() bool { return d.Stats().Deaths == 1 })
	waitFor(t, "the memory is free", func() bool {
		z, err := tensor.New(d, num.F32, 1, 1000)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		return d.own(z).extent.offset == offset
	})
}

func TestRefusal(t *testing.T) {
	d := fakeDevice(t, "die", Options{MaxDeaths: 3})
	for range 3 {
		if err := ask(t.Context(), d, 1, 4); !errors.Is(err, ErrDied) || errors.Is(err, ErrRefused) {
			t.Fatalf("got %v, want a death", err)
		}
	}
	err := ask(t.Context(), d, 1, 4)
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || refused.Deaths != 3 || !strings.Contains(err.Error(), "exit status 7") || !strings.Contains(err.Error(), "goodbye") {
		t.Fatalf("got %v, want a refusal with the last death", err)
	}
	if d.PID() != 0 {
		t.Error("a process runs nevertheless")
	}
	t.Setenv(fakeVariable, "honest")
	if err := ask(t.Context(), d, 1, 4); !errors.Is(err, ErrRefused) {
		t.Fatalf("got %v, want a refusal until Reset", err)
	}
	d.Reset()
	if err := ask(t.Context(), d, 1, 4); err != nil {
		t.Error(err)
	}
}

func TestBackoff(t *testing.T) {
	d := fakeDevice(t, "die", Options{Backoff: 100 * time.Millisecond, MaxBackoff: 250 * time.Millisecond})
	var previous time.Time
	for i, want := range []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond, 250 * time.Millisecond} {
		if err := ask(t.Context(), d, 1, 4); !errors.Is(err, ErrDied) {
			t.Fatal(err)
		}
		if took := time.Since(previous); i > 0 && took < want {
			t.Errorf("death %d came %v after the one before, want at least %v", i, took, want)
		}
		previous = d.deaths[len(d.deaths)-1]
	}
	d = fakeDevice(t, "die", Options{Backoff: time.Hour, MaxBackoff: time.Hour})
	if err := ask(t.Context(), d, 1, 4); !errors.Is(err, ErrDied) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := ask(ctx, d, 1, 4); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for a start: got %v", err)
	}
}

// A process that dies while nobody needs it costs no call an error.
func TestIdleDeath(t *testing.T) {
	d := fakeDevice(t, "honest", Options{})
	if err := ask(t.Context(), d, 1, 4); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(d.PID(), syscall.SIGKILL)
	waitFor(t, "the death is known", func() bool { return d.Stats().Deaths == 1 })
	if err := ask(t.Context(), d, 1, 4); err != nil {
		t.Error(err)
	}
}

func TestRetry(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	dieOnce := func(t *testing.T, o Options) *Device {
		if err := os.WriteFile(marker, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return fakeDevice(t, "die-once="+marker, o)
	}
	t.Run("pure", func(t *testing.T) {
		d := dieOnce(t, Options{Retries: 1})
		if err := ask(t.Context(), d, 1, 4); err != nil {
			t.Errorf("got %v, want the second process's answer", err)
		}
		if s := d.Stats(); s.Retries != 1 || s.Deaths != 1 {
			t.Errorf("got %+v, want a retry", s)
		}
	})
	t.Run("not asked for", func(t *testing.T) {
		if err := ask(t.Context(), dieOnce(t, Options{}), 1, 4); !errors.Is(err, ErrDied) {
			t.Errorf("got %v, want a death", err)
		}
	})
	t.Run("in place", func(t *testing.T) {
		d := dieOnce(t, Options{Retries: 1})
		x, err := tensor.New(d, num.F32, 1, 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := softmax.Forward(cpu.Queue(), x, x, Isolated(d)); !errors.Is(err, ErrDied) || d.Stats().Retries != 0 {
			t.Errorf("got %v, want a death and no retry", err)
		}
	})
	t.Run("handle", func(t *testing.T) {
		d := dieOnce(t, Options{Retries: 1})
		x, err := tensor.New(d.Resident(), num.F32, 1, 4)
		if err != nil {
			t.Fatal(err)
		}
		y, err := tensor.New(d, num.F32, 1, 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := softmax.Forward(cpu.Queue(), y, x, Isolated(d)); !errors.Is(err, ErrDied) || d.Stats().Retries != 0 {
			t.Errorf("got %v, want a death and no retry", err)
		}
		if err := softmax.Forward(cpu.Queue(), y, x, Isolated(d)); !errors.Is(err, ErrStateLost) {
			t.Errorf("got %v, want %v", err, ErrStateLost)
		}
		if _, err := x.Float32s(); !errors.Is(err, ErrStateLost) {
			t.Errorf("reading: got %v, want %v", err, ErrStateLost)
		}
		if requests := d.Stats().Requests; d.PID() != 0 {
			t.Errorf("a process was started for memory that is lost: %d requests", requests)
		}
	})
	t.Run("again and again", func(t *testing.T) {
		d := fakeDevice(t, "die", Options{Retries: 2})
		if err := ask(t.Context(), d, 1, 4); !errors.Is(err, ErrDied) || d.Stats().Deaths != 3 {
			t.Errorf("got %v and %d deaths, want 3", err, d.Stats().Deaths)
		}
	})
}

func TestBackPressure(t *testing.T) {
	turnstile := newGate(t)
	d := fakeDevice(t, turnstile.role(), Options{MaxInFlight: 1})
	if _, err := d.running(t.Context()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []int
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			if err := ask(t.Context(), d, float32(i), 4); err != nil {
				t.Error(err)
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
		})
		waitFor(t, "the caller waits", func() bool {
			d.slots.mu.Lock()
			defer d.slots.mu.Unlock()
			return 1-d.slots.free+len(d.slots.waiting) == i+1
		})
		if n := d.Stats().InFlight; n > 1 {
			t.Errorf("%d requests in flight, want 1", n)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := ask(ctx, d, 1, 4); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for a slot: got %v", err)
	}
	for i := range 8 {
		turnstile.letOnePass()
		waitFor(t, "a caller is answered", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(order) == i+1
		})
	}
	callers.Wait()
	if !slices.IsSorted(order) {
		t.Errorf("answered in the order %v, want that of the callers", order)
	}
}

// A slot that is given to a caller who loses patience at that moment goes to the next.
func TestSlotGivenToNobody(t *testing.T) {
	for range 100 {
		var s slots
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error)
		go func() { got <- s.acquire(ctx) }()
		waitFor(t, "the caller waits", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.waiting) == 1
		})
		s.mu.Lock()
		cancel()
		await.For(t, "the caller wants the mutex", func() bool { return await.IsBlocked("sync.Mutex.Lock", "kernelprocess.(*slots).acquire") })
		close(s.waiting[0])
		s.waiting = nil
		s.mu.Unlock()
		if err := <-got; err == nil {
			s.release()
		}
		if s.free != 1 {
			t.Fatalf("got %d free slots, want 1", s.free)
		}
	}
}

// A request that was answered while its caller lost patience is not abandoned.
func TestAnsweredNotAbandoned(t *testing.T) {
	d := fakeDevice(t, "honest", Options{})
	c, err := d.running(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := newRequest(protocol.KindFree)
	if err := c.conn.send(r, -1); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "it is answered", func() bool { return len(r.done) == 1 })
	if c.conn.abandon(r, time.Hour) || len(r.done) != 1 {
		t.Error("an answered request was abandoned")
	}
}

func TestCloseInFlight(t *testing.T) {
	for _, c := range []struct {
		role  string
		grace time.Duration
		want  error
	}{{"", patience, nil}, {"hang", 100 * time.Millisecond, device.ErrClosed}, {"deaf", 100 * time.Millisecond, device.ErrClosed}} {
		t.Run(cmp.Or(c.role, "answers"), func(t *testing.T) {
			gate := newGate(t)
			d := fakeDevice(t, cmp.Or(c.role, gate.role()), Options{CloseGrace: c.grace})
			answers := make(chan error, 4)
			for i := range cap(answers) {
				go func() { answers <- ask(context.Background(), d, float32(i), 4) }()
			}
			waitFor(t, "calls are in flight", func() bool { return d.Stats().InFlight == cap(answers) })
			pid := d.PID()
			isClosed := make(chan struct{})
			go func() {
				d.pool.Close()
				close(isClosed)
			}()
			<-d.closing
			gate.open()
			<-isClosed
			for range cap(answers) {
				if err := <-answers; !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
			}
			if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
				t.Errorf("the process is still there: %v", err)
			}
		})
	}
}

// A request's memory is not used again while it may still be written.
func TestRecycle(t *testing.T) {
	c := &conn{}
	for _, isWritten := range []bool{false, true} {
		r := newRequest(protocol.KindFree)
		r.isWritten = isWritten
		c.recycle(r)
		if isRecycled := r.kind == 0; isRecycled != isWritten {
			t.Errorf("written is %v, and used again is %v", isWritten, isRecycled)
		}
	}
}
