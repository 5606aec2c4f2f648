package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"tokitai/evidence"
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

// TestVerifyWithoutArguments: without OP and --level, a budget of work is shared by all targets, and
// the output says what was left out. --level quick, and a named operation, run everything.
func TestVerifyWithoutArguments(t *testing.T) {
	useTargets(t, target(t, "softmax.forward", "softmax.forward", nil), target(t, "norm.square_sum", "norm.square_sum", nil))
	usual := defaultWork
	t.Cleanup(func() { defaultWork = usual })
	defaultWork = 800_000 // less than each of them has at level quick, more than at level smoke

	code, stdout, stderr := program(t.Context(), "verify")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, %q\n%s", code, stderr, stdout)
	}
	counts := regexp.MustCompile(`(?m)^left out: (\d+) of (\d+) cases of level quick; --level quick runs all$`).FindStringSubmatch(stdout)
	if counts == nil || strings.Count(stdout, " accepted\n") != 2 {
		t.Fatalf("what was left out is not in\n%s", stdout)
	}
	var run evidence.Run
	code, stdout, _ = program(t.Context(), "verify", "--json")
	if err := json.Unmarshal([]byte(stdout), &run); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	leftOut := 0
	for _, r := range run.Results {
		if r.Unchecked == nil || r.Unchecked.Cases == 0 {
			t.Fatalf("%s: nothing is left out", r.Lowering)
		}
		leftOut += r.Unchecked.Cases
	}
	if fmt.Sprint(leftOut) != counts[1] {
		t.Errorf("--json: got %d cases left out, want %s", leftOut, counts[1])
	}
	for _, args := range [][]string{{"--level", "quick"}, {"norm.square_sum"}, {"--level", "smoke"}} {
		code, stdout, _ := program(t.Context(), append([]string{"verify", "--dtype", "f16"}, args...)...)
		if code != 0 || strings.Contains(stdout, "left out") {
			t.Errorf("%q: exit code %d, want everything to run\n%s", args, code, stdout)
		}
		if n := strings.Fields(stdout[strings.Index(stdout, "format\n")+len("format\n"):])[0]; args[len(args)-1] == "quick" && n != counts[2] {
			t.Errorf("--level quick ran %s cases, want %s", n, counts[2])
		}
	}
}
