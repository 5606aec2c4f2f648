package serve

import (
	"sync"

	"tokitai/device"
)

// share is what memory is held for.
type share uint8

const (
	forState  share = iota // handles, arenas, and what a call needs while it runs
	forFrame               // bodies that have been announced and not been answered
	forReply               // data that have not been sent
	numShares              // number of shares
)

// readAhead is the part of the limit that frames may take, where each alone fits.
const readAhead = 4

// smallFrame is read ahead regardless.
const smallFrame = 64 << 10

// account counts the memory of a server, so that it keeps to its limit.
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

// takeFrame counts the body of a frame that is about to be read. It waits while frames
// and replies that will be done are in the way.
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

// take counts memory that the request under way needs. It waits only for replies of
// earlier ones to be sent: frames that wait are done after it.
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

// turn counts memory that is held for something else from now on.
func (a *account) turn(from, to share, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held[from] -= bytes
	a.held[to] += bytes
}

// usage is what is held, and the most that ever was.
func (a *account) usage() (total, peak int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total, a.peak
}

// stop ends waiting: what does not fit is refused.
func (a *account) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.isStopped = true
	a.changed.Broadcast()
}
