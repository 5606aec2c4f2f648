package main

import (
	"testing"
	"time"
)

// TestBudgetShares: what is left is divided among the targets that run one after the other.
func TestBudgetShares(t *testing.T) {
	if got := newBudget(0, 3).share(1); got != 0 {
		t.Errorf("no budget: got %v, want 0", got)
	}
	b := &budget{ends: time.Now().Add(time.Hour), targets: 5, atOnce: 2}
	for i, rounds := range []time.Duration{3, 2, 2, 1, 1} { // one worker runs 0, 2 and 4, the other 1 and 3
		if got, most := b.share(i), time.Hour/rounds; got > most || got < most/2 {
			t.Errorf("target %d: got %v, want about %v", i, got, most)
		}
	}
	b.ends = time.Now().Add(-time.Hour)
	if got := b.share(4); got <= 0 {
		t.Errorf("nothing left: got %v, want a budget that is spent at once, not one without a limit", got)
	}
}
