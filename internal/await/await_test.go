package await

import (
	"sync"
	"testing"
)

func receive(c chan int)  { <-c }
func lock(mu *sync.Mutex) { mu.Lock() }

func TestIsBlocked(t *testing.T) {
	const receiving, locking = "await.receive", "await.lock"
	if IsBlocked("chan receive", receiving) || IsBlocked("sync.Mutex.Lock", locking) {
		t.Fatal("nothing is blocked yet")
	}
	var ended sync.WaitGroup
	c := make(chan int)
	ended.Go(func() { receive(c) })
	For(t, "the receiver is blocked", func() bool { return IsBlocked("chan receive", receiving) })
	if IsBlocked("select", receiving) || IsBlocked("chan receive", locking) {
		t.Error("got another state or function as blocked")
	}
	var mu sync.Mutex
	mu.Lock()
	ended.Go(func() { lock(&mu) })
	For(t, "the locker is blocked", func() bool { return IsBlocked("sync.Mutex.Lock", locking) })
	mu.Unlock()
	c <- 1
	ended.Wait()
	if IsBlocked("chan receive", receiving) || IsBlocked("sync.Mutex.Lock", locking) {
		t.Error("what has ended is blocked")
	}
}
