package verify_test

import (
	"sync"
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/softmax"
)

// TestLaunchesOverlap checks that the launches of check concurrent begin together: no launch ends
// before four have begun, none of the next round begins before all have ended, and each has a queue
// of its own.
func TestLaunchesOverlap(t *testing.T) {
	t.Parallel()
	const callers = 4
	var mu sync.Mutex
	cond := sync.NewCond(&mu)
	launches, inside, most := 0, 0, 0
	queues := map[device.Queue]bool{}
	kernel := bitwise(func(d *def.Definition, l *engine.Launch) error {
		mu.Lock()
		launches++
		if launches > 1+callers { // the first run, and each caller's alone
			round := (launches - 1 - callers - 1) / callers
			queues[l.Queue] = true
			inside++
			most = max(most, inside)
			cond.Broadcast()
			for launches < 1+callers+(round+1)*callers {
				cond.Wait()
			}
			inside--
		}
		mu.Unlock()
		return honest(d, l)
	})
	expectAccepted(t, target(softmax.ForwardDefinition, num.F32, kernel), "concurrent:normal/R=3,C=9")
	if most != callers || len(queues) != callers {
		t.Errorf("up to %d launches at once on %d queues, want %d on %d", most, len(queues), callers, callers)
	}
}
