package cpu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tokitai/device"
	"tokitai/internal/alone"
)

// counter counts how often each item is done. Its slices are plain, so that the
// race detector sees two workers in one item, or a Run that returns too early.
type counter struct {
	times []int
}

func (c *counter) Do(_, item int) {
	if c.times != nil {
		c.times[item]++
	}
}

// taskFunc makes a closure a Task, for tests.
type taskFunc func(worker, item int)

func (f taskFunc) Do(worker, item int) { f(worker, item) }

func TestRunDoesEveryItemOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 8, 33} {
		d := open(t, Options{Workers: workers})
		for _, n := range []int{0, 1, 2, 3, 7, 32, 33, 34, 1000} {
			c := &counter{times: make([]int, n)}
			if err := d.Pool().Run(t.Context(), n, c); err != nil {
				t.Fatal(err)
			}
			for item, times := range c.times {
				if times != 1 {
					t.Fatalf("%d workers, %d items: item %d done %d times", workers, n, item, times)
				}
			}
		}
	}
}

// The other workers do take part: an item that waits for one on another worker
// would hang otherwise.
func TestRunUsesAllWorkers(t *testing.T) {
	const workers = 4
	d := open(t, Options{Workers: workers})
	for range 50 {
		var meet sync.WaitGroup
		meet.Add(workers)
		seen := [workers]bool{}
		err := d.Pool().Run(t.Context(), workers, taskFunc(func(worker, item int) {
			seen[worker] = true
			meet.Done()
			meet.Wait()
		}))
		if err != nil || seen != [workers]bool{true, true, true, true} {
			t.Fatalf("workers seen: %v, %v", seen, err)
		}
	}
}

// Scratch space by worker number: two goroutines with one number in one Run are
// a race, and break the count.
func TestWorkerNumbersAreExclusive(t *testing.T) {
	const workers, n = 5, 2000
	d := open(t, Options{Workers: workers})
	var callers sync.WaitGroup
	for range 6 {
		callers.Go(func() {
			for range 10 {
				var inside [workers]atomic.Int32
				err := d.Pool().Run(t.Context(), n, taskFunc(func(worker, item int) {
					if inside[worker].Add(1) != 1 {
						t.Errorf("two goroutines are worker %d", worker)
					}
					if item%97 == 0 {
						runtime.Gosched()
					}
					inside[worker].Add(-1)
				}))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
}

func TestRunFewItemsStaysInCaller(t *testing.T) {
	for _, c := range []struct{ workers, n int }{{1, 100}, {8, 1}} {
		d := open(t, Options{Workers: c.workers})
		err := d.Pool().Run(t.Context(), c.n, taskFunc(func(worker, item int) {
			if worker != 0 {
				t.Errorf("%d workers, %d items: item on worker %d", c.workers, c.n, worker)
			}
		}))
		if err != nil {
			t.Error(err)
		}
		if d.pool.started != 0 {
			t.Errorf("%d workers, %d items: %d goroutines were started", c.workers, c.n, d.pool.started)
		}
	}
}

func TestRunAllocatesNothing(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		d := open(t, Options{Workers: workers})
		c := &counter{times: make([]int, 64)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if allocs := testing.AllocsPerRun(200, func() {
			if err := d.Pool().Run(ctx, len(c.times), c); err != nil {
				t.Error(err)
			}
		}); allocs != 0 {
			t.Errorf("%d workers: Run allocates %v times", workers, allocs)
		}
	}
}

// AllocsPerRun allows one processor only, where helpers seldom get to run.
func TestRunAllocatesNothingWithHelpers(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	const runs = 300
	d := open(t, Options{Workers: 4})
	var helped atomic.Int64
	task := Task(taskFunc(func(worker, _ int) {
		if worker != 0 {
			helped.Add(1)
		}
		for start := time.Now(); time.Since(start) < 2*time.Microsecond; {
		}
	}))
	many := func() {
		for range runs {
			if err := d.Pool().Run(t.Context(), 64, task); err != nil {
				t.Error(err)
			}
		}
	}
	many()
	var before, after runtime.MemStats
	for limit := time.Now().Add(patience); time.Now().Before(limit); { // until helpers, which a busy machine keeps waiting, have taken part
		helped.Store(0)
		runtime.ReadMemStats(&before)
		many()
		runtime.ReadMemStats(&after)
		if helped.Load() > 0 || runtime.GOMAXPROCS(0) == 1 {
			break
		}
	}
	// The runtime and the test's own timers allocate now and then.
	if allocs := after.Mallocs - before.Mallocs; allocs > runs/20 {
		t.Errorf("%d allocations in %d Runs", allocs, runs)
	}
	if runtime.GOMAXPROCS(0) > 1 && helped.Load() == 0 {
		t.Error("no helper took part, so nothing was shown")
	}
}

type nest struct {
	pool  *Pool
	depth int
	done  *atomic.Int64
}

func (x nest) Do(_, _ int) {
	if x.depth == 0 {
		x.done.Add(1)
		return
	}
	if err := x.pool.Run(context.Background(), 3, nest{x.pool, x.depth - 1, x.done}); err != nil {
		panic(err)
	}
}

func TestNestedAndConcurrentRuns(t *testing.T) {
	for _, workers := range []int{1, 2, 5} {
		d := open(t, Options{Workers: workers})
		var done atomic.Int64
		var callers sync.WaitGroup
		for range 16 {
			callers.Go(func() {
				for range 5 {
					if err := d.Pool().Run(t.Context(), 4, nest{d.Pool(), 3, &done}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		callers.Wait()
		if want := int64(16 * 5 * 4 * 27); done.Load() != want {
			t.Errorf("%d workers: %d innermost items, want %d", workers, done.Load(), want)
		}
	}
}

// A long Run must not keep a second one from its workers when there are idle
// ones, nor from finishing when there are none.
func TestRunsShareWorkers(t *testing.T) {
	d := open(t, Options{Workers: 3})
	release := make(chan struct{})
	var entered sync.WaitGroup
	entered.Add(3)
	result := make(chan error)
	go func() {
		result <- d.Pool().Run(t.Context(), 3, taskFunc(func(_, _ int) {
			entered.Done()
			<-release
		}))
	}()
	entered.Wait() // every worker is in the first Run
	c := &counter{times: make([]int, 50)}
	if err := d.Pool().Run(t.Context(), 50, c); err != nil {
		t.Error(err)
	}
	close(release)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestPanicIsAnError(t *testing.T) {
	cause := errors.New("the cause")
	for _, workers := range []int{1, 4} {
		d := open(t, Options{Workers: workers})
		for _, bad := range []int{0, 5, 99} {
			err := d.Pool().Run(t.Context(), 100, taskFunc(func(_, item int) {
				if item == bad {
					panicInAFunctionOfThisName(cause)
				}
			}))
			var failure *PanicError
			if !errors.As(err, &failure) {
				t.Fatalf("%d workers: error %v, want a PanicError", workers, err)
			}
			if failure.Item != bad || failure.Value != cause || !errors.Is(err, cause) {
				t.Errorf("%d workers: item %d, value %v; want item %d, value %v", workers, failure.Item, failure.Value, bad, cause)
			}
			for _, part := range []string{fmt.Sprintf("cpu: task panicked in item %d: the cause", bad), "panicInAFunctionOfThisName"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%d workers: error does not say %q:\n%v", workers, part, err)
				}
			}
		}
		// Every item panics, on all workers at once; then the pool is as before.
		if err := d.Pool().Run(t.Context(), 100, taskFunc(func(_, _ int) { panic("all") })); err == nil {
			t.Error("no error")
		}
		var index []int
		if err := d.Pool().Run(t.Context(), 2, taskFunc(func(_, item int) { index[item] = 1 })); err == nil ||
			!strings.Contains(err.Error(), "index out of range") {
			t.Errorf("a runtime error became %v", err)
		}
		c := &counter{times: make([]int, 100)}
		if err := d.Pool().Run(t.Context(), 100, c); err != nil {
			t.Errorf("the Run after a panic: %v", err)
		}
	}
}

//go:noinline
func panicInAFunctionOfThisName(v any) { panic(v) }

func TestPanicStopsTheRun(t *testing.T) {
	const n = 100_000 // half of which take longer than any worker is kept waiting
	d := open(t, Options{Workers: 2})
	for bad := range 2 {
		var meet sync.WaitGroup
		meet.Add(2)
		var done atomic.Int64
		err := d.Pool().Run(t.Context(), n, taskFunc(func(worker, item int) {
			if item < 2 {
				meet.Done()
				meet.Wait() // one of these items on each worker
				if worker == bad {
					panic("enough")
				}
			}
			time.Sleep(time.Millisecond)
			done.Add(1)
		}))
		if err == nil || done.Load() > n/2 {
			t.Errorf("worker %d panicked: %v, and %d items of %d were done", bad, err, done.Load(), n)
		}
	}
}

// t.FailNow and its like end a goroutine from within.
func TestGoexitOnAWorker(t *testing.T) {
	const workers = 3
	d := open(t, Options{Workers: workers})
	var meet sync.WaitGroup
	meet.Add(workers)
	err := d.Pool().Run(t.Context(), workers, taskFunc(func(worker, _ int) {
		meet.Done()
		meet.Wait() // one item on each worker
		if worker != 0 {
			runtime.Goexit()
		}
	}))
	if err == nil || !strings.Contains(err.Error(), "task called runtime.Goexit") {
		t.Errorf("error %v", err)
	}
	meet.Add(workers) // hangs unless the workers have been replaced
	if err := d.Pool().Run(t.Context(), workers, taskFunc(func(_, _ int) {
		meet.Done()
		meet.Wait()
	})); err != nil {
		t.Errorf("the Run after: %v", err)
	}
}

func TestGoexitInTheCaller(t *testing.T) {
	d := open(t, Options{Workers: 2})
	var busy atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var meet sync.WaitGroup
		meet.Add(2)
		d.Pool().Run(context.Background(), 2, taskFunc(func(worker, _ int) {
			busy.Add(1)
			defer busy.Add(-1)
			meet.Done()
			meet.Wait()
			if worker == 0 {
				runtime.Goexit()
			}
			time.Sleep(10 * time.Millisecond)
		}))
	}()
	<-ended
	if busy.Load() != 0 {
		t.Error("the caller ended while a helper was still in its task")
	}
	if err := d.Pool().Run(t.Context(), 4, new(counter)); err != nil {
		t.Errorf("the Run after: %v", err)
	}
}

func TestCancel(t *testing.T) {
	for _, workers := range []int{1, 3} {
		d := open(t, Options{Workers: workers})
		ctx, cancel := context.WithCancel(t.Context())
		var done atomic.Int64
		err := d.Pool().Run(ctx, 1<<40, taskFunc(func(_, _ int) {
			if done.Add(1) == 10 {
				cancel()
			}
		}))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%d workers: error %v", workers, err)
		}
		if err := d.Pool().Run(ctx, 5, taskFunc(func(_, item int) { t.Errorf("item %d was done", item) })); !errors.Is(err, context.Canceled) {
			t.Errorf("%d workers: canceled before: %v", workers, err)
		}
		// All items were started before the end of the context: it all happened.
		ctx, cancel = context.WithCancel(t.Context())
		if err := d.Pool().Run(ctx, 1, taskFunc(func(_, _ int) { cancel() })); err != nil {
			t.Errorf("%d workers: canceled by the last item: %v", workers, err)
		}
		deadline, stop := context.WithTimeout(t.Context(), time.Millisecond)
		if err := d.Pool().Run(deadline, 1<<40, new(counter)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d workers: deadline: %v", workers, err)
		}
		stop()
		if err := d.Pool().Run(t.Context(), 5, new(counter)); err != nil {
			t.Errorf("%d workers: the Run after: %v", workers, err)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	d := open(t, Options{})
	var none context.Context
	for what, err := range map[string]error{
		"a nil context": d.Pool().Run(none, 1, new(counter)),
		"a nil task":    d.Pool().Run(t.Context(), 1, nil),
		"-1 items":      d.Pool().Run(t.Context(), -1, new(counter)),
	} {
		if !errors.Is(err, device.ErrBadArgument) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestCloseEndsWorkers(t *testing.T) {
	before := runtime.NumGoroutine()
	d := open(t, Options{Workers: 9})
	c := &counter{times: make([]int, 1000)}
	if err := d.Pool().Run(t.Context(), 1000, c); err != nil {
		t.Fatal(err)
	}
	if d.pool.started != 8 {
		t.Errorf("%d goroutines while open, want 8", d.pool.started)
	}
	d.Close()
	eventually(t, "workers ended", func() bool { return runtime.NumGoroutine() <= before })
}

// Close while Runs are under way, and from within a task: each Run either does
// everything or says that the device is closed.
func TestCloseDuringRuns(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		d := open(t, Options{Workers: 4})
		var callers sync.WaitGroup
		for g := range 4 {
			callers.Go(func() {
				for range 10 {
					c := &counter{times: make([]int, 40)}
					err := d.Pool().Run(t.Context(), 40, taskFunc(func(worker, item int) {
						if g == 0 && item == 20 {
							d.Close()
						}
						c.Do(worker, item)
					}))
					if err != nil {
						if !errors.Is(err, device.ErrClosed) {
							t.Error(err)
						}
						return
					}
					for item, times := range c.times {
						if times != 1 {
							t.Errorf("item %d done %d times", item, times)
						}
					}
				}
			})
		}
		callers.Wait()
	}
	eventually(t, "workers ended", func() bool { return runtime.NumGoroutine() <= before })
}

func BenchmarkRun(b *testing.B) {
	for _, workers := range []int{1, 2} {
		for _, n := range []int{1, 16} {
			b.Run(fmt.Sprintf("workers=%d/items=%d", workers, n), func(b *testing.B) {
				d := open(b, Options{Workers: workers})
				c := new(counter)
				b.ReportAllocs()
				for b.Loop() {
					d.Pool().Run(b.Context(), n, c)
				}
			})
		}
	}
}

// A closed pool does nothing, not even one item, which would need no worker.
func TestClosedPool(t *testing.T) {
	for _, workers := range []int{1, 3} {
		for _, n := range []int{1, 2} {
			d := open(t, Options{Workers: workers})
			d.Close()
			err := d.Pool().Run(t.Context(), n, taskFunc(func(_, item int) { t.Errorf("item %d of %d is done by %d workers", item, n, workers) }))
			if !errors.Is(err, device.ErrClosed) {
				t.Errorf("%d items, %d workers: got %v, want that the device is closed", n, workers, err)
			}
		}
	}
}
