// Package await lets tests wait for conditions that have no event of their own, such as that a
// goroutine is blocked or that somebody else's process has ended.
package await

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is the time after which a condition that does not hold means a hang.
const patience = 5 * time.Minute

// Until polls a condition until it holds, and reports whether it did within minutes.
func Until(holds func() bool) bool {
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// For polls a condition until it holds. After minutes the test fails.
func For(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Until(holds) {
		t.Fatalf("waited in vain: %s", what)
	}
}

// IsBlocked reports whether a goroutine of this process is blocked in a function, in a state as
// stack traces name it: "IO wait", "select", "sync.Mutex.Lock".
func IsBlocked(state, function string) bool {
	stacks := make([]byte, 1<<16)
	n := runtime.Stack(stacks, true)
	for n == len(stacks) {
		stacks = make([]byte, 2*len(stacks))
		n = runtime.Stack(stacks, true)
	}
	for stack := range strings.SplitSeq(string(stacks[:n]), "\n\n") {
		head, calls, _ := strings.Cut(stack, "\n")
		if (strings.Contains(head, "["+state+"]") || strings.Contains(head, "["+state+",")) && strings.Contains(calls, function+"(") {
			return true
		}
	}
	return false
}
