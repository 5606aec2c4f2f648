package child

import (
	"sync"

	"tokitai/device"
)

// share is a use of memory.
type share uint8

const (
	forState  share = iota // handles, arenas, and what a call needs while it runs
	forFrame               // bodies that have been announced and not been answered
	forReply               // data that have not been sent
	numShares              // number of shares
)

// readAhead is the part of the limit that frames may take if each of them alone fits.
const readAhead = 4

// smallFrame is the size of a frame that is always read ahead.
const smallFrame = 64 << 10

// account counts the memory of a server and enforces its limit.
type account struct {
	device string // for errors

	mu        sync.Mutex
	changed   sync.Cond // on mu: memory was given back
	limit     int64
	held      [numShares]int64
	total     int64
	peak      int64
	isStopped bool // nobody waits any more
}

func (a *account) init(limit int64) {
	a.limit = limit
	a.changed.L = &a.mu
}

// takeFrame counts the body of a frame that is about to be read. If there is too little
// memory, it waits for earlier frames and replies.
func (a *account) takeFrame(bytes int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		if bytes <= a.limit-a.total && (bytes <= smallFrame || a.held[forFrame] == 0 || bytes <= a.limit/readAhead-a.held[forFrame]) {
			a.add(forFrame, bytes)
			return nil
		}
		if a.isStopped || a.held[forFrame]+a.held[forReply] == 0 {
			return a.exhausted(bytes)
		}
		a.changed.Wait()
	}
}

// take counts memory that the current request needs. It waits only until earlier replies are
// sent: frames that have been read ahead come after it.
func (a *account) take(of share, bytes int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		if bytes <= a.limit-a.total {
			a.add(of, bytes)
			return nil
		}
		if a.isStopped || a.held[forReply] == 0 {
			return a.exhausted(bytes)
		}
		a.changed.Wait()
	}
}

func (a *account) add(of share, bytes int64) {
	a.held[of] += bytes
	a.total += bytes
	a.peak = max(a.peak, a.total)
}

func (a *account) exhausted(bytes int64) error {
	return &device.OutOfMemoryError{Device: a.device, Asked: bytes, Free: a.limit - a.total}
}

func (a *account) giveBack(of share, bytes int64) {
	if bytes == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.add(of, -bytes)
	a.changed.Broadcast()
}

// turn moves counted memory from one use to another.
func (a *account) turn(from, to share, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held[from] -= bytes
	a.held[to] += bytes
}

// usage returns the memory in use and its maximum so far.
func (a *account) usage() (total, peak int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total, a.peak
}

// stop ends all waiting: memory that does not fit is refused from now on.
func (a *account) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.isStopped = true
	a.changed.Broadcast()
}
