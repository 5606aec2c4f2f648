package cpu

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tokitai/device"
)

// Task is work divided into items. It is an interface, not a function, so that a
// call can keep one and run it again without allocating a closure.
type Task interface {
	// Do does one item. The items of a Run are done in parallel and in no
	// particular order, so no item may depend on another.
	//
	// worker is in [0, Workers()). Within one Run no two goroutines use the
	// same number at the same time, so it may index scratch space of the task.
	// Other Runs use the same numbers: scratch space belongs to the task, not
	// to the device.
	Do(worker, item int)
}

// Pool is the device's workers. Run may be called from any goroutine, also from
// within a task.
//
// A Run is served by its caller, as worker 0, and by idle workers. The caller
// waits only for items that have started, never for a worker to become free, so
// a Run inside a task cannot deadlock.
type Pool struct {
	workers int

	mu      sync.Mutex
	wake    sync.Cond    // on mu: there may be a run to help with
	active  []*run       // runs that may have items left, oldest first
	free    *run         // finished runs, for reuse
	started int          // workers started, the caller not counted
	idle    int          // workers in wake.Wait
	runs    atomic.Int32 // len(active), for those who do not hold mu
	closed  atomic.Bool  // set with mu held
}

// run is one call of Run.
type run struct {
	task Task
	n    uint64
	done <-chan struct{} // of the context

	_    [64]byte // next is written for every item: keep it on a cache line of its own
	next atomic.Uint64
	_    [64]byte

	canceled atomic.Bool
	failure  atomic.Pointer[PanicError]

	helpers atomic.Int32 // changed with Pool.mu held: workers inside, the caller not counted
	left    sync.Cond    // on Pool.mu: helpers has become 0
	free    *run
}

// PanicError reports a panic in a task, or a task that called runtime.Goexit.
type PanicError struct {
	Item  int
	Value any    // the panic's argument; nil after Goexit
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return fmt.Sprintf("cpu: task called runtime.Goexit in item %d", e.Item)
	}
	return fmt.Sprintf("cpu: task panicked in item %d: %v\n%s", e.Item, e.Value, e.Stack)
}

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

func newPool(workers int) *Pool {
	p := &Pool{workers: workers}
	p.wake.L = &p.mu
	return p
}

// Workers returns the number of goroutines that may serve one Run, its caller
// included.
func (p *Pool) Workers() int {
	if p == nil {
		return 0
	}
	return p.workers
}

// Run does items 0 to n-1 of task and waits for them. Everything they wrote is
// visible to the caller.
//
// It returns the context's error exactly when the context ended before all items
// had started, and a PanicError when an item panicked. In both cases the items
// that had started have ended, and the others are not done. Run allocates only
// when more Runs are active at once than ever before.
func (p *Pool) Run(ctx context.Context, n int, task Task) (err error) {
	switch {
	case p == nil:
		return errPoolClosed
	case ctx == nil:
		return &device.ArgumentError{Op: "cpu: run", Got: "a nil context", Want: "a context"}
	case task == nil:
		return &device.ArgumentError{Op: "cpu: run", Got: "a nil task", Want: "a task"}
	case n < 0:
		return &device.ArgumentError{Op: "cpu: run", Got: fmt.Sprintf("%d items", n), Want: "at least 0"}
	case n == 0:
		return nil
	case min(n, p.workers) == 1:
		return p.runAlone(ctx, n, task)
	}
	r, err := p.begin(ctx, n, task)
	if err != nil {
		return err
	}
	// Deferred, so that Run waits for the helpers even if the task calls Goexit.
	defer func() { err = p.end(r, ctx) }()
	r.work(0)
	return nil
}

// runAlone is Run where no worker can help: it takes no lock and wakes nobody.
func (p *Pool) runAlone(ctx context.Context, n int, task Task) (err error) {
	if p.closed.Load() {
		return errPoolClosed
	}
	item, returned := 0, false
	defer func() {
		if !returned {
			err = &PanicError{Item: item, Value: recover(), Stack: debug.Stack()}
		}
	}()
	done := ctx.Done()
	for ; item < n; item++ {
		if done != nil {
			select {
			case <-done:
				returned = true
				return ctx.Err()
			default:
			}
		}
		task.Do(0, item)
	}
	returned = true
	return nil
}

var errPoolClosed = fmt.Errorf("cpu: run: device %w", device.ErrClosed)

// begin starts a run and wakes workers for it.
func (p *Pool) begin(ctx context.Context, n int, task Task) (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return nil, errPoolClosed
	}
	r := p.free
	if r == nil {
		r = &run{}
		r.left.L = &p.mu
	} else {
		p.free, r.free = r.free, nil
	}
	r.task, r.n, r.done = task, uint64(n), ctx.Done()
	r.next.Store(0)

	helpers := min(n, p.workers) - 1
	p.active = append(p.active, r)
	p.runs.Store(int32(len(p.active)))
	for range min(helpers, p.idle) {
		p.wake.Signal()
	}
	for p.started < helpers {
		p.started++
		go p.serve(p.started)
	}
	return r, nil
}

// end waits for the helpers and returns the run's error. It keeps the run for
// reuse.
func (p *Pool) end(r *run, ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retire(r)
	if r.helpers.Load() > 0 {
		p.mu.Unlock()
		spin(func() bool { return r.helpers.Load() == 0 })
		p.mu.Lock()
	}
	for r.helpers.Load() > 0 {
		r.left.Wait()
	}
	var err error
	if failure := r.failure.Swap(nil); failure != nil {
		err = failure
	}
	if r.canceled.Swap(false) && err == nil {
		err = ctx.Err()
	}
	r.task, r.done = nil, nil
	r.free, p.free = p.free, r
	return err
}

// retire keeps further workers from joining r. The caller holds mu.
func (p *Pool) retire(r *run) {
	if i := slices.Index(p.active, r); i >= 0 {
		p.active = slices.Delete(p.active, i, i+1)
		p.runs.Store(int32(len(p.active)))
	}
}

// work does items until none is left, the context is done or an item panics.
func (r *run) work(worker int) {
	item, returned := 0, false
	defer func() {
		if !returned {
			r.failure.CompareAndSwap(nil, &PanicError{Item: item, Value: recover(), Stack: debug.Stack()})
			r.next.Store(r.n)
		}
	}()
	for {
		i := r.next.Add(1) - 1
		if i >= r.n {
			break
		}
		if r.done != nil {
			select {
			case <-r.done:
				r.canceled.Store(true)
				returned = true
				return
			default:
			}
		}
		item = int(i)
		r.task.Do(worker, item)
	}
	returned = true
}

// serve is the main loop of one worker.
func (p *Pool) serve(worker int) {
	returned := false
	defer func() {
		if !returned { // the task called Goexit
			go p.serve(worker)
		}
	}()
	for {
		r := p.join()
		if r == nil {
			returned = true
			return
		}
		p.help(r, worker)
	}
}

// join waits for an active run and joins the one with the fewest helpers, so
// that concurrent Runs share the workers. It returns nil when the pool is closed
// and no run is active.
func (p *Pool) join() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	for hasSpun := false; len(p.active) == 0; {
		if p.closed.Load() {
			return nil
		}
		if !hasSpun {
			hasSpun = true
			p.mu.Unlock()
			spin(func() bool { return p.runs.Load() > 0 || p.closed.Load() })
			p.mu.Lock()
			continue
		}
		p.idle++
		p.wake.Wait()
		p.idle--
	}
	r := p.active[0]
	for _, other := range p.active[1:] {
		if other.helpers.Load() < r.helpers.Load() {
			r = other
		}
	}
	r.helpers.Add(1)
	return r
}

// spinTime is how long a goroutine of the pool looks for what it waits for before it
// sleeps. To wake a thread takes tens of microseconds, more than many calls.
const spinTime = 50 * time.Microsecond

// spin returns when is does, or after spinTime.
func spin(is func() bool) {
	for start := time.Now(); time.Since(start) < spinTime; runtime.Gosched() {
		for range 64 {
			if is() {
				return
			}
		}
	}
}

// help works on r and then leaves it.
func (p *Pool) help(r *run, worker int) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.retire(r) // work has returned, so no item is left
		if r.helpers.Add(-1) == 0 {
			r.left.Signal()
		}
	}()
	r.work(worker)
}

// close stops the workers once no run is active.
func (p *Pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed.Store(true)
	p.wake.Broadcast()
}
