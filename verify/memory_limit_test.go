package verify_test

import (
	"runtime"
	"sync"
	"testing"

	"tokitai/verify"
)

// TestRoom checks that cases in memory have at most so many elements together, that a larger case is
// alone, and that everyone gets in.
func TestRoom(t *testing.T) {
	t.Parallel()
	enter, leave := verify.NewRoom(10)
	enter(4)
	enter(6) // at the same time
	leave(4)
	leave(6)

	var mu sync.Mutex
	var used int64
	var group sync.WaitGroup
	for i := range 400 {
		n := int64(1 + i%6)
		if i%20 == 7 {
			n = 25
		}
		group.Go(func() {
			enter(n)
			mu.Lock()
			if used += n; used > max(n, 10) {
				t.Errorf("a case of %d elements is in memory with %d of others, want at most 10 together", n, used-n)
			}
			mu.Unlock()
			runtime.Gosched()
			mu.Lock()
			used -= n
			mu.Unlock()
			leave(n)
		})
	}
	group.Wait()
}
