package verify

import (
	"sync"
)

// mostElements limits the elements of the cases that are in memory at once, of all verifications of
// the process. A larger case is alone. Judging a case needs some 50 bytes for each element.
const mostElements = 1 << 25

// room admits cases to memory, in the order in which they ask.
type room struct {
	most int64
	door sync.Mutex // held by the one that waits for its place
	mu   sync.Mutex
	left sync.Cond // someone has
	used int64
}

func newRoom(most int64) *room {
	r := &room{most: most}
	r.left.L = &r.mu
	return r
}

// memory is the room of the process.
var memory = newRoom(mostElements)

// enter waits until there is room for n elements.
func (r *room) enter(n int64) {
	r.door.Lock()
	defer r.door.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.used > 0 && r.used+n > r.most {
		r.left.Wait()
	}
	r.used += n
}

// leave gives the room of n elements back.
func (r *room) leave(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	r.left.Signal()
}
